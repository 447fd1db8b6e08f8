"""The Taylor series of a solution, by arithmetic on truncated power series over the model's graph.

Lie derivatives as graphs (`taylor`) grow threefold with each order. Here the instructions of the
graph of x' = f are walked once per order, each computing one more coefficient of its value from
those it has (Griewank and Walther 2008, chapter 13): the cost is that of f times the square of the
order, in compiled code that is the same for all models.

Where a function has no derivative, as sqrt at zero, the coefficient counts as zero: the filter
finds it from the equation. Functions with branches take the branch of the value just after.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.routine import PassedArgument, routine
from smcpn.errors import InputError

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


class Lines(NamedTuple):
    """Instructions with their operands, slots of the values that are the rates, and given slots."""

    code: Indices
    first: Indices
    second: Indices
    kind: Indices
    rates: Indices
    n_given: int


def walk(lines: Lines, series: Array):
    """Fill ``series`` (slots, order + 1) coefficient by coefficient."""
    code, kind, rates, n_given = lines.code, lines.kind, lines.rates, lines.n_given
    for k in range(series.shape[1] - 1):
        for line in range(len(code)):
            y = n_given + line
            if code[line] >= 0:
                series[y, k] = _coefficient(
                    code[line], kind[line], series[lines.first[line]],
                    series[lines.second[line]],
                    series, y, k,
                )  # fmt: skip
        for i in range(len(rates)):
            value = series[rates[i], k] / (k + 1.0)
            # The rate itself may be infinite; a derivative of it that does not exist is left out.
            series[i, k + 1] = value if k == 0 or isfinite(value) else 0.0


def _coefficient(code: int, kind: int, a: Array, b: Array, series: Array, y: int, k: int) -> float:
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


def _smooth(code: int, a: Array, b: Array, series: Array, y: int, k: int) -> float:
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


def _power(a: Array, exponent: float, own: Array, k: int) -> float:
    """A power that is constant; of a series that begins with zeros, if it is a whole one."""
    zeros = 0
    while zeros <= k and a[zeros] == 0.0:
        zeros += 1
    if zeros > 0 and (exponent != math.floor(exponent) or exponent < 0.0):
        return math.nan
    if zeros > k or exponent * zeros > k:
        return 0.0
    # a = t^zeros b, and the power is t^first b^exponent.
    first = int(exponent * zeros)
    n, value = k - first, 0.0
    if n == 0:
        return a[zeros] ** exponent
    for j in range(1, n + 1):
        value += (exponent * j - (n - j)) * a[zeros + j] * own[k - j]
    return value / (n * a[zeros])


def _start(code: int, kind: int, a: float, b: float) -> float:
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


def _held(kind: int, a: float, b: float) -> float:
    """Value of a piecewise constant function."""
    truth = False
    if kind == SIGN:
        return 1.0 if a > 0.0 else (-1.0 if a < 0.0 else a * 0.0)
    if kind == FLOOR:
        return np.floor(a)
    if kind == CEIL:
        return np.ceil(a)
    if kind == TRUNCATED:
        return math.copysign(np.floor(abs(a)), a)
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


def _sign_after(a: Array, k: int) -> float:
    """Sign of a series just after the start: that of its first coefficient that is not zero."""
    for j in range(k + 1):
        if a[j] != 0.0:
            return 1.0 if a[j] > 0.0 else -1.0
    return 1.0


def _larger(a: Array, b: Array, k: int) -> bool:
    for j in range(k + 1):
        if a[j] != b[j]:
            return a[j] > b[j]
    return True


@dataclass(frozen=True)
class SeriesProgram:
    """A graph as instructions on slots, each of which holds a power series in time.

    The first slots are the inputs of the graph: states, inputs, time, parameters.
    """

    lines: Lines
    constants: Array

    @functools.cached_property
    def _passed(self) -> PassedArgument:
        return PassedArgument.of(self.lines)

    def __call__(self, x: Array, u: Array, t: float, parameters: Array, order: int) -> Array:
        """Coefficients x^(j) / j! of the solution through ``x`` at ``t``, (n, order + 1).

        u: (order, n_inputs) or more rows, coefficients of the inputs.
        """
        n, m = len(x), u.shape[1]
        series = np.zeros((len(self.constants), order + 1))
        series[:, 0] = self.constants
        series[:n, 0] = x
        rows = min(order + 1, len(u))
        series[n : n + m, :rows] = u[:rows].T
        series[n + m, :2] = t, 1.0
        series[n + m + 1 : self.lines.n_given, 0] = parameters
        routine(walk)(self._passed, series)
        return series[:n]


def series_program(symbols: Sequence[ca.SX], rhs: ca.SX) -> SeriesProgram:
    """Translate the graph of a right-hand side over the symbols (x, u, t, parameters)."""
    return _Translation(symbols, rhs).program()


class _Translation:
    def __init__(self, symbols: Sequence[ca.SX], rhs: ca.SX) -> None:
        self._graph = ca.Function("graph", list(symbols), [ca.cse(ca.densify(rhs))])
        sizes = [symbol.numel() for symbol in symbols]
        self._offset = [sum(sizes[:k]) for k in range(5)]
        self._n_given = sum(sizes)
        self._lines: list[tuple[int, int, int, int, float]] = []
        # Parameters do not move: a power with such an exponent has a rule of its own.
        self._moves = [k < self._offset[3] for k in range(self._n_given)]

    def program(self) -> SeriesProgram:
        graph, slots, rates = self._graph, {}, {}
        for k in range(graph.n_instructions()):
            operation = graph.instruction_id(k)
            source, target = graph.instruction_input(k), graph.instruction_output(k)
            if operation == ca.OP_OUTPUT:
                rates[target[1]] = slots[source[0]]
            elif operation == ca.OP_INPUT:
                slots[target[0]] = self._offset[source[0]] + source[1]
            elif operation == ca.OP_CONST:
                slots[target[0]] = self._constant(graph.instruction_constant(k))
            else:
                slots[target[0]] = self._translate(operation, [slots[s] for s in source])
        code, first, second, kind, constants = (
            zip(*self._lines, strict=True) if self._lines else ((), (), (), (), ())
        )
        heads = [rates[k] for k in range(graph.nnz_out(0))]
        columns = (np.array(one, dtype=np.int64) for one in (code, first, second, kind, heads))
        return SeriesProgram(
            Lines(*columns, n_given=self._n_given),
            constants=np.concatenate([np.zeros(self._n_given), constants]),
        )

    def _append(self, code: int, a: int, b: int = 0, kind: int = 0, constant: float = 0.0) -> int:
        self._lines.append((code, a, b, kind, constant))
        used = [a] if code in (SQRT, EXP, LOG, SIN, COS, SINH, COSH, ABS) else [a, b]
        self._moves.append(code >= 0 and any(self._moves[slot] for slot in used))
        return self._n_given + len(self._lines) - 1

    def _constant(self, value: float) -> int:
        return self._append(-1, 0, constant=value)

    def _translate(self, operation: int, operands: list[int]) -> int:
        if operation == ca.OP_CALL:
            raise InputError(
                "the model is a function that numba has compiled, of which no Taylor series is "
                "known: use smcpn.simulate, or write it so that it can be traced"
            )
        name = _NAMES.get(operation, str(operation)).removeprefix("OP_")
        a, b = operands[0], operands[-1]
        if name in _PLAIN:
            return self._append(_PLAIN[name], a, b)
        if name in _HELD:
            return self._append(HELD, a, b, _HELD[name])
        rule = getattr(self, f"_{name.lower()}", None)
        if rule is None:
            raise InputError(
                f"the model uses the operation {name.lower()}, of which no Taylor series is known: "
                "rewrite it with arithmetic and numpy's elementary functions"
            )
        return rule(a, b)

    def _assign(self, a: int, _: int) -> int:
        return a

    _lift = _assign

    def _neg(self, a: int, _: int) -> int:
        return self._append(SUB, self._constant(0.0), a)

    def _twice(self, a: int, _: int) -> int:
        return self._append(ADD, a, a)

    def _sq(self, a: int, _: int) -> int:
        return self._append(MUL, a, a)

    def _inv(self, a: int, _: int) -> int:
        return self._append(DIV, self._constant(1.0), a)

    def _pow(self, a: int, b: int) -> int:
        if not self._moves[b]:
            return self._append(POWER, a, b)
        return self._append(EXP, self._append(MUL, b, self._append(LOG, a)))

    _constpow = _pow

    def _log1p(self, a: int, _: int) -> int:
        return self._append(LOG, self._append(ADD, self._constant(1.0), a))

    def _expm1(self, a: int, _: int) -> int:
        return self._append(SUB, self._append(EXP, a), self._constant(1.0))

    def _hypot(self, a: int, b: int) -> int:
        return self._append(SQRT, self._append(ADD, self._sq(a, a), self._sq(b, b)))

    def _sin(self, a: int, _: int) -> int:
        return self._pair(SIN, COS, a)

    def _cos(self, a: int, _: int) -> int:
        return self._pair(SIN, COS, a) + 1

    def _sinh(self, a: int, _: int) -> int:
        return self._pair(SINH, COSH, a)

    def _cosh(self, a: int, _: int) -> int:
        return self._pair(SINH, COSH, a) + 1

    def _pair(self, first: int, second: int, a: int) -> int:
        """Two functions that are each other's derivative, in neighbouring slots."""
        self._append(first, a)
        return self._append(second, a) - 1

    def _tan(self, a: int, _: int) -> int:
        cosine = self._cos(a, a)
        return self._primitive(TAN, a, self._inv(self._sq(cosine, a), a))

    def _tanh(self, a: int, _: int) -> int:
        return self._primitive(TANH, a, self._inv(self._sq(self._cosh(a, a), a), a))

    def _asin(self, a: int, _: int) -> int:
        return self._primitive(ASIN, a, self._inverse_root(1.0, -1.0, a))

    def _acos(self, a: int, _: int) -> int:
        return self._primitive(ACOS, a, self._neg(self._inverse_root(1.0, -1.0, a), a))

    def _asinh(self, a: int, _: int) -> int:
        return self._primitive(ASINH, a, self._inverse_root(1.0, 1.0, a))

    def _acosh(self, a: int, _: int) -> int:
        return self._primitive(ACOSH, a, self._inverse_root(-1.0, 1.0, a))

    def _atan(self, a: int, _: int) -> int:
        return self._primitive(ATAN, a, self._inv(self._square_plus(1.0, 1.0, a), a))

    def _atanh(self, a: int, _: int) -> int:
        return self._primitive(ATANH, a, self._inv(self._square_plus(1.0, -1.0, a), a))

    def _erf(self, a: int, _: int) -> int:
        density = self._append(EXP, self._neg(self._sq(a, a), a))
        factor = self._constant(2.0 / math.sqrt(math.pi))
        return self._primitive(ERF, a, self._append(MUL, factor, density))

    def _fmod(self, a: int, b: int) -> int:
        whole = self._append(HELD, self._append(DIV, a, b), a, TRUNCATED)
        return self._append(SUB, a, self._append(MUL, whole, b))

    def _atan2(self, a: int, b: int) -> int:
        """The angle at the start, plus that between here and there."""
        start = self._append(HELD, a, b, ATAN2)
        # tan(angle - start) = (a cos start - b sin start) / (b cos start + a sin start)
        cosine, sine = self._cos(start, start), self._sin(start, start)
        above = self._append(SUB, self._append(MUL, a, cosine), self._append(MUL, b, sine))
        below = self._append(ADD, self._append(MUL, b, cosine), self._append(MUL, a, sine))
        return self._append(ADD, start, self._atan(self._append(DIV, above, below), a))

    def _square_plus(self, constant: float, sign: float, a: int) -> int:
        square = self._append(MUL, self._constant(sign), self._sq(a, a))
        return self._append(ADD, self._constant(constant), square)

    def _inverse_root(self, constant: float, sign: float, a: int) -> int:
        return self._inv(self._append(SQRT, self._square_plus(constant, sign, a)), a)

    def _primitive(self, kind: int, a: int, slope: int) -> int:
        return self._append(PRIMITIVE, a, slope, kind)


_NAMES = {getattr(ca, name): name for name in dir(ca) if name.startswith("OP_")}
_PLAIN = {
    "ADD": ADD, "SUB": SUB, "MUL": MUL, "DIV": DIV, "SQRT": SQRT, "EXP": EXP, "LOG": LOG,
    "FABS": ABS, "COPYSIGN": COPYSIGN, "FMAX": MAX, "FMIN": MIN, "IF_ELSE_ZERO": SELECT,
}  # fmt: skip
_HELD = {
    "SIGN": SIGN, "FLOOR": FLOOR, "CEIL": CEIL, "LT": LT, "LE": LE, "EQ": EQ, "NE": NE,
    "NOT": NOT, "AND": AND, "OR": OR,
}  # fmt: skip
