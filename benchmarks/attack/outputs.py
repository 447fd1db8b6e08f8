"""Outputs where something stands already, under any name, and two processes that write one file.

Met is that what is no file stays what it is and is written into or refused in a sentence, that
nobody else's file is replaced, and that a model of any name can be compiled.
"""

from __future__ import annotations

import csv
import os
import shutil
import socket
import stat
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import smcpn
from benchmarks.attack.child import Ended, ended
from benchmarks.rows import Row, absent, at_most
from benchmarks.study import study
from smcpn.cli.streaming import _event_log
from smcpn.io.events import Event
from smcpn.io.interop.c_source import ModelSource, write_c
from smcpn.io.interop.fmu import archived
from smcpn.io.sink import JsonSink
from smcpn.report.style import save_picture
from tests.models import oscillator_problem, oscillator_record

SECONDS = 120
NAMES = (
    "fmu",
    "FMU",
    "fmi3Functions",
    "fmi3PlatformTypes",
    "math",
    "stdio",
    "con",
    "INT",
    "x" * 99,
)
"""Of models, each of which is the name of another file, or no name of C."""
FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(1)", "\t=1", "x,=1\n=2")
VALUABLE = b"valuable"
WRITERS, SAVES = 4, 25

Writer = Callable[[Path], object]


@cache
def posterior() -> smcpn.Posterior:
    """A small posterior."""
    problem = oscillator_problem(oscillator_record(samples=40))
    options: dict[str, Any] = {"method": "ibis", "particles": 30, "seed": 1, "progress": False}
    return smcpn.identify(problem, solver=smcpn.RK4(1), **options)


def _sunk(path: Path) -> None:
    sink = JsonSink(str(path))
    sink.write({"t": 0.0})
    sink.close()


def _logged(path: Path) -> None:
    log = _event_log(str(path))
    log(Event("end", "the source has ended"))
    log.close()


@cache
def _picture() -> Any:
    return posterior().plot_corner()


OUTPUTS: dict[str, Writer] = {
    "to_csv": lambda path: posterior().to_csv(path),
    "report": lambda path: posterior().report(path, progress=False),
    "picture": lambda path: save_picture(_picture(), path),
    "stream --to": _sunk,
    "stream --events": _logged,
    "save": lambda path: posterior().save(path),
}
"""What writes a file that its user named."""
OBSTACLES = ("link", "dangling link", "terminal", "pipe", "unread pipe", "folder", "socket", "twin")


