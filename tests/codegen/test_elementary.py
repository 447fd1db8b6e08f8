"""Elementary functions of generated code, against many digits and against C99's special values."""

from __future__ import annotations

import ctypes
import math
import platform
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from llvmlite import binding, ir

from smcpn.codegen import native
from smcpn.codegen.elementary import FUNCTIONS, apply, quick_tanh
from smcpn.codegen.loops import FAST, Function, number
from smcpn.codegen.target import compiling_for, target
from smcpn.codegen.terms import DOUBLE, INTEGER, vector

pytestmark = pytest.mark.numerics

LANES = 64
OF_TWO = ("pow", "constpow", "atan2", "hypot", "fmod", "copysign")
EXACT = {
    "sqrt": np.sqrt, "fabs": np.fabs, "floor": np.floor, "ceil": np.ceil, "fmod": np.fmod,
    "copysign": np.copysign,
}  # fmt: skip
DIGITS: dict[str, Callable[..., Any]] = {
    name: getattr(mp, name)
    for name in (
        "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2",
        "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "hypot",
    )
} | {"pow": mp.power}  # fmt: skip
NUMPY = {
    name: getattr(np, name.replace("a", "arc", 1) if re.match("a(sin|cos|tan)", name) else name)
    for name in DIGITS
    if name not in ("erf", "pow")
} | {"pow": np.power, "erf": np.vectorize(math.erf)}
INTERVALS = {
    "exp": [(-746, 710), (-1, 1)], "expm1": [(-40, 710), (-1, 1)], "log": [(0, 3)],
    "log1p": [(-1, 2)], "sin": [(-10, 10), (-1e5, 1e5)], "cos": [(-10, 10), (-1e5, 1e5)],
    "tan": [(-10, 10), (-1e5, 1e5)], "asin": [(-1, 1)], "acos": [(-1, 1)], "atan": [(-4, 4)],
    "sinh": [(-711, 711), (-2, 2)], "cosh": [(-711, 711), (-2, 2)], "tanh": [(-20, 20), (-1, 1)],
    "asinh": [(-3, 3)], "acosh": [(1, 3)], "atanh": [(-1, 1)], "erf": [(-6, 6), (-1.5, 1.5)],
}  # fmt: skip
"""Where every function of one argument is tested densely, besides at doubles of any size."""
HARD = [
    6381956970095103 * 2.0**797,  # The double nearest to a multiple of pi / 2 (Kahan).
    *(math.pi / 2 * k for k in (1, 2, 3, 4, 5, 11, 22, 355, 710, 2.0**29, 1e15, 1e22)),
]
EDGES = np.array([
    0.0, -0.0, 5e-324, -5e-324, 2.0**-1074 * 3, 2.0**-1022, -(2.0**-1022), 1e-300, 1e-160, 1e-20,
    1e-9, -1e-9, 0.5, np.nextafter(0.5, 0), 1.0, -1.0, np.nextafter(1.0, 0), np.nextafter(1.0, 2),
    1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0, 17.0, 40.0, 709.782712893384, 710.4758600739439, -745.2,
    2.0**30, np.nextafter(2.0**30, 0), 1e17, 2.0**53, 2.0**62, 1e154, 1e160, 1.7976931348623157e308,
    np.inf, -np.inf, np.nan,
])  # fmt: skip


def lane_loop(name: str, width: int) -> Callable[[ir.Module], None]:
    """Write a loop over blocks (b, 192) of lanes: arguments, other arguments, results."""
    operands = 2 if name in OF_TWO else 1

    def write(module: ir.Module) -> None:
        made = Function(module, "run", {"w": DOUBLE.as_pointer(), "blocks": INTEGER})
        builder, vectors = made.builder, vector(DOUBLE, width).as_pointer()
        with (
            made.loop(number(0), made["blocks"]) as block,
            made.loop(number(0), number(LANES), width) as lane,
        ):
            begin = made.times(block, number(3 * LANES))
            places = [
                builder.bitcast(made.at(made["w"], begin, lane, number(k * LANES)), vectors)
                for k in range(3)
            ]
            given = [builder.load(place, align=8) for place in places[:operands]]
            builder.store(apply(builder, name, given), places[2], align=8)
        made.finish(FAST)

    return write


