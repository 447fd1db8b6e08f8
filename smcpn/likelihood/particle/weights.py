"""Weights of state particles in compiled code: their mean, effective number, and resampling.

Sums run over 16 fixed chains and then by halving, so that they are vectors and the same for any
width of these. Systematic resampling (Carpenter, Clifford, Fearnhead 1999) takes one uniform
number: offspring are counted along the cumulative weights, and a running maximum over the places
where they begin tells the ancestors, without a branch or a search. `choose` and `resample` are
plain loops, which `smcpn.codegen.routine` translates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from smcpn.codegen.elementary import apply
from smcpn.codegen.elementary import exp as exponential
from smcpn.codegen.elementary import log as logarithm
from smcpn.codegen.loops import INTEGER, Function, number
from smcpn.codegen.terms import DOUBLE, Term, doubles, vector, where

CHAINS = 16


def real(value: float) -> ir.Constant:
    """Return a constant double."""
    return ir.Constant(DOUBLE, value)


def _chains(
    function: Function,
    lanes: Any,
    begins: list[float],
    body: Callable[[Any, int, list[Term]], list[Term]],
) -> list[list[Term]]:
    """Write a loop over lanes that carries chains of vectors: `CHAINS` doubles of every kind.

    ``body`` takes the place, a part of the chains, and their values before it.
    """
    builder, kind = function.builder, vector(DOUBLE, doubles())
    parts = CHAINS // doubles()
    before = builder.block
    head, inside, after = (builder.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    lane = builder.phi(INTEGER)
    lane.add_incoming(number(0), before)
    carried = [[builder.phi(kind) for _ in begins] for _ in range(parts)]
    for phis in carried:
        for phi, begin in zip(phis, begins, strict=True):
            phi.add_incoming(ir.Constant(kind, [begin] * doubles()), before)
    builder.cbranch(builder.icmp_signed("<", lane, lanes), inside, after)
    builder.position_at_end(inside)
    made = [
        body(
            function.sum(lane, number(part * doubles())),
            part,
            [Term(builder, p) for p in phis],
        )
        for part, phis in enumerate(carried)
    ]
    for phis, values in zip(carried, made, strict=True):
        for phi, value in zip(phis, values, strict=True):
            phi.add_incoming(value.value, builder.block)
    lane.add_incoming(function.sum(lane, number(CHAINS)), builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return [[Term(builder, phis[k]) for phis in carried] for k in range(len(begins))]


def _halved(parts: list[Term], combine: Callable[[Term, Term], Term]) -> Any:
    """One double of chains: halves are combined until one is left."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [combine(a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
    (term,) = parts
    builder, width = term.builder, term.width
    while width > 1:
        width //= 2
        pieces = [
            Term(
                builder,
                builder.shuffle_vector(
                    term.value,
                    ir.Constant(term.value.type, ir.Undefined),
                    ir.Constant(
                        ir.VectorType(ir.IntType(32), width), list(range(first, first + width))
                    ),
                ),
            )
            for first in (0, width)
        ]
        term = combine(*pieces)
    return builder.bitcast(term.value, DOUBLE)


def _vector(function: Function, array: Any, lane: Any) -> Any:
    place = function.at(array, lane)
    return function.builder.bitcast(place, vector(DOUBLE, doubles()).as_pointer())


def write_weights(
    function: Function, log_weights: Any, weights: Any, lanes: Any
) -> tuple[Any, Any, Any]:
    """Write weights relative to the largest one; a log weight that is NaN or infinite has none.

    Returns
    -------
    log_sum : LLVM double
        Of the sum of the weights.
    total, squares : LLVM double
        Sums of the relative weights, and of their squares.
    """
    builder, kind = function.builder, vector(DOUBLE, doubles())
    none = Term(builder, ir.Constant(kind, [-math.inf] * doubles()))

    def largest(lane: Any, _: int, before: list[Term]) -> list[Term]:
        place = _vector(function, log_weights, lane)
        value = Term(builder, builder.load(place, align=8))
        value = where(value < math.inf, value, none)
        builder.store(value.value, place, align=8)
        return [where(value > before[0], value, before[0])]

    (parts,) = _chains(function, lanes, [-math.inf], largest)
    top = _halved(parts, lambda a, b: where(a > b, a, b))
    finite = builder.fcmp_ordered(">", top, real(-math.inf), flags=("afn",))
    reference = builder.select(finite, top, real(0.0))
    spread = Term(builder, _splat(builder, reference, kind))

    def relative(lane: Any, _: int, before: list[Term]) -> list[Term]:
        value = Term(builder, builder.load(_vector(function, log_weights, lane), align=8))
        weight = exponential(value - spread)
        builder.store(weight.value, _vector(function, weights, lane), align=8)
        return [before[0] + weight, before[1] + weight * weight]

    sums, squares = _chains(function, lanes, [0.0, 0.0], relative)
    total = _halved(sums, lambda a, b: a + b)
    square = _halved(squares, lambda a, b: a + b)
    return builder.fadd(reference, apply(builder, "log", [total])), total, square


