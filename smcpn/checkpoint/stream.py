"""The file of a stream: its problem, its settings, and all that it needs to go on.

`docs/checkpoint.md` has the schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from smcpn.base.stored import Stored, Whole
from smcpn.checkpoint.codec import decoded, encoded, require_parts
from smcpn.checkpoint.container import DAMAGED, STREAM, DamagedFileError, read, save
from smcpn.checkpoint.problem import StoredProblem, StoredRecord
from smcpn.checkpoint.run import natural_values, require_population
from smcpn.checkpoint.stream_state import ChangeState, StreamState
from smcpn.errors import InputError
from smcpn.io.hdf5_subset import Group
from smcpn.model.prior import Prior
from smcpn.model.problem import Problem
from smcpn.smc.settings import RunSettings


@dataclass(frozen=True)
class StoredStream:
    """The state of an `Online` at one time.

    problem: Its first record defines how the stream is sampled.
    settings: With the solver in force.
    options: Budget, window and memory, as `Online` checked them.
    """

    problem: Problem
    settings: RunSettings
    options: dict[str, Any]
    state: StreamState


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Options(Stored):
    """Options of a stream beside its settings."""

    budget: Seconds | None
    forget: Seconds | None
    lookahead: Whole | None
    samples_between_false_alarms: Seconds
    memory: Annotated[int, Field(ge=1, lt=1 << 53)]
    folder: None


@dataclass(frozen=True)
class Header(Stored):
    """Part of a stream's checkpoint that stays the same, but for its problem."""

    settings: RunSettings
    options: Options


def write_stream(path: Path, stream: StoredStream, prior: Prior) -> None:
    """Write the checkpoint of a stream, whose population has this prior, under its lock.

    Raises `InputError` if the file cannot be written, or settings or problem cannot be stored.
    """
    if stream.settings.not_storable:
        raise InputError(f"{path} cannot be written: {stream.settings.not_storable}")
    # Where old samples go is for the machine that reads the file.
    options: dict[str, Any] = stream.options | {"folder": None}
    parts = {
        "header": Header(stream.settings, Options(**options)),
        "problem": StoredProblem.of(stream.problem),
        "record": StoredRecord.of(stream.problem.records[0]),
        "stream": stream.state,
    }
    values = natural_values(prior, [stream.state.population])
    save(path, STREAM, encoded(STREAM, parts, beside=values))


def read_stream(path: Path) -> StoredStream:
    """Read the checkpoint of a stream; see `smcpn.checkpoint.container.read`."""
    return read(path, STREAM, _stream_of)


def _stream_of(file: Group) -> StoredStream:
    """Return the stream of a file, of which all parts fit each other."""
    require_parts(file, "header", "problem", "record", "stream", "values")
    header = decoded(file, "header", Header)
    record = decoded(file, "record", StoredRecord).restored()
    problem = decoded(file, "problem", StoredProblem).restored([record])
    n, q, states = problem.records[0].n_inputs, len(problem.observe), len(problem.ode.states)
    sizes = {"N": header.settings.particles, "n": n, "q": q, "states": states}
    sizes["m"] = problem.model.measured
    state = decoded(file, "stream", StreamState, sizes)
    require_population(state.population)
    _require_place(state, header.options.forget is not None, states)
    _require_score(state.change, header.options)
    return StoredStream(problem, header.settings, vars(header.options), state)


def _require_score(change: ChangeState, options: Options) -> None:
    """Refuse a score of the change test that `smcpn.online.change` does not let it reach."""
    most = max(0.0, 2.0 * log(options.samples_between_false_alarms))
    if not 0.0 <= change.score <= most:
        raise DamagedFileError(
            f"the score of the change test is {change.score}, and the most is {most:.3g}: {DAMAGED}"
        )


def _require_place(state: StreamState, forgets: bool, states: int) -> None:
    """Refuse a place in the stream that its samples do not lead to."""
    t, axis, begin, population = state.t, state.axis, state.begin, state.population
    last = float(t[-1]) if len(t) else -np.inf
    between = population.exponent is None and not population.refining
    counted = population.sample <= state.counted <= len(t)
    whole = axis.count == begin + len(t) and axis.last == last
    given = np.isfinite(axis.given) if len(t) else axis.given == -np.inf
    window = state.start.shape[1] == (states if begin else 0) and (forgets or not begin)
    means = (state.noted is not None) == (state.states is not None) == forgets
    tested = state.observed <= begin + state.counted
    if not (between and counted and whole and given and window and means and tested):
        raise DamagedFileError(f"the stream is not where its samples end: {DAMAGED}")
