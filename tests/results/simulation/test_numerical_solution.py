"""`smcpn.solve` by Rosenbrock: exact solutions, inputs between samples, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import smcpn
from smcpn import Dose, InputError, Record, Rosenbrock

pytestmark = pytest.mark.numerics


@smcpn.ode
def robertson(a, b, c, *, rate=1.0):
    r1, r2, r3 = 0.04 * a, 1e4 * b * c, 3e7 * b**2
    return rate * (r2 - r1), rate * (r1 - r2 - r3), rate * r3


@smcpn.ode(algebraic=["c"])
def conserved(a, b, c):
    r1, r2, r3 = 0.04 * a, 1e4 * b * c, 3e7 * b**2
    return r2 - r1, r1 - r2 - r3, a + b + c - 1.0


@smcpn.ode
def lag(x, u, *, k):
    return k * (u - x)


def test_a_stiff_equation_and_that_with_an_algebraic_one_have_the_values_of_radau():
    t = np.geomspace(1e-2, 1e5, 5)

    def rate(_, x):
        r1, r2, r3 = 0.04 * x[0], 1e4 * x[1] * x[2], 3e7 * x[1] ** 2
        return [r2 - r1, r1 - r2 - r3, r3]

    exact = solve_ivp(rate, (0, 1e5), [1.0, 0, 0], "Radau", t, rtol=1e-9, atol=1e-14).y.T
    for ode in (robertson, conserved):
        found = smcpn.solve(ode, (0, 1e5), initial={"a": 1.0}, solver=Rosenbrock(1e-8), at=t)
        assert found.success
        assert (np.abs(found.mean - exact) < 1e-6 * np.abs(exact).max(axis=0)).all()
        assert np.abs(found.error).max() < 1e-6
        assert found.stats.steps < 1000
        assert found(t[3]) == pytest.approx(exact[3], rel=1e-5)


@pytest.mark.parametrize("hold", ["zoh", "foh"])
def test_inputs_between_samples_are_those_of_the_record(hold):
    record = Record(u=[0.0, 1.0, -1.0, 2.0], dt=1.0, hold=hold)
    between = np.array([0.0, 0.3, 1.0, 1.7, 2.5, 3.0])
    found = smcpn.solve(lag, record, {"k": 2.0}, solver=Rosenbrock(), rtol=1e-9, at=between)
    claimed = smcpn.solve(lag, record, {"k": 2.0}, rtol=1e-10, atol=1e-12, at=between)
    assert found.mean == pytest.approx(claimed.mean, abs=1e-7)
    whole = smcpn.solve(lag, record, {"k": 2.0}, solver=Rosenbrock(1e-9))
    np.testing.assert_array_equal(whole.t, record.t)
    assert whole(between[::-1]) == pytest.approx(found.mean[::-1], abs=1e-7)


def test_doses_and_events_count():
    record = Record(t=[0.0, 2.0], u=[0.0, 0.0], doses=[Dose(0.5, "x", 3.0)])
    given = smcpn.solve(lag, record, {"k": 1.0}, solver=Rosenbrock(1e-9), at=[0.4, 0.5, 2.0])
    assert given.mean[:, 0] == pytest.approx([0.0, 0.0, 3.0 * np.exp(-1.5)], abs=1e-7)
    floor = smcpn.event(when=lambda x: x, then=lambda v: {"v": -v}, direction="falling")

    @smcpn.ode(events=[floor])
    def ball(x, v):
        return v, -2.0

    path = smcpn.solve(ball, (0.0, 2.0), initial={"x": 1.0}, solver=Rosenbrock(1e-9), at=[1.5, 2])
    assert path.mean[:, 0] == pytest.approx([0.75, 1.0], abs=1e-7)


def test_a_pole_ends_it_in_words():
    @smcpn.ode
    def pole(x):
        return x**2

    lost = smcpn.solve(pole, [0.0, 0.5, 2.0], initial=[1.0], solver=Rosenbrock(1e-8))
    assert not lost.success
    assert "between t = 0.5 and 2: it has a pole, or takes more than" in lost.message
    assert lost.mean[:, 0] == pytest.approx([1.0, 2.0], rel=1e-6)
    assert "failed" in repr(lost)
    with pytest.raises(InputError, match=r"give times from 0 to 0\.5"):
        lost(1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"atol": 1e-3}, "leave atol out"),
        ({"control": "PI"}, "leave control out"),
        ({"rtol": 1e-14}, "rtol is 1e-14: give a number from"),
        ({"at": [1.5]}, "give times from 0 to 1"),
        ({"rtol": 1e-3, "solver": Rosenbrock(1e-8)}, "leave rtol out"),
    ],
)
def test_settings_that_it_does_not_have_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        smcpn.solve(robertson, (0.0, 1.0), **{"solver": Rosenbrock(), **options})


def test_a_band_limited_input_is_known_at_its_samples_alone():
    record = Record(u=np.sin(np.arange(20.0)), dt=0.5, hold="bandlimited")
    found = smcpn.solve(lag, record, {"k": 1.0}, solver=Rosenbrock())
    with pytest.raises(InputError, match="between samples"):
        found(0.1)


def test_the_others_name_it_where_they_cannot():
    with pytest.raises(InputError, match=r"give solver=smcpn\.Rosenbrock"):
        smcpn.solve(conserved, (0.0, 1.0))
