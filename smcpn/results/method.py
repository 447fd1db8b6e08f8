"""Record of how a run got from the prior to the posterior, as data and as one line.

Where searches for a maximum ended is told in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smcpn.base.stored import Line, Number, Stored, Whole

SAME, ROUNDED = 0.01, 1e-12
"""Ends whose log densities differ by less, or by so small a share of them, which a sum over many
samples rounds away, are said to be the same maximum."""
TWICE_BELOW = 3.0
"""Nats below the highest end down to which a height matters: what holds a twentieth as much shifts
the log-evidence by .05."""
TOLD = 3
"""Most heights that are told one by one."""


def as_high(one: float, top: float) -> bool:
    """True if a log density is as high as another one or higher, up to what searches leave."""
    size = abs(top) if np.isfinite(top) else 0.0
    return bool(one > top - SAME - ROUNDED * size)


def heights(ends: Sequence[float]) -> list[tuple[float, int]]:
    """Return the different heights of ends, the highest first, and how many ended at each."""
    found: list[tuple[float, int]] = []
    for end in sorted(ends, reverse=True):
        if found and as_high(end, found[-1][0]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((end, 1))
    return found


def where_ended(searches: int, ends: Sequence[float], density: str = "log posterior") -> str:
    """Say how many of the searches ended at which height, and how many did not converge.

    ``ends`` are the heights of those that converged, of a ``density`` that they climbed.
    """
    told = heights(ends)
    parts = [f"{count} at {height:.6g}" for height, count in told[:TOLD]]
    if told:
        parts[0] = f"{told[0][1]} ended at {density} {told[0][0]:.6g}"
    if lower := sum(count for _, count in told[TOLD:]):
        parts.append(f"{lower} lower")
    if searches > len(ends):
        parts.append(f"{searches - len(ends)} did not converge")
    return ", ".join(parts)


@dataclass(frozen=True)
class MethodRecord(Stored):
    """The method of a run, where it began, and how often it weighed the record.

    asked, used: The ``method`` of `smcpn.identify`, and the one that ran: they differ for
        ``"auto"``.
    remarks: What a result says of unknown functions: of a network, that it is linear in its
        weights.
    searches, modes: Searches for a start, and the modes that they found.
    ends: Log posterior of the ends of the searches that converged, the highest first.
    pareto_k: Of the importance weights of the draws from these modes; nan from the prior.
    width: Factor on the standard deviations of the modes at which particles began after these
        weights could not be trusted; 1 where they could, and for a run from the prior.
    fallback: Why the run began at the prior although ``"auto"`` or a start was asked for, and why
        it was tempered instead of following the samples; empty where it did not.
    weighings: Evaluations of the record by all particles: solver steps done, over those of one
        evaluation of all particles with the final steps. What a solver cost that the run has left
        for another one is not in it.
    search_weighings: The same of the searches, derivatives included, and of the choice of steps.
    state_particles: Of each filter of an estimated likelihood at the end; 0 for an exact one.
    bridges: Parts in which the likelihood went over to the estimate, one after the other; of
        several populations, of that with most. 0 for an exact one, and where the run began with the
        estimate.
    acceptance: Share of the proposals accepted in the last moves under an estimate; nan without
        any.
    estimate_variance: Variance of the estimated log-likelihood at the mean of the particles, as
        last measured.
    solver_reason: Why ``solver="auto"`` took the solver that it took; empty where one was given.
    guided: Share of the particles whose filters look ahead; that of the others is a bootstrap
        filter.
    """

    asked: Line
    used: Line
    remarks: tuple[Line, ...] = ()
    searches: Whole = 0
    modes: Whole = 0
    pareto_k: float = float("nan")
    width: Number = 1.0
    fallback: Line = ""
    weighings: float = 0.0
    search_weighings: float = 0.0
    state_particles: Whole = 0
    bridges: Whole = 0
    acceptance: float = float("nan")
    estimate_variance: float = float("nan")
    guided: float = float("nan")
    ends: tuple[Number, ...] = ()
    solver_reason: Line = ""

    def __str__(self) -> str:
        """The line of the summary on how the run went."""
        said = [*self.remarks, *self._searched]
        if self.fallback:
            said.append(f"from the prior: {self.fallback}")
        return f"{self._name}: {', '.join(said)}" if said else self._name

    @property
    def details(self) -> str:
        """The line with the statistics of the computation."""
        said = [str(self)]
        if self.pareto_k == self.pareto_k:
            said.append(f"Pareto k {self.pareto_k:.2g}")
        if self.width != 1.0:
            said.append(f"from the modes {self.width:g} times as wide")
        said.append(f"{self.weighings:.2g} weighings of the record")
        if self.search_weighings:
            said.append(f"searches as costly as {self.search_weighings:.2g} weighings")
        return ", ".join(said + self._of_estimate)

    @property
    def _name(self) -> str:
        return self.asked if self.asked == self.used else f"{self.asked}, {self.used}"

    @property
    def _searched(self) -> list[str]:
        if not self.searches:
            return []
        found = f"{self.modes} modes" if self.modes > 1 else f"{self.modes or 'no'} mode"
        ended = f" ({where_ended(self.searches, self.ends)})" if self.ends else ""
        return [f"{self.searches} search{'es' * (self.searches != 1)}{ended}, {found}"]

    @property
    def _of_estimate(self) -> list[str]:
        """Lines on an estimated likelihood."""
        if not self.state_particles:
            return []
        said = [f"{self.bridges} bridge{'s' * (self.bridges != 1)}"] if self.bridges else []
        variance = f"{self.state_particles} state particles"
        if self.estimate_variance == self.estimate_variance:
            variance += f" (variance {self.estimate_variance:.2g} at the mean)"
        said.append(variance)
        if self.acceptance == self.acceptance:
            said.append(f"acceptance {self.acceptance:.2g}")
        return [*said, f"{100 * self.guided:.3g} % of the filters guided"]
