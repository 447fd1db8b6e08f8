"""A problem in a user's Python file as a case."""

from __future__ import annotations

import re
from pathlib import Path

from smcpn.cases.case import Case
from smcpn.config.user_file import only, run_file
from smcpn.problem import Problem

_SCRIPT = re.compile(r"(?P<path>.+\.py)(:(?P<name>\w+))?")
USUAL_NAME = "problem"


def is_script(text: str) -> bool:
    """Whether a text names a Python file, as ``model.py`` or ``model.py:name``."""
    return _SCRIPT.fullmatch(text) is not None


def scripted_case(text: str) -> Case:
    """Run a Python file and take the `smcpn.Problem` in it; its own records are the tests.

    Raises
    ------
    InputError
        If the file fails, or has none of that name.
    """
    match = _SCRIPT.fullmatch(text)
    assert match is not None
    module = run_file(Path(match["path"]))
    problem = only(module, Problem, match["name"], USUAL_NAME, "problem = smcpn.Problem(...)")
    return Case(
        name=Path(match["path"]).stem,
        problem=problem,
        tests={f"{record.name}, trained on": record for record in problem.records},
        published={},
        steps="auto",
        note=match["path"],
        split="",
    )
