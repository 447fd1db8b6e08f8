"""Independent populations combined to one weighted sample, and symptoms of an unreliable run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from smcpn.base.stored import HIGHEST_LOG_DENSITY, Line, Stored, counts, finite, log_densities
from smcpn.smc.estimation import HIGH_VARIANCE
from smcpn.smc.evidence import combined_log_evidence, r_hat
from smcpn.smc.particles import ParticleSystem, distinct_sample_size
from smcpn.smc.proposals import PROPOSALS, weighted_moments
from smcpn.smc.rejuvenation import MUCH_UNMOVED, UNMOVED, Rejuvenation
from smcpn.smc.sampler import Sampler
from smcpn.smc.state import Trace

Array = NDArray[np.float64]

HIGH_R_HAT = 1.05
"""Vehtari et al. (2021) ask for 1.01 of chains; populations of 1000 draws differ by more."""

HIGHEST_R_HAT = 1e200
"""More than populations have of which each is a single point."""
LOG_EVIDENCES = partial(finite, least=-HIGHEST_LOG_DENSITY, most=HIGHEST_LOG_DENSITY, missing=True)


@dataclass(frozen=True)
class Populations(Stored):
    """R populations of N particles as one weighted sample.

    theta: (R N, d)
    log_weights: (R N,), each population counts in proportion to its evidence: the mixture is then
        consistent for the posterior even where some populations missed a mode.
    log_likelihood: (R N,)
    ancestor: (R N,)
    replicate: (R N,), number of the population of each particle.
    log_evidence, log_evidence_se: Of the mean evidence. The error comes from the spread of the
        populations, or from the ancestry where there is one only.
    log_evidences: (R,)
    path_samples: (K,), numbers of samples assimilated at which the paths are known, see `Trace`.
    ess_path, log_evidence_path: (K,)
    rejuvenations: Of all populations, one after the other.
    r_hat: (d,), potential scale reduction in unconstrained coordinates; nan for one population.
    warnings: One sentence for each kind of symptom, see `diagnose`.
    """

    theta: Annotated[Array, finite("N", "d")]
    log_weights: Annotated[Array, log_densities("N")]
    log_likelihood: Annotated[Array, log_densities("N")]
    ancestor: Annotated[NDArray[np.int64], counts(None)]
    replicate: Annotated[NDArray[np.int64], counts(None, most="N")]
    log_evidence: float
    log_evidence_se: float
    log_evidences: Annotated[Array, LOG_EVIDENCES(None)]
    path_samples: Annotated[NDArray[np.int64], counts("K", most="T", rising=True)]
    ess_path: Annotated[Array, finite("K", least=0.0, most="N", missing=True)]
    log_evidence_path: Annotated[Array, LOG_EVIDENCES("K")]
    rejuvenations: tuple[Rejuvenation, ...]
    r_hat: Annotated[Array, finite("d", least=0.0, most=HIGHEST_R_HAT, missing=True)]
    warnings: tuple[Line, ...]

    @property
    def ess(self) -> float:
        """Effective sample size of all particles, where copies of one count once."""
        return distinct_sample_size(self.theta, self.log_weights)


def combine(samplers: Sequence[Sampler]) -> Populations:
    """Combine finished samplers of the same problem and number of particles."""
    systems = [sampler.system for sampler in samplers]
    log_evidences = np.array([sampler.log_evidence for sampler in samplers])
    n, d = systems[0].theta.shape
    traces = common_traces(samplers)
    paths = np.array([trace.log_evidence for trace in traces])
    if len(samplers) == 1:
        log_weights = systems[0].log_weights
        log_evidence, error = log_evidences[0], samplers[0].log_evidence_se
        path, scale = paths[0], np.full(d, np.nan)
    else:
        with np.errstate(divide="ignore"):
            logs = [np.log(n * system.weights) for system in systems]
        log_weights = np.concatenate(
            [own + z for own, z in zip(logs, log_evidences - log_evidences.max(), strict=True)]
        )
        log_evidence, error = combined_log_evidence(log_evidences)
        path, _ = combined_log_evidence(paths)
        moments = [weighted_moments(system.theta, system.weights) for system in systems]
        means = np.array([mean for mean, _ in moments])
        variances = np.array([np.square(factor).sum(axis=1) for _, factor in moments])
        scale = r_hat(means, variances, n)
    return Populations(
        theta=np.concatenate([system.theta for system in systems]),
        log_weights=log_weights,
        log_likelihood=np.concatenate([system.log_likelihood for system in systems]),
        ancestor=np.concatenate([system.ancestor + r * n for r, system in enumerate(systems)]),
        replicate=np.repeat(np.arange(len(systems)), n),
        log_evidence=float(log_evidence),
        log_evidence_se=float(error),
        log_evidences=log_evidences,
        path_samples=traces[0].samples,
        ess_path=np.sum([trace.ess for trace in traces], axis=0),
        log_evidence_path=np.asarray(path),
        rejuvenations=tuple(r for sampler in samplers for r in sampler.rejuvenations),
        r_hat=scale,
        warnings=tuple(_diagnose(samplers, scale).values()),
    )


def common_traces(samplers: Sequence[Sampler]) -> list[Trace]:
    """Return the traces of populations; their ends, where some know more samples than others."""
    traces = [sampler.state.trace for sampler in samplers]
    if all(np.array_equal(trace.samples, traces[0].samples) for trace in traces):
        return traces
    return [Trace.of_end(trace.length, *trace.last) for trace in traces]


def _diagnose(samplers: Sequence[Sampler], scale: Array) -> dict[str, str]:
    found: dict[str, str] = {}
    for sampler in samplers:
        found = diagnose(sampler.rejuvenations) | diagnose_particles(sampler.system) | found
    states = [sampler.state for sampler in samplers]
    noisiest = max(states, key=lambda state: np.nan_to_num(state.estimate_variance))
    if noisiest.estimate_variance > HIGH_VARIANCE:
        found["estimate"] = (
            f"with state_particles={noisiest.state_particles} the estimated log-likelihood has a "
            f"variance of {noisiest.estimate_variance:.2g} at the posterior mean, by which the "
            f"particles hardly move: take state_particles={4 * noisiest.state_particles} or more"
        )
    if np.nanmax(scale, initial=0.0) > HIGH_R_HAT:
        found["r_hat"] = (
            "the replicates disagree: their means scatter too much for their standard deviations "
            f"(R-hat {np.nanmax(scale):.2f}, 1 where they agree), take more particles="
        )
    return found


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

    The records are those of one population, in order.
    """
    if not rejuvenations:
        return {}
    found = {kind: symptom(rejuvenations) for kind, symptom in SYMPTOMS.items()}
    return {kind: sentence for kind, sentence in found.items() if sentence}


def _rounds(some: Records, rejuvenations: Records) -> str:
    return f"{len(some)} of {len(rejuvenations)} rounds of moves"


def _place(rejuvenation: Rejuvenation) -> str:
    """Words on where it was made, to end a clause; on a whole record by its exponent."""
    if rejuvenation.sample:
        return f" at sample {rejuvenation.sample}"
    return f" at exponent {rejuvenation.exponent:.2g}" if rejuvenation.exponent < 1.0 else ""


def _of_acceptance(rejuvenations: Records) -> str:
    low = [r for r in rejuvenations if r.acceptance < LOW_ACCEPTANCE and not _moved_enough(r)]
    if not low:
        return ""
    worst = min(low, key=lambda r: r.acceptance)
    return (
        f"only {100 * worst.acceptance:.2g} % of the parameter values tried{_place(worst)} "
        f"were accepted, and less than {100 * LOW_ACCEPTANCE:.0f} % in "
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
        f"{100 * worst.unmoved:.0f} % of the particles could not be moved{_place(worst)}, "
        f"and more than {100 * MUCH_UNMOVED:.0f} % in "
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
    known = f"sample {sample}" if sample else "the record"
    return (
        f"{known} tells so much that it had to be learned from in {depth} parts: the "
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
