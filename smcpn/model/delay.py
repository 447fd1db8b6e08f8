"""The argument ``delay`` of a problem: dead times of inputs, checked and made into a `Delay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, isfinite
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, listed, real_number, shown
from smcpn.model.distribution import Distribution, support
from smcpn.model.entries import by_scalar, is_name
from smcpn.model.ode import ODE
from smcpn.model.record import CONTEXT, Record
from smcpn.units import duration

Array = NDArray[np.float64]

ARGUMENT = "delay"
MOST_INTERVALS = 512
"""Sampling intervals between the bounds of a dead time: each particle picks its samples of them."""
LONGEST = 10**5
"""Sampling intervals in a dead time, at most."""
_REMEDY = "give a time that is not negative, or the name of a parameter"


@dataclass(frozen=True)
class Delay:
    """Dead times: the equation's u(t) is the record's u(t - tau).

    Attributes
    ----------
    inputs : tuple of int
        Numbers of the inputs that are delayed, ascending.
    sources : tuple of int or float
        Of each the place of its dead time in theta (int), or the dead time (float).
    bounds : tuple of (float, float)
        Least and greatest dead time of each.
    names : tuple of str
        Of the parameters that hold a dead time, learned or fixed.
    """

    inputs: tuple[int, ...]
    sources: tuple[int | float, ...]
    bounds: tuple[tuple[float, float], ...]
    names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        given: Any,
        ode: ODE,
        free: Mapping[str, Distribution],
        fixed: Mapping[str, float],
    ) -> Delay | None:
        """Read the argument ``delay`` of a model; None where there is none.

        Parameters
        ----------
        free : mapping of str to distribution
            Parameters that theta begins with, in its order.
        fixed : mapping of str to float

        Raises
        ------
        InputError
            For what is no mapping, names no input or parameter, or has no finite bounds.
        """
        if given is None or (isinstance(given, Mapping) and not given):
            return None
        if not isinstance(given, Mapping):
            example = ode.inputs[0] if ode.inputs else "u"
            raise _refused(
                f'delay is {shown(given)}: give a dict such as {{"{example}": "tau"}}, from an '
                "input to a time or a parameter's name"
            )
        taken = by_scalar(given, ode, ARGUMENT)
        for name in taken:
            if name not in ode.inputs:
                raise _refused(
                    f"delay names {shown(name)}, which is no input of model '{ode.name}' "
                    f"({listed(ode.inputs) or 'it has none'})",
                    name,
                )
        inputs = tuple(sorted(map(ode.inputs.index, taken)))
        pairs = [_source(ode.inputs[i], taken[ode.inputs[i]], free, fixed) for i in inputs]
        return cls(
            inputs,
            tuple(one for one, _ in pairs),
            tuple(bounds for _, bounds in pairs),
            tuple(name for name in taken.values() if is_name(name)),
        )

    @property
    def keys(self) -> tuple[tuple[bool, float], ...]:
        """For each delayed input what is the same where the dead time is the same."""
        return tuple((isinstance(one, int), one) for one in self.sources)

    def seconds(self, theta: ca.SX) -> list[ca.SX]:
        """Dead time of each delayed input."""
        return [theta[one] if isinstance(one, int) else ca.SX(one) for one in self.sources]

    def labelled(self, inputs: Sequence[str], names: Sequence[str]) -> dict[str, float | str]:
        """As plain data: input to a dead time or the name of a parameter."""
        return {
            inputs[i]: names[one] if isinstance(one, int) else one
            for i, one in zip(self.inputs, self.sources, strict=True)
        }

    def intervals(self, records: Sequence[Record]) -> tuple[tuple[int, int], ...]:
        """Least and greatest number of whole sampling intervals in each dead time.

        Raises
        ------
        InputError
            If a record is not sampled uniformly, its input is not held or linear between samples,
            a prior spans too many of its intervals, or no dead time that it allows is within what
            a cut record knows of the input before it.
        """
        for record in records:
            _check_record(record, max(lower for lower, _ in self.bounds))
        lengths, unit = [record.interval for record in records], records[0].t_unit
        ranges: list[tuple[int, int]] = []
        for lower, upper in self.bounds:
            if upper > LONGEST * min(lengths):
                raise _refused(
                    f"delay reaches to {duration(upper, unit)}, more than {LONGEST} sampling "
                    f"intervals of {duration(min(lengths), unit)}: give a shorter one, or shift "
                    "the input of the record"
                )
            least, most = floor(lower / max(lengths)), floor(upper / min(lengths))
            if most - least > MOST_INTERVALS:
                raise _refused(
                    f"delay reaches from {lower:g} to {duration(upper, unit)}, {most - least} "
                    f"sampling intervals of {duration(min(lengths), unit)}: give a prior that "
                    f"spans at most {MOST_INTERVALS}, or resample the record"
                )
            ranges.append((least, most))
        return tuple(ranges)


def inputs_before(record: Record, number: int) -> Array:
    """The last inputs before the first sample, (number, n_inputs).

    Of a periodic record they are those of the period before, of one that was cut from another those
    that are known; further back the first one known is held.
    """
    if record.periodic:
        return np.take(record.u, np.arange(-number, 0), axis=0, mode="wrap")
    before, _ = record.input_around()
    known = np.concatenate([before[max(0, len(before) - number) :], record.u[:1]])
    return np.pad(known, ((number + 1 - len(known), 0), (0, 0)), mode="edge")[:-1]


def _source(
    name: str, value: Any, free: Mapping[str, Distribution], fixed: Mapping[str, float]
) -> tuple[int | float, tuple[float, float]]:
    """Place in theta or the time, and the bounds, of the dead time of an input."""
    what = f"delay of '{name}'"
    if is_name(value) and value in free:
        lower, upper = support(free[value])
        if not (lower >= 0.0 and isfinite(upper)):
            raise _refused(
                f"{what}: the prior of '{value}' reaches from {lower:g} to {upper:g}, but a dead "
                "time needs bounds that are not negative: give a prior such as "
                "scipy.stats.uniform(0, 0.5), or truncate it",
                name,
            )
        return list(free).index(value), (lower, upper)
    if is_name(value) and value not in fixed:
        raise _refused(
            f"{what} is '{value}', which has no prior: give prior={{'{value}': ...}} a "
            "distribution with bounds, or a number to fix it",
            name,
        )
    number = real_number(what, fixed.get(value, value), _REMEDY, argument=f"{ARGUMENT}.{name}")
    if not 0.0 <= number < np.inf:
        raise _refused(f"{what} is {shown(number)}: {_REMEDY}", name)
    return number, (number, number)


def _check_record(record: Record, least: float) -> None:
    if record.u_function is not None:
        raise _refused(
            f"{record.name}: u is a function of time, which delay does not move: write the dead "
            "time into the function, or give the input by its samples"
        )
    if record.hold == "bandlimited":
        raise _refused(
            f"{record.name}: hold 'bandlimited' does not go with delay: choose 'foh' or 'zoh'"
        )
    if not record.uniform:
        raise _refused(f"{record.name}: delay needs uniform sampling: resample the record")
    known = 0 if record.u_before is None else len(record.u_before)
    if known == CONTEXT and least > known * record.interval:
        back, far = (duration(one, record.t_unit) for one in (least, known * record.interval))
        raise _refused(
            f"{record.name}: delay reaches {back} back, and a record cut from another "
            f"knows {known} samples before it, {far}: give the whole "
            "record, and leave the outputs before out by record.hide"
        )


def _refused(sentence: str, key: str = "") -> InputError:
    return InputError(sentence, argument=f"{ARGUMENT}.{key}" if key else ARGUMENT)
