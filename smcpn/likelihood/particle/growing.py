"""An estimated likelihood whose record grows: bootstrap filters over the samples as they come.

The rows are those of `smcpn.likelihood.growing`, and random numbers are counted from the first
sample of the stream, so that a stream and a record give the same estimates, to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.stream_step import weigh
from smcpn.likelihood.classical import outputs_at, runge_kutta_program
from smcpn.likelihood.contract import Keys
from smcpn.likelihood.growing import GrowingRows, samples_ahead
from smcpn.likelihood.history import History
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.particle.kernel import Piece
from smcpn.likelihood.particle.likelihood import CHUNK, STATE_PARTICLES, Particle, checked_number
from smcpn.likelihood.particle.machine import KEY_SAMPLES
from smcpn.likelihood.registry import ExpectedOutputs, number_of_steps, suitable_likelihood
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.solver import Solver

Array = NDArray[np.float64]


def growing_estimate(
    problem: Problem,
    solver: Solver,
    history: History,
    threads: int | None = None,
    lookahead: int | None = None,
    likelihood: str | None = Particle.name,
) -> GrowingEstimate:
    """Build the estimate of samples to come; arguments as of `growing_likelihood`.

    Raises
    ------
    InputError
        As `growing_likelihood`.
    """
    number_of_steps(solver)
    template = problem.records[0]
    kind = cast(type[Particle], suitable_likelihood(problem, solver, likelihood))
    recursion = kind.traced(problem, solver, Grid.of([template], problem.model.delay))
    filters = StreamFilters(recursion, solver, template, threads)
    rows = GrowingRows(filters.inputs, history, samples_ahead(template, lookahead))
    return GrowingEstimate(filters, rows, STATE_PARTICLES)


class StreamFilters:
    """The compiled filters of a stream, and what their particles expect of a sample.

    Attributes
    ----------
    inputs : KernelInputs
    outputs : LaneKernel
        Lanes are state particles. Its moments are mean and variance of the outputs, noise included.
    n_states, n_outputs : int
    """

    def __init__(
        self, recursion: Particle, solver: Solver, template: Record, threads: int | None
    ) -> None:
        model, sample, step = recursion.model, recursion.sample, recursion.transition.step
        self._filters, self._threads = recursion.filters, threads
        self._constants = np.array(recursion.constant_values(solver))
        outputs = outputs_at(model, model.x, sample)
        q = self.n_outputs = outputs.numel()
        self.n_states = model.x.numel()
        expected = ExpectedOutputs.with_white_noise(model, outputs, ca.SX(q, q), model.x)
        program = replace(
            runge_kutta_program(model, recursion.signal, sample, ca.SX.zeros(1), step),
            moments=ca.vertcat(expected.outputs, expected.noise_variance),
            n_outputs=q,
        )
        self.outputs = LaneKernel(program, threads)
        self.inputs = recursion.particle_inputs(template, solver)

    def state_size(self, particles: int) -> int:
        """Numbers that a filter of so many particles holds between samples."""
        return self._filters.state_size(particles)

    def particles_of(self, state: Array) -> int:
        """Particles of the filters of a state (k, N)."""
        return (len(state) - 1) // (self.n_states + 1)

    def run(
        self,
        values: Array,
        keys: Keys,
        state: Array | None,
        piece: Piece,
        particles: int,
        urgent: bool = False,
    ) -> tuple[Array, Array]:
        """State (N, k) after a piece, and log increments of the estimate, (m, N).

        Parameters
        ----------
        state : ndarray, (N, k), or None
            At the sample before, changed; None to begin with the first state.
        urgent : bool
            As of `ParticleKernel.run`.
        """
        constants = np.broadcast_to(self._constants, (len(values), len(self._constants)))
        after, increments, _ = self._filters.run(
            np.hstack([values, constants]), keys, piece, particles, fresh=state is None,
            look_ahead=False, state=state, threads=self._threads, urgent=urgent,
        )  # fmt: skip
        return after, increments

    def moments(self, values: Array, state: Array, rows: Rows, local: int) -> Array:
        """Means and variances of the outputs, then those of the states, (2 q + 2 n, N).

        Parameters
        ----------
        state : ndarray, (k, N)
            At sample ``local`` of the rows.
        """
        n, size = self.n_states, self.particles_of(state)
        held = state[:-1].reshape(n + 1, size, -1)
        log_weights = held[n]
        with np.errstate(invalid="ignore"):
            weights = np.exp(log_weights - log_weights.max(axis=0))
            weights /= weights.sum(axis=0)
        lanes = np.ascontiguousarray(held[:n].reshape(n, -1))
        columns = self.outputs.columns(np.tile(values.T, (1, size)))
        found = self.outputs.moments_at(columns, lanes, rows, local)
        outputs = found.reshape(2, self.n_outputs, size, -1)
        mean, variance = _mixture(outputs[0], outputs[1], weights)
        return np.concatenate([mean, variance, *_mixture(held[:n], 0.0, weights)])


def _mixture(means: Array, variances: Array | float, weights: Array) -> tuple[Array, Array]:
    """Mean and variance (m, N) of mixtures of so many parts, means (m, parts, N)."""
    mean = np.einsum("mpn,pn->mn", means, weights)
    spread = np.square(means - mean[:, None]) + variances
    return mean, np.einsum("mpn,pn->mn", spread, weights)


class GrowingEstimate:
    """The `EstimatedLikelihood` contract over the samples that were appended so far.

    Those of other numbers of state particles share its samples and rows.

    Attributes
    ----------
    state_particles : int
    """

    look_ahead = False

    def __init__(self, filters: StreamFilters, rows: GrowingRows, state_particles: int) -> None:
        self.filters, self.rows = filters, rows
        self.state_particles = checked_number(state_particles)

    @property
    def history(self) -> History:
        """All samples of the stream."""
        return self.rows.history

    @property
    def n_samples(self) -> int:
        """Samples that count."""
        return self.rows.n_samples

    @property
    def n_steps(self) -> int:
        """Solver steps between them."""
        return max(self.n_samples - 1, 0) * self.rows.steps

    def append(self, t: Array, u: Array, y: Array) -> None:
        """Take in samples: times (m,), inputs (m, n) and outputs (m, q), NaN where missing."""
        self.rows.append(t, u, y)

    def append_sample(self, sample: Sequence[float]) -> None:
        """Take in one sample: time, inputs and outputs, NaN where missing."""
        self.rows.append_sample(sample)

    def finish(self) -> None:
        """Have the last ``lookahead`` samples count: the input beyond them is held."""
        self.rows.finish()

    def emptied(self) -> GrowingEstimate:
        """Return the same without samples, compiled already."""
        history = History(self.history.n_inputs, self.history.n_outputs)
        rows = GrowingRows(self.filters.inputs, history, self.rows.lookahead)
        return GrowingEstimate(self.filters, rows, self.state_particles)

    def with_state_particles(self, number: int) -> GrowingEstimate:
        """Copy with another number of state particles, by the same compiled code."""
        other = copy(self)
        other.state_particles = checked_number(number)
        return other

    def with_look_ahead(self, look_ahead: bool) -> GrowingEstimate:
        """Copy as it is: a stream has nothing to look ahead to."""
        return self

    def suited(self, values: Array) -> GrowingEstimate:
        """Copy with the filters that estimate better at some thetas, (m, d)."""
        return self

    def guided(self, values: Array, b: int) -> NDArray[np.bool_]:
        """True where `estimate` looks ahead at a theta, (N,): nowhere."""
        return np.zeros(len(values), dtype=bool)

    def n_keys(self, b: int) -> int:
        """Number of blocks of the first b samples: keys that their filter needs."""
        return -(-b // KEY_SAMPLES)

    def estimate(self, values: Array, keys: Keys, b: int) -> Array:
        """Log of the estimate of p(y_0, ..., y_{b-1} | theta), (N,)."""
        return np.add.reduce(self.advance_keyed(values, keys, self.start(values), 0, b)[1])

    def start(self, values: Array) -> Array:
        """State before the first sample, (k, N); zero while there is no sample."""
        if self.n_samples == 0:
            return np.zeros((self.filters.state_size(self.state_particles), len(values)))
        keys = np.zeros((len(values), 1), dtype=np.uint64)
        piece = Piece(self.rows.at(0)[1], 0, 0, 0, 0)
        return self.filters.run(values, keys, None, piece, self.state_particles)[0].T

    def advance_keyed(
        self, values: Array, keys: Keys, state: Array, a: int, b: int
    ) -> tuple[Array, Array]:
        """State after sample b - 1 from that before sample a, and log increments, (b - a, N)."""
        held, parts = np.ascontiguousarray(state.T).copy(), [np.empty((0, len(values)))]
        for piece in self._pieces(a, b):
            held, increments = self.filters.run(values, keys, held, piece, self.state_particles)
            parts.append(increments)
        return held.T, np.concatenate(parts)

    def _pieces(self, a: int, b: int) -> Iterator[Piece]:
        """The samples [a, b), as many at a time as in `ParticleLikelihood`."""
        for chunk, rows, first, last in self.rows.chunks(a, b):
            steps = chunk.begin * self.rows.steps
            for begin in range(first, last, CHUNK):
                yield Piece(rows, begin, min(begin + CHUNK, last), chunk.begin, steps)

    def keyed(self, keys: Keys) -> KeyedGrowing:
        """The estimate at given keys, (N, B), sample by sample."""
        return KeyedGrowing(self, keys)


@dataclass(frozen=True)
class KeyedGrowing:
    """A growing estimate at given keys (N, B): as `GrowingLikelihood`, sample by sample."""

    estimate: GrowingEstimate
    keys: Keys

    @property
    def history(self) -> History:
        """All samples of the stream."""
        return self.estimate.history

    @property
    def n_states(self) -> int:
        """States of the model."""
        return self.estimate.filters.n_states

    def columns(self, values: Array) -> Array:
        """Parameters as `update` and `moments` take them."""
        return values

    def update(self, columns: Array, sample: int) -> EstimateUpdate:
        """Kernel that assimilates a sample, and those after it that have keys, one by one."""
        return EstimateUpdate(self, columns)

    def moments(self, columns: Array, state: Array, sample: int) -> Array:
        """Moments (m, N) of outputs and states given the samples so far, from the filters there."""
        _, rows, local = self.estimate.rows.at(sample)
        return self.estimate.filters.moments(columns, state, rows, local)

    def measured(self, sample: int) -> Array:
        """Outputs of a sample, (q,), NaN where missing."""
        chunk, local = self.history.place(sample)
        return chunk.samples[local, -self.estimate.filters.n_outputs :]

    def assimilated(self, values: Array, state: Array, sample: int) -> tuple[Array, Array, Array]:
        """State after a sample, its log increments, (N,), and what it was expected to be, (m, N).

        Filters take the steps to the sample once: first it is missing, which leaves the moments
        given the samples before, then its outputs are there, no step later. State and increments
        are those of `GrowingEstimate.advance_keyed`, to the byte.
        """
        filters, keys, pieces = self.estimate.filters, self.keys, self._unseen_and_seen(sample)
        held, size = np.ascontiguousarray(state.T).copy(), filters.particles_of(state)
        log_sum = held[:, -1].copy()
        held, _ = filters.run(values, keys, held, pieces[0], size, urgent=True)
        moments = filters.moments(values, held.T, pieces[0].rows, pieces[0].first)
        # The sum of the weights as it was, which was rounded otherwise.
        held[:, -1] = log_sum
        held, increments = filters.run(values, keys, held, pieces[1], size, urgent=True)
        return held.T, increments[0], moments

    def _unseen_and_seen(self, sample: int) -> tuple[Piece, Piece]:
        """A sample with its outputs missing, at the end of an interval; and itself, without one."""
        chunk, rows, local = self.estimate.rows.at(sample)
        begin, steps = max(local - 1, 0), self.estimate.rows.steps
        samples, inputs = rows.samples[begin : local + 1], rows.inputs
        missing = samples.copy()
        missing[-1, -self.estimate.filters.n_outputs :] = np.nan
        if inputs is not None:
            inputs = inputs[begin * steps : local * steps]
        unseen = replace(rows, inputs=inputs, samples=missing)
        none = np.zeros(local - begin, dtype=np.int64)
        nothing = None if inputs is None else inputs[:0]
        seen = replace(unseen, inputs=nothing, samples=samples, counts=none)
        first, overall = local - begin, chunk.begin + begin
        place = (first, first + 1, overall, overall * steps)
        return Piece(unseen, *place), Piece(seen, *place)

    def moments_ahead(
        self, values: Array, state: Array, n: int, t: Array, u: Array, block: int
    ) -> Iterator[Array]:
        """Moments at samples to come, (m, N) of each; arguments as of `GrowingLikelihood`.

        Keys that are not known yet are drawn, the same ones in every call.
        """
        filters, rows_of, size = self.estimate.filters, self.estimate.rows, len(values)
        more = max(self.estimate.n_keys(n + len(t)) - self.keys.shape[1], 0)
        drawn = np.random.default_rng(n).integers(0, 1 << 64, (size, more), dtype=np.uint64)
        keys, held = np.hstack([self.keys, drawn]), np.ascontiguousarray(state.T).copy()
        particles, before = filters.particles_of(state), n - 1
        for rows, first, last in rows_of.ahead(n, t, u, block):
            parts = []
            for k in range(first, last):
                piece = Piece(rows, k, k + 1, before, before * rows_of.steps)
                held, _ = filters.run(values, keys, held, piece, particles, urgent=True)
                parts.append(filters.moments(values, held.T, rows, k))
            before += last - first
            yield np.stack(parts)


class EstimatedPopulation(NamedTuple):
    """Weighted particles with their filters, as `smcpn.codegen.stream_step.Population`."""

    state: Array
    log_weights: Array
    log_likelihood: Array
    summary: tuple[float, float]
    innovation: Array
    prediction: Array


class EstimateUpdate:
    """The samples of a stream, assimilated one by one by the filters of some parameters.

    As `smcpn.codegen.stream_step.Update`, which is that of lane kernels.

    Attributes
    ----------
    samples : range
        Those whose keys are known.
    moments : ndarray
        None are kept.
    latest : None
    """

    moments = np.empty((0, 0))
    latest: EstimatedPopulation | None = None

    def __init__(self, likelihood: KeyedGrowing, values: Array) -> None:
        self._likelihood, self._values = likelihood, values
        self.samples = range(KEY_SAMPLES * likelihood.keys.shape[1])

    def population(
        self, state: Array, log_weights: Array, log_likelihood: Array
    ) -> EstimatedPopulation:
        """Return a population; see `Update.population`."""
        innovation, *prediction = np.full((3, self._likelihood.estimate.filters.n_outputs), np.nan)
        return EstimatedPopulation(
            state, log_weights, log_likelihood, _summary(log_weights), innovation,
            np.array(prediction),
        )  # fmt: skip

    def __call__(self, before: EstimatedPopulation, sample: int) -> EstimatedPopulation:
        """Assimilate a sample."""
        likelihood, measured = self._likelihood, self._likelihood.measured(sample)
        state, increments, moments = likelihood.assimilated(self._values, before.state, sample)
        increments = np.where(np.isfinite(increments), increments, -np.inf)
        log_weights = before.log_weights + increments
        mean, sd = prediction = _prediction(len(measured), moments, before.log_weights)
        return EstimatedPopulation(
            state,
            log_weights,
            before.log_likelihood + increments,
            _summary(log_weights),
            (measured - mean) / sd,
            prediction,
        )


def _prediction(q: int, moments: Array, log_weights: Array) -> Array:
    """Mean and standard deviation of q outputs, (2, q).

    Parameters
    ----------
    moments : ndarray, (m, N)
        Means and variances of the outputs, then others.
    """
    weights = np.exp(log_weights - log_weights.max())
    # A diverged particle has no weight, but nan times zero is nan.
    mean, variance = np.where(weights > 0.0, moments[: 2 * q].reshape(2, q, -1), 0.0)
    weights /= weights.sum()
    expected = mean @ weights
    spread = (np.square(mean - expected[:, None]) + variance) @ weights
    return np.stack([expected, np.sqrt(spread)])


def _summary(log_weights: Array) -> tuple[float, float]:
    ess, log_mean = weigh(log_weights[None])
    return float(ess[0]), float(log_mean[0])
