"""States that count since the last sample: they are zero again behind every one.

A sample leaves of the states x the part c x, where c is 0 for an accumulator and 1 for every other
state. The map is linear: a filter takes mean and covariance through it (`pn.gaussian.moved`), and a
program without a covariance its states (`SetBack.join`). It runs at the begin of an interval, so
that the state at a sample is the one that is measured there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.lower import LaneProgram
from smcpn.model.problem import Model
from smcpn.model.signal import Signal

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SetBack:
    """Shares of the states that the sample before an interval leaves, as graphs.

    row: Symbol of the share of an accumulator, (1, 1); (0, 1) of a model without one.
    share: (n, 1), of every state.
    """

    model: Model
    row: ca.SX
    share: ca.SX

    @classmethod
    def of(cls, model: Model) -> SetBack:
        """Make the symbol of a model."""
        row = ca.SX.sym("going_on", int(bool(model.accumulators)))
        share = ca.SX.ones(model.x.numel(), 1)
        for place in model.accumulators:
            share[place] = row
        return cls(model, row, share)

    def behind(self, signal: Signal, back: int = 0) -> ca.SX:
        """Value of `row` behind a sample so many before the last one, by the samples."""
        if not self.model.accumulators:
            return ca.SX(0, 1)
        # Samples that were inserted where doses arrive end no count.
        dosing = self.model.dosing
        return ca.SX(0.0) if dosing is None else signal.u(back)[dosing.n_inputs]

    def graph(self, signal: Signal) -> ca.SX:
        """Value of `row` at the begin of an interval or of a part of one, which ends no count."""
        behind = self.behind(signal, 1)
        return behind if signal.parts == 1 else ca.if_else(signal.part == 0.0, behind, 1.0)

    def of_step(self, signal: Signal) -> ca.SX:
        """Value of `row` at the begin of a step, which ends no count but the first of an interval.

        By it a step begins at the state that is measured at the sample before.
        """
        return ca.if_else(signal.step == 0.0, self.graph(signal), 1.0)

    def numbers(self, columns: Array) -> Array:
        """Values of `row` behind samples, of times, inputs and outputs of these, (m, 1)."""
        dosing, left = self.model.dosing, np.zeros((len(columns), self.row.numel()))
        if dosing is not None:
            left[:] = columns[:, [1 + dosing.n_inputs]]
        return left

    def join(
        self, program: LaneProgram, signal: Signal, entries: ca.SX, share: ca.SX
    ) -> LaneProgram:
        """The program of a recursion that begins every interval with a share of some entries.

        entries, share: (k, 1), symbols in the program's state, and what is left of each, over
            `row`.
        """
        if not self.model.accumulators:
            return program
        left = ca.substitute(program.begun, entries, share * entries)
        return replace(program, interval=left).reading(self.row, self.graph(signal))
