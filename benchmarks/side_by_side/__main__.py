"""Whole identification of the Silverbox paper record, compared with other packages.

The same record, prior and likelihood (Runge-Kutta, four steps per sample, noise known) for every
method. The row "EKF0 marginal" is this package with its own likelihood instead, whose posterior
is another one: how far off stands in its errors, and no time at equal accuracy. Every method runs
in a process of its own, on all processors, with seed after seed; the first run compiles. One that
fails, or whose package is absent, has a row that says so. How accuracy is judged stands in
`benchmarks.side_by_side.accuracy`.

``--quick`` takes 512 samples, few particles, a single seed and those methods that compile soon: it
shows that everything works.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import machine
from benchmarks.rows import at_most
from benchmarks.side_by_side import table
from benchmarks.side_by_side.accuracy import comparison, rows
from benchmarks.side_by_side.data import Data
from benchmarks.side_by_side.drawing import comparison_figure
from benchmarks.side_by_side.methods import DRAWS, METHODS
from benchmarks.side_by_side.reference import importance_reference, metropolis_check
from benchmarks.study import Passage, Picture, Result, command, study

STEPS = 4
PACKAGES = ("particles", "emcee", "blackjax", "diffrax", "jax")
MOST_SECONDS = 1500.0
QUICK_SAMPLES, QUICK_DRAWS = 512, 250
QUICK_METHODS = ("smcpn", "particles tempering, numba lanes", "emcee, numba lanes")


def record_and_prior(samples: int | None = None) -> Data:
    """Data of the paper's case, the input interpolated as this package does."""
    from smcpn.cli.cases import load_case
    from smcpn.cli.cases.silverbox import DUFFING_PRIOR, NOISE
    from smcpn.model.signal import substep_inputs

    record = load_case("silverbox").problem.records[0][:samples]
    scales = [(np.log(d.kwds["scale"]), d.args[0]) for d in DUFFING_PRIOR.values()]
    loc, scale = np.array(scales).T
    u = np.ascontiguousarray(substep_inputs(record, 2 * STEPS)[:, :, 0])
    return Data(u, record.y[1:, 0].copy(), record.interval / STEPS, NOISE, loc, scale)


def measure(
    name: str, data: Path, size: int, seeds: int, most_seconds: float = MOST_SECONDS
) -> dict[str, Any]:
    """Run a method in a process of its own, with an empty cache of kernels."""
    worker = [sys.executable, "-m", "benchmarks.side_by_side.worker"]
    environment = os.environ | {"SMCPN_CACHE": str(data.parent / "kernels" / name)}
    try:
        done = subprocess.run(
            [*worker, name, str(data), str(size), str(seeds)],
            env=environment, capture_output=True, text=True, timeout=most_seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"it was ended after {most_seconds:g} s"}
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        return {"failed": f"its process ended with {done.returncode}: {last}"}
    return json.loads(done.stdout) | {"size": size}


def side_by_side(quick: bool) -> dict[str, Any]:
    """Measure all methods at the accuracy of so many independent draws."""
    draws = QUICK_DRAWS if quick else DRAWS
    data, rng = record_and_prior(QUICK_SAMPLES if quick else None), np.random.default_rng(0)
    hardware = machine(PACKAGES)
    reference = importance_reference(data, 5_000 if quick else 200_000, rng)
    mean, sd = metropolis_check(data, reference, 100 if quick else 1500, rng)
    measured: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        data.save(path)
        for name in QUICK_METHODS if quick else METHODS:
            method = METHODS[name]
            size = method.size * draws // DRAWS
            measured[name] = measure(name, path, size, 1 if quick else method.seeds)
            print(f"  {name} done", file=sys.stderr, flush=True)
    figures = rows(measured, reference, draws)
    return {
        "reference": {
            "draws": reference.draws,
            "largest_mean_difference": float(np.abs(mean).max()),
            "largest_sd_difference": float(np.abs(sd).max()),
        },
        "samples": len(data.y) + 1,
        "draws": draws,
        "methods": figures,
        "comparison": comparison(figures),
        "machine": hardware,
    }


@study("silverbox")
def silverbox(quick: bool) -> Iterator[Result]:
    """Time of each method at equal accuracy, and of the fastest peer over that of this package."""
    found = side_by_side(quick)
    yield from table.rows(found)
    broken = [
        name
        for name, values in found["methods"].items()
        if not values.get("failed", table.ABSENT).endswith(table.ABSENT)
    ]
    yield at_most("methods that failed", len(broken), 0, ", ".join(broken))
    yield Passage(table.markdown(found))
    yield Picture("side_by_side", partial(comparison_figure, found))


if __name__ == "__main__":
    sys.exit(command(__name__))
