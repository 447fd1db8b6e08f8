"""Weighted particles, and the densities that they target: prior, tempered and posterior.

Weights are kept as logarithms. A `ParticleSystem` moves everything that belongs to a particle
together; a `Target` evaluates it for parameters. Between two targets the likelihood is raised to
exponents that the weights can bear, see `next_exponent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.stored import (
    ArraySchema,
    Bounds,
    Stored,
    any_number,
    counts,
    finite,
    log_densities,
)
from smcpn.codegen.stream_step import weigh
from smcpn.errors import InputError
from smcpn.likelihood.contract import (
    NO_KEYS,
    Derivatives,
    Keys,
    Likelihood,
)
from smcpn.model.prior import Prior

Array = NDArray[np.float64]

WHOLE = 0.8
"""A sample is assimilated whole while the ESS stays above this share of the threshold."""
PRECISION = 1e-8
"""Bisection ends at this relative width of the step."""
BISECTIONS = 200
FORESEEN_FROM, FORESEEN_BY = 3, 5
"""Exponents from which the next one is foreseen, and the number of the last that tell it."""
FORESEEN_LEAST = 0.4
"""Share of the particles to be left that a foreseen exponent must leave."""


def normalise(log_weights: Array) -> Array:
    """Weights that sum to one, (N,); all zero where every log-weight is -inf."""
    top = log_weights.max()
    if top == -np.inf:
        return np.zeros_like(log_weights)
    weights = np.exp(log_weights - top)
    return weights / weights.sum()


def log_mean_exp(log_weights: Array) -> Array:
    """Log of the mean of exp(log_weights) over the last axis; -inf where all are."""
    return ess_and_log_mean(log_weights)[1]


def effective_sample_size(log_weights: Array) -> Array:
    """(sum w)^2 / sum w^2 over the last axis (PN-SMC eq. 22); 0 where every weight is zero."""
    return ess_and_log_mean(log_weights)[0]


def ess_and_log_mean(log_weights: Array) -> tuple[Array, Array]:
    """`effective_sample_size` and `log_mean_exp`, with one exponential for both.

    Compiled, as they are for one sample of a stream (`smcpn.codegen.stream_step`).
    """
    shape = log_weights.shape
    ess, log_mean = weigh(log_weights.reshape(-1, shape[-1]))
    return ess.reshape(shape[:-1])[()], log_mean.reshape(shape[:-1])[()]


FEW_DISTINCT = 0.5
"""Share of the effective sample size, left where copies count once, of a crowded population."""


def distinct_sample_size(theta: Array, log_weights: Array) -> float:
    """`effective_sample_size` of (n, d) and (n,), where copies of a particle count as one."""
    # Copies have the same bits: sorting one hash of each takes a tenth of sorting rows.
    odd = np.random.default_rng(0).integers(1 << 63, size=theta.shape[1], dtype=np.uint64) * 2 + 1
    bits = np.ascontiguousarray(theta).view(np.uint64)
    _, number = np.unique((bits * odd).sum(axis=1), return_inverse=True)
    weights = np.bincount(number, weights=normalise(log_weights))
    return float(1.0 / np.square(weights).sum()) if weights.any() else 0.0


def accumulated(log_weights: Array, increments: Array) -> Array:
    """Log-weights (N,) before and after each of some increments (n, N), shape (n + 1, N).

    Added in the order of time, row by row: rounding does not depend on the blocks they come in.
    `numpy.add.accumulate` adds the same column by column, which takes some thirty times as long.
    """
    weights = np.empty((len(increments) + 1, len(log_weights)))
    weights[0] = log_weights
    for before, increment, after in zip(weights[:-1], increments, weights[1:], strict=True):
        np.add(before, increment, out=after)
    return weights


@dataclass(frozen=True)
class ParticleSystem(Stored):
    """N weighted parameter vectors with all that depends on them.

    theta: (N, d), parameters in unconstrained coordinates.
    log_weights: (N,), unnormalised log importance weights.
    log_prior: (N,), log prior density of theta, log-Jacobian included; on a path that begins at
        another density, that one's until the end.
    log_likelihood: (N,), of the samples that are assimilated whole.
    log_increment: (N,), log p(y_t | y_<t, theta) of the sample that is being assimilated in parts;
        0 otherwise.
    state: (k, N), solver state at the last of these samples.
    ancestor: (N,), index of the ancestor at the start of the run.
    lineage: (N,), index of the ancestor when the evidence was last estimated independently of the
        ancestry.
    keys: (N, B), of the random numbers with which the likelihood is estimated; B = 0 where it is
        exact.
    """

    theta: Annotated[Array, finite("N", "d")]
    log_weights: Annotated[Array, log_densities("N")]
    log_prior: Annotated[Array, log_densities("N")]
    log_likelihood: Annotated[Array, log_densities("N")]
    log_increment: Annotated[Array, log_densities("N")]
    state: Annotated[Array, any_number(None, "N")]
    ancestor: Annotated[NDArray[np.int64], counts("N", below="N")]
    lineage: Annotated[NDArray[np.int64], counts("N", below="N")]
    keys: Annotated[Keys, ArraySchema("u8", ("N", None), Bounds(0))] = field(
        default_factory=lambda: NO_KEYS
    )

    def __post_init__(self) -> None:
        if self.keys is NO_KEYS:
            object.__setattr__(self, "keys", np.empty((len(self.theta), 0), dtype=np.uint64))

    def __len__(self) -> int:
        return len(self.theta)

    @classmethod
    def of(
        cls,
        theta: Array,
        log_prior: Array,
        log_likelihood: Array,
        log_increment: Array,
        state: Array,
        keys: Keys,
    ) -> ParticleSystem:
        """Particles of weight one, without ancestors."""
        n = len(theta)
        nothing = np.zeros(n, dtype=np.int64)
        return cls(
            theta, np.zeros(n), log_prior, log_likelihood, log_increment, state, nothing, nothing,
            keys if keys.shape[1] else NO_KEYS,
        )  # fmt: skip

    @property
    def weights(self) -> Array:
        """Normalised weights, (N,)."""
        return normalise(self.log_weights)

    @property
    def ess(self) -> float:
        """Effective sample size."""
        return float(effective_sample_size(self.log_weights))

    @property
    def distinct(self) -> float:
        """Effective sample size, copies of a particle counted as one."""
        return distinct_sample_size(self.theta, self.log_weights)

    @property
    def crowded(self) -> bool:
        """True if less than `FEW_DISTINCT` of it is left where copies count once."""
        return self.distinct < FEW_DISTINCT * self.ess

    def take(self, index: Any) -> ParticleSystem:
        """Select particles by index, slice or mask, in that order."""
        columns = vars(self).items()
        return ParticleSystem(
            **{name: of[:, index] if name == "state" else of[index] for name, of in columns}
        )

    @staticmethod
    def concatenate(systems: Sequence[ParticleSystem]) -> ParticleSystem:
        """All particles of several systems, in order."""
        columns = {name: [vars(one)[name] for one in systems] for name in vars(systems[0])}
        return ParticleSystem(
            **{name: np.concatenate(of, axis=int(name == "state")) for name, of in columns.items()}
        )

    def where(self, mask: NDArray[np.bool_], other: ParticleSystem) -> ParticleSystem:
        """Particles of ``other`` where ``mask`` holds; weights and ancestry stay with the place."""
        return replace(
            self,
            theta=np.where(mask[:, None], other.theta, self.theta),
            log_prior=np.where(mask, other.log_prior, self.log_prior),
            log_likelihood=np.where(mask, other.log_likelihood, self.log_likelihood),
            log_increment=np.where(mask, other.log_increment, self.log_increment),
            state=np.where(mask, other.state, self.state),
            keys=np.where(mask[:, None], other.keys, self.keys),
        )


class Start(Protocol):
    """A normalised density of unconstrained coordinates: the prior, or one near the posterior."""

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` vectors, (size, d)."""
        ...

    def log_density(self, theta: Array) -> Array:
        """Log density at (n, d), shape (n,)."""
        ...


