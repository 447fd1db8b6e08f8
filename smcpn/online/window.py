"""Forgetting: the posterior given the recent samples only, for parameters that drift.

Every half window a population begins anew, from the prior and the samples of the last window, in
the background; when it has caught up it takes the place of the one before. After an alarm a
population begins at the change instead, whatever was before it. A posterior is therefore one given
at least the last window and at most one and a half of it, or the samples since the change.

This is APPROXIMATE. Samples before the window do not count at all, though the parameters may not
have changed; and the prior of the state at its beginning, normal around what the population before
knew of it, has been told by samples that are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from smcpn.likelihood.growing import GrowingLikelihood, History
from smcpn.model.prior import Prior
from smcpn.model.problem import Problem
from smcpn.online.change import Alarm
from smcpn.online.tracker import Follower, Population

Array = NDArray[np.float64]

RENEWED = 1.5
"""A population is replaced when it counts this many windows of samples."""
FEWEST = 16
"""Samples since a change with which a population begins."""
STATE_SD = 0.3
"""Prior standard deviation of a state at the beginning of a window, of its rms."""


class Stretch:
    """A stretch of the stream, and the population that follows it.

    Attributes
    ----------
    begin : int
        Number of its first sample in the stream.
    follower : Follower
    prior : Prior
        Of the population.
    start : ndarray, (2, n)
        Mean and deviation of the states at its first sample; empty for the first stretch.
    """

    def __init__(
        self, begin: int, follower: Follower, prior: Prior, start: Array | None = None
    ) -> None:
        self.begin, self.follower, self.prior = begin, follower, prior
        self.start = np.empty((2, 0)) if start is None else start

    @property
    def likelihood(self) -> GrowingLikelihood:
        """Of the samples of the stretch."""
        return self.follower.likelihood


class FreeStart:
    """A problem whose initial state is unknown, whatever it was before.

    Attributes
    ----------
    problem : Problem
        Its first parameters are those of the original problem that the equation, the outputs and
        the noise depend on; the states at the first sample come last.
    """

    def __init__(self, problem: Problem) -> None:
        model, prior, self._states = problem.model, problem.prior, problem.ode.states
        diffusion = [] if model.diffusion is None else [model.diffusion]
        graph = ca.vertcat(model.rhs, model.outputs, model.noise_variance, *diffusion)
        numbers = [j for j in range(len(prior)) if ca.depends_on(graph, model.theta[j])]
        names = [prior.names[j] for j in numbers]
        self._kept = {name: prior.distributions[name] for name in names}
        self._coordinates = {n: c for n, c in prior.coordinates.items() if n in names}
        start = ca.vertcat(*[ca.SX.sym(f"{state}(0)") for state in problem.ode.states])
        theta = ca.vertcat(*[model.theta[j] for j in numbers], start)
        self.problem = Problem.assembled(
            ode=problem.ode,
            records=problem.records[:1],
            model=replace(model, theta=theta, initial=(start,)),
            prior=self.prior(np.zeros(start.numel()), np.ones(start.numel())),
            fixed=problem.fixed,
            observe=problem.observe,
            noise=problem.noise,
            initial=problem.initial,
            diffusion=problem.diffusion,
        )

    @property
    def lasting(self) -> tuple[str, ...]:
        """Names of the parameters that are not of the initial state alone."""
        return tuple(self._kept)

    def prior(self, mean: Array, sd: Array) -> Prior:
        """Prior with the states at the first sample normal, means and deviations (n,)."""
        starts: dict[str, Any] = {
            f"{state}(0)": stats.norm(m, s)
            for state, m, s in zip(self._states, mean.tolist(), sd.tolist(), strict=True)
        }
        return Prior({**self._kept, **starts}, self._coordinates)


class Forgetting:
    """Decides when a population begins anew, and where.

    Parameters
    ----------
    window : float
        Seconds.
    likelihood : GrowingLikelihood
        Of a problem with a free start; without samples.
    start : FreeStart
    follow : callable
        From a likelihood and a prior to a `Follower` that begins in a thread.
    """

    def __init__(
        self,
        window: float,
        likelihood: GrowingLikelihood,
        start: FreeStart,
        follow: Callable[[GrowingLikelihood, Prior], Follower],
    ) -> None:
        self.window = window
        self.likelihood, self.start, self._follow = likelihood, start, follow
        self._next: Stretch | None = None
        self._states: dict[int, Array] = {}
        self._changed: int | None = None

    def observe(self, sample: int, population: Population) -> None:
        """Remember the posterior mean of the states at a sample of the stream."""
        self._states[sample] = population.state_mean()

    def states(self) -> tuple[NDArray[np.int64], Array]:
        """Samples (m,) at which the states are remembered, and their means (m, n)."""
        return np.array(list(self._states), dtype=np.int64), np.array(list(self._states.values()))

    @property
    def awaited(self) -> int | None:
        """Sample at which a population after an alarm begins, while there is none."""
        return self._changed if self._next is None else self._next.begin

    def resume(self, samples: NDArray[np.int64], means: Array, awaited: int | None) -> None:
        """Remember what was remembered."""
        self._states = dict(zip(samples.tolist(), means, strict=True))
        self._changed = awaited

    def append(self, t: Array, u: Array, y: Array) -> None:
        """Give samples to the population that is being made."""
        if self._next is not None:
            self._next.likelihood.append(t, u, y)

    def changed(self, alarm: Alarm) -> None:
        """Begin anew where the system changed."""
        self._changed = alarm.sample
        if self._next is not None:
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
        if at_once:
            following.follower.settle()
        return following

    def _beginning(self, current: Stretch) -> int | None:
        """Sample at which a new population should begin; None where there is no need."""
        history, n = current.likelihood.history, current.likelihood.n_samples
        if self._changed is not None:
            if current.begin + n - self._changed < FEWEST:
                return None
            begin, self._changed = self._changed, None
            return begin
        last = history.time(n - 1)
        if last - history.time(0) < RENEWED * self.window:
            return None
        return current.begin + _first_since(history, n, last - self.window)

    def _begin(self, current: Stretch, begin: int) -> None:
        # A sample that was assimilated in haste was not noted: the next one was.
        begin = min((s for s in self._states if s >= begin), default=-1)
        if begin < 0:
            return
        rms = np.sqrt(np.square(list(self._states.values())).mean(axis=0))
        sd = np.maximum(STATE_SD * rms, np.finfo(float).tiny ** 0.5)
        start = np.array([self._states[begin], sd])
        prior = self.start.prior(*start)
        history, likelihood = current.likelihood.history, self.likelihood.emptied()
        likelihood.append(*history.samples(begin - current.begin, len(history)))
        self._next = Stretch(begin, self._follow(likelihood, prior), prior, start)
        self._states = {s: x for s, x in self._states.items() if s >= begin}


def _first_since(history: History, n: int, t: float) -> int:
    """First of n samples whose time is not before ``t``."""
    a, b = 0, n - 1
    while b - a > 1:
        middle = (a + b) // 2
        a, b = (middle, b) if history.time(middle) < t else (a, middle)
    return b
