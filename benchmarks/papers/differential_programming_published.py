"""Figures of the differential programming papers; signs are lost in the first one's tables.

Tables of coefficients have a row for each equation and a column for each term. Column 9 of the
spiral's is x^2 y, as the trajectory of the published SINDy model shows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Table = tuple[tuple[float, ...], ...]

CUBIC = ("1", "x", "y", "x^2", "x y", "y^2", "x^3", "x y^2", "x^2 y", "y^3")
QUADRATIC = ("1", "x", "y", "z", "x^2", "x y", "y^2", "x z", "y z", "z^2")

COEFFICIENTS: dict[str, tuple[tuple[str, ...], Table]] = {
    "spiral, dense": (CUBIC, (
        (.00034, .00022, .00045, .000056, .000018, .00063, .10, .00056, .00025, 2.00),
        # Printed: .010 in the end.
        (.00038, .0027, 2.3e-6, .00016, .00087, .000025, 2.010, .0016, .00095, .10),
    )),
    # The last number is lost.
    "spiral, noisy": (CUBIC, (
        (.0042, .0059, .0045, .0072, .0078, .0071, .10, .047, .014, 2.0),
        (.0029, .010, .0073, .0017, .017, .0064, 2.0, .015, .049, .10),
    )),
    # One of two numbers for x in x'; the other is 10.69 for y.
    "lorenz": (QUADRATIC, (
        (.0088, 11.37, 10.69, .0719, .0053, .0024, .0115, .0363, .0025, .0149),
        (.0550, 28.35, 1.030, .0214, .0162, .0072, .0044, 1.010, .0005, .0041),
        (.0585, .1527, .1411, 2.555, .0377, .9680, .0165, .0041, .0063, .0052),
    )),
}  # fmt: skip
"""Tables 1, 5 and 7: those of the likelihood on pairs."""

SINDY: dict[str, dict[str, float]] = {
    "spiral, sparse": {"x'[y^3]": 2.10, "y'[x^3]": -1.87},
    "spiral, noisy": {
        "x'[x^3]": -0.1395,
        "x'[y^3]": 2.0990,
        "y'[x^3]": -1.974,
        "y'[x^2 y]": -0.1884,
    },
}
"""Tables 4 and 6."""

GLYCOLYSIS: dict[str, dict[str, float]] = {
    "noise-free": {
        "J0": 2.53, "k1": 101.88, "k2": 5.95, "k3": 16.25, "k4": 101.57, "k5": 1.30, "k6": 12.19,
        "k": 1.83, "ka": 13.23, "q": 4.00, "KI": .52, "N": 1.02, "A": 4.00,
    },
    "noisy": {
        "J0": 2.53, "k1": 100.04, "k2": 5.67, "k3": 16.14, "k4": 100.50, "k5": 1.27, "k6": 12.25,
        "k": 1.82, "ka": 13.25, "q": 3.99, "KI": .52, "N": 1.06, "A": 4.00,
    },
}  # fmt: skip
"""Table 8, without phi, which is a misprint: .01 for .1."""

SEQUEL: dict[str, dict[str, tuple[float, float, float]]] = {
    "lotka-volterra": {
        "x'[x]": (0.0162, 1.0905, 23.0),
        "x'[x y]": (-0.1214, -0.0830, 288.0),
        "y'[y]": (-2.1644, -1.1383, 35.0),
        "y'[x y]": (0.6170, 0.8042, 411.0),
    },
    "glycolysis": {
        "J0": (2.4239, 2.6294, 7146.0), "k1": (80.627, 117.97, 6386.0),
        "k2": (2.9737, 9.6432, 6160.0), "k3": (6.6219, 19.571, 3321.0),
        "k4": (81.107, 118.74, 6890.0), "k5": (1.1069, 1.3915, 2577.0),
        "k6": (8.8272, 14.469, 2920.0), "k": (1.4455, 1.9659, 2597.0),
        "ka": (10.867, 18.314, 2559.0), "q": (3.7505, 4.4342, 3034.0),
        "KI": (.4755, .6410, 3507.0), "phi": (.0768, .1165, 2528.0), "N": (.6835, 1.8380, 4455.0),
        "A": (3.7752, 9.3264, 3436.0),
    },
}  # fmt: skip
"""The sequel's 95 % intervals, and effective sample sizes (Geyer's), of its 8000 public draws."""


def coefficients(name: str, truth: Mapping[str, float]) -> dict[str, float]:
    """Published coefficients of an experiment by name, with the signs of the truth."""
    terms, rows = COEFFICIENTS[name]
    found = {
        f"{state}'[{term}]": value
        for state, row in zip("xyz", rows, strict=False)
        for term, value in zip(terms, row, strict=True)
    }
    return {name: float(np.copysign(v, truth.get(name, 1.0))) for name, v in found.items()}


def relative_error(found: Mapping[str, float], truth: Mapping[str, float]) -> float:
    """Distance of all coefficients from the truth, relative to its length."""
    names = found.keys() | truth.keys()
    apart = [found.get(name, 0.0) - truth.get(name, 0.0) for name in names]
    return float(np.linalg.norm(apart) / np.linalg.norm(list(truth.values())))


def rms_relative_error(found: Mapping[str, float], truth: Mapping[str, float]) -> float:
    """Root mean square of the relative errors of what was found."""
    return float(np.sqrt(np.mean([(found[name] / truth[name] - 1.0) ** 2 for name in found])))
