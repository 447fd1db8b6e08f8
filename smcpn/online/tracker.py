"""The particles that track the posterior of a stream, and the thread that rejuvenates them.

Rejuvenations are `Ibis`'s own, made by a thread whose compiled loops release the interpreter.
Until the rejuvenated population has caught up with the present, the one before (`Interim`) goes on
with its weights alone; then the rejuvenated one takes its place. Both have the exact posterior at
any time.

While the rejuvenated population is little behind it assimilates what it has missed sample by
sample, and is the same, to the byte, as that of a batch run. When it is far behind (at the start
of a stream, where nearly every sample calls for a rejuvenation, or on a slow machine) it takes all
that it has missed in one leap, tempered as one informative sample would be.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.likelihood.contract import NO_KEYS, Keys, Likelihood
from smcpn.online.background import Background
from smcpn.online.reweighting import (
    AnyForecast,
    AnyLikelihood,
    Forecast,
    HiddenStates,
    ReweightedParticles,
    Reweighting,
)
from smcpn.smc.estimation import extended
from smcpn.smc.ibis import Ibis
from smcpn.smc.looks import next_look
from smcpn.smc.particles import ParticleSystem, Target, finite_or_excluded
from smcpn.smc.state import SamplerState

Array = NDArray[np.float64]

TRACED = 64
"""Samples whose effective sample size and evidence are added to the trace together."""
DEGRADED = 0.1
"""Share of the particles that must count for a summary to be trusted."""
LEAP, LEAP_SHARE = 16, 0.1
"""Samples, absolute and as a share of the history, by which the rejuvenated population must be
behind to take the samples in between together."""
MARGIN = 2e-4
"""Seconds of a budget that are kept free."""


@dataclass(frozen=True)
class BlockTarget(Target):
    """prior x p(y_<sample | theta) x p(y_sample, ..., y_end-1 | theta)^exponent.

    end: The samples from `sample` to before this one are assimilated together.
    """

    likelihood: AnyLikelihood
    end: int = 0

    @property
    def n_samples(self) -> int:
        """Samples whose likelihood an evaluation computes."""
        return self.end

    @override
    def particles(self, theta: Array, keys: Keys = NO_KEYS) -> ParticleSystem:
        values, accumulate, t = self.prior.natural(theta), self.likelihood.accumulate, self.sample
        state, log_likelihood = accumulate(values, None, 0, t, keys)
        state, log_increment = accumulate(values, state, t, self.end, keys)
        return ParticleSystem.of(
            theta,
            self.prior.log_density(theta),
            finite_or_excluded(log_likelihood),
            finite_or_excluded(log_increment),
            state,
            keys,
        )


class StreamIbis(Ibis):
    """`Ibis` that also assimilates single samples, as long as they call for no rejuvenation.

    `assimilate` and `advance` make the same particle system, to the byte.
    """

    likelihood: AnyLikelihood
    particles: ReweightedParticles
    # No property as of `Sampler`: it is read ten times for every sample.
    sample: int = 0
    last_ess = float("nan")
    forecast: AnyForecast = Forecast(np.empty(0), np.empty((2, 0)))

    @property
    def state(self) -> SamplerState:
        """State, into which the samples of `assimilate` are put when it is asked for."""
        self._put_together()
        return self._held

    @state.setter
    def state(self, state: SamplerState) -> None:
        held = vars(self).get("_held")
        if held is None or state.system is not held.system:
            self.particles = ReweightedParticles(state.system)
        self._held, self.sample = state, state.sample
        self._recent.clear()

    def _put_together(self) -> None:
        """Put the samples of `assimilate` into the state."""
        if self._recent:
            trace = self._held.trace.extended(*np.array(self._recent).T)
            self._held = replace(
                self._held, system=self.particles.system, sample=self.sample, trace=trace
            )
            self._recent.clear()

    @property
    def system(self) -> ParticleSystem:
        """The particles."""
        return self.particles.system

    @cached_property
    def fewest(self) -> float:
        """Effective particles from which a summary is to be trusted."""
        return DEGRADED * self.settings.particles

    @cached_property
    def _least(self) -> float:
        """Effective sample size below which a sample calls for a rejuvenation."""
        return self._threshold

    @cached_property
    def _reweighting(self) -> Reweighting:
        return Reweighting(self.prior, self.likelihood)

    @cached_property
    def _keyed(self) -> bool:
        """True if the likelihood is estimated, and needs keys."""
        return self.likelihood.state_particles > 0

    @override
    def _use(self, likelihood: Likelihood, finer: Likelihood | None = None) -> None:
        super()._use(likelihood, finer)
        vars(self).pop("_reweighting", None)

    @cached_property
    def _recent(self) -> list[tuple[float, float]]:
        """Effective sample size and evidence after the samples that `state` does not have yet."""
        return []

    def assimilate(self) -> bool:
        """Assimilate the next sample; where it calls for more than weights change nothing, False.

        That is for a rejuvenation, or for a look at what the particles have lost.
        """
        if self._keyed:
            self._with_keys(self.sample + 1)
        self.forecast = population = self._reweighting(self.particles, self.sample)
        ess, log_mean = population.summary
        if ess < self._least or self.sample + 1 == self._due:
            return False
        self.particles, self.last_ess = ReweightedParticles(self.particles.base, population), ess
        self.sample += 1  # pyright: ignore[reportIncompatibleMethodOverride]
        self._recent.append((ess, self._held.log_evidence_at_resampling + log_mean))
        if len(self._recent) >= TRACED:
            self._put_together()
        return True

    @cached_property
    def _due(self) -> float:
        """Number of samples after which there is the next look; forgotten where one may be due."""
        return math.inf if self.searches is None else self._next_look

    @override
    def _look_where_due(self, begin: int) -> None:
        """Look after so many samples as call for it; a stream has no last one."""
        if self.sample >= next_look(begin, len(self.prior)):
            self.look()
        vars(self).pop("_due", None)

    def looked(self) -> StreamIbis:
        """Return the population after a look at the samples so far; this one stays as it is.

        It is what a batch run does after its last sample.
        """
        self._put_together()
        other = copy(self)
        vars(other).pop("_recent", None)
        if self.sample != next_look(self.sample - 1, len(self.prior)):
            other.look()
        return other

    def give_reweighting(self) -> Reweighting:
        """Return what is prepared for the present particles, for a population that keeps them."""
        given, self._reweighting = self._reweighting, Reweighting(self.prior, self.likelihood)
        return given

    def begin(self) -> None:
        """Take the solver's state from the first sample, which makes it known."""
        values = self.prior.natural(self.system.theta)
        self._change_system(state=self.likelihood.start(values))

    def advance_by_one(self) -> None:
        """Assimilate the next sample, with the rejuvenations that it calls for."""
        last = self.sample + 1
        while self.sample < last:
            self.proceed(last)
        self.last_ess = self.system.ess

    @property
    def evidence_base(self) -> float:
        """Log-evidence where the weights were last equal."""
        return self._held.log_evidence_at_resampling

    def states(self) -> HiddenStates:
        """States at the last sample."""
        return self._reweighting.states(self.particles, self.sample - 1)

    def leap(self, end: int) -> None:
        """Assimilate the samples up to ``end`` together, as one informative sample.

        The posterior is the one that single samples lead to, by fewer rejuvenations.
        """
        self._draw_keys(end)
        system, begin = self.system, self.sample
        state, log_increment = self.likelihood.accumulate(
            self.prior.natural(system.theta), system.state, begin, end, system.keys
        )
        self._change_system(log_increment=finite_or_excluded(log_increment), state=state)
        self._begin_bridge()
        while not self._cross(BlockTarget(self.prior, self.likelihood, begin, 0.0, end)):
            pass
        self._add_increment()
        unknown = np.full((2, end - begin), np.nan)
        unknown[:, -1] = self.system.ess, self.log_evidence
        self._change(sample=end, trace=self.state.trace.extended(*unknown))
        self._look_where_due(begin)


