"""The log-likelihood of a problem as a function of its parameters, with exact derivatives.

The gradient is that of the recursion itself, solver and filter, not of the ODE behind it, so that
it is exact to rounding for any number of steps. Of few parameters it is made of forward tangents of
the compiled kernel, one lane for every pair of parameters and direction, as fast as the likelihood
for as many particles. Of many it is a reverse pass (`smcpn.codegen.sweep`): the time of a few
values, however many parameters there are.

The information of the samples about the parameters is taken from first derivatives alone. At a kink
of the likelihood the second derivatives say nothing, the first still do. For Gaussian outputs N(g,
S), given the samples before where the likelihood sees them, the expected information (Fisher's, of
Gauss-Newton) is

    sum_t J' S^-1 J + tr(S^-1 dS_i S^-1 dS_j) / 2,    J = dg / dtheta.

For any measurement the sum of the outer products of the samples' scores estimates it (Berndt, Hall,
Hall, Hausman 1974), the worse the fewer samples there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import Count, Index, Numbers, Positive, Probability, checked
from smcpn.codegen.emit import LEAST_LANES
from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.tangent import tangent
from smcpn.errors import InputError, listed
from smcpn.likelihood.derivatives import (
    Sweeps,
    Tangents,
    at_home,
    expansion_program,
    tangent_program,
)
from smcpn.likelihood.lanes import CHUNK, TANGENT_LANES, Grid, LaneLikelihood
from smcpn.likelihood.registry import LIKELIHOODS, Recursion, require_exact, suitable_likelihood
from smcpn.likelihood.solver_choice import choose_solver, solver_from_prior
from smcpn.model.coordinates import Coordinate
from smcpn.model.problem import Problem, check_problem
from smcpn.model.record import Record
from smcpn.model.solver import Solver

Array = NDArray[np.float64]

DIFFERENCE = 1e-3
"""Step of a difference of gradients, in units of the standard error of a parameter.

