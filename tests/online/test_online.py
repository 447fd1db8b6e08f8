"""`Online` against `ibis`, and what it does with samples that are not as expected."""

from __future__ import annotations

import time

import numpy as np
import pytest

import smcpn
from smcpn import EKF0, RK4, InputError, Online
from tests import models

SOLVERS = {"ekf0": EKF0(order=2, steps=4), "rk4": RK4(steps=4)}
RECORD = models.oscillator_record(samples=200)
PROBLEM = models.oscillator_problem(RECORD)
QUICK = {"solver": SOLVERS["rk4"], "particles": 100, "seed": 1}


def stream(live: Online, record=RECORD, begin: int = 0, end: int | None = None):
    state = None
    for u, y in zip(record.u[begin:end], record.y[begin:end], strict=True):
        state = live.update(u, y)
    assert state is not None
    return state


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_without_a_budget_the_bytes_are_those_of_ibis(solver):
    batch = smcpn.identify(
        PROBLEM, method="ibis", solver=solver, particles=200, seed=1, progress=False
    )
    live = Online(PROBLEM, solver=solver, particles=200, seed=1)
    state, found = stream(live), live.posterior()
    assert len(batch.rejuvenations) > 5
    for name in (
        "theta",
        "log_weights",
        "log_likelihood",
        "ancestor",
        "ess_path",
        "log_evidence_path",
    ):
        np.testing.assert_array_equal(getattr(found, name), getattr(batch, name))
    assert state.mean == batch.mean
    assert state.sd == batch.sd
    assert state.log_evidence == batch.log_evidence
    assert (state.lag, state.status, state.sample) == (0, "assimilated", len(RECORD))


def test_a_posterior_needs_two_samples_that_count():
    live = Online(PROBLEM, **QUICK, lookahead=3)
    for k in range(5):
        with pytest.raises(InputError, match=rf"two samples, and {k // 4} of {k} count: update"):
            live.posterior()
        live.update(RECORD.u[k], RECORD.y[k])
    assert len(live.posterior().path_samples) == 2


def test_with_a_budget_the_target_stays_exact():
    """Leaps, provisional weights and hand-overs: standardised error of the mean over seeds."""
    reference = smcpn.identify(
        PROBLEM, method="ibis", solver=SOLVERS["rk4"], particles=5000, seed=9, progress=False
    )
    errors, evidences = [], []
    for seed in range(12):
        live = Online(PROBLEM, solver=SOLVERS["rk4"], particles=200, seed=seed, budget="0.2 ms")
        stream(live)
        state = live.finish()
        assert state.lag == 0
        assert not state.degraded
        errors.append([(state.mean[n] - reference.mean[n]) / reference.sd[n] for n in live.names])
        evidences.append(state.log_evidence)
    # Means of 200 particles scatter by 1/sqrt(200) at least; the mean of 12 runs by 0.02.
    assert np.abs(np.mean(errors, axis=0)).max() < 0.12
    assert np.std(errors) < 0.3
    assert np.mean(evidences) == pytest.approx(reference.log_evidence, abs=0.3)


def test_an_update_does_not_wait_for_a_rejuvenation():
    live = Online(PROBLEM, solver=SOLVERS["rk4"], particles=1000, seed=1, budget=5e-3)
    states = []
    for u, y in zip(RECORD.u, RECORD.y, strict=True):
        states.append(live.update(u, y))
        time.sleep(1e-3)
    # On a busy machine an update may leave its sample to the next one; none is lost.
    assert all(state.sample <= k + 1 for k, state in enumerate(states))
    assert any(state.lag > 0 for state in states)
    assert all(state.late == (state.latency > 5e-3) for state in states)
    end = live.finish()
    assert (end.lag, end.sample) == (0, len(RECORD))


def test_a_state_is_read_later():
    live = Online(PROBLEM, **QUICK)
    early = stream(live, end=50)
    stream(live, begin=50)
    again = stream(Online(PROBLEM, **QUICK), end=50)
    assert early.mean == again.mean
    low, high = early.quantile("k", [0.1, 0.9])
    assert low < early.mean["k"] < high
    with pytest.raises(InputError, match="no parameter"):
        early.quantile("q", 0.5)


@pytest.mark.parametrize("options", [{}, {"forget": "8 s"}], ids=["all", "window"])
def test_what_is_loaded_goes_on_to_the_same_bytes(options, tmp_path):
    live = Online(PROBLEM, **QUICK, **options)
    stream(live, end=130)
    live.save(tmp_path / "live.h5")
    again = Online.load(tmp_path / "live.h5")
    assert (again.sample, again.t) == (live.sample, live.t)
    ours, theirs = stream(live, begin=130), stream(again, begin=130)
    np.testing.assert_array_equal(ours.values, theirs.values)
    np.testing.assert_array_equal(ours.weights, theirs.weights)
    assert ours.approximate == theirs.approximate == ("window 8 s" if options else "")


def test_a_rejuvenation_under_way_is_begun_again_by_who_loads(tmp_path):
    live = Online(PROBLEM, **QUICK, budget="0.2 ms")
    stream(live, end=60)
    live.save(tmp_path / "live.h5")
    again = Online.load(tmp_path / "live.h5")
    stream(again, begin=60)
    state = again.finish()
    assert state.sample == len(RECORD)
    assert state.mean["k"] == pytest.approx(models.OSCILLATOR_TRUTH["k"], abs=5 * state.sd["k"])


def test_a_damaged_file_is_refused(tmp_path):
    live = Online(PROBLEM, **QUICK)
    stream(live, end=10)
    path = tmp_path / "live.h5"
    live.save(path)
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="checksum"):
        Online.load(path)


