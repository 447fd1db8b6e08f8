"""The case studies of the PN-SMC paper: a model, its priors, its records, and what to compare with.

`smcpn identify NAME` runs one.
"""

from __future__ import annotations

from collections.abc import Callable

from smcpn.cases.bouc_wen import bouc_wen_case
from smcpn.cases.case import Case
from smcpn.cases.emps import emps_case
from smcpn.cases.silverbox import silverbox_case
from smcpn.errors import InputError

CASES: dict[str, Callable[..., Case]] = {
    "silverbox": silverbox_case,
    "emps": emps_case,
    "bouc-wen": bouc_wen_case,
}


def load_case(
    name: str, hold: str | None = None, model: str | None = None, split: str | None = None
) -> Case:
    """Build a case study.

    Parameters
    ----------
    name : str
        A key of `CASES`.
    hold, model, split : str, optional
        See the function of the case; its defaults where left out.

    Raises
    ------
    InputError
        If there is none of that name, or its files are missing.
    """
    if name not in CASES:
        raise InputError(f"no system '{name}': choose one of {', '.join(CASES)}")
    arguments = {"hold": hold, "model": model, "split": split}
    return CASES[name](**{key: value for key, value in arguments.items() if value is not None})


__all__ = ["CASES", "Case", "load_case"]
