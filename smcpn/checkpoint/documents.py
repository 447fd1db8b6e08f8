"""Documents of a file: JSON of bounded depth, parsed into models of plain data of the right types.

A document is read by `loaded` and `parsed` before anything is made of it.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from smcpn.checkpoint.container import DAMAGED, DamagedFileError
from smcpn.errors import shown, visible

DEEPEST = 12
"""Lists and objects of a document within each other."""
LONGEST_TEXT = 100_000
LONGEST_NAME = 1_000


Number = Annotated[float, Field(allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0, lt=1 << 53)]
"""A count, which a float can hold too."""
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Line = Annotated[Text, AfterValidator(visible)]
"""A text in which control characters are escaped, so that a terminal may print it."""
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(visible)]
Fingerprint = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def _different(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("a name is there twice")
    return names


Names = Annotated[tuple[Name, ...], Field(strict=False), AfterValidator(_different)]


class Document(BaseModel):
    """A document of which the names and types of all entries are known."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


D = TypeVar("D", bound=Document)


def parsed(kind: type[D], document: Any) -> D:
    """Return a document that may be damaged as plain data of the right types.

    Raises
    ------
    DamagedFileError
        Names the first entry that is absent or something else.
    """
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        name = shown(".".join(str(part) for part in first["loc"])).strip("'\"")
        if first["type"] == "missing":
            raise DamagedFileError(f"stored document lacks '{name}': {DAMAGED}") from None
        entry = f"'{name}'" if name else "document"
        raise DamagedFileError(f"stored {entry} is {shown(first['input'])}: {DAMAGED}") from None


def loaded(name: str, text: Any) -> Any:
    """Return the values of JSON, in which no name is given twice and which is not too deep.

    Raises
    ------
    DamagedFileError
        For any other text, or none.
    """
    if not isinstance(text, str):
        raise DamagedFileError(f"the document '{name}' is absent, or no text: {DAMAGED}")
    try:
        document = json.loads(text, object_pairs_hook=_object)
        _require_shallow(document, DEEPEST)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"the document '{name}' is {shown(str(error))}: {DAMAGED}") from None
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object with a name twice")
    return found


def _require_shallow(value: Any, depth: int) -> None:
    if depth == 0:
        raise ValueError("lists within lists without end")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            _require_shallow(entry, depth - 1)
