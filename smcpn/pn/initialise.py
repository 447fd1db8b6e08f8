"""Mean and covariance where the derivatives of the state are known exactly: start and restarts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.pn.equations import Equations
from smcpn.pn.forward import Inputs
from smcpn.pn.inputs import series_after
from smcpn.pn.layout import Layout, entry_scale

Array = NDArray[np.float64]


class ExactDerivatives:
    """Nordsieck coordinates of the exact solution through a state, and their slope in it.

    Parameters
    ----------
    equations : Equations
    layout : Layout
    inputs : Inputs
    parameters : ndarray, (p,)
    """

    def __init__(
        self, equations: Equations, layout: Layout, inputs: Inputs, parameters: Array
    ) -> None:
        self._equations, self._layout = equations, layout
        self._inputs, self._parameters = inputs, parameters
        self._heads = np.flatnonzero(layout.derivative == 0)

    def series(self, x: Array, time: float) -> Array:
        """Taylor coefficients of the states just after ``time``, (n, order + 1)."""
        order = self._layout.order
        u = series_after(self._inputs, time, order)
        return self._equations.series(x, u, time, self._parameters, order)

    def mean(self, series: Array, h: float) -> Array:
        """Coordinates of all processes for steps of length ``h``, (order + 1, d)."""
        layout = self._layout
        mean = np.empty((layout.order + 1, len(layout.top)))
        powers = h ** np.arange(layout.order + 1)
        mean[:, layout.process[self._heads]] = series[self._heads].T * powers[:, None]
        return mean

    def factor(self, x: Array, time: float, h: float, before: Array, h_before: float) -> Array:
        """Covariance factor after a restart, from the one before it, (B, entries, entries).

        The state keeps its covariance. Under EKF0, which does not know how the vector field
        depends on the state, the derivatives are taken for known; under EKF1 they follow it.
        """
        layout, width = self._layout, self._layout.width
        factor = np.zeros_like(before)
        powers = h ** np.arange(layout.order + 1)
        scale = entry_scale(layout) / h_before**layout.derivative
        for i, (p, k) in enumerate(zip(layout.process, layout.derivative, strict=True)):
            block, s = layout.block[p], layout.place[p]
            state = before[block, k * width + s]
            if not layout.coupled:
                factor[block, k * width + s] = state * (h / h_before) ** k
                continue
            slopes = self._slopes(x, time, i)
            for head in self._heads:
                other = layout.process[head]
                if layout.block[other] == block:
                    rows = factor[block, layout.place[other] :: width]
                    rows += np.outer(slopes[head] * powers, state * scale[i])
        return factor

    def _slopes(self, x: Array, time: float, i: int) -> Array:
        """Taylor coefficients of the derivative of the solution in state ``i``, (n, order + 1)."""
        n, order = len(x), self._layout.order
        u = series_after(self._inputs, time, order)
        both = np.concatenate([x, np.eye(n)[i]])
        return self._equations.tangent_series(both, u, time, self._parameters, order)[n:]
