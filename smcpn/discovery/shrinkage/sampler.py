"""The posterior of all coefficients together under a prior that shrinks them.

The outputs are linearised in coefficients and initial states about their posterior mean. Particles
come from the prior to the posterior of this linear model by tempering with Gibbs moves, and are
carried over from there to the likelihood of the trajectories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator
from scipy import stats

from smcpn.base.status import tell
from smcpn.base.stored import Stored
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.shrinkage.mixture_moves import LinearGibbs, MixtureMoves, Normals
from smcpn.discovery.shrinkage.priors import JointPrior, Shrinkage
from smcpn.discovery.shrinkage.quadratic import QuadraticLikelihood
from smcpn.errors import InputError, one_of
from smcpn.likelihood.contract import LikelihoodView
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.registry import LIKELIHOODS, build_likelihood
from smcpn.model.measured import Y_SD
from smcpn.model.noise import Normal, Symbols
from smcpn.model.ode import ODE
from smcpn.model.problem import Problem
from smcpn.model.record import Record, stated_outputs
from smcpn.model.solver import Solver
from smcpn.smc.distributed.workers import Workers, distributed, evaluated_by
from smcpn.smc.particles import normalise
from smcpn.smc.replicates import Populations, combine, diagnose
from smcpn.smc.sampler import Progress, Settings
from smcpn.smc.state import RandomState, SamplerState
from smcpn.smc.tempering import Tempering
from smcpn.smc.verification import is_consistent

Array = NDArray[np.float64]


def relative_to_start(
    ode: ODE, records: Sequence[Record], outputs: Sequence[str], initial: Array
) -> tuple[ODE, list[Record]]:
    """Return equation and records of x - x(0), with x(0) as constant inputs.

    All of them begin at zero: initial states that differ from record to record would each be an
    expression of the model, a thousand of which cost more than a short record itself. The first
    samples are no data then and left out.

    ``outputs`` names the state that each output measures, and ``initial``, (R, n), is x(0) of each
    record. An input that is a function is refused.
    """
    n, m = len(ode.states), len(ode.inputs)
    x, u, t = ca.SX.sym("x", n), ca.SX.sym("u", m + n), ca.SX.sym("t")
    p = ca.SX.sym("p", len(ode.parameters))
    rate = ca.Function("rhs", [x, u, t, p], [ode.rhs(x + u[m:], u[:m], t, p)])
    names = tuple(f"{state}(0)" for state in ode.states)
    places = [ode.states.index(name) for name in outputs]
    moved: list[Record] = []
    for record, begin in zip(records, initial, strict=True):
        if record.u_function is not None:
            raise InputError(
                f"{record.name}: u is a function: give its samples where initial states are known",
                argument="u",
            )
        y = record.y - begin[places]
        y[0] = np.nan
        before, u_own, after = (
            None if one is None else np.hstack([one, np.tile(begin, (len(one), 1))])
            for one in (record.u_before, record.u, record.u_after)
        )
        moved.append(replace(record, y=y, u=u_own, dt=None, u_before=before, u_after=after))
    return replace(ode, inputs=ode.inputs + names, rhs=rate, chains={}), moved


NOISE_SHAPE = 0.25
"""Of the gamma prior of 1 / sigma^2: a standard deviation of log sigma of 2."""
NEAR = 1e-3
"""Distance from the start, in units of the coefficients, within which solver steps are chosen."""
LINEARISED = 3
"""Linearisations: at the start, then at the posterior mean by the one before."""
CHAINS, SWEEPS = 64, 100
"""Of the Gibbs sampling that finds this mean."""


@dataclass(frozen=True)
class Point:
    """End of a search: coefficients, initial states and noise.

    coefficients: (K,)
    initial: (R, n), states at the first sample of each record.
    noise: (q,), standard deviation of each output.
    """

    coefficients: Array
    initial: Array
    noise: Array


@dataclass(frozen=True)
class CoefficientPopulations(Populations):
    """Weighted particles of a system's coefficients.

    prior: Of K coefficients, noise of q outputs, initial states unless they are known, and its
        global scales, in the order of the columns of ``values``.
    shrinkage: (K,), posterior mean of kappa_j = var(theta_j | y, v) / v_j, where v are the
        variances of the mixture: 0 where the data decide, 1 where the prior does. K less their sum
        is the effective number of coefficients.

    References
    ----------
    Piironen, J., Vehtari, A. (2017). Sparsity information and regularization in the horseshoe and
    other shrinkage priors. Electronic Journal of Statistics 11 (eq. 3.6, for orthogonal columns).
    """

    prior: JointPrior
    shrinkage: Array
    solver: Solver
    likelihood: str

    @cached_property
    def values(self) -> Array:
        """Parameter values of the particles, (N, d)."""
        return self.prior.natural(self.theta)

    @cached_property
    def weights(self) -> Array:
        """Normalised weights, (N,)."""
        return normalise(self.log_weights)


def _known(likelihood: str) -> str:
    return one_of("likelihood", likelihood, LIKELIHOODS)


@dataclass(frozen=True)
class ShrinkageState(Stored):
    """The state of a `ShrinkageRun` between two parts.

    linear: Linearised about the posterior mean.
    random_state: Of the generator that is not one of a population.
    populations: Finished ones first.
    """

    solver: Solver
    likelihood: Annotated[str, AfterValidator(_known)]
    linear: QuadraticLikelihood
    random_state: RandomState
    populations: tuple[SamplerState, ...] = ()


class ShrinkageRun:
    """Populations that sample the coefficients of a system, computed part by part.

    Between parts a `snapshot` has all that it goes on from.

    The system has K coefficients, and ``outputs`` names the state that each output measures. The
    start has trajectories near the data; coefficients may be zero there. A prior of scaled units
    has the coefficients in ``units``, (K,). ``spread``, (n,), are prior standard deviations of the
    initial states about those of ``start``; without them these are taken as exact, and the first
    samples, from which they may come, as no data. ``noise_prior`` has shape and rates of the gamma
    prior of 1 / sigma^2; by default .25 and so that the mean is that of ``start``. Inputs come with
    a ``delay``. ``workers`` evaluate large batches. From a ``state`` that is a `snapshot` the same
    bytes come. ``samplers`` has finished ones first; the other options are as of `smcpn.identify`.

    A trajectory that diverges at the start, and a coefficient with a sign, are refused.
    """

    def __init__(
        self,
        records: Sequence[Record],
        system: CandidateSystem,
        outputs: Sequence[str],
        prior: Shrinkage,
        start: Point,
        units: Array,
        *,
        spread: Array | None = None,
        noise_prior: tuple[float | Array, float | Array] | None = None,
        delay: Mapping[str, float] | None = None,
        solver: Solver | None = None,
        likelihood: str | None = None,
        particles: int = 1000,
        replicates: int = 1,
        seed: int | None = 0,
        threads: int | None = None,
        workers: Workers | None = None,
        state: ShrinkageState | None = None,
    ) -> None:
        _refuse_signs(system, prior)
        self._layout = _Layout.of(records, system, outputs, start, units, spread, delay)
        self._prior, self._normals = _priors(
            self._layout, system, prior, units, start.noise, noise_prior
        )
        self._start, self._particles, self.replicates = start, particles, replicates
        self._threads, self._workers = threads, workers
        self._solver, self._likelihood = solver, likelihood
        self._first, *self._generators = np.random.default_rng(seed).spawn(1 + replicates)
        self._gibbs: LinearGibbs | None = None
        self.samplers: list[Tempering] = []
        if state is not None:
            self._restore(state)

    def _restore(self, state: ShrinkageState) -> None:
        self._solver, self._likelihood = state.solver, state.likelihood
        self._first = state.random_state.generator()
        sizes = state.linear.first, len(state.linear.centre), state.linear.n_samples
        k, samples = len(self._start.coefficients), self._layout.problem.n_samples
        if sizes != (k, k + len(self._layout.mean), samples):
            raise InputError("its linear model is one of other records or terms: begin anew")
        self._begin_with(LinearGibbs(self._prior, state.linear, self._normals))
        for one in state.populations:
            carried = one.sample > 0 and not one.refining
            likelihood: Any = self._finer if carried else state.linear
            self.samplers.append(
                Tempering.resumed(self._prior, likelihood, self._settings, one, self._finer)
            )

    def verify(self) -> None:
        """Evaluate particles of all populations again, and refuse them if they differ."""
        if not all(is_consistent(sampler) for sampler in self.samplers):
            raise InputError(
                "its particles have another likelihood here: use the versions of smcpn and its "
                "packages that wrote it, or begin anew"
            )

    def _begin_with(self, gibbs: LinearGibbs) -> None:
        """Take a linear model, and build the likelihood of the trajectories."""
        self._gibbs = gibbs
        self._settings = Settings(particles=self._particles, moves=MixtureMoves(gibbs))
        assert self._solver is not None
        exact = build_likelihood(
            self._layout.problem, self._solver, self._threads, self._likelihood
        )
        self._finer = LikelihoodView(distributed(exact, self._workers), unread=self._prior.n_scales)

    @property
    def ended(self) -> bool:
        """True if nothing is left to compute but the `result`."""
        done = len(self.samplers) == self.replicates
        return done and self.samplers[-1].sample > 0 and self.samplers[-1].finer is None

    def proceed(self) -> None:
        """Compute the next part: linearise, or take a population one step on its way."""
        if self._gibbs is None:
            self._linearise()
            return
        at_work = self.samplers[-1] if self.samplers else None
        if at_work is None or (at_work.sample > 0 and at_work.finer is None):
            rng = self._generators[len(self.samplers)]
            at_work = Tempering(self._prior, self._gibbs.linear, self._settings, rng)
            self.samplers.append(at_work)
        if at_work.finer is not None:
            at_work.cross_refinement()
        else:
            at_work.proceed(at_work.likelihood.n_samples)
            if at_work.sample:
                at_work.refine(self._finer, at_work.compared(self._finer))
        _tell(at_work.progress())

    def _linearise(self) -> None:
        """Choose the solver, and linearise about the posterior mean."""
        log_likelihood = LogLikelihood(
            self._layout.problem, self._likelihood, self._solver, self._threads
        )
        self._solver, self._likelihood = log_likelihood.solver, log_likelihood.likelihood
        log_likelihood = log_likelihood.evaluated(evaluated_by(self._workers))
        self._begin_with(
            _centred(
                self._prior, self._normals, log_likelihood, self._layout, self._start, self._first
            )
        )

    def snapshot(self) -> ShrinkageState | None:
        """Return the state with those of the populations; None before there is a linear model."""
        if self._gibbs is None:
            return None
        assert self._solver is not None
        assert self._likelihood is not None
        return ShrinkageState(
            self._solver, self._likelihood, self._gibbs.linear, RandomState.of(self._first),
            tuple(sampler.snapshot() for sampler in self.samplers),
        )  # fmt: skip

    def result(self) -> CoefficientPopulations:
        """Return the populations as one, at the end."""
        assert self._gibbs is not None
        assert self._solver is not None
        assert self._likelihood is not None
        found = combine(self.samplers)
        # The way of the linear model from the prior is long and cheap, whatever the data.
        bridges = [diagnose(sampler.rejuvenations).get("bridge") for sampler in self.samplers]
        warnings = tuple(one for one in found.warnings if one not in bridges)
        return CoefficientPopulations(
            **vars(replace(found, warnings=warnings)),
            prior=self._prior,
            shrinkage=normalise(found.log_weights) @ self._gibbs.shrunk(self._first, found.theta),
            solver=self._solver,
            likelihood=self._likelihood,
        )


def _refuse_signs(system: CandidateSystem, prior: Shrinkage) -> None:
    if system.freedom.signs.any():
        signed = system.coefficients[int(np.flatnonzero(system.freedom.signs)[0])]
        raise InputError(
            f"prior is '{prior.name}', which knows no signs, but that of {signed} is given: leave "
            "the constraint out, or take prior='spike-and-slab'",
            argument="prior",
        )


def _tell(progress: Progress) -> None:
    """Show how far a sampler is."""
    tell(f"coefficients: {len(progress.rejuvenations)} rejuvenations, ESS {progress.ess:.0f}")


def _priors(
    layout: _Layout,
    system: CandidateSystem,
    prior: Shrinkage,
    units: Array,
    noise: Array,
    noise_prior: tuple[float | Array, float | Array] | None,
) -> tuple[JointPrior, Normals]:
    """Return the prior of all parameters, and those of noise and initial states by themselves."""
    given = noise_prior or (NOISE_SHAPE, NOISE_SHAPE * noise**2)
    shapes, rates = (np.array(np.broadcast_to(one, noise.shape)) for one in given)
    # sigma = G^(-1/2) with G gamma.
    others: dict[str, Any] = {
        name: stats.gengamma(shape, -2.0, scale=np.sqrt(rate))
        for name, shape, rate in zip(layout.noise, shapes, rates, strict=True)
    }
    for name, mean, sd in zip(layout.initial, layout.mean, layout.sd, strict=True):
        others[name] = stats.norm(mean, sd)
    units = units if prior.units == "scaled" else np.ones(len(units))
    joint = JointPrior(prior, dict(zip(system.coefficients, units.tolist(), strict=True)), others)
    return joint, Normals(layout.mean, layout.sd, shapes, rates)


def _centred(
    prior: JointPrior,
    normals: Normals,
    log_likelihood: LogLikelihood,
    layout: _Layout,
    start: Point,
    rng: np.random.Generator,
) -> LinearGibbs:
    """Linearise about the posterior mean, as long as the trajectory there does not diverge.

    Raises `InputError` if it does at the start.
    """
    k, noise = len(start.coefficients), start.noise
    places = np.arange(k, k + len(noise))

    def linearised(centre: Array) -> LinearGibbs:
        linear = QuadraticLikelihood.of(log_likelihood, k, centre, noise, layout.counts)
        return LinearGibbs(prior, linear, normals)

    centre = np.append(start.coefficients, layout.mean)
    try:
        gibbs = linearised(centre)
    except FloatingPointError:
        raise InputError(
            "the trajectory of the model that was found diverges: take prior='spike-and-slab', a "
            "solver with more steps, or likelihood='filtering' where the trajectory is chaotic"
        ) from None
    values = np.concatenate([start.coefficients, noise, layout.mean, np.ones(prior.n_scales)])
    theta = prior.unconstrained(np.tile(values, (CHAINS, 1)))
    for _ in range(LINEARISED - 1):
        theta = gibbs.swept(rng, theta, 1.0, SWEEPS)
        mean = np.delete(prior.natural(theta).mean(axis=0), places)
        try:
            gibbs = linearised(mean[: len(centre)])
        except FloatingPointError:
            break
    return gibbs


@dataclass(frozen=True, repr=False)
class _InUnits(Normal):
    """Gaussian noise whose deviation is y_sd, as a parameter multiplies it.

    unit: Of the parameter, at which it is y_sd itself.
    """

    unit: float

    @property
    def varies(self) -> bool:
        """True: the standard deviation is another at every sample."""
        return True

    def variance(self, symbols: Symbols) -> ca.SX:
        """Variance of the noise, (1, 1)."""
        return (symbols.number(self.sd, "sd") / self.unit * symbols.known[Y_SD]) ** 2


@dataclass(frozen=True)
class _Layout:
    """A problem whose parameters are coefficients, noise, and initial states.

    Its own prior is narrow about the start: solver steps are chosen for draws from it.
    """

    problem: Problem
    counts: Array
    noise: tuple[str, ...]
    initial: tuple[str, ...]
    mean: Array
    sd: Array

    @classmethod
    def of(
        cls,
        records: Sequence[Record],
        system: CandidateSystem,
        outputs: Sequence[str],
        start: Point,
        units: Array,
        spread: Array | None,
        delay: Mapping[str, float] | None,
    ) -> _Layout:
        ode, many, has_sd = system.equation(), len(records) > 1, stated_outputs(records)
        noise = tuple(f"noise of {name}" for name in outputs)
        near: dict[str, Any] = _normals(system.coefficients, start.coefficients, NEAR * units)
        for name, sd in zip(noise, start.noise, strict=True):
            near[name] = stats.lognorm(NEAR, scale=sd)
        initial: Any = "rest"
        mean, sds, names = np.empty(0), np.empty(0), ()
        if spread is None:
            ode, records = relative_to_start(ode, records, outputs, start.initial)
        else:
            ends = [f"[{r}]" for r in range(len(records))] if many else [""]
            each = [{state: f"{state}(0){end}" for state in ode.states} for end in ends]
            initial = each if many else each[0]
            names = tuple(name for own in each for name in own.values())
            mean, sds = start.initial.ravel(), np.tile(spread, len(records))
            near |= _normals(names, mean, NEAR * sds)
        problem = Problem(
            ode,
            list(records),
            observe=list(outputs),
            noise=[
                _InUnits(name, sd) if stated else name
                for name, sd, stated in zip(noise, start.noise, has_sd, strict=True)
            ],
            prior=near | dict(system.known.defaults),
            initial=initial,
            delay=delay,
        )
        counts = np.sum([np.isfinite(record.y).sum(axis=0) for record in records], axis=0)
        return cls(problem, counts.astype(float), noise, names, mean, sds)


def _normals(names: Sequence[str], means: Array, sds: Array) -> dict[str, Any]:
    return {name: stats.norm(*row) for name, *row in zip(names, means, sds, strict=True)}
