"""Turn an expression graph into Python statements, sorted by how often they must run.

A value is *constant*, depends on the parameters of a particle only (computed once per particle),
on the shared rows only (computed once per step for all particles), or on both (computed for each
particle at each step).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntFlag

import casadi as ca

from smcpn.errors import InputError
from smcpn.model.expression import CONSTANT, INPUT, OUTPUT, instructions


class Level(IntFlag):
    """What a value depends on; a union of levels depends on both."""

    CONSTANT = 0
    PARTICLE = 1
    SHARED = 2
    LANE = 3


OPERATIONS = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "twice": "2.0 * {0}",
    "sq": "{0} * {0}",
    "inv": "1.0 / {0}",
    "sqrt": "math.sqrt({0})",
    "pow": "{0} ** {1}",
    "constpow": "{0} ** {1}",
    "exp": "math.exp({0})",
    "log": "log({0})",
    "log1p": "math.log1p({0})",
    "expm1": "math.expm1({0})",
    "sin": "math.sin({0})",
    "cos": "math.cos({0})",
    "tan": "math.tan({0})",
    "asin": "math.asin({0})",
    "acos": "math.acos({0})",
    "atan": "math.atan({0})",
    "atan2": "math.atan2({0}, {1})",
    "sinh": "math.sinh({0})",
    "cosh": "math.cosh({0})",
    "tanh": "math.tanh({0})",
    "asinh": "math.asinh({0})",
    "acosh": "math.acosh({0})",
    "atanh": "math.atanh({0})",
    "erf": "math.erf({0})",
    "hypot": "math.hypot({0}, {1})",
    "fabs": "abs({0})",
    "copysign": "math.copysign({0}, {1})",
    "floor": "np.floor({0})",
    "ceil": "np.ceil({0})",
    "fmod": "np.fmod({0}, {1})",
    # The last branch is reached with a NaN only, which a sum passes on and a comparison loses.
    "fmax": "{0} if {0} > {1} else ({1} if {1} >= {0} else {0} + {1})",
    "fmin": "{0} if {0} < {1} else ({1} if {1} <= {0} else {0} + {1})",
    "sign": "1.0 if {0} > 0.0 else (-1.0 if {0} < 0.0 else {0} * 0.0)",
    "lt": "1.0 if {0} < {1} else 0.0",
    "le": "1.0 if {0} <= {1} else 0.0",
    "eq": "1.0 if {0} == {1} else 0.0",
    "ne": "1.0 if {0} != {1} else 0.0",
    "not": "1.0 if {0} == 0.0 else 0.0",
    "and": "1.0 if ({0} != 0.0 and {1} != 0.0) else 0.0",
    "or": "1.0 if ({0} != 0.0 or {1} != 0.0) else 0.0",
    "if_else_zero": "{1} if {0} != 0.0 else 0.0",
}
"""Every scalar operation of CasADi that has a counterpart in compiled code."""


@dataclass(frozen=True)
class Value:
    """A name or literal in the generated source, and what it depends on."""

    text: str
    level: Level


@dataclass(frozen=True)
class Rows:
    """An input vector of a graph: its symbols, the prefix of its names, its level."""

    symbols: ca.SX
    prefix: str
    level: Level


@dataclass
class Statements:
    """A graph as assignments ``name = expression``, in order, by level."""

    outputs: list[Value]
    by_level: dict[Level, list[tuple[str, str]]] = field(
        default_factory=lambda: {Level.PARTICLE: [], Level.SHARED: [], Level.LANE: []}
    )

    def read(self, *levels: Level) -> set[str]:
        """Names read by the outputs and by the statements of these levels."""
        texts = [value.text for value in self.outputs]
        texts += [expression for level in levels for _, expression in self.by_level[level]]
        return {name for text in texts for name in names_in(text)}


def names_in(expression: str) -> list[str]:
    """Every name in a Python expression."""
    return re.findall(r"\b[A-Za-z_]\w*", expression)


def lower(outputs: ca.SX, inputs: list[Rows], prefix: str) -> Statements:
    """Write the graph of ``outputs`` as statements whose new names start with ``prefix``.

    Raises
    ------
    InputError
        If the graph holds an operation that has no compiled counterpart, named.
    """
    graph = ca.Function("graph", [rows.symbols for rows in inputs], [ca.cse(ca.densify(outputs))])
    return _Lowering(graph, inputs, prefix).run()


class _Lowering:
    def __init__(self, graph: ca.Function, inputs: list[Rows], prefix: str) -> None:
        self._graph, self._inputs, self._prefix = graph, inputs, prefix
        self._statements = Statements([Value("0.0", Level.CONSTANT)] * graph.nnz_out(0))
        self._inverses: dict[str, Value] = {}
        self._count = 0

    def run(self) -> Statements:
        values: dict[int, Value] = {}
        for row, (operation, operands, constant) in enumerate(instructions(self._graph)):
            if operation == OUTPUT:
                self._statements.outputs[operands[2]] = values[operands[0]]
            elif operation == INPUT:
                rows = self._inputs[operands[0]]
                values[row] = Value(f"{rows.prefix}{operands[1]}", rows.level)
            elif operation == CONSTANT:
                values[row] = Value(_literal(constant), Level.CONSTANT)
            else:
                values[row] = self._apply(operation, [values[k] for k in operands])
        return self._statements

    def _apply(self, name: str, operands: list[Value]) -> Value:
        if name not in OPERATIONS:
            raise InputError(
                f"the model uses the operation {name}, which cannot be compiled: "
                "rewrite it with arithmetic and numpy's elementary functions"
            )
        level = Level.CONSTANT
        for operand in operands:
            level |= operand.level
        if name == "div" and operands[1].level != level:
            # A division that recurs in every lane and step becomes a product.
            name, operands = "mul", [operands[0], self._inverse(operands[1])]
        return self._assign(OPERATIONS[name].format(*(o.text for o in operands)), level)

    def _inverse(self, value: Value) -> Value:
        if value.text not in self._inverses:
            self._inverses[value.text] = self._assign(f"1.0 / {value.text}", value.level)
        return self._inverses[value.text]

    def _assign(self, expression: str, level: Level) -> Value:
        if level == Level.CONSTANT:
            return Value(f"({expression})", level)
        name = f"{self._prefix}{self._count}"
        self._count += 1
        self._statements.by_level[level].append((name, expression))
        return Value(name, level)


def _literal(constant: float) -> str:
    if constant != constant:
        return "np.nan"
    if constant in (float("inf"), float("-inf")):
        return "np.inf" if constant > 0 else "(-np.inf)"
    return f"({constant!r})" if constant < 0 else repr(constant)
