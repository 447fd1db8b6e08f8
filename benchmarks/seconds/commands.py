"""How long a newcomer waits: for help, for an error message, and for a first fit of a new model.

Every run is a process of its own, of a package whose bytecode is there, as pip leaves it. Other
work of the machine counts in the seconds on the clock; the commands are judged by those of the
processor, of which they use one.
"""

from __future__ import annotations

import compileall
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.commits import ROOT
from benchmarks.rows import Row, at_most, reached
from benchmarks.study import study

MODEL = '''\
import numpy as np
import smcpn
from scipy import stats


@smcpn.ode
def machine(x, v, u, *, m, c, k, k3, f):
    """A mass on a hardening spring, with damping and dry friction."""
    return v, (u - c * v - k * x - k3 * x**3 - f * np.tanh(v / 0.1)) / m


rng = np.random.default_rng(0)
u = np.repeat(rng.normal(size=50), 8)
truth = {"m": 1.0, "c": 0.4, "k": 30.0, "k3": 50.0, "f": 0.1}
y = smcpn.simulate(machine, smcpn.Record(u=u, dt=0.02, hold="zoh"), truth, observe="x")
y = y + 0.002 * rng.normal(size=y.shape)
prior = {name: stats.lognorm(0.5, scale=value) for name, value in truth.items()}
prior["sigma"] = stats.lognorm(1.0, scale=0.002)
record = smcpn.Record(u=u, y=y, dt=0.02, hold="zoh")
problem = smcpn.Problem(machine, record, observe="x", noise="sigma", prior=prior)
'''
"""A system of six parameters, with its data."""


def seconds(arguments: Sequence[str], folder: Path, cache: Path) -> tuple[float, float, str]:
    """Seconds on the clock and of the processor that a command takes, and what it prints."""
    compileall.compile_dir(ROOT / "smcpn", quiet=1)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "SMCPN_CACHE": str(cache)}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "smcpn", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    waited, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return waited, used, done.stdout


@study("command", full=9, quick=2)
def commands(repeats: int) -> Iterator[Row]:
    """Seconds of commands that compute nothing, the best of several."""
    asked = {
        "--help": ["--help"],
        "identify --help": ["identify", "--help"],
        "an unknown system": ["identify", "pendulum"],
        "an unknown option": ["identify", "silverbox", "--parts", "3"],
        "a number out of range": ["fit", "silverbox", "--seed", "-1"],
    }
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, arguments in asked.items():
            runs = [seconds(arguments, place, place / "cache")[:2] for _ in range(repeats)]
            waited, used = (min(column) for column in zip(*runs, strict=True))
            row = at_most(name, used, 0.5, f"s of the processor, {waited:.2f} on the clock")
            yield reached(row, 1.0) if repeats < 9 else row


@study("first_fit")
def first_fit(quick: bool) -> Iterator[Row]:
    """Seconds of `smcpn fit` with six parameters: nothing compiled, then a second time."""
    command = ["fit", "model.py", "--json"]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "model.py").write_text(MODEL)
        for name, limit in (("first", 12.0), ("second", 2.0)):
            waited, used, printed = seconds(command, place, place / "cache")
            compiling = json.loads(printed)["compile_s"]
            note = f"s of the processor, {waited:.1f} on the clock, {compiling:.1f} compiling"
            row = at_most(name, used, limit, note)
            yield reached(row, 3.0 + limit) if quick else row
