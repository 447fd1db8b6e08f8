"""Expression graphs evaluated by numpy on whole arrays, one instruction after the other.

For what is evaluated some dozen times at many thousand points, where compiling takes longer than
running. Every point takes the same instructions, so that memory traffic is the cost: give points in
blocks that fit the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.model.compiled_function import CALL, CalledFunction, compiled_function
from smcpn.model.expression import CONSTANT, INPUT, OUTPUT, instructions

Array = NDArray[np.float64]


def _truth(function: Callable[..., Any]) -> Callable[..., Any]:
    """Comparison with the numbers 0 and 1 as result, of which a graph may take a difference."""
    return lambda *operands: np.asarray(function(*operands), dtype=float)


_UFUNCS: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "twice": lambda x: x + x, "sq": np.square, "inv": lambda x: 1.0 / x,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "constpow": np.power, "atan2": np.arctan2, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "not": _truth(np.logical_not), "lt": _truth(np.less), "le": _truth(np.less_equal),
    "eq": _truth(np.equal), "ne": _truth(np.not_equal), "and": _truth(np.logical_and),
    "or": _truth(np.logical_or), "if_else_zero": lambda condition, x: np.where(condition, x, 0.0),
    "remainder": lambda x, y: x - y * np.rint(x / y),
}  # fmt: skip


class ArrayFunction:
    """A graph as a function of arrays, all of one shape or broadcast to it.

    symbols: (n, 1)
    outputs: Of the symbols; its entries, column by column, are the results.
    """

    def __init__(self, symbols: ca.SX, outputs: ca.SX) -> None:
        function = ca.Function("graph", [symbols], [ca.cse(ca.densify(ca.vec(outputs)))])
        self._rows = list(instructions(function))
        self._n_outputs = outputs.numel()
        last = {
            operand: row
            for row, (operation, operands, _) in enumerate(self._rows)
            if operation != INPUT
            for operand in (operands[:1] if operation == OUTPUT else operands)
        }
        self._ended: list[list[int]] = [[] for _ in self._rows]
        for operand, row in last.items():
            self._ended[row].append(operand)

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        """Values of the outputs for an array, or a number, in place of each symbol.

        A result has the shape of the arguments that it depends on, broadcast.
        """
        values: dict[int, Any] = {}
        results: list[Any] = [0.0] * self._n_outputs
        with np.errstate(all="ignore"):
            for row, (operation, operands, constant) in enumerate(self._rows):
                if operation == OUTPUT:
                    results[operands[2]] = values[operands[0]]
                elif operation == INPUT:
                    values[row] = arguments[operands[1]]
                elif operation == CONSTANT:
                    values[row] = constant
                else:
                    values[row] = _ufunc(operation)(*[values[k] for k in operands])
                for ended in self._ended[row]:
                    del values[ended]
        return results


class RowFunction:
    """A graph as a function of rows of numbers to rows of numbers.

    Results that are zero or a symbol, as most of thousands are, take no instruction each.

    symbols: (n, 1)
    outputs: (m, 1), of the symbols.
    """

    def __init__(self, symbols: ca.SX, outputs: ca.SX) -> None:
        place = {symbols[k].element_hash(): k for k in range(symbols.numel())}
        self._n_outputs = outputs.numel()
        entries = {k: outputs[k] for k in range(outputs.numel()) if not outputs[k].is_zero()}
        known = {k: place.get(entry.element_hash()) for k, entry in entries.items()}
        self._copied = [k for k, source in known.items() if source is not None]
        self._sources = [source for source in known.values() if source is not None]
        self._computed = [k for k, source in known.items() if source is None]
        graph = ca.vertcat(ca.SX(0, 1), *(entries[k] for k in self._computed))
        needed = ca.symvar(graph)
        self._needed = [place[symbol.element_hash()] for symbol in needed]
        self._function = ArrayFunction(ca.vertcat(ca.SX(0, 1), *needed), graph)

    def __call__(self, *rows: Array) -> Array:
        """Rows (m, N) of results, of rows (n, N), which may be given as several arrays."""
        given = np.concatenate(rows)
        found = np.zeros((self._n_outputs, given.shape[1]))
        found[self._copied] = given[self._sources]
        for k, row in zip(self._computed, self._function([*given[self._needed]]), strict=True):
            found[k] = row
        return found


def _by_lanes(of: CalledFunction) -> Callable[..., Any]:
    def call(k: float, interval: float, *arguments: Any) -> Any:
        lanes = np.broadcast_arrays(*arguments)
        rates = of(np.stack([one.ravel() for one in lanes]))
        return rates[int(k)].reshape(lanes[0].shape)

    return call


@cache
def _ufunc(operation: str) -> Callable[..., Any]:
    if operation in _UFUNCS:
        return _UFUNCS[operation]
    if operation.startswith(CALL):
        return _by_lanes(compiled_function(operation))
    if hasattr(np, operation):
        return getattr(np, operation)
    from scipy import special

    return getattr(special, operation)
