"""The file of a `smcpn.NestedFilter`: its problem, and all that it needs to go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from smcpn.base.stored import Number, Stored, Whole, any_number, finite, log_densities
from smcpn.checkpoint.codec import decoded, encoded, require_parts
from smcpn.checkpoint.container import DAMAGED, NESTED, DamagedFileError, read, save
from smcpn.checkpoint.problem import StoredProblem, StoredRecord
from smcpn.io.axis import AxisState
from smcpn.io.hdf5_subset import Group
from smcpn.model.problem import Problem
from smcpn.model.solver import Solver
from smcpn.smc.estimation import MOST_STATE_PARTICLES
from smcpn.smc.state import RandomState

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FilterState(Stored):
    """The state of a `NestedFilter` at one time.

    solver: In force.
    random_state: Of the generator, when the state was saved.
    theta, log_weights: (N, d), (N,)
    filters: (N, k), their particles; (0, k) before the first sample.
    last: (m, 1 + n + q), time, inputs and outputs of the samples that those to come depend on, and
        of those that wait for samples ahead of them.
    held: (n,), the last input.
    doses: (D, 5), as of `smcpn.checkpoint.stream_state.StreamState`.
    """

    solver: Solver
    state_particles: Annotated[int, Field(ge=1, le=MOST_STATE_PARTICLES)]
    axis: AxisState
    random_state: RandomState
    theta: Annotated[Array, finite("N", "d")]
    log_weights: Annotated[Array, log_densities("N")]
    filters: Annotated[Array, any_number(None, None)]
    last: Annotated[Array, finite(None, "row", missing=True)]
    held: Annotated[Array, finite("n")]
    sample: Whole = 0
    log_evidence: Number = 0.0
    doses: Annotated[Array, finite(None, 5)] = field(default_factory=lambda: np.empty((0, 5)))


def write_nested(path: Path, problem: Problem, state: FilterState) -> None:
    """Write the file of a filter under its lock.

    Raises `InputError` if the file cannot be written, or the problem cannot be stored.
    """
    parts = {
        "problem": StoredProblem.of(problem),
        "record": StoredRecord.of(problem.records[0]),
        "filter": state,
    }
    save(path, NESTED, encoded(NESTED, parts))


def read_nested(path: Path) -> tuple[Problem, FilterState]:
    """Read the file of a filter; see `smcpn.checkpoint.container.read`."""
    return read(path, NESTED, _filter_of)


def _filter_of(file: Group) -> tuple[Problem, FilterState]:
    """Return problem and state of a file, of which all parts fit each other."""
    require_parts(file, "problem", "record", "filter")
    record = decoded(file, "record", StoredRecord).restored()
    problem = decoded(file, "problem", StoredProblem).restored([record])
    n, q = problem.records[0].n_inputs, problem.model.measured
    sizes = {"d": len(problem.names), "n": n, "row": 1 + n + q}
    state = decoded(file, "filter", FilterState, sizes)
    _require_place(state)
    return problem, state


def _require_place(state: FilterState) -> None:
    """Refuse a place in the stream that the arrays do not belong to."""
    begun, axis, last = state.sample > 0, state.axis, state.last
    filters = len(state.theta) if begun else 0
    fits = (
        state.sample <= axis.count
        and axis.count - state.sample + int(begun) <= len(last) <= axis.count
        and len(state.filters) == filters
        and axis.last == (last[-1, 0] if axis.count else -np.inf)
        and (np.isfinite(axis.given) if axis.count else axis.given == -np.inf)
        and bool(np.isfinite(last[:, : 1 + len(state.held)]).all())
        and bool(np.isfinite(state.log_weights).any())
    )
    if not fits:
        raise DamagedFileError(f"a filter of {state.sample} samples is not whole: {DAMAGED}")
