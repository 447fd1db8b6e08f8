"""The log density of one point with its gradient, in machine code that calls the kernel.

The gradient of a short record takes ten microseconds, and a call from Python ten times as long.
This function is called by the threads of the sampler, and none of them holds Python's lock.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from smcpn.codegen.cache import allocating, compiled, entry_point
from smcpn.codegen.clock import CLOCK

IDENTITY, LOG, LOGIT = 0, 1, 2
"""Kinds of coordinates."""
DATA = (
    "parameters", "rows", "constants", "state", "emitted", "work", "blocks", "cells", "records",
    "chunk", "start", "advance", "constant_values", "centre", "factor", "coordinates", "prior",
    "record",
)  # fmt: skip
"""Numbers that `log_density` finds in its data, in this order; from ``start`` on addresses.

Of each parameter ``coordinates`` has its kind, bound, and sign or width, and the column of its
scale or -1, and the known scale; ``prior`` the first node, the spacing, and value and slope at each
node, of the coordinate over the scale."""
RECORD = (
    "start", "intervals", "inputs", "gains", "n_gains", "samples", "begins", "recur", "length",
)  # fmt: skip
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
        slope = width * np.exp(z)
        return bound + slope, slope
    share = 1.0 / (1.0 + np.exp(-z))
    return bound + width * share, width * share / (1.0 + np.exp(z))


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
    """Whether it is finite; the arithmetic that numba's own test takes is one of finite numbers."""
    return bool(abs(x) <= _LARGEST)


@allocating
def _placed(position: Any, theta: Any, data: Any) -> int:
    """Write centre + factor position."""
    head = carray(data, 18)
    d = head[0]
    centre, factor = carray(_doubles(head[13]), d), carray(_doubles(head[14]), (d, d))
    for i in range(d):
        z = centre[i]
        for j in range(d):
            z += factor[i, j] * position[j]
        theta[i] = z
    return 0


@allocating
def _evaluated(position: Any, gradient: Any, value: Any, data: Any) -> int:
    head = carray(data, 18)
    d, rows, n_constants, n_state, n_emitted = head[0], head[1], head[2], head[3], head[4]
    work, blocks, cells, n_records, chunk = head[5], head[6], head[7], head[8], head[9]
    start, advance = head[10], head[11]
    constants = carray(_doubles(head[12]), n_constants)
    factor = carray(_doubles(head[14]), (d, d))
    coordinates = carray(_doubles(head[15]), (d, 5))
    prior = carray(_doubles(head[16]), (d, 2 * cells + 4))
    records = carray(_integers(head[17]), (n_records, 9))
    columns, slopes, of_prior = np.zeros((rows, d)), np.empty(d), np.zeros(d)
    total, theta = 0.0, np.empty(d)
    _placed(position, theta, data)
    for i in range(d):
        columns[i], slopes[i] = _value_of(coordinates[i], theta[i])
        columns[d + i, i] = 1.0
    for i in range(d):
        by, scale = int(coordinates[i, 3]), coordinates[i, 4]
        if by >= 0:
            scale = columns[by, 0]
        y = theta[i] / scale
        log_prior, slope = _prior_of(prior[i], cells, y)
        total += log_prior - np.log(scale)
        of_prior[i] += slope / scale
        if by >= 0:
            of_prior[by] -= (1.0 + y * slope) * slopes[by] / scale
    for k in range(n_constants):
        columns[2 * d + k] = constants[k]
    if not _is_number(total):
        return 1
    state, following = np.empty((n_state, d)), np.empty((n_state, d))
    sums, along, log_likelihood = np.empty((n_emitted, d)), np.zeros(d), 0.0
    kept = np.empty(work + _LINE // 8)
    lanes = -(-kept.ctypes.data // _LINE) * _LINE
    for r in range(n_records):
        record = records[r]
        _run(start, (columns.ctypes.data, d, record[0], state.ctypes.data, lanes))
        first, length = 0, record[8]
        while first < length:
            last = min(length, (max(first - 1, 0) // chunk + 1) * chunk + 1)
            _run(
                advance,
                (
                    columns.ctypes.data, d, state.ctypes.data, following.ctypes.data,
                    record[1], record[2], record[3], record[4], record[5], record[6], record[7],
                    first, last, 0, 0, sums.ctypes.data, 0, blocks, lanes,
                ),
            )  # fmt: skip
            log_likelihood += sums[0, 0]
            along += sums[1]
            state, following = following, state
            first = last
    total += log_likelihood
    for i in range(d):
        along[i] = along[i] * slopes[i] + of_prior[i]
    known = _is_number(total)
    for j in range(d):
        gradient[j] = 0.0
        for i in range(d):
            gradient[j] += factor[i, j] * along[i]
        known = known and _is_number(gradient[j])
    value[0] = total
    return 0 if known else 1


def log_density(dimension: int, position: Any, gradient: Any, value: Any, data: Any) -> int:
    """Write log density and gradient (d,) at a position (d,); 0, or 1 where there is none."""
    return _evaluated(position, gradient, value, data)


def coordinates(dimension: int, size: int, position: Any, theta: Any, data: Any) -> int:
    """Write the unconstrained coordinates (d,) of a position (d,)."""
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
