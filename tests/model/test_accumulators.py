"""Outputs that count since the last sample, against the growth between samples."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import Dose, InputError

pytestmark = pytest.mark.numerics

TIMES = np.array([0.0, 1.0, 2.0, 3.2, 4.0, 5.1])
RATE = 0.4


@smcpn.ode
def growth(i, cases, *, rate):
    return rate * i, rate * i


COUNTING = growth.accumulating("cases")


def counts(doses=()):
    """New cases since the last sample: i grows by them alone, but for what comes by doses."""
    i, found = 10.0, [0.0]
    for a, b in pairwise(TIMES):
        edges = [a, *(d.time for d in doses if a <= d.time < b), b]
        new = 0.0
        for begin, end in pairwise(edges):
            i += sum(d.amount for d in doses if d.time == begin and begin < end)
            new += i * np.expm1(RATE * (end - begin))
            i *= np.exp(RATE * (end - begin))
        found.append(new)
    return np.array(found)


def problem(doses=(), **changes):
    y = counts(doses) + np.random.default_rng(0).normal(size=len(TIMES))
    y[3] = np.nan
    record = smcpn.Record(t=TIMES, y=y, doses=doses)
    given = {"initial": [10.0, 0.0], "prior": {"rate": stats.lognorm(0.5)}, "noise": 1.0}
    return smcpn.Problem(COUNTING, record, observe="cases", **given | changes)


DOSES = [Dose(1.0, "i", 3.0), Dose(2.6, "i", 5.0)]
SOLVERS = [smcpn.RK4(steps=64), smcpn.EKF0(order=4, steps=64), smcpn.Rosenbrock(tolerance=1e-9)]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("doses", [(), DOSES], ids=["plain", "dosed"])
def test_a_count_begins_anew_at_every_sample(solver, doses):
    one = problem(doses)
    y = np.concatenate([record.y[np.isin(record.t, TIMES), 0] for record in one.records])
    wanted = np.nansum(stats.norm.logpdf(y, counts(doses), 1.0))
    likelihood = smcpn.LogLikelihood(one, solver=solver)
    assert likelihood([[RATE]])[0] == pytest.approx(wanted, abs=1e-5)
    _, gradient = likelihood.value_and_gradient([[RATE]])
    ends = likelihood([[RATE + 1e-5], [RATE - 1e-5]])
    assert gradient[0, 0] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4)
    plan = smcpn.Record(t=TIMES, doses=doses)
    found = smcpn.simulate(
        COUNTING, plan, {"rate": RATE}, observe="cases", initial=[10.0, 0.0], steps=64
    )
    np.testing.assert_allclose(found[:, 0], counts(doses), atol=1e-6)


def test_a_stream_and_a_file_count_as_the_record(tmp_path):
    one, options = problem(), {"solver": smcpn.RK4(steps=4), "particles": 50, "seed": 1}
    batch = smcpn.identify(
        one, method="ibis", progress=False, checkpoint=tmp_path / "run.h5", **options
    )
    assert smcpn.resume(tmp_path / "run.h5").log_evidence == batch.log_evidence
    uniform = smcpn.Record(t=TIMES, y=one.records[0].y)
    live = smcpn.Online(smcpn.Problem(
        COUNTING, uniform, observe="cases", noise=1.0, initial=[10.0, 0.0],
        prior={"rate": stats.lognorm(0.5)},
    ), **options)  # fmt: skip
    for y, t in zip(uniform.y, TIMES, strict=True):
        live.update(None, y, t)
    assert live.posterior().log_evidence == pytest.approx(batch.log_evidence, abs=1e-9)


def test_what_does_not_count_is_refused():
    with pytest.raises(InputError, match="accumulators"):
        growth.accumulating("deaths")
    with pytest.raises(InputError, match="enters cases, which is set back"):
        problem([Dose(1.0, "cases", 3.0)])


def log_cases(i, cases):
    return np.log(cases)


@pytest.mark.parametrize(
    ("observe", "noise"),
    [(log_cases, smcpn.Poisson()), ("cases", smcpn.NegativeBinomial(3.0)), (log_cases, 0.1)],
)
def test_a_count_at_the_first_sample_is_refused(observe, noise):
    y = np.round(counts()) + 1.0
    given = {"observe": observe, "noise": noise, "prior": {"rate": stats.lognorm(0.5)}}
    records = [smcpn.Record(t=TIMES, y=np.append(first, y[1:])) for first in (np.nan, 1.0)]
    with pytest.raises(InputError, match=r"first sample.* NaN.* initial="):
        smcpn.Problem(COUNTING, records, initial={"i": 10.0}, **given)
    for record, initial in zip(records, ({"i": 10.0}, {"i": 10.0, "cases": 1.0}), strict=True):
        one = smcpn.Problem(COUNTING, record, initial=initial, **given)
        assert np.isfinite(smcpn.LogLikelihood(one)([[RATE]]))


def test_what_counts_at_rest_is_linearised_at_a_given_state():
    @smcpn.ode
    def tank(level, passed, flow, *, k):
        return flow - k * level, k * level

    counting, values = tank.accumulating("passed"), {"k": 0.5}
    with pytest.raises(InputError, match=r"what an accumulator counts .* give state="):
        smcpn.linearise(counting, values, observe="passed", input=1.0)
    linear = smcpn.linearise(counting, values, observe="passed", input=1.0, state=[2.0, 0.0])
    np.testing.assert_allclose(linear.A, [[-0.5, 0.0], [0.5, 0.0]])


def log_cases_later(i, cases, t):
    return np.log(cases + (t < 0.5))


@pytest.mark.parametrize(
    "name",
    ["classical", "marginal", pytest.param("filtering", marks=pytest.mark.nightly), "kalman"],
)
def test_an_output_may_be_infinite_where_nothing_was_measured(name):
    """Values and gradients are those of an output that is finite there."""
    solver = smcpn.RK4(4) if name in ("classical", "kalman") else smcpn.EKF0(steps=4)
    disturbed = {"process_noise": {"i": 0.1}} if name == "kalman" else {}
    record = smcpn.Record(t=TIMES, y=np.append(np.nan, np.log(counts()[1:])))
    found = []
    for observe in (log_cases, log_cases_later):
        options = {"observe": observe, "noise": 0.3, "prior": {"rate": stats.lognorm(0.5)}}
        one = smcpn.Problem(COUNTING, record, initial={"i": 10.0}, **options, **disturbed)
        likelihood = smcpn.LogLikelihood(one, name, solver)
        value, gradient = likelihood.value_and_gradient([[RATE]])
        found.append([value[0], gradient[0, 0]])
    assert np.isfinite(found[0]).all()
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
