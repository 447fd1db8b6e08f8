"""One posterior seen by several likelihoods: whether another would have learned something else.

The particles are weighted anew, which costs one pass over the records per likelihood instead of a
run. Where few of them keep weight the other likelihood has another posterior, and its mean here is
only the direction in which that lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.contract import DiffusedLikelihood
from smcpn.likelihood.lanes import LaneLikelihood
from smcpn.likelihood.registry import (
    LIKELIHOODS,
    build_likelihood,
    check_likelihood,
    likelihood_name,
)
from smcpn.smc.particles import effective_sample_size, normalise
from smcpn.smc.target import finite_or_excluded
from smcpn.solver import Solver

if TYPE_CHECKING:
    from smcpn.results.posterior import Posterior

Array = NDArray[np.float64]

FACTORS = 10.0 ** np.arange(-6, 19)
"""Diffusions (sd) among which the most likely is taken, where none is known."""


@dataclass(frozen=True)
class ComparedLikelihood:
    """How a likelihood sees the particles of a posterior.

    Attributes
    ----------
    name : str
    solver : Solver
    log_likelihood : float
        Mean over the posterior.
    kept : float
        Effective number of particles with the weights of this likelihood, in units of that
        before.
    shift : float
        Largest change of a posterior mean, in posterior standard deviations.
    parameter : str
        The one whose mean changes so much.
    """

    name: str
    solver: Solver
    log_likelihood: float
    kept: float
    shift: float
    parameter: str


def compare_likelihoods(
    posterior: Posterior, names: Sequence[str] = tuple(LIKELIHOODS)
) -> list[ComparedLikelihood]:
    """Weight the particles of a posterior by other likelihoods over the same records.

    Parameters
    ----------
    posterior : Posterior
    names : sequence of str
        Of `LIKELIHOODS`. The steps are those of the posterior's solver; a diffusion that has to be
        known is the most likely power of ten at the posterior centre.

    Raises
    ------
    InputError
        For an unknown name, or a likelihood that cannot be used with the problem.
    """
    for name in names:
        check_likelihood(name)
    own = _evaluated(posterior, _likelihood(posterior, _own_name(posterior)))
    return [_compared(posterior, own, name) for name in names]


def _compared(posterior: Posterior, own: Array, name: str) -> ComparedLikelihood:
    likelihood = _likelihood(posterior, name)
    log_likelihood = own if name == _own_name(posterior) else _evaluated(posterior, likelihood)
    with np.errstate(invalid="ignore", divide="ignore"):
        change = np.where(np.isfinite(own), log_likelihood - own, -np.inf)
        before = np.log(posterior.weights)
    log_weights = before + change
    weights = normalise(log_weights)
    mean, sd = np.array(list(posterior.mean.values())), np.array(list(posterior.sd.values()))
    shifts = np.abs(weights @ posterior.values - mean) / sd
    return ComparedLikelihood(
        name=name,
        solver=likelihood.solver,
        log_likelihood=float(posterior.weights @ log_likelihood),
        kept=float(effective_sample_size(log_weights) / effective_sample_size(before)),
        shift=float(shifts.max()),
        parameter=posterior.names[int(shifts.argmax())],
    )


def _own_name(posterior: Posterior) -> str:
    return likelihood_name(posterior.solver, posterior.likelihood)


def _evaluated(posterior: Posterior, likelihood: LaneLikelihood) -> Array:
    return finite_or_excluded(likelihood.evaluate(posterior.values, likelihood.n_samples)[1])


def _likelihood(posterior: Posterior, name: str) -> LaneLikelihood:
    """Build a likelihood with the posterior's own solver, or the nearest one that goes with it."""
    problem, solver = posterior.problem, _counterpart(posterior, name)
    likelihood = build_likelihood(problem, solver, None, name)
    known = problem.diffusion is not None or name == _own_name(posterior)
    if known or not LIKELIHOODS[name].known_diffusion:
        return likelihood
    diffused = cast(DiffusedLikelihood, likelihood)
    theta = (posterior.weights @ posterior.theta)[None, :]
    centre = problem.prior.natural(theta)
    candidates = [cast(LaneLikelihood, diffused.at_diffusion(factor)) for factor in FACTORS]
    values = [finite_or_excluded(c.evaluate(centre, c.n_samples)[1])[0] for c in candidates]
    best = int(np.argmax(values))
    candidates[best].solver = replace(solver, diffusion=float(FACTORS[best]))
    return candidates[best]


def _counterpart(posterior: Posterior, name: str) -> Solver:
    if name == _own_name(posterior):
        return posterior.solver
    return LIKELIHOODS[name].counterpart(posterior.problem, posterior.solver)
