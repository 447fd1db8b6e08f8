"""Elementary functions in generated code: instructions where LLVM has them, calls where not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from smcpn.codegen.terms import DOUBLE, INTEGER, vector

INSTRUCTIONS = ("sqrt", "fabs", "floor", "ceil", "copysign")
LIBRARY = (
    "pow", "exp", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "hypot", "fmod",
)  # fmt: skip
"""Functions of the mathematical library, called for one lane after the other."""
FUNCTIONS = frozenset({"constpow", "log", *INSTRUCTIONS, *LIBRARY})

_CONTRACT = ("contract",)
_LN2 = 0.6931471805599453


def apply(builder: Any, operation: str, operands: Sequence[Any]) -> Any:
    """Write an operation on LLVM values, doubles or vectors of them."""
    if operation == "log":
        return _log(builder, operands[0])
    name = "pow" if operation == "constpow" else operation
    kind, count = operands[0].type, len(operands)
    if name in INSTRUCTIONS:
        suffix = "f64" if kind == DOUBLE else f"v{kind.count}f64"
        return builder.call(_declared(builder, f"llvm.{name}.{suffix}", kind, count), operands)
    function = _declared(builder, name, DOUBLE, count)
    if kind == DOUBLE:
        return builder.call(function, operands)
    result = ir.Constant(kind, ir.Undefined)
    for lane in range(kind.count):
        place = ir.Constant(ir.IntType(32), lane)
        numbers = [builder.extract_element(operand, place) for operand in operands]
        result = builder.insert_element(result, builder.call(function, numbers), place)
    return result


def _declared(builder: Any, name: str, kind: Any, count: int) -> Any:
    module = builder.module
    if name not in module.globals:
        ir.Function(module, ir.FunctionType(kind, [kind] * count), name)
    return module.globals[name]


def _log(builder: Any, x: Any) -> Any:
    """Natural logarithm in straight-line code; error 4e-16 relative."""
    kind = x.type
    whole = INTEGER if kind == DOUBLE else vector(INTEGER, kind.count)

    def number(value: float) -> Any:
        return ir.Constant(kind, value)

    def integer(value: int) -> Any:
        return ir.Constant(whole, value)

    def times(left: Any, right: Any) -> Any:
        return builder.fmul(left, right, flags=_CONTRACT)

    def plus(left: Any, right: Any) -> Any:
        return builder.fadd(left, right, flags=_CONTRACT)

    bits = builder.bitcast(x, whole)
    exponent = builder.ashr(builder.sub(bits, integer(0x3FE6A09E667F3BCD)), integer(52))
    mantissa = builder.bitcast(builder.sub(bits, builder.shl(exponent, integer(52))), kind)
    s = builder.fdiv(plus(mantissa, number(-1.0)), plus(mantissa, number(1.0)), flags=_CONTRACT)
    z = times(s, s)
    p = number(1 / 19)
    for divisor in range(17, 1, -2):
        p = plus(times(p, z), number(1 / divisor))
    twice = times(number(2.0), s)
    scale = times(builder.sitofp(exponent, kind), number(_LN2))
    value = plus(plus(twice, times(times(twice, z), p)), scale)
    finite = builder.fcmp_ordered("<", x, number(float("inf")), flags=_CONTRACT)
    positive = builder.fcmp_ordered(">", x, number(0.0), flags=_CONTRACT)
    zero = builder.fcmp_ordered("==", x, number(0.0), flags=_CONTRACT)
    below = builder.select(zero, number(float("-inf")), number(float("nan")))
    return builder.select(positive, builder.select(finite, value, x), below)
