"""Unknown functions of a model as plain data: the name of the kind, and its settings.

A function is made again by the public function that made it, which checks what it is given.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, cast

from pydantic import Field

from smcpn.checkpoint.codec import read_again
from smcpn.checkpoint.container import DAMAGED
from smcpn.errors import InputError, NotStorableError, listed, shown
from smcpn.functions.kinds import NAMES, kind_of
from smcpn.functions.unknown import UnknownFunction
from smcpn.stored import Line, Name, Number, Stored, Whole

MOST_ENTRIES = 64
"""Of a list among the settings."""
MOST_NUMBERS = 20_000
"""Of a list of numbers, such as weights."""
Scalar = bool | Whole | Number | Line | None
Setting = (
    Scalar
    | Annotated[list[Scalar], Field(max_length=MOST_ENTRIES)]
    | Annotated[list[Number], Field(max_length=MOST_NUMBERS)]
    | Annotated[
        list[Annotated[list[Scalar], Field(max_length=MOST_ENTRIES)]],
        Field(max_length=MOST_ENTRIES),
    ]
)


@dataclass(frozen=True)
class StoredFunction(Stored):
    """An unknown function: its name in the model, its kind, its variables and other settings."""

    name: Name
    kind: Name
    arguments: Annotated[list[Line], Field(max_length=MOST_ENTRIES)]
    settings: Annotated[dict[Name, Setting], Field(max_length=MOST_ENTRIES)]


def stored_function(name: str, function: UnknownFunction) -> StoredFunction:
    """Return a function as its kind and plain settings, those of the default left out.

    Raises
    ------
    NotStorableError
        If it does not come back the same from these.
    """
    stored = StoredFunction(
        name=name,
        kind=kind_of(function) or "",
        arguments=list(function.arguments),
        settings={
            one.name: _plain(getattr(function, one.name))
            for one in fields(cast(Any, function))
            if one.name != "arguments" and getattr(function, one.name) != one.default
        },
    )
    try:
        same = restored_function(read_again(stored)) == function
    except (InputError, TypeError):
        same = False
    if not same:
        raise NotStorableError(
            f"function '{name}' is a {type(function).__name__} that no file can hold: make it by "
            f"{listed(NAMES)} of smcpn to be able to resume from the file alone; otherwise resume "
            "from the script"
        )
    return stored


def restored_function(stored: StoredFunction) -> UnknownFunction:
    """Return the function that was stored.

    Raises
    ------
    InputError
        If the kind is not known here, or does not take these settings.
    """
    if stored.kind not in NAMES:
        raise InputError(
            f"the stored function '{stored.name}' is {shown(stored.kind)}, which is none of "
            f"{listed(NAMES)}: {DAMAGED}"
        )
    make = NAMES[stored.kind]
    settings = {name: _tuples(value) for name, value in stored.settings.items()}
    try:
        given = inspect.signature(make).bind(*stored.arguments, **settings)
    except TypeError as error:
        raise InputError(
            f"the stored function '{stored.name}' is no {stored.kind} ({shown(str(error))}): "
            f"{DAMAGED}"
        ) from error
    try:
        return make(*given.args, **given.kwargs)
    except InputError as error:
        raise InputError(f"the stored function '{stored.name}': {error}") from error


def functions_of(stored: list[StoredFunction]) -> Mapping[str, UnknownFunction]:
    """Return the functions of a model by name.

    Raises
    ------
    InputError
        As `restored_function`, and if two have one name.
    """
    found = {one.name: restored_function(one) for one in stored}
    if len(found) < len(stored):
        raise InputError(f"stored functions have {shown(list(found))} as names: {DAMAGED}")
    return found


def _plain(value: Any) -> Any:
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
