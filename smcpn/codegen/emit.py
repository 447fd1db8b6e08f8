"""Lay out the values of a kernel in lanes, and divide its statements into blocks.

The kernel walks time outside and *lanes* of particles inside, one array of lanes per value, so
that the innermost loop runs on whole vectors:

    for each block of LANES particles:
        for each sample:
            for each lane:            <- straight-line code on vectors
                begin the interval
            for each solver step:
                for each lane:
                    predict, evaluate f, update, calibrate
            for each lane:
                score the sample
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import casadi as ca

from smcpn.codegen.long_blocks import Loop, pieces
from smcpn.codegen.loops import ARRAY, LoopCall, Plan
from smcpn.codegen.lower import (
    SHARED_VECTORS,
    LaneProgram,
    Level,
    Operand,
    Statement,
    Statements,
    Value,
    Vector,
    lower,
)
from smcpn.codegen.machine_code import Block
from smcpn.codegen.memory import Pass
from smcpn.codegen.terms import doubles

MEMORY = "s"
"""Name of the vector of what a lane has for the time of a step."""
MAX_LANES = 64
LEAST_LANES = 8
"""One vector of AVX-512."""
WORKING_SET = 24_000
"""Bytes of lane arrays that fit the first-level cache with room for the shared rows."""

LONG = 500
"""Statements of a piece. The time that LLVM takes grows with the square of them."""


def kernel_code(program: LaneProgram, most_lanes: int = MAX_LANES) -> Plan:
    """Return the plan of a program's kernel, of at most so many lanes."""
    theta = Vector(ca.vertcat(program.theta, program.constants), "p", Level.PARTICLE)
    state = Vector(program.state, "m", Level.LANE)
    memory = Vector(program.memory, MEMORY, Level.LANE)

    def lowered(part: str, graph: ca.SX, name: str, of_theta: Vector = theta) -> Statements:
        graph, shared = program.raw(part, graph)
        return lower(graph, [of_theta, state, memory, *shared], name)

    sections = [
        lowered("step", section.values, f"a{k}_") for k, section in enumerate(program.sections)
    ]
    step, sample = lowered("step", program.step, "a"), lowered("sample", program.emitted, "b")
    moments = None
    if program.moments.numel():
        # Asked for once in a sample, if at all: nothing is computed beforehand.
        by_lane = replace(theta, level=Level.LANE)
        moments = lowered("sample", program.moments, "e", by_lane)
    interval = None if program.interval is None else lowered("interval", program.interval, "d")
    # Where every particle takes its own steps, those of a block wait for the slowest one.
    most_lanes = most_lanes if program.left is None else LEAST_LANES
    return _Layout(program, interval, sections, step, sample, moments, most_lanes).plan()


