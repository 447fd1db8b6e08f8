"""Results of a stream: the state after a sample, predictions, and the posterior."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.errors import InputError, listed
from smcpn.likelihood.contract import Keys
from smcpn.likelihood.growing import StreamSamples
from smcpn.likelihood.history import History
from smcpn.likelihood.registry import build_likelihood
from smcpn.likelihood.shift import DiscretisationShift, shift_of_particles
from smcpn.likelihood.solver_choice import finer_solver
from smcpn.likelihood.wall import PosteriorPoints, wall_of
from smcpn.model.dose import Dose
from smcpn.model.dosing import with_function
from smcpn.model.measured import outputs_of
from smcpn.model.problem import Problem
from smcpn.model.record import CONTEXT, Record, given_among
from smcpn.model.signal import given_function
from smcpn.model.solver import Solver
from smcpn.online.change import Alarm
from smcpn.online.reweighting import (
    AnyForecast,
    AnyLikelihood,
    HiddenStates,
    ReweightedParticles,
)
from smcpn.online.tracker import StreamIbis
from smcpn.online.window import Window
from smcpn.results.draws import Timing, weighted_quantile
from smcpn.results.posterior import Posterior
from smcpn.results.simulation.simulation import TWO_SIDED_95
from smcpn.smc.particles import log_mean_exp
from smcpn.smc.replicates import combine

Array = NDArray[np.float64]

JUDGES = 200
"""Particles that tell how far finer steps would shift a posterior, at least."""
BLOCK = 256
"""Samples of which the outputs of all particles are predicted at a time."""


@dataclass(frozen=True)
class Shared:
    """Names and settings that all states of a window of a stream share.

    names, state_names: Of the parameters and of the states of the model.
    budget: Seconds, infinite where there is none.
    """

    window: Window
    names: tuple[str, ...]
    state_names: tuple[str, ...]
    approximate: str
    budget: float

    @cached_property
    def sampler(self) -> StreamIbis:
        """Of the window."""
        return self.window.tracker.sampler


class WithMoments(ABC):
    """Posterior after a sample of a stream, by the names of parameters and states."""

    @abstractmethod
    def _of_parameters(self) -> tuple[Sequence[str], Array, Array]:
        """Return names (d), values (N, d) and normalised weights (N,)."""

    @abstractmethod
    def _of_states(self) -> tuple[Sequence[str], tuple[Array, Array]]:
        """Return names (n), and means and standard deviations (n,); nan before the first sample."""

    @property
    def mean(self) -> dict[str, float]:
        """Posterior mean of each parameter."""
        names, values, weights = self._of_parameters()
        return _by_name(names, weights @ values)

    @property
    def sd(self) -> dict[str, float]:
        """Posterior standard deviation of each parameter."""
        names, values, weights = self._of_parameters()
        return _by_name(names, np.sqrt(weights @ np.square(values - weights @ values)))

    @property
    def state_mean(self) -> dict[str, float]:
        """Mean of each state of the model, given the samples so far; nan before the first."""
        names, (mean, _) = self._of_states()
        return _by_name(names, mean)

    @property
    def state_sd(self) -> dict[str, float]:
        """Standard deviation of each state of the model: parameters and process noise."""
        names, (_, sd) = self._of_states()
        return _by_name(names, sd)

    def quantile(self, name: str, q: float | list[float]) -> Array:
        """Weighted quantile(s) of a parameter.

        Raises `InputError` if there is no such parameter.
        """
        names, values, weights = self._of_parameters()
        if name not in names:
            raise InputError(f"no parameter '{name}': choose one of {listed(names)}")
        return weighted_quantile(values[:, names.index(name)], weights, q)


def _by_name(names: Sequence[str], numbers: Array) -> dict[str, float]:
    return dict(zip(names, numbers.tolist(), strict=True))


@dataclass
class State(WithMoments):
    """The posterior after a sample, with diagnostics of the update.

    Summaries are computed when they are asked for, from arrays that nobody changes: a state may
    be kept and read later.

    sample: Samples that count so far.
    t: Time of the last of them, s.
    ess: Effective sample size.
    latency: Seconds that the update took.
    lag: Samples that the rejuvenation under way has still to catch up with; 0 without one.
    alarm: A change of the system that this sample made evident.
    status: ``"assimilated"``, or why the sample was not: ``"late"``, ``"duplicate"``,
        ``"waiting"``.
    missing: Samples that were put in for a gap before this one.
    """

    sample: int
    t: float
    ess: float
    latency: float
    lag: int
    alarm: Alarm | None
    status: str
    missing: int
    _forecast: AnyForecast = field(repr=False)
    _particles: ReweightedParticles = field(repr=False)
    _evidence_base: float = field(repr=False)
    _shared: Shared = field(repr=False)

    @property
    def innovation(self) -> Array:
        """Measured minus predicted output, in predictive standard deviations; nan where missing."""
        return self._forecast.innovation

    @property
    def prediction(self) -> Array:
        """Mean and standard deviation of the outputs of this sample, given those before it, (2, q).

        Of parameters, solver and noise together; nan before the first.
        """
        return self._forecast.prediction

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names, in the order of the columns of `values`."""
        return self._shared.names

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states of the model."""
        return self._shared.state_names

    @property
    def approximate(self) -> str:
        """Approximations in the posterior, in words; "" where it is exact."""
        return self._shared.approximate

    @property
    def budget(self) -> float:
        """Seconds that an update may take, infinite where the stream has no budget."""
        return self._shared.budget

    @property
    def late(self) -> bool:
        """True if the update took longer than the budget."""
        return self.latency > self.budget

    @property
    def degraded(self) -> bool:
        """True if the effective sample size is below a tenth of the particles.

        Summaries are then rough until the rejuvenation under way is done.
        """
        return self.ess < self._shared.sampler.fewest

    @property
    def projected(self) -> float:
        """Seconds that the next rejuvenation is expected to take; nan before the first."""
        return self._shared.sampler.cost.next_seconds

    @property
    def rejuvenations(self) -> int:
        """Made so far."""
        return len(self._shared.sampler.rejuvenations)

    @cached_property
    def values(self) -> Array:
        """Parameter values of the particles, (N, d)."""
        prior = self._shared.window.prior
        columns = [prior.names.index(name) for name in self.names]
        values = prior.natural(self._particles.system.theta)
        return values if len(columns) == len(prior) else np.array(values[:, columns], order="C")

    @cached_property
    def weights(self) -> Array:
        """Normalised weights, (N,)."""
        return self._particles.system.weights

    @override
    def _of_parameters(self) -> tuple[Sequence[str], Array, Array]:
        return self.names, self.values, self.weights

    @override
    def _of_states(self) -> tuple[Sequence[str], tuple[Array, Array]]:
        return self.state_names, self._mixture

    @cached_property
    def _mixture(self) -> tuple[Array, Array]:
        unknown = np.full(len(self.state_names), np.nan)
        return self._hidden.mixture() if self._position else (unknown, unknown)

    @property
    def _position(self) -> int:
        """Samples of the window that count."""
        return self.sample - self._shared.window.begin

    @property
    def _hidden(self) -> HiddenStates:
        """The states of the model at the last sample, of all particles."""
        system = self._particles.system
        likelihood = self._shared.sampler.likelihood
        columns = likelihood.columns(self._shared.window.prior.natural(system.theta))
        moments = likelihood.moments(columns, system.state, self._position - 1)
        return HiddenStates.of(likelihood, moments, self.weights)

    @property
    def log_evidence(self) -> float:
        """Log p(y) of the samples that count."""
        return self._evidence_base + float(log_mean_exp(self._particles.system.log_weights))


@dataclass(frozen=True)
class Prediction:
    """Predicted outputs of samples to come.

    t: (m,)
    mean: (m, q)
    sd: (m, q), of a measurement: parameters, solver and noise together.
    """

    t: Array
    mean: Array
    sd: Array

    def last(self, m: int) -> Prediction:
        """Return the prediction of the last m samples."""
        return Prediction(self.t[-m:], self.mean[-m:], self.sd[-m:])

    def of(self, chosen: NDArray[np.bool_]) -> Prediction:
        """Return the prediction of some of the samples."""
        return Prediction(self.t[chosen], self.mean[chosen], self.sd[chosen])

    @property
    def lower(self) -> Array:
        """Lower end of the 95 % band, (m, q)."""
        return self.mean - TWO_SIDED_95 * self.sd

    @property
    def upper(self) -> Array:
        """Upper end of the 95 % band, (m, q)."""
        return self.mean + TWO_SIDED_95 * self.sd


def predicted(
    likelihood: AnyLikelihood,
    keys: Keys,
    values: Array,
    weights: Array,
    state: Array,
    sample: int,
    t: Array,
    u: Array,
) -> Prediction:
    """Predict the outputs after the first ``sample`` samples.

    Keys (N, B), values (N, d), weights (N,) and state (k, N) are the population at the last of
    them; ``t`` (m,) and ``u`` (m, n) the times and inputs to come.
    """
    parts, alive, q = [], weights > 0, likelihood.n_outputs
    for emitted in likelihood.moments_ahead(values, state, sample, t, u, BLOCK, keys):
        emitted = np.where(alive, emitted, 0.0)
        mean = emitted[:, :q] @ weights
        spread = np.square(emitted[:, :q] - mean[..., None]) + emitted[:, q : 2 * q]
        parts.append(np.stack([mean, np.sqrt(spread @ weights)]))
    mean, sd = np.concatenate(parts, axis=1)
    return Prediction(t, mean, sd)


def stream_posterior(
    problem: Problem,
    solver: Solver,
    likelihood: str,
    window: Window,
    seed: int | None,
    doses: Sequence[Dose],
) -> Posterior:
    """Return the posterior of the population of a window that has caught up.

    The first record of the problem is the template of the stream's; ``doses`` were given so far.
    """
    record = stream_record(problem, window.stream.history, window.stream.n_samples, doses)
    observed = problem.with_records([record])
    observed.prior = window.prior
    sampler = window.tracker.sampler.looked()
    populations = combine([sampler])
    cost = sampler.cost
    nan = float("nan")
    work = cost.evaluations * int(solver.steps) * max(1, sampler.state.state_particles)
    walled = _warnings_of_wall(observed, solver, likelihood, sampler)
    return Posterior(
        problem=observed,
        solver=solver,
        likelihood=likelihood,
        shift=_shift(observed, solver, likelihood, sampler),
        timing=Timing(nan, nan, nan, work),
        seed=seed,
        **vars(replace(populations, warnings=populations.warnings + walled)),
    )


def _warnings_of_wall(
    problem: Problem, solver: Solver, likelihood: str, sampler: StreamIbis
) -> tuple[str, ...]:
    """Return a warning where the posterior ends because its solver does; not for an estimate."""
    if sampler.state.state_particles:
        return ()

    def by(solver: Solver) -> Callable[[Array], Array]:
        compiled = build_likelihood(problem, solver, None, likelihood)
        return lambda values: compiled.evaluate(values, compiled.n_samples)[1]

    system = sampler.system
    points = PosteriorPoints(problem, solver, likelihood, system.theta, system.weights, by)
    wall = wall_of(points)
    return () if wall is None else wall.warnings


def _shift(
    problem: Problem, solver: Solver, likelihood: str, sampler: StreamIbis
) -> DiscretisationShift | None:
    """Shift of a population by a finer solver, by evenly chosen particles.

    None without one, and for an estimate, of which two would differ by their random numbers.
    """
    finer = finer_solver(problem, solver)
    if finer is None or sampler.state.state_particles:
        return None
    n, d = sampler.system.theta.shape
    some = slice(None, None, max(1, n // max(JUDGES, 20 * d)))
    one = sampler.compared(build_likelihood(problem, finer, None, likelihood), some)
    names, weights = problem.names, one.weights
    return shift_of_particles(names, solver, finer, one.theta, weights, one.log_increment)


def stream_record(
    problem: Problem, history: History, samples: int, doses: Sequence[Dose]
) -> Record:
    """Return the first samples of a stream as a record, sampled as the problem's first one is.

    It has the doses that were given by its end; those before its begin count as what has arrived.
    """
    template = problem.records[0]
    columns = StreamSamples(template, history).columns(0, samples)
    (t,), u, measured = columns[:, :1].T, *np.split(columns[:, 1:], [template.n_inputs], axis=1)
    _, after, _ = history.samples(samples, len(history))
    after = after[given_among(after, template.held)][:CONTEXT]
    earlier = any(one.time < t[0] for one in doses)
    function = given_function(template)
    known = u if template.held else function or u
    between = template.held > 0 and bool(u[:, -template.held].any())
    uniform = template.dt is not None and not between
    one = Record(
        u=known if template.n_inputs else None,
        u_function=function,
        **outputs_of(template, measured),
        dt=template.dt if uniform else None,
        t=None if uniform else t,
        start=float(t[0]) if uniform else 0.0,
        hold=template.hold,
        y_unit=template.y_unit,
        t_unit=template.t_unit,
        name=template.name,
        held=template.held,
        doses=[one for one in doses if one.time <= t[given_among(u, template.held)][-1]],
        u_before=np.empty((0, template.n_inputs)) if earlier else None,
        u_after=after if len(after) else None,
    )
    return with_function(one) if one.held else one
