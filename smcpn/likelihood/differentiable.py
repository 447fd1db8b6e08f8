"""A compiled likelihood together with its gradient, for samplers that follow it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.derivatives import at_home
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.lanes import LaneLikelihood
from smcpn.model.problem import Problem
from smcpn.solver import Solver

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DifferentiableLanes:
    """A likelihood of many particles at once, with its gradient by their parameters.

    Values do not depend on whether a gradient is taken too, to the last bit. The kernel with
    derivatives is compiled at the first gradient, and evaluated as `LogLikelihood.evaluated` says.
    """

    lanes: LaneLikelihood
    problem: Problem
    name: str
    solver: Solver
    threads: int | None = None
    where: Callable[[Any], Any] = at_home

    @property
    def n_samples(self) -> int:
        """Number of samples T."""
        return self.lanes.n_samples

    @property
    def n_steps(self) -> int:
        """Solver steps of all samples."""
        return self.lanes.n_steps

    def start(self, values: Array) -> Array:
        """State before the first sample, (k, N)."""
        return self.lanes.start(values)

    def advance(self, values: Array, state: Array, a: int, b: int) -> tuple[Array, Array]:
        """State s_{b-1} from s_{a-1}, and the increments l_a, ..., l_{b-1}, (b - a, N)."""
        return self.lanes.advance(values, state, a, b)

    def evaluate(self, values: Array, b: int) -> tuple[Array, Array]:
        """State s_{b-1} and log p(y_0, ..., y_{b-1} | theta), (N,)."""
        return self.lanes.evaluate(values, b)

    def gradient(self, values: Array) -> Array:
        """Derivatives of log p(y_0, ..., y_{T-1} | theta) by ``values``, (N, d)."""
        return self._log_likelihood.value_and_gradient(values)[1]

    def gradient_cost(self) -> float:
        """Evaluations that a gradient costs, the same number on every machine."""
        return self._log_likelihood.gradient_cost

    @cached_property
    def _log_likelihood(self) -> LogLikelihood:
        function = LogLikelihood(self.problem, self.name, self.solver, self.threads)
        return function.evaluated(self.where)
