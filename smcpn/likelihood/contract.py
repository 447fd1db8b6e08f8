"""What a sequential sampler needs from a likelihood."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Likelihood(Protocol):
    """p(y_0, ..., y_{T-1} | theta) as a recursion over samples, for N parameters at once.

    ``values`` are parameter values (not unconstrained coordinates), (N, d). A state is an array
    with the particles on its last axis, (k, N); k may be 0.

    The sum of the increments over ``[0, b)`` equals ``browse(values, b)`` to rounding, whatever
    the blocks. A NaN or infinite increment marks a particle whose solution diverged.
    """

    @property
    def n_samples(self) -> int:
        """Number of samples T."""
        ...

    def start(self, values: Array) -> Array:
        """State before the first sample, (k, N)."""
        ...

    def advance(self, values: Array, state: Array, a: int, b: int) -> tuple[Array, Array]:
        """State after sample b - 1 and the increments of samples [a, b), (b - a, N)."""
        ...

    def evaluate(self, values: Array, b: int) -> tuple[Array, Array]:
        """State after sample b - 1 and the log-likelihood of samples [0, b), (N,)."""
        ...


class DiffusedLikelihood(Likelihood, Protocol):
    """A likelihood whose solver has a diffusion that can be raised without compiling anew."""

    def at_diffusion(self, factor: float) -> Likelihood:
        """The same likelihood with the standard deviation of the diffusion times ``factor``."""
        ...
