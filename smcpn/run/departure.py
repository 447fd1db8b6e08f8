"""Distance of a posterior from that of a likelihood which only particle filters estimate.

A Kalman likelihood is linearised about one path. Nothing that it computes says what that costs:
between two wells it may lack ten nats, and keep its evidence to a hundredth. So filters estimate
the likelihood at some draws from the posterior, and the differences say, to first order, by how
much log-evidence and means move, as for steps (`smcpn.likelihood.shift`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.contract import EstimatedLikelihood
from smcpn.likelihood.shift import DiscretisationShift, shift_of_particles
from smcpn.model.solver import Solver
from smcpn.smc.estimation import fresh_keys, spread_out
from smcpn.smc.particles import ParticleSystem

Array = NDArray[np.float64]

WITNESSES = 32
"""Draws from the posterior at which likelihoods are compared, or four for each parameter."""
COPIES = 2
"""Filters of each draw; their differences tell how much they vary."""
PRECISE = 0.4
"""Variance of an estimated log-likelihood that is small enough."""
MOST = 2048
"""State particles at most."""
LARGE = 0.25
"""Nats of log-evidence, and posterior sd of a direction, from which a departure is told of."""
ERRORS = 3.0
"""Standard errors that it has at least."""


@dataclass(frozen=True)
class Estimates:
    """Log-likelihoods (m,) as filters estimate them, without the bias of a logarithm.

    variance: Of each of them, of one theta.
    """

    values: Array
    variance: float
    state_particles: int


def estimates(
    likelihood: EstimatedLikelihood, values: Array, rng: np.random.Generator, most: int = MOST
) -> Estimates:
    """Estimate log-likelihoods, with state particles doubled until the estimates are precise."""
    number, b = likelihood.state_particles, likelihood.n_samples
    while True:
        filters = likelihood.with_state_particles(number)
        keys = fresh_keys(rng, COPIES * len(values), likelihood.n_keys(b))
        found = filters.evaluate(np.tile(values, (COPIES, 1)), b, keys)[1].reshape(COPIES, -1)
        known = np.isfinite(found).all(axis=0)
        variance = float(found[:, known].var(axis=0, ddof=1).mean()) if known.any() else np.inf
        if variance <= PRECISE or 2 * number > most:
            # An estimate of mean one whose logarithm is Gaussian lacks half its variance there.
            mean = np.where(known, found.mean(axis=0) + 0.5 * variance, np.nan)
            return Estimates(mean, variance / COPIES, number)
        number *= 2


def shift_by_filters(
    names: tuple[str, ...],
    solvers: tuple[Solver, Solver],
    likelihoods: tuple[EstimatedLikelihood, EstimatedLikelihood],
    theta: Array,
    values: Array,
    rng: np.random.Generator,
) -> DiscretisationShift:
    """Measure what finer steps shift, by filters with either at draws from the posterior.

    ``solvers`` and ``likelihoods`` are as they are, and finer; ``theta`` and ``values``, (m, d),
    are draws of the same weight, in unconstrained coordinates and in natural ones.
    """
    found = [estimates(one, values, rng) for one in likelihoods]
    change, noise = found[1].values - found[0].values, sum(one.variance for one in found)
    equal = np.full(len(theta), 1.0 / len(theta))
    return shift_of_particles(names, *solvers, theta, equal, change, noise)


@dataclass(frozen=True)
class Departure:
    """Distance that a posterior would move under the likelihood that filters estimate.

    shift: Of log-evidence and means.
    error: Standard error of the shift of the log-evidence.
    """

    likelihood: str
    estimated: str
    shift: DiscretisationShift
    error: float

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence where the posterior would move far."""
        level = self.shift.log_evidence
        higher = not abs(level) <= max(LARGE, ERRORS * self.error)
        if not higher and self.shift.worst <= LARGE:
            return ()
        name, moved = self.shift.most
        where = f"{name} by {moved:+.2g} posterior sd"
        if abs(moved) <= LARGE:
            where = f"a combination of parameters by {self.shift.worst:.2g} posterior sd"
        moves = f" and {where}" if self.shift.worst > LARGE else ""
        return (
            f"the {self.likelihood} likelihood is linearised, and particle filters at draws from "
            f"the posterior move the log-evidence by about {level:+.2g}{moves}: take "
            f"likelihood='{self.estimated}'",
        )


def departure(
    names: tuple[str, ...],
    solver: Solver,
    system: ParticleSystem,
    natural: Callable[[Array], Array],
    likelihood: str,
    estimate: EstimatedLikelihood,
    estimated: str,
    rng: np.random.Generator,
) -> Departure:
    """Compare the log-likelihoods of a population with those that filters estimate.

    ``natural`` makes values of unconstrained coordinates; ``likelihood`` and ``estimated`` are the
    names of both.
    """
    some = system.take(spread_out(system, max(WITNESSES, 4 * len(names))))
    found = estimates(estimate, natural(some.theta), rng)
    change, equal = found.values - some.log_likelihood, np.full(len(some), 1.0 / len(some))
    shift = shift_of_particles(names, solver, solver, some.theta, equal, change, found.variance)
    # Twice: the chance of the draws, and what half a variance does not tell of a logarithm.
    spread = np.nanvar(change) / len(some) + (0.5 * found.variance) ** 2
    return Departure(likelihood, estimated, shift, float(np.sqrt(spread)))
