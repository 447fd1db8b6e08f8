"""The log density of one point with its gradient, in machine code that calls the kernel.

The gradient of a short record takes ten microseconds, and a call from Python ten times as long.
This function is called by the threads of the sampler, and none of them holds Python's lock.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from smcpn.codegen.cache import allocating, compiled, entry_point
from smcpn.codegen.clock import CLOCK

IDENTITY, LOG, LOGIT = 0, 1, 2
"""Kinds of coordinates."""
DATA = (
    "parameters", "rows", "constants", "state", "emitted", "work", "blocks", "cells", "records",
    "chunk", "start", "advance", "constant_values", "centre", "factor", "coordinates", "prior",
    "record", "drawn",
)  # fmt: skip
"""Numbers that `log_density` finds in its data, in this order; from ``start`` to ``record``
addresses, and last how many draws `coordinates` has written.

Of each parameter ``coordinates`` has its kind, bound, and sign or width, and the column of its
scale or -1, and the known scale; ``prior`` the first node, the spacing, and value and slope at each
node, of the coordinate over the scale."""
RECORD = ("start", "rows", "length")
"""Numbers that it finds of each record."""
_LINE = 64
_compiling: Any = intrinsic
"""For a type checker: without the context, which numba adds, calls have an argument less."""
_LARGEST = np.finfo(float).max


@_compiling
def _doubles(typing_context: Any, address: Any) -> Any:
    """Doubles at an address."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float64)(address), write


@_compiling
def _integers(typing_context: Any, address: Any) -> Any:
    """Integers at an address."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.int64)(address), write


@_compiling
def _run(typing_context: Any, address: Any, arguments: Any) -> Any:
    """Call the kernel's function at an address with a tuple of integers."""

    def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        values = cgutils.unpack_tuple(builder, given[1])
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * len(values)).as_pointer()
        builder.call(builder.inttoptr(given[0], kind), values)
        return context.get_dummy_value()

    return types.void(address, arguments), write


@compiled
def _value_of(coordinate: Any, z: float) -> tuple[float, float]:
    """Value of a coordinate, and its slope; see `smcpn.model.prior`."""
    kind, bound, width = int(coordinate[0]), coordinate[1], coordinate[2]
    if kind == IDENTITY:
        return z, 1.0
    if kind == LOG:
        slope = width * math.exp(z)
        return bound + slope, slope
    share = 1.0 / (1.0 + math.exp(-z))
    return bound + width * share, width * share / (1.0 + math.exp(z))


@compiled
def _prior_of(table: Any, cells: int, z: float) -> tuple[float, float]:
    """Log prior density of a coordinate and its slope, by a cubic in each cell, straight beyond."""
    first, spacing = table[0], table[1]
    place = (z - first) / spacing
    k = int(min(max(place, 0.0), cells - 1.0))
    s = min(max(place - k, 0.0), 1.0)
    f0, g0 = table[2 + 2 * k], table[3 + 2 * k] * spacing
    f1, g1 = table[4 + 2 * k], table[5 + 2 * k] * spacing
    c2, c3 = 3.0 * (f1 - f0) - 2.0 * g0 - g1, 2.0 * (f0 - f1) + g0 + g1
    value = f0 + s * (g0 + s * (c2 + s * c3))
    slope = (g0 + s * (2.0 * c2 + s * 3.0 * c3)) / spacing
    return value + slope * (z - first - spacing * (k + s)), slope


@compiled
def _is_number(x: float) -> bool:
    """True if it is finite; numba's own test is compiled by rules that lose it."""
    return abs(x) <= _LARGEST


@compiled
def _placed(position: Any, theta: Any, data: Any) -> int:
    """Write centre + factor position."""
    d, centre, factor = data[0], _doubles(data[13]), _doubles(data[14])
    for i in range(d):
        z = centre[i]
        for j in range(d):
            z += factor[i * d + j] * position[j]
        theta[i] = z
    return 0


