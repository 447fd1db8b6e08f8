"""A log density with its gradient as machine code: kernel, coordinates and prior of one point.

The gradient of a short record takes ten microseconds, and a call from Python ten times as long.
This function is called by the threads of the sampler, and none of them holds Python's lock.

A prior is any object with a ``logpdf``. Its log density along each coordinate is a table of value
and slope, cubic between the nodes, and straight beyond them, at `REACH` spreads from its median.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from smcpn.codegen.clock import compiling
from smcpn.codegen.kernel import CompiledKernel, LaneKernel, Rows, address
from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.native import Optimisation, code
from smcpn.codegen.routine import Program, View, at_address, call_address, sources
from smcpn.codegen.terms import DOUBLE, INTEGER
from smcpn.estimate.log_density import LogDensity
from smcpn.likelihood.derivatives import tangent_program
from smcpn.likelihood.gradient import FORWARD, LogLikelihood
from smcpn.likelihood.inputs import CHUNK
from smcpn.likelihood.lanes import TANGENT_LANES, Grid
from smcpn.likelihood.registry import LIKELIHOODS, Recursion
from smcpn.model.coordinates import Coordinate, Identity, Log, Logit
from smcpn.model.prior import Prior, derivatives

IDENTITY, LOG, LOGIT = 0, 1, 2
"""Kinds of coordinates."""
DATA = (
    "parameters", "rows", "constants", "state", "emitted", "work", "blocks", "cells", "records",
    "chunk", "start", "advance", "constant_values", "centre", "factor", "coordinates", "prior",
    "record", "scratch", "drawn",
)  # fmt: skip
"""Numbers that `log_density` finds in its data, in this order; from ``start`` to ``scratch``
addresses, and last how many draws `coordinates` has written.

