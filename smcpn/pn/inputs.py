"""The input at any time, as piecewise polynomials that compiled code evaluates."""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from smcpn.hold import substep_inputs
from smcpn.pn.forward import Inputs
from smcpn.record import InputFunction, Record

Array = NDArray[np.float64]

DEGREE = 16
"""Enough for a band-limited input to 1e-12 of its size, up to 0.9 of the Nyquist frequency."""
ACCURACY = 1e-13
"""Relative change at the points between those of the interpolation that lets a piece stand."""
HALVINGS = 12


def no_input(begin: float, end: float) -> Inputs:
    """The input of a model that has none."""
    return Inputs(np.array([begin, end]), np.empty((1, 1, 0)))


def input_polynomials(record: Record) -> Inputs:
    """Polynomials of every sampling interval; a known function takes as many as it needs."""
    if record.n_inputs == 0:
        return no_input(record.t[0], record.t[-1])
    if record.u_function is not None:
        return _of_function(record.u_function, record)
    if record.hold == "bandlimited":
        points = substep_inputs(record, DEGREE)
        nodes = np.vander(np.linspace(-1.0, 1.0, DEGREE + 1), increasing=True)
        return Inputs(record.t, np.array(np.linalg.solve(nodes, points), dtype=float))
    ends = substep_inputs(record, 1)
    coefficients = np.stack([ends.mean(axis=1), (ends[:, 1] - ends[:, 0]) / 2], axis=1)
    return Inputs(record.t, coefficients)


def series_after(inputs: Inputs, time: float, order: int) -> Array:
    """Taylor coefficients 0..order of the input just after a time, (order + 1, n_inputs)."""
    edges, n_inputs = inputs.edges, inputs.coefficients.shape[2]
    if n_inputs == 0:
        return np.empty((order + 1, 0))
    piece = min(int(np.searchsorted(edges, time, side="right")) - 1, len(edges) - 2)
    begin, end = edges[piece], edges[piece + 1]
    polynomial = inputs.coefficients[piece]
    s, stretch = (2.0 * time - begin - end) / (end - begin), 2.0 / (end - begin)
    result = np.zeros((order + 1, n_inputs))
    for k in range(min(order + 1, len(polynomial))):
        binomials = np.array([comb(m, k) for m in range(k, len(polynomial))], dtype=float)
        result[k] = stretch**k * (binomials * s ** np.arange(len(binomials))) @ polynomial[k:]
    return result


def _of_function(function: InputFunction, record: Record) -> Inputs:
    """Chebyshev interpolation, halving a piece until it is accurate."""
    nodes = chebyshev.chebpts1(DEGREE + 1)
    between = np.cos(np.pi * np.arange(1, DEGREE + 1) / (DEGREE + 1))
    to_powers = np.linalg.inv(np.vander(nodes, increasing=True))

    def at(begin: float, end: float, s: Array) -> Array:
        values = function(0.5 * (begin + end) + 0.5 * (end - begin) * s)
        return np.asarray(values, dtype=float).reshape(len(s), record.n_inputs)

    def pieces(begin: float, end: float, halvings: int) -> list[tuple[float, Array]]:
        coefficients = to_powers @ at(begin, end, nodes)
        exact = at(begin, end, between)
        error = np.abs(np.vander(between, DEGREE + 1, increasing=True) @ coefficients - exact)
        if halvings == 0 or (error <= 1e2 * ACCURACY * np.abs(exact).max()).all():
            return [(begin, coefficients)]
        middle = 0.5 * (begin + end)
        return pieces(begin, middle, halvings - 1) + pieces(middle, end, halvings - 1)

    found = [
        piece
        for begin, end in zip(record.t[:-1], record.t[1:], strict=True)
        for piece in pieces(float(begin), float(end), HALVINGS)
    ]
    edges = np.array([*(begin for begin, _ in found), record.t[-1]])
    return Inputs(edges, np.array([coefficients for _, coefficients in found]))
