"""States of a model with process noise, given its record: `States`, by filter and smoother.

The posterior of the states is a mixture over the posterior of the parameters. It is taken over a
subsample of equal weights: for each of these parameter vectors the Kalman filter runs forwards and
its smoother back (`Smoother`). The filter's state is kept every so many samples only, and the run
between is made again when the smoother gets there, so that memory holds neither samples times
parameter vectors nor the covariances of a whole record. Under a likelihood by particle filters it
is these that run, and the history of one at a time is held.

The smoother is that of Rauch, Tung and Striebel. Rauch, Tung and Striebel (1965); Saerkkae and
Svensson (2023), Bayesian Filtering and Smoothing, section 13.1. From sample k back to k - 1, with
the filter's means m and covariances P, those predicted m^-, P^-, and the product F_k of the
derivatives of all solver steps between,

    C = P_{k-1} F_k',    G = C (P_k^-)^-1,    m^s_{k-1} = m_{k-1} + G (m^s_k - m_k^-),
    P^s_{k-1} = P_{k-1} + G (P^s_k - P_k^-) G',

and a path is drawn by x_{k-1} ~ N(m_{k-1} + G (x_k - m_k^-), P_{k-1} - G C'). C is the covariance
of the states at the two samples, given those before k, so that this is the smoother that goes back
through every solver step, without their states being kept.

Arrays hold parameter vectors ("lanes") on their last axis.

By particle filters, smoothed states are the paths of a filter: the ancestors of each particle of
the last sample, with its weight. A filter that looks ahead resamples seldom and has many different
ones; where one has resampled often they share their beginnings, and it is the filters of the other
parameter vectors that tell how far a state is known there. No density of a step is needed, which
noise on some states only does not have. A path and the parameters of its filter are together what
particle MCMC is exact for (Andrieu, Doucet and Holenstein 2010, theorem 4).

The states given the samples up to each one are those of bootstrap filters, whose particles have not
seen the later ones.

References
----------
Andrieu, C., Doucet, A., Holenstein, R. (2010). Particle Markov chain Monte Carlo methods. JRSS B
72.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from math import isqrt
from typing import TYPE_CHECKING, Any, cast

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import checked
from smcpn.base.late_binding import late_bound
from smcpn.codegen.arrays import ArrayFunction
from smcpn.codegen.kernel import Rows
from smcpn.errors import InputError
from smcpn.likelihood.algebraic import AlgebraicEquations, explicit_model
from smcpn.likelihood.contract import Keys
from smcpn.likelihood.kalman import Kalman
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.particle.likelihood import History, Particle, ParticleLikelihood, normalised
from smcpn.likelihood.prediction import steps_of, written_rows
from smcpn.likelihood.registry import suitable_likelihood
from smcpn.model.problem import Model, Problem, check_record
from smcpn.model.record import Record
from smcpn.model.solver import Solver
from smcpn.pn.gaussian import applied, smoothed, smoothing_gain, square_root
from smcpn.results.simulation.simulation import TWO_SIDED_95, initial_number, starting_like
from smcpn.results.simulation.simulator import Simulator
from smcpn.smc.estimation import WITNESSES
from smcpn.smc.resampling import systematic

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Array = NDArray[np.float64]


@dataclass(frozen=True)
class FilterMoments:
    """A Kalman filter's moments at the samples [a, b), for N parameter vectors.

    predicted: (m, n, N), mean given the samples before.
    predicted_covariance: (m, n, n, N)
    moved: (m, n, n, N), F, the derivative of a state by that at the sample before.
    mean: (m, n, N), given the sample too.
    covariance: (m, n, n, N)
    shown: (m, n, n, N), derivative of all states, where algebraic equations determine some, by
        those of the filter.
    """

    predicted: Array
    predicted_covariance: Array
    moved: Array
    mean: Array
    covariance: Array
    shown: Array | None = None

    def determined(self, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Means (m, n, N) and variances of all states, of moments of those of the filter."""
        if self.shown is None:
            return mean, np.einsum("miin->min", covariance)
        variances = np.einsum("mijn,mjkn,mikn->min", self.shown, covariance, self.shown)
        return self.paths(mean, np.arange(mean.shape[-1])), variances

    def paths(self, path: Array, lanes: NDArray[np.int64]) -> Array:
        """Paths (m, n, D) of all states, of those of the filter, with parameters by their lanes."""
        if self.shown is None:
            return path
        mean, shown = self.mean[..., lanes], self.shown[..., lanes]
        return mean + np.einsum("mijd,mjd->mid", shown, path - mean)


