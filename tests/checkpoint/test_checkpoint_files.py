"""Files that are not a checkpoint's own are neither written nor removed, whatever their names."""

import errno
import hashlib
import os
import stat
import warnings

import filelock
import pytest

import smcpn
from smcpn.base.files import COMPANION_BYTES, beside, file_path, left_beside, put
from smcpn.checkpoint.container import STREAM, image, lock, previous_of, publish
from tests.models import oscillator_problem, oscillator_record

pytestmark = pytest.mark.filterwarnings("ignore::smcpn.SamplerWarning")
RECORD = oscillator_record(samples=40)
EMPTY = image(STREAM, lambda file: None)


def run(path, samples=40, **changes):
    options = {"solver": smcpn.RK4(2), "particles": 50, "seed": 1, "method": "ibis"} | changes
    return smcpn.identify(
        oscillator_problem(RECORD[:samples]), checkpoint=path, **{"progress": False} | options
    )


def stream(**options):
    return smcpn.Online(
        oscillator_problem(RECORD), solver=smcpn.RK4(2), particles=50, seed=1, **options
    )


def contents(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def bystanders(folder):
    """Files of a user with names like those that a checkpoint makes."""
    names = (
        "run.data-raw.h5", "run.h5.data-raw.h5", "run.h5.data-0123abcd.h5.txt", "run.h5.new",
        "run.h5.link", "run.h5.0123abcd.new.txt", "run.h5.01234567.new", "run.h5.bak", "runs.h5",
        "run.h5.89abcdef.link",
    )  # fmt: skip
    for name in names:
        (folder / name).write_bytes(f"mine, {name}".encode())
    return contents(folder)


@pytest.mark.slow
def test_bystanders_survive_a_run_its_extension_and_its_overwriting(tmp_path):
    path, mine = tmp_path / "run.h5", bystanders(tmp_path)
    run(path, samples=30)
    run(path, samples=40)
    smcpn.resume(path, progress=False)
    run(path, samples=20, existing="overwrite")
    live = stream()
    live.update(RECORD.u[0], RECORD.y[0])
    live.save(tmp_path / "stream.h5")
    assert mine.items() <= contents(tmp_path).items()
    # The records of three lengths have one file each, of which those out of use are gone.
    assert len(list(tmp_path.glob("run.h5.data-????????.h5"))) == 1


@pytest.mark.slow
def test_two_checkpoints_of_one_stem_do_not_touch_each_other(tmp_path):
    names = ("r.h5", "r.hdf5", "r")
    for samples in (30, 40):
        for name in names:
            run(tmp_path / name, samples)
    assert [smcpn.load(tmp_path / name).problem.n_samples for name in names] == [40] * 3
    run(tmp_path / "r.hdf5", 20, existing="overwrite")
    assert smcpn.load(tmp_path / "r.h5").problem.n_samples == 40


def test_another_file_by_the_name_that_the_header_gives_is_not_removed(tmp_path):
    """A checkpoint that was renamed names the records of another."""
    run(tmp_path / "other.h5")
    (tmp_path / "other.h5").rename(tmp_path / "run.h5")
    before = contents(tmp_path)
    (records,) = (name for name in before if "data-" in name)
    run(tmp_path / "run.h5", 20, existing="overwrite")
    assert contents(tmp_path)[records] == before[records]


@pytest.mark.parametrize("suffix", ["", ".previous", ".lock"])
def test_a_symbolic_link_is_refused_and_its_target_not_written(suffix, tmp_path):
    victim, path = tmp_path / "victim", tmp_path / "run.h5"
    victim.write_bytes(b"valuable")
    path.with_name(path.name + suffix).symlink_to(victim)
    with pytest.raises(smcpn.InputError, match="is a symbolic link"):
        run(path)
    with pytest.raises(smcpn.InputError, match="is a symbolic link"):
        stream().save(path)
    assert victim.read_bytes() == b"valuable"


def test_links_by_the_names_of_temporary_files_are_not_followed(tmp_path):
    victim, path = tmp_path / "victim", tmp_path / "run.h5"
    victim.write_bytes(b"valuable")
    for name in ("new", "link", "01234567.new", "89abcdef.link"):
        path.with_name(f"{path.name}.{name}").symlink_to(victim)
    run(path)
    assert victim.read_bytes() == b"valuable"
    assert path.with_name("run.h5.01234567.new").is_symlink()


def test_a_foreseen_name_fails_and_is_not_written_through(tmp_path, monkeypatch):
    victim, path = tmp_path / "victim", tmp_path / "run.h5"
    victim.write_bytes(b"valuable")
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 2 * count)
    beside(path, "new").symlink_to(victim)
    with pytest.raises(FileExistsError):
        put(path, b"content")
    assert victim.read_bytes() == b"valuable"
    assert not path.exists()


