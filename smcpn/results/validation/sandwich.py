"""Covariance of a posterior's centre under a model that is a little wrong: Godambe's sandwich.

Where the noise is white and the model right, the covariance C of a posterior is also that of its
mean over repetitions of the experiment. Otherwise that is Godambe's

    V = C J C,    J = covariance of sum_t s_t,    s_t = d log p(y_t | y_<t, theta) / d theta,

and J counts the correlation of the scores s_t. It is counted only where the scores show one: errors
of a wrong model make parameters drift along the record, and cosines in time are tested for it
(`drift_p`). A test before an estimate should be easily alarmed (Bancroft, Han 1977).

J is then the scatter of the sums of the scores over 16 blocks of the record. How the blocks hang
together, the record does not tell: an error that is a function of the state is as slow as the
amplitude of the output, which may rise and fall a few times only. The quantiles are
therefore those of Student's t with a degree of freedom for every 50 lengths of correlation of the
squared output, and one at least (groups of dependent samples: Ibragimov, Mueller 2010). On an
oscillator whose cubic term the model lacks, the 95 % interval of the stiffness needed so many to
hold the pseudo-true value nine times in ten, from 250 samples and from 1000.

The scores are slopes over the particles: no kernel of derivatives is compiled, and C s_t is the
influence of a sample on the posterior mean that Giordano and Broderick define without a mode. The
prior is one observation more, whose score has the variance of its precision.

References
----------
Godambe, V. P. (1960). An optimum property of regular maximum likelihood estimation. Annals of
Mathematical Statistics 31.
Giordano, R., Broderick, T. (2023). The Bayesian infinitesimal jackknife for variance.
arXiv:2305.06466.
Pauli, F., Racugno, W., Ventura, L. (2011). Bayesian composite marginal likelihoods. Statistica
Sinica 21 (the learning rate).
Ibragimov, R., Mueller, U. K. (2010). t-statistic based correlation and heterogeneity robust
inference. Journal of Business and Economic Statistics 28.
Davidson, R., MacKinnon, J. G. (1984). Model specification tests based on artificial linear
regressions. International Economic Review 25 (the outer product of scores).
Bancroft, T. A., Han, C.-P. (1977). Inference based on conditional specification. International
Statistical Review 45.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from smcpn.errors import InputError
from smcpn.likelihood.contract import Likelihood
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.distribution import INTERQUARTILE_RANGE
from smcpn.model.prior import Prior, prior_expansion
from smcpn.model.problem import Problem
from smcpn.model.solver import Solver
from smcpn.results.validation.residuals import correlation_length
from smcpn.smc.particles import normalise

Array = NDArray[np.float64]

BLOCK = 1024
"""Samples whose log-densities are held at a time."""
MIDDLE = (0.125, 0.875)
"""Shares of the information about a parameter between which its samples are counted."""
LEAST_BLOCKS = 2
"""Blocks as long as these samples at most, for their scatter to be judged."""
BLOCKS = 16
"""Of the record, whose scores are summed."""
COSINES = 8
"""In time, by which parameters may drift."""
SAMPLES_PER_SLOPE = 5
"""Samples at least for every parameter and each of its cosines."""
ALARM = 0.25
"""Probability that a right model is taken for one that drifts."""
LENGTHS = 50.0
"""Lengths of correlation of the squared output that count as one degree of freedom."""
NORMAL = float(stats.norm.ppf(0.975))
LEAST_PARAMETERS = 0.5
"""Parameters that the data must determine, for the weight of their likelihood to be judged."""
LEAST_PARTICLES = 3
"""Distinct particles per parameter that know the slopes of a log density."""
_PRIOR_DRAWS = 4096


@dataclass(frozen=True)
class Sandwich:
    """Godambe's covariance of the unconstrained coordinates, and what follows from it.

    plain, covariance: (d, d), C of the posterior, and V.
    judged: (d,) of bool, parameters of which enough of the record knows; V is that of the posterior
        elsewhere.
    learning_rate: Power of the likelihood whose posterior is as wide as V on average, at most 1.
    drift_p: p-value of parameters that do not drift; V is C from a quarter on, and where it is nan
        for want of samples.
    degrees_of_freedom: Of Student's t. V has the 95 % interval of it.
    """

    plain: Array
    covariance: Array
    judged: NDArray[np.bool_]
    learning_rate: float
    drift_p: float
    degrees_of_freedom: float

    @property
    def drifts(self) -> bool:
        """True if parameters are taken to drift, and V is not C."""
        return self.drift_p < ALARM

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

    solver: As it ran, its steps a number.
    theta: (N, d), unconstrained coordinates of the particles.
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
    return of_scores(
        _per_record(found, measured), covariance_of(theta, weights), precision,
        memory=memory(problem), tested=problem.model.moves_outputs(),
    )  # fmt: skip


def memory(problem: Problem) -> float:
    """Longest length of correlation of a squared output about its mean, in samples."""
    lengths = [1.0]
    for j in range(len(problem.observe)):
        outputs = [record.y[:, j] for record in problem.records]
        seen = np.concatenate([one[np.isfinite(one)] for one in outputs])
        if not seen.size:
            continue
        squares = [np.square(one - seen.mean()) for one in outputs]
        level = float(np.square(seen - seen.mean()).mean())
        lengths.append(correlation_length([np.nan_to_num(one - level) for one in squares]))
    return max(lengths)


def scores(likelihood: Likelihood, prior: Prior, theta: Array, weights: Array) -> Array:
    """Derivatives of log p(y_t | y_<t, theta) at the centre of weighted particles, (T, d).

    They are slopes of the least-squares plane through the particles: exact where the log density
    of a sample is linear over the posterior, and no derivative of a kink.

    theta: (N, d)
    weights: (N,), their sum is one.
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


