"""The population that follows a stream, and the thread that rejuvenates it.

Rejuvenations are `Ibis`'s own, made by a thread whose compiled loops release the interpreter, at
the samples where `Ibis` makes them. Until the rejuvenated population has caught up with the present,
the one before is weighed on; then it takes its place. What the particles are therefore does not
depend on the budget or on timing: whenever nothing is under way they are the same bytes as those
of a batch run.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.growing import GrowingLikelihood
from smcpn.online.population import Provisional, StreamIbis
from smcpn.prior import Prior
from smcpn.smc.sampler import Settings

Array = NDArray[np.float64]

DEGRADED = 0.1
"""Share of the particles that must count for a summary to be trusted."""
SWITCH_INTERVAL = 2e-5
"""Seconds after which the thread at work gives way to an update."""
MARGIN = 2e-4
"""Seconds of a budget that are not waited through."""


class Follower:
    """One population that follows the posterior of a growing likelihood."""

    def __init__(
        self,
        prior: Prior,
        likelihood: GrowingLikelihood,
        settings: Settings,
        rng: np.random.Generator,
    ) -> None:
        self._likelihood = likelihood
        self.engine = StreamIbis(prior, likelihood, settings, rng)
        self._provisional: Provisional | None = None
        self._offered: Provisional | None = None
        self._worker: ThreadPoolExecutor | None = None
        self._work: Future[None] | None = None
        self._done = threading.Event()
        self.innovation = np.full(likelihood.history.n_outputs, np.nan)

    @property
    def population(self) -> StreamIbis | Provisional:
        """The one that knows most about the present."""
        return self.engine if self._provisional is None else self._provisional

    @property
    def sample(self) -> int:
        """Samples that `population` has absorbed."""
        return self.population.sample

    @property
    def lag(self) -> int:
        """Samples that the rejuvenation under way has still to catch up with."""
        return self._likelihood.n_samples - min(self.engine.sample, self.sample)

    @property
    def degraded(self) -> bool:
        """Whether too few particles count."""
        return self.population.last_ess < DEGRADED * self.engine.settings.particles

    @property
    def projected(self) -> float:
        """Seconds that the next rejuvenation is expected to take."""
        return self.engine.cost.next_seconds

    @property
    def rejuvenations(self) -> int:
        """Made so far."""
        return len(self.engine.rejuvenations)

    def follow(self, deadline: float | None) -> None:
        """Absorb the samples that count, up to the ``deadline`` (of `time.perf_counter`)."""
        if self._work is not None:
            if not self._done.is_set():
                self._follow_provisionally(deadline)
                return
            self._take_over()
        likelihood = self._likelihood
        while self.engine.sample < likelihood.n_samples:
            if self.engine.sample == 0:
                self._begin()
            if self.engine.absorb():
                continue
            if deadline is None:
                self.engine.advance(self.engine.sample + 1)
                while self.engine.exponent is not None:
                    self.engine.advance(self.engine.sample + 1)
            else:
                self._rejuvenate()
                self._follow_provisionally(deadline)
                return

    def settle(self) -> None:
        """Absorb all samples that count and wait for rejuvenations."""
        if self._work is not None:
            self._work.result()
            self._take_over()
        self.follow(None)

    def _begin(self) -> None:
        engine = self.engine
        values = engine.prior.natural(engine.system.theta)
        engine.set_state(self._likelihood.start(values))

    def _rejuvenate(self) -> None:
        self._provisional = Provisional(self.engine)
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, "smcpn-online")
        self._done.clear()
        self._work = self._worker.submit(self._catch_up)

    def _catch_up(self) -> None:
        """Go on as `Ibis` does until there is no sample left; the thread's work."""
        engine, likelihood = self.engine, self._likelihood
        try:
            made = len(engine.rejuvenations)
            while engine.sample < likelihood.n_samples:
                engine.advance(likelihood.n_samples)
                if engine.exponent is None and len(engine.rejuvenations) > made:
                    made = len(engine.rejuvenations)
                    self._offer()
        finally:
            self._done.set()

    def _offer(self) -> None:
        fresh = Provisional(self.engine)
        while fresh.sample < self._likelihood.n_samples:
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
            while population.sample < self._likelihood.n_samples:
                population.absorb()
                if deadline is not None and time.perf_counter() > deadline - MARGIN:
                    break
        finally:
            sys.setswitchinterval(interval)

    def _take_over(self) -> None:
        work, self._work = self._work, None
        self._provisional = self._offered = None
        if work is not None:
            work.result()
