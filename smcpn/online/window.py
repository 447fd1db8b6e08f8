"""Forgetting: the posterior given the recent samples only, for parameters that drift.

Every half window a population begins anew, from the prior and the samples of the last window, in
the background; when it has caught up it takes the place of the one before. After an alarm a
population begins at the change instead, whatever was before it. A posterior is therefore one given
at least the last window and at most one and a half of it, or the samples since the change.

This is APPROXIMATE. Samples before the window do not count at all, though the parameters may not
have changed; and the prior of the state at its beginning, normal around what the population before
knew of it, rests on samples that are forgotten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from smcpn.base.units import duration
from smcpn.checkpoint.stream_state import StreamState
from smcpn.errors import InputError
from smcpn.io.axis import AxisState
from smcpn.likelihood.growing import GrowingRows
from smcpn.likelihood.history import History
from smcpn.likelihood.particle.stream import StreamEstimate
from smcpn.model.parts import check_parts
from smcpn.model.prior import Prior
from smcpn.model.problem import Problem, assembled
from smcpn.online.background import Background
from smcpn.online.change import Alarm, ChangeTest
from smcpn.online.reweighting import AnyForecast, AnyLikelihood, Forecast
from smcpn.online.tracker import Population, StreamIbis, Tracker
from smcpn.smc.estimation import MOST
from smcpn.smc.looks import Searches
from smcpn.smc.sampler import Settings
from smcpn.smc.state import SamplerState

Array = NDArray[np.float64]

RENEWED = 1.5
"""A population is replaced when its samples span this many windows."""
FEWEST = 16
"""Samples since a change with which a population begins."""
STATE_SD = 0.3
"""Prior standard deviation of a state at the beginning of a window, of its rms."""


class Window:
    """A window of the stream, and the population that tracks it.

    begin: Number of its first sample in the stream.
    prior: Of the population.
    start: (2, n), mean and deviation of the states at its first sample; empty for the first window.
    """

    def __init__(
        self, begin: int, tracker: Tracker, prior: Prior, start: Array | None = None
    ) -> None:
        self.begin, self.tracker, self.prior = begin, tracker, prior
        self.start = np.empty((2, 0)) if start is None else start

    @property
    def likelihood(self) -> AnyLikelihood:
        """Likelihood of the samples of the window."""
        return self.tracker.likelihood

    @property
    def stream(self) -> GrowingRows:
        """Samples of the window."""
        return self.tracker.stream


class FreeStart:
    """A copy of a problem whose initial state is unknown.

    problem: Its first parameters are those of the original problem that the equation, the outputs
        and the noise depend on; the states at the first sample come last.
    """

    def __init__(self, problem: Problem) -> None:
        model, prior, self._states = problem.model, problem.prior, problem.ode.states
        used = {prior.names[j] for j in np.flatnonzero(model.outlasts_start())}
        self._scales = {name: s for name, s in prior.scales.items() if name in used}
        used |= set(self._scales.values())
        numbers = [j for j, name in enumerate(prior.names) if name in used]
        names = [prior.names[j] for j in numbers]
        self._kept = {name: prior.distributions[name] for name in names}
        self._coordinates = {n: c for n, c in prior.coordinates.items() if n in names}
        start = ca.vertcat(*[ca.SX.sym(f"{state}(0)") for state in problem.ode.states])
        self.problem = assembled(
            ode=problem.ode,
            records=problem.records[:1],
            model=model.with_free_start(numbers, start),
            prior=self.prior(np.zeros(start.numel()), np.ones(start.numel())),
            fixed=problem.fixed,
            observe=problem.observe,
            noise=problem.noise,
            initial=problem.initial,
            diffusion=problem.diffusion,
            process_noise=problem.process_noise,
        )

    @property
    def lasting(self) -> tuple[str, ...]:
        """Names of the parameters that are not of the initial state alone."""
        return tuple(self._kept)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self._states)

    def prior(self, mean: Array, sd: Array) -> Prior:
        """Prior with the states at the first sample normal, means and deviations (n,)."""
        starts: dict[str, Any] = {
            f"{state}(0)": stats.norm(m, s)
            for state, m, s in zip(self._states, mean.tolist(), sd.tolist(), strict=True)
        }
        return Prior({**self._kept, **starts}, self._coordinates, self._scales)


class Beginning:
    """A window that is being begun: its prior and its first samples, then its population.

    Threads make both, for each takes longer than a sample may.

    ``current`` is the window that it is to take the place of, and ``begin`` the number of its first
    sample in the stream. ``made`` returns prior, start, and likelihood of the samples that there
    are, and ``track`` makes of a likelihood and a prior a `Tracker` that begins in a thread.
    """

    def __init__(
        self,
        current: Window,
        begin: int,
        made: Callable[[], tuple[Prior, Array, AnyLikelihood]],
        track: Callable[[AnyLikelihood, Prior], Tracker],
    ) -> None:
        self.begin = begin
        self._current, self._track = current, track
        self._making = Background(lambda _: made())
        self._window: Window | None = None

    def append(self, t: Array, u: Array, y: Array) -> None:
        """Take in samples; those that come before the likelihood is made are copied later."""
        if self._window is not None:
            self._window.stream.append(t, u, y)

    def append_sample(self, sample: Sequence[float]) -> None:
        """Take in one sample."""
        if self._window is not None:
            self._window.stream.append_sample(sample)

    def give_up(self) -> None:
        """Have its threads end."""
        if self._window is not None:
            self._window.tracker.give_up()

    def window(self, at_once: bool) -> Window | None:
        """Return the window once its population has caught up; ``at_once`` waits for it."""
        if self._window is None and (at_once or self._making.done):
            prior, start, likelihood = self._making.result()
            history = self._current.stream.history
            known = self.begin - self._current.begin + len(likelihood.stream.history)
            likelihood.stream.append(*history.samples(known, len(history)))
            self._window = Window(self.begin, self._track(likelihood, prior), prior, start)
        if self._window is None or not (at_once or self._window.tracker.ready):
            return None
        if at_once:
            self._window.tracker.settle()
        return self._window


class Forgetting:
    """Decides when a new window begins, and at which sample, and makes its population.

    ``length`` is that of the window, ``likelihood`` one of a problem with a free start, without
    samples, and ``track`` makes of a likelihood and a prior a `Tracker` that begins in a thread.
    """

    def __init__(
        self,
        length: float,
        likelihood: AnyLikelihood,
        start: FreeStart,
        track: Callable[[AnyLikelihood, Prior], Tracker],
    ) -> None:
        self.length = length
        self.likelihood, self.start, self._track = likelihood, start, track
        self._next: Beginning | None = None
        self._observed: list[int] = []
        self._means: list[Array] = []
        self._changed: int | None = None

    def observe(self, sample: int, population: Population) -> None:
        """Keep the posterior mean of the states at a sample of the stream."""
        self._observed.append(sample)
        self._means.append(population.states().mixture()[0])

    def states(self) -> tuple[NDArray[np.int64], Array]:
        """Return the samples (m,) at which means of the states are kept, and these (m, n)."""
        means = np.reshape(self._means, (len(self._means), self.start.n_states))
        return np.array(self._observed, dtype=np.int64), means

    @property
    def awaited(self) -> int | None:
        """Sample at which a population after an alarm begins, while there is none."""
        return self._changed if self._next is None else self._next.begin

    def resume(self, samples: NDArray[np.int64], means: Array, awaited: int | None) -> None:
        """Restore the means that `states` returned, and `awaited`."""
        self._observed, self._means = samples.tolist(), list(means)
        self._changed = awaited

    def append(self, t: Array, u: Array, y: Array) -> None:
        """Give samples to the population that is being made."""
        if self._next is not None:
            self._next.append(t, u, y)

    def append_sample(self, sample: Sequence[float]) -> None:
        """Give one sample to the population that is being made."""
        if self._next is not None:
            self._next.append_sample(sample)

    def changed(self, alarm: Alarm) -> None:
        """Have the next population begin where the system changed."""
        self._changed = alarm.sample
        if self._next is not None:
            self._next.give_up()
            self._next = None

    def renewed(self, current: Window, at_once: bool) -> Window | None:
        """Return the window that takes the place of ``current``, where it is ready.

        With ``at_once`` it waits until it is.
        """
        if self._next is None:
            begin = self._beginning(current)
            if begin is not None:
                self._begin(current, begin)
        if self._next is None:
            return None
        try:
            renewed = self._next.window(at_once)
        except BaseException:
            # Told once; the next sample begins another window.
            self._next = None
            raise
        if renewed is not None:
            self._next = None
        return renewed

    def _beginning(self, current: Window) -> int | None:
        """Sample at which a new population should begin; None where there is no need."""
        history, n = current.stream.history, current.stream.n_samples
        if self._changed is not None:
            if current.begin + n - self._changed < FEWEST:
                return None
            begin, self._changed = self._changed, None
            return begin
        last = history.time(n - 1)
        if last - history.time(0) < RENEWED * self.length:
            return None
        return current.begin + _first_since(history, n, last - self.length)

    def _begin(self, current: Window, begin: int) -> None:
        # A sample that a thread caught up with has no mean: the next that has one is taken.
        place = bisect_left(self._observed, begin)
        if place == len(self._observed):
            return
        begin, mean, means = self._observed[place], self._means[place], self._means
        self._observed, self._means = self._observed[place:], means[place:]
        history = current.stream.history
        first, end = begin - current.begin, len(history)

        def made() -> tuple[Prior, Array, AnyLikelihood]:
            rms = np.sqrt(np.square(means).mean(axis=0))
            start = np.array([mean, np.maximum(STATE_SD * rms, np.finfo(float).tiny ** 0.5)])
            likelihood = self.likelihood.emptied()
            likelihood.stream.append(*history.samples(first, end))
            return self.start.prior(*start), start, likelihood

        self._next = Beginning(current, begin, made, self._track)


class Windows:
    """The window of a stream that counts, the one that takes its place, and the change test.

    Without forgetting one window is the whole stream.

    ``entropy`` is the seed of the random numbers; ``empty`` makes of a problem and the folder of
    its history a likelihood without samples, and ``searches`` of that who searches for what the
    particles lose, asked where nothing is forgotten; without ``length``, in seconds, nothing is.
    ``current`` is the window, with parameters ``names`` of the original problem, ``alarm`` the one
    raised since it was last set to None, and ``forecast`` that of the last sample.
    """

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        entropy: int,
        empty: Callable[[Problem, str | None], AnyLikelihood],
        searches: Callable[[AnyLikelihood], Searches | None],
        *,
        folder: str | None,
        length: float | None,
        change: ChangeTest,
    ) -> None:
        self._problem, self._settings, self._change = problem, settings, change
        self._seeds = np.random.SeedSequence(entropy)
        self.alarm: Alarm | None = None
        self._observed, q = 0, len(problem.observe)
        self.forecast: AnyForecast = Forecast(np.full(q, np.nan), np.full((2, q), np.nan))
        likelihood = empty(problem, folder)
        self._searches = searches(likelihood) if length is None else None
        sampler = self._sampler(likelihood, problem.prior, self._seeds)
        sampler.searches = self._searches
        tracker = Tracker(likelihood, sampler, self._observe)
        self._forgetting: Forgetting | None = None
        self._enter(Window(0, tracker, problem.prior))
        if length is not None:
            takes = frozenset({"doses", "accumulators", "algebraic", "events"})
            unknown = {"delay": "a new window does not know the inputs before it, leave forget out"}
            check_parts(problem.model.parts, "forget", takes, unknown, "forget")
            start = FreeStart(problem)
            free = empty(start.problem, None)
            self._forgetting = Forgetting(length, free, start, self._begin_tracking)

    @property
    def sample(self) -> int:
        """Samples of the stream that count."""
        return self.current.begin + self.current.tracker.population.sample

    @property
    def problem(self) -> Problem:
        """Problem of the current window."""
        if self._forgetting is None or self.current.begin == 0:
            return self._problem
        return self._forgetting.start.problem

    @property
    def approximate(self) -> str:
        """Approximations in the posterior, in words; "" where it is exact."""
        unit = self._problem.records[0].t_unit
        return (
            "" if self._forgetting is None else f"window {duration(self._forgetting.length, unit)}"
        )

    def append(self, t: Array, u: Array, y: Array) -> None:
        """Take in samples: times (m,), inputs (m, n) and outputs (m, q)."""
        self.current.stream.append(t, u, y)
        if self._forgetting is not None:
            self._forgetting.append(t, u, y)

    def append_sample(self, sample: Sequence[float]) -> None:
        """Take in one sample: time, inputs and outputs."""
        self.current.stream.append_sample(sample)
        if self._forgetting is not None:
            self._forgetting.append_sample(sample)

    def track(self, deadline: float | None) -> None:
        """Assimilate the samples that count, up to a deadline; see `Tracker.track`."""
        self.current.tracker.track(deadline)
        if self._forgetting is not None:
            renewed = self._forgetting.renewed(self.current, at_once=deadline is None)
            if renewed is not None:
                self.current.tracker.give_up()
                self._enter(renewed)
                self._change.reset()
                self.current.tracker.track(deadline)

    def finish(self) -> None:
        """Have the samples count that wait for later inputs, and end rejuvenations."""
        self.current.stream.finish()
        self.current.tracker.settle()

    def state(self, axis: AxisState, held: Array, doses: Array) -> StreamState:
        """Return the state of the stream, given its time axis, the last input and the doses."""
        current, forgetting = self.current, self._forgetting
        history = current.stream.history
        t, u, y = history.samples(0, len(history))
        noted, states = (None, None) if forgetting is None else forgetting.states()
        return StreamState(
            axis=axis,
            change=self._change.state,
            observed=self._observed,
            begin=current.begin,
            counted=current.stream.n_samples,
            frozen=current.tracker.frozen,
            awaited=None if forgetting is None else forgetting.awaited,
            spawned=self._seeds.n_children_spawned,
            t=t,
            u=u,
            y=y,
            held=held,
            doses=doses,
            innovation=self.forecast.innovation,
            prediction=self.forecast.prediction,
            start=current.start,
            noted=noted,
            states=states,
            population=current.tracker.snapshot(),
        )

    def resume(self, state: StreamState) -> None:
        """Go on from a state."""
        entropy = self._seeds.entropy
        self._seeds = np.random.SeedSequence(entropy, n_children_spawned=state.spawned)
        self._change.state, self._observed = state.change, state.observed
        self.forecast = Forecast(state.innovation, state.prediction)
        likelihood, prior = self.current.likelihood, self._problem.prior
        if self._forgetting is not None:
            assert state.noted is not None
            assert state.states is not None
            self._forgetting.resume(state.noted, state.states, state.awaited)
            if state.begin > 0:
                likelihood = self._forgetting.likelihood.emptied()
                prior = self._forgetting.start.prior(*state.start)
        likelihood.stream.append(state.t, state.u, state.y)
        if likelihood.n_samples < state.counted:
            likelihood.stream.finish()
        with_filters = self._as_stored(likelihood, state.population)
        sampler = StreamIbis.resumed(prior, with_filters, self._settings, state.population)
        sampler.searches, sampler.last_ess = self._searches, sampler.system.ess
        tracker = Tracker(likelihood, sampler, self._observe)
        self._enter(Window(state.begin, tracker, prior, state.start))
        if state.frozen:
            tracker.freeze()

    def _as_stored(self, likelihood: AnyLikelihood, population: SamplerState) -> AnyLikelihood:
        """The likelihood with as many state particles as a population has."""
        if not isinstance(likelihood, StreamEstimate):
            return likelihood
        most = self._settings.state_particles or MOST
        if not 0 < population.state_particles <= most:
            raise InputError(
                f"a population has {population.state_particles} state particles, and 1 to {most} "
                "fit its likelihood: begin anew"
            )
        return likelihood.with_state_particles(population.state_particles)

    def _enter(self, window: Window) -> None:
        """Have a window count."""
        self.current = window
        if self._forgetting is None or window.begin == 0:
            self.names = self._problem.names
        else:
            self.names = self._forgetting.start.lasting

    def _sampler(
        self, likelihood: AnyLikelihood, prior: Prior, seed: np.random.SeedSequence
    ) -> StreamIbis:
        return StreamIbis(prior, likelihood, self._settings, np.random.default_rng(seed))

    def _begin_tracking(self, likelihood: AnyLikelihood, prior: Prior) -> Tracker:
        seed = self._seeds.spawn(1)[0]
        return Tracker(likelihood, lambda: self._sampler(likelihood, prior, seed), self._observe)

    def _observe(self, population: Population) -> None:
        """Test a sample that was assimilated for a change, and keep the states after it."""
        current = self.current
        sample = current.begin + population.sample - 1
        if sample < self._observed:
            return
        self._observed = sample + 1
        self.forecast = forecast = population.forecast
        if self._forgetting is not None:
            self._forgetting.observe(sample, population)
        tracker = current.tracker
        if population.last_ess < tracker.sampler.fewest:
            return
        t = tracker.stream.history.time(population.sample - 1)
        alarm = self._change(forecast.innovation, sample, t)
        if alarm is not None:
            self.alarm = alarm
            if self._forgetting is not None:
                self._forgetting.changed(alarm)
                tracker.freeze()


def _first_since(history: History, n: int, t: float) -> int:
    """First of n samples whose time is not before ``t``."""
    a, b = 0, n - 1
    while b - a > 1:
        middle = (a + b) // 2
        a, b = (middle, b) if history.time(middle) < t else (a, middle)
    return b
