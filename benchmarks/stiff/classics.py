"""The stiff problems that solvers are measured on, of the test set of Bari (Mazzia and Magherini).

Each has one parameter, of which the published value is 1: the rate that all else is multiplied by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Classic:
    """An initial value problem: equation, states at time zero, times at which it is compared."""

    ode: smcpn.ODE
    initial: tuple[float, ...]
    t: Array

    def rate(self) -> Callable[[float, Array], list[float]]:
        """Right-hand side, as SciPy takes it."""
        function = self.ode.function
        assert function is not None
        return lambda _, y: list(function(*y, rate=1.0))

    def problem(self) -> smcpn.Problem:
        """All states observed, none measured."""
        n = len(self.ode.states)
        record = smcpn.Record(t=self.t, y=np.zeros((len(self.t), n)))
        prior: dict[str, Any] = {"rate": stats.lognorm(0.1)}
        return smcpn.Problem(
            self.ode, record, observe=list(self.ode.states), noise=1.0,
            initial=self.initial, prior=prior,
        )  # fmt: skip


@smcpn.ode
def robertson(a, b, c, *, rate):
    """Three reactions of which the fastest is a billion times the slowest."""
    r1, r2, r3 = 0.04 * a, 1e4 * b * c, 3e7 * b**2
    return rate * (r2 - r1), rate * (r1 - r2 - r3), rate * r3


@smcpn.ode
def oregonator(a, b, c, *, rate):
    """The reaction of Belousov and Zhabotinskii."""
    s, q, w = 77.27, 8.375e-6, 0.161
    return (
        rate * s * (b + a * (1 - q * a - b)),
        rate * (c - (1 + a) * b) / s,
        rate * w * (a - c),
    )


@smcpn.ode
def van_der_pol(x, v, *, rate):
    """Relaxation, mu = 1000, in the time of its period: 1 / mu^2 is 1e-6."""
    return rate * v, rate * 1e6 * ((1 - x**2) * v - x)


@smcpn.ode
def hires(a, b, c, d, e, f, g, h, *, rate):
    """Light and the growth of a plant."""
    k = 280 * f * h
    rates = (
        -1.71 * a + 0.43 * b + 8.32 * c + 0.0007,
        1.71 * a - 8.75 * b,
        -10.03 * c + 0.43 * d + 0.035 * e,
        8.32 * b + 1.71 * c - 1.12 * d,
        -1.745 * e + 0.43 * f + 0.43 * g,
        -k + 0.69 * d + 1.71 * e - 0.43 * f + 0.69 * g,
        k - 1.81 * g,
        -k + 1.81 * g,
    )
    return [rate * one for one in rates]


@smcpn.ode
def pollution(
    y1, y2, y3, y4, y5, y6, y7, y8, y9, y10, y11, y12, y13, y14, y15, y16, y17, y18, y19, y20,
    *, rate,
):  # fmt: skip
    """Chemistry of the air, 25 reactions of 20 species."""
    r1, r2, r3, r4, r5 = 0.35 * y1, 26.6 * y2 * y4, 1.23e4 * y5 * y2, 8.6e-4 * y7, 8.2e-4 * y7
    r6, r7, r8, r9 = 1.5e4 * y7 * y6, 1.3e-4 * y9, 2.4e4 * y9 * y6, 1.65e4 * y11 * y2
    r10, r11, r12, r13 = 9e3 * y11 * y1, 0.022 * y13, 1.2e4 * y10 * y2, 1.88 * y14
    r14, r15, r16, r17 = 1.63e4 * y1 * y6, 4.8e6 * y3, 3.5e-4 * y4, 0.0175 * y4
    r18, r19, r20, r21 = 1e8 * y16, 4.44e11 * y16, 1.24e3 * y17 * y6, 2.1 * y19
    r22, r23, r24, r25 = 5.78 * y19, 0.0474 * y1 * y4, 1.78e3 * y19 * y1, 3.12 * y20
    rates = (
        -r1 - r10 - r14 - r23 - r24 + r2 + r3 + r9 + r11 + r12 + r22 + r25,
        -r2 - r3 - r9 - r12 + r1 + r21,
        -r15 + r1 + r17 + r19 + r22,
        -r2 - r16 - r17 - r23 + r15,
        -r3 + 2 * r4 + r6 + r7 + r13 + r20,
        -r6 - r8 - r14 - r20 + r3 + 2 * r18,
        -r4 - r5 - r6 + r13,
        r4 + r5 + r6 + r7,
        -r7 - r8,
        -r12 + r7 + r9,
        -r9 - r10 + r8 + r11,
        r9,
        -r11 + r10,
        -r13 + r12,
        r14,
        -r18 - r19 + r16,
        -r20,
        r20,
        -r21 - r22 - r24 + r23 + r25,
        -r25 + r24,
    )
    return [rate * one for one in rates]


def _at(places: dict[int, float], n: int) -> tuple[float, ...]:
    return tuple(places.get(k, 0.0) for k in range(1, n + 1))


CLASSICS = {
    "Robertson": Classic(
        robertson, (1.0, 0.0, 0.0), np.append(0.0, 0.4 * 10.0 ** np.arange(12))
    ),
    "Oregonator": Classic(oregonator, (1.0, 2.0, 3.0), np.linspace(0.0, 360.0, 13)),
    "van der Pol": Classic(van_der_pol, (2.0, 0.0), np.linspace(0.0, 2.0, 12)),
    "HIRES": Classic(
        hires, _at({1: 1.0, 8: 0.0057}, 8), np.array([0.0, 1.0, 5.0, 20.0, 80.0, 321.8122])
    ),
    "Pollution": Classic(
        pollution, _at({2: 0.2, 4: 0.04, 7: 0.1, 8: 0.3, 9: 0.01, 17: 0.007}, 20),
        np.linspace(0.0, 60.0, 7),
    ),
}  # fmt: skip
