"""A stream in a file: the same lock, previous version and refusals as a run's."""

import subprocess
import sys

import pytest

import smcpn
from smcpn.checkpoint import container
from smcpn.checkpoint.container import STREAM, image, lock, previous_of
from tests.models import oscillator_problem, oscillator_record

RECORD = oscillator_record(samples=40)


@pytest.fixture
def saved(tmp_path):
    """A file of 20 samples, whose previous version has 10."""
    live = smcpn.Online(oscillator_problem(RECORD), solver=smcpn.RK4(steps=4), particles=50, seed=1)
    path = tmp_path / "live.h5"
    for k in range(20):
        live.update(RECORD.u[k], RECORD.y[k])
        if k in (9, 19):
            live.save(path)
    return path, live


def damage(path):
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)


def test_a_damaged_file_falls_back_to_the_previous_version(saved):
    path, _ = saved
    damage(path)
    with pytest.warns(smcpn.CheckpointWarning, match="checksum: its previous version is used"):
        again = smcpn.Online.load(path)
    assert again.sample == 10


def test_where_the_last_version_is_absent_the_previous_one_is_used(saved):
    path, _ = saved
    path.unlink()
    with pytest.warns(smcpn.CheckpointWarning, match="is absent: its previous version is used"):
        assert smcpn.Online.load(path).sample == 10


def test_two_damaged_versions_are_refused_in_a_sentence(saved):
    path, _ = saved
    damage(path)
    damage(previous_of(path))
    with pytest.raises(smcpn.InputError, match=r"checksum; .*previous is damaged"):
        smcpn.Online.load(path)


def test_a_file_of_another_kind_or_version_is_refused(saved):
    path, _ = saved
    with pytest.raises(smcpn.InputError, match="of kind 'smcpn stream', not 'smcpn checkpoint'"):
        smcpn.load(path)
    content = path.read_bytes()
    path.write_bytes(image(STREAM, lambda file: file.attrs.update(format_version=1), content))
    with pytest.raises(smcpn.InputError, match="has format version 1, and this smcpn reads"):
        smcpn.Online.load(path)


@pytest.mark.slow
def test_a_second_process_is_refused_and_this_one_is_not(saved):
    path, live = saved
    code = f"""
import sys
from pathlib import Path
from smcpn.checkpoint.container import STREAM, save
save(Path({str(path)!r}), STREAM, b"")
"""
    before = path.read_bytes()
    with lock(path):
        second = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert "in use by another process" in second.stderr.splitlines()[-1]
        assert path.read_bytes() == before
        live.save(path)
        with pytest.raises(smcpn.InputError, match="in use"), lock(path):
            pass
    live.save(path)
    assert smcpn.Online.load(path).sample == 20


def test_a_full_disk_is_reported_and_leaves_the_file(saved, monkeypatch):
    path, live = saved

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(container, "publish", full)
    with pytest.raises(smcpn.InputError, match="cannot be written: No space left on device"):
        live.save(path)
    monkeypatch.undo()
    assert smcpn.Online.load(path).sample == 20