Of each parameter ``coordinates`` has its kind, bound, and sign or width, and the column of its
scale or -1, and the known scale; ``prior`` the first node, the spacing, and value and slope at each
node, of the coordinate over the scale."""
RECORD = ("start", "rows", "length")
"""Numbers that it finds of each record."""
_LINE = 64
_LARGEST = float(np.finfo(float).max)


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


def _is_number(x: float) -> bool:
    """True if it is finite."""
    return abs(x) <= _LARGEST


def _placed(position: Any, theta: Any, data: Any) -> int:
    """Write centre + factor position."""
    d, centre, factor = data[0], at_address(float, data[13]), at_address(float, data[14])
    for i in range(d):
        z = centre[i]
        for j in range(d):
            z += factor[i * d + j] * position[j]
        theta[i] = z
    return 0


def _prior(theta: Any, columns: Any, slopes: Any, of_prior: Any, data: Any) -> float:
    """Fill the columns of the kernel and the slopes of values and prior; return the log prior."""
    d, rows, n_constants, cells = data[0], data[1], data[2], data[7]
    constants, coordinates = at_address(float, data[12]), data[15]
    for k in range(rows * d):
        columns[k] = 0.0
    for i in range(d):
        x, slopes[i] = _value_of(at_address(float, coordinates + 40 * i), theta[i])
        for j in range(d):
            columns[i * d + j] = x
        columns[(d + i) * d + i] = 1.0
        of_prior[i] = 0.0
    for k in range(n_constants * d):
        columns[2 * d * d + k] = constants[k // d]
    total = 0.0
    for i in range(d):
        coordinate = at_address(float, coordinates + 40 * i)
        by, scale = int(coordinate[3]), coordinate[4]
        if by >= 0:
            scale = columns[by * d]
        y = theta[i] / scale
        table = at_address(float, data[16] + 8 * i * (2 * cells + 4))
        log_prior, slope = _prior_of(table, cells, y)
        total += log_prior - math.log(scale)
        of_prior[i] += slope / scale
        if by >= 0:
            of_prior[by] -= (1.0 + y * slope) * slopes[by] / scale
    return total


def _likelihood(columns: int, state: int, sums_at: int, along: Any, lanes: int, data: Any) -> float:
    """Run the kernel over all records; return the log-likelihood, and fill its derivatives.

    They are summed in the order of `LaneLikelihood`.
    """
    d, n_state, blocks, chunk, start, advance = (
        data[0], data[3], data[6], data[9], data[10], data[11],
    )  # fmt: skip
    following, sums, total = state + 8 * n_state * d, at_address(float, sums_at), 0.0
    for j in range(d):
        along[j] = 0.0
    for r in range(data[8]):
        record = at_address(int, data[17] + 24 * r)
        call_address(start, columns, d, record[0], state, lanes)
        first, length = 0, record[2]
        while first < length:
            last = min(length, (max(first - 1, 0) // chunk + 1) * chunk + 1)
            call_address(
                advance, columns, d, state, following, record[1], first, last, 0, 0, sums_at, 0,
                blocks, lanes,
            )  # fmt: skip
            total += sums[0]
            for j in range(d):
                along[j] += sums[d + j]
            state, following = following, state
            first = last
    return total


def log_density(dimension: int, position: Any, gradient: Any, value: Any, data: Any) -> int:
    """Write log density and gradient (d,) at a position (d,); 0, or 1 where there is none."""
    d, rows, n_state, n_emitted, work = data[0], data[1], data[3], data[4], data[5]
    lanes = data[18]
    columns = lanes + 8 * work
    state = columns + 8 * d * rows
    sums = state + 16 * d * n_state
    theta_at = sums + 8 * d * n_emitted
    theta, slopes = at_address(float, theta_at), at_address(float, theta_at + 8 * d)
    of_prior, along = at_address(float, theta_at + 16 * d), at_address(float, theta_at + 24 * d)
    _placed(position, theta, data)
    total = _prior(theta, at_address(float, columns), slopes, of_prior, data)
    known = _is_number(total)
    if known:
        total += _likelihood(columns, state, sums, along, lanes, data)
        known = _is_number(total)
        factor = at_address(float, data[14])
        for j in range(d):
            gradient[j] = 0.0
            for i in range(d):
                gradient[j] += factor[i * d + j] * (along[i] * slopes[i] + of_prior[i])
            known = known and _is_number(gradient[j])
    value[0] = total
    return 0 if known else 1


def coordinates(dimension: int, size: int, position: Any, theta: Any, data: Any) -> int:
    """Write the unconstrained coordinates (d,) of a position (d,), and count it."""
    data[19] += 1
    return _placed(position, theta, data)


_NUMBERS, _DATA = DOUBLE.as_pointer(), INTEGER.as_pointer()
SIGNATURES: dict[Any, list[Any]] = {
    log_density: [INTEGER, _NUMBERS, _NUMBERS, _NUMBERS, _DATA],
    coordinates: [INTEGER, INTEGER, _NUMBERS, _NUMBERS, _DATA],
}
"""Arguments of the functions of C."""


def _write(module: ir.Module) -> None:
    """Write both functions, which return an ``int``."""
    program, status = Program(module), ir.IntType(32)
    for function, kinds in SIGNATURES.items():
        made = ir.Function(module, ir.FunctionType(status, kinds), function.__name__)
        builder: Any = ir.IRBuilder(made.append_basic_block("entry"))
        given = [one if one.type == INTEGER else View.of(one) for one in made.args]
        builder.ret(builder.trunc(program.call(builder, function, given), status))


def address_of(function: Any) -> int:
    """Address for C of `log_density` or `coordinates`, compiled now or at an earlier start."""
    with compiling():
        made = code(f"log density at a point {sources(function)}", _write, Optimisation.VECTORISED)
    return made.address(function.__name__)


Array = NDArray[np.float64]

CELLS = 4096
DRAWS = 1001
REACH = 30.0
"""Ranges between the quartiles on either side of a prior's median that are tabulated."""
NEEDED = 8.0
"""As many have to be exact."""
EXACT = 1e-7
"""Largest error of a tabulated log density, relative to its size where that is above one."""


