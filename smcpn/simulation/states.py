"""States of a model with process noise, given its record: `States`, by filter and smoother.

The posterior of the states is a mixture over the posterior of the parameters. It is taken over a
subsample of equal weights: for each of these parameter vectors the Kalman filter runs forwards and
its smoother back (`smoother`). The filter's state is kept every so many samples only, and the run
between is made again when the smoother gets there, so that memory holds neither samples times
parameter vectors nor the covariances of a whole record. Under a likelihood by particle filters it
is these that run (`particle_states`), and the history of one at a time is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from math import isqrt
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import checked
from smcpn.codegen.kernel import Rows
from smcpn.errors import InputError
from smcpn.late_binding import late_bound
from smcpn.likelihood.kalman import Kalman
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.particle.likelihood import Particle
from smcpn.likelihood.prediction import steps_of, written_rows
from smcpn.likelihood.registry import suitable_likelihood
from smcpn.model.problem import Problem, check_record
from smcpn.model.record import Record
from smcpn.simulation.particle_states import (
    FILTER_PARTICLES,
    STATE_PARTICLES,
    PathMoments,
    filtered_moments,
)
from smcpn.simulation.simulation import TWO_SIDED_95, initial_number, starting_like
from smcpn.simulation.smoother import FilterMoments, Smoother
from smcpn.smc.estimation import WITNESSES
from smcpn.smc.resampling import systematic
from smcpn.solver import Solver

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

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
    """Mean and standard deviation over parameter vectors, sample by sample.

    Attributes
    ----------
    mean, sd : ndarray, (T, n)
    """

    def __init__(self, samples: int, n: int) -> None:
        self.mean, self.sd = np.empty((samples, n)), np.empty((samples, n))

    def put(self, a: int, mean: Array, variance: Array) -> None:
        """Mix means and variances (m, n, N) of the samples from ``a`` on."""
        b = a + len(mean)
        self.mean[a:b] = mean.mean(axis=-1)
        between = np.square(mean - self.mean[a:b, :, None]).mean(axis=-1)
        self.sd[a:b] = np.sqrt(np.maximum(variance.mean(axis=-1) + between, 0.0))


class FilterRun:
    """A Kalman filter that ran over a record, whose moments are had again piece by piece.

    Parameters
    ----------
    recursion : Kalman
    solver : Solver
        As it ran.
    rows : Rows
        Of the record.
    values : ndarray, (N, d)
    """

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
        sizes = np.cumsum([n, n * n, n * n, n])
        for (a, b), state in reversed(list(zip(self._pieces, self._states, strict=True))):
            _, emitted, _ = self._kernel.advance(self._theta, state, self._rows, a, b, store=True)
            mean, covariance, moved, filtered, after = np.split(emitted, sizes, axis=1)
            # casadi stacks columns: an entry (i, j) is found at (j, i).
            square = [
                part.reshape(b - a, n, n, lanes).swapaxes(1, 2)
                for part in (covariance, moved, after)
            ]
            yield a, FilterMoments(mean, square[0], square[1], filtered, square[2])


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
    """Filter and smooth a record with weighted parameter values, (N, d) and (N,).

    Raises
    ------
    InputError
        If the problem has no process noise, the record does not fit, or so many draws are more
        than memory should hold.
    """
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
    smoother = Smoother(np.arange(draws) % len(values), rng)
    diagonal = np.arange(n)
    for a, stretch in run.backwards():
        if not np.isfinite(stretch.covariance).all():
            raise InputError(f"{record.name}: the filter diverges at parameters of the posterior")
        mean, covariance, path = smoother.back(stretch)
        # Behind the states is coloured noise.
        smoothed.put(a, mean[:, :n], covariance[:, diagonal, diagonal])
        filtered.put(a, stretch.mean[:, :n], stretch.covariance[:, diagonal, diagonal])
        paths[:, a : a + len(path)] = np.moveaxis(path[:, :n], -1, 0)
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
        history = replace(history, states=history.states + arrived[:, :, k, None])
        paths[k :: len(values)] = smoothed.add(history, rng, len(paths[k :: len(values)]))
    bootstrap = likelihood.with_state_particles(FILTER_PARTICLES)
    for a, (mean, variance) in enumerate(filtered_moments(bootstrap, values, keys)):
        filtered.put(a, mean[None] + arrived[a], variance[None])
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