def write_defensive_weights(
    function: Function,
    log_weights: Any,
    ahead: Any,
    weights: Any,
    shares: Any,
    lanes: Any,
    odds: Any,
) -> tuple[Any, Any, Any, Any]:
    """Write weights twisted by psi + c, in place of those under the model alone.

    c is such that its part of all weights is ``odds`` times that of psi.

    Parameters
    ----------
    log_weights, ahead : LLVM pointer to doubles
        Log weights under the model alone, overwritten by those under psi + c; log psi, overwritten.
    weights, shares : LLVM pointer to doubles
        Receive relative weights, and c / (psi + c) of every particle.

    Returns
    -------
    log_sum, total, squares : LLVM double
        As of `write_weights`.
    log_constant : LLVM double
        Log c.
    """
    builder, kind = function.builder, vector(DOUBLE, doubles())
    none, zero = (Term(builder, ir.Constant(kind, [x] * doubles())) for x in (-math.inf, 0.0))

    def load(array: Any, lane: Any) -> Term:
        return Term(builder, builder.load(_vector(function, array, lane), align=8))

    def store(value: Term, array: Any, lane: Any) -> None:
        builder.store(value.value, _vector(function, array, lane), align=8)

    def largest(lane: Any, _: int, before: list[Term]) -> list[Term]:
        alone = load(log_weights, lane)
        both = alone + load(ahead, lane)
        found = [where(value < math.inf, value, none) for value in (alone, both)]
        for value, array in zip(found, (log_weights, ahead), strict=True):
            store(value, array, lane)
        return [where(a > b, a, b) for a, b in zip(found, before, strict=True)]

    references: list[Any] = []
    for parts in _chains(function, lanes, [-math.inf, -math.inf], largest):
        top = _halved(parts, lambda a, b: where(a > b, a, b))
        finite = builder.fcmp_ordered(">", top, real(-math.inf), flags=("afn",))
        references.append(builder.select(finite, top, real(0.0)))
    spread = [Term(builder, _splat(builder, each, kind)) for each in references]

    def relative(lane: Any, _: int, before: list[Term]) -> list[Term]:
        made: list[Term] = []
        pairs = zip((log_weights, ahead), (shares, weights), spread, before, strict=True)
        for array, target, reference, sum_before in pairs:
            value = exponential(load(array, lane) - reference)
            store(value, target, lane)
            made.append(sum_before + value)
        return made

    alone, both = (
        _halved(parts, lambda a, b: a + b)
        for parts in _chains(function, lanes, [0.0, 0.0], relative)
    )
    some = builder.fcmp_ordered(">", alone, real(0.0))
    factor = builder.fdiv(builder.fmul(odds, both), alone)
    factor = builder.select(some, factor, real(0.0))
    each = Term(builder, _splat(builder, factor, kind))

    def twisted(lane: Any, _: int, before: list[Term]) -> list[Term]:
        free = each * load(shares, lane)
        weight = load(weights, lane) + free
        store(weight, weights, lane)
        store(where(weight > 0.0, free / weight, zero), shares, lane)
        store(logarithm(weight) + spread[1], log_weights, lane)
        return [before[0] + weight, before[1] + weight * weight]

    total, squares = (
        _halved(parts, lambda a, b: a + b)
        for parts in _chains(function, lanes, [0.0, 0.0], twisted)
    )
    log_sum = builder.fadd(references[1], apply(builder, "log", [total]))
    log_factor = apply(builder, "log", [factor])
    away = builder.fsub(references[1], references[0])
    return log_sum, total, squares, builder.fadd(log_factor, away)


def choose(shares: Any, growth: Any, uniform: float, lanes: int) -> None:
    """Choose who moves without looking ahead, 1 or 0 in place of their probabilities.

    It is a systematic sample of them: those at whose part of the cumulative probabilities one of
    u, u + 1, ... is. What has grown since the last sample is set to zero.
    """
    before = uniform
    for lane in range(lanes):
        after = before + shares[lane]
        shares[lane] = 1.0 if int(before) != int(after) else 0.0
        growth[lane] = 0.0
        before = after


def _splat(builder: Any, value: Any, kind: Any) -> Any:
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), kind.count), 0)
    )


def resample(weights: Any, total: float, uniform: float, lanes: int, ancestors: Any) -> None:
    """Find the ancestors of a systematic resampling, ascending, (lanes + 1,) with one to spare.

    Particle i has as many offspring as there are j with (j + u) / N between the cumulative weights
    before and after it.
    """
    for lane in range(lanes + 1):
        ancestors[lane] = 0
    # Of c N / S - u, rounded up.
    scale, shift = lanes / total, 1.0 - uniform
    cumulative, begin = 0.0, 0
    for lane in range(lanes):
        ancestors[begin] = lane
        cumulative += weights[lane]
        begin = min(int(cumulative * scale + shift), lanes)
    largest = 0
    for lane in range(lanes):
        largest = max(ancestors[lane], largest)
        ancestors[lane] = largest
