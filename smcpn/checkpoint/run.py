"""The checkpoint of a run: a header that stays the same while it goes on, and its state.

`docs/checkpoint.md` has the schema.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field

from smcpn.checkpoint.codec import decoded, encoded, numbered, require_parts
from smcpn.checkpoint.container import DAMAGED, RUN, DamagedFileError, read, read_version
from smcpn.checkpoint.problem import StoredProblem
from smcpn.checkpoint.records import DIGITS, records_path
from smcpn.codegen.target import target
from smcpn.errors import InputError
from smcpn.io.hdf5_subset import Group
from smcpn.model.prior import Prior
from smcpn.run_state import RunState
from smcpn.settings import RunSettings
from smcpn.smc.start import Modes
from smcpn.smc.state import SamplerState
from smcpn.stored import Fingerprint, Line, Names, Stored, Whole
from smcpn.version import __version__

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


@dataclass(frozen=True)
class Header(Stored):
    """The part of a run's checkpoint that stays the same while the run goes on.

    Attributes
    ----------
    names : tuple of str
        Of the unknown parameters.
    settings : RunSettings
        See `RunSettings.storable`.
    problem : StoredProblem or None
        None where it cannot be stored.
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
    settings: RunSettings
    problem: StoredProblem | None
    not_stored: Line
    model_fingerprint: Fingerprint
    data_fingerprint: Fingerprint
    n_samples: Whole
    data_file: Annotated[str, Field(pattern=_DATA_FILE, max_length=255)]
    created: Line
    versions: dict[Line, Line] = field(default_factory=versions)

    def require_whole(self) -> None:
        """Refuse parts that do not fit each other.

        Raises
        ------
        DamagedFileError
        """
        if not self.data_file.endswith(f".data-{self.data_fingerprint[:DIGITS]}.h5"):
            raise DamagedFileError(f"the file of records is named after other data: {DAMAGED}")
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


def header_image(header: Header) -> bytes:
    """Return the image that those of a run's checkpoints are added to."""
    return encoded(RUN, {"header": header})


def run_image(state: RunState, status: Status, header: bytes, prior: Prior) -> bytes:
    """Return the bytes of a run's checkpoint.

    Parameters
    ----------
    state : RunState
    status : str
        See `Version`.
    header : bytes
        See `header_image`.
    prior : Prior
        Maps theta to values, for other readers.
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
    """Refuse a population whose parts do not fit each other.

    Raises
    ------
    DamagedFileError
    """
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


def own_records(checkpoint: Path, version: Path) -> set[Path]:
    """Return the file of records that a version of a checkpoint names, if it has made that name."""
    try:
        header = read_version(version, RUN, _run_of).header
    except InputError:
        return set()
    path = records_path(checkpoint, header.data_fingerprint)
    return {path} if path.name == header.data_file else set()
