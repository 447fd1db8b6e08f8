"""The file of a posterior that was saved: its particles, its problem, and how it was made."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from smcpn.checkpoint.container import DAMAGED, POSTERIOR, DamagedFileError, read, save
from smcpn.checkpoint.documents import Document, Line, Name, Number, Whole, parsed
from smcpn.checkpoint.payload import (
    Payload,
    arrays_of,
    documents_of,
    encoded,
    rejuvenation_table,
    restored_rejuvenations,
)
from smcpn.checkpoint.problem import (
    problem_document,
    records_document,
    restored_problem,
    restored_records,
)
from smcpn.checkpoint.schema import CHAINS, DRAWS, Sizes, checked
from smcpn.errors import InputError, NotStorableError
from smcpn.files import file_path
from smcpn.io.plain import Group
from smcpn.likelihood.registry import LIKELIHOODS
from smcpn.likelihood.shift import DiscretisationShift
from smcpn.model.problem import Problem
from smcpn.results.draws import Timing
from smcpn.results.method import MethodRecord
from smcpn.results.nuts import ChainStatistics, NutsPosterior
from smcpn.results.posterior import Posterior
from smcpn.settings import solver_document, solver_of

Arrays = dict[str, NDArray[Any]]
LARGEST_VALUE = 1e150
"""Of a parameter: its square is finite."""
OF_CHAINS = ("ess_bulk", "ess_tail")
"""Arrays of chains that are attributes of the posterior, and not of its statistics."""


class ShiftDocument(Document):
    """How far finer steps shift a posterior, as stored: a `DiscretisationShift`."""

    solver: dict[str, Any]
    finer: dict[str, Any]
    parameters: dict[Name, float]
    worst: float
    log_evidence: float


class TimingDocument(Document):
    """Seconds and solver steps that a run took, as stored: a `Timing`."""

    wall: Number
    compile: Number
    kernel: Number
    theta_steps: Whole


class MethodDocument(Document):
    """How a run found its posterior, as stored: a `MethodRecord`."""

    asked: Line
    used: Line
    remarks: list[Line]
    searches: Whole
    modes: Whole
    ends: list[Number] = Field(default_factory=list)
    pareto_k: float
    width: Number = 1.0
    fallback: Line
    weighings: float
    search_weighings: float
    state_particles: Whole
    bridges: Whole
    acceptance: float
    estimate_variance: float
    guided: float


class ChainsDocument(Document):
    """Settings and statistics of the chains of NUTS, as stored: a `ChainStatistics`."""

    tune: Whole
    tune_steps: Whole


class PosteriorDocument(Document):
    """A posterior but for its arrays; see `Posterior`. ``chains`` is that of a `NutsPosterior`."""

    solver: dict[str, Any]
    likelihood: Line | None
    learning_rate: Annotated[Number, Field(gt=0)]
    seed: Annotated[int, Field(ge=0, le=1 << 128)] | None
    log_evidence: float
    log_evidence_se: float
    warnings: list[Line]
    shift: ShiftDocument | None
    timing: TimingDocument
    method: MethodDocument | None
    chains: ChainsDocument | None
    problem: dict[str, Any]
    records: list[Any]


def save_posterior(posterior: Posterior, path: str | Path) -> Path:
    """Write the file of a posterior under its lock, and return its path.

    Raises
    ------
    InputError
        If the file cannot be written, or the problem cannot be stored.
    """
    path = file_path("path", path)
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder does not exist, make it first", argument="path")
    try:
        problem, tables = problem_document(posterior.problem)
        records, columns = records_document(posterior.problem.records)
    except NotStorableError as error:
        raise InputError(f"{path} cannot hold this posterior: {error}") from None
    document = {
        **{name: getattr(posterior, name) for name in ("likelihood", "seed")},
        **{name: float(getattr(posterior, name)) for name in NUMBERS},
        "solver": solver_document(posterior.solver),
        "warnings": list(posterior.warnings),
        "shift": _shift_document(posterior.shift),
        "timing": vars(posterior.timing),
        "method": None if posterior.method is None else vars(posterior.method),
        "chains": None,
        "problem": problem,
        "records": records,
    }
    draws = {name: np.asarray(getattr(posterior, name), one.dtype) for name, one in DRAWS.items()}
    draws["rejuvenations"] = rejuvenation_table(posterior.rejuvenations)
    parts = {"problem": tables, "records": columns, "draws": draws}
    if isinstance(posterior, NutsPosterior):
        made = posterior.statistics
        document["chains"] = {"tune": made.tune, "tune_steps": made.tune_steps}
        parts["chains"] = {
            name: np.asarray(getattr(posterior if name in OF_CHAINS else made, name), one.dtype)
            for name, one in CHAINS.items()
        }
    arrays = {f"{part}/{name}": values for part in parts for name, values in parts[part].items()}
    save(path, POSTERIOR, encoded(POSTERIOR, Payload({"posterior": document}, arrays)))
    return path


NUMBERS = ("learning_rate", "log_evidence", "log_evidence_se")


def _shift_document(shift: DiscretisationShift | None) -> dict[str, Any] | None:
    if shift is None:
        return None
    solvers = {name: solver_document(getattr(shift, name)) for name in ("solver", "finer")}
    return shift.as_dict() | solvers


def read_posterior(path: Path) -> Posterior:
    """Read the file of a posterior; see `smcpn.checkpoint.container.read`."""
    return read(path, POSTERIOR, _posterior_of)


def _posterior_of(file: Group) -> Posterior:
    """Return the posterior of a file, of which all parts fit each other.

    Raises
    ------
    DamagedFileError
        If they do not.
    InputError
        If problem, solver or likelihood cannot be restored.
    """
    stored = parsed(PosteriorDocument, *documents_of(file, "posterior"))
    parts = {name: arrays_of(part) for name, part in file.group("arrays").groups.items()}
    names = {"problem", "records", "draws"} | ({"chains"} if stored.chains else set())
    if set(parts) != names or file.group("arrays").arrays or "populations" in file.groups:
        raise DamagedFileError(f"a posterior has other arrays than it should: {DAMAGED}")
    if stored.likelihood not in (None, *LIKELIHOODS):
        raise InputError(f"its likelihood '{stored.likelihood}' is not known here")
    records = restored_records(stored.records, parts["records"])
    problem = restored_problem(stored.problem, parts["problem"], records)
    sizes = {"d": len(problem.names), "T": problem.n_samples}
    draws = parts["draws"]
    table = draws.pop("rejuvenations", np.empty(0))
    found: dict[str, Any] = dict(checked("draws", draws, DRAWS, sizes))
    _require_whole(found, sizes)
    found["rejuvenations"] = restored_rejuvenations(table, sizes)
    found |= {name: getattr(stored, name) for name in (*NUMBERS, "likelihood", "seed")}
    found |= {
        "problem": problem,
        "solver": solver_of(stored.solver),
        "warnings": tuple(stored.warnings),
        "shift": _shift_of(stored.shift, problem),
        "timing": Timing(**stored.timing.model_dump()),
        "method": _method_of(stored.method),
    }
    if stored.chains is None:
        return _within_bounds(Posterior(**found))
    chains = _chains_of(stored.chains, parts["chains"], sizes)
    return _within_bounds(NutsPosterior(**found, **chains))


def _within_bounds(posterior: Posterior) -> Posterior:
    """Refuse draws of which no variance can be computed."""
    with np.errstate(all="ignore"):
        bounded = (np.abs(posterior.values) <= LARGEST_VALUE).all()
    if not bounded:
        raise DamagedFileError(f"the draws have values beyond {LARGEST_VALUE:g}: {DAMAGED}")
    return posterior


def _require_whole(draws: Arrays, sizes: Sizes) -> None:
    """Refuse draws of which none counts, or that belong to other populations."""
    replicated, ancestral = (len(draws[name]) for name in ("replicate", "ancestor"))
    fits = (
        sizes["N"] > 0
        and np.isfinite(draws["log_weights"]).any()
        and replicated in (0, sizes["N"])
        and ancestral in (0, sizes["N"])
    )
    if not fits:
        raise DamagedFileError(f"the draws are not those of a posterior: {DAMAGED}")


def _shift_of(stored: ShiftDocument | None, problem: Problem) -> DiscretisationShift | None:
    if stored is None:
        return None
    if set(stored.parameters) != set(problem.names):
        raise DamagedFileError(f"the shift is of other parameters: {DAMAGED}")
    solvers = {name: solver_of(getattr(stored, name)) for name in ("solver", "finer")}
    return DiscretisationShift(
        **solvers,
        parameters=stored.parameters,
        worst=stored.worst,
        log_evidence=stored.log_evidence,
    )


def _method_of(stored: MethodDocument | None) -> MethodRecord | None:
    if stored is None:
        return None
    tuples = {"remarks": tuple(stored.remarks), "ends": tuple(stored.ends)}
    entries: dict[str, Any] = {**stored.model_dump(), **tuples}
    return MethodRecord(**entries)


def _chains_of(stored: ChainsDocument, arrays: Arrays, sizes: Sizes) -> dict[str, Any]:
    """Return what a `NutsPosterior` has more than a posterior."""
    found = checked("chains", arrays, CHAINS, sizes)
    if sizes["C"] * sizes["D"] != sizes["N"]:
        raise DamagedFileError(f"the chains are not those of the draws: {DAMAGED}")
    own = {name: found.pop(name) for name in OF_CHAINS}
    for name in ("divergent", "at_greatest_depth"):
        found[name] = found[name].astype(bool)
    made: dict[str, Any] = {**found, **stored.model_dump()}
    assert set(made) == {field.name for field in fields(ChainStatistics)}
    return own | {"statistics": ChainStatistics(**made)}
