"""Plain functions of numbers and arrays, of this package, as machine code that Python calls.

See `smcpn.codegen.translate` for what of Python they may use.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import inspect
import operator
import struct
from array import array
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, Self

import numpy as np
from llvmlite import ir

from smcpn.codegen.loops import number
from smcpn.codegen.native import PLAIN, Code, code
from smcpn.codegen.target import Target, target
from smcpn.codegen.terms import DOUBLE, INTEGER
from smcpn.codegen.translate import ELEMENTS, TRUTH, Program, View, rebuilt

_ADDRESS = INTEGER.as_pointer()
_HEAD = object.__basicsize__
"""Bytes of an object before what its type has. Of an array these are the address of its data, the
number of its dimensions, and the address of its lengths, in every version of numpy."""
_DATA, _LENGTHS = _HEAD, _HEAD + 16
_REAL, _WHOLE = struct.Struct("=d"), struct.Struct("=q")


@dataclass(frozen=True, slots=True)
class PassedArgument:
    """An argument of a routine as it is passed, for one that many calls take.

    Attributes
    ----------
    value : object
        A number, an array, or a named tuple of these; kept alive.
    words : list of int
        Numbers as 64 bits, arrays as the addresses of their objects.
    makes : list of str
        Kinds of the numbers and arrays.
    """

    value: Any
    words: list[int]
    makes: list[str]

    @classmethod
    def of(cls, value: Any) -> Self:
        """Look at an argument.

        Raises
        ------
        TypeError
            If an array is not C-ordered, or holds neither doubles, nor 64-bit integers, nor truth
            values; or if a number is none of these.
        """
        words, makes = zip(*map(_word, _flat(value)), strict=True)
        return cls(value, list(words), list(makes))

    def __reduce__(self) -> tuple[Any, ...]:
        return PassedArgument.of, (self.value,)


def _flat(value: Any) -> tuple[Any, ...]:
    """The numbers and arrays of an argument."""
    return value if isinstance(value, tuple) else (value,)


def _word(leaf: Any) -> tuple[int, str]:
    if isinstance(leaf, np.ndarray):
        if leaf.dtype not in ELEMENTS or not leaf.flags.c_contiguous:
            raise TypeError(f"an array of {leaf.dtype} with strides {leaf.strides} was passed")
        return id(leaf), f"{leaf.dtype.char}{leaf.ndim}"
    if isinstance(leaf, float):
        return _WHOLE.unpack(_REAL.pack(leaf))[0], "d"
    if isinstance(leaf, (bool, np.bool_)):
        return int(leaf), "?"
    return operator.index(leaf), "l"


class Routine:
    """A function as machine code, compiled at its first call or at an earlier start.

    Its arguments are whole and real numbers, truth values, C-ordered arrays of these, and named
    tuples of them, or each of these as `PassedArgument`. It returns nothing or a whole number.
    Other threads run meanwhile.
    """

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._compiled: dict[tuple[Target, tuple[str, ...]], tuple[Code, Any]] = {}

    def __call__(self, *arguments: Any) -> int:
        """Run it."""
        words: list[int] = []
        makes: list[str] = []
        for argument in arguments:
            if isinstance(argument, PassedArgument):
                words += argument.words
                makes += argument.makes
                continue
            for leaf in _flat(argument):
                word, make = _word(leaf)
                words.append(word)
                makes.append(make)
        key = target(), tuple(makes)
        if key not in self._compiled:
            self._compiled[key] = self._compile(arguments, key[1])
        passed = array("q", words)
        return self._compiled[key][1](passed.buffer_info()[0])

    def _compile(self, arguments: tuple[Any, ...], makes: tuple[str, ...]) -> tuple[Code, Any]:
        function = self._function
        values = tuple(a.value if isinstance(a, PassedArgument) else a for a in arguments)
        text = f"{function.__qualname__} {makes}\n{_sources(function)}"
        made = code(text, lambda module: _write(module, function, values), PLAIN)
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
        return made, kind(made.engine.get_function_address("run"))


@functools.cache
def routine(function: Any) -> Routine:
    """Return a function of this package as machine code."""
    return Routine(function)


@functools.cache
def _sources(function: FunctionType) -> str:
    """SHA-256 of the package that a function is of, and with it of all that it calls."""
    files = sorted(Path(inspect.getfile(function)).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _write(module: ir.Module, function: FunctionType, values: tuple[Any, ...]) -> None:
    """Write the function that takes the address of what is passed."""
    made = ir.Function(module, ir.FunctionType(INTEGER, [_ADDRESS]), "run")
    builder: Any = ir.IRBuilder(made.append_basic_block("entry"))
    leaves = [
        _taken(builder, builder.load(builder.gep(made.args[0], [number(k)])), leaf)
        for k, leaf in enumerate([leaf for value in values for leaf in _flat(value)])
    ]
    returned = Program(module).call(builder, function, rebuilt(values, iter(leaves)))
    builder.ret(returned if returned.type == INTEGER else number(0))


def _taken(builder: Any, word: Any, leaf: Any) -> Any:
    """Return what a word of the arguments stands for: a number, a truth value or an array."""
    if isinstance(leaf, float):
        return builder.bitcast(word, DOUBLE)
    if not isinstance(leaf, np.ndarray):
        return builder.trunc(word, TRUTH) if isinstance(leaf, (bool, np.bool_)) else word

    def held(place: int) -> Any:
        return builder.load(builder.inttoptr(builder.add(word, number(place)), _ADDRESS))

    lengths = builder.inttoptr(held(_LENGTHS), _ADDRESS)
    shape = [builder.load(builder.gep(lengths, [number(k)])) for k in range(leaf.ndim)]
    data = builder.inttoptr(held(_DATA), ELEMENTS[leaf.dtype].as_pointer())
    return View(data, tuple(shape))
