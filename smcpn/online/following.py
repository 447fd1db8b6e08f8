"""The population that follows a stream, and the account of it that a file can hold."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import processors
from smcpn.likelihood.first_steps import first_solver
from smcpn.likelihood.growing import GrowingLikelihood
from smcpn.likelihood.history import History
from smcpn.likelihood.lanes import CHUNK
from smcpn.likelihood.row_writers import growing_likelihood
from smcpn.online.arrivals import Arrival, Arrivals
from smcpn.online.change import Alarm, ChangeTest
from smcpn.online.follower import Follower, Population
from smcpn.online.forgetting import Forgetting, FreeStart, Stretch
from smcpn.online.population import StreamIbis
from smcpn.online.state import State
from smcpn.prior import Prior
from smcpn.problem import Problem
from smcpn.run import Configuration
from smcpn.smc.sampler import Snapshot

Array = NDArray[np.float64]


class Following:
    """A stream under way: what has come, the population that follows it, what was noticed.

    The state of `Online`, and all of it that a file holds.
    """

    @classmethod
    def configured(
        cls,
        problem: Problem,
        configuration: Configuration,
        options: dict[str, Any],
        threads: int | None = None,
    ) -> Self:
        """Return an empty stream of checked options."""
        live = cls.__new__(cls)
        live._configure(problem, configuration, options, threads)
        return live

    def _configure(
        self,
        problem: Problem,
        configuration: Configuration,
        options: dict[str, Any],
        threads: int | None,
    ) -> None:
        self.problem, self.seed, self.options = problem, configuration.seed, options
        self.settings, self.entropy = configuration.settings, configuration.entropy
        self.solver = first_solver(problem, configuration.solver, configuration.likelihood)
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
        population: Callable[[tuple[str, ...]], Snapshot],
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
        engine = StreamIbis.resumed(prior, likelihood, self.settings, population(prior.names))
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
        return StreamIbis(prior, likelihood, self.settings, np.random.default_rng(seed))

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
        """Test a sample that was absorbed for a change, and note the states after it."""
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
