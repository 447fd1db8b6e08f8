"""The likelihood of a disturbed model, estimated by a particle filter of the states.

The process noise of dx = f dt + G dW moves the state between samples, x_{n+1} = Phi(x_n) + L z over
a solver step, so that p(y | theta) is an integral over all paths. A filter estimates it without
bias with N_x state particles. Filters are twisted by look-ahead functions (`guide`) by default, and
a share of their particles is not once these have shown that they are not exact; where they are no
numbers, a theta is served by a bootstrap filter, whose particles do not look ahead (Gordon,
Salmond, Smith 1993).

`History` holds the states that the filter of one theta has seen, sample by sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.kernel import Rows
from smcpn.errors import InputError, shown
from smcpn.likelihood.classical import step_inputs, step_signal
from smcpn.likelihood.contract import NO_KEYS, Batchable, EstimatedLikelihood, Keys
from smcpn.likelihood.inputs import KernelInputs, KernelRows
from smcpn.likelihood.kalman import Kalman
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.particle.guide import Guide
from smcpn.likelihood.particle.kernel import CompiledFilters, Kept, ParticleKernel, Piece
from smcpn.likelihood.particle.machine import KEY_SAMPLES, THETAS
from smcpn.likelihood.particle.normals import GROUP
from smcpn.likelihood.registry import number_of_steps
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.model.signal import Signal
from smcpn.model.solver import Solver

Array = NDArray[np.float64]


@dataclass(frozen=True)
class History:
    """Particles of one theta at T samples of a record.

    Those of a bootstrap filter are distributed, with the weights of `weights`, as the state given
    the samples up to their own. A filter that looks ahead weighs by the samples to come, too, until
    the last one. A path drawn by `draw` is one given all samples, and there it is the filter that
    looks ahead, which resamples seldom, that has many of them.

    states: (T, n, N_x), before resampling.
    log_weights: (T, N_x), those by which the filter resamples, not normalised.
    ancestors: (T, N_x), particle of a sample that the i-th one of the next sample descends from.
    guided: Whether the filter looked ahead, or was a bootstrap filter.
    """

    states: Array
    log_weights: Array
    ancestors: NDArray[np.int64]
    log_evidence: float
    guided: bool

    @classmethod
    def of(cls, kept: Kept, n_states: int, log_evidence: float, guided: bool) -> History:
        """Return what a filter has left."""
        states, log_weights = kept.states[:, :n_states], kept.states[:, -1]
        return cls(states, log_weights, kept.ancestors, log_evidence, guided)

    @property
    def weights(self) -> Array:
        """Normalised weights, (T, N_x)."""
        return normalised(self.log_weights)

    def filtered(self) -> tuple[Array, Array]:
        """Mean (T, n) and covariance (T, n, n) of the state under the weights."""
        weights = self.weights
        mean = np.einsum("tin,tn->ti", self.states, weights)
        away = self.states - mean[:, :, None]
        return mean, np.einsum("tin,tjn,tn->tij", away, away, weights)

    def draw(self, rng: np.random.Generator, size: int = 1) -> Array:
        """Paths of the state given all samples, (size, T, n): ancestors of particles of the last.

        Paths of one filter share their beginnings where it has resampled; those of many filters,
        one each, are independent.
        """
        place = rng.choice(self.states.shape[2], size=size, p=normalised(self.log_weights[-1]))
        paths = np.empty((size, *self.states.shape[:2]))
        for k in range(len(self.states) - 1, -1, -1):
            if k < len(self.states) - 1:
                place = self.ancestors[k, place]
            paths[:, k] = self.states[k][:, place].T
        return paths


def normalised(log_weights: Array, axis: int = -1) -> Array:
    """Weights that sum to one along an axis, of log weights."""
    weights = np.exp(log_weights - log_weights.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


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

        state_particles: N_x, a multiple of 32.
        """
        number_of_steps(solver)
        recursion = cls.traced(problem, solver, Grid.of(problem.records, problem.model.delay))
        return ParticleLikelihood(
            recursion, problem.records, solver, threads, state_particles, cls.looks_ahead
        )

    def particle_inputs(self, record: Record, solver: Solver, number: int = 0) -> KernelInputs:
        """Inputs of the filters for a record, which starts from the ``number``-th initial state."""
        steps, interval = number_of_steps(solver), solver.interval
        return step_inputs(self.of_filters, self.dead_times, record, steps, number, interval)

    @cached_property
    def filters(self) -> ParticleKernel:
        """The compiled filters."""
        return ParticleKernel(Guide(self, self.of_filters))

    @cached_property
    def of_filters(self) -> Signal:
        """The signal of the filters, whose loops know of no parts."""
        return step_signal(self.dead_times, self._grid, looped=False)


