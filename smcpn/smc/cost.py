"""Cost of a run, counted in likelihood increments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smcpn.smc.rejuvenation import Rejuvenation


@dataclass(frozen=True)
class Cost:
    """Work, counted in likelihood increments: one sample of a record for one parameter vector.

    Evaluations are N T + the sum over rejuvenations of K N t. Rejuvenations come at about
    geometric times, so a whole run costs some 20 N T; in a stream the next one grows with t.

    Attributes
    ----------
    advanced : int
        Computed once each, as the record went by.
    reevaluated : int
        Computed again by rejuvenations.
    next_rejuvenation : int
        What a rejuvenation now would add, with as many moves as the last one.
    next_seconds : float
        And how long it would take, at the speed of the last one; nan before the first.
    """

    advanced: int
    reevaluated: int
    next_rejuvenation: int
    next_seconds: float

    @property
    def evaluations(self) -> int:
        """All likelihood increments computed so far."""
        return self.advanced + self.reevaluated


def cost_so_far(particles: int, sample: int, rejuvenations: Sequence[Rejuvenation]) -> Cost:
    """Cost of a run of ``particles`` particles that has assimilated ``sample`` samples."""
    last = rejuvenations[-1] if rejuvenations else None
    following = (last.evaluations + last.gradients if last else particles) * (sample + 1)
    seconds = float("nan")
    if last is not None and last.increments:
        seconds = last.seconds * following / last.increments
    return Cost(
        advanced=particles * sample,
        reevaluated=sum(record.increments for record in rejuvenations),
        next_rejuvenation=following,
        next_seconds=seconds,
    )
