"""The filter of one theta, and the guides of a block of thetas, as one LLVM module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from smcpn.codegen.elementary import apply
from smcpn.codegen.loops import (
    FAST,
    INTEGER,
    Function,
    Shared,
    SharedPlaces,
    element,
    number,
    run_lanes,
)
from smcpn.codegen.lower import Value
from smcpn.codegen.routine import Program, View
from smcpn.codegen.terms import DOUBLE, doubles, vector
from smcpn.likelihood.particle.blocks import Blocks
from smcpn.likelihood.particle.normals import CHOICE, RESAMPLING, uniform, write_normals
from smcpn.likelihood.particle.weights import (
    choose,
    real,
    resample,
    write_defensive_weights,
    write_weights,
)

_NUMBERS, _COUNTS = DOUBLE.as_pointer(), INTEGER.as_pointer()

THETAS = 8
"""Thetas whose guides are computed together, one in each lane."""
KEY_SAMPLES = 64
"""Samples of a block that shares a key."""
SHARE = 0.05
"""Share of the particles, by their weights, that move without looking ahead, where any do."""
SPREAD = 0.003
"""Growth of the squared coefficient of variation of the weights at one sample, from which
look-ahead functions are not trusted alone any more. It is none on linear models, some 1e-3 at most
where a filter of 64 particles estimates to a hundredth, and up to .1 between two wells."""

_ROWS = {"rows": _COUNTS, "first": INTEGER, "last": INTEGER}
_GUIDE = {"own": _NUMBERS, "step": _NUMBERS, "path": _NUMBERS, "look": _NUMBERS}
BEGIN_ARGUMENTS = {"own": _NUMBERS, "start": _NUMBERS}
PASS_ARGUMENTS = _ROWS | _GUIDE
FILTER_ARGUMENTS = (
    _ROWS
    | {"own": _NUMBERS, "step": _NUMBERS, "look": _NUMBERS}
    | {
        "active": _COUNTS, "particles": INTEGER, "keys": _COUNTS, "n_keys": INTEGER,
        "sample_offset": INTEGER, "step_offset": INTEGER, "fresh": INTEGER, "guided": INTEGER,
        "state": _NUMBERS, "increments": _NUMBERS, "stride": INTEGER, "kept": _NUMBERS,
        "kept_ancestors": _COUNTS, "work": _NUMBERS, "ancestors": _COUNTS,
    }
)  # fmt: skip


def write_filter(module: ir.Module, blocks: Blocks) -> None:
    """Write ``begin``, the passes of a guide, and ``run``, the filter."""
    _write_begin(module, blocks)
    _write_pass(module, blocks, "forward", ["begin"], ["predict"], ["update"])
    _write_pass(module, blocks, "backward", ["clear"], ["back"], ["look"], backward=True)
    _write_pass(module, blocks, "again", ["begin"], ["roll"], ["place"])
    _write_pass(module, blocks, "alone", ["clear"], ["unguided"], ["unseen"])
    _write_run(module, blocks)


def _write_begin(module: ir.Module, blocks: Blocks) -> None:
    made = Function(module, "begin", BEGIN_ARGUMENTS)
    run_lanes(made, blocks.theta["hoist"], THETAS, doubles(), arrays=[made["own"]])
    shared = Shared(made, blocks.theta["start_shared"], {"f": made["start"]})
    run_lanes(made, blocks.theta["start"], THETAS, doubles(), shared, [made["own"]])
    made.finish(FAST)


class _Places(SharedPlaces):
    """Places of the shared vectors, and of the guide's arrays of lanes."""

    def __init__(self, function: Function, blocks: Blocks) -> None:
        super().__init__(function, function["rows"], blocks.widths, window=2)
        self._origin, _ = self.steps(function["first"])

    def guide_step(self, step: Any, array: str, size: int) -> Any:
        """Index of the row of a step in an array of lanes that begins with the first step."""
        function = self._function
        since = function.builder.sub(step, self._origin)
        return function.at(function[array], function.times(since, number(size * THETAS)))

    def guide_sample(self, sample: Any, array: str, size: int) -> Any:
        """Index of the row of a sample in an array of lanes."""
        function = self._function
        since = function.builder.sub(sample, function["first"])
        return function.at(function[array], function.times(since, number(size * THETAS)))


