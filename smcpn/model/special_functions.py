"""Special functions as graphs of what a kernel computes, with derivatives that are as exact.

The normal distribution far in its tails, and the gamma function.
"""

from __future__ import annotations

from math import log, pi, sqrt

import casadi as ca
import numpy as np

STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
STIRLING_FROM = 8
"""Argument from which the terms above are exact to 1e-14."""
TAIL_MIDDLE = 3.75
TAIL = (
    1.1775789345674017, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189,
    -0.026658668435305753, 0.009074997670705265, -0.002413163540417608, 0.0004907758365258086,
    -6.916973302501207e-05, 4.13902798607301e-06, 7.74038306619849e-07, -2.1886401049234397e-07,
    1.076499946567091e-08, 4.521959811218287e-09, -7.754400208831351e-10, -6.318088340886684e-11,
    2.86879501093067e-11, 1.94558685457774e-13, -9.65469674843343e-13, 3.252548148148898e-14,
    3.347811948287014e-14, -1.864562880416744e-15, -1.250795053065837e-15, 7.418235256969802e-17,
    5.0681489051815133e-17,
)  # fmt: skip
"""Chebyshev coefficients of (1 + 2 x) erfcx(x), x >= 0, in (x - c) / (x + c) with c of the line
before, exact to 1e-17 (Shepherd and Laframboise 1981, Math. Comp. 36)."""
NARROW = 0.05
"""Widths of an interval, and those times its distance from 0, below which a series is exact."""
LEAST = 1e-100
"""Keeps the logarithm finite in a branch that is not taken, and its two derivatives."""


def log_gamma(x: ca.SX) -> ca.SX:
    """Logarithm of the gamma function for positive arguments, in arithmetic that compiles.

    By Stirling's series, after the recurrence has raised the argument.
    """
    product = ca.SX(1.0)
    for k in range(STIRLING_FROM):
        product *= x + k
    z = x + STIRLING_FROM
    return (z - 0.5) * ca.log(z) - z + 0.5 * np.log(2.0 * pi) + _stirling(z) - ca.log(product)


def log_gamma_ratio(x: ca.SX, n: ca.SX) -> ca.SX:
    """Logarithm of gamma(x + n) / gamma(x), x > 0 and n >= 0, exact for large x too."""
    ratio = ca.SX(1.0)
    for k in range(STIRLING_FROM):
        ratio *= (x + n + k) / (x + k)
    z = x + STIRLING_FROM
    grown = (z - 0.5) * ca.log1p(n / z) + n * ca.log(z + n) - n
    return grown + _stirling(z + n) - _stirling(z) - ca.log(ratio)


def _stirling(z: ca.SX) -> ca.SX:
    """Difference of log gamma(z) and Stirling's formula, a series in 1 / z."""
    return sum((c / z ** (2 * k + 1) for k, c in enumerate(STIRLING)), ca.SX(0.0))


def scaled_erfc(x: ca.SX) -> ca.SX:
    """exp(x^2) erfc(x), x >= 0, to all digits."""
    t = (x - TAIL_MIDDLE) / (x + TAIL_MIDDLE)
    before, value = ca.SX(0.0), ca.SX(0.0)
    for coefficient in reversed(TAIL[1:]):
        before, value = value, 2.0 * t * value - before + coefficient
    return (t * value - before + TAIL[0]) / (1.0 + 2.0 * x)


def log_normal_cdf(z: ca.SX) -> ca.SX:
    """Logarithm of the standard normal distribution function, to all digits in both tails."""
    x = ca.if_else(z < 0.0, -z, z) / sqrt(2.0)
    tail = 0.5 * scaled_erfc(x)
    return ca.if_else(z < 0.0, ca.log(tail) - x**2, ca.log1p(-tail * ca.exp(-(x**2))))


def log_normal_interval(a: ca.SX, b: ca.SX) -> ca.SX:
    """Logarithm of the standard normal probability of a < z < b, in the tails and narrow too.

    An interval is mirrored where more of it is above 0, so that a is the end farther from 0. Then
    the probability is the difference of two tails on one side, or what two tails leave over.
    """
    mirrored, width, middle = a + b > 0.0, b - a, 0.5 * (a + b)
    far = ca.if_else(mirrored, b, -a) / sqrt(2.0)
    end = ca.if_else(mirrored, -a, b) / sqrt(2.0)
    aside = end < 0.0
    near = ca.if_else(aside, -end, end)
    less = ca.exp((near - far) * (near + far))
    tails = [scaled_erfc(near), scaled_erfc(far) * less]
    one = ca.log(ca.fmax(0.5 * (tails[0] - tails[1]), LEAST)) - near**2
    rest = 0.5 * ca.exp(-(near**2)) * (tails[0] + tails[1])
    wide = ca.if_else(aside, one, ca.log1p(-ca.fmin(rest, 1.0 - 1e-16)))
    narrow = width * ca.fmax(1.0, ca.fabs(middle)) < NARROW
    return ca.if_else(narrow, _narrow(ca.if_else(narrow, width, NARROW), middle, narrow), wide)


def _narrow(width: ca.SX, middle: ca.SX, taken: ca.SX) -> ca.SX:
    """Series of `log_normal_interval` in the width, about the middle."""
    m = ca.if_else(taken, middle, 0.0)
    w, v = width**2, (width * m) ** 2
    second, fourth = v - w, v**2 - 6.0 * v * w + 3.0 * w**2
    sixth = v**3 - 15.0 * v**2 * w + 45.0 * v * w**2 - 15.0 * w**3
    series = second / 24.0 + fourth / 1920.0 + sixth / 322560.0
    return ca.log(width) - 0.5 * (m**2 + log(2.0 * pi)) + ca.log1p(series)
