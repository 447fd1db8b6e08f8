"""The plain likelihoods against golden values, dense Gaussian algebra and each other."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import linalg, stats

import smcpn
from smcpn import EKF0, EKF1, InputError, Problem
from smcpn.model.problem import Model
from tests.models import (
    FITZHUGH_NAGUMO,
    FREE_OSCILLATOR,
    PREDATOR_PREY,
    duffing_problem,
    fitzhugh_nagumo_derivatives,
    fitzhugh_nagumo_problem,
    fitzhugh_nagumo_solution,
    free_oscillator_problem,
    predator_prey_problem,
    timed_problem,
)
from tests.nightly import nightly_but
from tests.reference.gauss_markov import chains
from tests.reference.likelihoods import StateSpace, dalton, fenrir, filtering, forward

pytestmark = pytest.mark.numerics

LIKELIHOODS = (filtering, dalton, fenrir)


def space(problem: Problem, theta, solver, **options) -> StateSpace:
    return StateSpace(problem.model, problem.records[0], theta, solver, **options)


# The kernels meet these in every run.
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("likelihood", "solver", "golden"),
    [
        (fenrir, EKF1(2, 20, diffusion=1.0), 104.0160325),
        (fenrir, EKF0(2, 20, diffusion=1.0), 103.8924701),
        (fenrir, EKF1(2, 20, diffusion=1.0, jacobian="diagonal"), 103.9117110478),
        (dalton, EKF1(2, 20, diffusion=1.0, jacobian="diagonal"), 103.91366479),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_golden_values_of_fitzhugh_nagumo(likelihood, solver, golden):
    """Found by two independent public codes; see the reference on probabilistic numerics."""
    problem = fitzhugh_nagumo_problem()
    exact = stats.norm.logpdf(problem.records[0].y, fitzhugh_nagumo_solution(), np.sqrt(0.005))
    assert exact.sum() == pytest.approx(103.937951078, abs=1e-7)
    derivatives = fitzhugh_nagumo_derivatives()
    at = space(problem, FITZHUGH_NAGUMO, solver, derivatives=derivatives)
    assert likelihood(at).sum() == pytest.approx(golden, abs=1e-7)


def test_golden_value_and_start_of_predator_and_prey():
    at = space(predator_prey_problem(), PREDATOR_PREY, EKF1(3, 10, diffusion=1.0))
    assert fenrir(at).sum() == pytest.approx(43.71020374, abs=1e-7)
    higher = space(predator_prey_problem(), PREDATOR_PREY, EKF1(5, 10, diffusion=1.0))
    derivatives = [(5, 3), (-5, 3), (-10, -12), (100, -72), (170, 318), (-5120, 4188)]
    np.testing.assert_allclose(higher.start.mean.reshape(2, 6).T, derivatives, rtol=1e-12)


CHAINS = EKF1(3, 1, diffusion=1.0, form="chain")
SMALL_STEPS = {
    "both states": (predator_prey_problem, PREDATOR_PREY),
    "driven": (lambda: duffing_problem(20), np.array([1.0, 0.4, 2.0, 0.5])),
    "held input": (lambda: timed_problem(12), np.array([0.8])),
    "irregular, gaps, acceleration": (free_oscillator_problem, FREE_OSCILLATOR),
}


@pytest.mark.parametrize(
    ("name", "solver"),
    nightly_but(
        [
            ("both states", CHAINS), ("driven", CHAINS),
            ("held input", EKF0(2, 1, diffusion=1.0)),
        ],
        product(
            SMALL_STEPS,
            [
                EKF0(2, 1, diffusion=1.0), EKF1(2, 1, diffusion=1.0, jacobian="diagonal"),
                EKF1(3, 1, diffusion=1.0), CHAINS,
            ],
        ),
    ),
    ids=str,
)  # fmt: skip
def test_all_agree_at_small_steps(name, solver):
    """They differ in where they linearise only, which does not matter once the steps are small."""
    make, theta = SMALL_STEPS[name]
    problem, steps = make(), {2: 28, 3: 15}[solver.order]
    at = space(problem, theta, replace(solver, steps=steps), diffusion=10.0)
    sums = [likelihood(at).sum() for likelihood in LIKELIHOODS]
    np.testing.assert_allclose(sums, sums[0], rtol=1e-6)


@pytest.mark.parametrize("solver", [EKF0(2, 3, diffusion=3.0), EKF1(3, 3, diffusion=3.0)], ids=str)
@pytest.mark.parametrize("name", SMALL_STEPS)
def test_fenrir_is_the_joint_density_over_that_of_the_ode(name, solver):
    """log p(y | z) = log p(y, z) - log p(z) where both are linearised at the means without data."""
    make, theta = SMALL_STEPS[name]
    at = space(make(), theta, solver)
    alone = forward(at, data=False)
    joint = forward(at, data=True, at=alone.points)
    difference = (joint.ode + joint.data - alone.ode).sum()
    assert fenrir(at).sum() == pytest.approx(difference, rel=1e-9)


def joint_density(at: StateSpace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All z and y of a linear system as one normal vector, in the order of time.

    Returns
    -------
    excess : ndarray, (m,)
        Measured less expected.
    factor : ndarray, (m, m)
        Cholesky factor of the covariance.
    is_data : ndarray of bool, (m,)
    """
    mean, loading = at.start.mean, np.zeros((len(at.start.mean), 0))
    rows: list[tuple[np.ndarray, float, float, bool]] = []
    for sample in range(len(at.record)):
        for step in at.steps(sample - 1) if sample else ():
            loading = np.hstack([step.kernel.matrix @ loading, step.kernel.factor])
            mean = step.kernel.matrix @ mean
            matrix, residual = at.residual(mean, step.t, step.u)
            rows += [(m @ loading, r, 0.0, False) for m, r in zip(matrix, residual, strict=True)]
        seen = at.observation(sample, mean)
        if seen is not None:
            parts = zip(seen[0], seen[1], np.diag(seen[2]), strict=True)
            rows += [(m @ loading, r, sd, True) for m, r, sd in parts]
    width = loading.shape[1]
    stacked = np.array([np.pad(row, (0, width - len(row))) for row, *_ in rows])
    covariance = stacked @ stacked.T + np.diag([sd**2 for _, _, sd, _ in rows])
    factor = np.linalg.cholesky(covariance)
    return np.array([r for _, r, _, _ in rows]), factor, np.array([d for *_, d in rows])


