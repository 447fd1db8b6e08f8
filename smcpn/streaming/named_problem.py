"""The problem that a command names: a case study, or one in a user's Python file."""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from smcpn.cases import CASES, load_case
from smcpn.errors import InputError
from smcpn.problem import Problem

_FILE = re.compile(r"(?P<path>.+\.py)(:(?P<name>\w+))?")
DEFAULT_NAME = "problem"


def named_problem(text: str, hold: str | None = None) -> tuple[Problem, int | None]:
    """Return the problem, and the solver steps per sample of a case study.

    Parameters
    ----------
    text : str
        A key of `smcpn.cases.CASES`, ``model.py`` with a variable ``problem``, or
        ``model.py:name``. The file is run.
    hold : str, optional
        Of a case study: its own by default.

    Raises
    ------
    InputError
        If there is none of that name, or the file fails.
    """
    match = _FILE.fullmatch(text)
    if match is None:
        if text not in CASES:
            raise InputError(
                f"no system '{text}': choose one of {', '.join(CASES)}, or name a Python file "
                "as model.py:problem"
            )
        case = load_case(text, hold=hold)
        return case.problem, case.steps
    if hold is not None:
        raise InputError("hold belongs to a case study: in a file of your own the record states it")
    return _problem_of(match["path"], match["name"] or DEFAULT_NAME), None


def _problem_of(path: str, name: str) -> Problem:
    module = _run(Path(path))
    problem = getattr(module, name, None)
    if isinstance(problem, Problem):
        return problem
    if problem is not None:
        raise InputError(f"'{name}' in '{path}' is {type(problem).__name__}: give an smcpn.Problem")
    found = [key for key, value in vars(module).items() if isinstance(value, Problem)]
    mend = f"name it, as {path}:{found[0]}" if found else f"write {name} = smcpn.Problem(...)"
    raise InputError(f"'{path}' has no '{name}': {mend}")


def _run(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"'{path}' is no file: correct its name")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"'{path}' is no Python file")
    module = importlib.util.module_from_spec(spec)
    # What the file imports may lie beside it, as when Python runs it.
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except InputError as error:
        raise InputError(f"'{path}': {error}") from error
    except Exception as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).resolve() == path.resolve()
        ]
        where = f" at line {lines[-1]}" if lines else ""
        raise InputError(f"'{path}' fails{where}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
    return module
