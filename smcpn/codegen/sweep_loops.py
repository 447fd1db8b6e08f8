"""Write the loops of a reverse pass around its blocks of statements, as one LLVM module.

A block of lanes runs through the samples of a segment and keeps the state before every interval and
step on a *tape*, then goes back over it:

Particles that choose their steps by themselves have the states at the samples on the tape alone.
On the way back an interval is run through once more, with the states before its last steps in a
*ring*, and again as far as the first of these where it had more.

    for each block of LANES particles:
        for each sample, for each of its steps:
            state after the step -> tape
        for each sample, from the last:
            add the sample's derivatives to those of the state and of the numbers of a particle
            for each of its steps, from the last:
                state before the step <- tape
                derivatives by the state after it -> by the state before it
                add its derivatives by the numbers of a particle
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from smcpn.codegen.elementary import FUNCTIONS
from smcpn.codegen.long_blocks import Loop
from smcpn.codegen.loops import (
    ARRAY,
    FAST,
    INTEGER,
    MOST_ATTEMPTS,
    NUMBERS,
    Function,
    KernelPlan,
    LoopCall,
    Shared,
    SharedPlaces,
    attempts,
    copies,
    loop_functions,
    number,
    run_lanes,
    run_loop,
)
from smcpn.codegen.machine_code import Block
from smcpn.codegen.terms import DOUBLE, vector

SWEEP_ARGUMENTS = {
    "numbers": NUMBERS, "particles": INTEGER, "state": NUMBERS, "adjoint": NUMBERS,
    "slopes": NUMBERS, "totals": NUMBERS, "rows": INTEGER.as_pointer(), "first": INTEGER,
    "last": INTEGER, "first_block": INTEGER,
    "last_block": INTEGER, "work": NUMBERS, "tape": NUMBERS, "ring": NUMBERS, "places": INTEGER,
}  # fmt: skip
"""What `sweep` is called with."""

OF_A_FUNCTION = 10
"""Operations of an elementary function."""
WORK, HERE, NEXT = 0, ARRAY, 2 * ARRAY
"""First slots of the work array, of the state on the tape, and of that after it."""


Piece = Block | Loop | LoopCall
_Known = list[tuple[ir.Function, list[Any]]]
"""Functions in their order with the shared values that they take."""


@dataclass(frozen=True)
class SweepPlan(KernelPlan):
    """A reverse pass: forward ``interval``, ``section0`` and so on, ``step``, and back again.

    Those of the way back are named with ``_back``, ``sample_back`` among them.

    n_kept: Numbers on the tape that are a state, and what is kept of the step from it.
    n_numbers, n_slopes: Of ``n_numbers`` the first ``n_slopes`` move.
    adjoint_slot, slopes_slot, total_slot: First slots of the derivatives by state and numbers and
        of the sum of what is emitted.
    """

    n_kept: int
    n_numbers: int
    n_slopes: int
    adjoint_slot: int
    slopes_slot: int
    total_slot: int
    sections: int

    @property
    def cost(self) -> float:
        """Operations of a sum and its gradient over those of the sum alone, about.

        Statements, and backwards what is read from memory and written there besides.
        """
        ahead, back = 0, 0
        for name, parts in self.pieces.items():
            for part in parts:
                statements, moved = self._operations(part)
                if name.endswith("_back"):
                    back += statements + moved
                else:
                    ahead += statements
        return 1.0 + back / max(ahead, 1) + (2.0 if self.left is not None else 0.0)

    def _operations(self, piece: Piece) -> tuple[int, int]:
        """Operations of a piece, and what it reads from memory and writes there."""
        if isinstance(piece, LoopCall):
            operations, moved = self._operations(self.loops[piece.loop])
            return piece.turns * operations, piece.turns * moved
        if isinstance(piece, Loop):
            block, turns = piece.block, piece.turns[0] * piece.turns[1]
            loads = sum(inner != 0 for _, inner in piece.load_moves)
        else:
            block, turns, loads = piece, 1, len(piece.loads)
        operations = (OF_A_FUNCTION if s.operation in FUNCTIONS else 1 for s in block.statements)
        return turns * sum(operations), turns * (loads + len(block.stores))

    def parts_of(self, name: str) -> list[str]:
        """Names of the pieces that make up a step, an interval or a sample."""
        sections = [f"section{k}" for k in range(self.sections)]
        if name == "step":
            return [*sections, name]
        if name == "step_back":
            # What they leave in memory is computed once more.
            return [*sections, name, *(f"{section}_back" for section in reversed(sections))]
        return [name]

    @property
    def begun(self) -> int:
        """States of an interval on the tape besides those of its steps."""
        return self.parts * int("interval" in self.pieces)


def write_sweep(module: ir.Module, plan: SweepPlan) -> None:
    """Write ``sweep``: a segment forward and back, a block of lanes after the other."""
    made = Function(module, "sweep", SWEEP_ARGUMENTS)
    _Sweep(module, made, plan).write()
    made.finish(FAST)


class _Sweep:
    def __init__(self, module: ir.Module, made: Function, plan: SweepPlan) -> None:
        self._module, self._made, self._plan = module, made, plan
        self._functions: dict[str, ir.Function] = {}
        self._gather = copies(module, "gather", plan.lanes, into_lanes=True)
        self._scatter = copies(module, "scatter", plan.lanes, into_lanes=False)
        # The state is at hand at the sample before the first, or at the first of all.
        self._origin = made.sum(self._larger(made["first"], number(1)), number(-1))
        self._places = SharedPlaces(made, made["rows"], plan.widths, plan.window, plan.parts)
        self._before = self._places.begin(self._origin)
        self._run_pass = loop_functions(module, plan.loops, plan.lanes, plan.width)
        self._size = number(plan.n_kept * plan.lanes)

    def write(self) -> None:
        """Write all blocks of particles."""
        made, plan = self._made, self._plan
        particles = made["particles"]
        kept = (
            ("adjoint", plan.adjoint_slot, plan.n_state),
            ("slopes", plan.slopes_slot, plan.n_slopes),
            ("totals", plan.total_slot, 1),
        )
        with made.loop(made["first_block"], made["last_block"]) as block:
            base = made.times(block, number(plan.lanes))
            live = made.smaller(number(plan.lanes), made.builder.sub(particles, base))
            place = (particles, base, live)
            self._gather(made, made["tape"], made["state"], number(plan.n_state), *place)
            self._gather(made, self._slots(0), made["numbers"], number(plan.n_numbers), *place)
            for name, slot, size in kept:
                self._gather(made, self._slots(slot), made[name], number(size), *place)
            run_lanes(made, plan.blocks["hoist_lane"], plan.lanes, plan.width)
            self._forward()
            self._back()
            for name, slot, size in kept:
                self._scatter(made, self._slots(slot), made[name], number(size), *place)

    def _forward(self) -> None:
        made, places = self._made, self._places
        first = made.sum(self._origin, number(1))
        with made.loop(first, made["last"]) as sample, places.each_part() as part:
            begin, end = places.steps(sample, part)
            if self._plan.begun:
                at = places.of_interval(sample, part)
                here = self._on_tape(self._place_after(begin, sample, part, begun=0))
                self._run(self._known("interval", at), here, self._after(here))
            with made.loop(begin, end) as step:
                known = self._known("step", places.of_step(sample, step, begin, end, part))
                here = self._on_tape(self._place_after(step, sample, part))
                if self._plan.left is None:
                    self._run(known, here, self._after(here))
                else:
                    count = self._in_ring(known, here, number(MOST_ATTEMPTS))
                    self._copy(self._on_ring(count), self._after(here))

    def _back(self) -> None:
        made, builder, places = self._made, self._made.builder, self._places
        with made.loop(made["first"], made["last"]) as count:
            sample = self._mirrored(count, made["first"], made["last"])
            end_of_tape = self._place(places.begin(sample), made.times(sample, self._begun))
            at_sample = self._known("sample_back", places.of_sample(sample))
            self._run(at_sample, self._on_tape(end_of_tape))
            positive = builder.icmp_signed(">", sample, number(0))
            with made.where(positive), places.each_part(back=True) as part:
                begin, end = places.steps(sample, part)
                with made.loop(begin, end) as place:
                    step = self._mirrored(place, begin, end)
                    at = places.of_step(sample, step, begin, end, part)
                    here = self._on_tape(self._place_after(step, sample, part))
                    back = self._known("step_back", at)
                    if self._plan.left is None:
                        self._run(back, here)
                    else:
                        self._back_from_ring(self._known("step", at), back, here)
                if self._plan.begun:
                    at = self._known("interval_back", places.of_interval(sample, part))
                    state = self._place_after(begin, sample, part, begun=0)
                    self._run(at, self._on_tape(state))

    def _in_ring(self, known: _Known, here: Any, most: Any) -> Any:
        """Write the steps of an interval from a state on the tape; returns their number."""
        made, plan = self._made, self._plan
        left = number((plan.left or 0) * plan.lanes)
        self._copy(here, made["ring"])
        with attempts(
            made, plan.lanes, plan.width, most, lambda k: made.at(self._on_ring(k), left)
        ) as k:
            self._run(known, self._on_ring(k), self._on_ring(made.sum(k, number(1))))
        return k

    def _back_from_ring(self, ahead: _Known, back: _Known, here: Any) -> None:
        """Write the way back over the steps of an interval, as many at once as the ring holds."""
        made, builder = self._made, self._made.builder
        again, done, before = (
            builder.append_basic_block(), builder.append_basic_block(), builder.block,
        )  # fmt: skip
        builder.branch(again)
        builder.position_at_end(again)
        most = builder.phi(INTEGER)
        most.add_incoming(number(MOST_ATTEMPTS), before)
        count = self._in_ring(ahead, here, most)
        kept = builder.sub(made["places"], number(1))
        first = self._larger(builder.sub(count, kept), number(0))
        with made.loop(first, count) as k:
            self._run(back, self._on_ring(self._mirrored(k, first, count)))
        most.add_incoming(first, builder.block)
        builder.cbranch(builder.icmp_signed(">", first, number(0)), again, done)
        builder.position_at_end(done)

    def _known(self, name: str, places: Mapping[str, Any]) -> _Known:
        """Functions of a name with what they take of shared vectors, whose names have places."""
        made, plan, known = self._made, self._plan, []
        for part in plan.parts_of(name):
            shared = Shared(made, plan.blocks[f"{part}_shared"], places)
            if part not in self._functions:
                self._functions[part] = self._function(part, shared)
            known.append((self._functions[part], list(shared.values.values())))
        return known

    def _function(self, part: str, shared: Shared) -> ir.Function:
        """Define a function of pieces, of addresses of work, the state and the next, and values."""
        plan, names = self._plan, {value: f"shared{k}" for k, value in enumerate(shared.values)}
        given = {"work": NUMBERS, "here": NUMBERS, "after": NUMBERS}
        given |= dict.fromkeys(names.values(), DOUBLE)
        made = Function(self._module, part, given, called=True)
        arrays = [made[name] for name in ("work", "here", "after")]
        shared = shared.known_as({value: made[name] for value, name in names.items()})
        for piece in plan.pieces[part]:
            if isinstance(piece, LoopCall):
                self._run_pass(made, piece)
            elif isinstance(piece, Loop):
                run_loop(made, piece, plan.lanes, plan.width, shared.of(piece.block), arrays)
            else:
                run_lanes(made, piece, plan.lanes, plan.width, shared.of(piece), arrays)
        made.finish(FAST)
        return made.function

    def _run(self, known: _Known, here: Any, after: Any = None) -> None:
        """Write calls with the state at an address, which put the next one at another."""
        places = [self._made["work"], here, here if after is None else after]
        for function, shared in known:
            self._made.builder.call(function, [*places, *shared])

    def _on_tape(self, place: Any) -> Any:
        return self._made.at(self._made["tape"], self._made.times(place, self._size))

    def _on_ring(self, step: Any) -> Any:
        made = self._made
        place = made.builder.urem(step, made["places"])
        return made.at(made["ring"], made.times(place, self._size))

    def _after(self, here: Any) -> Any:
        return self._made.at(here, self._size)

    def _copy(self, source: Any, target: Any) -> None:
        made, plan = self._made, self._plan
        kind = vector(DOUBLE, plan.width).as_pointer()
        with made.loop(number(0), number(plan.n_state * plan.lanes), plan.width) as k:
            pair = (made.builder.bitcast(made.at(of, k), kind) for of in (source, target))
            given, place = pair
            made.builder.store(made.builder.load(given, align=8), place, align=8)

    @property
    def _begun(self) -> Any:
        return number(self._plan.begun)

    def _place_after(self, steps: Any, sample: Any, part: Any, begun: int = 1) -> Any:
        """Place on the tape of the state in the interval that leads to a sample, or in its part.

        Before the beginning of this interval or part where ``begun`` is 0.
        """
        made, before = self._made, self._made.sum(sample, number(-1))
        parts = made.times(before, self._begun)
        if self._plan.begun:
            parts = made.sum(parts, number(begun), *([] if part is None else [part]))
        return self._place(steps, parts)

    def _place(self, steps: Any, begun: Any) -> Any:
        """Place on the tape of the state after so many steps and beginnings of parts."""
        made, builder = self._made, self._made.builder
        begun = builder.sub(begun, made.times(self._origin, self._begun))
        return made.sum(builder.sub(steps, self._before), begun)

    def _slots(self, first: int) -> Any:
        return self._made.at(self._made["work"], number(first * self._plan.lanes))

    def _mirrored(self, index: Any, begin: Any, end: Any) -> Any:
        """Index as far from the end of a range as it is from its beginning."""
        made = self._made
        return made.builder.sub(made.sum(begin, end, number(-1)), index)

    def _larger(self, left: Any, right: Any) -> Any:
        builder = self._made.builder
        return builder.select(builder.icmp_signed(">", left, right), left, right)
