"""DALTON and Fenrir where two large filters nearly agree: 80 digits, and an evidence.

Lotka-Volterra of the Fenrir paper, 21 samples of both states, IWP(5), EKF1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.rows import Row, at_most, near
from benchmarks.study import study
from smcpn.likelihood.registry import build_likelihood
from tests.models import PREDATOR_PREY, predator_prey_problem

GOLDEN = {10: 43.7102050618496, 20: 43.71020506041817}
"""By steps per sample (h .01 and .005), for both likelihoods and all diffusions from .03 to 1e4:
``python -m tests.reference.many_digits KIND STEPS DIFFUSION``."""
DIFFUSIONS = (0.03, 1.0, 10.0, 100.0, 1e4)


@study("cancellation")
def digits(quick: bool) -> Iterator[Row]:
    """Largest error of each likelihood, and how far a parameter moved by 1e-9 moves it."""
    values = PREDATOR_PREY * np.array([[1.0, 1.0, 1.0, 1.0], [1.0 + 1e-9, 1.0, 1.0, 1.0]])
    for name in ("fenrir", "dalton"):
        for steps, golden in GOLDEN.items():
            solver = smcpn.EKF1(5, steps, diffusion=1.0)
            likelihood: Any = build_likelihood(predator_prey_problem(), solver, likelihood=name)
            found = np.array(
                [likelihood.at_diffusion(sd).evaluate(values, 21)[1] for sd in DIFFUSIONS]
            )
            case = f"{name} h {0.1 / steps:g}"
            yield at_most(f"{case} error", np.abs(found[:, 0] - golden).max(), 1e-7)
            moved = np.abs(found[:, 1] - found[:, 0]).max()
            yield at_most(f"{case} moved by 1e-9 in a parameter", moved, 1e-5)


@study("cancellation-evidence")
def evidence(quick: bool) -> Iterator[Row]:
    """Evidence where the diffusion is learned over six decades, of no influence on the rest."""
    known = predator_prey_problem()
    kappa: dict[str, Any] = {"kappa": stats.loguniform(1e-2, 1e4)}
    prior = kappa | dict(known.prior.distributions)
    problem = learning_diffusion(known, prior)
    posterior = smcpn.identify(
        problem,
        solver=smcpn.EKF1(5, 10, diffusion="kappa"),
        likelihood="fenrir",
        method="tempering",
        particles=300 if quick else 1000,
        replicates=1 if quick else 4,
        seed=1,
        progress=False,
    )
    expected, error = exact_evidence(known, 4_000 if quick else 40_000)
    note = f"+- {posterior.log_evidence_se:.2g}; importance sampling of the ODE +- {error:.1g}"
    yield near("fenrir, kappa learned", posterior.log_evidence, expected, 0.1, note)


def learning_diffusion(known: smcpn.Problem, prior: dict[str, Any]) -> smcpn.Problem:
    """The same problem with the diffusion learned."""
    return smcpn.Problem(
        known.ode,
        known.records[0],
        observe=["x", "y"],
        noise=0.1,
        prior=prior,
        initial=[5.0, 3.0],
        diffusion="kappa",
    )


def exact_evidence(problem: smcpn.Problem, draws: int) -> tuple[float, float]:
    """Log-evidence of the ODE without solver error, and its standard error."""
    solver = smcpn.RK4(20)
    laplace = smcpn.laplace(problem, "classical", solver=solver)
    rng = np.random.default_rng(0)
    # Student's t with 5 degrees of freedom about the mode: heavier than any posterior here.
    d = len(laplace.mode)
    normal, chi2 = rng.normal(size=(draws, d)), rng.chisquare(5, size=draws) / 5
    theta = laplace.mode + (normal / np.sqrt(chi2)[:, None]) @ laplace.factor.T
    student_t: Any = stats.multivariate_t
    shape = student_t(laplace.mode, laplace.factor @ laplace.factor.T, df=5)
    log_likelihood = smcpn.LogLikelihood(problem, "classical", solver)
    log_weights = log_likelihood(problem.prior.natural(theta))
    log_weights += problem.prior.log_density(theta) - shape.logpdf(theta)
    weights = np.exp(log_weights - log_weights.max())
    error = weights.std() / weights.mean() / np.sqrt(draws)
    return float(np.log(weights.mean()) + log_weights.max()), float(error)