@runtime_checkable
class DifferentiableStart(Start, Protocol):
    """A density to begin at whose logarithm has a gradient."""

    def gradient(self, theta: Array) -> Array:
        """Gradient of the log density at (n, d), (n, d)."""
        ...


@runtime_checkable
class MixedStart(Start, Protocol):
    """One that is a mixture, of whose draws each component has its share."""

    def memberships(self, theta: Array) -> Array:
        """Probability of each of K components given (n, d), shape (K, n)."""
        ...


@dataclass(frozen=True)
class Target:
    """prior x p(y_<t | theta) x p(y_t | y_<t, theta)^exponent, in unconstrained coordinates.

    Where the likelihood is an estimate, with keys u of its random numbers, this is a density over
    (theta, u) times that of the keys, which are independent and uniform. At exponent 1 its marginal
    over theta is the exact posterior, for the mean of the estimate over u is p(y | theta).

    sample: Number t of samples assimilated whole.
    exponent: Power of the likelihood increment of sample t, 0 to 1.
    """

    prior: Prior
    likelihood: Likelihood
    sample: int
    exponent: float

    @property
    def n_samples(self) -> int:
        """Samples whose likelihood an evaluation computes."""
        return self.sample + 1

    @property
    def state_particles(self) -> int:
        """Number of state particles of an estimate; 0 for an exact likelihood."""
        return self.likelihood.state_particles

    @property
    def gradient_cost(self) -> float:
        """Evaluations that a gradient costs."""
        return derivatives(self.likelihood).gradient_cost

    def with_estimate(self, likelihood: Likelihood) -> Target:
        """The target with another estimate of the same likelihood."""
        return replace(self, likelihood=likelihood)

    def particles(self, theta: Array, keys: Keys = NO_KEYS) -> ParticleSystem:
        """Run the solver up to sample t for parameters (n, d); return them with weight one."""
        values, likelihood, t = self.prior.natural(theta), self.likelihood, self.sample
        state, log_likelihood = likelihood.accumulate(values, None, 0, t, keys)
        state, increments = likelihood.advance(values, state, t, t + 1, keys)
        return ParticleSystem.of(
            theta,
            self.prior.log_density(theta),
            finite_or_excluded(log_likelihood),
            finite_or_excluded(increments[0]),
            state,
            keys,
        )

    def log_density(self, system: ParticleSystem) -> Array:
        """Unnormalised log density of the particles, (N,)."""
        return (
            system.log_prior + system.log_likelihood + tempered(system.log_increment, self.exponent)
        )

    def gradient(self, theta: Array) -> Array:
        """Gradient of the log density at (n, d), (n, d); not finite where a solution diverged.

        Raises `InputError` where the target has none.
        """
        raise InputError(
            "moves follow a gradient, which there is of the likelihood of a whole record only: "
            "choose method='tempering' or 'auto', or moves='independent'",
            argument="moves",
        )


