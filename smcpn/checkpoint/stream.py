"""Streams as payloads, see `smcpn.checkpoint.payload`.

`docs/checkpoint.md` has the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import log
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from smcpn.checkpoint.codec import StoredSettings
from smcpn.checkpoint.container import DAMAGED, STREAM, DamagedFileError, read, save
from smcpn.checkpoint.documents import Document, Number, Whole, parsed
from smcpn.checkpoint.payload import Payload, arrays_of, documents_of, encoded, populations_of
from smcpn.checkpoint.problem import (
    problem_document,
    records_document,
    restored_problem,
    restored_records,
)
from smcpn.checkpoint.schema import FORGETTING, checked
from smcpn.checkpoint.schema import STREAM as STREAM_ARRAYS
from smcpn.errors import InputError
from smcpn.io.plain import Group
from smcpn.model.prior import Prior
from smcpn.model.problem import Problem
from smcpn.settings import RunSettings
from smcpn.smc.sampler import Snapshot


@dataclass(frozen=True)
class StoredStream:
    """The state of an `Online` at one time.

    Attributes
    ----------
    problem : Problem
        Its first record defines how the stream is sampled.
    settings : RunSettings
        With the solver in force.
    options : dict
        Budget, window and memory, as `Online` checked them.
    position : dict
        Where the stream is.
    arrays : dict of str to ndarray
        Samples and states that are still needed.
    population : Snapshot
    """

    problem: Problem
    settings: RunSettings
    options: dict[str, Any]
    position: dict[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    population: Snapshot


def _date(text: str) -> str:
    datetime.fromisoformat(text)
    return text


class AxisDocument(Document):
    """Where a stream is on its time axis; nowhere before its first sample."""

    start: Number
    count: Whole
    given: float
    last: float
    epoch: Annotated[str, AfterValidator(_date)] | None = None


class ChangeDocument(Document):
    """State of the change test."""

    score: Number
    since: tuple[Whole, Number] | None = Field(strict=False)
    raised: bool


class Position(Document):
    """Place of a stream: samples seen, its time axis, and the state of the test for changes."""

    axis: AxisDocument
    change: ChangeDocument
    observed: Whole
    begin: Whole
    counted: Whole
    frozen: bool
    awaited: Whole | None
    spawned: Annotated[int, Field(ge=0, lt=1 << 32)]


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Options(Document):
    """Options of a stream beside its settings."""

    budget: Seconds | None
    forget: Seconds | None
    lookahead: Whole | None
    samples_between_false_alarms: Seconds
    memory: Annotated[int, Field(ge=1, lt=1 << 53)]
    folder: None


class _StreamDocument(Document):
    settings: dict[str, Any]
    options: Options
    problem: dict[str, Any]
    records: list[Any]
    position: Position


def write_stream(path: Path, stream: StoredStream, prior: Prior) -> None:
    """Write the checkpoint of a stream, whose population has this prior, under its lock.

    Raises
    ------
    InputError
        If the file cannot be written, or settings or problem cannot be stored.
    """
    if stream.settings.not_storable:
        raise InputError(f"{path} cannot be written: {stream.settings.not_storable}")
    problem, tables = problem_document(stream.problem)
    records, columns = records_document(stream.problem.records[:1])
    document = {
        "settings": stream.settings.document(),
        # Where old samples go is for the machine that reads the file.
        "options": stream.options | {"folder": None},
        "problem": problem,
        "records": records,
        "position": stream.position,
    }
    parts = {"problem": tables, "records": columns, "stream": stream.arrays}
    arrays = {f"{part}/{name}": values for part in parts for name, values in parts[part].items()}
    payload = Payload({"stream": document}, arrays, (stream.population,))
    save(path, STREAM, encoded(STREAM, payload, prior))


def read_stream(path: Path) -> StoredStream:
    """Read the checkpoint of a stream; see `smcpn.checkpoint.container.read`."""
    return read(path, STREAM, _stream_of)


def _stream_of(file: Group) -> StoredStream:
    """Return the stream of a file, of which all parts fit each other.

    Raises
    ------
    DamagedFileError
        If they do not.
    InputError
        If the problem or the settings cannot be restored.
    """
    document = parsed(_StreamDocument, *documents_of(file, "stream"))
    parts = {name: arrays_of(part) for name, part in file.group("arrays").groups.items()}
    if set(parts) != {"problem", "records", "stream"} or file.group("arrays").arrays:
        raise DamagedFileError(f"a stream has other arrays than it should: {DAMAGED}")
    records = restored_records(document.records, parts["records"])
    problem = restored_problem(document.problem, parts["problem"], records)
    parsed(StoredSettings, document.settings)
    settings = RunSettings(**document.settings)
    states = len(problem.ode.states)
    sizes = {"n": len(problem.ode.inputs), "q": len(problem.observe), "states": states}
    sizes |= {"N": settings.particles}
    forgets = document.options.forget is not None
    arrays = checked(
        "stream", parts["stream"], STREAM_ARRAYS | (FORGETTING if forgets else {}), sizes
    )
    population = _only_population(file, sizes)
    _require_place(document.position, arrays, population, forgets, states)
    _require_score(document.position.change, document.options)
    return StoredStream(
        problem=problem,
        settings=settings,
        options=document.options.model_dump(),
        position=document.position.model_dump(),
        arrays=arrays,
        population=population,
    )


def _only_population(file: Group, sizes: Mapping[str, int]) -> Snapshot:
    populations = populations_of(file, 1, sizes)
    if not populations or populations[0].exponent is not None or populations[0].refining:
        raise DamagedFileError(f"a stream has no population between two samples: {DAMAGED}")
    return populations[0]


def _require_score(change: ChangeDocument, options: Options) -> None:
    """Refuse a score of the change test that `smcpn.online.change` does not let it reach."""
    most = max(0.0, 2.0 * log(options.samples_between_false_alarms))
    if not 0.0 <= change.score <= most:
        raise DamagedFileError(
            f"the score of the change test is {change.score}, and the most is {most:.3g}: {DAMAGED}"
        )


def _require_place(
    position: Position,
    arrays: Mapping[str, NDArray[Any]],
    population: Snapshot,
    forgets: bool,
    states: int,
) -> None:
    """Refuse a place in the stream that its samples do not lead to."""
    t, axis, begin = arrays["t"], position.axis, position.begin
    last = float(t[-1]) if len(t) else -np.inf
    counted = population.sample <= position.counted <= len(t)
    whole = axis.count == begin + len(t) and axis.last == last
    given = np.isfinite(axis.given) if len(t) else axis.given == -np.inf
    window = arrays["start"].shape[1] == (states if begin else 0) and (forgets or not begin)
    tested = position.observed <= begin + position.counted
    if not (counted and whole and given and window and tested):
        raise DamagedFileError(f"the stream is not where its samples end: {DAMAGED}")
