"""The change of an expression where its symbols move by a finite amount, without cancellation.

f(x + d) - f(x) computed as it is written has the rounding errors of both values, which is all that
is left of it where d is small. Taken through the graph operation by operation, (a + da)(b + db) -
a b = a db + b da + da db and so on, it has the relative precision of d.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import casadi as ca

from smcpn.model.expression import CONSTANT, INPUT, OUTPUT, applied, instructions

_LEAST = 1e-300
"""Keeps a quotient of two zeros zero."""
Rule = Callable[..., ca.SX]


def difference(graph: ca.SX, symbols: ca.SX, at: ca.SX, shift: ca.SX) -> ca.SX:
    """f(at + shift) - f(at) of a column of expressions f.

    Parameters
    ----------
    graph : casadi.SX, (k, 1)
        f; what else it depends on does not move.
    symbols, at, shift : casadi.SX, (n, 1)

    Returns
    -------
    casadi.SX, (k, 1)
        An operation without a rule of its own is evaluated at both points and subtracted.
    """
    free = ca.symvar(graph)
    place = {symbols[k].element_hash(): k for k in range(symbols.numel())}
    function = ca.Function("graph", [ca.vertcat(*free)], [ca.cse(ca.densify(graph))])
    before: dict[int, ca.SX] = {}
    moved: dict[int, ca.SX] = {}
    result = ca.SX.zeros(graph.numel(), 1)
    for row, (operation, operands, constant) in enumerate(instructions(function)):
        if operation == OUTPUT:
            result[operands[2]] = moved.get(operands[0], ca.SX(0.0))
        elif operation == INPUT:
            symbol = free[operands[1]]
            k = place.get(symbol.element_hash())
            before[row] = symbol if k is None else at[k]
            if k is not None:
                moved[row] = shift[k]
        elif operation == CONSTANT:
            before[row] = ca.SX(constant)
        else:
            values = [before[k] for k in operands]
            before[row] = applied(operation, values)
            if any(k in moved for k in operands):
                shifts = [moved.get(k, ca.SX(0.0)) for k in operands]
                moved[row] = _change(operation, values, shifts)
    return result


def _change(operation: str, values: Sequence[ca.SX], shifts: Sequence[ca.SX]) -> ca.SX:
    """Change of an operation where its operands move by ``shifts``."""
    if operation in ("pow", "constpow"):
        return _of_power(operation, *values, *shifts)
    rule = _UNARY.get(operation) if len(values) == 1 else _BINARY.get(operation)
    return _subtracted(operation, values, shifts) if rule is None else rule(*values, *shifts)


def _subtracted(operation: str, values: Sequence[ca.SX], shifts: Sequence[ca.SX]) -> ca.SX:
    after = [value + shift for value, shift in zip(values, shifts, strict=True)]
    return applied(operation, after) - applied(operation, values)


def _of_power(operation: str, a: ca.SX, n: ca.SX, da: ca.SX, dn: ca.SX) -> ca.SX:
    """(a + da)^n - a^n: da sum_k (a + da)^k a^(n - 1 - k) for a whole number n."""
    exponent = float(n) if n.is_constant() else 0.0
    if not (dn.is_zero() and exponent == int(exponent) and 1 <= exponent <= 8):
        return _subtracted(operation, [a, n], [da, dn])
    b, last = a + da, int(exponent) - 1
    # Horner's scheme in b: (...(b + a) b + a^2) b + ...
    return da * reduce(lambda total, k: total * b + a**k, range(1, last + 1), ca.SX(1.0))


def _of_quotient(a: ca.SX, b: ca.SX, da: ca.SX, db: ca.SX) -> ca.SX:
    return (da - a / b * db) / (b + db)


def _of_absolute(a: ca.SX, da: ca.SX) -> ca.SX:
    same = a * (a + da) >= 0.0
    return ca.if_else(same, ca.sign(a + a + da) * da, ca.fabs(a + da) - ca.fabs(a))


def _of_logarithm(a: ca.SX, da: ca.SX) -> ca.SX:
    return ca.log1p(da / a)


_UNARY: dict[str, Rule] = {
    "neg": lambda a, da: -da,
    "twice": lambda a, da: 2.0 * da,
    "sq": lambda a, da: da * (2.0 * a + da),
    "inv": lambda a, da: -da / (a * (a + da)),
    "sqrt": lambda a, da: da / ca.fmax(ca.sqrt(a) + ca.sqrt(a + da), _LEAST),
    "exp": lambda a, da: ca.exp(a) * ca.expm1(da),
    "expm1": lambda a, da: ca.exp(a) * ca.expm1(da),
    "log": _of_logarithm,
    "log1p": lambda a, da: ca.log1p(da / (1.0 + a)),
    "sin": lambda a, da: 2.0 * ca.sin(0.5 * da) * ca.cos(a + 0.5 * da),
    "cos": lambda a, da: -2.0 * ca.sin(0.5 * da) * ca.sin(a + 0.5 * da),
    "sinh": lambda a, da: 2.0 * ca.sinh(0.5 * da) * ca.cosh(a + 0.5 * da),
    "cosh": lambda a, da: 2.0 * ca.sinh(0.5 * da) * ca.sinh(a + 0.5 * da),
    "tan": lambda a, da: ca.sin(da) / (ca.cos(a) * ca.cos(a + da)),
    "tanh": lambda a, da: ca.tanh(da) * (1.0 - ca.tanh(a) * ca.tanh(a + da)),
    "fabs": _of_absolute,
}  # fmt: skip
_BINARY: dict[str, Rule] = {
    "add": lambda a, b, da, db: da + db,
    "sub": lambda a, b, da, db: da - db,
    "mul": lambda a, b, da, db: a * db + da * (b + db),
    "div": _of_quotient,
}
