"""Compiled code that writes the rows of one sample: what a `RowWriter` does, for a stream.

Its arithmetic is that of the graphs, operation by operation as numpy has it: nothing is reordered
and no product is fused with a sum, so that the rows of a stream are those of a record, to the bit.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from smcpn.codegen.kernel import Rows, address
from smcpn.codegen.loops import Function, number
from smcpn.codegen.lower import Level, Value, Vector, lower
from smcpn.codegen.machine_code import Block, Writer
from smcpn.codegen.native import loaded
from smcpn.codegen.terms import DOUBLE, INTEGER

Array = NDArray[np.float64]

_NUMBERS = DOUBLE.as_pointer()
_FRAME = (
    "measured", "width", "steps", "table", "constants", "memory", "inputs", "gains", "intervals",
    "samples",
)  # fmt: skip
"""Addresses and integers that the code is given in an array."""


@dataclass(frozen=True)
class RowGraph:
    """The rows of a sample and of the interval before it, as graphs.

    Attributes
    ----------
    number : casadi.SX
        Number of the sample in its stream.
    before, after : casadi.SX, (1 + n + q, 1)
        Time, inputs and outputs of the sample before, and of the sample; NaN where missing.
    memory : casadi.SX, (m, 1)
        Of the row writer, at the sample before.
    constants : casadi.SX, (c, 1)
        Symbols of the numbers ``constant_values``.
    entries : casadi.SX, (p, 1)
        Symbols of the entries of ``table`` (steps, p) for one step.
    inputs, gains : casadi.SX
        Rows of a solver step. ``gains`` is empty where they do not depend on the samples.
    interval, sample : casadi.SX
        Row of the interval, where there is one, and of the sample.
    following : casadi.SX, (m, 1)
        The memory at the sample.
    """

    number: ca.SX
    before: ca.SX
    after: ca.SX
    memory: ca.SX
    constants: ca.SX
    constant_values: Array
    entries: ca.SX
    table: Array
    inputs: ca.SX
    gains: ca.SX
    interval: ca.SX
    sample: ca.SX
    following: ca.SX


class RowCode:
    """A `RowGraph`, compiled.

    Attributes
    ----------
    write : callable
        Writes the rows of a sample and of the interval before it: of the address of a `frame`, the
        number of the sample in its chunk, from 1 on, and that in the stream.
    """

    def __init__(self, graph: RowGraph) -> None:
        self._constants = np.ascontiguousarray(graph.constant_values)
        self._table = np.ascontiguousarray(graph.table)
        inputs = [
            Vector(graph.number, "k", Level.LANE), Vector(graph.before, "b", Level.LANE),
            Vector(graph.after, "a", Level.LANE), Vector(graph.memory, "m", Level.LANE),
            Vector(graph.constants, "c", Level.LANE), Vector(graph.entries, "e", Level.LANE),
        ]  # fmt: skip
        once = {"intervals": graph.interval, "samples": graph.sample, "memory": graph.following}
        each = {"inputs": graph.inputs, "gains": graph.gains}
        blocks = [_Outputs.of(parts, inputs) for parts in (once, each)]
        text = "\n".join(f"{part.widths}\n{part.block}" for part in blocks)
        self._engine = loaded(
            f"rows\n{self._table.shape[1]}\n{text}", lambda module: self._write(module, *blocks)
        )
        # Python's lock is kept: to give it up takes longer than to write a row.
        kind = ctypes.PYFUNCTYPE(None, *([ctypes.c_int64] * 3))
        self.write = kind(self._engine.get_function_address("rows"))

    def frame(self, measured: Array, rows: Rows, memory: Array) -> NDArray[np.int64]:
        """Return what ``write`` is told of a chunk of samples (T, 1 + n + q) and its rows.

        ``memory`` is that of the row writer at one sample, and becomes that at the next.
        """
        values = {
            "measured": address(measured), "width": measured.shape[1], "steps": len(self._table),
            "table": address(self._table), "constants": address(self._constants),
            "memory": address(memory), "inputs": address(rows.inputs),
            "gains": address(rows.gains), "intervals": address(rows.intervals),
            "samples": address(rows.samples),
        }  # fmt: skip
        return np.array([values[name] for name in _FRAME], dtype=np.int64)

    def _write(self, module: ir.Module, once: _Outputs, each: _Outputs) -> None:
        arguments = {"frame": INTEGER.as_pointer(), "local": INTEGER, "sample": INTEGER}
        made = Function(module, "rows", arguments)
        builder = made.builder
        given = {
            name: builder.load(made.at(made["frame"], number(k))) for k, name in enumerate(_FRAME)
        }

        def array(name: str, row: Any, width: Any) -> Any:
            pointer = builder.inttoptr(given[name], _NUMBERS)
            return made.at(pointer, made.times(row, width))

        before = builder.sub(made["local"], number(1))
        sources = {
            "b": array("measured", before, given["width"]),
            "a": array("measured", made["local"], given["width"]),
            "m": array("memory", number(0), number(0)),
            "c": array("constants", number(0), number(0)),
        }  # fmt: skip
        counted = builder.sitofp(made["sample"], DOUBLE)
        targets = {
            "intervals": array("intervals", before, number(once.widths["intervals"])),
            "samples": array("samples", made["local"], number(once.widths["samples"])),
            "memory": sources["m"],
        }
        once.write(made, sources, counted, targets)
        with made.loop(number(0), given["steps"]) as k:
            step = made.sum(made.times(before, given["steps"]), k)
            sources["e"] = array("table", k, number(self._table.shape[1]))
            targets = {
                name: array(name, step, number(width)) for name, width in each.widths.items()
            }
            each.write(made, sources, counted, targets)
        made.finish()


@dataclass(frozen=True)
class _Outputs:
    """Statements whose results go to several arrays, so many to each."""

    block: Block
    widths: dict[str, int]

    @classmethod
    def of(cls, parts: dict[str, ca.SX], inputs: list[Vector]) -> _Outputs:
        graph = lower(ca.vertcat(*parts.values()), inputs, "x")
        block = Block(
            statements=tuple(graph.by_level[Level.LANE]), stores=tuple(enumerate(graph.outputs))
        )
        return cls(block, {name: part.numel() for name, part in parts.items()})

    def write(
        self, made: Function, sources: dict[str, Any], count: Any, targets: dict[str, Any]
    ) -> None:
        """Write them, with vectors at addresses and the sample's number; store the results."""
        writer = Writer(made.builder, DOUBLE)
        block = self.block
        operands = {o for s in block.statements for o in s.operands}
        operands |= {operand for _, operand in block.stores}
        for value in sorted((o for o in operands if isinstance(o, Value)), key=str):
            if value.vector in sources:
                place = made.at(sources[value.vector], number(value.index))
                writer.values[value] = made.builder.load(place, align=8)
            elif value.vector == "k":
                writer.values[value] = count
        writer.run(block.statements)
        stores = iter(block.stores)
        for name, width in self.widths.items():
            for k in range(width):
                _, operand = next(stores)
                place = made.at(targets[name], number(k))
                made.builder.store(writer.value(operand), place, align=8)
