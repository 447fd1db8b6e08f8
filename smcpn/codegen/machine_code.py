"""Write statements as LLVM instructions, without numba's analysis of them.

numba looks at every statement of a Python function a dozen times: inference of types, static
single assignment, liveness. Of a covariance recursion, tens of thousands of statements, that takes
longer than LLVM takes to compile it. Here every value is a float64 that is assigned once, so that
each statement is one instruction or call, written in a single pass. The loops around them are left
to numba.
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from smcpn.codegen.lower import Literal, Operand, Statement, Value
from smcpn.errors import InputError

_DOUBLE = ir.DoubleType()
_ZERO, _ONE, _TWO = (ir.Constant(_DOUBLE, number) for number in (0.0, 1.0, 2.0))


def _test(builder: Any, left: Any, comparison: str, right: Any) -> Any:
    """Compare as Python does: with a NaN, ``!=`` is true and all others are false."""
    compare = builder.fcmp_unordered if comparison == "!=" else builder.fcmp_ordered
    return compare(comparison, left, right)


def _choose(builder: Any, test: tuple[Any, str, Any], if_true: Any, if_false: Any) -> Any:
    return builder.select(_test(builder, *test), if_true, if_false)


def _truth(builder: Any, test: Any) -> Any:
    return builder.select(test, _ONE, _ZERO)


def _sign(builder: Any, x: Any) -> Any:
    minus_one = ir.Constant(_DOUBLE, -1.0)
    not_positive = _choose(builder, (x, "<", _ZERO), minus_one, builder.fmul(x, _ZERO))
    return _choose(builder, (x, ">", _ZERO), _ONE, not_positive)


def _extreme(builder: Any, x: Any, y: Any, strictly: str, weakly: str) -> Any:
    # The sum is reached with a NaN only, which it passes on and a comparison loses.
    other = _choose(builder, (y, weakly, x), y, builder.fadd(x, y))
    return _choose(builder, (x, strictly, y), x, other)


INSTRUCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda b, x, y: b.fadd(x, y),
    "sub": lambda b, x, y: b.fsub(x, y),
    "mul": lambda b, x, y: b.fmul(x, y),
    "div": lambda b, x, y: b.fdiv(x, y),
    "neg": lambda b, x: b.fneg(x),
    "twice": lambda b, x: b.fmul(_TWO, x),
    "sq": lambda b, x: b.fmul(x, x),
    "inv": lambda b, x: b.fdiv(_ONE, x),
    "fmax": lambda b, x, y: _extreme(b, x, y, ">", ">="),
    "fmin": lambda b, x, y: _extreme(b, x, y, "<", "<="),
    "sign": _sign,
    "lt": lambda b, x, y: _truth(b, _test(b, x, "<", y)),
    "le": lambda b, x, y: _truth(b, _test(b, x, "<=", y)),
    "eq": lambda b, x, y: _truth(b, _test(b, x, "==", y)),
    "ne": lambda b, x, y: _truth(b, _test(b, x, "!=", y)),
    "not": lambda b, x: _truth(b, _test(b, x, "==", _ZERO)),
    "and": lambda b, x, y: _truth(b, b.and_(_test(b, x, "!=", _ZERO), _test(b, y, "!=", _ZERO))),
    "or": lambda b, x, y: _truth(b, b.or_(_test(b, x, "!=", _ZERO), _test(b, y, "!=", _ZERO))),
    "if_else_zero": lambda b, x, y: _choose(b, (x, "!=", _ZERO), y, _ZERO),
}
"""Operations that are a few instructions: from an LLVM builder and operands to the result."""


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def log(x: float) -> float:
    """Natural logarithm in straight-line code (LLVM has no vector one); error 4e-16 relative."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits - 0x3FE6A09E667F3BCD) >> 52
    mantissa = np.int64(bits - (exponent << 52)).view(np.float64)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    p = 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    value = 2.0 * s + 2.0 * s * z * p + np.float64(exponent) * 0.6931471805599453
    below = -np.inf if x == 0.0 else np.nan
    return (value if x < np.inf else x) if x > 0.0 else below


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sqrt": math.sqrt, "pow": operator.pow, "constpow": operator.pow, "exp": math.exp, "log": log,
    "log1p": math.log1p, "expm1": math.expm1, "sin": math.sin, "cos": math.cos, "tan": math.tan,
    "asin": math.asin, "acos": math.acos, "atan": math.atan, "atan2": math.atan2,
    "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh, "asinh": math.asinh,
    "acosh": math.acosh, "atanh": math.atanh, "erf": math.erf, "hypot": math.hypot, "fabs": abs,
    "copysign": math.copysign, "floor": np.floor, "ceil": np.ceil, "fmod": np.fmod,
}  # fmt: skip
"""Operations that are a call of what numba compiles the function to."""


