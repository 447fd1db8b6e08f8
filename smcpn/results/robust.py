"""The result of `Posterior.robust`: what a posterior says if its model is a little wrong."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import Count, Index, checked
from smcpn.card import Card, WithCard
from smcpn.columns import align, warning_lines
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.record import Record
from smcpn.results.summary import shortened
from smcpn.simulation.particles import Simulation
from smcpn.smc.power import at_power
from smcpn.validation.innovations import Innovations, innovations
from smcpn.validation.residual_level import ResidualLevel, residual_level
from smcpn.validation.sandwich import ALARM

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from smcpn.results.posterior import Posterior

Array = NDArray[np.float64]

NOTABLE = 2.0
"""Factor between robust and plain standard deviation that is remarked on."""


@checked
@dataclass(frozen=True, repr=False)
class Robust(WithCard):
    """Standard deviations that hold for errors that hang together, and a posterior as wide.

    Attributes
    ----------
    names : tuple of str
    mean, plain_sd : mapping of str to float
        Of the posterior, which takes the noise as white.
    factor : mapping of str to float
        Robust over plain standard deviation, by the sandwich of `smcpn.validation.sandwich`; 1 for
        what is not judged.
    covariance : ndarray, (d, d)
        The sandwich, of the unconstrained coordinates.
    not_judged : tuple of str
        Parameters known from too few samples, such as an initial state: the plain sd stays.
    learning_rate : float
        Power of the likelihood in `posterior`. The mean over directions of the ratio of sandwich to
        plain variance is its inverse, so that over the record the parameters' part of the band of
        predictions is as wide as the sandwich makes it.
    drift_p : float
        p-value of parameters that are the same in all parts of the record. From a quarter on
        standard deviations stay what they are.
    degrees_of_freedom : float
        Of Student's t, by which standard deviations are widened where the record is few lengths
        of correlation of its outputs long: `sd` times 1.96 is half the 95 % interval.
    samples : int
        Measured samples of all records.
    posterior : Posterior
        Particles of prior x likelihood^learning_rate, to simulate and draw with. One power serves
        all directions: single standard deviations are those of `sd`.
    levels : tuple of ResidualLevel
        Variance of the residuals by amplitude, of each output; none where noise is not Gaussian.
    """

    names: tuple[str, ...]
    mean: dict[str, float]
    plain_sd: dict[str, float]
    factor: dict[str, float]
    covariance: Array = field(repr=False)
    not_judged: tuple[str, ...]
    learning_rate: float
    drift_p: float
    degrees_of_freedom: float
    samples: int
    posterior: Posterior = field(repr=False)
    levels: tuple[ResidualLevel, ...] = field(repr=False)

    def simulate(
        self,
        record: Record,
        *,
        observe: Any = None,
        steps: int | str = "auto",
        initialise: Index = 0,
        like: Record | None = None,
        particles: Count | None = None,
    ) -> Simulation:
        """Simulate a record with every particle of `posterior`; parameters as of its `simulate`.

        The noise in the band is that of the residuals learned from, where the output had the same
        amplitude, and nowhere less than the noise of the posterior.
        """
        run = self.posterior.simulate(
            record, observe=observe, steps=steps, initialise=initialise, like=like,
            particles=particles,
        )  # fmt: skip
        if observe is not None or not self.levels or not record.n_outputs:
            return run
        residual = np.column_stack([one.at(run.mean[:, j]) for j, one in enumerate(self.levels)])
        return run.with_noise(np.maximum(residual, run.noise_variance))

    def card(self) -> Card:
        """See `WithCard.card`."""
        header = ["parameter", "mean", "sd", "robust sd", "factor", ""]
        ode = self.posterior.problem.ode
        return Card(f"Robust posterior of '{ode.name}'", [header, *shortened(self.rows(), ode)],
                    [f"{self.effective}, learning rate {self.learning_rate:.3g}"])  # fmt: skip

    def picture(self) -> Figure | None:
        """See `WithCard.picture`."""
        return self.posterior.picture()

    @property
    def sd(self) -> dict[str, float]:
        """Robust standard deviation of each parameter."""
        robust = [self.factor[name] * self.plain_sd[name] for name in self.names]
        return self.posterior.problem.by_name(robust, 0.0)

    @property
    def n_effective(self) -> float:
        """Uncorrelated samples that would tell as much as those measured."""
        return self.learning_rate * self.samples

    @property
    def remark(self) -> str:
        """Sentence where robust and plain sd differ by more than a factor of two, else ""."""
        other = {n: f for n, f in self.factor.items() if not 1 / NOTABLE <= f <= NOTABLE}
        if not other:
            return ""
        listed = ", ".join(f"{name} {value:.2g}" for name, value in other.items())
        return (
            f"parts of the record ask for other parameters than the whole (p = {self.drift_p:.1g}):"
            f" the model misses something, and standard deviations are these times those above: "
            f"{listed}"
        )

    @property
    def effective(self) -> str:
        """Effective number of samples as text."""
        return f"{self.n_effective:.0f} of {self.samples} samples"

    @property
    def drift(self) -> str:
        """Whether parameters are the same in all parts of the record, as text."""
        if np.isnan(self.drift_p):
            return "not tested: too few samples for so many parameters"
        told = f"p = {self.drift_p:.2g} of parameters that are the same all along the record"
        if not self.drift_p < ALARM:
            return f"{told}: standard deviations stay"
        return f"{told}; Student's t of {self.degrees_of_freedom:.3g} degrees of freedom"

    def rows(self) -> list[list[str]]:
        """Name, mean, plain and robust sd, their ratio, and what is not judged, as text."""
        return [
            [name, f"{self.mean[name]:.5g}", f"{self.plain_sd[name]:.2g}", f"{sd:.2g}",
             f"{self.factor[name]:.2f}", "not judged" if name in self.not_judged else ""]
            for name, sd in self.sd.items()
        ]  # fmt: skip

    def summary(self) -> str:
        """Table of plain and robust standard deviations, and the figures, as text."""
        header = ["parameter", "mean", "sd", "robust sd", "factor", ""]
        lines = [
            align([header, *self.rows()], left=(0, 5)),
            "",
            f"effective        {self.effective}, learning rate {self.learning_rate:.3g}",
            f"drift            {self.drift}",
        ]
        if self.not_judged:
            lines.append(
                f"not judged       {', '.join(self.not_judged)}: known from too few samples"
            )
        return "\n".join([*lines, *warning_lines([self.remark] if self.remark else [])])


def _innovations(posterior: Posterior) -> tuple[Innovations, ...]:
    """Innovations at the posterior centre; none of noise with a density."""
    problem = posterior.problem
    if problem.model.density is not None:
        return ()
    centre = problem.prior.natural((posterior.weights @ posterior.theta)[None, :])[0]
    return innovations(problem, posterior.solver, centre, None, posterior.likelihood)


def _levels(posterior: Posterior) -> tuple[ResidualLevel, ...]:
    parts = _innovations(posterior)
    return tuple(
        residual_level(
            [part.mean[:, j] for part in parts],
            [part.record.y[:, j] - part.mean[:, j] for part in parts],
        )
        for j in range(len(posterior.problem.observe) if parts else 0)
    )


def robust_of(posterior: Posterior, threads: int | None, seed: int) -> Robust:
    """Return the sandwich of a posterior, and particles of its likelihood at a learning rate."""
    found = posterior.sandwich
    problem, names = posterior.problem, posterior.names
    weighed = posterior
    if found.learning_rate < 1.0:
        likelihood = build_likelihood(problem, posterior.solver, threads, posterior.likelihood)
        populations = at_power(
            problem.prior, likelihood, found.learning_rate, posterior.theta,
            posterior.log_weights, np.random.default_rng(seed),
        )  # fmt: skip
        weighed = replace(
            posterior, learning_rate=found.learning_rate, seed=seed, **vars(populations)
        )
    measured = [np.isfinite(record.y).any(axis=1) for record in problem.records]
    return Robust(
        names=names,
        mean=posterior.mean,
        plain_sd=posterior.sd,
        factor=dict(zip(names, found.factor.tolist(), strict=True)),
        covariance=found.covariance,
        not_judged=tuple(n for n, known in zip(names, found.judged, strict=True) if not known),
        learning_rate=found.learning_rate,
        drift_p=found.drift_p,
        degrees_of_freedom=found.degrees_of_freedom,
        samples=int(sum(one.sum() for one in measured)),
        posterior=weighed,
        levels=_levels(posterior),
    )
