"""pysindy's optimizers by name: their settings have no meaning where terms have probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, shown
from smcpn.sindy.parameters import Parameters


class Optimizer(Parameters):
    """Settings of one of pysindy's optimizers, which are kept and not used.

    Attributes
    ----------
    coef_ : ndarray, (n, p)
        Those of the `SINDy` that it was given to, once that is fitted.
    """

    coef_: NDArray[np.float64]

    def __init__(self, **parameters: Any) -> None:
        self._given = parameters
        vars(self).update(parameters)

    def _names(self) -> list[str]:
        return list(self._given)

    def _check_name(self, name: str) -> None:
        """Any: they are not used."""

    def keep(
        self, coef: NDArray[np.float64], draws: Callable[[int], list[NDArray[np.float64]]]
    ) -> None:
        """Keep coefficients that were found; ``draws`` returns a number of draws of them."""
        self.coef_ = coef

    @property
    def history_(self) -> list[NDArray[np.float64]]:
        """Coefficients of every iteration, which are not here: no optimizer has iterated.

        Raises
        ------
        AttributeError
        """
        raise AttributeError(
            "the optimizer has no history_, because it is not used: take discovery_.models of the "
            "SINDy, the equations that were compared, with their probabilities"
        )

    @property
    def is_default(self) -> bool:
        """True if it says no more than that there is none."""
        return False

    @property
    def complexity(self) -> int:
        """Number of coefficients that are not zero."""
        return int(np.count_nonzero(self.coef_))


class STLSQ(Optimizer):
    """Sequentially thresholded least squares, pysindy's default."""

    def __init__(self, threshold: Any = 0.1, alpha: Any = 0.05, **parameters: Any) -> None:
        super().__init__(threshold=threshold, alpha=alpha, **parameters)

    @property
    def is_default(self) -> bool:
        """True if it has its default settings."""
        return self._given == {"threshold": 0.1, "alpha": 0.05}


class SR3(Optimizer):
    """Sparse relaxed regularised regression."""


class SSR(Optimizer):
    """Stepwise sparse regression."""


class FROLS(Optimizer):
    """Forward regression with orthogonal least squares."""


class MIOSR(Optimizer):
    """Mixed-integer optimised sparse regression."""


class SBR(Optimizer):
    """Sparse Bayesian regression."""


class WrappedOptimizer(Optimizer):
    """A regression of scikit-learn."""

    def __init__(self, optimizer: Any, **parameters: Any) -> None:
        super().__init__(optimizer=optimizer, **parameters)


class EnsembleOptimizer(Optimizer):
    """An optimizer on many samples of the data.

    Attributes
    ----------
    coef_list : list of ndarray, (n, p)
        ``n_models`` draws of the coefficients from the posterior over all models, once the `SINDy`
        is fitted, in place of those of as many samples of the data.
    """

    n_models: int = 20
    coef_list: list[NDArray[np.float64]]

    def __init__(self, opt: Any, **parameters: Any) -> None:
        super().__init__(opt=opt, **parameters)

    def keep(
        self, coef: NDArray[np.float64], draws: Callable[[int], list[NDArray[np.float64]]]
    ) -> None:
        """Keep the coefficients of the ensemble."""
        super().keep(coef, draws)
        self.coef_list = draws(self.n_models)


MEANINGFUL = ("TrappingSR3", "StableLinearSR3", "SINDyPI")
"""Optimizers of pysindy that find other equations than a free choice of terms does."""


def check_optimizer(optimizer: Any) -> None:
    """Refuse an optimizer that changes what is looked for.

    Raises `InputError` if it constrains the equations, or makes them implicit.
    """
    name = type(optimizer).__name__
    constrained = getattr(optimizer, "constraint_lhs", None) is not None
    if name in MEANINGFUL or constrained:
        raise InputError(
            f"optimizer is {shown(optimizer)}, which constrains the equations: give constraints to "
            "smcpn.discover, or use pysindy",
            argument="optimizer",
        )


def is_default(optimizer: Any) -> bool:
    """True if nothing is lost where the optimizer is not used."""
    return isinstance(optimizer, Optimizer) and optimizer.is_default