@dataclass(frozen=True)
class RecordTarget(Target):
    """start x (prior x p(y_0, ..., y_T-1 | theta) / start)^exponent, over a whole record.

    From the prior that is prior x p(y | theta)^exponent. From another start the ratio of the
    normalisers at exponents 1 and 0 is the evidence all the same, for start is normalised.

    start: The density at exponent 0; the prior, where there is none.
    """

    start: Start | None = None

    @property
    def n_samples(self) -> int:
        """Samples whose likelihood an evaluation computes."""
        return self.likelihood.n_samples

    def particles(self, theta: Array, keys: Keys = NO_KEYS) -> ParticleSystem:
        """Run the solver over the record for parameters (n, d); return them with weight one."""
        values, n = self.prior.natural(theta), self.n_samples
        state, log_likelihood = self.likelihood.evaluate(values, n, keys)
        begin, log_increment = self.parts(theta, log_likelihood)
        nothing = np.zeros(len(theta))
        return ParticleSystem.of(theta, begin, nothing, log_increment, state, keys)

    def parts(self, theta: Array, log_likelihood: Array) -> tuple[Array, Array]:
        """Log density at exponent 0, and what is log_increment, of parameters (n, d)."""
        log_prior = self.prior.log_density(theta)
        if self.start is None:
            return log_prior, finite_or_excluded(log_likelihood)
        begin = self.start.log_density(theta)
        return begin, finite_or_excluded(log_likelihood + log_prior - begin)

    @override
    def gradient(self, theta: Array) -> Array:
        slope, prior = log_likelihood_gradient(self.prior, self.likelihood, theta)
        if self.start is None:
            return prior + self.exponent * slope
        begin = _differentiable(self.start).gradient(theta)
        return (1.0 - self.exponent) * begin + self.exponent * (slope + prior)


