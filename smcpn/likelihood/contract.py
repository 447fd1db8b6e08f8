"""Protocols of a likelihood as sequential samplers evaluate it, exact or estimated without bias."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Keys = NDArray[np.uint64]


class Likelihood(Protocol):
    """p(y_0, ..., y_{T-1} | theta) as a recursion over samples, for N parameters at once.

    The state s_k is all that the samples to come depend on besides theta: where a solver is, and
    how uncertain. With s_{-1} = `start`, `advance` computes sample after sample

        s_k = F_k(s_{k-1}, theta),    l_k = log p(y_k | y_0, ..., y_{k-1}, theta),

    and `evaluate` the sum log p(y_0, ..., y_{b-1} | theta) = l_0 + ... + l_{b-1}, equal to that
    of the increments of `advance` to rounding, whatever the blocks. A NaN or infinite increment
    marks a particle whose solution diverged.

    ``values`` are parameter values in natural coordinates, (N, d). A state is an array with the
    particles on its last axis, (k, N); k may be 0.
    """

    @property
    def n_samples(self) -> int:
        """Number of samples T."""
        ...

    def start(self, values: Array) -> Array:
        """State before the first sample, (k, N)."""
        ...

    def advance(self, values: Array, state: Array, a: int, b: int) -> tuple[Array, Array]:
        """State s_{b-1} from s_{a-1}, and the increments l_a, ..., l_{b-1}, (b - a, N)."""
        ...

    def evaluate(self, values: Array, b: int) -> tuple[Array, Array]:
        """State s_{b-1} and log p(y_0, ..., y_{b-1} | theta), (N,)."""
        ...


@runtime_checkable
class DifferentiableLikelihood(Likelihood, Protocol):
    """A likelihood whose logarithm, over all samples, has a gradient."""

    def gradient(self, values: Array) -> Array:
        """Derivatives of log p(y_0, ..., y_{T-1} | theta) by ``values``, (N, d).

        They are not finite where the solution diverged.
        """
        ...

    def gradient_cost(self) -> float:
        """Evaluations that a gradient costs, the same number on every machine."""
        ...


class DiffusedLikelihood(Likelihood, Protocol):
    """A likelihood whose solver has a diffusion that can be raised without compiling anew."""

    def at_diffusion(self, factor: float) -> Likelihood:
        """Copy with the standard deviation of the diffusion times ``factor``."""
        ...


@runtime_checkable
class EstimatedLikelihood(Protocol):
    """p(y | theta) estimated without bias by a particle filter of the states, one for each theta.

    A filter *is* its theta and one 64-bit key for each block of samples, from which all of its
    random numbers come: the same arguments give the same bytes, for any threads, and in whatever
    company a theta is evaluated. With independent uniform keys u, E_u Z(theta, u) = p(y | theta).
    So a sampler over (theta, u) that targets p(theta) Z(theta, u) has the exact posterior as its
    marginal, for any number of state particles (Andrieu and Roberts 2009).

    ``values`` are parameter values in natural coordinates, (N, d); ``keys`` are (N, B) or wider,
    B = `n_keys` of the samples in question, and no key is used by two blocks. An estimate of zero
    (-inf), or NaN, excludes a theta.

    References
    ----------
    Andrieu, C., Roberts, G. O. (2009). The pseudo-marginal approach for efficient Monte Carlo
    computations. Annals of Statistics 37. Chopin, N., Jacob, P. E., Papaspiliopoulos, O. (2013).
    SMC^2. JRSS B 75.
    """

    @property
    def n_samples(self) -> int:
        """Number of samples T."""
        ...

    @property
    def n_steps(self) -> int:
        """Solver steps over all records, of one state particle."""
        ...

    @property
    def state_particles(self) -> int:
        """Number of state particles N_x of each filter."""
        ...

    def with_state_particles(self, number: int) -> EstimatedLikelihood:
        """Copy with another number of state particles, by the same compiled code."""
        ...

    @property
    def look_ahead(self) -> bool:
        """True if `estimate` looks ahead where it can."""
        ...

    def with_look_ahead(self, look_ahead: bool) -> EstimatedLikelihood:
        """Copy with filters that look ahead, or do not."""
        ...

    def suited(self, values: Array) -> EstimatedLikelihood:
        """Copy with the filters that estimate better at some thetas, (m, d)."""
        ...

    def n_keys(self, b: int) -> int:
        """Number of blocks of the first b samples: keys that their filter needs."""
        ...

    def estimate(self, values: Array, keys: Keys, b: int) -> Array:
        """Log of the estimate of p(y_0, ..., y_{b-1} | theta), (N,).

        The filter may look ahead as far as sample b - 1: the estimate of fewer samples is none of
        its parts.
        """
        ...

    def guided(self, values: Array, b: int) -> NDArray[np.bool_]:
        """True where `estimate` looks ahead at a theta, (N,); else it is a bootstrap filter."""
        ...

    def start(self, values: Array) -> Array:
        """State before the first sample, (k, N)."""
        ...

    def advance_keyed(
        self, values: Array, keys: Keys, state: Array, a: int, b: int
    ) -> tuple[Array, Array]:
        """State after sample b - 1 from that before sample a, and log increments, (b - a, N).

        The exponential of the sum of the increments l_0, ..., l_{b-1} is an unbiased estimate at
        every sample b, and the same whatever the blocks in which it is computed: where a filter
        looks ahead here, it is not beyond its block of samples.
        """
        ...
