"""What the data ask for beside equations that were found."""

from __future__ import annotations

import numpy as np
import pytest

import smcpn
from benchmarks.discovery.doubts import record
from smcpn.discovery.search.adequacy import LackOfFit, combined

T = np.linspace(0.0, 10.0, 201)


def oscillation(seed):
    """x'' = -4 x - .2 x', 2 % noise."""
    root = np.sqrt(3.99)
    x = np.exp(-0.1 * T) * (np.cos(root * T) + 0.1 / root * np.sin(root * T))
    v = -4.0 / root * np.exp(-0.1 * T) * np.sin(root * T)
    y = np.stack([x, v], axis=1)
    noise = np.random.default_rng(seed).normal(size=y.shape)
    return smcpn.Record(y=y + 0.02 * y.std(axis=0) * noise, t=T)


def found(one):
    return smcpn.discover(one, library="poly(3)", states=["x", "v"], seed=1)


def test_dry_friction_is_doubted_and_less_probable():
    doubted = found(record("Coulomb", 1003))
    assert any("in the equation of v" in one for one in doubted.warnings)
    assert doubted.models[0].probability < 0.5


def test_right_equations_are_not_doubted():
    right = found(oscillation(0))
    assert right.models[0].names == ("x'[v]", "v'[x]", "v'[v]")
    assert right.warnings == ()
    assert right.models[0].probability > 0.9


def test_a_constant_has_no_signal_and_a_copy_says_nothing_new():
    still = found(record("constant", 0))
    assert any("no signal above its noise" in one for one in still.warnings)
    decay, noise = np.exp(-0.5 * T), np.random.default_rng(0).normal(size=(201, 2))
    both = smcpn.Record(y=np.stack([decay, 1.0 - decay], axis=1) + 0.01 * noise, t=T)
    alike = smcpn.discover(both, library="poly(1)", states=["x", "v"], seed=1)
    assert any("terms of one can stand for those of others" in one for one in alike.warnings)


@pytest.mark.parametrize(("p", "adequacy"), [(0.5, 1.0), (np.exp(-1.0), 1.0), (1e-300, 0.0)])
def test_adequacy_of_a_p_value(p, adequacy):
    assert LackOfFit(0, "time", p).adequacy == pytest.approx(adequacy, abs=1e-12)


def test_adequacy_is_posterior_odds_by_the_largest_bayes_factor():
    p = 0.01
    factor = 1.0 / (-np.e * p * np.log(p))
    one = LackOfFit(0, "time", p).adequacy
    # Odds .1 before the data; with a factor of one nothing is said against the library.
    assert one == pytest.approx(1.0 / (1.0 + 0.1 * (factor - 1.0)))


def test_p_values_are_combined_however_they_depend():
    assert combined([0.3]) == pytest.approx(0.3)
    assert combined([0.01, 0.01]) == pytest.approx(0.01)
    # One that is small among n counts n times.
    assert combined([1e-6, 0.5, 0.5, 0.5]) == pytest.approx(4e-6, rel=1e-3)
    p = np.random.default_rng(0).uniform(size=(4000, 6))
    share = np.mean([combined(row) < 0.02 for row in p])
    assert share == pytest.approx(0.02, abs=4.0 * np.sqrt(0.02 * 0.98 / 4000))
