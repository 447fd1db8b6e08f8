"""Newton's iteration of an `ImplicitFunction` as a function of a module, for a vector of lanes.

All lanes take steps until each has settled, and one that has stays as it is. Where a step is no
good one in any lane, all search for a better one, and those take it that need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import casadi as ca
from llvmlite import ir

from smcpn.codegen.lower import Level, Value, Vector, lower
from smcpn.codegen.machine_code import Writer
from smcpn.codegen.terms import DOUBLE, INTEGER, vector
from smcpn.model.compiled_function import CALL, compiled_function
from smcpn.model.implicit_function import MOST, ImplicitFunction


def define(module: ir.Module) -> None:
    """Write the iterations that a module calls."""
    for function in list(module.functions):
        if function.is_declaration and function.name.startswith(CALL):
            operation, _, width = function.name.rpartition(".")
            if isinstance(of := compiled_function(operation), ImplicitFunction):
                _Iteration(function, of, int(width)).write()


class _Iteration:
    """The function of arguments and results, both (rows, lanes), which holds z in its results."""

    def __init__(self, function: Any, of: ImplicitFunction, width: int) -> None:
        function.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            function.attributes.add(attribute)
        self._builder = ir.IRBuilder(function.append_basic_block("entry"))
        self._of, self._kind, self._width = of, vector(DOUBLE, width) if width > 1 else DOUBLE, width
        self._given, self._made = function.args

    def write(self) -> None:
        """Write it."""
        builder, n = self._builder, self._of.n_results
        point = [self._load(self._given, n + k) for k in range(self._of.n_arguments - n)]
        self._store([self._load(self._given, k) for k in range(n)])
        no, yes, first = self._number(0.0), self._number(1.0), builder.block
        step, search, taken, end = (
            builder.append_basic_block(name) for name in ("step", "search", "taken", "end")
        )
        builder.branch(step)
        builder.position_at_end(step)
        count, settled, sound = (
            builder.phi(kind) for kind in (INTEGER, self._kind, self._kind)
        )
        z = [self._load(self._made, k) for k in range(n)]
        *following, good, now, right = self._run(self._of.iteration, z, point)
        open_lanes = self._is(settled, no)
        stuck = builder.and_(open_lanes, self._is(good, no))
        behind = builder.block
        builder.cbranch(self._any(stuck), search, taken)
        builder.position_at_end(search)
        best = self._run(self._of.search, z, point)
        chosen = [builder.select(stuck, b, f) for b, f in zip(best, following, strict=True)]
        searched = builder.block
        builder.branch(taken)
        builder.position_at_end(taken)
        moved = []
        for plain, other, before in zip(following, chosen, z, strict=True):
            after = builder.phi(self._kind)
            after.add_incoming(plain, behind)
            after.add_incoming(other, searched)
            moved.append((after, before))
        moved = [builder.select(open_lanes, after, before) for after, before in moved]
        self._store(moved)
        ended = builder.select(open_lanes, now, yes)
        for value in moved:
            rest = builder.fsub(value, value)
            # Neither infinity nor NaN is equal to itself less itself.
            ended = builder.select(self._is(rest, no), ended, yes)
        kept = builder.select(open_lanes, right, sound)
        more = builder.add(count, ir.Constant(INTEGER, 1))
        going = builder.and_(
            self._any(self._is(ended, no)),
            builder.icmp_signed("<", more, ir.Constant(INTEGER, MOST)),
        )
        for phi, begin, after in (
            (count, ir.Constant(INTEGER, 0), more), (settled, no, ended), (sound, no, kept)
        ):  # fmt: skip
            phi.add_incoming(begin, first)
            phi.add_incoming(after, builder.block)
        builder.cbranch(going, step, end)
        builder.position_at_end(end)
        solved = self._is(kept, yes)
        self._store([builder.select(solved, one, self._number(float("nan"))) for one in moved])
        builder.ret_void()

    def _run(self, function: ca.Function, *given: Sequence[Any]) -> list[Any]:
        """Results of a function of graphs."""
        symbols, writer = function.sx_in(), Writer(self._builder, self._kind)
        vectors = [Vector(s, n, Level.LANE) for s, n in zip(symbols, "zp", strict=True)]
        (graph,) = function.call(symbols, True, False)
        statements = lower(graph, vectors, "s")
        for one, values in zip(vectors, given, strict=True):
            writer.values |= {Value(one.name, k, Level.LANE): v for k, v in enumerate(values)}
        writer.run(tuple(statements.by_level[Level.LANE]))
        return [writer.value(output) for output in statements.outputs]

    def _number(self, number: float) -> Any:
        return ir.Constant(self._kind, number if self._width == 1 else [number] * self._width)

    def _is(self, value: Any, number: Any) -> Any:
        return self._builder.fcmp_ordered("==", value, number)

    def _any(self, lanes: Any) -> Any:
        """One truth value of those of all lanes."""
        if self._width == 1:
            return lanes
        kind = ir.IntType(self._width)
        return self._builder.icmp_unsigned(
            "!=", self._builder.bitcast(lanes, kind), ir.Constant(kind, 0)
        )

    def _row(self, numbers: Any, row: int) -> Any:
        place = [ir.Constant(INTEGER, row * self._width)]
        place = self._builder.gep(numbers, place, inbounds=True)
        return self._builder.bitcast(place, self._kind.as_pointer())

    def _load(self, numbers: Any, row: int) -> Any:
        return self._builder.load(self._row(numbers, row), align=8)

    def _store(self, values: Sequence[Any]) -> None:
        for row, value in enumerate(values):
            self._builder.store(value, self._row(self._made, row), align=8)