class Smoother:
    """A smoother that goes back in time over one stretch of samples after the other.

    lanes: (D,), parameter vector of each path that is drawn.
    rng: Draws the paths.
    """

    def __init__(self, lanes: NDArray[np.int64], rng: np.random.Generator) -> None:
        self._lanes, self._rng = lanes, rng
        self._mean, self._covariance, self._path = np.empty(0), np.empty(0), np.empty(0)
        self._later: FilterMoments | None = None

    def back(self, stretch: FilterMoments) -> tuple[Array, Array, Array]:
        """Means (m, n, N), covariances (m, n, n, N) and paths (m, n, D) of a stretch of samples.

        The first stretch it is given is the last of the record; each other one ends where the
        one before began.
        """
        mean, covariance = stretch.mean.copy(), stretch.covariance.copy()
        gain, explained = self._gains(stretch)
        path = self._noisy(stretch, explained)
        chosen = gain[..., self._lanes]
        for k in reversed(range(len(mean))):
            if k + 1 < len(mean):
                after, later = (mean[k + 1], covariance[k + 1]), path[k + 1]
                ahead = stretch.predicted[k + 1], stretch.predicted_covariance[k + 1]
            elif self._later is not None:
                after, later = (self._mean, self._covariance), self._path
                ahead = self._later.predicted[0], self._later.predicted_covariance[0]
            else:
                continue
            mean[k], covariance[k] = smoothed((mean[k], covariance[k]), ahead, after, gain[k])
            if len(self._lanes):
                path[k] += applied(chosen[k], later - ahead[0][:, self._lanes])
        self._mean, self._covariance, self._path = mean[0], covariance[0], path[0]
        self._later = stretch
        return mean, covariance, path

    def _gains(self, stretch: FilterMoments) -> tuple[Array, Array]:
        """G and G C' from each sample to the one after; zero from the last."""
        ahead, moved = stretch.predicted_covariance[1:], stretch.moved[1:]
        if self._later is not None:
            ahead = np.concatenate([ahead, self._later.predicted_covariance[:1]])
            moved = np.concatenate([moved, self._later.moved[:1]])
        known = len(ahead)
        gain, explained = np.zeros_like(stretch.covariance), np.zeros_like(stretch.covariance)
        cross = np.einsum("tijn,tkjn->iktn", stretch.covariance[:known], moved)
        found = smoothing_gain(np.moveaxis(ahead, 0, 2), cross)
        gain[:known], explained[:known] = (np.moveaxis(part, 2, 0) for part in found)
        return gain, explained

    def _noisy(self, stretch: FilterMoments, explained: Array) -> Array:
        """Filtered means with what is random of a path at each sample, given the one after."""
        z = self._rng.standard_normal((*stretch.mean.shape[:2], len(self._lanes)))
        covariance = np.moveaxis(stretch.covariance[..., self._lanes], 0, 2)
        left = covariance - np.moveaxis(explained[..., self._lanes], 0, 2)
        root = square_root(left, np.einsum("iitd->itd", covariance))
        return stretch.mean[:, :, self._lanes] + np.einsum("ijtd,tjd->tid", root, z)


STATE_PARTICLES = 64
"""Of each filter that looks ahead, at least."""
FILTER_PARTICLES = 256
"""Of each bootstrap filter, at least."""
GATHERED = 4096
"""Samples of the paths of a filter that are put together at a time."""


class PathMoments:
    """Moments of the smoothed states over filters, and drawn paths."""

    def __init__(self, samples: int, n: int) -> None:
        self._count = 0
        self._within = np.zeros((samples, n))
        self._mean, self._between = np.zeros((samples, n)), np.zeros((samples, n))

    def add(self, history: History, rng: np.random.Generator, draws: int) -> Array:
        """Count the paths of a filter, and draw some of them, (draws, T, n)."""
        self._count += 1
        weights = normalised(history.log_weights[-1])
        chosen = rng.choice(len(weights), size=draws, p=weights)
        drawn = np.empty((draws, *self._mean.shape))
        for a, paths in _paths(history):
            here = slice(a, a + len(paths))
            mean = paths @ weights
            self._within[here] += np.square(paths - mean[..., None]) @ weights
            change = mean - self._mean[here]
            self._mean[here] += change / self._count
            self._between[here] += change * (mean - self._mean[here])
            drawn[:, here] = np.moveaxis(paths[..., chosen], -1, 0)
        return drawn

    @property
    def mean(self) -> Array:
        """Mean over all filters, (T, n)."""
        return self._mean

    @property
    def sd(self) -> Array:
        """Standard deviation, (T, n)."""
        return np.sqrt((self._within + self._between) / self._count)


