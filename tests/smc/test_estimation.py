"""SMC^2: a likelihood estimated by a particle filter, on the sampler of exact ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from smcpn.errors import InputError
from smcpn.likelihood import contract
from smcpn.smc.estimation import (
    enough,
    exchanged,
    extended,
    fresh_keys,
    redrawn,
    variance_at_mean,
    with_prior_share,
)
from smcpn.smc.ibis import Ibis
from smcpn.smc.kernels import IndependentKernel, RandomWalkKernel
from smcpn.smc.moves import DefensiveGaussian, RandomWalkMetropolis
from smcpn.smc.particles import RecordTarget
from smcpn.smc.sampler import Sampler, Settings
from smcpn.smc.tempering import Tempering
from tests.targets import BootstrapFilter, OrnsteinUhlenbeck

PROCESS = OrnsteinUhlenbeck.simulated(40)
ESTIMATE = BootstrapFilter(PROCESS)


def exact_draws(rng: np.random.Generator, size: int) -> np.ndarray:
    """Draws from the posterior under the exact likelihood, theta (size, 2), by weighing."""
    theta = PROCESS.prior.sample(rng, 100 * size)
    log_likelihood = PROCESS.evaluate(np.exp(theta), PROCESS.n_samples)[1]
    weights = np.exp(log_likelihood - log_likelihood.max())
    return theta[rng.choice(len(theta), size, p=weights / weights.sum())]


def extended_draws(rng: np.random.Generator, size: int):
    """Particles that follow prior x estimate x density of the keys, nearly independent."""
    theta, blocks = exact_draws(rng, 4 * size), ESTIMATE.n_keys(PROCESS.n_samples)
    keys = fresh_keys(rng, len(theta), blocks)
    drawn = RecordTarget(PROCESS.prior, ESTIMATE, 0, 1.0).particles(theta, keys)
    exact = PROCESS.evaluate(np.exp(theta), PROCESS.n_samples)[1]
    weights = np.exp(drawn.log_increment - exact)
    return drawn.take(rng.choice(len(theta), size, p=weights / weights.sum()))


def excess(system) -> np.ndarray:
    """Logarithm of the estimates over the likelihood, (N,)."""
    return system.log_increment - PROCESS.evaluate(np.exp(system.theta), PROCESS.n_samples)[1]


def test_sums_do_not_depend_on_how_many_increments_are_in_memory(monkeypatch):
    rng, values = np.random.default_rng(0), np.array([[0.5, 1.0], [1.0, 0.5], [2.0, 0.7]])
    keys = fresh_keys(rng, 3, ESTIMATE.n_keys(PROCESS.n_samples))
    state, total = ESTIMATE.accumulate(values, None, 0, 40, keys)
    increments = ESTIMATE.advance(values, ESTIMATE.start(values), 0, 40, keys)[1]
    np.testing.assert_array_equal(total, np.add.reduce(increments))
    monkeypatch.setattr(contract, "CHUNK", ESTIMATE.block)
    again, pieces = ESTIMATE.accumulate(values, None, 0, 40, keys)
    np.testing.assert_array_equal(pieces, total)
    np.testing.assert_array_equal(again, state)


def test_keys_are_drawn_where_they_are_missing():
    rng = np.random.default_rng(0)
    keys = fresh_keys(rng, 3, 2)
    assert extended(rng, keys, 2) is keys
    longer = extended(rng, keys, 4)
    np.testing.assert_array_equal(longer[:, :2], keys)
    assert len(np.unique(longer)) == 12


def test_keys_follow_their_particles():
    system = extended_draws(np.random.default_rng(0), 20)
    other = extended_draws(np.random.default_rng(1), 20)
    mask = np.arange(20) % 2 == 0
    mixed = system.where(mask, other)
    np.testing.assert_array_equal(mixed.keys[mask], other.keys[mask])
    np.testing.assert_array_equal(mixed.keys[~mask], system.keys[~mask])
    both = type(system).concatenate([system, other]).take([25, 3])
    np.testing.assert_array_equal(both.keys, [other.keys[5], system.keys[3]])


def test_one_key_of_each_particle_is_drawn_anew():
    rng = np.random.default_rng(0)
    keys = fresh_keys(rng, 4000, 5)
    changed = redrawn(rng, keys) != keys
    np.testing.assert_array_equal(changed.sum(axis=1), 1)
    np.testing.assert_allclose(changed.mean(axis=0), 0.2, atol=0.03)
    assert fresh_keys(rng, 3, 0).shape == redrawn(rng, fresh_keys(rng, 3, 0)).shape == (3, 0)


@pytest.mark.parametrize("kind", ["independent", "walk"])
def test_moves_leave_an_exact_sample_of_theta_and_keys_where_it_is(kind):
    """Mean, spread and mean log-estimate after 20 moves; 4 standard errors of 300 draws."""
    rng = np.random.default_rng(2)
    system = extended_draws(rng, 300)
    target = RecordTarget(PROCESS.prior, ESTIMATE, 0, 1.0)
    equal = np.full(len(system), 1.0 / len(system))
    fitted = exact_draws(rng, 300)
    if kind == "independent":
        kernel = IndependentKernel(DefensiveGaussian.fit(fitted, equal))
    else:
        kernel = RandomWalkKernel.fit(fitted, equal)
    *_, last = kernel.moves(system, target, rng, 20)
    moved = last.system
    assert (moved.keys != system.keys).any(axis=1).mean() > 0.9
    _, mean, sd = PROCESS.moments()
    for draws in (system.theta, moved.theta):
        np.testing.assert_allclose((draws.mean(axis=0) - mean) / sd, 0.0, atol=4 / np.sqrt(300))
        np.testing.assert_allclose(draws.var(axis=0) / sd**2, 1.0, atol=4 * np.sqrt(2 / 300))
    # Under the target estimates are larger than those with fresh keys, by about their variance.
    change = excess(moved).mean() - excess(system).mean()
    assert abs(change) < 4 * np.sqrt(2 / 300) * excess(system).std()
    again = target.particles(moved.theta, moved.keys)
    np.testing.assert_array_equal(again.log_increment, moved.log_increment)


class Wrong(IndependentKernel):
    """A kernel that keeps the best of three estimates of its proposals: not invariant."""

    def moves(self, system, target, rng, count):
        class Best:
            log_density = staticmethod(target.log_density)

            @staticmethod
            def particles(theta, keys):
                best = target.particles(theta, keys)
                for _ in range(2):
                    other = target.particles(theta, fresh_keys(rng, *keys.shape))
                    best = best.where(other.log_increment > best.log_increment, other)
                return best

        return super().moves(system, Best(), rng, count)


def test_the_test_of_invariance_finds_a_kernel_that_is_not():
    rng = np.random.default_rng(2)
    system = extended_draws(rng, 300)
    equal = np.full(300, 1 / 300)
    kernel = Wrong(DefensiveGaussian.fit(exact_draws(rng, 300), equal))
    target = RecordTarget(PROCESS.prior, ESTIMATE, 0, 1.0)
    *_, last = kernel.moves(system, target, rng, 10)
    change = excess(last.system).mean() - excess(system).mean()
    assert change > 4 * np.sqrt(2 / 300) * excess(system).std()


def test_the_mean_of_an_estimate_is_the_likelihood():
    rng, values = np.random.default_rng(0), np.tile([[1.0, 0.8]], (1500, 1))
    keys = fresh_keys(rng, len(values), ESTIMATE.n_keys(20))
    ratio = np.exp(ESTIMATE.evaluate(values, 20, keys)[1] - PROCESS.evaluate(values[:1], 20)[1])
    assert abs(ratio.mean() - 1.0) < 3 * ratio.std() / np.sqrt(len(ratio))


def test_more_state_particles_keep_the_target():
    """The mean weight of an exchange is one, and weighted moments stay: 4 standard errors."""
    rng = np.random.default_rng(5)
    system = extended_draws(rng, 600)
    old = RecordTarget(PROCESS.prior, ESTIMATE, 0, 1.0)
    new = old.with_estimate(ESTIMATE.with_state_particles(128))
    changed = exchanged(system, old, new, rng)
    ratio = np.exp(changed.log_weights)
    assert abs(ratio.mean() - 1.0) < 4 * ratio.std() / np.sqrt(len(ratio))
    _, mean, sd = PROCESS.moments()
    error = 4 / np.sqrt(changed.ess)
    np.testing.assert_allclose((changed.weights @ changed.theta - mean) / sd, 0, atol=error)
    np.testing.assert_array_equal(
        new.particles(changed.theta, changed.keys).log_increment, changed.log_increment
    )


def test_the_variance_that_counts_is_the_one_at_a_theta_not_across_them():
    """Across theta the estimates vary as the likelihood does, whatever their number of particles.

    A population that is wide, as it is on the way, then calls for ever more state particles, and
    a narrow one for none where acceptance is poor.
    """
    rng = np.random.default_rng(3)
    blocks = ESTIMATE.n_keys(PROCESS.n_samples)

    def population(theta, estimate):
        target = RecordTarget(PROCESS.prior, estimate, 0, 1.0)
        return target, target.particles(theta, fresh_keys(rng, len(theta), blocks))

    wide = PROCESS.prior.sample(rng, 200)
    many = ESTIMATE.with_state_particles(512)
    target, system = population(wide, many)
    assert system.log_increment.var() > 10.0
    assert variance_at_mean(target, system, rng) < 0.5
    assert enough(target, many, system, rng)[0] is many
    narrow = PROCESS.moments()[1] + 1e-3 * rng.normal(size=(200, 2))
    few = ESTIMATE.with_state_particles(8)
    target, system = population(narrow, few)
    chosen, variance = enough(target, few, system, rng)
    assert chosen.state_particles > 8
    assert variance <= 1.0


def test_a_share_of_the_prior_is_mixed_in():
    rng = np.random.default_rng(0)
    sampler = Tempering(PROCESS.prior, PROCESS, Settings(particles=400), rng)
    sampler.run()
    mixed = with_prior_share(
        sampler.system,
        PROCESS.prior,
        lambda theta: PROCESS.evaluate(np.exp(theta), PROCESS.n_samples)[1],
        rng,
    )
    assert mixed.share == 0.05
    np.testing.assert_allclose(np.exp(mixed.system.log_weights).mean(), 1.0)
    drawn = (mixed.system.theta != sampler.system.theta).any(axis=1)
    assert drawn.sum() == 20
    np.testing.assert_allclose(mixed.system.weights[drawn].sum(), 0.05)


def bridged(seed: int, likelihood=PROCESS, particles: int = 200) -> Tempering:
    rng = np.random.default_rng(seed)
    sampler = Tempering(PROCESS.prior, likelihood, Settings(particles=particles), rng)
    sampler.run()
    sampler.begin_estimate(ESTIMATE)
    while sampler.finer is not None:
        sampler.cross_refinement()
    return sampler


def direct(seed: int, kind: type[Sampler], **options) -> Sampler:
    settings = Settings(particles=150, **options)
    sampler = kind(PROCESS.prior, ESTIMATE, settings, np.random.default_rng(seed))
    sampler.run()
    return sampler


def check_exact(sampler: Sampler) -> None:
    """Evidence, mean and spread against quadrature, within 4 standard errors."""
    evidence, mean, sd = PROCESS.moments()
    assert abs(sampler.log_evidence - evidence) < 4 * sampler.log_evidence_se < 0.5
    system = sampler.system
    error = 4 / np.sqrt(min(system.ess, 150))
    np.testing.assert_allclose((system.weights @ system.theta - mean) / sd, 0, atol=error)
    centred = system.theta - mean
    np.testing.assert_allclose(system.weights @ centred**2 / sd**2, 1, atol=error * np.sqrt(2))
    target_log_likelihood = sampler.recomputed(slice(0, 30))[1]
    np.testing.assert_array_equal(target_log_likelihood, system.log_likelihood[:30])


def test_bridge_from_an_exact_posterior():
    sampler = bridged(1)
    check_exact(sampler)
    assert sampler.state.state_particles >= 32
    assert sampler.state.estimate_variance <= 1.0
    assert sampler.system.keys.shape == (200, 4)


@pytest.mark.parametrize("kind", [Tempering, Ibis])
def test_from_the_prior(kind):
    check_exact(direct(2, kind))


def test_walks_redraw_one_block():
    check_exact(direct(3, Tempering, moves=RandomWalkMetropolis()))


@dataclass(frozen=True)
class Misled(OrnsteinUhlenbeck):
    """An approximation that excludes half of the posterior, and is shifted in the rest."""

    def evaluate(self, values, b, *keys):
        state, log_likelihood = super().evaluate(values, b)
        where = np.log(values[:, 0])
        return state, np.where(where < -0.27, np.nan, log_likelihood + 2.0 * where)


def test_what_an_approximation_excludes_is_found():
    """NaN over half of the posterior, as of a Kalman filter whose steps are too coarse there.

    The evidence is that of the last proposals alone: few draws from the prior led there.
    """
    sampler = bridged(4, Misled(PROCESS.y), particles=400)
    check_exact(sampler)
    last = sampler.rejuvenations[-1]
    assert (last.exponent, last.state_particles) == (1.0, sampler.state.state_particles)
    assert sampler.log_evidence == pytest.approx(last.evidence.log, abs=1e-12)


@pytest.mark.parametrize("kind", [Tempering, Ibis])
def test_bytes_do_not_depend_on_blocks_and_interruptions(kind):
    whole = direct(4, kind)
    settings = Settings(particles=150, block=3)
    sampler = kind(PROCESS.prior, ESTIMATE, settings, np.random.default_rng(4))
    while sampler.sample < PROCESS.n_samples:
        sampler.proceed(PROCESS.n_samples)
        snapshot = sampler.snapshot()
        likelihood = ESTIMATE.with_state_particles(snapshot.state_particles)
        sampler = kind.resumed(PROCESS.prior, likelihood, settings, snapshot)
    for name in vars(whole.system):
        np.testing.assert_array_equal(getattr(sampler.system, name), getattr(whole.system, name))
    assert sampler.log_evidence == whole.log_evidence


def test_an_interrupted_bridge_ends_in_the_same_bytes():
    whole, rng = bridged(5), np.random.default_rng(5)
    settings = Settings(particles=200)
    sampler = Tempering(PROCESS.prior, PROCESS, settings, rng)
    sampler.run()
    sampler.begin_estimate(ESTIMATE)
    while True:
        snapshot = sampler.snapshot()
        estimate = ESTIMATE.with_state_particles(snapshot.state_particles)
        likelihood = PROCESS if snapshot.refining else estimate
        sampler = Tempering.resumed(PROCESS.prior, likelihood, settings, snapshot, estimate)
        if sampler.finer is None:
            break
        sampler.cross_refinement()
    np.testing.assert_array_equal(sampler.system.theta, whole.system.theta)
    np.testing.assert_array_equal(sampler.system.log_weights, whole.system.log_weights)
    assert sampler.log_evidence_se == whole.log_evidence_se


def test_keys_of_another_likelihood_are_refused():
    sampler = bridged(6, particles=100)
    snapshot = sampler.snapshot()
    fewer = replace(snapshot, system=replace(snapshot.system, keys=snapshot.system.keys[:, :2]))
    with pytest.raises(InputError, match="particles have 2 keys, and 4 to 4 fit"):
        Tempering.resumed(PROCESS.prior, ESTIMATE, Settings(particles=100), fewer)
    with pytest.raises(InputError, match="particles have 4 keys, and 0 to 0 fit"):
        Tempering.resumed(PROCESS.prior, PROCESS, Settings(particles=100), snapshot)
