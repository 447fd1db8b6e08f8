"""Weights of state particles in compiled code: their mean, effective number, and resampling.

Sums are those of `smcpn.codegen.weights.reduced`. Systematic resampling (Carpenter, Clifford,
Fearnhead 1999) takes one uniform number: offspring are counted along the cumulative weights, and a
running maximum over the places where they begin tells the ancestors, without a branch or a search.
`choose` and `resample` are plain loops, which `smcpn.codegen.routine` translates.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from smcpn.codegen.elementary import log as logarithm
from smcpn.codegen.loops import Function
from smcpn.codegen.terms import DOUBLE, Term, where
from smcpn.codegen.weights import (
    Elements,
    added,
    double,
    larger,
    one,
    reduced,
    relative_weights,
)


def real(value: float) -> ir.Constant:
    """Return a constant double."""
    return ir.Constant(DOUBLE, value)


def write_weights(
    function: Function, log_weights: Any, weights: Any, lanes: Any
) -> tuple[Any, Any, Any]:
    """Write weights relative to the largest one; a log weight that is NaN or infinite has none.

    Returns log_sum: of the sum of the weights; total, squares: sums of the relative weights, and of
    their squares.
    """

    def largest(at: Elements) -> list[Term]:
        value = at.load(log_weights)
        value = where(value < math.inf, value, -math.inf)
        at.store(value, log_weights)
        return [value]

    (top,) = reduced(function, lanes, largest, [-math.inf], larger)
    reference, total, squares = relative_weights(function, lanes, log_weights, weights, top)
    return double(reference + logarithm(total)), double(total), double(squares)


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

    log_weights, ahead: LLVM pointer to doubles, log weights under the model alone, overwritten by
        those under psi + c; log psi, overwritten.
    weights, shares: LLVM pointer to doubles, receive relative weights, and c / (psi + c) of every
        particle.

    Returns log_sum, total, squares: as of `write_weights`; log_constant: log c.
    """

    def largest(at: Elements) -> list[Term]:
        alone = at.load(log_weights)
        found = [
            where(value < math.inf, value, -math.inf) for value in (alone, alone + at.load(ahead))
        ]
        for value, array in zip(found, (log_weights, ahead), strict=True):
            at.store(value, array)
        return found

    tops = reduced(function, lanes, largest, [-math.inf, -math.inf], larger)
    of_model, alone, _ = relative_weights(function, lanes, log_weights, shares, tops[0])
    reference, both, _ = relative_weights(function, lanes, ahead, weights, tops[1])
    factor = one(function.builder, odds) * both / alone
    factor = where(alone > 0.0, factor, 0.0)

    def twisted(at: Elements) -> list[Term]:
        free = at.spread(factor) * at.load(shares)
        weight = at.load(weights) + free
        at.store(weight, weights)
        at.store(where(weight > 0.0, free / weight, 0.0), shares)
        at.store(logarithm(weight) + at.spread(reference), log_weights)
        return [weight, weight * weight]

    total, squares = reduced(function, lanes, twisted, [0.0, 0.0], added)
    log_constant = logarithm(factor) + (reference - of_model)
    return (
        double(reference + logarithm(total)),
        double(total),
        double(squares),
        double(log_constant),
    )


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
