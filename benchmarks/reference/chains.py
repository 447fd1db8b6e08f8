"""The posterior by the ensemble sampler emcee: a cross-check of means and spreads."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.reference.answer import Answer
from benchmarks.reference.target import Target


def chains(target: Target, begin: Answer, seed: int = 0, steps: int = 4000) -> Answer:
    """Return the posterior by differential evolution and stretch moves of 64 walkers.

    Raises `ImportError` where emcee is not installed.

    begin: Whose points the walkers begin at, drawn evenly: a quarter of the steps are left out.
    """
    import emcee  # pyright: ignore[reportMissingImports]

    rng, walkers = np.random.default_rng(seed), 64
    chosen = rng.choice(len(begin.weights), walkers, p=begin.weights)
    start = np.array(
        [target.coordinates({n: float(v[i]) for n, v in begin.values.items()}) for i in chosen]
    )
    start += 1e-3 * rng.standard_normal(start.shape)
    moves = [(emcee.moves.DEMove(), 0.6), (emcee.moves.DESnookerMove(), 0.1)]
    sampler = emcee.EnsembleSampler(
        walkers, start.shape[1], target.log_density, vectorize=True,
        moves=[*moves, (emcee.moves.StretchMove(), 0.3)],
    )  # fmt: skip
    sampler.random_state = np.random.RandomState(seed).get_state()
    sampler.run_mcmc(start, steps)
    z: Any = sampler.get_chain(discard=steps // 4, thin=5, flat=True)
    return Answer(target.natural(z), np.full(len(z), 1.0 / len(z)))
