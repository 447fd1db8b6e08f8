"""Distances by which finer solver steps move a posterior, by which steps are judged.

Between a likelihood L_n and a finer one L_m the posterior mean moves, to first order, by
Cov(theta, log L_m - log L_n): the covariance times the mean difference of the scores (Stein's
identity). One evaluation of the finer likelihood for the particles measures it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.base.stored import Name, Stored
from smcpn.model.solver import Solver

Array = NDArray[np.float64]

LARGEST_SHIFT = 0.1
"""Posterior sd, and nats of the log-evidence, from which a shift is warned of."""
AUTOMATIC_SHIFT = 0.05
"""What ``steps="auto"`` leaves. A solver of second order or more is then closer than
`LARGEST_SHIFT` to its limit of ever finer steps, which adds a third to the first doubling."""
LOST = 0.01
"""Weight of particles whose finer solution diverges, from which a shift is infinite."""
NEGLIGIBLE = 1e-10
"""Spread of a direction, relative to the widest, below which it counts as none."""


@dataclass(frozen=True)
class DiscretisationShift(Stored):
    """Shift of a posterior when its solver is made twice as fine, to first order.

    Attributes
    ----------
    solver, finer : Solver
        The one of the posterior, and the one it is compared with.
    parameters : dict of str to float
        Shift of the mean of each parameter, in its posterior sd, in unconstrained coordinates.
    worst : float
        Shift along the direction in which it is largest, in the posterior sd of that direction;
        inf where the finer solution diverges. Of particles, their Monte Carlo noise is taken off.
    log_evidence : float
        Shift of the log-evidence, nats.
    """

    solver: Solver
    finer: Solver
    parameters: Mapping[Name, float]
    worst: float
    log_evidence: float

    @property
    def size(self) -> float:
        """The larger of `worst` and of the shift of the log-evidence."""
        return max(self.worst, abs(self.log_evidence))

    @property
    def most(self) -> tuple[str, float]:
        """Name and shift of the parameter that moves most."""
        return max(self.parameters.items(), key=lambda item: abs(item[1]))

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence where the steps are too coarse for the posterior."""
        if self.size <= LARGEST_SHIFT:
            return ()
        return (
            f"{self.solver.resolution} shifts {self._what()}, compared with "
            f"{self.finer.resolution}: raise steps, as by solver={self.finer!r}",
        )

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON can hold them."""
        return {
            "worst": self.worst,
            "log_evidence": self.log_evidence,
            "parameters": dict(self.parameters),
        }

    def __str__(self) -> str:
        """One line of a summary."""
        name, shift = self.most
        return (
            f"{self.finer.resolution} would shift {name} by {shift:+.2g} posterior sd, the worst "
            f"direction by {self.worst:.2g}, the log-evidence by {self.log_evidence:+.2g}"
        )

    def _what(self) -> str:
        name, shift = self.most
        if abs(shift) > LARGEST_SHIFT:
            return f"{name} by {-shift:+.2g} posterior sd"
        if self.worst > LARGEST_SHIFT:
            return f"a combination of parameters by {self.worst:.2g} posterior sd"
        return f"the log-evidence by {-self.log_evidence:+.2g}"


def shift_of_particles(
    names: Sequence[str],
    solver: Solver,
    finer: Solver,
    theta: Array,
    weights: Array,
    change: Array,
    noise: float = 0.0,
) -> DiscretisationShift:
    """Measure the shift by weighted particles.

    The squared shift of the worst direction is the variance of the regression of the change on
    theta, less what noise alone explains with d coefficients (adjusted R^2).

    theta: (N, d), unconstrained coordinates.
    weights: (N,), they sum to one.
    change: (N,), finer log-likelihood less the one of the posterior.
    noise: Variance of each change where it is an estimate.
    """
    known = np.isfinite(change) & (weights > 0)
    if weights[~known].sum() > LOST or not known.any():
        infinite = dict.fromkeys(names, np.inf)
        return DiscretisationShift(solver, finer, infinite, np.inf, np.inf)
    theta, change, weights = theta[known], change[known], weights[known] / weights[known].sum()
    centred = theta - weights @ theta
    sd = np.sqrt(weights @ np.square(centred))
    scaled = centred / np.where(sd > 0, sd, 1.0)
    root, moved = np.sqrt(weights), change - weights @ change
    slope = np.linalg.lstsq(root[:, None] * scaled, root * moved, rcond=NEGLIGIBLE)[0]
    explained = float(weights @ np.square(scaled @ slope))
    left = float(weights @ np.square(moved - scaled @ slope))
    spare = 1.0 / float(weights @ weights) - len(names) - 1.0
    by_chance = len(names) * left / spare if spare > 0 else 0.0
    top = change.max()
    return DiscretisationShift(
        solver,
        finer,
        dict(zip(names, ((weights * moved) @ scaled).tolist(), strict=True)),
        float(np.sqrt(max(explained - by_chance, 0.0))),
        float(np.log(weights @ np.exp(change - top)) + top - 0.5 * noise),
    )


def shift_of_gaussian(
    names: Sequence[str],
    solver: Solver,
    finer: Solver,
    covariance: Array,
    score: Array,
    change: float,
) -> DiscretisationShift:
    """Measure the shift of a Gaussian posterior.

    covariance: (d, d), of the unconstrained coordinates.
    score: (d,), gradient of the finer log-likelihood less that of the posterior's, at the mode.
    change: Finer log-likelihood less the one of the posterior, there.
    """
    moved = covariance @ score
    if not (np.isfinite(moved).all() and np.isfinite(change)):
        infinite = dict.fromkeys(names, np.inf)
        return DiscretisationShift(solver, finer, infinite, np.inf, np.inf)
    sd, worst = np.sqrt(np.diag(covariance)), float(score @ moved)
    return DiscretisationShift(
        solver,
        finer,
        dict(zip(names, (moved / sd).tolist(), strict=True)),
        float(np.sqrt(max(worst, 0.0))),
        float(change + 0.5 * worst),
    )
