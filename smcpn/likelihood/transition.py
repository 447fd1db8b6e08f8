"""A solver step of a model with process noise as a Gaussian transition, in expression graphs.

Over a step of length h from the time t

    x+ = Phi(x) + L z,    z ~ N(0, I),

Phi being the step of the solver and L the factor of `model.process_noise.step_factor`, the same
for all likelihoods of such a model. A filter needs the exact Jacobian F = dPhi/dx besides, and adds
the variance that the solver claims for its own error, where it claims one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import casadi as ca

from smcpn.codegen.tangent import jacobian
from smcpn.likelihood.classical import Step
from smcpn.likelihood.predictor import PredictorStep
from smcpn.model.problem import Model
from smcpn.model.process_noise import step_factor
from smcpn.solver import EKF0, Solver


@dataclass(frozen=True)
class Transition:
    """Graphs of one step over ``model.x``, ``model.theta`` and the rows of ``step``.

    Attributes
    ----------
    step : Step
        Whose ``h``, ``t`` and ``inputs`` are the symbols of the shared rows.
    following : casadi.SX, (n, 1)
        Phi(x).
    jacobian : casadi.SX, (n, n)
        F = dPhi/dx, sparse.
    factor : casadi.SX, (n, k)
        L; k = 0 without process noise.
    error_variance : casadi.SX, (n, 1)
        Variance of each state that the solver claims for its error, 0 where it claims none.
    error_order : int
        Power of h with which the step's `local_error` falls.
    """

    step: Step
    following: ca.SX
    jacobian: ca.SX
    factor: ca.SX
    error_variance: ca.SX
    error_order: int

    @classmethod
    def of(cls, model: Model, solver: Solver) -> Transition:
        """The graphs of a solver's step, made once for a model."""
        order = cast(EKF0, solver).order if solver.probabilistic else None
        known, key = model.kernels, ("transition", type(solver), order)
        if key not in known:
            known[key] = cls._made(model, solver, order)
        return known[key]

    @classmethod
    def _made(cls, model: Model, solver: Solver, order: int | None) -> Transition:
        n = model.x.numel()
        error, factor = ca.SX(n, 1), ca.SX(n, 0)
        if order is not None:
            step = PredictorStep.of(model, order)
            error, error_order = step.error_variance, order + 1
        else:
            step = solver.step.of(model)
            error_order = step.error_order
        if model.process_noise is not None:
            middle = step.t + step.h / 2
            factor = step_factor(model, step.h, u=step.inputs[1], t=middle)
        following = step.following
        slopes = jacobian(following, model.x)
        return cls(step, following, slopes, factor, error, error_order)
