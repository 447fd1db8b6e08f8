"""Standard normal numbers by counting: the same for any number of lanes, threads, and order.

A block of the Philox-4x32-7 generator is a function of a 64-bit key and of four counters: place,
solver step, which noise, and purpose. Its four 32-bit words make two pairs of normals by Box and
Muller, one for each of the lanes i, i + 8, i + 16, i + 24 of a group of 32; so every vector of up
to 8 doubles draws what every other width draws. The radius has 2^32 values, at most 6.8.

References
----------
Salmon, J. K. et al. (2011). Parallel random numbers: as easy as 1, 2, 3. SC11; seven rounds pass
BigCrush. Box, G. E. P., Muller, M. E. (1958). Annals of Mathematical Statistics 29.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from smcpn.codegen.elementary import log_normal_number, sine_to_quarter_turn
from smcpn.codegen.loops import INTEGER, Function, number
from smcpn.codegen.terms import DOUBLE, Term, doubles, intrinsic, vector

GROUP = 32
"""Lanes that draw together: numbers of state particles are multiples of it."""
STRIDE = 8
"""Distance of the lanes of a group that share the four words of a block."""
ROUNDS = 7
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
MASK = 2**32 - 1
NORMALS, RESAMPLING, CHOICE = 0, 1, 2
"""Purposes, the last counter."""

_EXPONENT = 0x4330000000000000
"""Bits of 2^52, whose lowest bits hold an integer."""
_SIGN = -(2**63)


def philox(builder: Any, counters: tuple[Any, Any, Any, Any], key: Any) -> list[Any]:
    """Write a block of Philox-4x32-7: four words, in 64-bit integers, of scalars or vectors.

    counters: tuple of LLVM values, below 2^32, all scalars or all vectors of 64-bit integers.
    key: LLVM value, a 64-bit integer.
    """
    kind = counters[0].type

    def constant(value: int) -> Any:
        return ir.Constant(kind, value if kind == INTEGER else [value] * kind.count)

    def low(value: Any) -> Any:
        return builder.and_(value, constant(MASK))

    halves = (builder.and_(key, number(MASK)), builder.lshr(key, number(32)))
    words = list(counters)
    for turn in range(ROUNDS):
        first, second = (
            _spread(
                builder,
                builder.and_(builder.add(half, number(turn * step & MASK)), number(MASK)),
                kind,
            )
            for half, step in zip(halves, WEYL, strict=True)
        )
        products = [
            builder.mul(low(word), constant(multiplier))
            for word, multiplier in zip(words[::2], MULTIPLIERS, strict=True)
        ]
        above = [builder.lshr(product, constant(32)) for product in products]
        words = [
            builder.xor(builder.xor(above[1], words[1]), first),
            products[1],
            builder.xor(builder.xor(above[0], words[3]), second),
            products[0],
        ]
    return [low(word) for word in words]


def _spread(builder: Any, value: Any, kind: Any) -> Any:
    if kind == INTEGER:
        return value
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    places = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), 0)
    return builder.shuffle_vector(first, nothing, places)


def uniform(builder: Any, key: Any, step: Any, purpose: int) -> Any:
    """Write a uniform number of (0, 1), one for a key, a step and a purpose."""
    counters = (number(0), step, number(0), number(purpose))
    word = philox(builder, counters, key)[0]
    return builder.fmul(
        builder.fadd(builder.uitofp(word, DOUBLE), ir.Constant(DOUBLE, 0.5)),
        ir.Constant(DOUBLE, 2.0**-32),
    )


def write_normals(
    function: Function, target: Any, lanes: Any, key: Any, step: Any, count: int
) -> None:
    """Write a loop that fills ``target``, (count, lanes), with standard normals.

    target: LLVM pointer to doubles
    lanes: LLVM integer, a multiple of `GROUP`.
    key, step: LLVM integer, 64 bits, and the counter of the solver step, below 2^32.
    """
    builder = function.builder
    kind = vector(INTEGER, doubles())
    with function.loop(number(0), lanes, GROUP) as base:
        group = builder.lshr(base, number(GROUP.bit_length() - 1))
        for first in range(0, STRIDE, doubles()):
            place = _spread(builder, builder.mul(group, number(STRIDE)), kind)
            place = builder.add(place, ir.Constant(kind, list(range(first, first + doubles()))))
            for noise in range(count):
                counters = (
                    place,
                    _spread(builder, step, kind),
                    ir.Constant(kind, [noise] * doubles()),
                    ir.Constant(kind, [NORMALS] * doubles()),
                )
                words = [Term(builder, word) for word in philox(builder, counters, key)]
                normals = (*_pair(words[0], words[1]), *_pair(words[2], words[3]))
                for part, value in enumerate(normals):
                    row = function.times(number(noise), lanes)
                    at = function.at(target, row, base, number(first + part * STRIDE))
                    at = builder.bitcast(at, vector(DOUBLE, doubles()).as_pointer())
                    builder.store(value.value, at, align=8)


def _pair(radial: Term, angular: Term) -> tuple[Term, Term]:
    """Two normals of two words: a radius, and an angle of the first quarter with two signs."""
    uniform = _half_odd(radial) * 2.0**-32
    radius = intrinsic("llvm.sqrt", log_normal_number(uniform) * -2.0)
    angle = _half_odd(angular & (2**30 - 1)) * (math.pi / 2 * 2.0**-30)
    sine, cosine = sine_to_quarter_turn(angle), sine_to_quarter_turn(math.pi / 2 - angle)
    return (
        ((radius * sine).bits() ^ ((angular << 32) & _SIGN)).double(),
        ((radius * cosine).bits() ^ ((angular << 33) & _SIGN)).double(),
    )


def _half_odd(word: Term) -> Term:
    """An integer below 2^32, and a half, as a number."""
    return (word | _EXPONENT).double() - (2.0**52 - 0.5)
