"""Large populations are computed in pieces, to the same bytes."""

import numpy as np
import pytest

import smcpn
from smcpn.model import prior
from smcpn.smc import ibis, kernels
from tests.models import duffing_problem


@pytest.mark.parametrize("method", ["ibis", "tempering"])
def test_pieces_do_not_change_a_population(method, monkeypatch):
    def run():
        problem = duffing_problem(20, "foh")
        return smcpn.identify(
            problem, method=method, solver=smcpn.RK4(2), particles=200, seed=1, progress=False
        )

    whole = run()
    monkeypatch.setattr(prior, "BLOCK", 90)
    monkeypatch.setattr(kernels, "MOST_PROPOSED", 250)
    monkeypatch.setattr(ibis, "MOST_INCREMENTS", 600)
    pieces = run()
    np.testing.assert_array_equal(pieces.theta, whole.theta)
    np.testing.assert_array_equal(pieces.log_weights, whole.log_weights)
    assert pieces.log_evidence == whole.log_evidence
    assert [r.moves for r in pieces.rejuvenations] == [r.moves for r in whole.rejuvenations]
