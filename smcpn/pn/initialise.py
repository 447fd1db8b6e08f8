"""Mean and covariance where the derivatives of the state are known exactly: start and restarts."""

from __future__ import annotations

from math import factorial

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.pn.forward import Inputs
from smcpn.pn.inputs import derivatives_after
from smcpn.pn.layout import Layout
from smcpn.pn.taylor import taylor_derivatives
from smcpn.problem import Model

Array = NDArray[np.float64]


class ExactDerivatives:
    """Nordsieck coordinates of the exact solution through a state, and their slope in it.

    Parameters
    ----------
    model : Model
    layout : Layout
    inputs : Inputs
    parameters : ndarray, (p,)
        Parameters, then the known numbers of the model.
    """

    def __init__(self, model: Model, layout: Layout, inputs: Inputs, parameters: Array) -> None:
        self._layout, self._inputs, self._parameters = layout, inputs, parameters
        derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, layout.order)
        series = ca.horzcat(*derivatives)
        symbols = [
            model.x,
            ca.vertcat(model.u, *rates),
            model.t,
            ca.vertcat(model.theta, model.constants),
        ]
        self._series = ca.Function("series", symbols, [series])
        self._rate = ca.Function("rate", symbols, [model.rhs])
        self._slopes = None
        if layout.coupled:
            slopes = [ca.jacobian(value, model.x) for value in derivatives]
            self._slopes = ca.Function("slopes", symbols, slopes)

    def rate(self, x: Array, time: float) -> Array:
        """Derivative of the states, (n,)."""
        return np.array(self._rate(*self._at(x, time))).ravel()

    def mean(self, x: Array, time: float, h: float) -> Array:
        """Coordinates of all processes just after ``time``, (order + 1, d)."""
        layout = self._layout
        heads = np.flatnonzero(layout.derivative == 0)
        series = np.array(self._series(*self._at(x, time)))[heads]
        mean = np.empty((layout.order + 1, len(layout.top)))
        mean[:, layout.process[heads]] = series.T * _powers(h, layout.order)[:, None]
        return mean

    def factor(self, x: Array, time: float, h: float, before: Array, h_before: float) -> Array:
        """Covariance factor after a restart, from the one before it, (B, entries, entries).

        The state keeps its covariance. Under EKF0, which does not know how the vector field
        depends on the state, the derivatives are taken for known; under EKF1 they follow it.
        """
        layout, width = self._layout, self._layout.width
        factor = np.zeros_like(before)
        slopes = None
        if self._slopes is not None:
            slopes = [np.array(slope) for slope in self._slopes(*self._at(x, time))]
        powers, powers_before = _powers(h, layout.order), _powers(h_before, layout.order)
        for i, (p, k) in enumerate(zip(layout.process, layout.derivative, strict=True)):
            block, s = layout.block[p], layout.place[p]
            state = before[block, k * width + s] / powers_before[k]
            if slopes is None:
                factor[block, k * width + s] = state * powers[k]
                continue
            for other, derivative in zip(layout.process, layout.derivative, strict=True):
                if derivative or layout.block[other] != block:
                    continue
                head = int(np.flatnonzero((layout.process == other) & (layout.derivative == 0))[0])
                for j in range(layout.order + 1):
                    row = j * width + layout.place[other]
                    factor[block, row] += slopes[j][head, i] * powers[j] * state
        return factor

    def _at(self, x: Array, time: float) -> list[Array | float]:
        rates = derivatives_after(self._inputs, time, self._layout.order - 1)
        return [x, rates.ravel(), time, self._parameters]


def _powers(h: float, order: int) -> Array:
    """h^j / j!, (order + 1,)."""
    return np.array([h**j / factorial(j) for j in range(order + 1)])
