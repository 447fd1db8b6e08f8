"""Unknown functions of a model as documents: the name of the kind, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any

from pydantic import Field

from smcpn.checkpoint.container import DAMAGED
from smcpn.checkpoint.documents import Document, Line, Name, Number, Whole, parsed
from smcpn.errors import InputError, NotStorableError, listed, shown
from smcpn.functions.kinds import FUNCTIONS
from smcpn.functions.unknown import UnknownFunction

MOST_ENTRIES = 64
"""Of a list among the settings."""
Scalar = bool | Whole | Number | Line | None
Setting = (
    Scalar
    | Annotated[list[Scalar], Field(max_length=MOST_ENTRIES)]
    | Annotated[
        list[Annotated[list[Scalar], Field(max_length=MOST_ENTRIES)]],
        Field(max_length=MOST_ENTRIES),
    ]
)


class FunctionDocument(Document):
    """An unknown function: its name in the model, the name of its class, and its fields."""

    name: Name
    kind: Name
    settings: Annotated[dict[Name, Setting], Field(max_length=MOST_ENTRIES)]


def function_document(name: str, function: UnknownFunction) -> dict[str, Any]:
    """Return a function as its kind and plain settings.

    Raises
    ------
    NotStorableError
        If it does not come back the same from these.
    """
    settings = {field.name: _plain(getattr(function, field.name)) for field in fields(function)}
    document = {"name": name, "kind": type(function).__name__, "settings": settings}
    try:
        same = restored_function(parsed(FunctionDocument, document)) == function
    except InputError:
        same = False
    if not same:
        raise NotStorableError(
            f"function '{name}' is {shown(function)}, whose fields are no plain numbers and texts, "
            "and cannot be stored in a file: resume from the script"
        )
    return document


def restored_function(document: FunctionDocument) -> UnknownFunction:
    """Return the function that `function_document` described.

    Raises
    ------
    InputError
        If the kind is not known here, or does not take these settings.
    """
    kind, settings = FUNCTIONS.get(document.kind), document.settings
    if kind is None:
        raise InputError(
            f"the stored function '{document.name}' is a {shown(document.kind)}, which is not "
            f"known here ({listed(FUNCTIONS)}): resume from the script that defines it"
        )
    known = {field.name for field in fields(kind)}
    if known != set(settings):
        raise InputError(
            f"the stored function '{document.name}' has {shown(sorted(settings))}: {DAMAGED}"
        )
    try:
        return kind(**{name: _tuples(value) for name, value in settings.items()})
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
