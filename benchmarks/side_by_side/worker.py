"""One method in a process of its own.

``python -m benchmarks.side_by_side.worker NAME DATA SIZE SEEDS`` prints one JSON object: wall
and processor seconds of every run, the first of which compiles, weighted mean and covariance of
the log-parameters of every run, and the peak memory of the process.
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


def measured(name: str, path: Path, size: int, seeds: int) -> dict[str, Any]:
    """Run a method with the seeds 0, ..., ``seeds``; a failure does not lose the other times."""
    try:
        run = METHODS[name].prepared(path)
    except ImportError as error:
        return {"failed": f"the package {error.name} is not installed"}
    seconds, processor, means, covariances, failures = [], [], [], [], []
    for seed in range(seeds + 1):
        begin, ticks = time.perf_counter(), time.process_time()
        try:
            theta, weights = run(seed, size)
        except (np.linalg.LinAlgError, ValueError) as error:
            failures.append(f"seed {seed}: {error}")
            continue
        seconds.append(time.perf_counter() - begin)
        processor.append(time.process_time() - ticks)
        means.append((weights @ theta).tolist())
        covariances.append(np.cov(theta.T, aweights=weights, ddof=0).tolist())
    return {
        "seconds": seconds,
        "processor_seconds": processor,
        "means": means,
        "covariances": covariances,
        "failures": failures,
        "peak_MB": peak_memory() / 1e6,
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    name, path, size, seeds = sys.argv[1:]
    # Some samplers draw a progress line on standard output.
    with contextlib.redirect_stdout(sys.stderr):
        figures = measured(name, Path(path), int(size), int(seeds))
    print(json.dumps(figures))
