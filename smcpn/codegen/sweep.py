"""Gradient of the sum of what a `LaneProgram` emits first, at a cost that no parameter adds to.

Reverse differentiation over time (Griewank and Walther, Evaluating Derivatives, 2008, ch. 12): the
states of a segment of samples are kept on a tape, from which the derivatives by the state are taken
back, step by step; those of the parameters add up on the way. Of a record that is longer than a
tape the states at the ends of the segments are kept, and each is run through once more.

`sweep_plan` lays its values out in lanes, and divides its statements into blocks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.adjoint import (
    LAYERS,
    HoistedRecursion,
    hoisted,
    passes_back,
    taped,
    transposed,
)
from smcpn.codegen.arrays import RowFunction
from smcpn.codegen.clock import compiling, count
from smcpn.codegen.emit import (
    LEAST_LANES,
    MEMORY,
    WORKING_SET,
    hoisted_block,
    lane_block,
    loops_of,
    shared_block,
    with_sums,
)
from smcpn.codegen.kernel import ALIGNED, LINE, CompiledKernel, Rows, address, aligned, run_blocks
from smcpn.codegen.long_blocks import PIECE, Loop, pieces, rolled
from smcpn.codegen.lower import (
    LaneProgram,
    Level,
    Literal,
    Statements,
    Value,
    Vector,
    lower,
)
from smcpn.codegen.machine_code import Block
from smcpn.codegen.memory import Section
from smcpn.codegen.native import Code, native_sweep
from smcpn.codegen.sweep_loops import HERE, NEXT, SWEEP_ARGUMENTS, Piece, SweepPlan
from smcpn.codegen.terms import doubles
from smcpn.model.expression import applied

MOST_LANES = 16
"""Of a reverse pass. A block that is not full costs as much as a full one."""
_ADJOINT, _TAPED, _MEMORY_ADJOINT = "l", "z", "v"


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
        # Behind those by the numbers in memory: whether there are any.
        size = program.memory.numel()
        self._memory_adjoint = ca.SX.sym("memory_adjoint", size + bool(size), 1)
        self._numbers = ca.vertcat(program.theta, program.constants)
        graphs = {"step": program.step}
        if program.interval is not None:
            graphs["interval"] = program.interval
        sample = ca.vertcat(
            program.emitted[0], *self._transposed(program.emitted[0], ca.SX(1.0))[:2]
        )
        self._forward, self._back = dict[str, Statements](), dict[str, Statements]()
        self._n_taped, none = 0, ca.SX(0, 1)
        moving = ca.vertcat(program.state, program.theta)
        for name, graph in graphs.items():
            by_state, by_numbers, by_memory = self._transposed(graph, program.moving(self._adjoint))
            back = ca.vertcat(by_state, by_numbers)
            if name == "step" and program.sections:
                back = ca.vertcat(back, by_memory, ca.sum1(ca.fabs(by_memory)))
            kept, values, back = taped(graph, back, moving)
            self._n_taped = max(self._n_taped, kept.numel())
            self._forward[name] = self._lowered(ca.vertcat(graph, values), name, "", none)
            self._back[name] = self._lowered(back, name, "_back", kept)
        self._back["sample"] = self._lowered(sample, "sample", "_back", none)
        for k, section in enumerate(program.sections):
            back = self._section_back(section)
            self._forward[f"section{k}"] = self._lowered(section.values, "step", f"{k}_", none)
            self._back[f"section{k}"] = self._lowered(back, "step", f"{k}_back", none)
        self._assign()

    def _transposed(self, graph: ca.SX, weights: ca.SX) -> list[ca.SX]:
        """Derivatives by state, numbers and memory."""
        program = self._program
        by = [program.moving(program.state), program.theta, program.memory]
        return transposed(graph, by, weights)

    def _section_back(self, section: Section) -> ca.SX:
        """Derivatives by state, numbers and memory by way of what a section keeps.

        Nothing comes of a step that is not taken, though its numbers may be none.
        """
        weights = self._memory_adjoint[list(section.places)]
        by = ca.vertcat(*self._transposed(section.values, weights))
        for k in by.sparsity().row():
            by[k] = applied("if_else_zero", [self._memory_adjoint[-1], by[k]])
        return by

    def _lowered(self, graph: ca.SX, part: str, direction: str, kept: ca.SX) -> Statements:
        graph, shared = self._program.raw(part, graph)
        vectors = [
            Vector(self._numbers, "p", Level.PARTICLE),
            Vector(self._program.state, "m", Level.LANE),
            Vector(self._adjoint, _ADJOINT, Level.LANE),
            Vector(kept, _TAPED, Level.LANE),
            Vector(self._program.memory, MEMORY, Level.LANE),
            Vector(self._memory_adjoint, _MEMORY_ADJOINT, Level.LANE),
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
        self._memory_slot = self._total_slot + 1
        self._memory_adjoint_slot = self._memory_slot + program.memory.numel()
        self._slots = self._memory_adjoint_slot + self._memory_adjoint.numel()
        for name, first, end in (
            (MEMORY, self._memory_slot, self._memory_adjoint_slot),
            (_MEMORY_ADJOINT, self._memory_adjoint_slot, self._slots),
        ):
            for k in range(end - first):
                self._slot[Value(name, k, Level.LANE)] = first + k
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
            dict[str, Sequence[Piece]](),
        )
        slots = self._slots
        layered = self._n_taped >= LAYERS

        def parts(block: Block) -> tuple[Sequence[Piece], int]:
            if layered:
                return rolled(block, self._slots)
            return pieces(block, self._slots, PIECE)

        for name, graph in self._forward.items():
            blocks[f"{name}_shared"] = shared = shared_block(graph)
            cut[name], end = parts(self._ahead(name, graph, shared))
            slots = max(slots, end)
        for name, graph in self._back.items():
            blocks[f"{name}_back_shared"] = shared = shared_block(graph)
            cut[f"{name}_back"], end = parts(self._returning(name, graph, shared))
            slots = max(slots, end)
        cut["step_back"] = [*self._cleared(), *cut["step_back"]]
        sections, size = program.sections, program.memory.numel()
        passes = [*(one.passes for one in sections), *passes_back(sections, size)]
        loops, calls = loops_of(passes, self._memory_slot)
        for k in range(len(sections)):
            cut[f"section{k}"] = [*cut[f"section{k}"], *calls[k]]
            back = f"section{k}_back"
            cut[back] = [*calls[len(sections) + k], *cut[back]]
        # The code of loops stays in the cache: one vector is enough to run it on.
        lanes = MOST_LANES if program.left is None else LEAST_LANES
        least = max(doubles(), 4) if layered else LEAST_LANES
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
            parts=program.parts,
            left=program.left,
            loops=loops,
            sections=len(sections),
        )

    def _ahead(self, name: str, graph: Statements, shared: Block) -> Block:
        """The next state, in the next place on the tape, and what is kept at this one.

        Of a section, what it keeps in memory.
        """
        n = self._program.state.numel()
        places = [*range(NEXT, NEXT + n), *range(HERE + n, HERE + len(graph.outputs))]
        if name.startswith("section"):
            section = self._program.sections[int(name.removeprefix("section"))]
            places = [self._memory_slot + place for place in section.places]
        return lane_block(graph, shared, self._slot, zip(places, graph.outputs, strict=True))

    def _returning(self, name: str, graph: Statements, shared: Block) -> Block:
        """Derivatives by what was before; those by the numbers add up, as what is emitted does.

        To those that a sample or a section finds, it adds all.
        """
        outputs, begin, end = graph.outputs, self._adjoint_slot, self._slopes_slot
        places = [self._total_slot] * int(name == "sample")
        places += range(begin, self._total_slot)
        memory = self._memory_adjoint_slot
        places += range(memory, memory + len(outputs) - len(places))
        replaced = {*range(begin, end), *range(memory, self._slots)}
        if name not in ("interval", "step"):
            replaced.clear()
        pairs = list(zip(places, outputs, strict=True))
        summed = [pair for pair in pairs if pair[0] not in replaced and pair[1] != Literal(0.0)]
        stored = [
            (place, output)
            for place, output in pairs
            if place in replaced and not (place >= memory and output == Literal(0.0))
        ]
        return with_sums(lane_block(graph, shared, self._slot, stored), summed)

    def _cleared(self) -> list[Loop]:
        """Zero in place of all derivatives by memory, most of which a step leaves so."""
        first, size = self._memory_adjoint_slot, self._memory_adjoint.numel()
        block = Block(stores=((first, Literal(0.0)),))
        return [Loop(block, (1, size), (), ((0, 1),))] if size else []


Array = NDArray[np.float64]

TAPE = 2**25
"""Bytes of a tape, of which every thread has one; one interval may need more.