class Interim:
    """A population whose weights alone change while the rejuvenated one is being made.

    It has the posterior all the time, with fewer and fewer particles that count.
    """

    def __init__(self, sampler: StreamIbis) -> None:
        self.particles, self.sample = sampler.particles, sampler.sample
        self.evidence_base, self.last_ess = sampler.evidence_base, sampler.system.ess
        self.forecast = sampler.forecast
        self.likelihood = sampler.likelihood
        self._reweighting = sampler.give_reweighting()
        # Keys of its own, for the thread at work uses the sampler's generator.
        self._rng = sampler.apart() if self.likelihood.state_particles else None

    @property
    def system(self) -> ParticleSystem:
        """The particles."""
        return self.particles.system

    def assimilate(self) -> None:
        """Assimilate the next sample, whatever it does to the weights."""
        if self._rng is not None:
            blocks = self.likelihood.n_keys(self.sample + 1)
            keys = extended(self._rng, self.particles.base.keys, blocks)
            self.particles = self.particles.with_keys(keys)
        self.forecast = population = self._reweighting(self.particles, self.sample)
        self.particles = ReweightedParticles(self.particles.base, population)
        self.last_ess, _ = population.summary
        self.sample += 1

    def states(self) -> HiddenStates:
        """States at the last sample."""
        return self._reweighting.states(self.particles, self.sample - 1)


Population = StreamIbis | Interim