def test_prediction_covers_what_comes():
    live = Online(PROBLEM, **QUICK)
    stream(live, end=150)
    ahead = live.predict(RECORD.u[150:])
    y = RECORD.y[150:, 0]
    inside = (ahead.lower[:, 0] <= y) & (y <= ahead.upper[:, 0])
    # 50 samples at 95 %: four standard deviations below is 41.
    assert inside.sum() >= 41
    np.testing.assert_allclose(ahead.t, RECORD.t[150:])
    assert np.all(ahead.sd >= models.OSCILLATOR_NOISE)


def test_missing_outputs_are_simulated_through():
    hidden = RECORD.hide(40, 60)
    batch = smcpn.identify(
        models.oscillator_problem(hidden),
        method="ibis",
        solver=SOLVERS["rk4"],
        particles=100,
        seed=1,
        progress=False,
    )
    state = stream(Online(PROBLEM, **QUICK), hidden)
    assert state.mean == batch.mean
    live = Online(PROBLEM, **QUICK)
    stream(live, end=5)
    assert np.isnan(live.update(RECORD.u[5], None).innovation).all()


def test_a_gap_is_the_same_as_missing_samples_on_the_line():
    gap, ours = Online(PROBLEM, **QUICK), Online(PROBLEM, **QUICK)
    for k in range(60):
        if k in (31, 32):
            share = (k - 30) / 3
            ours.update(RECORD.u[30] * (1 - share) + RECORD.u[33] * share, np.nan)
        else:
            ours.update(RECORD.u[k], RECORD.y[k])
            state = gap.update(RECORD.u[k], RECORD.y[k], RECORD.t[k])
            assert state.missing == (2 if k == 33 else 0)
    assert gap.sample == ours.sample == 60
    a, b = gap.finish(), ours.finish()
    for name in gap.names:
        assert a.mean[name] == pytest.approx(b.mean[name], rel=1e-6)


def test_late_and_duplicate_samples_are_left_out():
    live = Online(PROBLEM, **QUICK)
    for k in (0, 1, 2, 3, 4, 7, 8, 9):
        live.update(RECORD.u[k], RECORD.y[k], RECORD.t[k])
    for t, status in (
        (RECORD.t[9], "duplicate"),
        (RECORD.t[9] + 0.04, "duplicate"),
        (RECORD.t[4] - 0.04, "duplicate"),
        (RECORD.t[5], "late"),
        (RECORD.t[6], "late"),
        (-1.0, "duplicate"),
    ):
        assert live.update(9.0, 9.0, t).status == status
    assert live.sample == 10


@pytest.mark.numerics
def test_irregular_times_are_those_of_the_record():
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.uniform(0.05, 0.12, 150))
    record = smcpn.Record(u=RECORD.u[:150], y=RECORD.y[:150], t=t)
    problem = models.oscillator_problem(record, noise=1.0)
    batch = smcpn.identify(
        problem, method="ibis", solver=SOLVERS["ekf0"], particles=100, seed=1, progress=False
    )
    live = Online(problem, solver=SOLVERS["ekf0"], particles=100, seed=1)
    states = [live.update(*row) for row in zip(record.u, record.y, t, strict=True)]
    assert states[-1].mean == batch.mean
    with pytest.raises(InputError, match="t is missing"):
        live.update(0.0, 0.0)


def test_a_stream_says_the_steps_that_it_takes():
    """As many in every interval, whatever its length; a record may take as many as it needs."""
    t = np.cumsum(np.tile([0.1, 0.1, 0.8], 10))
    record = smcpn.Record(u=RECORD.u[:30], y=RECORD.y[:30], t=t)
    problem = models.oscillator_problem(record, noise=1.0)
    live = Online(problem, solver=RK4(), particles=50, seed=1)
    for row in zip(record.u, record.y, t, strict=True):
        live.update(*row)
    found = live.posterior()
    there = smcpn.LogLikelihood(found.problem, solver=found.solver)
    values = problem.prior.natural(found.theta)
    np.testing.assert_allclose(there(values), found.log_likelihood, rtol=1e-9)
    with pytest.raises(InputError, match="a stream takes as many steps in every sampling interval"):
        Online(problem, solver=RK4(steps=4, interval=0.1))


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ((np.nan, 0.0, None), "an input must be known"),
        ((0.0, np.inf, None), "finite numbers, or NaN"),
        (([0.0, 1.0], 0.0, None), "u has 2 values"),
        (("a", 0.0, None), "u is 'a'"),
        ((0.0, 0.0, 1e9), "begin a new Online"),
        ((0.0, 0.0, "now"), "give a time"),
    ],
)
def test_what_cannot_be_a_sample_is_refused_and_not_taken_in(sample, message):
    live = Online(PROBLEM, **QUICK)
    live.update(0.0, 0.0, 0.0)
    with pytest.raises(InputError, match=message):
        live.update(*sample)
    assert live.sample == 1
    assert live.update(0.0, 0.0).sample == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "soon"}, "budget is 'soon'"),
        ({"budget": -1.0}, "budget is -1.0"),
        ({"forget": "0 s"}, "forget is '0 s'"),
        ({"particles": 3}, "particles is 3"),
        ({"solver": smcpn.RK4(), "likelihood": "filtering"}, "does not go with"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Online(PROBLEM, **{**QUICK, **options})


def test_band_limited_input_is_behind_by_the_lookahead():
    record = models.oscillator_record(samples=120, hold="bandlimited")
    live = Online(models.oscillator_problem(record), **QUICK)
    state = stream(live, record)
    assert state.sample == 120 - 64
    assert live.finish().sample == 120
