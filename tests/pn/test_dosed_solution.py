"""`smcpn.solve` by EKF0 and EKF1 with doses, against the superposition of matrix exponentials."""

import pickle
from functools import partial

import numpy as np
import pytest
from scipy.linalg import expm

import smcpn
from smcpn import EKF0, EKF1, Dose, InputError

TIMES = np.linspace(0.0, 8.0, 9)
VALUES = {"ka": 1.2, "ke": 0.3, "F": 0.7, "late": 0.25}
DOSES = [
    Dose(0.0, "gut", 10.0, fraction="F"), Dose(2.5, "gut", 4.0, lag="late"),
    Dose(3.0, "central", 2.0, duration=1.5), Dose(5.0, "gut", 3.0),
]  # fmt: skip


@smcpn.ode
def compartments(gut, central, u, *, ka, ke):
    """Absorption and elimination."""
    return -ka * gut, ka * gut + u - ke * central


RECORD = smcpn.Record(t=TIMES, u=np.ones(9), doses=DOSES, hold="zoh")
A = np.array([[-VALUES["ka"], 0.0], [VALUES["ka"], -VALUES["ke"]]])


def exact(t):
    """States before what arrives at a time, (2,): of steps, a rate has A^-1 (exp - 1) times it."""

    def fed(since, rate):
        return np.linalg.solve(A, (expm(A * max(since, 0.0)) - np.eye(2)) @ rate)

    x = expm(A * t) @ [0.5, 1.0] + fed(t, [0.0, 1.0])
    for dose in DOSES:
        begin = dose.time + VALUES.get(dose.lag, 0.0)
        amount = (
            dose.amount * VALUES.get(dose.fraction, 1.0) * np.eye(2)[int(dose.state == "central")]
        )
        if not dose.duration:
            x = x + (expm(A * (t - begin)) @ amount if t > begin else 0.0)
        else:
            rate = amount / dose.duration
            x = x + fed(t - begin, rate) - fed(t - begin - dose.duration, rate)
    return x


SOLVERS = [
    EKF1(order=5, smooth=True),
    EKF0(order=4),
    *(
        pytest.param(one, marks=pytest.mark.nightly)
        for one in (EKF1(order=4), EKF0(order=4, smooth=True))
    ),
]


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_steps_begin_anew_where_doses_arrive(solver):
    found = smcpn.solve(
        compartments, RECORD, VALUES, initial=[0.5, 1.0], solver=solver, rtol=1e-9, atol=1e-11
    )
    wanted = np.array([exact(t) for t in TIMES])
    np.testing.assert_allclose(found.mean, wanted, atol=1e-8)
    assert np.isin([2.75, 4.5], found.grid).all()
    between = np.array([0.01, 2.74, 2.76, 3.7, 5.001])
    mean, covariance = found(between)
    np.testing.assert_allclose(mean, [exact(t) for t in between], atol=1e-7)
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    assert (np.abs(mean - [exact(t) for t in between]) <= 10 * sd + 1e-12).all()
    paths = found.sample(np.random.default_rng(0), 50)
    assert (np.abs(paths.mean(axis=0) - wanted) <= found.sd + 1e-8).all()
    assert found.ode is compartments


def test_steps_of_one_length_and_times_asked_for():
    solver = EKF1(order=4, steps=16, diffusion="fixed")
    at = [0.0, 2.75, 6.3]
    found = smcpn.solve(compartments, RECORD, VALUES, initial=[0.5, 1.0], solver=solver, at=at)
    np.testing.assert_array_equal(found.t, at)
    np.testing.assert_allclose(found.mean, [exact(t) for t in at], atol=1e-6)
    assert found.chi2(np.array([exact(t) for t in at])) < 10.0


def test_doses_of_a_stiff_model_agree_with_rosenbrock():
    fast = VALUES | {"ka": 1e5}
    found = smcpn.solve(compartments, RECORD, fast, initial=[0.5, 1.0], rtol=1e-8, atol=1e-10)
    other = smcpn.solve(
        compartments, RECORD, fast, initial=[0.5, 1.0], solver=smcpn.Rosenbrock(1e-10)
    )
    np.testing.assert_allclose(found.mean, other.mean, atol=1e-5)


def test_doses_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="a dose names 'late', and parameters has no such name"):
        smcpn.solve(compartments, RECORD, {k: VALUES[k] for k in ("ka", "ke", "F")})


@pytest.mark.parametrize("solver", [EKF1(order=5), EKF0(order=4)], ids=repr)
@pytest.mark.parametrize("pole", [-0.5, 0.25j * np.pi])
def test_the_input_may_be_smooth(solver, pole):
    """The real part of exp(pole t), as a function of time, or as periodic samples."""
    record = smcpn.Record(t=TIMES, u=lambda t: np.exp(pole.real * t), doses=DOSES)
    if pole.imag:
        u = np.cos(pole.imag * TIMES[:-1])
        record = smcpn.Record(dt=1.0, u=u, doses=DOSES, hold="bandlimited", periodic=True)
    solve = partial(smcpn.solve, compartments, record, VALUES, initial=[0.5, 1.0], solver=solver)
    found = solve(rtol=1e-9, atol=1e-11)
    forced = np.linalg.solve(pole * np.eye(2) - A, [0.0, 1.0])
    steady = np.linalg.solve(-A, [0.0, 1.0])
    wanted = [
        exact(t)
        + (expm(A * t) - np.eye(2)) @ steady
        + (np.exp(pole * t) * forced - expm(A * t) @ forced).real
        for t in record.t
    ]
    np.testing.assert_allclose(found.mean, wanted, atol=1e-8)


def test_a_dose_that_arrives_within_rounding_of_a_sample_is_at_it():
    t = 0.1 * np.arange(12)
    dose = Dose(0.7, "gut", 5.0, lag=0.1)
    assert dose.begin < t[8]
    record = smcpn.Record(t=t, u=np.zeros(12), doses=[dose], hold="zoh")
    rates = {"ka": 1.2, "ke": 0.3}
    solve = partial(smcpn.solve, compartments, record, rates, initial=[1.0, 0.0])
    found, stiff = solve(solver=EKF1()), solve(solver=smcpn.Rosenbrock())
    np.testing.assert_allclose(found.mean, stiff.mean, atol=1e-3)
    assert found.mean[8, 0] < 1.0 < found.mean[9, 0]


def test_a_solution_with_doses_can_be_pickled():
    found = smcpn.solve(compartments, RECORD, VALUES, initial=[0.5, 1.0], solver=EKF1())
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.mean, found.mean)
