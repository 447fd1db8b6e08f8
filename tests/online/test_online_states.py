from __future__ import annotations

import numpy as np
import pytest

import smcpn
from smcpn import RK4
from tests.reference.linear_gaussian import kalman
from tests.results.simulation.test_states import STEPS, discrete, simulated

SAMPLES = 60


@pytest.fixture(scope="module")
def problem() -> smcpn.Problem:
    whole = simulated(1)[0]
    return whole.with_records([whole.records[0][:SAMPLES]])


def stream(problem: smcpn.Problem, **options) -> smcpn.Online:
    return smcpn.Online(problem, solver=RK4(steps=STEPS), particles=100, seed=1, **options)


def updates(live: smcpn.Online, record: smcpn.Record, first: int = 0) -> list:
    return [live.update(u, y) for u, y in zip(record.u[first:], record.y[first:], strict=True)]


def test_a_disturbed_stream_is_the_batch_run_after_a_stop_too(problem, tmp_path):
    record = problem.records[0]
    batch = smcpn.identify(
        problem, solver=RK4(steps=STEPS), particles=100, seed=1, method="ibis", progress=False
    )
    live = stream(problem)
    updates(live, record[:25])
    live.save(tmp_path / "live.h5")
    resumed = smcpn.Online.load(tmp_path / "live.h5")
    last = [updates(one, record, 25)[-1] for one in (live, resumed)]
    for one, state in zip((live, resumed), last, strict=True):
        posterior = one.posterior()
        assert posterior.theta.tobytes() == batch.theta.tobytes()
        assert posterior.log_weights.tobytes() == batch.log_weights.tobytes()
        assert posterior.log_evidence == batch.log_evidence
        assert state.state_mean == last[0].state_mean


def test_an_update_gives_the_filtered_states_over_the_particles(problem):
    record, live = problem.records[0], stream(problem)
    after, moved = [], []
    for u, y in zip(record.u, record.y, strict=True):
        after.append(live.update(u, y))
        moved.append(after[-1].rejuvenations)
    # With and without a rejuvenation after the sample.
    rejuvenated = int(np.flatnonzero(np.diff(moved))[-1]) + 1
    assert rejuvenated < SAMPLES - 1
    for k in (rejuvenated, SAMPLES - 1):
        one = after[k]
        runs = [kalman(discrete(problem, *v, record.u[:, 0]), record.y) for v in one.values]
        means = np.array([run.mean[k] for run in runs])
        variances = np.array([np.diag(run.covariance[k]) for run in runs])
        mean = one.weights @ means
        variance = one.weights @ (variances + np.square(means - mean))
        assert list(one.state_mean) == ["x", "v"]
        assert np.allclose(list(one.state_mean.values()), mean, rtol=0, atol=1e-9)
        assert np.allclose(list(one.state_sd.values()), np.sqrt(variance), rtol=0, atol=1e-8)


def test_states_of_a_window_and_with_a_budget_are_near_the_true_ones(problem):
    (_, truth), record = simulated(1), problem.records[0]
    for options in ({"forget": "4 s"}, {"budget": "5 ms"}):
        last = updates(stream(problem, **options), record)[-1]
        error = np.array(list(last.state_mean.values())) - truth[SAMPLES - 1]
        # Of normal deviations; six are beyond any seed.
        assert (np.abs(error) <= 6 * np.array(list(last.state_sd.values()))).all()
        assert 0.01 < last.state_sd["x"] < 0.3
