"""Continuous priors under which all coefficients are active and most are small.

Coefficients theta (P,) are in units in which each is of order one. Both priors are scale mixtures
of normals, theta_p ~ N(0, v_p): given the variances v the posterior of a linear model is Gaussian.

`JointPrior` has beside them the independent priors of everything else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import exp1, gammaln
from typing_extensions import override

from smcpn.base.arguments import Positive, check_fields, checked
from smcpn.base.stored import Stored
from smcpn.errors import one_of
from smcpn.model.distribution import Distribution
from smcpn.model.prior import Prior

Array = NDArray[np.float64]

ASYMPTOTIC = 50.0
"""Argument from which exp(z) E1(z) is its continued fraction: exp(z) overflows later on."""
SHRINKAGE: dict[str, type[Shrinkage]] = {}
"""Every continuous prior by its name."""


class Shrinkage(Stored, ABC):
    """A prior of coefficients, (N, P), with global scales (N, h) of their own, as logarithms.

    scales: Names of the h global scales that are not integrated out.
    units: {"scaled", "physical"}, whether coefficients are in units of rms(dx_i/dt) / rms(term), or
        as they stand.
    """

    name: ClassVar[str]
    scales: ClassVar[tuple[str, ...]] = ()
    units: str

    def __init_subclass__(cls) -> None:
        SHRINKAGE[cls.name] = cls

    @abstractmethod
    def log_density(self, theta: Array, log_scales: Array) -> Array:
        """Log of the joint density of theta (N, P) and the logarithms of the scales, (N,)."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: int, count: int) -> tuple[Array, Array]:
        """Draw theta (size, count) and the logarithms of the scales (size, h)."""

    @abstractmethod
    def variances(self, rng: np.random.Generator, theta: Array, log_scales: Array) -> Array:
        """Draw v / (product of scales)^2, (N, P), given theta and the scales, exactly."""

    def rescaled(
        self, rng: np.random.Generator, theta: Array, variances: Array, log_scales: Array
    ) -> Array:
        """Logarithms of the scales (N, h) after a reversible step, given theta and `variances`."""
        return log_scales


@checked
@dataclass(frozen=True)
class LaplacePrior(Shrinkage):
    """Independent Laplace densities of one scale that is learned, the prior of the Bayesian lasso.

    theta_p | lambda ~ Laplace(0, 1 / lambda), lambda ~ Gamma(shape a, rate b), integrated over
    lambda:

        p(theta) = b^a Gamma(P + a) / (Gamma(a) 2^P) (b + |theta|_1)^-(P + a).

    Parameters
    ----------
    shape, rate : float
        Of lambda.
    units : {"scaled", "physical"}

    References
    ----------
    Yang, Y., Bhouri, M. A., Perdikaris, P. (2020). Bayesian differential programming for robust
    systems identification under uncertainty. Proc. R. Soc. A 476 (a = b = 1, physical units).
    Park, T., Casella, G. (2008). The Bayesian lasso. JASA 103 (the mixture over variances).
    """

    name: ClassVar[str] = "laplace"

    shape: Positive = 1.0
    rate: Positive = 1.0
    units: str = "scaled"

    def __post_init__(self) -> None:
        check_fields(self, "shape", "rate", "units")
        one_of("units", self.units, ("scaled", "physical"))

    @override
    def log_density(self, theta: Array, log_scales: Array) -> Array:
        a, b, count = self.shape, self.rate, theta.shape[1]
        constant = a * np.log(b) + gammaln(count + a) - gammaln(a) - count * np.log(2.0)
        return constant - (count + a) * np.log(b + np.abs(theta).sum(axis=1))

    @override
    def sample(self, rng: np.random.Generator, size: int, count: int) -> tuple[Array, Array]:
        slope = rng.gamma(self.shape, 1.0 / self.rate, size=(size, 1))
        return rng.laplace(size=(size, count)) / slope, np.empty((size, 0))

    def variances(self, rng: np.random.Generator, theta: Array, log_scales: Array) -> Array:
        """Draws of variances: 1 / v_p is inverse Gaussian given lambda and theta_p."""
        size = np.abs(theta)
        rate = self.rate + size.sum(axis=1)
        slope = rng.gamma(theta.shape[1] + self.shape, 1.0 / rate)[:, None]
        return _reciprocal_inverse_gaussian(rng, size / slope, slope)


