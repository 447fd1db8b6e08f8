"""Runs, records and streams as payloads of documents, arrays and populations in HDF5.

`docs/checkpoint.md` has the schema.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import h5py
import numba
import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field

from smcpn.checkpoint.container import (
    DAMAGED,
    RECORDS,
    RUN,
    STREAM,
    DamagedFileError,
    image,
    kind_of,
    read,
    read_version,
    remove_left,
    save,
)
from smcpn.checkpoint.problem import (
    Document,
    parsed,
    problem_document,
    records_document,
    restored_problem,
    restored_records,
)
from smcpn.errors import InputError
from smcpn.files import is_plain, put
from smcpn.model.prior import Prior
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.settings import Plan, RunSettings, RunSnapshot, solver_document, solver_of
from smcpn.smc.evidence import EvidenceEstimate
from smcpn.smc.moves import Rejuvenation
from smcpn.smc.particles import ParticleSystem
from smcpn.smc.sampler import Snapshot, Trace

# Image of a payload: documents, arrays, populations


@dataclass(frozen=True)
class Payload:
    """Content of a file as plain data.

    Attributes
    ----------
    documents : dict
        Values for JSON, by name.
    arrays : dict of str to ndarray
    populations : tuple of Snapshot
    """

    documents: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    populations: tuple[Snapshot, ...] = ()


def encoded(kind: str, payload: Payload, prior: Prior | None = None, onto: bytes = b"") -> bytes:
    """Return the bytes of a file.

    Parameters
    ----------
    kind : str
        See `smcpn.checkpoint.container.image`.
    payload : Payload
    prior : Prior, optional
        Of the populations: their parameters are written as natural values too, for other readers.
    onto : bytes
        Image of a payload to add this one to.
    """

    def fill(file: h5py.File) -> None:
        for name, document in payload.documents.items():
            file[f"documents/{name}"] = json.dumps(document)
        for name, values in payload.arrays.items():
            file[f"arrays/{name}"] = values
        for number, snapshot in enumerate(payload.populations):
            assert prior is not None
            _write_population(file.create_group(f"populations/{number}"), snapshot, prior)

    return image(kind, fill, onto)


def decoded(file: Any) -> Payload:
    """Return what an image holds."""
    arrays: dict[str, NDArray[Any]] = {}

    def collect(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = np.asarray(item[...])

    if "arrays" in file:
        file["arrays"].visititems(collect)
    documents = {name: json.loads(item.asstr()[()]) for name, item in file["documents"].items()}
    groups = file.get("populations", {})
    populations = tuple(_read_population(groups[number]) for number in sorted(groups, key=int))
    return Payload(documents, arrays, populations)


PARTICLES = tuple(field.name for field in fields(ParticleSystem))
NUMBERS = (
    "ess_before",
    "log_evidence_at_resampling",
    "variance_at_start",
    "unrelated_at_start",
    "pareto_k",
)
PROPOSAL_BYTES = 32


def _write_population(group: h5py.Group, snapshot: Snapshot, prior: Prior) -> None:
    group.attrs["sample"] = snapshot.sample
    group.attrs["refining"] = snapshot.refining
    group.attrs["exponent"] = np.nan if snapshot.exponent is None else snapshot.exponent
    group.attrs["random_state"] = json.dumps(snapshot.random_state)
    for name in NUMBERS:
        group.attrs[name] = getattr(snapshot, name)
    particles = group.create_group("particles")
    for name in PARTICLES:
        particles[name] = getattr(snapshot.system, name)
    particles["values"] = prior.natural(snapshot.system.theta)
    for name in ("theta", "values"):
        particles[name].attrs["names"] = list(prior.names)
    history = group.create_group("history")
    for name in ("length", "stride", "first"):
        history.attrs[name] = getattr(snapshot.trace, name)
    history["kept"], history["last"] = snapshot.trace.kept, snapshot.trace.last
    history["log_pair_ratios"] = np.array(snapshot.log_pair_ratios)
    history["factors"] = np.array(snapshot.factors)
    group["rejuvenations"] = _rejuvenation_table(snapshot.rejuvenations)


def _read_population(group: Any) -> Snapshot:
    """Read a population and check that its arrays fit each other.

    Raises
    ------
    DamagedFileError
        If they do not.
    """
    stored = group["particles"]
    system = ParticleSystem(**{name: stored[name][...] for name in PARTICLES})
    _require_shapes(system, len(stored["theta"].attrs["names"]))
    history = group["history"]
    exponent = float(group.attrs["exponent"])
    return Snapshot(
        system=system,
        sample=int(group.attrs["sample"]),
        exponent=None if np.isnan(exponent) else exponent,
        trace=Trace(
            int(history.attrs["length"]),
            int(history.attrs["stride"]),
            history["kept"][...],
            history["last"][...],
            int(history.attrs["first"]),
        ),
        rejuvenations=_rejuvenations(group["rejuvenations"][...]),
        log_pair_ratios=tuple(history["log_pair_ratios"][...].tolist()),
        factors=tuple(history["factors"][...].tolist()),
        refining=bool(group.attrs["refining"]),
        random_state=json.loads(group.attrs["random_state"]),
        **{name: float(group.attrs[name]) for name in NUMBERS},
    )


def _require_shapes(system: ParticleSystem, d: int) -> None:
    shapes = {name: getattr(system, name).shape for name in PARTICLES}
    n = len(system.log_weights)
    state = shapes.pop("state")
    fits = shapes.pop("theta") == (n, d) and len(state) == 2 and state[1] == n
    if not fits or set(shapes.values()) != {(n,)}:
        raise DamagedFileError(f"the particles stored are not {n} of {d} parameters")


_COLUMNS = [field for field in fields(Rejuvenation) if field.name != "evidence"]
_FORMATS = {"int": "i8", "float": "f8", "str": f"S{PROPOSAL_BYTES}"}
_TABLE = np.dtype(
    [(field.name, _FORMATS[str(field.type)]) for field in _COLUMNS]
    + [("evidence_log", "f8"), ("evidence_variance", "f8")]
)


def _rejuvenation_table(rejuvenations: tuple[Rejuvenation, ...]) -> NDArray[np.void]:
    rows = []
    for one in rejuvenations:
        values = [getattr(one, field.name) for field in _COLUMNS]
        values = [value.encode() if isinstance(value, str) else value for value in values]
        rows.append((*values, one.evidence.log, one.evidence.variance))
    return np.array(rows, dtype=_TABLE)


def _rejuvenations(table: NDArray[np.void]) -> tuple[Rejuvenation, ...]:
    found = []
    for row in table:
        values = {field.name: row[field.name].item() for field in _COLUMNS}
        values["proposal"] = values["proposal"].decode()
        evidence = EvidenceEstimate(float(row["evidence_log"]), float(row["evidence_variance"]))
        found.append(Rejuvenation(**values, evidence=evidence))
    return tuple(found)


# Payload of a run


def versions() -> dict[str, str]:
    """Return the versions of the packages that a result is computed with."""
    from smcpn import __version__

    return {
        "smcpn": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "casadi": version("casadi"),
    }


def now() -> str:
    """Return date and time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


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
        Name of the file in the same folder that holds the records; empty where there is none.
    created : str
        Date and time, UTC.
    versions : dict of str to str
    """

    names: Annotated[tuple[str, ...], Field(strict=False)]
    settings: dict[str, Any]
    problem: dict[str, Any]
    arrays: dict[str, Any] = Field(exclude=True)
    not_stored: str
    model_fingerprint: str
    data_fingerprint: str
    n_samples: int
    data_file: str
    created: str
    versions: dict[str, str] = Field(default_factory=versions)


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
    plan : dict or None
        See `Plan.document`.
    work : int
        See `RunSnapshot`.
    """

    status: Status
    written: str
    solver: dict[str, Any]
    solvers: list[dict[str, Any]]
    checked: int
    refused_k: float | None
    plan: dict[str, Any] | None
    work: int


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
        plan=None if snapshot.plan is None else snapshot.plan.document(),
        work=snapshot.work,
    )
    payload = Payload({"state": state.model_dump()}, populations=snapshot.samplers)
    return encoded(RUN, payload, prior, onto=header)


