"""Lynx and hare: the Lotka-Volterra equations with the priors of the Stan case study.

Carpenter, B. (2018). Predator-prey population dynamics: the Lotka-Volterra model in Stan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from smcpn.cli.cases.case import Case
from smcpn.cli.cases.splits import PAPER
from smcpn.datasets import lynx_hare
from smcpn.datasets.models import lotka_volterra
from smcpn.errors import one_of
from smcpn.model.noise import LogNormal
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.results.simulation.simulation import Simulation

if TYPE_CHECKING:
    from smcpn.results.posterior import Posterior

LEARNED = 15
"""Years of the forecast's training record; the other six are its test."""


def _positive(mean: float, sd: float) -> Any:
    return stats.truncnorm(-mean / sd, np.inf, loc=mean, scale=sd)


PRIOR: dict[str, Any] = {
    "birth": _positive(1.0, 0.5),
    "predation": _positive(0.05, 0.05),
    "growth": _positive(0.05, 0.05),
    "death": _positive(1.0, 0.5),
    "sd_hare": stats.lognorm(1.0, scale=np.exp(-1.0)),
    "sd_lynx": stats.lognorm(1.0, scale=np.exp(-1.0)),
}
"""The study's: rates per year, and per year and thousand pelts; sds of logarithms."""
INITIAL: dict[str, Any] = {name: stats.lognorm(1.0, scale=10.0) for name in ("hare", "lynx")}


def lynx_hare_case(model: str = "lotka-volterra", split: str = PAPER) -> Case:
    """Build the case.

    The measurements scatter log-normally about both populations. The last six years are scored by
    a posterior of the first fifteen as well.

    Raises `InputError` for an unknown model or split, or without the file.

    Parameters
    ----------
    model : {"lotka-volterra"}
    split : {"paper"}
        All years are learned from, as in the study.
    """
    one_of("model", model, ["lotka-volterra"])
    one_of("split", split, [PAPER])
    record = lynx_hare()

    def forecast(posterior: Posterior) -> Simulation:
        from smcpn.run.identify import identify

        first = lynx_hare_problem(record[:LEARNED])
        found = identify(first, particles=len(posterior.theta), seed=posterior.seed, progress=False)
        return found.simulate(record.hide(0, LEARNED))

    return Case(
        name="lynx-hare",
        problem=lynx_hare_problem(record),
        tests={"all years, learned from": record},
        published={},
        steps="auto",
        split=split,
        protocols={f"from the first {LEARNED} years, the rest": forecast},
        note="pelts of the Hudson's Bay Company, lynx_hare.csv",
    )


def lynx_hare_problem(record: Record) -> Problem:
    """The populations with a record to learn them from."""
    return Problem(
        lotka_volterra,
        record,
        observe=["hare", "lynx"],
        noise=[LogNormal("sd_hare"), LogNormal("sd_lynx")],
        prior=PRIOR,
        initial=INITIAL,
    )