def of_scores(
    series: Sequence[Array],
    plain: Array,
    precision: Array,
    *,
    memory: float = 1.0,
    tested: NDArray[np.bool_] | None = None,
) -> Sandwich:
    """Return the sandwich of the scores of samples, (T_i, d) of each record, about zero.

    plain: (d, d), covariance of the posterior.
    precision: (d, d), of the prior.
    memory: Length of correlation of the errors of the model, in samples.
    tested: (d,), parameters that may drift. The size of the errors is none of them: its scores are
        skewed, and the test is one of many samples.
    """
    judged = np.array([_known_throughout([p[:, j] for p in series]) for j in range(len(plain))])
    drifting = judged if tested is None or not (judged & tested).any() else judged & tested
    p = drift_p(np.concatenate(list(series))[:, drifting])
    if np.isnan(p):
        judged = np.zeros_like(judged)
    freedom = float(np.clip(sum(map(len, series)) / (LENGTHS * memory), 1, BLOCKS - 1))
    if not p < ALARM:
        return Sandwich(plain, plain, judged, 1.0, p, freedom)
    covariance = np.diag(np.diag(plain))
    left_out = np.ix_(~judged, ~judged)
    covariance[left_out] = plain[left_out]
    chosen = np.ix_(judged, judged)
    own = plain[chosen]
    student = float(stats.t.ppf(0.975, freedom)) / NORMAL
    sums = student**2 * of_blocks([np.einsum("ti,ij->tj", part[:, judged], own) for part in series])
    known = precision[chosen]
    covariance[chosen] = sums + own @ known @ own
    mixed = known - np.diag(np.diag(known))
    determined = judged.sum() - np.diag(own) @ np.diag(known) - (own * mixed).sum()
    claimed = float(np.trace(np.linalg.solve(own, sums)))
    enough = determined >= LEAST_PARAMETERS and claimed > determined
    rate = float(determined / claimed) if enough else 1.0
    return Sandwich(plain, covariance, judged, rate, p, freedom)


def drift_p(scores: Array) -> float:
    """p-value of parameters that do not drift along the record, by the scores (T, d) of samples.

    It is the Lagrange multiplier test of parameters whose changes are sums of cosines in time, in
    the form of Davidson and MacKinnon (1984): one is regressed on the scores, and on the scores
    times each cosine. White errors pass whatever their variance. It is nan of too few samples.

    scores: (T, d), their sum is zero; those of samples that were not measured are zero.
    """
    scores = scores[np.any(scores != 0.0, axis=1)]
    n, d = scores.shape
    cosines = min(COSINES, n // (SAMPLES_PER_SLOPE * max(d, 1)) - 1)
    if d == 0 or cosines < 1:
        return np.nan
    scaled = scores / np.sqrt(np.square(scores).mean(axis=0))
    size = d * (cosines + 1)
    total, products = np.zeros(size), np.zeros((size, size))
    for a in range(0, n, BLOCK):
        part = scaled[a : a + BLOCK]
        phase = np.pi * (np.arange(a, a + len(part)) + 0.5) / n
        waves = np.cos(phase[:, None] * np.arange(cosines + 1))
        terms = (waves[:, :, None] * part[:, None, :]).reshape(len(part), size)
        total += terms.sum(axis=0)
        # In a fixed order: a library's matrix product depends on its threads.
        products += np.einsum("ti,tj->ij", terms, terms)
    explained = float(total @ np.linalg.pinv(products, hermitian=True) @ total)
    extra, left = size - d, n - size
    ratio = explained / extra * left / max(n - explained, np.finfo(float).tiny)
    return float(stats.f.sf(ratio, extra, left))


def of_blocks(series: Sequence[Array]) -> Array:
    """Covariance of the sum of a series (T_i, d) of zero sum, by its sums over blocks, (d, d).

    No block reaches from one record into another; records are cut by their lengths.
    """
    samples = sum(map(len, series))
    counts = [max(1, min(round(BLOCKS * len(part) / samples), len(part))) for part in series]
    sums = np.array([
        block.sum(axis=0)
        for part, count in zip(series, counts, strict=True)
        for block in np.array_split(part, count)
    ])  # fmt: skip
    return len(sums) / (len(sums) - 1) * np.einsum("bi,bj->ij", sums, sums)


def _known_throughout(series: Sequence[Array]) -> bool:
    """True if the scores (T_i,) of a parameter come over more than a few blocks of the record.

    An initial state is known from the first samples, and their scatter says nothing of how their
    sum scatters.
    """
    known = np.cumsum(np.square(np.concatenate(list(series))))
    if not known[-1] > 0.0:
        return False
    first, last = np.searchsorted(known, np.array(MIDDLE) * known[-1])
    return bool(last - first >= LEAST_BLOCKS * len(known) / BLOCKS)


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
