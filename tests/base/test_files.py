"""Outputs: written into what is there, whole or not at all, and over nobody else's file."""

from __future__ import annotations

import os
import stat
import threading

import pytest

from smcpn import InputError
from smcpn.base.files import opened_output, write_output, write_outputs
from smcpn.base.tables import csv_line

unix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path, monkeypatch):
    path = tmp_path / "out"
    write_output(path, b"old, and longer")
    path.chmod(0o640)
    write_output(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="out cannot be written: No space left on device"):
        write_output(path, b"newer")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out"]


@unix
def test_what_a_link_leads_to_is_written_and_names_of_one_file_keep_it(tmp_path):
    target, link, dangling = (tmp_path / name for name in ("target", "link", "dangling"))
    target.write_bytes(b"old, and longer")
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "made")
    (tmp_path / "second").hardlink_to(target)
    for path, written in ((link, target), (dangling, tmp_path / "made"), (target, target)):
        write_output(path, path.name.encode())
        assert written.read_bytes() == path.name.encode()
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert (tmp_path / "second").read_bytes() == b"target"


@unix
def test_a_device_and_a_pipe_are_written_into_and_stay_what_they_are(tmp_path):
    controller, terminal = os.openpty()
    device = os.ttyname(terminal)
    write_output(device_path := tmp_path / device, b"told\n")
    assert os.read(controller, 100).startswith(b"told")
    assert device_path.is_char_device()
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="nobody reads from it"):
        write_output(pipe, b"lost")
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    # Without a writer the reader would be at its end.
    holding = os.open(pipe, os.O_WRONLY)
    os.set_blocking(reading, True)

    def read():
        while part := os.read(reading, 4096):
            found.append(part)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    write_output(pipe, content := bytes(200_000))
    os.close(holding)
    reader.join()
    assert b"".join(found) == content
    assert pipe.is_fifo()
    for descriptor in (controller, terminal, reading):
        os.close(descriptor)


@unix
def test_what_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path, tmp_path / "loop", tmp_path / "none" / "x"):
        with pytest.raises(InputError, match="cannot be written"):
            write_output(path, b"x")
    with opened_output(tmp_path / "log", append=True) as file:
        file.write(b"one")
    with opened_output(tmp_path / "log", append=True) as file:
        file.write(b"two")
    assert (tmp_path / "log").read_bytes() == b"onetwo"


@unix
def test_a_file_of_another_is_not_overwritten_by_a_name_that_nobody_gave(tmp_path):
    ours = {"a": b"ours 1", "b": b"ours 2"}

    def own(content):
        return content.startswith(b"ours")

    write_outputs(tmp_path / "made", ours, own)
    write_outputs(tmp_path / "made", ours, own)
    for kind in ("file", "link", "pipe"):
        folder = tmp_path / kind
        folder.mkdir()
        (folder / "foreign").write_bytes(b"mine")
        if kind == "file":
            (folder / "b").write_bytes(b"mine")
        elif kind == "link":
            (folder / "b").symlink_to("foreign")
        else:
            os.mkfifo(folder / "b")
        with pytest.raises(InputError, match="was not written by smcpn"):
            write_outputs(folder, ours, own)
        assert not (folder / "a").exists()
        assert (folder / "foreign").read_bytes() == b"mine"


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", " =1", "'=1"])
def test_no_cell_of_a_line_is_a_formula(text):
    assert csv_line([text, -1.5, "a,b"]).removeprefix('"').startswith("'")
    assert csv_line(["a,b", "x\n", -1.5]) == '"a,b",x\\n,-1.5'
