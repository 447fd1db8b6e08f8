"""Case studies: the systems of the PN-SMC paper, which are identified by name.

A case is a problem, its test records, and what to compare with. `smcpn identify NAME` runs one.
"""

from __future__ import annotations

from collections.abc import Callable

from smcpn.cases.bouc_wen import bouc_wen_case
from smcpn.cases.case import SPLITS, Case
from smcpn.cases.emps import emps_case
from smcpn.cases.silverbox import silverbox_case
from smcpn.errors import one_of

CASES: dict[str, Callable[..., Case]] = {
    "silverbox": silverbox_case,
    "emps": emps_case,
    "bouc-wen": bouc_wen_case,
}


def load_case(
    name: str, hold: str | None = None, model: str | None = None, split: str | None = None
) -> Case:
    """Return a case study by its name.

    Parameters
    ----------
    name : str
        A key of `CASES`.
    hold : str, optional
        The input between samples, where it is to be another one.
    model, split : str, optional
        See the function of the case study; its defaults where left out.

    Raises
    ------
    InputError
        If there is none of that name, its files are missing, or an option does not apply.
    """
    arguments = {"hold": hold, "model": model, "split": split}
    study = CASES[one_of("name", name, CASES)]
    return study(**{key: value for key, value in arguments.items() if value is not None})


__all__ = ["CASES", "SPLITS", "Case", "load_case"]