@pytest.mark.parametrize("form", ["first", "chain"])
def test_a_linear_system_against_dense_gaussians(form):
    """EKF1 is exact there: each likelihood is a density of one normal vector."""
    at = space(free_oscillator_problem(), FREE_OSCILLATOR, EKF1(2, 2, diffusion=5.0, form=form))
    excess, factor, is_data = joint_density(at)

    def one_by_one(excess: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """Log density of each entry given the ones before it."""
        scale = np.diag(factor)
        return stats.norm.logpdf(linalg.solve_triangular(factor, excess, lower=True)) - np.log(
            scale
        )

    in_time = one_by_one(excess, factor)
    assert filtering(at).sum() == pytest.approx(in_time[is_data].sum(), rel=1e-8)
    ode = np.linalg.cholesky((factor @ factor.T)[np.ix_(~is_data, ~is_data)])
    given_ode = in_time.sum() - one_by_one(excess[~is_data], ode).sum()
    assert dalton(at).sum() == pytest.approx(given_ode, rel=1e-8)
    assert fenrir(at).sum() == pytest.approx(given_ode, rel=1e-8)


def test_chains_are_read_off_the_graph():
    @smcpn.ode
    def model(x, v, a, w, z, *, k):
        return v, a, -k * x, z, w

    def traced(ode) -> Model:
        return Problem(
            ode,
            smcpn.Record(y=[0.0, 1.0], dt=1.0),
            observe="x",
            noise=1.0,
            prior={"k": stats.norm()},
        ).model

    # x' = v, v' = a is one chain; w' = z, z' = w a circle that is cut once.
    graphs = traced(model)
    assert chains(graphs.x, graphs.rhs, "chain") == [[0, 1, 2], [3, 4]]
    assert chains(graphs.x, graphs.rhs, "first") == [[0], [1], [2], [3], [4]]


def test_what_has_no_diffusion_is_refused():
    problem = predator_prey_problem()
    with pytest.raises(InputError, match="diffusion is 'fixed-diagonal': give its value"):
        space(problem, PREDATOR_PREY, EKF0(2, 2))
    with pytest.raises(InputError, match="order is 1: a chain"):
        space(free_oscillator_problem(), FREE_OSCILLATOR, EKF0(1, 2, form="chain", diffusion=1.0))
