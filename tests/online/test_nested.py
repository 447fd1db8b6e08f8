from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import RK4
from smcpn.model.signal import sinc_taps
from tests import models
from tests.results.simulation.test_states import (
    SENSOR,
    STEPS,
    assert_exact_states,
    disturbed_problem,
    oscillator,
    simulated,
)

SAMPLES = 80


@pytest.fixture(scope="module")
def problem() -> smcpn.Problem:
    whole = simulated(1)[0]
    return whole.with_records([whole.records[0][:SAMPLES]])


def nested(problem: smcpn.Problem, **options) -> smcpn.NestedFilter:
    chosen = {"particles": 200, "seed": 1} | options
    return smcpn.NestedFilter(problem, solver=RK4(steps=STEPS), **chosen)


def updates(live, record: smcpn.Record) -> list:
    return [live.update(u, y) for u, y in zip(record.u, record.y, strict=True)]


def test_of_known_parameters_it_is_a_particle_filter_of_the_exact_states(problem):
    record = problem.records[0]
    known = disturbed_problem(record, spread=1e-7)
    assert_exact_states(updates(nested(known, particles=160), record), problem, record)


def test_the_posterior_is_near_the_exact_one(problem):
    record = problem.records[0]
    live = smcpn.Online(problem, solver=RK4(steps=STEPS), particles=500, seed=1)
    exact, found = updates(live, record)[-1], updates(nested(problem), record)[-1]
    for name, mean in found.mean.items():
        # Errors of 200 vectors: up to half a standard deviation in five seeds.
        assert abs(mean - exact.mean[name]) <= exact.sd[name]
        assert 0.5 <= found.sd[name] / exact.sd[name] <= 2.0
        assert found.quantile(name, 0.5) == pytest.approx(mean, abs=exact.sd[name])
    for name, mean in found.state_mean.items():
        assert abs(mean - exact.state_mean[name]) <= 0.3 * exact.state_sd[name]
    assert abs(found.log_evidence - exact.log_evidence) <= 2.0


def test_a_stored_filter_goes_on_to_the_same_bytes_on_any_threads(problem, tmp_path):
    record = problem.records[0]
    live = nested(problem, particles=40, threads=1)
    fresh, path = tmp_path / "fresh.h5", tmp_path / "live.h5"
    live.save(fresh)
    updates(live, record[:20])
    live.save(path)
    resumed = smcpn.NestedFilter.load(path, threads=2)
    begun = smcpn.NestedFilter.load(fresh)
    updates(begun, record[:20])
    last = [updates(one, record[20:30])[-1] for one in (live, resumed, begun)]
    assert last[0].values.tobytes() == last[1].values.tobytes() == last[2].values.tobytes()
    assert last[0].log_evidence == last[1].log_evidence
    assert last[0].state_mean == last[2].state_mean
    whole = bytearray(path.read_bytes())
    whole[-100] ^= 1
    path.write_bytes(whole)
    with pytest.raises(smcpn.InputError, match="damaged"):
        smcpn.NestedFilter.load(path)
    with pytest.raises(smcpn.InputError, match="nested filter"):
        smcpn.Online.load(fresh)


def test_gaps_and_duplicates_are_those_of_a_stream(problem):
    live = nested(problem, particles=20)
    assert live.update(0.0, 0.5, 0.0).status == "assimilated"
    later = live.update(0.0, 0.4, 0.8)
    assert (later.missing, later.sample, later.t) == (3, 5, 0.8)
    assert live.update(0.0, 0.4, 0.8).status == "duplicate"
    assert live.update(0.0, None, 1.0).sample == 6


def test_times_may_be_irregular(problem):
    record = problem.records[0][:20]
    times = np.append(record.t[:-1], record.t[-1] + 0.07)
    irregular = smcpn.Record(u=record.u, y=record.y, t=times, hold=record.hold)
    live = nested(problem.with_records([irregular]), particles=20)
    samples = zip(irregular.u, irregular.y, irregular.t, strict=True)
    *_, same, last = (live.update(*sample) for sample in samples)
    *_, expected, _ = updates(nested(problem, particles=20), record)
    assert last.t == times[-1]
    assert same.state_mean == pytest.approx(expected.state_mean, rel=1e-9)


def test_a_band_limited_input_is_known_later(problem, tmp_path):
    """As the function that interpolates it: a sample counts when 64 after it are known."""
    record, dt = problem.records[0], problem.records[0].dt
    u, y = record.u[:, 0], record.y

    def between(times):
        place = np.floor(times / dt + 1e-9).astype(int)
        near = np.clip(place[:, None] + np.arange(-63, 65), 0, SAMPLES - 1)
        taps = [sinc_taps(shift) for shift in (times / dt - place).round(9)]
        return (u[near] * np.reshape(taps, (-1, 128))).sum(axis=1)

    smooth = smcpn.Record(u=u, y=y, dt=dt, hold="bandlimited")
    known = smcpn.Record(u=between, y=y, t=dt * np.arange(SAMPLES))
    live, other = (nested(problem.with_records([r]), particles=20) for r in (smooth, known))
    states = []
    for k in range(SAMPLES):
        states.append(live.update(u[k], y[k]))
        if k == 70:
            live.save(tmp_path / "filter.h5")
            live = smcpn.NestedFilter.load(tmp_path / "filter.h5")
    expected = [other.update(None, y[k], t=k * dt) for k in range(SAMPLES)]
    assert [one.status for one in states[62:66]] == ["waiting"] * 2 + ["assimilated"] * 2
    assert states[70].sample == 7
    assert states[70].t == expected[6].t
    for one, its in ((states[70], expected[6]), (live.finish(), expected[-1])):
        assert one.log_evidence == pytest.approx(its.log_evidence, abs=1e-7)
        assert one.state_mean == pytest.approx(its.state_mean, rel=1e-7)


@pytest.mark.nightly
def test_a_dead_time_of_whole_samples_moves_the_input(problem):
    record = problem.records[0]
    u = record.u[:40, 0]
    moved, found = np.concatenate([np.full(3, u[0]), u[:-3]]), []
    for forces, delay in ((u, 3 * record.dt), (moved, 0.0)):
        late = smcpn.Problem(
            oscillator, record, observe="x", noise=SENSOR, process_noise={"v": "q"},
            delay={"u": delay}, prior={"c": stats.lognorm(0.5), "q": stats.lognorm(0.5)},
        )  # fmt: skip
        live = nested(late, particles=20)
        found.append([live.update(*each) for each in zip(forces, record.y[:40], strict=True)][-1])
    assert found[0].log_evidence == pytest.approx(found[1].log_evidence, rel=1e-7)
    assert found[0].mean == pytest.approx(found[1].mean, rel=1e-7)


def test_what_it_cannot_follow_is_refused(problem):
    with pytest.raises(smcpn.InputError, match="needs a problem with process noise"):
        nested(models.duffing_problem())
    with pytest.raises(smcpn.InputError, match="multiple of 32"):
        nested(problem, state_particles=33)
    with pytest.raises(smcpn.InputError, match="particles"):
        nested(problem, particles=2)
    live = nested(problem, particles=20)
    before = live.update(0.0, 0.5)
    with pytest.raises(smcpn.InputError, match="impossible"):
        live.update(0.0, 1e200)
    never = nested(problem, particles=20)
    never.update(0.0, 0.5)
    after, expected = live.update(0.0, 0.5), never.update(0.0, 0.5)
    assert after.sample == before.sample + 1
    assert after.log_evidence == expected.log_evidence
