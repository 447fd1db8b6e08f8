"""Posterior of Boehm (2014) in the box of its collection, by nothing of this package.

Each standard deviation of the noise is integrated in closed form, as its prior is log-uniform. Over
the six rates it is an importance sample, with trajectories of SciPy's LSODA, from a mixture that is
fitted to particles; these are tempered from the prior with the trajectories of `scalar`, by
differential evolution (ter Braak 2006). ``python -m benchmarks.stiff.boehm_reference`` takes a
minute of the processor and prints `STORED`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.integrate import odeint
from scipy.special import digamma, gammainc, gammaln, polygamma

from benchmarks.reference.importance import PRIOR_SHARE, Mixture, pareto_k
from benchmarks.reference.target import Target, log_sum, standard_normal
from benchmarks.stiff.collection import RATIO, SPECIFIC, read_table
from benchmarks.stiff.scalar import rate, solved

Array = NDArray[np.float64]
Trajectory = Callable[[Array, Array], Array]
"""From times (T,) and rates (6,) to states (T, 8)."""


class Moments(NamedTuple):
    """Log-evidence with its standard error, and mean and sd of the log10 of each parameter."""

    log_evidence: float
    error: float
    mean: Mapping[str, float]
    sd: Mapping[str, float]


NAME = "Boehm_JProteomeRes2014"
RATES = (
    "Epo_degradation_BaF3", "k_exp_hetero", "k_exp_homo", "k_imp_hetero", "k_imp_homo", "k_phos",
)  # fmt: skip
OUTPUTS = ("pSTAT5A_rel", "pSTAT5B_rel", "rSTAT5A_rel")
LEAST, MOST = 1e-5, 1e5
BEGIN = np.array([207.6 * RATIO, 207.6 * (1 - RATIO), 0, 0, 0, 0, 0, 0])
PARTICLES, MOVES, DRAWS, ROUNDS = 1000, 10, 12_000, 4


def measured() -> tuple[Array, Array]:
    """Times (T,) and values (T, 3) of the table."""
    rows = read_table(NAME, "measurementData")
    times = np.array(sorted({float(row["time"]) for row in rows}))
    values = np.empty((len(times), len(OUTPUTS)))
    for row in rows:
        place = np.searchsorted(times, float(row["time"])), OUTPUTS.index(row["observableId"])
        values[place] = float(row["measurement"])
    return times, values


def by_scipy(times: Array, rates: Array) -> Array:
    """States by LSODA."""

    def slope(x: Array, t: float) -> Array:
        rate(t, x, rates, out)
        return out

    out = np.empty(8)
    found: Any = odeint(slope, BEGIN, times, rtol=1e-8, atol=1e-8, mxstep=20_000)
    return found


def shares(x: Array) -> Array:
    """Shares in per cent, (T, 3), of states (T, 8)."""
    a, b, ab, aa, bb = x.T[:5]
    of_a, of_b = ab + 2 * SPECIFIC * aa, ab + 2 * (1 - SPECIFIC) * bb
    all_a, all_b = of_a + SPECIFIC * a, of_b + (1 - SPECIFIC) * b
    found = of_a / all_a, of_b / all_b, all_a / (all_a + all_b)
    return 100 * np.stack(found, axis=1)


def squares(trajectory: Trajectory, rates: Array) -> Array:
    """Sums of squared residuals of each output, (N, 3), at rates (N, 6)."""
    times, y = measured()
    return np.array([np.square(shares(trajectory(times, r)) - y).sum(axis=0) for r in rates])


def log_marginal(square: Array, n: int) -> Array:
    """Log density of n values with a sum of squares, the deviation integrated over its prior."""
    low, high = (gammainc(n / 2, square / (2 * end**2)) for end in (MOST, LEAST))
    constant = gammaln(n / 2) - n / 2 * np.log(2 * np.pi) - np.log(2 * np.log(MOST / LEAST))
    return constant - n / 2 * np.log(square / 2) + np.log(high - low)


def target(trajectory: Trajectory) -> Target:
    """The posterior of the rates."""
    prior: dict[str, Any] = dict.fromkeys(RATES, stats.loguniform(LEAST, MOST))
    n = len(measured()[0])

    def log_likelihood(values: Mapping[str, Array]) -> Array:
        rates = np.column_stack([values[name] for name in RATES])
        return log_marginal(squares(trajectory, rates), n).sum(axis=1)

    return Target(prior, log_likelihood)


def explored(density: Callable[[Array], Array], rng: np.random.Generator) -> Array:
    """Particles (N, 6) of a posterior, tempered from its prior by differential evolution."""
    z, exponent = rng.standard_normal((PARTICLES, len(RATES))), 0.0
    heights = density(z) - standard_normal(z)
    while exponent < 1.0:
        steps = np.geomspace(1e-4, 1.0, 200) * (1.0 - exponent)
        weights = np.exp(steps[:, None] * (heights - heights.max()))
        effective = np.square(weights.sum(axis=1)) / np.square(weights).sum(axis=1)
        step = int(np.flatnonzero(effective >= PARTICLES / 2)[-1])
        exponent = 1.0 if step == len(steps) - 1 else exponent + steps[step]
        chosen = rng.choice(PARTICLES, PARTICLES, p=weights[step] / weights[step].sum())
        z, heights = z[chosen], heights[chosen]
        for _ in range(MOVES):
            z, heights = _moved(density, rng, exponent, z, heights)
    return z


def _moved(
    density: Callable[[Array], Array],
    rng: np.random.Generator,
    exponent: float,
    z: Array,
    heights: Array,
) -> tuple[Array, Array]:
    """Move particles (N, 6) along differences of others, and their log-likelihoods with them."""
    one, other = (z[rng.permutation(len(z))] for _ in range(2))
    factor = np.where(rng.random((len(z), 1)) < 0.1, 1.0, 2.38 / np.sqrt(2 * z.shape[1]))
    factor = factor * rng.uniform(0.3, 1.0, factor.shape)
    tried = z + factor * (one - other) + 1e-4 * rng.standard_normal(z.shape)
    there = density(tried) - standard_normal(tried)
    gain = exponent * (there - heights) + standard_normal(tried) - standard_normal(z)
    taken = np.log(rng.random(len(z))) < gain
    return np.where(taken[:, None], tried, z), np.where(taken, there, heights)


def fitted(density: Callable[[Array], Array], rng: np.random.Generator) -> Mixture:
    """A mixture near the posterior."""
    z = explored(density, rng)
    weights = np.full(len(z), 1.0 / len(z))
    mixture = Mixture(z.mean(axis=0)[None], np.cov(z.T)[None], np.array([1.0 - PRIOR_SHARE]))
    mixture = mixture.split(rng, z, weights)
    for _ in range(ROUNDS):
        mixture = mixture.refitted(z, weights)
    for _ in range(ROUNDS):
        z = mixture.draw(rng, 4 * PARTICLES)
        log_weights = density(z) - log_sum(mixture.parts(z)[0], axis=0)
        mixture = mixture.refitted(z, np.exp(log_weights - log_sum(log_weights)))
    return mixture


def computed(seed: int = 0) -> tuple[Moments, float]:
    """Return the moments, and Pareto k of the weights."""
    rng = np.random.default_rng(seed)
    quick = target(lambda times, rates: solved(times, rates, 1e-4)[0])
    mixture = fitted(quick.log_density, rng)
    z = mixture.draw(rng, DRAWS)
    rates = np.column_stack([quick.natural(z)[name] for name in RATES])
    square, n = squares(by_scipy, rates), len(measured()[0])
    log_weights = log_marginal(square, n).sum(axis=1) + standard_normal(z)
    log_weights -= log_sum(mixture.parts(z)[0], axis=0)
    log_evidence = float(log_sum(log_weights) - np.log(DRAWS))
    weights = np.exp(log_weights - log_sum(log_weights))
    # Given the squares the reciprocal of a variance has a gamma distribution.
    of_noise = (np.log(square / 2) - digamma(n / 2)) / np.log(100)
    means = np.column_stack([np.log10(rates), of_noise])
    within = np.append(np.zeros(len(RATES)), np.full(3, polygamma(1, n / 2) / np.log(100) ** 2))
    mean = weights @ means
    sd = np.sqrt(weights @ np.square(means - mean) + within)
    names = [*RATES, *(f"sd_{name}" for name in OUTPUTS)]
    both = (dict(zip(names, np.round(one, 5).tolist(), strict=True)) for one in (mean, sd))
    error = float(np.sqrt(np.square(weights).sum() - 1.0 / DRAWS))
    return Moments(round(log_evidence, 4), round(error, 4), *both), pareto_k(log_weights)


if __name__ == "__main__":
    print(*computed(), sep="\nPareto k ")
