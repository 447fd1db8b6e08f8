"""A population of particles as datasets, and back."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from smcpn.checkpoint.container import DamagedFileError
from smcpn.model.prior import Prior
from smcpn.smc.evidence import EvidenceEstimate
from smcpn.smc.moves import Rejuvenation
from smcpn.smc.particles import ParticleSystem
from smcpn.smc.sampler import Snapshot, Trace

PARTICLES = tuple(field.name for field in fields(ParticleSystem))
NUMBERS = ("ess_before", "log_evidence_at_resampling", "variance_at_start", "unrelated_at_start")
PROPOSAL_BYTES = 32


def write_population(group: h5py.Group, snapshot: Snapshot, prior: Prior) -> None:
    """Write a population, its parameters also as values for other readers."""
    group.attrs["sample"] = snapshot.sample
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
    history.attrs["length"], history.attrs["stride"] = snapshot.trace.length, snapshot.trace.stride
    history["kept"], history["last"] = snapshot.trace.kept, snapshot.trace.last
    history["log_pair_ratios"] = np.array(snapshot.log_pair_ratios)
    history["factors"] = np.array(snapshot.factors)
    group["rejuvenations"] = _table(snapshot.rejuvenations)


def read_population(group: Any, names: tuple[str, ...]) -> Snapshot:
    """Read a population and check that its parts fit each other.

    Raises
    ------
    DamagedFileError
        If they do not.
    """
    stored = group["particles"]
    system = ParticleSystem(**{name: stored[name][...] for name in PARTICLES})
    _check(system, len(names))
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
        ),
        rejuvenations=_records(group["rejuvenations"][...]),
        log_pair_ratios=tuple(history["log_pair_ratios"][...].tolist()),
        factors=tuple(history["factors"][...].tolist()),
        random_state=json.loads(group.attrs["random_state"]),
        **{name: float(group.attrs[name]) for name in NUMBERS},
    )


def _check(system: ParticleSystem, d: int) -> None:
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


def _table(records: tuple[Rejuvenation, ...]) -> NDArray[np.void]:
    rows = []
    for record in records:
        values = [getattr(record, field.name) for field in _COLUMNS]
        values = [value.encode() if isinstance(value, str) else value for value in values]
        rows.append((*values, record.evidence.log, record.evidence.variance))
    return np.array(rows, dtype=_TABLE)


def _records(table: NDArray[np.void]) -> tuple[Rejuvenation, ...]:
    records = []
    for row in table:
        values = {field.name: row[field.name].item() for field in _COLUMNS}
        values["proposal"] = values["proposal"].decode()
        evidence = EvidenceEstimate(float(row["evidence_log"]), float(row["evidence_variance"]))
        records.append(Rejuvenation(**values, evidence=evidence))
    return tuple(records)
