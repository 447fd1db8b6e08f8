"""A record simulated with draws over models, coefficients and initial states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from smcpn.discovery.results.models import WeightedModels
from smcpn.errors import InputError, listed, nearest, real_number, shown
from smcpn.model.dosing import route_of
from smcpn.model.problem import Problem, check_record
from smcpn.model.record import Record
from smcpn.results.simulation.initialisation import WINDOW_STEPS, fitted_initial_states
from smcpn.results.simulation.simulation import Simulation, simulate_particles
from smcpn.results.simulation.simulator import Simulator

Array = NDArray[np.float64]

LEAST_WINDOW = 20
"""Samples, at least, that an initial state is found from."""
VARIED = 0.5
"""Standard deviation of the outputs in these samples, as a share of that in all of the record."""
_NO_NOISE = 1e-100
_UNUSED = stats.norm()
"""Prior of coefficients whose values are given."""
LEFT = 10.0
"""Ranges of the data, away from their middle, beyond which a draw has left them."""


def forecast(
    found: WeightedModels,
    record: Record,
    draws: int,
    initial: Mapping[str, float] | Sequence[float] | None,
    initialise: int | None,
    seed: int,
) -> Simulation:
    """Simulate a record; see `smcpn.Discovery.simulate`."""
    problem, values = _problem(found, record, draws, seed)
    own = _own_states(found, record, draws, seed)
    record, window = problem.model.prepared(record), 0
    if initial is not None:
        start = np.tile(_given(initial, problem.ode.states), (len(values), 1))
    elif own is not None and initialise is None:
        start = own
    else:
        window = _window(record, problem, initialise)
        start = _fitted(found, problem, record[:window], values, seed)
    simulator = Simulator(
        problem.model, record, _steps(problem, record, values, start), None, start
    )
    near = _staying(found, record, simulator, values)
    near[0] = False
    if not near.any():
        raise InputError(
            f"{record.name}: no draw stays in the range of the data: simulate fewer samples"
        )
    simulator = Simulator(problem.model, record, simulator.steps, None, start[near])
    kept = near.sum()
    compared = record.hide(0, window) if record.n_outputs else record
    result = simulate_particles(
        problem, compared, values[near], np.full(kept, 1 / kept), simulator=simulator
    )
    left_out = 1.0 - kept / draws
    return replace(result, diverged=left_out + (1.0 - left_out) * result.diverged)


def _problem(found: WeightedModels, record: Record, draws: int, seed: int) -> tuple[Problem, Array]:
    """Make the problem of the terms that draws have, with their values (1 + draws, k).

    The first are those of the most probable model.
    """
    best = np.zeros(len(found.system.coefficients))
    best[found.models[0].support] = found.models[0].mean
    values = np.vstack([best, found.draws(draws, seed)])
    support = (values != 0.0).any(axis=0)
    ode = found.system.equation(support)
    check_record(record, ode, len(found.observe), found.records)
    names = [name for name, there in zip(found.system.coefficients, support, strict=True) if there]
    prior: dict[str, Any] = dict.fromkeys(names, _UNUSED)
    problem = Problem(
        ode,
        _template(found, record),
        observe=[_observed(row, ode.states) for row in found.observe],
        noise=[max(float(sd), _NO_NOISE) for sd in found.noise],
        prior=prior,
        initial=_guess(found, record),
        delay=found.delay,
    )
    return problem, values[:, support]


def _template(found: WeightedModels, record: Record) -> Record:
    """A record with a dose of every kind, and without what a record to come does not state of y."""
    first = found.records[0]
    kinds = {route_of(dose): dose for one in (*found.records, record) for dose in one.doses}
    doses = [replace(dose, time=float(first.t[0])) for dose in kinds.values()]
    return first.with_outputs(first.y).with_doses(doses)


def _own_states(found: WeightedModels, record: Record, draws: int, seed: int) -> Array | None:
    """States (1 + draws, n) with which a record learned from begins, where they were drawn."""
    number = next((k for k, one in enumerate(found.records) if one is record), None)
    if number is None or found.posterior is None:
        return None
    rows = found.posterior.chosen(draws, seed)
    best = found.models[0].initial[number]
    return np.vstack([best, found.posterior.initial[rows, number]])


def _observed(row: Array, states: Sequence[str]) -> str:
    return states[int(np.argmax(row))]


def _guess(found: WeightedModels, record: Record) -> dict[str, float]:
    """State from which that at the first sample is looked for."""
    own = [k for k, one in enumerate(found.records) if one is record]
    state = found.models[0].initial[own[0]] if own else np.median(found.path, axis=0)
    return dict(zip(found.system.candidates.states, state.tolist(), strict=True))


def _given(initial: Any, states: tuple[str, ...]) -> Array:
    """Return an initial state that was given, (n,)."""
    remedy = f"give a number for each of the states {listed(states)}"
    if isinstance(initial, Mapping):
        for name in initial:
            if name not in states:
                raise InputError(
                    f"initial names {shown(name)}, which is no state: {nearest(str(name), states)}",
                    argument="initial",
                )
        initial = [initial.get(name) for name in states]
    if isinstance(initial, str) or len(initial) != len(states):
        raise InputError(f"initial is {shown(initial)}: {remedy}", argument="initial")
    return np.array([
        real_number(f"initial state '{name}'", value, remedy, argument="initial")
        for name, value in zip(states, initial, strict=True)
    ])  # fmt: skip


def _window(record: Record, problem: Problem, given: int | None) -> int:
    """Samples at the start that an initial state is found from."""
    n, measured = len(problem.ode.states), np.isfinite(record.y)
    if record.n_outputs == 0 or measured.sum() <= n:
        raise InputError(
            f"{record.name} has too few outputs to find its initial state from: give initial, the "
            "state at its first sample",
            argument="initial",
        )
    if given is not None:
        if not 2 <= given <= len(record):
            raise InputError(
                f"initialise is {given}: choose 2 to {len(record)} samples of {record.name}",
                argument="initialise",
            )
        return given
    enough = VARIED * np.nanstd(record.y, axis=0)
    size = min(LEAST_WINDOW, len(record))
    while size < len(record) // 2:
        # An output without any sample in the window varies by nothing.
        part = np.where(measured[:size], record.y[:size], np.nan)
        known = measured[:size].sum(axis=0) > 1
        spread = np.zeros(len(enough))
        spread[known] = np.nanstd(part[:, known], axis=0)
        if measured[:size].sum() > 2 * n and (spread >= enough).all():
            break
        size = min(size + size // 2, len(record) // 2)
    return size


def _fitted(
    found: WeightedModels, problem: Problem, window: Record, values: Array, seed: int
) -> Array:
    """Initial state (N, n) of each parameter vector, with what the noise leaves unknown of it.

    Each but the first is fitted to the samples with other noise added: under a flat prior, and as
    far as the outputs are linear in it, this is a draw from its posterior.
    """
    noise = np.random.default_rng(seed).normal(size=(len(values), *window.y.shape)) * found.noise
    noise[0] = 0.0
    return fitted_initial_states(
        problem.model, window, values, WINDOW_STEPS, outputs=window.y + noise
    )


def _steps(problem: Problem, record: Record, values: Array, start: Array) -> int:
    """Steps per sample with which the outputs of the first parameter vector settle.

    Where they do not, as those of a chaotic system over a long record, steps with which the
    first samples do.
    """
    parts = (record, record[:LEAST_WINDOW])
    for part in parts:
        simulator = Simulator(problem.model, part, "auto", None, start[:1])
        try:
            for _ in simulator(np.ascontiguousarray(values[:1].T)):
                pass
        except InputError:
            if part is parts[-1]:
                raise
            continue
        return cast(int, simulator.steps)
    raise AssertionError


def _staying(
    found: WeightedModels, record: Record, simulator: Simulator, values: Array
) -> NDArray[np.bool_]:
    """True where a draw stays in the range of the data."""
    y = np.concatenate([one.y for one in (*found.records, record) if one.n_outputs])
    low, high = np.nanmin(y, axis=0), np.nanmax(y, axis=0)
    middle, reach = (low + high) / 2, LEFT * np.maximum(high - low, found.noise)
    near = np.ones(len(values), dtype=bool)
    for _, _, outputs in simulator(np.ascontiguousarray(values.T)):
        with np.errstate(invalid="ignore", over="ignore"):
            away = np.abs(outputs - middle[:, None])
            near &= (away <= reach[:, None]).all(axis=(0, 1))
    return near