The error of the difference is a sixth of its square times the fourth derivative in these units,
which is one to ten: 1e-6 of the curvature. Rounding leaves 1e-9. A shorter step would miss a kink
close by, which the width of a posterior does see."""
NEAR_BOUND = 1e-2
"""Longest step, as a share of the way to a bound of the parameter."""
FORWARD = 20
"""Parameters up to which a gradient is made of tangents. A reverse pass takes the time of two to
four values, of six where particles choose their steps, and a tangent that of two, but `expansion`
and `hessian` have compiled the tangents."""
COPIES = 32
"""Filters whose estimates at a point are averaged."""
TANGENT_COST = 2.0
"""Values that take as long as one tangent."""


@checked
class LogLikelihood:
    """log p(y | theta) of all records, its gradient and its Hessian, for many theta at once.

    The parameters are those of the model, the initial state, the noise and the diffusion: all
    that have a prior. Values are natural ones, not unconstrained coordinates.

    Parameters
    ----------
    problem : Problem
    likelihood : str, optional
        By default the one of the solver, see `identify`. ``"particle"``, an estimate by random
        numbers, has values and `estimate`, with standard errors, and no gradient.
    solver : EKF0, EKF1, AdaptiveEKF1, RK4, Rosenbrock or "auto", optional
        By default ``"auto"``: what goes with ``likelihood`` and the problem, see `identify`.
        Steps ``"auto"`` are chosen from the prior; elsewhere they may be too few, and a solution
        that diverges has -inf. `maximise` and `identify` judge them again where they end: take
        their ``solver``.
    threads : int, optional
        Threads of the kernels; all processors by default. Results do not depend on it.
    state_particles : int, optional
        Of each filter, where the likelihood is an estimate; see `identify`.

    Attributes
    ----------
    problem : Problem
    likelihood : str
        Its name.
    solver : EKF0, EKF1 or RK4
        As it runs, steps resolved.
    names : tuple of str
        The columns of ``values``.
    where : callable
        See `evaluated`.

    Raises
    ------
    InputError
        For a likelihood or solver that there is not, or that do not go together.

    Examples
    --------
    >>> log_likelihood = smcpn.LogLikelihood(problem, solver=smcpn.EKF0(3, 8))  # doctest: +SKIP
    >>> value, gradient = log_likelihood.value_and_gradient([[0.5, 1.0]])  # doctest: +SKIP
    """

    def __init__(
        self,
        problem: Problem,
        likelihood: str | None = None,
        solver: Solver | str | None = None,
        threads: Count | None = None,
        state_particles: Count | None = None,
    ) -> None:
        check_problem(problem)
        chosen = choose_solver(problem, solver, likelihood)
        self.likelihood = chosen.likelihood
        self.problem, self.names = problem, problem.names
        self.solver = solver_from_prior(problem, chosen.solver, self.likelihood)
        self._threads = threads
        self.where: Callable[[Any], Any] = at_home
        given = {} if state_particles is None else {"state_particles": state_particles}
        kind = suitable_likelihood(problem, self.solver, self.likelihood)
        if given and not kind.estimated:
            raise InputError(
                f"state_particles is {state_particles}: the {kind.name} likelihood is no estimate, "
                "leave it out",
                argument="state_particles",
            )
        self._value: Any = kind.build(problem, self.solver, threads, **given)

    def __repr__(self) -> str:
        names = listed(self.names)
        return f"LogLikelihood({self.likelihood!r}, {self.solver!r}) of {names}"

    @property
    def steps(self) -> int:
        """Solver steps over all records."""
        return self._value.n_steps

    def with_records(self, records: Sequence[Record]) -> LogLikelihood:
        """Log-likelihood of other records at the same times, of which nothing is compiled anew.

        Parameters
        ----------
        records : sequence of Record
            As many as the problem has, in their order.

        Raises
        ------
        InputError
            If their times or holds differ, or they do not fit the problem.
        """
        require_exact(self.likelihood)
        problem = self.problem.with_records(records)
        same = len(records) == len(self.problem.records) and all(
            np.array_equal(new.t, old.t) and new.hold == old.hold
            for new, old in zip(records, self.problem.records, strict=True)
        )
        if not same:
            raise InputError(
                "records have other times or holds than those of the problem: make another "
                "LogLikelihood of problem.with_records(records)"
            )
        return self._of(problem)

    def of_samples(self, records: Sequence[Record]) -> LogLikelihood:
        """Log-likelihood of records sampled alike, however many samples of how many there are.

        Nothing is compiled anew: it is a likelihood of the first samples of a record, or of those
        of a stream so far.

        Parameters
        ----------
        records : sequence of Record
            At most as many as the problem has, in their order.
        """
        _ = self.tangent, self._recursion  # traced for all that there will be
        return self._of(self.problem.with_records(records))

    def prepare(self) -> None:
        """Trace and compile all that values and gradients need."""
        values = self.problem.prior.natural(self.problem.prior.sample(np.random.default_rng(0), 1))
        self(values)
        self.value_and_gradient(values)
        self.hessian(values)

    def _of(self, problem: Problem) -> LogLikelihood:
        """Log-likelihood of a problem with other records, by the kernels of these."""
        other = self._without_evaluators()
        other.problem = problem
        other._value = self._value.with_records(problem.records)
        if "tangent" in vars(self):
            other.tangent = self.tangent.with_records(problem.records)
        return other

    def evaluated(self, where: Callable[[Any], Any]) -> LogLikelihood:
        """Log-likelihood with its kernels evaluated elsewhere, to the same bytes.

        Parameters
        ----------
        where : callable
            Takes a compiled likelihood or what it has of `derivatives`, and returns what evaluates
            it, see `smcpn.smc.distributed.workers.distributed`; `at_home` for this process.
        """
        if where is self.where:
            return self
        other = self._without_evaluators()
        other.where = where
        return other

    def _without_evaluators(self) -> LogLikelihood:
        other = copy(self)
        for name in ("_values", "_tangents", "_sweeps"):
            vars(other).pop(name, None)
        return other

    def __call__(self, values: Numbers) -> Array:
        """Log-likelihood (N,) at parameter values (N, d); -inf where the solution diverges.

        Raises
        ------
        InputError
            If values are not numbers of shape (N, d), as in all methods.
        """
        if LIKELIHOODS[self.likelihood].estimated:
            return self.estimate(values)[0]
        values = self._checked("values", values)
        with np.errstate(all="ignore"):
            total = self._values.total(values)[0]
        return np.where(np.isfinite(total), total, -np.inf)

    def estimate(
        self, values: Numbers, copies: Count = COPIES, seed: Index = 0
    ) -> tuple[Array, Array]:
        """Log-likelihood and its standard error, (N,) both, at parameter values (N, d).

        Where the likelihood is an estimate, the logarithm of the mean of independent ones, which
        are unbiased; the standard error is theirs, by the delta method. Else it is exact.

        Parameters
        ----------
        values : array_like, (N, d)
        copies : int
            Filters at each point, at least 2.
        seed : int
        """
        if not LIKELIHOODS[self.likelihood].estimated:
            return self(values), np.zeros(len(values))
        if copies < 2:
            raise InputError(f"copies is {copies}: give at least 2", argument="copies")
        values, samples = self._checked("values", values), self._value.n_samples
        rng, size = np.random.default_rng(seed), (copies * len(values), self._value.n_keys(samples))
        keys = rng.integers(0, 1 << 64, size, dtype=np.uint64)
        with np.errstate(all="ignore"):
            _, found = self._value.evaluate(np.tile(values, (copies, 1)), samples, keys)
            found = np.where(np.isfinite(found), found, -np.inf).reshape(copies, -1)
            top = found.max(axis=0)
            # Where every filter fails there is nothing to be relative to.
            parts = np.exp(found - np.where(np.isfinite(top), top, 0.0))
            mean, spread = parts.mean(axis=0), parts.std(axis=0, ddof=1)
            return top + np.log(mean), spread / (np.sqrt(copies) * mean)

    def derivative(self, values: Numbers, directions: Numbers) -> tuple[Array, Array]:
        """Log-likelihood (N,) and its derivative (N,) along one direction each, (N, d).

        The first call of this or of any method below compiles. Where the solution diverges, the
        derivative is NaN.
        """
        values = self._checked("values", values)
        directions = self._checked("directions", directions)
        if len(directions) != len(values):
            raise InputError(
                f"directions has {len(directions)} rows but values has {len(values)}: "
                "give one direction for each row of values"
            )
        return self._derivative(values, directions)

    def value_and_gradient(self, values: Numbers) -> tuple[Array, Array]:
        """Log-likelihood (N,) and gradient (N, d) at parameter values (N, d).

        Of more than 20 parameters by a reverse pass, but where covariances of more than 24 rows are
        computed by loops.
        """
        values = self._checked("values", values)
        return self._reverse_gradient(values) if self.reverses else self._gradient(values)

    def hessian(self, values: Numbers, difference: Positive = DIFFERENCE) -> Array:
        """Hessian (N, d, d) at parameter values (N, d), symmetric."""
        return self.gradient_and_hessian(values, difference)[1]

    def gradient_and_hessian(
        self, values: Numbers, difference: Positive = DIFFERENCE
    ) -> tuple[Array, Array]:
        """Gradient (N, d) and Hessian (N, d, d) at parameter values (N, d).

        Central differences of the exact gradient, all in one batch: each pair of parameters once,
        or where gradients are by a reverse pass 2 d of these.
        The step is a small part of the standard error by the scores of the samples, one over the
        root of the sum of their squares, so that it fits every parameter's scale. A second tangent
        would be exact, but takes minutes to compile where the first takes ten seconds.

        Parameters
        ----------
        values : array_like, (N, d)
        difference : float
            Step in standard errors. Where the result depends on it, the gradient jumps.
        """
        values = self._checked("values", values)
        n, d = values.shape
        gradient, steps = self._gradient_and_steps(values, difference)
        if self.reverses:
            return gradient, self._reverse_hessian(values, steps)
        i, j = np.triu_indices(d)
        shifts = np.eye(d)[i] * steps[:, i, None]
        points = values[:, None, None] + np.stack([-shifts, shifts], axis=1)
        directions = np.broadcast_to(np.eye(d)[j], points.shape)
        _, slopes = self._derivative(points.reshape(-1, d), directions.reshape(-1, d))
        before, after = slopes.reshape(n, 2, len(i)).transpose(1, 0, 2)
        hessian = np.empty((n, d, d))
        hessian[:, i, j] = hessian[:, j, i] = (after - before) / (2.0 * steps[:, i])
        return gradient, hessian

    @cached_property
    def reverses(self) -> bool:
        """True if `value_and_gradient` is a reverse pass."""
        require_exact(self.likelihood)
        return len(self.names) > FORWARD and self._value.reverses

    @property
    def gradient_cost(self) -> float:
        """Operations of `value_and_gradient` over those of a value, by what was compiled."""
        return self._recursion.sweep.cost if self.reverses else TANGENT_COST * len(self.names)

    @cached_property
    def tangent(self) -> LaneLikelihood:
        """Likelihood of the samples with its derivative, see `LaneLikelihood.tangent`.

        Where `expands`, the samples emit `information_rows` after these.
        """
        require_exact(self.likelihood)
        write = expansion_program if self.expands else tangent_program
        return self._value.running(
            self._recursion.kernel(self.solver, self._threads, write, TANGENT_LANES)
        )

    @property
    def expands(self) -> bool:
        """True if the samples are Gaussian, so that first derivatives give their information."""
        density = self.problem.model.density
        return LIKELIHOODS[self.likelihood].gaussian and (density is None or density.gaussian)

    def expansion(self, values: Numbers, share: Probability = 1.0) -> tuple[Array, Array, Array]:
        """Log-likelihood (N,), gradient (N, d) and information (N, d, d), in one pass.

        The information is the expected one, of Gauss-Newton and Fisher, with J = dg / dtheta and
        samples N(g, S) the sum of J' S^-1 J + tr(S^-1 dS S^-1 dS) / 2. It is there where the
        likelihood `expands`. Only what a block of samples emits is held at a time.

        Parameters
        ----------
        values : array_like, (N, d)
        share : float
            Of each record, from its beginning: from 0 to 1.
        """
        values = self._checked("values", values)
        with np.errstate(all="ignore"):
            total, slope, information = self._tangents.expansion(values, share)
        information = np.ascontiguousarray(information.transpose(2, 0, 1))
        return *_known(total, slope.T), information

    @cached_property
    def _values(self) -> Any:
        return self.where(self._value)

    @cached_property
    def _tangents(self) -> Any:
        return self.where(Tangents(self.tangent))

    @cached_property
    def _sweeps(self) -> Any:
        value = self._value
        return self.where(Sweeps(value.kernel, self._recursion.sweep, value.rows))

    @cached_property
    def _recursion(self) -> Recursion:
        """As it was compiled for these records."""
        grid = Grid.of(self.problem.records, self.problem.model.delay)
        return LIKELIHOODS[self.likelihood].traced(self.problem, self.solver, grid)

    def _reverse_gradient(self, values: Array) -> tuple[Array, Array]:
        sweeps = self._sweeps
        with np.errstate(all="ignore"):
            total, *slopes = sweeps.swept(values, sweeps.numbers(values))
            return _known(total, sweeps.gradient(values, *slopes).T)

    def _reverse_hessian(self, values: Array, steps: Array) -> Array:
        """Hessian (N, d, d) by differences of reverse gradients, of steps (N, d)."""
        n, d = values.shape
        shifts = np.eye(d) * steps[:, :, None]
        points = values[:, None, None] + np.stack([-shifts, shifts], axis=1)
        slopes = self._reverse_gradient(points.reshape(-1, d))[1].reshape(n, 2, d, d)
        hessian = (slopes[:, 1] - slopes[:, 0]) / (2.0 * steps[:, :, None])
        return 0.5 * (hessian + hessian.transpose(0, 2, 1))

    def _derivative(self, values: Array, directions: Array) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            return _known(*self._tangents.derivative(values, directions))

    def _gradient(self, values: Array) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            total, slope = self._tangents.gradient(values)
        return _known(total, slope.T)

    def _gradient_and_steps(self, values: Array, difference: float) -> tuple[Array, Array]:
        """Gradient, and step of the differences in each parameter, (N, d), exact as a number."""
        with np.errstate(all="ignore"):
            total, slope, squares = self._tangents.scores(values)
            steps = difference / np.sqrt(squares.T)
        gradient = _known(total, slope.T)[1]
        known = np.isfinite(steps) & (steps > 0)
        steps = np.where(known, steps, difference * np.maximum(np.abs(values), 1.0))
        ways = [_way_to_bound(c, values[:, j]) for j, c in enumerate(self.problem.prior.maps)]
        steps = np.minimum(steps, NEAR_BOUND * np.column_stack(ways))
        return gradient, (values + steps) - values

    def _checked(self, name: str, values: Array) -> Array:
        d = len(self.names)
        if values.ndim != 2 or values.shape[-1] != d:
            raise InputError(
                f"{name} has shape {values.shape}: give numbers of shape (N, {d}), columns "
                f"{listed(self.names)}"
            )
        return values


def _known(total: Array, slope: Array) -> tuple[Array, Array]:
    """Log-likelihood, -inf where the solution diverges, and derivatives, NaN there."""
    known, slope = np.isfinite(total), np.ascontiguousarray(slope)
    each = known.reshape(-1, *[1] * (slope.ndim - 1))
    return np.where(known, total, -np.inf), np.where(each, slope, np.nan)


def _way_to_bound(coordinate: Coordinate, values: Array) -> Array:
    """Way to the nearest bound of the parameter; infinite without one, and at or beyond it."""
    with np.errstate(all="ignore"):
        bounds = coordinate.natural(np.array([-np.inf, np.inf]))
        away = np.abs(values[:, None] - bounds).min(axis=1)
    return np.where(away > 0, away, np.inf)


def score_information(function: LogLikelihood, values: Array) -> Array:
    """Sum of the outer products of the samples' scores at parameter values (d,), (d, d)."""
    scored, d = function.tangent, len(values)
    directions = np.hstack([np.tile(values, (d, 1)), np.eye(d)])
    state, total = scored.start(directions), np.zeros((d, d))
    for a in range(0, scored.n_samples, CHUNK):
        b = min(a + CHUNK, scored.n_samples)
        state, emitted = scored.emitted(directions, state, a, b)
        total += emitted[:, 1].T @ emitted[:, 1]
    return total