@compiled
def _prior(theta: Any, columns: Any, slopes: Any, of_prior: Any, data: Any) -> float:
    """Fill the columns of the kernel and the slopes of values and prior; return the log prior."""
    d, rows, n_constants, cells = data[0], data[1], data[2], data[7]
    constants, coordinates = _doubles(data[12]), data[15]
    for k in range(rows * d):
        columns[k] = 0.0
    for i in range(d):
        x, slopes[i] = _value_of(_doubles(coordinates + 40 * i), theta[i])
        for j in range(d):
            columns[i * d + j] = x
        columns[(d + i) * d + i] = 1.0
        of_prior[i] = 0.0
    for k in range(n_constants * d):
        columns[2 * d * d + k] = constants[k // d]
    total = 0.0
    for i in range(d):
        coordinate = _doubles(coordinates + 40 * i)
        by, scale = int(coordinate[3]), coordinate[4]
        if by >= 0:
            scale = columns[by * d]
        y = theta[i] / scale
        log_prior, slope = _prior_of(_doubles(data[16] + 8 * i * (2 * cells + 4)), cells, y)
        total += log_prior - math.log(scale)
        of_prior[i] += slope / scale
        if by >= 0:
            of_prior[by] -= (1.0 + y * slope) * slopes[by] / scale
    return total


@compiled
def _likelihood(columns: int, state: int, sums_at: int, along: Any, lanes: int, data: Any) -> float:
    """Run the kernel over all records; return the log-likelihood, and fill its derivatives.

    They are summed in the order of `LaneLikelihood`.
    """
    d, n_state, blocks, chunk, start, advance = (
        data[0], data[3], data[6], data[9], data[10], data[11],
    )  # fmt: skip
    following, sums, total = state + 8 * n_state * d, _doubles(sums_at), 0.0
    for j in range(d):
        along[j] = 0.0
    for r in range(data[8]):
        record = _integers(data[17] + 24 * r)
        _run(start, (columns, d, record[0], state, lanes))
        first, length = 0, record[2]
        while first < length:
            last = min(length, (max(first - 1, 0) // chunk + 1) * chunk + 1)
            _run(
                advance,
                (
                    columns, d, state, following, record[1], first, last, 0, 0, sums_at, 0,
                    blocks, lanes,
                ),
            )  # fmt: skip
            total += sums[0]
            for j in range(d):
                along[j] += sums[d + j]
            state, following = following, state
            first = last
    return total


@allocating
def _evaluated(position: Any, gradient: Any, value: Any, data: Any) -> int:
    d, rows, n_state, n_emitted, work = data[0], data[1], data[3], data[4], data[5]
    kept = np.empty(work + _LINE // 8 + d * (rows + 2 * n_state + n_emitted + 4))
    lanes = -(-kept.ctypes.data // _LINE) * _LINE
    columns = lanes + 8 * work
    state = columns + 8 * d * rows
    sums = state + 16 * d * n_state
    theta_at = sums + 8 * d * n_emitted
    theta, slopes = _doubles(theta_at), _doubles(theta_at + 8 * d)
    of_prior, along = _doubles(theta_at + 16 * d), _doubles(theta_at + 24 * d)
    _placed(position, theta, data)
    total = _prior(theta, _doubles(columns), slopes, of_prior, data)
    known = _is_number(total)
    if known:
        total += _likelihood(columns, state, sums, along, lanes, data)
        known = _is_number(total)
        factor = _doubles(data[14])
        for j in range(d):
            gradient[j] = 0.0
            for i in range(d):
                gradient[j] += factor[i * d + j] * (along[i] * slopes[i] + of_prior[i])
            known = known and _is_number(gradient[j])
    value[0] = total
    # numba frees an array after its last use.
    kept[0] = 0.0
    return 0 if known else 1


def log_density(dimension: int, position: Any, gradient: Any, value: Any, data: Any) -> int:
    """Write log density and gradient (d,) at a position (d,); 0, or 1 where there is none."""
    return _evaluated(position, gradient, value, data)


def coordinates(dimension: int, size: int, position: Any, theta: Any, data: Any) -> int:
    """Write the unconstrained coordinates (d,) of a position (d,), and count it."""
    data[18] += 1
    return _placed(position, theta, data)


_NUMBERS, _ADDRESS, _SIZE = types.CPointer(types.float64), types.CPointer(types.int64), types.uintp
SIGNATURES = {
    log_density: types.int32(_SIZE, _NUMBERS, _NUMBERS, _NUMBERS, _ADDRESS),
    coordinates: types.int32(_SIZE, _SIZE, _NUMBERS, _NUMBERS, _ADDRESS),
}


def address_of(function: Any) -> int:
    """Address for C of `log_density` or `coordinates`, compiled now or at an earlier start."""
    began = time.perf_counter()
    dispatcher, signature = entry_point(function), SIGNATURES[function]
    dispatcher.compile(signature.args)
    CLOCK.compile_seconds += time.perf_counter() - began
    library = dispatcher.overloads[signature.args]
    return library.library.get_pointer_to_function(library.fndesc.llvm_cfunc_wrapper_name)
