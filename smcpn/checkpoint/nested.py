"""The file of a `smcpn.NestedFilter`: its problem, and all that it needs to go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from smcpn.checkpoint.container import DAMAGED, NESTED, DamagedFileError, read, save
from smcpn.checkpoint.documents import Document, Number, Whole, parsed
from smcpn.checkpoint.payload import Payload, RandomState, arrays_of, documents_of, encoded
from smcpn.checkpoint.problem import (
    problem_document,
    records_document,
    restored_problem,
    restored_records,
)
from smcpn.checkpoint.schema import NESTED as NESTED_ARRAYS
from smcpn.checkpoint.schema import checked
from smcpn.checkpoint.stream import AxisDocument
from smcpn.io.plain import Group
from smcpn.model.problem import Problem
from smcpn.settings import solver_document, solver_of
from smcpn.smc.estimation import MOST_STATE_PARTICLES
from smcpn.solver import Solver


@dataclass(frozen=True)
class StoredFilter:
    """The state of a `NestedFilter` at one time.

    Attributes
    ----------
    problem : Problem
        Its first record defines how the stream is sampled.
    solver : Solver
        In force.
    state_particles, sample : int
    log_evidence : float
    axis, random_state : dict
        Place on the time axis, and state of the random generator.
    arrays : dict of str to ndarray
        See `smcpn.checkpoint.schema.NESTED`.
    """

    problem: Problem
    solver: Solver
    state_particles: int
    sample: int
    log_evidence: float
    axis: dict[str, Any]
    random_state: dict[str, Any]
    arrays: Mapping[str, NDArray[Any]]


class _FilterDocument(Document):
    solver: dict[str, Any]
    state_particles: int = Field(ge=1, le=MOST_STATE_PARTICLES)
    sample: Whole
    log_evidence: Number
    axis: AxisDocument
    random_state: RandomState
    problem: dict[str, Any]
    records: list[Any]


def write_nested(path: Path, stored: StoredFilter) -> None:
    """Write the file of a filter under its lock.

    Raises
    ------
    InputError
        If the file cannot be written, or the problem cannot be stored.
    """
    problem, tables = problem_document(stored.problem)
    records, columns = records_document(stored.problem.records[:1])
    document = {
        "solver": solver_document(stored.solver),
        "state_particles": stored.state_particles,
        "sample": stored.sample,
        "log_evidence": stored.log_evidence,
        "axis": stored.axis,
        "random_state": stored.random_state,
        "problem": problem,
        "records": records,
    }
    parts = {"problem": tables, "records": columns, "filter": stored.arrays}
    arrays = {f"{part}/{name}": values for part in parts for name, values in parts[part].items()}
    save(path, NESTED, encoded(NESTED, Payload({"filter": document}, arrays)))


def read_nested(path: Path) -> StoredFilter:
    """Read the file of a filter; see `smcpn.checkpoint.container.read`."""
    return read(path, NESTED, _filter_of)


def _filter_of(file: Group) -> StoredFilter:
    """Return the filter of a file, of which all parts fit each other.

    Raises
    ------
    DamagedFileError
        If they do not.
    InputError
        If problem or solver cannot be restored.
    """
    document = parsed(_FilterDocument, *documents_of(file, "filter"))
    parts = {name: arrays_of(part) for name, part in file.group("arrays").groups.items()}
    if set(parts) != {"problem", "records", "filter"} or file.group("arrays").arrays:
        raise DamagedFileError(f"a filter has other arrays than it should: {DAMAGED}")
    records = restored_records(document.records, parts["records"])
    problem = restored_problem(document.problem, parts["problem"], records)
    sizes = {"n": len(problem.ode.inputs), "d": len(problem.names)}
    sizes |= {"row": 1 + len(problem.ode.inputs) + len(problem.observe)}
    arrays = checked("filter", parts["filter"], NESTED_ARRAYS, sizes)
    _require_place(document, arrays)
    return StoredFilter(
        problem=problem,
        solver=solver_of(document.solver),
        state_particles=document.state_particles,
        sample=document.sample,
        log_evidence=document.log_evidence,
        axis=document.axis.model_dump(),
        random_state=document.random_state.model_dump(),
        arrays=arrays,
    )


def _require_place(document: _FilterDocument, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse a place in the stream that the arrays do not belong to."""
    begun, axis, last = document.sample > 0, document.axis, arrays["last"]
    filters = len(arrays["theta"]) if begun else 0
    fits = (
        axis.count == document.sample
        and len(last) == int(begun)
        and len(arrays["filters"]) == filters
        and axis.last == (last[0, 0] if begun else -np.inf)
        and (np.isfinite(axis.given) if begun else axis.given == -np.inf)
        and (not begun or bool(np.isfinite(last[0, : 1 + len(arrays["held"])]).all()))
        and bool(np.isfinite(arrays["log_weights"]).any())
    )
    if not fits:
        raise DamagedFileError(f"a filter of {document.sample} samples is not whole: {DAMAGED}")