def fisher_information(function: LogLikelihood, values: Array) -> Array:
    """Expected information about the parameters at values (d,), (d, d).

    That of the scores where measurements scatter otherwise than Gaussian.
    """
    problem = function.problem
    density = problem.model.density
    if density is not None and not density.gaussian:
        return score_information(function, values)
    if function.expands:
        return function.expansion(values[None, :])[2][0]
    predicted, d, q = _predicted(function), len(values), len(problem.observe)
    directions = np.hstack([np.tile(values, (d, 1)), np.eye(d)])
    present = np.concatenate([np.isfinite(record.y) for record in problem.records])
    state, total = predicted.start(directions), np.zeros((d, d))
    for a in range(0, predicted.n_samples, CHUNK):
        b = min(a + CHUNK, predicted.n_samples)
        state, emitted = predicted.emitted(directions, state, a, b)
        own, slopes = emitted[:, : q + q * q, 0], emitted[:, q + q * q :]
        covariance = own[:, q:].reshape(-1, q, q)
        # (m, d, q, q)
        change = slopes[:, q:].transpose(0, 2, 1).reshape(b - a, d, q, q)
        total += _information(slopes[:, :q], covariance, change, present[a:b])
    return total


def uninformed(function: LogLikelihood, values: Array) -> list[str]:
    """Names of the parameters at values (d,) of which the samples say nothing at all."""
    information = np.diag(fisher_information(function, values))
    return [name for name, own in zip(function.names, information, strict=True) if own == 0.0]


