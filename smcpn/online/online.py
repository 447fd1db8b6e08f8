"""`Online`: identification while the data come."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from smcpn.checkpoint.codec import StoredStream, read_stream, write_stream
from smcpn.codegen.kernel import processors
from smcpn.errors import InputError, whole_number
from smcpn.io.axis import Arrival, Arrivals
from smcpn.likelihood.growing import KEPT_CHUNKS, GrowingLikelihood, History
from smcpn.likelihood.lanes import CHUNK
from smcpn.likelihood.registry import Solver
from smcpn.likelihood.rows import check_following, growing_likelihood
from smcpn.likelihood.steps import first_solver
from smcpn.model.prior import Prior
from smcpn.model.problem import Problem, check_problem
from smcpn.online.change import Alarm, ChangeTest
from smcpn.online.duration import seconds
from smcpn.online.state import Prediction, State, predicted, stream_posterior
from smcpn.online.tracker import Follower, Population, StreamIbis
from smcpn.online.window import Forgetting, FreeStart, Stretch
from smcpn.results.posterior import Posterior
from smcpn.run.settings import RunSettings, Settings
from smcpn.smc.moves import MoveStrategy
from smcpn.smc.sampler import Snapshot
from smcpn.solver import EKF0

# ---- The population that follows a stream, and the account of it that a file can hold.

Array = NDArray[np.float64]


class Following:
    """A stream under way: what has come, the population that follows it, what was noticed.

    The state of `Online`, and all of it that a file holds.
    """

    @classmethod
    def configured(
        cls,
        problem: Problem,
        settings: RunSettings,
        options: dict[str, Any],
        threads: int | None = None,
    ) -> Self:
        """Return an empty stream of checked options."""
        live = cls.__new__(cls)
        live._configure(problem, settings, options, threads)
        return live

    def _configure(
        self,
        problem: Problem,
        settings: RunSettings,
        options: dict[str, Any],
        threads: int | None,
    ) -> None:
        self.problem, self.settings, self.options = problem, settings, options
        self.seed, self.entropy = settings.seed, settings.entropy
        self.solver = first_solver(problem, settings.solver, settings.likelihood)
        self.budget, window = options["budget"], options["forget"]
        if threads is None and self.budget is not None:
            threads = max(1, processors() - 1)
        self._seeds = np.random.SeedSequence(self.entropy)
        self._arrivals = Arrivals(problem)
        self._change = ChangeTest(options["samples_between_false_alarms"])
        self._alarm: Alarm | None = None
        self._observed, self._innovation = 0, np.full(len(problem.observe), np.nan)
        likelihood = self._empty(problem, threads, options["folder"])
        engine = self._engine(likelihood, problem.prior, self._seeds)
        follower = Follower(likelihood, engine, self._observe)
        self._stretch = Stretch(0, follower, problem.prior)
        self._forgetting: Forgetting | None = None
        self._lasting = problem.names
        if window is not None:
            start = FreeStart(problem)
            free = self._empty(start.problem, threads, None)
            self._forgetting = Forgetting(window, free, start, self._begun)
            self._lasting = start.lasting

    def _empty(
        self, problem: Problem, threads: int | None, folder: str | None
    ) -> GrowingLikelihood:
        kept = -(-self.options["memory"] // CHUNK) + 1
        history = History(problem.records[0].n_inputs, len(problem.observe), folder, kept)
        likelihood = growing_likelihood(
            problem, self.solver, history, threads, self.options["lookahead"]
        )
        # Compiled here, not within the time of the first update.
        _ = likelihood.predictive
        return likelihood

    def document(self) -> dict[str, Any]:
        """Where the stream is, as JSON can hold it; `arrays` has the rest."""
        stretch, forgetting = self._stretch, self._forgetting
        return {
            "axis": self._arrivals.axis.document(),
            "change": self._change.document(),
            "observed": self._observed,
            "begin": stretch.begin,
            "counted": stretch.likelihood.n_samples,
            "frozen": stretch.follower.frozen,
            "awaited": None if forgetting is None else forgetting.awaited,
            "spawned": self._seeds.n_children_spawned,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Samples of the stretch at hand, and what is remembered of the states."""
        history = self._stretch.likelihood.history
        t, u, y = history.samples(0, len(history))
        found: dict[str, NDArray[Any]] = {
            "t": t, "u": u, "y": y, "held": self._arrivals.held, "start": self._stretch.start
        }  # fmt: skip
        if self._forgetting is not None:
            found["noted"], found["states"] = self._forgetting.states()
        return found

    def population(self) -> tuple[Prior, Snapshot]:
        """Prior and snapshot of the population to go on from."""
        return self._stretch.prior, self._stretch.follower.snapshot()

    def resume(
        self,
        document: dict[str, Any],
        arrays: dict[str, NDArray[Any]],
        population: Snapshot,
    ) -> None:
        """Go on where the stream was that ``document`` and ``arrays`` were taken of."""
        self._seeds = np.random.SeedSequence(self.entropy, n_children_spawned=document["spawned"])
        self._arrivals.axis.resume(document["axis"])
        self._arrivals.held = arrays["held"]
        self._change.resume(document["change"])
        self._observed = document["observed"]
        likelihood, prior = self._stretch.likelihood, self.problem.prior
        if self._forgetting is not None:
            self._forgetting.resume(arrays["noted"], arrays["states"], document["awaited"])
            if document["begin"] > 0:
                likelihood = self._forgetting.likelihood.emptied()
                prior = self._forgetting.start.prior(*arrays["start"])
        likelihood.append(arrays["t"], arrays["u"], arrays["y"])
        if likelihood.n_samples < document["counted"]:
            likelihood.finish()
        engine = StreamIbis.resumed(prior, likelihood, self.settings.sampler, population)
        engine.last_ess = engine.system.ess
        follower = Follower(likelihood, engine, self._observe)
        self._stretch = Stretch(document["begin"], follower, prior, arrays["start"])
        if document["frozen"]:
            follower.freeze()

    @property
    def _sample(self) -> int:
        return self._stretch.begin + self._stretch.follower.population.sample

    def _engine(
        self, likelihood: GrowingLikelihood, prior: Prior, seed: np.random.SeedSequence
    ) -> StreamIbis:
        return StreamIbis(prior, likelihood, self.settings.sampler, np.random.default_rng(seed))

    def _begun(self, likelihood: GrowingLikelihood, prior: Prior) -> Follower:
        seed = self._seeds.spawn(1)[0]
        return Follower.begun(
            likelihood, lambda: self._engine(likelihood, prior, seed), self._observe
        )

    def _append(self, arrival: Arrival) -> None:
        self._stretch.likelihood.append(arrival.times, arrival.u, arrival.y)
        if self._forgetting is not None:
            self._forgetting.append(arrival.times, arrival.u, arrival.y)

    def _follow(self, deadline: float | None) -> None:
        self._stretch.follower.follow(deadline)
        if self._forgetting is not None:
            following = self._forgetting.renewed(self._stretch, at_once=deadline is None)
            if following is not None:
                self._stretch.follower.give_up()
                self._stretch = following
                self._change.reset()
                self._stretch.follower.follow(deadline)

    def _observe(self, population: Population) -> None:
        """Test a sample that was assimilated for a change, and note the states after it."""
        sample = self._stretch.begin + population.sample - 1
        if sample < self._observed:
            return
        self._observed, self._innovation = sample + 1, population.innovation
        if self._forgetting is not None:
            self._forgetting.observe(sample, population)
        if self._stretch.follower.degraded:
            return
        t = self._stretch.likelihood.history.time(population.sample - 1)
        alarm = self._change(population.innovation, sample, t)
        if alarm is not None:
            self._alarm = alarm
            if self._forgetting is not None:
                self._forgetting.changed(alarm)
                self._stretch.follower.freeze()

    def _state(self, status: str, missing: int, begin: float) -> State:
        follower = self._stretch.follower
        population, engine = follower.population, follower.engine
        latency = time.perf_counter() - begin
        return State(
            sample=self._sample,
            t=self._arrivals.last,
            ess=population.last_ess,
            innovation=self._innovation,
            latency=latency,
            late=self.budget is not None and latency > self.budget,
            lag=follower.lag,
            degraded=follower.degraded,
            alarm=self._alarm,
            status=status,
            missing=missing,
            approximate="" if self._forgetting is None else f"window {self._forgetting.window:g} s",
            _engine=engine,
            _system=population.system,
            _prior=self._stretch.prior,
            names=self.problem.names if self._stretch.begin == 0 else self._lasting,
            _evidence_base=population.evidence_base,
        )


