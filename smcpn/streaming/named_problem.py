"""The problem that a command names, with the steps of its solver."""

from __future__ import annotations

from smcpn.cases import load_case
from smcpn.problem import Problem


def named_problem(text: str, hold: str | None = None) -> tuple[Problem, int | None]:
    """Return the problem of a case, and the solver steps per sample where the case has a number.

    Parameters
    ----------
    text, hold
        As of `smcpn.cases.load_case`.

    Raises
    ------
    InputError
        If there is none of that name, or the file fails.
    """
    case = load_case(text, hold=hold)
    return case.problem, case.steps if isinstance(case.steps, int) else None
