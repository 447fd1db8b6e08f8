"""The population that follows a stream, and the thread that rejuvenates it.

Rejuvenations are `Ibis`'s own, made by a thread whose compiled loops release the interpreter.
Until the rejuvenated population has caught up with the present, the one before is weighed on; then
it takes its place. Both follow the exact posterior at any time.

While the rejuvenated population is little behind it absorbs what it has missed sample by sample,
and is the same, to the byte, as that of a batch run. When it is far behind (at the start of a
stream, where nearly every sample calls for a rejuvenation, or on a slow machine) it takes all that
it has missed in one leap, tempered as one informative sample would be.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from smcpn.likelihood.growing import GrowingLikelihood
from smcpn.online.population import Provisional, StreamIbis

DEGRADED = 0.1
"""Share of the particles that must count for a summary to be trusted."""
SWITCH_INTERVAL = 2e-5
"""Seconds after which the thread at work gives way to an update."""
LEAP, LEAP_SHARE = 16, 0.1
"""Samples, absolute and as a share of the history, by which the rejuvenated population must be
behind to take the samples in between together."""
MARGIN = 2e-4
"""Seconds of a budget that are kept free."""

Population = StreamIbis | Provisional


class Follower:
    """One population that follows the posterior of a growing likelihood.

    Parameters
    ----------
    likelihood : GrowingLikelihood
    engine : StreamIbis
    observe : callable
        Called with the population after every sample that an update absorbs.
    """

    def __init__(
        self,
        likelihood: GrowingLikelihood,
        engine: StreamIbis,
        observe: Callable[[Population], None],
    ) -> None:
        self.likelihood, self.engine, self._observe = likelihood, engine, observe
        self._provisional: Provisional | None = None
        self._offered: Provisional | None = None
        self._work: _Work | None = None
        self._frozen = False

    @classmethod
    def begun(
        cls,
        likelihood: GrowingLikelihood,
        engine: Callable[[], StreamIbis],
        observe: Callable[[Population], None],
    ) -> Follower:
        """Begin with samples that are known already, in a thread; see `ready`."""
        follower = cls.__new__(cls)
        follower.likelihood, follower._observe = likelihood, observe
        follower._provisional, follower._offered, follower._frozen = None, None, False

        def begin(work: _Work) -> None:
            follower.engine = engine()
            follower._catch_up(work)

        follower._work = _Work(begin)
        return follower

    @property
    def ready(self) -> bool:
        """Whether it has caught up with the present."""
        return self._work is None or self._work.done.is_set()

    @property
    def population(self) -> Population:
        """The one that knows most about the present."""
        return self.engine if self._provisional is None else self._provisional

    @property
    def busy(self) -> bool:
        """Whether a rejuvenation is under way."""
        return self._work is not None

    @property
    def lag(self) -> int:
        """Samples that the rejuvenation under way has still to catch up with."""
        return self.likelihood.n_samples - min(self.engine.sample, self.population.sample)

    @property
    def degraded(self) -> bool:
        """Whether too few particles count."""
        return self.population.last_ess < DEGRADED * self.engine.settings.particles

    def follow(self, deadline: float | None) -> None:
        """Absorb the samples that count, up to the ``deadline`` (of `time.perf_counter`).

        Without one, rejuvenations are made at once.
        """
        if self._frozen:
            self._follow_provisionally(deadline)
            return
        if self._work is not None:
            if not self._work.done.is_set():
                self._follow_provisionally(deadline)
                return
            self._take_over()
        engine = self.engine
        while engine.sample < self.likelihood.n_samples:
            if engine.sample == 0:
                engine.begin()
            if not engine.absorb():
                if deadline is not None:
                    self.rejuvenate()
                    self._follow_provisionally(deadline)
                    return
                engine.advance_by_one()
            self._observe(engine)

    def settle(self) -> None:
        """Absorb all samples that count and wait for rejuvenations."""
        if self._work is not None:
            self._work.done.wait()
            self._take_over()
        self.follow(None)

    def rejuvenate(self) -> None:
        """Let the engine catch up in a thread, and go on provisionally."""
        self._provisional = Provisional(self.engine)
        self._work = _Work(self._catch_up)

    def _catch_up(self, work: _Work) -> None:
        """Go on until there is no sample left; the thread's work."""
        engine, likelihood = self.engine, self.likelihood
        while engine.sample < likelihood.n_samples and not work.given_up:
            if engine.sample == 0:
                engine.begin()
            made, behind = len(engine.rejuvenations), likelihood.n_samples - engine.sample
            if behind > max(LEAP, LEAP_SHARE * engine.sample):
                engine.leap(likelihood.n_samples)
            else:
                engine.advance(likelihood.n_samples)
                while engine.exponent is not None:
                    engine.advance(likelihood.n_samples)
            if len(engine.rejuvenations) > made:
                self._offer()

    def freeze(self) -> None:
        """Rejuvenate no more, only weigh: the model does not fit what is coming."""
        self.give_up()
        self._frozen = True
        if self._provisional is None:
            self._provisional = Provisional(self.engine)

    def give_up(self) -> None:
        """Have the thread end after the part it is at."""
        if self._work is not None:
            self._work.given_up = True

    def _offer(self) -> None:
        """Let updates go on with the population as it is, the rest of the samples weighed."""
        fresh = Provisional(self.engine)
        while fresh.sample < self.likelihood.n_samples:
            fresh.absorb()
        self._offered = fresh

    def _follow_provisionally(self, deadline: float | None) -> None:
        interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL)
        try:
            offered, self._offered = self._offered, None
            if offered is not None:
                self._provisional = offered
            population = self._provisional
            assert population is not None
            while population.sample < self.likelihood.n_samples:
                population.absorb()
                self._observe(population)
                if deadline is not None and time.perf_counter() > deadline - MARGIN:
                    break
        finally:
            sys.setswitchinterval(interval)

    def _take_over(self) -> None:
        work, self._work = self._work, None
        self._provisional = self._offered = None
        if work is not None and work.error is not None:
            raise work.error
        self.engine.last_ess = self.engine.system.ess


class _Work:
    """A task in a thread of its own."""

    def __init__(self, task: Callable[[_Work], None]) -> None:
        self.done, self.given_up, self.error = threading.Event(), False, None
        self._task = task
        threading.Thread(target=self._run, name="smcpn-online", daemon=True).start()

    def _run(self) -> None:
        try:
            self._task(self)
        except BaseException as error:
            self.error = error
        finally:
            self.done.set()
