"""The filter of one theta, and the guides of a block of thetas, as one LLVM module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from smcpn.codegen.functions import apply
from smcpn.codegen.loops import FAST, INTEGER, Function, Shared, number, run_lanes
from smcpn.codegen.lower import Level, Value
from smcpn.codegen.machine_code import Block, Writer
from smcpn.codegen.terms import DOUBLE, WIDTH
from smcpn.likelihood.particle.blocks import OWN, Blocks
from smcpn.likelihood.particle.normals import uniform, write_normals
from smcpn.likelihood.particle.weights import real, write_resampling, write_weights

_NUMBERS, _COUNTS = DOUBLE.as_pointer(), INTEGER.as_pointer()

THETAS = 8
"""Thetas whose guides are computed together, one in each lane."""
KEY_SAMPLES = 64
"""Samples of a block that shares a key."""

_ROWS = {
    "inputs": _NUMBERS, "gains": _NUMBERS, "n_gains": INTEGER, "samples": _NUMBERS,
    "begins": _COUNTS, "first": INTEGER, "last": INTEGER,
}  # fmt: skip
_GUIDE = {"own": _NUMBERS, "step": _NUMBERS, "path": _NUMBERS, "look": _NUMBERS}
BEGIN_ARGUMENTS = {"own": _NUMBERS, "start": _NUMBERS}
PASS_ARGUMENTS = _ROWS | _GUIDE
FILTER_ARGUMENTS = (
    _ROWS
    | {"own": _NUMBERS, "step": _NUMBERS, "look": _NUMBERS}
    | {
        "active": _COUNTS, "particles": INTEGER, "keys": _COUNTS, "n_keys": INTEGER,
        "sample_offset": INTEGER, "step_offset": INTEGER, "fresh": INTEGER, "state": _NUMBERS,
        "increments": _NUMBERS, "stride": INTEGER, "kept": _NUMBERS, "kept_ancestors": _COUNTS,
        "work": _NUMBERS, "ancestors": _COUNTS,
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


class _Scalars(Shared):
    """Shared statements of numbers at places of any kind."""

    def __init__(self, function: Function, block: Block, place: Callable[[Value], Any]) -> None:
        writer = Writer(function.builder, DOUBLE)
        for value in block.arguments:
            writer.values[value] = function.builder.load(place(value), align=8)
        writer.run(block.statements)
        self.values = {
            value: writer.value(value) for value in block.results if isinstance(value, Value)
        }


def _write_begin(module: ir.Module, blocks: Blocks) -> None:
    made = Function(module, "begin", BEGIN_ARGUMENTS)
    run_lanes(made, blocks.theta["hoist"], THETAS, WIDTH, arrays=[made["own"]])
    shared = _Scalars(
        made, blocks.theta["start_shared"], lambda v: made.at(made["start"], number(v.index))
    )
    run_lanes(made, blocks.theta["start"], THETAS, WIDTH, shared, [made["own"]])
    made.finish(FAST)


class _Rows:
    """Places in the rows that all thetas share, at a sample and a step of its interval."""

    def __init__(self, function: Function, blocks: Blocks) -> None:
        self._function, self._blocks = function, blocks
        builder = function.builder
        before = function.sum(function["first"], number(-1))
        negative = builder.icmp_signed("<", before, number(0))
        self._origin = builder.load(
            function.at(function["begins"], builder.select(negative, number(0), before))
        )

    def interval(self, sample: Any) -> tuple[Any, Any]:
        """First step of the interval that leads to a sample, and of the next."""
        function, builder = self._function, self._function.builder
        before = builder.sub(sample, number(1))
        before = builder.select(builder.icmp_signed("<", before, number(0)), number(0), before)
        begins = function["begins"]
        return builder.load(function.at(begins, before)), builder.load(function.at(begins, sample))

    def of_step(self, step: Any) -> dict[str, Any]:
        """Where the rows of a step are."""
        function = self._function
        gain = function.smaller(step, function.sum(function["n_gains"], number(-1)))
        return {"r": self._row("inputs", step, "r"), "g": self._row("gains", gain, "g")}

    def of_sample(self, sample: Any) -> dict[str, Any]:
        """Where the row of a sample is."""
        return {"s": self._row("samples", sample, "s")}

    def _row(self, array: str, row: Any, name: str) -> Any:
        function = self._function
        return function.at(function[array], function.times(row, number(self._blocks.widths[name])))

    def guide_step(self, step: Any, array: str, size: int) -> Any:
        """Where the row of a step is in an array of lanes that begins with the first step."""
        function = self._function
        since = function.builder.sub(step, self._origin)
        return function.at(function[array], function.times(since, number(size * THETAS)))

    def guide_sample(self, sample: Any, array: str, size: int) -> Any:
        """Where the row of a sample is in an array of lanes."""
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
    builder, rows = made.builder, _Rows(made, blocks)

    def run(names: list[str], arrays: list[Any], places: dict[str, Any]) -> None:
        for each in names:
            shared = _Scalars(
                made,
                blocks.theta[f"{each}_shared"],
                lambda v: made.at(places[v.vector], number(v.index)),
            )
            run_lanes(made, blocks.theta[each], THETAS, WIDTH, shared, arrays)

    def turned(index: Any, first: Any, last: Any) -> Any:
        if not backward:
            return index
        return builder.sub(made.sum(first, last, number(-1)), index)

    def sample_part(sample: Any) -> None:
        look = rows.guide_sample(sample, "look", blocks.sample)
        run(at_sample, [made["own"], made["own"], made["own"], look], rows.of_sample(sample))

    def step_part(sample: Any) -> None:
        begin, end = rows.interval(sample)
        with made.loop(begin, end) as index:
            step = turned(index, begin, end)
            row = rows.guide_step(step, "step", blocks.step)
            path = rows.guide_step(step, "path", blocks.n)
            run(at_step, [made["own"], row, path], rows.of_step(step))

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
    builder = made.builder
    with made.loop(number(0), number(THETAS)) as theta:
        active = builder.load(made.at(made["active"], theta))
        with made.where(builder.icmp_signed(">=", active, number(0))):
            _Filter(made, blocks, theta, active).write()
    made.finish(FAST)


class _Filter:
    """Writes the filter of a theta; its work array holds states, log weight, normals, and copies.

    ``active`` is the theta's place in keys, state and increments.
    """

    def __init__(self, made: Function, blocks: Blocks, theta: Any, active: Any) -> None:
        self.made, self.blocks, self.theta, self.active = made, blocks, theta, active
        self.builder, self.lanes, self.rows = made.builder, made["particles"], _Rows(made, blocks)
        n, k = blocks.n, blocks.noises
        self.log_weights = self._slot(n)
        self.normals = self._slot(n + 1)
        # The weights take the place of the normals.
        self.weights, self.copy = self.normals, self._slot(n + 1 + max(k, 1))
        size = made.times(number(n + 1), self.lanes)
        self.state = made.at(made["state"], made.times(active, size))

    def _slot(self, slot: int) -> Any:
        return self.made.at(self.made["work"], self.made.times(number(slot), self.lanes))

    def write(self) -> None:
        """Write it."""
        made, builder = self.made, self.builder
        fresh = builder.icmp_signed("!=", made["fresh"], number(0))
        with builder.if_else(fresh) as (then, otherwise):
            with then:
                self._lanes("start", {})
            with otherwise:
                self._move(self.state, made["work"], self.blocks.n + 1)
        self._lanes("enter", {})
        count = builder.sitofp(self.lanes, DOUBLE)
        self.log_count = apply(builder, "log", [count])
        self.half = builder.fmul(count, real(0.5))
        # The log of the sum of the weights before a sample.
        cell = self._cell()
        builder.store(self.log_count, cell)
        with made.where(builder.not_(fresh)):
            builder.store(builder.load(self._carried_sum()), cell)
        with made.loop(made["first"], made["last"]) as sample:
            self._sample(sample, cell)
        self._move(made["work"], self.state, self.blocks.n + 1)

    def _cell(self) -> Any:
        with self.builder.goto_entry_block():
            return self.builder.alloca(DOUBLE)

    def _carried_sum(self) -> Any:
        raise NotImplementedError

    def _move(self, source: Any, target: Any, slots: int) -> None:
        made, builder = self.made, self.builder
        with made.loop(number(0), made.times(number(slots), self.lanes)) as k:
            value = builder.load(made.at(source, k), align=8)
            builder.store(value, made.at(target, k), align=8)