@checked
@dataclass(frozen=True)
class HorseshoePrior(Shrinkage):
    """Normal densities of local scales that are half-Cauchy: small or free, each by itself.

    theta_p | tau, lambda_p ~ N(0, (tau lambda_p)^2), lambda_p ~ C+(0, 1), tau ~ C+(0, scale).
    Integrated over lambda_p, with z = theta_p^2 / (2 tau^2),

        p(theta_p | tau) = (2 pi^3)^(-1/2) / tau exp(z) E1(z).

    Parameters
    ----------
    scale : float
        Median of tau, which says how many coefficients are large: tau is about p / (P - p) times
        their standard error where p of P are (Piironen and Vehtari 2017).
    units : {"scaled", "physical"}

    References
    ----------
    Carvalho, C. M., Polson, N. G., Scott, J. G. (2010). The horseshoe estimator for sparse signals.
    Biometrika 97. Makalic, E., Schmidt, D. F. (2016). A simple sampler for the horseshoe estimator.
    IEEE Signal Processing Letters 23 (tau by two gammas).
    """

    name: ClassVar[str] = "horseshoe"
    scales: ClassVar[tuple[str, ...]] = ("tau",)

    scale: Positive = 1.0
    units: str = "scaled"

    def __post_init__(self) -> None:
        check_fields(self, "scale", "units")
        one_of("units", self.units, ("scaled", "physical"))

    @override
    def log_density(self, theta: Array, log_scales: Array) -> Array:
        tau = np.exp(log_scales)
        constant = -0.5 * np.log(2.0 * np.pi**3)
        local = constant - log_scales + _log_scaled_exp1(0.5 * np.square(theta / tau))
        of_tau = np.log(2.0 / np.pi) - np.log(self.scale) - np.log1p((tau / self.scale) ** 2)
        return local.sum(axis=1) + (of_tau + log_scales)[:, 0]

    @override
    def sample(self, rng: np.random.Generator, size: int, count: int) -> tuple[Array, Array]:
        tau = self.scale * np.abs(rng.standard_cauchy((size, 1)))
        local = np.abs(rng.standard_cauchy((size, count)))
        return tau * local * rng.standard_normal((size, count)), np.log(tau)

    def variances(self, rng: np.random.Generator, theta: Array, log_scales: Array) -> Array:
        """Draws of variances: the density of 1 / lambda^2 is exp(-z eta) / (1 + eta)."""
        with np.errstate(over="ignore", under="ignore"):
            z = 0.5 * np.square(theta * np.exp(-log_scales))
        return 1.0 / _tilted(rng, np.clip(z, 1e-280, 1e280))

    def rescaled(
        self, rng: np.random.Generator, theta: Array, variances: Array, log_scales: Array
    ) -> Array:
        """Draws of tau: tau^-2 is gamma given a rate, which is exponential given it."""
        with np.errstate(over="ignore", under="ignore"):
            square = np.square(theta) / variances
        rate = rng.exponential(1.0 / (np.exp(-2.0 * log_scales[:, 0]) + self.scale**-2.0))
        shape = 0.5 * (theta.shape[1] + 1)
        precision = rng.gamma(shape, 1.0 / (rate + 0.5 * square.sum(axis=1)))
        return -0.5 * np.log(np.maximum(precision, 1e-300))[:, None]


def shrinkage(prior: Any) -> Shrinkage:
    """Return the prior of a name, or one as it is given."""
    return prior if isinstance(prior, Shrinkage) else SHRINKAGE[prior]()


def _log_scaled_exp1(z: Array) -> Array:
    """Log of exp(z) E1(z), z >= 0."""
    large = z > ASYMPTOTIC
    small = np.where(large, 1.0, np.maximum(z, np.finfo(float).tiny))
    z = np.where(large, z, ASYMPTOTIC)
    # Continued fraction 1/(z+1-1/(z+3-4/(z+5-9/(z+7-16/(z+9)))), DLMF 6.9.1.
    tail = z + 9.0
    for k in (4, 3, 2, 1):
        tail = z + 2 * k - 1.0 - k**2 / tail
    return np.where(large, -np.log(tail), small + np.log(exp1(small)))


