"""Content of a file as documents for JSON, arrays, and populations of particles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

import h5py
import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from smcpn.checkpoint.container import DAMAGED, DamagedFileError, image
from smcpn.checkpoint.documents import Document, loaded, parsed
from smcpn.checkpoint.schema import (
    COLUMNS,
    HISTORY,
    PATH,
    POPULATION,
    REJUVENATIONS,
    TABLE,
    TABLE_OF_4,
    checked,
)
from smcpn.checkpoint.schema import PARTICLES as PARTICLE_ARRAYS
from smcpn.io.plain import Group
from smcpn.model.prior import Prior
from smcpn.smc.evidence import EvidenceEstimate
from smcpn.smc.particles import ParticleSystem
from smcpn.smc.rejuvenation import Rejuvenation
from smcpn.smc.sampler import Snapshot
from smcpn.smc.trace import Trace

PARTICLES = tuple(field.name for field in fields(ParticleSystem))
TRUTHS = ("refining", "look_ahead")
NUMBERS = tuple(name for name in POPULATION if name not in ("sample", "exponent", *TRUTHS))
_PARTS = ("particles", "history")


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
            file[f"documents/{name}"] = _text(json.dumps(document))
        for name, values in payload.arrays.items():
            file[f"arrays/{name}"] = values
        for number, snapshot in enumerate(payload.populations):
            assert prior is not None
            _write_population(file.create_group(f"populations/{number}"), snapshot, prior)

    return image(kind, fill, onto)


def _text(text: str) -> np.bytes_:
    """Return a text as one of fixed length."""
    return np.bytes_(text.encode())


def arrays_of(group: Group) -> dict[str, NDArray[Any]]:
    """Return the arrays in a group and in the groups within, by their paths.

    Raises
    ------
    DamagedFileError
        If there is anything else.
    """
    if group.texts or group.attributes or any(one.attributes for one in group.arrays.values()):
        raise DamagedFileError(f"there is more among the arrays than these: {DAMAGED}")
    found = {name: one.values for name, one in group.arrays.items()}
    for name, inner in group.groups.items():
        found |= {f"{name}/{path}": values for path, values in arrays_of(inner).items()}
    return found


def documents_of(file: Group, *names: str) -> list[Any]:
    """Return the documents of a file, of which there are no others, and nothing beside them.

    Raises
    ------
    DamagedFileError
    """
    known = {"documents", "arrays", "populations"}
    if file.arrays or file.texts or not known.issuperset(file.groups):
        raise DamagedFileError(f"there is more than documents, arrays and populations: {DAMAGED}")
    texts = file.group("documents").texts
    if not texts.keys() <= set(names) or file.group("documents") != Group(texts=texts):
        raise DamagedFileError(f"there is a document too many: {DAMAGED}")
    return [loaded(name, texts.get(name)) for name in names]


def populations_of(
    file: Group, most: int, sizes: Mapping[str, int], names: tuple[str, ...] | None = None
) -> tuple[Snapshot, ...]:
    """Return the populations of a file, ``most`` at most, of parameters of these names.

    Raises
    ------
    DamagedFileError
    """
    group = file.group("populations")
    numbers = [str(number) for number in range(len(group.groups))]
    if group != Group(groups=group.groups) or set(group.groups) != set(numbers):
        raise DamagedFileError(f"populations are not numbered: {DAMAGED}")
    if len(numbers) > most:
        raise DamagedFileError(f"there are {len(numbers)} populations of {most}: {DAMAGED}")
    for number in numbers if names is not None else ():
        theta = group.groups[number].group("particles").arrays.get("theta")
        stored = [] if theta is None else np.ravel(theta.attributes.get("names", [])).tolist()
        if stored != [name.encode() for name in names or ()]:
            raise DamagedFileError(f"the particles are of other parameters: {DAMAGED}")
    return tuple(_population(group.groups[number], dict(sizes)) for number in numbers)


def _write_population(group: h5py.Group, snapshot: Snapshot, prior: Prior) -> None:
    group.attrs["sample"] = snapshot.sample
    group.attrs["exponent"] = np.nan if snapshot.exponent is None else snapshot.exponent
    group.attrs["random_state"] = _text(json.dumps(snapshot.random_state))
    for name in NUMBERS:
        group.attrs[name] = getattr(snapshot, name)
    for name in TRUTHS:
        group.attrs[name] = int(getattr(snapshot, name))
    particles = group.create_group("particles")
    for name in PARTICLES:
        particles[name] = getattr(snapshot.system, name)
    particles["values"] = prior.natural(snapshot.system.theta)
    for name in ("theta", "values"):
        particles[name].attrs["names"] = np.array([name.encode() for name in prior.names])
    history = group.create_group("history")
    for name in ("length", "stride", "first"):
        history.attrs[name] = getattr(snapshot.trace, name)
    history["kept"], history["last"] = snapshot.trace.kept, snapshot.trace.last
    history["log_pair_ratios"] = np.array(snapshot.log_pair_ratios, dtype=float)
    history["factors"] = np.array(snapshot.factors, dtype=float)
    group["rejuvenations"] = rejuvenation_table(snapshot.rejuvenations)


def _odd(number: int) -> int:
    if number % 2 == 0:
        raise ValueError("it is even")
    return number


class _BitState(Document):
    state: int = Field(ge=0, lt=1 << 128)
    inc: Annotated[int, Field(ge=0, lt=1 << 128), AfterValidator(_odd)]


class RandomState(Document):
    """State of numpy's PCG64, the only generator a run has."""

    bit_generator: Literal["PCG64"]
    state: _BitState
    has_uint32: Literal[0, 1]
    uinteger: int = Field(ge=0, lt=1 << 32)


