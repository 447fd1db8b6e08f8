"""Runs, their records, and streams as payloads, see `smcpn.checkpoint.payload`.

`docs/checkpoint.md` has the schema.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from math import log
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, model_validator

from smcpn.checkpoint.container import (
    DAMAGED,
    RECORDS,
    RUN,
    STREAM,
    DamagedFileError,
    kind_of,
    read,
    read_version,
    remove_left,
    save,
)
from smcpn.checkpoint.documents import Document, Fingerprint, Line, Names, Number, Whole, parsed
from smcpn.checkpoint.payload import Payload, arrays_of, documents_of, encoded, populations_of
from smcpn.checkpoint.problem import (
    ProblemDocument,
    problem_document,
    records_document,
    restored_problem,
    restored_records,
)
from smcpn.checkpoint.schema import FORGETTING, checked
from smcpn.checkpoint.schema import STREAM as STREAM_ARRAYS
from smcpn.codegen.native import target
from smcpn.errors import InputError
from smcpn.files import is_plain, put
from smcpn.io.plain import Group
from smcpn.model.prior import Prior
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.settings import Plan, RunSettings, RunSnapshot, solver_document, solver_of
from smcpn.smc.sampler import Snapshot

# Payload of a run

PROCESSOR = "processor"
"""What kernels are compiled for, by name and fingerprint of its features, among the versions."""


def versions() -> dict[str, str]:
    """Return the versions of the packages that a result is computed with, and the processor."""
    from smcpn import __version__

    return {
        "smcpn": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": version("numba"),
        "casadi": version("casadi"),
        PROCESSOR: str(target()),
    }


def now() -> str:
    """Return date and time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


DIGITS = 8
"""Digits of the fingerprint of the data in the name of their file."""
_DATA_FILE = rf"^[^/\\\x00-\x1f]+\.data-[0-9a-f]{{{DIGITS}}}\.h5$"


class ModesDocument(Document):
    """Modes of a start, see `Modes`."""

    shares: list[Number]
    means: list[list[Number]]
    factors: list[list[list[Number]]]
    searches: Whole
    log_evidence: float
    informations: list[list[list[Number]]]
    pulls: list[list[Number]]
    ends: list[Number] = Field(default_factory=list)
    doubt: Line = ""

    def require(self, d: int) -> None:
        """Refuse modes that are not of so many parameters.

        Raises
        ------
        DamagedFileError
        """
        rows = [row for factor in self.factors for row in factor]
        whole = len(self.shares) == len(self.means) == len(self.factors)
        whole = whole and all(len(factor) == d for factor in self.factors)
        sizes = [len(pull) for pull in self.pulls]
        whole = whole and len(sizes) in (0, len(self.shares))
        whole = whole and [len(matrix) for matrix in self.informations] == sizes
        whole = whole and all(len(row) == len(a) <= d for a in self.informations for row in a)
        if not whole or any(len(row) != d for row in [*self.means, *rows]):
            raise DamagedFileError(f"the modes are not of {d} parameters: {DAMAGED}")


class PlanDocument(Document):
    """Plan of a run, see `Plan`."""

    method: str
    solver: dict[str, Any]
    modes: ModesDocument | None
    reason: Line
    work: Whole


class StoredSettings(Document, extra="allow"):
    """Settings of a run as far as the sizes of a file follow from them.

    `RunSettings` checks the rest, where their solvers and moves are known.
    """

    particles: Annotated[int, Field(ge=10, lt=1 << 31)]
    replicates: Annotated[int, Field(ge=1, le=100_000)]
    entropy: Annotated[int, Field(ge=0)]
    start: ModesDocument | Literal["auto"] | None


