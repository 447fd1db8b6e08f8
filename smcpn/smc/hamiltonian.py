"""Moves along gradients: Hamiltonian Monte Carlo and its single step, the Langevin proposal.

All particles move side by side: one call of the gradient for all of them at each leapfrog step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import Count, check_fields, whole
from smcpn.errors import InputError
from smcpn.smc.metric import Metric
from smcpn.smc.moves import (
    Move,
    MoveSettings,
    MoveStrategy,
    Rejuvenation,
    Rounds,
    chains_of,
    number_of_chains,
)
from smcpn.smc.particles import ParticleSystem, Target
from smcpn.smc.resampling import Resample

Array = NDArray[np.float64]

FIRST_TIME = 1.2
"""Time of a trajectory at first: of a standard normal it is the one that renews its energy at the
least cost, the maximum of sin(t)^2 / t."""
LONGEST_STEP = 1.8
"""At 2 the leapfrog steps of a standard normal become unstable."""
JITTER = 0.1
"""Share by which the step of a trajectory differs from the one that is learned."""
FITTED = 4
"""Particles per dimension whose gradients fit the metric."""
FEWEST_FITTED = 200
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
    learned: that rises where the longer half of the trajectories has more `Worth`.

    Attributes
    ----------
    step, time : float
    acceptance : float
        The wanted one.
    most : int
        Leapfrog steps of a trajectory at most.

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
        self._moves, self._halves = 0, (Worth(), Worth())

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Array, NDArray[np.int64]]:
        """Length and number of the leapfrog steps of ``size`` trajectories, (size,) both."""
        step = self.step * (1.0 + JITTER * (2.0 * rng.random(size) - 1.0))
        time = self.time * (0.5 + rng.random(size))
        return step, np.clip(np.rint(time / step), 1, self.most).astype(np.int64)

    def learn(
        self, accepted: Array, jumps: Array, spreads: Array, steps: Array, number: NDArray[np.int64]
    ) -> None:
        """Learn from trajectories.

        Parameters
        ----------
        accepted : ndarray, (n,)
            Probability of acceptance.
        jumps : ndarray, (k, n)
            Change of k functions of the particles.
        spreads : ndarray, (k,)
            Their variances over the particles.
        steps, number : ndarray, (n,)
            Length and number of the leapfrog steps.
        """
        self._moves += 1
        gain = (float(accepted.mean()) - self.acceptance) / np.sqrt(self._moves)
        self.step = min(self.step * float(np.exp(gain)), LONGEST_STEP)
        renewed = accepted * np.square(jumps) / (2.0 * spreads[:, None])
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
class Worth:
    """Effective draws that a gradient makes, by the function that needs most moves.

    With a correlation r between begin and end of a move, that is (1 - r) / (1 + r) for each move;
    negative correlations count as none.
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


class Trajectories:
    """The `Kernel` of Hamiltonian trajectories, by leapfrog steps in the coordinates of a metric.

    Leapfrog steps are reversible and keep volumes whatever force they follow, so that nothing
    depends on how exact the gradient is but the acceptance: the ends are evaluated, and accepted,
    by the target's own density.

    Attributes
    ----------
    gradients : int
        Gradients evaluated.
    carried : float
        Mean over the moves of the correlation of the log-likelihood with that at the start.
    """

    def __init__(self, name: str, metric: Metric, tuning: Tuning) -> None:
        self.name, self.metric, self.tuning = name, metric, tuning
        self.gradients, self.carried = 0, 0.0

    def moves(
        self, system: ParticleSystem, target: Target, rng: np.random.Generator, count: int
    ) -> Iterator[Move]:
        """See `Kernel.moves`."""
        gradient = self._gradient(target, system.theta)
        z, density = self.metric.coordinates(system.theta), target.log_density(system)
        levels = [system.log_increment]
        for _ in range(count):
            steps, number = self.tuning.draw(rng, len(system))
            momentum = rng.standard_normal(system.theta.shape)
            energy = density - 0.5 * np.square(momentum).sum(axis=1)
            end = self._leapfrog(target, Phase(system.theta, z, momentum, gradient), steps, number)
            whole = end.whole
            proposed = target.evaluate(
                np.where(whole[:, None], end.theta, system.theta), system.keys
            )
            proposed_density = np.where(whole, target.log_density(proposed), -np.inf)
            with np.errstate(all="ignore"):
                reached = proposed_density - 0.5 * np.square(end.momentum).sum(axis=1)
                log_ratio = np.nan_to_num(reached - energy, nan=-np.inf)
            accept = np.log1p(-rng.random(len(system))) < log_ratio
            moved = np.where(whole[:, None], end.z, z)
            before, after = _witnesses(system, z), _witnesses(proposed, moved)
            spreads = np.maximum(before.var(axis=1), np.finfo(float).tiny)
            accepted = np.exp(np.minimum(log_ratio, 0.0))
            # What is never accepted may lie so far off that the square is infinite.
            jumps = np.where(accepted > 0.0, after - before, 0.0)
            self.tuning.learn(accepted, jumps, spreads, steps, number)
            system = system.where(accept, proposed)
            density = np.where(accept, proposed_density, density)
            z = np.where(accept[:, None], moved, z)
            gradient = np.where(accept[:, None], end.gradient, gradient)
            levels.append(system.log_increment)
            diverged = np.count_nonzero(proposed_density == -np.inf)
            yield Move(system, int(accept.sum()), int(diverged))
        self.carried = _carried(np.array(levels))

    def shorten(self, system: ParticleSystem, target: Target, rng: np.random.Generator) -> None:
        """Halve the step until one leapfrog step of all particles is often accepted."""
        gradient, density = self._gradient(target, system.theta), target.log_density(system)
        z, once = np.zeros_like(system.theta), np.ones(len(system), dtype=np.int64)
        for _ in range(HALVINGS):
            momentum = rng.standard_normal(system.theta.shape)
            steps = np.full(len(system), self.tuning.step)
            end = self._leapfrog(target, Phase(system.theta, z, momentum, gradient), steps, once)
            whole = end.whole
            theta = np.where(whole[:, None], end.theta, system.theta)
            reached = target.log_density(target.evaluate(theta, system.keys))
            with np.errstate(all="ignore"):
                kinetic = 0.5 * np.square(end.momentum).sum(axis=1)
                change = reached - kinetic - density + 0.5 * np.square(momentum).sum(axis=1)
                accepted = np.where(whole, np.exp(np.minimum(change, 0.0)), 0.0)
            if np.nan_to_num(accepted).mean() > TOO_FEW:
                return
            self.tuning.step *= 0.5

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


