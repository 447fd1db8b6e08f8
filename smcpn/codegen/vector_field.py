"""A model's vector field and Jacobian as compiled functions that a compiled loop calls by address.

The loop of a solver is compiled once for all models; only these few statements are generated and
compiled for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from smcpn.codegen.loops import FAST, Function, number
from smcpn.codegen.lower import Level, Value, Vector, lower
from smcpn.codegen.machine_code import Block, Writer
from smcpn.codegen.native import loaded
from smcpn.codegen.terms import DOUBLE

Array = NDArray[np.float64]

_ARGUMENTS = {
    "x": DOUBLE.as_pointer(), "u": DOUBLE.as_pointer(), "t": DOUBLE, "p": DOUBLE.as_pointer(),
    "out": DOUBLE.as_pointer(),
}  # fmt: skip


@dataclass(frozen=True)
class CompiledField:
    """A compiled graph of (x, u, t, parameters).

    Attributes
    ----------
    address : int
        What `smcpn.codegen.translate.call_address` calls with (x, u, t, parameters, result).
    """

    address: int
    _engine: Any

    @classmethod
    def of(cls, symbols: Sequence[ca.SX], outputs: ca.SX) -> CompiledField:
        """Compile ``outputs``, a graph over the symbols (x, u, t, parameters); row by row.

        Raises
        ------
        InputError
            If the graph holds an operation that has no compiled counterpart.
        """
        block = _block(symbols, outputs)
        engine = loaded(f"vector field\n{block}", lambda module: _write(module, block))
        return cls(engine.get_function_address("evaluate"), engine)


def _write(module: ir.Module, block: Block) -> None:
    made = Function(module, "evaluate", _ARGUMENTS)
    writer = Writer(made.builder, DOUBLE)
    for value in block.arguments:
        writer.values[value] = (
            made["t"]
            if value.vector == "t"
            else made.builder.load(made.at(made[value.vector], number(value.index)), align=8)
        )
    writer.run(block.statements)
    for k, operand in block.stores:
        made.builder.store(writer.value(operand), made.at(made["out"], number(k)), align=8)
    made.finish(FAST)


def _block(symbols: Sequence[ca.SX], outputs: ca.SX) -> Block:
    """The rows of a graph one after the other, of the elements that it reads."""
    names = dict(zip("xutp", symbols, strict=True))
    inputs = [Vector(vector, name, Level.LANE) for name, vector in names.items()]
    graph = lower(ca.vec(ca.densify(outputs).T), inputs, "a")
    elements = [
        Value(name, k, Level.LANE) for name, vector in names.items() for k in range(vector.numel())
    ]
    read = graph.read(Level.LANE)
    return Block(
        arguments=tuple(value for value in elements if value in read),
        statements=tuple(graph.by_level[Level.LANE]),
        stores=tuple(enumerate(graph.outputs)),
    )
