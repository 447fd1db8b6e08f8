"""Moves chosen by their efficiency: the measure, the choice, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from smcpn.errors import InputError
from smcpn.likelihood.contract import Likelihood
from smcpn.model.prior import Prior
from smcpn.smc.hamiltonian import HamiltonianMonteCarlo
from smcpn.smc.measured_moves import MeasuredMoves
from smcpn.smc.moves import IndependentMetropolis
from smcpn.smc.particles import RecordTarget
from smcpn.smc.rejuvenation import efficiency_of_chains, efficiency_of_independent, unmoved_share
from smcpn.smc.resampling import systematic
from smcpn.smc.sampler import Settings
from smcpn.smc.tempering import Tempering
from tests.targets import WithGradient


class Normals(WithGradient, Likelihood):
    """A prior N(0, 9) that one sample turns into standard normals, some pairs of them bent.

    The second of a bent pair is about the square of the first, with standard deviation 0.3.
    """

    n_samples = 1

    def __init__(self, d, bent=0):
        self.first, self.second = np.arange(0, 2 * bent, 2), np.arange(1, 2 * bent, 2)
        self.prior = Prior({f"x{j}": stats.norm(0.0, 3.0) for j in range(d)})

    def draws(self, rng, n):
        x = rng.standard_normal((n, len(self.prior)))
        x[:, self.second] = x[:, self.first] ** 2 - 1.0 + 0.3 * x[:, self.second]
        return x

    def start(self, values):
        return np.empty((0, len(values)))

    def advance(self, values, state, a, b, *keys):
        return state, self.evaluate(values, 1)[1][None]

    def evaluate(self, values, b, *keys):
        straight = values.copy()
        straight[:, self.second] = self._deviations(values)
        total = -0.5 * np.square(straight).sum(axis=1)
        return self.start(values), total - self.prior.log_density(values)

    def _deviations(self, values):
        return (values[:, self.second] - values[:, self.first] ** 2 + 1.0) / 0.3

    def gradient(self, values):
        slopes = values / 9.0 - values
        pull = self._deviations(values) / 0.3
        slopes[:, self.second] = values[:, self.second] / 9.0 - pull
        slopes[:, self.first] += 2.0 * values[:, self.first] * pull
        return slopes


def population(likelihood, n=1000):
    """Exact draws, of which the weights leave half effective."""
    rng = np.random.default_rng(0)
    target = RecordTarget(likelihood.prior, likelihood, 0, 1.0)
    system = target.particles(likelihood.draws(rng, n))
    return replace(system, log_weights=0.83 * rng.normal(size=n)), target


def rejuvenated(moves, likelihood, n=1000, previous=None):
    system, target = population(likelihood, n)
    rng = np.random.default_rng(1)
    return moves.rejuvenate(system, target, rng, systematic, previous)


def test_efficiency_of_a_chain_of_known_correlation():
    assert efficiency_of_chains(np.zeros(3)) == efficiency_of_chains(np.array([-0.5, 0.0])) == 1.0
    assert efficiency_of_chains(np.array([0.5])) == pytest.approx(1.0 / 3.0)
    assert efficiency_of_chains(np.array([0.0, 0.5])) == pytest.approx(0.5)
    assert efficiency_of_chains(np.array([0.2, 1.0])) == 0.0


def test_efficiency_of_independent_moves():
    """Of proposals from the target, of none that fits, and in between."""
    assert efficiency_of_independent(np.zeros(9), 20) == 1.0
    assert efficiency_of_independent(np.full(9, -np.inf), 20) == 0.0
    ratio = -1.5 * np.square(np.random.default_rng(0).normal(size=200))
    few = next(k for k in range(1, 20) if unmoved_share(ratio, k) <= 0.1)
    found = (1.0 - unmoved_share(ratio, few)) / few
    assert few > 2
    assert efficiency_of_independent(ratio, 20) == efficiency_of_independent(ratio, few) == found
    assert efficiency_of_independent(ratio, 1) == 0.0


def test_independent_moves_are_taken_where_they_fit_with_the_bytes_that_they_have_alone():
    moved, record = rejuvenated(MeasuredMoves(), Normals(25))
    alone, other = rejuvenated(IndependentMetropolis(), Normals(25))
    assert moved.theta.tobytes() == alone.theta.tobytes()
    assert record.proposal == other.proposal == "gaussian"
    assert record.evaluations == other.evaluations + 256


@pytest.mark.parametrize(
    ("likelihood", "n"), [(Normals(25, bent=6), 1000), (Normals(25), 300)], ids=["bent", "few"]
)
def test_trajectories_are_taken_where_proposals_do_not_fit(likelihood, n):
    moved, record = rejuvenated(MeasuredMoves(), likelihood, n)
    alone, _ = rejuvenated(HamiltonianMonteCarlo(), likelihood, n)
    assert record.proposal == "hmc"
    assert 0.0 < record.efficiency < 0.1
    assert moved.theta.tobytes() == alone.theta.tobytes()


def test_what_trajectories_did_is_remembered():
    _, before = rejuvenated(MeasuredMoves(), Normals(25))
    for efficiency, proposal in ((0.9, "hmc"), (0.01, "gaussian")):
        previous = replace(before, efficiency=efficiency)
        _, record = rejuvenated(MeasuredMoves(), Normals(25), previous=previous)
        assert record.proposal == proposal
    assert record.efficiency == 0.01


def test_a_run_ends_in_the_evidence_and_resumes_to_the_same_bytes():
    """The log-evidence within 4 of its standard errors."""
    likelihood = Normals(22)
    settings = Settings(400, moves=MeasuredMoves())
    run = Tempering(likelihood.prior, likelihood, settings, np.random.default_rng(2))
    snapshots = []
    while run.sample < 1:
        snapshots.append(run.snapshot())
        run.proceed(1)
    exact = 0.5 * 22 * np.log(2.0 * np.pi)
    assert abs(run.log_evidence - exact) < 4.0 * run.log_evidence_se < 2.0
    again = Tempering.resumed(
        likelihood.prior, likelihood, settings, snapshots[len(snapshots) // 2]
    )
    again.run()
    assert again.system.theta.tobytes() == run.system.theta.tobytes()


def test_chains_longer_than_half_the_population_are_refused_at_once():
    with pytest.raises(InputError, match="length is 60: choose at most half of 100 particles"):
        Settings(100, moves=MeasuredMoves(length=60))
