"""Derivatives of sampled trajectories, with which scores compare; equations are not fitted to them.

Named as pysindy's: called with samples (T, n) and times, or a time step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import savgol_filter

from smcpn.base.arguments import Count, checked, whole
from smcpn.errors import InputError, shown
from smcpn.sindy.parameters import Parameters
from smcpn.sindy.trajectories import matrix, sample_times

Array = NDArray[np.float64]


class Differentiation(Parameters):
    """A way to differentiate samples by time."""

    def __call__(self, x: Any, t: Any = 1.0) -> Array:
        """Return derivatives of the shape of x, (T,) or (T, n).

        Parameters
        ----------
        x : array_like, (T,) or (T, n)
        t : float or array_like, (T,)
            Time step, or times.
        """
        samples = matrix("x", x)
        times = sample_times(t, len(samples))
        return self._derivatives(samples, times).reshape(np.shape(x))

    def _derivatives(self, x: Array, t: Array) -> Array:
        raise NotImplementedError


@checked
class FiniteDifference(Differentiation):
    """Finite differences at any times.

    Parameters
    ----------
    order : int
        Of their error in the time step.
    d : int
        Order of the derivative, 1.
    axis : int
        Of the samples, 0 or -2.
    is_uniform : bool
        Not used: what is right at any times is right at uniform ones.
    drop_endpoints : bool
        Put NaN where a difference is not centred, at both ends.
    periodic : bool
        False only.
    """

    def __init__(
        self,
        order: Annotated[int, whole(1, 10)] = 2,
        d: int = 1,
        axis: int = 0,
        is_uniform: bool = False,
        drop_endpoints: bool = False,
        periodic: bool = False,
    ) -> None:
        for name, value, only in (("d", d, (1,)), ("periodic", periodic, (False,))):
            if value not in only:
                raise InputError(
                    f"{name} is {shown(value)}: smcpn.sindy differentiates once, on an axis that "
                    "is not periodic; use that of pysindy",
                    argument=name,
                )
        if axis not in (0, -2):
            raise InputError(f"axis is {axis}: give samples on axis 0", argument="axis")
        self.order, self.d, self.axis = order, d, axis
        self.is_uniform, self.drop_endpoints, self.periodic = is_uniform, drop_endpoints, periodic

    def _derivatives(self, x: Array, t: Array) -> Array:
        """Derivative of the polynomial through ``order + 1`` samples about each."""
        size, samples = self.order + 1, len(t)
        if samples < size:
            raise InputError(
                f"x has {samples} samples: differences of order {self.order} need {size}",
                argument="x",
            )
        centred = np.arange(samples) - (size - 1) // 2
        first = np.clip(centred, 0, samples - size)
        window = first[:, None] + np.arange(size)
        apart = t[window] - t[:, None]
        scale = np.abs(apart).max(axis=1)
        powers = (apart / scale[:, None])[:, None, :] ** np.arange(size)[:, None]
        only_slope = np.zeros((samples, size, 1))
        only_slope[:, 1, 0] = 1.0 / scale
        weights = np.linalg.solve(powers, only_slope)[..., 0]
        found = np.einsum("ts,tsn->tn", weights, x[window])
        if self.drop_endpoints:
            found[first != centred] = np.nan
        return found


@checked
class SmoothedFiniteDifference(FiniteDifference):
    """Finite differences of smoothed samples.

    Parameters
    ----------
    smoother : callable
        Of samples (T, n); `scipy.signal.savgol_filter` by default.
    smoother_kws : dict, optional
        Its keyword arguments; by default windows of 11 samples and cubic polynomials.
    order, d, axis, is_uniform, drop_endpoints, periodic
        See `FiniteDifference`.
    """

    def __init__(
        self,
        smoother: Callable[..., Any] = savgol_filter,
        smoother_kws: dict[str, Any] | None = None,
        order: Count = 2,
        d: int = 1,
        axis: int = 0,
        is_uniform: bool = False,
        drop_endpoints: bool = False,
        periodic: bool = False,
    ) -> None:
        super().__init__(order, d, axis, is_uniform, drop_endpoints, periodic)
        self.smoother, self.smoother_kws = smoother, smoother_kws

    def _derivatives(self, x: Array, t: Array) -> Array:
        given = {"window_length": 11, "polyorder": 3, "axis": 0} | (self.smoother_kws or {})
        return super()._derivatives(np.asarray(self.smoother(x, **given), float), t)


def is_default(method: Any) -> bool:
    """True if nothing is lost where the derivatives are not used."""
    return isinstance(method, FiniteDifference) and repr(method) in (
        "FiniteDifference()",
        "FiniteDifference(axis=-2)",
    )
