"""A function that the library does not have, and the prior of one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import smcpn
from benchmarks.discovery.doubts import record
from smcpn.discovery.search.adequacy import LACKING, Function, OmittedFunction, OneFunctionMore
from smcpn.discovery.search.supports import BetaBinomial, flipped

LIBRARY = BetaBinomial(np.array([0, 1, 1, 2]))
PRIOR = OneFunctionMore(LIBRARY, 4, np.array([2, 2, 5]))
SUPPORTS = [np.array(one) for one in product([False, True], repeat=7)]


def test_probabilities_of_supports_sum_to_one_and_those_with_a_function_have_its_odds():
    log = np.array([PRIOR.log_probability(support) for support in SUPPORTS])
    more = np.array([support[4:].any() for support in SUPPORTS])
    assert np.exp(log).sum() == pytest.approx(1.0)
    assert np.exp(log[more]).sum() / np.exp(log[~more]).sum() == pytest.approx(LACKING)
    # Of two functions, in one of its two equations or in both.
    share = LACKING / (1.0 + LACKING) / 2.0 * np.array([0.25, 0.25, 0.5, 1.0])
    none = LIBRARY.log_probability(np.zeros(4, dtype=bool))
    columns = [(4,), (5,), (4, 5), (6,)]
    found = [PRIOR.log_probability(np.isin(np.arange(7), one)) - none for one in columns]
    np.testing.assert_allclose(np.exp(found), share)


def test_changes_are_differences():
    for support in SUPPORTS:
        if np.isfinite(own := PRIOR.log_probability(support)):
            by_flip = [PRIOR.log_probability(flipped(support, k)) - own for k in range(7)]
            np.testing.assert_allclose(PRIOR.changes(support), by_flip)


def test_odds_as_before_the_data_say_nothing_against_the_library():
    function = Function("sign({0})", (0,), 0.0, np.zeros(1))
    odds = LACKING * np.array([0.1, 1.0, 11.0])
    found = [OmittedFunction(function, (0,), float(np.log(one))).adequacy for one in odds]
    assert found == pytest.approx([1.0, 1.0, 0.5])
    assert OmittedFunction(function, (0,), 1e4).adequacy == 0.0


def test_friction_that_v_and_its_cube_imitate_is_named():
    """Nothing that is added to them is missed: the F tests have a p-value of .07."""
    found = smcpn.discover(record("Coulomb", 5), library="poly(3)", states=["x", "v"], seed=1)
    assert found.models[0].names == ("x'[v]", "v'[x]", "v'[v]", "v'[v^3]")
    (told,) = found.warnings
    assert told.startswith(
        "sign(v) in the equation of v is more probable than terms of the library"
    )
    assert found.models[0].probability < 0.05
    better = smcpn.discover(record("Coulomb", 5), library="poly(3) + sign", states=["x", "v"])
    assert "v'[sign(v)]" in better.models[0].names
    assert better.warnings == ()
