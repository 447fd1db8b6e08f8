"""A log density as machine code: the kernel of its gradient, its coordinates and its prior.

A prior is any object with a ``logpdf``. Its log density along each coordinate is a table of value
and slope, cubic between the nodes, and straight beyond them, at `REACH` spreads from its median.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import CompiledKernel, LaneKernel, Rows, address
from smcpn.codegen.lower import LaneProgram
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.nuts import machine_code
from smcpn.estimate.nuts.machine_code import DATA, IDENTITY, LOG, LOGIT, RECORD, address_of
from smcpn.likelihood.expansion import tangent_program
from smcpn.likelihood.gradient import FORWARD, LogLikelihood
from smcpn.likelihood.inputs import CHUNK
from smcpn.likelihood.lanes import TANGENT_LANES, Grid
from smcpn.likelihood.registry import LIKELIHOODS, Recursion
from smcpn.model.coordinates import Coordinate, Identity, Log, Logit
from smcpn.model.prior import Prior
from smcpn.model.stencil import derivatives

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

    Attributes
    ----------
    kernel : CompiledKernel
        Value and derivative of the log-likelihood, with as many lanes as directions of one point.
    rows : list of Rows
        Of each record.
    centre, factor : ndarray, (d,), (d, d)
    maps, table : ndarray
        See `coordinate_numbers` and `prior_table`.
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
        """Address of `smcpn.estimate.nuts.machine_code.log_density`."""
        return address_of(machine_code.log_density)

    @property
    def coordinates(self) -> int:
        """Address of `smcpn.estimate.nuts.machine_code.coordinates`."""
        return address_of(machine_code.coordinates)

    @property
    def data(self) -> NDArray[np.int64]:
        """Argument of a chain's calls of these functions: its own, for draws are counted in it."""
        return self._placed[0].copy()

    @cached_property
    def _placed(self) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
        """Numbers of `DATA`, and the arrays that they point to."""
        sizes, constants = self.kernel.sizes, np.array(self.kernel.constant_values)
        records = np.array([_record(rows) for rows in self.rows], dtype=np.int64)
        start, advance = self.kernel.addresses
        d = len(self.centre)
        numbers = {
            "parameters": d,
            "rows": 2 * d + len(constants),
            "constants": len(constants),
            "state": sizes.state,
            "emitted": sizes.emitted,
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
