"""A change of the units of time and states changes a likelihood by a known constant only."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from smcpn import EKF0, EKF1, RK4, Problem, Record, laplace
from smcpn.datasets.models import duffing
from smcpn.likelihood.registry import build_likelihood
from tests.models import forced_input, lotka_volterra
from tests.nightly import nightly_but

UNITS = st.floats(-12.0, 12.0).map(lambda exponent: 10.0**exponent)


def stiffening(time: float, size: float, other: float) -> tuple[Record, dict[str, float]]:
    """Record and parameters of an oscillator with a force, irregular samples and a missing one."""
    rng = np.random.default_rng(1)
    t, y = np.cumsum(rng.uniform(0.1, 0.3, 12)), 0.3 * rng.normal(size=12)
    y[5] = np.nan
    u = forced_input(12, 0.2) * size / time**2
    values = {
        "m": 1.0, "c": 0.4 / time, "k": 2.0 / time**2, "k3": 0.5 / (time * size) ** 2,
        "x0": 0.2 * size, "v0": 0.1 * size / time, "sigma": 0.1 * size,
    }  # fmt: skip
    return Record(u=u, y=y * size, t=t * time, hold="foh"), values


def coupled(time: float, size: float, other: float) -> tuple[Record, dict[str, float]]:
    """Record and parameters of two species, each counted in a unit of its own."""
    y = np.random.default_rng(3).uniform(0.5, 3.0, 12)
    values = {
        "a": 1.5 / time, "b": 1.0 / (time * other), "c": 2.0 / time, "d": 1.0 / (time * size),
        "x0": size, "y0": 1.5 * other, "sigma": 0.2 * size,
    }  # fmt: skip
    return Record(y=y * size, dt=0.05 * time), values


ODES = {stiffening: duffing, coupled: lotka_volterra}
Make = Callable[[float, float, float], tuple[Record, dict[str, float]]]


def problem(make: Make, time: float, size: float, other: float) -> Problem:
    record, values = make(time, size, other)
    initial = [name for name in values if name.endswith("0")]
    prior = {name: stats.lognorm(0.2, scale=value) for name, value in values.items()}
    return Problem(ODES[make], record, observe="x", noise="sigma", initial=initial, prior=prior)


CASES = [
    ("marginal", EKF0(3, 2)),
    ("classical", RK4(2)),
    ("filtering", EKF0(3, 2, diffusion="fixed")),
    ("filtering", EKF0(3, 2, form="chain")),
    ("filtering", EKF1(2, 2, diffusion="fixed")),
    ("filtering", EKF1(3, 2, form="chain", diffusion="fixed")),
    ("filtering", EKF1(3, 2, jacobian="diagonal", diffusion="fixed")),
    ("filtering", EKF1(3, 2, jacobian="diagonal", diffusion="fixed-diagonal")),
]
OFTEN = [(list(ODES)[k % 2], *case) for k, case in enumerate(CASES)]
"""Every likelihood and solver meets one equation in every run, and both by night."""


@pytest.mark.parametrize(
    ("make", "name", "solver"),
    nightly_but(OFTEN, [(make, *case) for make in ODES for case in CASES]),
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_likelihood_is_the_same_in_other_units(make, name, solver):
    plain = problem(make, 1.0, 1.0, 1.0)
    likelihood = build_likelihood(plain, solver, likelihood=name)

    def total(*units: float) -> float:
        record, values = make(*units)
        ordered = np.array([[values[key] for key in plain.names]])
        return float(likelihood.with_records([record]).evaluate(ordered, len(record))[1][0])

    expected, measured = total(1.0, 1.0, 1.0), np.isfinite(plain.records[0].y).sum()

    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(UNITS, UNITS, UNITS)
    def holds(time, size, other):
        found = total(time, size, other) + measured * np.log(size)
        assert found == pytest.approx(expected, rel=1e-7, abs=1e-7)

    holds()


@pytest.mark.parametrize(
    "solver",
    [EKF0(), pytest.param(EKF1(2, diffusion="fixed"), marks=pytest.mark.nightly)],
    ids=str,
)
def test_steps_and_posterior_are_the_same_in_other_units(solver):
    """By Laplace's method: a sampler turns a rounding into other draws."""
    units = 1e9, 1e-7, 1e-11
    here, there = (laplace(problem(coupled, *u), solver=solver) for u in ((1.0, 1.0, 1.0), units))
    assert there.solver == here.solver
    change = there.log_evidence + 12 * np.log(units[1]) - here.log_evidence
    assert change == pytest.approx(0.0, abs=1e-4)
    values = [list(coupled(*u)[1].values()) for u in ((1.0, 1.0, 1.0), units)]
    shift = np.log(values[1]) - np.log(values[0])
    np.testing.assert_allclose(there.mode - here.mode, shift, atol=1e-4)
    np.testing.assert_allclose(there.covariance, here.covariance, rtol=1e-3, atol=1e-6)
