"""Recursions over time as expression graphs, and their graphs as typed statements.

Statements are sorted by how often they must run.

A value is *constant*, depends on the parameters of a particle only (computed once per particle),
on the shared rows only (computed once per step for all particles), or on both (computed for each
particle at each step).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntFlag
from typing import Any, ClassVar

import casadi as ca

from smcpn.codegen.memory import Section
from smcpn.model.expression import CONSTANT, INPUT, OUTPUT, applied, instructions
from smcpn.model.signal import SharedGraphs


@dataclass(frozen=True)
class LaneProgram:
    """A recursion over time that every particle runs on its own, in a lane.

    At the first sample ``start`` makes the state. Before every later sample ``interval`` runs once,
    where there is one, and then ``step`` runs ``steps`` times; at every sample ``emitted`` is
    evaluated on the state. Everything but ``theta`` and ``state`` is shared by all particles:
    ``shared`` evaluates it once for all lanes; without, it is read from rows of arrays.

    A particle that chooses its steps by itself repeats ``step`` until it has reached the sample: as
    long as an entry of its state, the time that is left, is positive. A step must then leave the
    state of a particle that has arrived as it is.

    An interval may have equal parts, at the beginning of each of which ``interval`` runs.

    theta, state: Symbols of one particle: parameters (p, 1) and solver state (k, 1).
    constants: Symbols of numbers that are the same for all, (c, 1): they reach the kernel as
        arguments, so that another number is not another kernel. ``constant_values`` holds them.
    start_row, interval_row, step_row, gain_row, sample_row: Symbols of the shared rows: one per
        record, one per interval between samples, one per solver step, one per solver step until
        they recur or stay, one per sample.
    start: State at the first sample, (k, 1), of theta and start_row (and, as all below, constants).
    shared: What these rows, but for start_row and gain_row, are graphs of.
    interval: State at the beginning of an interval, (k, 1), of theta, state, interval_row and,
        where rows are graphs, the gain_row of its last step.
    step: State after a solver step, (k, 1), of theta, state, step_row and gain_row.
    emitted: What a sample yields, (e, 1), of theta, state and sample_row.
    moments: What else it yields where that is asked for, (m, 1), of the same: mean and variance of
        ``n_outputs`` outputs first.
    left: Entry of the state that is positive as long as ``step`` is to be repeated; None where it
        runs once per step row.
    control: Entries of the state that choose the steps. A derivative takes them for given numbers.
    memory: Symbols of numbers, (m, 1), that a lane has for the time of a step.
    sections: What a step does with them before ``step``, which reads them, is evaluated.
    parts: Of an interval; each takes as many steps.
    """

    theta: ca.SX
    state: ca.SX
    start_row: ca.SX
    step_row: ca.SX
    sample_row: ca.SX
    start: ca.SX
    step: ca.SX
    emitted: ca.SX
    gain_row: ca.SX = field(default_factory=lambda: ca.SX(0, 1))
    constants: ca.SX = field(default_factory=lambda: ca.SX(0, 1))
    constant_values: tuple[float, ...] = ()
    moments: ca.SX = field(default_factory=lambda: ca.SX(0, 1))
    n_outputs: int = 0
    interval_row: ca.SX = field(default_factory=lambda: ca.SX(0, 1))
    interval: ca.SX | None = None
    shared: SharedGraphs | None = None
    left: int | None = None
    control: tuple[int, ...] = ()
    memory: ca.SX = field(default_factory=lambda: ca.SX(0, 1))
    sections: tuple[Section, ...] = ()
    parts: int = 1

    def __post_init__(self) -> None:
        made = {"start": self.start, "interval": self.interval, "step": self.step}
        for name, graph in made.items():
            if graph is not None and graph.numel() != self.state.numel():
                raise ValueError(
                    f"{name} makes a state of {graph.numel()} entries, and it has "
                    f"{self.state.numel()}"
                )

    @property
    def reverses(self) -> bool:
        """True if a reverse pass can be made: all numbers in memory are still there after a step.

        A pass must not read any of them twice, so that what comes back is added once.
        """
        written = [k for section in self.sections for k in section.written]
        read = [one.read for section in self.sections for one in section.passes]
        return all(len(set(places)) == len(places) for places in (written, *read))

    @property
    def begun(self) -> ca.SX:
        """State at the beginning of an interval, (k, 1)."""
        return self.state if self.interval is None else self.interval

    def with_state(
        self,
        symbols: ca.SX,
        start: ca.SX,
        interval: ca.SX | None = None,
        step: ca.SX | None = None,
        **changes: Any,
    ) -> LaneProgram:
        """The program with more numbers in its state, which stay where nothing is said of them."""
        begun = self.interval
        if begun is not None or interval is not None:
            begun = ca.vertcat(self.begun, symbols if interval is None else interval)
        return replace(
            self,
            state=ca.vertcat(self.state, symbols),
            start=ca.vertcat(self.start, start),
            interval=begun,
            step=ca.vertcat(self.step, symbols if step is None else step),
            **changes,
        )

    def reading(self, row: ca.SX, graph: ca.SX, **shared: ca.SX) -> LaneProgram:
        """The program whose intervals read more symbols, which the samples give by a graph."""
        assert self.shared is not None
        known = ca.vertcat(self.shared.interval, graph)
        return replace(
            self,
            interval_row=ca.vertcat(self.interval_row, row),
            shared=replace(self.shared, interval=known, **shared),
        )

    def moving(self, column: ca.SX) -> ca.SX:
        """A column of the size of the state with zeros in place of what chooses the steps."""
        moving = ca.SX(column)
        for k in self.control:
            moving[k] = 0.0
        return moving

    @property
    def window(self) -> int:
        """Samples that shared statements look at."""
        return 1 if self.shared is None else self.shared.window.numel() // self.shared.width

    @property
    def widths(self) -> dict[str, int]:
        """Numbers of a sample, step, interval and record in memory, by the name of the vector."""
        s = self.shared
        return {
            "w": self.sample_row.numel() if s is None else s.width,
            "r": (self.step_row if s is None else s.values).numel(),
            "q": (self.interval_row if s is None else s.interval_values).numel(),
            "o": 0 if s is None else s.record.numel(),
            "g": self.gain_row.numel(),
        }

    def raw(self, part: str, graph: ca.SX) -> tuple[ca.SX, list[Vector]]:
        """A graph of a ``step``, ``interval`` or ``sample`` over what is in memory, and vectors."""
        rows = {"step": self.step_row, "interval": self.interval_row, "sample": self.sample_row}
        gains = {"g": self.gain_row} if part == "step" else {}
        if (s := self.shared) is None:
            known = {{"step": "r", "interval": "q", "sample": "w"}[part]: rows[part]}
        else:
            graph = ca.substitute(graph, rows[part], getattr(s, part))
            known = {"w": s.window, "i": s.index, "o": s.record}
            gains = {} if part == "sample" else {"g": self.gain_row}
            own = {"step": {"r": s.values}, "interval": {"q": s.interval_values}}
            known |= own.get(part, {})
        vectors = [Vector(of, name, Level.SHARED) for name, of in (known | gains).items()]
        return graph, vectors


class Level(IntFlag):
    """The inputs that a value depends on; a union of levels depends on both."""

    CONSTANT = 0
    PARTICLE = 1
    SHARED = 2
    LANE = 3


@dataclass(frozen=True, slots=True)
class Literal:
    """A number."""

    number: float
    level: ClassVar[Level] = Level.CONSTANT

    def __str__(self) -> str:
        return repr(self.number)


@dataclass(frozen=True, slots=True)
class Value:
    """An element of a vector: of an input of a graph, or of the results of its statements."""

    vector: str
    index: int
    level: Level = field(compare=False)

    def __str__(self) -> str:
        return f"{self.vector}{self.index}"


Operand = Value | Literal

SHARED_VECTORS = "wioqrg"
"""Names of the vectors that all particles share, see `SharedGraphs`: window, index, record,
values of an interval and of a step; and gains."""


@dataclass(frozen=True, slots=True)
class Statement:
    """``target = operation(operands)``, with an operation that `smcpn.model.expression` names."""

    target: Value
    operation: str
    operands: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"{self.target} = {self.operation}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True)
class Vector:
    """An input vector of a graph: its symbols, its name in statements, its level."""

    symbols: ca.SX
    name: str
    level: Level


@dataclass
class Statements:
    """A graph as statements, each value assigned once and before it is read, by level."""

    outputs: list[Operand]
    by_level: dict[Level, list[Statement]] = field(
        default_factory=lambda: {Level.PARTICLE: [], Level.SHARED: [], Level.LANE: []}
    )

    def read(self, *levels: Level) -> set[Operand]:
        """Operands of the statements of these levels, and the outputs."""
        read = set(self.outputs)
        for level in levels:
            for statement in self.by_level[level]:
                read.update(statement.operands)
        return read


def lower(outputs: ca.SX, inputs: list[Vector], name: str) -> Statements:
    """Return the graph of ``outputs`` as statements whose results are the vector ``name``."""
    graph = ca.Function(
        "graph", [vector.symbols for vector in inputs], [ca.cse(ca.densify(outputs))]
    )
    return _Lowering(graph, inputs, name).run()


class _Lowering:
    def __init__(self, graph: ca.Function, inputs: list[Vector], name: str) -> None:
        self._graph, self._inputs, self._name = graph, inputs, name
        self._statements = Statements([Literal(0.0)] * graph.nnz_out(0))
        self._inverses: dict[Operand, Operand] = {}
        self._count = 0

    def run(self) -> Statements:
        values: dict[int, Operand] = {}
        for row, (operation, operands, constant) in enumerate(instructions(self._graph)):
            if operation == OUTPUT:
                self._statements.outputs[operands[2]] = values[operands[0]]
            elif operation == INPUT:
                vector = self._inputs[operands[0]]
                values[row] = Value(vector.name, operands[1], vector.level)
            elif operation == CONSTANT:
                values[row] = Literal(constant)
            else:
                values[row] = self._apply(operation, tuple(values[k] for k in operands))
        return self._statements

    def _apply(self, operation: str, operands: tuple[Operand, ...]) -> Operand:
        level = Level.CONSTANT
        for operand in operands:
            level |= operand.level
        numbers = [ca.SX(operand.number) for operand in operands if isinstance(operand, Literal)]
        if len(numbers) == len(operands):
            return Literal(float(ca.evalf(applied(operation, numbers))))
        if operation == "div" and operands[1].level != level:
            # A division that recurs in every lane and step becomes a product.
            operation, operands = "mul", (operands[0], self._inverse(operands[1]))
        target = Value(self._name, self._count, level)
        self._count += 1
        self._statements.by_level[level].append(Statement(target, operation, operands))
        return target

    def _inverse(self, value: Operand) -> Operand:
        if value not in self._inverses:
            self._inverses[value] = self._apply("inv", (value,))
        return self._inverses[value]
