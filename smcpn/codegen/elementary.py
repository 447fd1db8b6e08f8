"""Elementary functions of doubles in straight-line vector arithmetic.

A loop over lanes that calls the mathematical library runs it for one lane after the other. These
functions are written where they are used, as LLVM instructions on whole vectors: argument
reduction, a minimax polynomial, selections. No value branches; the one exception are arguments of
sin, cos and tan from 2^30 on, and quotients of `fmod` from 2^52 on, which no single reduction
carries: a vector that holds one takes a detour.

The error is at most 2 units in the last place, 4 of `pow`, over all doubles
(tests/codegen/test_elementary.py); underflow is gradual; special values are those of C99, annex F.
The bits depend on whether the processor has a fused multiply-add, and on nothing else.

The reductions are those of W. J. Cody and W. Waite, *Software Manual for the Elementary Functions*
(1980), and of fdlibm; the polynomials come from the Remez exchange on the intervals that they name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from llvmlite import ir

from smcpn.codegen.terms import (
    DOUBLE,
    INTEGER,
    Term,
    constant,
    fma,
    intrinsic,
    minus_product,
    polynomial,
    product,
    vector,
    where,
)

_TO_INTEGER = 6755399441055744.0
"""1.5 * 2^52: added to a smaller number it leaves an integer, in the lowest bits."""
_SIGN = -(2**63)
_TINY = 1e-17
"""Below it an odd function of slope one is its argument."""

LOG2_E = 1.4426950408889634
LN2, LN2_HIGH, LN2_LOW = 0.6931471805599453, 0.6931471803691238, 1.9082149292705877e-10
"""The high part has 32 bits: its products with exponents are exact."""
TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)


def absolute(x: Term) -> Term:
    """Size of a number."""
    return intrinsic("llvm.fabs", x)


def with_sign(x: Term, sign: Term) -> Term:
    """Give x >= 0 the sign of another number."""
    return (x.bits() | (sign.bits() & _SIGN)).double()


def at_most(x: Term, limit: float) -> Term:
    """The smaller of a number and a limit; a NaN stays."""
    return where(x > limit, limit, x)


def at_least(x: Term, limit: float) -> Term:
    """The larger of a number and a limit; a NaN stays."""
    return where(x < limit, limit, x)


def power_of_two(integer: Term) -> Term:
    """2^n of the lowest bits of an integer, -1022 <= n <= 1023."""
    return ((integer + 1023) << 52).double()


# exp(r) = 1 + r + r^2 q(r), |r| <= log(2) / 2; 2^-58.
_EXP = (
    0.5000000000000013, 0.166666666666667, 0.04166666666651431, 0.0083333333333071,
    0.0013888888947333825, 0.00019841269917613626, 2.480148958843072e-05, 2.755721608583562e-06,
    2.763141444317808e-07, 2.5117932615154437e-08,
)  # fmt: skip


def _multiple_of_log_two(x: Term) -> tuple[Term, Term, Term, Term]:
    """Write x as n log 2 + high - low: n as an integer and as a number, high exact, low."""
    shifted = fma(x, LOG2_E, _TO_INTEGER)
    n = shifted - _TO_INTEGER
    return shifted.bits(), n, fma(n, -LN2_HIGH, x), n * LN2_LOW


def _exponential(x: Term, tail: Term | None = None) -> Term:
    """exp(x + tail), over- and underflow included."""
    integer, n, high, low = _multiple_of_log_two(at_least(at_most(x, 710.0), -746.0))
    r = high - low
    if tail is not None:
        r = r + tail
    value = 1.0 + fma(r * r, polynomial(r, _EXP), r)
    # Two factors, for 2^n alone may be no number where the result is one.
    half = fma(n, 0.5, _TO_INTEGER).bits()
    return value * power_of_two(half) * power_of_two(integer - half)


def exp(x: Term) -> Term:
    """Exponential function."""
    return _exponential(x)


def _reduced_expm1(x: Term) -> tuple[Term, Term, Term, Term]:
    """n, as an integer and a number, and exp(x - n log 2) - 1, and what its rounding lost."""
    integer, n, high, low = _multiple_of_log_two(x)
    r = high - low
    rest = fma(r * r, polynomial(r, _EXP), (high - r) - low)
    return integer, n, *_ordered_sum(r, rest)


def _ordered_sum(large: Term | float, small: Term) -> tuple[Term, Term]:
    """A sum and what its rounding lost, the larger number first (Dekker)."""
    total = large + small
    return total, small - (total - large)


def expm1(x: Term) -> Term:
    """Exponential function less one."""
    integer, _, rest, _ = _reduced_expm1(at_least(at_most(x, 710.0), -40.0))
    half_power = power_of_two(integer - 1)
    half = fma(half_power, rest, half_power - 0.5)
    return where(absolute(x) < _TINY, x, half + half)


def sinh(x: Term) -> Term:
    """Hyperbolic sine."""
    size = absolute(x)
    integer, inverse_square, rest = _hyperbolic(size)
    value, lost = _ordered_sum(1.0 - inverse_square, rest)
    value = value + (inverse_square * rest / (1.0 + rest) + lost)
    value = value * power_of_two(integer - 2) * 2.0
    return with_sign(where(size < _TINY, size, value), x)


def cosh(x: Term) -> Term:
    """Hyperbolic cosine."""
    integer, inverse_square, rest = _hyperbolic(absolute(x))
    growing = 1.0 + rest
    return (growing + inverse_square / growing) * power_of_two(integer - 2) * 2.0


def _hyperbolic(size: Term) -> tuple[Term, Term, Term]:
    """n, 2^-2n and e^size / 2^n - 1."""
    integer, n, rest, _ = _reduced_expm1(at_most(size, 711.0))
    inverse = power_of_two(-1 * (at_most(n, 32.0) + _TO_INTEGER).bits())
    return integer, inverse * inverse, rest


def tanh(x: Term) -> Term:
    """Hyperbolic tangent."""
    size = absolute(x)
    integer, _, rest, lost = _reduced_expm1(at_most(size + size, 45.0))
    inverse = power_of_two(-1 * integer)
    # (e^2x - 1) / (e^2x + 1), both over 2^n.
    above, lost_above = _ordered_sum(1.0 - inverse, rest)
    below, lost_below = _ordered_sum(1.0 + inverse, rest)
    value = _quotient(above, lost_above + lost, below, lost_below + lost)
    return with_sign(value, x)


# (exp(2 r) - 1) / 2 = r + r^2 q(r), |r| <= log(2) / 4.
_HALF_EXPM1 = tuple(2.0 ** (k + 1) * c for k, c in enumerate(_EXP))


def quick_tanh(x: Term) -> Term:
    """Hyperbolic tangent in half the time of `tanh`, to 3 units in the last place."""
    size = at_most(absolute(x), 20.0)
    shifted = fma(size, 2.0 * LOG2_E, _TO_INTEGER)
    n = shifted - _TO_INTEGER
    r = fma(n, -0.5 * LN2_LOW, fma(n, -0.5 * LN2_HIGH, size))
    power = power_of_two(shifted.bits())
    half = fma(power, fma(r * r, polynomial(r, _HALF_EXPM1), r), fma(power, 0.5, -0.5))
    return with_sign(half / (half + 1.0), x)


def _quotient(x: Term, x_low: Term, y: Term, y_low: Term) -> Term:
    """(x + x_low) / (y + y_low), rounded little more than once."""
    inverse = 1.0 / y
    quotient = x * inverse
    error = minus_product(x, quotient, y) + (x_low - quotient * y_low)
    return fma(error, inverse, quotient)


# log(1 + f) = 2 s + s z p(z), s = f / (2 + f), z = s^2, 1 / sqrt(2) <= 1 + f <= sqrt(2); 2^-58.
_LOG = (
    0.6666666666666735, 0.39999999999407493, 0.28571428744140204, 0.22222198378616814,
    0.18183575157639464, 0.15313755973044446, 0.14799063860642545,
)  # fmt: skip
_ROOT_HALF = 0x3FE6A09E667F3BCD
_BIAS = 1023
_TO_DOUBLE = 0x4330000000000000


def _mantissa(x: Term) -> tuple[Term, Term, Term]:
    """Write x > 0 as 2^k m, 1 / sqrt(2) <= m < sqrt(2): k + 1023 as an integer, k and m."""
    subnormal = x < 2.0**-1022
    bits = where(subnormal, x * 2.0**54, x).bits()
    biased = (bits - (_ROOT_HALF - (_BIAS << 52))) >> 52
    shift = where(subnormal, 2.0**52 + _BIAS + 54, _splat(x, 2.0**52 + _BIAS))
    k = (biased | _TO_DOUBLE).double() - shift
    return biased, k, (bits - ((biased - _BIAS) << 52)).double()


def _splat(like: Term, number: float) -> Term:
    return Term(like.builder, constant(like.value.type, number))


def _logarithm(k: Term, f: Term) -> Term:
    """Compute k log 2 + log(1 + f)."""
    s = f / (2.0 + f)
    z = s * s
    half_square = 0.5 * f * f
    s = s * fma(z, polynomial(z, _LOG), half_square)
    return k * LN2_HIGH - ((half_square - fma(k, LN2_LOW, s)) - f)


def _logarithm_or(x: Term, value: Term) -> Term:
    """The value where x > 0 has a finite logarithm, and else what it has."""
    other = where(x.equals(0.0), -math.inf, _splat(x, math.nan))
    return where(x > 0.0, where(x < math.inf, value, x), other)


def log(x: Term) -> Term:
    """Natural logarithm."""
    _, k, m = _mantissa(x)
    return _logarithm_or(x, _logarithm(k, m - 1.0))


def log_normal_number(x: Term) -> Term:
    """Natural logarithm of a number that is known to be positive, finite and not subnormal."""
    shifted = x.bits() - (_ROOT_HALF - (_BIAS << 52))
    k = ((shifted >> 52) | _TO_DOUBLE).double() - (2.0**52 + _BIAS)
    m = (x.bits() - (((shifted >> 52) - _BIAS) << 52)).double()
    return _logarithm(k, m - 1.0)


def log1p(x: Term) -> Term:
    """Natural logarithm of 1 + x."""
    total = 1.0 + x
    larger = absolute(x) < 1.0
    lost = where(larger, x - (total - 1.0), 1.0 - (total - x))
    biased, k, m = _mantissa(total)
    scale = ((2 * _BIAS - biased) << 52).double()
    f = (m - 1.0) + where(total < 2.0**60, lost * scale, 0.0)
    return where(absolute(x) < _TINY, x, _logarithm_or(total, _logarithm(k, f)))


def asinh(x: Term) -> Term:
    """Inverse hyperbolic sine."""
    size = absolute(x)
    large = size > 2.0**60
    grown = size + size * size / (1.0 + intrinsic("llvm.sqrt", fma(size, size, 1.0)))
    value = log1p(where(large, size, grown)) + where(large, LN2, _splat(x, 0.0))
    return with_sign(value, x)


def acosh(x: Term) -> Term:
    """Inverse hyperbolic cosine."""
    large, above = x > 2.0**60, x - 1.0
    grown = above + intrinsic("llvm.sqrt", fma(above, above, above + above))
    value = log1p(where(large, x, grown)) + where(large, LN2, _splat(x, 0.0))
    return where(x < 1.0, math.nan, value)


def atanh(x: Term) -> Term:
    """Inverse hyperbolic tangent."""
    size = absolute(x)
    twice = size + size
    value = 0.5 * log1p(twice + twice * size / (1.0 - size))
    return with_sign(where(size > 1.0, math.nan, value), x)


# sin(r) = r + r z s(z), z = r^2, |r| <= pi / 2; 2^-61.
_SIN = (
    -0.16666666666666666, 0.008333333333333191, -0.00019841269841208188, 2.7557319210963663e-06,
    -2.505210685721838e-08, 1.605893893845683e-10, -7.642971927013858e-13, 2.7209731838296502e-15,
)  # fmt: skip
# tan(r) = r + r z t(z), |r| <= pi / 4; 2^-59.
_TAN = (
    0.3333333333333338, 0.13333333333325417, 0.053968253972859766, 0.021869488400578615,
    0.008863237900731093, 0.0035921011201657757, 0.00145604376260326, 0.0005888738450549861,
    0.0002437171172954363, 8.364773228694481e-05, 6.705701808532496e-05, -2.5421509551776068e-05,
    4.8455799416939136e-05, -2.418334115451854e-05, 9.778599930664805e-06,
)  # fmt: skip
_LARGE = 2.0**30


def sin(x: Term) -> Term:
    """Sine."""
    size = absolute(x)
    shifted = fma(size, 1 / math.pi, _TO_INTEGER)
    r = _angle_from(size, shifted - _TO_INTEGER)
    half_turn, r, _ = _unless_large(size, (shifted.bits(), r, r), _HALF_TURNS)
    return (sine_to_quarter_turn(r).bits() ^ (half_turn << 63) ^ (x.bits() & _SIGN)).double()


def cos(x: Term) -> Term:
    """Cosine."""
    # -sin(x - (n + 1 / 2) pi), with the sign of an odd n turned.
    size = absolute(x)
    shifted = fma(size, 1 / math.pi, -0.5) + _TO_INTEGER
    r = _angle_from(size, (shifted - _TO_INTEGER) + 0.5)
    half_turn, r, _ = _unless_large(size, (shifted.bits(), r, r), _HALF_TURNS_FROM_QUARTER)
    return (sine_to_quarter_turn(-r).bits() ^ (half_turn << 63)).double()


def _angle_from(x: Term, n: Term) -> Term:
    """Subtract n pi from x, to at most pi / 2.

    Up to 2^30 the first difference is a double, and three doubles of pi suffice for the x that
    comes closest to a multiple of it.
    """
    for part in HALF_PI:
        x = minus_product(x, n, 2 * part)
    return x


def sine_to_quarter_turn(r: Term) -> Term:
    """Sine of an angle of at most pi / 2."""
    z = r * r
    # The two large terms last, so that their sum is rounded once.
    rest = fma(z, fma(z, polynomial(z, _SIN[2:]), _SIN[1]), _SIN[0])
    return fma(r * z, rest, r)


def tan(x: Term) -> Term:
    """Tangent."""
    size = absolute(x)
    shifted = fma(size, TWO_OVER_PI, _TO_INTEGER)
    n = shifted - _TO_INTEGER
    near = minus_product(size, n, HALF_PI[0])
    high, low = product(n, HALF_PI[1])
    r = near - high
    tail = fma(n, -HALF_PI[2], ((near - r) - high) - low)
    quarter, r, tail = _unless_large(size, (shifted.bits(), r, tail), _QUARTER_TURNS)
    z = r * r
    tangent = r + fma(r * z, polynomial(z, _TAN), fma(tail, z, tail))
    odd = (quarter & 1).equals(1)
    value = where(odd, -1.0, tangent) / where(odd, tangent, 1.0)
    return (value.bits() ^ (x.bits() & _SIGN)).double()


class _Turns(NamedTuple):
    """Quarter turns by which a large angle is reduced: 2^unit of them, from so many on."""

    unit: int
    origin: int


_QUARTER_TURNS, _HALF_TURNS, _HALF_TURNS_FROM_QUARTER = _Turns(0, 0), _Turns(1, 0), _Turns(1, 1)


def _unless_large(
    x: Term, parts: tuple[Term, Term, Term], turns: _Turns
) -> tuple[Term, Term, Term]:
    """Number of turns, angle and its tail: these parts, or for a large x what its bits say."""
    builder, large = x.builder, x >= _LARGE
    begin = builder.block
    with builder.if_then(large.anywhere(), likely=False):
        reduced = _each(
            where(large, x, _LARGE), (INTEGER, DOUBLE, DOUBLE), partial(_large_angle, turns)
        )
        chosen = [where(large, new, old) for new, old in zip(reduced, parts, strict=True)]
        end = builder.block
    merged = []
    for old, new in zip(parts, chosen, strict=True):
        phi = builder.phi(old.value.type)
        phi.add_incoming(old.value, begin)
        phi.add_incoming(new.value, end)
        merged.append(Term(builder, phi))
    count, r, tail = merged
    return count, r, tail


def _each(x: Term, kinds: Sequence[Any], scalar: Callable[[Any, Any], Sequence[Any]]) -> list[Term]:
    """Compute what a function writes for one double, of every element in turn.

    A loop, for a call would have the vectors around it saved even where it is not made.
    """
    builder = x.builder
    with builder.goto_entry_block():
        elements = builder.alloca(x.value.type)
        made = [builder.alloca(vector(kind, x.width)) for kind in kinds]
    builder.store(x.value, elements)
    before, body, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.branch(body)
    builder.position_at_end(body)
    index = builder.phi(INTEGER)
    index.add_incoming(ir.Constant(INTEGER, 0), before)

    def at(place: Any, kind: Any) -> Any:
        return builder.gep(builder.bitcast(place, kind.as_pointer()), [index])

    results = scalar(builder, builder.load(at(elements, DOUBLE)))
    for place, kind, result in zip(made, kinds, results, strict=True):
        builder.store(result, at(place, kind))
    following = builder.add(index, ir.Constant(INTEGER, 1))
    index.add_incoming(following, builder.block)
    more = builder.icmp_signed("<", following, ir.Constant(INTEGER, x.width))
    builder.cbranch(more, body, after)
    builder.position_at_end(after)
    return [Term(builder, builder.load(place)) for place in made]


_TWO_OVER_PI_BITS = (
    0x0000000000000000, 0x517CC1B727220A94, 0xFE13ABE8FA9A6EE0, 0x6DB14ACC9E21C820,
    0xFF28B1D5EF5DE2B0, 0xDB92371D2126E970, 0x0324977504E8C90E, 0x7F0EF58E5894D39F,
    0x74411AFA975DA242, 0x74CE38135A2FBF20, 0x9CC8EB1CC1A99CFA, 0x4E422FC5DEFC941D,
    0x8FFC4BFFEF02CC07, 0xF79788C5AD05368F, 0xB69B3F6793E584DB, 0xA7A31FB34F2FF516,
    0xBA93DD63F5F2F8BD, 0x9E839CFBC5294975, 0x35FDAFD88FC6AE84, 0x2B0198237E3DB5D5,
)  # fmt: skip


def _large_angle(turns: _Turns, b: Any, x: Any) -> tuple[Any, Any, Any]:
    """Reduce a double from 2^30 on to the number of turns, modulo four quarters, and the angle.

    The angle is a sum of two doubles (Payne and Hanek, SIGNUM Newsletter 18, 1983).
    """
    wide = ir.IntType(128)
    table = _two_over_pi(b.module)

    def whole(number: int) -> Any:
        return ir.Constant(INTEGER, number)

    # x = mantissa 2^e. Bits of 2 / pi of weight 2^(e - i) > 2 turn it by whole circles.
    bits = b.bitcast(x, INTEGER)
    mantissa = b.or_(b.and_(bits, whole(2**52 - 1)), whole(2**52))
    begin = b.add(b.lshr(bits, whole(52)), whole(64 - 1 - 1075))
    first, offset = b.lshr(begin, whole(6)), b.and_(begin, whole(63))

    def word(k: int) -> Any:
        """64 bits from the k-th word after the first on."""

        def at(j: int) -> Any:
            return b.load(b.gep(table, [whole(0), b.add(first, whole(j))], inbounds=True))

        above = b.lshr(b.lshr(at(k + 1), whole(1)), b.sub(whole(63), offset))
        return b.or_(b.shl(at(k), offset), above)

    def times(k: int) -> Any:
        return b.mul(b.zext(mantissa, wide), b.zext(word(k), wide))

    # 2 x / pi modulo 4, in units of 2^-126.
    sixty_four = ir.Constant(wide, 64)
    angle = b.add(b.shl(times(0), sixty_four), b.add(times(1), b.lshr(times(2), sixty_four)))
    angle = b.sub(angle, ir.Constant(wide, turns.origin << 126))
    unit = 126 + turns.unit
    count = b.lshr(b.add(angle, ir.Constant(wide, 1 << (unit - 1))), ir.Constant(wide, unit))
    rest = b.sub(angle, b.shl(count, ir.Constant(wide, unit)))
    negative = b.icmp_signed("<", rest, ir.Constant(wide, 0))
    rest = b.select(negative, b.sub(ir.Constant(wide, 0), rest), rest)
    zeros = b.ctlz(rest, ir.Constant(ir.IntType(1), 0))
    rest = b.shl(rest, zeros)

    def number(shift: int) -> Term:
        """53 bits of the rest, as a number."""
        part = b.trunc(b.lshr(rest, ir.Constant(wide, shift)), INTEGER)
        made = b.uitofp(b.and_(part, whole(2**53 - 1)), DOUBLE)
        return Term(b, b.bitcast(made, vector(DOUBLE, 1)))

    scale = Term(b, b.bitcast(b.trunc(zeros, INTEGER), vector(INTEGER, 1)))
    scale = ((_BIAS - scale) << 52).double()
    high, low = number(75) * 2.0**-51 * scale, number(22) * 2.0**-104 * scale
    r, tail = product(high, HALF_PI[0])
    tail = fma(high, HALF_PI[1], fma(low, HALF_PI[0], tail))
    given = Term(b, b.bitcast(x, vector(DOUBLE, 1)))
    signed = [
        b.select(negative, b.fneg(value), value)
        for part in _ordered_sum(r + (given - given), tail)  # An infinite angle has none.
        for value in [b.bitcast(part.value, DOUBLE)]
    ]
    return b.trunc(count, INTEGER), signed[0], signed[1]


def _two_over_pi(module: Any) -> Any:
    name = "smcpn.two_over_pi"
    if name not in module.globals:
        words = ir.ArrayType(INTEGER, len(_TWO_OVER_PI_BITS))
        table: Any = ir.GlobalVariable(module, words, name)
        table.linkage, table.global_constant = "internal", True
        table.initializer = ir.Constant(words, list(_TWO_OVER_PI_BITS))
    return module.globals[name]


# asin(s) = s + s z p(z), z = s^2 <= 1 / 4; 2^-59.
_ASIN = (
    0.16666666666666763, 0.0749999999997026, 0.044642857175122334, 0.030381942683559593,
    0.022372215661712196, 0.017351600067836148, 0.013980961742622163, 0.011397773476990749,
    0.01078654418203715, 0.0036829801438953698, 0.021763661749320894, -0.021077539649199,
    0.032677055064719726,
)  # fmt: skip


def _arcsine(size: Term) -> tuple[Term, Term, Term]:
    """asin(s) = s + rest of s = size, or of s = sqrt((1 - size) / 2) from one half on."""
    large = size >= 0.5
    z = where(large, fma(size, -0.5, 0.5), size * size)
    s = where(large, intrinsic("llvm.sqrt", z), size)
    return large, s, s * z * polynomial(z, _ASIN)


def asin(x: Term) -> Term:
    """Arcsine."""
    large, s, rest = _arcsine(absolute(x))
    near, lost = _ordered_sum(HALF_PI[0], -2.0 * s)
    return with_sign(where(large, near - (rest + rest - HALF_PI[1] - lost), s + rest), x)


def acos(x: Term) -> Term:
    """Arccosine."""
    large, s, rest = _arcsine(absolute(x))
    negative = x < 0.0
    twice, twice_rest = s + s, rest + rest
    from_straight = (2 * HALF_PI[0] - twice) - (twice_rest - 2 * HALF_PI[1])
    signed_rest = where(negative, -rest, rest)
    from_right = HALF_PI[0] - (x + (signed_rest - HALF_PI[1]))
    return where(large, where(negative, from_straight, twice + twice_rest), from_right)


# atan(t) = t + t z p(z), z = t^2 <= 1 / 4; 2^-57.
_ATAN = (
    -0.33333333333332993, 0.1999999999990565, -0.14285714276590442, 0.11111110667853649,
    -0.09090896436500882, 0.07692076726442157, -0.06663837666762566, 0.05858471845247401,
    -0.0512273448148745, 0.04188448692959695, -0.027464722069828494, 0.010136776514850064,
)  # fmt: skip


def _arctangent(y: Term, x: Term) -> tuple[Term, Term]:
    """Arctangent of y / x, y, x >= 0, as a number and a small addition.

    It is taken from the nearest of 0, pi / 4 and pi / 2.
    """
    steep, middle = y > x + x, y >= 0.5 * x
    numerator = where(steep, -x, where(middle, y - x, y))
    t = numerator / where(steep, y, where(middle, y + x, x))
    zero = _splat(y, 0.0)
    base = where(steep, HALF_PI[0], where(middle, HALF_PI[0] / 2, zero))
    addition = where(steep, HALF_PI[1], where(middle, HALF_PI[1] / 2, zero))
    z = t * t
    near, lost = _ordered_sum(base, t)
    return near, lost + fma(t * z, polynomial(z, _ATAN), addition)


def atan(x: Term) -> Term:
    """Arctangent."""
    near, rest = _arctangent(absolute(x), _splat(x, 1.0))
    return with_sign(near + rest, x)


def atan2(y: Term, x: Term) -> Term:
    """Angle of the point (x, y), from -pi to pi."""
    height, breadth = absolute(y), absolute(x)
    largest = where(height > breadth, height, breadth)
    one = _splat(x, 1.0)
    scale = where(largest > 2.0**1000, 2.0**-100, where(largest < 2.0**-900, 2.0**100, one))
    both_infinite = height.equals(math.inf) & breadth.equals(math.inf)
    breadth = where(both_infinite | largest.equals(0.0), 1.0, breadth * scale)
    near, rest = _arctangent(where(both_infinite, 1.0, height * scale), breadth)
    backward, lost = _ordered_sum(2 * HALF_PI[0], -near)
    backward = backward + (lost + (2 * HALF_PI[1] - rest))
    return with_sign(where(x.bits() < 0, backward, near + rest), y)


# log m = log c + 2 s + s z p(z), s = (m - c) / (m + c), z = s^2, c the nearest of three; 2^-66.
_POW = (
    0.6666666666666666, 0.4000000000002667, 0.28571428545141475, 0.2222223412960488,
    0.18179093465587506, 0.15690690398791235,
)  # fmt: skip
_CENTRES = (
    (0.75, 1.0, 1.375),
    (-0.2876820724513891, 0.0, 0.3184537311180975),
    (-3.918237769963822e-13, 0.0, 4.3712191957429144e-13),
)
"""Centres, and their logarithms as sums of two doubles, of which the first has 40 binary places."""
_BORDERS = (0.8660254037844386, 1.1726039399558574)


def power(x: Term, y: Term) -> Term:
    """x^y = exp(y log |x|), the logarithm in two doubles."""
    size = absolute(x)
    high, low = _precise_logarithm(size)
    exponent, lost = product(y, high)
    tail = fma(y, low, lost)
    tail = where(absolute(exponent) < 800.0, tail, 0.0)
    value = _exponential(exponent, tail)
    value = where(y.equals(0.0) | size.equals(1.0), 1.0, value)
    # Of a negative number: the sign of an odd power, and none of a fraction.
    whole, even = _is_integer(y), _is_integer(0.5 * y)
    value = where((x < 0.0) & (x > -math.inf), where(whole, value, math.nan), value)
    negative = where(even, 0, x.bits() & _SIGN)
    negative = where(whole, negative, 0)
    value = (value.bits() ^ negative).double()
    return where(x.equals(1.0) | y.equals(0.0), 1.0, value)


def _is_integer(y: Term) -> Term:
    return intrinsic("llvm.trunc", y).equals(y)


def _precise_logarithm(x: Term) -> tuple[Term, Term]:
    """Logarithm of x >= 0 as a sum of two doubles."""
    _, k, m = _mantissa(x)
    below, above = m < _BORDERS[0], m > _BORDERS[1]
    centre, log_high, log_low = (
        where(below, _splat(x, low), where(above, high, _splat(x, middle)))
        for low, middle, high in _CENTRES
    )
    f, total = m - centre, m + centre
    lost = m - (total - centre)
    inverse = 1.0 / total
    s = f * inverse
    s_low = inverse * (minus_product(f, s, total) - s * lost)
    z, z_low = product(s, s)
    z_low = fma(s + s, s_low, z_low)
    cube, cube_low = product(s, z)
    cube_low = fma(s, z_low, fma(s_low, z, cube_low))
    p = polynomial(z, _POW)
    rest = fma(cube, p, fma(cube_low, p, s_low + s_low))
    # Multiples of 2^-40, whose sum is exact.
    base, base_low = fma(k, LN2_HIGH, log_high), fma(k, LN2_LOW, log_low)
    high, lost = _ordered_sum(base, s + s)
    high, low = _ordered_sum(high, lost + (base_low + rest))
    finite = (x > 0.0) & (x < math.inf)
    return where(finite, high, where(x.equals(0.0), -math.inf, x)), low


# erf(x) = x + x p(z), z = x^2 <= 1, 2^-57; from 1 on 1 - exp(-z) q(t), t = (x - 5 / 2) / (x + 3).
_ERF = (
    0.12837916709551256, -0.3761263890318355, 0.11283791670945253, -0.02686617064327622,
    0.005223977607423468, -0.0008548325989696758, 0.00012055295320494294, -1.4924744663335489e-05,
    1.6447517677871873e-06, -1.6209175911748696e-07, 1.3722976265924504e-08,
    -7.801188874097751e-10,
)  # fmt: skip
_ERFCX = (
    0.210806364061143, -0.40891040734372075, 0.34546400453249526, -0.23142268953298292,
    0.11792238563118669, -0.041056466641189844, 0.006200417247964087, 0.0021137720009276615,
    -0.0012179662913439214, -2.2511603832218657e-05, 0.00020947315150099703,
    3.9593143999696734e-05,
)  # fmt: skip


def erf(x: Term) -> Term:
    """Error function."""
    size = at_most(absolute(x), 6.0)
    z = size * size
    t = (size - 2.5) / (size + 3.0)
    outer = 1.0 - _exponential(-z) * polynomial(t, _ERFCX)
    inner = fma(size, polynomial(z, _ERF), size)
    return with_sign(where(size < 1.0, inner, outer), x)


def hypot(x: Term, y: Term) -> Term:
    """Length of the vector (x, y), without overflow."""
    x, y = absolute(x), absolute(y)
    infinite = x.equals(math.inf) | y.equals(math.inf)
    largest = where(x > y, x, y)
    one = _splat(x, 1.0)
    down, up = largest > 2.0**500, largest < 2.0**-500
    scale = where(down, 2.0**-600, where(up, 2.0**600, one))
    back = where(down, 2.0**600, where(up, 2.0**-600, one))
    x, y = x * scale, y * scale
    return where(infinite, math.inf, intrinsic("llvm.sqrt", fma(x, x, y * y)) * back)


def fmod(x: Term, y: Term) -> Term:
    """Remainder of x / y with the sign of x, exact."""
    size, step = absolute(x), absolute(y)
    ratio = size / step
    n = (ratio + 2.0**52) - 2.0**52
    rest = minus_product(size, n, step)
    rest = where(rest < 0.0, rest + step, rest)
    rest = where(rest >= step, rest - step, rest)
    rest = where(step.equals(math.inf) & (size < math.inf), size, rest)
    builder, far = x.builder, ratio >= 2.0**52
    begin = builder.block
    with builder.if_then(far.anywhere(), likely=False):
        exact = builder.frem(size.value, step.value, flags=("afn",))
        exact = where(far, Term(builder, exact), rest)
        end = builder.block
    phi = builder.phi(rest.value.type)
    phi.add_incoming(rest.value, begin)
    phi.add_incoming(exact.value, end)
    return with_sign(Term(builder, phi), x)


def sqrt(x: Term) -> Term:
    """Square root."""
    return intrinsic("llvm.sqrt", x)


def floor(x: Term) -> Term:
    """Largest integer up to x."""
    return intrinsic("llvm.floor", x)


def ceil(x: Term) -> Term:
    """Smallest integer from x on."""
    return intrinsic("llvm.ceil", x)


def copysign(x: Term, y: Term) -> Term:
    """Size of x with the sign of y."""
    return with_sign(absolute(x), y)


def apply(
    builder: Any, operation: str, operands: Sequence[Any], functions: Functions | None = None
) -> Any:
    """Write an operation on LLVM values, doubles or vectors of them, by default of `FUNCTIONS`."""
    kind = operands[0].type
    short = kind == DOUBLE
    if short:
        kind = vector(DOUBLE, 1)
        operands = [builder.bitcast(operand, kind) for operand in operands]
    function = (functions or FUNCTIONS)[operation]
    result = function(*(Term(builder, operand) for operand in operands)).value
    return builder.bitcast(result, DOUBLE) if short else result


Functions = dict[str, Callable[..., Term]]

FUNCTIONS: Functions = {
    "sqrt": sqrt, "pow": power, "constpow": power, "exp": exp, "log": log, "log1p": log1p,
    "expm1": expm1, "sin": sin, "cos": cos, "tan": tan, "asin": asin, "acos": acos, "atan": atan,
    "atan2": atan2, "sinh": sinh, "cosh": cosh, "tanh": tanh, "asinh": asinh, "acosh": acosh,
    "atanh": atanh, "erf": erf, "hypot": hypot, "fabs": absolute, "copysign": copysign,
    "floor": floor, "ceil": ceil, "fmod": fmod,
}  # fmt: skip
"""Operations of lowered statements that are more than an instruction."""
QUICK: Functions = FUNCTIONS | {"tanh": quick_tanh}
"""The same, with another of a little less accuracy where that takes half the time."""
