"""Posteriors for ArviZ 1.x: plots, diagnostics, and model comparison of others."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from smcpn.errors import InputError
from smcpn.model.problem import Problem
from smcpn.smc.particles import normalise
from smcpn.smc.replicates import Populations
from smcpn.smc.resampling import systematic


def to_arviz(populations: Populations, problem: Problem, seed: int = 0) -> Any:
    """Export the particles of a posterior as an `arviz_base` DataTree.

    Raises
    ------
    InputError
        If arviz-base is not installed.
    """
    try:
        arviz_base = import_module("arviz_base")
    except ImportError:
        raise InputError(
            "to_arviz needs the package arviz-base (Python 3.12 or later): "
            "install it with pip install smcpn[arviz]"
        ) from None
    return arviz_base.from_dict(
        arviz_groups(populations, problem, seed),
        attrs={
            "/": {
                "inference_library": "smcpn",
                "log_evidence": populations.log_evidence,
                "log_evidence_se": populations.log_evidence_se,
            }
        },
    )


def arviz_groups(
    populations: Populations, problem: Problem, seed: int = 0
) -> dict[str, dict[str, np.ndarray]]:
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
        "observed_data": {f"y_{number}": record.y for number, record in enumerate(problem.records)},
    }
