"""Runs that are killed at random moments and then resumed.

Children are forked from a process in which the kernels are compiled, so that a life takes as long
as the run itself. A child tells through a pipe when it reaches an event; the parent waits for the
chosen one, a random moment more, and kills it.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import smcpn
from benchmarks.bytes.digest import of_posterior
from smcpn.checkpoint import run as writer
from smcpn.cli.cases import load_case
from smcpn.smc.sampler import Sampler

PARTICLES, STEPS = 300, 2
MOMENTS = ("time", "rejuvenation", "block", "write")
DELAY = 0.01
"""Seconds after an event within which the process is killed."""


Run = Callable[[Path | None], Any]
"""A run with a checkpoint after every part, or without one."""
Digest = Callable[[Any], str]
"""From the result of a run to its bytes, or what stands for them."""


def silverbox() -> Run:
    """Return a run of the Silverbox case."""
    problem = load_case("silverbox").problem

    def run(path: Path | None) -> smcpn.Posterior:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return smcpn.identify(
                problem,
                solver=smcpn.EKF0(order=2, steps=STEPS),
                method="ibis",
                particles=PARTICLES,
                seed=1,
                checkpoint=path,
                checkpoint_every=0.0,
                progress=False,
            )

    return run


def killed_runs(count: int, run: Run | None = None, digest: Digest = of_posterior) -> Iterator[str]:
    """Kill ``count`` runs, by default of Silverbox, and tell how each ended when resumed."""
    run = run or silverbox()
    expected = digest(run(None))
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        events, duration = _uninterrupted(run, Path(folder) / "whole.h5")
        moments = [one for one in MOMENTS if events.get(one, 1)]
        for number in range(count):
            path = Path(folder) / f"{number}.h5"
            moment = moments[number % len(moments)]
            _kill(run, path, moment, rng, events, duration)
            ended = _end(path, expected, digest)
            print(f"kill {number + 1} of {count} ({moment}): {ended}", file=sys.stderr, flush=True)
            yield ended


def _uninterrupted(run: Run, path: Path) -> tuple[dict[str, int], float]:
    """Count the events of a run that nobody kills, and time it."""
    begin = time.perf_counter()
    child, pipe = _child(run, path)
    output = b""
    while piece := os.read(pipe, 4096):
        output += piece
    os.waitpid(child, 0)
    os.close(pipe)
    return {m: output.count(m[0].encode()) for m in MOMENTS[1:]}, time.perf_counter() - begin


def _kill(
    run: Run,
    path: Path,
    moment: str,
    rng: np.random.Generator,
    events: dict[str, int],
    duration: float,
) -> None:
    child, pipe = _child(run, path)
    if moment == "time":
        time.sleep(rng.uniform(0.0, duration))
    else:
        left = int(rng.integers(1, events[moment] + 1))
        while left > 0 and (output := os.read(pipe, 1)):
            left -= output == moment[0].encode()
        time.sleep(rng.uniform(0.0, DELAY))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(pipe)


def _child(run: Run, path: Path) -> tuple[int, int]:
    """Fork a run that tells its events; return its number and the end of the pipe to read."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        os.close(reading)
        _tell_events(writing)
        run(path)
    finally:
        os._exit(0)


def _tell_events(pipe: int) -> None:
    def telling(function: Callable[..., None], event: str) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            os.write(pipe, event[0].encode())
            function(*arguments)

        return call

    writer.publish = telling(writer.publish, "write")
    Sampler._rejuvenate = telling(Sampler._rejuvenate, "rejuvenation")
    writer.CheckpointWriter.offer = telling(writer.CheckpointWriter.offer, "block")


def _end(path: Path, expected: str, digest: Digest) -> str:
    """Resume what was killed, from the file alone."""
    if not path.exists() and not path.with_name(path.name + ".previous").exists():
        # Killed before the first write: there is nothing to lose.
        return "same bytes"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", smcpn.CheckpointWarning)
            warnings.simplefilter("ignore", smcpn.SamplerWarning)
            found = smcpn.resume(path, progress=False, checkpoint_every=60.0)
    except smcpn.CheckpointWarning:
        return "last file unreadable"
    except Exception as error:
        return f"unreadable: {error}"
    return "same bytes" if digest(found) == expected else "other bytes"
