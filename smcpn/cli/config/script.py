"""Run a user's Python file, name the line that failed, and find the problem in it."""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from smcpn.base.signals import Terminated
from smcpn.errors import InputError, listed, shown

if TYPE_CHECKING:
    from smcpn.cli.cases import Case

T = TypeVar("T")


def run_file(path: Path) -> ModuleType:
    """Run a file as an import would, with its folder on the search path.

    Raises `InputError` if there is none, or it fails: the file and the line are named.
    """
    if not path.is_file():
        raise InputError(f"'{path}' is no file: correct its name")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"'{path}' is no Python file")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.parent.resolve())
    # The file may import modules of its own folder, as when Python runs it.
    sys.path.insert(0, folder)
    try:
        with blaming_user_code(path.parent):
            spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


@contextmanager
def blaming_user_code(folder: Path) -> Generator[None]:
    """Report what fails inside in one sentence, with the line of the user's file it comes from."""
    try:
        yield
    except Terminated:
        raise
    except (Exception, SystemExit) as error:
        place = user_place(error, folder)
        if isinstance(error, InputError):
            if place is None:
                raise
            raise InputError(f"{place}: {error}", argument=error.argument) from error
        if place is None and not isinstance(error, SystemExit):
            raise
        said = " ".join(str(getattr(error, "msg", None) or error).split())
        raise InputError(f"{place or folder}: {type(error).__name__}: {said}") from error


def user_place(error: BaseException, folder: Path) -> str | None:
    """Return ``"model.py, line 12"``, the innermost line in the folder that an error came through.

    What caused it is looked at first: an error in a model is raised again by those who trace it.
    """
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None:
        chain.append(link)
        link = link.__cause__ or link.__context__
    inside = folder.resolve()
    for one in reversed(chain):
        if isinstance(one, SyntaxError) and one.filename and one.lineno:
            return _place(Path(one.filename), one.lineno, folder)
        for frame in reversed(traceback.extract_tb(one.__traceback__)):
            file = Path(frame.filename)
            if frame.lineno and file.is_file() and file.resolve().parent == inside:
                return _place(file, frame.lineno, folder)
    return None


def only(module: ModuleType, kind: type[T], name: str | None, default: str, written: str) -> T:
    """Return an object of a module: the one named, the one of the usual name, or the only one.

    ``written`` says how a user writes such an object, for the message where there is none, or
    several without a name.
    """
    path = Path(str(module.__file__)).name
    # What is imported from elsewhere under two names is one object.
    found = {key: value for key, value in vars(module).items() if isinstance(value, kind)}
    if name is None and default not in found and len(set(map(id, found.values()))) == 1:
        name = next(iter(found))
    wanted = name or default
    if wanted in found:
        return found[wanted]
    if wanted in vars(module):
        value: Any = vars(module)[wanted]
        raise InputError(f"'{wanted}' in '{path}' is {shown(value)}: write {written}")
    remedy = f"name one of {listed(found)}" if found else f"write {written}"
    raise InputError(f"'{path}' has no '{wanted}': {remedy}")


def _place(file: Path, line: int, folder: Path) -> str:
    """Name the file as the user did, through the folder."""
    return f"{folder / file.name}, line {line}"


_SCRIPT = re.compile(r"(?P<path>.+\.py)(:(?P<name>\w+))?")
USUAL_NAME = "problem"


def is_script(text: str) -> bool:
    """True if a text names a Python file, as ``model.py`` or ``model.py:name``."""
    return _SCRIPT.fullmatch(text) is not None


def scripted_case(text: str) -> Case:
    """Run a Python file and take the `smcpn.Problem` in it; its own records are the tests.

    Raises `InputError` if the file fails, or has none of that name.
    """
    from smcpn.cli.cases import Case
    from smcpn.model.problem import Problem
    from smcpn.model.record import trained_on

    match = _SCRIPT.fullmatch(text)
    assert match is not None
    module = run_file(Path(match["path"]))
    problem = only(module, Problem, match["name"], USUAL_NAME, "problem = smcpn.Problem(...)")
    return Case(
        name=Path(match["path"]).stem,
        problem=problem,
        tests=trained_on(problem.records),
        published={},
        steps="auto",
        note=match["path"],
        split="",
    )