@dataclass(frozen=True)
class RefinementTarget(Target):
    """prior x (L_n + floor)^(1 - exponent) x L_m^exponent, from a likelihood to a finer one.

    Both are of the samples that are assimilated, p(y_<t | theta). A particle is excluded where
    either of them is zero: with a floor above zero the coarser one excludes none.

    finer: L_m; ``likelihood`` is L_n.
    log_floor: Logarithm of the constant that is added to L_n; of zero, by default.
    """

    likelihood: Likelihood
    finer: Likelihood
    log_floor: float = -np.inf

    @property
    def n_samples(self) -> int:
        """Samples whose likelihood an evaluation computes, of both."""
        return 2 * self.sample

    @property
    @override
    def state_particles(self) -> int:
        return self.finer.state_particles

    @override
    def with_estimate(self, likelihood: Likelihood) -> Target:
        return replace(self, finer=likelihood)

    def particles(self, theta: Array, keys: Keys = NO_KEYS) -> ParticleSystem:
        """Run both solvers up to sample t for parameters (n, d); return them with weight one."""
        values = self.prior.natural(theta)
        coarse = self.floored(self.likelihood.evaluate(values, self.sample)[1])
        state, finer = self.finer.evaluate(values, self.sample, keys)
        log_prior, change = self.prior.log_density(theta), log_ratio(finer, coarse)
        return ParticleSystem.of(theta, log_prior, coarse, change, state, keys)

    def floored(self, log_likelihood: Array) -> Array:
        """Log of L_n + floor."""
        return np.logaddexp(finite_or_excluded(log_likelihood), self.log_floor)

    def gradient(self, theta: Array) -> Array:
        """Gradients of likelihoods of whole records, without a floor."""
        if self.sample < self.likelihood.n_samples or self.log_floor > -np.inf:
            return super().gradient(theta)
        coarse, prior = log_likelihood_gradient(self.prior, self.likelihood, theta)
        finer, _ = log_likelihood_gradient(self.prior, self.finer, theta)
        return prior + (1.0 - self.exponent) * coarse + self.exponent * finer


def derivatives(likelihood: Likelihood) -> Derivatives:
    """Return a likelihood with its gradient, which it has to have.

    Raises `InputError` if it has none.
    """
    if likelihood.derivatives is None:
        raise InputError(
            "moves follow a gradient, and the likelihood has none: choose moves='independent', "
            "'random-walk' or 'waste-free'",
            argument="moves",
        )
    return likelihood.derivatives()


def log_likelihood_gradient(
    prior: Prior, likelihood: Likelihood, theta: Array
) -> tuple[Array, Array]:
    """Gradients of log-likelihood and log prior density by theta, (n, d) of (n, d) both."""
    with np.errstate(all="ignore"):
        slope = derivatives(likelihood).value_and_gradient(prior.natural(theta))[1]
        return slope * prior.slopes(theta)[0], prior.gradient(theta)


