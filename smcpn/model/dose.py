"""A dose: an amount that enters a state at a known time, at once or over a while."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from smcpn.base.arguments import check_fields, checked
from smcpn.errors import InputError, real_number, shown

MOST = 1_000_000
"""Most doses of a record."""
_ONE = "give an smcpn.Dose, or a dict of its arguments"


@checked
@dataclass(frozen=True)
class Dose:
    """An amount that enters a state at a known time, at once or at a constant rate.

    A sample at the time at which a dose arrives is taken before it.

    Parameters
    ----------
    time : float
        When it is given, in the record's unit of time.
    state : str
        Which it enters, ``"gut"``, or ``"x[3]"`` of a vector.
    amount : float
        In the state's unit; a negative one is taken out.
    duration : float
        0 where the state jumps; otherwise it rises by ``amount / duration`` per unit of time for so
        long, an infusion.
    lag : float or str
        Time from the giving to the arrival: not negative, or the name of a parameter whose prior
        has such bounds.
    fraction : float or str
        Share of the amount that arrives (bioavailability): a number, or the name of a parameter.

    Raises
    ------
    InputError
        For a number that is not finite, a negative duration or lag, or what is no name.

    Examples
    --------
    >>> Dose(8.0, "gut", 320.0, lag="tlag", fraction="F")
    Dose(time=8.0, state='gut', amount=320.0, duration=0.0, lag='tlag', fraction='F')
    """

    time: float
    state: str
    amount: float
    duration: float = 0.0
    lag: float | str = 0.0
    fraction: float | str = 1.0

    def __post_init__(self) -> None:
        check_fields(self, "state")
        for name in ("time", "amount", "duration", "lag", "fraction"):
            value = getattr(self, name)
            if isinstance(value, str) and name in ("lag", "fraction"):
                if not value.isidentifier():
                    what = "give a number, or the name of a parameter"
                    raise InputError(f"dose: {name} is {value!r}: {what}", argument=name)
                continue
            positive = name in ("duration", "lag")
            remedy = "give a finite number" + " that is not negative" * positive
            number = real_number(f"dose: {name}", value, remedy, argument=name)
            if positive and number < 0.0:
                raise InputError(f"dose: {name} is {number:g}: {remedy}", argument=name)
            object.__setattr__(self, name, number)
        if not isfinite(self.end) or (self.duration and not isfinite(self.amount / self.duration)):
            raise InputError(
                f"dose: an amount of {self.amount:g} from {self.begin:g} over {self.duration:g} is "
                "beyond all numbers: give it in other units",
                argument="duration",
            )

    @property
    def known(self) -> bool:
        """True if the time at which it arrives is no parameter's."""
        return not isinstance(self.lag, str)

    @property
    def begin(self) -> float:
        """Time at which it arrives, but for a lag that is a parameter."""
        return self.time if isinstance(self.lag, str) else self.time + self.lag

    @property
    def end(self) -> float:
        """Time at which all of it has arrived, but for a lag that is a parameter."""
        return self.begin + self.duration


def as_doses(given: Any, record: str) -> tuple[Dose, ...]:
    """Return the doses of a record, sorted by time."""
    if isinstance(given, (Dose, Mapping)):
        given = [given]
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InputError(f"{record}: doses is {shown(given)}: {_ONE}, or a list", argument="doses")
    doses = [_as_dose(one, record) for one in given]
    if len(doses) > MOST:
        raise InputError(
            f"{record}: doses has {len(doses)}: give at most {MOST}, or a rate as an input",
            argument="doses",
        )
    return tuple(sorted(doses, key=lambda one: one.time))


def _as_dose(given: Any, record: str) -> Dose:
    if isinstance(given, Dose):
        return given
    names = [one.name for one in fields(Dose)]
    if not isinstance(given, Mapping) or not {"time", "state", "amount"} <= set(given) <= set(
        names
    ):
        raise InputError(
            f"{record}: a dose is {shown(given)}: {_ONE} ({', '.join(names)})", argument="doses"
        )
    return Dose(**given)
