"""`Online`: identification while the data come."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import real_number, shown, whole_number
from smcpn.errors import InputError
from smcpn.likelihood.build import Solver, likelihood_name
from smcpn.likelihood.history import KEPT_CHUNKS
from smcpn.likelihood.lanes import CHUNK
from smcpn.likelihood.row_writers import check_following
from smcpn.online.duration import seconds
from smcpn.online.following import Following
from smcpn.online.live_file import load_live, save_live
from smcpn.online.prediction import Prediction, predicted
from smcpn.online.result import stream_posterior
from smcpn.online.state import State
from smcpn.posterior import Posterior
from smcpn.problem import Problem, check_problem
from smcpn.run import Configuration
from smcpn.smc.moves import IndependentMetropolis, MoveStrategy
from smcpn.smc.rejuvenation import MoveSettings
from smcpn.smc.resampling import SCHEMES
from smcpn.smc.sampler import Settings
from smcpn.solver import EKF0

Array = NDArray[np.float64]

SAMPLES_BETWEEN_FALSE_ALARMS = 1e7
LEAST_PARTICLES = 10
MEMORY = KEPT_CHUNKS * CHUNK


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
    particles : int
        Number of particles.
    seed : int, optional
        Without a budget the same seed gives the particles of `smcpn.ibis`, to the byte.
    budget : float or str, optional
        Time that an update may take: seconds, or a text such as ``"1.5 ms"``. Rejuvenations
        then go on in the background while later samples come. Without a budget they are
        made at once, however long they take.
    forget : float or str, optional
        APPROXIMATE: length of the window of samples that count, in seconds or as ``"5 s"``, for
        parameters that drift; see `smcpn.online.forgetting`. Parameters of the initial state then
        fall back to their prior.
    lookahead : int, optional
        Samples by which the posterior stays behind, so that a band-limited input is known around
        a sample: 64 are exact and the default. Other holds need none.
    ess, max_moves, moves, resampling
        As of `smcpn.ibis`.
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
        solver = EKF0() if solver is None else solver
        check_following(solver)
        if resampling not in SCHEMES:
            raise InputError(
                f"resampling is {shown(resampling)}: choose one of {', '.join(SCHEMES)}"
            )
        most = whole_number("max_moves", max_moves, 1)
        settings = Settings(
            particles=whole_number("particles", particles, LEAST_PARTICLES),
            ess=real_number("ess", ess, "choose a share between 0 and 1"),
            moves=moves or IndependentMetropolis(MoveSettings(max_moves=most)),
            resample=SCHEMES[resampling],
        )
        if lookahead is not None:
            lookahead = whole_number("lookahead", lookahead, 0)
        if seed is not None:
            seed = whole_number("seed", seed, 0)
        configuration = Configuration(
            solver=solver,
            likelihood=likelihood_name(solver),
            settings=settings,
            seed=seed,
            entropy=np.random.SeedSequence(seed).entropy,  # type: ignore[arg-type]
        )
        options = {
            "budget": None if budget is None else seconds("budget", budget),
            "forget": None if forget is None else seconds("forget", forget),
            "lookahead": lookahead,
            "samples_between_false_alarms": samples_between_false_alarms,
            "memory": whole_number("memory", memory, 1),
            "folder": folder,
        }
        self._configure(problem, configuration, options, threads)

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
        if arrival.status == "absorbed":
            self._append(arrival)
            self._follow(None if self.budget is None else begin + self.budget)
        status = arrival.status
        if status == "absorbed" and self._sample == before:
            status = "waiting"
        return self._state(status, arrival.missing, begin)

    def finish(self) -> State:
        """Have the samples count that wait for ``lookahead``, and end rejuvenations under way."""
        begin = time.perf_counter()
        self._stretch.likelihood.finish()
        self._stretch.follower.settle()
        return self._state("absorbed", 0, begin)

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
        """Return the posterior as `smcpn.ibis` does, once rejuvenations under way are done.

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
            frozen `scipy.stats` distribution, an input that is a function of time.
        """
        save_live(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, threads: int | None = None) -> Online:
        """Return the identification that `save` wrote; it goes on to the same bytes.

        Raises
        ------
        InputError
            If there is no such file, or it is damaged.
        """
        return load_live(cls, Path(path), threads)

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
