"""Arguments of public calls, checked against the annotations of their parameters.

`checked` makes what a signature declares hold: a call with anything else ends in an `InputError`
that names the argument, its value and the remedy. Where a type says too little, the annotation
carries a `Kind`: ``Annotated[int, whole(1)]``, as `Count` is. The command line has the bounds of
its options from the same annotations, so that numpy is imported when an array is met.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from smcpn.base.files import file_path
from smcpn.errors import InputError, bounds, is_bool, real_number, shown, whole_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

CALLED = ("__init__", "__call__", "__getitem__")
"""Public methods of a class whose names begin with an underscore."""
OF_ARRAYS = {"float64": "fiu", "int64": "iu", "bool": "b", "bool_": "b"}
"""Kinds of entries that an array of a type may hold, by its name."""
MOST = 10**9
"""Bound of a number of things, beyond what any memory holds."""
NOUNS = {
    "str": "a text",
    "NoneType": "None",
    "Generator": "a numpy.random.Generator",
    "slice": "a slice",
}
"""Words for what is of a class, by its name."""
AUTO = "auto"
"""A number, a method or a start that the run itself chooses or finds."""


class UnfitError(Exception):
    """A value is not of a kind."""


@dataclass(frozen=True)
class Kind:
    """The values that an argument takes, with the words for them and the function that reads one.

    noun: As a message names it, after "give".
    read: callable, from the value given to the one that is used; raises `UnfitError` for any other.
    """

    noun: str
    read: Callable[[Any], Any]

    def __call__(self, name: str, value: Any) -> Any:
        """Return the value of an argument."""
        try:
            return self.read(value)
        except UnfitError:
            sentence = f"{name} is {shown(value)}: give {self.noun}"
            raise InputError(sentence, argument=name) from None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.with_info_plain_validator_function(
            lambda value, info: self(str(info.field_name), value)
        )


def checked(public: T) -> T:
    """Return a function or class that refuses arguments which its annotations do not declare.

    Of a class these are the arguments of its own public methods and of its constructor, unless it
    is a dataclass that checks its fields in ``__post_init__``. Numbers of numpy become those of
    Python. A field of a dataclass may be nan or infinite.
    """
    if not inspect.isclass(public):
        return cast(T, _checked(cast(Any, public), FINITE, (cast(Any, public).__module__,)))
    modules = [one.__module__ for one in public.__mro__]
    for name, member in list(vars(public).items()):
        if name.startswith("_") and name not in CALLED:
            continue
        data = name == "__init__" and hasattr(public, "__dataclass_fields__")
        if data and hasattr(public, "__post_init__"):
            continue
        if inspect.isfunction(member):
            setattr(public, name, _checked(member, ANY_NUMBER if data else FINITE, modules))
        elif isinstance(member, classmethod):
            inner = _checked(cast(Any, member).__func__, FINITE, modules)
            setattr(public, name, classmethod(cast(Any, inner)))
    return cast(T, public)


def check_fields(instance: Any, *names: str) -> None:
    """Check fields of a frozen dataclass against their annotations, in its ``__post_init__``."""
    owner = type(instance)
    modules = [one.__module__ for one in owner.__mro__]
    for name in names:
        annotation = owner.__dataclass_fields__[name].type
        kind = kind_of(_resolved(annotation, modules), FINITE)
        if kind is not None:
            object.__setattr__(instance, name, kind(name, getattr(instance, name)))


def _checked(
    function: Callable[..., Any], number: Kind, modules: Sequence[str]
) -> Callable[..., Any]:
    parameters = inspect.signature(function).parameters.values()
    names = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    kinds: dict[str, Kind | None] = {}

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if not kinds:
            # Not before: an annotation may name what is defined later.
            kinds.update(
                (one.name, kind_of(_resolved(one.annotation, modules), number))
                for one in parameters
                if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
            )
        given = list(arguments)
        for place, name in enumerate(names[: len(given)]):
            kind = kinds[name]
            if kind is not None:
                given[place] = kind(name, given[place])
        for name, value in named.items():
            kind = kinds.get(name)
            if kind is not None:
                named[name] = kind(name, value)
        return function(*given, **named)

    return call


def _resolved(annotation: Any, modules: Sequence[str]) -> Any:
    """Return what an annotation says; `Any` where its names are known to type checkers only."""
    if not isinstance(annotation, str):
        return annotation
    for module in modules:
        try:
            return eval(annotation, vars(sys.modules[module]))
        except (NameError, AttributeError):
            continue
    return Any


def kind_of(annotation: Any, number: Kind) -> Kind | None:
    """Return the kind that an annotation declares; None where it allows anything."""
    annotation = _expanded(annotation)
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        own = [one for one in inside if isinstance(one, Kind)]
        return own[0] if own else kind_of(inside[0], number)
    if origin in (typing.Union, types.UnionType):
        return _one_of([kind_of(one, number) for one in inside])
    if annotation is Any or annotation is inspect.Parameter.empty:
        return None
    kind: Any = type(None) if annotation is None else origin or annotation
    if kind in _PLAIN:
        return number if kind is float else _PLAIN[kind]
    if not isinstance(kind, type) or kind is object or _only_for_checkers(kind):
        return None
    if kind is type:
        return _subclass(inside[0]) if inside and isinstance(inside[0], type) else None
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return _array(inside)
    if issubclass(kind, Mapping):
        return _mapping(kind, [kind_of(one, number) for one in inside])
    if kind in (tuple, list, Sequence):
        return _sequence(kind, [kind_of(one, number) for one in inside if one is not ...])
    return _instance(kind)


def _expanded(annotation: Any) -> Any:
    """Return what an annotation by an alias of ``type`` stands for, as numpy's NDArray is one."""
    value = getattr(typing.get_origin(annotation) or annotation, "__value__", None)
    inside = typing.get_args(annotation)
    return value[inside] if value is not None and inside else value or annotation


