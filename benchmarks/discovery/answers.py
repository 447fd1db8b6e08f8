"""What a search answers for one record."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import smcpn
from smcpn.errors import InputError


@dataclass(frozen=True)
class Answer:
    """Names of the coefficients that are not zero in a discovery.

    models: Of each model, the most probable first; none where there is no model.
    included: Coefficients that are more probably there than not.
    seconds: Of the processor.
    """

    models: tuple[frozenset[str], ...]
    probabilities: tuple[float, ...]
    included: frozenset[str]
    seconds: float

    @property
    def best(self) -> frozenset[str]:
        """Of the most probable model."""
        return self.models[0] if self.models else frozenset({"no model"})

    def rank(self, truth: Iterable[str]) -> int | None:
        """Place of a model, from 1; None where it is not among those found."""
        wanted = frozenset(truth)
        return self.models.index(wanted) + 1 if wanted in self.models else None


def answer(record: smcpn.Record, **options: Any) -> Answer:
    """Search one record with the options of `smcpn.discover`."""
    begin = time.process_time()
    try:
        found = smcpn.discover(record, seed=1, **options)
    except InputError:
        return Answer((), (), frozenset(), time.process_time() - begin)
    seconds = time.process_time() - begin
    return Answer(
        tuple(frozenset(model.names) for model in found.models),
        tuple(model.probability for model in found.models),
        frozenset(name for name, value in found.inclusion.items() if value > 0.5),
        seconds,
    )


def difference(found: frozenset[str], truth: Iterable[str]) -> str:
    """Terms too many and too few, as ``"+x'[x y] -y'[y]"``."""
    wanted = frozenset(truth)
    return " ".join(
        [f"+{name}" for name in sorted(found - wanted)]
        + [f"-{name}" for name in sorted(wanted - found)]
    )


def wrong(answers: Sequence[Answer], truth: frozenset[str]) -> str:
    """The most frequent of the wrong supports by what they have too many and too few."""
    misses = Counter(difference(one.best, truth) for one in answers if one.best != truth)
    if not misses:
        return ""
    second = sum(one.rank(truth) in (2, 3) for one in answers)
    common = ", ".join(f"{text} ({count})" for text, count in misses.most_common(3))
    return f"; wrong: {common}; truth second or third: {second}"