def _write_pass(
    module: ir.Module,
    blocks: Blocks,
    name: str,
    at_begin: list[str],
    at_step: list[str],
    at_sample: list[str],
    backward: bool = False,
) -> None:
    """Write a pass of the guides of `THETAS` thetas over the samples, forward or backward."""
    made = Function(module, name, PASS_ARGUMENTS)
    builder, rows = made.builder, _Places(made, blocks)

    def run(names: list[str], arrays: list[Any], places: dict[str, Any]) -> None:
        for each in names:
            shared = Shared(made, blocks.theta[f"{each}_shared"], places)
            run_lanes(made, blocks.theta[each], THETAS, doubles(), shared, arrays)

    def turned(index: Any, first: Any, last: Any) -> Any:
        if not backward:
            return index
        return builder.sub(made.sum(first, last, number(-1)), index)

    def sample_part(sample: Any) -> None:
        look = rows.guide_sample(sample, "look", blocks.sample)
        run(at_sample, [made["own"], made["own"], made["own"], look], rows.of_sample(sample))

    def step_part(sample: Any) -> None:
        begin, end = rows.steps(sample)
        with made.loop(begin, end) as index:
            step = turned(index, begin, end)
            row = rows.guide_step(step, "step", blocks.step)
            path = rows.guide_step(step, "path", blocks.n)
            run(at_step, [made["own"], row, path], rows.of_step(sample, step, begin, end))

    run(at_begin, [made["own"]], {})
    with made.loop(made["first"], made["last"]) as index:
        sample = turned(index, made["first"], made["last"])
        parts = [sample_part, step_part] if backward else [step_part, sample_part]
        for part in parts:
            part(sample)
    made.finish(FAST)


def _write_run(module: ir.Module, blocks: Blocks) -> None:
    """Write ``run``: the filters of the active thetas of a block, one after the other."""
    made = Function(module, "run", FILTER_ARGUMENTS)
    builder, program = made.builder, Program(module)
    with made.loop(number(0), number(THETAS)) as theta:
        active = builder.load(made.at(made["active"], theta))
        with made.where(builder.icmp_signed(">=", active, number(0))):
            _Filter(made, program, blocks, theta, active).write()
    made.finish(FAST)


