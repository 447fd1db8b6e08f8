"""One method in a process of its own: ``python -m benchmarks.side_by_side.worker NAME DATA SEEDS``.

It prints one JSON object: seconds of every run, the first of which compiles, weighted mean and
covariance of the log-parameters of every run, and the peak memory of the process.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory import peak_memory
from benchmarks.side_by_side.methods import METHODS


def measured(name: str, path: Path, seeds: int) -> dict[str, Any]:
    """Run a method with the seeds 0, ..., ``seeds``; the times of others stand beside failures."""
    try:
        run = METHODS[name].prepared(path)
    except ImportError as error:
        return {"skipped": f"the package {error.name} is not installed"}
    seconds, means, covariances, failures = [], [], [], []
    for seed in range(seeds + 1):
        begin = time.perf_counter()
        try:
            theta, weights = run(seed)
        except (np.linalg.LinAlgError, ValueError) as error:
            failures.append(f"seed {seed}: {error}")
            continue
        seconds.append(time.perf_counter() - begin)
        means.append((weights @ theta).tolist())
        covariances.append(np.cov(theta.T, aweights=weights, ddof=0).tolist())
    return {
        "seconds": seconds,
        "means": means,
        "covariances": covariances,
        "failures": failures,
        "peak_MB": peak_memory() / 1e6,
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    # Some samplers draw a progress line on standard output.
    with contextlib.redirect_stdout(sys.stderr):
        figures = measured(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps(figures))
