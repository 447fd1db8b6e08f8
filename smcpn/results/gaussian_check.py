"""Distance of a posterior from the Gaussian about its mode, by weighted draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from smcpn.likelihood.gradient import LogLikelihood
from smcpn.model.prior import Prior
from smcpn.results.draws import weighted_quantile
from smcpn.smc.particles import normalise
from smcpn.smc.proposals import squared_distances
from smcpn.smc.start import WIDTH, MixtureStart, Mode, Modes

Array = NDArray[np.float64]

DRAWS, MORE = 400, 4000
"""Half of them as wide as the Gaussian, half `WIDTH` times, a tenth of all from the prior; the
greater number measures means and spreads where the lesser says that these may differ."""
LEAST_EFFECTIVE = 20.0
"""Fewest draws effective for the Gaussian itself from which anything is concluded."""
LEAST_AGREEMENT = 0.4
"""Effective draws, relative to those of a Gaussian posterior, below which a summary warns."""
LARGEST_RATIO = 1.5
"""Factor between two standard deviations above which it warns as well: a few draws in long tails
cost few of the effective ones, and make most of the spread."""
LARGEST_SHIFT = 0.5
"""Distance of two means, in standard deviations of the posterior, above which it warns as well: a
skewed posterior, as at a boundary, leaves many draws effective and most spreads alike. Less is
ordinary, as of the scale of the noise, whose mode is lower the more parameters there are."""
DOUBTED = 0.5
"""Share of the logarithm of `LARGEST_RATIO` and of `LARGEST_SHIFT` from which more are drawn."""
SAMPLE = "smcpn.identify(problem), or smcpn identify, samples it"
FINER = "first make the steps finer, for their error makes a posterior rough too"
"""Remedies for a posterior that is far from a Gaussian, and where steps are too coarse."""
LEAST_TOLD = 100.0
"""Fewest effective draws whose moments are told: means to a tenth of the standard deviation."""
ROUNDING = 1e-6
"""Difference of two squared distances up to which they are the same."""
CENTRAL = (0.025, 0.975)
"""Probabilities at the ends of the interval that a table gives."""
NAMED = 3
"""Most parameters that the warning names."""
NOTABLE = 0.5
"""Share of them from which a parameter is named."""


@dataclass(frozen=True)
class GaussianCheck:
    """Draws about a mode, weighted to the posterior and to the Gaussian there.

    ess: Effective draws for the posterior.
    gaussian_ess: Effective draws, were the posterior the Gaussian.
    mean, gaussian_mean, sd, gaussian_sd: Mean and standard deviation of each value, by the draws
        and of the Gaussian. Those by the draws are the Gaussian's, moved by the difference of two
        estimates by the same draws and scaled by their ratio, whose errors cancel where the
        posterior is a Gaussian.
    low, high: Ends of the central 95 % of each value, by the draws, moved likewise.
    """

    draws: int
    ess: float
    gaussian_ess: float
    mean: dict[str, float]
    gaussian_mean: dict[str, float]
    sd: dict[str, float]
    gaussian_sd: dict[str, float]
    low: dict[str, float]
    high: dict[str, float]

    @property
    def agreement(self) -> float:
        """Effective draws relative to those of a Gaussian posterior; about one where it is one."""
        return self.ess / self.gaussian_ess

    @property
    def tells(self) -> bool:
        """True if so many draws are effective that their moments are worth more than a guess."""
        return self.ess >= LEAST_TOLD

    @property
    def is_far(self) -> bool:
        """True if the Gaussian misses much of the posterior."""
        return self._beyond(1.0)

    @property
    def is_doubted(self) -> bool:
        """True if more draws may find that it does."""
        return self._beyond(DOUBTED)

    def _beyond(self, share: float) -> bool:
        told = self._differences.values() if self.tells else ()
        return self.agreement < LEAST_AGREEMENT or max(told, default=0.0) > share

    @property
    def _differences(self) -> dict[str, float]:
        """Differences of mean or spread of each value, 1 where a summary warns; the larger."""
        with np.errstate(all="ignore"):
            both = {
                name: (
                    abs(float(np.log(np.float64(self.sd[name]) / gaussian)))
                    / np.log(LARGEST_RATIO),
                    abs(
                        float(
                            np.float64(self.mean[name] - self.gaussian_mean[name]) / self.sd[name]
                        )
                    )
                    / LARGEST_SHIFT,
                )
                for name, gaussian in self.gaussian_sd.items()
            }
        return {name: max(found) for name, found in both.items() if np.isfinite(found).all()}

    def document(self) -> dict[str, Any]:
        """Return the attributes as JSON can hold them."""
        return {**vars(self), "agreement": self.agreement}

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence where the Gaussian misses much of the posterior."""
        return self.advising(SAMPLE)

    def advising(self, remedy: str) -> tuple[str, ...]:
        """Return `warnings`, ending in what to do."""
        if not self.is_far:
            return ()
        return (
            "the posterior is far from the Gaussian that is assumed (draws about the mode agree "
            f"by {100 * min(self.agreement, 1.0):.0f} % with it){self._differing}: {remedy}",
        )

    @property
    def _differing(self) -> str:
        """The parameters whose means or spreads differ most, the most different first."""
        if not self.tells:
            return ""
        far = self._differences
        worst = [name for name in sorted(far, key=lambda name: -far[name]) if far[name] > NOTABLE]
        told = [
            f"{name} is {self.mean[name]:.3g} +- {self.sd[name]:.2g} (Gaussian "
            f"{self.gaussian_mean[name]:.3g} +- {self.gaussian_sd[name]:.2g})"
            for name in worst[:NAMED]
        ]
        return f", by which about the mode {', '.join(told)}" if told else ""


