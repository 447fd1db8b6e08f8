"""Boehm (2014) by Rodas4, one trajectory after the other, compiled by numba: dense, without lanes.

A second opinion on the generated kernel, and what its lanes are compared with. The coefficients are
those of `tests.reference.rosenbrock`, whose order conditions are tested.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from tests.reference.rosenbrock import RODAS4

Array = NDArray[np.float64]

A, C, ALPHA, D, GAMMA = RODAS4.a, RODAS4.c, RODAS4.alpha, RODAS4.d, RODAS4.gamma
STAGES, N = len(ALPHA), 8
OUT = 0.45 / 1.4


@numba.njit(cache=True)
def rate(t, x, p, out):
    """Right-hand side."""
    epo = 1.25e-7 * np.exp(-p[0] * t) * p[5]
    aa, ab, bb = epo * x[0] * x[0], epo * x[0] * x[1], epo * x[1] * x[1]
    out[0] = -2 * aa - ab + OUT * (2 * p[2] * x[5] + p[1] * x[6])
    out[1] = -2 * bb - ab + OUT * (2 * p[2] * x[7] + p[1] * x[6])
    out[2] = ab - p[3] * x[2]
    out[3] = aa - p[4] * x[3]
    out[4] = bb - p[4] * x[4]
    out[5] = p[4] * x[3] / OUT - p[2] * x[5]
    out[6] = p[3] * x[2] / OUT - p[1] * x[6]
    out[7] = p[4] * x[4] / OUT - p[2] * x[7]


@numba.njit(cache=True)
def slopes(t, x, p, w, moved):
    """Minus the Jacobian, added to w, and the time derivative."""
    epo = 1.25e-7 * np.exp(-p[0] * t) * p[5]
    a, b = epo * x[0], epo * x[1]
    w[0, 0] += 4 * a + b
    w[0, 1] += a
    w[0, 5] -= 2 * OUT * p[2]
    w[0, 6] -= OUT * p[1]
    w[1, 0] += b
    w[1, 1] += 4 * b + a
    w[1, 6] -= OUT * p[1]
    w[1, 7] -= 2 * OUT * p[2]
    w[2, 0] -= b
    w[2, 1] -= a
    w[2, 2] += p[3]
    w[3, 0] -= 2 * a
    w[3, 3] += p[4]
    w[4, 1] -= 2 * b
    w[4, 4] += p[4]
    w[5, 3] -= p[4] / OUT
    w[5, 5] += p[2]
    w[6, 2] -= p[3] / OUT
    w[6, 6] += p[1]
    w[7, 4] -= p[4] / OUT
    w[7, 7] += p[2]
    aa, ab, bb = a * x[0], a * x[1], b * x[1]
    moved[:] = 0.0
    moved[0], moved[1], moved[2] = p[0] * (2 * aa + ab), p[0] * (2 * bb + ab), -p[0] * ab
    moved[3], moved[4] = -p[0] * aa, -p[0] * bb


@numba.njit(cache=True)
def solution(times, x0, p, tolerance, a, c, alpha, d, gamma):
    """States at the times, (T, 8), and the number of accepted steps."""
    result, x, t = np.empty((len(times), N)), x0.copy(), times[0]
    result[0] = x
    w, moved, k = np.empty((N, N)), np.empty(N), np.empty((STAGES, N))
    place, right, sizes = np.empty(N), np.empty(N), np.abs(x0)
    h, steps = times[1] - times[0], 0
    for sample in range(1, len(times)):
        while t < times[sample]:
            step = min(h, times[sample] - t)
            w[:] = 0.0
            for i in range(N):
                w[i, i] = 1.0 / (step * gamma)
            slopes(t, x, p, w, moved)
            for i in range(N):
                for j in range(i + 1, N):
                    if w[j, i] != 0.0:
                        w[j, i] /= w[i, i]
                        for m in range(i + 1, N):
                            w[j, m] -= w[j, i] * w[i, m]
            for s in range(STAGES):
                place[:] = x
                for j in range(s):
                    for i in range(N):
                        place[i] += a[s, j] * k[j, i]
                rate(t + alpha[s] * step, place, p, right)
                for j in range(s):
                    for i in range(N):
                        right[i] += c[s, j] / step * k[j, i]
                for i in range(N):
                    right[i] += step * d[s] * moved[i]
                for i in range(N):
                    for j in range(i):
                        right[i] -= w[i, j] * right[j]
                for i in range(N - 1, -1, -1):
                    for j in range(i + 1, N):
                        right[i] -= w[i, j] * right[j]
                    right[i] /= w[i, i]
                k[s] = right
            total = 0.0
            for i in range(N):
                place[i] += k[STAGES - 1, i]
                size = max(sizes[i], abs(place[i]), 1e-12)
                total += (k[STAGES - 1, i] / size) ** 2
            error = np.sqrt(total / N) / tolerance
            factor = min(5.0, max(0.2, 0.9 * (error + 1e-300) ** -0.25))
            if error < 1.0:
                t, steps = t + step, steps + 1
                x[:] = place
                for i in range(N):
                    sizes[i] = max(sizes[i], abs(x[i]))
                h = step * factor if step == h else max(h, step * factor)
            else:
                h = step * factor
        t = times[sample]
        result[sample] = x
    return result, steps


def solved(times: Array, values: Array, tolerance: float) -> tuple[Array, int]:
    """States (T, 8) at parameter values (6,), in the order of the equation, and steps."""
    ratio = 0.693
    x0 = np.array([207.6 * ratio, 207.6 * (1 - ratio), 0, 0, 0, 0, 0, 0])
    found: Any = solution(times, x0, values, tolerance, A, C, ALPHA, D, GAMMA)
    return found
