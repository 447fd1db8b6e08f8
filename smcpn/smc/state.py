"""All that a sampler goes on from, as data, and what it traces sample by sample."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from smcpn.base.stored import Number, Share, Stored, Whole, finite, number
from smcpn.smc.estimation import MOST_STATE_PARTICLES
from smcpn.smc.particles import ParticleSystem, tempered
from smcpn.smc.rejuvenation import Rejuvenation

Array = NDArray[np.float64]


TRACED = 4096
"""Samples of a trace at most, the last one besides."""


@dataclass(frozen=True)
class Trace(Stored):
    """Effective sample size and log-evidence after every ``stride``-th sample, and after the last.

    The stride doubles whenever more than 4096 samples would be kept. What is kept depends on the
    number of samples only, not on the blocks in which they came.

    length: Samples seen.
    kept: (n, 2), effective sample size before a rejuvenation, and log p(y_0, ..., y_t), of the
        samples first, first + stride, first + 2 stride, ...
    last: (2,), of the last sample seen.
    first: The first sample after which they are known.
    """

    length: Annotated[Whole, number(0, "T")]
    stride: Annotated[Whole, number(1)]
    kept: Annotated[Array, finite(None, 2, missing=True)]
    last: Annotated[Array, finite(2, missing=True)]
    first: Annotated[Whole, number(0, "T")] = 0

    @classmethod
    def empty(cls) -> Trace:
        """Return the trace before the first sample."""
        return cls(0, 1, np.empty((0, 2)), np.full(2, np.nan))

    def extended(self, ess: Array, log_evidence: Array) -> Trace:
        """Return the trace after further samples, (n,) of both."""
        new = np.column_stack([ess, log_evidence])
        if not len(new):
            return self
        length, stride = self.length + len(new), self.stride
        following = (self.first - self.length) % stride
        kept = np.concatenate([self.kept, new[following::stride]])
        while len(kept) > TRACED:
            kept, stride = kept[::2], 2 * stride
        return Trace(length, stride, kept, new[-1], self.first)

    def corrected(self, log_evidence: float) -> Trace:
        """Return the trace with another log-evidence after the last sample."""
        kept, last = self.kept.copy(), np.array([self.last[0], log_evidence])
        if len(kept) and not self._last_is_extra:
            kept[-1, 1] = log_evidence
        return replace(self, kept=kept, last=last)

    @classmethod
    def of_end(cls, length: int, ess: float, log_evidence: float) -> Trace:
        """Return the trace of a method that has results at the last of ``length`` samples only."""
        end = np.array([ess, log_evidence])
        return cls(length, 1, end[None, :], end, length - 1)

    @property
    def regular(self) -> bool:
        """True if it is what `extended` makes of so many samples from the first known one on."""
        known, stride = self.length - self.first, 1
        while -(-known // stride) > TRACED:
            stride *= 2
        begun = known > 0 or self.length == self.first == 0
        return begun and self.stride == stride and len(self.kept) == -(-known // stride)

    @property
    def samples(self) -> NDArray[np.int64]:
        """Number of samples assimilated at each entry of the paths."""
        kept = self.first + np.arange(len(self.kept), dtype=np.int64) * self.stride + 1
        return np.append(kept, self.length) if self._last_is_extra else kept

    @property
    def ess(self) -> Array:
        """Effective sample size at each of `samples`."""
        return self._column(0)

    @property
    def log_evidence(self) -> Array:
        """Log-evidence at each of `samples`."""
        return self._column(1)

    @property
    def _last_is_extra(self) -> bool:
        last_kept = self.first + (len(self.kept) - 1) * self.stride
        return self.length > max(last_kept + 1, 0)

    def _column(self, k: int) -> Array:
        column = self.kept[:, k]
        return np.append(column, self.last[k]) if self._last_is_extra else column.copy()


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

    system: The posterior given the samples so far.
    random_state: Of the generator, when `Sampler.snapshot` returned the state.
    sample: Number of samples assimilated whole.
    exponent: Power of the likelihood increment that is assimilated, between two parts of a sample.
    trace: Effective sample size before a rejuvenation and log p(y_0, ..., y_t), after each sample.
    ess_before: Effective sample size at the sample under way, had it been assimilated whole.
    log_evidence_at_resampling, variance_at_start, unrelated_at_start: The account of the evidence,
        see `smcpn.smc.evidence`.
    log_pair_ratios: Of the resamplings since the evidence was last known independently.
    factors: Factors on the diffusion so far, on a path that lowers it.
    refining: Whether the increment is that to a finer likelihood of the same samples.
    pareto_k: Shape of the tail of the weights that led from another start than the prior to the
        posterior; nan before they are known, and for a run from the prior.
    state_particles: Of each filter of an estimated likelihood; 0 for an exact one.
    look_ahead: Whether these filters look ahead.
    log_floor: Logarithm of what was added to an approximate likelihood on the way from it to an
        estimate, see `smcpn.smc.estimation`; nan before, and for a run without.
    estimate_variance: Variance of an estimated log-likelihood at the mean of the particles, as last
        measured; nan before.
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
        """Refuse parts that do not fit each other."""
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