def _only_for_checkers(kind: Any) -> bool:
    """True if it is a protocol that cannot be asked for at run time."""
    return getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False)


def whole(least: int | None = None, most: int | None = None) -> Kind:
    """Return the kind of whole numbers, Python's or numpy's but no bool, with bounds."""

    def read(value: Any) -> int:
        try:
            return whole_number("", value, least, most)
        except InputError:
            raise UnfitError from None

    return Kind(f"a whole number{bounds(least, most)}", read)


def automatic(number: Kind) -> Kind:
    """Return the kind of numbers of a kind, or ``"auto"``."""

    def read(value: Any) -> Any:
        return AUTO if isinstance(value, str) and value == AUTO else number.read(value)

    return Kind(f"{number.noun}, or 'auto'", read)


def multiple(of: int, most: int) -> Kind:
    """Return the kind of whole numbers that are multiples of one, up to ``most``."""
    inside = whole(of, most)

    def read(value: Any) -> int:
        if (found := inside.read(value)) % of:
            raise UnfitError
        return found

    return Kind(f"a multiple of {of} up to {most}", read)


def _read_finite(value: Any) -> float:
    try:
        return real_number("", value)
    except InputError:
        raise UnfitError from None


def _read_number(value: Any) -> float:
    if isinstance(value, float):
        return float(value)
    return _read_finite(value)


def _read_truth(value: Any) -> bool:
    if is_bool(value):
        return bool(value)
    raise UnfitError


