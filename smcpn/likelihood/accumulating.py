"""States that count since the last sample: they are set back to zero after every one."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca

from smcpn.codegen.lower import LaneProgram
from smcpn.model.problem import Model
from smcpn.model.signal import Signal


def accumulating(
    program: LaneProgram, model: Model, signal: Signal, entries: ca.SX | None = None
) -> LaneProgram:
    """The program of a recursion that sets the accumulators of a model back at every interval.

    Parameters
    ----------
    entries : casadi.SX, (n, 1), optional
        Symbols of the states in the program's state; by default those of the model.
    """
    if not model.accumulators:
        return program
    entries = model.x if entries is None else entries
    begun, shared = program.interval, program.shared
    begun = program.state if begun is None else begun
    counted = ca.vertcat(*(entries[one] for one in model.accumulators))
    if model.dosing is None:
        return replace(program, interval=ca.substitute(begun, counted, 0.0 * counted))
    # Samples that were inserted where doses arrive end no count.
    inserted = ca.SX.sym("inserted")
    assert shared is not None
    flag = signal.u(1)[model.dosing.n_inputs]
    return replace(
        program,
        interval_row=ca.vertcat(program.interval_row, inserted),
        interval=ca.substitute(begun, counted, inserted * counted),
        shared=replace(shared, interval=ca.vertcat(shared.interval, flag)),
    )
