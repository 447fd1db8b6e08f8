"""`Online`: identification while the data come."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from os import PathLike
from typing import Annotated, Any

import numpy as np

from smcpn.base.arguments import (
    ANYTHING,
    FILE_NAME,
    THREADS,
    Count,
    FileName,
    Particles,
    Positive,
    Seed,
    Share,
    StateParticles,
    Threads,
    checked,
    whole,
)
from smcpn.base.units import quantity
from smcpn.checkpoint.stream import StoredStream, read_stream, write_stream
from smcpn.checkpoint.stream_state import StreamState
from smcpn.codegen.threads import processors
from smcpn.errors import InputError, real_number, shown
from smcpn.estimate.first_samples import SearchesOfFirstSamples
from smcpn.io.axis import SampleArrivals, TimeAxis
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.growing import growing_likelihood
from smcpn.likelihood.history import KEPT_CHUNKS, History
from smcpn.likelihood.inputs import CHUNK
from smcpn.likelihood.particle.stream import stream_estimate
from smcpn.likelihood.registry import LIKELIHOODS
from smcpn.likelihood.solver_choice import solver_for_stream
from smcpn.model.dose import Dose
from smcpn.model.problem import Problem, check_problem
from smcpn.model.solver import Solver
from smcpn.online.change import ChangeTest
from smcpn.online.reweighting import AnyLikelihood
from smcpn.online.state import Prediction, Shared, State, predicted, stream_posterior, stream_record
from smcpn.online.window import Windows
from smcpn.results.posterior import Posterior
from smcpn.run.identify import Settings
from smcpn.smc.moves import MoveStrategy
from smcpn.smc.settings import RunSettings
from smcpn.smc.verification import is_consistent, is_of_size

SAMPLES_BETWEEN_FALSE_ALARMS = 1e7
"""By default, on average; see `smcpn.online.change`."""
SWITCH_INTERVAL = 2e-5
"""Seconds after which a thread at work beside an update gives way to it."""
MEMORY = KEPT_CHUNKS * CHUNK
"""Samples kept in memory by default."""


class Online:
    """Identify the parameters of a problem while the data come, one sample at a time.

    The problem's first record tells how the stream is sampled: the interval (or that times are
    irregular), the hold, a known input function, and the initial state. Its samples do not count;
    the stream begins empty.

    Parameters
    ----------
    problem : Problem
    solver : Solver, optional
        With a number of steps; ``"auto"`` chooses it on the problem's record, before the stream.
    likelihood : str, optional
        As of `smcpn.identify`; by default the one the solver stands for.
    particles : int
        Number of particles.
    seed : int, optional
        Without a budget the same seed gives the particles of `smcpn.identify`, to the byte where
        the record has ``dt``, or times that are not regular.
    budget : float or str, optional
        Time that an update may take: seconds, or a text such as ``"1.5 ms"``. Rejuvenations
        then go on in the background while later samples come. Without a budget they are
        made at once, however long they take.
    forget : float or str, optional
        Length of the window of samples that count, for parameters that drift. APPROXIMATE; in the
        record's unit of time or as ``"5 s"``, see `smcpn.online.window`. Parameters of the initial
        state then fall back to their prior.
    lookahead : int, optional
        Samples by which the posterior stays behind, so that a band-limited input is known around
        a sample: 64 are exact and the default. Other holds need none.
    ess, max_moves, moves, resampling, state_particles
        As of `smcpn.identify`.
    samples_between_false_alarms : float
        On average at least, while the model is right; see `smcpn.online.change`.
    threads : int, optional
        Threads of the kernel. By default all processors, with a budget all but one.
    memory : int
        Samples kept in memory, at least; older ones are in a file and are read back in pieces
        when a rejuvenation evaluates them. With ``forget`` nothing older than the window is kept.
    folder : str, optional
        Where a long history is kept in a temporary file; the system's folder by default.

    Raises
    ------
    InputError
        If an argument is out of range, or no likelihood that can follow a stream goes with the
        solver.

    Notes
    -----
    What happens to samples that are not as expected; `smcpn.io.axis` has the whole rule:

    ==================  ==================================================================
    y is NaN or None    simulated through, not compared
    u is NaN            refused: an input must be known at every sample
    no t                the next point of the grid; refused where times are irregular
    t on a grid (dt)    rounded to the grid, counted from the sample before, so that a
                        clock that drifts is followed
    t irregular         taken as it is
    gap                 a distance of k sampling intervals puts in k - 1 missing samples,
                        their input held (zoh) or on the line (foh), so that solver steps
                        keep their length; beyond 100000 intervals refused
    duplicate           the time of one of the last 65536 samples (on a grid, within half
                        an interval), or older than all of these: left out, status
                        ``"duplicate"``
    late                any other t that is not after that of the last sample: left out,
                        status ``"late"``
    ==================  ==================================================================

    Examples
    --------
    >>> live = smcpn.Online(problem, particles=1000, budget="1.5 ms")  # doctest: +SKIP
    >>> for u, y in source:  # doctest: +SKIP
    ...     state = live.update(u, y)
    """

    @checked
    def __init__(
        self,
        problem: Annotated[Problem, ANYTHING],
        *,
        solver: Annotated[Solver | str | None, ANYTHING] = None,
        likelihood: str | None = None,
        particles: Particles = 1000,
        seed: Seed | None = None,
        budget: Annotated[float | str | None, ANYTHING] = None,
        forget: Annotated[float | str | None, ANYTHING] = None,
        lookahead: Annotated[int, whole(0, 1 << 18)] | None = None,
        ess: Share = 0.5,
        max_moves: Count = 20,
        moves: Annotated[MoveStrategy | str | None, ANYTHING] = None,
        resampling: str = "systematic",
        state_particles: StateParticles | None = None,
        samples_between_false_alarms: Positive = SAMPLES_BETWEEN_FALSE_ALARMS,
        threads: Threads = None,
        memory: Count = MEMORY,
        folder: FileName | None = None,
    ) -> None:
        given: dict[str, Any] = {
            name: value for name, value in locals().items() if name in Settings.model_fields
        }
        check_problem(problem)
        settings = Settings(**given, method="ibis").resolved(problem)
        options = {
            "budget": _duration("budget", budget, "s"),
            "forget": _duration("forget", forget, problem.records[0].t_unit),
            "lookahead": lookahead,
            "samples_between_false_alarms": samples_between_false_alarms,
            "memory": memory,
            "folder": None if folder is None else str(folder),
        }
        self._configure(problem, settings, options, threads)

    def __repr__(self) -> str:
        return (
            f"<Online '{self.problem.ode.name}': {self.settings.particles} particles, "
            f"{self.settings.likelihood} likelihood, {self.solver}>"
        )

    def _configure(
        self,
        problem: Problem,
        settings: RunSettings,
        options: dict[str, Any],
        threads: int | None,
    ) -> None:
        self.problem, self.settings, self.options = problem, settings, options
        self.solver = solver_for_stream(problem, settings.solver, settings.likelihood)
        self.budget = options["budget"]
        if threads is None and self.budget is not None:
            threads = max(1, processors() - 1)
        self._arrivals = SampleArrivals(problem)
        self._shared: Shared | None = None
        self._windows = Windows(
            problem,
            settings.sampler,
            settings.entropy,
            lambda problem, folder: self._empty(problem, threads, folder),
            lambda likelihood: self._searches(likelihood, threads),
            folder=options["folder"],
            length=options["forget"],
            change=ChangeTest(options["samples_between_false_alarms"]),
        )

    def _empty(self, problem: Problem, threads: int | None, folder: str | None) -> AnyLikelihood:
        """Return the likelihood of a stream without samples, compiled."""
        kept = -(-self.options["memory"] // CHUNK) + 1
        history = History(problem.records[0].n_inputs, problem.model.measured, folder, kept)
        estimated = LIKELIHOODS[self.settings.likelihood].estimated
        growing = stream_estimate if estimated else growing_likelihood
        return growing(
            problem,
            self.solver,
            history,
            threads,
            self.options["lookahead"],
            self.settings.likelihood,
        )

    def _searches(
        self, likelihood: AnyLikelihood, threads: int | None
    ) -> SearchesOfFirstSamples | None:
        """Return who searches for what particles lose; None for an estimate, without a gradient."""
        if LIKELIHOODS[self.settings.likelihood].estimated:
            return None
        problem = self.problem.with_records(self.problem.records[:1])
        history = likelihood.stream.history
        searches = SearchesOfFirstSamples(
            lambda: LogLikelihood(problem, self.settings.likelihood, self.solver, threads),
            lambda n: [stream_record(problem, history, n, self.doses)] if history.in_memory else [],
        )
        if self.budget is not None:
            searches.prepare()
        return searches

    def update(
        self,
        u: Any,
        y: Any,
        t: float | None = None,
        *,
        y_sd: Any = None,
        y_lower: Any = None,
        y_upper: Any = None,
        doses: Any = (),
    ) -> State:
        """Take in a sample and return what is known after it.

        Parameters
        ----------
        u : float or sequence
            Inputs; None for a system without, or whose input is a known function.
        y : float or sequence
            Outputs, NaN where missing; None where all are.
        t : float, optional
            Time of the sample, s.
        y_sd, y_lower, y_upper : float or sequence, optional
            As of `Record`, where the noise takes y_sd, and where the problem's record has limits.
        doses : sequence of Dose or dict, optional
            Given since the sample before, or still to come, see `give`.

        Raises
        ------
        InputError
            For an input that is not finite, another number of values than the problem has, or a
            time that does not do. The sample is then not taken in.
        """
        begin = time.perf_counter()
        outputs = self._arrivals.measured(y, y_sd, y_lower, y_upper)
        if self.budget is None:
            return self._updated(u, outputs, t, doses, begin)
        # Python's own interval, three samples at 610 Hz, is for threads that have time.
        interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL)
        try:
            return self._updated(u, outputs, t, doses, begin)
        finally:
            sys.setswitchinterval(interval)

    def _updated(
        self, u: Any, outputs: Sequence[float], t: float | None, doses: Any, begin: float
    ) -> State:
        arrival, windows = self._arrivals.take(u, outputs, t, doses), self._windows
        windows.alarm = None
        if arrival.status != "new":
            return self._state(arrival.status, 0, begin)
        before = windows.sample
        if len(arrival.gap):
            n = 1 + self.problem.records[0].n_inputs
            windows.append(arrival.gap[:, 0], arrival.gap[:, 1:n], arrival.gap[:, n:])
        windows.append_sample(arrival.sample)
        windows.track(None if self.budget is None else begin + self.budget)
        state = self._state("assimilated", len(arrival.gap), begin)
        if state.sample == before:
            state.status = "waiting"
        return state

    def give(self, doses: Any) -> None:
        """Take doses that are no sample's: given since the last one, or still to come.

        Parameters
        ----------
        doses : Dose, dict or sequence of these
            The problem's record has one of each kind (state, lag and fraction), which do not
            count. One that equals a dose given before is the same one.

        Raises
        ------
        InputError
            For what is no dose, or one of another kind; for a time before the last sample; on a
            grid, for one that arrives between samples, with the sample after it.
        """
        self._arrivals.give(doses)

    def finish(self) -> State:
        """Have the samples count that wait for ``lookahead``, and end rejuvenations under way."""
        begin = time.perf_counter()
        self._windows.finish()
        return self._state("assimilated", 0, begin)

    def predict(self, u: Any, t: Any = None) -> Prediction:
        """Predict the outputs that will be measured, given inputs to come.

        Parameters
        ----------
        u : array_like, (m,) or (m, n_inputs), or int
            Inputs after the last sample; a number of samples for a system without, or whose
            input is a known function.
        t : array_like, (m,), optional
            Their times, where the stream is not sampled on a grid.

        Raises
        ------
        InputError
            Before the first sample, or if times and inputs do not fit.
        """
        current = self._windows.current
        population, history = current.tracker.population, current.stream.history
        if population.sample == 0:
            raise InputError("predict needs a sample to begin at: update the stream first")
        times, inputs, wanted = self._arrivals.coming(u, t)
        known = history.samples(population.sample, len(history))
        ahead = predicted(
            population.likelihood, population.system.keys,
            current.prior.natural(population.system.theta),
            population.system.weights, population.system.state, population.sample,
            np.concatenate([known[0], times]), np.concatenate([known[1], inputs]),
        )  # fmt: skip
        return ahead.last(len(times)).of(wanted)

    def posterior(self) -> Posterior:
        """Return the posterior as `smcpn.identify` does, once rejuvenations under way are done.

        Its problem holds the samples of the stream; of a window, where it forgets.

        Raises
        ------
        InputError
            Before two samples count.
        """
        _require_record(self._windows.current.likelihood)
        self._windows.current.tracker.settle()
        return stream_posterior(
            self._windows.problem,
            self.solver,
            self.settings.likelihood,
            self._windows.current,
            self.settings.seed,
            self.doses,
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write all that `load` needs to go on, whole or not at all.

        A rejuvenation under way is not waited for: the one who loads begins it again.

        Raises
        ------
        InputError
            If the file cannot be written, or holds what cannot be stored: a prior that is no
            frozen `scipy.stats` distribution, an input that is a function of time; or if another
            process is at work on it.
        """
        file = FILE_NAME("path", path)
        settings = self.settings.model_copy(update={"solver": self.solver})
        stored = StoredStream(self.problem, settings, self.options, self.snapshot())
        write_stream(file, stored, self._windows.current.prior)

    @classmethod
    def load(cls, path: str | PathLike[str], threads: int | None = None) -> Online:
        """Return the identification that `save` wrote; it goes on to the same bytes.

        Raises
        ------
        InputError
            If there is no such file, it is damaged and has no previous version, or some of its
            particles have another likelihood here.

        Warns
        -----
        CheckpointWarning
            If it is damaged and its previous version is used.
        """
        file, threads = FILE_NAME("path", path), THREADS("threads", threads)
        stored, live = read_stream(file), cls.__new__(cls)
        live._configure(stored.problem, stored.settings, stored.options, threads)
        live._resume(stored.state)
        # A band-limited input was known less far when a sample was assimilated.
        interpolated = stored.problem.records[0].hold == "bandlimited"
        agrees = is_of_size if interpolated else is_consistent
        if not agrees(live._windows.current.tracker.sampler):
            raise InputError(
                f"{path}: its particles have another likelihood here: use the versions that wrote "
                "it, or begin another file"
            )
        return live

    @property
    def sample(self) -> int:
        """Samples that count so far."""
        return self._windows.sample

    @property
    def t(self) -> float | None:
        """Time of the last sample taken in, s, as it was given; None before the first."""
        return self.axis.given if math.isfinite(self.axis.given) else None

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names."""
        return self.problem.names

    @property
    def axis(self) -> TimeAxis:
        """The time axis: which samples are new, late or missing."""
        return self._arrivals.axis

    @property
    def doses(self) -> tuple[Dose, ...]:
        """Doses given so far, sorted by time."""
        return self._arrivals.doses

    def snapshot(self) -> StreamState:
        """Return all that the stream goes on from."""
        held = np.array(self._arrivals.last_input, dtype=float)
        return self._windows.state(self.axis.state, held, self._arrivals.stored_doses)

    def _resume(self, state: StreamState) -> None:
        """Go on from a `snapshot`."""
        self.axis.resume(state.axis)
        self._arrivals.last_input = state.held.tolist()
        self._arrivals.resume_doses(state.doses)
        self._windows.resume(state)

    def _state(self, status: str, missing: int, begin: float) -> State:
        windows, shared = self._windows, self._shared
        current = windows.current
        if shared is None or shared.window is not current:
            shared = self._shared = Shared(
                current, windows.names, self.problem.ode.states, windows.approximate,
                math.inf if self.budget is None else self.budget,
            )  # fmt: skip
        population = current.tracker.population
        return State(
            sample=current.begin + population.sample,
            t=self.axis.last,
            ess=population.last_ess,
            latency=time.perf_counter() - begin,
            lag=current.tracker.lag,
            alarm=windows.alarm,
            status=status,
            missing=missing,
            _forecast=windows.forecast,
            _particles=population.particles,
            _evidence_base=population.evidence_base,
            _shared=shared,
        )


def _duration(name: str, value: float | str | None, unit: str) -> float | None:
    """Return a duration in a unit: in seconds ``0.0015`` and ``"1.5 ms"`` are the same.

    Raises `InputError` for anything but a positive duration.
    """
    counted = "seconds" if unit == "s" else f"number (in {unit})"
    hint = f"give positive {counted}, or a text such as '1.5 ms'"
    if value is None:
        return None
    if isinstance(value, str):
        try:
            number = float(quantity(value).m_as(unit))
        except Exception as error:
            # Another dimension, or numbers that overflow.
            raise InputError(f"{name} is {shown(value)}: {hint}") from error
    else:
        number = real_number(name, value, hint)
    if not 0.0 < number < math.inf:
        raise InputError(f"{name} is {shown(value)}: {hint}")
    return number


def _require_record(likelihood: AnyLikelihood) -> None:
    """Refuse a posterior whose record would have no sampling interval."""
    n, waiting = likelihood.n_samples, len(likelihood.stream.history) - likelihood.n_samples
    if n >= 2:
        return
    counted = f"posterior needs two samples, and {n} of {n + waiting} count"
    raise InputError(f"{counted}: update the stream first; finish() counts those that wait")