Where particles choose their steps by themselves, half of it is the ring."""
FORWARD_STEPS = 4
"""Steps of a forward pass that take as long as one of a reverse pass, about."""


@dataclass(frozen=True)
class CompiledSweep:
    """The machine code of a reverse pass over the samples, which can be pickled."""

    code: Code
    sizes: SweepPlan

    @property
    def lanes(self) -> int:
        """Particles of a block."""
        return self.sizes.lanes

    def run(
        self,
        forward: CompiledKernel,
        theta: Array,
        numbers: Array,
        rows: Sequence[Rows],
        size: int | None = None,
    ) -> tuple[Array, Array, Array]:
        """Sum (N,) of what is emitted first over records, and its derivatives.

        forward: Of the same program; runs to the ends of the segments, with its constants and
            threads.
        theta: (p, N)
        numbers: (w, N), what the particles compute once, and the constants.
        rows: Of R records.
        size: States on a tape at most, and in a ring, by default as many as `TAPE` holds.

        Returns totals (N,); slopes (s, N): derivatives by the numbers, without the constants;
        adjoints (R, k, N): by the first state of each record.
        """
        n = theta.shape[1]
        totals, slopes = np.zeros(n), np.zeros((self.sizes.n_slopes, n))
        adjoints = np.zeros((len(rows), self.sizes.n_state, n))
        size = size or TAPE // (8 * self.sizes.n_kept * self.sizes.lanes)
        ring = 0 if self.sizes.left is None else max(2, size // 2)
        for record, adjoint in zip(rows, adjoints, strict=True):
            segments = self._segments(forward, theta, record, size - ring)
            for state, first, last in reversed(segments):
                arrays = (numbers, state, adjoint, slopes, totals)
                self._sweep(arrays, record, (first, last), ring, forward.threads)
        return totals, slopes, adjoints

    def _segments(
        self, forward: CompiledKernel, theta: Array, rows: Rows, size: int
    ) -> list[tuple[Array, int, int]]:
        """State before each segment of samples [first, last)."""
        state, found, first = forward.start(theta, rows), [], 0
        while True:
            last = self._end(rows, first, size)
            found.append((state, first, last))
            if last == len(rows):
                return found
            state, _, _ = forward.advance(theta, state, rows, first, last, False)
            first = last

    def _end(self, rows: Rows, first: int, size: int) -> int:
        """End of the segment from a sample on, of at least one, whose states a tape holds."""
        origin = max(first, 1) - 1
        needed = self._states(rows, origin, np.arange(origin, len(rows)))
        return max(first + 1, origin + int(np.searchsorted(needed, size, side="right")))

    def _states(self, rows: Rows, origin: int, samples: Any) -> Any:
        """States on the tape from a sample on up to others."""
        begun = self.sizes.begun * (samples - origin)
        return 1 + rows.begins[samples] - rows.begins[origin] + begun

    def _sweep(
        self,
        arrays: tuple[Array, ...],
        rows: Rows,
        samples: tuple[int, int],
        ring: int,
        threads: int | None,
    ) -> None:
        """Run a segment forward and back; ``adjoint``, ``slopes`` and ``totals`` change."""
        begin, sizes = time.perf_counter(), self.sizes
        n, blocks = arrays[0].shape[1], -(-arrays[0].shape[1] // sizes.lanes)
        states = int(self._states(rows, max(samples[0], 1) - 1, samples[1] - 1))
        place = sizes.n_kept * sizes.lanes

        def run(part: tuple[int, int]) -> None:
            work = np.empty(sizes.slots * sizes.lanes + ALIGNED)
            tape = aligned(_memory((states + ring) * place + ALIGNED))
            numbers, *others = map(address, arrays)
            self.code.function("sweep", len(SWEEP_ARGUMENTS))(
                numbers, n, *others, rows.address, *samples, *part, aligned(work), tape,
                tape + 8 * states * place, ring,
            )  # fmt: skip

        run_blocks(run, blocks, FORWARD_STEPS * states * n, threads)
        steps = int(rows.begins[samples[1] - 1] - rows.begins[max(samples[0], 1) - 1])
        count(time.perf_counter() - begin, steps * n)


class SweepKernel:
    """The compiled reverse pass of a program, with what is computed before and after it.

    program: Which ``reverses``.
    cost: See `SweepPlan.cost`.
    """

    def __init__(self, program: LaneProgram) -> None:
        with compiling():
            of_particle = hoisted(program)
            plan = sweep_plan(of_particle.program)
            self.cost = plan.cost
            self.compiled = CompiledSweep(native_sweep(plan), plan.sizes)
            self._compute(of_particle)

    def _compute(self, of_particle: HoistedRecursion) -> None:
        """Make what is computed once for a particle, or once for a record of it."""
        program, parameters = of_particle.program, of_particle.parameters
        known = ca.vertcat(parameters, program.constants)
        slopes = ca.SX.sym("slopes", program.theta.numel(), 1)
        adjoint = ca.SX.sym("adjoint", program.state.numel(), 1)
        (by_numbers,) = transposed(of_particle.numbers, [parameters], slopes)
        (by_start,) = transposed(program.start, [parameters], program.moving(adjoint))
        self._numbers = RowFunction(known, ca.vertcat(of_particle.numbers, program.constants))
        self._by_numbers = RowFunction(ca.vertcat(known, slopes), by_numbers)
        self._by_start = RowFunction(ca.vertcat(known, program.start_row, adjoint), by_start)

    def value_and_gradient(
        self, forward: CompiledKernel, theta: Array, rows: Sequence[Rows], size: int | None = None
    ) -> tuple[Array, Array]:
        """Sum (N,) of what is emitted first over records, and its gradient (p, N).

        The arguments are those of `CompiledSweep.run`.
        """
        numbers = self.numbers(forward, theta)
        totals, *slopes = self.compiled.run(forward, theta, numbers, rows, size)
        return totals, self.gradient(forward, theta, rows, *slopes)

    def numbers(self, forward: CompiledKernel, theta: Array) -> Array:
        """Numbers that the particles compute once, and the constants, (w, N)."""
        return self._numbers(theta, _repeated(np.array(forward.constant_values), theta))

    def gradient(
        self, forward: CompiledKernel, theta: Array, rows: Sequence[Rows], slopes: Array,
        adjoints: Array,
    ) -> Array:  # fmt: skip
        """Derivatives (p, N) by the parameters, of those that `CompiledSweep.run` returns."""
        constants = np.array(forward.constant_values)
        gradient = np.zeros_like(theta)
        for record, adjoint in zip(rows, adjoints, strict=True):
            known = _repeated(np.append(constants, record.start), theta)
            gradient += self._by_start(theta, known, adjoint)
        return gradient + self._by_numbers(theta, _repeated(constants, theta), slopes)


_KEPT = threading.local()


def _memory(size: int) -> Array:
    """Memory of so many numbers; every thread keeps that of a tape, for fresh pages take time."""
    kept: Array = getattr(_KEPT, "tape", np.empty(0))
    if len(kept) < size:
        kept = np.empty(size)
        if 8 * size <= TAPE + LINE:
            _KEPT.tape = kept
    return kept


def _repeated(numbers: Array, like: Array) -> Array:
    """Numbers as rows of as many columns as others have."""
    return np.broadcast_to(numbers[:, None], (len(numbers), like.shape[1]))
