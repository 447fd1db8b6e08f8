"""Posteriors that were saved in format 4 or 5, put into the parts of the present format.

They have all that is no array in one text of JSON, arrays in groups of other names, and
rejuvenations in a table.
"""

from __future__ import annotations

import json
from typing import Any

from smcpn.checkpoint.codec import TEXT
from smcpn.checkpoint.container import DAMAGED, DamagedFileError
from smcpn.io.hdf5_subset import Group

EVIDENCE = {"evidence_log": "log", "evidence_variance": "variance"}
OF_CHAINS = ("ess_bulk", "ess_tail")
"""Arrays of chains that are no statistics of their sampler."""


def is_earlier(file: Group) -> bool:
    """True if a file is one of format 4 or 5."""
    return file.attributes["format_version"] < 6


def posterior_as_now(file: Group) -> Group:
    """Return the file of a posterior as it would be written now; it is checked when it is read.

    Raises
    ------
    DamagedFileError
        If parts of it are absent.
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
