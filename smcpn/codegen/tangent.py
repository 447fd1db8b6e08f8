"""The forward derivative of a recursion, which is a recursion again.

Every graph of a `LaneProgram` stands beside its derivative in one direction (CasADi's directional
derivative, exact to rounding), so that the same generator makes the kernel and the same rows feed
it. A lane runs one pair of parameters and direction.
"""

from __future__ import annotations

from dataclasses import replace

import casadi as ca

from smcpn.codegen.program import LaneProgram


def tangent(program: LaneProgram) -> LaneProgram:
    """Program of (theta, direction) whose state and emitted numbers have their derivatives below.

    Constants and shared rows have none: they are the same for all particles. Applied twice it
    gives second derivatives.
    """
    direction = ca.SX.sym("direction", program.theta.numel(), 1)
    rates = ca.SX.sym("rates", program.state.numel(), 1)
    symbols = ca.vertcat(program.theta, program.state)
    along = ca.vertcat(direction, rates)

    def joined(graph: ca.SX) -> ca.SX:
        return ca.vertcat(graph, ca.jtimes(graph, symbols, along))

    return replace(
        program,
        theta=ca.vertcat(program.theta, direction),
        state=ca.vertcat(program.state, rates),
        start=joined(program.start),
        interval=None if program.interval is None else joined(program.interval),
        step=joined(program.step),
        emitted=joined(program.emitted),
    )
