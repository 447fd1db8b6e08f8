"""The result of a probabilistic ODE solver: a Gaussian process over the solution.

Equation numbers are those of Bosch, Hennig, Tronarp (2021), 'Calibrated adaptive probabilistic ODE
solvers'.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smcpn.base.arguments import NUMBERS, Count, Numbers, checked
from smcpn.base.late_binding import late_bound
from smcpn.codegen.routine import routine
from smcpn.errors import InputError, shown
from smcpn.model.ode import ODE
from smcpn.model.solver import ProbabilisticSolver
from smcpn.pn import backward
from smcpn.pn.backward import Run, refined
from smcpn.pn.forward import Store
from smcpn.pn.layout import CompiledLayout

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Stats:
    """The cost of a solution.

    Attributes
    ----------
    accepted, rejected : int
        Steps taken, and steps tried in vain.
    f_evaluations, jacobian_evaluations : int
        Evaluations of the vector field and of its Jacobian.
    """

    accepted: int
    rejected: int
    f_evaluations: int
    jacobian_evaluations: int

    @property
    def steps(self) -> int:
        """Steps tried."""
        return self.accepted + self.rejected


class Calibration:
    """Diffusion by quasi maximum likelihood over all residuals, (16) and (17).

    restart: (N,), grid points that repeat the time of the one before: no step led there.
    """

    def __init__(self, diffusion: float | str, store: Store, restart: NDArray[np.bool_]) -> None:
        self._diffusion, self._store = diffusion, store
        self._steps = ~restart
        self._steps[0] = False

    @cached_property
    def scale(self) -> Array:
        """Standard deviation to multiply the stored factors of each process with, (16), (17)."""
        scale = np.ones(self._store.residual.shape[1])
        if self._diffusion in ("fixed", "fixed-diagonal") and self._steps.any():
            squares = self._store.residual[self._steps]
            axis = None if self._diffusion == "fixed" else 0
            scale *= np.sqrt(squares.mean(axis=axis))
        return scale

    @cached_property
    def log_likelihood(self) -> float:
        """Log-likelihood of the ODE residuals being zero, (15)."""
        squares, variance = self._store.residual[self._steps], self.scale**2
        n, d = squares.shape
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(squares > 0.0, squares / variance, 0.0).sum()
            terms += n * np.log(variance).sum()
        log_det = self._store.log_det[self._steps].sum()
        return float(-0.5 * (terms + log_det + n * d * np.log(2 * np.pi)))


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """Mean and covariance of the solution of an ODE, given the equation on a grid of steps.

    Attributes
    ----------
    success : bool
    message : str
        Why the solver ended where it did.
    stats : Stats
    ode : ODE
    solver : EKF0 or EKF1
    run : Run
        Filtered moments on the grid, as compiled code keeps them.
    calibration : Calibration
    arrived : callable or None
        From times to what doses have brought into every state before them, (T, n), beside which
        the run is.
    """

    ode: ODE
    solver: ProbabilisticSolver
    success: bool
    message: str
    stats: Stats
    layout: CompiledLayout
    run: Run
    calibration: Calibration
    outputs: Array | None
    arrived: Callable[[Array], Array] | None = None

    def __repr__(self) -> str:
        end = "" if self.success else f", failed: {self.message}"
        return (
            f"<Solution of '{self.ode.name}' by {self.solver!r}: {self.stats.accepted} steps to "
            f"t = {self.run.time[-1]:g}{end}>"
        )

    @property
    def grid(self) -> Array:
        """All times at which a step ended, (N + 1,)."""
        return self.run.time[~self.run.restart]

    @cached_property
    def t(self) -> Array:
        """The requested times, as far as reached, (T,); the `grid` where none were given."""
        if self.outputs is None:
            return self.grid
        return self.outputs[self.outputs <= self.run.time[-1]]

    @cached_property
    def mean(self) -> Array:
        """Mean of the states at `t`, (T, n)."""
        mean, _, step = self._coordinates_at_t
        return self._states(mean, step, self.t)

    @cached_property
    def covariance(self) -> Array:
        """Covariance of the states at `t`, (T, n, n)."""
        return self._covariance(*self._coordinates_at_t[1:])

    @property
    def sd(self) -> Array:
        """Standard deviation of the states at `t`, (T, n)."""
        return np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))

    @property
    def log_likelihood(self) -> float:
        """Quasi log-likelihood of the residuals of the ODE, (15)."""
        return self.calibration.log_likelihood

    def __call__(self, t: Numbers) -> tuple[Array, Array]:
        """Mean (T, n) and covariance (T, n, n) at any times; (n,) and (n, n) at a single one.

        Raises
        ------
        InputError
            Outside the times that were solved for.
        """
        times = self._checked(t)
        mean, factor, step = self._posterior(times)
        moments = self._states(mean, step, times), self._covariance(factor, step)
        return (moments[0][0], moments[1][0]) if np.ndim(t) == 0 else moments

    def sample(self, rng: np.random.Generator, n: Count = 1, t: Numbers | None = None) -> Array:
        """Draw joint paths from the smoothing posterior, (n, T, states).

        Parameters
        ----------
        rng : numpy.random.Generator
        n : int
            Number of paths.
        t : array_like, optional
            Times in any order, by default `t`. A step need not end there.

        Raises
        ------
        InputError
            For times that were not solved for, and what is no generator or whole number.
        """
        times = self.t if t is None else np.asarray(self._checked(t))
        run = refined(self.layout, self.run, np.setdiff1d(times, self.run.time))
        paths: Array = np.empty((n, *run.mean.shape))
        draw = routine(backward.sample)
        noise = rng.standard_normal(paths.shape)
        draw(
            self.layout, run, noise, self.calibration.scale, paths, backward.workspace(self.layout)
        )
        index = np.searchsorted(run.time, times, side="right") - 1
        chosen, steps = paths[:, index], run.step[index]
        return np.stack([self._states(path, steps, times) for path in chosen])

    def chi2(
        self, reference: Callable[[Array], ArrayLike] | Numbers, t: Numbers | None = None
    ) -> float:
        """Mean squared error in units of the covariance, (33): near n where it is calibrated.

        Parameters
        ----------
        reference : array_like, (T, n), or callable
            The exact solution at the times ``t``, or a function of them that gives it.
        t : array_like, optional
            By default `t`. Times where the solution is known exactly do not count.
        """
        times = self._checked(self.t if t is None else t)
        exact = NUMBERS("reference", reference(times)) if callable(reference) else reference
        if exact.shape != (len(times), len(self.ode.states)):
            raise InputError(
                f"reference has shape {exact.shape}: give one row for each of {len(times)} times "
                f"and one column for each of {len(self.ode.states)} states"
            )
        mean, factor, step = self._posterior(times)
        roots = self._square_root(factor, step)
        errors = exact - self._states(mean, step, times)
        known = (np.square(roots).sum(axis=2) > 0.0).all(axis=1)
        if not known.any():
            raise InputError("reference cannot be compared: the solution claims no error anywhere")
        upper = np.linalg.qr(np.swapaxes(roots[known], 1, 2), mode="r")
        whitened = np.linalg.solve(np.swapaxes(upper, 1, 2), errors[known][..., None])
        return float(np.square(whitened).sum(axis=(1, 2)).mean())

    @late_bound
    def plot(self) -> Any:
        """Draw mean and 95 % band of every state, and the band's half width below.

        Returns
        -------
        matplotlib.figure.Figure
        """
        ...

    @cached_property
    def _coordinates_at_t(self) -> tuple[Array, Array, Array]:
        """Mean, factor and step of the coordinates at `t`."""
        if self.outputs is not None:
            return self._posterior(self.t)
        moments = (*self._on_grid, self.run.step)
        if not self.run.restart.any():
            return moments
        mean, factor, step = (values[~self.run.restart] for values in moments)
        return mean, factor, step

    @cached_property
    def _on_grid(self) -> tuple[Array, Array]:
        if not self.solver.smooth:
            return self.run.mean, self.run.factor
        mean, factor = np.empty_like(self.run.mean), np.empty_like(self.run.factor)
        smooth = routine(backward.smooth)
        smooth(self.layout, self.run, mean, factor, backward.workspace(self.layout))
        return mean, factor

    def _posterior(self, times: Array) -> tuple[Array, Array, Array]:
        """Mean, factor and step of the coordinates at checked times."""
        left = self._left(times)
        mean, factor = (values[left] for values in self._on_grid)
        step = self.run.step[left]
        between = np.flatnonzero(self.run.time[left] < times)
        if len(between):
            m, f, h = mean[between], factor[between], step[between]
            interpolate = routine(backward.interpolate)
            interpolate(
                self.layout, self.run, times[between], left[between], *self._on_grid,
                self.solver.smooth, m, f, h, backward.workspace(self.layout),
            )  # fmt: skip
            mean[between], factor[between], step[between] = m, f, h
        return mean, factor, step

    def _left(self, times: Array) -> NDArray[np.int64]:
        """Last grid point not after each time: after a restart rather than before it."""
        return np.searchsorted(self.run.time, times, side="right") - 1

    def _checked(self, t: ArrayLike) -> Array:
        times = np.array(t, dtype=float, ndmin=1)
        begin, end = self.run.time[0], self.run.time[-1]
        if times.ndim != 1 or not ((times >= begin) & (times <= end)).all():
            raise InputError(f"t is {shown(t)}: give times from {begin:g} to {end:g}")
        return times

    def _scales(self, step: Array) -> Array:
        """Factors k! / h^k from the entries of the coordinates to the states, (T, n)."""
        k = self.layout.derivative
        return self.layout.scale / step[:, None] ** k

    def _states(self, mean: Array, step: Array, times: Array) -> Array:
        smooth = mean[:, self.layout.derivative, self.layout.process] * self._scales(step)
        return smooth if self.arrived is None else smooth + self.arrived(times)

    def _rows(self, factor: Array, step: Array) -> Array:
        """Rows of the factor that belong to the states, in their units, (T, n, entries)."""
        layout = self.layout
        p, k = layout.process, layout.derivative
        rows = factor[:, layout.block[p], k * layout.width + layout.place[p]]
        return rows * (self._scales(step) * self.calibration.scale[p])[..., None]

    @property
    def _groups(self) -> NDArray[np.int64]:
        """States of different groups are independent."""
        layout = self.layout
        return (layout.block if layout.width > 1 else np.arange(len(layout.top)))[layout.process]

    def _covariance(self, factor: Array, step: Array) -> Array:
        rows, groups = self._rows(factor, step), self._groups
        return rows @ np.swapaxes(rows, 1, 2) * (groups[:, None] == groups)

    def _square_root(self, factor: Array, step: Array) -> Array:
        """Factor of the covariance, (T, n, groups x entries)."""
        rows, groups = self._rows(factor, step), self._groups
        T, n, entries = rows.shape
        wide = np.zeros((T, n, groups.max() + 1, entries))
        wide[:, np.arange(n), groups] = rows
        return wide.reshape(T, n, -1)
