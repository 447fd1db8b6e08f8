"""A population carried over to a finer likelihood: the posterior and evidence of that one."""

import numpy as np
import pytest

from smcpn.smc.ibis import Ibis
from smcpn.smc.sampler import Settings
from smcpn.smc.tempering import Tempering
from tests.smc.test_sampler_snapshot import fingerprint
from tests.targets import LinearRegression

KINDS = [Ibis, Tempering]


def finer():
    """As if the coarse solver had been wrong by a posterior sd or two."""
    likelihood = LinearRegression()
    likelihood.y = likelihood.y + 0.3 * likelihood.x[:, 0] + 0.2 * np.sin(np.arange(30))
    return likelihood


def begun(kind, samples=None, seed=0):
    coarse = LinearRegression()
    rng = np.random.default_rng(seed)
    sampler = kind(coarse.prior, coarse, Settings(particles=1000), rng)
    sampler.run(samples)
    return sampler


def carry_over(sampler, likelihood):
    sampler.refine(likelihood, sampler.compared(likelihood))
    while sampler.finer is not None:
        sampler.cross_refinement()


@pytest.mark.parametrize("kind", KINDS)
def test_mean_and_evidence_are_those_of_the_finer_likelihood(kind):
    sampler, likelihood = begun(kind), finer()
    before, rejuvenations = sampler.log_evidence, len(sampler.rejuvenations)
    carry_over(sampler, likelihood)
    mean, covariance = likelihood.moments()
    sd = np.sqrt(np.diag(covariance))
    assert len(sampler.rejuvenations) > rejuvenations
    # 5 standard errors, an effective particle in three.
    error = 5 / np.sqrt(1000 / 3)
    assert sampler.system.weights @ sampler.system.theta == pytest.approx(mean, abs=error * sd[0])
    exact = likelihood.log_evidence()
    assert abs(exact - LinearRegression().log_evidence()) > 10 * sampler.log_evidence_se
    assert sampler.log_evidence == pytest.approx(exact, abs=5 * sampler.log_evidence_se)
    assert sampler.log_evidence_se < 0.1
    assert sampler.state.trace.log_evidence[-1] == sampler.log_evidence != before


def test_samples_after_a_refinement_on_the_way_are_of_the_finer_likelihood():
    sampler, likelihood = begun(Ibis, 14), finer()
    carry_over(sampler, likelihood)
    assert sampler.likelihood is likelihood
    sampler.run()
    exact = likelihood.log_evidence()
    assert sampler.log_evidence == pytest.approx(exact, abs=5 * sampler.log_evidence_se)
    _, recomputed, _ = sampler.recomputed(slice(None))
    np.testing.assert_allclose(recomputed, sampler.system.log_likelihood, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_every_snapshot_on_the_way_leads_to_the_same_end(kind):
    sampler, likelihood = begun(kind), finer()
    sampler.refine(likelihood, sampler.compared(likelihood))
    snapshots = []
    while sampler.finer is not None:
        snapshots.append(sampler.snapshot())
        _, log_likelihood, log_increment = sampler.recomputed(slice(None))
        np.testing.assert_allclose(log_likelihood, sampler.system.log_likelihood, rtol=1e-9)
        np.testing.assert_allclose(log_increment, sampler.system.log_increment, atol=1e-9)
        sampler.cross_refinement()
    assert len(snapshots) >= 2
    for snapshot in snapshots:
        coarse = LinearRegression()
        again = kind.resumed(coarse.prior, coarse, sampler.settings, snapshot, likelihood)
        while again.finer is not None:
            again.cross_refinement()
        assert fingerprint(again) == fingerprint(sampler)


def test_particles_that_diverge_are_left_out():
    sampler = begun(Tempering)
    centre = LinearRegression().moments()[0][0]

    class Diverging(LinearRegression):
        def log_densities(self, values, a, b):
            return np.where(values[:, 0] < centre, np.nan, super().log_densities(values, a, b))

    carry_over(sampler, Diverging())
    assert (sampler.system.theta[sampler.system.weights > 0, 0] >= centre).all()
    # Half of a Gaussian is left.
    lost = sampler.log_evidence - LinearRegression().log_evidence()
    assert lost == pytest.approx(np.log(0.5), abs=5 * sampler.log_evidence_se)
