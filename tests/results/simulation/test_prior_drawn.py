"""What a prior predicts: its band against exact laws, verdicts, and draws that diverge."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import smcpn

TIMES = np.arange(11.0)


@smcpn.ode
def ramp(x, *, a):
    return a + 0.0 * x


@smcpn.ode
def explosive(x, *, a):
    return a * x**2


@smcpn.ode
def follower(x, u, *, k):
    return k * (u - x)


def record(y: object = TIMES, **given: object) -> smcpn.Record:
    return smcpn.Record(y=np.asarray(y, float), dt=1.0, name="rig", **given)


def ramps(measured: smcpn.Record | list[smcpn.Record], **given: object) -> smcpn.Problem:
    arguments = {"observe": "x", "noise": 0.5, "prior": {"a": stats.norm(1.0, 0.3)}} | given
    return smcpn.Problem(ramp, measured, **arguments)


def test_the_band_is_of_the_quantiles_of_what_would_be_measured():
    found = smcpn.simulate(ramps(record()), draws=20_000, seed=0)
    sd = np.sqrt(np.square(0.3 * TIMES) + 0.25)
    assert np.allclose(found.median[:, 0], TIMES, atol=0.02 * sd.max())
    assert np.allclose(found.lower[:, 0], TIMES - 1.96 * sd, atol=0.05 * sd)
    assert np.allclose(found.upper[:, 0], TIMES + 1.96 * sd, atol=0.05 * sd)
    assert np.allclose(found.sd[:, 0], sd, rtol=0.03)
    again = smcpn.simulate(ramps(record()), draws=20_000, seed=0)
    assert np.array_equal(found.band, again.band)


def test_process_noise_widens_the_band():
    problem = ramps(record(), noise=1e-6, prior={"a": stats.norm(1.0, 1e-6)},
                    process_noise={"x": 0.3})  # fmt: skip
    found = smcpn.simulate(problem, draws=5000, seed=1)
    assert np.allclose((found.upper - found.median)[1:, 0], 1.96 * 0.3 * np.sqrt(TIMES[1:]),
                       rtol=0.1)  # fmt: skip
    assert found.paths.shape == (10, 11, 1)


@pytest.mark.parametrize(
    ("noise", "sd"),
    [(smcpn.Poisson(), 10.0), (smcpn.StudentT(0.1, 9), 0.1 * np.sqrt(9 / 10))],
)
def test_noise_with_a_density_counts_by_its_information(noise, sd):
    level = np.log(100.0) if isinstance(noise, smcpn.Poisson) else 100.0
    problem = ramps(record(np.full(11, 100.0)), noise=noise, initial=[level],
                    prior={"a": stats.norm(0.0, 1e-6)})  # fmt: skip
    found = smcpn.simulate(problem, draws=5000, seed=1)
    assert np.allclose(found.upper - found.lower, 2 * 1.96 * sd, rtol=0.05)
    assert found.coverage == 1.0


@pytest.mark.parametrize(
    ("measured", "share", "words"),
    [
        (TIMES, 1.0, "x: inside the prior's 95 % band"),
        (0.01 * TIMES + 8.0, 0.9, "outside"),
        (-TIMES - 5.0, 0.0, "100 % of the record are outside the prior's 95 % band: look at units"),
        (TIMES * 0.1 + 2.0, 0.9, "; the prior allows a range 17 times that measured"),
    ],
)
def test_the_verdict_says_whether_the_record_is_allowed(measured, share, words):
    found = smcpn.simulate(ramps(record(measured)), seed=2)
    assert found.coverage[0] <= share
    assert words in found.verdicts[0]
    assert words in found.summary()
    assert repr(found).splitlines()[0] == "Prior of 'rig': 1000 draws"


def test_draws_that_diverge_are_counted_and_told():
    # x = 1 / (1 - a t) ends before t = 2 where a > 1/2.
    problem = smcpn.Problem(
        explosive, smcpn.Record(y=np.ones(41), dt=0.05), observe="x", noise=0.1, initial=[1.0],
        prior={"a": stats.norm()},
    )  # fmt: skip
    found = smcpn.simulate(problem, draws=2000, seed=0)
    share = stats.norm.sf(0.5)
    assert abs(found.diverged - share) < 4 * np.sqrt(share * (1 - share) / 2000)
    assert f"{100 * found.diverged:.0f} % of the prior's draws diverge" in found.summary()
    assert np.isfinite(found.band).all()
    surely = smcpn.Problem(
        explosive, smcpn.Record(y=np.ones(41), dt=1.0), observe="x", noise=0.1, initial=[1.0],
        prior={"a": stats.lognorm(0.1)},
    )  # fmt: skip
    with pytest.raises(smcpn.InputError, match="diverges for each of 100 draws of the prior"):
        smcpn.simulate(surely, draws=100, seed=0)


def test_stiff_draws_of_a_stable_model_do_not_count_as_diverging():
    u = np.repeat([0.0, 1.0, 0.0], 20)
    stiff = smcpn.Problem(
        follower, smcpn.Record(u=u, y=u, dt=1.0, hold="zoh"), observe="x", noise=0.1,
        prior={"k": stats.lognorm(1.0, scale=20.0)},
    )  # fmt: skip
    found = smcpn.simulate(stiff, draws=400, seed=0)
    assert found.diverged <= 0.01
    assert found.steps > 16
    rough = smcpn.simulate(stiff, draws=400, seed=0, steps=4)
    assert rough.diverged > 0.5
    assert "by too few steps per sample, 4" in rough.summary()


def test_records_begin_as_the_problem_says_and_need_not_be_measured():
    problem = ramps([record(), record(TIMES + 100.0)], initial=[[0.0], [100.0]])
    assert smcpn.simulate(problem, draws=100, seed=0).median[0] == 0.0
    second = smcpn.simulate(problem, problem.records[1], draws=100, seed=0)
    assert second.median[0] == 100.0
    assert second.coverage == 1.0
    plan = smcpn.simulate(problem, record(np.full(11, np.nan)), draws=100, seed=0)
    assert np.isnan(plan.coverage[0])
    assert plan.verdicts == []
    assert "not measured" in plan.summary()


def test_a_band_that_hides_the_record_has_a_panel_of_the_measured_range():
    assert len(smcpn.simulate(ramps(record()), draws=100, seed=0).plot().axes) == 1
    wide = smcpn.simulate(ramps(record(0.01 * TIMES)), draws=100, seed=0).plot()
    whole, close = wide.axes
    assert whole.get_ylim()[1] > 10.0
    assert close.get_ylim() == pytest.approx((-0.01, 0.11))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"draws": 5}, "draws is 5: give a whole number from 40"),
        ({"observe": "x"}, "observe is 'x', but a problem has its own"),
        ({"parameters": {"a": 1.0}}, "parameters is .* leave it out"),
        ({"initial": [1.0]}, "initial is .* leave it out"),
        ({"record": 3}, "record is 3: give one smcpn.Record"),
        ({"seed": -1}, "seed is -1"),
        ({"steps": 0}, "steps is 0"),
    ],
)
def test_what_does_not_go_with_a_problem_is_refused(given, message):
    with pytest.raises(smcpn.InputError, match=message):
        smcpn.simulate(ramps(record()), **given)


def test_draws_of_an_equation_are_refused():
    with pytest.raises(smcpn.InputError, match="draws is 40, but draws are of a problem's prior"):
        smcpn.simulate(ramp, record(), {"a": 1.0}, observe="x", draws=40)