def _differentiable(start: Start) -> DifferentiableStart:
    if not isinstance(start, DifferentiableStart):
        raise InputError(f"start is a {type(start).__name__}, which has no gradient: leave it out")
    return start


def log_ratio(finer: Array, coarse: Array) -> Array:
    """Log of the ratio of two likelihoods; -inf, excluded, where either solution diverged."""
    with np.errstate(invalid="ignore"):
        return finite_or_excluded(finer - coarse)


def finite_or_excluded(log_density: Array) -> Array:
    """Return -inf, probability zero, where a solution diverged (NaN, inf)."""
    return np.where(np.isfinite(log_density), log_density, -np.inf)


def tempered(log_density: Array, exponent: float) -> Array:
    """``exponent * log_density``, where excluded stays excluded at any exponent."""
    excluded = log_density == -np.inf
    return np.where(excluded, -np.inf, exponent * np.where(excluded, 0.0, log_density))


def next_exponent(
    log_weights: Array, log_increment: Array, exponent: float, threshold: float
) -> tuple[float, Array]:
    """Return the largest exponent at which the weights keep an effective sample size.

    The weights are W x p(y_t | y_<t, theta)^(exponent - previous): so one informative sample is
    assimilated in parts, with a rejuvenation after each, and never leaves a single particle.

    ``threshold`` is the effective sample size to keep. Returned are the exponent and the weights
    there. It is 1 if the rest can be assimilated at once, and otherwise found by bisection on the
    ESS of the *cumulative* weights. It may stay where it is when leaving out the diverged particles
    already takes the ESS below the threshold.

    References
    ----------
    Del Moral, P., Doucet, A., Jasra, A. (2012). An adaptive sequential Monte Carlo method for
    approximate Bayesian computation. Statistics and Computing 22 (bisection on the ESS).
    """

    def weights_at(value: float) -> Array:
        return log_weights + tempered(log_increment, value - exponent)

    if effective_sample_size(weights_at(1.0)) >= WHOLE * threshold:
        return 1.0, weights_at(1.0)
    low, high = exponent, 1.0
    for _ in range(BISECTIONS):
        if high - low <= PRECISION * (low - exponent):
            break
        middle = 0.5 * (low + high)
        if effective_sample_size(weights_at(middle)) < threshold:
            high = middle
        else:
            low = middle
    excludes = np.isfinite(log_weights) & (log_increment == -np.inf)
    if low == exponent and not excludes.any():
        low = high
    return low, weights_at(low)


def foreseen_exponent(
    log_weights: Array,
    log_increment: Array,
    path: Sequence[tuple[float, float]],
    share: float,
) -> tuple[float, Array] | None:
    """As `next_exponent`, foreseen from the exponents before and not from these particles.

    An exponent that the particles themselves choose is smaller where they happen to have large
    weights, and larger where they lack them, so that over a long path the log-evidence comes out
    too low. With steps h_k that left a share s_k effective, and log s ~ -h^2, the next one is
    h_k (log share / log s_k)^(1/2), extrapolated along the last few.

    ``path`` has the exponents so far, the last one in force, with the share of particles that each
    left effective; ``share`` is the one to be left. None where the path is too short, or too few of
    these particles would be left.
    """
    if len(path) < FORESEEN_FROM:
        return None
    exponents = np.array([0.0, *(exponent for exponent, _ in path)])
    shares = np.clip([left for _, left in path], 0.01, 0.99)
    steps = np.log(np.diff(exponents)) + 0.5 * np.log(np.log(share) / np.log(shares))
    last = steps[-FORESEEN_BY:]
    slope, level = np.polyfit(np.arange(len(last)), last, 1)
    step = float(np.exp(np.clip(level + slope * len(last), last[-1] - 0.7, last[-1] + 0.7)))
    exponent = min(1.0, path[-1][0] + step)
    weights = log_weights + tempered(log_increment, exponent - path[-1][0])
    if effective_sample_size(weights) < FORESEEN_LEAST * share * len(weights):
        return None
    return exponent, weights