class Tracker:
    """A population that tracks the posterior of a growing likelihood.

    The sampler may be a function that makes it in a thread, where it also catches up with the
    samples that are known already; see `ready`. ``observe`` is called with the population after
    every sample that an update assimilates.
    """

    sampler: StreamIbis

    def __init__(
        self,
        likelihood: AnyLikelihood,
        sampler: StreamIbis | Callable[[], StreamIbis],
        observe: Callable[[Population], None],
    ) -> None:
        self.likelihood, self.stream, self._observe = likelihood, likelihood.stream, observe
        self._interim: Interim | None = None
        self._offered: Interim | None = None
        self._work: Background[None] | None = None
        self._frozen = False
        if isinstance(sampler, StreamIbis):
            self.sampler = sampler
            return

        def begin(work: Background[None]) -> None:
            self.sampler = sampler()
            self._catch_up(work)

        self._work = Background(begin)

    @property
    def ready(self) -> bool:
        """True if it has caught up with the present."""
        return self._work is None or self._work.done

    @property
    def population(self) -> Population:
        """The population that has the most samples."""
        return self.sampler if self._interim is None else self._interim

    @property
    def lag(self) -> int:
        """Samples that the rejuvenation under way has still to catch up with."""
        behind = self.stream.n_samples - self.sampler.sample
        if self._interim is None:
            return behind
        return max(behind, self.stream.n_samples - self._interim.sample)

    def track(self, deadline: float | None) -> None:
        """Assimilate the samples that count, up to the ``deadline`` (of `time.perf_counter`).

        Without one, rejuvenations are made at once.
        """
        if self._frozen:
            self._track_interim(deadline)
            return
        if self._work is not None:
            if not self._work.done:
                self._track_interim(deadline)
                return
            self._take_over()
        sampler = self.sampler
        while sampler.sample < self.stream.n_samples:
            if sampler.sample == 0:
                sampler.begin()
            if not sampler.assimilate():
                if deadline is not None:
                    self.rejuvenate(deadline)
                    return
                sampler.advance_by_one()
            self._observe(sampler)

    def snapshot(self) -> SamplerState:
        """Return the state to go on from; that before a rejuvenation which is under way."""
        return self.sampler.snapshot() if self._work is None else self._before

    @property
    def frozen(self) -> bool:
        """True if it rejuvenates no more."""
        return self._frozen

    def settle(self) -> None:
        """Assimilate all samples that count and wait for rejuvenations."""
        if self._work is not None:
            self._work.wait()
            if not self._frozen:
                self._take_over()
        self.track(None)

    def rejuvenate(self, deadline: float) -> None:
        """Go on with the interim population, and let the sampler catch up in a thread."""
        self._interim, self._before = Interim(self.sampler), self.sampler.snapshot()
        try:
            self._track_interim(deadline)
        finally:
            if not self._frozen:
                # Last, for an update beside a thread shares the interpreter with it.
                self._work = Background(self._catch_up)

    def _catch_up(self, work: Background[None]) -> None:
        """Assimilate samples until none is left; the work of the thread."""
        sampler, stream = self.sampler, self.stream
        while sampler.sample < stream.n_samples and not work.given_up:
            if sampler.sample == 0:
                sampler.begin()
            made, behind = len(sampler.rejuvenations), stream.n_samples - sampler.sample
            if behind > max(LEAP, LEAP_SHARE * sampler.sample):
                sampler.leap(stream.n_samples)
            else:
                sampler.proceed(stream.n_samples)
                while sampler.state.exponent is not None:
                    sampler.proceed(stream.n_samples)
            if len(sampler.rejuvenations) > made:
                self._offer()

    def freeze(self) -> None:
        """Rejuvenate no more: the model does not fit what is coming."""
        self.give_up()
        self._frozen = True
        if self._interim is None:
            self._interim = Interim(self.sampler)

    def give_up(self) -> None:
        """Have the thread end after the part it is at."""
        if self._work is not None:
            self._work.given_up = True

    def _offer(self) -> None:
        """Let updates go on with the population as it is, weighted by the rest of the samples."""
        fresh = Interim(self.sampler)
        while fresh.sample < self.stream.n_samples:
            fresh.assimilate()
        self._offered = fresh

    def _track_interim(self, deadline: float | None) -> None:
        offered, self._offered = self._offered, None
        if offered is not None:
            self._interim = offered
        population = self._interim
        assert population is not None
        while population.sample < self.stream.n_samples:
            population.assimilate()
            self._observe(population)
            if deadline is not None and time.perf_counter() > deadline - MARGIN:
                break

    def _take_over(self) -> None:
        work, self._work = self._work, None
        self._interim = self._offered = None
        if work is not None:
            work.result()
        self.sampler.last_ess = self.sampler.system.ess
