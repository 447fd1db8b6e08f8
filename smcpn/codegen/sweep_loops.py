"""Write the loops of a reverse pass around its blocks of statements, as one LLVM module.

A block of lanes runs through the samples of a segment and keeps the state before every interval and
step on a *tape*, then goes back over it:

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from llvmlite import ir

from smcpn.codegen.elementary import FUNCTIONS
from smcpn.codegen.long_blocks import Loop
from smcpn.codegen.loops import (
    ARRAY,
    FAST,
    INTEGER,
    NUMBERS,
    Function,
    Shared,
    SharedPlaces,
    copies,
    number,
    run_lanes,
    run_loop,
)
from smcpn.codegen.machine_code import Block

SWEEP_ARGUMENTS = {
    "numbers": NUMBERS, "particles": INTEGER, "state": NUMBERS, "adjoint": NUMBERS,
    "slopes": NUMBERS, "totals": NUMBERS, "rows": INTEGER.as_pointer(), "first": INTEGER,
    "last": INTEGER, "first_block": INTEGER,
    "last_block": INTEGER, "work": NUMBERS, "tape": NUMBERS,
}  # fmt: skip
"""What `sweep` is called with."""

OF_A_FUNCTION = 10
"""Operations of an elementary function."""
WORK, HERE, NEXT = 0, ARRAY, 2 * ARRAY
"""First slots of the work array, of the state on the tape, and of that after it."""


@dataclass(frozen=True)
class SweepPlan:
    """A reverse pass as blocks of statements, and where its values are in the work array.

    Attributes
    ----------
    blocks : dict of str to Block
        What runs once for all lanes, of each of ``pieces`` (``_shared``), and ``hoist_lane``.
    pieces : dict of str to list of Block and Loop
        What runs in each lane: forward ``interval`` and ``step``, and backward ``sample_back``,
        ``interval_back`` and ``step_back``.
    lanes, width : int
        Particles of a block, and how many of them one instruction runs.
    n_state, n_kept : int
        Numbers on the tape that are a state, and with what is kept of the step from it.
    n_numbers, n_slopes : int
        Of ``n_numbers`` the first ``n_slopes`` move.
    adjoint_slot, slopes_slot, total_slot, slots : int
        First slots of the derivatives by state and numbers and of the sum of what is emitted,
        and the number of all.
    widths : dict of str to int
        See `LaneProgram.widths`.
    window, parts : int
        See `LaneProgram`.
    """

    blocks: dict[str, Block]
    pieces: dict[str, Sequence[Block | Loop]]
    lanes: int
    width: int
    n_state: int
    n_kept: int
    n_numbers: int
    n_slopes: int
    adjoint_slot: int
    slopes_slot: int
    total_slot: int
    slots: int
    widths: dict[str, int]
    window: int
    parts: int

    @property
    def text(self) -> str:
        """All that the machine code depends on, but for the modules that write it."""
        sizes = {field.name: getattr(self, field.name) for field in fields(self)[2:]}
        blocks = [f"{name}{block}" for name, block in self.blocks.items()]
        blocks += [f"{name}{block}" for name, part in self.pieces.items() for block in part]
        return f"sweep {sizes}\n" + "\n".join(blocks)

    @property
    def cost(self) -> float:
        """Operations of a sum and its gradient over those of the sum alone, about.

        Statements, and backwards what is read from memory and written there besides.
        """
        ahead, back = 0, 0
        for name, parts in self.pieces.items():
            for part in parts:
                block, loop = (part.block, part) if isinstance(part, Loop) else (part, None)
                turns = loop.turns[0] * loop.turns[1] if loop else 1
                loads = (
                    sum(inner != 0 for _, inner in loop.load_moves) if loop else len(block.loads)
                )
                statements = sum(
                    OF_A_FUNCTION if s.operation in FUNCTIONS else 1 for s in block.statements
                )
                if name.endswith("_back"):
                    back += turns * (statements + loads + len(block.stores))
                else:
                    ahead += turns * statements
        return 1.0 + back / ahead

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
        self._made, self._plan = made, plan
        self._gather = copies(module, "gather", plan.lanes, into_lanes=True)
        self._scatter = copies(module, "scatter", plan.lanes, into_lanes=False)
        # The state is at hand at the sample before the first, or at the first of all.
        self._origin = made.sum(self._larger(made["first"], number(1)), number(-1))
        self._places = SharedPlaces(made, made["rows"], plan.widths, plan.window, plan.parts)
        self._before = self._places.begin(self._origin)

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
                self._run("interval", self._place_after(begin, sample, part, begun=0), at)
            with made.loop(begin, end) as step:
                at = places.of_step(sample, step, begin, end, part)
                self._run("step", self._place_after(step, sample, part), at)

    def _back(self) -> None:
        made, builder, places = self._made, self._made.builder, self._places
        with made.loop(made["first"], made["last"]) as count:
            sample = self._mirrored(count, made["first"], made["last"])
            end_of_tape = self._place(places.begin(sample), made.times(sample, self._begun))
            self._run("sample_back", end_of_tape, places.of_sample(sample))
            positive = builder.icmp_signed(">", sample, number(0))
            with made.where(positive), places.each_part(back=True) as part:
                begin, end = places.steps(sample, part)
                with made.loop(begin, end) as place:
                    step = self._mirrored(place, begin, end)
                    at = places.of_step(sample, step, begin, end, part)
                    self._run("step_back", self._place_after(step, sample, part), at)
                if self._plan.begun:
                    at = places.of_interval(sample, part)
                    self._run("interval_back", self._place_after(begin, sample, part, begun=0), at)

    def _run(self, name: str, state: Any, places: Mapping[str, Any]) -> None:
        """Write a block on the state at a place of the tape, and shared vectors by their names."""
        made, plan = self._made, self._plan
        size = number(plan.n_kept * plan.lanes)
        here = made.at(made["tape"], made.times(state, size))
        arrays = [made["work"], here, made.at(here, size)]
        shared = Shared(made, plan.blocks[f"{name}_shared"], places)
        for piece in plan.pieces[name]:
            if isinstance(piece, Loop):
                of_block = shared.of(piece.block)
                run_loop(made, piece, plan.lanes, plan.width, of_block, arrays)
            else:
                run_lanes(made, piece, plan.lanes, plan.width, shared.of(piece), arrays)

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
