"""The checkpoint of a run: a header that stays the same while it goes on, and its state.

`docs/checkpoint.md` has the schema.

The records of a run are a file of their own beside the checkpoint, written once. `CheckpointWriter`
writes snapshots of a run while it goes on: when, and what if that fails.
"""

from __future__ import annotations

import logging
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Generic, Literal, Protocol, Self, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import override

from smcpn.base.files import is_plain, put
from smcpn.base.stored import Fingerprint, Line, Names, Stored, Whole
from smcpn.checkpoint.codec import decoded, decoded_all, encoded, numbered, require_parts
from smcpn.checkpoint.container import (
    DAMAGED,
    RECORDS,
    RUN,
    CheckpointWarning,
    DamagedFileError,
    kind_of,
    previous_of,
    publish,
    read,
    read_version,
    remove_left,
)
from smcpn.checkpoint.problem import StoredProblem, StoredRecord
from smcpn.checkpoint.run_state import RunState
from smcpn.codegen.target import target
from smcpn.errors import InputError
from smcpn.io.hdf5_subset import Group
from smcpn.model.prior import Prior
from smcpn.model.record import Record
from smcpn.smc.settings import RunSettings
from smcpn.smc.start import Modes
from smcpn.smc.state import SamplerState
from smcpn.version import __version__

DIGITS = 8
"""Digits of the fingerprint of the data in the name of their file."""


def records_path(checkpoint: Path, fingerprint: str) -> Path:
    """Return the path of a checkpoint's records: ``run.h5.data-0123abcd.h5`` of ``run.h5``."""
    return checkpoint.with_name(f"{checkpoint.name}.data-{fingerprint[:DIGITS]}.h5")


def write_records(path: Path, records: Sequence[Record]) -> None:
    """Write the records of a run unless the file holds them already.

    Raises `NotStorableError` if the input of a record is a function. Raises `InputError` if a file
    of this name is none of records. Raises `OSError` if the file cannot be written.
    """
    content = encoded(RECORDS, numbered(map(StoredRecord.of, records), "records"))
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
    """Return the records of a file."""
    require_parts(file, "records")
    return tuple(one.restored() for one in decoded_all(file, "records", StoredRecord))


def remove_records(paths: Iterable[Path]) -> None:
    """Remove those files that are whole files of records."""
    for path in paths:
        with suppress(InputError, OSError):
            if is_plain(path):
                read_version(path, RECORDS, lambda _: None)
                path.unlink()


PROCESSOR = "processor"
"""Entry of the versions with the processor that kernels are for, its name and features."""


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


@dataclass(frozen=True, kw_only=True)
class FileHeader(Stored):
    """The part of a checkpoint that stays the same while a run or a discovery goes on.

    not_stored: The reason, where something cannot be stored: the run is then resumed from its
        script.
    n_samples: Samples of the records.
    data_file: Name of the file in the same folder that holds the records.
    created: Date and time, UTC.
    """

    not_stored: Line
    model_fingerprint: Fingerprint
    data_fingerprint: Fingerprint
    n_samples: Whole
    data_file: Annotated[str, Field(pattern=_DATA_FILE, max_length=255)]
    created: Line
    versions: dict[Line, Line] = field(default_factory=versions)

    def require_whole(self) -> None:
        """Refuse parts that do not fit each other."""
        if not self.data_file.endswith(f".data-{self.data_fingerprint[:DIGITS]}.h5"):
            raise DamagedFileError(f"the file of records is named after other data: {DAMAGED}")


@dataclass(frozen=True, kw_only=True)
class Header(FileHeader):
    """The part of a run's checkpoint that stays the same while the run goes on.

    names: Of the unknown parameters.
    settings: See `RunSettings.storable`.
    problem: None where it cannot be stored.
    """

    names: Names
    settings: RunSettings
    problem: StoredProblem | None

    @override
    def require_whole(self) -> None:
        super().require_whole()
        if self.problem is not None and self.problem.names != self.names:
            raise DamagedFileError(f"its priors are of other parameters: {DAMAGED}")


