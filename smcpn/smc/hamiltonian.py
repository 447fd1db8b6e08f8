"""Moves along gradients: Hamiltonian Monte Carlo and its single step, the Langevin proposal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Annotated, ClassVar

import numpy as np

from smcpn.arguments import Count, check_fields, whole
from smcpn.errors import InputError
from smcpn.smc.metric import Metric
from smcpn.smc.moves import MoveStrategy
from smcpn.smc.particles import ParticleSystem, Target
from smcpn.smc.rejuvenation import MoveSettings, Rejuvenation, Rounds, chains_of, number_of_chains
from smcpn.smc.resampling import Resample
from smcpn.smc.trajectories import Trajectories, Tuning

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

    def check(self, particles: int) -> None:
        """See `MoveStrategy.check`."""
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