def read_run(path: Path) -> StoredRun:
    """Read the checkpoint of a run; see `smcpn.checkpoint.container.read`."""
    return read(path, RUN, _run_of)


def _run_of(file: Any) -> StoredRun:
    payload = decoded(file)
    header = parsed(Header, payload.documents["header"] | {"arrays": payload.arrays})
    state = parsed(RunState, payload.documents["state"])
    solvers = tuple(solver_of(solver) for solver in state.solvers)
    snapshot = RunSnapshot(
        solver_of(state.solver),
        payload.populations,
        solvers,
        state.checked,
        state.refused_k,
        None if state.plan is None else Plan.of(state.plan),
        state.work,
    )
    return StoredRun(header, snapshot, state.status, state.written)


# Payload of a run's records: a file of its own in the same folder, written once

DIGITS = 8
"""Digits of the fingerprint in a file's name."""


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
    payload = read_version(path, RECORDS, decoded)
    return restored_records(payload.documents.get("records"), payload.arrays)


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


class _StreamDocument(Document):
    settings: dict[str, Any]
    options: dict[str, Any]
    problem: dict[str, Any]
    records: list[Any]
    position: dict[str, Any]


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
    document = _StreamDocument(
        settings=stream.settings.document(),
        options=stream.options,
        problem=problem,
        records=records,
        position=stream.position,
    )
    parts = {"problem": tables, "records": columns, "stream": stream.arrays}
    arrays = {f"{part}/{name}": values for part in parts for name, values in parts[part].items()}
    payload = Payload({"stream": document.model_dump()}, arrays, (stream.population,))
    save(path, STREAM, encoded(STREAM, payload, prior))


def read_stream(path: Path) -> StoredStream:
    """Read the checkpoint of a stream; see `smcpn.checkpoint.container.read`."""

    def parse(file: Any) -> tuple[_StreamDocument, Payload]:
        payload = decoded(file)
        if len(payload.populations) != 1:
            raise DamagedFileError(f"{path} has {len(payload.populations)} populations: {DAMAGED}")
        return parsed(_StreamDocument, payload.documents["stream"]), payload

    document, payload = read(path, STREAM, parse)
    parts: dict[str, dict[str, NDArray[Any]]] = {"problem": {}, "records": {}, "stream": {}}
    for name, values in payload.arrays.items():
        part, _, rest = name.partition("/")
        parts[part][rest] = values
    records = restored_records(document.records, parts["records"])
    return StoredStream(
        problem=restored_problem(document.problem, parts["problem"], records),
        settings=RunSettings(**document.settings),
        options=document.options,
        position=document.position,
        arrays=parts["stream"],
        population=payload.populations[0],
    )
