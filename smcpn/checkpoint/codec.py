"""What a checkpoint holds, and its layout in HDF5; `docs/checkpoint.md` has the schema."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import h5py
import numba
import numpy as np
import scipy
from numpy.typing import NDArray

from smcpn.checkpoint.container import DAMAGED, DamagedFileError, image, opened
from smcpn.checkpoint.population import read_population, write_population
from smcpn.errors import InputError, NotStorableError
from smcpn.model.prior import Prior
from smcpn.run.run import Configuration, RunSnapshot
from smcpn.smc.moves import MOVES, MoveStrategy
from smcpn.smc.particles import Start
from smcpn.smc.proposals import DefensiveGaussian
from smcpn.smc.resampling import SCHEMES
from smcpn.smc.sampler import Settings
from smcpn.solver import EKF0, EKF1, RK4

# ---- What a run was asked to do, as JSON, and back.

SOLVERS = {kind.__name__: kind for kind in (EKF0, EKF1, RK4)}


def configuration_document(configuration: Configuration) -> tuple[dict[str, Any], str]:
    """Return a configuration as JSON can hold it, and what it cannot hold, as a sentence."""
    settings, reason = configuration.settings, ""
    try:
        moves = _moves_document(settings.moves)
        resampling = _resampling_name(settings)
        start = _start_document(settings.start)
    except NotStorableError as error:
        moves, resampling, start, reason = None, None, None, str(error)
    document = {
        "solver": solver_document(configuration.solver),
        "likelihood": configuration.likelihood,
        "particles": settings.particles,
        "ess": settings.ess,
        "block": settings.block,
        "moves": moves,
        "resampling": resampling,
        "start": start,
        "method": configuration.method,
        "replicates": configuration.replicates,
        "seed": configuration.seed,
        "entropy": configuration.entropy,
    }
    return document, reason


def configuration_of(document: Mapping[str, Any]) -> Configuration:
    """Return the configuration of a document."""
    return Configuration(
        solver=solver_of(document["solver"]),
        likelihood=document["likelihood"],
        settings=Settings(
            particles=document["particles"],
            ess=document["ess"],
            block=document["block"],
            moves=_moves_of(document["moves"]),
            resample=SCHEMES[document["resampling"]],
            start=_start_of(document.get("start")),
        ),
        method=document["method"],
        replicates=document["replicates"],
        seed=document["seed"],
        entropy=document["entropy"],
    )


def solver_document(solver: Any) -> dict[str, Any]:
    """Return a solver as JSON can hold it."""
    return {"kind": type(solver).__name__, **asdict(solver)}


def solver_of(document: Mapping[str, Any]) -> Any:
    """Return the solver of a document."""
    arguments = dict(document)
    return SOLVERS[arguments.pop("kind")](**arguments)


def require_same(stored: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    """Refuse to go on with a run that was asked something else.

    Blocks do not matter to a result; nor does the entropy where no seed is asked for.

    Raises
    ------
    InputError
        Names the first setting that differs.
    """
    for name, value in wanted.items():
        free = name in ("block", "entropy") or (name == "seed" and value is None)
        if not free and stored.get(name) != value:
            raise InputError(
                f"{path} was begun with {name} = {stored.get(name)}, not {value}: use the same, "
                "another file, or existing='overwrite' to begin anew"
            )


def _moves_document(moves: MoveStrategy) -> dict[str, Any]:
    if MOVES.get(moves.name) is not type(moves):
        raise NotStorableError(f"moves is {type(moves).__name__}, which has no name of its own")
    return {"kind": moves.name, **moves.document()}


def _moves_of(document: Mapping[str, Any]) -> MoveStrategy:
    arguments = dict(document)
    return MOVES[arguments.pop("kind")].of(arguments)


def _resampling_name(settings: Settings) -> str:
    name = getattr(settings.resample, "__name__", "")
    if SCHEMES.get(name) is not settings.resample:
        raise NotStorableError("resample is a function of your own, which a file cannot hold")
    return name


def _start_document(start: Start | None) -> dict[str, Any] | None:
    if start is None:
        return None
    if type(start) is not DefensiveGaussian:
        raise NotStorableError(f"start is {type(start).__name__}, which a file cannot hold")
    return {name: np.asarray(value).tolist() for name, value in vars(start).items()}


def _start_of(document: Mapping[str, Any] | None) -> Start | None:
    if document is None:
        return None
    arrays = {name: np.array(document[name]) for name in ("mean", "factor")}
    settings: dict[str, Any] = {**document, **arrays}
    return DefensiveGaussian(**settings)


TITLE = "smcpn checkpoint"
FORMAT_VERSION = 1
STATUSES = ("running", "interrupted", "finished")


def versions() -> dict[str, str]:
    """Versions of what a result is computed with."""
    from smcpn import __version__

    return {
        "smcpn": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "casadi": version("casadi"),
    }


@dataclass(frozen=True)
class Begun:
    """What stays the same while a run goes on.

    Attributes
    ----------
    names : tuple of str
        Of the unknown parameters.
    configuration : dict
        See `configuration_document`.
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
        Name of the file beside this one that holds the records; empty where there is none.
    created : str
        Date and time, UTC.
    versions : dict of str to str
    """

    names: tuple[str, ...]
    configuration: Mapping[str, Any]
    problem: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    not_stored: str
    model_fingerprint: str
    data_fingerprint: str
    n_samples: int
    data_file: str
    created: str
    versions: Mapping[str, str] = field(default_factory=versions)

    def require_stored(self, path: Path) -> Configuration:
        """Return the configuration.

        Raises
        ------
        InputError
            If a part of the run could not be stored.
        """
        if self.not_stored:
            raise InputError(
                f"{path} does not hold the whole run: {self.not_stored}. Run your script again, "
                f"identify(..., checkpoint='{path}') goes on from here"
            )
        return configuration_of(self.configuration)


@dataclass(frozen=True)
class Contents:
    """A checkpoint, read.

    Attributes
    ----------
    begun : Begun
    snapshot : RunSnapshot
    status : str
        One of `STATUSES`.
    written : str
        Date and time, UTC.
    """

    begun: Begun
    snapshot: RunSnapshot
    status: str
    written: str


_TEXTS = ("not_stored", "model_fingerprint", "data_fingerprint", "data_file", "created")
_DOCUMENTS = ("configuration", "versions")


def begun_image(begun: Begun) -> bytes:
    """Return the part of a checkpoint that stays the same."""

    def fill(file: h5py.File) -> None:
        file.attrs["format"], file.attrs["format_version"] = TITLE, FORMAT_VERSION
        file.attrs["n_samples"] = begun.n_samples
        file.attrs["names"] = list(begun.names)
        for name in _TEXTS:
            file.attrs[name] = getattr(begun, name)
        for name in _DOCUMENTS:
            file.attrs[name] = json.dumps(getattr(begun, name))
        problem = file.create_group("problem")
        problem.attrs["document"] = json.dumps(begun.problem)
        for name, values in begun.arrays.items():
            problem[name] = values

    return image(TITLE, fill)


def checkpoint_image(contents: Contents, begun: bytes, prior: Prior) -> bytes:
    """Return the bytes of a checkpoint.

    Parameters
    ----------
    contents : Contents
    begun : bytes
        See `begun_image`.
    prior : Prior
        Maps theta to values, for other readers.
    """

    def fill(file: h5py.File) -> None:
        file.attrs["status"], file.attrs["written"] = contents.status, contents.written
        file.attrs["solver"] = json.dumps(solver_document(contents.snapshot.solver))
        populations = file.create_group("populations")
        for number, sampler in enumerate(contents.snapshot.samplers):
            write_population(populations.create_group(str(number)), sampler, prior)

    return image(TITLE, fill, onto=begun)


def contents_of(content: bytes, path: str) -> Contents:
    """Read a checkpoint whose checksum is right.

    Raises
    ------
    InputError
        If it was written by a later version of the format.
    DamagedFileError
        If something is absent or does not fit.
    """
    try:
        with opened(content) as file:
            attrs: Any = file.attrs
            written_as = int(attrs["format_version"])
            if written_as > FORMAT_VERSION:
                raise InputError(
                    f"{path} has format version {written_as}, this smcpn reads up to "
                    f"{FORMAT_VERSION}: install a newer smcpn"
                )
            return _read(file)
    except InputError:
        raise
    except Exception as error:
        raise DamagedFileError(f"{path} cannot be read ({error}): {DAMAGED}") from error


def _read(file: Any) -> Contents:
    attrs = file.attrs
    names = tuple(str(name) for name in attrs["names"])
    arrays: dict[str, NDArray[Any]] = {}

    def collect(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[...]

    file["problem"].visititems(collect)
    begun = Begun(
        names=names,
        problem=json.loads(file["problem"].attrs["document"]),
        arrays=arrays,
        n_samples=int(attrs["n_samples"]),
        **{name: str(attrs[name]) for name in _TEXTS},
        **{name: json.loads(attrs[name]) for name in _DOCUMENTS},
    )
    groups = file["populations"]
    numbers = sorted(groups, key=int)
    samplers = tuple(read_population(groups[number], names) for number in numbers)
    solver = solver_of(json.loads(attrs["solver"]))
    status = str(attrs["status"])
    if status not in STATUSES:
        raise DamagedFileError(f"status '{status}' is none of {', '.join(STATUSES)}")
    return Contents(begun, RunSnapshot(solver, samplers), status, str(attrs["written"]))
