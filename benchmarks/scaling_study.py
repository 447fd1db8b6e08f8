"""A curve of time against a size, and its slopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

TOLERANCE = 0.05
SLOPES = ("slope", "last_slope", "processor_slope", "evaluation_slope")


@dataclass(frozen=True)
class Taken:
    """Time of one measurement, and how often it evaluated the record.

    Attributes
    ----------
    seconds : float
        Wall time.
    processor_seconds : float
        Of all threads. It differs where the machine does something else too.
    evaluations : float
        How often each particle and sample was evaluated.
    """

    seconds: float
    processor_seconds: float
    evaluations: float = 1.0


@dataclass(frozen=True)
class Study:
    """A curve in logarithms.

    Attributes
    ----------
    title, size : str
        What is measured, and against what.
    sizes : list
    taken : list
        At each size.
    expected : float, optional
        Slope that is the target.
    """

    title: str
    size: str
    sizes: list[int]
    taken: list[Taken]
    expected: float | None = None

    @property
    def seconds(self) -> list[float]:
        """Wall times."""
        return [taken.seconds for taken in self.taken]

    @property
    def slope(self) -> float:
        """Of a line through the logarithms of the wall times."""
        return _slope(self.sizes, self.seconds)

    @property
    def processor_slope(self) -> float:
        """The same of the processor times, which tell more on a busy machine."""
        return _slope(self.sizes, [taken.processor_seconds for taken in self.taken])

    @property
    def last_slope(self) -> float:
        """Between the two largest sizes, where what is spent once matters least."""
        return _slope(self.sizes[-2:], self.seconds[-2:])

    @property
    def evaluation_slope(self) -> float:
        """Of the processor time of one evaluation: that of a run over its `evaluations`."""
        each = [taken.processor_seconds / taken.evaluations for taken in self.taken]
        return _slope(self.sizes, each)

    @property
    def met(self) -> bool | None:
        """Whether the slope is within the tolerance of the target."""
        return None if self.expected is None else abs(self.slope - self.expected) <= TOLERANCE


def _slope(sizes: Sequence[float], times: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
