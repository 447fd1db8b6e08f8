"""`Online`: identification while the data come."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import real_number, whole_number
from smcpn.errors import InputError
from smcpn.likelihood.build import Solver, check_solver
from smcpn.likelihood.history import History
from smcpn.likelihood.row_writers import growing_likelihood
from smcpn.online.arrivals import Columns, TimeAxis
from smcpn.online.duration import seconds
from smcpn.online.follower import Follower
from smcpn.online.state import State
from smcpn.problem import Problem
from smcpn.smc.moves import IndependentMetropolis, MoveStrategy
from smcpn.smc.rejuvenation import MoveSettings
from smcpn.smc.resampling import SCHEMES
from smcpn.smc.sampler import Settings
from smcpn.solver import EKF0

Array = NDArray[np.float64]


class Online:
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
        threads: int | None = None,
        folder: str | None = None,
    ) -> None:
        self.problem = problem
        self.solver = EKF0() if solver is None else solver
        check_solver(self.solver)
        self.budget = None if budget is None else seconds("budget", budget)
        settings = Settings(
            particles=whole_number("particles", particles, 10),
            ess=real_number("ess", ess, "choose a share between 0 and 1"),
            moves=moves or IndependentMetropolis(MoveSettings(max_moves=max_moves)),
            resample=SCHEMES[resampling],
        )
        record = problem.records[0]
        self._axis = TimeAxis(record)
        self._u, self._y = Columns("u", len(problem.ode.inputs)), Columns("y", record.n_outputs)
        self._needs_u = record.n_inputs > 0 and record.u_function is None
        history = History(record.n_inputs, record.n_outputs, folder)
        self._likelihood = growing_likelihood(problem, self.solver, history, threads, lookahead)
        rng = np.random.default_rng(np.random.SeedSequence(seed))
        self._follower = Follower(problem.prior, self._likelihood, settings, rng)
        self._held = np.zeros(record.n_inputs)

    @property
    def sample(self) -> int:
        """Samples that count so far."""
        return self._follower.sample

    @property
    def t(self) -> float | None:
        """Time of the last sample taken in, s, as it was given; None before the first."""
        return self._axis.last_given if self._axis.count else None

    def update(self, u: Any, y: Any, t: float | None = None) -> State:
        """Take in a sample and return what is known after it."""
        begin = time.perf_counter()
        inputs, outputs = self._inputs(u, t), self._outputs(y)
        arrival = self._axis.place(t)
        if arrival.status == "absorbed":
            self._append(arrival, inputs, outputs)
        before = self._follower.sample
        deadline = None if self.budget is None else begin + self.budget
        self._follower.follow(deadline)
        waiting = arrival.status == "absorbed" and self._follower.sample == before
        latency = time.perf_counter() - begin
        return self._state(arrival, "waiting" if waiting else arrival.status, latency)

    def finish(self) -> State:
        """Have the samples count that wait for ``lookahead``, and all rejuvenations done."""
        begin = time.perf_counter()
        self._likelihood.finish()
        self._follower.settle()
        return self._state(None, "absorbed", time.perf_counter() - begin)

    def _append(self, arrival: Any, inputs: Array, outputs: Array) -> None:
        if arrival.missing:
            nothing = np.full(len(outputs), np.nan)
            m = arrival.missing
            for k, t in enumerate(self._axis.filled(arrival), start=1):
                linear = self._held + (inputs - self._held) * (k / (m + 1))
                zoh = self.problem.records[0].hold == "zoh"
                self._likelihood.append(t, self._held if zoh else linear, nothing)
        self._likelihood.append(arrival.t, inputs, outputs)
        self._held = inputs

    def _inputs(self, u: Any, t: float | None) -> Array:
        if not self._needs_u:
            return np.zeros(len(self._held)) if u is None else self._u(u)
        inputs = self._u(u)
        if not np.isfinite(inputs).all():
            raise InputError(
                f"u is {inputs}: an input must be known at every sample (only y may be missing)"
            )
        return inputs

    def _outputs(self, y: Any) -> Array:
        if y is None:
            return np.full(self.problem.records[0].n_outputs, np.nan)
        outputs = self._y(y)
        if np.isinf(outputs).any():
            raise InputError(f"y is {outputs}: give finite numbers, or NaN where it is missing")
        return outputs

    def _state(self, arrival: Any, status: str, latency: float) -> State:
        follower = self._follower
        population = follower.population
        return State(
            sample=population.sample,
            t=self._axis.last,
            ess=population.last_ess,
            innovation=follower.innovation,
            latency=latency,
            late=self.budget is not None and latency > self.budget,
            lag=follower.lag,
            degraded=follower.degraded,
            projected=follower.projected,
            rejuvenations=follower.rejuvenations,
            alarm=None,
            status=status,
            missing=0 if arrival is None else arrival.missing,
            approximate="",
            _system=population.system,
            _prior=self.problem.prior,
            _evidence_base=population.evidence_base,
        )
