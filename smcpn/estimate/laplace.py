"""The Gaussian about the mode of a posterior, in unconstrained coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import special

from smcpn.errors import InputError
from smcpn.estimate.log_density import POSTERIOR, LogDensity
from smcpn.estimate.maximise import Starts, maximise
from smcpn.estimate.maximum import Maximum
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.model.problem import Problem
from smcpn.solver import Solver

if TYPE_CHECKING:
    from smcpn.results.compare import Agreement
    from smcpn.results.posterior import Posterior
    from smcpn.results.summary import ParameterRow

Array = NDArray[np.float64]

STATIONARY = 1e-6
"""Squared distance of a point from the mode that its derivatives tell of, in posterior sd, beyond
which Newton's method is asked to finish."""
RESOLVED = 1e-13
"""Curvature along a direction, relative to the largest, that rounding leaves."""
NODES = 80
"""Of the Gauss-Hermite rule for the moments of a value."""


@dataclass(frozen=True)
class Laplace:
    """A Gaussian posterior of unconstrained coordinates: mode, and inverse of minus the Hessian.

    Attributes
    ----------
    maximum : Maximum
        The mode and how it was found.
    covariance : ndarray, (d, d)
        Of the unconstrained coordinates; nan where there is none.
    log_evidence : float
        log p(y), were the posterior this Gaussian; nan where there is none.
    reason : str
        Why there is no such Gaussian; "" where there is.

    References
    ----------
    Tierney, L., Kadane, J. B. (1986). Accurate approximations for posterior moments and marginal
    densities. JASA 81.
    """

    maximum: Maximum = field(repr=False)
    covariance: Array
    log_evidence: float
    reason: str = ""

    @property
    def success(self) -> bool:
        """Whether the posterior is concave at the mode, so that the Gaussian exists."""
        return not self.reason

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.maximum.problem

    @property
    def solver(self) -> Solver:
        """The solver, its steps resolved."""
        return self.maximum.solver

    @property
    def likelihood(self) -> str:
        """Name of the likelihood."""
        return self.maximum.function.likelihood

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names, in the order of the columns of a sample."""
        return self.maximum.names

    @property
    def mode(self) -> Array:
        """Unconstrained coordinates of the mode, (d,); its values are ``maximum.values``."""
        return self.maximum.theta

    @property
    def factor(self) -> Array:
        """Lower Cholesky factor of the covariance, (d, d).

        Raises
        ------
        InputError
            If there is no such Gaussian.
        """
        if not self.success:
            raise InputError(f"there is no Laplace approximation: {self.reason}")
        return np.asarray(np.linalg.cholesky(self.covariance), dtype=np.float64)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What deserves a second look."""
        stopped = () if self.maximum.success else (f"the search stopped: {self.maximum.reason}",)
        return self.maximum.warnings + stopped + ((self.reason,) if self.reason else ())

    @property
    def mean(self) -> dict[str, float]:
        """Mean of each value, which is not the value of the mean coordinate."""
        return {name: self._moments(j)[0] for j, name in enumerate(self.names)}

    @property
    def sd(self) -> dict[str, float]:
        """Standard deviation of each value."""
        return {name: self._moments(j)[1] for j, name in enumerate(self.names)}

    def quantile(self, name: str, q: float) -> float:
        """Quantile of the value of a parameter, exact."""
        j = self.names.index(name)
        at, slope = self.problem.prior.maps[j], 1.0
        slope = float(np.sign(at.slopes(self.mode[j : j + 1])[0][0]))
        z = self.mode[j] + slope * special.ndtri(q) * np.sqrt(self.covariance[j, j])
        return float(at.natural(np.array([z]))[0])

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw parameter values, (size, d).

        Raises
        ------
        InputError
            If there is no such Gaussian.
        """
        return self.problem.prior.natural(self.draw(rng, size))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Draw unconstrained coordinates, (size, d).

        Raises
        ------
        InputError
            If there is no such Gaussian.
        """
        return self.mode + rng.standard_normal((size, len(self.mode))) @ self.factor.T

    def table(self) -> list[ParameterRow]:
        """The parameter table as data, as of a `Posterior`."""
        from smcpn.results.summary import laplace_rows

        return laplace_rows(self)

    def summary(self) -> str:
        """The parameter table and the figures, as text."""
        from smcpn.results.summary import laplace_text

        return laplace_text(self)

    def beside(self, posterior: Posterior) -> Agreement:
        """Compare means and standard deviations with those of a posterior of the same names."""
        from smcpn.results.compare import agreement

        return agreement(self, posterior)

    def to_posterior(self, particles: int = 1000, seed: int = 0) -> Posterior:
        """Return draws as the particles of a `Posterior`, to simulate, validate and report with.

        It is the approximation still; ``smcpn.identify(problem, start=laplace)`` corrects it.

        Raises
        ------
        InputError
            If there is no such Gaussian.
        """
        from smcpn.results.estimated import laplace_posterior

        return laplace_posterior(self, particles, seed)

    def _moments(self, j: int) -> tuple[float, float]:
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        weights = weights / weights.sum()
        z = self.mode[j] + np.sqrt(self.covariance[j, j]) * nodes
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.problem.prior.maps[j].natural(z)
            mean = weights @ values
            return float(mean), float(np.sqrt(weights @ np.square(values - mean)))