Status = Literal["running", "interrupted", "finished"]


@dataclass(frozen=True)
class Version(Stored):
    """When a version of a checkpoint was written (date and time, UTC), and how far the run was."""

    status: Status
    written: Line


@dataclass(frozen=True)
class StoredRun:
    """A checkpoint of a run, read."""

    header: Header
    version: Version
    state: RunState


def header_image(header: FileHeader, kind: str = RUN) -> bytes:
    """Return the image that those of a checkpoint's versions are added to."""
    return encoded(kind, {"header": header})


def run_image(state: RunState, status: Status, header: bytes, prior: Prior) -> bytes:
    """Return the bytes of a run's checkpoint.

    The status is that of a `Version`, the header of `header_image`; the prior maps theta to values,
    for other readers.
    """
    parts = {"version": Version(status, now()), "run": state}
    return encoded(RUN, parts, header, natural_values(prior, state.samplers))


def natural_values(prior: Prior, states: Sequence[SamplerState]) -> dict[str, NDArray[Any]]:
    """Return names and natural values of the parameters of populations, for other readers."""
    found = {"values/names": np.array([name.encode() for name in prior.names])}
    return found | numbered([prior.natural(one.system.theta) for one in states], "values")


def read_run(path: Path) -> StoredRun:
    """Read the checkpoint of a run; see `smcpn.checkpoint.container.read`."""
    return read(path, RUN, _run_of)


def _run_of(file: Group) -> StoredRun:
    """Return the run of a file, of which all parts fit each other."""
    require_parts(file, "header", "version", "run", "values")
    header, version = decoded(file, "header", Header), decoded(file, "version", Version)
    header.require_whole()
    settings, d = header.settings, len(header.names)
    sizes = {"N": settings.particles, "d": d, "T": header.n_samples}
    state = decoded(file, "run", RunState, sizes)
    for one in state.samplers:
        require_population(one)
    _require_course(state, header.n_samples, settings.replicates)
    for modes in (settings.start, state.plan and state.plan.modes):
        if isinstance(modes, Modes) and not modes.fits(d):
            raise DamagedFileError(f"the modes are not of {d} parameters: {DAMAGED}")
    return StoredRun(header, version, state)


def require_population(state: SamplerState) -> None:
    """Refuse a population whose parts do not fit each other."""
    try:
        state.require_whole()
    except ValueError as error:
        raise DamagedFileError(f"of a population {error}: {DAMAGED}") from None


def _require_course(state: RunState, n_samples: int, replicates: int) -> None:
    """Refuse populations that no run has at any moment."""
    of_one = len(state.solvers) == len(state.samplers) <= replicates
    planned = state.plan is not None or not state.samplers
    on_the_way = all(
        one.exponent is not None if one.refining else one.exponent is None or one.sample < n_samples
        for one in state.samplers
    )
    # Only particles that have the solver in force, or are carried over to it, verify it.
    in_force = (
        not state.samplers
        or any(one.refining for one in state.samplers)
        or state.solver in state.solvers
    )
    widened = state.refused_k is not None or not state.widened
    if not (of_one and planned and on_the_way and in_force and widened):
        raise DamagedFileError(f"its populations are of no moment of a run: {DAMAGED}")


def own_records(
    checkpoint: Path, kind: str = RUN, parse: Callable[[Group], Any] = _run_of
) -> set[Path]:
    """Return the files of records that both versions of a checkpoint name, if it made the names.

    ``parse`` makes an object with a header of a file of this kind.
    """
    found: set[Path] = set()
    for one in (checkpoint, previous_of(checkpoint)):
        with suppress(InputError):
            header = read_version(one, kind, parse).header
            path = records_path(checkpoint, header.data_fingerprint)
            found |= {path} if path.name == header.data_file else set()
    return found


_log = logging.getLogger(__name__)

State = TypeVar("State", bound="Kept")

PATIENCE = 50
"""A rejuvenation is written if the last write took at most 1/50 of the time since: rapid ones
are cheap to repeat, and writing takes less than two per cent of a run."""


