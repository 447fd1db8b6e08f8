"""Unknown functions of a model as documents: the name of the kind, and its settings.

A function is made again by the public function that made it, which checks what it is given.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any

from pydantic import Field

from smcpn.checkpoint.container import DAMAGED
from smcpn.checkpoint.documents import Document, Line, Name, Number, Whole, parsed
from smcpn.errors import InputError, NotStorableError, listed, shown
from smcpn.functions.kinds import NAMES, kind_of
from smcpn.functions.unknown import UnknownFunction

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


class FunctionDocument(Document):
    """An unknown function: its name in the model, its kind, its variables and other settings."""

    name: Name
    kind: Name
    arguments: Annotated[list[Line], Field(max_length=MOST_ENTRIES)]
    settings: Annotated[dict[Name, Setting], Field(max_length=MOST_ENTRIES)]


def function_document(name: str, function: UnknownFunction) -> dict[str, Any]:
    """Return a function as its kind and plain settings, those of the default left out.

    Raises
    ------
    NotStorableError
        If it does not come back the same from these.
    """
    document = {
        "name": name,
        "kind": kind_of(function),
        "arguments": list(function.arguments),
        "settings": {
            one.name: _plain(getattr(function, one.name))
            for one in fields(function)
            if one.name != "arguments" and getattr(function, one.name) != one.default
        },
    }
    try:
        same = restored_function(parsed(FunctionDocument, document)) == function
    except InputError:
        same = False
    if not same:
        raise NotStorableError(
            f"function '{name}' is a {type(function).__name__} that no file can hold: make it by "
            f"{listed(NAMES)} of smcpn to be able to resume from the file alone; otherwise resume "
            "from the script"
        )
    return document


def restored_function(document: FunctionDocument) -> UnknownFunction:
    """Return the function that `function_document` described.

    Raises
    ------
    InputError
        If the kind is not known here, or does not take these settings.
    """
    if document.kind not in NAMES:
        raise InputError(
            f"the stored function '{document.name}' is {shown(document.kind)}, which is none of "
            f"{listed(NAMES)}: {DAMAGED}"
        )
    make = NAMES[document.kind]
    settings = {name: _tuples(value) for name, value in document.settings.items()}
    try:
        given = inspect.signature(make).bind(*document.arguments, **settings)
    except TypeError as error:
        raise InputError(
            f"the stored function '{document.name}' is no {document.kind} ({shown(str(error))}): "
            f"{DAMAGED}"
        ) from error
    try:
        return make(*given.args, **given.kwargs)
    except InputError as error:
        raise InputError(f"the stored function '{document.name}': {error}") from error


def functions_of(documents: list[FunctionDocument]) -> Mapping[str, UnknownFunction]:
    """Return the functions of a model by name.

    Raises
    ------
    InputError
        As `restored_function`, and if two have one name.
    """
    found = {one.name: restored_function(one) for one in documents}
    if len(found) < len(documents):
        raise InputError(f"stored functions have {shown(list(found))} as names: {DAMAGED}")
    return found


def _plain(value: Any) -> Any:
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
