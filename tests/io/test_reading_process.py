"""A process that reads files: whatever becomes of it, the one that asks has an answer or a word."""

import os
import signal
import sys

import numpy as np
import pytest
from scipy.io import savemat

import smcpn
from smcpn.io import files
from smcpn.io.reading_process import LostError, ReadingProcess

PROGRAM = """
import os, signal, sys
import numpy as np
from smcpn.io import reading_process

def answered(request):
    if request["what"] == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if request["what"] == "hang":
        while True:
            pass
    if request["what"] == "nonsense":
        os.write(3, b"no answer at all")
        os._exit(0)
    if request["what"] == "print":
        print("a library prints", flush=True)
    return {"process": os.getpid()}, [np.arange(6.0).reshape(2, 3).T, np.empty((0, 2))]

reading_process.serve(answered)
"""


@pytest.fixture
def process(tmp_path, monkeypatch):
    (tmp_path / "answering.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    found = ReadingProcess("answering")
    yield found
    found.close()


def test_answers_are_arrays_and_the_process_stays(process):
    first, arrays = process.ask({"what": "print"}, 5.0)
    np.testing.assert_array_equal(arrays[0], np.arange(6.0).reshape(2, 3).T)
    assert arrays[1].shape == (0, 2)
    assert process.ask({"what": "x"}, 5.0)[0]["process"] == first["process"] != os.getpid()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_what_is_lost_is_told_and_begun_anew(process):
    for what, why in (("crash", r"a crash \(SIGSEGV\)"), ("hang", "more than 0 seconds"),
                      ("nonsense", "a crash")):  # fmt: skip
        with pytest.raises(LostError, match=why):
            process.ask({"what": what}, 0.05 if what == "hang" else 5.0)
        assert process.ask({"what": "x"}, 5.0)[1]


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_one_that_ends_while_it_is_asked_is_asked_again(process):
    before, _ = process.ask({"what": "x"}, 5.0)
    os.kill(before["process"], signal.SIGALRM)
    after, _ = process.ask({"what": "x"}, 5.0)
    assert after["process"] != before["process"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_has_a_process_of_its_own(process):
    mine = process.ask({"what": "x"}, 5.0)[0]["process"]
    child = os.fork()
    if child == 0:
        other = process.ask({"what": "x"}, 5.0)[0]["process"]
        process.close()
        os._exit(other == mine)
    assert os.waitpid(child, 0)[1] == 0
    assert process.ask({"what": "x"}, 5.0)[0]["process"] == mine


def test_a_file_that_crashes_its_library_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "rig.mat"
    savemat(path, {"t": np.arange(3.0), "x": np.arange(3.0)})
    reading = {"time": "t", "outputs": "x"}
    assert len(smcpn.read_record(path, **reading)) == 3

    def lost(request, seconds):
        raise LostError("a crash (SIGSEGV)")

    monkeypatch.setattr(files._PROCESS, "ask", lost)
    with pytest.raises(smcpn.InputError, match=r"rig.mat cannot be read, .* a crash .*write it"):
        smcpn.read_record(path, **reading)


def test_a_module_beside_the_data_is_not_run(tmp_path, monkeypatch):
    savemat(tmp_path / "rig.mat", {"x": np.arange(3.0)})
    (tmp_path / "scipy.py").write_text("open('run', 'w')")
    monkeypatch.chdir(tmp_path)
    files._PROCESS.close()
    assert len(smcpn.read_record("rig.mat", dt=1.0, outputs="x")) == 3
    assert not (tmp_path / "run").exists()
