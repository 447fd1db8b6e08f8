"""A problem as a static model of the package `particles`, to be run by its samplers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.likelihood.contract import Likelihood
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.prior import Prior
from smcpn.model.problem import Problem
from smcpn.model.solver import Solver
from smcpn.smc.particles import finite_or_excluded

if TYPE_CHECKING:
    StaticModel: Any = object
else:
    try:
        from particles.smc_samplers import StaticModel
    except ImportError:
        raise InputError(
            "smcpn.results.exports.static_model needs the package particles: install it with "
            "pip install --no-deps particles==0.4, as it pins an old numpy that it does not need"
        ) from None

Array = NDArray[np.float64]


class UnconstrainedPrior:
    """A smcpn prior with the interface of a `particles` StructDist.

    theta is a structured array with one field per parameter, in *unconstrained* coordinates: any
    move of any sampler stays in the support.
    """

    def __init__(self, prior: Prior) -> None:
        self.prior = prior
        self.dtype = [(name, np.float64) for name in prior.names]

    def rvs(self, size: int = 1) -> NDArray[np.void]:
        """Draw from the prior; seeded by numpy's global generator, as all of `particles` is."""
        rng = np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002
        drawn = np.empty(size, dtype=self.dtype)
        for name, column in zip(self.prior.names, self.prior.sample(rng, size).T, strict=True):
            drawn[name] = column
        return drawn

    def logpdf(self, theta: NDArray[np.void]) -> Array:
        """Log density, log-Jacobian included, (N,)."""
        return self.prior.log_density(self.columns(theta))

    def columns(self, theta: NDArray[np.void]) -> Array:
        """Structured (N,) to plain (N, d)."""
        return np.stack([theta[name] for name in self.prior.names], axis=1)


class SequentialStaticModel(StaticModel):
    """A likelihood as a `particles.smc_samplers.StaticModel`.

    `particles` evaluates log p(y_t | y_<t, theta) without passing a solver state on. The state of
    the latest theta is kept: a step of IBIS then costs one sample, and only moved particles
    are evaluated on their past.
    """

    def __init__(self, prior: Prior, likelihood: Likelihood) -> None:
        super().__init__(data=range(likelihood.n_samples), prior=UnconstrainedPrior(prior))
        self.likelihood = likelihood
        self._columns, self._state, self._next = np.empty((0, 0)), np.empty((0, 0)), -1

    def logpyt(self, theta: NDArray[np.void], t: int) -> Array:
        """Log-density of sample t given those before, (N,)."""
        columns = self.prior.columns(theta)
        values = self.prior.prior.natural(columns)
        if t != self._next or not np.array_equal(columns, self._columns):
            self._state, _ = self.likelihood.evaluate(values, t)
        self._state, increments = self.likelihood.advance(values, self._state, t, t + 1)
        self._columns, self._next = columns, t + 1
        return finite_or_excluded(increments[0])

    def loglik(self, theta: NDArray[np.void], t: int | None = None) -> Array:
        """Log-likelihood of the samples up to and with t (all, by default), (N,)."""
        last = self.likelihood.n_samples if t is None else t + 1
        values = self.prior.prior.natural(self.prior.columns(theta))
        return finite_or_excluded(self.likelihood.evaluate(values, last)[1])


def static_model(
    problem: Problem,
    solver: Solver,
    threads: int | None = None,
    likelihood: str | None = None,
) -> SequentialStaticModel:
    """Adapt a problem, to be run for example by ``particles.smc_samplers.IBIS``.

    Parameters
    ----------
    solver : EKF0, EKF1 or RK4
        With a number of steps.
    threads : int, optional
        Threads of the kernel.
    likelihood : str, optional
        As of `smcpn.identify`.
    """
    built = build_likelihood(problem, solver, threads, likelihood)
    return SequentialStaticModel(problem.prior, built)