class _Layout:
    """Places of a lane's values in the work array, and the code around them."""

    def __init__(
        self,
        program: LaneProgram,
        interval: Statements | None,
        sections: list[Statements],
        step: Statements,
        sample: Statements,
        moments: Statements | None,
        most_lanes: int,
    ) -> None:
        self.program, self.interval, self.step, self.sample = program, interval, step, sample
        self.moments, self.sections = moments, sections
        self.n_state = program.state.numel()
        self.n_theta = program.theta.numel() + program.constants.numel()
        self.n_emitted = program.emitted.numel()
        values = [Value("m", k, Level.LANE) for k in range(self.n_state)]
        values += [Value("p", k, Level.PARTICLE) for k in range(self.n_theta)]
        graphs = [graph for graph in (interval, *sections, step, sample) if graph is not None]
        self.hoisted = [pair for graph in graphs for pair in graph.by_level[Level.PARTICLE]]
        needed = {value for graph in graphs for value in graph.read(Level.LANE)}
        values += [s.target for s in self.hoisted if s.target in needed]
        self.memory_slot = len(values)
        values += [Value(MEMORY, k, Level.LANE) for k in range(program.memory.numel())]
        self.slot = {value: slot for slot, value in enumerate(values)}
        self.emit_slot = len(self.slot)
        self.totals_slot = self.emit_slot + self.n_emitted
        self.moments_slot = self.totals_slot + self.n_emitted
        self.slots = self.moments_slot + program.moments.numel()
        self.most_lanes = most_lanes

    def plan(self) -> Plan:
        """Make the blocks."""
        program, blocks = self.program, {"start": self._start()}
        in_lanes = {"hoist": hoisted_block(self.hoisted, self.slot)}
        for name, graph in (
            ("step", self.step),
            ("sample", self.sample),
            ("interval", self.interval),
        ):
            if graph is not None:
                shared = shared_block(graph)
                if name == "step":
                    blocks["once_shared"], shared = of_interval(shared)
                blocks[f"{name}_shared"] = shared
                in_lanes[name] = (
                    self._sample(shared) if name == "sample" else self._update(graph, shared)
                )
        for k, (graph, section) in enumerate(zip(self.sections, program.sections, strict=True)):
            shared, into = shared_block(graph), (self.memory_slot + p for p in section.places)
            blocks[f"section{k}_shared"] = shared
            in_lanes[f"section{k}"] = self._made(
                graph, shared, zip(into, graph.outputs, strict=True)
            )
        passes = [section.passes for section in program.sections]
        loops, calls = loops_of(passes, self.memory_slot)
        if self.moments is not None:
            blocks["moments_shared"] = shared = shared_block(self.moments)
            in_lanes["moments"] = self._moments(shared)
        cut = {name: pieces(block, self.slots, LONG) for name, block in in_lanes.items()}
        slots = max(end for _, end in cut.values())
        # A constant trip count and whole vectors: every lane runs the same instructions,
        # wherever a particle sits, so results do not depend on the company.
        lanes = self.most_lanes
        while lanes > LEAST_LANES and slots * lanes * 8 > WORKING_SET:
            lanes //= 2
        return Plan(
            blocks=blocks,
            pieces={name: parts for name, (parts, _) in cut.items()},
            lanes=lanes,
            # A vector of more lanes than a row has would write over the next row.
            width=min(doubles(), lanes),
            n_state=self.n_state,
            n_theta=self.n_theta,
            n_start=program.start_row.numel(),
            n_emitted=self.n_emitted,
            n_moments=program.moments.numel(),
            n_outputs=program.n_outputs,
            emit_slot=self.emit_slot,
            totals_slot=self.totals_slot,
            moments_slot=self.moments_slot,
            slots=slots,
            widths=program.widths,
            window=program.window,
            parts=program.parts,
            left=program.left,
            loops=loops,
            passes=calls,
        )

    def _start(self) -> Block:
        """The first state, of parameters and a row."""
        theta = Vector(ca.vertcat(self.program.theta, self.program.constants), "p", Level.LANE)
        row = Vector(self.program.start_row, "r", Level.LANE)
        graph = lower(self.program.start, [theta, row], "c")
        return Block(
            arguments=elements(graph.read(Level.LANE), "pr"),
            statements=tuple(graph.by_level[Level.LANE]),
            stores=tuple(enumerate(graph.outputs)),
        )

    def _update(self, graph: Statements, shared: Block) -> Block:
        """The next state."""
        states = [Value("m", k, Level.LANE) for k in range(self.n_state)]
        outputs = zip(states, graph.outputs, strict=True)
        return self._made(
            graph, shared, ((self.slot[m], value) for m, value in outputs if value != m)
        )

    def _made(
        self, graph: Statements, shared: Block, stores: Iterable[tuple[int, Operand]]
    ) -> Block:
        """Block of a graph's statements."""
        return lane_block(graph, shared, self.slot, stores)

    def _sample(self, shared: Block) -> Block:
        """Numbers that a sample emits, and their sums over the samples."""
        outputs = self.sample.outputs
        emitted = self._made(self.sample, shared, enumerate(outputs, self.emit_slot))
        return with_sums(emitted, list(enumerate(outputs, self.totals_slot)), at_once=False)

    def _moments(self, shared: Block) -> Block:
        """Block of the mean and covariance that a sample yields beside its log density."""
        graph = self.moments
        assert graph is not None
        return self._made(graph, shared, enumerate(graph.outputs, self.moments_slot))


def lane_block(
    graph: Statements,
    shared: Block,
    slot: Mapping[Value, int],
    stores: Iterable[tuple[int, Operand]],
) -> Block:
    """Block of a graph's statements in each lane, of the slots of the values that they read."""
    read = graph.read(Level.LANE)
    return Block(
        arguments=only_values(shared.results),
        loads=tuple(pair for pair in slot.items() if pair[0] in read),
        statements=tuple(graph.by_level[Level.LANE]),
        stores=tuple(stores),
    )


def with_sums(block: Block, added: Sequence[tuple[int, Operand]], at_once: bool = True) -> Block:
    """The block, which adds operands to what is in slots, at once or at its end."""
    before = [Value("before", place, Level.LANE) for place, _ in added]
    sums = [Value("sum", place, Level.LANE) for place, _ in added]
    adding: dict[Operand, list[Statement]] = {}
    for total, value, (_, output) in zip(sums, before, added, strict=True):
        key = output if at_once else total
        adding.setdefault(key, []).append(Statement(total, "add", (value, output)))
    places = [place for place, _ in added]
    return replace(
        block,
        loads=(*block.loads, *zip(before, places, strict=True)),
        statements=_each_followed(block.statements, adding),
        stores=(*block.stores, *zip(places, sums, strict=True)),
    )