def _tilted(rng: np.random.Generator, rate: Array) -> Array:
    """Draw eta > 0 of density in proportion to exp(-rate eta) / (1 + eta), by rejection.

    Up to 1 / rate the envelope is 1 / (1 + eta), beyond it an exponential; for rates above one, the
    exponential everywhere.
    """
    flat = rate.ravel()
    result, left = np.empty(len(flat)), np.arange(len(flat))
    while len(left):
        r = flat[left]
        knee = np.where(r < 1.0, 1.0 / r, 0.0)
        inner, outer = np.log1p(knee), np.where(r < 1.0, np.exp(-1.0), 1.0) / (r * (1.0 + knee))
        u, e = rng.random((3, len(r))), rng.exponential(size=len(r))
        below = u[0] * (inner + outer) < inner
        eta = np.where(below, np.expm1(u[1] * inner), knee + e / r)
        accept = np.where(below, np.exp(-r * eta), (1.0 + knee) / (1.0 + eta))
        taken = u[2] < accept
        result[left[taken]] = eta[taken]
        left = left[~taken]
    return np.maximum(result, 1e-280).reshape(rate.shape)


def _reciprocal_inverse_gaussian(rng: np.random.Generator, ratio: Array, slope: Array) -> Array:
    """Draw 1 / x, x inverse Gaussian of mean 1 / ratio and shape slope^2.

    1 / x is ratio + a + (2 a ratio + a^2)^(1/2) at the smaller root, with a = chi^2 / (2 slope^2),
    which cancels nothing (Michael, Schucany and Haas 1976).
    """
    a = 0.5 * np.square(rng.standard_normal(ratio.shape) / slope)
    root = ratio + a + np.sqrt(2.0 * a * ratio + a**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        smaller = rng.random(ratio.shape) * (root + ratio) < root
        other = np.where(ratio > 0.0, np.square(ratio) / root, root)
    return np.where(smaller, root, other)


class JointPrior(Prior):
    """A `Prior` whose first P parameters have a joint density; after the others come its scales.

    Where one wants a distribution of a single coefficient or scale, a Cauchy density stands for it.

    ``units`` has the coefficients by name, and the unit of each in which the prior has it;
    ``others`` the priors of the other parameters, independent of all.
    """

    def __init__(
        self,
        shrinkage: Shrinkage,
        units: Mapping[str, float],
        others: Mapping[str, Distribution],
    ) -> None:
        alone: dict[str, Any] = {name: stats.cauchy(scale=unit) for name, unit in units.items()}
        scales: dict[str, Any] = {name: stats.halfcauchy() for name in shrinkage.scales}
        super().__init__({**alone, **others, **scales})
        set_ = object.__setattr__
        set_(self, "shrinkage", shrinkage)
        set_(self, "units", np.array(list(units.values()), dtype=float))
        set_(self, "others", Prior(others))

    shrinkage: Shrinkage
    units: Array
    others: Prior

    @property
    def n_scales(self) -> int:
        """Number h of global scales, the last columns."""
        return len(self.shrinkage.scales)

    def split(self, theta: Array) -> tuple[Array, Array, Array]:
        """Coefficients in their units (n, P), the others (n, m), and log scales (n, h)."""
        count, end = len(self.units), theta.shape[1] - self.n_scales
        return theta[:, :count] / self.units, theta[:, count:end], theta[:, end:]

    def joined(self, coefficients: Array, others: Array, log_scales: Array) -> Array:
        """Return theta (n, d) of the three parts that `split` makes of it."""
        return np.hstack([coefficients * self.units, others, log_scales])

    @override
    def sample(self, rng: np.random.Generator, size: int) -> Array:
        coefficients, log_scales = self.shrinkage.sample(rng, size, len(self.units))
        return self.joined(coefficients, self.others.sample(rng, size), log_scales)

    @override
    def log_density(self, theta: Array) -> Array:
        coefficients, others, log_scales = self.split(theta)
        with np.errstate(all="ignore"):
            joint = self.shrinkage.log_density(coefficients, log_scales)
            total = joint - np.log(self.units).sum() + self.others.log_density(others)
        return np.where(np.isnan(total), -np.inf, total)
