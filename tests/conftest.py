from __future__ import annotations

import pytest
from hypothesis import settings

from smcpn import Problem
from smcpn.datasets.inventory import find_file
from tests.models import PROBLEMS

# The first example imports and compiles, and a machine may have other work.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(params=sorted(PROBLEMS))
def problem(request) -> Problem:
    return PROBLEMS[request.param]()


@pytest.fixture
def silverbox_file():
    path = find_file("silverbox", "SNLS80mV.mat")
    if path is None:
        pytest.skip("SMCPN_DATA does not lead to SNLS80mV.mat")
    return path
