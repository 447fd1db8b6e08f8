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


class Level(IntFlag):
    """What a value depends on; a union of levels depends on both."""

    CONSTANT = 0
    PARTICLE = 1
    SHARED = 2
    LANE = 3


OPERATIONS = {
    "OP_ASSIGN": "{0}",
    "OP_LIFT": "{0}",
    "OP_ADD": "{0} + {1}",
    "OP_SUB": "{0} - {1}",
    "OP_MUL": "{0} * {1}",
    "OP_DIV": "{0} / {1}",
    "OP_NEG": "-{0}",
    "OP_TWICE": "2.0 * {0}",
    "OP_SQ": "{0} * {0}",
    "OP_INV": "1.0 / {0}",
    "OP_SQRT": "math.sqrt({0})",
    "OP_POW": "{0} ** {1}",
    "OP_CONSTPOW": "{0} ** {1}",
    "OP_EXP": "math.exp({0})",
    "OP_LOG": "log({0})",
    "OP_LOG1P": "math.log1p({0})",
    "OP_EXPM1": "math.expm1({0})",
    "OP_SIN": "math.sin({0})",
    "OP_COS": "math.cos({0})",
    "OP_TAN": "math.tan({0})",
    "OP_ASIN": "math.asin({0})",
    "OP_ACOS": "math.acos({0})",
    "OP_ATAN": "math.atan({0})",
    "OP_ATAN2": "math.atan2({0}, {1})",
    "OP_SINH": "math.sinh({0})",
    "OP_COSH": "math.cosh({0})",
    "OP_TANH": "math.tanh({0})",
    "OP_ASINH": "math.asinh({0})",
    "OP_ACOSH": "math.acosh({0})",
    "OP_ATANH": "math.atanh({0})",
    "OP_ERF": "math.erf({0})",
    "OP_HYPOT": "math.hypot({0}, {1})",
    "OP_FABS": "abs({0})",
    "OP_COPYSIGN": "math.copysign({0}, {1})",
    "OP_FLOOR": "np.floor({0})",
    "OP_CEIL": "np.ceil({0})",
    "OP_FMOD": "np.fmod({0}, {1})",
    # The last branch is reached with a NaN only, which a sum passes on and a comparison loses.
    "OP_FMAX": "{0} if {0} > {1} else ({1} if {1} >= {0} else {0} + {1})",
    "OP_FMIN": "{0} if {0} < {1} else ({1} if {1} <= {0} else {0} + {1})",
    "OP_SIGN": "1.0 if {0} > 0.0 else (-1.0 if {0} < 0.0 else {0} * 0.0)",
    "OP_LT": "1.0 if {0} < {1} else 0.0",
    "OP_LE": "1.0 if {0} <= {1} else 0.0",
    "OP_EQ": "1.0 if {0} == {1} else 0.0",
    "OP_NE": "1.0 if {0} != {1} else 0.0",
    "OP_NOT": "1.0 if {0} == 0.0 else 0.0",
    "OP_AND": "1.0 if ({0} != 0.0 and {1} != 0.0) else 0.0",
    "OP_OR": "1.0 if ({0} != 0.0 or {1} != 0.0) else 0.0",
    "OP_IF_ELSE_ZERO": "{1} if {0} != 0.0 else 0.0",
}
"""Every scalar operation of CasADi that has a counterpart in compiled code."""

_OPERATION_NAMES = {getattr(ca, name): name for name in dir(ca) if name.startswith("OP_")}


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
        graph = self._graph
        slots: dict[int, Value] = {}
        for k in range(graph.n_instructions()):
            operation = graph.instruction_id(k)
            source, target = graph.instruction_input(k), graph.instruction_output(k)
            if operation == ca.OP_OUTPUT:
                self._statements.outputs[target[1]] = slots[source[0]]
            elif operation == ca.OP_INPUT:
                rows = self._inputs[source[0]]
                slots[target[0]] = Value(f"{rows.prefix}{source[1]}", rows.level)
            elif operation == ca.OP_CONST:
                constant = _literal(graph.instruction_constant(k))
                slots[target[0]] = Value(constant, Level.CONSTANT)
            else:
                slots[target[0]] = self._apply(operation, [slots[s] for s in source])
        return self._statements

    def _apply(self, operation: int, operands: list[Value]) -> Value:
        name = _OPERATION_NAMES.get(operation, str(operation))
        if name not in OPERATIONS:
            raise InputError(
                f"the model uses the operation {name.removeprefix('OP_').lower()}, which cannot "
                "be compiled: rewrite it with arithmetic and numpy's elementary functions"
            )
        level = Level.CONSTANT
        for operand in operands:
            level |= operand.level
        if name == "OP_DIV" and operands[1].level != level:
            # A division that recurs in every lane and step becomes a product.
            name, operands = "OP_MUL", [operands[0], self._inverse(operands[1])]
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
