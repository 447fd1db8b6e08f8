"""Memory of large populations and of long records, and time over the length of a record."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy import signal, stats

import smcpn
from benchmarks.memory import peak_memory
from benchmarks.rows import Row, at_most, reached
from benchmarks.scale_out.cases import oscillation
from benchmarks.study import study
from smcpn.cli.cases import Case
from smcpn.cli.fitting import as_text, fitted

PARTICLES, SAMPLES = 1_000_000, 10_000_000
MOST_FOR_PARTICLES, MOST_FOR_SAMPLES = 2.0, 0.7
"""GB of the whole process."""
INTERVAL = 0.1
RUNS: dict[str, dict[str, Any]] = {
    "auto": {},
    "tempering": {"method": "tempering", "solver": smcpn.EKF0(steps=1)},
    "ibis": {"method": "ibis", "solver": smcpn.EKF0(steps=1)},
}


@smcpn.ode
def oscillator(x, v, u, *, c, k):
    """Driven oscillator."""
    return v, u - c * v - k * x


def write(folder: Path, samples: int) -> None:
    """Write a record of the oscillator into files, exact under a held input, with noise."""
    rng, scipy_signal = np.random.default_rng(0), cast(Any, signal)
    u = scipy_signal.lfilter([0.3], [1.0, -0.7], rng.normal(size=samples))
    above, below, _ = scipy_signal.cont2discrete(([1.0], [1.0, 0.3, 2.0]), INTERVAL)
    y = scipy_signal.lfilter(above[0], below, u) + 0.02 * rng.normal(size=samples)
    np.save(folder / "u.npy", u)
    np.save(folder / "y.npy", y)


def population(run: str, particles: int, samples: int) -> None:
    """Identify the Duffing oscillator."""
    smcpn.identify(
        oscillation(samples), particles=particles, seed=1, progress=False, **RUNS[run]
    ).summary()


def fit(folder: str) -> None:
    """Do what ``smcpn fit`` does to the record of a folder, here mapped into memory.

    Searches, the Gaussian and its draws, scores of these on the record, and what is printed.
    """
    u, y = (np.load(Path(folder) / f"{name}.npy", mmap_mode="r") for name in "uy")
    record = smcpn.Record(u=u, y=y, dt=INTERVAL, hold="zoh")
    prior: dict[str, Any] = {
        "c": stats.lognorm(1.0, scale=0.3),
        "k": stats.lognorm(1.0, scale=2.0),
        "sd": stats.lognorm(1.0, scale=0.1),
    }
    problem = smcpn.Problem(oscillator, record, observe="x", noise="sd", prior=prior)
    case = Case("long", problem, tests={"trained on": record}, published={}, steps=2)
    as_text(fitted(case, {"seed": 1}, starts=2, search="auto", robust=False))


WORK: Mapping[str, Callable[..., None]] = {"population": population, "fit": fit}


def measured(work: str, *arguments: Any) -> dict[str, float]:
    """Peak in GB and processor seconds of work in a process of its own."""
    command = [sys.executable, "-m", __name__, work, json.dumps(arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@study("memory-particles")
def particles_study(quick: bool) -> Iterator[Row]:
    """Peak of `identify`; from a tenth of the particles that of all is foreseen."""
    number, share = (PARTICLES // 10, 10) if quick else (PARTICLES, 1)
    for run in ("ibis",) if quick else RUNS:
        # By these methods time grows with the samples, and memory does not.
        samples = 20 if quick else 1000 if run == "auto" else 100
        few, many = (measured("population", run, n, samples) for n in (1000, number))
        peak = few["peak"] + share * (many["peak"] - few["peak"])
        note = f"{number} particles, {samples} samples: {many['peak']:.2f} GB, "
        note += f"{many['seconds']:.0f} s of processor time"
        yield at_most(f"memory, 1e6 particles, {run} (GB)", peak, MOST_FOR_PARTICLES, note)


@study("memory-samples", full=SAMPLES, quick=None)
def samples_study(longest: int) -> Iterator[Row]:
    """Peak of ``smcpn fit`` and its time, at two lengths."""
    found = []
    for samples in (longest // 2, longest):
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), samples)
            found.append(measured("fit", folder))
    half, whole = found
    slope = (whole["peak"] - half["peak"]) / (longest // 2)
    peak = whole["peak"] + slope * (SAMPLES - longest)
    note = f"{longest} samples: {whole['peak']:.2f} GB, {whole['seconds']:.0f} s of processor time"
    yield reached(at_most("memory, fit of 1e7 samples (GB)", peak, MOST_FOR_SAMPLES, note), 0.8)
    ratio = whole["seconds"] / half["seconds"]
    yield at_most("time of a fit, twice the samples (ratio)", ratio, 2.3, note)


def main() -> None:
    """Do the work of the command line, and print what it took."""
    begin = time.process_time()
    WORK[sys.argv[1]](*json.loads(sys.argv[2]))
    print(json.dumps({"peak": peak_memory() / 1e9, "seconds": time.process_time() - begin}))


if __name__ == "__main__":
    main()
