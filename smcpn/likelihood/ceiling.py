"""The highest value that a likelihood can have, whatever the parameters."""

from __future__ import annotations

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.build import LIKELIHOODS
from smcpn.problem import Problem

Array = NDArray[np.float64]

ROUNDING = 1e-9
"""Share by which a value may be beyond what is possible."""


class Ceiling:
    """What the densities of all measurements are at their densest.

    Given the state, a measurement is no likelier than where its noise is densest. A solution that
    explodes, or a diffusion next to nothing, leaves large numbers whose difference is rounding, and
    may be beyond. Only Gaussian noise has a ceiling here.

    Parameters
    ----------
    problem : Problem
    likelihood : str
    """

    def __init__(self, problem: Problem, likelihood: str) -> None:
        model = problem.model
        self._highest: ca.Function | None = None
        if model.density is not None:
            return
        seen = sum(np.isfinite(record.y).sum(axis=0) for record in problem.records)
        variance = ca.substitute(
            model.noise_variance, model.constants, ca.DM(model.constant_values)
        )
        densest = LIKELIHOODS[likelihood].excess - 0.5 * ca.log(2.0 * np.pi * variance)
        self._highest = ca.Function("ceiling", [model.theta], [ca.dot(ca.DM(seen), densest)])

    def admits(self, values: Array, total: Array) -> NDArray[np.bool_]:
        """Whether log-likelihoods (N,) at values (N, d) can be those of a likelihood."""
        if self._highest is None:
            return np.isfinite(total)
        highest = np.array(self._highest(values.T)).ravel()
        return np.isfinite(total) & (total <= highest + ROUNDING * (1.0 + np.abs(highest)))
