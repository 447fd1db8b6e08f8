"""How far a posterior is from the Gaussian about its mode, by weighted draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from smcpn.smc.particles import normalise
from smcpn.smc.start import WIDTH, MixtureStart, Modes

if TYPE_CHECKING:
    from smcpn.results.laplace import Laplace

Array = NDArray[np.float64]

DRAWS, MORE = 400, 4000
"""Half of them as wide as the Gaussian, half `WIDTH` times, a tenth of all from the prior; the
greater number measures spreads where the lesser says that these differ."""
LEAST_EFFECTIVE = 20.0
"""Fewest draws effective for the Gaussian itself from which anything is concluded."""
LEAST_AGREEMENT = 0.4
"""Effective draws, relative to those of a Gaussian posterior, below which a summary warns."""
LARGEST_RATIO = 1.5
"""Factor between two standard deviations above which it warns as well: a few draws in long tails
cost few of the effective ones, and make most of the spread."""
LEAST_TOLD = 50.0
"""Fewest effective draws whose standard deviations are told: they are right to a tenth or so."""
NAMED = 3
"""Most parameters that the warning names."""
NOTABLE_RATIO = 1.25
"""Factor between two standard deviations from which a parameter is named."""


@dataclass(frozen=True)
class GaussianCheck:
    """Draws about a mode, weighted to the posterior and to the Gaussian there.

    Attributes
    ----------
    draws : int
    ess : float
        Effective draws for the posterior.
    gaussian_ess : float
        Effective draws, were the posterior the Gaussian.
    sd, gaussian_sd : dict of float
        Standard deviation of each value, by the draws and of the Gaussian. That by the draws is the
        Gaussian's times the ratio of two estimates by the same draws, whose errors cancel where the
        posterior is a Gaussian.
    """

    draws: int
    ess: float
    gaussian_ess: float
    sd: dict[str, float]
    gaussian_sd: dict[str, float]

    @property
    def agreement(self) -> float:
        """Effective draws relative to those of a Gaussian posterior; about one where it is one."""
        return self.ess / self.gaussian_ess

    @property
    def is_far(self) -> bool:
        """Whether the Gaussian misses much of the posterior."""
        ratios = self._log_ratios.values() if self.ess >= LEAST_TOLD else ()
        return self.agreement < LEAST_AGREEMENT or max(ratios, default=0.0) > np.log(LARGEST_RATIO)

    @property
    def _log_ratios(self) -> dict[str, float]:
        """Size of the log ratio of the two standard deviations of each value, where both exist."""
        with np.errstate(all="ignore"):
            logs = {
                name: abs(float(np.log(self.sd[name] / sd)))
                for name, sd in self.gaussian_sd.items()
            }
        return {name: log for name, log in logs.items() if np.isfinite(log)}

    def document(self) -> dict[str, Any]:
        """Return the attributes as JSON can hold them."""
        return {**vars(self), "agreement": self.agreement}

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence where the Gaussian misses much of the posterior."""
        if not self.is_far:
            return ()
        return (
            f"the posterior is far from the Gaussian: of {self.draws} draws about the mode "
            f"{self.ess:.0f} are effective, and were it the Gaussian {self.gaussian_ess:.0f} would "
            f"be{self._differing}; smcpn.identify(problem), or smcpn identify, samples it",
        )

    @property
    def _differing(self) -> str:
        """The parameters whose standard deviations differ most, the largest ratio first."""
        if self.ess < LEAST_TOLD:
            return ""
        logs = self._log_ratios
        worst = sorted(logs, key=lambda name: -logs[name])[:NAMED]
        told = [
            f"{self.sd[name]:.2g} of {name} (Gaussian {self.gaussian_sd[name]:.2g})"
            for name in worst
            if logs[name] > np.log(NOTABLE_RATIO)
        ]
        return f", by which the sd about the mode is {', '.join(told)}" if told else ""


def gaussian_check(found: Laplace, seed: int = 0) -> GaussianCheck | None:
    """Return how far a posterior is from a Gaussian about its mode.

    A Gaussian that is too narrow has no draws where it is wrong, so that their weights look well:
    these draws reach beyond. None where there is no Gaussian, where it is one given scales, and in
    so many dimensions that too few of the draws count.
    """
    if not found.success or found.given_scales is not None:
        return None
    check = _check_by(found, DRAWS, seed)
    return _check_by(found, MORE, seed) if check is not None and check.is_far else check


def _check_by(found: Laplace, draws: int, seed: int) -> GaussianCheck | None:
    prior = found.problem.prior
    mode = Modes(np.ones(1), found.mode[None, :], found.factor[None, :, :], 1, found.log_evidence)
    proposals = [MixtureStart(prior, mode, width=width) for width in (1.0, WIDTH)]
    rng = np.random.default_rng(seed)
    theta = np.concatenate([one.sample(rng, draws // 2) for one in proposals])
    log_proposal = np.logaddexp.reduce([one.log_density(theta) for one in proposals], axis=0)
    whitened = np.linalg.solve(found.factor, (theta - found.mode).T)
    for_gaussian = normalise(-0.5 * np.square(whitened).sum(axis=0) - log_proposal)
    if _effective(for_gaussian) < LEAST_EFFECTIVE:
        return None
    with np.errstate(over="ignore"):
        values = prior.natural(theta)
    log_density = found.maximum.function(values) + prior.log_density(theta)
    log_weights = np.where(np.isfinite(log_density), log_density - log_proposal, -np.inf)
    if not np.isfinite(log_weights).any():
        return None
    weights = normalise(log_weights)
    with np.errstate(all="ignore"):
        ratios, sd = _sd(values, weights) / _sd(values, for_gaussian), found.sd
    return GaussianCheck(
        draws=draws,
        ess=_effective(weights),
        gaussian_ess=_effective(for_gaussian),
        sd={name: sd[name] * float(r) for name, r in zip(found.names, ratios, strict=True)},
        gaussian_sd={name: sd[name] for name in found.names},
    )


def _effective(weights: Array) -> float:
    return float(1.0 / np.square(weights).sum())


def _sd(values: Array, weights: Array) -> Array:
    """Weighted standard deviation of each column."""
    values, weights = values[weights > 0], weights[weights > 0]
    with np.errstate(all="ignore"):
        return np.sqrt(weights @ np.square(values - weights @ values))
