"""Newton's iteration of an `ImplicitFunction` as a function of a module, for a vector of lanes.

All lanes take steps until each has settled, and one that has stays as it is. Where a step is no
good one in any lane, all search for a better one, and those take it that need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import casadi as ca
from llvmlite import ir

from smcpn.codegen.compiled_call import row_of
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
        self._builder = builder = ir.IRBuilder(function.append_basic_block("entry"))
        self._of, self._width = of, width
        self._kind = vector(DOUBLE, width) if width > 1 else DOUBLE
        self._given, self._z = function.args
        self._settled, self._sound = (builder.alloca(self._kind) for _ in range(2))
        self._tried = builder.alloca(DOUBLE, of.n_results * width)

    def write(self) -> None:
        """Write it."""
        builder, n, count = self._builder, self._of.n_results, self._builder.alloca(INTEGER)
        given = [self._load(self._given, k) for k in range(self._of.n_arguments)]
        self._store(self._z, given[:n])
        for cell in (self._settled, self._sound):
            builder.store(self._number(0.0), cell)
        builder.store(ir.Constant(INTEGER, 0), count)
        step, end = builder.append_basic_block("step"), builder.append_basic_block("end")
        builder.branch(step)
        builder.position_at_end(step)
        self._step(given[n:])
        done = builder.add(builder.load(count), ir.Constant(INTEGER, 1))
        builder.store(done, count)
        few = builder.icmp_signed("<", done, ir.Constant(INTEGER, MOST))
        left = self._any(self._is(builder.load(self._settled), 0.0))
        builder.cbranch(builder.and_(left, few), step, end)
        builder.position_at_end(end)
        solved, none = self._is(builder.load(self._sound), 1.0), self._number(float("nan"))
        self._store(self._z, [builder.select(solved, z, none) for z in self._state()])
        builder.ret_void()

    def _step(self, point: Sequence[Any]) -> None:
        """Move z in lanes that have not settled."""
        builder, z = self._builder, self._state()
        *following, good, now, right = self._run(self._of.iteration, z, point)
        left = self._is(builder.load(self._settled), 0.0)
        stuck = builder.and_(left, self._is(good, 0.0))
        self._store(self._tried, following)
        with builder.if_then(self._any(stuck)):
            pairs = zip(self._run(self._of.search, z, point), following, strict=True)
            self._store(self._tried, [builder.select(stuck, *pair) for pair in pairs])
        for row, before in enumerate(z):
            after = builder.select(left, self._load(self._tried, row), before)
            # Neither an infinite value nor NaN is zero less itself: it stays as it is.
            finite = self._is(builder.fsub(after, after), 0.0)
            now = builder.select(finite, now, self._number(1.0))
            builder.store(after, row_of(builder, self._z, row, self._kind), align=8)
        for cell, value in ((self._settled, now), (self._sound, right)):
            builder.store(builder.select(left, value, builder.load(cell)), cell)

    def _state(self) -> list[Any]:
        return [self._load(self._z, k) for k in range(self._of.n_results)]

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

    def _is(self, value: Any, number: float) -> Any:
        return self._builder.fcmp_ordered("==", value, self._number(number))

    def _any(self, lanes: Any) -> Any:
        """One truth value of those of all lanes."""
        if self._width == 1:
            return lanes
        kind = ir.IntType(self._width)
        return self._builder.icmp_unsigned(
            "!=", self._builder.bitcast(lanes, kind), ir.Constant(kind, 0)
        )

    def _load(self, numbers: Any, row: int) -> Any:
        return self._builder.load(row_of(self._builder, numbers, row, self._kind), align=8)

    def _store(self, numbers: Any, values: Sequence[Any]) -> None:
        for row, value in enumerate(values):
            self._builder.store(value, row_of(self._builder, numbers, row, self._kind), align=8)
