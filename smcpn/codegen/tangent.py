"""Directional derivative of a `LaneProgram`, by forward differentiation, as a `LaneProgram`.

Every graph of a `LaneProgram` is extended by its derivative in one direction, so that the same
generator makes the kernel and the same rows feed it. A lane runs one pair of parameters and
direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import casadi as ca

from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.memory import Pass, Place, Section
from smcpn.model.compiled_function import CALL, compiled_function
from smcpn.model.expression import CONSTANT, INPUT, OPERANDS, OUTPUT, applied, instructions

SELECTIONS = frozenset({"fmax", "fmin", "if_else_zero"})
"""Operations that pass an operand on or do not."""
SINGULAR = frozenset({"sqrt", "pow", "constpow", "hypot", "atan2"})
"""Operations that are finite where their derivative is not."""


def tangent(program: LaneProgram) -> LaneProgram:
    """Program of (theta, direction) whose state and emitted numbers have their derivatives below.

    Constants and shared rows have none: they are the same for all particles. Nor has what chooses
    the steps, ``program.control``: the derivative is that at the steps taken. Applied twice it
    gives second derivatives.
    """
    direction = ca.SX.sym("direction", program.theta.numel(), 1)
    rates = ca.SX.sym("rates", program.state.numel(), 1)
    n = program.state.numel()
    moving = [k for k in range(n) if k not in program.control]
    size = program.memory.numel()
    kept = ca.SX.sym("kept", size, 1)
    symbols = ca.vertcat(program.theta, program.state[moving], program.memory)
    along = ca.vertcat(direction, rates[moving], kept)
    functions: dict[int, ca.Function] = {}

    def joined(graph: ca.SX) -> ca.SX:
        return ca.vertcat(*derived(graph, symbols, along))

    def moved(graph: ca.SX) -> ca.SX:
        made = joined(graph)
        for k in program.control:
            made[n + k] = 0.0
        return made

    def passed(one: Pass) -> Pass:
        key = hash(one.function)
        if key not in functions:
            functions[key] = _along(one.function)
        return Pass(functions[key], _both(one.reads, size), _both(one.writes, size), one.turns)

    return replace(
        program,
        theta=ca.vertcat(program.theta, direction),
        state=ca.vertcat(program.state, rates),
        control=(*program.control, *(n + k for k in program.control)),
        start=moved(program.start),
        interval=None if program.interval is None else moved(program.interval),
        step=moved(program.step),
        emitted=joined(program.emitted),
        memory=ca.vertcat(program.memory, kept),
        sections=tuple(
            Section(
                joined(section.values),
                (*section.places, *(size + place for place in section.places)),
                tuple(map(passed, section.passes)),
            )
            for section in program.sections
        ),
    )


def _both(places: Sequence[Place], size: int) -> tuple[Place, ...]:
    """Places of numbers, and of their derivatives in the second half of memory."""
    return (*places, *(replace(place, first=size + place.first) for place in places))


def _along(function: ca.Function) -> ca.Function:
    """Function of a pass with its derivative, of its arguments and theirs."""
    given = function.sx_in()
    along = [ca.SX.sym(f"d{k}", argument.numel()) for k, argument in enumerate(given)]
    made = ca.vertcat(*derived(function(*given), ca.vertcat(*given), ca.vertcat(*along)))
    return ca.Function(f"{function.name()}_along", [*given, *along], [made])


def derived(graph: ca.SX, symbols: ca.SX, along: ca.SX) -> tuple[ca.SX, ca.SX]:
    """A column of graphs, and its derivative where the symbols move ``along``.

    The rules of single operations are CasADi's. Its own directional derivative is not used: it
    multiplies the derivative of a branch that is not taken by zero, and a singular one by a
    direction that is zero, both of which give NaN where there is a number.
    """
    outputs, [derivatives] = _derivatives(graph, symbols, [along])
    return outputs, derivatives


def _derivatives(
    graph: ca.SX, symbols: ca.SX, directions: Sequence[ca.SX]
) -> tuple[ca.SX, list[ca.SX]]:
    """A column of graphs, and its derivatives along several directions; see `derived`."""
    free = ca.symvar(graph)
    moving = [
        {symbols[k].element_hash(): along[k] for k in range(symbols.numel()) if along[k].nnz()}
        for along in directions
    ]
    function = ca.Function("graph", [ca.vertcat(*free)], [ca.cse(ca.densify(graph))])
    values: dict[int, ca.SX] = {}
    rates: list[dict[int, ca.SX]] = [{} for _ in directions]
    outputs = ca.SX.zeros(graph.numel(), 1)
    derivatives = [ca.SX.zeros(graph.numel(), 1) for _ in directions]
    for row, (operation, operands, constant) in enumerate(instructions(function)):
        if operation == OUTPUT:
            source, _, element = operands
            outputs[element] = values[source]
            for derivative, rate in zip(derivatives, rates, strict=True):
                derivative[element] = rate.get(source, 0.0)
        elif operation == INPUT:
            values[row] = free[operands[1]]
            symbol = values[row].element_hash()
            for rate, along in zip(rates, moving, strict=True):
                if symbol in along:
                    rate[row] = along[symbol]
        elif operation == CONSTANT:
            values[row] = ca.SX(constant)
        else:
            taken = [values[k] for k in operands]
            values[row] = applied(operation, taken)
            moved = [rate for rate in rates if any(k in rate for k in operands)]
            compiled = operation.startswith(CALL)
            partial = slopes(operation, taken) if moved and not compiled else []
            for rate in moved:
                given = [rate.get(k) for k in operands]
                if compiled:
                    along = [ca.SX(1, 1) if one is None else one for one in given[2:]]
                    known = compiled_function(operation)
                    k, interval, *point = taken
                    own = known.along(k, interval, ca.vertcat(*point), ca.vertcat(*along))
                else:
                    own = _rate(operation, taken, partial, given)
                if own is not None:
                    rate[row] = own
    return outputs, derivatives


def jacobian(graph: ca.SX, symbols: ca.SX) -> ca.SX:
    """Jacobian (m, n) of a column of graphs by symbols, by the rules of `derived`, sparse."""
    n = symbols.numel()
    _, columns = _derivatives(graph, symbols, [ca.SX.eye(n)[:, k] for k in range(n)])
    return ca.sparsify(ca.horzcat(*columns))


def _rate(
    operation: str, operands: list[ca.SX], partial: list[ca.SX], rates: list[ca.SX | None]
) -> ca.SX | None:
    """Derivative of an operation, of those of its operands; None where it is zero throughout.

    ``partial`` are its partial derivatives.
    """
    parts = [
        _part(operation, k, operands, slope, rate)
        for k, (slope, rate) in enumerate(zip(partial, rates, strict=True))
        if rate is not None and slope.nnz()
    ]
    return sum(parts[1:], parts[0]) if parts else None


def _part(operation: str, k: int, operands: list[ca.SX], slope: ca.SX, rate: ca.SX) -> ca.SX:
    """Contribution of the k-th operand to the derivative of an operation: slope times rate."""
    if operation in SELECTIONS:
        return applied("if_else_zero", [slope, rate])
    if operation == "pow" and k == 1:
        # Zero to any positive power is zero, though its logarithm is not finite.
        return applied("if_else_zero", [operands[0], slope * rate])
    if operation in SINGULAR:
        return applied("if_else_zero", [rate, slope * rate])
    return slope * rate


def slopes(operation: str, operands: list[ca.SX]) -> list[ca.SX]:
    """Partial derivatives of an operation."""
    if operation.startswith(CALL):
        known = compiled_function(operation)
        none = [ca.SX(1, 1)] * 2
        k, interval, *point = operands
        return [*none, *known.slopes(k, interval, ca.vertcat(*point))]
    if operation in ("fmax", "fmin"):
        # CasADi's are halves at a tie, and NaN where an operand is.
        second = applied("le", operands if operation == "fmax" else operands[::-1])
        return [ca.logic_not(second), second]
    return list(_partial_derivatives(operation).call(operands))


@cache
def _partial_derivatives(operation: str) -> ca.Function:
    symbols = [ca.SX.sym(f"x{k}") for k in range(OPERANDS[operation])]
    value = applied(operation, symbols)
    return ca.Function("slopes", symbols, [ca.jacobian(value, symbol) for symbol in symbols])
