"""Files changed by one who knows the format, with a right checksum: refused in one sentence.

`benchmarks.attack.files_mutated` changes ten thousand at random.
"""

import io
import json
import os
import warnings

import h5py
import numpy as np
import pytest

import smcpn
from smcpn.checkpoint.codec import read_run
from smcpn.checkpoint.container import HEADER_BYTES, RECORDS, RUN, STREAM, _header
from smcpn.checkpoint.documents import Document, loaded, parsed
from smcpn.checkpoint.inspection import inspect
from smcpn.checkpoint.records import read_records
from tests.models import oscillator_problem, oscillator_record

RECORD = oscillator_record(samples=40)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The bytes of a run, of its records, and of a stream, by the first line of each."""
    folder = tmp_path_factory.mktemp("files")
    problem, options = oscillator_problem(RECORD), {"solver": smcpn.RK4(1), "seed": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        smcpn.identify(problem, particles=30, checkpoint=folder / "run.h5", **options)
    live = smcpn.Online(problem, particles=30, forget=1.0, **options)
    for u, y in zip(RECORD.u[:20], RECORD.y[:20], strict=True):
        live.update(u, y)
    live.save(folder / "live.h5")
    content = {path.name: path.read_bytes() for path in folder.glob("*.h5")}
    return {name: (name, data) for name, data in content.items()} | {
        data.split(b"\n")[0].decode(): (name, data) for name, data in content.items()
    }


def changed(kind, content, change):
    body = io.BytesIO(content[HEADER_BYTES:])
    with h5py.File(body, "r+", libver="earliest") as file:
        change(file)
    return _header(kind, body.getvalue()) + body.getvalue()


def opened(path):
    for way in (inspect, smcpn.load, lambda p: smcpn.resume(p, progress=False)):
        with pytest.raises(smcpn.InputError) as caught:
            way(path)
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)


def number(name, place, value):
    def change(file):
        file[name][place] = value

    return change


def attribute(name, label, value):
    def change(file):
        file[name].attrs[label] = value

    return change


def entry(document, *keys, value):
    def change(file):
        held = json.loads(file[f"documents/{document}"][()])
        inner = held
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        put(file, f"documents/{document}", np.bytes_(json.dumps(held).encode()))

    return change


def put(file, name, value):
    if name in file:
        del file[name]
    file[name] = value


def generator(**changes):
    def change(file):
        attributes = file["populations/0"].attrs
        state = json.loads(attributes["random_state"]) | changes
        attributes["random_state"] = np.bytes_(json.dumps(state).encode())

    return change


P = "populations/0/particles"
CHANGES = {
    "theta is NaN": number(f"{P}/theta", (7, 0), np.nan),
    "weight is infinite": number(f"{P}/log_weights", 3, np.inf),
    "weights are zero": number(f"{P}/log_weights", slice(None), -np.inf),
    "likelihood is NaN": number(f"{P}/log_likelihood", 3, np.nan),
    "ancestor is none": number(f"{P}/ancestor", 0, 30),
    "lineage is negative": number(f"{P}/lineage", 0, -1),
    "keys of an exact likelihood": lambda f: put(f, f"{P}/keys", np.zeros((30, 2), "u8")),
    "keys are signed": lambda f: put(f, f"{P}/keys", np.zeros((30, 0), "i8")),
    "keys are of fewer": lambda f: put(f, f"{P}/keys", np.zeros((29, 0), "u8")),
    "state particles of an exact one": attribute("populations/0", "state_particles", 32),
    "state particles are negative": attribute("populations/0", "state_particles", -32),
    "floor is infinite": attribute("populations/0", "log_floor", np.inf),
    "state has other particles": lambda f: put(f, f"{P}/state", np.zeros((2, 29))),
    "theta has other parameters": lambda f: put(f, f"{P}/theta", np.zeros((30, 3))),
    "theta is single": lambda f: put(f, f"{P}/theta", np.zeros((30, 2), "f4")),
    "theta lies elsewhere": lambda f: put(f, f"{P}/theta", h5py.ExternalLink("x.h5", "/x")),
    "stride is zero": attribute("populations/0/history", "stride", 0),
    "sample is beyond the end": attribute("populations/0", "sample", 41),
    "exponent is two": attribute("populations/0", "exponent", 2.0),
    "sample is a text": attribute("populations/0", "sample", np.bytes_(b"3")),
    "a kernel never ran": lambda f: put(f, "populations/0/rejuvenations", np.zeros(3)),
    "generator is a function": generator(bit_generator="test"),
    "generator is another": generator(bit_generator="MT19937"),
    "generator has no state": generator(state={}),
    "generator has a long state": generator(state={"state": 1 << 128, "inc": 1}),
    "generator has an even step": generator(state={"state": 1, "inc": 2}),
    "generator keeps what is no flag": generator(has_uint32=2),
    "particles are many": entry("header", "settings", "particles", value=10**9),
    "replicates are many": entry("header", "settings", "replicates", value=10**9),
    "data file is elsewhere": entry("header", "data_file", value="../run.h5.data-00000000.h5"),
    "data file is empty": entry("header", "data_file", value=""),
    "names are others": entry("header", "names", value=["c", "c"]),
    "problem is a number": entry("header", "problem", "ode", value=3),
    "further entry": entry("header", "further", value=1),
    "status is unknown": entry("state", "status", value="ready"),
    "solver is none": entry("state", "solver", "kind", value="os.system"),
    "solver is of no population": entry("state", "solver", "steps", value=64),
    "a solver too many": entry("state", "solvers", value=[]),
    "deep": lambda f: put(f, "documents/state", np.bytes_(b"[" * 10_000)),
    "further array": lambda f: put(f, "populations/0/particles/further", np.zeros(3)),
    "further document": lambda f: put(f, "documents/further", np.bytes_(b"{}")),
    "further group": lambda f: f.create_group("further"),
    "no particles": lambda f: f.__delitem__(P),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_run_is_refused(files, tmp_path, name):
    _, content = files[RUN]
    records, data = files[RECORDS]
    path = tmp_path / "run.h5"
    path.write_bytes(changed(RUN, content, CHANGES[name]))
    (tmp_path / records).write_bytes(data)
    opened(path)


@pytest.mark.parametrize("option", ["likelihood", "method", "resampling"])
def test_a_run_by_a_word_that_is_not_known_is_refused(files, tmp_path, option):
    path, change = tmp_path / "run.h5", entry("header", "settings", option, value="finished")
    path.write_bytes(changed(RUN, files[RUN][1], change))
    (tmp_path / files[RECORDS][0]).write_bytes(files[RECORDS][1])
    for way in (smcpn.load, lambda p: smcpn.resume(p, progress=False)):
        with pytest.raises(smcpn.InputError, match=f"{option} is 'finished'") as caught:
            way(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["log_likelihood", "log_increment", "log_prior"])
@pytest.mark.parametrize("value", [-np.inf, 1.0])
def test_a_particle_of_another_likelihood_is_refused(files, tmp_path, name, value):
    path = tmp_path / "run.h5"
    path.write_bytes(changed(RUN, files[RUN][1], number(f"{P}/{name}", slice(None), value)))
    (tmp_path / files[RECORDS][0]).write_bytes(files[RECORDS][1])
    with pytest.raises(smcpn.InputError, match="another likelihood here"):
        smcpn.load(path)


def unchanged(file):
    pass


def test_unchanged_files_are_opened(files, tmp_path):
    for kind in (RUN, RECORDS, STREAM):
        name, content = files[kind]
        (tmp_path / name).write_bytes(changed(kind, content, unchanged))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert smcpn.resume(tmp_path / "run.h5").problem.n_samples == 40
    assert smcpn.Online.load(tmp_path / "live.h5").sample == 20


@pytest.mark.parametrize("forget", [None, 1.0])
def test_a_stream_without_samples_is_opened(tmp_path, forget):
    live = smcpn.Online(
        oscillator_problem(RECORD), solver=smcpn.RK4(1), particles=30, forget=forget
    )
    live.save(tmp_path / "live.h5")
    again = smcpn.Online.load(tmp_path / "live.h5")
    again.update(RECORD.u[0], RECORD.y[0])
    assert again.sample == 1


STREAM_CHANGES = {
    "times fall": number("arrays/stream/t", 3, -1.0),
    "input is NaN": number("arrays/stream/u", (3, 0), np.nan),
    "output is infinite": number("arrays/stream/y", (3, 0), np.inf),
    "held is long": lambda f: put(f, "arrays/stream/held", np.zeros(2)),
    "fewer states": lambda f: put(f, "arrays/stream/states", np.zeros((3, 2))),
    "more samples counted": entry("stream", "position", "counted", value=41),
    "axis is elsewhere": entry("stream", "position", "axis", "last", value=100.0),
    "test is a text": entry("stream", "position", "change", "score", value="x"),
    "test is beyond its bound": entry("stream", "position", "change", "score", value=2.0**31),
    "moves are a text": entry("stream", "settings", "moves", "settings", value="x"),
    "memory is negative": entry("stream", "options", "memory", value=-1),
    "writes to a folder": entry("stream", "options", "folder", value="/etc"),
    "itself as a setting": entry("stream", "settings", "self", value=1),
    "weights are zero": number(f"{P}/log_weights", slice(None), -np.inf),
}


@pytest.mark.parametrize("name", STREAM_CHANGES)
def test_a_changed_stream_is_refused(files, tmp_path, name):
    path = tmp_path / "live.h5"
    path.write_bytes(changed(STREAM, files[STREAM][1], STREAM_CHANGES[name]))
    with pytest.raises(smcpn.InputError) as caught:
        smcpn.Online.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


RECORD_CHANGES = {
    "input is NaN": number("arrays/0/u", (0, 0), np.nan),
    "an array of objects": lambda f: put(f, "arrays/0/u", ["a", "b"]),
    "no output": lambda f: f.__delitem__("arrays/0/y"),
    "further array": lambda f: put(f, "arrays/9/u", np.zeros(3)),
    "no records": lambda f: put(f, "documents/records", np.bytes_(b"{}")),
    "interval is negative": lambda f: put(f, "documents/records", np.bytes_(b'[{"dt": -1}]')),
    "populations": lambda f: f.create_group("populations"),
}


@pytest.mark.parametrize("name", RECORD_CHANGES)
def test_changed_records_are_refused(files, tmp_path, name):
    path = tmp_path / files[RECORDS][0]
    path.write_bytes(changed(RECORDS, files[RECORDS][1], RECORD_CHANGES[name]))
    with pytest.raises(smcpn.InputError) as caught:
        read_records(path)
    assert "\n" not in str(caught.value)


def test_control_characters_are_not_printed(files, tmp_path):
    path = tmp_path / "run.h5"
    escape = entry("header", "not_stored", value="\x1b[31mred\x07")
    path.write_bytes(changed(RUN, files[RUN][1], escape))
    assert inspect(path).replace("\n", "").isprintable()


def test_what_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "loop", "zeros", "folder", "n" * 300):
        for read in (read_run, inspect, smcpn.load, smcpn.Online.load):
            with pytest.raises(smcpn.InputError) as caught:
                read(tmp_path / name)
            assert "\n" not in str(caught.value)


def test_a_file_is_not_read_beyond_what_it_states(tmp_path):
    path = tmp_path / "run.h5"
    path.write_bytes(b"smcpn checkpoint\nsha256 0\nbytes 100\n")
    os.truncate(path, 1 << 40)
    with pytest.raises(smcpn.InputError, match="does not have its checksum"):
        read_run(path)


def test_documents_state_every_name_once_and_are_not_deep():
    class One(Document):
        a: int

    assert parsed(One, loaded("one", '{"a": 1}')).a == 1
    for text in ('{"a": 1, "a": 2}', '{"a": ' + "[" * 40 + "]" * 40 + "}", "{", "1" * 5000, None):
        with pytest.raises(smcpn.InputError):
            loaded("one", text)
    for document in ({"a": 1.0}, {"a": True}, {"a": 1, "b": 2}, {}, [], None, 7):
        with pytest.raises(smcpn.InputError):
            parsed(One, document)
