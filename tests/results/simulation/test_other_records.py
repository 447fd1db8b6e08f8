"""Records beside those learned from: where they begin, and what is said of them."""

import numpy as np
import pytest
from scipy import stats

import smcpn

RK4 = smcpn.RK4(steps=2)
TRUTH = {"c": 1.0, "x0": 0.5}


@smcpn.ode
def decay(x, u, *, c):
    """Relaxation."""
    return u - c * x


def measured(seed, name, x0=0.5):
    rng = np.random.default_rng(seed)
    blank = smcpn.Record(u=rng.normal(size=60), dt=0.1)
    y = smcpn.simulate(decay, blank, {"c": 1.0}, observe="x", initial={"x": x0})
    return smcpn.Record(u=blank.u, y=y + 0.01 * rng.normal(size=y.shape), dt=0.1, name=name)


@pytest.fixture(scope="module")
def maximum():
    problem = smcpn.Problem(
        decay,
        measured(0, "train"),
        observe="x",
        noise=0.01,
        prior={"c": stats.lognorm(1.0), "x0": stats.norm(0.0, 1.0)},
        initial={"x": "x0"},
    )
    return smcpn.maximise(problem, solver=RK4, starts=1, seed=1)


def test_a_learned_initial_state_is_that_of_its_record(maximum):
    own = maximum.problem.records[0]
    other = measured(1, "other", x0=3.0)
    assert maximum.simulate(own).warnings == ()
    assert maximum.simulate(own.hide(3, 9)).warnings == ()
    (warning,) = maximum.simulate(other).warnings
    assert "'other' begins at x0 as learned from 'train'" in warning
    assert "initialise=20" in warning
    found = maximum.simulate(other, initialise=20)
    assert found.warnings == ()
    assert found.fit[0] > 90.0
    same_input = own.with_outputs(own.y + 1.0)
    assert maximum.simulate(same_input).warnings


def test_records_that_begin_differently(maximum):
    records = [measured(seed, f"run {seed}", float(seed)) for seed in range(3)]
    problem = smcpn.Problem(
        decay,
        records,
        observe="x",
        noise=0.01,
        prior={"c": stats.lognorm(1.0)},
        initial=[{"x": stats.norm(0.0, 3.0)} for _ in records],
    )
    found = smcpn.maximise(problem, solver=RK4, starts=1, seed=1)
    for k, record in enumerate(records):
        assert found[f"x(0)[{k}]"] == pytest.approx(k, abs=0.05)
        simulation = found.simulate(record)
        assert simulation.fit[0] > 90.0
        assert not simulation.warnings
    other = measured(9, "other", 2.0)
    with pytest.raises(smcpn.InputError, match=r"like=.*initialise=20"):
        found.simulate(other)
    assert found.simulate(other, like=records[2]).fit[0] > 90.0
    assert found.simulate(other, initialise=20).fit[0] > 90.0


def test_a_record_without_outputs_has_no_score(maximum):
    own = maximum.problem.records[0]
    blank = smcpn.Record(u=own.u, dt=0.1)
    simulation = maximum.simulate(blank)
    assert "not measured" in repr(simulation)
    assert "nan" not in repr(simulation)
    titles = [axes.get_title() for axes in simulation.picture().get_axes()]
    assert not any("nan" in title for title in titles)


def test_a_maximum_has_no_range_of_its_own(maximum):
    figure = maximum.plot_parameters()
    assert len(figure.axes) == 2


def test_a_short_record_has_no_frequency_response(maximum):
    with pytest.raises(smcpn.InputError, match=r"60 samples .* needs 256: give a longer record"):
        maximum.plot_frf()
