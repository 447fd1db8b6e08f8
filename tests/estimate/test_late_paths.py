"""Searches over path and parameters with inputs that come late."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal, stats

import smcpn
from smcpn.errors import InputError
from smcpn.estimate.path_search.late import LateIntervals

FINE = 0.005
"""Samples and arrivals are at multiples of it."""


@smcpn.ode
def driven(x, v, u, w, *, c, k):
    """Oscillator of unit mass under a late and a prompt force."""
    return v, u + w - c * v - k * x


def exact(t, known, late, hold, c, k):
    """States at every sampling time, from rest."""
    fine = FINE * np.arange(round(t[-1] / FINE) + 1)
    forces = []
    for values, delay in zip(known.T, (late, 0.0), strict=True):
        if hold == "zoh":
            place = np.searchsorted(t, fine - delay + 1e-9, side="right") - 1
            forces.append(values[np.maximum(place, 0)])
        else:
            forces.append(np.interp(fine - delay, t, values))
    system = ([[0.0, 1.0], [-k, -c]], [[0.0], [1.0]], np.eye(2), np.zeros((2, 1)))
    x = signal.lsim(system, sum(forces), fine, interp=hold != "zoh")[1]
    return x[np.round(t / FINE).astype(int)]


def record(hold, late, c=0.4, k=3.0, uneven=False):
    rng, t = np.random.default_rng(1), 0.1 * np.arange(60)
    if uneven:
        t = FINE * np.cumsum(np.append(0, rng.integers(10, 30, size=59)))
    known = np.repeat(rng.normal(size=(20, 2)), 3, axis=0)
    x = exact(t, known, late, hold, c, k)
    y = x[:, 0] + 0.01 * rng.normal(size=60)
    times = {"t": t} if uneven else {"dt": 0.1}
    return smcpn.Record(u=known, y=y, hold=hold, **times), x


def problem(one, **options):
    prior = {"c": stats.lognorm(1.0), "k": stats.lognorm(1.0), "tau": stats.uniform(0.05, 0.6)}
    return smcpn.Problem(
        driven, one, observe="x", noise=0.01, prior=prior, delay={"u": "tau"}, **options
    )


@pytest.mark.parametrize(("hold", "uneven"), [("foh", False), ("zoh", True)])
def test_the_flow_of_an_interval_and_its_derivatives(hold, uneven):
    c, k, tau = 0.4, 3.0, 0.335
    one, x = record(hold, tau, uneven=uneven)
    intervals = LateIntervals(problem([one, one[:20]]).model.with_numbers(), [one, one[:20]])
    intervals.steps = 4
    values = np.array([[c, k, tau], [c, 2.0, 0.2135]])
    path = np.concatenate([x[:-1], x[:19]])
    flow = intervals.flow(np.stack([path, path]), values)
    np.testing.assert_allclose(flow.end[0], np.concatenate([x[1:], x[1:20]]), atol=1e-8)
    np.testing.assert_array_equal(flow.end, intervals.ends(np.stack([path, path]), values))
    h = 1e-5
    for j in range(3):
        ends = [
            intervals.ends(np.stack([path, path]), values + off * (np.arange(3) == j))
            for off in (h, -h)
        ]
        slope = (ends[0] - ends[1]) / (2.0 * h)
        # Where a sample arrives just at another one the slope jumps.
        np.testing.assert_allclose(flow.slopes[1, ..., 2 + j], slope[1], atol=1e-7)


def test_a_search_over_paths_learns_a_dead_time():
    one, _ = record("zoh", 0.235)
    found = smcpn.maximise(
        problem(one), solver=smcpn.RK4(steps=2), search="lifted", starts=4, seed=0, progress=False
    )
    values = dict(zip(found.names, found.values, strict=True))
    assert values == pytest.approx({"c": 0.4, "k": 3.0, "tau": 0.235}, abs=0.02)
    assert found.starts[found.best].lifted


def test_outputs_that_read_a_late_input_are_refused():
    one, _ = record("zoh", 0.235)
    posed = smcpn.Problem(
        driven, one, observe=lambda x, u: x + u, noise=0.01, delay={"u": 0.2},
        prior={"c": stats.lognorm(1.0), "k": stats.lognorm(1.0)},
    )  # fmt: skip
    with pytest.raises(InputError, match="outputs and first states that depend on a delayed"):
        smcpn.maximise(posed, solver=smcpn.RK4(steps=2), search="lifted", starts=1)