def _read_text(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    raise UnfitError


def _read_function(value: Any) -> Any:
    if callable(value):
        return value
    raise UnfitError


def _read_file_name(value: Any) -> Path:
    try:
        return file_path("", value)
    except InputError as error:
        if error.argument is None:
            # A name, of which it says why it does not do.
            raise
        raise UnfitError from None


def _read_numbers(value: Any) -> NDArray[np.float64]:
    import numpy as np

    try:
        given = np.asarray(value)
        if given.dtype.kind in "fiub":
            return np.asarray(given, dtype=np.float64)
        # An object is a number only if it says so: text and dates are made into floats as well.
        if given.dtype.kind == "O" and all(isinstance(one, Real) for one in given.ravel()):
            return np.asarray(given, dtype=np.float64)
    except Exception:
        # An object may raise anything when it is asked for numbers.
        pass
    raise UnfitError


def number(low: float, high: float, noun: str) -> Kind:
    """Return the kind of real numbers from ``low`` to ``high``, both allowed."""

    def read(value: Any) -> float:
        if not low <= (found := _read_finite(value)) <= high:
            raise UnfitError
        return found

    return Kind(noun, read)


def _read_probabilities(value: Any) -> Any:
    found = _read_numbers(value)
    if not ((found >= 0.0) & (found <= 1.0)).all():
        raise UnfitError
    return found if found.ndim else float(found)


def _read_threads(value: Any) -> int | None:
    return None if value is None else whole(1).read(value)


THREADS = Kind("a whole number from 1, or None", _read_threads)
FINITE, ANY_NUMBER = Kind("a finite number", _read_finite), Kind("a number", _read_number)
STATE_PARTICLES = automatic(multiple(32, 1 << 20))
NUMBERS = Kind("numbers", _read_numbers)
ANYTHING = Kind("anything", lambda value: value)
"""Of an argument that its function checks."""
FILE_NAME = Kind("the name of a file", _read_file_name)
POSITIVE = number(5e-324, 1.7e308, "a number above 0")
_PLAIN: dict[Any, Kind] = {
    bool: Kind("True or False", _read_truth),
    int: whole(),
    float: FINITE,
    str: Kind("a text", _read_text),
    Callable: Kind("a function", _read_function),
}

Count = Annotated[int, whole(1, MOST)]
Particles = Annotated[int, whole(10, 10**8)]
Replicates = Annotated[int, whole(1, 100_000)]
StateParticles = Annotated[int | str, STATE_PARTICLES]
Order = Annotated[int, whole(1, 11)]
Steps = Annotated[int | str, automatic(whole(1, 1024))]
Share = Annotated[float, number(5e-324, 1.0 - 2.0**-53, "a share between 0 and 1")]
Seconds = Annotated[float, number(0.0, 1.7e308, "seconds, 0 or more")]
Threads = Annotated[int | None, THREADS]
Seed = Annotated[int, whole(0, 2**128)]
FileName = Annotated[str | PathLike[str], FILE_NAME]
Index = Annotated[int, whole(0, MOST)]
Positive = Annotated[float, POSITIVE]
NotNegative = Annotated[float, number(0.0, 1.7e308, "a number from 0")]
Probability = Annotated[float, number(0.0, 1.0, "a number from 0 to 1")]
Probabilities = Annotated[Any, Kind("numbers from 0 to 1", _read_probabilities)]
Numbers = Annotated[Any, NUMBERS]
"""Anything that numpy makes real numbers of; the function receives an array of floats."""


def _one_of(kinds: Sequence[Kind | None]) -> Kind | None:
    """Return the kind of what is of one of several; the first that takes a value reads it."""
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return None

    def read(value: Any) -> Any:
        for kind in known:
            try:
                return kind.read(value)
            except UnfitError:
                continue
        raise UnfitError

    return Kind(" or ".join(kind.noun for kind in known), read)


def _instance(kind: type[Any]) -> Kind:
    def read(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        raise UnfitError

    package = __name__.partition(".")[0]
    public = kind.__name__ in vars(sys.modules[package])["__all__"]
    name = f"{package}.{kind.__name__}" if public else kind.__name__
    return Kind(NOUNS.get(kind.__name__, f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"), read)


def _subclass(kind: type[Any]) -> Kind:
    def read(value: Any) -> Any:
        if isinstance(value, type) and issubclass(value, kind):
            return value
        raise UnfitError

    return Kind(f"a class of {kind.__name__}", read)


def _array(inside: tuple[Any, ...]) -> Kind:
    import numpy as np

    entry = typing.get_args(inside[1]) if len(inside) > 1 else ()
    allowed = OF_ARRAYS.get(getattr(entry[0], "__name__", "")) if entry else None

    def read(value: Any) -> Any:
        fits = isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray)
        if fits and (allowed is None or value.dtype.kind in allowed):
            return value
        raise UnfitError

    return Kind("an array" if allowed is None else "an array of numbers", read)


def _mapping(kind: type[Any], inside: list[Kind | None]) -> Kind:
    names, entries = inside if len(inside) == 2 else (None, None)

    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise UnfitError
        if names is None and entries is None:
            return value
        return {
            key if names is None else names.read(key): one if entries is None else entries.read(one)
            for key, one in value.items()
        }

    each = "" if entries is None else f" with {entries.noun} for each name"
    return Kind(f"a mapping{each}", read)


def _sequence(kind: type[Any], inside: list[Kind | None]) -> Kind:
    entry = inside[0] if len(inside) == 1 else None

    def read(value: Any) -> Any:
        if not isinstance(value, kind) or isinstance(value, (str, bytes, bytearray, memoryview)):
            raise UnfitError
        if entry is None:
            return value
        return (tuple if kind is tuple else list)(entry.read(one) for one in value)

    noun = "a tuple" if kind is tuple else "a list"
    return Kind(noun if entry is None else f"{noun}, each entry {entry.noun}", read)
