"""Arithmetic on vectors of doubles, written as LLVM instructions by Python's operators.

Optimisation must not touch these instructions: with `reassoc` it would take a constant that rounds,
``(x + c) - c``, away, with `contract` it would make one rounding of two. `loops.Function.finish`
gives its flags to every instruction that has none, so that each gets one that means nothing for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from llvmlite import ir

from smcpn.codegen.target import target

DOUBLE, INTEGER = ir.DoubleType(), ir.IntType(64)
_UNTOUCHED = ("afn",)


def doubles() -> int:
    """Return how many doubles a vector of the processor has that is compiled for."""
    return target().doubles


class Term:
    """A vector of doubles, of 64-bit integers, or of truth values."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    @property
    def width(self) -> int:
        """Number of its elements."""
        return self.value.type.count

    def _real(self) -> bool:
        return self.value.type.element == DOUBLE

    def lifted(self, other: Term | float) -> Any:
        """Value of an operand, a number in every element."""
        return other.value if isinstance(other, Term) else constant(self.value.type, other)

    def _binary(self, real: str, whole: str, left: Any, right: Any) -> Term:
        if self._real():
            made = getattr(self.builder, real)(left, right, flags=_UNTOUCHED)
        else:
            made = getattr(self.builder, whole)(left, right)
        return Term(self.builder, made)

    def __add__(self, other: Term | float) -> Term:
        return self._binary("fadd", "add", self.value, self.lifted(other))

    def __sub__(self, other: Term | float) -> Term:
        return self._binary("fsub", "sub", self.value, self.lifted(other))

    def __mul__(self, other: Term | float) -> Term:
        return self._binary("fmul", "mul", self.value, self.lifted(other))

    def __truediv__(self, other: Term | float) -> Term:
        return self._binary("fdiv", "udiv", self.value, self.lifted(other))

    def __radd__(self, other: float) -> Term:
        return self + other

    def __rmul__(self, other: float) -> Term:
        return self * other

    def __rsub__(self, other: float) -> Term:
        return self._binary("fsub", "sub", self.lifted(other), self.value)

    def __rtruediv__(self, other: float) -> Term:
        return self._binary("fdiv", "udiv", self.lifted(other), self.value)

    def __neg__(self) -> Term:
        return Term(self.builder, self.builder.fneg(self.value))

    def __lshift__(self, count: int) -> Term:
        return Term(self.builder, self.builder.shl(self.value, self.lifted(count)))

    def __rshift__(self, count: int) -> Term:
        return Term(self.builder, self.builder.lshr(self.value, self.lifted(count)))

    def __and__(self, other: Term | int) -> Term:
        return Term(self.builder, self.builder.and_(self.value, self.lifted(other)))

    def __or__(self, other: Term | int) -> Term:
        return Term(self.builder, self.builder.or_(self.value, self.lifted(other)))

    def __xor__(self, other: Term | int) -> Term:
        return Term(self.builder, self.builder.xor(self.value, self.lifted(other)))

    def _compared(self, comparison: str, other: Term | float) -> Term:
        right = self.lifted(other)
        if self._real():
            compare = (
                self.builder.fcmp_unordered if comparison == "!=" else self.builder.fcmp_ordered
            )
            made = compare(comparison, self.value, right, flags=_UNTOUCHED)
        else:
            made = self.builder.icmp_signed(comparison, self.value, right)
        return Term(self.builder, made)

    def __lt__(self, other: Term | float) -> Term:
        return self._compared("<", other)

    def __le__(self, other: Term | float) -> Term:
        return self._compared("<=", other)

    def __gt__(self, other: Term | float) -> Term:
        return self._compared(">", other)

    def __ge__(self, other: Term | float) -> Term:
        return self._compared(">=", other)

    def equals(self, other: Term | float) -> Term:
        """Compare; a NaN equals nothing."""
        return self._compared("==", other)

    def bits(self) -> Term:
        """Return doubles as integers, bit by bit."""
        return Term(self.builder, self.builder.bitcast(self.value, vector(INTEGER, self.width)))

    def double(self) -> Term:
        """Return integers as doubles, bit by bit."""
        return Term(self.builder, self.builder.bitcast(self.value, vector(DOUBLE, self.width)))

    def anywhere(self) -> Any:
        """Return whether a truth value holds in any element, as one bit."""
        packed = self.builder.bitcast(self.value, ir.IntType(self.width))
        return self.builder.icmp_unsigned("!=", packed, ir.Constant(packed.type, 0))


def vector(element: Any, width: int) -> Any:
    """Return the type of a vector."""
    return ir.VectorType(element, width)


def constant(kind: Any, number: float) -> Any:
    """Return a number in every element; the same ones are used again and again."""
    return _constant(str(kind), repr(number), kind, number)


@lru_cache(1 << 14)
def _constant(kind_name: str, digits: str, kind: Any, number: float) -> Any:
    # By its digits: 0.0 is not -0.0, though they are equal.
    return ir.Constant(kind, number)


def intrinsic(name: str, *operands: Term) -> Term:
    """Call an LLVM intrinsic that acts on each element."""
    builder, kind = operands[0].builder, operands[0].value.type
    full = f"{name}.v{kind.count}f64"
    if full not in builder.module.globals:
        ir.Function(builder.module, ir.FunctionType(kind, [kind] * len(operands)), full)
    called = builder.module.globals[full]
    return Term(builder, builder.call(called, [operand.value for operand in operands]))


def where(test: Term, if_true: Term | float, if_false: Term | float) -> Term:
    """Choose in every element; one of the two is a term."""
    known = if_true if isinstance(if_true, Term) else if_false
    assert isinstance(known, Term)
    left, right = known.lifted(if_true), known.lifted(if_false)
    return Term(test.builder, test.builder.select(test.value, left, right))


def fma(x: Term, y: Term | float, z: Term | float) -> Term:
    """Multiply x and y and add z; whether the product is rounded is up to the processor."""
    if not target().fused:
        return x * y + z
    return intrinsic("llvm.fma", x, Term(x.builder, x.lifted(y)), Term(x.builder, x.lifted(z)))


def minus_product(z: Term, x: Term, y: Term | float) -> Term:
    """Subtract x y from z, in which the product is not rounded."""
    if target().fused:
        return fma(-x, y, z)
    high, low = product(x, y)
    return (z - high) - low


def product(x: Term, y: Term | float) -> tuple[Term, Term]:
    """Product as a number and what its rounding lost (Dekker, Numer. Math. 18, 1971)."""
    high = x * y
    if target().fused:
        return high, fma(x, y, -high)
    y = Term(x.builder, x.lifted(y))
    (a, b), (c, d) = _halves(x), _halves(y)
    return high, ((a * c - high) + a * d + b * c) + b * d


def _halves(x: Term) -> tuple[Term, Term]:
    """A number as the sum of two of 26 bits (Veltkamp)."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """Sum of c_k x^k, k = 0, 1, ...: pairs first, which need not wait for one another (Estrin)."""
    sums: list[Term | float] = list(coefficients)
    while len(sums) > 1:
        pairs: list[Term | float] = [
            fma(x, sums[k + 1], sums[k]) for k in range(0, len(sums) - 1, 2)
        ]
        sums = pairs + sums[len(sums) - len(sums) % 2 :]
        x = x * x
    (total,) = sums
    assert isinstance(total, Term)
    return total
