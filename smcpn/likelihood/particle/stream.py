"""The likelihood of a stream, estimated by bootstrap filters over the samples as they come.

The rows are those of `smcpn.likelihood.growing`, and random numbers are counted from the first
sample of the stream, so that a stream and a record give the same estimates, to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, Self, cast

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.stream_step import weigh
from smcpn.likelihood.classical import outputs_at, runge_kutta_program
from smcpn.likelihood.contract import NO_KEYS, Keys
from smcpn.likelihood.growing import GrowingRows, place_before, samples_ahead, stream_grid
from smcpn.likelihood.history import History
from smcpn.likelihood.particle.kernel import Piece
from smcpn.likelihood.particle.likelihood import (
    STATE_PARTICLES,
    Particle,
    ParticleEstimate,
    normalised,
)
from smcpn.likelihood.particle.machine import KEY_SAMPLES
from smcpn.likelihood.registry import ExpectedOutputs, number_of_steps, suitable_likelihood
from smcpn.model.problem import Problem
from smcpn.model.record import Record, given_among
from smcpn.model.solver import Solver

Array = NDArray[np.float64]


def stream_estimate(
    problem: Problem,
    solver: Solver,
    history: History,
    threads: int | None = None,
    lookahead: int | None = None,
    likelihood: str | None = Particle.name,
) -> StreamEstimate:
    """Build the estimate of samples to come; arguments as of `growing_likelihood`."""
    number_of_steps(solver)
    template = problem.records[0]
    kind = cast(type[Particle], suitable_likelihood(problem, solver, likelihood))
    recursion = kind.traced(problem, solver, stream_grid(problem))
    filters = StreamFilters(recursion, solver, template, threads)
    stream = GrowingRows(filters.inputs, history, samples_ahead(template, lookahead))
    return StreamEstimate(filters, stream)


class StreamFilters:
    """The compiled filters of a stream, and what their particles expect of a sample.

    outputs: Lanes are state particles. Its moments are mean and variance of the outputs, noise
        included, and the states with what has arrived by doses.
    n_held: States and what is known of coloured noise, of a particle.
    """

    def __init__(
        self, recursion: Particle, solver: Solver, template: Record, threads: int | None
    ) -> None:
        model, sample, dead_times = recursion.model, recursion.sample, recursion.dead_times
        self.recursion, self.threads = recursion, threads
        self.constants = np.array(recursion.constant_values(solver))
        outputs = outputs_at(model, model.x, sample)
        q = self.n_outputs = outputs.numel()
        guide = recursion.filters.guide
        self.n_states, self.n_held = model.x.numel(), guide.n
        expected = ExpectedOutputs.with_white_noise(sample, outputs, ca.SX(q, q), model.x)
        mean, variance = ca.SX(expected.outputs), ca.SX(expected.noise_variance)
        for place, j in enumerate(model.coloured):
            mean[j] += guide.noise[place]
            variance[j] = guide.left[place]
        moments = ca.vertcat(mean, variance, model.whole_states(sample.input, sample.t, model.x))
        step, none = recursion.transition.step, ca.SX(0, 1)
        signal = recursion.of_filters
        plain = runge_kutta_program(model, signal, sample, ca.SX.zeros(1), step)
        moments = ca.substitute(moments, dead_times.state, dead_times.stateless(signal))
        assert plain.shared is not None
        # Of the states of a particle at a sample: no step is taken.
        program = replace(
            plain,
            state=guide.x,
            start_row=ca.vertcat(plain.start_row, dead_times.row),
            start=ca.vertcat(plain.start[: self.n_states, :], guide.noise * 0.0, guide.left * 0.0),
            step=guide.x,
            interval=None,
            interval_row=none,
            shared=replace(plain.shared, interval=none),
            moments=moments,
            n_outputs=q,
        )
        self.outputs = LaneKernel(program, threads)
        self.inputs = recursion.particle_inputs(template, solver)


class StreamEstimate(ParticleEstimate):
    """The likelihood that filters estimate of the samples that were appended so far.

    Those of other numbers of state particles share its samples and rows.
    """

    def __init__(self, compiled: StreamFilters, stream: GrowingRows) -> None:
        filters, constants = compiled.recursion.filters, compiled.constants
        super().__init__(filters, constants, [stream], STATE_PARTICLES, False, compiled.threads)
        self._compiled, self.stream = compiled, stream
        self.n_outputs, self.n_states = compiled.n_outputs, compiled.n_states
        self.n_held = compiled.n_held

    def emptied(self) -> StreamEstimate:
        """Return the same without samples, compiled already."""
        other = StreamEstimate(self._compiled, self.stream.emptied())
        return other.with_state_particles(self.state_particles)

    @override
    def with_look_ahead(self, look_ahead: bool) -> Self:
        """Copy as it is: a stream has nothing to look ahead to."""
        return self

    def given(self, samples: Array) -> NDArray[np.bool_]:
        """True for samples (m, 1 + n + q) that were not inserted where doses arrive, (m,)."""
        template = self._compiled.inputs.template
        return given_among(samples[:, 1 : 1 + template.n_inputs], template.held)

    def needed(self, samples: Array, place: int) -> int:
        """First of some samples that one depends on, the state at the last before it known."""
        inputs = self._compiled.inputs
        first = max(place - 1 if inputs.direct else place - inputs.signal.before - 2, 0)
        return place_before(self.given(samples[:first]), self.stream.lookahead)

    def run_one(
        self, values: Array, keys: Keys, state: Array | None, samples: Array, place: int
    ) -> tuple[Array, Array]:
        """State (N, k) after one of some samples, and log increments (N,), of no history.

        keys: (N, 1), new for every sample.
        state: (N, k), at the sample before; None at the first one.
        samples: (m, 1 + n + q), time, inputs and outputs of this one, those `needed` before it
            and those ahead.
        place: Of this one among them.
        """
        known, here = self._placed(samples, place)
        held = None if state is None else state.copy()
        # Random numbers are those of the second sample, whatever is known before it.
        before = max(here - 1, 0)
        piece = Piece(known, here, here + 1, -before, -int(known.begins[before]))
        after, increments, _ = self.run(values, keys, piece, held)
        return after, increments[0]

    def columns(self, values: Array) -> Array:
        """Parameters as `update` and `moments` take them."""
        return values

    def update(self, columns: Array, sample: int, keys: Keys) -> EstimateUpdate:
        """Kernel that assimilates a sample, and those after it that have keys, one by one."""
        return EstimateUpdate(self, columns, keys)

    def moments(self, columns: Array, state: Array, sample: int) -> Array:
        """Moments (m, N) of outputs and states given the samples so far, from the filters there."""
        return self._moments(columns, state, *self.stream.at(sample))

    def state_moments(
        self, values: Array, state: Array, samples: Array, place: int
    ) -> tuple[Array, Array]:
        """Means and variances (n, N) of the states of the model, of filters (k, N) at a sample."""
        found = self._moments(values, state, *self._placed(samples, place))
        mean, variance = found[2 * self.n_outputs :].reshape(2, self.n_states, -1)
        return mean, variance

    def _placed(self, samples: Array, place: int) -> tuple[Rows, int]:
        """Rows of some samples, of no history, and the place of one of them."""
        history = self.stream.history
        n, m = 1 + history.n_inputs, len(samples)
        stream = GrowingRows(self._compiled.inputs, History(n - 1, history.n_outputs, intervals=m))
        stream.append(samples[:, 0], samples[:, 1:n], samples[:, n:])
        return stream.at(place)

    def measured(self, sample: int) -> Array:
        """Outputs of a sample, (q,), NaN where missing."""
        chunk, local = self.stream.history.place(sample)
        return chunk.samples[local, -self.n_outputs :]

    def assimilated(
        self, values: Array, keys: Keys, state: Array, sample: int
    ) -> tuple[Array, Array, Array]:
        """State after a sample, its log increments, (N,), and what it was expected to be, (m, N).

        Filters take the steps to the sample once: first it is missing, which leaves the moments
        given the samples before, then its outputs are there, no step later. State and increments
        are those of `advance`, to the byte.
        """
        unseen, seen = self._unseen_and_seen(sample)
        filters, held = self._of_size(state), np.ascontiguousarray(state.T).copy()
        known = slice(*(n * filters.state_particles for n in (self.n_states, self.n_held)))
        log_sum, noise = held[:, -1].copy(), held[:, known].copy()
        held, _, _ = filters.run(values, keys, unseen, held, urgent=True)
        moments = self._moments(values, held.T, unseen.rows, unseen.first)
        # The sum of the weights as it was, which was rounded otherwise; noise has not moved yet.
        held[:, -1], held[:, known] = log_sum, noise
        held, increments, _ = filters.run(values, keys, seen, held, urgent=True)
        return held.T, increments[0], moments

    def moments_ahead(
        self,
        values: Array,
        state: Array,
        n: int,
        t: Array,
        u: Array,
        block: int,
        keys: Keys = NO_KEYS,
    ) -> Iterator[Array]:
        """Moments at samples to come, (m, N) of each; arguments as of `GrowingRows.ahead`.

        Keys that are not known yet are drawn, the same ones in every call.
        """
        more = max(self.n_keys(n + len(t)) - keys.shape[1], 0)
        drawn = np.random.default_rng(n).integers(0, 1 << 64, (len(values), more), dtype=np.uint64)
        keys, filters = np.hstack([keys, drawn]), self._of_size(state)
        held = np.ascontiguousarray(state.T).copy()
        for rows, first, last in self.stream.ahead(n, t, u, block):
            parts = []
            for k in range(first, last):
                piece = Piece(rows, k, k + 1, rows.sample, rows.steps_before)
                held, _, _ = filters.run(values, keys, piece, held, urgent=True)
                parts.append(self._moments(values, held.T, rows, k))
            yield np.stack(parts)

    def _unseen_and_seen(self, sample: int) -> tuple[Piece, Piece]:
        """A sample with its outputs missing, at the end of an interval; and itself, without one."""
        rows, local = self.stream.at(sample)
        begin, steps = max(local - 1, 0), self._compiled.inputs.most_steps
        samples, inputs = rows.samples[begin : local + rows.before + 1], rows.inputs
        missing = samples.copy()
        missing[-1, -self.stream.history.n_outputs :] = np.nan
        if inputs is not None:
            inputs = inputs[begin * steps : local * steps]
        unseen = replace(rows, inputs=inputs, samples=missing)
        none = np.zeros(local - begin, dtype=np.int64)
        nothing = None if inputs is None else inputs[:0]
        seen = replace(unseen, inputs=nothing, samples=samples, counts=none)
        first, overall = local - begin, rows.sample + begin
        place = (first, first + 1, overall, overall * steps)
        return Piece(unseen, *place), Piece(seen, *place)

    def _of_size(self, state: Array) -> Self:
        """The filters with as many particles as a state (k, N) has."""
        return self.with_state_particles((len(state) - 1) // (self.n_held + 1))

    def _weighted(self, state: Array) -> tuple[Array, Array]:
        """State particles (m, particles, N) of filters (k, N), and their weights."""
        held = state[:-1].reshape(self.n_held + 1, -1, state.shape[1])
        with np.errstate(invalid="ignore"):
            return held[: self.n_held], normalised(held[self.n_held], axis=0)

    def _moments(self, values: Array, state: Array, rows: Rows, local: int) -> Array:
        """Means and variances of the outputs, then those of the states, (2 q + 2 n, N).

        state: (k, N), at sample ``local`` of the rows.
        """
        held, weights = self._weighted(state)
        kernel, size = self._compiled.outputs, held.shape[1]
        lanes = np.ascontiguousarray(held.reshape(self.n_held, -1))
        columns = kernel.columns(np.tile(values.T, (1, size)))
        found = kernel.moments_at(columns, lanes, rows, local)
        q = self.n_outputs
        outputs, states = np.split(found.reshape(2 * q + self.n_states, size, -1), [2 * q])
        mean, variance = _mixture(outputs[:q], outputs[q:], weights)
        return np.concatenate([mean, variance, *_mixture(states, 0.0, weights)])


def _mixture(means: Array, variances: Array | float, weights: Array) -> tuple[Array, Array]:
    """Mean and variance (m, N) of mixtures of so many parts, means (m, parts, N)."""
    mean = np.einsum("mpn,pn->mn", means, weights)
    spread = np.square(means - mean[:, None]) + variances
    return mean, np.einsum("mpn,pn->mn", spread, weights)


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

    samples: Those whose keys are known.
    """

    moments = np.empty((0, 0))
    latest: EstimatedPopulation | None = None

    def __init__(self, likelihood: StreamEstimate, values: Array, keys: Keys) -> None:
        self._likelihood, self._values, self._keys = likelihood, values, keys
        self.samples = range(KEY_SAMPLES * keys.shape[1])

    def population(
        self, state: Array, log_weights: Array, log_likelihood: Array
    ) -> EstimatedPopulation:
        """Return a population; see `Update.population`."""
        innovation, *prediction = np.full((3, self._likelihood.n_outputs), np.nan)
        return EstimatedPopulation(
            state, log_weights, log_likelihood, _summary(log_weights), innovation,
            np.array(prediction),
        )  # fmt: skip

    def __call__(self, before: EstimatedPopulation, sample: int) -> EstimatedPopulation:
        """Assimilate a sample."""
        measured = self._likelihood.measured(sample)
        state, increments, moments = self._likelihood.assimilated(
            self._values, self._keys, before.state, sample
        )
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

    moments: (m, N), means and variances of the outputs, then others.
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
