"""Symptoms of an unreliable run, each a sentence that says what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from smcpn.smc.particles import ParticleSystem
from smcpn.smc.proposals import PROPOSALS
from smcpn.smc.rejuvenation import MUCH_UNMOVED, UNMOVED, Rejuvenation

LOW_ACCEPTANCE = 0.1
FEW_LINEAGES = 10
DEEP_BRIDGE = 20
MUCH_CORRELATED = 0.5
"""Correlation of the states of chains with their starts, on average."""
MANY_DIVERGED = 0.5
"""Share of a rejuvenation's proposals whose solution is NaN or infinite."""

Records = Sequence[Rejuvenation]
"""The rejuvenations of one population, in order."""


class SamplerWarning(UserWarning):
    """A run finished, but its result may not be reliable."""


def diagnose(rejuvenations: Records) -> dict[str, str]:
    """Return a warning, one sentence, for each kind of symptom of an unreliable run.

    Parameters
    ----------
    rejuvenations : sequence of Rejuvenation
        Of one population, in order.
    """
    if not rejuvenations:
        return {}
    found = {kind: symptom(rejuvenations) for kind, symptom in SYMPTOMS.items()}
    return {kind: sentence for kind, sentence in found.items() if sentence}


def _rounds(some: Records, rejuvenations: Records) -> str:
    return f"{len(some)} of {len(rejuvenations)} rounds of moves"


def _of_acceptance(rejuvenations: Records) -> str:
    low = [r for r in rejuvenations if r.acceptance < LOW_ACCEPTANCE and not _moved_enough(r)]
    if not low:
        return ""
    worst = min(low, key=lambda r: r.acceptance)
    return (
        f"only {100 * worst.acceptance:.2g} % of the parameter values tried at sample "
        f"{worst.sample} were accepted, and less than {100 * LOW_ACCEPTANCE:.0f} % in "
        f"{_rounds(low, rejuvenations)}: the particles may not have reached the whole posterior, "
        "take more particles= or a narrower prior"
    )


def _moved_enough(rejuvenation: Rejuvenation) -> bool:
    """True if moves are independent, and so many that it does not matter how few are accepted."""
    return rejuvenation.proposal in PROPOSALS and rejuvenation.unmoved <= UNMOVED


def _of_the_unmoved(rejuvenations: Records) -> str:
    stuck = [r for r in rejuvenations if r.unmoved > MUCH_UNMOVED]
    if not stuck:
        return ""
    worst = max(stuck, key=lambda r: r.unmoved)
    return (
        f"{100 * worst.unmoved:.0f} % of the particles could not be moved at sample "
        f"{worst.sample}, and more than {100 * MUCH_UNMOVED:.0f} % in "
        f"{_rounds(stuck, rejuvenations)}: means may be off and the error of the log-evidence is "
        "too low, take more particles="
    )


def _of_lineages(rejuvenations: Records) -> str:
    fewest = min(r.lineages for r in rejuvenations)
    if fewest >= FEW_LINEAGES:
        return ""
    return (
        f"all particles come from only {fewest} of those at the start: the error of the "
        "log-evidence is not to be trusted, take replicates=4 or more particles="
    )


def _of_chains(rejuvenations: Records) -> str:
    slow = [r for r in rejuvenations if r.start_correlation > MUCH_CORRELATED]
    if not slow:
        return ""
    worst = max(slow, key=lambda r: r.start_correlation)
    return (
        f"the moves ended near where they began in {_rounds(slow, rejuvenations)} (correlation "
        f"{worst.start_correlation:.2f} on average, step {worst.step:.2g}): the error of the "
        "log-evidence may be too low, take longer ones, such as "
        "moves=smcpn.HamiltonianMonteCarlo(length=40), and more particles="
    )


def _of_bridges(rejuvenations: Records) -> str:
    # Along gradients, in many dimensions, a path of many parts is the rule.
    bridges = Counter(r.sample for r in rejuvenations if r.exponent < 1.0 and not r.chains)
    sample, depth = bridges.most_common(1)[0] if bridges else (0, 0)
    if depth <= DEEP_BRIDGE:
        return ""
    return (
        f"sample {sample} tells so much that it had to be learned from in {depth} parts: the "
        "noise is very small for the prior, check noise= and units, or narrow the prior"
    )


def _of_the_diverged(rejuvenations: Records) -> str:
    diverged = [r for r in rejuvenations if r.diverged > MANY_DIVERGED * r.evaluations]
    if not diverged:
        return ""
    return (
        "the model has no solution for more than half of the parameter values tried in "
        f"{_rounds(diverged, rejuvenations)}: narrow the prior, or raise steps="
    )


def _of_the_missed(rejuvenations: Records) -> str:
    missed = [r.missed for r in rejuvenations if np.isfinite(r.missed)]
    if not missed:
        return ""
    return (
        f"searches found a mode of log posterior {missed[-1]:.6g} that the particles have lost: "
        "take method='auto' on the whole record, or more particles="
    )


SYMPTOMS: dict[str, Callable[[Records], str]] = {
    "acceptance": _of_acceptance,
    "unmoved": _of_the_unmoved,
    "lineages": _of_lineages,
    "chains": _of_chains,
    "bridge": _of_bridges,
    "diverged": _of_the_diverged,
    "missed": _of_the_missed,
}
"""What is told of rejuvenations by kind of symptom; nothing where there is none."""


def diagnose_particles(system: ParticleSystem) -> dict[str, str]:
    """Return a warning where many of the final particles are copies."""
    if not system.crowded:
        return {}
    alive = np.isfinite(system.log_weights)
    distinct, different = system.distinct, len(np.unique(system.theta[alive], axis=0))
    ancestors = len(np.unique(system.ancestor[alive]))
    return {
        "distinct": (
            f"many particles are copies: they are worth {distinct:.0f} independent draws from "
            f"the posterior ({different} differ, of {ancestors} at the start), which is coarser "
            "than it looks, take more particles="
        )
    }