def _paths(history: History) -> Iterator[tuple[int, Array]]:
    """Yield the first sample and the states (m, n, N_x) of the paths, the last samples first."""
    samples, _, count = history.states.shape
    place = np.arange(count)
    for b in range(samples, 0, -GATHERED):
        a = max(0, b - GATHERED)
        places = np.empty((b - a, count), dtype=np.int64)
        for k in range(b - 1, a - 1, -1):
            if k < samples - 1:
                place = history.ancestors[k][place]
            places[k - a] = place
        yield a, np.take_along_axis(history.states[a:b], places[:, None, :], axis=2)


class Determined:
    """Particles at samples of a record, with what algebraic equations determine of them.

    values: (M, d), parameters.
    """

    def __init__(self, problem: Problem, record: Record, values: Array) -> None:
        model = problem.model.with_numbers()
        symbols = ca.vertcat(model.x, model.u, model.t, model.theta)
        self._function, self._record, self._n = None, record, model.x.numel()
        self._values = values.T
        if model.algebraic:
            self._function = ArrayFunction(symbols, AlgebraicEquations(model).state)
            self._inputs = _inputs_at_samples(problem.model, record, self._values)

    def __call__(self, states: Array, lanes: slice, samples: slice) -> Array:
        """States (n, m, N) of m samples, of some parameters; behind them is coloured noise."""
        if self._function is None:
            return states
        u, t = self._inputs[samples, :, lanes].swapaxes(0, 1), self._record.t[samples, None]
        values = self._values[:, None, lanes]
        found = self._function([*states[: self._n], *u, t, *values])
        return np.stack(np.broadcast_arrays(*found, *states[self._n :]))


def _inputs_at_samples(model: Model, record: Record, values: Array) -> Array:
    """Inputs (T, n_inputs, N) that have arrived at samples by the dead times of values (d, N)."""
    if model.delay is None:
        return np.broadcast_to(record.u[:, :, None], (*record.u.shape, values.shape[1]))
    n, q = model.x.numel(), model.u.numel()
    still = replace(
        explicit_model(model), rhs=ca.SX.zeros(n, 1), outputs=model.u, process_noise=None,
        density=None,
    )  # fmt: skip
    simulator = Simulator(still, record.unmeasured(q), steps=1)
    return np.concatenate([part for _, _, part in simulator(values)])


def filtered_moments(
    likelihood: ParticleLikelihood, values: Array, keys: Keys, determined: Determined
) -> Iterator[tuple[Array, Array]]:
    """Yield, for each sample, means and variances (n, N) by the bootstrap filters of N vectors."""
    filters = likelihood.bootstrap()
    count, state = filters.state_particles, filters.start(values)
    for k in range(filters.n_samples):
        state, _ = filters.advance(values, state, k, k + 1, keys)
        particles = state[:-1].reshape(-1, count, len(values))
        weights = normalised(particles[-1], axis=0)
        states = determined(particles[:-1], slice(None), slice(k, k + 1))
        mean = (states * weights).sum(axis=1)
        yield mean, (np.square(states - mean[:, None]) * weights).sum(axis=1)


LEAST_STRETCH = 32
"""Samples between two kept states, at least."""
NUMBERS = 2_000_000
"""Moments of the filter held at a time, about."""
MOST_DRAWN = 10**8
"""Numbers of all drawn paths together: 800 MB."""