@dataclass(frozen=True)
class Phase:
    """Parameters, their coordinates, momenta and gradients of particles, (n, d) each."""

    theta: Array
    z: Array
    momentum: Array
    gradient: Array

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Where neither parameters nor gradients have become infinite, (n,)."""
        finite = np.isfinite(np.hstack([self.theta, self.gradient]))
        return np.asarray(finite.all(axis=1), dtype=np.bool_)


def _witnesses(system: ParticleSystem, z: Array) -> Array:
    """Log-likelihood and squared distance from the centre, by which moves are judged, (2, n)."""
    return np.array([system.log_increment, np.square(z).sum(axis=1)])


def _carried(levels: Array) -> float:
    """Mean over the moves of the correlation of (moves + 1, n) with the first row, 0 to 1."""
    centred = np.where(np.isfinite(levels), levels, np.nan)
    centred = np.nan_to_num(centred - np.nanmean(centred))
    variance = float(np.square(centred).mean())
    if variance == 0.0:
        return 0.0
    return float(np.clip((centred[1:] * centred[0]).mean() / variance, 0.0, 1.0))


@dataclass(frozen=True)
class GradientMoves(MoveStrategy):
    """Base of the strategies that follow the gradient, by chains that are kept whole.

    N / length particles are resampled, each begins a chain, and all states of all chains are the
    population (waste-free), but for the starts: these are copies of the population before, and
    would hand its errors on. The metric is fitted to the weighted particles and the gradients at
    them; step and time of the trajectories go on from the rejuvenation before.

    Attributes
    ----------
    length : int
        States of a chain, its start not counted.
    acceptance : float
        Share of proposals to be accepted, to which the length of steps is driven.

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

    def rejuvenate(
        self,
        system: ParticleSystem,
        target: Target,
        rng: np.random.Generator,
        resample: Resample,
        previous: Rejuvenation | None,
    ) -> tuple[ParticleSystem, Rejuvenation]:
        """See `MoveStrategy.rejuvenate`."""
        n, system = len(system), replace(system, lineage=chains_of(system, previous))
        chains = number_of_chains(self.length, n)
        rounds = Rounds(system, target, rng, MoveSettings())
        some = slice(None, None, max(1, n // max(FITTED * system.theta.shape[1], FEWEST_FITTED)))
        fitted = system.take(some)
        slopes = target.gradient(fitted.theta)
        metric = Metric.fit(fitted.theta, slopes, fitted.weights)
        kernel = Trajectories(self.name, metric, self._tuning(previous, system.theta.shape[1]))
        kernel.gradients += len(fitted)
        rounds.resample(resample, chains)
        begin = rounds.system
        if previous is None or previous.proposal != self.name:
            kernel.shorten(begin, target, rng)
        visited = rounds.every(kernel, self.length)
        kernel.tuning.end()
        rounds.system = ParticleSystem.concatenate(visited).take(slice(n))
        record = rounds.record(kernel)
        return rounds.system, replace(
            record,
            increments=record.increments + kernel.gradients * target.n_samples,
            gradients=kernel.gradients,
            step=kernel.tuning.step,
            time=kernel.tuning.time,
            chains=chains,
            carried=kernel.carried,
        )

    def _tuning(self, previous: Rejuvenation | None, d: int) -> Tuning:
        """Return what the rejuvenation before has learned, or what suits a standard normal."""
        if previous is not None and previous.proposal == self.name:
            return Tuning(previous.step, previous.time, self.acceptance, self.most_steps)
        return Tuning(1.4 * d**-0.25, FIRST_TIME, self.acceptance, self.most_steps)


@dataclass(frozen=True)
class HamiltonianMonteCarlo(GradientMoves):
    """Hamiltonian Monte Carlo, which needs some d^(1/4) gradients for an independent draw.

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
