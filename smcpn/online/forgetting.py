"""Forgetting: the posterior given the recent samples only, for parameters that drift.

Every half window a population begins anew, from the prior and the samples of the last window, in
the background; when it has caught up it takes the place of the one before. After an alarm a
population begins at the change instead, whatever was before it. A posterior is therefore one given
at least the last window, and at most one and a half of it.

This is approximate in two ways. Samples before the window do not count at all, though the parameters
may not have changed. And the state at the beginning of the window is taken as known: the posterior
mean that the population before had of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.growing import GrowingLikelihood
from smcpn.likelihood.history import History
from smcpn.online.change import Alarm
from smcpn.online.follower import Follower, Population
from smcpn.online.population import StreamIbis

Array = NDArray[np.float64]

RENEWED = 1.5
"""A population is replaced when it counts this many windows of samples."""
FEWEST = 16
"""Samples since a change with which a population begins at once."""

MakeEngine = Callable[[GrowingLikelihood], StreamIbis]


class Stretch:
    """A stretch of the stream, and the population that follows it.

    Attributes
    ----------
    begin : int
        Number of its first sample in the stream.
    follower : Follower
    """

    def __init__(self, begin: int, follower: Follower) -> None:
        self.begin, self.follower = begin, follower

    @property
    def likelihood(self) -> GrowingLikelihood:
        """Of the samples of the stretch."""
        return self.follower.likelihood


class Forgetting:
    """Decides when a population begins anew, and where.

    Parameters
    ----------
    window : float
        Seconds.
    make_engine : callable
        From a likelihood to a sampler at the prior.
    observe : callable
        See `Follower`.
    """

    def __init__(
        self, window: float, make_engine: MakeEngine, observe: Callable[[Population], None]
    ) -> None:
        self.window, self._make_engine, self._observe = window, make_engine, observe
        self._next: Stretch | None = None
        self._states: dict[int, Array] = {}
        self._since: int | None = None

    def note(self, sample: int, states: Array) -> None:
        """Remember the posterior mean of the states, (n,), at a sample of the stream."""
        self._states[sample] = states

    def append(self, t: Array, u: Array, y: Array) -> None:
        """Give samples to the population that is being made."""
        if self._next is not None:
            self._next.likelihood.append(t, u, y)

    def changed(self, alarm: Alarm) -> None:
        """Begin anew where the system changed."""
        self._since = alarm.since_sample
        if self._next is not None and self._next.begin < self._since:
            self._next.follower.give_up()
            self._next = None

    def renewed(self, current: Stretch, at_once: bool) -> Stretch | None:
        """Return the stretch that takes the place of ``current``, where it is ready.

        Parameters
        ----------
        at_once : bool
            Wait until it is.
        """
        if self._next is None:
            begin = self._beginning(current)
            if begin is not None:
                self._begin(current, begin)
        if self._next is None or not (at_once or self._next.follower.ready):
            return None
        following, self._next = self._next, None
        following.follower.settle() if at_once else None
        for sample in [s for s in self._states if s < following.begin]:
            del self._states[sample]
        return following

    def _beginning(self, current: Stretch) -> int | None:
        """Sample at which a new population should begin; None where there is no need."""
        n = current.likelihood.n_samples
        if self._since is not None:
            if current.begin + n - self._since < FEWEST:
                return None
            begin, self._since = self._since, None
            return begin
        history = current.likelihood.history
        last = history.time(n - 1)
        if last - history.time(0) < RENEWED * self.window:
            return None
        a, b = 0, n - 1
        while b - a > 1:
            middle = (a + b) // 2
            a, b = (middle, b) if history.time(middle) < last - self.window else (a, middle)
        return current.begin + b

    def _begin(self, current: Stretch, begin: int) -> None:
        # A sample that was absorbed in haste was not noted: the next one was.
        begin = min((s for s in self._states if s >= begin), default=-1)
        if begin < 0:
            return
        old = current.likelihood
        history = History(old.history.n_inputs, old.history.n_outputs)
        likelihood = old.renewed(history, self._states[begin])
        likelihood.append(*old.history.samples(begin - current.begin, len(old.history)))
        follower = Follower.begun(likelihood, lambda: self._make_engine(likelihood), self._observe)
        self._next = Stretch(begin, follower)
