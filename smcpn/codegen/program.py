"""The input of the code generator: a recursion over time as expression graphs."""

from __future__ import annotations

from dataclasses import dataclass, field

import casadi as ca


@dataclass(frozen=True)
class LaneProgram:
    """A recursion over time that every particle runs on its own, in a lane.

    At the first sample ``start`` makes the state. Before every later sample ``interval`` runs once,
    where there is one, and then ``step`` runs ``steps`` times; at every sample ``emitted`` is
    evaluated on the state. Everything but ``theta`` and ``state`` is shared by all particles and
    read from rows of arrays.

    Attributes
    ----------
    theta, state : casadi.SX
        Symbols of one particle: parameters (p, 1) and solver state (k, 1).
    constants : casadi.SX
        Symbols of numbers that are the same for all, (c, 1): they reach the kernel as arguments,
        so that another number is not another kernel. ``constant_values`` holds them.
    start_row, interval_row, step_row, gain_row, sample_row : casadi.SX
        Symbols of the shared rows: one per record, one per interval between samples, one per
        solver step, one per solver step until they recur or stay, one per sample.
    start : casadi.SX
        State at the first sample, (k, 1), of theta and start_row (and, as all below, constants).
    interval : casadi.SX or None
        State at the beginning of an interval, (k, 1), of theta, state and interval_row.
    step : casadi.SX
        State after a solver step, (k, 1), of theta, state, step_row and gain_row.
    emitted : casadi.SX
        What a sample yields, (e, 1), of theta, state and sample_row.
    """

    theta: ca.SX
    state: ca.SX
    start_row: ca.SX
    step_row: ca.SX
    gain_row: ca.SX
    sample_row: ca.SX
    start: ca.SX
    step: ca.SX
    emitted: ca.SX
    constants: ca.SX = field(default_factory=lambda: ca.SX(0, 1))
    constant_values: tuple[float, ...] = ()
    interval_row: ca.SX = field(default_factory=lambda: ca.SX(0, 1))
    interval: ca.SX | None = None
