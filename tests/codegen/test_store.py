from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from smcpn.codegen import cache, store
from smcpn.codegen.cache import load_kernel

ANSWER = """
from smcpn.codegen.cache import stored

@stored("int64(int64)")
def answer(number):
    return number + {}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty cache folder of this process."""
    place = tmp_path / "kernels"
    place.mkdir(mode=0o700)
    monkeypatch.setattr(store, "folder", lambda: place)
    return place


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("kernel_*.answer.*"))


def compiled_anew(number: int) -> bool:
    """Forget the module and load it; whether that had to compile."""
    for name in [name for name in sys.modules if name.startswith("kernel_")]:
        if getattr(sys.modules[name], "NUMBER", None) == number:
            del sys.modules[name]
    module = load_kernel(ANSWER.format(number), NUMBER=number)
    assert module.answer(1) == 1 + number
    return bool(module.answer.stats.cache_misses)


def test_second_start_compiles_nothing(tmp_path):
    script = (
        "from smcpn.codegen.cache import load_kernel\n"
        f"module = load_kernel({ANSWER.format(40)!r})\n"
        "stats = module.answer.stats\n"
        "print(module.answer(2), sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))"
    )

    def start() -> str:
        return subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "SMCPN_CACHE": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    assert start() == "42 0 1"
    assert start() == "42 1 0"


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
    """What another user puts there is pickled code."""
    with monkeypatch.context() as other:
        other.setattr(store, "_secret", lambda place: b"of another user".ljust(32))
        assert compiled_anew(42)
    opened = []
    monkeypatch.setattr(cache.pickle, "loads", opened.append)
    assert compiled_anew(42)
    assert not opened


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


def test_threads_wait_for_a_module_that_one_of_them_compiles(folder):
    source = "import time\ntime.sleep(0.2)\nvalue = 46\n"
    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(load_kernel, [source] * 8))
    assert {module.value for module in modules} == {46}


def test_an_interrupt_waits_until_a_module_is_whole(folder):
    """Or the next call would find half of it."""
    source = "import time\ntime.sleep(0.5)\nvalue = 47\n"
    # Workers of pytest-xdist ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        load_kernel(source)
    timer.join()
    signal.signal(signal.SIGINT, before)
    assert load_kernel(source).value == 47