@dataclass(frozen=True)
class NativeDensity:
    """The log density of positions x, theta = centre + factor x, as functions of C.

    It is machine code, rows and tables, and can be pickled for another process of this user.

    kernel: Value and derivative of the log-likelihood, with as many lanes as directions of one
        point.
    rows: Of each record.
    centre, factor: (d,), (d, d)
    maps, table: See `coordinate_numbers` and `prior_table`.
    """

    kernel: CompiledKernel
    rows: list[Rows]
    centre: Array
    factor: Array
    maps: Array
    table: Array

    def __reduce__(self) -> tuple[type[NativeDensity], tuple[object, ...]]:
        # Addresses are those of this process.
        return NativeDensity, tuple(getattr(self, one.name) for one in fields(self))

    @property
    def log_density(self) -> int:
        """Address of `smcpn.estimate.nuts.native.log_density`."""
        return address_of(log_density)

    @property
    def coordinates(self) -> int:
        """Address of `smcpn.estimate.nuts.native.coordinates`."""
        return address_of(coordinates)

    @property
    def data(self) -> NDArray[np.int64]:
        """Argument of a chain's calls of these functions: its own, in which they work and count."""
        numbers, sizes, d = self._placed[0], self.kernel.sizes, len(self.centre)
        rows = int(numbers[DATA.index("rows")])
        scratch = sizes.slots * sizes.lanes + d * (rows + 2 * sizes.n_state + sizes.n_emitted + 4)
        data = np.concatenate([numbers, np.zeros(_LINE // 8 + scratch, dtype=np.int64)])
        behind = data.ctypes.data + 8 * len(numbers)
        data[DATA.index("scratch")] = -(-behind // _LINE) * _LINE
        return data

    @cached_property
    def _placed(self) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
        """Numbers of `DATA`, and the arrays that they point to."""
        sizes, constants = self.kernel.sizes, np.array(self.kernel.constant_values)
        records = np.array([_record(rows) for rows in self.rows], dtype=np.int64)
        start, advance = map(self.kernel.code.address, ("start", "advance"))
        d = len(self.centre)
        numbers = {
            "parameters": d,
            "rows": 2 * d + len(constants),
            "constants": len(constants),
            "state": sizes.n_state,
            "emitted": sizes.n_emitted,
            "work": sizes.slots * sizes.lanes,
            "blocks": -(-d // sizes.lanes),
            "cells": CELLS,
            "records": len(records),
            "chunk": CHUNK,
            "start": start,
            "advance": advance,
            "constant_values": address(constants),
            "centre": address(self.centre),
            "factor": address(self.factor),
            "coordinates": address(self.maps),
            "prior": address(self.table),
            "record": records.__array_interface__["data"][0],
            "scratch": 0,
            "drawn": 0,
        }
        data = np.array([numbers[name] for name in DATA], dtype=np.int64)
        return data, (constants, records)

    def value(self, positions: Array) -> Array:
        """Log density at positions (n, d), (n,); nan where there is none."""
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, *[ctypes.c_void_p] * 4)
        function, data = kind(self.log_density), self.data
        n, d = positions.shape
        found, gradient, value = np.full(n, np.nan), np.empty(d), np.empty(1)
        for k, position in enumerate(np.ascontiguousarray(positions)):
            arrays = (position, gradient, value, data)
            if function(d, *(array.ctypes.data for array in arrays)) == 0:
                found[k] = value[0]
        return found


def native_density(density: LogDensity, centre: Array, factor: Array) -> NativeDensity | None:
    """Return a log posterior as machine code; None where it has to be evaluated by Python.

    That is where gradients are by a reverse pass, beside which a call from Python takes no time, or
    a prior is not smooth.
    """
    prior, d = density.prior, len(density.prior)
    maps = None if d > FORWARD else coordinate_numbers(prior)
    table = None if maps is None else prior_table(prior)
    if maps is None or table is None:
        return None
    kernel, rows = _gradient_kernel(density.log_likelihood)
    centre, factor = np.ascontiguousarray(centre), np.ascontiguousarray(factor)
    return NativeDensity(kernel.detached(), rows, centre, factor, maps, table)


def _gradient_kernel(function: LogLikelihood) -> tuple[LaneKernel, list[Rows]]:
    """Kernel of value and derivative alone, with as many lanes as the directions of one point."""
    problem, solver = function.problem, function.solver
    recursion = LIKELIHOODS[function.likelihood].traced(
        problem, solver, Grid.of(problem.records, problem.model.delay)
    )
    lanes = next((n for n in (4, 8) if n >= len(problem.names)), TANGENT_LANES)
    kernel = recursion.kernel(solver, 1, gradient_program, lanes)
    return kernel, recursion.over(problem.records, solver, kernel).rows


def gradient_program(recursion: Recursion) -> LaneProgram:
    """`tangent_program`, for a kernel with lanes of its own number."""
    return tangent_program(recursion)


def _record(rows: Rows) -> list[int]:
    numbers = {"start": address(rows.start), "rows": rows.address, "length": len(rows)}
    return [int(numbers[name]) for name in RECORD]


def coordinate_numbers(prior: Prior) -> Array | None:
    """Kind, bound, and sign or width of each coordinate, its scale's column or -1, known scale.

    The result is (d, 5); None for a kind that is not known.
    """
    numbers = [_numbers(coordinate) for coordinate in prior.maps]
    if None in numbers:
        return None
    scales = np.tile([-1.0, 1.0], (len(prior), 1))
    scales[prior.scaling.columns] = np.column_stack([prior.scaling.by, prior.scaling.known])
    return np.hstack([np.array(numbers, dtype=np.float64), scales])


def _numbers(coordinate: Coordinate) -> tuple[float, float, float] | None:
    match coordinate:
        case Identity():
            return IDENTITY, 0.0, 1.0
        case Log():
            return LOG, coordinate.bound, coordinate.sign
        case Logit():
            return LOGIT, coordinate.lower, coordinate.upper - coordinate.lower
        case _:
            return None


def prior_table(prior: Prior) -> Array | None:
    """First node, spacing, and value and slope at each node, (d, 2 + 2 nodes).

    They are those of coordinates over their scales. None where the cubic between the nodes is not
    the log density `NEEDED` far, as at a kink or a bound. Farther out, where a bounded parameter
    rounds to its bound, the table goes on straight.
    """
    d, y = len(prior), prior.standardised(prior.sample(np.random.default_rng(0), DRAWS))
    quarter, centre, three = np.quantile(y, (0.25, 0.5, 0.75), axis=0)
    spread = three - quarter
    first, spacing = centre - REACH * spread, 2.0 * REACH * spread / CELLS
    numbers = np.arange(CELLS + 1)[:, None]
    nodes = first + numbers * spacing
    with np.errstate(all="ignore"):
        values, slopes, _ = derivatives(prior.unscaled_log_densities, nodes, spread)
        middle = 0.5 * (values[1:] + values[:-1]) + spacing / 8.0 * (slopes[:-1] - slopes[1:])
        exact = prior.unscaled_log_densities(nodes[:-1] + 0.5 * spacing)
        close = np.abs(middle - exact) <= EXACT * np.maximum(1.0, np.abs(exact))
    half, needed = CELLS // 2, int(CELLS * NEEDED / (2.0 * REACH))
    below, above = (np.logical_and.accumulate(side).sum(axis=0) for side in (
        close[:half][::-1], close[half:],
    ))  # fmt: skip
    if min(below.min(), above.min()) < needed:
        return None
    inside = np.clip(numbers, half - below, half + above)
    values, slopes = (np.take_along_axis(each, inside, axis=0) for each in (values, slopes))
    values += slopes * spacing * (numbers - inside)
    table = np.stack([values, slopes], axis=2).transpose(1, 0, 2).reshape(d, -1)
    return np.ascontiguousarray(np.hstack([np.column_stack([first, spacing]), table]))
