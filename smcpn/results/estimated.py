"""What estimation by gradients returns, as a `Posterior`: to simulate, validate and report with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import whole_number
from smcpn.estimate.laplace import Laplace
from smcpn.estimate.maximum import Maximum
from smcpn.likelihood.steps import error_budget
from smcpn.results.posterior import Posterior, Timing

Array = NDArray[np.float64]


def laplace_posterior(laplace: Laplace, particles: int = 1000, seed: int = 0) -> Posterior:
    """Return draws from a Laplace approximation as the particles of a posterior.

    Raises
    ------
    InputError
        If there is no such Gaussian.
    """
    particles = whole_number("particles", particles, 1)
    theta = laplace.draw(np.random.default_rng(seed), particles)
    return _drawn(laplace.maximum, theta, laplace.log_evidence, seed, laplace.warnings)


def mode_posterior(maximum: Maximum) -> Posterior:
    """Return a maximum as the one particle of a posterior, to simulate and validate with."""
    return _drawn(maximum, maximum.theta[None, :], float("nan"), None, maximum.warnings)


def _drawn(
    maximum: Maximum,
    theta: Array,
    log_evidence: float,
    seed: int | None,
    warnings: tuple[str, ...],
) -> Posterior:
    """Equally weighted particles that no sampler has moved."""
    function, problem, n = maximum.function, maximum.problem, len(theta)
    values = problem.prior.natural(theta)
    budget = error_budget(problem, function.solver, maximum.values, function.likelihood)
    nothing = np.empty(0)
    return Posterior(
        problem=problem,
        solver=function.solver,
        likelihood=function.likelihood,
        theta=theta,
        log_weights=np.zeros(n),
        log_likelihood=function(values),
        ancestor=np.arange(n),
        log_evidence=log_evidence,
        path_samples=np.empty(0, np.int64),
        ess_path=nothing,
        log_evidence_path=nothing,
        rejuvenations=(),
        budget=budget,
        timing=Timing(wall=maximum.seconds, compile=0.0, kernel=0.0, theta_steps=0),
        seed=seed,
        log_evidences=nothing,
        replicate=np.zeros(n, np.int64),
        r_hat=np.full(theta.shape[1], np.nan),
        warnings=warnings + budget.warnings,
    )
