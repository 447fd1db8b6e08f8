"""The compiled walk over the instructions of a `SeriesProgram`."""

from __future__ import annotations

import math
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.library import compiled

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

(
    ADD, SUB, MUL, DIV, SQRT, EXP, LOG, POWER, SIN, COS, SINH, COSH, PRIMITIVE,
    ABS, COPYSIGN, MAX, MIN, SELECT, HELD,
) = range(19)  # fmt: skip
"""Instructions of the compiled walk. PRIMITIVE(a, w; kind) is F(a), given w = F'(a); HELD(a, b;
kind) is piecewise constant."""
(
    TAN, ASIN, ACOS, ATAN, ASINH, ACOSH, ATANH, TANH, ERF, ATAN2,
    SIGN, FLOOR, CEIL, LT, LE, EQ, NE, NOT, AND, OR, TRUNCATED,
) = range(21)  # fmt: skip
"""Kinds: what a PRIMITIVE is at the start, and what a HELD value is."""


def walk(
    code: Indices,
    first: Indices,
    second: Indices,
    kind: Indices,
    rates: Indices,
    n_given: int,
    series: Array,
    order: int,
):
    """Fill ``series`` (slots, order + 1) coefficient by coefficient."""
    for k in range(order):
        for line in range(len(code)):
            y = n_given + line
            if code[line] >= 0:
                series[y, k] = _coefficient(
                    code[line], kind[line], series[first[line]], series[second[line]],
                    series, y, k,
                )  # fmt: skip
        for i in range(len(rates)):
            value = series[rates[i], k] / (k + 1.0)
            # The rate itself may be infinite; a derivative of it that does not exist is left out.
            series[i, k + 1] = value if k == 0 or isfinite(value) else 0.0


@compiled
def _coefficient(code: int, kind: int, a: Array, b: Array, series: Array, y: int, k: int):
    """Coefficient k of an operation on series ``a`` and ``b``, of which slot ``y`` is the value."""
    value = 0.0
    if code == ADD:
        value = a[k] + b[k]
    elif code == SUB:
        value = a[k] - b[k]
    elif code == MUL:
        for j in range(k + 1):
            value += a[j] * b[k - j]
    elif code == DIV:
        value = a[k]
        for j in range(1, k + 1):
            value -= b[j] * series[y, k - j]
        value /= b[0]
    elif code == SELECT:
        value = b[k] if a[0] != 0.0 else 0.0
    elif code == ABS:
        value = _sign_after(a, k) * a[k]
    elif code == COPYSIGN:
        value = _sign_after(a, k) * a[k] * math.copysign(1.0, b[0])
    elif code in (MAX, MIN):
        larger = _larger(a, b, k) if code == MAX else _larger(b, a, k)
        value = a[k] if larger else b[k]
    elif code == HELD:
        value = _held(kind, a[0], b[0]) if k == 0 else 0.0
    elif k == 0:
        value = _start(code, kind, a[0], b[0])
    else:
        value = _smooth(code, a, b, series, y, k)
    return value


@compiled
def _smooth(code: int, a: Array, b: Array, series: Array, y: int, k: int):
    """Coefficient k > 0 of an elementary function, from the differential equation it fulfils."""
    own, value = series[y], 0.0
    if code == SQRT:
        value = a[k]
        for j in range(1, k):
            value -= own[j] * own[k - j]
        return value / (2.0 * own[0])
    if code == LOG:
        for j in range(1, k):
            value += j * own[j] * a[k - j]
        return (a[k] - value / k) / a[0]
    if code == POWER:
        return _power(a, b[0], own, k)
    # The others are primitives: y' = w a'.
    sign = 1.0
    if code == EXP:
        slope = own
    elif code == PRIMITIVE:
        slope = b
    elif code in (SIN, SINH):
        slope = series[y + 1]
    else:
        slope = series[y - 1]
        sign = -1.0 if code == COS else 1.0
    for j in range(1, k + 1):
        value += j * a[j] * slope[k - j]
    return sign * value / k


@compiled
def _power(a: Array, exponent: float, own: Array, k: int):
    value = 0.0
    if a[0] != 0.0:
        for j in range(1, k + 1):
            value += (exponent * j - (k - j)) * a[j] * own[k - j]
        return value / (k * a[0])
    if exponent != math.floor(exponent) or exponent < 0.0:
        return math.nan
    # Zero at the start to a whole power: multiply out.
    product, following = np.zeros(k + 1), np.zeros(k + 1)
    product[0] = 1.0
    for _ in range(min(int(exponent), k + 1)):
        for i in range(k + 1):
            following[i] = 0.0
            for j in range(i + 1):
                following[i] += product[j] * a[i - j]
        for i in range(k + 1):
            product[i] = following[i]
    return product[k]


@compiled
def _start(code: int, kind: int, a: float, b: float):
    """Value of a function at the first point."""
    if code == SQRT:
        return math.sqrt(a)
    if code == EXP:
        return math.exp(a)
    if code == LOG:
        return math.log(a)
    if code == POWER:
        return a**b
    if code == SIN:
        return math.sin(a)
    if code == COS:
        return math.cos(a)
    if code == SINH:
        return math.sinh(a)
    if code == COSH:
        return math.cosh(a)
    if kind == TAN:
        return math.tan(a)
    if kind == TANH:
        return math.tanh(a)
    if kind == ASIN:
        return math.asin(a)
    if kind == ACOS:
        return math.acos(a)
    if kind == ATAN:
        return math.atan(a)
    if kind == ASINH:
        return math.asinh(a)
    if kind == ACOSH:
        return math.acosh(a)
    if kind == ATANH:
        return math.atanh(a)
    return math.erf(a)


@compiled
def _held(kind: int, a: float, b: float):
    """Value of a piecewise constant function."""
    truth = False
    if kind == SIGN:
        return 1.0 if a > 0.0 else (-1.0 if a < 0.0 else a * 0.0)
    if kind == FLOOR:
        return np.floor(a)
    if kind == CEIL:
        return np.ceil(a)
    if kind == TRUNCATED:
        return np.trunc(a)
    if kind == ATAN2:
        return math.atan2(a, b)
    if kind == LT:
        truth = a < b
    elif kind == LE:
        truth = a <= b
    elif kind == EQ:
        truth = a == b
    elif kind == NE:
        truth = a != b
    elif kind == NOT:
        truth = a == 0.0
    elif kind == AND:
        truth = a != 0.0 and b != 0.0
    else:
        truth = a != 0.0 or b != 0.0
    return 1.0 if truth else 0.0


@compiled
def _sign_after(a: Array, k: int):
    """Sign of a series just after the start: that of its first coefficient that is not zero."""
    for j in range(k + 1):
        if a[j] != 0.0:
            return 1.0 if a[j] > 0.0 else -1.0
    return 1.0


@compiled
def _larger(a: Array, b: Array, k: int):
    for j in range(k + 1):
        if a[j] != b[j]:
            return a[j] > b[j]
    return True