def _each_followed(
    statements: Sequence[Statement], following: dict[Operand, list[Statement]]
) -> tuple[Statement, ...]:
    """Statements with those that take the result of one right behind it, the others at the end."""
    found: list[Statement] = []
    for statement in statements:
        found += [statement, *following.pop(statement.target, [])]
    return (*found, *(statement for others in following.values() for statement in others))


def loops_of(
    passes: Iterable[Iterable[Pass]], memory_slot: int
) -> tuple[tuple[Loop, ...], tuple[tuple[LoopCall, ...], ...]]:
    """Loops of the passes of sections, each once, and their calls in every section."""
    numbers: dict[Any, int] = {}
    loops: list[Loop] = []

    def called(one: Pass) -> LoopCall:
        places = (*one.reads, *one.writes)
        key = one.function, *(place.move for place in places)
        if key not in numbers:
            numbers[key] = len(loops)
            loops.append(_loop(one))
        return LoopCall(numbers[key], tuple(memory_slot + p.first for p in places), one.turns)

    calls = tuple(tuple(map(called, own)) for own in passes)
    return tuple(loops), calls


def _loop(one: Pass) -> Loop:
    """A pass as a loop whose arguments and results are arrays."""
    given = one.function.sx_in()
    vectors = [Vector(x, f"x{k}_", Level.LANE) for k, x in enumerate(given)]
    graph = lower(one.function(*given), vectors, "y")
    read, n = graph.read(Level.LANE), len(given)
    loads = [
        (value, k * ARRAY + i, place.move)
        for k, place in enumerate(one.reads)
        for i in range(place.length)
        if (value := Value(f"x{k}_", i, Level.LANE)) in read
    ]
    results = [
        ((n + k) * ARRAY + i, place.move)
        for k, place in enumerate(one.writes)
        for i in range(place.length)
    ]
    return Loop(
        Block(
            loads=tuple((value, slot) for value, slot, _ in loads),
            statements=tuple(graph.by_level[Level.LANE]),
            stores=tuple((slot, o) for (slot, _), o in zip(results, graph.outputs, strict=True)),
        ),
        (1, 1),
        tuple((0, move) for _, _, move in loads),
        tuple((0, move) for _, move in results),
    )


def hoisted_block(statements: Sequence[Statement], slot: Mapping[Value, int]) -> Block:
    """Statements of parameters only, computed once per particle, with the slots of values."""
    read = {operand for statement in statements for operand in statement.operands}
    return Block(
        loads=tuple((v, place) for v, place in slot.items() if v.vector == "p" and v in read),
        statements=tuple(statements),
        stores=tuple((slot[s.target], s.target) for s in statements if s.target in slot),
    )


def shared_block(graph: Statements) -> Block:
    """Statements that run once for all lanes, of the elements of shared vectors they take."""
    arguments = elements(graph.read(Level.SHARED, Level.LANE), SHARED_VECTORS)
    in_lanes = graph.read(Level.LANE)
    known = [*arguments, *(s.target for s in graph.by_level[Level.SHARED])]
    return Block(
        arguments=arguments,
        statements=tuple(graph.by_level[Level.SHARED]),
        results=tuple(value for value in known if value in in_lanes),
    )


def of_interval(shared: Block) -> tuple[Block, Block]:
    """Shared statements of a step that all steps of an interval have in common, and the rest."""
    found: dict[bool, list[Statement]] = {False: [], True: []}
    changing: set[Operand] = {v for v in shared.arguments if v.vector in "rg" or str(v) == "i0"}
    for statement in shared.statements:
        changes = not changing.isdisjoint(statement.operands)
        found[changes].append(statement)
        if changes:
            changing.add(statement.target)
    needed = {o for s in found[True] for o in s.operands} | set(shared.results)
    known = [*shared.arguments, *(s.target for s in found[False])]
    fixed = tuple(v for v in known if v not in changing and v in needed)
    once = Block(
        arguments=tuple(v for v in shared.arguments if v not in changing),
        statements=tuple(found[False]),
        results=fixed,
    )
    own = tuple(v for v in shared.arguments if v in changing)
    step = Block(arguments=(*own, *fixed), statements=tuple(found[True]), results=shared.results)
    return once, step


def elements(read: Iterable[Operand], vectors: str) -> tuple[Value, ...]:
    """Return the elements of the named vectors among operands, by vector and then by index."""
    own = [value for value in only_values(read) if value.vector in tuple(vectors)]
    return tuple(sorted(own, key=lambda value: (vectors.index(value.vector), value.index)))


def only_values(operands: Iterable[Operand]) -> tuple[Value, ...]:
    """Operands that are no literals."""
    return tuple(operand for operand in operands if isinstance(operand, Value))
