"""The file of a posterior that was saved: its draws, its problem, and how it was made.

Posteriors that were saved in format 4 or 5 are put into the parts of the present format. They have
all that is no array in one text of JSON, arrays in groups of other names, and rejuvenations in a
table.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from smcpn.base.files import file_path
from smcpn.checkpoint.codec import TEXT, decoded, decoded_all, encoded, numbered, require_parts
from smcpn.checkpoint.container import DAMAGED, POSTERIOR, DamagedFileError, read, save
from smcpn.checkpoint.problem import StoredProblem, StoredRecord
from smcpn.errors import InputError, NotStorableError
from smcpn.io.hdf5_subset import Group
from smcpn.likelihood.registry import LIKELIHOODS
from smcpn.results.nuts import NutsPosterior
from smcpn.results.posterior import Posterior

EVIDENCE = {"evidence_log": "log", "evidence_variance": "variance"}
OF_CHAINS = ("ess_bulk", "ess_tail")
"""Arrays of chains that are no statistics of their sampler."""


def is_earlier(file: Group) -> bool:
    """True if a file is one of format 4 or 5."""
    return file.attributes["format_version"] < 6


def posterior_as_now(file: Group) -> Group:
    """Return the file of a posterior as it would be written now; it is checked when it is read.

    Raises `DamagedFileError` if parts of it are absent.
    """
    arrays = file.group("arrays")
    parts = {"problem", "records", "draws", "chains"}
    if set(file.groups) != {"documents", "arrays"} or not parts.issuperset(arrays.groups):
        raise DamagedFileError(f"a posterior has other parts than it should: {DAMAGED}")
    if file.group("documents").texts.keys() != {"posterior"}:
        raise DamagedFileError(f"the document of the posterior is absent: {DAMAGED}")
    try:
        return _translated(json.loads(file.group("documents").texts["posterior"]), arrays)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise DamagedFileError(f"its document is not that of a posterior: {DAMAGED}") from error


def _translated(document: dict[str, Any], arrays: Group) -> Group:
    problem, records = document.pop("problem"), document.pop("records")
    chains = document.pop("chains")
    draws = dict(arrays.group("draws").arrays)
    table = draws.pop("rejuvenations").values
    document["rejuvenations"] = [
        _rejuvenation(table.dtype.names or (), row) for row in table.tolist()
    ]
    document["problem"] = None
    return Group(
        groups={
            "problem": _problem(problem, arrays.group("problem")),
            "records": Group(
                groups={
                    str(k): _part(one, arrays.group("records").group(str(k)))
                    for k, one in enumerate(records)
                }
            ),
            "posterior" if chains is None else "chains": (
                _part(document, Group(arrays=draws))
                if chains is None
                else _chains(document, chains, draws, arrays.group("chains"))
            ),
        }
    )


def _part(document: dict[str, Any], arrays: Group, **inner: Group) -> Group:
    """Return a part of a document whose own arrays have names of its fields."""
    document |= {name: name for name in arrays.arrays}
    for name, group in inner.items():
        document[name] |= {one: f"{name}/{one}" for one in group.arrays}
    return Group(arrays=arrays.arrays, texts={TEXT: json.dumps(document)}, groups=inner)


def _problem(document: dict[str, Any], arrays: Group) -> Group:
    tables, moved = {name: dict(one.arrays) for name, one in arrays.groups.items()}, {}
    constants = tables["model"].pop("constant_values")
    for owner in ("ode", "model"):
        table = Group(arrays=tables[owner])
        names = {one: f"{owner}/table/{one}" for one in table.arrays}
        document.setdefault(owner, {})["table"] = names
        own = {"constants": constants} if owner == "model" else {}
        moved[owner] = Group(arrays=own, groups={"table": table})
    document["model"]["constants"] = "model/constants"
    return Group(texts={TEXT: json.dumps(document)}, groups=moved)


def _chains(
    document: dict[str, Any], chains: dict[str, Any], draws: dict[str, Any], arrays: Group
) -> Group:
    statistics = dict(arrays.arrays)
    draws |= {name: statistics.pop(name) for name in OF_CHAINS}
    return _part(
        document | {"statistics": chains}, Group(arrays=draws), statistics=Group(arrays=statistics)
    )


def _rejuvenation(names: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    values = dict(zip(names, row, strict=True))
    values["proposal"] = values["proposal"].decode("ascii", "replace")
    return values | {"evidence": {EVIDENCE[one]: values.pop(one) for one in EVIDENCE}}


LARGEST_VALUE = 1e150
"""Of a parameter: its square is finite."""
KINDS = {"posterior": Posterior, "chains": NutsPosterior}
"""Posteriors by the part of the file that holds one."""


def save_posterior(posterior: Posterior, path: str | Path) -> Path:
    """Write the file of a posterior under its lock, and return its path.

    Raises `InputError` if the file cannot be written, or the problem cannot be stored.
    """
    path = file_path("path", path)
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder does not exist, make it first", argument="path")
    try:
        problem = StoredProblem.of(posterior.problem)
        records = [StoredRecord.of(one) for one in posterior.problem.records]
    except NotStorableError as error:
        raise InputError(f"{path} cannot hold this posterior: {error}") from None
    part = "chains" if isinstance(posterior, NutsPosterior) else "posterior"
    parts = {"problem": problem, part: posterior, **numbered(records, "records")}
    save(path, POSTERIOR, encoded(POSTERIOR, parts))
    return path


def read_posterior(path: Path) -> Posterior:
    """Read the file of a posterior; see `smcpn.checkpoint.container.read`."""
    return read(path, POSTERIOR, _posterior_of)


def _posterior_of(file: Group) -> Posterior:
    """Return the posterior of a file, of which all parts fit each other."""
    file = posterior_as_now(file) if is_earlier(file) else file
    part = "chains" if "chains" in file.groups else "posterior"
    require_parts(file, "problem", "records", part)
    records = [one.restored() for one in decoded_all(file, "records", StoredRecord)]
    problem = decoded(file, "problem", StoredProblem).restored(records)
    sizes = {"d": len(problem.names), "T": problem.n_samples}
    posterior = decoded(file, part, KINDS[part], sizes, {"problem": problem})
    if posterior.likelihood not in (None, *LIKELIHOODS):
        raise InputError(f"its likelihood '{posterior.likelihood}' is not known here")
    _require_whole(posterior)
    return posterior


def _require_whole(posterior: Posterior) -> None:
    """Refuse draws of which none counts, of other populations, or without a variance."""
    n, shift = len(posterior.theta), posterior.shift
    fits = (
        n > 0
        and np.isfinite(posterior.log_weights).any()
        and len(posterior.replicate) in (0, n)
        and len(posterior.ancestor) in (0, n)
        and (shift is None or set(shift.parameters) == set(posterior.names))
    )
    if not fits:
        raise DamagedFileError(f"the draws are not those of a posterior: {DAMAGED}")
    if isinstance(posterior, NutsPosterior) and posterior.statistics.divergent.size != n:
        raise DamagedFileError(f"the chains are not those of the draws: {DAMAGED}")
    with np.errstate(all="ignore"):
        bounded = (np.abs(posterior.values) <= LARGEST_VALUE).all()
    if not bounded:
        raise DamagedFileError(f"the draws have values beyond {LARGEST_VALUE:g}: {DAMAGED}")
