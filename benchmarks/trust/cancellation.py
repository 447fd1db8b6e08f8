"""An evidence by Fenrir where two large filters nearly agree.

Lotka-Volterra of the Fenrir paper, 21 samples of both states, IWP(5), EKF1. That likelihoods agree
with 80 digits there is tested in `tests/likelihood/test_cancellation.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.rows import Row, near
from benchmarks.study import study
from tests.models import predator_prey_problem


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