@dataclass(frozen=True)
class Block:
    """Statements with what they are given and what becomes of their results.

    Attributes
    ----------
    arguments : tuple of Value
        Passed as numbers.
    loads : tuple of (Value, int)
        Read from slots of a work array.
    statements : tuple of Statement
    stores : tuple of (int, Operand)
        Written to slots of the work array, after everything is read.
    results : tuple of Operand
        Returned as numbers.

    Raises
    ------
    InputError
        If an operation has no compiled counterpart.
    """

    arguments: tuple[Value, ...] = ()
    loads: tuple[tuple[Value, int], ...] = ()
    statements: tuple[Statement, ...] = ()
    stores: tuple[tuple[int, Operand], ...] = ()
    results: tuple[Operand, ...] = ()

    def __post_init__(self) -> None:
        for operation in {statement.operation for statement in self.statements}:
            if operation not in INSTRUCTIONS and operation not in FUNCTIONS:
                raise InputError(
                    f"the model uses the operation {operation}, which cannot be compiled: "
                    "rewrite it with arithmetic and numpy's elementary functions"
                )

    def __str__(self) -> str:
        lines = [f"({', '.join(map(str, self.arguments))})"]
        lines += [f"{value} = w[{slot}]" for value, slot in self.loads]
        lines += map(str, self.statements)
        lines += [f"w[{slot}] = {value}" for slot, value in self.stores]
        return "\n".join([*lines, f"return ({', '.join(map(str, self.results))})"])


def lane_function(block: Block, lanes: int, log: Callable[..., Any] = log) -> Any:
    """Return a function ``(w, i, arguments)``, for compiled code, that runs a block in lane i.

    Slot k of the work array, or pointer, w is its element ``k * lanes + i``.
    """

    @intrinsic
    def run(typingctx: Any, w: Any, i: Any, values: Any) -> tuple[Any, Callable[..., Any]]:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind, (data, lane, given) = signature.args[0], arguments
            if isinstance(kind, types.Array):
                data = context.make_array(kind)(context, builder, value=data).data

            def address(slot: int) -> Any:
                offset = ir.Constant(lane.type, slot * lanes)
                place = builder.add(lane, offset, flags=("nsw",))
                return builder.gep(data, [place], inbounds=True)

            writer = _Writer(context, builder, log)
            writer.define(block.arguments, given)
            for value, slot in block.loads:
                writer.values[value] = builder.load(address(slot))
            writer.run(block.statements)
            for slot, operand in block.stores:
                builder.store(writer.value(operand), address(slot))
            return context.get_dummy_value()

        return types.void(w, types.unliteral(i), values), codegen

    return run


def shared_function(block: Block) -> Any:
    """Return a function of the arguments, a tuple, for compiled code, that returns the results."""
    returned = types.Tuple((types.float64,) * len(block.results))

    @intrinsic
    def run(typingctx: Any, values: Any) -> tuple[Any, Callable[..., Any]]:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            writer = _Writer(context, builder, log)
            writer.define(block.arguments, arguments[0])
            writer.run(block.statements)
            results = [writer.value(operand) for operand in block.results]
            return context.make_tuple(builder, returned, results)

        return returned(values), codegen

    return run


@cache
def digest() -> str:
    """SHA-256 of this module, on which the machine code of a kernel depends."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]


class _Writer:
    """Writes instructions to an LLVM builder, and knows the values they made."""

    def __init__(self, context: Any, builder: Any, log: Callable[..., Any]) -> None:
        self._context, self._builder = context, builder
        self._functions = FUNCTIONS | {"log": log}
        self.values: dict[Value, Any] = {}

    def define(self, values: tuple[Value, ...], numbers: Any) -> None:
        """Take values from a tuple of numbers."""
        for k, value in enumerate(values):
            self.values[value] = self._builder.extract_value(numbers, k)

    def value(self, operand: Operand) -> Any:
        if isinstance(operand, Literal):
            return ir.Constant(_DOUBLE, operand.number)
        return self.values[operand]

    def run(self, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            operands = [self.value(operand) for operand in statement.operands]
            write = INSTRUCTIONS.get(statement.operation)
            self.values[statement.target] = (
                write(self._builder, *operands)
                if write is not None
                else self._call(self._functions[statement.operation], operands)
            )

    def _call(self, function: Callable[..., Any], operands: list[Any]) -> Any:
        context = self._context
        kind = context.typing_context.resolve_value_type(function)
        signature = kind.get_call_type(context.typing_context, (types.float64,) * len(operands), {})
        implementation = context.get_function(kind, signature)
        context.add_linking_libs(getattr(implementation, "libs", ()))
        return implementation(self._builder, operands)
