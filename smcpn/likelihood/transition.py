"""A solver step of a model with process noise as a Gaussian transition, in expression graphs.

Over a step of length h from the time t

    x+ = Phi(x) + L z,    z ~ N(0, I),

Phi being the step of the solver and L the factor of `model.process_noise.step_factor`, the same
for all likelihoods of such a model. A filter needs the exact Jacobian F = dPhi/dx besides, and adds
the variance that the solver claims for its own error, where it claims one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import factorial, sqrt
from typing import cast

import casadi as ca

from smcpn.codegen.tangent import jacobian
from smcpn.likelihood.classical import Step, step_along
from smcpn.likelihood.delayed import DelayLine
from smcpn.model.problem import Model
from smcpn.model.process_noise import step_factor
from smcpn.pn.iwp import process_noise_factor
from smcpn.pn.taylor import taylor_derivatives
from smcpn.solver import EKF0, Solver


@dataclass(frozen=True)
class PredictorStep(Step):
    """Graphs of a step of EKF0 from a state that is known.

    Where process noise acts the path is not smooth, and no derivative is carried over from the step
    before: the filter begins every step at the state, with the derivatives that the ODE gives it
    there and no covariance. In Nordsieck coordinates of order nu (`pn.iwp`), with unit noise Q of
    the prior,

        m = A m(x),  z = h f(m_0) - m_1,  x+ = m_0 + Q_01 / Q_11 z,

    and the diffusion z^2 / Q_11 that makes the residual most likely (Bosch, Hennig and Tronarp
    2021, eq. 20) leaves the variance z^2 (Q_00 - Q_01^2 / Q_11) / Q_11, of order h^(2 nu + 2).
    Order 1 is Heun's method (Schober, Duvenaud and Hennig 2014).

    The derivatives of the input are those of the parabola through its values at the begin, middle
    and end of a step: exact where the input is held or linear, and else off by O(h^4) in the state.

    Attributes
    ----------
    order : int
        Number of integrations of the prior, nu.
    """

    order: int = 1

    @property
    def following(self) -> ca.SX:
        """State at the end."""
        predicted, z = self._predicted
        value, rate = process_noise_factor(self.order)[:2]
        return predicted + float(value @ rate / (rate @ rate)) * z

    @property
    def error_variance(self) -> ca.SX:
        """Variance of each state that the step claims, (n, 1)."""
        return self.local_error() ** 2

    def local_error(self) -> ca.SX:
        """Standard deviation of each state that the step claims, with the residual's sign."""
        value, rate = process_noise_factor(self.order)[:2]
        ratio = value @ value / (rate @ rate) - (value @ rate / (rate @ rate)) ** 2
        return sqrt(float(ratio)) * self._predicted[1]

    @property
    def _predicted(self) -> tuple[ca.SX, ca.SX]:
        """Taylor's polynomial at the end of the step, and h times the residual of the ODE there."""
        model, h, (begin, middle, end) = self.model, self.h, self.inputs
        derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, self.order)
        slope = (4.0 * middle - 3.0 * begin - end) / h
        bend = 4.0 * (begin - 2.0 * middle + end) / h**2
        of_input = [slope, bend, *([ca.SX.zeros(*begin.shape)] * len(rates))][: len(rates)]
        symbols = ca.vertcat(model.u, model.t, *rates)
        terms = [
            h**j / factorial(j) * ca.substitute(d, symbols, ca.vertcat(begin, self.t, *of_input))
            for j, d in enumerate(derivatives)
        ]
        value = sum(terms, ca.SX.zeros(model.x.numel(), 1))
        slope_there = sum((j * term for j, term in enumerate(terms)), ca.SX.zeros(*value.shape))
        return value, h * self.rate(value, end, self.t + h) - slope_there


@dataclass(frozen=True)
class Transition:
    """Graphs of one step over ``model.x``, ``model.theta`` and the rows of ``step``.

    Attributes
    ----------
    step : Step
        Whose ``h``, ``t`` and ``inputs`` are the symbols of the shared rows, or graphs of a line.
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
    def of(cls, model: Model, solver: Solver, line: DelayLine | None = None) -> Transition:
        """The graphs of a solver's step, made once for a model without delayed inputs."""
        order = cast(EKF0, solver).order if solver.probabilistic else None
        known, key = model.kernels, ("transition", solver.step if order is None else order)
        if line is not None:
            return cls._made(model, solver, order, line)
        if key not in known:
            known[key] = cls._made(model, solver, order, None)
        return known[key]

    @classmethod
    def _made(
        cls, model: Model, solver: Solver, order: int | None, line: DelayLine | None
    ) -> Transition:
        n = model.x.numel()
        error, factor = ca.SX(n, 1), ca.SX(n, 0)
        if order is not None:
            step = replace(step_along(line, PredictorStep, model), order=order)
            error, error_order = step.error_variance, order + 1
        else:
            step = step_along(line, solver.step, model)
            error_order = step.error_order
        if model.process_noise is not None:
            middle = step.t + step.h / 2
            factor = step_factor(model, step.h, u=step.inputs[1], t=middle)
        following = step.following
        slopes = jacobian(following, model.x)
        return cls(step, following, slopes, factor, error, error_order)
