"""Normalised innovations L^-1 (y - g(mu)), S = L L', and tests of whether they are white N(0, 1).

The data-free marginal likelihood (PN-SMC eq. 20) and the classical one compare every sample with
a free simulation, so v_n = y_n - g(mu_n) is the error of a simulation, not of a one-step
prediction, and S_n = J Sigma_n J' + R its variance. Both likelihoods take the v_n as independent:
where model, noise and solver are right, v / sqrt(S) is white with mean 0 and variance 1. A wrong
noise variance shows in the variance, a wrong model in the correlations, and an error of the solver
that is not small against the noise in both. Of coloured noise mu_n and R include what the samples
before tell of it (`smcpn.likelihood.coloured`), so that v is whitened too. The likelihoods that see
the data (filtering, dalton, fenrir) compare it with a prediction from the samples before. So do
those of a model with process noise, whose free simulation has errors that are anything but white:
mu_n is the one-step prediction of its Kalman filter and Sigma_n counts the process noise.

The tests are those of L. Ljung (1999), System Identification, section 16.6, of G. M. Ljung and
G. E. P. Box (1978), Biometrika 65, 297-303, and of F. E. Grubbs (1950), Annals of Mathematical
Statistics 21, 27-58, for one error that does not belong to the others. In a few hundred samples
of white noise the statistic of Ljung and Box scatters by more than chi^2 of L degrees of freedom
and has a longer tail: here it has the Pearson III distribution of mean L, variance
2 L (1 + (2 L - 5) / n) and third central moment 8 L (1 + 10 L / n), the last fitted to 200000
simulated series of 100, 200 and 400 samples. Of the cross-correlations with an input at all lags
neighbours resemble each other as the input does itself: B. Efron (1997), Biometrika 84, 143-157,
bounds the probability that the largest is as large. The noise below an error that changes slowly
is told by successive differences: J. von Neumann (1941), Annals of Mathematical Statistics 12,
367-395.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from smcpn.errors import InputError
from smcpn.likelihood.prediction import Prediction, predictions
from smcpn.model.problem import Problem
from smcpn.model.record import Record, beside
from smcpn.model.solver import Solver
from smcpn.results.validation.counts import (
    CountResiduals,
    count_residuals,
    natural_moments,
    points,
    quantiles_between,
)

Array = NDArray[np.float64]

LAGS = 25
BAND = float(stats.norm.ppf(0.995))
"""Half width of a two-sided 99 % band, in standard deviations."""
SIGNIFICANCE = 0.01
LEAST_EIGENVALUE = 1e-12
"""Of correlations of outputs, where rounding has left nothing to tell them apart."""


@dataclass(frozen=True)
class LargestError:
    """The innovation that is furthest from the mean of all, and whether it belongs to them.

    Attributes
    ----------
    size : float
        Its distance from the mean of the others, in their standard deviations; nan of fewer than
        three innovations, or where these are all the same.
    record, sample : int
        Where it is, from 0.
    p : float
        Bound of Grubbs on the probability that the largest of so many normal errors is as large.
    records : int
        Number of records.
    """

    size: float
    record: int
    sample: int
    p: float
    records: int = 1

    def __str__(self) -> str:
        of = f" of record {self.record}" if self.records > 1 else ""
        return f"sample {self.sample}{of}"


def largest_error(innovations: Sequence[Array]) -> LargestError:
    """Find the largest error of an output, and test it against the others.

    The scale is that of the other errors, so that noise of another size than was stated is not
    taken for an outlier, and an outlier that has raised the learned noise is not hidden by it.

    innovations: (T,), as of `whiteness`; at least one is a number.
    """
    everything = np.concatenate(list(innovations))
    place = int(np.nanargmax(np.abs(everything - np.nanmean(everything))))
    others = np.delete(everything, place)
    others = others[np.isfinite(others)]
    n, ends = len(others) + 1, np.cumsum([len(one) for one in innovations])
    record = int(np.searchsorted(ends, place, side="right"))
    sample = place - int(ends[record - 1] if record else 0)
    spread = float(others.std(ddof=1)) if n > 2 else 0.0
    if spread == 0.0:
        return LargestError(float("nan"), record, sample, 1.0, len(ends))
    distance = float(everything[place] - others.mean())
    deviation = distance / (spread * np.sqrt(1.0 + 1.0 / len(others)))
    p = float(min(1.0, 2 * n * stats.t.sf(abs(deviation), n - 2)))
    return LargestError(distance / spread, record, sample, p, len(ends))


@dataclass(frozen=True)
class Whiteness:
    """Tests of the normalised innovations of one output, over one or several records.

    Attributes
    ----------
    samples : int
        Number n of measured samples.
    mean, variance : float
        0 and 1 are expected.
    chi2 : float
        Sum of squares; chi^2 with n degrees of freedom is expected. (The d parameters were
        chosen on the same samples, or not; d is small against n.) The squares of counts have
        weights of mean 1, see `Innovations.weights`.
    chi2_p : float
        Two-sided p-value: too small a sum (noise overstated) counts as much as too large a one.
    autocorrelation : ndarray, (25,)
        At lags 1 to 25.
    autocorrelation_band : ndarray, (25,)
        Half width of the 99 % band of white noise.
    whiteness_p : float
        p-value of the Ljung-Box statistic of these lags.
    cross_correlation : ndarray, (n_inputs, 51)
        Of innovation e and input u: E e(t) u(t - lag) at lags -25 to 25, both of variance 1.
    cross_correlation_band : ndarray, (51,)
        Half width of the 99 % band where the innovations are white and independent of u.
    independence_p : float
        Probability that the largest of the cross-correlations is as large, see the head of this
        module, times the number of inputs (Bonferroni). nan without input.
    largest : LargestError or None
        The largest error; None of noise with a density of its own, which may have heavy tails.
    successive : float
        Standard deviation by the differences of successive innovations, to which errors that change
        slowly add nothing; that of all where no two follow each other.
    """

    samples: int
    mean: float
    variance: float
    chi2: float
    chi2_p: float
    autocorrelation: Array
    autocorrelation_band: Array
    whiteness_p: float
    cross_correlation: Array
    cross_correlation_band: Array
    independence_p: float
    largest: LargestError | None = None
    successive: float = 1.0

    @property
    def reduced_chi2(self) -> float:
        """Sum of squares over the number of samples; 1 is expected."""
        return self.chi2 / self.samples

    @property
    def white(self) -> bool:
        """True if whiteness is not rejected at 1 %."""
        return self.whiteness_p >= SIGNIFICANCE

    @property
    def independent(self) -> bool:
        """True if independence of the input is not rejected at 1 %; True without input."""
        return not self.independence_p < SIGNIFICANCE

    @property
    def calibrated(self) -> bool:
        """True if the variance of one is not rejected at 1 %."""
        return self.chi2_p >= SIGNIFICANCE


def whiteness(
    innovations: Sequence[Array],
    inputs: Sequence[Array],
    normal: bool = True,
    weights: Sequence[Array] | None = None,
) -> Whiteness:
    """Test the normalised innovations of one output.

    innovations: (T,), one per record; NaN where nothing was measured. No lag reaches from one into
        another.
    inputs: (T, n_inputs)
    normal: Whether normal innovations are expected, so that the largest can be tested.
    weights: (T,), one per record, of their squares, by default all the same.
    """
    everything = np.concatenate(list(innovations))
    seen = everything[np.isfinite(everything)]
    n, mean = len(seen), float(seen.mean())
    own = np.ones(n) if weights is None else np.concatenate(list(weights))[np.isfinite(everything)]
    own = own / own.mean()
    chi2 = float(own @ np.square(seen))
    centred = [e - mean for e in innovations]
    spread = float(np.var(seen)) or 1.0
    auto, pairs = _correlation(centred, centred, range(1, LAGS + 1))
    auto /= spread
    ljung_box = float(np.square(auto) @ pairs) * (n + 2) / n
    cross, cross_pairs, independence_p = _cross_correlations(centred, inputs, spread)
    with np.errstate(divide="ignore"):
        band, cross_band = BAND / np.sqrt(pairs), BAND / np.sqrt(cross_pairs)
    return Whiteness(
        samples=n,
        mean=mean,
        variance=float(np.mean(np.square(seen - mean))),
        chi2=chi2,
        chi2_p=_two_sided(chi2, own),
        autocorrelation=auto,
        autocorrelation_band=band,
        whiteness_p=_portmanteau(ljung_box, n),
        cross_correlation=cross,
        cross_correlation_band=cross_band,
        independence_p=independence_p,
        largest=largest_error(innovations) if normal else None,
        successive=_successive(innovations),
    )


def _two_sided(statistic: float, weights: Array) -> float:
    """Return the p-value of a weighted sum of squares: chi^2 of equal weights, exactly.

    Else the upper tail is that of Pearson III of its three moments, and the lower one that of the
    gamma distribution of its two, which begins at zero as the sum does.
    """
    first, second, third = (float((weights**k).sum()) for k in (1, 2, 3))
    shape, scale = second**3 / third**2 / 2, 2 * third / second
    upper = special.gammaincc(shape, max((statistic - first) / scale + shape, 0.0))
    lower = special.gammainc(first**2 / second / 2, statistic * first / second / 2)
    return float(min(1.0, 2 * min(upper, lower)))


def _portmanteau(statistic: float, samples: int) -> float:
    """Return the p-value of the statistic of Ljung and Box, see the head of this module."""
    variance = 2 * LAGS * (1.0 + (2 * LAGS - 5) / samples)
    skewness = 8 * LAGS * (1.0 + 10 * LAGS / samples) / variance**1.5
    # Pearson III is a gamma distribution that begins elsewhere than at zero.
    shape, scale = 4.0 / skewness**2, skewness * np.sqrt(variance) / 2.0
    return float(special.gammaincc(shape, max((statistic - LAGS) / scale + shape, 0.0)))


def _successive(innovations: Sequence[Array]) -> float:
    differences = np.concatenate([np.diff(one) for one in innovations])
    differences = differences[np.isfinite(differences)]
    if not len(differences):
        return float(np.nanstd(np.concatenate(list(innovations))))
    return float(np.sqrt(np.mean(np.square(differences)) / 2))


def _cross_correlations(
    centred: list[Array], inputs: Sequence[Array], spread: float
) -> tuple[Array, Array, float]:
    """Cross-correlations by input and lag, pairs by lag, and the p-value of the largest."""
    lags = range(-LAGS, LAGS + 1)
    n_inputs = inputs[0].shape[1]
    cross, pairs, p = np.empty((n_inputs, len(lags))), np.ones(len(lags)), list[float]()
    seen = [np.isfinite(one).astype(float) for one in centred]
    for j in range(n_inputs):
        whole = np.concatenate([u[:, j] for u in inputs])
        shifted = [u[:, j] - whole.mean() for u in inputs]
        covariance, pairs = _correlation(centred, shifted, lags)
        cross[j] = covariance / np.sqrt(spread * (float(whole.var()) or 1.0))
        # A pulse is no input at lags that leave it out.
        power = np.maximum(_correlation(seen, [np.square(u) for u in shifted], lags)[0], 0.0)
        scale = np.sqrt(spread * power / np.maximum(pairs, 1.0))
        largest = float(
            np.divide(np.abs(covariance), scale, out=0.0 * scale, where=scale > 0).max()
        )
        (own,), _ = _correlation(shifted, shifted, range(1, 2))
        p.append(_length_heuristic(largest, own / (float(whole.var()) or 1.0)))
    return cross, pairs, min(1.0, n_inputs * min(p)) if p else float("nan")


def _length_heuristic(largest: float, correlation: float) -> float:
    """Bound the probability that any of normal numbers at all lags is so far from zero.

    By Efron (1997), for both signs; neighbours have the same correlation.
    """
    angle = np.arccos(np.clip(correlation, -1.0, 1.0))
    density = np.exp(-0.5 * largest**2) / np.sqrt(2 * np.pi)
    further = 2 * LAGS * density * special.erf(largest * angle / np.sqrt(8.0))
    return float(min(1.0, 2 * (special.ndtr(-largest) + further / max(largest, 1e-3))))


def _correlation(left: Sequence[Array], right: Sequence[Array], lags: range) -> tuple[Array, Array]:
    """Mean of left(t) right(t - lag) over the pairs that exist, and their number."""
    sums, pairs = np.zeros(len(lags)), np.zeros(len(lags))
    for a, b in zip(left, right, strict=True):
        a_seen, b_seen = np.isfinite(a).astype(float), np.isfinite(b).astype(float)
        a_filled, b_filled = np.nan_to_num(a), np.nan_to_num(b)
        for i, lag in enumerate(lags):
            if abs(lag) < len(a):
                sums[i] += _lagged(a_filled, b_filled, lag)
                pairs[i] += _lagged(a_seen, b_seen, lag)
    return sums / np.maximum(pairs, 1.0), pairs


def _lagged(a: Array, b: Array, lag: int) -> float:
    return float(a[lag:] @ b[: len(b) - lag] if lag >= 0 else a[:lag] @ b[-lag:])


@dataclass(frozen=True)
class Innovations:
    """Normalised innovations of one record at one parameter vector.

    Attributes
    ----------
    record : Record
    mean : ndarray, (T, q)
        Expected outputs, in their units; with coloured noise, what is expected of it included.
    variance : ndarray, (T, q)
        Diagonal of S: solver and noise.
    solver_variance : ndarray, (T, q)
        Diagonal of J Sigma J', the solver's part of it; 0 of a model with process noise.
    process_variance : ndarray, (T, q)
        Diagonal of J Sigma J' of a model with process noise, in which a solver's error is counted
        too where it claims one; else 0.
    normalised : ndarray, (T, q)
        L^-1 v with S = L L' over the outputs present: for one output v / sqrt(S). Of noise with a
        density residuals of the deviance, or of counts randomised quantiles. NaN where nothing was
        measured.
    counts : tuple of int
        Outputs whose residuals are randomised quantiles.
    """

    record: Record
    mean: Array
    variance: Array
    solver_variance: Array
    process_variance: Array
    normalised: Array
    counts: tuple[int, ...] = ()

    @property
    def weights(self) -> Array:
        """Weights of squares by which counts that scatter too much are told soonest, (T, q).

        They are the share by which a variance that grows with the square of the mean exceeds that
        of the counts (Dean and Lawless 1989, Journal of the American Statistical Association 84);
        1 for counts that have a greatest number, and for all other noise.
        """
        weights = np.ones_like(self.mean)
        for j in self.counts:
            mean, variance = self.mean[:, j], self.variance[:, j]
            if not (variance < mean * (1.0 - 1e-6)).any():
                weights[:, j] = np.maximum(_share(np.square(mean), variance), 1e-12)
        return weights

    def residual(self, output: int) -> str:
        """Name of the residuals of an output."""
        return "quantile residuals" if output in self.counts else "normalised innovations"

    @property
    def solver_share(self) -> Array:
        """Share of the innovation variance that is solver error, (T, q), 0 to 1."""
        return _share(self.solver_variance, self.variance)

    @property
    def process_share(self) -> Array:
        """Share of the innovation variance that is process noise, (T, q), 0 to 1."""
        return _share(self.process_variance, self.variance)


def _share(part: Array, whole: Array) -> Array:
    """Part over whole, none where there is nothing, as of noise in proportion to an output of 0."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole != 0.0)


