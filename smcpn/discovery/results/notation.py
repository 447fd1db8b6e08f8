"""Numbers with their uncertainty in the last digits, and equations written with them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DIGITS = 15
"""Most significant digits of a value: a float has no more."""
SHORT = 6
"""Significant digits of a value without uncertainty."""
PLAIN = range(-4, 6)
"""Powers of ten of the first digit that are written without an exponent."""
_EXACT = Context(prec=800, rounding=ROUND_HALF_EVEN)
"""For any difference of two floats' exponents."""


def with_uncertainty(value: float, sd: float) -> str:
    """Write a value with its standard deviation in units of its last digits: ``-8.912(34)``.

    The first three digits of the standard deviation say how many are kept (Particle Data Group,
    Review of Particle Physics, 5.3 "Rounding"): two of 100 to 354, one of 355 to 949, and 950 to
    999 become 10. Where the standard deviation is above the decimal point it has one itself,
    ``8.9(2.3)``. One that is below the last digit of a float is left out, as is 0.

    Examples
    --------
    >>> with_uncertainty(-8.9123, 0.041), with_uncertainty(1.5e-7, 2.04e-9)
    ('-8.91(4)', '1.500(20)e-07')
    """
    if not (math.isfinite(value) and math.isfinite(sd)):
        return f"{value:.4g}({sd:.2g})"
    exact, deviation = Decimal(value), Decimal(abs(sd))
    first = max(_first_digit(exact), _first_digit(deviation)) if value or sd else 0
    exponent = 0 if first in PLAIN else first
    last = max(_last_digit(deviation), first - DIGITS + 1) if sd else first - SHORT + 1
    exact, deviation = (_rounded(one, last).scaleb(-exponent, _EXACT) for one in (exact, deviation))
    places = max(0, exponent - last)
    text = _fixed(exact, places)
    if deviation:
        text += f"({_uncertainty(deviation, places)})"
    elif places:
        text = text.rstrip("0").rstrip(".")
    return f"{text}e{exponent:+03d}" if exponent else text


def _uncertainty(deviation: Decimal, places: int) -> str:
    if deviation >= 1:
        return f"{deviation:.{places}f}"
    return str(int(deviation.scaleb(places, _EXACT)))


def _fixed(number: Decimal, places: int) -> str:
    text = f"{number:.{places}f}"
    return text.removeprefix("-") if not number else text


def _first_digit(number: Decimal) -> int:
    """Power of ten of the first digit; very low for 0."""
    return number.adjusted() if number else -400


def _last_digit(deviation: Decimal) -> int:
    """Power of ten of the last digit that is kept of a standard deviation."""
    leading = int(deviation.scaleb(2 - deviation.adjusted(), _EXACT))
    return deviation.adjusted() - (1 if leading <= 354 or leading >= 950 else 0) + (leading >= 950)


def _rounded(number: Decimal, last: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(last), context=_EXACT)


@dataclass(frozen=True)
class WrittenTerm:
    """A term of an equation.

    name: ``"1"`` for a constant.
    mean, sd: Of its coefficient.
    inclusion: Probability that the equation has it.
    """

    name: str
    mean: float
    sd: float
    inclusion: float = 1.0

    def text(self, probability: bool = True) -> str:
        """Sign, coefficient, term and probability: ``"- 0.200(4) v [1.00]"``."""
        number = with_uncertainty(self.mean, self.sd)
        sign = "-" if number.startswith("-") else "+"
        name = "" if self.name == "1" else f" {self.name}"
        behind = f" [{as_probability(self.inclusion)}]" if probability else ""
        return f"{sign} {number.removeprefix('-')}{name}{behind}"


def as_probability(value: float) -> str:
    """Write a probability with two decimals: ``"1.00"``, ``".04"``."""
    return f"{value:.2f}".removeprefix("0") if math.isfinite(value) else "nan"


def equation_text(
    state: str,
    known: str,
    terms: Sequence[WrittenTerm],
    *,
    probability: bool = True,
    width: int = 100,
) -> str:
    """Write an equation, over several lines where it is long.

    ``known`` is what is known of the right-hand side, "" for nothing; with ``probability`` each
    term has its own behind it; a line has ``width`` characters.
    """
    written = [term.text(probability) for term in terms]
    if known:
        written.insert(0, known)
    elif written:
        first = written[0].removeprefix("+ ")
        written[0] = f"-{first[2:]}" if first.startswith("- ") else first
    head = f"{state}' = "
    # Terms stay whole: their spaces are no places to break a line at.
    whole = "  ".join(one.replace(" ", "\0") for one in written or ["0"])
    lines = textwrap.wrap(
        whole, width, initial_indent=head, subsequent_indent=" " * len(head),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join(lines).replace("\0", " ")


def output_names(observe: Array, states: Sequence[str]) -> tuple[str, ...]:
    """Return what each row of ``observe @ x`` is: ``"x"``, ``"x + 2 y"``."""
    names = []
    for row in observe:
        parts = [
            f"{'-' if weight < 0 else '+'} {'' if abs(weight) == 1 else f'{abs(weight):g} '}{state}"
            for weight, state in zip(row, states, strict=True)
            if weight
        ]
        names.append(" ".join(parts).removeprefix("+ "))
    return tuple(names)
