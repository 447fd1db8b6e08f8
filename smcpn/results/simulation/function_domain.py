"""Points at which trajectories evaluate the unknown functions of a model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from smcpn.errors import InputError
from smcpn.likelihood.prediction import predictions
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.model.solver import Solver
from smcpn.results.simulation.initialisation import started_states
from smcpn.results.simulation.simulation import starting_like
from smcpn.results.simulation.simulator import Simulator
from smcpn.results.simulation.states import states_of_particles

Array = NDArray[np.float64]

NEAR = 0.05
"""Distance from a place, in ranges of each variable, up to which a plane counts as visited."""
SLACK = 0.01
"""Part of the range by which a record may go beyond it without a remark."""


@dataclass(frozen=True)
class FunctionDomain:
    """Arguments at which the trajectories of records evaluate an unknown function.

    arguments: Labels of its variables.
    places: (K, variables), of every sample and call.
    """

    arguments: tuple[str, ...]
    places: Array

    @property
    def range(self) -> Array:
        """Smallest and largest value of each variable, (variables, 2)."""
        return np.column_stack([self.places.min(axis=0), self.places.max(axis=0)])

    def contains(self, points: Array, slack: float = 0.0) -> NDArray[np.bool_]:
        """True where points (m, variables) lie in the range; of several variables, near a place.

        slack: Part of the range by which it is widened.
        """
        low, high = self.range.T
        width = np.where(high > low, high - low, 1.0)
        if self.places.shape[1] == 1:
            inside = (points >= low - slack * width) & (points <= high + slack * width)
            return inside[:, 0]
        distance, _ = KDTree(self.places / width).query(points / width)
        return np.asarray(distance) <= NEAR + slack

    def __str__(self) -> str:
        return _ranges(self.arguments, self.range)


def _ranges(arguments: tuple[str, ...], ranges: Array) -> str:
    """``v from -1 to 1``, for every variable."""
    pairs = zip(arguments, ranges, strict=True)
    return " and ".join(f"{name} from {low:.3g} to {high:.3g}" for name, (low, high) in pairs)


def visited_by_records(
    problem: Problem, solver: Solver, likelihood: str | None, values: Array, step_length: float
) -> dict[str, FunctionDomain]:
    """Places along the trajectories of the records learned from, by the name of the function.

    Simulated for each parameter vector, of which the one with typical extremes counts. Where the
    problem has process noise they are the smoothed states; where all simulations of a record
    diverge, those of the likelihood, which the samples before may correct.

    values: (N, d), equally weighted parameter values.
    step_length: Seconds, about which the steps of the simulation are chosen.
    """
    model = _places_model(problem)
    if problem.model.process_noise is None:
        paths = [
            _simulated_or_predicted(problem, solver, likelihood, model, number, values, step_length)
            for number in range(len(problem.records))
        ]
    else:
        paths = [
            _smoothed(problem, solver, likelihood, model, record, values)
            for record in problem.records
        ]
    return _by_function(problem, np.concatenate(paths))


def visited_by(
    problem: Problem,
    record: Record,
    values: Array,
    step_length: float,
    initialise: int = 0,
    like: Record | None = None,
) -> dict[str, FunctionDomain]:
    """Places along the free simulation of a record; parameters as of `visited_by_records`."""
    model = _places_model(problem)
    path = _simulated(problem, model, record, values, step_length, initialise, like)
    return _by_function(problem, path)


def remark(name: str, learned: FunctionDomain, now: FunctionDomain) -> str:
    """Sentence on places that lie beyond those of the records learned from, or ""."""
    beyond = ~learned.contains(now.places, SLACK)
    if not beyond.any():
        return ""
    return (
        f"{name} is evaluated at {now}, but learned from {learned}: {beyond.mean():.2g} of the "
        "samples lie beyond, where no data tell of it"
    )


def _places_model(problem: Problem) -> Model:
    """The model with the arguments of its functions as outputs, one call below the other."""
    ode, model = problem.ode, problem.model
    parameters = ca.vertcat(
        *[
            model.theta[problem.names.index(name)]
            if name in problem.names
            else ca.SX(problem.fixed[name])
            for name in ode.parameters
        ]
    )
    calls = [
        ca.vec(one.places(model.x, model.u, model.t, parameters).T)
        for one in ode.functions.values()
    ]
    outputs = ca.vertcat(*calls)
    none = ca.SX.zeros(*outputs.shape)
    return replace(
        model, outputs=outputs, noise_variance=none, noise_correlation=none, density=None
    )


def _simulated(
    problem: Problem,
    model: Model,
    record: Record,
    values: Array,
    step_length: float,
    initialise: int = 0,
    like: Record | None = None,
) -> Array:
    """Outputs of a free simulation with the parameter vector that is typical of all, (T, q)."""
    initial: Array | None = None
    if initialise:
        initial = started_states(problem.model, record, values, initialise, step_length)
    else:
        model = starting_like(problem, model, record if like is None else like)
    blind = record.unmeasured(model.outputs.numel())
    simulator = Simulator(model, blind, "auto", step_length, initial)
    chosen = _typical(part for _, _, part in simulator(np.ascontiguousarray(values.T)))
    if chosen is None:
        raise InputError(f"{record.name}: the simulation diverges for every draw")
    initial = None if initial is None else initial[[chosen]]
    simulator = Simulator(model, blind, simulator.steps, step_length, initial)
    one = simulator(np.ascontiguousarray(values[[chosen]].T))
    return np.concatenate([part[:, :, 0] for _, _, part in one])


def _simulated_or_predicted(
    problem: Problem,
    solver: Solver,
    likelihood: str | None,
    model: Model,
    number: int,
    values: Array,
    step_length: float,
) -> Array:
    """Outputs of the free simulation of a record learned from, or of the likelihood's, (T, q)."""
    record = problem.records[number]
    try:
        return _simulated(problem, model, record, values, step_length)
    except InputError:
        (found,) = predictions(problem, solver, [(number, record)], likelihood)
        mean = values.mean(axis=0)
        states = found.states(mean, int(solver.steps))
        if not np.isfinite(states).any(axis=0).all():
            raise
        return _outputs_at(model, record, states, mean)