def innovations(
    problem: Problem,
    solver: Solver,
    values: Array,
    record: Record | None = None,
    likelihood: str | None = None,
) -> tuple[Innovations, ...]:
    """Normalised innovations of a record, or of every record of the problem.

    solver: As it ran, its steps a number.
    record: Measured as the problem observes. It starts from the initial state of the problem's
        first record, unless it is one of the others.
    """
    chosen = list(enumerate(problem.records))
    if record is not None:
        own = [(number, one) for number, one in chosen if one is record]
        chosen = own or [(0, record)]
    found = predictions(problem, solver, chosen, likelihood)
    disturbed = problem.model.process_noise is not None
    density = problem.model.density
    if density is not None and not density.gaussian:
        rng = np.random.default_rng(0)
        return tuple(_residuals(one, problem, values, int(solver.steps), rng) for one in found)
    return tuple(_normalised(one, values, int(solver.steps), disturbed) for one in found)


def _residuals(
    one: Prediction, problem: Problem, values: Array, steps: int, rng: np.random.Generator
) -> Innovations:
    """Innovations of noise with a density: residuals of the deviance, `Model.density_scatter`.

    They are less by the share of the solver or of the disturbed states in their variance. Of counts
    they are randomised quantiles, which count that share in the distribution; of values known by
    their limits too, so that none is missing because of its size.
    """
    record, (mean, covariance), model = one.record, one.moments(values, steps), problem.model
    samples = model.sample_numbers(record)
    noise, residual = model.density_scatter(values, mean, record.y, samples)
    if record.limits:
        lower, upper = (
            model.density_scatter(values, mean, beside(record, name), samples)[1]
            for name in ("y_lower", "y_upper")
        )
        residual = np.where(record.limited, quantiles_between(lower, upper, rng), residual)
    states = np.diagonal(covariance, axis1=1, axis2=2).copy()
    variance = states + noise
    normalised = residual * np.sqrt(_share(noise, variance))
    elsewhere = np.asarray(np.isnan(noise).all(axis=0))
    counts = _counts(problem, values, mean, states, record, elsewhere, rng)
    mean = mean.copy()
    for j, found in counts.items():
        mean[:, j], variance[:, j], states[:, j], normalised[:, j] = found
    disturbed, nothing = model.process_noise is not None, np.zeros_like(states)
    return Innovations(
        record=record,
        mean=mean,
        variance=variance,
        solver_variance=nothing if disturbed else states,
        process_variance=states if disturbed else nothing,
        normalised=np.where(record.told, normalised, np.nan),
        counts=tuple(counts),
    )


