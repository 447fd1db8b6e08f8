"""`NestedFilter`: parameters and states of a stream with process noise, at a fixed cost per sample.

APPROXIMATE. Each of N parameter vectors has a bootstrap filter of N_x state particles (Crisan and
Miguez 2018). At every sample

    jitter    theta^i <- m + sqrt(1 - h^2) (theta^i - m) + h S e,  e ~ N(0, I),  h = N^(-1/2),
    filter    the particles of theta^i to the sample: Z^i, the mean of their weights,
    weigh     w^i <- w^i Z^i; where the effective number falls below N / 2, resample vectors
              together with their filters,

m and S S' being mean and covariance of theta, in unconstrained coordinates, so that the kernel
leaves both (Liu and West 2001). No sample is looked at twice, and the time of an update does not
grow. The price: the particles of a vector were moved by the slightly other ones that it has been
before, an error of order N^(-1/2) that is the same at all times where the system forgets its past.
IBIS with the Kalman likelihood (`smcpn.Online`) has no such error, but linearises the model.

References
----------
Crisan, D., Miguez, J. (2018). Nested particle filters for online parameter estimation in
discrete-time state-space Markov models. Bernoulli 24.
Liu, J., West, M. (2001). Combined parameter and state estimation in simulation-based filtering.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.arguments import FILE_NAME, THREADS
from smcpn.checkpoint.nested import FilterState, read_nested, write_nested
from smcpn.errors import InputError, whole_number
from smcpn.io.axis import SampleArrivals, TimeAxis
from smcpn.likelihood.growing import place_before
from smcpn.likelihood.history import History
from smcpn.likelihood.particle.likelihood import STATE_PARTICLES, Particle
from smcpn.likelihood.particle.stream import stream_estimate
from smcpn.likelihood.solver_choice import solver_from_prior
from smcpn.model.dose import Dose
from smcpn.model.problem import Problem, check_problem
from smcpn.model.solver import RK4, Solver
from smcpn.online.reweighting import HiddenStates
from smcpn.online.state import WithMoments
from smcpn.smc.estimation import fresh_keys
from smcpn.smc.particles import effective_sample_size, finite_or_excluded, normalise
from smcpn.smc.resampling import systematic
from smcpn.smc.state import RandomState

Array = NDArray[np.float64]

FEWEST = 10
"""Parameter vectors whose covariance says where to jitter them, at least."""


@dataclass(frozen=True)
class NestedState(WithMoments):
    """Posterior moments of parameters and states after a sample of a `NestedFilter`, approximate.

    sample: Samples so far.
    t: Time of the last of them, s.
    ess: Effective number of parameter vectors.
    latency: Seconds that the update took.
    status: As of `smcpn.online.State`.
    missing: Samples that were put in for a gap before this one.
    names, state_names: Of the parameters and of the states.
    values: (N, d), parameter vectors.
    weights: (N,), normalised.
    log_evidence: Estimate of log p(y) of the samples so far.
    """

    sample: int
    t: float
    ess: float
    latency: float
    status: str
    missing: int
    names: tuple[str, ...]
    state_names: tuple[str, ...]
    values: Array = field(repr=False)
    weights: Array = field(repr=False)
    log_evidence: float
    _hidden: HiddenStates = field(repr=False)

    @override
    def _of_parameters(self) -> tuple[Sequence[str], Array, Array]:
        return self.names, self.values, self.weights

    @override
    def _of_states(self) -> tuple[Sequence[str], tuple[Array, Array]]:
        return self.state_names, self._hidden.mixture()


class NestedFilter:
    """Follow a stream with process noise at a fixed cost per sample. APPROXIMATE.

    See `smcpn.online.nested` for the method and its error. `smcpn.Online` with the Kalman
    likelihood is exact for a model that is linear over a sample, and looks at samples again.

    Parameters
    ----------
    problem : Problem
        With process noise. Its first record tells how the stream is sampled; its samples do not
        count.
    solver : RK4 or EKF0, optional
        With a number of steps, or ``"auto"``, chosen on the problem's record.
    particles : int
        Parameter vectors N.
    state_particles : int
        State particles N_x of each, a multiple of 32.
    seed : int, optional
    threads : int, optional
        Results do not depend on it.

    Raises
    ------
    InputError
        If an argument is out of range, or the problem has no process noise.

    Notes
    -----
    A band-limited input is known 64 samples later: so long does a sample wait.

    Examples
    --------
    >>> live = smcpn.NestedFilter(problem, particles=500, seed=1)  # doctest: +SKIP
    >>> for u, y in source:  # doctest: +SKIP
    ...     state = live.update(u, y)
    """

    def __init__(
        self,
        problem: Problem,
        *,
        solver: Solver | None = None,
        particles: int = 500,
        state_particles: int = STATE_PARTICLES,
        seed: int | None = None,
        threads: int | None = None,
    ) -> None:
        check_problem(problem)
        if problem.model.process_noise is None:
            raise InputError(
                "NestedFilter needs a problem with process noise: follow this one with smcpn.Online"
            )
        number = whole_number("particles", particles, FEWEST, 1 << 24)
        solver = solver_from_prior(problem, RK4() if solver is None else solver, Particle.name)
        rng = np.random.default_rng(None if seed is None else whole_number("seed", seed, 0))
        self._begin(problem, solver, state_particles, rng, THREADS("threads", threads))
        self._state = FilterState(
            solver=solver,
            state_particles=self._filters.state_particles,
            axis=self.axis.state,
            random_state=RandomState.of(rng),
            theta=problem.prior.sample(rng, number),
            log_weights=np.zeros(number),
            filters=np.empty((0, self._filters.state_size)),
            last=np.empty((0, 1 + problem.records[0].n_inputs + problem.model.measured)),
            held=np.array(self._arrivals.last_input, dtype=float),
        )

    def __repr__(self) -> str:
        return (
            f"<NestedFilter '{self.problem.ode.name}': {len(self._state.theta)} particles, "
            f"{self.sample} samples, {self.solver}>"
        )

    @property
    def solver(self) -> Solver:
        """In force."""
        return self._state.solver

    @property
    def sample(self) -> int:
        """Samples so far."""
        return self._state.sample

    def _begin(
        self,
        problem: Problem,
        solver: Solver,
        state_particles: int,
        rng: np.random.Generator,
        threads: int | None,
    ) -> None:
        self.problem, self._rng = problem, rng
        none = History(problem.records[0].n_inputs, problem.model.measured)
        filters = stream_estimate(problem, solver, none, threads, likelihood=Particle.name)
        self._filters = filters.with_state_particles(state_particles)
        self._arrivals = SampleArrivals(problem)

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
    ) -> NestedState:
        """Take in a sample and return what is known after it; arguments as of `Online.update`.

        Raises
        ------
        InputError
            As `Online.update`; if no parameter vector can explain the sample, which is then not
            taken in.
        """
        begin = time.perf_counter()
        before, axis, held = self._state, self.axis.state, self._arrivals.last_input
        given = self.doses
        random = self._rng.bit_generator.state
        outputs = self._arrivals.measured(y, y_sd, y_lower, y_upper)
        arrival = self._arrivals.take(u, outputs, t, doses)
        try:
            if arrival.status == "new":
                known = [*before.last, *arrival.gap, np.array(arrival.sample, dtype=float)]
                self._assimilate(np.array(known), self._filters.stream.lookahead)
        except InputError:
            self._state, self._rng.bit_generator.state = before, random
            self.axis.resume(axis)
            self._arrivals.last_input, self._arrivals.doses = held, given
            raise
        waits = arrival.status == "new" and self.sample == before.sample
        status = "waiting" if waits else arrival.status
        return self._known(status, len(arrival.gap), begin)

    @property
    def doses(self) -> tuple[Dose, ...]:
        """Doses given so far."""
        return self._arrivals.doses

    def give(self, doses: Any) -> None:
        """Take doses that are no sample's; as of `Online.give`."""
        self._arrivals.give(doses)

    def finish(self) -> NestedState:
        """Have the samples count that wait for those ahead of them; the input is held there."""
        begin = time.perf_counter()
        self._assimilate(self._state.last, 0)
        return self._known("new", 0, begin)

    @property
    def _waiting(self) -> int:
        """Samples that wait for those ahead of them."""
        return self.axis.state.count - self.sample

    def _assimilate(self, known: Array, ahead: int) -> None:
        """Assimilate the last samples beyond which so many are given ``ahead``."""
        place, end = len(known) - self._waiting, place_before(self._filters.given(known), ahead)
        for sample in range(place, end):
            self._weigh(known, sample)
        kept = known[self._filters.needed(known, max(place, end)) :]
        self._state = replace(self._state, last=np.ascontiguousarray(kept))

    def _weigh(self, known: Array, place: int) -> None:
        """Jitter, filter and weigh by a sample, and resample where it calls for that."""
        before = self._state
        theta = self._jittered() if before.sample else before.theta
        keys = fresh_keys(self._rng, len(theta), 1)
        values, filters = self.problem.prior.natural(theta), self._known_filters
        if filters is not None:
            filters = self._with_arrived(filters, values, known[place - 1])
        filters, increments = self._filters.run_one(values, keys, filters, known, place)
        log_weights = before.log_weights + finite_or_excluded(increments)
        top = log_weights.max()
        if top == -np.inf:
            raise InputError(
                f"sample {before.sample} is impossible under all parameter vectors: the outputs or "
                "the prior do not fit the model"
            )
        increment = float(_log_sum(log_weights) - _log_sum(before.log_weights))
        self._state = replace(
            before,
            sample=before.sample + 1,
            log_evidence=before.log_evidence + increment,
            theta=theta,
            log_weights=log_weights - top,
            filters=filters,
        )
        if effective_sample_size(self._state.log_weights) < len(theta) / 2:
            self._resample()

    def _with_arrived(self, filters: Array, values: Array, sample: Array) -> Array:
        """State particles (N, k) of the same states for other values (N, d), at the last sample.

        Of states they hold what has not arrived by doses, which values of lags and fractions move.
        """
        dosing, before = self.problem.model.dosing, self.problem.prior.natural(self._state.theta)
        if dosing is None or not dosing.learned:
            return filters
        u, t = sample[None, 1 : 1 + self.problem.records[0].n_inputs], sample[:1]
        old, new = (self.problem.model.arrived_at(one, u, t) for one in (before, values))
        moved = filters.copy()
        moved[:, : old.shape[1] * self._filters.state_particles] += np.repeat(
            old - new, self._filters.state_particles, axis=1
        )
        return moved

    @property
    def _known_filters(self) -> Array | None:
        """State particles of all filters; None before the first sample."""
        return self._state.filters if self._state.sample else None

    def _jittered(self) -> Array:
        """Parameter vectors moved by the shrinkage kernel, (N, d)."""
        theta, weights = self._state.theta, normalise(self._state.log_weights)
        width, mean = len(theta) ** -0.5, weights @ theta
        away = theta - mean
        covariance = (away * weights[:, None]).T @ away
        size, axes = np.linalg.eigh(covariance)
        root = axes * np.sqrt(np.maximum(size, 0.0))
        normal = self._rng.standard_normal(theta.shape)
        return mean + np.sqrt(1.0 - width**2) * away + width * (normal @ root.T)

    def _resample(self) -> None:
        state = self._state
        index = systematic(normalise(state.log_weights), self._rng)
        self._state = replace(
            state,
            theta=state.theta[index],
            filters=state.filters[index],
            log_weights=np.zeros(len(index)),
        )

    def _known(self, status: str, missing: int, begin: float) -> NestedState:
        state, filters = self._state, self._known_filters
        weights, n = normalise(state.log_weights), len(self.problem.ode.states)
        unknown = np.full((n, len(weights)), np.nan)
        moments, values = (unknown, unknown), self.problem.prior.natural(state.theta)
        if filters is not None:
            place = len(state.last) - 1 - self._waiting
            moments = self._filters.state_moments(values, filters.T, state.last, place)
        return NestedState(
            sample=state.sample,
            t=float(state.last[-1 - self._waiting, 0]) if state.sample else self.axis.last,
            ess=float(effective_sample_size(state.log_weights)),
            latency=time.perf_counter() - begin,
            status="assimilated" if status == "new" else status,
            missing=missing,
            names=self.problem.names,
            state_names=tuple(self.problem.ode.states),
            values=values,
            weights=weights,
            log_evidence=state.log_evidence,
            _hidden=HiddenStates(*moments, weights),
        )

    @property
    def axis(self) -> TimeAxis:
        """The time axis: which samples are new, late or missing."""
        return self._arrivals.axis

    def save(self, path: str | PathLike[str]) -> None:
        """Write all that `load` needs to go on, whole or not at all.

        Raises
        ------
        InputError
            If the file cannot be written, or holds what cannot be stored, as of `Online.save`.
        """
        known = replace(
            self._state,
            axis=self.axis.state,
            random_state=RandomState.of(self._rng),
            held=np.array(self._arrivals.last_input, dtype=float),
            doses=self._arrivals.stored_doses,
        )
        write_nested(FILE_NAME("path", path), self.problem, known)

    @classmethod
    def load(cls, path: str | PathLike[str], threads: int | None = None) -> NestedFilter:
        """Return the filter that `save` wrote; it goes on to the same bytes.

        Raises
        ------
        InputError
            If there is no such file, or it is damaged and has no previous version.
        """
        file, threads = FILE_NAME("path", path), THREADS("threads", threads)
        (problem, state), live = read_nested(file), cls.__new__(cls)
        rng = state.random_state.generator()
        live._begin(problem, state.solver, state.state_particles, rng, threads)
        if state.sample and state.filters.shape[1] != live._filters.state_size:
            raise InputError(f"{path}: its filters are of another model: the file is damaged")
        live._state, live._arrivals.last_input = state, state.held.tolist()
        live.axis.resume(state.axis)
        live._arrivals.resume_doses(state.doses)
        return live


def _log_sum(log_weights: Array) -> float:
    top = log_weights.max()
    return float(top + np.log(np.exp(log_weights - top).sum()))
