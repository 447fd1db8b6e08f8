"""Importance weights in compiled code: their sums, and what one sample does to a population.

`smcpn.codegen.stream_step.weigh` and `write_update` share the function that makes weights of
log-weights, so that samples which are assimilated one by one and those of a block give the same
bytes. It is written without leave to reorder arithmetic, and its exponential is
`smcpn.codegen.elementary`'s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from smcpn.codegen.elementary import absolute, exp, log, sqrt
from smcpn.codegen.loops import ARGUMENTS, Function, Plan, number
from smcpn.codegen.terms import DOUBLE, INTEGER, Term, doubles, vector, where

Array = NDArray[np.float64]

_NUMBERS = DOUBLE.as_pointer()
_ONE = vector(DOUBLE, 1)

Combine = Callable[[Term, Term], Term]

CHAINS = 16
"""Sums beside each other: vectors, and the same numbers whatever the width of these."""


class Elements:
    """Elements of arrays at a place of a loop, a vector of them or one."""

    def __init__(self, made: Function, place: Any, width: int) -> None:
        self._made, self._place, self._kind = made, place, vector(DOUBLE, width)

    def _address(self, array: Any) -> Any:
        address = self._made.at(array, self._place)
        return self._made.builder.bitcast(address, self._kind.as_pointer())

    def load(self, array: Any) -> Term:
        """Elements of an array."""
        builder = self._made.builder
        return Term(builder, builder.load(self._address(array), align=8))

    def store(self, values: Term, array: Any) -> None:
        """Set elements of an array."""
        self._made.builder.store(values.value, self._address(array), align=8)

    def spread(self, one: Term) -> Term:
        """Return a number in every element."""
        builder, width = self._made.builder, self._kind.count
        places = ir.Constant(vector(ir.IntType(32), width), 0)
        return Term(builder, builder.shuffle_vector(one.value, one.value, places))


def reduced(
    made: Function,
    count: Any,
    body: Callable[[Elements], Sequence[Term]],
    begin: Sequence[float],
    combine: Combine,
) -> list[Term]:
    """Write a body for all elements, and combine what it gives for each, as vectors of one.

    Elements are combined in `CHAINS` chains, these by halving, and the last elements, which are
    fewer than that, one after the other.

    begin: What combines with a number to that number, for each result of the body.
    """
    whole = made.builder.and_(count, number(-CHAINS))
    chains = _looped(made, (number(0), whole, doubles()), CHAINS, body, begin, combine)
    rest = _looped(made, (whole, count, 1), 1, body, begin, combine)
    return [
        combine(_halved(parts, combine), last) for parts, (last,) in zip(chains, rest, strict=True)
    ]


def _looped(
    made: Function,
    span: tuple[Any, Any, int],
    chains: int,
    body: Callable[[Elements], Sequence[Term]],
    begin: Sequence[float],
    combine: Combine,
) -> list[list[Term]]:
    """Write a loop over so many elements at a time; of each result return the vectors of chains."""
    builder, (first, last, width) = made.builder, span
    kind = vector(DOUBLE, width)
    with builder.goto_entry_block():
        places = [[builder.alloca(kind) for _ in range(chains // width)] for _ in begin]
    for parts, value in zip(places, begin, strict=True):
        for place in parts:
            builder.store(ir.Constant(kind, [value] * width), place)
    with made.loop(first, last, chains) as i:
        for part in range(chains // width):
            at = Elements(made, made.sum(i, number(part * width)), width)
            for parts, values in zip(places, body(at), strict=True):
                combined = combine(Term(builder, builder.load(parts[part])), values)
                builder.store(combined.value, parts[part])
    return [[Term(builder, builder.load(place)) for place in parts] for parts in places]


def _halved(parts: list[Term], combine: Combine) -> Term:
    """Combine vectors, and halves of the one that is left, down to a vector of one."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [combine(a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
    (term,) = parts
    while term.width > 1:
        half = term.width // 2
        term = combine(*(_slice(term, first, half) for first in (0, half)))
    return term


