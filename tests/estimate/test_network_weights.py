"""Which of the functions that searches for weights of networks lead to is taken."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

import smcpn
from smcpn.estimate.laplace import MOST, best_of_networks

NETWORK = smcpn.network("u", hidden=(2,))


def problem_of(weights):
    functions = {"f": SimpleNamespace(function=NETWORK)}
    return SimpleNamespace(names=("w",) * weights, ode=SimpleNamespace(functions=functions))


@dataclass(frozen=True)
class End:
    log_density: float
    scale: float = 1.0
    names: tuple[str, ...] = ("f.scale",)
    problem: object = field(default_factory=lambda: problem_of(9))
    doubt: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def found(self):
        return np.isfinite(self.log_density)

    def __getitem__(self, name):
        return self.scale


@dataclass(frozen=True)
class Approximation:
    maximum: End
    log_evidence: float
    success: bool = True


def best(ends, evidence, weights=9):
    """Return what is taken, the heights at which evidence was asked for, and how many searched."""
    left, asked = list(ends), []

    def about(end):
        asked.append(end.log_density)
        return Approximation(end, evidence[end.log_density])

    found = best_of_networks(problem_of(weights), lambda seed: left.pop(0), about, seed=0)
    return found, asked, len(ends) - len(left)


def test_takes_the_highest_evidence_and_not_the_highest_density():
    ends = [End(8.0), End(7.0), End(7.001), End(8.0)] + [End(np.nan)] * 4
    found, asked, searches = best(ends, {8.0: 1.0, 7.0: 3.0})
    assert (found.log_evidence, asked, searches) == (3.0, [8.0, 7.0], 4)
    assert not found.maximum.warnings


def test_searches_on_until_two_led_to_the_highest_evidence():
    ends = [End(8.0), End(7.0), End(8.0), End(8.0), End(6.0), End(7.2), End(8.0), End(8.0)]
    found, asked, searches = best(ends, {8.0: 1.0, 7.0: 3.0, 6.0: 0.0, 7.2: 3.2})
    assert (found.log_evidence, asked, searches) == (3.2, [8.0, 7.0, 6.0, 7.2], 6)


def test_says_that_one_search_alone_led_there():
    ends = [End(7.0)] + [End(8.0)] * (MOST - 1)
    found, _, searches = best(ends, {8.0: 1.0, 7.0: 3.0})
    assert (found.log_evidence, searches) == (3.0, MOST)
    assert "take another seed" in found.maximum.doubt
    assert found.maximum.warnings == (found.maximum.doubt,)


def test_leaves_out_what_vanished_or_is_far_below():
    ends = [End(90.0, scale=1e-9), End(-np.inf), End(-900.0), End(8.0), End(8.0), End(8.0)]
    found, asked, searches = best(ends, {8.0: 1.0})
    assert (found.log_evidence, asked, searches) == (1.0, [8.0], 6)


@pytest.mark.parametrize("first", [[], [End(-np.inf), End(90.0, scale=1e-9)]])
def test_of_many_weights_the_first_search_that_leads_anywhere_is_enough(first):
    ends = [*first, End(8.0), End(9.0)]
    found, asked, searches = best(ends, {8.0: 1.0, 9.0: 2.0}, weights=500)
    assert (asked, searches) == ([8.0], len(first) + 1)
    assert not found.maximum.warnings