class Kept(Protocol):
    """A state that a checkpoint keeps, or the memory after an interrupt."""

    @property
    def begun(self) -> bool:
        """True once there is something to go on from."""
        ...

    @property
    def milestones(self) -> int:
        """Count of what is costly to repeat."""
        ...

    @property
    def place(self) -> str:
        """Words on how far it is."""
        ...


class CheckpointWriter(Generic[State]):
    """Writes snapshots of a run in the background, the newest only.

    The run hands over references to arrays that nobody changes, so it waits for nothing. A write
    that fails is reported once; the run goes on, and later snapshots are tried again.

    ``image`` makes the bytes of the file of a state and a `Status`; ``end`` are words for all that
    a run has before it, ``"of 100"`` samples; ``every`` are the most seconds between two snapshots,
    with 0 every part of the run is written. ``retired`` are files of records that the versions on
    disk name and this run does not; they are removed when both versions are of this run.
    """

    def __init__(
        self,
        path: Path,
        image: Callable[[State, Status], bytes],
        end: str,
        every: float,
        retired: Set[Path] = frozenset(),
    ) -> None:
        self.path, self.every, self._image, self._end = path, every, image, end
        self.writes: list[float] = []
        self._retired, self._versions = retired, 0
        self._failure, self._reported = "", False
        self._written: State | None = None
        self._offered: State | None = None
        self._last, self._cost, self._milestones = time.monotonic(), 0.0, 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="smcpn-checkpoint")
        self._under_way: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write the last snapshot, also where the run ended with an exception."""
        self.close("finished" if kind is None else "interrupted")
        if (
            kind is not None
            and self._written is not None
            and issubclass(kind, (KeyboardInterrupt, SystemExit))
        ):
            print(
                f"smcpn: stopped at {self._where(self._written)}; "
                f"'smcpn resume {self.path}' goes on",
                file=sys.stderr,
            )

    def offer(self, snapshot: State) -> None:
        """Write a snapshot if one is due; keep it for `close` otherwise."""
        self._offered = snapshot
        if self._due(snapshot) and (self._under_way is None or self._under_way.done()):
            self._settle()
            self._last, self._milestones = time.monotonic(), snapshot.milestones
            self._under_way = self._pool.submit(self._write, snapshot, "running")
            if self.every == 0.0:
                self._settle()

    def close(self, status: Status) -> None:
        """Write the newest snapshot and wait until that is done."""
        self._settle()
        if self._offered is not None:
            self._under_way = self._pool.submit(self._write, self._offered, status)
            self._offered = None
            self._settle()
        self._pool.shutdown(wait=True)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence if the last write failed."""
        if not self._failure:
            return ()
        written = self._written
        last = "there is none" if written is None else f"the last is at {self._where(written)}"
        return (f"the checkpoint {self.path} could not be written ({self._failure}): {last}",)

    def _where(self, state: State) -> str:
        return f"{state.place} {self._end}".strip()

    def _due(self, snapshot: State) -> bool:
        if self._under_way is None and self._written is None and not self._failure:
            return True
        elapsed = time.monotonic() - self._last
        further = snapshot.milestones != self._milestones
        return elapsed >= self.every or (further and elapsed >= PATIENCE * self._cost)

    def _settle(self) -> None:
        """Wait for the write under way, and report the first failure."""
        if self._under_way is None:
            return
        self._under_way.result()
        self._under_way = None
        if self._failure and not self._reported:
            self._reported = True
            warnings.warn(
                f"the checkpoint {self.path} cannot be written ({self._failure}): the run goes on",
                CheckpointWarning,
                stacklevel=4,
            )

    def _write(self, snapshot: State, status: Status) -> None:
        begin = time.monotonic()
        try:
            publish(self.path, self._image(snapshot, status))
        except OSError as error:
            self._failure = error.strerror or str(error)
        else:
            self._failure, self._written = "", snapshot
            self._versions += 1
            if self._versions == 2:
                remove_records(self._retired)
            _log.debug("%s written at %s", self.path, snapshot.place)
        self._cost = time.monotonic() - begin
        self.writes.append(self._cost)
