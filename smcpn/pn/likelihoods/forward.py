"""The extended Kalman filter over the grid, with the data or without."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from smcpn.pn.likelihoods.measurement import weighed
from smcpn.pn.likelihoods.normal import Affine, Normal
from smcpn.pn.likelihoods.statespace import StateSpace

Array = NDArray[np.float64]


@dataclass
class Pass:
    """What a pass through time leaves behind.

    Attributes
    ----------
    ode : ndarray, (T,)
        Log density of z on the steps before each sample, given all that was seen before.
    data : ndarray, (T,)
        Log density of y at each sample, given all that was seen before; 0 where nothing was.
    filtered : list of Normal
        State at each sample.
    points : list of ndarray
        Means at which the vector field was linearised, in the order of time.
    backward : list of list of Affine
        Of each interval, the kernels that lead from its end to its begin, in the order of time.
    """

    ode: Array
    data: Array
    filtered: list[Normal] = field(default_factory=list)
    points: list[Array] = field(default_factory=list)
    backward: list[list[Affine]] = field(default_factory=list)


def forward(space: StateSpace, *, data: bool, at: list[Array] | None = None) -> Pass:
    """Filter the ODE's data, and the outputs too where ``data`` is true.

    Parameters
    ----------
    space : StateSpace
    data : bool
        Whether y corrects the state.
    at : list of ndarray, optional
        Means to linearise the vector field at, as another pass left them; by default the
        predicted ones.
    """
    return _Filter(space, at).run(data)


class _Filter:
    def __init__(self, space: StateSpace, at: list[Array] | None) -> None:
        self.space, self.state = space, space.start
        samples = len(space.record)
        self.result = Pass(np.zeros(samples), np.zeros(samples))
        self._at = None if at is None else iter(at)

    def run(self, data: bool) -> Pass:
        for sample in range(len(self.space.record)):
            if sample:
                self.result.backward.append(self._interval(sample - 1))
            if data:
                self.state, self.result.data[sample] = weighed(self.space, sample, self.state)
            self.result.filtered.append(self.state)
        return self.result

    def _interval(self, sample: int) -> list[Affine]:
        """Go from a sample to the next and return the kernels that lead back."""
        kernels: list[Affine] = []
        if self.space.restarts(sample):
            restart = self.space.restart(sample, self._point())
            kernels.append(self.state.reversed(restart, self.space.values))
            self.state = self.state.through(restart)
        for step in self.space.steps(sample):
            kernels.append(self.state.reversed(step.kernel))
            self.state = self.state.through(step.kernel)
            point = self._point()
            matrix, unexplained = self.space.ode_residual(point, step.t, step.u)
            innovation = unexplained - matrix @ (self.state.mean - point)
            silent = np.zeros((len(innovation), len(innovation)))
            self.state, log_density = self.state.given(matrix, innovation, silent)
            self.result.ode[sample + 1] += log_density
        return kernels

    def _point(self) -> Array:
        """Mean to linearise at."""
        point = self.state.mean if self._at is None else next(self._at)
        self.result.points.append(point)
        return point
