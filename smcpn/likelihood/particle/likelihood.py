"""The likelihood of a disturbed model, estimated by a particle filter of the states.

The process noise of dx = f dt + G dW moves the state between samples, x_{n+1} = Phi(x_n) + L z over
a solver step, so that p(y | theta) is an integral over all paths. A filter estimates it without
bias with N_x state particles. Filters are twisted by look-ahead functions (`guide`) by default, and
a share of their particles is not once these have shown that they are not exact; where they are
no numbers, a theta is served by a bootstrap filter, whose particles do not look ahead (Gordon,
Salmond, Smith 1993).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from math import log
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import Rows
from smcpn.errors import InputError, shown
from smcpn.likelihood.classical import step_inputs
from smcpn.likelihood.contract import Keys
from smcpn.likelihood.inputs import KernelInputs
from smcpn.likelihood.kalman import Kalman
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.particle.guide import Guide
from smcpn.likelihood.particle.history import History
from smcpn.likelihood.particle.kernel import CompiledFilters, Kept, ParticleKernel, Piece
from smcpn.likelihood.particle.machine import KEY_SAMPLES, THETAS
from smcpn.likelihood.particle.normals import GROUP
from smcpn.likelihood.registry import number_of_steps
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.solver import Solver

Array = NDArray[np.float64]

STATE_PARTICLES = 64
"""State particles where none are named."""
COPIES = 8
"""Filters of each kind that are compared at a theta."""
MUCH, SMALL = log(20.0), 1.0
MOST_COMPARED = 2048
"""State particles by which they are compared at most."""
CHUNK = 1024
"""Samples of a bootstrap filter whose rows are in memory at a time."""


class Particle(Kalman):
    """A particle filter for each theta, twisted by the samples to come.

    What a sample is expected to be is that of the Kalman filter.
    """

    name = "particle"
    gaussian = False
    estimated = True
    approximation, approximates = "kalman", None
    looks_ahead: ClassVar[bool] = True

    @classmethod
    def build(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls,
        problem: Problem,
        solver: Solver,
        threads: int | None = None,
        *,
        state_particles: int = STATE_PARTICLES,
    ) -> ParticleLikelihood:
        """Compile the filters for a problem's records.

        Parameters
        ----------
        state_particles : int
            N_x, a multiple of 32.

        Raises
        ------
        InputError
            If the steps of the solver are still to be chosen, or for another number of particles.
        """
        number_of_steps(solver)
        recursion = cls.traced(problem, solver, Grid.of(problem.records, problem.model.delay))
        return ParticleLikelihood(
            recursion, problem.records, solver, threads, state_particles, cls.looks_ahead
        )

    def particle_inputs(self, record: Record, solver: Solver, number: int = 0) -> KernelInputs:
        """Inputs of the filters for a record, which starts from the ``number``-th initial state."""
        steps, interval = number_of_steps(solver), solver.interval
        return step_inputs(self.signal, self.model, record, steps, number, interval)

    @cached_property
    def filters(self) -> ParticleKernel:
        """The compiled filters."""
        return ParticleKernel(Guide(self.model, self.signal, self.sample, self.transition))


class Bootstrap(Particle):
    """A bootstrap filter for each theta: particles move as the model does, and do not look ahead.

    The better one where a sample leaves several places for the state, such as both wells of a
    bistable system, of which a Gaussian look-ahead function sees one.
    """

    name = "particle-bootstrap"
    looks_ahead = False


class CompiledEstimate:
    """The `EstimatedLikelihood` contract by compiled particle filters.

    It is machine code and the rows of the records, no more: it can be pickled. Several records
    follow each other: at the first sample of each the state starts anew, and a filter looks ahead
    to the end of its record at most.

    Parameters
    ----------
    filters : CompiledFilters
    constants : ndarray, (c,)
    rows : sequence of Rows
        Of each record.
    state_particles : int
    look_ahead : bool
        Whether `estimate` twists.
    threads : int, optional
    """

    contract: ClassVar[str] = "estimated"
    lanes: ClassVar[int] = THETAS
    """Thetas that are computed together."""

    def __init__(
        self,
        filters: CompiledFilters,
        constants: Array,
        rows: Sequence[Rows],
        state_particles: int,
        look_ahead: bool,
        threads: int | None = None,
    ) -> None:
        self._filters, self._constants, self._threads = filters, constants, threads
        self.look_ahead, self.state_particles = look_ahead, checked_number(state_particles)
        self._take(rows)

    def _take(self, rows: Sequence[Rows]) -> None:
        self._rows = rows
        samples = [len(one) for one in rows]
        self._begins = np.concatenate([[0], np.cumsum(samples)])
        self._steps = np.concatenate(
            [[0], np.cumsum([int(one.begins[len(one) - 1]) for one in rows])]
        )

    @property
    def n_samples(self) -> int:
        """Samples of all records together."""
        return int(self._begins[-1])

    @property
    def n_steps(self) -> int:
        """Solver steps over all records, of one state particle."""
        return int(self._steps[-1])

    def n_keys(self, b: int) -> int:
        """Number of keys that the first b samples need: one for `KEY_SAMPLES` samples."""
        return -(-b // KEY_SAMPLES)

    def with_state_particles(self, number: int) -> Self:
        """Copy with another number of state particles, by the same compiled code."""
        other = copy(self)
        other.state_particles = checked_number(number)
        return other

    def with_look_ahead(self, look_ahead: bool) -> Self:
        """Copy with filters that look ahead, or do not."""
        other = copy(self)
        other.look_ahead = look_ahead
        return other

    def suited(self, values: Array) -> Self:
        """Copy with the better filters at some thetas, by `COPIES` of either kind at each theta.

        They are doubled until the log estimates of one kind vary by one at most, on average over
        the thetas, and that kind it is. But where bootstrap filters estimate far more at a theta
        than those that look ahead, it is these: both are unbiased, and no estimate exceeds 20 times
        its mean with a probability above 1 / 20 (Markov's inequality; so many times more, the more
        thetas there are). Look-ahead functions then lead past places where the state may be, which
        need not show in any variance.
        """
        bootstrap, values = self.with_look_ahead(False), np.atleast_2d(values)
        m, b, number = len(values), self.n_samples, self.state_particles
        values, rng = np.tile(values, (COPIES, 1)), np.random.default_rng(0)
        while self.look_ahead:
            keys = rng.integers(0, 2**64, size=(2, COPIES * m, self.n_keys(b)), dtype=np.uint64)
            found, guided = self.with_state_particles(number)._estimate(values, keys[0], b)
            other = bootstrap.with_state_particles(number).estimate(values, keys[1], b)
            if 2 * guided.sum() < len(guided):
                return bootstrap
            found, other = (each.reshape(COPIES, m) for each in (found, other))
            spread, other_spread = _variance(found), _variance(other)
            more = np.logaddexp.reduce(other, axis=0) - np.logaddexp.reduce(found, axis=0)
            if more.max() > MUCH + log(m):
                return bootstrap
            if min(spread, other_spread) <= SMALL or 2 * number > MOST_COMPARED:
                return self if spread <= other_spread else bootstrap
            number *= 2
        return self

    def estimate(self, values: Array, keys: Keys, b: int) -> Array:
        """Log of the estimate of p(y_0, ..., y_{b-1} | theta), (N,)."""
        return self._estimate(values, keys, b)[0]

    def guided(self, values: Array, b: int) -> NDArray[np.bool_]:
        """True where `estimate` looks ahead at a theta, (N,); else it is a bootstrap filter."""
        keys = np.zeros((len(values), self.n_keys(b)), dtype=np.uint64)
        return self.with_state_particles(GROUP)._estimate(values, keys, b)[1]

    def start(self, values: Array) -> Array:
        """State before the first sample, (k, N)."""
        keys = np.zeros((len(values), 1), dtype=np.uint64)
        return self._run(values, keys, 0, 0, 0, None, False)[0].T

    def advance_keyed(
        self, values: Array, keys: Keys, state: Array, a: int, b: int
    ) -> tuple[Array, Array]:
        """State after sample b - 1 and log increments, (b - a, N), by bootstrap filters."""
        held, parts = np.ascontiguousarray(state.T).copy(), [np.empty((0, len(values)))]
        for record, first, last in self._pieces(a, b):
            fresh = first == 0 and record > 0
            held, increments = self._advance(
                values, keys, record, first, last, None if fresh else held
            )
            parts.append(increments)
        return held.T, np.concatenate(parts)

    def _estimate(self, values: Array, keys: Keys, b: int) -> tuple[Array, NDArray[np.bool_]]:
        total, guided = np.zeros(len(values)), np.ones(len(values), dtype=bool)
        for record, first, last in self._pieces(0, b):
            if self.look_ahead:
                _, increments, here = self._run(values, keys, record, first, last, None, True)
                guided &= here
            else:
                _, increments = self._advance(values, keys, record, first, last, None)
                guided[:] = False
            total += increments.sum(axis=0)
        return total, guided

    def _advance(
        self, values: Array, keys: Keys, record: int, first: int, last: int, state: Array | None
    ) -> tuple[Array, Array]:
        """Bootstrap filters over samples of a record, `CHUNK` at a time."""
        parts = [np.empty((0, len(values)))]
        while first < last or state is None:
            end = min(last, first + CHUNK)
            state, increments, _ = self._run(values, keys, record, first, end, state, False)
            parts.append(increments)
            first = end
        return state, np.concatenate(parts)

    def _run(
        self,
        values: Array,
        keys: Keys,
        record: int,
        first: int,
        last: int,
        state: Array | None,
        look_ahead: bool,
        kept: Kept | None = None,
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        piece = Piece(
            self._rows[record], first, last, int(self._begins[record]), int(self._steps[record])
        )
        constants = np.broadcast_to(self._constants, (len(values), len(self._constants)))
        return self._filters.run(
            np.hstack([values, constants]), keys, piece, self.state_particles,
            fresh=state is None, look_ahead=look_ahead, state=state, threads=self._threads,
            kept=kept,
        )  # fmt: skip

    def _pieces(self, a: int, b: int) -> list[tuple[int, int, int]]:
        """Records and their samples of the samples [a, b) of all."""
        pieces: list[tuple[int, int, int]] = []
        for record, rows in enumerate(self._rows):
            begin = int(self._begins[record])
            first, last = max(a - begin, 0), min(b - begin, len(rows))
            if first < last:
                pieces.append((record, first, last))
        return pieces


class ParticleLikelihood(CompiledEstimate):
    """Compiled particle filters with what they are made of: model, records and solver.

    Attributes
    ----------
    solver : Solver
    """

    _filters: ParticleKernel

    def __init__(
        self,
        recursion: Particle,
        records: Sequence[Record],
        solver: Solver,
        threads: int | None,
        state_particles: int,
        look_ahead: bool,
    ) -> None:
        self._recursion, self.solver = recursion, solver
        constants = np.array(recursion.constant_values(solver))
        rows = self._written(records)
        super().__init__(recursion.filters, constants, rows, state_particles, look_ahead, threads)

    def _written(self, records: Sequence[Record]) -> list[Rows]:
        recursion, solver = self._recursion, self.solver
        self._records = records
        return [
            recursion.particle_inputs(record, solver, number).whole(record)
            for number, record in enumerate(records)
        ]

    def with_records(self, records: Sequence[Record]) -> ParticleLikelihood:
        """Likelihood of other records on the same grid: nothing is traced or compiled."""
        other = copy(self)
        other._take(other._written(records))
        return other

    def bootstrap(self) -> ParticleLikelihood:
        """Copy that does not look ahead."""
        return self.with_look_ahead(False)

    def detached(self) -> CompiledEstimate:
        """Copy on one thread, of machine code and rows only, which can be pickled."""
        filters = CompiledFilters(self._filters.code, self._filters.sizes)
        return CompiledEstimate(
            filters, self._constants, self._rows, self.state_particles, self.look_ahead, threads=1
        )

    def history(self, values: Array, keys: Keys, b: int) -> list[History]:
        """States, weights and ancestors of the filter of one theta, record by record.

        Parameters
        ----------
        values : ndarray, (d,)
        keys : ndarray of uint64, (B,)
        """
        found: list[History] = []
        n = self._filters.sizes.n
        for record, first, last in self._pieces(0, b):
            kept = Kept(
                np.empty((last, n + 1, self.state_particles)),
                np.empty((last, self.state_particles), dtype=np.int64),
            )
            _, increments, guided = self._run(
                values[None], keys[None], record, first, last, None, self.look_ahead, kept
            )
            found.append(History.of(kept, float(increments.sum()), bool(guided[0])))
        return found


def checked_number(number: Any) -> int:
    """Number of state particles, a multiple of `GROUP`.

    Raises
    ------
    InputError
        For anything else.
    """
    if not isinstance(number, (int, np.integer)) or number < GROUP or number % GROUP:
        raise InputError(
            f"state_particles is {shown(number)}: give a multiple of {GROUP}",
            argument="state_particles",
        )
    return int(number)


def _variance(log_estimates: Array) -> float:
    """Mean variance over columns of log estimates; infinite where one is zero."""
    if not np.isfinite(log_estimates).all():
        return np.inf
    return float(log_estimates.var(axis=0, ddof=1).mean())
