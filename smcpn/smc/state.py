"""All that a sampler goes on from, as data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field

from smcpn.smc.estimation import MOST_STATE_PARTICLES
from smcpn.smc.particles import ParticleSystem, tempered
from smcpn.smc.rejuvenation import Rejuvenation
from smcpn.smc.trace import Trace
from smcpn.stored import Number, Share, Stored, Whole, number

NAN = float("nan")


def _odd(step: int) -> int:
    if step % 2 == 0:
        raise ValueError("is even")
    return step


@dataclass(frozen=True)
class RandomState(Stored):
    """State of numpy's PCG64, the only random generator that a run has."""

    state: Annotated[int, Field(ge=0, lt=1 << 128)]
    inc: Annotated[int, Field(ge=0, lt=1 << 128), AfterValidator(_odd)]
    has_uint32: Literal[0, 1]
    uinteger: Annotated[int, Field(ge=0, lt=1 << 32)]

    @classmethod
    def of(cls, rng: np.random.Generator) -> Self:
        """Return the state of a generator, which may go on."""
        known: Any = rng.bit_generator.state
        return cls(**known["state"], has_uint32=known["has_uint32"], uinteger=known["uinteger"])

    def generator(self) -> np.random.Generator:
        """Return a generator in this state."""
        bits: Any = np.random.PCG64()
        bits.state = {
            "bit_generator": "PCG64",
            "state": {"state": self.state, "inc": self.inc},
            "has_uint32": self.has_uint32,
            "uinteger": self.uinteger,
        }
        return np.random.Generator(bits)


@dataclass(frozen=True)
class SamplerState(Stored):
    """The state of a sampler between two parts: all but its prior, likelihood and settings.

    Attributes
    ----------
    system : ParticleSystem
        The posterior given the samples so far.
    random_state : RandomState
        Of the generator, when `Sampler.snapshot` returned the state.
    sample : int
        Number of samples assimilated whole.
    exponent : float or None
        Power of the likelihood increment that is assimilated, between two parts of a sample.
    trace : Trace
        Effective sample size before a rejuvenation and log p(y_0, ..., y_t), after each sample.
    rejuvenations : tuple of Rejuvenation
    ess_before : float
        Effective sample size at the sample under way, had it been assimilated whole.
    log_evidence_at_resampling, variance_at_start, unrelated_at_start : float
        The account of the evidence, see `smcpn.smc.evidence`.
    log_pair_ratios : tuple of float
        Of the resamplings since the evidence was last known independently.
    factors : tuple of float
        Factors on the diffusion so far, on a path that lowers it.
    refining : bool
        Whether the increment is that to a finer likelihood of the same samples.
    pareto_k : float
        Shape of the tail of the weights that led from another start than the prior to the
        posterior; nan before they are known, and for a run from the prior.
    state_particles : int
        Of each filter of an estimated likelihood; 0 for an exact one.
    look_ahead : bool
        Whether these filters look ahead.
    log_floor : float
        Logarithm of what was added to an approximate likelihood on the way from it to an estimate,
        see `smcpn.smc.estimation`; nan before, and for a run without.
    estimate_variance : float
        Variance of an estimated log-likelihood at the mean of the particles, as last measured; nan
        before.
    """

    system: ParticleSystem
    random_state: RandomState
    sample: Annotated[Whole, number(0, "T")] = 0
    exponent: Share | None = None
    trace: Trace = field(default_factory=Trace.empty)
    rejuvenations: tuple[Rejuvenation, ...] = ()
    ess_before: Annotated[float, number(0.0, "N", missing=True)] = NAN
    log_evidence_at_resampling: Number = 0.0
    variance_at_start: Annotated[float, number(0.0)] = 0.0
    unrelated_at_start: Share = 1.0
    log_pair_ratios: tuple[Number, ...] = ()
    factors: tuple[Annotated[float, number(1.0, 1e12)], ...] = ()
    refining: bool = False
    pareto_k: float = NAN
    state_particles: Annotated[Whole, number(0, MOST_STATE_PARTICLES)] = 0
    look_ahead: bool = False
    log_floor: Annotated[float, number(missing=True)] = NAN
    estimate_variance: Annotated[float, number(0.0, np.inf, missing=True)] = NAN

    def require_whole(self) -> None:
        """Refuse parts that do not fit each other.

        Raises
        ------
        ValueError
        """
        if not np.isfinite(self.system.log_weights).any():
            raise ValueError("no particle has any weight")
        keyed, begun = bool(self.system.keys.size), self.sample > 0 or self.exponent is not None
        if keyed != (self.state_particles > 0) and (keyed or begun):
            raise ValueError("the keys are of another likelihood")
        if self.trace.length != self.sample or not self.trace.regular:
            raise ValueError(f"the history is not one of {self.sample} samples")

    def without_part(self) -> SamplerState:
        """Return the state weighed by whole samples, without the part of one that is under way."""
        if self.exponent is None or self.refining:
            return self
        system, n = self.system, len(self.system)
        alive = np.isfinite(system.log_weights)
        with np.errstate(invalid="ignore"):
            without = system.log_weights - tempered(system.log_increment, self.exponent)
        weights = np.where(alive, without, -np.inf)
        whole = replace(system, log_weights=weights, log_increment=np.zeros(n))
        return replace(self, system=whole, exponent=None)
