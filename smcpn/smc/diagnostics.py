"""What a user should know about a run that returned but may not have worked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from smcpn.smc.rejuvenation import Rejuvenation

LOW_ACCEPTANCE = 0.1
FEW_FAMILIES = 10
DEEP_BRIDGE = 20
MANY_DIVERGED = 0.5
"""Share of a rejuvenation's proposals whose solution is NaN or infinite."""


class SamplerWarning(UserWarning):
    """A run returned, but what it returned deserves a second look."""


def concerns(rejuvenations: Sequence[Rejuvenation]) -> dict[str, str]:
    """Return one sentence for everything that looks wrong, by kind; empty for a healthy run.

    Parameters
    ----------
    rejuvenations : sequence of Rejuvenation
        Of one population, in order.
    """
    if not rejuvenations:
        return {}
    found = {}
    low = [r for r in rejuvenations if r.acceptance < LOW_ACCEPTANCE]
    if low:
        worst = min(low, key=lambda r: r.acceptance)
        found["acceptance"] = (
            f"acceptance fell below {LOW_ACCEPTANCE} in {len(low)} of {len(rejuvenations)} "
            f"rejuvenations (lowest {worst.acceptance:.3f} at sample {worst.sample}): "
            "use more particles, moves=WasteFree() or a narrower prior"
        )
    fewest = min(r.families for r in rejuvenations)
    if fewest < FEW_FAMILIES:
        found["families"] = (
            f"only {fewest} particles had descendants when the evidence was last estimated from "
            "ancestry: its standard error is not to be trusted, use replicates=4 or more particles"
        )
    bridges = Counter(r.sample for r in rejuvenations if r.exponent < 1.0)
    sample, depth = bridges.most_common(1)[0] if bridges else (0, 0)
    if depth > DEEP_BRIDGE:
        found["bridge"] = (
            f"the bridge across sample {sample} took {depth} parts: the noise is very small for "
            "the prior, check noise and units or narrow the prior"
        )
    diverged = [r for r in rejuvenations if r.diverged > MANY_DIVERGED * r.evaluations]
    if diverged:
        found["diverged"] = (
            f"more than half of the proposals diverged in {len(diverged)} of "
            f"{len(rejuvenations)} rejuvenations: narrow the prior, or raise steps"
        )
    return found