class _Filter:
    """Writes the filter of a theta.

    The work array holds the slots of `Blocks`, each of as many doubles as there are particles;
    weights are where the normals were. ``active`` is the theta's place in keys, states and
    increments.
    """

    def __init__(
        self, made: Function, program: Program, blocks: Blocks, theta: Any, active: Any
    ) -> None:
        self.made, self.blocks, self.theta, self.active = made, blocks, theta, active
        self.program = program
        self.builder, self.lanes, self.rows = made.builder, made["particles"], _Places(made, blocks)
        n = blocks.n
        self.log_weights, self.normals = self._slot(n), self._slot(n + 1)
        self.weights, self.copy = self.normals, self._slot(blocks.copy)
        self.growth, self.free = self._slot(blocks.growth), self._slot(blocks.free)
        self.ancestors = made["ancestors"]
        with self.builder.goto_entry_block():
            self.log_sum, self.sums, self.constant, self.variation = (
                self.builder.alloca(DOUBLE, size) for size in (1, 3, 1, 1)
            )
            self.defensive = self.builder.alloca(INTEGER)
        count = self.builder.sitofp(self.lanes, DOUBLE)
        self.log_count = apply(self.builder, "log", [count])
        self.half = self.builder.fmul(count, real(0.5))

    def _slot(self, slot: int) -> Any:
        return self.made.at(self.made["work"], self.made.times(number(slot), self.lanes))

    def write(self) -> None:
        """Write it."""
        made, builder = self.made, self.builder
        held = made.times(number(self.blocks.n + 1), self.lanes)
        state = made.at(made["state"], made.times(self.active, made.sum(held, number(1))))
        fresh = builder.icmp_signed("!=", made["fresh"], number(0))
        with builder.if_else(fresh) as (then, otherwise):
            with then:
                self._lanes("start", {})
                builder.store(self.log_count, self.log_sum)
            with otherwise:
                self._move(state, made["work"], held)
                builder.store(builder.load(made.at(state, held), align=8), self.log_sum)
        self._lanes("enter", {})
        builder.store(number(0), self.defensive)
        builder.store(real(1.0), self.variation)
        with made.loop(made["first"], made["last"]) as sample:
            self._sample(sample)
        self._move(made["work"], state, held)
        builder.store(builder.load(self.log_sum), made.at(state, held), align=8)

    def _sample(self, sample: Any) -> None:
        made, builder = self.made, self.builder
        overall = made.sum(made["sample_offset"], sample)
        block = builder.sdiv(overall, number(KEY_SAMPLES))
        key = builder.load(
            made.at(made["keys"], made.times(self.active, made["n_keys"]), block), align=8
        )
        with made.where(self._is_defensive()):
            chance = uniform(builder, key, overall, CHOICE)
            shares, growth = View.of(self.free), View.of(self.growth)
            self.program.call(builder, choose, [shares, growth, chance, self.lanes])
        begin, end = self.rows.steps(sample)
        with made.loop(begin, end) as step:
            count = made.sum(made["step_offset"], step)
            write_normals(made, self.normals, self.lanes, key, count, self.blocks.noises)
            guide = self.rows.guide_step(step, "step", self.blocks.step)
            places = self.rows.of_step(sample, step, begin, end)
            self._lanes("step", places | {"q": guide})
        log_sum, total, squares = self._weigh(sample)
        increment = builder.fsub(log_sum, builder.load(self.log_sum))
        place = made.times(builder.sub(sample, made["first"]), made["stride"])
        builder.store(increment, made.at(made["increments"], place, self.active), align=8)
        kept = builder.icmp_unsigned("!=", made["kept"], ir.Constant(_NUMBERS, None))
        since = builder.sub(sample, made["first"])
        with made.where(kept):
            held = made.times(number(self.blocks.n + 1), self.lanes)
            self._move(made["work"], made.at(made["kept"], made.times(since, held)), held)
        few = builder.fcmp_ordered(
            "<", builder.fmul(total, total), builder.fmul(squares, self.half)
        )
        with builder.if_else(few) as (then, otherwise):
            with then:
                self._resample(total, uniform(builder, key, overall, RESAMPLING))
                builder.store(self.log_count, self.log_sum)
                builder.store(real(1.0), self.variation)
            with otherwise:
                builder.store(log_sum, self.log_sum)
        with made.where(kept):
            row = made.at(made["kept_ancestors"], made.times(since, self.lanes))
            with made.loop(number(0), self.lanes) as lane:
                chosen = builder.load(made.at(self.ancestors, lane))
                builder.store(builder.select(few, chosen, lane), made.at(row, lane))

    def _is_defensive(self) -> Any:
        """True if the filter is twisted by psi + c."""
        return self.builder.icmp_signed("!=", self.builder.load(self.defensive), number(0))

    def _weigh(self, sample: Any) -> list[Any]:
        """Weights after a sample: log of their sum; sums of them, relative, and of their squares.

        A filter that looks ahead goes on under psi + c from the sample on at which weights spread.
        """
        made, builder = self.made, self.builder
        look = self.rows.guide_sample(sample, "look", self.blocks.sample)
        rows = self.rows.of_sample(sample) | {"v": look}
        with builder.if_else(self._is_defensive()) as (then, otherwise):
            with then:
                self._lanes("mixed", rows | {"c": self.constant})
            with otherwise:
                self._lanes("sample", rows)
                sums = write_weights(made, self.log_weights, self.weights, self.lanes)
                self._keep(sums)
                with made.where(self._spreads(*sums[1:])):
                    self._lanes("turned", {"v": look})
                    builder.store(number(1), self.defensive)
        with made.where(self._is_defensive()):
            more = builder.icmp_signed("<", made.sum(sample, number(1)), made["last"])
            odds = builder.select(more, real(SHARE / (1.0 - SHARE)), real(0.0))
            *sums, log_constant = write_defensive_weights(
                made, self.log_weights, self.growth, self.weights, self.free, self.lanes, odds
            )
            self._keep(sums)
            builder.store(log_constant, self.constant)
        return [builder.load(made.at(self.sums, number(k)), align=8) for k in range(3)]

    def _keep(self, sums: Sequence[Any]) -> None:
        for k, value in enumerate(sums):
            self.builder.store(value, self.made.at(self.sums, number(k)), align=8)

    def _spreads(self, total: Any, squares: Any) -> Any:
        """True if weights that look ahead spread at this sample."""
        builder = self.builder
        count = builder.fmul(self.half, real(2.0))
        variation = builder.fdiv(builder.fmul(count, squares), builder.fmul(total, total))
        grown = builder.fsub(variation, builder.load(self.variation))
        builder.store(variation, self.variation)
        guided = builder.icmp_signed("!=", self.made["guided"], number(0))
        return builder.and_(guided, builder.fcmp_ordered(">", grown, real(SPREAD)))

    def _resample(self, total: Any, chance: Any) -> None:
        made, builder, n = self.made, self.builder, self.blocks.n
        weights, ancestors = View.of(self.weights), View.of(self.ancestors)
        self.program.call(builder, resample, [weights, total, chance, self.lanes, ancestors])
        for slot, own in enumerate([*map(self._slot, range(n)), self.free]):
            copy = made.at(self.copy, made.times(number(slot), self.lanes))
            with made.loop(number(0), self.lanes) as lane:
                ancestor = builder.load(made.at(self.ancestors, lane))
                builder.store(builder.load(made.at(own, ancestor)), made.at(copy, lane))
        states = made.times(number(n), self.lanes)
        self._move(self.copy, made["work"], states)
        self._move(made.at(self.copy, states), self.free, self.lanes)
        with made.loop(number(0), self.lanes) as lane:
            builder.store(real(0.0), made.at(self.log_weights, lane))

    def _lanes(self, name: str, places: dict[str, Any]) -> None:
        """Write a block for all particles; rows of the guide have a lane for every theta."""
        made, blocks = self.made, self.blocks
        first = {"x": blocks.first, "l": blocks.look}

        def place(value: Value) -> Any:
            vector, index = value.vector, value.index
            if vector in places and vector not in "qv":
                return element(made, places, value)
            base = made["own"]
            if vector in places:
                base = places[vector]
            elif vector in first:
                index += first[vector]
            else:
                index = blocks.slots[value]
            return made.at(base, number(index * THETAS), self.theta)

        shared = Shared(made, blocks.particle[f"{name}_shared"], place)
        run_lanes(made, blocks.particle[name], self.lanes, doubles(), shared)

    def _move(self, source: Any, target: Any, count: Any) -> None:
        """Copy so many doubles, a multiple of a vector of them."""
        made, builder = self.made, self.builder
        kind = vector(DOUBLE, doubles()).as_pointer()
        with made.loop(number(0), count, doubles()) as k:
            value = builder.load(builder.bitcast(made.at(source, k), kind), align=8)
            builder.store(value, builder.bitcast(made.at(target, k), kind), align=8)
