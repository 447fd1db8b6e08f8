"""The local diffusion of a step and the error that it means, from the residual alone; compiled.

The state before the step counts as exact, so that no covariance is needed: S = H (Q x Gamma) H'.
A residual counts as at least a rounding of its rate: one that happens to come out as zero would
claim that the step is without error.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.library import compiled
from smcpn.pn.factors import clear, solve_lower, triangularise

if TYPE_CHECKING:
    from smcpn.pn.forward import Control, Field, Work
    from smcpn.pn.layout import Layout

Array = NDArray[np.float64]

ROUNDING = float(np.finfo(float).eps)


@compiled
def local_error(
    field: Field,
    layout: Layout,
    control: Control,
    h: float,
    mean_before: Array,
    h_before: float,
    work: Work,
):
    """Local diffusion (21), (23), and the error h D_n (27)-(29) in units of the tolerance."""
    if layout.coupled:
        _local_noise_coupled(layout, work)
    else:
        _local_noise(layout, work)
    total = 0.0
    for i in range(len(work.x)):
        k, p = layout.derivative[i], layout.process[i]
        ratio = field.scale[i] / h**k
        # A rate off by e for a step moves entry k of its chain by e h^(top - k) / (top - k)!.
        for j in range(layout.top[p] - k, layout.top[p]):
            ratio *= (j + 1.0) / (j - layout.top[p] + k + 1.0)
        before = abs(mean_before[k, p] * field.scale[i] / h_before**k)
        tolerance = control.atol + control.rtol * max(before, abs(work.x[i]))
        total += (work.error[p] * ratio / tolerance) ** 2
    return sqrt(total / len(work.x))


@compiled
def _local_noise(layout: Layout, work: Work):
    """EKF0: H picks the top, S = Q_top Gamma."""
    d = len(layout.top)
    total = 0.0
    for p in range(d):
        work.error[p] = _squares(layout.noise_factor[layout.top[p]])
        work.noise[p] = (work.residual[p] ** 2 + _rounding(work, p)) / work.error[p]
        total += work.noise[p] / d
    for p in range(d):
        if not layout.diagonal:
            work.noise[p] = total
        work.error[p] = sqrt(work.error[p] * work.noise[p])


@compiled
def _local_noise_coupled(layout: Layout, work: Work):
    """EKF1: S = H (Q x Gamma) H' of every block, through V = H Q^1/2."""
    d, size, width = len(layout.top), layout.order + 1, layout.width
    total = 0.0
    local, whitened = work.local, work.whitened
    for block in range(layout.n_blocks):
        first = block * width
        _noise_seen(layout, first, work)
        for s in range(width):
            p = first + s
            work.error[p] = _squares(local[s])
            whitened[s] = work.residual[p]
            if layout.diagonal and width > 1:
                # (22), (23): no closed form maximises over Gamma, H = E_1 in its place.
                top = _squares(layout.noise_factor[layout.top[p]])
                work.noise[p] = (work.residual[p] ** 2 + _rounding(work, p)) / top
        if layout.diagonal and width > 1:
            for s in range(width):
                work.error[first + s] = 0.0
                for other in range(width):
                    for j in range(other * size, (other + 1) * size):
                        work.error[first + s] += local[s, j] ** 2 * work.noise[first + other]
            continue
        triangularise(local, width, width, width * size)
        solve_lower(local, width, whitened)
        for s in range(width):
            rounding = _rounding(work, first + s) / work.error[first + s]
            work.noise[first + s] = whitened[s] ** 2 + rounding
            total += work.noise[first + s] / d
            if layout.diagonal:
                work.error[first + s] *= work.noise[first + s]
    for p in range(d):
        if not layout.diagonal:
            work.noise[p] = total
            work.error[p] *= total
        work.error[p] = sqrt(work.error[p])


@compiled
def _rounding(work: Work, p: int):
    return (ROUNDING * work.rate[p]) ** 2


@compiled
def _noise_seen(layout: Layout, first: int, work: Work):
    """H Q^1/2 of a block at unit diffusion, (width, width (order + 1))."""
    size, width, local = layout.order + 1, layout.width, work.local
    clear(local, width, size * width)
    for s in range(width):
        p = first + s
        for j in range(layout.top[p] + 1):
            local[s, s * size + j] = layout.noise_factor[layout.top[p], j]
        for i in range(len(layout.process)):
            other = layout.process[i] - first
            if 0 <= other < width:
                k = layout.derivative[i]
                for j in range(k + 1):
                    local[s, other * size + j] -= work.coupling[p, i] * layout.noise_factor[k, j]


@compiled
def _squares(row: Array):
    total = 0.0
    for value in row:
        total += value * value
    return total
