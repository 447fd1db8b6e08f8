"""A sampler taken up from a snapshot goes on to the same bytes, wherever it was taken."""

import numpy as np
import pytest

from smcpn.smc.ibis import Ibis
from smcpn.smc.moves import IndependentMetropolis, RandomWalkMetropolis, WasteFree
from smcpn.smc.sampler import Settings
from smcpn.smc.tempering import Tempering
from tests.targets import LinearRegression

MOVES = (IndependentMetropolis(), RandomWalkMetropolis(), WasteFree())


def begun(kind, moves=MOVES[0]):
    likelihood = LinearRegression(20, 2, 0.05)
    settings = Settings(particles=100, moves=moves)
    return kind(likelihood.prior, likelihood, settings, np.random.default_rng(3))


def fingerprint(sampler):
    """Everything but the wall time of the rejuvenations."""
    snapshot = sampler.snapshot()
    arrays = [getattr(snapshot.system, name).tobytes() for name in vars(snapshot.system)]
    trace = [snapshot.trace.samples.tobytes(), snapshot.trace.ess.tobytes()]
    numbers = [sampler.log_evidence, sampler.log_evidence_se, snapshot.random_state]
    moved = [(r.sample, r.exponent, r.accepted) for r in snapshot.rejuvenations]
    return arrays, trace, repr(numbers), moved


@pytest.mark.parametrize("moves", MOVES, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("kind", [Ibis, Tempering])
def test_every_snapshot_leads_to_the_same_end(kind, moves):
    sampler, snapshots = begun(kind, moves), []
    last = sampler.likelihood.n_samples
    while sampler.sample < last:
        snapshots.append(sampler.snapshot())
        sampler.proceed(last)
    assert len(snapshots) > 5
    assert any(snapshot.exponent is not None for snapshot in snapshots)
    for snapshot in snapshots:
        again = kind.resumed(sampler.prior, sampler.likelihood, sampler.settings, snapshot)
        again.run()
        assert fingerprint(again) == fingerprint(sampler)


@pytest.mark.parametrize("kind", [Ibis, Tempering])
def test_particles_weighed_again_are_what_they_were(kind):
    sampler = begun(kind)
    last = sampler.likelihood.n_samples
    while sampler.sample < last:
        system = sampler.system
        state, log_likelihood, log_increment = sampler.recomputed(slice(None))
        np.testing.assert_allclose(log_likelihood, system.log_likelihood, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(log_increment, system.log_increment, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state, system.state, rtol=1e-9)
        sampler.proceed(last)


def test_a_changed_likelihood_is_made_up_for_by_the_weights():
    """The evidence after the change is that of the changed likelihood, to its standard error."""
    sampler = begun(Ibis)
    sampler.run(12)
    changed = LinearRegression(20, 2, 0.05)
    changed.y[3] += 0.02
    sampler.likelihood = changed
    sampler.reweight()
    afresh = Ibis(changed.prior, changed, Settings(particles=1000), np.random.default_rng(0))
    afresh.run(12)
    error = np.hypot(sampler.log_evidence_se, afresh.log_evidence_se)
    assert abs(sampler.log_evidence - afresh.log_evidence) < 5 * error < 1.0
