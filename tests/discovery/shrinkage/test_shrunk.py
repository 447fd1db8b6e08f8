"""The posterior under shrinkage priors: a system of a few terms, and pairs of samples."""

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.shrinkage.entry import excluding_level
from smcpn.discovery.shrinkage.priors import HorseshoePrior, LaplacePrior
from smcpn.discovery.shrinkage.sampler import Point, ShrinkageRun, relative_to_start
from smcpn.errors import InputError
from tests.discoveries import finished

pytestmark = pytest.mark.numerics

TRUE = np.array([0.0, -0.8, 0.0])
"""Of the terms 1, x and x^2."""


def growth():
    system = CandidateSystem.of(smcpn.polynomials(2), ["x"])
    t = np.linspace(0.0, 3.0, 80)
    y = 2.0 * np.exp(-0.8 * t) + 0.02 * np.random.default_rng(0).normal(size=80)
    start = Point(np.array([0.0, -0.79, 0.0]), np.array([[2.01]]), np.array([0.02]))
    return system, smcpn.Record(y=y, t=t), start


def run(prior, particles=200, **options):
    system, record, start = growth()
    return finished(
        ShrinkageRun, [record], system, ["x"], prior, start, np.array([0.8, 0.8, 0.6]),
        spread=np.array([1.0]), particles=particles, seed=3, **options,
    )  # fmt: skip


@pytest.mark.parametrize("prior", [LaplacePrior(), HorseshoePrior()])
def test_intervals_hold_the_truth(prior):
    found = run(prior)
    names = ("x'[1]", "x'[x]", "x'[x^2]", "noise of x", "x(0)", *prior.scales)
    assert found.prior.names == names
    mean = found.weights @ found.values
    sd = np.sqrt(found.weights @ (found.values - mean) ** 2)
    assert (np.abs(mean[:5] - [*TRUE, 0.02, 2.0]) < 3.0 * sd[:5]).all()
    assert found.shrinkage[1] < 0.1
    assert found.ess > 70


def test_replicates_tell_the_error_and_a_seed_gives_the_same_bytes():
    found, again = (run(HorseshoePrior(), particles=60, replicates=2) for _ in range(2))
    assert len(found.values) == 120
    assert 0.0 < found.log_evidence_se < 2.0
    np.testing.assert_array_equal(again.values, found.values)
    assert again.log_evidence == found.log_evidence


def test_a_known_initial_state_is_that_of_each_record():
    system, _, _ = growth()
    ode = system.equation()
    initial = np.array([[2.0], [1.0], [0.5]])
    records = [smcpn.Record(y=[begin[0], 0.4], dt=1.2) for begin in initial]
    prior = dict.fromkeys(ode.parameters, stats.norm())
    solver = smcpn.RK4(steps=5)

    def total(ode, records, begin):
        problem = smcpn.Problem(ode, records, observe="x", noise=0.1, prior=prior, initial=begin)
        return smcpn.LogLikelihood(problem, solver=solver)(np.array([[0.1, -0.7, 0.2]]))

    first = smcpn.Record(y=[np.nan, 0.4], t=[0.0, 1.2])
    plain = total(ode, [first] * 3, initial.tolist())
    moved = total(*relative_to_start(ode, records, ["x"], initial), "rest")
    np.testing.assert_allclose(moved, plain, rtol=1e-12)


def test_pairs_of_samples_need_no_initial_states():
    system, record, _ = growth()
    t, y = record.t, record.y[:, 0]
    records = [smcpn.Record(y=y[[k, k + 20]], t=t[[k, k + 20]] - t[k]) for k in range(0, 60, 4)]
    start = Point(TRUE, np.array([one.y[0] for one in records]), np.array([0.03]))
    found = finished(
        ShrinkageRun, records, system, ["x"], LaplacePrior(units="physical"), start, np.ones(3),
        noise_prior=(1.0, 1e-3), solver=smcpn.RK4(steps=5), particles=200,
    )  # fmt: skip
    assert found.prior.names == ("x'[1]", "x'[x]", "x'[x^2]", "noise of x")
    mean = found.weights @ found.values
    assert mean[1] == pytest.approx(-0.8, abs=0.3)


def test_signs_are_refused():
    system = CandidateSystem.of(smcpn.polynomials(2), ["x"], constraints=["x'[x] < 0"])
    _, record, start = growth()
    with pytest.raises(InputError, match="no signs"):
        finished(ShrinkageRun, [record], system, ["x"], LaplacePrior(), start, np.ones(3))


def test_an_input_that_is_a_function_is_refused():
    record = smcpn.Record(u=np.sin, y=np.ones(3), dt=0.1)
    with pytest.raises(InputError, match="function"):
        relative_to_start(growth()[0].equation(), [record], ["x"], np.ones((1, 1)))


def test_discover_takes_a_shrinkage_prior():
    _, record, _ = growth()
    found = smcpn.discover(
        record,
        library=smcpn.polynomials(2),
        states=["x"],
        prior="horseshoe",
        noise=[0.021],
        particles=150,
    )
    np.testing.assert_allclose(found.posterior.noise, 0.021, rtol=1e-3)
    assert found.measure == "level"
    assert found.posterior.coefficients.shape == (150, 3)
    assert found.inclusion["x'[x]"] > 0.99
    assert found.inclusion["x'[1]"] < 0.95
    assert found.coefficients["x'[x]"].lower < -0.8 < found.coefficients["x'[x]"].upper
    assert found.models[0].initial[0, 0] == pytest.approx(2.0, abs=0.05)
    text = str(found)
    assert "none is zero" in text
    assert "log-evidence     " in text
    assert "other term" not in text or ", level" in text
    with pytest.raises(InputError, match="laplace"):
        smcpn.discover(record, library=smcpn.polynomials(2), prior="laplac")


def test_a_level_is_that_of_the_widest_interval_without_zero():
    values = np.random.default_rng(0).normal([0.0, 1.0, -2.0], 1.0, size=(40000, 3))
    level = excluding_level(values, np.full(40000, 1 / 40000))
    expected = 2.0 * stats.norm.cdf([0.0, 1.0, 2.0]) - 1.0
    np.testing.assert_allclose(level, expected, atol=4.0 * 2.0 * 0.5 / 200.0)