def _counts(
    problem: Problem,
    values: Array,
    mean: Array,
    variance: Array,
    record: Record,
    elsewhere: NDArray[np.bool_],
    rng: np.random.Generator,
) -> dict[int, CountResiduals]:
    """Residuals of the outputs that are counts, as all must be that noise is not about.

    elsewhere: (q,), where a density is not largest at the output: it may be a natural parameter.
    """
    model, samples = problem.model, problem.model.sample_numbers(record)
    density = model.density
    where, weights = points(mean, variance)
    means = where
    with np.errstate(all="ignore"):
        variances = np.stack(
            [model.density_scatter(values, one, record.y, samples)[0] for one in where]
        )
    natural = model.natural_means() if elsewhere.any() else None
    if natural is not None:
        of_natural = natural_moments(natural, where)
        means, variances = (
            np.where(elsewhere, new, old)
            for new, old in zip(of_natural, (means, variances), strict=True)
        )
    found: dict[int, CountResiduals] = {}
    for j in range(mean.shape[1]):
        known = density is not None and density.own_variance(j) is not None
        # Of one mean alone any variance may be that of counts.
        same = not elsewhere[j] and np.ptp(means[:, :, j]) == 0.0
        if known or same or (elsewhere[j] and natural is None) or record.limited[:, j].any():
            continue
        one = count_residuals(record.y[:, j], means[:, :, j], variances[:, :, j], weights, rng)
        found |= {} if one is None else {j: one}
    for j in np.flatnonzero(elsewhere).tolist():
        if j not in found:
            raise InputError(
                f"innovations need noise that is about the output, or counts: the density of "
                f"'{problem.observe[j]}' is largest elsewhere, and its values are no whole "
                "numbers or its output no natural parameter, as the log mean of Poisson's or the "
                "log odds of Bernoulli's is"
            )
    return found


