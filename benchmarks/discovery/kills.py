"""Bytes of discoveries that are killed and resumed, and of those that workers share."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import smcpn
from benchmarks.bytes.digest import digest
from benchmarks.discovery.systems import GRIDS, LORENZ, System
from benchmarks.killing import killed_runs
from benchmarks.rows import Row
from benchmarks.study import study
from smcpn.smc.distributed import workers

KILLS, QUICK_KILLS = 30, 2
PRIORS: dict[str, dict[str, Any]] = {
    "spike-and-slab": {},
    "laplace": {"prior": "laplace", "particles": 100, "replicates": 2},
}
DURATION, NOISE = 4.0, 0.05
OSCILLATOR = GRIDS["van der Pol"]


def discovered(system: System, **options: Any) -> Callable[[Path | None], smcpn.Discovery]:
    """Return a discovery of a system, by the name of its checkpoint."""
    record = system.record(DURATION, NOISE, 0)

    def run(path: Path | None) -> smcpn.Discovery:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", smcpn.SamplerWarning)
            return smcpn.discover(
                record, library=system.library, states=system.states, seed=1, checkpoint=path,
                checkpoint_every=0.0, progress=False, **options,
            )  # fmt: skip

    return run


def of_discovery(found: smcpn.Discovery) -> str:
    """SHA-256 of everything that a discovery is."""
    models = [
        [one.support, one.mean, one.covariance, one.initial, one.log_evidence, one.log_prior]
        for one in found.models
    ]
    drawn = [] if found.posterior is None else [found.posterior.coefficients]
    drawn += [] if found.posterior is None else [found.posterior.weights, found.posterior.initial]
    own = [found.probabilities, found.noise, found.path, *found.warnings]
    probabilities = np.array([one.probability for one in found.models])
    return digest([str(found), *models, probabilities, *own, *drawn])


@study("kills", full=KILLS, quick=QUICK_KILLS)
def kills(count: int) -> Iterator[Row]:
    """SIGKILL at random moments, between parts, at rejuvenations and while writing."""
    for prior, options in PRIORS.items():
        outcomes = Counter(killed_runs(count, discovered(OSCILLATOR, **options), of_discovery))
        same, note = outcomes["same bytes"], ", ".join(f"{n} {one}" for one, n in outcomes.items())
        yield Row(f"{prior}: that end in the same bytes", same, f"{count}", same == count, note)


@study("workers", full=LORENZ, quick=OSCILLATOR)
def shared(system: System) -> Iterator[Row]:
    """By two processes of loky, to which every batch is sent, and by this one alone."""
    home_seconds, workers.HOME_SECONDS = workers.HOME_SECONDS, 0.0
    try:
        for prior, options in PRIORS.items():
            # All coefficients together of the large library have no posterior of a few minutes.
            which = OSCILLATOR if options else system
            alone = of_discovery(discovered(which, **options)(None))
            together = of_discovery(discovered(which, **options, executor="loky:2")(None))
            yield Row(f"{prior}: by loky:2", together, alone, together == alone)
    finally:
        workers.HOME_SECONDS = home_seconds
