"""From where rounds of searches begin, when they are enough, and which of them go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from smcpn.estimate import multistart
from smcpn.estimate.multistart import (
    ENOUGH,
    GLANCE,
    LOOKED_AT,
    SHOOTING,
    MultiStart,
    settled,
)
from smcpn.estimate.search import CONVERGED, LIMIT, SearchEnd


class Hills:
    """A density of two coordinates with hills and hollows."""

    scale = np.array([1.0, 2.0])

    def value(self, theta):
        return np.sin(3.0 * theta[:, 0]) + np.cos(2.0 * theta[:, 1]) - 0.1 * theta[:, 0] ** 2


@pytest.mark.parametrize(("draws", "most"), [(300, 200), (3000, 40), (3 * LOOKED_AT, 200)])
def test_hills_are_the_draws_that_are_higher_than_those_nearest(draws, most):
    density: Any = Hills()
    candidates = np.random.default_rng(1).normal(size=(draws, 2)) * density.scale
    values, points = density.value(candidates), candidates / density.scale
    order = np.argsort(-values)
    near = max(multistart.NEIGHBOURS, draws // multistart.NEAR)
    expected: list[int] = []
    for k in order if draws < LOOKED_AT else order[:500]:
        away = np.square(points - points[k]).sum(axis=1)
        around = np.argpartition(away, near)[: near + 1]
        if values[around].max() <= values[k]:
            expected.append(int(k))
    found = multistart._hilltops(density, candidates, values, order, most)
    np.testing.assert_array_equal(found[: len(expected)], expected[:most])
    assert len(found) >= min(len(expected), most)


def end(height: float, reason: str = CONVERGED) -> SearchEnd:
    return SearchEnd(np.array([height]), height, reason, 1, np.zeros((1, 1)), np.array([height]))


@pytest.mark.parametrize(
    ("tops", "enough"),
    [
        ([end(0.0)], False),
        ([end(0.0), end(0.0)], True),
        ([end(0.0, LIMIT)], False),
        ([end(0.0, LIMIT), end(0.0, LIMIT)], True),
        ([end(0.0, "at the edge of the support of k")], True),
    ],
)
def test_the_highest_end_must_be_found_twice_though_it_was_cut_short(tops, enough):
    assert settled([*tops, *[end(-10.0)] * ENOUGH]) is enough


def test_the_highest_of_many_searches_go_on():
    """Each climbs by one an iteration, and ends where it is cut short."""
    asked: list[tuple[int, int]] = []

    def climb(density, starts, stages, iterations):
        asked.append((len(starts), iterations))
        return [replace(end(x + iterations, LIMIT), evaluations=iterations) for x in starts[:, 0]]

    starts: Any = np.arange(16.0)[:, None]
    density: Any = None
    found = MultiStart(climb, density, [[0]], 3 * GLANCE, SHOOTING).promising(starts)
    assert asked == [(16, GLANCE), (4, 2 * GLANCE)]
    heights = [one.log_density for one in found]
    assert heights == [*(np.arange(12.0) + GLANCE), *(np.arange(12.0, 16.0) + 3 * GLANCE)]
    assert [one.evaluations for one in found] == [GLANCE] * 12 + [3 * GLANCE] * 4