def gaussian_check(
    function: LogLikelihood,
    mode: Mode,
    modes: Sequence[Mode],
    gaussian: tuple[Mapping[str, float], Mapping[str, float]],
    seed: int = 0,
) -> GaussianCheck | None:
    """Return how far a posterior is from a Gaussian about its mode, other modes left out.

    A Gaussian that is too narrow has no draws where it is wrong, so that their weights look well:
    these draws reach beyond. None in so many dimensions that too few of the draws count.

    ``mode`` is one whose Gaussian is not given scales, ``modes`` are all that are known, and
    ``gaussian`` has mean and standard deviation of each value, were the posterior the Gaussian.
    """
    check = _check_by(function, mode, modes, gaussian, DRAWS, seed)
    if check is None or not check.is_doubted:
        return check
    return _check_by(function, mode, modes, gaussian, MORE, seed)


def _check_by(
    function: LogLikelihood,
    mode: Mode,
    modes: Sequence[Mode],
    gaussian: tuple[Mapping[str, float], Mapping[str, float]],
    draws: int,
    seed: int,
) -> GaussianCheck | None:
    prior, names = function.problem.prior, function.problem.names
    alone = Modes.about([mode], 1)
    proposals = [MixtureStart(prior, alone, width=width) for width in (1.0, WIDTH)]
    rng = np.random.default_rng(seed)
    theta = np.concatenate([one.sample(rng, draws // 2) for one in proposals])
    log_proposal = np.logaddexp.reduce([one.log_density(theta) for one in proposals], axis=0)
    means = np.stack([mode.theta, *(one.theta for one in modes)])
    factors = np.stack([mode.factor, *(one.factor for one in modes)])
    squares, *others = squared_distances(theta, means, factors)
    # A draw that another mode explains says nothing of the Gaussian about this one.
    log_proposal[np.min(others, axis=0, initial=np.inf) < squares - ROUNDING] = np.inf
    for_gaussian = normalise(-0.5 * squares - log_proposal)
    if _effective(for_gaussian) < LEAST_EFFECTIVE:
        return None
    with np.errstate(over="ignore"):
        values = prior.natural(theta)
    log_density = function(values) + prior.log_density(theta)
    log_weights = np.where(np.isfinite(log_density), log_density - log_proposal, -np.inf)
    if not np.isfinite(log_weights).any():
        return None
    weights = normalise(log_weights)
    (by_draws, spread), (of_gaussian, its_spread) = (
        _moments(values, each) for each in (weights, for_gaussian)
    )
    means, sds = gaussian
    with np.errstate(all="ignore"):
        shifts, ratios = by_draws - of_gaussian, spread / its_spread
    low, high = _central(prior, mode, theta, weights, for_gaussian).tolist()
    moved = dict(zip(names, zip(shifts.tolist(), ratios.tolist(), strict=True), strict=True))
    return GaussianCheck(
        draws=draws,
        ess=_effective(weights),
        gaussian_ess=_effective(for_gaussian),
        mean={name: means[name] + shift for name, (shift, _) in moved.items()},
        gaussian_mean={name: means[name] for name in names},
        sd={name: sds[name] * ratio for name, (_, ratio) in moved.items()},
        gaussian_sd={name: sds[name] for name in names},
        low=dict(zip(names, low, strict=True)),
        high=dict(zip(names, high, strict=True)),
    )


def _central(prior: Prior, mode: Mode, theta: Array, weights: Array, for_gaussian: Array) -> Array:
    """Ends of the central 95 % of each value, (2, d), the Gaussian's moved by the draws'.

    They are moved in the unconstrained coordinates, so that none leaves the support of its prior.
    """
    by_draws, of_gaussian = (
        np.stack([weighted_quantile(column, each, CENTRAL) for column in theta.T], axis=1)
        for each in (weights, for_gaussian)
    )
    exact = mode.theta + special.ndtri(CENTRAL)[:, None] * np.sqrt(np.diag(mode.covariance))
    with np.errstate(over="ignore"):
        values = prior.natural(exact + by_draws - of_gaussian)
    return np.sort(values, axis=0)


def _effective(weights: Array) -> float:
    return float(1.0 / np.square(weights).sum())


def _moments(values: Array, weights: Array) -> tuple[Array, Array]:
    """Weighted mean and standard deviation of each column."""
    values, weights = values[weights > 0], weights[weights > 0]
    with np.errstate(all="ignore"):
        mean = weights @ values
        return mean, np.sqrt(weights @ np.square(values - mean))
