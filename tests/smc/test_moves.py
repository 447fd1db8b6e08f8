"""Moves leave exact draws of a posterior as they are, whatever the strategy."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from smcpn.errors import InputError, NotStorableError
from smcpn.likelihood.contract import Likelihood
from smcpn.model.prior import Prior
from smcpn.model.solver import RK4
from smcpn.run.identify import Settings as Options
from smcpn.smc.ibis import Ibis
from smcpn.smc.kernels import IndependentKernel
from smcpn.smc.moves import (
    MOVES,
    IndependentMetropolis,
    MoveStrategy,
    RandomWalkMetropolis,
    WasteFree,
    moves_document,
    moves_of,
    predicted_acceptance,
)
from smcpn.smc.particles import RecordTarget, Target, distinct_sample_size
from smcpn.smc.proposals import PROPOSALS, DefensiveGaussian, StudentMixture
from smcpn.smc.rejuvenation import MoveSettings, Rejuvenation
from smcpn.smc.replicates import diagnose, diagnose_particles
from smcpn.smc.resampling import SCHEMES, systematic
from smcpn.smc.sampler import Settings
from tests import models
from tests.targets import BOUNDS, QUANTILES, skewed, skewed_draws


class Known(Likelihood):
    """A likelihood of one sample that turns the prior N(0, 25) into a given density."""

    n_samples = 1

    def __init__(self, log_density, d):
        self.log_density = log_density
        self.prior = Prior({f"x{j}": stats.norm(0.0, 5.0) for j in range(d)})

    def start(self, values):
        return np.empty((0, len(values)))

    def advance(self, values, state, a, b, *keys):
        return state, (self.log_density(values) - self.prior.log_density(values))[None]

    def evaluate(self, values, b, *keys):
        ratio = self.advance(values, None, 0, 1)[1][0]
        return self.start(values), ratio if b else np.zeros(len(values))


def two_modes(values):
    sides = [stats.norm(side, 0.4).logpdf(values[:, 0]) for side in (-4, 4)]
    return np.logaddexp(np.log(0.3) + sides[0], np.log(0.7) + sides[1])


STRATEGIES = [
    IndependentMetropolis(),
    IndependentMetropolis(proposals=(StudentMixture,)),
    RandomWalkMetropolis(),
    WasteFree(length=10),
    WasteFree(4, lambda theta, w: IndependentKernel(DefensiveGaussian.fit(theta, w))),
]


@pytest.mark.parametrize("moves", STRATEGIES, ids=lambda m: type(m).__name__)
def test_exact_draws_stay_exact(moves):
    """Twenty rejuvenations of 4000 exact draws of a skewed target, weights random.

    Quantiles of what is left: at least 400 independent draws each time (waste-free keeps that
    many chains), averaged over the last ten; 5 standard errors of 400.
    """
    likelihood, rng = Known(skewed, 2), np.random.default_rng(0)
    target = Target(likelihood.prior, likelihood, 0, 1.0)
    system = target.particles(skewed_draws(rng, 4000))
    below, previous = [], None
    for _ in range(20):
        weights = 0.3 * rng.normal(size=len(system))
        system = replace(system, log_weights=weights)
        system, previous = moves.rejuvenate(system, target, rng, systematic, previous)
        assert len(system) == 4000
        below.append((system.theta < BOUNDS[:, None]).mean(axis=1))
    error = np.sqrt(np.array([0.05 * 0.95, 0.25, 0.05 * 0.95]) / 400)[:, None]
    expected = np.array(QUANTILES)[:, None]
    assert (np.abs(np.mean(below[10:], axis=0) - expected) < 5 * error).all()


def test_skewed_target_is_normalised_as_scipy_has_it():
    values = np.random.default_rng(0).normal(size=(9, 2)) * 3.0
    exact = stats.loggamma(1.5).logpdf(values[:, 0]) + stats.t(4).logpdf(values[:, 1])
    np.testing.assert_allclose(skewed(values), exact, rtol=1e-12)


def run(likelihood, seed=0, **settings):
    sampler = Ibis(likelihood.prior, likelihood, Settings(**settings), np.random.default_rng(seed))
    sampler.run()
    return sampler


def test_mixture_takes_over_where_a_gaussian_is_rejected():
    sampler = run(Known(two_modes, 1))
    last = sampler.rejuvenations[-1]
    assert last.proposal == "mixture"
    assert last.acceptance > 0.6
    gaussian = IndependentMetropolis(proposals=(DefensiveGaussian,))
    alone = run(Known(two_modes, 1), moves=gaussian)
    assert alone.rejuvenations[-1].acceptance < 0.5 * last.acceptance


def test_gaussian_returns_where_it_is_good_again():
    likelihood, rng = Known(lambda v: stats.norm.logpdf(v[:, 0]), 1), np.random.default_rng(0)
    target = Target(likelihood.prior, likelihood, 0, 1.0)
    system = target.particles(rng.normal(size=(1000, 1)))
    before = Rejuvenation(0, 1.0, 500.0, 0.5, 3, 3000, 0.0, proposal="mixture")
    _, record = IndependentMetropolis().rejuvenate(system, target, rng, systematic, before)
    assert record.proposal == "gaussian"
    assert record.acceptance > 0.8


def test_predicted_acceptance_is_about_the_measured_one():
    """The mixture's defensive tenth lies beside the particles: predictions are up to 11 % high.

    Both are means over 12 000 draws; 5 standard errors of them more.
    """
    likelihood, rng = Known(two_modes, 1), np.random.default_rng(0)
    target = Target(likelihood.prior, likelihood, 0, 1.0)
    side = np.where(rng.random(4000) < 0.3, -4.0, 4.0)
    system = target.particles(rng.permutation(side + 0.4 * rng.normal(size=4000))[:, None])
    mixture = StudentMixture.fit(system.theta, system.weights)
    for proposal in (DefensiveGaussian.fit(system.theta, system.weights), mixture):
        moves = list(IndependentKernel(proposal).moves(system, target, rng, 3))
        measured = sum(move.accepted for move in moves) / 12_000
        predicted = predicted_acceptance(proposal, mixture, system, target)
        error = 5 * np.sqrt(measured * (1 - measured) / 4000)
        assert measured - error < predicted < 1.11 * measured + error


def test_random_walk_takes_over_where_nothing_else_moves():
    """A shell in six dimensions: any proposal fitted to it wastes its draws inside and outside."""

    def shell(values):
        return -0.5 * ((np.linalg.norm(values, axis=1) - 6.0) / 0.01) ** 2

    likelihood, rng = Known(shell, 6), np.random.default_rng(0)
    target = Target(likelihood.prior, likelihood, 0, 1.0)
    theta = rng.normal(size=(1000, 6))
    theta *= (6.0 + 0.01 * rng.normal(size=(1000, 1))) / np.linalg.norm(theta, axis=1)[:, None]
    system, record = IndependentMetropolis().rejuvenate(
        target.particles(theta), target, rng, systematic, None
    )
    assert record.proposal == "random walk"
    settings = IndependentMetropolis().settings
    assert record.moves == settings.max_moves + settings.further
    assert len(system) == 1000


def test_number_of_moves_follows_acceptance_and_is_capped():
    likelihood = Known(two_modes, 1)
    for cap in (1, 4):
        capped = IndependentMetropolis(MoveSettings(max_moves=cap))
        records = run(likelihood, moves=capped).rejuvenations
        assert max(r.moves for r in records) <= cap
    for record in run(likelihood).rejuvenations:
        assert record.evaluations == record.moves * 1000 == record.increments
        assert 0 < record.accepted <= record.evaluations
        assert record.ess_after > record.ess


def test_wall_budget_ends_a_rejuvenation_after_one_move():
    settings = MoveSettings(moved=0.9999, max_moves=50, seconds=1e-9)
    records = run(Known(two_modes, 1), moves=IndependentMetropolis(settings)).rejuvenations
    assert {record.moves for record in records} == {1}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: MoveSettings(moved=1.0),
        lambda: MoveSettings(max_moves=0),
        lambda: MoveSettings(seconds=0.0),
        lambda: WasteFree(length=1),
        lambda: run(Known(two_modes, 1), moves=WasteFree(length=900)),
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match=r"^(moved|max_moves|seconds|length) is"):
        wrong()


@pytest.mark.parametrize("moves", [*STRATEGIES], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("scheme", ["systematic", "ssp"])
def test_same_seed_same_bytes(moves, scheme):
    runs = [
        run(Known(two_modes, 1), moves=moves, resample=SCHEMES[scheme], particles=200, block=b)
        for b in (1, 64)
    ]
    assert len({r.system.theta.tobytes() + r.system.log_weights.tobytes() for r in runs}) == 1


def test_healthy_run_raises_no_concern():
    assert diagnose(run(Known(skewed, 2)).rejuvenations) == {}


def test_diagnose():
    good = Rejuvenation(5, 1.0, 500.0, 0.8, 2, 2000, 0.1, ancestors=100, lineages=100)
    assert diagnose([]) == diagnose([good]) == {}
    few = replace(good, sample=7, acceptance=0.03, unmoved=0.15)
    assert (
        "only 3 % of the parameter values tried at sample 7" in diagnose([good, few])["acceptance"]
    )
    tempered = diagnose([replace(few, sample=0, exponent=0.25)])["acceptance"]
    assert "tried at exponent 0.25 were accepted" in tempered
    assert diagnose([replace(few, unmoved=0.05)]) == {}
    assert "acceptance" in diagnose([replace(few, unmoved=0.05, proposal="random walk")])
    assert "only 4" in diagnose([replace(good, lineages=4)])["lineages"]
    deep = [replace(good, exponent=k / 30) for k in range(1, 30)]
    assert (
        "sample 5 tells so much that it had to be learned from in 29 parts"
        in diagnose(deep)["bridge"]
    )
    assert "1 of 2" in diagnose([good, replace(good, diverged=1500)])["diverged"]


def test_copies_and_what_moves_left_are_warned_of():
    good = Rejuvenation(5, 1.0, 500.0, 0.8, 2, 2000, 0.1, ancestors=100, lineages=100)
    assert (
        "40 % of the particles could not be moved at sample 7"
        in diagnose([good, replace(good, sample=7, unmoved=0.4)])["unmoved"]
    )
    likelihood = Known(skewed, 2)
    target = Target(likelihood.prior, likelihood, 0, 1.0)
    system = target.particles(skewed_draws(np.random.default_rng(0), 100))
    assert diagnose_particles(system) == {}
    copies = system.take(np.repeat([1, 5, 8, 9], 25))
    copies = replace(copies, ancestor=np.repeat([0, 7], 50))
    assert distinct_sample_size(copies.theta, copies.log_weights) == pytest.approx(4.0)
    found = diagnose_particles(copies)["distinct"]
    assert "worth 4 independent draws" in found
    assert "4 differ, of 2 at the start" in found


def test_record_target_is_the_target_of_the_last_sample():
    likelihood = Known(skewed, 2)
    theta = np.random.default_rng(0).normal(size=(20, 2))
    one, whole = (kind(likelihood.prior, likelihood, 0, 0.3) for kind in (Target, RecordTarget))
    np.testing.assert_allclose(
        one.log_density(one.particles(theta)), whole.log_density(whole.particles(theta)), rtol=1e-12
    )


@dataclass(frozen=True)
class Motionless(MoveStrategy):
    """Resample, and move nothing."""

    name = "motionless"
    share: float = 0.5

    def rejuvenate(self, system, target, rng, resample, previous):
        return system, Rejuvenation(target.sample, target.exponent, system.ess, 0.0, 0, 0, 0.0)


@pytest.mark.parametrize(
    "moves",
    [
        IndependentMetropolis(MoveSettings(max_moves=3), proposals=[StudentMixture]),
        RandomWalkMetropolis(),
        WasteFree(length=7),
        Motionless(share=0.25),
    ],
)
def test_moves_are_known_by_name_and_made_again_from_a_document(moves):
    kind = MOVES[moves.name]
    assert kind is type(moves)
    document = json.loads(json.dumps(moves_document(moves)))
    assert moves_document(moves_of(document)) == document


def test_a_part_without_a_name_is_in_no_document():
    class Shifted(DefensiveGaussian):
        """A proposal that does not say its own name."""

    assert PROPOSALS["gaussian"] is DefensiveGaussian
    with pytest.raises(NotStorableError, match="IndependentMetropolis with proposals of your own"):
        moves_document(IndependentMetropolis(proposals=[Shifted]))
    with pytest.raises(InputError, match="proposal 'other' is not known here"):
        moves_of({"kind": "independent", "settings": {}, "proposals": ["other"]})


def test_copies_that_no_proposal_frees_are_parted():
    """Four fifths of a population are one particle; none but it is lost when they move."""
    likelihood = Known(lambda values: -0.5 * np.square(values).sum(axis=1), 2)
    rng = np.random.default_rng(0)
    target = Target(likelihood.prior, likelihood, 0, 1.0)
    theta = rng.normal(size=(1000, 2))
    theta[:800] = theta[0]
    system = target.particles(theta)
    assert system.crowded
    assert system.distinct == pytest.approx(1000**2 / (800**2 + 200))
    moved, _ = IndependentMetropolis().rejuvenate(system, target, rng, systematic, None)
    assert not moved.crowded


def test_number_of_moves_that_was_given_is_kept_and_the_default_goes_further():
    """Of these settings a run makes its moves."""
    assert smcpn_settings(max_moves=5).settings.further == 0
    assert smcpn_settings().settings == IndependentMetropolis().settings
    assert IndependentMetropolis().settings.further > 0


def smcpn_settings(**options):
    settings = Options(solver=RK4(1), likelihood="classical", method="ibis", **options)
    return settings.resolved(
        models.oscillator_problem(models.oscillator_record(samples=20))
    ).sampler.moves