@pytest.mark.parametrize("name", ["run.h5", "run.h5.previous"])
def test_a_file_of_the_user_is_not_overwritten(name, tmp_path):
    (tmp_path / name).write_text("a thesis")
    for existing in ("resume", "overwrite"):
        with pytest.raises(smcpn.InputError, match="damaged"):
            run(tmp_path / "run.h5", existing=existing)
    with pytest.raises(smcpn.InputError, match="not overwritten"):
        stream().save(tmp_path / "run.h5")
    assert (tmp_path / name).read_text() == "a thesis"


def test_a_stream_does_not_replace_a_run(tmp_path):
    run(tmp_path / "run.h5")
    with pytest.raises(smcpn.InputError, match="is no smcpn stream"):
        stream().save(tmp_path / "run.h5")


def test_what_a_killed_process_left_is_removed_at_the_next_start(tmp_path):
    path = tmp_path / "run.h5"
    path.with_name("run.h5.01234567.new").write_bytes(EMPTY[:700])
    path.with_name("run.h5.89abcdef.new").touch()
    path.with_name("run.h5.89abcdef.link").write_bytes(EMPTY)
    assert len(left_beside(path, ("new", "link"))) == 3
    with lock(path):
        assert not left_beside(path, ("new", "link"))


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_the_mode_of_a_file_is_that_of_the_umask(mask, tmp_path):
    before = os.umask(mask)
    try:
        publish(tmp_path / "run.h5", EMPTY)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "run.h5").stat().st_mode) == 0o666 & ~mask


def test_a_change_of_folder_during_a_run_changes_nothing(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    run("run.h5", progress=lambda state: os.chdir(tmp_path / "other"), checkpoint_every=0.0)
    assert not list((tmp_path / "other").iterdir())
    assert smcpn.load(tmp_path / "run.h5").problem.n_samples == 40


def test_a_lock_that_cannot_be_had_is_told(tmp_path, monkeypatch):
    def refuse(self, *arguments, **options):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    with pytest.warns(smcpn.CheckpointWarning, match=r"cannot be locked \(No locks available\)"):
        stream().save(tmp_path / "stream.h5")
    with pytest.warns(smcpn.CheckpointWarning, match="cannot be locked"):
        run(tmp_path / "run.h5")


def test_a_lock_of_another_user_is_told(tmp_path, monkeypatch):
    (tmp_path / "run.h5.lock").mkdir()
    with pytest.warns(smcpn.CheckpointWarning, match="cannot be locked"):
        run(tmp_path / "run.h5")


@pytest.mark.parametrize("size", [253, 255 - COMPANION_BYTES + 1, 300])
def test_a_name_too_long_is_refused_at_the_start(size, tmp_path):
    with pytest.raises(smcpn.InputError, match="bytes: choose one of at most"):
        run(tmp_path / ("r" * size))
    assert not list(tmp_path.iterdir())


def test_the_longest_name_that_is_allowed_works(tmp_path):
    path = tmp_path / ("r" * (255 - COMPANION_BYTES))
    run(path, samples=20, checkpoint_every=0.0)
    assert previous_of(path).exists()
    assert smcpn.load(path).problem.n_samples == 20


@pytest.mark.parametrize("name", [None, "", " ", "/", "a\0b", 3, b"run.h5", ["run.h5"]])
def test_what_names_no_file_is_refused(name):
    # Without a name these go on with the run that was interrupted.
    interrupted = () if name is None else (smcpn.load, smcpn.resume)
    for function in (*interrupted, smcpn.Online.load, lambda n: file_path("path", n)):
        with pytest.raises(smcpn.InputError, match="give the name of a file"):
            function(name)


def test_a_previous_version_alone_is_not_taken_up_by_a_run(tmp_path):
    """Whoever removes the file may want to begin anew; whoever resumes it does not."""
    path = tmp_path / "run.h5"
    run(path, checkpoint_every=0.0)
    path.unlink()
    with pytest.raises(smcpn.InputError, match="its previous version is there: rename"):
        run(path)
    with pytest.warns(smcpn.CheckpointWarning, match="its previous version is used"):
        smcpn.resume(path, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", smcpn.CheckpointWarning)
        run(path)