def _typical(parts: Iterable[Array]) -> int | None:
    """Number of the run of (m, q, N) whose extremes are nearest to their medians; None without one.

    A median over runs at every sample would be none of them: where they lose each other, as in
    chaos, it goes to the middle of what they visit.
    """
    lows, highs = zip(*[(part.min(axis=0), part.max(axis=0)) for part in parts], strict=True)
    low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    whole = np.isfinite(low).all(axis=0) & np.isfinite(high).all(axis=0)
    if not whole.any():
        return None
    ends = np.concatenate([low, high])[:, whole]
    centre = np.median(ends, axis=1, keepdims=True)
    width = np.tile(np.median((high - low)[:, whole], axis=1), 2)[:, None]
    distance = (np.abs(ends - centre) / np.where(width > 0, width, 1.0)).sum(axis=0)
    return int(np.flatnonzero(whole)[distance.argmin()])


def _smoothed(
    problem: Problem,
    solver: Solver,
    likelihood: str | None,
    model: Model,
    record: Record,
    values: Array,
) -> Array:
    """Outputs at the smoothed mean of the states and the mean of the parameters, (T, q)."""
    weights = np.full(len(values), 1.0 / len(values))
    states = states_of_particles(
        problem,
        solver,
        likelihood,
        record,
        values,
        weights,
        draws=0,
        parameters=len(values),
        seed=0,
    )
    mean = values.mean(axis=0)
    smooth = states.mean - model.arrived(record, mean[None])[:, :, 0]
    return _outputs_at(model, record, smooth, mean)


def _outputs_at(model: Model, record: Record, states: Array, values: Array) -> Array:
    """Outputs (T, q) at states (T, n) along a record, for parameters (d,)."""
    numbers = model.with_numbers()
    symbols = [numbers.x, numbers.u, numbers.t, numbers.theta]
    outputs = ca.Function("places", symbols, [numbers.outputs]).map(len(record))
    every = np.repeat(values[:, None], len(record), axis=1)
    return np.array(outputs(states.T, record.u.T, record.t[None, :], every)).T


def _by_function(problem: Problem, paths: Array) -> dict[str, FunctionDomain]:
    """Split the outputs (T, q) of `_places_model` into the places of each function."""
    found: dict[str, FunctionDomain] = {}
    begin = 0
    for name, one in problem.ode.functions.items():
        calls, variables = one.places.size_out(0)
        part = paths[:, begin : begin + calls * variables].reshape(-1, variables)
        found[name] = FunctionDomain(one.function.arguments, part[np.isfinite(part).all(axis=1)])
        begin += calls * variables
    return found
