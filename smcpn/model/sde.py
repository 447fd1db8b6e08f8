"""A stochastic differential equation, written as a Python function and traced once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, overload

import casadi as ca
import numpy as np

from smcpn.errors import InputError
from smcpn.model.ode import ODE, Arguments, callers_scope, decorated
from smcpn.model.trace import called, function_name, scalars


@overload
def sde(function: Callable[..., Any], /) -> ODE: ...
@overload
def sde(*, sizes: Mapping[str, int]) -> Callable[[Callable[..., Any]], ODE]: ...
@overload
def sde(function: Callable[..., Any], /, *, sizes: Mapping[str, int]) -> ODE: ...
def sde(
    function: Callable[..., Any] | None = None,
    /,
    *,
    sizes: Mapping[str, int] | None = None,
) -> ODE | Callable[[Callable[..., Any]], ODE]:
    """Trace ``function`` into an `ODE` with process noise, dx = f dt + G dW in the sense of Ito.

    The arguments are those of a function for `ode`. It returns a pair: the drift f, as a function
    for `ode` returns its derivatives, and the diffusion G, in the states' units per square root of
    a second. A diffusion of one entry per state gives each state a Wiener process of its own (0
    for none); a matrix, nested or an array (n, m), has one column for each of m.

    Vectors (``sizes``) are those of `ode`.

    Where G does not depend on the state, ``Problem(process_noise=...)`` says it shorter.

    Raises
    ------
    InputError
        As `ode`, and if the function returns no pair, or a diffusion that does not fit the drift
        or is zero.

    Examples
    --------
    >>> @sde
    ... def stock(price, *, mu, sigma):
    ...     return mu * price, sigma * price
    """
    return decorated(_sde, function, sizes, callers_scope())


def _sde(function: Callable[..., Any], sizes: Any, scope: Mapping[str, Any]) -> ODE:
    arguments, name = Arguments.of(function, scope, sizes), function_name(function)
    returned = called(function, arguments.positional, arguments.keyword)
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        raise InputError(
            f"model '{name}' does not return a pair: return drift and diffusion, "
            "each with one entry per state"
        )
    drift = scalars(returned[0], name)
    diffusion = ca.sparsify(_columns(returned[1], len(drift), name))
    if not diffusion.nnz():
        raise InputError(f"model '{name}' returns a diffusion of zeros: decorate with @smcpn.ode")
    return arguments.equation(drift, diffusion)


def _columns(diffusion: Any, n: int, model: str) -> ca.SX:
    """Matrix (n, m) of what a function returned as diffusion."""
    if _is_matrix(diffusion, n):
        given = ca.vertsplit(diffusion) if isinstance(diffusion, ca.SX) else diffusion
        rows = [scalars(_entries(row), model) for row in given]
        columns = len(rows[0])
        if len(rows) != n or any(len(row) != columns for row in rows) or not columns:
            raise InputError(
                f"model '{model}' returns a diffusion of rows of {[len(row) for row in rows]} "
                f"entries for {n} states: give a matrix with one row per state"
            )
        return ca.vertcat(*[ca.horzcat(*row) for row in rows])
    entries = scalars(diffusion, model)
    if len(entries) != n:
        raise InputError(
            f"model '{model}' returns {len(entries)} entries of diffusion for {n} states: "
            "give one per state, 0 for a state without noise, or a matrix with one row per state"
        )
    occupied = [k for k, entry in enumerate(entries) if not entry.is_zero()]
    return ca.diag(ca.vertcat(*entries))[:, occupied]


def _entries(row: Any) -> Any:
    """Entries of a row of a matrix, or what stands in its place."""
    if isinstance(row, ca.SX):
        return ca.horzsplit(row)
    return list(row) if isinstance(row, (tuple, list, np.ndarray)) else row


def _is_matrix(diffusion: Any, n: int) -> bool:
    """True if it has rows; a tuple of vectors with one entry per state together has none."""
    if isinstance(diffusion, ca.SX):
        return diffusion.shape[1] > 1
    if isinstance(diffusion, np.ndarray):
        return diffusion.ndim > 1
    if not isinstance(diffusion, (tuple, list)):
        return False
    rows = [row for row in diffusion if isinstance(row, (tuple, list, np.ndarray))]
    entries = len(diffusion) - len(rows) + sum(map(len, rows))
    return bool(rows) and not len(diffusion) != n == entries
