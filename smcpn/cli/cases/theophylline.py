"""Theophylline in twelve subjects: one compartment, with or without parameters of their own."""

from __future__ import annotations

from typing import Any

from scipy import stats

from smcpn.cli.cases.case import Case
from smcpn.cli.cases.splits import OFFICIAL
from smcpn.datasets import Theophylline, theophylline
from smcpn.datasets.models import oral_dose
from smcpn.errors import one_of
from smcpn.model.noise import LogNormal
from smcpn.model.problem import Problem

SUBJECT: dict[str, Any] = {
    "absorption": stats.lognorm(0.7, scale=1.5),
    "clearance": stats.lognorm(0.5, scale=0.04),
    "volume": stats.lognorm(0.5, scale=0.5),
}
"""1/h, L/h/kg and L/kg: textbook values of the drug, with a factor of four in the first and of 2.7
in the others either way."""
NOISE: dict[str, Any] = {"sd": stats.lognorm(1.0, scale=0.2)}
"""Of the logarithm."""

MODELS = ("own", "pooled")


def theophylline_case(model: str = "own", split: str = OFFICIAL) -> Case:
    """Build the case.

    Raises `InputError` for an unknown model or split, or without the file.

    Parameters
    ----------
    model : {"own", "pooled"}
        Every subject has its own absorption, clearance and volume, or all have the same.
    split : {"official"}
        All samples are learned from, and compared with.
    """
    one_of("model", model, MODELS)
    one_of("split", split, [OFFICIAL])
    data = theophylline()
    return Case(
        name="theophylline",
        problem=theophylline_problem(data, model),
        tests={record.name: record for record in data.records},
        published={},
        steps="auto",
        split=split,
        note="12 subjects, theophylline.csv; scored on what was learned from",
    )


def theophylline_problem(data: Theophylline, model: str) -> Problem:
    """Subjects, each of which begins with its dose in the gut and with its parameters as states."""
    own: dict[str, Any] = SUBJECT if model == "own" else {name: f"every {name}" for name in SUBJECT}
    shared = {} if model == "own" else {f"every {name}": one for name, one in SUBJECT.items()}
    return Problem(
        oral_dose,
        data.records,
        observe=concentration,
        noise=LogNormal("sd"),
        prior=NOISE | shared,
        initial=[{"gut": dose, "blood": 0.0, **own} for dose in data.doses],
    )


def concentration(blood: Any, volume: Any) -> Any:
    """Drug in the blood over the volume that it is spread in, mg/L."""
    return blood / volume
