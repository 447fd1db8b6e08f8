"""Covariance of a posterior's centre under a model that is a little wrong: Godambe's sandwich.

Where the noise is white and the model right, the covariance C of a posterior is also that of its
mean over repetitions of the experiment. Otherwise that is Godambe's

    V = C J C,    J = covariance of sum_t s_t,    s_t = d log p(y_t | y_<t, theta) / d theta,

and J counts the autocorrelation of the scores s_t (`smcpn.validation.long_run`). The scores are
slopes over the particles: no kernel of derivatives is compiled, and C s_t is the influence of a
sample on the posterior mean that Giordano and Broderick define without a mode. The prior is one
observation more, whose score has the variance of its precision.

References
----------
Godambe, V. P. (1960). An optimum property of regular maximum likelihood estimation. Annals of
Mathematical Statistics 31.
Giordano, R., Broderick, T. (2023). The Bayesian infinitesimal jackknife for variance.
arXiv:2305.06466.
Pauli, F., Racugno, W., Ventura, L. (2011). Bayesian composite marginal likelihoods. Statistica
Sinica 21 (the learning rate).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.likelihood.contract import Likelihood
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.distribution import INTERQUARTILE_RANGE
from smcpn.model.prior import Prior
from smcpn.model.prior_expansion import prior_expansion
from smcpn.model.problem import Problem
from smcpn.smc.particles import normalise
from smcpn.solver import Solver
from smcpn.validation.long_run import bandwidth, long_run

Array = NDArray[np.float64]

BLOCK = 1024
"""Samples whose log-densities are held at a time."""
MIDDLE = (0.125, 0.875)
"""Shares of the information about a parameter between which its samples are counted."""
LEAST_LENGTHS = 4.0
"""Lengths of correlation that these samples must cover, for their scatter to be judged."""
LEAST_PARAMETERS = 0.5
"""Parameters that the data must determine, for the weight of their likelihood to be judged."""
LEAST_PARTICLES = 3
"""Distinct particles per parameter that know the slopes of a log density."""
_PRIOR_DRAWS = 4096


@dataclass(frozen=True)
class Sandwich:
    """Godambe's covariance of the unconstrained coordinates, and what follows from it.

    Attributes
    ----------
    plain, covariance : ndarray, (d, d)
        C of the posterior, and V.
    judged : ndarray, (d,) of bool
        Parameters of which enough of the record knows; V is that of the posterior elsewhere.
    learning_rate : float
        Power of the likelihood whose posterior is as wide as V on average, at most 1.
    bandwidth : int
        Lags, in samples, over which the scores are correlated.
    """

    plain: Array
    covariance: Array
    judged: NDArray[np.bool_]
    learning_rate: float
    bandwidth: int

    @property
    def factor(self) -> Array:
        """Robust standard deviation over that of the posterior, (d,)."""
        return np.sqrt(np.diag(self.covariance) / np.diag(self.plain))


def sandwich(
    problem: Problem,
    solver: Solver,
    likelihood: str | None,
    theta: Array,
    log_weights: Array,
    threads: int | None = None,
) -> Sandwich:
    """Compute the sandwich of weighted particles, at the cost of evaluating each once.

    Parameters
    ----------
    problem : Problem
    solver : Solver
        As it ran, its steps a number.
    likelihood : str or None
        As of `smcpn.likelihood.registry.build_likelihood`.
    theta : ndarray, (N, d)
        Unconstrained coordinates of the particles.
    log_weights : ndarray, (N,)
    threads : int, optional
        Of the kernel; results do not depend on it.

    Raises
    ------
    InputError
        If there are fewer than three distinct particles per parameter.
    """
    weights = normalise(log_weights)
    theta, weights = theta[weights > 0], weights[weights > 0]
    distinct, d = len(np.unique(theta[:, 0])), theta.shape[1]
    if distinct < LEAST_PARTICLES * d:
        raise InputError(
            f"the posterior has {distinct} distinct particles for {d} parameters: robust standard "
            f"deviations need {LEAST_PARTICLES * d} or more"
        )
    built = build_likelihood(problem, solver, threads, likelihood)
    found = scores(built, problem.prior, theta, weights)
    measured = [np.isfinite(record.y).any(axis=1) for record in problem.records]
    precision = prior_precision(problem.prior, weights @ theta)
    return of_scores(_per_record(found, measured), covariance_of(theta, weights), precision)


def scores(likelihood: Likelihood, prior: Prior, theta: Array, weights: Array) -> Array:
    """Derivatives of log p(y_t | y_<t, theta) at the centre of weighted particles, (T, d).

    They are slopes of the least-squares plane through the particles: exact where the log density
    of a sample is linear over the posterior, and no derivative of a kink.

    Parameters
    ----------
    theta : ndarray, (N, d)
    weights : ndarray, (N,)
        Their sum is one.
    """
    values, samples = prior.natural(theta), likelihood.n_samples
    slopes = _slopes(theta, weights)
    state, found = likelihood.start(values), np.empty((samples, theta.shape[1]))
    for a in range(0, samples, BLOCK):
        b = min(a + BLOCK, samples)
        state, increments = likelihood.advance(values, state, a, b)
        # About the first particle's, lest what all have in common leaves its rounding.
        change = increments - increments[:, :1]
        found[a:b] = np.einsum("tn,nd->td", change, slopes)
    return found


def _slopes(theta: Array, weights: Array) -> Array:
    """Matrix (N, d) that takes numbers of the particles (N,) to their least-squares slopes."""
    centred = theta - weights @ theta
    size = np.sqrt(weights @ np.square(centred))
    size = np.where(size > 0, size, 1.0)
    root = np.sqrt(weights)[:, None]
    return (root * np.linalg.pinv(root * centred / size).T) / size


def of_scores(series: Sequence[Array], plain: Array, precision: Array) -> Sandwich:
    """Return the sandwich of the scores of samples, (T_i, d) of each record, about zero.

    Parameters
    ----------
    plain : ndarray, (d, d)
        Covariance of the posterior.
    precision : ndarray, (d, d)
        Of the prior.
    """
    judged = np.array([_known_throughout([p[:, j] for p in series]) for j in range(len(plain))])
    covariance = np.diag(np.diag(plain))
    left_out = np.ix_(~judged, ~judged)
    covariance[left_out] = plain[left_out]
    if not judged.any():
        return Sandwich(plain, covariance, judged, 1.0, 0)
    chosen = np.ix_(judged, judged)
    own = plain[chosen]
    found = long_run([np.einsum("ti,ij->tj", part[:, judged], own) for part in series])
    known = precision[chosen]
    covariance[chosen] = found.covariance + own @ known @ own
    mixed = known - np.diag(np.diag(known))
    determined = judged.sum() - np.diag(own) @ np.diag(known) - (own * mixed).sum()
    claimed = float(np.trace(np.linalg.solve(own, found.covariance)))
    enough = determined >= LEAST_PARAMETERS and claimed > determined
    rate = float(determined / claimed) if enough else 1.0
    return Sandwich(plain, covariance, judged, rate, found.bandwidth)


def _known_throughout(series: Sequence[Array]) -> bool:
    """Whether the scores (T_i,) of a parameter come over many lengths of their correlation.

    An initial state is known from the first samples, and their scatter says nothing of how their
    sum scatters.
    """
    known = np.cumsum(np.square(np.concatenate(list(series))))
    if not known[-1] > 0.0:
        return False
    first, last = np.searchsorted(known, np.array(MIDDLE) * known[-1])
    length = 1 + bandwidth([part[:, None] for part in series])
    return bool(last - first >= LEAST_LENGTHS * length)


def _per_record(found: Array, measured: Sequence[NDArray[np.bool_]]) -> list[Array]:
    """Cut into records, about the mean of the samples that were measured, zero elsewhere."""
    seen = np.concatenate(list(measured))
    centred = np.where(seen[:, None], found - found[seen].mean(axis=0), 0.0)
    return np.split(centred, np.cumsum([len(one) for one in measured])[:-1])


def covariance_of(theta: Array, weights: Array) -> Array:
    """Covariance of weighted particles, (d, d)."""
    centred = theta - weights @ theta
    return np.einsum("n,ni,nj->ij", weights, centred, centred, optimize=False)


def prior_precision(prior: Prior, centre: Array) -> Array:
    """Inverse covariance of a normal distribution like the prior, (d, d).

    It has the quartiles of the prior in each coordinate. Where parameters have a scale that is
    learned, these are not what holds at the scale found: there it is minus the second derivative of
    the log prior density at the centre (d,) of the posterior, without the directions in which that
    density is convex.
    """
    draws = prior.sample(np.random.default_rng(0), _PRIOR_DRAWS)
    low, high = np.quantile(draws, (0.25, 0.75), axis=0)
    spread = (high - low) / INTERQUARTILE_RANGE
    precision = np.diag(np.square(INTERQUARTILE_RANGE / (high - low)))
    if not prior.scales:
        return precision
    expansion = prior_expansion(prior, centre[None, :], spread)
    hessian = np.diag(expansion.diagonal[0])[None]
    expansion.add_mixed(hessian)
    units = np.outer(spread, spread)
    found = np.where(np.isfinite(hessian[0]), -hessian[0], precision) * units
    values, vectors = np.linalg.eigh(found)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T / units