def _population(group: Group, sizes: dict[str, int]) -> Snapshot:
    """Return a population, of which all parts fit each other.

    Raises
    ------
    DamagedFileError
    """
    attributes, particles, history = dict(group.attributes), *map(group.group, _PARTS)
    if set(group.groups) != set(_PARTS) or group.texts or set(group.arrays) != {"rejuvenations"}:
        raise DamagedFileError(f"a population has other parts than it should: {DAMAGED}")
    random_state = parsed(RandomState, loaded("random_state", attributes.pop("random_state", None)))
    system = checked("particles", particles.arrays, PARTICLE_ARRAYS, sizes)
    del system["values"]
    found = checked("population", attributes, POPULATION, sizes)
    own: dict[str, Any] = {name: value.item() for name, value in found.items()}
    exponent = own.pop("exponent")
    path = checked("history", history.attributes, PATH, sizes)
    steps = checked("history", history.arrays, HISTORY, sizes)
    length, stride, first = (path[name].item() for name in ("length", "stride", "first"))
    trace = Trace(length, stride, steps["kept"], steps["last"], first)
    if not np.isfinite(system["log_weights"]).any():
        raise DamagedFileError(f"no particle has any weight: {DAMAGED}")
    keyed, begun = bool(system["keys"].size), own["sample"] > 0 or not np.isnan(exponent)
    if keyed != (own["state_particles"] > 0) and (keyed or begun):
        raise DamagedFileError(f"the keys are of another likelihood: {DAMAGED}")
    if trace.length != own["sample"] or not trace.regular:
        raise DamagedFileError(f"the history is not one of {own['sample']} samples: {DAMAGED}")
    return Snapshot(
        system=ParticleSystem(**system),
        exponent=None if np.isnan(exponent) else exponent,
        trace=trace,
        rejuvenations=restored_rejuvenations(group.arrays["rejuvenations"].values, sizes),
        log_pair_ratios=tuple(steps["log_pair_ratios"].tolist()),
        factors=tuple(steps["factors"].tolist()),
        random_state=random_state.model_dump(),
        **(own | {name: bool(own[name]) for name in TRUTHS}),
    )


def rejuvenation_table(rejuvenations: tuple[Rejuvenation, ...]) -> NDArray[np.void]:
    """Return rejuvenations as a table of one row each."""
    rows = []
    for one in rejuvenations:
        values = [getattr(one, field.name) for field in COLUMNS]
        values = [value.encode() if isinstance(value, str) else value for value in values]
        rows.append((*values, one.evidence.log, one.evidence.variance))
    return np.array(rows, dtype=TABLE)


def restored_rejuvenations(table: NDArray[Any], sizes: dict[str, int]) -> tuple[Rejuvenation, ...]:
    """Return the rejuvenations of such a table.

    Raises
    ------
    DamagedFileError
        If it is none, or its numbers are not those of so many particles and samples.
    """
    if table.dtype not in (TABLE, TABLE_OF_4) or table.ndim != 1:
        raise DamagedFileError(f"the table of rejuvenations has other columns: {DAMAGED}")
    numbers = {name: table[name] for name in table.dtype.names or () if name != "proposal"}
    checked("rejuvenations", numbers, {name: REJUVENATIONS[name] for name in numbers}, sizes)
    found = []
    for row in table:
        values = {name: row[name].item() for name in (*numbers, "proposal")}
        evidence = EvidenceEstimate(values.pop("evidence_log"), values.pop("evidence_variance"))
        values["proposal"] = values["proposal"].decode("ascii", "replace")
        if not values["proposal"].isprintable():
            raise DamagedFileError(f"the name of a proposal is damaged: {DAMAGED}")
        found.append(Rejuvenation(**values, evidence=evidence))
    return tuple(found)
