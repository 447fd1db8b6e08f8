"""The contract of a likelihood as samplers evaluate it, exact or estimated without bias.

A `LikelihoodView` has its first samples, some of the columns, or is a power of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeIs, override

from smcpn.likelihood.inputs import CHUNK

Array = NDArray[np.float64]
Keys = NDArray[np.uint64]

NO_KEYS: Keys = np.empty((0, 0), dtype=np.uint64)
"""Those of an exact likelihood."""


class Derivatives(Protocol):
    """The logarithm of a likelihood over all samples with its gradient, for many points at once."""

    def value_and_gradient(self, values: Array, /) -> tuple[Array, Array]:
        """Log-likelihood (N,) and derivatives (N, d) at ``values``, not finite if diverged."""
        ...

    @property
    def gradient_cost(self) -> float:
        """Evaluations that a gradient costs, the same number on every machine."""
        ...


class Likelihood(Protocol):
    """p(y_0, ..., y_{T-1} | theta) as a recursion over samples, for N points at once.

    A point is theta and keys u, the seeds of the random numbers of an estimate; an exact likelihood
    has none. The state s_k is all that the samples to come depend on besides the point: where a
    solver is, and how uncertain. With s_{-1} = `start`, `advance` computes sample after sample

        s_k = F_k(s_{k-1}, theta, u),    l_k = log p(y_k | y_0, ..., y_{k-1}, theta),

    and `accumulate` the sum of the increments, equal to rounding, whatever the blocks. A NaN or
    infinite increment marks a point whose solution diverged.

    ``values`` are parameter values in natural coordinates, (N, d); ``keys`` are (N, B) or wider,
    B = `n_keys` of the samples in question, and no key is used by two blocks of samples. A state is
    an array with the points on its last axis, (k, N); k may be 0.

    Attributes
    ----------
    n_samples : int
        Number of samples T.
    state_particles : int
        Number of state particles N_x of each filter of an estimate; 0 of an exact likelihood.
    look_ahead : bool
        Whether `evaluate` looks ahead where it can.
    derivatives : callable or None
        Makes or returns the likelihood with its gradient, where there is one.
    """

    n_samples: int
    state_particles: int = 0
    look_ahead: bool = False
    derivatives: Callable[[], Derivatives] | None = None

    def n_keys(self, b: int) -> int:
        """Number of keys that a point needs for the first b samples."""
        return 0

    def start(self, values: Array) -> Array:
        """State before the first sample, (k, N)."""
        ...

    def advance(
        self, values: Array, state: Array, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        """State s_{b-1} from s_{a-1}, and the increments l_a, ..., l_{b-1}, (b - a, N).

        The exponential of the sum of the increments of an estimate is unbiased at every sample, and
        the same whatever the blocks in which it is computed.
        """
        ...

    def accumulate(
        self, values: Array, state: Array | None, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        """State s_{b-1} from s_{a-1}, None for the start, and l_a + ... + l_{b-1}, (N,).

        Added in the order of time, so that it does not depend on how many are in memory.
        """
        state, total = self.start(values) if state is None else state, np.zeros(len(values))
        for begin in range(a, b, CHUNK):
            end = min(begin + CHUNK, b)
            state, increments = self.advance(values, state, begin, end, keys)
            total = np.add.reduce(np.vstack([total, increments]))
        return state, total

    def evaluate(self, values: Array, b: int, keys: Keys = NO_KEYS) -> tuple[Array, Array]:
        """State s_{b-1} and log p(y_0, ..., y_{b-1} | theta), (N,).

        The filter of an estimate may look ahead as far as sample b - 1: the estimate of fewer
        samples is none of its parts, and it leaves no state.
        """
        return self.accumulate(values, None, 0, b, keys)


class EstimatedLikelihood(Likelihood, Protocol):
    """p(y | theta) estimated without bias by a particle filter of the states, one for each theta.

    A filter *is* its theta and one 64-bit key for each block of samples, from which all of its
    random numbers come: the same arguments give the same bytes, for any threads, and in whatever
    company a theta is evaluated. With independent uniform keys u, E_u Z(theta, u) = p(y | theta).
    So a sampler over (theta, u) that targets p(theta) Z(theta, u) has the exact posterior as its
    marginal, for any number of state particles (Andrieu and Roberts 2009). An estimate of zero
    (-inf), or NaN, excludes a theta.

    References
    ----------
    Andrieu, C., Roberts, G. O. (2009). The pseudo-marginal approach for efficient Monte Carlo
    computations. Annals of Statistics 37. Chopin, N., Jacob, P. E., Papaspiliopoulos, O. (2013).
    SMC^2. JRSS B 75.
    """

    @property
    def n_steps(self) -> int:
        """Solver steps over all records, of one state particle."""
        ...

    def with_state_particles(self, number: int) -> EstimatedLikelihood:
        """Copy with another number of state particles, by the same compiled code."""
        ...

    def with_look_ahead(self, look_ahead: bool) -> EstimatedLikelihood:
        """Copy with filters that look ahead, or do not."""
        ...

    def suited(self, values: Array) -> EstimatedLikelihood:
        """Copy with the filters that estimate better at some thetas, (m, d)."""
        ...

    def guided(self, values: Array, b: int) -> NDArray[np.bool_]:
        """True where `evaluate` looks ahead at a theta, (N,); else it is a bootstrap filter."""
        ...


class DiffusedLikelihood(Likelihood, Protocol):
    """A likelihood whose solver has a diffusion that can be raised without compiling anew."""

    def at_diffusion(self, factor: float) -> Likelihood:
        """Copy with the standard deviation of the diffusion times ``factor``."""
        ...


def is_estimated(likelihood: Likelihood) -> TypeIs[EstimatedLikelihood]:
    """True if a likelihood is an estimate, whose points have keys."""
    return likelihood.state_particles > 0


class LikelihoodView(Likelihood):
    """An exact likelihood as another one sees it: of fewer samples or columns, or to a power.

    Parameters
    ----------
    likelihood : Likelihood
    n_samples : int, optional
        First samples that there are; all, by default.
    power : float
        Factor on every log-density.
    unread : int
        Last columns of ``values`` that are no parameters of the likelihood.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        *,
        n_samples: int | None = None,
        power: float = 1.0,
        unread: int = 0,
    ) -> None:
        self._likelihood, self._power, self._unread = likelihood, power, unread
        self.n_samples = likelihood.n_samples if n_samples is None else n_samples

    @override
    def start(self, values: Array) -> Array:
        return self._likelihood.start(self._own(values))

    @override
    def advance(
        self, values: Array, state: Array, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        state, increments = self._likelihood.advance(self._own(values), state, a, b)
        return state, self._power * increments

    @override
    def accumulate(
        self, values: Array, state: Array | None, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        state, total = self._likelihood.accumulate(self._own(values), state, a, b)
        return state, self._power * total

    def _own(self, values: Array) -> Array:
        return np.ascontiguousarray(values[:, : values.shape[1] - self._unread])
