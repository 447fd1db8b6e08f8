"""Protocols of a likelihood as sequential samplers evaluate it: start, advance, evaluate."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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


class DiffusedLikelihood(Likelihood, Protocol):
    """A likelihood whose solver has a diffusion that can be raised without compiling anew."""

    def at_diffusion(self, factor: float) -> Likelihood:
        """The same likelihood with the standard deviation of the diffusion times ``factor``."""
        ...
