"""Solvers describe how the ODE is integrated; they do not run."""

from __future__ import annotations

from dataclasses import dataclass

from smcpn.errors import InputError

MAX_STEPS = 1024
ORDERS = range(1, 7)


@dataclass(frozen=True)
class EKF0:
    """Probabilistic solver: integrated Wiener process prior, zeroth-order filter.

    The mean converges with order nu + 1. The method is explicit: a mode of angular frequency w
    is stable up to about w h = 0.6, 0.27, 0.1, 0.04 and 0.014 for orders 2 to 6, h being the
    sampling interval over ``steps``; beyond it a particle diverges and gets weight zero.

    Parameters
    ----------
    order : int
        Number of integrations of the Wiener process (nu), 1 to 6.
    steps : int or "auto"
        Solver steps per sampling interval; ``"auto"`` doubles them until the solver's variance
        is a stated share of the noise variance.
    form : {"first", "chain"}
        ``"first"`` gives every state its own process. ``"chain"`` lets x and v = x' share one,
        which only likelihoods that condition the state on the data can use.

    Raises
    ------
    InputError
        If ``order``, ``steps`` or ``form`` is out of range.
    """

    order: int = 3
    steps: int | str = "auto"
    form: str = "first"

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise InputError(f"order is {self.order!r}: choose 1 to {ORDERS[-1]}")
        _check_steps(self.steps)
        if self.form not in ("first", "chain"):
            raise InputError(f"form is {self.form!r}: choose 'first' or 'chain'")


@dataclass(frozen=True)
class RK4:
    """Classical fourth-order Runge-Kutta, which claims no numerical error.

    Parameters
    ----------
    steps : int or "auto"
        Solver steps per sampling interval.
    """

    steps: int | str = "auto"

    def __post_init__(self) -> None:
        _check_steps(self.steps)


def _check_steps(steps: int | str) -> None:
    whole = isinstance(steps, int) and not isinstance(steps, bool)
    if steps != "auto" and not (whole and 1 <= int(steps) <= MAX_STEPS):
        raise InputError(f"steps is {steps!r}: choose 1 to {MAX_STEPS} per sample, or 'auto'")