class Bootstrap(Particle):
    """A bootstrap filter for each theta: particles move as the model does, and do not look ahead.

    The better one where a sample leaves several places for the state, such as both wells of a
    bistable system, of which a Gaussian look-ahead function sees one.
    """

    name = "particle-bootstrap"
    looks_ahead = False


class ParticleEstimate(Batchable, EstimatedLikelihood):
    """The likelihood that particle filters estimate, of the samples of records or of a stream.

    At the first sample of each record the state starts anew, and a filter looks ahead to the end of
    its record at most. It is machine code and rows, no more: it can be pickled.

    rows: Of each record.
    look_ahead: Whether `evaluate` twists.
    """

    batches: ClassVar = ("advance", "accumulate", "evaluate")
    lanes = THETAS
    """Thetas that are computed together."""

    def __init__(
        self,
        filters: CompiledFilters,
        constants: Array,
        rows: Sequence[Rows | KernelRows],
        state_particles: int,
        look_ahead: bool,
        threads: int | None = None,
    ) -> None:
        self._filters, self._constants, self._rows = filters, constants, rows
        self._threads, self.look_ahead = threads, look_ahead
        self.state_particles = checked_number(state_particles)

    @property
    def n_samples(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Samples of all records."""
        return sum(map(len, self._rows))

    @property
    def n_steps(self) -> int:
        """Solver steps over all records, of one state particle."""
        return sum(rows.n_steps for rows in self._rows)

    def _pieces(self, a: int, b: int) -> Iterator[Piece]:
        """Yield the samples [a, b) in pieces, those of a record that has ended together."""
        begin = steps = 0
        for rows in self._rows:
            for piece in rows.pieces(max(a - begin, 0), min(b - begin, len(rows))):
                there, first, last = piece
                yield Piece(there, first, last, begin + there.sample, steps + there.steps_before)
            begin, steps = begin + len(rows), steps + rows.n_steps

    @property
    def state_size(self) -> int:
        """Numbers that a filter holds between samples."""
        return self._filters.state_size(self.state_particles)

    @override
    def n_keys(self, b: int) -> int:
        """Return one for `KEY_SAMPLES` samples."""
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
            found, guided = self.with_state_particles(number)._estimate(values, b, keys[0])
            other = bootstrap.with_state_particles(number).evaluate(values, b, keys[1])[1]
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

    @override
    def evaluate(self, values: Array, b: int, keys: Keys = NO_KEYS) -> tuple[Array, Array]:
        return np.empty((0, len(values))), self._estimate(values, b, keys)[0]

    def guided(self, values: Array, b: int) -> NDArray[np.bool_]:
        """True where `evaluate` looks ahead at a theta, (N,); else it is a bootstrap filter."""
        if not self.look_ahead:
            return np.zeros(len(values), dtype=bool)
        keys = np.zeros((len(values), self.n_keys(b)), dtype=np.uint64)
        return self.with_state_particles(GROUP)._estimate(values, b, keys)[1]

    @override
    def start(self, values: Array) -> Array:
        if not len(self._rows[0]):
            return np.zeros((self.state_size, len(values)))
        keys = np.zeros((len(values), 1), dtype=np.uint64)
        first, *_ = next(self._rows[0].pieces(0, 1))
        return self.run(values, keys, Piece(first, 0, 0, 0, 0), None)[0].T

    @override
    def advance(
        self, values: Array, state: Array, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        held, parts = np.ascontiguousarray(state.T).copy(), [np.empty((0, len(values)))]
        for piece in self._pieces(a, b):
            fresh = piece.first == 0 and piece.sample_offset > 0
            held, increments = self._advance(values, keys, piece, None if fresh else held)
            parts.append(increments)
        return held.T, np.concatenate(parts)

    def _estimate(self, values: Array, b: int, keys: Keys) -> tuple[Array, NDArray[np.bool_]]:
        total, guided, held = np.zeros(len(values)), np.full(len(values), self.look_ahead), None
        for piece in self._pieces(0, b):
            if self.look_ahead:
                _, increments, here = self.run(values, keys, piece, None, look_ahead=True)
                guided &= here
            else:
                held = None if piece.first == 0 else held
                held, increments = self._advance(values, keys, piece, held)
            total += increments.sum(axis=0)
        return total, guided

    def _advance(
        self, values: Array, keys: Keys, piece: Piece, state: Array | None
    ) -> tuple[Array, Array]:
        """Bootstrap filters over a piece, `CHUNK` samples at a time."""
        parts, first = [np.empty((0, len(values)))], piece.first
        while first < piece.last or state is None:
            end = min(piece.last, first + CHUNK)
            part = replace(piece, first=first, last=end)
            state, increments, _ = self.run(values, keys, part, state)
            parts.append(increments)
            first = end
        return state, np.concatenate(parts)

    def run(
        self,
        values: Array,
        keys: Keys,
        piece: Piece,
        state: Array | None,
        *,
        look_ahead: bool = False,
        kept: Kept | None = None,
        urgent: bool = False,
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Run the filters over a piece, from a first state where there is none.

        Parameters and results are those of `CompiledFilters.run`.
        """
        constants = np.broadcast_to(self._constants, (len(values), len(self._constants)))
        return self._filters.run(
            np.hstack([values, constants]), keys, piece, self.state_particles,
            fresh=state is None, look_ahead=look_ahead, state=state, threads=self._threads,
            kept=kept, urgent=urgent,
        )  # fmt: skip


class ParticleLikelihood(ParticleEstimate):
    """Compiled particle filters with what they are made of: model, records and solver."""

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
        self._recursion, self.solver, self._records = recursion, solver, records
        constants = np.array(recursion.constant_values(solver))
        rows = self._written(records)
        super().__init__(recursion.filters, constants, rows, state_particles, look_ahead, threads)

    def _written(self, records: Sequence[Record]) -> list[Rows]:
        recursion, solver = self._recursion, self.solver
        return [
            recursion.particle_inputs(record, solver, number).whole(record)
            for number, record in enumerate(records)
        ]

    def with_records(self, records: Sequence[Record]) -> ParticleLikelihood:
        """Likelihood of other records on the same grid: nothing is traced or compiled."""
        other = copy(self)
        other._records, other._rows = records, self._written(records)
        return other

    def bootstrap(self) -> ParticleLikelihood:
        """Copy that does not look ahead."""
        return self.with_look_ahead(False)

    @override
    def detached(self) -> ParticleEstimate:
        filters = CompiledFilters(self._filters.code, self._filters.sizes)
        return ParticleEstimate(
            filters, self._constants, self._rows, self.state_particles, self.look_ahead, threads=1
        )

    def history(self, values: Array, keys: Keys, b: int) -> list[History]:
        """States, weights and ancestors of the filter of one theta, record by record."""
        found: list[History] = []
        n = self._filters.sizes.n
        for piece in self._pieces(0, b):
            kept = Kept(
                np.empty((piece.last, n + 1, self.state_particles)),
                np.empty((piece.last, self.state_particles), dtype=np.int64),
            )
            _, increments, guided = self.run(
                values[None], keys[None], piece, None, look_ahead=self.look_ahead, kept=kept
            )
            states = self._recursion.model.x.numel()
            found.append(History.of(kept, states, float(increments.sum()), bool(guided[0])))
        return found


def checked_number(number: Any) -> int:
    """Number of state particles, a multiple of `GROUP`."""
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
