"""Lay out the values of a reverse pass in lanes, and divide its statements into blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import casadi as ca

from smcpn.codegen.adjoint import LAYERS, taped, transposed
from smcpn.codegen.emit import (
    LEAST_LANES,
    WORKING_SET,
    hoisted_block,
    only_values,
    shared_block,
)
from smcpn.codegen.lower import (
    LaneProgram,
    Level,
    Literal,
    Operand,
    Statement,
    Statements,
    Value,
    Vector,
    lower,
)
from smcpn.codegen.machine_code import Block
from smcpn.codegen.pieces import pieces
from smcpn.codegen.rolled import Loop, rolled
from smcpn.codegen.sweep_loops import HERE, NEXT, SweepPlan
from smcpn.codegen.terms import doubles

MOST_LANES = 16
"""Of a reverse pass. A block that is not full costs as much as a full one."""
_ADJOINT, _TAPED = "l", "z"


def sweep_plan(program: LaneProgram) -> SweepPlan:
    """Return the plan of the reverse pass of what a program emits first.

    Its ``theta`` are numbers that a particle computes once, see `smcpn.codegen.adjoint.hoisted`.
    """
    return _Layout(program).plan()


class _Layout:
    """Places of a lane's values in the work array and on the tape."""

    def __init__(self, program: LaneProgram) -> None:
        self._program = program
        self._adjoint = ca.SX.sym("adjoint", program.state.numel(), 1)
        self._numbers = ca.vertcat(program.theta, program.constants)
        graphs = {"step": program.step}
        if program.interval is not None:
            graphs["interval"] = program.interval
        emitted, one = program.emitted[0], ca.SX(1.0)
        sample = ca.vertcat(emitted, self._transposed(emitted, one, keep=True))
        self._forward, self._back = dict[str, Statements](), dict[str, Statements]()
        self._n_taped, none = 0, ca.SX(0, 1)
        moving = ca.vertcat(program.state, program.theta)
        for name, graph in graphs.items():
            back = self._transposed(graph, self._adjoint)
            kept, values, back = taped(graph, back, moving)
            self._n_taped = max(self._n_taped, kept.numel())
            self._forward[name] = self._lowered(ca.vertcat(graph, values), name, "", none)
            self._back[name] = self._lowered(back, name, "_back", kept)
        self._back["sample"] = self._lowered(sample, "sample", "_back", none)
        self._assign()

    def _transposed(self, graph: ca.SX, weights: ca.SX, keep: bool = False) -> ca.SX:
        """Derivatives by state and numbers; added to those by the state where they are kept."""
        state, theta = self._program.state, self._program.theta
        by_state, by_numbers = transposed(graph, [state, theta], weights)
        return ca.vertcat(by_state + self._adjoint if keep else by_state, by_numbers)

    def _lowered(self, graph: ca.SX, part: str, direction: str, kept: ca.SX) -> Statements:
        graph, shared = self._program.raw(part, graph)
        vectors = [
            Vector(self._numbers, "p", Level.PARTICLE),
            Vector(self._program.state, "m", Level.LANE),
            Vector(self._adjoint, _ADJOINT, Level.LANE),
            Vector(kept, _TAPED, Level.LANE),
            *shared,
        ]
        return lower(graph, vectors, f"{part}{direction}_")

    def _assign(self) -> None:
        """Give every value that lasts a slot."""
        program = self._program
        graphs = [*self._forward.values(), *self._back.values()]
        self._hoisted = [pair for graph in graphs for pair in graph.by_level[Level.PARTICLE]]
        needed = {value for graph in graphs for value in graph.read(Level.LANE)}
        values = [Value("p", k, Level.PARTICLE) for k in range(self._numbers.numel())]
        values += [s.target for s in self._hoisted if s.target in needed]
        self._slot = {value: slot for slot, value in enumerate(values)}
        self._adjoint_slot = len(values)
        self._slopes_slot = self._adjoint_slot + program.state.numel()
        self._total_slot = self._slopes_slot + program.theta.numel()
        self._slots = self._total_slot + 1
        for k in range(program.state.numel()):
            self._slot[Value("m", k, Level.LANE)] = HERE + k
            self._slot[Value(_ADJOINT, k, Level.LANE)] = self._adjoint_slot + k
        for k in range(self._n_taped):
            self._slot[Value(_TAPED, k, Level.LANE)] = HERE + program.state.numel() + k

    def plan(self) -> SweepPlan:
        """Make the blocks."""
        program, blocks, cut = (
            self._program,
            {"hoist_lane": hoisted_block(self._hoisted, self._slot)},
            dict[str, Sequence[Block | Loop]](),
        )
        slots = self._slots
        layered = self._n_taped >= LAYERS

        def parts(block: Block) -> tuple[Sequence[Block | Loop], int]:
            return (rolled if layered else pieces)(block, self._slots)

        for name, graph in self._forward.items():
            blocks[f"{name}_shared"] = shared = shared_block(graph)
            cut[name], end = parts(self._ahead(graph, shared))
            slots = max(slots, end)
        for name, graph in self._back.items():
            blocks[f"{name}_back_shared"] = shared = shared_block(graph)
            lane = self._returning(graph, shared, first=int(name == "sample"))
            cut[f"{name}_back"], end = parts(lane)
            slots = max(slots, end)
        # The code of loops stays in the cache: one vector is enough to run it on.
        lanes, least = MOST_LANES, max(doubles(), 4) if layered else LEAST_LANES
        while lanes > least and slots * lanes * 8 > WORKING_SET:
            lanes //= 2
        return SweepPlan(
            blocks=blocks,
            pieces=cut,
            lanes=lanes,
            width=doubles(),
            n_state=program.state.numel(),
            n_kept=program.state.numel() + self._n_taped,
            n_numbers=self._numbers.numel(),
            n_slopes=program.theta.numel(),
            adjoint_slot=self._adjoint_slot,
            slopes_slot=self._slopes_slot,
            total_slot=self._total_slot,
            slots=slots,
            widths=program.widths,
            window=program.window,
        )

    def _ahead(self, graph: Statements, shared: Block) -> Block:
        """The next state, in the next place on the tape, and what is kept at this one."""
        read, n = graph.read(Level.LANE), self._program.state.numel()
        places = [*range(NEXT, NEXT + n), *range(HERE + n, HERE + len(graph.outputs))]
        return Block(
            arguments=only_values(shared.results),
            loads=self._loads(value for value in self._slot if value in read),
            statements=tuple(graph.by_level[Level.LANE]),
            stores=tuple(zip(places, graph.outputs, strict=True)),
        )

    def _returning(self, graph: Statements, shared: Block, first: int) -> Block:
        """Derivatives by what was before; those by the numbers add up, as ``first`` outputs do."""
        read, outputs = graph.read(Level.LANE), graph.outputs
        after = first + self._program.state.numel()
        places = [self._total_slot] * first
        places += range(self._adjoint_slot, self._adjoint_slot + len(outputs) - first)
        summed = [
            (place, output)
            for k, (place, output) in enumerate(zip(places, outputs, strict=True))
            if (k < first or k >= after) and output != Literal(0.0)
        ]
        before = [Value("before", place, Level.LANE) for place, _ in summed]
        sums = [Value("sum", place, Level.LANE) for place, _ in summed]
        adding: dict[Operand, list[Statement]] = {}
        for total, value, (_, output) in zip(sums, before, summed, strict=True):
            adding.setdefault(output, []).append(Statement(total, "add", (value, output)))
        adjoint = zip(places[first:after], outputs[first:after], strict=True)
        return Block(
            arguments=only_values(shared.results),
            loads=(
                *self._loads(value for value in self._slot if value in read),
                *((value, place) for value, (place, _) in zip(before, summed, strict=True)),
            ),
            statements=_each_followed(graph.by_level[Level.LANE], adding),
            stores=(
                *((place, output) for place, output in adjoint),
                *((place, total) for total, (place, _) in zip(sums, summed, strict=True)),
            ),
        )

    def _loads(self, values: Iterable[Value]) -> tuple[tuple[Value, int], ...]:
        return tuple((value, self._slot[value]) for value in values)


def _each_followed(
    statements: list[Statement], following: dict[Operand, list[Statement]]
) -> tuple[Statement, ...]:
    """Statements with those that take the result of one right behind it, the others at the end."""
    found: list[Statement] = []
    for statement in statements:
        found += [statement, *following.pop(statement.target, [])]
    return (*found, *(statement for others in following.values() for statement in others))
