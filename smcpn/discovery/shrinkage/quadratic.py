"""The likelihood with outputs linearised about a point: quadratic in all but the noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.stored import Stored, Whole, finite
from smcpn.likelihood.contract import NO_KEYS, Keys, Likelihood
from smcpn.likelihood.gradient import LogLikelihood

Array = NDArray[np.float64]

MUTED = 1e8
"""Standard deviation of the noise, as a multiple, at which an output tells nothing."""


@dataclass(frozen=True)
class QuadraticLikelihood(Likelihood, Stored):
    """Gaussian samples whose means are affine in all parameters but the noise of q outputs.

    With delta = theta - centre, and n_k samples of output k,

        log p = sum_k -n_k/2 log(2 pi sigma_k^2) - (square_k + 2 slope_k delta
                + delta' curvature_k delta) / (2 sigma_k^2).

    It is a `Likelihood` of parameters theta and, from the P-th on, sigma; others are not read.

    first: Place P of the first noise.
    centre: (l,), of the location parameters theta.
    counts: (q,)
    squares: (q,), sum of squared residuals at the centre.
    slopes: (q, l)
    curvatures: (q, l, l)
    """

    first: Whole
    centre: Annotated[Array, finite("l")]
    counts: Annotated[Array, finite("q", least=0.0)]
    squares: Annotated[Array, finite("q")]
    slopes: Annotated[Array, finite("q", "l")]
    curvatures: Annotated[Array, finite("q", "l", "l")]
    n_samples: Whole

    @classmethod
    def of(
        cls, log_likelihood: LogLikelihood, first: int, centre: Array, noise: Array, counts: Array
    ) -> QuadraticLikelihood:
        """Linearise a model.

        ``log_likelihood`` is Gaussian; an error of its solver counts as it does at the noise given.
        ``centre`` is (l,), ``noise`` and ``counts``, (q,), the standard deviations, and measured
        numbers of each output. It raises `FloatingPointError` if the solution diverges at the
        centre.
        """
        q, all_but_noise = len(noise), _locations(first, len(noise), len(centre))
        # The noise of all outputs but one is so large that they tell nothing.
        sds = np.where(np.eye(q, dtype=bool), noise, noise * MUTED)
        values = np.insert(np.tile(centre, (q, 1)), [first] * q, sds, axis=1)
        total, gradient, information = log_likelihood.expansion(values)
        if not (np.isfinite(total).all() and np.isfinite(gradient).all()):
            raise FloatingPointError("the solution diverges at the centre")
        variances = noise**2
        # Of a Gaussian sample d log p / d sigma = (residual^2 / sigma^2 - 1) / sigma.
        by_noise = np.diagonal(gradient[:, first : first + q]) * noise
        return cls(
            first=first,
            centre=centre,
            counts=counts,
            squares=variances * (counts + by_noise),
            slopes=np.ascontiguousarray(-gradient[:, all_but_noise] * variances[:, None]),
            curvatures=np.ascontiguousarray(
                information[:, all_but_noise][:, :, all_but_noise] * variances[:, None, None]
            ),
            n_samples=log_likelihood.problem.n_samples,
        )

    def sums(self, theta: Array) -> Array:
        """Sum of squared residuals of each output, (N, q), of location parameters (N, l)."""
        delta = theta - self.centre
        curved = np.einsum("nkm,nm->nk", np.tensordot(delta, self.curvatures, (1, 1)), delta)
        return np.maximum(self.squares + 2.0 * delta @ self.slopes.T + curved, 0.0)

    def total(self, values: Array) -> Array:
        """Log-likelihood (N,) of natural values (N, l + q + ...)."""
        q = len(self.counts)
        sds = values[:, self.first : self.first + q]
        theta = values[:, _locations(self.first, q, len(self.centre))]
        with np.errstate(all="ignore"):
            square = self.sums(theta) / np.square(sds)
            logs = self.counts * (np.log(2.0 * np.pi) + 2.0 * np.log(sds))
            return -0.5 * (square + logs).sum(axis=1)

    @override
    def start(self, values: Array) -> Array:
        """Empty state: there is none."""
        return np.empty((0, len(values)))

    @override
    def advance(
        self, values: Array, state: Array, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        """Increments, (b - a, N): all of it comes with the last sample."""
        increments = np.zeros((b - a, len(values)))
        if a < b == self.n_samples:
            increments[-1] = self.total(values)
        return state, increments

    @override
    def accumulate(
        self, values: Array, state: Array | None, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        total = self.total(values) if a < b == self.n_samples else np.zeros(len(values))
        return self.start(values), total


def _locations(first: int, q: int, count: int) -> list[int]:
    """Places of all parameters but the noise."""
    return [*range(first), *range(first + q, count + q)]
