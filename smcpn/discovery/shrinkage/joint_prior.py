"""The prior of coefficients that shrink together, beside independent ones of everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from typing_extensions import override

from smcpn.discovery.shrinkage.priors import Shrinkage
from smcpn.model.distribution import Distribution
from smcpn.model.prior import Prior

Array = NDArray[np.float64]


class JointPrior(Prior):
    """A `Prior` whose first P parameters have a joint density; after the others come its scales.

    Where one wants a distribution of a single coefficient or scale, a Cauchy density stands for it.

    Parameters
    ----------
    shrinkage : Shrinkage
    units : mapping of str to float
        Coefficients by name, and the unit of each in which the prior has it.
    others : mapping of str to Distribution
        Priors of the other parameters, independent of all.
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
