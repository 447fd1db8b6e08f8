"""Lynx and hare against the Stan case study; needs lynx_hare.csv."""

import pytest

import smcpn
from smcpn.cli.cases import load_case
from smcpn.datasets.inventory import find_file

pytestmark = [
    pytest.mark.numerics,
    pytest.mark.skipif(
        find_file("lynx_hare", "lynx_hare.csv") is None,
        reason="lynx_hare.csv not found: set SMCPN_DATA",
    ),
]

STAN = {"birth": 0.55, "predation": 0.028, "growth": 0.024, "death": 0.80}
"""Posterior means that the study prints."""


def test_the_posterior_is_that_of_the_stan_study():
    case = load_case("lynx-hare")
    posterior = smcpn.identify(
        case.problem, solver=smcpn.RK4(4), method="tempering", particles=400, seed=1, progress=False
    )
    # A mean of 400 particles, some hundred of them effective, is good to a tenth of an sd.
    for name, mean in STAN.items():
        assert posterior.mean[name] == pytest.approx(mean, abs=0.35 * posterior.sd[name])
    scores = posterior.simulate(case.problem.records[0])
    assert (scores.coverage > 0.85).all()


def test_what_does_not_apply_is_refused():
    with pytest.raises(smcpn.InputError, match="lynx-hare has no option hold: leave it out"):
        load_case("lynx-hare", hold="zoh")
