"""Posteriors for ArviZ: plots, diagnostics, and model comparison of others."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.model.problem import Problem
from smcpn.smc.particles import normalise
from smcpn.smc.replicates import Populations
from smcpn.smc.resampling import systematic

Group = dict[str, NDArray[Any]]


def to_arviz(populations: Populations, problem: Problem, seed: int = 0) -> Any:
    """Export the particles of a posterior; see `exported`."""
    evidence = {
        "log_evidence": populations.log_evidence,
        "log_evidence_se": populations.log_evidence_se,
    }
    return exported(arviz_groups(populations, problem, seed), evidence)


def exported(groups: Mapping[str, Group], attributes: Mapping[str, Any]) -> Any:
    """Export groups of variables as an `arviz_base` DataTree.

    Where arviz-base is not installed, as with Python 3.11, it is an InferenceData of ArviZ 0.x.

    Raises `InputError` if neither is installed.
    """
    attributes = {"inference_library": "smcpn", **attributes}
    try:
        arviz_base = import_module("arviz_base")
    except ImportError:
        arviz = arviz_module()
        if arviz is None:
            raise InputError(
                "to_arviz needs the package arviz-base, or with Python 3.11 arviz before 1.0: "
                "install it with pip install smcpn[arviz]"
            ) from None
        return arviz.from_dict(**groups, attrs=attributes)
    return arviz_base.from_dict(groups, attrs={"/": attributes})


def arviz_module() -> Any:
    """The module `arviz`; None where it is not installed."""
    with warnings.catch_warnings():
        # It announces its next version.
        warnings.simplefilter("ignore")
        try:
            return import_module("arviz")
        except ImportError:
            return None


def observed(problem: Problem) -> Group:
    """The group ``observed_data``: the outputs of each record."""
    return {f"y_{number}": record.y for number, record in enumerate(problem.records)}


def arviz_groups(populations: Populations, problem: Problem, seed: int = 0) -> dict[str, Group]:
    """Return the groups of variables of an ArviZ DataTree, replicates along ``chain``.

    ArviZ does not know weighted samples: the group ``posterior`` is an equally weighted resample
    of each replicate, (R, N), in random order; ``sample_stats`` keeps the log-weight and the
    log-likelihood that each draw had.
    """
    rng = np.random.default_rng(seed)
    replicate = populations.replicate
    if len(replicate) == 0:
        replicate = np.zeros(len(populations.theta), dtype=np.int64)
    chosen = []
    for number in range(int(replicate.max()) + 1):
        members = np.flatnonzero(replicate == number)
        weights = normalise(populations.log_weights[members])
        chosen.append(members[rng.permutation(systematic(weights, rng))])
    index, values = np.stack(chosen), problem.prior.natural(populations.theta)
    return {
        "posterior": {name: values[index, j] for j, name in enumerate(problem.names)},
        "sample_stats": {
            "log_weight": populations.log_weights[index],
            "lp": populations.log_likelihood[index],
        },
        "observed_data": observed(problem),
    }