def laplace(
    problem: Problem | Maximum,
    likelihood: str | LogLikelihood | None = None,
    *,
    solver: Solver | None = None,
    starts: Starts = None,
    stages: Sequence[Sequence[str]] | None = None,
    iterations: int = 500,
    seed: int | None = 0,
    threads: int | None = None,
) -> Laplace:
    """Approximate a posterior by the Gaussian about its mode.

    Parameters
    ----------
    problem : Problem or Maximum
        A maximum of the posterior is taken as it is.
    likelihood, solver, starts, stages, iterations, seed, threads
        As of `maximise`, for a problem.

    Returns
    -------
    Laplace
        A failure is a value as well: ``success`` is False, and ``reason`` tells the direction in
        which the posterior does not fall.

    Raises
    ------
    InputError
        For settings out of range, or a maximum of the likelihood.

    Examples
    --------
    >>> approximation = smcpn.laplace(problem, starts=20)  # doctest: +SKIP
    >>> posterior = smcpn.identify(problem, start=approximation)  # doctest: +SKIP
    """
    if isinstance(problem, Maximum):
        maximum = problem
    else:
        maximum = maximise(
            problem, likelihood, solver=solver, starts=starts, stages=stages,
            iterations=iterations, seed=seed, threads=threads,
        )  # fmt: skip
    if maximum.target != POSTERIOR:
        raise InputError(
            "the maximum is one of the likelihood, which is no mode of the posterior: "
            "call smcpn.maximise with target='posterior'"
        )
    found = _about(maximum)
    if maximum.found and _distance(found) > STATIONARY:
        finished = maximise(
            maximum.problem, maximum.function, starts=maximum.values, method="trust-exact"
        )
        if finished.log_density >= maximum.log_density:
            found = _about(_finished(maximum, finished))
    return found


def _finished(maximum: Maximum, finished: Maximum) -> Maximum:
    """The maximum with the point that Newton's method found from it."""
    last = finished.starts[0]
    start = maximum.starts[maximum.best]
    start = replace(
        last,
        start=start.start,
        evaluations=start.evaluations + last.evaluations,
        path=np.concatenate([start.path, last.path]),
        path_log_density=np.concatenate([start.path_log_density, last.path_log_density]),
    )
    starts = list(maximum.starts)
    starts[maximum.best] = start
    return replace(
        maximum,
        theta=finished.theta,
        log_density=finished.log_density,
        log_likelihood=finished.log_likelihood,
        starts=tuple(starts),
        seconds=maximum.seconds + finished.seconds,
    )


def _about(maximum: Maximum) -> Laplace:
    """Return the Gaussian about a maximum."""
    d = len(maximum.theta)
    nothing = np.full((d, d), np.nan)
    if not maximum.found:
        return Laplace(maximum, nothing, np.nan, f"there is no mode: {maximum.reason}")
    density = LogDensity(maximum.function, POSTERIOR)
    scale = density.scale
    curvature = -density.hessian(maximum.theta[None, :])[0] * np.outer(scale, scale)
    if not np.isfinite(curvature).all():
        return Laplace(
            maximum, nothing, np.nan, "the second derivatives at the mode are not finite"
        )
    eigenvalues, directions = np.linalg.eigh(0.5 * (curvature + curvature.T))
    if eigenvalues[0] <= RESOLVED * max(eigenvalues[-1], 1.0):
        direction = _direction(maximum, directions[:, 0])
        reason = f"the posterior does not fall from the mode along {direction}"
        return Laplace(maximum, nothing, np.nan, reason)
    spread = scale[:, None] * directions / np.sqrt(eigenvalues)
    log_volume = np.log(scale).sum() - 0.5 * np.log(eigenvalues).sum()
    log_evidence = maximum.log_density + 0.5 * d * np.log(2 * np.pi) + log_volume
    return Laplace(maximum, spread @ spread.T, float(log_evidence))


def _distance(approximation: Laplace) -> float:
    """Squared distance to the mode in posterior sd that the gradient tells of."""
    if not approximation.success:
        return np.inf
    maximum = approximation.maximum
    density = LogDensity(maximum.function, POSTERIOR)
    gradient = density.value_and_gradient(maximum.theta[None, :])[1][0]
    return float(gradient @ approximation.covariance @ gradient)


def _direction(maximum: Maximum, direction: Array) -> str:
    """A direction in words, in standard deviations of the prior, largest part first."""
    coordinates = [c.name for c in maximum.problem.prior.maps]
    labels = [
        name if coordinate == "identity" else f"{coordinate} {name}"
        for name, coordinate in zip(maximum.names, coordinates, strict=True)
    ]
    direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
    order = [int(j) for j in np.argsort(-np.abs(direction)) if abs(direction[j]) >= 0.1]
    terms = [f"{direction[j]:+.2g} {labels[j]}" for j in order]
    return " ".join(terms).removeprefix("+") + " (in standard deviations of the prior)"
