"""The way from the posterior of an approximate likelihood to that of an unbiased estimate.

The approximation is an extended Kalman filter, say, and the estimate Z(theta, u) a particle filter
with random numbers u: SMC^2 without its way from the prior. The path is

    prior x (L + floor)^(1 - b) x Z(theta, u)^b,    b from 0 to 1,

over theta and u. At b = 0 that is a mixture of the approximate posterior and a share of draws from
the prior, so that nothing is excluded which the approximation excludes; at b = 1 its marginal is
the exact posterior, whatever the number of state particles. That number is chosen by the variance
of log Z *at one theta*, which is what importance weights and acceptance suffer from. Over all theta
log Z varies as log p(y | theta) does, however many state particles there are.

Keys of the random numbers u are drawn anew, and move with their particles.

References
----------
Chopin, N., Jacob, P. E., Papaspiliopoulos, O. (2013). SMC^2: an efficient algorithm for sequential
analysis of state space models. JRSS B 75 (section 3.6, the exchange step). Doucet, A., Pitt, M. K.,
Deligiannidis, G., Kohn, R. (2015). Efficient implementation of Markov chain Monte Carlo when using
an unbiased likelihood estimator. Biometrika 102 (variances about one).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.contract import EstimatedLikelihood, Keys
from smcpn.model.prior import Prior
from smcpn.smc.particles import ParticleSystem, Target, normalise


def fresh_keys(rng: np.random.Generator, size: int, blocks: int) -> Keys:
    """Draw independent keys, (size, blocks)."""
    return rng.integers(0, 1 << 64, (size, blocks), dtype=np.uint64)


def extended(rng: np.random.Generator, keys: Keys, blocks: int) -> Keys:
    """Keys (N, B) with those that are missing up to ``blocks`` drawn; themselves where none is."""
    missing = blocks - keys.shape[1]
    return keys if missing <= 0 else np.hstack([keys, fresh_keys(rng, len(keys), missing)])


def redrawn(rng: np.random.Generator, keys: Keys) -> Keys:
    """Return keys (N, B) of which each row has one, chosen at random, drawn anew."""
    size, blocks = keys.shape
    if not blocks:
        return keys
    changed = keys.copy()
    changed[np.arange(size), rng.integers(0, blocks, size)] = fresh_keys(rng, size, 1)[:, 0]
    return changed


Array = NDArray[np.float64]

FIRST, MOST = 32, 4096
"""State particles to begin with, and the most that a run chooses by itself."""
MOST_STATE_PARTICLES = 1 << 20
"""The most that a run can be given."""
MOST_VARIANCE, MOST_CARRIED = 1.0, 0.5
"""Variance of log Z at one theta above which their number is doubled; the lesser one on the way
from an approximation, which takes few parts and has the tails of the posterior yet to find."""
HIGH_VARIANCE = 3.0
"""Variance above which most moves are refused, for they wait for estimates that are too large."""
COPIES = 8
"""Filters that estimate this variance."""
WITNESSES = 4
"""Particles at which kinds of filters are compared."""
PRIOR_PLACES = 20
"""Every so many particles one is drawn from the prior."""


def variance_at_mean(target: Target, system: ParticleSystem, rng: np.random.Generator) -> float:
    """Variance of the log target at the weighted mean of particles, over fresh keys.

    It is infinite where some estimates are zero, and NaN where all are.
    """
    mean = system.weights @ np.where(system.log_weights[:, None] > -np.inf, system.theta, 0.0)
    keys = fresh_keys(rng, COPIES, system.keys.shape[1])
    log_density = target.log_density(target.particles(np.tile(mean, (COPIES, 1)), keys))
    known = np.isfinite(log_density)
    if not known.all():
        return float("inf" if known.any() else "nan")
    return float(log_density.var(ddof=1))


def enough(
    target: Target,
    estimate: EstimatedLikelihood,
    system: ParticleSystem,
    rng: np.random.Generator,
    most: float = MOST_VARIANCE,
) -> tuple[EstimatedLikelihood, float]:
    """Double the state particles until their variance at the mean is small; return it too."""
    variance = variance_at_mean(target.with_estimate(estimate), system, rng)
    while variance > most and 2 * estimate.state_particles <= MOST:
        estimate = estimate.with_state_particles(2 * estimate.state_particles)
        variance = variance_at_mean(target.with_estimate(estimate), system, rng)
    return estimate, variance


def spread_out(system: ParticleSystem, count: int) -> NDArray[np.int64]:
    """Numbers of so many particles that stand for a population, each for the same weight."""
    edges = np.cumsum(system.weights)
    chosen = np.searchsorted(edges, edges[-1] * (np.arange(count) + 0.5) / count)
    return np.minimum(chosen, len(system) - 1)


def exchanged(
    system: ParticleSystem, old: Target, new: Target, rng: np.random.Generator
) -> ParticleSystem:
    """Draw all keys anew, for another number of state particles, and weigh by the ratio.

    The weights are (Z'(theta, u') / Z(theta, u))^b. Given theta, u has the density Z^b m / c(theta)
    with m uniform; the mean of the weight over it takes that factor away, and leaves the target of
    (theta, u').
    """
    keys = fresh_keys(rng, *system.keys.shape)
    there = new.particles(system.theta, keys)
    alive = np.isfinite(system.log_weights)
    with np.errstate(invalid="ignore"):
        change = new.log_density(there) - old.log_density(system)
    return replace(
        system,
        log_weights=np.where(alive, system.log_weights + change, -np.inf),
        log_likelihood=there.log_likelihood,
        log_increment=there.log_increment,
        state=there.state,
        keys=keys,
    )


@dataclass(frozen=True)
class PriorMixture:
    """A population that is a mixture of a posterior and the prior.

    system: With weights of mean one.
    share: Of the prior.
    """

    system: ParticleSystem
    share: float


def with_prior_share(
    system: ParticleSystem,
    prior: Prior,
    log_likelihood: Callable[[Array], Array],
    rng: np.random.Generator,
) -> PriorMixture:
    """Replace every twentieth particle by a draw from the prior.

    The system is a posterior; ``log_likelihood`` is of parameters in unconstrained coordinates.
    """
    n = len(system)
    places = np.arange(rng.integers(min(PRIOR_PLACES, n)), n, PRIOR_PLACES)
    drawn, share = np.zeros(n, dtype=bool), len(places) / n
    drawn[places] = True
    theta = system.theta.copy()
    theta[places] = prior.sample(rng, len(places))
    known = system.log_likelihood.copy()
    known[places] = log_likelihood(theta[places])
    weights = normalise(np.where(drawn, -np.inf, system.log_weights))
    weights = np.where(drawn, 1.0, (1.0 - share) * n * weights)
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    mixed = replace(
        system,
        theta=theta,
        log_weights=log_weights,
        log_prior=prior.log_density(theta),
        log_likelihood=known,
    )
    return PriorMixture(mixed, share)