def _slice(term: Term, first: int, count: int) -> Term:
    """Elements of a vector, as many from the first one on."""
    places = ir.Constant(vector(ir.IntType(32), count), list(range(first, first + count)))
    return Term(term.builder, term.builder.shuffle_vector(term.value, term.value, places))


def one(builder: Any, double: Any) -> Term:
    """Return an LLVM double as a vector of one."""
    return Term(builder, builder.bitcast(double, _ONE))


def double(term: Term) -> Any:
    """Return a vector of one as an LLVM double."""
    return term.builder.bitcast(term.value, DOUBLE)


def added(left: Term, right: Term) -> Term:
    """Sum, as `reduced` combines."""
    return left + right


def larger(left: Term, right: Term) -> Term:
    """Larger of two, the first where one is no number."""
    return where(right > left, right, left)


def relative_weights(
    made: Function, count: Any, log_weights: Any, weights: Any, top: Term
) -> tuple[Term, Term, Term]:
    """Write weights relative to the largest log-weight, ``top``.

    Returns reference: log of the weight that is one: ``top``, or 0 where that is not finite; total,
    squares: sums of the weights, and of their squares.
    """
    reference = where(absolute(top) < math.inf, top, 0.0)

    def weighed(at: Elements) -> list[Term]:
        relative = exp(at.load(log_weights) - at.spread(reference))
        at.store(relative, weights)
        return [relative, relative * relative]

    total, squares = reduced(made, count, weighed, [0.0, 0.0], added)
    return reference, total, squares


def _set(made: Function, values: Term, array: Any, place: Any) -> None:
    made.builder.store(double(values), made.at(array, place), align=8)


def write_weigh(module: ir.Module) -> ir.Function:
    """Write ``weigh``: weights, effective sample size and log of the mean weight of log-weights.

    Weights are relative to the largest; where all are zero so is the effective sample size.
    """
    arguments = {"log_weights": _NUMBERS, "count": INTEGER, "weights": _NUMBERS, "sums": _NUMBERS}
    made = Function(module, "weigh", arguments)
    made.function.attributes.add("noinline")
    count, log_weights = made["count"], made["log_weights"]
    (top,) = reduced(made, count, lambda at: [at.load(log_weights)], [-math.inf], larger)
    reference, total, squares = relative_weights(made, count, log_weights, made["weights"], top)
    ess = total * total / where(squares > 0.0, squares, 1.0)
    n = one(made.builder, made.builder.sitofp(count, DOUBLE))
    _set(made, ess, made["sums"], number(0))
    _set(made, log(total / n) + reference, made["sums"], number(1))
    made.finish()
    return made.function


def _write_innovate(module: ir.Module) -> ir.Function:
    """Write ``innovate``: outputs less their prediction, in predictive standard deviations.

    Of a mixture of normal densities, whose means and variances are the moments. After them the
    predicted means and standard deviations.
    """
    arguments = {
        "moments": _NUMBERS, "outputs": INTEGER, "count": INTEGER, "weights": _NUMBERS,
        "measured": _NUMBERS, "innovations": _NUMBERS,
    }  # fmt: skip
    made = Function(module, "innovate", arguments, called=True)
    builder, count = made.builder, made["count"]
    with made.loop(number(0), made["outputs"]) as output:
        means = made.at(made["moments"], made.times(output, count))
        variances = made.at(means, made.times(made["outputs"], count))

        def weighted(at: Elements, values: Term) -> tuple[Term, Term]:
            # A diverged particle has no weight, but nan times zero is nan.
            weights = at.load(made["weights"])
            return weights, where(weights > 0.0, weights * values, 0.0)

        def mean(at: Elements, means: Any = means) -> tuple[Term, Term]:
            return weighted(at, at.load(means))

        total, expected = reduced(made, count, mean, [0.0, 0.0], added)
        expected = expected / total

        def square(at: Elements, means: Any = means, variances: Any = variances) -> list[Term]:
            centred = at.load(means) - at.spread(expected)
            return [weighted(at, centred * centred + at.load(variances))[1]]

        (variance,) = reduced(made, count, square, [0.0], added)
        place = builder.bitcast(made.at(made["measured"], output), _ONE.as_pointer())
        innovation = Term(builder, builder.load(place, align=8)) - expected
        sd = sqrt(variance / total)
        for k, value in enumerate((innovation / sd, expected, sd)):
            row = made.at(made["innovations"], made.times(number(k), made["outputs"]))
            _set(made, value, row, output)
    made.finish()
    return made.function


