"""Parameters whose equations have the slopes of the smoothed outputs: starts near the data.

Where the outputs tell every state, by themselves or by equations without parameters as x' = v, a
smoothing spline through them has states x_k and slopes s_k, and no equation is solved to compare
these with f(x_k, u_k, t_k, theta): the sum over the equations i of

    -K/2 log mean_k (s_ik - f_i)^2,

with the log prior, the initial states and the noise that the samples show, is a log density which
Levenberg-Marquardt climbs at next to no cost (gradient matching). Its hills are few and wide: one,
where f is linear in theta.

References
----------
Varah, J. M. (1982). A spline least squares method for numerical parameter estimation in
differential equations. SIAM J. Sci. Stat. Comput. 3.
Ramsay, J. O., Hooker, G., Campbell, D., Cao, J. (2007). Parameter estimation for differential
equations: a generalized smoothing approach. JRSS B 69, for what it does not reach.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.estimate.least_squares import NEAR_DAMPING, climbed, distinct
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.path_search.homotopy import beginning
from smcpn.estimate.path_search.linearisation import Field, state_outputs
from smcpn.estimate.smoothed_outputs import Equations, Start, first_path, noise_variances
from smcpn.likelihood.solver_choice import prior_draws
from smcpn.model.graphs import Model
from smcpn.model.prior import prior_expansion
from smcpn.model.problem import Problem
from smcpn.model.record import Record

Array = NDArray[np.float64]

SEARCHES = 24
"""Regressions from draws of the prior, where the equations are not linear in the parameters: of
hills that a tenth of the draws lead to one in twelve is missed."""
ITERATIONS = 40
SAMPLES = 2000
"""Samples of the beginning of long records that are smoothed."""
NUMBERS = 500_000
"""Derivatives of all regressions that are held at once; of more, samples are left out evenly."""
TURNING, POINTS = 256, 4
"""Draws from the prior, and samples, for which it is asked how fast the equations turn."""
MOST = 4
"""Most hills of the regression that are searched from."""
LEAST = 1e-6
"""Standard deviation of a slope, as a share of their own, that rounding and the spline leave."""


class MatchedStarts(NamedTuple):
    """Starts whose equations have the slopes of the smoothed outputs.

    starts: (S, d), unconstrained coordinates, the best first.
    alone: Whether only parameters with these slopes can explain the samples. It is False where the
        prior allows the states to turn by half a period or more between two samples: such a motion
        may lead through the same samples with other slopes.
    turning: Share of the prior by which they turn so.
    """

    starts: Array
    alone: bool
    turning: float

    @classmethod
    def none(cls, parameters: int) -> MatchedStarts:
        """Return no start."""
        return cls(np.empty((0, parameters)), False, 0.0)


def matched_starts(density: LogDensity) -> MatchedStarts:
    """Return starts near the data.

    None where outputs do not tell the states, or a scale that a prior learns is among the
    parameters.
    """
    problem, none = density.log_likelihood.problem, MatchedStarts.none(len(density.names))
    model = problem.model.with_numbers()
    skipped = model.process_noise is not None or not model.smooth
    if skipped or problem.ode.functions or problem.prior.scales:
        return none
    observe = _observed(model)
    if observe is None:
        return none
    known = np.array([not ca.depends_on(rate, model.theta) for rate in ca.vertsplit(model.rhs)])
    seen = np.linalg.matrix_rank(observe[1]) + known.sum()
    if seen < len(known):
        return none
    matching = None
    with suppress(InputError):  # too few samples, or a state that nothing tells
        matching = Matching(density, beginning(problem, SAMPLES), model, observe, known)
    if matching is None:
        return none
    return MatchedStarts(matching.tops(), matching.alone, matching.turning)


def _observed(model: Model) -> tuple[list[int], Array, Array] | None:
    """Outputs that are H x + c by their numbers, with H (q, n) and c (q,); None without any."""
    chosen: list[int] = []
    for j in state_outputs(model):
        slopes = ca.jacobian(model.outputs[j], model.x)
        symbols = ca.vertcat(model.x, model.u, model.t)
        rest = model.outputs[j] - slopes @ model.x
        at_rest = ca.substitute(rest, model.x, ca.SX.zeros(model.x.numel()))
        if not ca.depends_on(slopes, symbols) and not ca.depends_on(at_rest, symbols):
            chosen.append(j)
    if not chosen:
        return None
    outputs = ca.vertcat(*(model.outputs[j] for j in chosen))
    at_rest = ca.substitute(outputs, model.x, ca.SX.zeros(model.x.numel()))
    matrix = ca.densify(ca.jacobian(outputs, model.x))
    numbers = ca.evalf(matrix), ca.evalf(ca.densify(at_rest))
    return chosen, np.array(numbers[0]), np.array(numbers[1]).ravel()


class Matching:
    """The log density of parameters given smoothed states and slopes.

    It has of `LogDensity` what `climbed` asks for.

    ``density`` is that of the trajectories, ``model`` one without symbols of known numbers,
    ``observe`` the numbers of the outputs H x + c, H (q, n) and c (q,), and ``known``, (n,), tells
    equations without parameters. An `InputError` says that samples are too few, or that a state is
    told by none.
    """

    def __init__(
        self,
        density: LogDensity,
        problem: Problem,
        model: Model,
        observe: tuple[list[int], Array, Array],
        known: NDArray[np.bool_],
    ) -> None:
        self.prior, self.bounds, self._density = density.prior, density.bounds, density
        self.scale, self._centre, self._n = density.scale, density.centre, len(known)
        outputs, matrix, rest = observe
        records = [record.with_outputs(record.y[:, outputs] - rest) for record in problem.records]
        self._shown = noise_variances(records)
        self._counts = np.isfinite(np.concatenate([one.y for one in records])).sum(axis=0)
        self._variance = Field(model, ca.log(model.noise_variance[outputs]))
        self._rate = Field(model, model.rhs)
        equations = Equations(
            problem.ode.states, self._rate, self.prior.natural(self._centre[None, :])[0], known
        )
        path = first_path(records, matrix, self._shown, equations)
        self._linear = not ca.depends_on(ca.jacobian(model.rhs, model.theta), model.theta)
        hidden = np.linalg.matrix_rank(matrix) < self._n
        self._periodic = hidden or not ca.depends_on(ca.jacobian(model.rhs, model.x), model.x)
        self._clocked = ca.depends_on(ca.jacobian(model.rhs, model.t), model.theta)
        self._interval = float(np.median(np.concatenate([np.diff(one.t) for one in records])))
        self._initial = [Field(model, state) for state in model.initial]
        begins = np.cumsum([0, *(len(record) for record in records)])[:-1]
        self._begin, self._deviation = path.path[begins], path.deviation
        self._take(path, records)
        self._gaussian = model.density is None
        self._draws = prior_draws(density.log_likelihood.problem)

    def _take(self, path: Start, records: list[Record]) -> None:
        """Keep as many samples as fit, at even distances."""
        size = self._n * (self._n + len(self.prior)) * (1 if self._linear else SEARCHES)
        step = max(1, int(np.ceil(len(path.path) * size / NUMBERS)))
        self._x, self._slope = path.path[::step], path.rate[::step]
        self._u = np.concatenate([record.u for record in records])[::step]
        self._t = np.concatenate([record.t for record in records])[::step]
        self._least = LEAST**2 * np.mean(self._slope**2, axis=0) + np.finfo(float).tiny

    @cached_property
    def noise(self) -> list[int]:
        """Columns that are nothing but a standard deviation of the noise."""
        return self._density.noise

    @property
    def alone(self) -> bool:
        """True if no other parameters match as well."""
        return not self._clocked and bool((self._turns < 0.5).all())

    @property
    def turning(self) -> float:
        """Share of the prior by which states turn by half a period between two samples."""
        return float(np.mean(self._turns >= 0.5))

    @cached_property
    def _turns(self) -> Array:
        """Most turns between two samples for each draw from the prior, by the eigenvalues of f_x.

        They are nan where f_x is not finite. A nonlinear system that turns once more between
        samples of all its states comes to others.
        """
        values = self.prior.natural(self._draws[:TURNING])
        turns = np.zeros(len(values))
        if self._clocked or not self._periodic:
            return turns
        some = np.linspace(0, len(self._x) - 1, POINTS).astype(int)
        x = np.broadcast_to(self._x[some], (len(values), POINTS, self._n))
        by = self._rate.with_derivatives(x, self._u[some], self._t[some], values)[1]
        by = by[..., : self._n]
        known = np.isfinite(by).all(axis=(1, 2, 3))
        turns[~known] = np.nan
        fastest = np.abs(np.linalg.eigvals(by[known]).imag).max(axis=(1, 2))
        turns[known] = fastest * self._interval / (2.0 * np.pi)
        return turns

    def tops(self) -> Array:
        """Return the highest points of different hills, (S, d), the highest first."""
        draws = self._draws[: 0 if self._linear else SEARCHES - 1]
        starts = np.clip(np.concatenate([self._centre[None, :], draws]), *self.bounds.T)
        stages = [list(range(len(self.prior)))]
        climbs = climbed(self, starts, stages, ITERATIONS, damping=NEAR_DAMPING)
        tops = distinct([climb for climb in climbs if np.isfinite(climb.value)])[:MOST]
        return np.array([climb.theta for climb in tops]).reshape(-1, len(self.prior))

    def expansion(self, theta: Array, share: float = 1.0) -> tuple[Array, Array, Array]:
        """Log density (n,), gradient (n, d) and information (n, d, d); of all samples."""
        with np.errstate(all="ignore"):
            values, slopes = self.prior.natural(theta), self.prior.slopes(theta)[0]
            prior = prior_expansion(self.prior, theta, self.scale)
            value, gradient = prior.value.copy(), prior.gradient.copy()
            information = np.maximum(-prior.diagonal, 0.0)[:, :, None] * np.eye(theta.shape[1])
            for part in (self._of_slopes, self._of_initial_states, self._of_noise):
                for total, one in zip(
                    (value, gradient, information), part(values, slopes), strict=True
                ):
                    total += one
        return np.where(np.isfinite(value), value, -np.inf), gradient, information

    def _of_slopes(self, values: Array, slopes: Array) -> tuple[Array, Array, Array]:
        x = np.broadcast_to(self._x, (len(values), *self._x.shape))
        rate, by = self._rate.with_derivatives(x, self._u, self._t, values)
        residual = self._slope - rate
        square = np.mean(residual**2, axis=1) + self._least
        return _gaussian(residual, by[..., self._n :], 1.0 / square[:, None], slopes, square)

    def _of_initial_states(self, values: Array, slopes: Array) -> tuple[Array, Array, Array]:
        nowhere = np.zeros((len(values), 1, self._n))
        found = [
            field.with_derivatives(nowhere, self._u[:1], self._t[:1], values)
            for field in self._initial
        ]
        state = np.concatenate([one for one, _ in found], axis=1)
        by = np.concatenate([one for _, one in found], axis=1)[..., self._n :]
        weight = 1.0 / np.maximum(self._deviation**2, np.finfo(float).tiny)
        return _gaussian(self._begin - state, by, weight, slopes)

    def _of_noise(self, values: Array, slopes: Array) -> tuple[Array, Array, Array]:
        """Of variances of the noise, given those that differences of the samples show."""
        if not self._gaussian:
            return np.zeros(1), np.zeros(1), np.zeros(1)
        nothing = np.zeros((len(values), 1, self._n))
        logs, by = self._variance.with_derivatives(nothing, self._u[:1], self._t[:1], values)
        by = by[:, 0, :, self._n :] * slopes[:, None, :]
        over = self._shown / np.exp(logs[:, 0])
        value = -0.5 * ((logs[:, 0] + over) @ self._counts)
        gradient = 0.5 * np.einsum("q,sq,sqd->sd", self._counts, over - 1.0, by)
        return value, gradient, 0.5 * np.einsum("q,sqd,sqe->sde", self._counts, by, by)


def _gaussian(
    residual: Array, by: Array, weight: Array, slopes: Array, square: Array | None = None
) -> tuple[Array, Array, Array]:
    """Log density, gradient and information of residuals (S, K, n) with weights.

    ``by``, (S, K, n, d), are derivatives of what is expected by the values, ``slopes``, (S, d),
    those of the values by the coordinates, and ``square``, (S, n), mean squares that the weights
    are the reciprocals of, where these are learned.
    """
    by = by * slopes[:, None, None, :]
    weighted = (by * weight[..., None]).reshape(len(by), -1, by.shape[-1])
    flat = by.reshape(weighted.shape)
    gradient = np.einsum("sk,skd->sd", residual.reshape(weighted.shape[:2]), weighted)
    information = weighted.swapaxes(1, 2) @ flat
    if square is None:
        value = -0.5 * np.sum(weight * residual**2, axis=(1, 2))
    else:
        value = -0.5 * residual.shape[1] * np.log(square).sum(axis=1)
    return value, gradient, information
