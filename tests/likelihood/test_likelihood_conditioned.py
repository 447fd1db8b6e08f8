"""filtering, dalton and fenrir for theta batches, against the plain ones and exact filters."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import linalg, stats

import smcpn
from smcpn import EKF0, EKF1, InputError, Problem, Record
from smcpn.likelihood.conditioned import Fenrir
from smcpn.likelihood.diffusion import AT_REST, CalibratedDiffusion
from smcpn.likelihood.registry import LIKELIHOODS, build_likelihood
from tests.models import (
    FITZHUGH_NAGUMO,
    FREE_OSCILLATOR,
    PREDATOR_PREY,
    duffing_problem,
    fitzhugh_nagumo_derivatives,
    fitzhugh_nagumo_problem,
    free_oscillator,
    free_oscillator_problem,
    predator_prey_problem,
    timed_problem,
)
from tests.nightly import nightly_but
from tests.reference.likelihoods import StateSpace
from tests.reference.likelihoods import dalton as plain_dalton
from tests.reference.likelihoods import fenrir as plain_fenrir
from tests.reference.likelihoods import filtering as plain_filtering

pytestmark = pytest.mark.numerics

PLAIN = {"filtering": plain_filtering, "dalton": plain_dalton, "fenrir": plain_fenrir}
NAMES = tuple(PLAIN)
PROBLEMS = {
    "both states": (predator_prey_problem, PREDATOR_PREY),
    "driven": (lambda: duffing_problem(20), np.array([1.0, 0.4, 2.0, 0.5])),
    "held input": (lambda: timed_problem(12), np.array([0.8])),
    "irregular, gaps, acceleration": (free_oscillator_problem, FREE_OSCILLATOR),
}
SOLVERS = (
    EKF0(2, 2, diffusion=2.0),
    EKF0(3, 2, diffusion=2.0, form="chain"),
    EKF1(2, 2, diffusion=2.0),
    EKF1(2, 2, diffusion=2.0, jacobian="diagonal"),
    EKF1(3, 2, diffusion=2.0, form="chain"),
)
OFTEN = {
    (case, solver, NAMES[(k + j) % 3])
    for (k, case), (j, solver) in product(enumerate(PROBLEMS), enumerate(SOLVERS))
}
"""Every problem and solver meets a likelihood in every run, and the others by night."""


def batch(theta: np.ndarray) -> np.ndarray:
    """Two parameter vectors, so that lanes differ."""
    return theta * np.array([0.97, 1.04])[:, None]


def plain(name: str, problem: Problem, theta: np.ndarray, solver, **options) -> float:
    """Of all records, each from its own initial state."""
    pairs = zip(problem.records, problem.model.initial, strict=True)
    models = [(replace(problem.model, initial=(initial,)), record) for record, initial in pairs]
    spaces = [StateSpace(model, record, theta, solver, **options) for model, record in models]
    return sum(PLAIN[name](space).sum() for space in spaces)


def total(problem: Problem, values: np.ndarray, solver, name: str) -> np.ndarray:
    likelihood = build_likelihood(problem, solver, likelihood=name)
    return likelihood.evaluate(values, likelihood.n_samples)[1]


@pytest.mark.parametrize(
    ("case", "solver", "name"), nightly_but(OFTEN, product(PROBLEMS, SOLVERS, NAMES)), ids=str
)
def test_against_the_plain_likelihoods(case, solver, name):
    make, theta = PROBLEMS[case]
    problem, values = make(), batch(theta)
    found = total(problem, values, solver, name)
    expected = [plain(name, problem, one, solver) for one in values]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


FITZHUGH_NAGUMO_CASES = [
    ("fenrir", EKF0(2, 20, diffusion=1.0), 103.8924701),
    ("fenrir", EKF1(2, 20, diffusion=1.0), 104.0160325),
    ("fenrir", EKF1(2, 20, diffusion=1.0, jacobian="diagonal"), 103.9117110478),
    ("dalton", EKF1(2, 20, diffusion=1.0, jacobian="diagonal"), 103.91366479),
    ("filtering", EKF0(2, 20, diffusion=1.0), None),
]


@pytest.mark.parametrize(
    ("name", "solver", "golden"),
    nightly_but(FITZHUGH_NAGUMO_CASES[1:4:2], FITZHUGH_NAGUMO_CASES),
    ids=str,
)
def test_golden_values(name, solver, golden):
    """Published by two independent codes, which start the second derivative at zero.

    The plain form takes seconds for so many steps: it stands where nothing is published.
    """
    problem, start = fitzhugh_nagumo_problem(), fitzhugh_nagumo_derivatives()
    likelihood = LIKELIHOODS[name].build(problem, solver, start_order=1)
    found = likelihood.evaluate(FITZHUGH_NAGUMO[None, :], 41)[1][0]
    if golden is None:
        expected = plain(name, problem, FITZHUGH_NAGUMO, solver, derivatives=start)
        assert found == pytest.approx(expected, rel=1e-10)
    else:
        assert found == pytest.approx(golden, abs=1e-7)


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        pytest.param("filtering", EKF0(5, 40, diffusion=0.1), marks=pytest.mark.nightly),
        ("fenrir", EKF0(5, 40, diffusion=1e5)),
        pytest.param(
            "dalton", EKF1(5, 40, diffusion=1e10, jacobian="diagonal"), marks=pytest.mark.nightly
        ),
        pytest.param("fenrir", EKF1(4, 10, diffusion=1e5), marks=pytest.mark.nightly),
    ],
    ids=str,
)
def test_high_orders_keep_their_digits(name, solver):
    """Hundreds of steps; a diffusion far too large, and one far too small."""
    problem, values = predator_prey_problem(), PREDATOR_PREY[None, :]
    expected = plain(name, problem, PREDATOR_PREY, solver)
    assert total(problem, values, solver, name)[0] == pytest.approx(expected, rel=1e-8)


@pytest.fixture(scope="module")
def gaps():
    """Two records of different spacing with missing values, learned together."""
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(9, 2)), rng.normal(size=(7, 2))
    first[2, 1], first[5], second[0] = np.nan, np.nan, np.nan
    times = np.cumsum(rng.uniform(0.05, 0.2, 7))
    return [Record(y=first, dt=0.1), Record(y=second, t=times)]


def oscillating(records, **changes) -> Problem:
    settings = dict(
        observe=["x", "v"],
        noise=[0.3, "sigma"],
        prior={
            "k": stats.lognorm(0.3, scale=2.0),
            "c": stats.lognorm(0.3, scale=0.3),
            "sigma": stats.lognorm(0.3, scale=0.5),
            "kappa": stats.lognorm(1.0, scale=3.0),
        },
        initial=[1.0, -0.5],
        diffusion="kappa",
    )
    return Problem(free_oscillator, records, **{**settings, **changes})


LEARNED = np.array([[2.0, 0.3, 0.5, 3.0], [1.5, 0.2, 0.6, 10.0]])


@pytest.mark.parametrize("name", NAMES)
def test_increments_blocks_and_records(gaps, name):
    """Noise and diffusion as parameters, against the plain at numbers."""
    problem = oscillating(gaps)
    solver = EKF0(2, 3, diffusion="kappa")
    likelihood = build_likelihood(problem, solver, likelihood=name)
    _, evaluated = likelihood.evaluate(LEARNED, 16)
    state, parts = likelihood.start(LEARNED), []
    for a, b in ((0, 1), (1, 6), (6, 11), (11, 16)):
        state, increments = likelihood.advance(LEARNED, state, a, b)
        parts.append(increments)
    together = np.concatenate(parts)
    np.testing.assert_allclose(together.sum(axis=0), evaluated, rtol=1e-12)
    assert (together[9] == 0.0).all()
    expected = [plain(name, problem, v, replace(solver, diffusion=v[3])) for v in LEARNED]
    np.testing.assert_allclose(evaluated, expected, rtol=1e-10)
    raised = likelihood.at_diffusion(7.0).evaluate(LEARNED, 16)[1]
    values = LEARNED * [1.0, 1.0, 1.0, 7.0]
    np.testing.assert_allclose(raised, likelihood.evaluate(values, 16)[1], rtol=1e-12)


class MeanOfTerms(CalibratedDiffusion):
    """The estimate of "fixed-diagonal" under another name."""

    name = "mean-of-terms"

    def variances(self, step, terms):
        sums = [total + term for total, term in zip(self.sums, terms, strict=True)]
        return [total / step.count + AT_REST for total in sums], sums


def test_a_diffusion_is_known_once_it_is_defined():
    problem, values = predator_prey_problem(), PREDATOR_PREY[None, :]
    own, fixed = (
        total(problem, values, EKF0(2, 2, diffusion=name), "filtering")
        for name in ("mean-of-terms", "fixed-diagonal")
    )
    assert own == fixed
    with pytest.raises(InputError, match="'mean-of-terms' cannot be calibrated in the dalton"):
        build_likelihood(problem, EKF1(2, 2, diffusion="mean-of-terms"), likelihood="dalton")
    with pytest.raises(InputError, match="'mean-of-terms' is one of the filtering likelihood"):
        smcpn.solve(problem.ode, (0.0, 1.0), solver=EKF1(diffusion="mean-of-terms"))
    with pytest.raises(InputError, match="diffusion is 'mean-of-terms': give the name"):
        oscillating([Record(y=np.zeros((5, 2)), dt=0.1)], diffusion="mean-of-terms")


def test_shared_gains_follow_a_raised_diffusion():
    problem, values = fitzhugh_nagumo_problem(), FITZHUGH_NAGUMO[None, :]
    likelihood = Fenrir.build(problem, EKF0(2, 20, diffusion=1.0), start_order=1)
    other = Fenrir.build(problem, EKF0(2, 20, diffusion=7.0), start_order=1)
    raised = likelihood.at_diffusion(7.0).evaluate(values, 41)[1]
    np.testing.assert_allclose(raised, other.evaluate(values, 41)[1], rtol=1e-12)


def kalman(theta: np.ndarray, record: Record, noise: float) -> float:
    """Exact log-likelihood of `free_oscillator` from a state known exactly."""
    a = np.array([[0.0, 1.0], [-theta[0], -theta[1]]])
    times = record.t - record.t[0]
    x = np.array([(linalg.expm(a * t) @ [1.0, -0.5])[0] for t in times])
    return stats.norm.logpdf(record.y[:, 0], x, noise).sum()


@pytest.mark.parametrize("name", NAMES)
def test_a_linear_system_tends_to_the_exact_likelihood(name):
    rng = np.random.default_rng(5)
    record = Record(y=rng.normal(size=15), dt=0.1)
    problem = Problem(
        free_oscillator,
        record,
        observe="x",
        noise=0.3,
        prior={"k": stats.lognorm(0.3), "c": stats.lognorm(0.3)},
        initial=[1.0, -0.5],
    )
    exact = kalman(FREE_OSCILLATOR, record, 0.3)
    solvers = [EKF1(4, n, diffusion=1.0, form="chain") for n in (2, 16)]
    errors = [abs(total(problem, FREE_OSCILLATOR[None, :], s, name)[0] - exact) for s in solvers]
    assert errors[1] < errors[0] / 10
    assert errors[1] < 1e-6 * abs(exact)


@pytest.mark.nightly
@pytest.mark.parametrize("case", PROBLEMS)
@pytest.mark.parametrize(
    "solver", [EKF0(2, 60, diffusion=10.0), EKF1(3, 15, diffusion=10.0)], ids=str
)
def test_all_agree_at_small_steps(case, solver):
    """They differ in where they linearise only, which does not matter once the steps are small."""
    make, theta = PROBLEMS[case]
    found = [total(make(), theta[None, :], solver, name)[0] for name in NAMES]
    np.testing.assert_allclose(found, found[0], rtol=1e-6)


def test_running_diffusion_is_that_of_the_plain_marginal_filter():
    """Where nothing is measured but at the end, filtering is the data-free prediction."""
    problem = duffing_problem(20)
    y = np.full(20, np.nan)
    y[-1] = 0.1
    record = Record(u=problem.records[0].u, y=y, dt=0.2)
    alone = Problem(problem.ode, record, observe="x", noise=1e-2, prior=problem.prior.distributions)
    values = batch(np.array([1.0, 0.4, 2.0, 0.5]))
    solver = EKF0(2, 4)
    found = total(alone, values, solver, "filtering")
    marginal = total(alone, values, solver, "marginal")
    # The marginal scales the whole covariance by the last estimate, filtering step by step.
    np.testing.assert_allclose(found, marginal, rtol=0.02)
    scaled = total(alone, values, replace(solver, diffusion="fixed"), "filtering")
    assert np.all(np.isfinite(scaled))


@pytest.mark.parametrize("name", NAMES)
def test_a_diverged_particle_is_marked_and_harms_no_other(name):
    problem, theta = PROBLEMS["held input"][0](), 0.8
    found = total(problem, np.array([[theta], [np.nan], [1e300], [theta]]), SOLVERS[2], name)
    assert np.isfinite(found[[0, 3]]).all()
    assert found[0] == found[3]
    assert not np.isfinite(found[1])
    assert not found[2] > found[0]


@pytest.mark.parametrize(
    ("name", "solver", "message"),
    [
        ("dalton", EKF1(2, 2), "cannot be calibrated in the dalton likelihood"),
        ("fenrir", EKF0(2, 2), "cannot be calibrated in the fenrir likelihood"),
        ("filtering", EKF1(2, 2, diffusion="dynamic"), "rough in the parameters"),
        ("filtering", EKF1(2, 2, diffusion="kappa"), "which the problem does not name"),
        ("filtering", EKF1(2, diffusion=1.0), "still to be chosen"),
        ("filtering", smcpn.RK4(2), "does not go with RK4"),
        ("marginal", EKF1(2, 2, diffusion=1.0), "does not go with EKF1"),
        ("nonsense", EKF1(2, 2, diffusion=1.0), "choose one of marginal, filtering"),
    ],
    ids=str,
)
def test_wrong_combinations_are_refused(name, solver, message):
    with pytest.raises(InputError, match=message):
        build_likelihood(predator_prey_problem(), solver, likelihood=name)


def test_a_diffusion_that_nothing_uses_is_refused(gaps):
    with pytest.raises(InputError, match="learns the diffusion 'kappa'"):
        build_likelihood(oscillating(gaps), EKF0(2, 2))
    with pytest.raises(InputError, match="a number belongs to the solver"):
        oscillating(gaps, diffusion=3.0)
    with pytest.raises(InputError, match="diffusion 'kappa' is fixed to -1"):
        oscillating(gaps, prior={"k": stats.lognorm(1.0), "c": 0.3, "sigma": 1.0, "kappa": -1.0})


def test_identification_names_its_likelihood():
    problem = free_oscillator_problem()
    posterior = smcpn.identify(
        problem,
        solver=EKF1(2, 2, diffusion="fixed", form="chain"),
        likelihood="filtering",
        particles=60,
        seed=1,
        progress=False,
    )
    assert posterior.likelihood == "filtering"
    assert "likelihood       filtering" in posterior.summary()
    assert np.isfinite(posterior.shift.worst)
    assert np.isfinite(posterior.validate().solver_share)
    with pytest.raises(InputError, match="needs a diffusion"):
        smcpn.identify(problem, likelihood="dalton", particles=60, progress=False)
