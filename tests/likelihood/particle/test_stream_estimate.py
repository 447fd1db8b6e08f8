from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import smcpn
from smcpn.codegen.threads import thread_pool
from smcpn.likelihood.history import History
from smcpn.likelihood.particle.likelihood import Bootstrap
from smcpn.likelihood.particle.stream import StreamEstimate, stream_estimate
from tests.likelihood.particle.test_particle_filter import VALUES, keys_of, problem_of, record_of

SAMPLES = 80


def record_as(hold: str, irregular: bool) -> smcpn.Record:
    record = record_of(SAMPLES)
    t = record.t + np.linspace(0.0, 0.05, SAMPLES) ** 2 * 30
    return smcpn.Record(
        u=record.u, y=record.y, hold=hold, **({"t": t} if irregular else {"dt": 0.2})
    )


def growing(
    problem: smcpn.Problem, intervals: int, samples: int, threads: int = 1
) -> StreamEstimate:
    """The estimate of a stream whose chunks are small, after so many samples."""
    history = History(1, 2, intervals=intervals, kept=2)
    likelihood = stream_estimate(problem, smcpn.RK4(2), history, threads)
    record = problem.records[0]
    likelihood.stream.append(record.t[:50], record.u[:50], record.y[:50])
    for t, u, y in zip(record.t[50:samples], record.u[50:], record.y[50:], strict=False):
        likelihood.stream.append_sample((t, *u, *y))
    return likelihood.with_state_particles(32)


@pytest.mark.parametrize(
    ("hold", "irregular"),
    [
        ("zoh", True),
        ("foh", False),
        pytest.param("zoh", False, marks=pytest.mark.nightly),
        pytest.param("foh", True, marks=pytest.mark.nightly),
    ],
)
def test_a_stream_has_the_estimates_of_its_record(hold, irregular):
    problem = problem_of(record_as(hold, irregular), cubic=0.5)
    whole = Bootstrap.build(problem, smcpn.RK4(2), 1, state_particles=32)
    stream = growing(problem, 16, SAMPLES)
    assert stream.n_samples == SAMPLES
    assert stream.n_steps == whole.n_steps
    values, keys = np.tile(VALUES, (3, 1)), keys_of(3)
    state, increments = whole.advance(values, whole.start(values), 0, SAMPLES, keys)
    found, parts = stream.start(values), []
    for a, b in ((0, 1), (1, 20), (20, 64), (64, SAMPLES)):
        found, part = stream.advance(values, found, a, b, keys)
        parts.append(part)
    np.testing.assert_array_equal(np.concatenate(parts), increments)
    np.testing.assert_array_equal(found, state)
    np.testing.assert_array_equal(
        stream.accumulate(values, None, 0, SAMPLES, keys)[1], np.add.reduce(increments)
    )


def test_others_share_the_samples_and_an_emptied_one_has_none():
    problem = problem_of(record_of(SAMPLES))
    stream = growing(problem, 4096, 60)
    other, empty, record = stream.with_state_particles(64), stream.emptied(), problem.records[0]
    stream.stream.append(record.t[60:], record.u[60:], record.y[60:])
    assert (other.n_samples, empty.n_samples) == (SAMPLES, 0)
    assert other.start(VALUES[None]).shape == (3 * 64 + 1, 1)
    assert not empty.start(VALUES[None]).any()
    assert not stream.guided(VALUES[None], SAMPLES).any()


@pytest.mark.parametrize("irregular", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_what_a_sample_is_expected_to_be(irregular):
    """Against weighted means over the particles of a filter that misses the sample."""
    problem, missed = problem_of(record_as("zoh", irregular)), 48
    stream = growing(problem, 16, SAMPLES).with_state_particles(64)
    values, keys = np.tile(VALUES, (2, 1)), keys_of(2)
    state, _ = stream.advance(values, stream.start(values), 0, missed, keys)
    following, increments, found = stream.assimilated(values, keys, state, missed)
    seen = stream.advance(values, state, missed, missed + 1, keys)
    np.testing.assert_array_equal(following, seen[0])
    np.testing.assert_array_equal(increments, seen[1][0])
    record = problem.records[0]
    y = record.y.copy()
    y[missed] = np.nan
    unseen = smcpn.Record(u=record.u, y=y, t=record.t, hold="zoh")
    if not irregular:
        unseen = smcpn.Record(u=record.u, y=y, dt=0.2, hold="zoh")
    other = growing(problem_of(unseen), 16, SAMPLES).with_state_particles(64)
    after, _ = other.advance(values, state, missed, missed + 1, keys)
    particles = after[:-1].reshape(3, 64, 2)
    weights = np.exp(particles[2] - particles[2].max(axis=0))
    weights /= weights.sum(axis=0)
    mean = (particles[:2] * weights).sum(axis=1)
    variance = (np.square(particles[:2] - mean[:, None]) * weights).sum(axis=1)
    np.testing.assert_allclose(found[:2], mean, rtol=1e-10)
    np.testing.assert_allclose(found[2:4], variance + 0.2**2, rtol=1e-10)
    np.testing.assert_allclose(found[4:6], mean, rtol=1e-10)
    np.testing.assert_allclose(found[6:], variance, rtol=1e-8, atol=1e-12)


def test_samples_ahead_are_those_that_a_stream_without_outputs_has():
    problem, n = problem_of(record_of(SAMPLES)), 60
    record, keys = problem.records[0], keys_of(2)
    stream = growing(problem, 16, n)
    values = np.tile(VALUES, (2, 1))
    state, _ = stream.advance(values, stream.start(values), 0, n, keys)
    blocks = list(stream.moments_ahead(values, state, n, record.t[n:], record.u[n:], 8, keys))
    found = np.concatenate(blocks)
    assert found.shape == (SAMPLES - n, 8, 2)
    missing = np.full((SAMPLES - n, 2), np.nan)
    stream.stream.append(record.t[n:], record.u[n:], missing)
    for k in range(n, SAMPLES):
        state, _, expected = stream.assimilated(values, keys, state, k)
        np.testing.assert_allclose(found[k - n], expected, rtol=1e-12)


def test_an_update_does_not_wait_for_a_rejuvenation():
    stream, end = growing(problem_of(record_of(SAMPLES)), 16, SAMPLES, threads=2), threading.Event()
    values, keys = np.tile(VALUES, (20, 1)), keys_of(20)
    state = stream.start(values)
    at_work = [thread_pool(2, os.getpid()).submit(end.wait, 60.0) for _ in range(2)]
    try:
        stream.assimilated(values, keys, state, 0)
        assert not any(task.done() for task in at_work)
    finally:
        end.set()