def _information(
    slopes: Array, covariance: Array, change: Array, present: NDArray[np.bool_]
) -> Array:
    """Sum over m samples: slopes (m, q, d), covariance (m, q, q), its change (m, d, q, q)."""
    both = present[:, :, None] & present[:, None, :]
    missing = np.where(present, 0.0, 1.0)[:, :, None] * np.eye(present.shape[1])
    whiten = np.linalg.inv(np.linalg.cholesky(np.where(both, covariance, 0.0) + missing))
    mean = whiten @ np.where(present[:, :, None], slopes, 0.0)
    wide = whiten[:, None]
    scaled = wide @ np.where(both[:, None], change, 0.0) @ wide.transpose(0, 1, 3, 2)
    mean = mean.reshape(-1, mean.shape[2])
    flat = scaled.transpose(0, 2, 3, 1).reshape(-1, scaled.shape[1])
    return np.asarray(mean.T @ mean + 0.5 * flat.T @ flat, dtype=np.float64)


def _predicted(function: LogLikelihood) -> LaneLikelihood:
    """Measurements as the likelihood expects them, mean and covariance, with their derivatives."""
    problem, solver = function.problem, function.solver
    grid = Grid.of(problem.records, problem.model.delay)
    recursion = LIKELIHOODS[function.likelihood].predicting(problem, solver, grid)
    kernel = recursion.kernel(solver, None, _predicting_program, LEAST_LANES)
    return recursion.over(problem.records, solver, kernel)


def _predicting_program(recursion: Recursion) -> LaneProgram:
    mean, covariance = recursion.expected().measured
    return tangent(recursion.program(ca.vertcat(mean, ca.densify(ca.vec(covariance)))))