@checked
@dataclass(frozen=True, eq=False, repr=False)
class States:
    """States of a record given its outputs, over the posterior of the parameters.

    Attributes
    ----------
    record : Record
    names : tuple of str
        Of the n states, in the order of the columns below.
    mean, sd : ndarray, (T, n)
        Smoothed: given all samples of the record.
    filtered_mean, filtered_sd : ndarray, (T, n)
        Given the samples up to each one (and the parameters' posterior, which knows all).
    draws : ndarray, (D, T, n)
        Paths drawn from the joint distribution of all states given all samples, parameters
        included.
    parameters : int
        Parameter vectors, drawn from the posterior, over which all of this is a mixture.
    measured : tuple of int or None
        For each state, the output that measures it directly.
    """

    record: Record
    names: tuple[str, ...]
    mean: Array
    sd: Array
    filtered_mean: Array
    filtered_sd: Array
    draws: Array
    parameters: int
    measured: tuple[int | None, ...]

    def __repr__(self) -> str:
        return (
            f"<States {', '.join(self.names)} of {self.record.name}: {len(self.record)} samples, "
            f"{len(self.draws)} draws, {self.parameters} parameter vectors>"
        )

    @property
    def lower(self) -> Array:
        """Lower end of the smoothed 95 % band, (T, n)."""
        return self.mean - TWO_SIDED_95 * self.sd

    @property
    def upper(self) -> Array:
        """Upper end of the smoothed 95 % band, (T, n)."""
        return self.mean + TWO_SIDED_95 * self.sd

    def to_arrays(self) -> dict[str, Array]:
        """Times and moments by name, as `numpy.savez` takes them."""
        names = ("mean", "sd", "filtered_mean", "filtered_sd", "draws")
        return {"t": self.record.t} | {name: getattr(self, name) for name in names}

    @late_bound
    def plot(self) -> Figure:
        """Plot every state with its 95 % band, beside what was measured of it."""
        ...


class Mixture:
    """Mean and standard deviation over parameter vectors, sample by sample."""

    def __init__(self, samples: int, n: int) -> None:
        self.mean, self.sd = np.empty((samples, n)), np.empty((samples, n))

    def put(self, a: int, mean: Array, variance: Array) -> None:
        """Mix means and variances (m, n, N) of the samples from ``a`` on."""
        b = a + len(mean)
        self.mean[a:b] = mean.mean(axis=-1)
        between = np.square(mean - self.mean[a:b, :, None]).mean(axis=-1)
        self.sd[a:b] = np.sqrt(np.maximum(variance.mean(axis=-1) + between, 0.0))


