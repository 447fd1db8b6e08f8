"""A compiled likelihood together with its gradient, for samplers that follow it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.lanes import LaneLikelihood
from smcpn.model.problem import Problem
from smcpn.solver import Solver

Array = NDArray[np.float64]

MOST_BYTES = 2**26
"""Memory of the directions along which one call takes derivatives."""


@dataclass(frozen=True)
class DifferentiableLanes:
    """A likelihood of many particles at once, with its gradient by their parameters.

    Values do not depend on whether a gradient is taken too, to the last bit. The kernel with
    derivatives is compiled at the first gradient.
    """

    lanes: LaneLikelihood
    problem: Problem
    name: str
    solver: Solver
    threads: int | None = None

    @property
    def n_samples(self) -> int:
        """See `Likelihood.n_samples`."""
        return self.lanes.n_samples

    @property
    def n_steps(self) -> int:
        """See `LaneLikelihood.n_steps`."""
        return self.lanes.n_steps

    def start(self, values: Array) -> Array:
        """See `Likelihood.start`."""
        return self.lanes.start(values)

    def advance(self, values: Array, state: Array, a: int, b: int) -> tuple[Array, Array]:
        """See `Likelihood.advance`."""
        return self.lanes.advance(values, state, a, b)

    def evaluate(self, values: Array, b: int) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        return self.lanes.evaluate(values, b)

    def gradient(self, values: Array) -> Array:
        """See `DifferentiableLikelihood.gradient`."""
        (n, d), function = values.shape, self._log_likelihood
        size = n if function.reverses else max(1, MOST_BYTES // (16 * d * d))
        parts = [function.value_and_gradient(values[k : k + size])[1] for k in range(0, n, size)]
        return np.concatenate(parts)

    def gradient_cost(self) -> float:
        """See `DifferentiableLikelihood.gradient_cost`."""
        return self._log_likelihood.gradient_cost

    @cached_property
    def _log_likelihood(self) -> LogLikelihood:
        return LogLikelihood(self.problem, self.name, self.solver, self.threads)
