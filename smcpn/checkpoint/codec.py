"""Runs as payloads, see `smcpn.checkpoint.payload`.

`docs/checkpoint.md` has the schema.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import scipy
from pydantic import Field, model_validator

from smcpn.checkpoint.container import DAMAGED, RUN, DamagedFileError, read, read_version
from smcpn.checkpoint.documents import Document, Fingerprint, Line, Names, Number, Whole, parsed
from smcpn.checkpoint.payload import Payload, arrays_of, documents_of, encoded, populations_of
from smcpn.checkpoint.problem import ProblemDocument
from smcpn.checkpoint.records import DIGITS, records_path
from smcpn.codegen.target import target
from smcpn.errors import InputError
from smcpn.io.plain import Group
from smcpn.model.prior import Prior
from smcpn.settings import Plan, RunSnapshot, solver_document, solver_of
from smcpn.version import __version__

PROCESSOR = "processor"
"""What kernels are compiled for, by name and fingerprint of its features, among the versions."""


def versions() -> dict[str, str]:
    """Return the versions of the packages that a result is computed with, and the processor."""
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


def own_records(checkpoint: Path, version: Path) -> set[Path]:
    """Return the file of records that a version of a checkpoint names, if it has made that name."""
    try:
        header = read_version(version, RUN, _run_of).header
    except InputError:
        return set()
    path = records_path(checkpoint, header.data_fingerprint)
    return {path} if path.name == header.data_file else set()
