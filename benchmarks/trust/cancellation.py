"""An evidence by Fenrir where two large filters nearly agree.

Lotka-Volterra of the Fenrir paper, 21 samples of both states, IWP(5), EKF1. That likelihoods agree
with 80 digits there is tested in `tests/likelihood/test_cancellation.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scipy import stats

import smcpn
from benchmarks.reference.importance import sample
from benchmarks.rows import Row, near
from benchmarks.study import study
from benchmarks.trust.known import posterior_of
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
    exact = sample(posterior_of(known, smcpn.RK4(20)), error=0.02 if quick else 0.005)
    note = f"+- {posterior.log_evidence_se:.2g}; importance sampling of the ODE +- "
    note += f"{exact.log_evidence_se:.1g}"
    yield near("fenrir, kappa learned", posterior.log_evidence, exact.log_evidence, 0.1, note)


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
