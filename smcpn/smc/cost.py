"""What a run has cost, and what the next rejuvenation would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smcpn.smc.rejuvenation import Rejuvenation


@dataclass(frozen=True)
class Cost:
    """Work in weighed samples: one sample of the record, for one parameter vector.

    Evaluations are N T + the sum over rejuvenations of K N t. Rejuvenations come at about
    geometric times, so a whole run costs some 20 N T; in a stream the next one grows with t.

    Attributes
    ----------
    advanced : int
        Weighed once each, as the record went by.
    browsed : int
        Weighed again by rejuvenations.
    next_browse : int
        What a rejuvenation now would weigh, with as many moves as the last one.
    next_seconds : float
        And how long it would take, at the speed of the last one; nan before the first.
    """

    advanced: int
    browsed: int
    next_browse: int
    next_seconds: float

    @property
    def evaluations(self) -> int:
        """All samples weighed so far."""
        return self.advanced + self.browsed


def cost_so_far(particles: int, sample: int, rejuvenations: Sequence[Rejuvenation]) -> Cost:
    """Account for a run of ``particles`` particles that has absorbed ``sample`` samples."""
    last = rejuvenations[-1] if rejuvenations else None
    following = (last.evaluations if last else particles) * (sample + 1)
    seconds = last.seconds * following / last.browsed if last and last.browsed else float("nan")
    return Cost(
        advanced=particles * sample,
        browsed=sum(record.browsed for record in rejuvenations),
        next_browse=following,
        next_seconds=seconds,
    )