class Header(Document):
    """The part of a run's checkpoint that stays the same while the run goes on.

    Attributes
    ----------
    names : tuple of str
        Of the unknown parameters.
    settings : dict
        See `RunSettings.document`.
    problem : dict
        See `problem_document`; empty where it cannot be stored.
    arrays : dict of str to ndarray
        Its expression tables.
    not_stored : str
        The reason, where something cannot be stored: the run is then resumed from its script.
    model_fingerprint, data_fingerprint : str
    n_samples : int
        Samples of the records that the run is to assimilate.
    data_file : str
        Name of the file in the same folder that holds the records.
    created : str
        Date and time, UTC.
    versions : dict of str to str
    """

    names: Names
    settings: dict[str, Any]
    problem: dict[str, Any]
    arrays: dict[str, Any] = Field(exclude=True)
    not_stored: Line
    model_fingerprint: Fingerprint
    data_fingerprint: Fingerprint
    n_samples: Whole
    data_file: Annotated[str, Field(pattern=_DATA_FILE, max_length=255)]
    created: Line
    versions: dict[Line, Line] = Field(default_factory=versions)

    @model_validator(mode="after")
    def _file_is_of_the_data(self) -> Self:
        if not self.data_file.endswith(f".data-{self.data_fingerprint[:DIGITS]}.h5"):
            raise ValueError("the file of records is named after other data")
        return self


Status = Literal["running", "interrupted", "finished"]


class RunState(Document):
    """The part of a run's checkpoint that each write replaces, but for the populations.

    Attributes
    ----------
    status : {"running", "interrupted", "finished"}
    written : str
        Date and time, UTC.
    solver : dict
        The solver in force, see `solver_document`.
    solvers : list of dict
        That of each population, coarser than the one in force until it is carried over.
    checked : int
        See `RunSnapshot`.
    refused_k : float or None
        See `RunSnapshot`.
    widened : bool
        See `RunSnapshot`.
    plan : dict or None
        See `Plan.document`.
    work : int
        See `RunSnapshot`.
    """

    status: Status
    written: Line
    solver: dict[str, Any]
    solvers: list[dict[str, Any]]
    checked: Whole
    refused_k: float | None
    widened: bool
    plan: PlanDocument | None
    work: Whole


@dataclass(frozen=True)
class StoredRun:
    """A checkpoint of a run, read.

    Attributes
    ----------
    header : Header
    snapshot : RunSnapshot
    status : str
        See `RunState`.
    written : str
        Date and time, UTC.
    """

    header: Header
    snapshot: RunSnapshot
    status: Status
    written: str


def header_image(header: Header) -> bytes:
    """Return the image that those of a run's checkpoints are added to."""
    return encoded(RUN, Payload({"header": header.model_dump()}, header.arrays))


def run_image(snapshot: RunSnapshot, status: Status, header: bytes, prior: Prior) -> bytes:
    """Return the bytes of a run's checkpoint.

    Parameters
    ----------
    snapshot : RunSnapshot
    status : str
        See `RunState`.
    header : bytes
        See `header_image`.
    prior : Prior
        Maps theta to values, for other readers.
    """
    state = RunState(
        status=status,
        written=now(),
        solver=solver_document(snapshot.solver),
        solvers=[solver_document(solver) for solver in snapshot.solvers],
        checked=snapshot.checked,
        refused_k=snapshot.refused_k,
        widened=snapshot.widened,
        plan=None if snapshot.plan is None else PlanDocument(**snapshot.plan.document()),
        work=snapshot.work,
    )
    payload = Payload({"state": state.model_dump()}, populations=snapshot.samplers)
    return encoded(RUN, payload, prior, onto=header)


def read_run(path: Path) -> StoredRun:
    """Read the checkpoint of a run; see `smcpn.checkpoint.container.read`."""
    return read(path, RUN, _run_of)


def _run_of(file: Group) -> StoredRun:
    """Return the run of a file, of which all parts fit each other.

    Raises
    ------
    DamagedFileError
        If they do not.
    InputError
        If a solver is not known here.
    """
    first, second = documents_of(file, "header", "state")
    own = {"arrays": arrays_of(file.group("arrays"))}
    header = parsed(Header, first | own if isinstance(first, dict) else first)
    if header.problem:
        problem = parsed(ProblemDocument, header.problem)
        if tuple(prior.name for prior in problem.priors) != header.names:
            raise DamagedFileError(f"its priors are of other parameters: {DAMAGED}")
        header = header.model_copy(update={"problem": problem.model_dump()})
    state, settings = parsed(RunState, second), parsed(StoredSettings, header.settings)
    sizes = {"N": settings.particles, "d": len(header.names), "T": header.n_samples}
    populations = populations_of(file, settings.replicates, sizes, header.names)
    for modes in (settings.start, None if state.plan is None else state.plan.modes):
        if isinstance(modes, ModesDocument):
            modes.require(len(header.names))
    snapshot = RunSnapshot(
        solver_of(state.solver),
        populations,
        tuple(solver_of(solver) for solver in state.solvers),
        state.checked,
        state.refused_k,
        state.widened,
        None if state.plan is None else Plan.of(state.plan.model_dump()),
        state.work,
    )
    _require_course(snapshot, header.n_samples)
    return StoredRun(header, snapshot, state.status, state.written)