class _Scene:
    """A folder in which something stands where an output is to be, and how to look after it."""

    def __init__(self, folder: Path, obstacle: str) -> None:
        self.path, self.victim, self.obstacle = folder / "output", folder / "victim", obstacle
        self.received, self._open = bytearray(), list[int]()
        self._reader: threading.Thread | None = None
        self.victim.write_bytes(VALUABLE)
        getattr(self, "_" + obstacle.replace(" ", "_"))()
        self._before = self._kind()

    def _kind(self) -> tuple[int, int]:
        status = self.path.lstat()
        return stat.S_IFMT(status.st_mode), status.st_ino

    def _link(self) -> None:
        self.path.symlink_to("victim")

    def _dangling_link(self) -> None:
        self.victim.unlink()
        self.path.symlink_to("victim")

    def _terminal(self) -> None:
        controller, terminal = os.openpty()
        self._open += [controller, terminal]
        self.path = Path(os.ttyname(terminal))
        self._read(controller)

    def _pipe(self) -> None:
        os.mkfifo(self.path)
        reading = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        # So that it does not end before the writer comes.
        self._open += [reading, os.open(self.path, os.O_WRONLY)]
        os.set_blocking(reading, True)
        self._read(reading)

    def _unread_pipe(self) -> None:
        os.mkfifo(self.path)

    def _folder(self) -> None:
        self.path.mkdir()

    def _socket(self) -> None:
        with closing(socket.socket(socket.AF_UNIX)) as made:
            made.bind(str(self.path))

    def _twin(self) -> None:
        self.path.hardlink_to(self.victim)

    def _read(self, descriptor: int) -> None:
        def read() -> None:
            with suppress(OSError):
                while part := os.read(descriptor, 65536):
                    self.received.extend(part)

        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Close what is read from."""
        for descriptor in reversed(self._open):
            os.close(descriptor)

    def fault(self, end: Ended) -> str:
        """What is wrong after an output was written or refused; empty for nothing."""
        if not end.harmless:
            return f"{end.kind}: {end.text[-200:]}"
        if self.obstacle != "terminal" and not os.path.lexists(self.path):
            return "gone"
        if self._kind() != self._before:
            return "replaced"
        whole = self.victim.read_bytes() if self.victim.exists() else b""
        if end.kind == "refused":
            kept = whole in (VALUABLE, b"")
            return "" if kept else "refused, and written"
        if self.obstacle in ("link", "dangling link", "twin") and whole in (VALUABLE, b""):
            return "not written"
        return ""


@study("outputs")
def standing(quick: bool) -> Iterator[Row]:
    """Outputs over links, devices, pipes, sockets, folders and files of two names."""
    faults, kinds = list[str](), Counter[str]()
    for number, (name, write) in enumerate(OUTPUTS.items()):
        for place, obstacle in enumerate(OBSTACLES):
            if quick and (number + place) % 4:
                continue
            with TemporaryDirectory() as parent:
                scene = _Scene(Path(parent), obstacle)
                end = ended(lambda w=write, s=scene: (w(s.path), None)[1], SECONDS)
                found = scene.fault(end)
                scene.close()
            kinds[end.kind] += 1
            faults += [f"{name}, {obstacle}: {found}"] if found else []
    told = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    yield at_most("outputs that replace or lose what stood there", len(faults), 0,
                  "; ".join(faults)[:1000] or told)  # fmt: skip


@study("files of others", full=None, quick=1)
def foreign(most: int | None) -> Iterator[Row]:
    """Files of others by the names that C source, figures and a new system have."""
    from smcpn.cli.config.new import write_new

    replaced, kinds = list[str](), Counter[str]()
    calls: dict[str, tuple[Writer, tuple[str, ...]]] = {
        "to_c": (
            lambda folder: posterior().to_c(folder, steps=1),
            ("oscillator.c", "oscillator.h", "oscillator_main.c"),
        ),
        "figures": (
            lambda folder: posterior().report(folder / "r.html", figures=folder, progress=False),
            ("01-parameters.svg", "01-parameters.pdf"),
        ),
        "new": (write_new, ("model.py", "config.toml", "data.csv")),
    }
    for call, (write, names) in calls.items():
        for name in names[:most]:
            with TemporaryDirectory() as parent:
                victim = Path(parent, name)
                victim.write_bytes(VALUABLE)
                end = ended(lambda w=write, p=parent: (w(Path(p)), None)[1], SECONDS)
                whole = end.kind == "refused" and victim.read_bytes() == VALUABLE
            kinds[end.kind] += 1
            replaced += [] if whole else [f"{call}, {name}: {end.kind} {end.text[-200:]}"]
    yield at_most("files of others not kept", len(replaced), 0, "; ".join(replaced))


@study("names of models", full=1, quick=3)
def named(every: int) -> Iterator[Row]:
    """Models by names of other files compiled, and formulas as names in tables."""
    source = ModelSource.of(posterior().problem, posterior().weights @ posterior().values, steps=1)
    failed: list[str] = []
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or find_spec("fmpy") is None:
        yield absent("models that do not compile", "not run: there is no C compiler, or no fmpy")
    else:
        for name in NAMES[::every]:
            made = replace(source, title=name)
            end = ended(lambda made=made: len(archived(made)), SECONDS)
            with TemporaryDirectory() as folder:
                write_c(made, Path(folder))
                command = [compiler, "-std=c99", "-I.", "-o", "made", *os.listdir(folder), "-lm"]
                command = [one for one in command if not one.endswith(".h")]
                done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
            if end.kind != "value" or done.returncode:
                failed.append(f"{name}: {end.text[-100:]} {done.stderr.decode()[-100:]}")
        yield at_most("models that do not compile", len(failed), 0, "; ".join(failed))
    rows = posterior().table()
    table = type(rows)([replace(rows[0], name=one, prior=one) for one in FORMULAS])
    with TemporaryDirectory() as folder:
        path = table.to_csv(Path(folder, "table.csv"))
        with path.open(newline="") as file:
            cells = [cell for row in list(csv.reader(file))[1:] for cell in row]
    live = [one for one in cells if one[:1] in ("=", "+", "-", "@", "\t") and not _number(one)]
    yield at_most("formulas in tables", len(live), 0, str(live[:3]))


def _number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False


def _saved(path: Path) -> tuple[int, int]:
    """Save a stream over and over; return how often it was saved, and how often refused."""
    live, counts = smcpn.Online(posterior().problem, particles=10, seed=1), [0, 0]
    for _ in range(SAVES):
        live.update(0.0, 0.0)
        try:
            live.save(path)
            counts[0] += 1
        except smcpn.InputError as error:
            if "another process" not in str(error):
                raise
            counts[1] += 1
    return counts[0], counts[1]


@study("two processes", full=WRITERS, quick=2)
def together(writers: int) -> Iterator[Row]:
    """Processes that save a checkpoint of one name at the same time."""
    ends: list[Ended] = []
    with TemporaryDirectory() as folder:
        path = Path(folder, "live.h5")
        posterior()
        threads = [
            threading.Thread(target=lambda: ends.append(ended(lambda: _saved(path), SECONDS)))
            for _ in range(writers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        loaded = ended(lambda: smcpn.Online.load(path).sample, SECONDS)
        left = [name for name in os.listdir(folder) if name.endswith((".new", ".link"))]
    bad = [f"{end.kind}: {end.text[-200:]}" for end in [*ends, loaded] if end.kind != "value"]
    counts = [end.value for end in ends if end.kind == "value"]
    note = f"{sum(a for a, _ in counts)} saved, {sum(b for _, b in counts)} refused"
    yield at_most("processes not ended in order", len(bad), 0, "; ".join(bad) or note)
    yield at_most("files left by them", len(left), 0, str(left))
