"""Names of the scalars of a vector or an unknown function, and values given for all of them.

The equation of a model has scalars alone: a vector ``x`` of three entries is ``x[0]``, ``x[1]``,
``x[2]``, the parameters of a function are ``friction[0]``, ..., ``friction.scale``. What is given
under the name of the whole is taken apart here, before anything else reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from smcpn.errors import InputError, listed, nearest, shown
from smcpn.model.ode import ODE

_NAME = re.compile(r"(?P<whole>[^\W\d]\w*)(?:\[\d+\]|\.\w+)*")
FEW = 4
"""Names that a message lists."""


class ByName(dict[str, float]):
    """Numbers by the names of scalars; under the name of a vector or a function, those of its own.

    wholes: Names of the scalars of every vector and every function.
    fixed: Of scalars that ``values`` has not.
    """

    def __init__(
        self,
        values: Iterable[tuple[str, float]],
        wholes: Mapping[str, Sequence[str]],
        fixed: Mapping[str, float],
    ) -> None:
        super().__init__(values)
        self._wholes, self._fixed = wholes, fixed

    def __missing__(self, name: str) -> Any:
        """Array of the numbers of a vector or a function, (size,)."""
        if not isinstance(name, str) or name not in self._wholes:
            raise InputError(f"no parameter {shown(name)}: {nearest(str(name), self)}")
        return np.array([self[one] if one in self else self._fixed[one]
                         for one in self._wholes[name]])  # fmt: skip

    def __reduce__(self) -> Any:
        return type(self), (list(self.items()), self._wholes, self._fixed)


def is_name(text: Any) -> bool:
    """True if a text is the name of a scalar: an identifier, an entry or a part of one."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def whole_of(name: str) -> str:
    """Name of the vector or the function that a scalar belongs to; its own where it does not."""
    match = _NAME.fullmatch(name)
    return match["whole"] if match else name


def by_scalar(given: Mapping[Any, Any], ode: ODE, argument: str) -> dict[Any, Any]:
    """Values by the names of scalars, of a mapping that may name vectors and functions.

    A vector has a list or an array with a value for each entry, or one value for all; where that
    names a vector of as many entries, its entries. A function has a mapping (``{"scale": 1.0}``)
    or a value for each parameter in their order. The value under the name of an entry,
    ``"x[3]"``, goes before that in the whole.

    given: mapping, keys that are no names of the model are left as they are.
    argument: Which it is, for messages.
    """
    wholes = ode.wholes
    found: dict[Any, Any] = {}
    for name, value in given.items():
        if not isinstance(name, (str, tuple)):
            raise InputError(f"{argument} has the key {shown(name)}: give names", argument=argument)
        if not isinstance(name, str) or name not in wholes:
            found[name] = value
            check_part(name, ode, argument)
        elif name in ode.functions:
            found |= _of_function(name, value, wholes[name], argument)
        else:
            found |= _of_vector(name, value, wholes[name], wholes, argument)
    return found | {name: value for name, value in given.items() if name not in wholes}


def check_part(name: Any, ode: ODE, argument: str) -> None:
    """Refuse the name of an entry that a vector, or a part that a function does not have."""
    whole = whole_of(name) if isinstance(name, str) else ""
    names = ode.wholes.get(whole, ())
    if names and name not in names and name != whole:
        raise InputError(
            f"{argument} names '{name}', and '{whole}' has {spanned(names)}: correct the name",
            argument=f"{argument}.{name}",
        )


def spanned(names: Sequence[str]) -> str:
    """Names of a vector or a function, in short: ``x[0] to x[11]``."""
    if len(names) <= FEW:
        return listed(names)
    entries = [name for name in names if name[len(whole_of(name)) :].startswith("[")]
    others = [name for name in names if name not in entries]
    return ", ".join([f"{entries[0]} to {entries[-1]}", *others] if entries else names)


def _of_vector(
    name: str, value: Any, names: Sequence[str], wholes: Mapping[str, Sequence[str]], argument: str
) -> dict[str, Any]:
    if isinstance(value, str) and len(wholes.get(value, ())) == len(names):
        return dict(zip(names, wholes[value], strict=True))
    if not _is_sequence(value):
        return dict.fromkeys(names, value)
    values = _entries(value)
    if len(values) != len(names):
        raise InputError(
            f"{argument} of '{name}' has {len(values)} entries: give {len(names)}, for "
            f"{spanned(names)}, or one for all",
            argument=f"{argument}.{name}",
        )
    return dict(zip(names, values, strict=True))


def _of_function(name: str, value: Any, names: Sequence[str], argument: str) -> dict[str, Any]:
    if isinstance(value, Mapping):
        parts: dict[str, Any] = {}
        for part, one in ((part_name(name, of), one) for of, one in value.items()):
            several = [other for other in names if other.startswith(f"{part}[")]
            parts |= _of_vector(part, one, several, {}, argument) if several else {part: one}
        unknown = [part for part in parts if part not in names]
        if unknown:
            raise InputError(
                f"{argument} of '{name}' names '{unknown[0]}', and it has {spanned(names)}: "
                "correct the name",
                argument=f"{argument}.{name}",
            )
        return parts
    values = _entries(value) if _is_sequence(value) else []
    if len(values) != len(names):
        given = f"{len(values)} values" if values else "one value"
        raise InputError(
            f"{argument} of the function '{name}' is {given}, and it has {len(names)} parameters: "
            f"give a dict of these ({spanned(names)}) by name, or one value for each",
            argument=f"{argument}.{name}",
        )
    return dict(zip(names, values, strict=True))


def part_name(name: str, of: Any) -> str:
    """Name of a parameter of a function: of ``scale``, of ``[0]`` or of 0."""
    text = f"[{of}]" if isinstance(of, int) else str(of)
    return f"{name}{text}" if text.startswith(("[", ".")) else f"{name}.{text}"


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _entries(value: Any) -> list[Any]:
    """Entries of a sequence or an array, its numbers those of Python."""
    return value.tolist() if isinstance(value, np.ndarray) else list(value)