FRAME = (
    "theta", "particles", "rows", "blocks", "work", "measured", "measured_width", "increments",
    "moments",
)  # fmt: skip
"""Addresses and integers that `update` is given in an array."""
WEIGHT_ROWS = 3
"""Rows of a population behind its state: log-weight, log-likelihood, and weight."""


def write_update(module: ir.Module, plan: Plan, advance: ir.Function) -> None:
    """Write ``update``: a population ``before`` a sample to that ``after`` it.

    A population is an array: for all particles the state, log-weights, log-likelihoods and
    weights, (k + 3, N); then effective sample size, log of the mean weight, and of the outputs, as
    predicted with the weights before, innovations, means and standard deviations.
    """
    weigh, innovate = write_weigh(module), _write_innovate(module)
    arguments = {
        "frame": INTEGER.as_pointer(), "sample": INTEGER, "before": _NUMBERS, "after": _NUMBERS,
    }  # fmt: skip
    made = Function(module, "update", arguments)
    builder = made.builder
    frame = {
        name: builder.load(made.at(made["frame"], number(k)), name=name)
        for k, name in enumerate(FRAME)
    }
    count, sample = frame["particles"], made["sample"]

    def row(population: str, k: int) -> Any:
        return made.at(made[population], made.times(number(k), count))

    weight_row = plan.n_state
    summary = row("after", plan.n_state + WEIGHT_ROWS)
    increments, moments = (
        builder.inttoptr(frame[name], _NUMBERS) for name in ("increments", "moments")
    )
    _advance_over(made, advance, frame | {"moments": moments, "totals": increments})
    measured = made.at(
        builder.inttoptr(frame["measured"], _NUMBERS), made.times(sample, frame["measured_width"])
    )
    builder.call(
        innovate,
        [moments, number(plan.n_outputs), count, row("before", weight_row + 2),
         measured, made.at(summary, number(2))],
    )  # fmt: skip

    def add(at: Elements) -> list[Term]:
        increment = at.load(increments)
        # Of probability zero where the solution diverged.
        increment = where(absolute(increment) < math.inf, increment, -math.inf)
        for k in (weight_row, weight_row + 1):
            at.store(at.load(row("before", k)) + increment, row("after", k))
        return []

    reduced(made, count, add, [], added)
    builder.call(weigh, [row("after", weight_row), count, row("after", weight_row + 2), summary])
    made.finish()


def _advance_over(made: Function, advance: ir.Function, frame: dict[str, Any]) -> None:
    """Advance the population before a sample over it, all blocks of lanes, to that after it."""
    builder, sample = made.builder, made["sample"]
    values = {
        **frame, "state": made["before"], "following": made["after"], "first": sample,
        "last": made.sum(sample, number(1)), "emitted": number(0),
        "first_block": number(0), "last_block": frame["blocks"],
    }  # fmt: skip

    def argument(name: str, kind: Any) -> Any:
        value = values[name]
        return builder.inttoptr(value, kind) if kind.is_pointer and value.type == INTEGER else value

    builder.call(advance, [argument(name, kind) for name, kind in ARGUMENTS.items()])
