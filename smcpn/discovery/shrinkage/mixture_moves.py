"""Moves of coefficients with a prior that is a scale mixture of normals.

Given the variances of the mixture, the posterior of the linearised model is Gaussian in
coefficients and initial states, and gamma in the precision of the noise: Gibbs sampling. For the
likelihood of the trajectories it is a proposal that knows prior and curvature.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.discovery.shrinkage.priors import JointPrior
from smcpn.discovery.shrinkage.quadratic import QuadraticLikelihood
from smcpn.smc.kernels import Move
from smcpn.smc.moves import MoveStrategy
from smcpn.smc.particles import ParticleSystem, RefinementTarget, Target
from smcpn.smc.rejuvenation import MoveSettings, Rejuvenation, Rounds
from smcpn.smc.resampling import Resample

Array = NDArray[np.float64]

LEAST_VARIANCE, MOST_VARIANCE = 1e-40, 1e40
LOW_ACCEPTANCE = 0.2
"""Of proposals, below which the next ones are nearer."""
TRIAL = 2
"""Moves after which acceptance is judged."""
STEPS, LOCAL = (0.5, 0.25, 0.12), 8
"""Of moves part of the way, and how many of these there are: particles where the linearised model
has too little mass are left by no independent proposal."""


@dataclass(frozen=True)
class Normals:
    """Normal priors of the initial states, and gamma priors of the precisions of the noise.

    mean, sd: (m,)
    shape, rate: (q,), of 1 / sigma^2 of each output.
    """

    mean: Array
    sd: Array
    shape: Array
    rate: Array


@dataclass(frozen=True)
class LinearGibbs:
    """Gibbs sampling of prior x QuadraticLikelihood^power, reversible in all that it moves.

    A sweep draws the variances; given these noise, global scales, coefficients with initial states,
    scales and noise: a palindrome of reversible steps.

    prior: Of P coefficients, q standard deviations of the noise, m initial states.
    """

    prior: JointPrior
    linear: QuadraticLikelihood
    normals: Normals

    def swept(
        self, rng: np.random.Generator, theta: Array, power: float, sweeps: int, step: float = 1.0
    ) -> Array:
        """Theta (N, d) after a number of sweeps.

        With a step below one, coefficients and initial states move part of the way: their
        correlation with where they were, given variances and noise, is (1 - step^2)^(1/2).
        """
        coefficients, others, log_scales = self.prior.split(theta)
        locations = np.hstack([coefficients, others[:, len(self.normals.rate) :]])
        shrinkage, p = self.prior.shrinkage, coefficients.shape[1]
        precision = np.exp(-2.0 * others[:, : len(self.normals.rate)])
        for _ in range(sweeps):
            local = shrinkage.variances(rng, locations[:, :p], log_scales)
            precision = self._precision(rng, locations, power)
            log_scales = shrinkage.rescaled(rng, locations[:, :p], local, log_scales)
            variances = self._variances(local, log_scales)
            locations = self._located(rng, locations, variances, precision, power, step)
            log_scales = shrinkage.rescaled(rng, locations[:, :p], local, log_scales)
            precision = self._precision(rng, locations, power)
        others = np.hstack([-0.5 * np.log(precision), locations[:, p:]])
        return self.prior.joined(locations[:, :p], others, log_scales)

    def shrunk(self, rng: np.random.Generator, theta: Array) -> Array:
        """Share of the prior variance that is left given the data, (N, P).

        It is `CoefficientPopulations.shrinkage` of each coefficient, given the variances of the
        mixture, which are drawn.
        """
        coefficients, others, log_scales = self.prior.split(theta)
        p, q = coefficients.shape[1], len(self.normals.rate)
        local = self.prior.shrinkage.variances(rng, coefficients, log_scales)
        variances = self._variances(local, log_scales)
        root = np.sqrt(variances)
        matrix = self._whitened(root, np.exp(-2.0 * others[:, :q]), 1.0)
        inverse = np.linalg.inv(np.moveaxis(matrix, -1, 0))
        return np.asarray(np.diagonal(inverse, axis1=1, axis2=2)[:, :p], dtype=float)

    @property
    def _scale(self) -> Array:
        """From coefficients in their units to values, of all locations."""
        return np.append(self.prior.units, np.ones(len(self.normals.mean)))

    def _variances(self, local: Array, log_scales: Array) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            of_theta = local * np.exp(2.0 * log_scales.sum(axis=1))[:, None]
        normal = np.broadcast_to(self.normals.sd**2, (len(local), len(self.normals.sd)))
        return np.clip(np.hstack([of_theta, normal]), LEAST_VARIANCE, MOST_VARIANCE)

    def _precision(self, rng: np.random.Generator, locations: Array, power: float) -> Array:
        """Draw 1 / sigma^2 given the locations, (N, q)."""
        sums = self.linear.sums(locations * self._scale)
        shape = self.normals.shape + 0.5 * power * self.linear.counts
        return rng.gamma(shape, 1.0 / (self.normals.rate + 0.5 * power * sums))

    def _whitened(self, root: Array, precision: Array, power: float) -> Array:
        """1 + D A D, D the prior standard deviations and A the curvature in units, (l, l, N)."""
        size, scale = root.shape[1], self._scale
        curvatures = self.linear.curvatures * np.outer(scale, scale)
        flat = curvatures.reshape(len(curvatures), -1).T @ (power * precision).T
        matrix = flat.reshape(size, size, -1)
        matrix *= root.T[:, None]
        matrix *= root.T
        matrix[np.arange(size), np.arange(size)] += 1.0
        return matrix

    def _located(
        self,
        rng: np.random.Generator,
        locations: Array,
        variances: Array,
        precision: Array,
        power: float,
        step: float,
    ) -> Array:
        """Draw coefficients in their units and initial states (N, l) from their joint normal.

        Or move there by an autoregression that leaves it invariant.
        """
        linear, scale, root = self.linear, self._scale, np.sqrt(variances)
        mean = np.append(np.zeros(len(scale) - len(self.normals.mean)), self.normals.mean)
        # Of the gradient of the likelihood at the prior mean, where the whitened prior is centred.
        slopes = (linear.slopes + linear.curvatures @ (mean * scale - linear.centre)) * scale
        pull = -(power * precision) @ slopes * root
        normal = step * rng.standard_normal(pull.shape)
        kept = np.sqrt(1.0 - step**2)
        matrix = self._whitened(root, precision, power)
        drawn = mean + root * drawn_normals(matrix, (1.0 - kept) * pull.T, normal.T).T
        return drawn + kept * (locations - mean)


@dataclass(frozen=True)
class SurrogateKernel:
    """Proposes by sweeps of the linearised model, and accepts by the ratio of the likelihoods.

    Sweeps are reversible with respect to prior x L_lin; so proposals t' are accepted with
    probability min(1, pi(t') / pi(t) x [prior x L_lin](t) / [prior x L_lin](t')).

    References
    ----------
    Liu, J. S. (2001). Monte Carlo strategies in scientific computing, 9.4.3 (surrogate transition).
    """

    gibbs: LinearGibbs
    sweeps: int
    step: float = 1.0
    name: str = "linearised"

    def moves(
        self, system: ParticleSystem, target: Target, rng: np.random.Generator, count: int
    ) -> Iterator[Move]:
        """Yield moves by draws from the surrogate."""
        for _ in range(count):
            theta = self.gibbs.swept(rng, system.theta, 1.0, self.sweeps, self.step)
            proposed = target.particles(theta)
            here, there = self._log_ratio(target, system), self._log_ratio(target, proposed)
            accept = np.log1p(-rng.random(len(system))) < there - here
            system = system.where(accept, proposed)
            yield Move(system, int(accept.sum()), int((there == -np.inf).sum()))

    def _log_ratio(self, target: Target, system: ParticleSystem) -> Array:
        linear = self.gibbs.linear.total(target.prior.natural(system.theta))
        return target.log_density(system) - system.log_prior - linear


@dataclass(frozen=True)
class MixtureMoves(MoveStrategy):
    """Gibbs sweeps where the target is the linearised model; where it is not, they propose.

    sweeps, proposing: Of a rejuvenation of the linearised model, and of a proposal.
    most: Proposals of a rejuvenation at most.
    """

    gibbs: LinearGibbs
    sweeps: int = 6
    proposing: int = 10
    most: int = 12

    @override
    def rejuvenate(
        self,
        system: ParticleSystem,
        target: Target,
        rng: np.random.Generator,
        resample: Resample,
        previous: Rejuvenation | None,
    ) -> tuple[ParticleSystem, Rejuvenation]:
        rounds = Rounds(system, target, rng, MoveSettings(moved=0.95, max_moves=self.most))
        rounds.resample(resample, len(system))
        if not isinstance(target, RefinementTarget):
            kernel = GibbsKernel(self.gibbs, target.exponent, self.sweeps)
            rounds.every(kernel, 1)
            return rounds.system, rounds.record(kernel)
        kernel = SurrogateKernel(self.gibbs, self.proposing)
        rounds.every(kernel, TRIAL)
        if rounds.acceptance(kernel) >= LOW_ACCEPTANCE:
            rounds.move_on(kernel, None)
        for step in STEPS:
            kernel = SurrogateKernel(self.gibbs, 1, step, f"linearised, step {step:g}")
            rounds.every(kernel, TRIAL)
            if rounds.acceptance(kernel) >= LOW_ACCEPTANCE:
                break
        rounds.every(kernel, LOCAL)
        return rounds.system, rounds.record(kernel)


@dataclass(frozen=True)
class GibbsKernel:
    """Sweeps of prior x L_lin^power, all of which are accepted."""

    gibbs: LinearGibbs
    power: float
    sweeps: int
    name: str = "gibbs"

    def moves(
        self, system: ParticleSystem, target: Target, rng: np.random.Generator, count: int
    ) -> Iterator[Move]:
        """Yield Gibbs moves of the scales."""
        for _ in range(count):
            theta = self.gibbs.swept(rng, system.theta, self.power, self.sweeps)
            new = target.particles(theta)
            system = replace(
                new, log_weights=system.log_weights, ancestor=system.ancestor,
                lineage=system.lineage,
            )  # fmt: skip
            yield Move(system, len(system), 0)


def drawn_normals(precision: Array, pull: Array, noise: Array) -> Array:
    """Return M^-1 b + L'^-1 z with M = L L', the mean and a deviation of covariance M^-1, (l, N).

    All N factorisations run at once, by rows of N numbers: for tens of coordinates that takes less
    than half of the time of one after the other.

    ``precision`` is M, (l, l, N), of which the lower triangle is read; the factor takes its place.
    ``pull`` and ``noise``, (l, N), are b, and z of standard normals.
    """
    size, result = len(precision), pull.copy()
    for j in range(size):
        reciprocal = 1.0 / np.sqrt(precision[j, j])
        below = precision[j + 1 :, j]
        below *= reciprocal
        precision[j, j] = reciprocal
        result[j] *= reciprocal
        result[j + 1 :] -= below * result[j]
        for k in range(j + 1, size):
            precision[k, j + 1 : k + 1] -= precision[j + 1 : k + 1, j] * precision[k, j]
    result += noise
    for j in range(size - 1, -1, -1):
        result[j] *= precision[j, j]
        result[:j] -= precision[j, :j] * result[j]
    return result
