"""Moves along gradients: Hamiltonian Monte Carlo and its single step, the Langevin proposal.

Their metric is a covariance fitted to particles and to gradients at them. For a Gaussian target of
precision P, gradients at particles are g = -P (x - mean), so that their covariance is P X P where
that of the particles is X: the solution C of C G C = X is then exactly P^-1 from d + 1 particles
on, where X alone would need many for each parameter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd
from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.arguments import Count, check_fields, whole
from smcpn.errors import InputError
from smcpn.smc.kernels import Move
from smcpn.smc.moves import MoveStrategy
from smcpn.smc.particles import ParticleSystem, Target
from smcpn.smc.rejuvenation import (
    MoveSettings,
    Rejuvenation,
    Rounds,
    chains_of,
    efficiency_of_chains,
    number_of_chains,
)
from smcpn.smc.resampling import Resample

Array = NDArray[np.float64]

ENOUGH = 1.5
"""Particles per dimension from which correlations are believed."""
RIDGE = 1e-10
"""Added to the diagonal of a covariance of unit scale."""


@dataclass(frozen=True)
class Metric:
    """Coordinates z in which a target is about isotropic: theta = centre + factor z.

    centre: (d,)
    factor: (d, d), a root of the covariance.

    References
    ----------
    Seyboldt, A., Carlson, E. L., Carpenter, B. (2026). Preconditioning Hamiltonian Monte Carlo by
    minimizing Fisher divergence (what the covariance minimises). Ledoit, O., Wolf, M. (2004). A
    well-conditioned estimator for large-dimensional covariance matrices. Journal of Multivariate
    Analysis 88 (shrinking).
    """

    centre: Array
    factor: Array

    @classmethod
    def fit(cls, theta: Array, gradient: Array, weights: Array) -> Self:
        """Fit to weighted particles (n, d) and (n,), and the gradients at them, (n, d).

        Particles at which the gradient is not finite are left out. Where there are fewer than
        `ENOUGH` for each dimension, both covariances are shrunk towards their diagonals.

        Raises `InputError` if fewer than two are left.
        """
        known = np.isfinite(gradient).all(axis=1) & (weights > 0)
        if np.count_nonzero(known) < 2:
            raise InputError(
                f"the gradient of the log-likelihood is finite at {np.count_nonzero(known)} of "
                f"{len(theta)} particles: choose moves='independent', or write the equation "
                "without functions of infinite slope, such as sqrt at 0",
                argument="moves",
            )
        theta, gradient, weights = theta[known], gradient[known], weights[known]
        weights = weights / weights.sum()
        d = theta.shape[1]
        centre, root = weights @ theta, np.sqrt(weights)[:, None]
        points, slopes = root * (theta - centre), root * (gradient - weights @ gradient)
        spread, steepness = _lengths(points), _lengths(slopes)
        scale = np.sqrt(spread / steepness)
        share = min(1.0, len(theta) / (ENOUGH * d)) ** 2
        lower = np.linalg.cholesky(_covariance(points / scale, share))
        values, vectors = np.linalg.eigh(lower.T @ _covariance(slopes * scale, share) @ lower)
        values = np.maximum(values, RIDGE * values[-1])
        return cls(centre, scale[:, None] * (lower @ vectors) * values**-0.25)

    def coordinates(self, theta: Array) -> Array:
        """Coordinates z of parameters, (n, d) both."""
        z = np.linalg.solve(self.factor, (theta - self.centre).T).T
        return np.asarray(z, dtype=np.float64)


def _lengths(columns: Array) -> Array:
    """Lengths of the columns, none zero."""
    return np.maximum(np.sqrt(np.square(columns).sum(axis=0)), np.finfo(float).tiny ** 0.25)


def _covariance(points: Array, share: float) -> Array:
    """Covariance of centred points, of whose correlations a share is believed."""
    covariance = points.T @ points
    diagonal = np.diag(covariance).copy()
    covariance *= share
    np.fill_diagonal(covariance, diagonal * (1.0 + RIDGE))
    return covariance


LONGEST_STEP = 1.8
"""At 2 the leapfrog steps of a standard normal become unstable."""
JITTER = 0.1
"""Share by which the step of a trajectory differs from the one that is learned."""
HALVINGS = 30
TOO_FEW = 0.5
"""Acceptance of one leapfrog step below which the first step is halved."""
CHANGE = 0.2
"""Most change of the logarithm of the time of trajectories in one rejuvenation."""


@dataclass
class Tuning:
    """Length of leapfrog steps and time of trajectories, learned from those of all particles.

    The step is driven to a wanted acceptance after every move. The time of a trajectory is its
    number of steps times their length, a random share between a half and three halves of the one
    learned: that rises where the longer half of the trajectories has more `DrawsPerGradient`.

    acceptance: The wanted one.
    most: Leapfrog steps of a trajectory at most.

    References
    ----------
    Buchholz, A., Chopin, N., Jacob, P. E. (2021). Adaptive tuning of Hamiltonian Monte Carlo
    within sequential Monte Carlo. Bayesian Analysis 16 (random steps and lengths, of which those
    that moved the particles well make the next ones).
    """

    step: float
    time: float
    acceptance: float
    most: int

    def __post_init__(self) -> None:
        self._moves, self._halves = 0, (DrawsPerGradient(), DrawsPerGradient())

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Array, NDArray[np.int64]]:
        """Length and number of the leapfrog steps of ``size`` trajectories, (size,) both."""
        step = self.step * (1.0 + JITTER * (2.0 * rng.random(size) - 1.0))
        time = self.time * (0.5 + rng.random(size))
        return step, np.clip(np.rint(time / step), 1, self.most).astype(np.int64)

    def learn(
        self, accepted: Array, renewed: Array, steps: Array, number: NDArray[np.int64]
    ) -> None:
        """Learn from trajectories.

        ``accepted``, (n,), are probabilities of acceptance, ``renewed``, (k, n), expected squared
        jumps of k functions of the particles over twice their variance, and ``steps`` and
        ``number``, (n,), length and number of the leapfrog steps.
        """
        self._moves += 1
        gain = (float(accepted.mean()) - self.acceptance) / np.sqrt(self._moves)
        self.step = min(self.step * float(np.exp(gain)), LONGEST_STEP)
        long = steps * number > self.time
        for half, own in zip(self._halves, (~long, long), strict=True):
            half.add(renewed[:, own], number[own])

    def end(self) -> None:
        """Lengthen or shorten the trajectories by what all moves have shown."""
        short, long = (half.value for half in self._halves)
        if self.most > 1 and short > 0.0 and long > 0.0:
            self.time *= float(np.exp(np.clip(np.log(long / short), -CHANGE, CHANGE)))
            self.time = float(np.clip(self.time, self.step, self.most * self.step))


@dataclass
class DrawsPerGradient:
    """Effective draws of trajectories for each of their gradients.

    With a correlation r between begin and end of a move, that is (1 - r) / (1 + r) draws for each
    move, of the function that needs most; negative correlations count as none.
    """

    renewed: Array | float = 0.0
    count: int = 0
    gradients: int = 0

    def add(self, renewed: Array, number: NDArray[np.int64]) -> None:
        """Add trajectories: half their squared jumps over the variance (k, n), and steps (n,)."""
        self.renewed = self.renewed + renewed.sum(axis=1)
        self.count += len(number)
        self.gradients += int(number.sum())

    @property
    def value(self) -> float:
        """The number, 0 before the first trajectory."""
        if not self.count:
            return 0.0
        left = max(0.0, 1.0 - float(np.min(self.renewed)) / self.count)
        return (1.0 - left) / (1.0 + left) * self.count / self.gradients


@dataclass(frozen=True)
class Phase:
    """Parameters, their coordinates, momenta and gradients of particles, (n, d) each."""

    theta: Array
    z: Array
    momentum: Array
    gradient: Array

    @property
    def finite(self) -> NDArray[np.bool_]:
        """True where neither parameters nor gradients have become infinite, (n,)."""
        finite = np.isfinite(np.hstack([self.theta, self.gradient]))
        return np.asarray(finite.all(axis=1), dtype=np.bool_)


@dataclass(frozen=True)
class ProposedEnds:
    """Ends of trajectories.

    system: The ends, evaluated; the beginning where a trajectory has become infinite.
    density: (n,), their log density, -inf there.
    log_ratio: (n,), log of the Metropolis ratio.
    """

    system: ParticleSystem
    density: Array
    end: Phase
    log_ratio: Array

    @property
    def acceptance(self) -> Array:
        """Probability of acceptance, (n,)."""
        return np.exp(np.minimum(self.log_ratio, 0.0))


class Trajectories:
    """The `Kernel` of Hamiltonian trajectories, by leapfrog steps in the coordinates of a metric.

    Leapfrog steps are reversible and keep volumes whatever force they follow, so that nothing
    depends on how exact the gradient is but the acceptance: the ends are evaluated, and accepted,
    by the target's own density.

    gradients: Gradients evaluated.
    start_correlation: Mean over the moves of the correlation of the log-likelihood with that at the
        start.
    efficiency: Effective draws of a move, see `smcpn.smc.rejuvenation`.
    """

    def __init__(self, name: str, metric: Metric, tuning: Tuning) -> None:
        self.name, self.metric, self.tuning = name, metric, tuning
        self.gradients, self.start_correlation, self.efficiency = 0, 0.0, float("nan")

    def moves(
        self, system: ParticleSystem, target: Target, rng: np.random.Generator, count: int
    ) -> Iterator[Move]:
        """Move an equally weighted population ``count`` times; yield it after each move."""
        gradient = self._gradient(target, system.theta)
        z, density = self.metric.coordinates(system.theta), target.log_density(system)
        levels, renewed = [system.log_increment], np.zeros(2 + z.shape[1])
        for _ in range(count):
            steps, number = self.tuning.draw(rng, len(system))
            momentum = rng.standard_normal(system.theta.shape)
            begin = Phase(system.theta, z, momentum, gradient)
            proposed = self._proposed(target, system, density, begin, steps, number)
            accept = np.log1p(-rng.random(len(system))) < proposed.log_ratio
            moved = np.where(proposed.end.finite[:, None], proposed.end.z, z)
            jumps = _share_renewed(system, z, proposed, moved)
            self.tuning.learn(proposed.acceptance, jumps[:2], steps, number)
            renewed += jumps.mean(axis=1) / count
            system = system.where(accept, proposed.system)
            density = np.where(accept, proposed.density, density)
            z = np.where(accept[:, None], moved, z)
            gradient = np.where(accept[:, None], proposed.end.gradient, gradient)
            levels.append(system.log_increment)
            diverged = np.count_nonzero(proposed.density == -np.inf)
            yield Move(system, int(accept.sum()), int(diverged))
        self.start_correlation = _start_correlation(np.array(levels))
        self.efficiency = efficiency_of_chains(1.0 - renewed)

    def shorten(self, system: ParticleSystem, target: Target, rng: np.random.Generator) -> None:
        """Halve the step until one leapfrog step of all particles is often accepted."""
        gradient, density = self._gradient(target, system.theta), target.log_density(system)
        z, once = np.zeros_like(system.theta), np.ones(len(system), dtype=np.int64)
        for _ in range(HALVINGS):
            begin = Phase(system.theta, z, rng.standard_normal(z.shape), gradient)
            steps = np.full(len(system), self.tuning.step)
            proposed = self._proposed(target, system, density, begin, steps, once)
            if proposed.acceptance.mean() > TOO_FEW:
                return
            self.tuning.step *= 0.5

    def _proposed(
        self,
        target: Target,
        system: ParticleSystem,
        density: Array,
        begin: Phase,
        steps: Array,
        number: NDArray[np.int64],
    ) -> ProposedEnds:
        """Follow a trajectory from each particle, of log density (n,), and evaluate its end."""
        end = self._leapfrog(target, begin, steps, number)
        finite = end.finite
        ends = target.particles(np.where(finite[:, None], end.theta, system.theta), system.keys)
        reached = np.where(finite, target.log_density(ends), -np.inf)
        with np.errstate(all="ignore"):
            change = reached - 0.5 * np.square(end.momentum).sum(axis=1)
            change -= density - 0.5 * np.square(begin.momentum).sum(axis=1)
        return ProposedEnds(ends, reached, end, np.nan_to_num(change, nan=-np.inf))

    def _leapfrog(
        self, target: Target, begin: Phase, steps: Array, number: NDArray[np.int64]
    ) -> Phase:
        """Make ``number`` leapfrog steps of length ``steps`` with each particle, (n,) both."""
        factor = self.metric.factor
        theta, z, gradient = begin.theta.copy(), begin.z.copy(), begin.gradient.copy()
        momentum = begin.momentum + 0.5 * steps[:, None] * (gradient @ factor)
        going = np.isfinite(momentum).all(axis=1)
        for k in range(int(number.max())):
            some = np.flatnonzero(going & (number > k))
            if not len(some):
                break
            change = steps[some, None] * momentum[some]
            z[some] += change
            theta[some] += change @ factor.T
            gradient[some] = self._gradient(target, theta[some])
            share = np.where(number[some] > k + 1, 1.0, 0.5) * steps[some]
            with np.errstate(all="ignore"):
                momentum[some] += share[:, None] * (gradient[some] @ factor)
            going = np.isfinite(momentum).all(axis=1)
        return Phase(theta, z, momentum, gradient)

    def _gradient(self, target: Target, theta: Array) -> Array:
        self.gradients += len(theta)
        return target.gradient(theta)


def _share_renewed(system: ParticleSystem, z: Array, proposed: ProposedEnds, moved: Array) -> Array:
    """Expected squared jumps over twice the variance, of what moves are judged by, (2 + d, n).

    That is log-likelihood, squared distance from the centre, and each coordinate, (n, d) before and
    after. The mean over the particles is one minus the correlation of a move.
    """
    before = np.vstack([system.log_increment, np.square(z).sum(axis=1), z.T])
    after = np.vstack([proposed.system.log_increment, np.square(moved).sum(axis=1), moved.T])
    accepted = proposed.acceptance
    # What is never accepted may lie so far off that the square is infinite.
    jumps = np.where(accepted > 0.0, after - before, 0.0)
    spreads = np.maximum(before.var(axis=1), np.finfo(float).tiny)
    return accepted * np.square(jumps) / (2.0 * spreads[:, None])


def _start_correlation(levels: Array) -> float:
    """Mean over the moves of the correlation of (moves + 1, n) with the first row, 0 to 1."""
    centred = np.where(np.isfinite(levels), levels, np.nan)
    centred = np.nan_to_num(centred - np.nanmean(centred))
    variance = float(np.square(centred).mean())
    if variance == 0.0:
        return 0.0
    return float(np.clip((centred[1:] * centred[0]).mean() / variance, 0.0, 1.0))


FIRST_TIME = 1.2
"""Time of a trajectory at first: of a standard normal it is the one that renews its energy at the
least cost, the maximum of sin(t)^2 / t."""
FITTED = 4
"""Particles per dimension whose gradients fit the metric."""
FEWEST_FITTED = 200


@dataclass(frozen=True)
class GradientMoves(MoveStrategy):
    """Base of the strategies that follow the gradient, by chains that are kept whole.

    N / length particles are resampled, each begins a chain, and all states of all chains are the
    population (waste-free), but for the starts: these are copies of the population before, and
    would hand its errors on. The metric is fitted to the weighted particles and the gradients at
    them; step and time of the trajectories go on from the rejuvenation before.

    length: States of a chain, its start not counted.
    acceptance: Share of proposals to be accepted, to which the length of steps is driven.

    References
    ----------
    Dau, H.-D., Chopin, N. (2022). Waste-free sequential Monte Carlo. JRSS B 84.
    """

    follows_gradient: ClassVar[bool] = True

    length: Annotated[int, whole(1)] = 20
    acceptance: float = 0.8

    def __post_init__(self) -> None:
        check_fields(self, *vars(self))
        if not 0.0 < self.acceptance < 1.0:
            raise InputError(
                f"acceptance is {self.acceptance}: choose a share between 0 and 1",
                argument="acceptance",
            )

    @property
    def most_steps(self) -> int:
        """Leapfrog steps of a trajectory at most."""
        return 1

    @override
    def rejuvenate(
        self,
        system: ParticleSystem,
        target: Target,
        rng: np.random.Generator,
        resample: Resample,
        previous: Rejuvenation | None,
    ) -> tuple[ParticleSystem, Rejuvenation]:
        n, system = len(system), replace(system, lineage=chains_of(system, previous))
        chains = number_of_chains(self.length, n)
        rounds = Rounds(system, target, rng, MoveSettings())
        wanted = max(FITTED * system.theta.shape[1], FEWEST_FITTED)
        fitted = system.take(_of_all_chains(n, wanted, previous.chains if previous else 0))
        slopes = target.gradient(fitted.theta)
        metric = Metric.fit(fitted.theta, slopes, fitted.weights)
        kernel = Trajectories(self.name, metric, self._tuning(previous, system.theta.shape[1]))
        kernel.gradients += len(fitted)
        rounds.resample(resample, chains)
        begin = rounds.system
        if previous is None or previous.proposal != self.name:
            kernel.shorten(begin, target, rng)
        rounds.keep_all(kernel, self.length, n)
        kernel.tuning.end()
        return rounds.system, _recorded(rounds.record(kernel), kernel, target, chains)

    @override
    def check(self, particles: int) -> None:
        number_of_chains(self.length, particles)

    def _tuning(self, previous: Rejuvenation | None, d: int) -> Tuning:
        """Return what the rejuvenation before has learned, or what suits a standard normal."""
        if previous is not None and previous.proposal == self.name:
            return Tuning(previous.step, previous.time, self.acceptance, self.most_steps)
        return Tuning(1.4 * d**-0.25, FIRST_TIME, self.acceptance, self.most_steps)


def _of_all_chains(particles: int, wanted: int, chains: int) -> slice:
    """Return which particles fit the metric: some of every chain, at least as many as wanted.

    A stride that divides the number of chains would see always the same ones.
    """
    stride = max(1, particles // wanted)
    while gcd(stride, max(chains, 1)) > 1:
        stride -= 1
    return slice(None, None, stride)


def _recorded(
    record: Rejuvenation, kernel: Trajectories, target: Target, chains: int
) -> Rejuvenation:
    """Return the record with what the trajectories learned and took."""
    gradients = kernel.gradients / record.evaluations
    return replace(
        record,
        increments=record.increments + kernel.gradients * target.n_samples,
        gradients=kernel.gradients,
        step=kernel.tuning.step,
        time=kernel.tuning.time,
        chains=chains,
        start_correlation=kernel.start_correlation,
        efficiency=kernel.efficiency / (1.0 + gradients * target.gradient_cost),
    )


@dataclass(frozen=True)
class HamiltonianMonteCarlo(GradientMoves):
    """Hamiltonian Monte Carlo: moves along the gradient, for many parameters.

    An independent draw of d parameters takes some d^(1/4) gradients.

    Attributes
    ----------
    length : int
        States of a chain, its start not counted.
    acceptance : float
        Share of proposals to be accepted, to which the length of steps is driven.
    steps : int
        Leapfrog steps of a trajectory at most.

    References
    ----------
    Neal, R. M. (2011). MCMC using Hamiltonian dynamics. In: Handbook of Markov Chain Monte Carlo.
    """

    name: ClassVar[str] = "hmc"

    steps: Count = 256

    @property
    def most_steps(self) -> int:
        """Leapfrog steps of a trajectory at most."""
        return self.steps


@dataclass(frozen=True)
class LangevinMetropolis(GradientMoves):
    """The Metropolis-adjusted Langevin algorithm (MALA): trajectories of one leapfrog step.

    Attributes
    ----------
    length : int
        States of a chain, its start not counted.
    acceptance : float
        Share of proposals to be accepted, to which the length of steps is driven.

    References
    ----------
    Roberts, G. O., Rosenthal, J. S. (1998). Optimal scaling of discrete approximations to Langevin
    diffusions. JRSS B 60 (the acceptance of 0.574).
    """

    name: ClassVar[str] = "mala"

    acceptance: float = 0.574
