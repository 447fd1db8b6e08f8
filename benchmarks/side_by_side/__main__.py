"""Whole identification of the Silverbox paper record: ``python -m benchmarks.side_by_side``.

The same record, prior and likelihood (Runge-Kutta, four steps per sample, noise known) for every
method. The row "EKF0 marginal" is this package with its own likelihood instead, whose posterior
is another one: how far off stands in its errors, and no time at equal accuracy. Every method runs
in a process of its own, on all processors, with seed after seed. Options: ``--json``, ``--quick``
(fewer seeds, no JAX), ``--methods TEXT`` (those whose name holds it).

Accuracy. The error of a run is the distance of its posterior mean from the reference's along the
principal axes, in units of the reference's standard deviation; root mean square over axes and
seeds. It is given as the number of independent draws with the same error, 1 / error^2. A run's
time falls as 1 / draws, so ``equal`` is the time scaled to the draws of the first row.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side.data import Data
from benchmarks.side_by_side.methods import METHODS
from benchmarks.side_by_side.reference import Reference, importance_reference, metropolis_check

STEPS = 4
TARGET = 20.0
OWN = "smcpn IBIS, RK4"
COLUMNS = (
    "seconds",
    "first_seconds",
    "draws",
    "mean_error",
    "sd_error",
    "equal_seconds",
    "ratio",
    "ratio_with_compilation",
    "peak_MB",
    "lines",
)


def record_and_prior() -> Data:
    """Data of the paper's case, the input interpolated as this package does."""
    from smcpn.cases import load_case
    from smcpn.cases.silverbox import DUFFING_PRIOR, NOISE
    from smcpn.hold import substep_inputs

    record = load_case("silverbox").problem.records[0]
    scales = [(np.log(d.kwds["scale"]), d.args[0]) for d in DUFFING_PRIOR.values()]
    loc, scale = np.array(scales).T
    u = np.ascontiguousarray(substep_inputs(record, 2 * STEPS)[:, :, 0])
    return Data(u, record.y[1:, 0].copy(), record.interval / STEPS, NOISE, loc, scale)


def measure(name: str, data: Path, seeds: int) -> dict[str, Any]:
    """Run a method in a process of its own, with an empty cache of kernels."""
    command = [sys.executable, "-m", "benchmarks.side_by_side.worker", name, str(data), str(seeds)]
    environment = os.environ | {"SMCPN_CACHE": str(data.parent / "kernels" / name)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return {"skipped": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout)


def row(name: str, measured: dict[str, Any], reference: Reference) -> dict[str, Any]:
    """Figures of one method."""
    if "skipped" in measured or not measured["seconds"][1:]:
        return {"skipped": measured.get("skipped") or "; ".join(measured["failures"])}
    errors = [
        reference.whitened(np.array(mean), np.array(covariance))
        for mean, covariance in zip(measured["means"], measured["covariances"], strict=True)
    ]
    mean_error, sd_error = (np.sqrt(np.mean(np.square(e))) for e in zip(*errors, strict=True))
    return {
        "seconds": float(np.median(measured["seconds"][1:])),
        "first_seconds": measured["seconds"][0],
        "draws": float(1.0 / mean_error**2),
        "mean_error": float(mean_error),
        "sd_error": float(sd_error),
        "runs": len(errors),
        "failures": measured["failures"],
        "peak_MB": measured["peak_MB"],
        "lines": METHODS[name].lines,
    }


def compare(rows: dict[str, dict[str, Any]]) -> None:
    """Add the time to the first row's accuracy, and its ratio to the first row's time."""
    own = rows[OWN]
    for name, figures in rows.items():
        if "skipped" not in figures and METHODS[name].same_likelihood:
            scaled = figures["seconds"] * own["draws"] / figures["draws"]
            compiling = figures["first_seconds"] - figures["seconds"]
            figures["equal_seconds"] = scaled
            figures["ratio"] = scaled / own["seconds"]
            figures["ratio_with_compilation"] = (scaled + compiling) / own["first_seconds"]


def side_by_side(quick: bool, wanted: str) -> dict[str, Any]:
    """Measure the methods whose name holds ``wanted``, and this package."""
    data, rng = record_and_prior(), np.random.default_rng(0)
    reference = importance_reference(data, 20_000 if quick else 200_000, rng)
    mean, sd = metropolis_check(data, reference, 300 if quick else 1500, rng)
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        data.save(path)
        for name, method in METHODS.items():
            if name == OWN or (wanted in name and not (quick and "diffrax" in name)):
                seeds = min(method.seeds, 2) if quick else method.seeds
                rows[name] = row(name, measure(name, path, seeds), reference)
                print(f"  {name} done", file=sys.stderr, flush=True)
    compare(rows)
    peers = {
        name: figures["ratio"]
        for name, figures in rows.items()
        if not METHODS[name].own and "ratio" in figures
    }
    fastest = min(peers, key=lambda name: peers[name]) if peers else None
    return {
        "reference": {
            "draws": reference.draws,
            "largest_mean_difference": float(np.abs(mean).max()),
            "largest_sd_difference": float(np.abs(sd).max()),
        },
        "methods": rows,
        "target": TARGET,
        "fastest_peer": fastest,
        "ratio": peers[fastest] if fastest else None,
        "load": os.getloadavg()[0],
    }


def printed(figures: dict[str, Any]) -> str:
    """One table."""
    lines = [f"{'':36s}" + "".join(f"{name.replace('_', ' '):>16.15s}" for name in COLUMNS)]
    for name, values in figures["methods"].items():
        if "skipped" in values:
            lines.append(f"{name:36s} skipped: {values['skipped']}")
            continue
        lines.append(f"{name:36s}" + "".join(f"{values.get(key, np.nan):16.3g}" for key in COLUMNS))
        lines += [f"    failed, {text}" for text in values["failures"]]
    checked = figures["reference"]
    lines.append(
        f"reference: {checked['draws']:.0f} draws; a second method differs by at most "
        f"{checked['largest_mean_difference']:.2g} sd (means), "
        f"{checked['largest_sd_difference']:.2g} (sd)"
    )
    if figures["fastest_peer"]:
        lines.append(
            f"fastest peer: {figures['fastest_peer']}, {figures['ratio']:.3g} times the time of "
            f"{OWN} at equal accuracy; target {figures['target']:g}"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="one JSON object and nothing else")
    parser.add_argument("--quick", action="store_true", help="fewer seeds, no JAX")
    parser.add_argument("--methods", default="", metavar="TEXT", help="those whose name holds it")
    options = parser.parse_args()
    figures = side_by_side(options.quick, options.methods)
    print(json.dumps(figures, indent=1) if options.json else printed(figures))


if __name__ == "__main__":
    main()
