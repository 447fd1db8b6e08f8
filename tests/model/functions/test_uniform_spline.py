"""Splines on equally spaced knots against scipy's B-splines."""

import casadi as ca
import numpy as np
import pytest
from scipy.interpolate import BSpline

from smcpn.model.functions.spline import CONSTANT, EVEN, LINEAR, NEITHER, ODD, UniformSpline


def reference(spline: UniformSpline, coefficients: np.ndarray, more: int) -> BSpline:
    """The same spline, its coefficients written out far beyond the interval."""
    wide = coefficients
    for _ in range(more):
        first = wide[0] if spline.below == CONSTANT else 2 * wide[0] - wide[1]
        last = wide[-1] if spline.above == CONSTANT else 2 * wide[-1] - wide[-2]
        wide = np.concatenate([[first], wide, [last]])
    p = spline.degree
    return BSpline(np.arange(-1 - p - more, spline.knots + p + 1.0 + more), wide, p)


@pytest.mark.parametrize("knots", [4, 5, 30])
@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("ends", [(LINEAR, LINEAR), (CONSTANT, LINEAR), (CONSTANT, CONSTANT)])
def test_values_and_slopes_are_those_of_b_splines(knots, degree, ends) -> None:
    spline = UniformSpline(knots, degree, *ends)
    parities = (NEITHER,) if ends[0] != ends[1] else (NEITHER, ODD, EVEN)
    places = np.linspace(-knots / 2 - 6, knots / 2 + 6, 180)
    for parity in parities:
        c = np.random.default_rng(0).normal(size=spline.size)
        c = c + parity * c[::-1]
        w, symbols = ca.SX.sym("w"), ca.SX.sym("c", spline.size)
        graph = spline.graph(w, symbols, parity)
        both = ca.Function("both", [w, symbols], [graph, ca.gradient(graph, w)])
        values, slopes = both.map(len(places))(places[None, :], c)
        expected = reference(spline, c, 12)
        # Sums of cubes of up to half the knots, of jumps of a size of some units.
        assert np.asarray(values).ravel() == pytest.approx(expected(places + spline.middle), 1e-10)
        inner = np.abs(places % 0.5) > 1e-9 if degree == 1 else slice(None)
        assert np.asarray(slopes).ravel()[inner] == pytest.approx(
            expected(places + spline.middle, nu=1)[inner], rel=1e-9, abs=1e-9
        )
        if degree > 1:
            # Where a model is at rest.
            assert float(both(0.0, c)[1]) == pytest.approx(expected(spline.middle, nu=1), abs=1e-9)
