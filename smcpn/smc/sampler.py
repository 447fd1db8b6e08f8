"""The base of all samplers: a population, its rejuvenations, its evidence and cost.

A sampler takes particles from the prior to the posterior through a sequence of targets, by
importance weights between them and Metropolis moves where the effective sample size falls: the
SMC sampler of Chopin (2002) and Del Moral, Doucet and Jasra (2006). Which targets, a subclass says.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.likelihood.contract import EstimatedLikelihood, Likelihood, is_estimated
from smcpn.model.prior import Prior
from smcpn.smc.estimation import (
    FIRST,
    MOST_CARRIED,
    MOST_VARIANCE,
    WITNESSES,
    enough,
    exchanged,
    fresh_keys,
    spread_out,
    variance_at_mean,
    with_prior_share,
)
from smcpn.smc.evidence import EvidenceEstimate, ancestral_variance, pooled, unrelated_share
from smcpn.smc.moves import IndependentMetropolis, MoveStrategy
from smcpn.smc.particles import (
    ParticleSystem,
    RefinementTarget,
    Start,
    Target,
    finite_or_excluded,
    foreseen_exponent,
    log_mean_exp,
    log_ratio,
    next_exponent,
    tempered,
)
from smcpn.smc.rejuvenation import Cost, Rejuvenation, chains_of, cost_so_far, growth
from smcpn.smc.resampling import Resample, systematic
from smcpn.smc.state import RandomState, SamplerState, Trace

Array = NDArray[np.float64]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """Settings of a sampler.

    particles: Number of particles N.
    ess: Rejuvenate when the effective sample size falls below this share of N.
    block: Most samples evaluated in one call. Results do not depend on it.
    resample: One of `smcpn.smc.resampling`.
    start: A density near the posterior to begin at, in place of the prior; `Tempering` can.
    state_particles: Of each filter that estimates a likelihood; by default 32, doubled until they
        are enough.
    """

    particles: int = 1000
    ess: float = 0.5
    block: int = 64
    moves: MoveStrategy = field(default_factory=IndependentMetropolis)
    resample: Resample = systematic
    start: Start | None = None
    state_particles: int | None = None

    def __post_init__(self) -> None:
        if self.particles < 10:
            raise InputError(f"particles is {self.particles}: use at least 10")
        if not 0.0 < self.ess < 1.0:
            raise InputError(f"ess is {self.ess}: choose a share between 0 and 1")
        if self.block < 1:
            raise InputError(f"block is {self.block}: choose 1 or more samples")
        self.moves.check(self.particles)


@dataclass(frozen=True)
class Progress:
    """Progress of a run, as given to the ``progress`` callback.

    ``workers`` says how many take part, of a run with an executor.
    """

    sample: int
    n_samples: int
    ess: float
    log_evidence: float
    rejuvenations: tuple[Rejuvenation, ...]
    cost: Cost
    workers: str = ""


class Sampler(ABC):
    """A population of particles, moved from the prior, or another start, to the posterior.

    It goes in parts: a block of samples, or one exponent of the next one with its rejuvenation.
    Between parts a `snapshot` has all that it goes on from.

    state: Replaced in every part; only the random generator goes on in place.
    finer: The one that the population is carried over to, between `refine` and the end of that.
    """

    takes_start: ClassVar[bool] = False
    """Whether it can begin elsewhere than at the prior."""

    def __init__(
        self,
        prior: Prior,
        likelihood: Likelihood,
        settings: Settings,
        rng: np.random.Generator,
    ) -> None:
        if is_estimated(likelihood):
            likelihood = likelihood.with_state_particles(settings.state_particles or FIRST)
        if settings.start is not None and not self.takes_start:
            raise InputError(
                "start is given, but only method='tempering' can begin elsewhere than at the "
                "prior: choose that method, or leave start out"
            )
        self.prior, self.settings, self._rng = prior, settings, rng
        begin: Start = prior if settings.start is None else settings.start
        theta = begin.sample(rng, settings.particles)
        n = len(theta)
        nothing, itself = np.zeros(n), np.arange(n)
        system = ParticleSystem(
            theta=theta,
            log_weights=nothing,
            log_prior=begin.log_density(theta),
            log_likelihood=nothing,
            log_increment=nothing,
            state=likelihood.start(prior.natural(theta)),
            ancestor=itself,
            lineage=itself,
        )
        self.state = SamplerState(system, RandomState.of(rng))
        self._use(likelihood)
        self._begin_ancestry(0.0)

    @classmethod
    def resumed(
        cls,
        prior: Prior,
        likelihood: Likelihood,
        settings: Settings,
        state: SamplerState,
        finer: Likelihood | None = None,
    ) -> Self:
        """Return the sampler of a `snapshot`; continued, it ends in the same bytes.

        ``finer`` is what it is being carried over to, where it is.
        """
        if state.system.theta.shape != (settings.particles, len(prior)):
            raise InputError(
                f"a population has {state.system.theta.shape} numbers, not those of "
                f"{settings.particles} particles and {len(prior)} parameters: begin anew"
            )
        sampler = cls.__new__(cls)
        sampler.prior, sampler.settings = prior, settings
        sampler._rng, sampler.state = state.random_state.generator(), state
        sampler._use(likelihood, finer if state.refining else None)
        sampler._require_keys()
        return sampler

    def snapshot(self) -> SamplerState:
        """Return the state with that of the random generator, from which `resumed` continues."""
        return replace(self.state, random_state=RandomState.of(self._rng))

    def _change(self, **fields: Any) -> None:
        """Replace fields of the state."""
        self.state = replace(self.state, **fields)

    def _change_system(self, **columns: Any) -> None:
        """Replace what particles have."""
        self._change(system=replace(self.system, **columns))

    def _use(self, likelihood: Likelihood, finer: Likelihood | None = None) -> None:
        """Put a likelihood in force, and the finer one that the population is carried over to."""
        self.likelihood, self.finer = likelihood, finer
        in_force = self.in_force
        self._change(
            refining=finer is not None,
            state_particles=in_force.state_particles,
            look_ahead=in_force.look_ahead,
        )

    @property
    def system(self) -> ParticleSystem:
        """The particles: the posterior given the samples so far."""
        return self.state.system

    @property
    def sample(self) -> int:
        """Number of samples assimilated whole."""
        return self.state.sample

    @property
    def rejuvenations(self) -> tuple[Rejuvenation, ...]:
        """Rejuvenations so far."""
        return self.state.rejuvenations

    def _require_keys(self) -> None:
        """Refuse particles whose keys do not fit the likelihood."""
        number, needed = self.system.keys.shape[1], self.in_force.n_keys
        fewest, most = needed(self._keyed_samples), needed(self.likelihood.n_samples)
        if not fewest <= number <= most:
            raise InputError(
                f"particles have {number} keys, and {fewest} to {most} fit their likelihood: begin "
                "anew"
            )

    @property
    def _keyed_samples(self) -> int:
        """Samples whose keys have been drawn at least."""
        return self.sample

    @abstractmethod
    def proceed(self, last: int) -> None:
        """Compute the next part on the way to sample ``last``."""

    @abstractmethod
    def _recomputed(self, index: Any) -> tuple[Array, Array, Array]:
        """Particles `recomputed` with one likelihood."""

    def recomputed(self, index: Any) -> tuple[Array, Array, Array]:
        """Likelihood of particles, evaluated from the first sample on.

        Returned are the state, (k, n), and log-likelihood and log-increment, (n,).
        """
        theta, keys = self.system.theta[index], self.system.keys[index]
        if self.finer is not None:
            system = self._between().particles(theta, keys)
            return system.state, system.log_likelihood, system.log_increment
        if np.isnan(self.state.log_floor):
            return self._recomputed(index)
        values = self.prior.natural(theta)
        state, log_likelihood = self.likelihood.evaluate(values, self.sample, keys)
        return state, finite_or_excluded(log_likelihood), np.zeros(len(theta))

    @property
    def in_force(self) -> Likelihood:
        """The likelihood that particles have keys of: the finer one on the way to it."""
        return self.likelihood if self.finer is None else self.finer

    def compared(self, finer: Likelihood, index: Any = slice(None)) -> ParticleSystem:
        """Particles with the log ratio of a finer likelihood to theirs as the log increment.

        The finer one is of the same records, and ``index`` an index, slice or mask of the
        particles.
        """
        system = self.system.take(index)
        state, log_likelihood = finer.evaluate(self.prior.natural(system.theta), self.sample)
        change = log_ratio(log_likelihood, system.log_likelihood)
        return replace(system, log_increment=change, state=state)

    def refine(self, finer: Likelihood, compared: ParticleSystem) -> None:
        """Begin to carry the population over to a finer likelihood, evidence included.

        `cross_refinement` goes on with it.

        ``compared`` is what the method of that name returned for it.
        """
        self._use(self.likelihood, finer)
        self._change(system=compared)
        self._begin_bridge()

    def begin_estimate(self, estimate: EstimatedLikelihood) -> None:
        """Begin to carry the posterior over to an estimated likelihood, evidence included.

        `cross_refinement` goes on with it; `smcpn.smc.estimation` explains the way.
        """
        evidence = EvidenceEstimate(self.log_evidence, self._evidence_variance())
        mixed = with_prior_share(self.system, self.prior, self._log_likelihood, self._rng)
        estimate = estimate.with_state_particles(self.settings.state_particles or FIRST)
        self._use(self.likelihood, self._suited(estimate))
        self._change(
            system=replace(
                mixed.system,
                keys=fresh_keys(self._rng, len(mixed.system), estimate.n_keys(self.sample)),
            ),
            log_floor=evidence.log + float(np.log(mixed.share) - np.log1p(-mixed.share)),
            log_evidence_at_resampling=evidence.log - float(np.log1p(-mixed.share)),
        )
        self._measure(self._between())
        found = self._between().particles(self.system.theta, self.system.keys)
        self._change_system(
            log_likelihood=found.log_likelihood,
            log_increment=found.log_increment,
            state=found.state,
        )
        self._begin_ancestry(evidence.variance)
        self._begin_bridge()

    def cross_refinement(self) -> None:
        """Compute the next part on the way to the finer likelihood."""
        assert self.finer is not None
        if not self._cross(self._between()):
            return
        self._use(self.finer)
        self._add_increment()
        self._change(trace=self.state.trace.corrected(self.log_evidence))

    def _add_increment(self) -> None:
        """Add the log increment to the log-likelihood."""
        system = self.system
        self._change_system(
            log_likelihood=system.log_likelihood + system.log_increment,
            log_increment=np.zeros(len(system)),
        )

    def _end(self) -> None:
        """Have all samples count at once."""
        samples = self.likelihood.n_samples
        trace = Trace.of_end(samples, self.system.ess, self.log_evidence)
        self._change(sample=samples, trace=trace)

    def _between(self) -> RefinementTarget:
        """The target on the way to the finer likelihood."""
        assert self.finer is not None
        state, coarse = self.state, self.likelihood
        floor = -np.inf if np.isnan(state.log_floor) else state.log_floor
        return RefinementTarget(
            self.prior, coarse, state.sample, state.exponent or 0.0, self.finer, floor
        )

    def _log_likelihood(self, theta: Array) -> Array:
        """Exact log-likelihood of parameters (n, d), given the samples so far."""
        return self.likelihood.evaluate(self.prior.natural(theta), self.sample)[1]

    def _measure(self, target: Target) -> None:
        """Choose the state particles of the estimate by their variance under a target."""
        estimate = self.in_force
        assert is_estimated(estimate)
        # On the way from an approximation all of the estimate is soon to count.
        most = MOST_VARIANCE
        if self.finer is not None:
            target, most = replace(target, exponent=1.0), MOST_CARRIED
        if self.settings.state_particles is None:
            estimate, variance = enough(target, estimate, self.system, self._rng, most)
            self._put(estimate)
        else:
            variance = variance_at_mean(target, self.system, self._rng)
        self._change(estimate_variance=variance)

    def _put(self, estimate: EstimatedLikelihood) -> None:
        """Put an estimate in force."""
        if self.finer is None:
            self._use(estimate)
        else:
            self._use(self.likelihood, estimate)

    def _suited(self, estimate: EstimatedLikelihood) -> EstimatedLikelihood:
        """The filters that estimate better at particles as they are now."""
        some = spread_out(self.system, WITNESSES)
        return estimate.suited(self.prior.natural(self.system.theta[some]))

    def _exchange(self, target: Target) -> Target:
        """Take other filters, or more state particles, where a target calls for it.

        All keys are then drawn anew.

        Returns the target with the estimate that is in force then.
        """
        before = self.in_force
        if not is_estimated(before):
            return target
        if self.finer is not None:
            self._put(self._suited(before))
        self._measure(target.with_estimate(self.in_force))
        after = self.in_force
        as_before = after.look_ahead == before.look_ahead
        if as_before and after.state_particles == before.state_particles:
            return target
        larger = target.with_estimate(after)
        self._change(system=exchanged(self.system, target, larger, self._rng))
        self._check_alive()
        _log.info("%d state particles", after.state_particles)
        return larger

    def take_back(self, anew: Sampler | None, missed: float) -> None:
        """Go on with a population that holds what this one has lost; see `smcpn.smc.looks`.

        ``anew`` has the same samples; it is None where nothing was lost, or it cannot be had, and
        ``missed`` is then the log posterior of what was lost and cannot be had, else nan.
        """
        before = [replace(one, missed=float("nan")) for one in self.rejuvenations]
        before[-1] = replace(before[-1], missed=missed)
        made = [] if anew is None else anew.rejuvenations
        self._change(rejuvenations=(*before, *(replace(one, sample=self.sample) for one in made)))
        if anew is None:
            return
        evidence = anew.log_evidence - float(log_mean_exp(anew.system.log_weights))
        self._change(system=anew.system, log_evidence_at_resampling=evidence)
        self._begin_ancestry(anew.log_evidence_se**2)
        self._change(trace=self.state.trace.corrected(self.log_evidence))

    def apart(self) -> np.random.Generator:
        """A generator far from where the sampler's own one is, which stays there."""
        return np.random.Generator(cast(np.random.PCG64, self._rng.bit_generator).jumped())

    def exchange(self, likelihood: Likelihood) -> None:
        """Go on with another likelihood of the same samples, which is nearly that in force."""
        self._use(likelihood)
        self.reweight()

    def reweight(self) -> None:
        """Replace the likelihood, and multiply the weights by the ratio of the new to the old one.

        The input near the end of a record changes, for instance, when more of it becomes known.
        """
        state, log_likelihood, log_increment = self.recomputed(slice(None))
        system, exponent = self.system, self.state.exponent or 0.0
        alive = np.isfinite(system.log_weights)
        with np.errstate(invalid="ignore"):
            change = log_likelihood - system.log_likelihood
            change += tempered(log_increment, exponent) - tempered(system.log_increment, exponent)
        self._change_system(
            log_weights=np.where(alive, system.log_weights + change, -np.inf),
            log_likelihood=log_likelihood,
            log_increment=log_increment,
            state=state,
        )

    def run(
        self, last: int | None = None, progress: Callable[[Progress], None] | None = None
    ) -> None:
        """Assimilate the samples up to ``last`` (all, by default)."""
        last = self.likelihood.n_samples if last is None else last
        while self.sample < last:
            self.proceed(last)
            if progress is not None:
                progress(self.progress())

    @property
    def log_evidence(self) -> float:
        """Log p(y) of the samples assimilated so far."""
        return self.state.log_evidence_at_resampling + float(log_mean_exp(self.system.log_weights))

    @property
    def log_evidence_se(self) -> float:
        """Standard error of `log_evidence`."""
        return float(np.sqrt(self._evidence_variance()))

    @property
    def cost(self) -> Cost:
        """Work done so far, and that of the next rejuvenation."""
        return cost_so_far(self.settings.particles, self.sample, self.rejuvenations)

    def _begin_bridge(self) -> None:
        """Begin to assimilate the log increment in parts, at exponents from 0 to 1."""
        self._check_alive()
        self._change(exponent=0.0)

    def _cross(self, target: Target) -> bool:
        """Assimilate one more part of the log increment; return whether that was the last."""
        before = self.state.exponent
        assert before is not None
        exponent, log_weights = self._next_exponent(before)
        self._change_system(log_weights=log_weights)
        # At the end, where nothing moves them again, copies count once.
        low = self.system.ess < self._threshold or self.system.crowded
        at_once = self._leaves_approximation and before == 0.0
        if low or exponent < 1.0 or not (at_once or self._weights_tell_error()):
            self._rejuvenate(replace(target, exponent=exponent))
        whole = exponent >= 1.0
        self._change(exponent=None if whole else exponent)
        return whole

    def _next_exponent(self, exponent: float) -> tuple[float, Array]:
        """Next exponent and the weights there; on a long path of chains it is foreseen."""
        weights, increment = self.system.log_weights, self.system.log_increment
        path: list[tuple[float, float]] = []
        for record in reversed(self.rejuvenations):
            following = path[-1][0] if path else 1.0
            if not record.chains or not 0.0 < record.exponent < following:
                break
            path.append((record.exponent, record.ess / self.settings.particles))
        if path and path[0][0] == exponent:
            found = foreseen_exponent(weights, increment, path[::-1], self.settings.ess)
            if found is not None:
                return found
        return next_exponent(weights, increment, exponent, self._threshold)

    def _rejuvenate(self, target: Target) -> None:
        target = self._exchange(target)
        by_weights = EvidenceEstimate(self.log_evidence, self._evidence_variance())
        previous = self.rejuvenations[-1] if self.rejuvenations else None
        before, told = self.system, self._weights_tell_error()
        system, record = self.settings.moves.rejuvenate(
            self.system, target, self._rng, self.settings.resample, previous
        )
        self._change(system=system, rejuvenations=(*self.rejuvenations, record))
        _log.info(
            "rejuvenation %d at sample %d, exponent %.2g: acceptance %.2f, moves %d",
            len(self.rejuvenations), record.sample, record.exponent, record.acceptance,
            record.moves,
        )  # fmt: skip
        grown = 0.0 if record.chains else growth(before, self.system, record.ess)
        self._change(
            log_evidence_at_resampling=by_weights.log,
            log_pair_ratios=(*self.state.log_pair_ratios, record.log_pair_ratio),
        )
        if np.isfinite(record.evidence.variance):
            whole = told and not grown
            both = pooled([by_weights, record.evidence]) if whole else record.evidence
            self._change(log_evidence_at_resampling=both.log)
            self._begin_ancestry(both.variance)
        elif record.chains:
            self._begin_chains(before, previous, by_weights.variance)
        else:
            self._change(variance_at_start=self.state.variance_at_start + grown**2)

    def _begin_chains(
        self, before: ParticleSystem, previous: Rejuvenation | None, variance: float
    ) -> None:
        """Account for the errors of a population of chains together with those of the one before.

        The relative errors e_t of the factors of the evidence are correlated, for a chain
        remembers where in the population before it began, but hardly beyond that one:
        var(sum e_t) = sum of var(e_{t-1} + e_t) - var(e_{t-1}). The first is the ancestral
        variance from the chains of the population before on, the second that of it alone
        (Olsson and Douc 2019, with a lag of one).
        """
        chain = chains_of(before, previous)
        share = unrelated_share(np.full(len(before), 1.0 / len(before)), chain)
        alone = ancestral_variance(before.weights, chain, share, [])
        self._change(
            variance_at_start=max(0.0, variance - alone),
            unrelated_at_start=share,
            log_pair_ratios=self.state.log_pair_ratios[-1:],
        )

    def _begin_ancestry(self, variance: float) -> None:
        """Restart the estimate of the evidence's variance, from a point where it is known."""
        _, lineage = np.unique(self.system.theta[:, 0], return_inverse=True)
        self._change(
            system=replace(self.system, lineage=lineage),
            variance_at_start=variance,
            unrelated_at_start=unrelated_share(self.system.weights, lineage),
            log_pair_ratios=(),
        )

    def _weights_tell_error(self) -> bool:
        """True if the weights can tell the error of the evidence; where not, proposals have to.

        Those that lead from an approximate posterior to an estimate in several parts cannot: what
        the approximation excludes is known to a few draws from the prior, the exponents follow from
        what these have seen, and where they saw little the evidence is too low and seems certain.
        """
        return not self._leaves_approximation

    @property
    def _leaves_approximation(self) -> bool:
        """True if it is on the way from an approximate posterior to an estimate."""
        return self.finer is not None and not np.isnan(self.state.log_floor)

    def _evidence_variance(self) -> float:
        state, system = self.state, self.system
        return state.variance_at_start + ancestral_variance(
            system.weights, system.lineage, state.unrelated_at_start, state.log_pair_ratios
        )

    def _check_alive(self) -> None:
        alive = np.isfinite(self.system.log_weights) & np.isfinite(self.system.log_increment)
        if not alive.any():
            begin = "prior" if self.settings.start is None else "start"
            when = "for every particle" if self.rejuvenations else f"at every draw from the {begin}"
            place = f" at sample {self.sample}" if self.sample else ""
            raise InputError(
                f"the model's solution is NaN or infinite {when}{place}: "
                "check the model and units, that of time as well (t_unit of the record), "
                "narrow the prior, raise steps, or, where the model is stiff, take solver='auto' "
                "or smcpn.Rosenbrock()"
            )

    @property
    def _threshold(self) -> float:
        return self.settings.ess * self.settings.particles

    def progress(self) -> Progress:
        """Return the `Progress` of the run."""
        return Progress(
            sample=self.sample,
            n_samples=self.likelihood.n_samples,
            ess=self.system.ess,
            log_evidence=self.log_evidence,
            rejuvenations=self.rejuvenations,
            cost=self.cost,
        )
