"""Which column of a line is which input or output of a problem."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from smcpn.problem import Problem
from smcpn.streaming.sample import Sample

Kind = Literal["t", "n", "u", "y"]
Slot = tuple[Kind, int]
_LARGEST_EXACT = 2**53


class BadLineError(ValueError):
    """A line that is no sample; the message says why."""


@dataclass(frozen=True)
class Channels:
    """Names of the inputs and outputs, and the words that stand for them in a line.

    Beside its own name an input is called ``u`` or ``u0``, ``u1``..., an output ``y`` or ``y0``,
    ``y1``...; time is ``t`` or ``time``, a sequence number ``n`` or ``seq``. A name of the problem
    wins over such a word.

    Parameters
    ----------
    inputs, outputs : tuple of str
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    slots: dict[str, Slot] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        slots: dict[str, Slot] = {"t": ("t", 0), "time": ("t", 0), "n": ("n", 0), "seq": ("n", 0)}
        channels: tuple[tuple[Kind, tuple[str, ...]], ...] = (
            ("y", self.outputs),
            ("u", self.inputs),
        )
        for kind, names in channels:
            if len(names) == 1:
                slots[kind] = (kind, 0)
            slots.update({f"{kind}{j}": (kind, j) for j in range(len(names))})
        for kind, names in channels:
            slots.update({name: (kind, j) for j, name in enumerate(names)})
        object.__setattr__(self, "slots", slots)

    @classmethod
    def of(cls, problem: Problem) -> Channels:
        """Name the channels of a problem: outputs by what they observe, where that is a name."""
        outputs = tuple(
            what if isinstance(what, str) else f"y{j}" for j, what in enumerate(problem.observe)
        )
        return cls(problem.ode.inputs, outputs)

    @property
    def in_order(self) -> tuple[Slot, ...]:
        """The columns of a line without names: inputs, then outputs."""
        inputs: list[Slot] = [("u", j) for j in range(len(self.inputs))]
        return (*inputs, *(("y", j) for j in range(len(self.outputs))))

    def missing_from(self, slots: set[Slot]) -> str:
        """Say what a line must have and has not, or "": every input and one output."""
        for j, name in enumerate(self.inputs):
            if ("u", j) not in slots:
                return f"no input '{name}'"
        if not any(("y", j) in slots for j in range(len(self.outputs))):
            return f"no output ({', '.join(self.outputs)})"
        return ""

    def sample(self, line: int, values: dict[Slot, float]) -> Sample:
        """Put checked numbers together; an output that is not there is missing.

        Raises
        ------
        BadLineError
            For an unknown input, an infinite number, a time that is none.
        """
        u = self._column(values, "u", len(self.inputs))
        y = self._column(values, "y", len(self.outputs))
        for j, name in enumerate(self.inputs):
            if not np.isfinite(u[j]):
                raise BadLineError(f"input '{name}' is {u[j]}: an input must be known")
        for j, name in enumerate(self.outputs):
            if np.isinf(y[j]):
                raise BadLineError(f"output '{name}' is infinite")
        t = values.get(("t", 0))
        if t is not None and not np.isfinite(t):
            raise BadLineError(f"the time is {t}")
        number = values.get(("n", 0))
        if number is not None and not (number.is_integer() and abs(number) < _LARGEST_EXACT):
            raise BadLineError(f"the sequence number is {number}")
        return Sample(line, t, u, y, None if number is None else int(number))

    @staticmethod
    def _column(values: dict[Slot, float], kind: Kind, size: int) -> NDArray[np.float64]:
        return np.array([values.get((kind, j), np.nan) for j in range(size)])
