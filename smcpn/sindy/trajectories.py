"""Trajectories as pysindy takes them, arrays or lists of arrays with times or a time step."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, counted, real_number, shown
from smcpn.model.record import Record

Array = NDArray[np.float64]

T_REMEDY = "give the time step, or the times of the samples"
FAR = 0.3
"""Share of a state's range by which the integral of a derivative may miss its course."""


@dataclass(frozen=True)
class Trajectories:
    """Trajectories of one system.

    states: (T, n)
    controls: (T, m)
    several: Whether a list was given, and one is returned.
    """

    states: list[Array]
    controls: list[Array] | None
    several: bool

    @classmethod
    def of(cls, x: Any, u: Any = None) -> Trajectories:
        """Read states and controls.

        Raises `InputError` if they are no numbers, infinite, or of shapes that do not fit.
        """
        states, several = _each("x", x)
        for k, one in enumerate(states):
            if one.shape[1] != states[0].shape[1]:
                raise InputError(
                    f"x[{k}] has {counted(one.shape[1], 'column')} and x[0] {states[0].shape[1]}: "
                    "give trajectories of the same states",
                    argument="x",
                )
        if u is None:
            return cls(states, None, several)
        controls, _ = _each("u", u if several else [np.asarray(u)])
        _check_fits("u", controls, states, rows_only=True)
        return cls(states, controls, several)

    def records(self, t: Any) -> list[Record]:
        """Make records at times, or with a time step.

        Raises `InputError` if the times do not fit or do not increase, or a control is NaN.
        """
        records: list[Record] = []
        for k, (one, axis) in enumerate(zip(self.states, self._times(t), strict=True)):
            u = None if self.controls is None else self.controls[k]
            name = f"x[{k}]" if self.several else "x"
            records.append(Record(u=u, y=one, t=axis, name=name))
        return records

    def _times(self, t: Any) -> list[Array]:
        lengths = [len(one) for one in self.states]
        each = isinstance(t, list | tuple) and self.several
        if each and len(t) != len(lengths):
            raise InputError(
                f"t has {len(t)} entries and x {len(lengths)} trajectories: give the times of "
                "each, or one time step",
                argument="t",
            )
        given = list(t) if each else [t] * len(lengths)
        return [sample_times(one, length) for one, length in zip(given, lengths, strict=True)]

    def check_derivatives(self, x_dot: Any, t: Any) -> None:
        """Refuse derivatives that are not those of the states.

        Raises `InputError` if their integral is far from the states.
        """
        given, _ = _each("x_dot", x_dot if self.several else [np.asarray(x_dot)])
        _check_fits("x_dot", given, self.states)
        for one, slope, axis in zip(self.states, given, self._times(t), strict=True):
            known = np.isfinite(one).all(axis=1) & np.isfinite(slope).all(axis=1)
            if known.sum() < 2:
                continue
            one, slope, axis = one[known], slope[known], axis[known]
            steps = np.diff(axis)[:, None] * (slope[1:] + slope[:-1]) / 2.0
            course = np.concatenate([np.zeros((1, one.shape[1])), np.cumsum(steps, axis=0)])
            off = one - course
            off = off - off.mean(axis=0)
            if (off.std(axis=0) > FAR * np.maximum(np.ptp(one, axis=0), _TINY)).any():
                raise InputError(
                    "x_dot is not the derivative of x: equations of other quantities are found by "
                    "pysindy only",
                    argument="x_dot",
                )


_TINY = np.finfo(float).tiny


def matrix(name: str, given: Any) -> Array:
    """Return samples as numbers (T, n).

    Raises `InputError` for anything else; NaN is a missing sample.
    """
    try:
        found = np.array(given, dtype=float)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} is {shown(given)}: give an array (samples, columns), or a list of them",
            argument=name,
        ) from None
    if found.ndim == 1:
        found = found[:, None]
    if found.ndim != 2 or not found.size:
        raise InputError(
            f"{name} has the shape {found.shape}: give an array (samples, columns); equations of "
            "fields, with axes of space, are found by pysindy only",
            argument=name,
        )
    if np.isinf(found).any():
        at = tuple(np.argwhere(np.isinf(found))[0].tolist())
        raise InputError(f"{name} is infinite at {at}: give finite numbers", argument=name)
    return found


def sample_times(t: Any, length: int) -> Array:
    """Return the times (T,) that a time step, or times, stand for.

    Raises `InputError` if they are no numbers, not of this length, or do not increase.
    """
    if t is None:
        raise InputError(f"t is missing: {T_REMEDY}", argument="t")
    if isinstance(t, str | bool) or callable(t):
        raise InputError(f"t is {shown(t)}: {T_REMEDY}", argument="t")
    if isinstance(t, Real) or np.ndim(t) == 0:
        step = real_number("t", np.asarray(t).item(), f"{T_REMEDY}")
        if step <= 0.0:
            raise InputError(f"t is {step}: the time step must be positive", argument="t")
        return np.arange(length) * np.float64(step)
    try:
        found = np.array(t, dtype=float).ravel()
    except (TypeError, ValueError):
        raise InputError(f"t is {shown(t)}: {T_REMEDY}", argument="t") from None
    if len(found) != length:
        raise InputError(
            f"t has {len(found)} times and x {length} samples: give one for each", argument="t"
        )
    if not (np.diff(found) > 0.0).all() or not np.isfinite(found).all():
        k = int(np.argmax(~(np.diff(found, prepend=-np.inf) > 0.0)))
        raise InputError(
            f"t does not increase at sample {k}: sort the samples by time", argument="t"
        )
    return found


def _each(name: str, given: Any) -> tuple[list[Array], bool]:
    """Arrays of every trajectory, and whether there was a list of them."""
    several = (
        isinstance(given, list | tuple)
        and len(given) > 0
        and all(isinstance(one, np.ndarray) or _is_matrix(one) for one in given)
    )
    if not several:
        return [matrix(name, given)], False
    return [matrix(f"{name}[{k}]", one) for k, one in enumerate(given)], True


def _is_matrix(one: Any) -> bool:
    return isinstance(one, list | tuple) and len(one) > 0 and isinstance(one[0], list | tuple)


def _check_fits(
    name: str, given: list[Array], states: list[Array], rows_only: bool = False
) -> None:
    if len(given) != len(states):
        raise InputError(
            f"{name} has {len(given)} trajectories and x {len(states)}: give one for each",
            argument=name,
        )
    for k, (one, x) in enumerate(zip(given, states, strict=True)):
        width = given[0].shape[1] if rows_only else x.shape[1]
        if one.shape != (len(x), width):
            raise InputError(
                f"{name} of trajectory {k} has the shape {one.shape}: give {(len(x), width)}, one "
                "row for each sample of x",
                argument=name,
            )