def _require_course(snapshot: RunSnapshot, n_samples: int) -> None:
    """Refuse populations that no run has at any moment."""
    of_one = len(snapshot.solvers) == len(snapshot.samplers)
    planned = snapshot.plan is not None or not snapshot.samplers
    on_the_way = all(
        one.exponent is not None if one.refining else one.exponent is None or one.sample < n_samples
        for one in snapshot.samplers
    )
    # Only particles that have the solver in force, or are carried over to it, verify it.
    in_force = (
        not snapshot.samplers
        or any(one.refining for one in snapshot.samplers)
        or snapshot.solver in snapshot.solvers
    )
    checked_within = snapshot.checked <= n_samples
    widened = snapshot.refused_k is not None or not snapshot.widened
    if not (of_one and planned and on_the_way and in_force and checked_within and widened):
        raise DamagedFileError(f"its populations are of no moment of a run: {DAMAGED}")


# Payload of a run's records: a file of its own in the same folder, written once


def records_path(checkpoint: Path, fingerprint: str) -> Path:
    """Return the path of a checkpoint's records: ``run.h5.data-0123abcd.h5`` of ``run.h5``."""
    return checkpoint.with_name(f"{checkpoint.name}.data-{fingerprint[:DIGITS]}.h5")


def write_records(path: Path, records: Sequence[Record]) -> None:
    """Write the records of a run unless the file holds them already.

    Raises
    ------
    NotStorableError
        If the input of a record is a function.
    InputError
        If a file of this name is none of records.
    OSError
        If the file cannot be written.
    """
    documents, arrays = records_document(records)
    content = encoded(RECORDS, Payload({"records": documents}, arrays))
    if kind_of(path) not in (None, "", RECORDS):
        raise InputError(
            f"{path} is not the file of records that belongs to this name, or damaged, and is not "
            "overwritten: move it away, or choose another checkpoint"
        )
    remove_left(path)
    if not path.exists() or path.read_bytes() != content:
        put(path, content)


def read_records(path: Path) -> tuple[Record, ...]:
    """Read the records of a run.

    Raises
    ------
    InputError
        If the file is absent or damaged.
    """
    if not path.exists():
        raise InputError(
            f"{path.name}, which holds the records, is not with the checkpoint in "
            f"{path.parent}: put it there, or resume from the script that has the data"
        )
    return read_version(path, RECORDS, _records_of)


def _records_of(file: Group) -> tuple[Record, ...]:
    """Return the records of a file.

    Raises
    ------
    InputError
        If no records can be made of it.
    """
    (documents,) = documents_of(file, "records")
    if "populations" in file.groups:
        raise DamagedFileError(f"records have no populations: {DAMAGED}")
    return restored_records(documents, arrays_of(file.group("arrays")))


def own_records(checkpoint: Path, version: Path) -> set[Path]:
    """Return the file of records that a version of a checkpoint names, if it has made that name."""
    try:
        header = read_version(version, RUN, _run_of).header
    except InputError:
        return set()
    path = records_path(checkpoint, header.data_fingerprint)
    return {path} if path.name == header.data_file else set()


def remove_records(paths: Iterable[Path]) -> None:
    """Remove those files that are whole files of records."""
    for path in paths:
        with suppress(InputError, OSError):
            if is_plain(path):
                read_version(path, RECORDS, lambda _: None)
                path.unlink()


# Payload of a stream


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
