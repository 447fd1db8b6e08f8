"""The compiled loop against the plain reference, over problems and methods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import smcpn
from smcpn import EKF0, EKF1, Record
from smcpn.codegen.routine import PassedArgument
from smcpn.pn import backward, integration, series, solution
from tests.reference.solver import Reference


@smcpn.ode
def fitzhugh_nagumo(v, r, *, a, b, c):
    return c * (v - v**3 / 3 + r), -(v - a - b * r) / c


@smcpn.ode
def oscillator(x, y, v, w, u, t, *, k):
    """Two chains, one input and time."""
    return v, w, u - k * x + 0.1 * np.sin(t) - 0.1 * v, x * y - y - 0.2 * w**3


@smcpn.ode
def mixed(x, z, v):
    """A chain and a state of its own."""
    return v, np.tanh(x) - z, -x + 0.3 * z - 0.1 * v


def irregular_record(hold: str = "foh") -> Record:
    rng = np.random.default_rng(0)
    return Record(u=rng.normal(size=6), t=np.cumsum(rng.uniform(0.2, 0.4, 6)), hold=hold)


CASES = {
    "fitzhugh-nagumo": (fitzhugh_nagumo, (0.0, 2.0), {"a": 0.2, "b": 0.2, "c": 3.0}, [-1.0, 1.0]),
    "linear input": (oscillator, irregular_record(), {"k": 2.0}, [0.1, 0.4, 0.0, -0.2]),
    "held input": (oscillator, irregular_record("zoh"), {"k": 2.0}, [0.1, 0.4, 0.0, -0.2]),
    "mixed": (mixed, (0.0, 3.0), {}, [1.0, 0.5, 0.0]),
}
CALIBRATED = ("fixed", "fixed-diagonal", "dynamic", "dynamic-diagonal")
SOLVERS = [
    *(EKF0(order=3, diffusion=diffusion) for diffusion in (*CALIBRATED, 2.0)),
    *(EKF0(order=order, diffusion="dynamic") for order in (1, 2, 4, 5)),
    *(EKF0(order=3, form="chain", diffusion=diffusion) for diffusion in CALIBRATED),
    # A dynamic diffusion has the digits of its residual, of which EKF1 leaves few at order 5.
    *(EKF1(order=order, diffusion="dynamic") for order in (1, 3, 4)),
    EKF1(order=5, diffusion="fixed"),
    *(EKF1(order=3, diffusion=diffusion) for diffusion in ("fixed", "dynamic-diagonal", 2.0)),
    *(EKF1(order=3, jacobian="diagonal", diffusion=diffusion) for diffusion in CALIBRATED),
    *(EKF1(order=3, form="chain", diffusion=diffusion) for diffusion in ("fixed", "dynamic")),
    EKF1(order=3, form="chain", jacobian="diagonal", diffusion="dynamic-diagonal"),
]


def relative(values: np.ndarray, expected: np.ndarray) -> float:
    """Largest error of any time, relative to the largest entry at that time."""
    axes = tuple(range(1, expected.ndim))
    size = np.abs(expected).max(axis=axes)
    error = np.abs(values - expected).max(axis=axes)
    return float(np.max(error[size > 0] / size[size > 0]))


@pytest.mark.numerics
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("case", CASES)
def test_against_the_plain_reference(case, solver):
    ode, over, theta, x0 = CASES[case]
    record = over if isinstance(over, Record) else None
    # Smaller steps have residuals of which rounding has left no digits, and diffusions like them.
    solution = smcpn.solve(
        ode, over, theta, initial=x0, solver=solver, rtol=1e-300, atol=2e-2, first_step=0.3
    )
    reference = Reference(ode, np.array(list(theta.values())), solver, record).solve(
        np.array(x0), solution.grid
    )
    mean, covariance = solution(solution.grid)
    assert relative(mean, reference.mean) < 1e-10
    assert relative(covariance, reference.covariance) < 1e-9
    np.testing.assert_allclose(solution.log_likelihood, reference.log_likelihood, rtol=1e-10)
    smoothing = replace(solution, solver=replace(solver, smooth=True))
    mean, covariance = smoothing(solution.grid)
    assert relative(mean, reference.smoothed_mean) < 1e-10
    assert relative(covariance, reference.smoothed_covariance) < 1e-9


def plain(function):
    """A compiled function as Python runs it."""

    def run(*arguments):
        return function(
            *(one.value if isinstance(one, PassedArgument) else one for one in arguments)
        )

    return run


def everything(solution):
    times = np.linspace(solution.grid[0], solution.grid[-1], 5)
    mean, covariance = solution(times)
    paths = solution.sample(np.random.default_rng(0), 2, times)
    return solution.mean, solution.covariance, mean, covariance, paths


@pytest.mark.parametrize("solver", [EKF0(order=2, smooth=True), EKF1(order=3, form="chain")])
def test_the_compiled_functions_do_what_python_does_with_them(solver, monkeypatch):
    ode, over, parameters, initial = CASES["held input"]
    solver = replace(solver, steps=2, diffusion="fixed", smooth=True)
    compiled = everything(smcpn.solve(ode, over, parameters, initial=initial, solver=solver))
    for module in (backward, integration, series, solution):
        monkeypatch.setattr(module, "routine", plain)
    interpreted = everything(smcpn.solve(ode, over, parameters, initial=initial, solver=solver))
    for one, expected in zip(compiled, interpreted, strict=True):
        assert np.abs(one - expected).max() <= 1e-11 * np.abs(expected).max()
