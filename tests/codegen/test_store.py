from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from llvmlite import ir

from smcpn.codegen import native, store
from smcpn.codegen.clock import CLOCK


def answer(number: int, seconds: float = 0.0) -> int:
    """What code returns that is compiled now or was before; writing it takes so long."""

    def write(module: ir.Module) -> None:
        time.sleep(seconds)
        made = ir.Function(module, ir.FunctionType(ir.IntType(64), []), "answer")
        ir.IRBuilder(made.append_basic_block()).ret(ir.Constant(ir.IntType(64), number))

    address = native.code(f"the answer {number}", write).address("answer")
    return ctypes.CFUNCTYPE(ctypes.c_int64)(address)()


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty cache folder of this process."""
    place = tmp_path / "kernels"
    place.mkdir(mode=0o700)
    monkeypatch.setattr(store, "folder", lambda: place)
    return place


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("kernel_*.object"))


def compiled_anew(number: int) -> bool:
    """Forget the code and load it; whether that had to compile."""
    native._LOADED.clear()
    before = replace(CLOCK)
    assert answer(number) == number
    return CLOCK.since(before).compiled == 1


def test_an_entry_cut_anywhere_is_compiled_again(folder):
    assert compiled_anew(41)
    assert not compiled_anew(41)
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    for tenth in range(10):
        entry.write_bytes(whole[: len(whole) * tenth // 10])
        assert compiled_anew(41)
        assert not compiled_anew(41)


def test_an_entry_written_without_the_secret_is_not_run(folder, monkeypatch):
    with monkeypatch.context() as other:
        other.setattr(store, "_secret", lambda place: b"of another user".ljust(32))
        assert compiled_anew(42)
    assert compiled_anew(42)


def test_an_entry_under_the_name_of_another_is_not_run(folder):
    assert compiled_anew(43)
    (first,) = entries(folder)
    assert compiled_anew(44)
    (second,) = set(entries(folder)) - {first}
    second.write_bytes(first.read_bytes())
    assert compiled_anew(44)


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 33])
def test_a_damaged_secret_is_replaced(folder, damage):
    assert compiled_anew(45)
    (folder / "secret").write_bytes(damage)
    store._secret.cache_clear()
    assert compiled_anew(45)
    assert not compiled_anew(45)
    assert (folder / "secret").stat().st_mode & 0o077 == 0


def test_only_the_newest_kernels_are_kept(folder, monkeypatch):
    monkeypatch.setattr(store, "KERNELS_KEPT", 3)
    for age in range(5):
        for part in ("start", "advance", "lock"):
            file = folder / f"kernel_{age}.{part}"
            file.touch()
            os.utime(file, (1e9 - age, 1e9 - age))
    store.save("kernel_new.start", b"code")
    left = {file.name.partition(".")[0] for file in folder.glob("kernel_*")}
    assert left == {"kernel_new", "kernel_0", "kernel_1"}


def chosen_folder(**environment: str) -> subprocess.CompletedProcess[str]:
    """Ask a new process for its cache folder."""
    return subprocess.run(
        [sys.executable, "-c", "from smcpn.codegen.store import folder; print(folder())"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_temporary_folder_is_removed_at_exit(tmp_path):
    unwritable = tmp_path / "file"
    unwritable.touch()
    done = chosen_folder(SMCPN_CACHE=str(unwritable), TMPDIR=str(tmp_path))
    assert done.stdout.startswith(str(tmp_path / "smcpn-kernels-"))
    assert list(tmp_path.iterdir()) == [unwritable]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners of files")
def test_a_folder_that_others_may_write_is_not_used(tmp_path):
    shared = tmp_path / "kernels"
    shared.mkdir()
    shared.chmod(0o777)
    done = chosen_folder(SMCPN_CACHE=str(tmp_path))
    assert not done.stdout.startswith(str(tmp_path / "kernels"))
    assert "others may write" in done.stderr
    assert not list(shared.iterdir())


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root gives files away")
def test_a_folder_of_another_user_is_not_used(tmp_path):
    (tmp_path / "kernels").mkdir()
    os.chown(tmp_path / "kernels", 65534, 65534)
    done = chosen_folder(SMCPN_CACHE=str(tmp_path))
    assert "belongs to another user" in done.stderr
    assert not done.stdout.startswith(str(tmp_path / "kernels"))


def test_threads_wait_for_code_that_one_of_them_compiles(folder):
    before = replace(CLOCK)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: answer(46, 0.2), range(8))) == {46}
    assert CLOCK.since(before).compiled == 1


def test_an_interrupt_waits_until_code_is_whole(folder):
    """Or the next call would find half of it."""
    # Workers of pytest-xdist ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        answer(47, 0.5)
    timer.join()
    signal.signal(signal.SIGINT, before)
    assert not compiled_anew(47)