def _normalised(one: Prediction, values: Array, steps: int, disturbed: bool) -> Innovations:
    record, (outputs, numerical, noise_mean, noise) = one.record, one.with_noise(values, steps)
    mean, identity = outputs + noise_mean, np.eye(outputs.shape[1])
    total = numerical + noise[:, :, None] * identity
    # A simulation that has grown beyond all numbers is compared with nothing.
    present = np.isfinite(record.y) & np.isfinite(mean) & np.isfinite(total).all(axis=2)
    # A missing output becomes a unit variance independent of the rest, so that it whitens nothing.
    both = present[:, :, None] & present[:, None, :]
    masked = np.where(both, total, 0.0)
    masked += np.where(present, 0.0, 1.0)[:, :, None] * identity
    error = np.where(present, record.y - mean, 0.0)
    whitened = np.linalg.solve(_factors(masked), error[:, :, None])[:, :, 0]
    states = np.diagonal(numerical, axis1=1, axis2=2).copy()
    nothing = np.zeros_like(states)
    return Innovations(
        record=record,
        mean=mean,
        variance=np.diagonal(total, axis1=1, axis2=2).copy(),
        solver_variance=nothing if disturbed else states,
        process_variance=states if disturbed else nothing,
        normalised=np.where(present, whitened, np.nan),
    )


def _factors(covariances: Array) -> Array:
    """Return the Cholesky factors of covariances (T, q, q).

    Outputs of a solver that knows nothing are multiples of each other but for noise that rounding
    has taken away: where there is such a covariance, the correlations of all are kept away from it.
    """
    try:
        return np.asarray(np.linalg.cholesky(covariances), dtype=float)
    except np.linalg.LinAlgError:
        sd = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
        correlations = covariances / (sd[:, :, None] * sd[:, None, :])
        values, vectors = np.linalg.eigh(correlations)
        kept = np.maximum(values, LEAST_EIGENVALUE)[:, None, :]
        regular = (vectors * kept) @ np.swapaxes(vectors, 1, 2)
        return np.asarray(sd[:, :, None] * np.linalg.cholesky(regular), dtype=float)