@cache
def compiled(name: str, width: int, fused: bool) -> tuple[Any, Any]:
    """The loop, and what it lives in."""
    own = target()
    without = own._replace(features=own.features.replace("+fma", "-fma"))
    with compiling_for(own if fused else without):
        code = native.compiled(lane_loop(name, width))
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), native._machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
    return kind(engine.get_function_address("run")), engine


def evaluate(
    name: str, *arguments: np.ndarray, width: int = target().doubles, fused: bool | None = None
) -> np.ndarray:
    """Run the loop on any number of arguments."""
    run, _ = compiled(name, width, target().fused if fused is None else fused)
    count = len(arguments[0])
    blocks = np.ones((-(-count // LANES), 3, LANES))
    for slot, argument in enumerate(arguments):
        for block, part in zip(blocks, np.split(argument, range(LANES, count, LANES)), strict=True):
            block[slot, : len(part)] = part
    run(blocks.ctypes.data, len(blocks))
    return blocks[:, 2].reshape(-1)[:count]


def sizes(rng: np.random.Generator, count: int) -> np.ndarray:
    """Doubles of any size and sign, subnormal ones included."""
    bits = rng.integers(0, 0x7FF0000000000000, count) | rng.integers(0, 2, count) << 63
    return bits.view(np.float64)


def arguments(name: str, count: int) -> list[np.ndarray]:
    """Edges, doubles of any size, and what is dense where the function does something."""
    rng = np.random.default_rng(sum(map(ord, name)))
    if name not in OF_TWO:
        dense = [rng.uniform(low, high, count) for low, high in INTERVALS[name]]
        near_zero = rng.choice([-1, 1], count) * 10.0 ** rng.uniform(-20, 0, count)
        return [np.concatenate([EDGES, HARD, sizes(rng, count), near_zero, *dense])]
    x, y = (grid.ravel() for grid in np.meshgrid(EDGES, EDGES))
    dense_x, dense_y = np.exp(rng.normal(0, 3, (2, count)))
    if name == "pow":  # Exponents that lead to any representable power, bases around 1 too.
        dense_x[::2] = 1 + rng.uniform(-0.3, 0.3, len(dense_x[::2])) ** 3
        dense_y = rng.uniform(-745, 709, count) / np.log(dense_x)
    any_x, any_y = sizes(rng, count), sizes(rng, count)
    return [np.concatenate([x, any_x, dense_x]), np.concatenate([y, any_y, dense_y])]


def errors(name: str, values: np.ndarray, given: list[np.ndarray]) -> np.ndarray:
    """Distance from the true value in units of its last place; 0 where it is no real number."""
    found = np.zeros(len(values))
    with mp.workprec(120):
        for k, (value, *numbers) in enumerate(zip(values, *given, strict=True)):
            if not (np.isfinite(numbers).all() and defined(name, *map(float, numbers))):
                continue
            exact = DIGITS[name](*map(mp.mpf, map(float, numbers)))
            if abs(exact) >= mp.mpf(2) ** 1024:
                found[k] = 0.0 if math.isinf(value) and value * exact > 0 else math.inf
                continue
            place = max(mp.floor(mp.log(abs(exact), 2)) - 52, -1074) if exact else -1074
            found[k] = abs(mp.mpf(float(value)) - exact) / mp.mpf(2) ** place
    return found


def defined(name: str, *numbers: float) -> bool:
    """Whether finite numbers have a function value, and one of a size that mpmath bears."""
    x = numbers[0]
    if name == "pow":
        negative = x < 0 and not numbers[1].is_integer()
        return not negative and x != 0 and abs(numbers[1] * math.log(abs(x))) < 1e5
    if name == "atan2":
        return x != 0  # mpmath has no -0.0.
    if name in ("exp", "expm1", "sinh", "cosh"):
        return abs(x) < 1e5
    outside = {
        "log": x <= 0, "log1p": x <= -1, "asin": abs(x) > 1, "acos": abs(x) > 1,
        "acosh": x < 1, "atanh": abs(x) >= 1,
    }  # fmt: skip
    return not outside.get(name, False)


def assert_accurate(name: str, count: int, fused: bool) -> None:
    given = arguments(name, count)
    values = evaluate(name, *given, fused=fused)
    found = errors(name, values, given)
    worst = int(np.argmax(found))
    limit = 4 if name == "pow" else 2
    assert found[worst] <= limit, (found[worst], [x[worst] for x in given], values[worst])


@pytest.mark.parametrize("name", DIGITS)
def test_error_in_units_in_the_last_place(name):
    assert_accurate(name, 600, target().fused)


@pytest.mark.parametrize("fused", {target().fused, False})
def test_the_quick_tanh_is_within_three_units_in_the_last_place(monkeypatch, fused):
    monkeypatch.setitem(FUNCTIONS, "quick_tanh", quick_tanh)
    given = arguments("tanh", 600)
    values = evaluate("quick_tanh", *given, fused=fused)
    assert errors("tanh", values, given).max() <= 3
    unusual = ~np.isfinite(given[0]) | (given[0] == 0)
    expected = np.tanh(given[0][unusual])
    np.testing.assert_array_equal(values[unusual], expected)
    np.testing.assert_array_equal(np.signbit(values[unusual]), np.signbit(expected))


@pytest.mark.nightly
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", DIGITS)
def test_error_at_many_arguments_with_and_without_fused_multiply_add(name, fused):
    if fused and not target().fused:
        pytest.skip("the processor has no fused multiply-add")
    assert_accurate(name, 50_000, fused)


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tan", "tanh", "pow"])
def test_error_without_fused_multiply_add(name):
    assert_accurate(name, 300, fused=False)


@pytest.mark.parametrize("name", NUMPY)
def test_special_values_are_those_of_c99(name):
    """Zeros with their signs, infinities and NaN, wherever the C library has them."""
    given = arguments(name, 1)
    with np.errstate(all="ignore"):
        expected = np.asarray(NUMPY[name](*given), dtype=float)
    values = evaluate(name, *given)
    special = (expected == 0) | ~np.isfinite(expected)
    # Of the rest, what many digits do not tell: the side that a zero is of.
    np.testing.assert_allclose(values[~special], expected[~special], rtol=1e-14, atol=1e-323)
    values, expected = values[special], expected[special]
    np.testing.assert_array_equal(values, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(values[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("name", EXACT)
def test_what_has_no_rounding_of_its_own_is_exact(name):
    rng = np.random.default_rng(1)
    given = [
        np.concatenate([sizes(rng, 500), rng.normal(0, 100, 500), edges])
        for edges in np.meshgrid(EDGES, EDGES)
        for edges in [edges.ravel()]
    ]
    given = given if name in OF_TWO else given[:1]
    with np.errstate(all="ignore"):
        expected = EXACT[name](*given)
    np.testing.assert_array_equal(evaluate(name, *given), expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_vector_has_the_bits_of_its_elements_alone(name):
    """Large arguments beside others included: a detour of one lane changes no other."""
    given = arguments("pow" if name in OF_TWO else name if name in DIGITS else "exp", 100)
    in_vectors = evaluate(name, *given)
    np.testing.assert_array_equal(in_vectors, evaluate(name, *given, width=1))


def test_logistic_function_as_models_write_it():
    """1 / (1 + exp(-x)), over the range in which exp(-x) is a number."""
    x = np.random.default_rng(2).uniform(-700, 40, 2000)
    values = 1 / (1 + evaluate("exp", -x))
    with mp.workprec(120):
        exact = [1 / (1 + mp.exp(-mp.mpf(float(v)))) for v in x]
        error = [
            abs(mp.mpf(float(value)) - true) / mp.mpf(float(np.spacing(float(true))))
            for value, true in zip(values, exact, strict=True)
        ]
    assert max(error) <= 2


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="reads x86 assembly")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_loops_are_vector_instructions_without_calls(name):
    """The one call that is left is that of fmod, of quotients from 2^52 on."""
    module = native._optimised(lane_loop(name, target().doubles))
    assembly = native._machine().emit_assembly(module)
    called = re.findall(r"\b(?:movabsq\s+\$|callq?\s+)([A-Za-z_]\w*)\b", assembly)
    library = {function.removesuffix("@PLT") for function in called} & LIBRARY
    assert library <= ({"fmod"} if name == "fmod" else set())
    assert re.search(r"\b[xyz]mm\d", assembly)
    if name not in ("fabs", "copysign"):
        assert re.search(
            r"\bv?(add|sub|mul|div|sqrt|round|rndscale|max|fn?m(add|sub)\d+)pd\b", assembly
        )


LIBRARY = {
    "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "hypot", "pow", "fmod", "fma", "sqrt",
    "floor", "ceil", "trunc", "fabs", "copysign", "sincos",
}  # fmt: skip
