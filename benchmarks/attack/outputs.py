"""Models of any name, which can be compiled, and two processes that write one checkpoint."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
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
from smcpn.results.exports.c_source import ModelSource, write_c
from smcpn.results.exports.fmu import archived
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
WRITERS, SAVES = 4, 25


@cache
def posterior() -> smcpn.Posterior:
    """A small posterior."""
    problem = oscillator_problem(oscillator_record(samples=40))
    options: dict[str, Any] = {"method": "ibis", "particles": 30, "seed": 1, "progress": False}
    return smcpn.identify(problem, solver=smcpn.RK4(1), **options)


@study("names of models", full=1, quick=3)
def named(every: int) -> Iterator[Row]:
    """Models by names of other files are compiled."""
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
