"""A likelihood of its first samples, of some of the columns, or to a power."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.likelihood.contract import NO_KEYS, Keys, Likelihood

Array = NDArray[np.float64]


class LikelihoodView(Likelihood):
    """An exact likelihood as another one sees it: of fewer samples or columns, or to a power.

    Parameters
    ----------
    likelihood : Likelihood
    n_samples : int, optional
        First samples that there are; all, by default.
    power : float
        Factor on every log-density.
    unread : int
        Last columns of ``values`` that are no parameters of the likelihood.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        *,
        n_samples: int | None = None,
        power: float = 1.0,
        unread: int = 0,
    ) -> None:
        self._likelihood, self._power, self._unread = likelihood, power, unread
        self.n_samples = likelihood.n_samples if n_samples is None else n_samples

    @override
    def start(self, values: Array) -> Array:
        return self._likelihood.start(self._own(values))

    @override
    def advance(
        self, values: Array, state: Array, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        state, increments = self._likelihood.advance(self._own(values), state, a, b)
        return state, self._power * increments

    @override
    def accumulate(
        self, values: Array, state: Array | None, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        state, total = self._likelihood.accumulate(self._own(values), state, a, b)
        return state, self._power * total

    def _own(self, values: Array) -> Array:
        return np.ascontiguousarray(values[:, : values.shape[1] - self._unread])
