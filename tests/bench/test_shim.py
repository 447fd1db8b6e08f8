"""The benchmark of `smcpn.sindy`: scripts that run without pysindy, and what counts as exact."""

import warnings

import numpy as np
import pytest

import smcpn.sindy
from benchmarks.discovery.shim import SUITE, SYSTEMS, _wrong
from benchmarks.discovery.shim_scripts import SCRIPTS


def test_a_support_is_compared_with_the_true_one():
    truth = np.array([[True, False, True]])
    assert _wrong(truth, truth) == ""
    assert _wrong(np.array([[True, True, False]]), truth) == "1 more, 1 missing"


def test_true_terms_are_those_of_the_equations():
    pytest.importorskip("pysindy")
    number = {name: int(one.truth().sum()) for name, one in (SYSTEMS | SUITE).items()}
    assert number["van der Pol"] == 4
    assert number["Lorenz"] == number["data_lorenz"] == 7
    assert number["Lorenz with controls"] == 9
    assert number["Hopf"] == 8


@pytest.mark.parametrize("name", ["README", "libraries"])
def test_scripts_find_the_decay(name, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SCRIPTS[name](smcpn.sindy)
    assert model.complexity == 2
    assert [one.split()[0] for one in model.equations()] == ["-2.000", "1.000"]
