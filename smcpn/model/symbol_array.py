"""Arrays of expressions on which the functions of numpy work entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, cast

import casadi as ca
import numpy as np
from numpy.typing import NDArray

_LACKING: dict[str, Callable[..., Any]] = {
    "conjugate": lambda one: one,
    "real": lambda one: one,
    "clip": lambda one, lower, upper: np.minimum(np.maximum(one, lower), upper),
}
"""Functions of numpy that CasADi has not, by name."""

_SPECIAL: dict[str, Callable[[Any], Any]] = {
    "erf": ca.erf,
    "expit": lambda one: 0.5 + 0.5 * ca.tanh(0.5 * one),
}
"""Functions of scipy.special by name, of an expression."""


class SymbolArray(np.ndarray):
    """A numpy array of CasADi expressions, as a vector is in the body of a model.

    Indexing, slicing, loops, sums and products with matrices are those of any object array.
    Functions that need the value of an object array's entries (``np.where(x > 0, a, b)``,
    ``np.maximum``, ``np.linalg.norm``) make expressions of them.
    """

    __array_priority__: float = 2000.0  # pyright: ignore
    """Above that of CasADi's classes, so that their operators leave the result to this one."""

    @classmethod
    def of(cls, expressions: Sequence[ca.SX]) -> SymbolArray:
        """Array (n,) of scalar expressions."""
        array = np.empty(len(expressions), dtype=object)
        array[:] = expressions
        return array.view(cls)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Apply a function of numpy to every entry, or reduce or accumulate by it."""
        return _universal_function(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, func: Any, types: Any, args: Iterable[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call a function of numpy; expressions among its arguments are arrays () for it."""
        given = tuple(_symbols(one) if _is_symbol(one) else one for one in args)
        if func is np.where and len(given) == 3:
            return elementwise(_chosen, *given)
        if func is np.interp and isinstance(given[0], SymbolArray):
            return elementwise(lambda one: np.interp(one, *given[1:], **kwargs), given[0])
        if func is np.linalg.norm and "ord" not in kwargs and len(given) == 1:
            return np.sqrt(np.sum(np.square(given[0]), **kwargs))
        return _viewed(super().__array_function__(func, (SymbolArray,), given, kwargs))


def _universal_function(ufunc: Any, method: str, inputs: Any, named: Mapping[str, Any]) -> Any:
    arrays = [_objects(one) for one in inputs]
    options = {name: one for name, one in named.items() if name != "out"}
    if "out" in named:
        options["out"] = tuple(np.asarray(one) for one in named["out"])
    if ufunc.signature is None:
        options = {name: one for name, one in options.items() if name not in ("dtype", "casting")}
        one = _at_symbols(ufunc)
        ufunc = np.frompyfunc(one, ufunc.nin, ufunc.nout, identity=ufunc.identity)
    found = getattr(ufunc, method)(*arrays, **options)
    return named["out"][0] if "out" in named else _viewed(found)


def elementwise(function: Callable[..., Any], *arguments: Any) -> Any:
    """Apply a function of scalars to every entry of arguments that broadcast."""
    apply = np.frompyfunc(function, len(arguments), 1)
    return _viewed(apply(*[_objects(one) for one in arguments]))


@contextmanager
def special_functions() -> Generator[None]:
    """Make the functions of `_SPECIAL` accept CasADi's expressions."""
    before = [(owner, vars(owner)["__array_ufunc__"]) for owner in (ca.SX, ca.ArrayInterface)]
    for owner, method in before:
        owner.__array_ufunc__ = _with_special(method)
    try:
        yield
    finally:
        for owner, method in before:
            owner.__array_ufunc__ = method


def _with_special(method: Any) -> Any:
    """``__array_ufunc__`` of an expression that knows functions of scipy."""

    @wraps(method)
    def call(self: Any, ufunc: Any, kind: str, *inputs: Any, **named: Any) -> Any:
        special = _SPECIAL.get(ufunc.__name__)
        if special is not None and not any(map(_is_array, inputs)):
            return special(ca.SX(inputs[0]))
        return method(self, ufunc, kind, *inputs, **named)

    return call


@contextmanager
def yielding() -> Generator[None]:
    """Make a `SymbolArray` of what CasADi's expressions give together with an array."""
    methods = [
        *((owner, name) for owner in (ca.SX, ca.ArrayInterface) for name in _PROTOCOL),
        *((ca.ArrayInterface, name) for name in ("_binop", "_rbinop")),
    ]
    before = [(owner, name, vars(owner)[name]) for owner, name in methods]
    for owner, name, method in before:
        setattr(owner, name, _PROTOCOL.get(name, _operator)(method))
    try:
        yield
    finally:
        for owner, name, method in before:
            setattr(owner, name, method)


def _universal(method: Any) -> Any:
    """``__array_ufunc__`` of an expression."""

    @wraps(method)
    def call(self: Any, ufunc: Any, kind: str, *inputs: Any, **named: Any) -> Any:
        if any(map(_is_array, inputs)):
            return _universal_function(ufunc, kind, inputs, named)
        return method(self, ufunc, kind, *inputs, **named)

    return call


def _function(method: Any) -> Any:
    """``__array_function__`` of an expression."""

    @wraps(method)
    def call(self: Any, function: Any, types: Any, args: Any, named: Any) -> Any:
        if SymbolArray in types or any(map(_is_array, args)):
            return _EMPTY.__array_function__(function, types, args, named)
        return method(self, function, types, args, named)

    return call


def _operator(method: Any) -> Any:
    """An operator of an expression."""

    @wraps(method)
    def call(self: Any, other: Any, operation: Any) -> Any:
        return NotImplemented if _is_array(other) else method(self, other, operation)

    return call


_EMPTY = SymbolArray.of([])
_PROTOCOL = {"__array_ufunc__": _universal, "__array_function__": _function}


def _is_array(one: Any) -> bool:
    return isinstance(one, np.ndarray) and one.ndim > 0


def _at_symbols(ufunc: Any) -> Callable[..., Any]:
    """A function of numpy on scalars, of which some are expressions."""
    function: Any = _LACKING.get(ufunc.__name__, ufunc)

    def call(*arguments: Any) -> Any:
        found = function(*arguments)
        return ca.SX(found) if _is_symbol(found) else found

    return call


def _chosen(condition: Any, one: Any, other: Any) -> Any:
    """``one`` where a condition holds."""
    if not _is_symbol(condition):
        return one if condition else other
    return ca.if_else(ca.SX(condition), ca.SX(one), ca.SX(other))


def _is_symbol(one: Any) -> bool:
    return isinstance(one, (ca.SX, ca.ArrayInterface))


def _symbols(expression: Any) -> Any:
    """An expression as an array, () of a scalar."""
    entries = ca.vertsplit(ca.SX(expression))
    array = SymbolArray.of(entries)
    return array.reshape(()) if len(entries) == 1 else array


def _objects(given: Any) -> NDArray[Any]:
    """Anything as an array of objects that is no `SymbolArray`."""
    if _is_symbol(given):
        given = _symbols(given)
    return np.asarray(given, dtype=object)


def _viewed(found: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(map(_viewed, found))
    objects = isinstance(found, np.ndarray) and found.dtype == object
    return cast(Any, found).view(SymbolArray) if objects else found
