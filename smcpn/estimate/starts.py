"""Where searches begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import shown, whole_number
from smcpn.distributions import support
from smcpn.errors import InputError
from smcpn.estimate.density import LogDensity
from smcpn.prior import Prior

Array = NDArray[np.float64]

Starts = int | Mapping[str, Any] | Sequence[Any] | Array | None
CANDIDATES = 64
"""Draws from the prior whose most likely are the starts, where none is given."""
SEARCHES = 4
"""How many of them: one alone ends in a lesser mode now and then."""


def starting_points(density: LogDensity, starts: Starts, rng: np.random.Generator) -> Array:
    """Return the starts in unconstrained coordinates, (S, d).

    Parameters
    ----------
    density : LogDensity
    starts : int, mapping, array or None
        A number of draws from the prior; values by name, one or (S,) each, the rest at the prior
        median; values (S, d) or (d,); by default the four most likely of 64 draws.

    Raises
    ------
    InputError
        If a value is outside the support of its prior, or shapes or names do not fit.
    """
    prior = density.prior
    if starts is None:
        candidates = prior.sample(rng, CANDIDATES)
        return candidates[np.argsort(-density.value(candidates), kind="stable")[:SEARCHES]]
    if isinstance(starts, Mapping):
        values = _of_mapping(density, starts)
    elif np.ndim(starts) == 0:
        count = whole_number("starts", starts, 1, otherwise=", values, or a mapping of names")
        return prior.sample(rng, count)
    else:
        values = np.atleast_2d(_numbers("starts", starts))
    if values.ndim != 2 or values.shape[1] != len(prior) or len(values) == 0:
        raise InputError(
            f"starts has shape {values.shape}: give (S, {len(prior)}) values, in the order "
            f"{', '.join(prior.names)}"
        )
    _check_inside(prior, values)
    return prior.unconstrained(values)


def free_stages(names: tuple[str, ...], stages: Sequence[Sequence[str]] | None) -> list[list[int]]:
    """Return the free columns of each stage; the last one has all.

    Raises
    ------
    InputError
        For what is no sequence of sequences of parameter names.
    """
    chosen: list[list[int]] = []
    for stage in () if stages is None else stages:
        if isinstance(stage, str):
            raise InputError(
                f"stages holds {stage!r}: give sequences of names, stages=[('{stage}',)]"
            )
        unknown = [name for name in stage if name not in names]
        if unknown or not stage:
            raise InputError(
                f"stages holds {shown(tuple(stage))}: choose from the parameters {', '.join(names)}"
            )
        chosen.append([j for j, name in enumerate(names) if name in stage])
    everything = list(range(len(names)))
    return chosen if chosen and chosen[-1] == everything else [*chosen, everything]


def _of_mapping(density: LogDensity, starts: Mapping[str, Any]) -> Array:
    names = density.names
    unknown = [name for name in starts if name not in names]
    if unknown:
        raise InputError(
            f"starts names '{unknown[0]}', which is no parameter: choose from {', '.join(names)}"
        )
    given = {name: _numbers(f"starts['{name}']", value) for name, value in starts.items()}
    lengths = {len(np.atleast_1d(value)) for value in given.values()} - {1}
    if len(lengths) > 1 or any(value.ndim > 1 for value in given.values()):
        raise InputError("starts gives parameters different numbers of values: give one, or S each")
    size = lengths.pop() if lengths else 1
    median = density.prior.natural(density.centre[None, :])[0]
    columns = [
        np.broadcast_to(np.atleast_1d(given[name] if name in given else median[j]), size)
        for j, name in enumerate(names)
    ]
    return np.stack(columns, axis=1)


def _numbers(name: str, value: Any) -> Array:
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} is {shown(value)}: give numbers") from None


def _check_inside(prior: Prior, values: Array) -> None:
    for j, (name, distribution) in enumerate(prior.distributions.items()):
        lower, upper = support(distribution)
        outside = ~((values[:, j] > lower) & (values[:, j] < upper))
        if outside.any():
            raise InputError(
                f"starts gives {name} = {values[outside, j][0]:g}, which is not inside the support "
                f"of its prior, ({lower:g}, {upper:g}): correct it or choose another prior"
            )
