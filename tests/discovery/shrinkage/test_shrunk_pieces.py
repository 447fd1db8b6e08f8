"""Records cut where a trajectory has forgotten its beginning."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

import smcpn
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.shrinkage.entry import cut, pieces


def lorenz(t, x):
    return [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]


def test_only_chaos_is_cut():
    t = np.arange(0.0, 8.0, 0.01)
    system = CandidateSystem.of(smcpn.polynomials(2), ["x", "y", "z"])
    path = solve_ivp(lorenz, (0.0, 8.0), [-8.0, 7.0, 27.0], t_eval=t, rtol=1e-8).y.T
    values = {"x'[x]": -10, "x'[y]": 10, "y'[x]": 28, "y'[y]": -1, "y'[x z]": -1}
    values |= {"z'[z]": -8 / 3, "z'[x y]": 1}
    coefficients = np.array([values.get(name, 0.0) for name in system.coefficients])
    records = [smcpn.Record(y=path[:300], t=t[:300]), smcpn.Record(y=path[300:], t=t[300:])]
    begins = cut(system, records, path, coefficients)
    assert all(2 <= len(own) <= 5 for own in begins)
    parts, samples, first = pieces(records, begins)
    assert first.tolist() == [0, len(begins[0])]
    assert sum(len(part) for part in parts) == len(path)
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), path)
    np.testing.assert_array_equal([part.y[0] for part in parts], path[samples])
    oscillator = CandidateSystem.of(smcpn.polynomials(2), ["x", "y"])
    t = np.linspace(0.0, 25.0, 500)
    lotka = lambda t, x: [x[0] - 0.1 * x[0] * x[1], -1.5 * x[1] + 0.75 * x[0] * x[1]]  # noqa: E731
    path = solve_ivp(lotka, (0.0, 25.0), [5.0, 5.0], t_eval=t, rtol=1e-8).y.T
    values = {"x'[x]": 1.0, "x'[x y]": -0.1, "y'[y]": -1.5, "y'[x y]": 0.75}
    coefficients = np.array([values.get(name, 0.0) for name in oscillator.coefficients])
    begins = cut(oscillator, [smcpn.Record(y=path, t=t)], path, coefficients)
    assert begins[0].tolist() == [0]