class FilterRun:
    """A Kalman filter that ran over a record, whose moments are had again piece by piece."""

    def __init__(self, recursion: Kalman, solver: Solver, rows: Rows, values: Array) -> None:
        self._n, self._rows = recursion.mean.numel(), rows
        self._theta = np.ascontiguousarray(values.T)
        self._kernel = recursion.kernel(solver, write=Kalman.smoothing_program)
        emitted = self._kernel.program.emitted.numel() * len(values)
        length = max(LEAST_STRETCH, isqrt(len(rows)))
        length = max(1, min(length, NUMBERS // emitted))
        self._edges = [*range(0, len(rows), length), len(rows)]
        state = self._kernel.start(self._theta, rows)
        self._states = [state]
        for a, b in self._pieces[:-1]:
            state, _, _ = self._kernel.advance(self._theta, state, rows, a, b, store=False)
            self._states.append(state)

    @property
    def _pieces(self) -> list[tuple[int, int]]:
        return list(zip(self._edges, self._edges[1:], strict=False))

    def backwards(self) -> Iterator[tuple[int, FilterMoments]]:
        """Yield the first sample and the moments of each stretch, the last one first."""
        n, lanes = self._n, self._theta.shape[1]
        sizes = np.cumsum([n, n * n, n * n, n, n * n])
        for (a, b), state in reversed(list(zip(self._pieces, self._states, strict=True))):
            _, emitted, _ = self._kernel.advance(self._theta, state, self._rows, a, b, store=True)
            mean, covariance, moved, filtered, after, *shown = (
                part for part in np.split(emitted, sizes, axis=1) if part.size
            )
            # casadi stacks columns: an entry (i, j) is found at (j, i).
            square = [
                part.reshape(b - a, n, n, lanes).swapaxes(1, 2)
                for part in (covariance, moved, after, *shown)
            ]
            predicted, product, given, *of_all = square
            yield a, FilterMoments(mean, predicted, product, filtered, given, *of_all)


def states_of_particles(
    problem: Problem,
    solver: Solver,
    likelihood: str | None,
    record: Record,
    values: Array,
    weights: Array,
    *,
    draws: int,
    parameters: int,
    seed: int,
    like: Record | None = None,
) -> States:
    """Filter and smooth a record with weighted parameter values, (N, d) and (N,)."""
    if problem.model.process_noise is None:
        raise InputError(
            "states needs a problem with process noise: without, the parameters determine the "
            "states, which posterior.simulate(record, observe=[...]) gives"
        )
    check_record(record, problem.ode, len(problem.observe), problem.records)
    record = problem.model.prepared(record)
    _check_size(draws, len(record) * len(problem.ode.states))
    kind = suitable_likelihood(problem, solver, likelihood)
    rng = np.random.default_rng(seed)
    chosen = values[rng.permutation(systematic(weights, rng, parameters))]
    start = record if like is None else like
    moments = (
        _by_particles(
            cast(type[Particle], kind), problem, solver, record, start, chosen, draws, rng
        )
        if kind.estimated
        else _by_kalman(
            cast(type[Kalman], kind), problem, solver, record, start, chosen, draws, rng
        )
    )
    return States(
        record=record,
        names=tuple(problem.ode.states),
        parameters=len(chosen),
        measured=measured_states(problem),
        **moments,
    )


def _check_size(draws: int, numbers: int) -> None:
    if draws * numbers > MOST_DRAWN:
        raise InputError(
            f"draws is {draws}: each is a path of {numbers} numbers, ask for at most "
            f"{MOST_DRAWN // numbers}",
            argument="draws",
        )


def _by_kalman(
    kind: type[Kalman],
    problem: Problem,
    solver: Solver,
    record: Record,
    start: Record,
    values: Array,
    draws: int,
    rng: np.random.Generator,
) -> dict[str, Array]:
    """Moments and draws of `States` by filter and smoother."""
    recursion = kind.traced(problem, solver, Grid.of([record], problem.model.delay))
    rows = written_rows(recursion, problem, solver, record, initial_number(problem, start))
    run = FilterRun(recursion, solver, rows, values)
    n = len(problem.ode.states)
    smoothed, filtered = Mixture(len(record), n), Mixture(len(record), n)
    paths = np.empty((draws, len(record), n))
    lanes = np.arange(draws) % len(values)
    smoother = Smoother(lanes, rng)
    for a, stretch in run.backwards():
        if not np.isfinite(stretch.covariance).all():
            raise InputError(f"{record.name}: the filter diverges at parameters of the posterior")
        mean, covariance, path = smoother.back(stretch)
        # Behind the states is coloured noise.
        for mixture, *moments in (
            (smoothed, mean, covariance), (filtered, stretch.mean, stretch.covariance)
        ):  # fmt: skip
            mixture.put(a, *(one[:, :n] for one in stretch.determined(*moments)))
        paths[:, a : a + len(path)] = np.moveaxis(stretch.paths(path, lanes)[:, :n], -1, 0)
    return _parts(smoothed, filtered, paths)


def _by_particles(
    kind: type[Particle],
    problem: Problem,
    solver: Solver,
    record: Record,
    start: Record,
    values: Array,
    draws: int,
    rng: np.random.Generator,
) -> dict[str, Array]:
    """Moments and draws of `States` by particle filters."""
    determined = Determined(problem, record, values)
    alone = copy(problem)
    alone.records = (record,)
    if len(problem.model.initial) > 1:
        alone.model = starting_like(problem, problem.model, start)
    solver = solver.with_steps(steps_of(problem, solver, record))
    likelihood = kind.build(alone, solver, state_particles=STATE_PARTICLES)
    likelihood = likelihood.suited(values[:: -(-len(values) // WITNESSES)])
    keys = rng.integers(2**64, size=(len(values), likelihood.n_keys(len(record))), dtype=np.uint64)
    n = len(problem.ode.states)
    smoothed, filtered = PathMoments(len(record), n), Mixture(len(record), n)
    paths = np.empty((draws, len(record), n))
    arrived = problem.model.arrived(record, values)
    for k, theta in enumerate(values):
        (history,) = likelihood.history(theta, keys[k], len(record))
        states = determined(history.states.swapaxes(0, 1), slice(k, k + 1), slice(None))
        history = replace(history, states=states.swapaxes(0, 1) + arrived[:, :, k, None])
        paths[k :: len(values)] = smoothed.add(history, rng, len(paths[k :: len(values)]))
    bootstrap = likelihood.with_state_particles(FILTER_PARTICLES)
    for a, (mean, variance) in enumerate(filtered_moments(bootstrap, values, keys, determined)):
        # Behind the states is what is known of coloured noise.
        filtered.put(a, mean[None, :n] + arrived[a], variance[None, :n])
    return _parts(smoothed, filtered, paths)


def _parts(smoothed: Mixture | PathMoments, filtered: Mixture, draws: Array) -> dict[str, Array]:
    return {
        "mean": smoothed.mean,
        "sd": smoothed.sd,
        "filtered_mean": filtered.mean,
        "filtered_sd": filtered.sd,
        "draws": draws,
    }


def measured_states(problem: Problem) -> tuple[int | None, ...]:
    """For each state, the output that measures it directly."""
    observe: list[Any] = problem.observe
    return tuple(observe.index(s) if s in observe else None for s in problem.ode.states)