SAMPLES_BETWEEN_FALSE_ALARMS = 1e7
MEMORY = KEPT_CHUNKS * CHUNK
STREAMED = ("marginal", "classical")
"""Likelihoods that can follow a stream."""


class Online(Following):
    """Identify the parameters of a problem while the data come, one sample at a time.

    The problem's first record tells how the stream is sampled: the interval (or that times are
    irregular), the hold, a known input function, and the initial state. Its samples do not count;
    the stream begins empty.

    Parameters
    ----------
    problem : Problem
    solver : EKF0 or RK4, optional
        With a number of steps; ``"auto"`` chooses it on the problem's record, before the stream.
    likelihood : {"marginal", "classical"}, optional
        By default the one the solver stands for.
    particles : int
        Number of particles.
    seed : int, optional
        Without a budget the same seed gives the particles of `smcpn.identify`, to the byte.
    budget : float or str, optional
        Time that an update may take: seconds, or a text such as ``"1.5 ms"``. Rejuvenations
        then go on in the background while later samples come. Without a budget they are
        made at once, however long they take.
    forget : float or str, optional
        APPROXIMATE: length of the window of samples that count, in seconds or as ``"5 s"``, for
        parameters that drift; see `smcpn.online.window`. Parameters of the initial state then
        fall back to their prior.
    lookahead : int, optional
        Samples by which the posterior stays behind, so that a band-limited input is known around
        a sample: 64 are exact and the default. Other holds need none.
    ess, max_moves, moves, resampling
        As of `smcpn.identify`.
    samples_between_false_alarms : float
        On average at least, while the model is right; see `smcpn.online.change`.
    threads : int, optional
        Threads of the kernel. By default all processors, with a budget all but one.
    memory : int
        Samples kept in memory, at least; older ones are in a file and are read back in pieces
        when a rejuvenation browses them. With ``forget`` nothing older than the window is kept.
    folder : str, optional
        Where a long history is kept in a temporary file; the system's folder by default.

    Raises
    ------
    InputError
        If an argument is out of range, or no likelihood that can follow a stream goes with the
        solver.

    Notes
    -----
    What happens to samples that are not as expected:

    ==================  ==================================================================
    y is NaN or None    simulated through, not compared
    u is NaN            refused: an input must be known at every sample
    no t                the next point of the grid; refused where times are irregular
    t on a grid (dt)    rounded to the grid, counted from the sample before, so that a
                        clock that drifts is followed
    t irregular         taken as it is
    gap                 a distance of k sampling intervals puts in k - 1 missing samples,
                        their input held (zoh) or on the line (foh), so that solver steps
                        keep their length
    late                t before that of the last sample: left out, status ``"late"``
    duplicate           t of the last sample (on a grid, within half an interval of it):
                        left out, status ``"duplicate"``
    ==================  ==================================================================

    Examples
    --------
    >>> live = smcpn.Online(problem, particles=1000, budget="1.5 ms")  # doctest: +SKIP
    >>> for u, y in source:  # doctest: +SKIP
    ...     state = live.update(u, y)
    """

    def __init__(
        self,
        problem: Problem,
        *,
        solver: Solver | None = None,
        likelihood: str | None = None,
        particles: int = 1000,
        seed: int | None = None,
        budget: float | str | None = None,
        forget: float | str | None = None,
        lookahead: int | None = None,
        ess: float = 0.5,
        max_moves: int = 10,
        moves: MoveStrategy | None = None,
        resampling: str = "systematic",
        samples_between_false_alarms: float = SAMPLES_BETWEEN_FALSE_ALARMS,
        threads: int | None = None,
        memory: int = MEMORY,
        folder: str | None = None,
    ) -> None:
        check_problem(problem)
        settings = Settings(
            solver=EKF0() if solver is None and likelihood is None else solver,
            likelihood=likelihood,
            particles=particles,
            seed=seed,
            ess=ess,
            max_moves=max_moves,
            moves=moves,
            resampling=resampling,
            threads=threads,
        ).resolved(problem)
        check_following(settings.solver)
        if settings.likelihood not in STREAMED:
            raise InputError(
                f"likelihood is '{settings.likelihood}': a stream takes {' or '.join(STREAMED)}",
                argument="likelihood",
            )
        if lookahead is not None:
            lookahead = whole_number("lookahead", lookahead, 0)
        options = {
            "budget": None if budget is None else seconds("budget", budget),
            "forget": None if forget is None else seconds("forget", forget),
            "lookahead": lookahead,
            "samples_between_false_alarms": samples_between_false_alarms,
            "memory": whole_number("memory", memory, 1),
            "folder": folder,
        }
        self._configure(problem, settings, options, threads)

    def update(self, u: Any, y: Any, t: float | None = None) -> State:
        """Take in a sample and return what is known after it.

        Parameters
        ----------
        u : float or sequence
            Inputs; None for a system without, or whose input is a known function.
        y : float or sequence
            Outputs, NaN where missing; None where all are.
        t : float, optional
            Time of the sample, s.

        Raises
        ------
        InputError
            For an input that is not finite, another number of values than the problem has, or a
            time that does not do. The sample is then not taken in.
        """
        begin = time.perf_counter()
        arrival = self._arrivals.take(u, y, t)
        before = self._sample
        self._alarm = None
        if arrival.status == "assimilated":
            self._append(arrival)
            self._follow(None if self.budget is None else begin + self.budget)
        status = arrival.status
        if status == "assimilated" and self._sample == before:
            status = "waiting"
        return self._state(status, arrival.missing, begin)

    def finish(self) -> State:
        """Have the samples count that wait for ``lookahead``, and end rejuvenations under way."""
        begin = time.perf_counter()
        self._stretch.likelihood.finish()
        self._stretch.follower.settle()
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
        population, likelihood = self._stretch.follower.population, self._stretch.likelihood
        if population.sample == 0:
            raise InputError("predict needs a sample to begin at: update the stream first")
        times, inputs = self._arrivals.coming(u, t)
        known = likelihood.history.samples(population.sample, len(likelihood.history))
        ahead = predicted(
            likelihood, self._stretch.prior.natural(population.system.theta),
            population.system.weights, population.system.state, population.sample,
            np.concatenate([known[0], times]), np.concatenate([known[1], inputs]),
        )  # fmt: skip
        return ahead.last(len(times))

    def posterior(self) -> Posterior:
        """Return the posterior as `smcpn.identify` does, once rejuvenations under way are done.

        Its problem holds the samples of the stream; of a window, where it forgets.
        """
        self._stretch.follower.settle()
        windowed = self._forgetting is not None and self._stretch.begin > 0
        problem = self._forgetting.start.problem if windowed else self.problem  # type: ignore[union-attr]
        return stream_posterior(problem, self.solver, self._stretch, self.seed)

    def save(self, path: str | Path) -> None:
        """Write all that `load` needs to go on, whole or not at all.

        A rejuvenation under way is not waited for: the one who loads begins it again.

        Raises
        ------
        InputError
            If the file cannot be written, or holds what cannot be stored: a prior that is no
            frozen `scipy.stats` distribution, an input that is a function of time; or if another
            process is at work on it.
        """
        settings = self.settings.model_copy(update={"solver": self.solver})
        prior, population = self.population()
        stored = StoredStream(
            self.problem, settings, self.options, self.document(), self.arrays(), population
        )
        write_stream(Path(path), stored, prior)

    @classmethod
    def load(cls, path: str | Path, threads: int | None = None) -> Online:
        """Return the identification that `save` wrote; it goes on to the same bytes.

        Raises
        ------
        InputError
            If there is no such file, or it is damaged and has no previous version.

        Warns
        -----
        CheckpointWarning
            If it is damaged and its previous version is used.
        """
        stored = read_stream(Path(path))
        live = cls.configured(stored.problem, stored.settings, stored.options, threads)
        live.resume(stored.position, dict(stored.arrays), stored.population)
        return live

    @property
    def sample(self) -> int:
        """Samples that count so far."""
        return self._sample

    @property
    def t(self) -> float | None:
        """Time of the last sample taken in, s, as it was given; None before the first."""
        return self._arrivals.last_given

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names."""
        return self.problem.names
