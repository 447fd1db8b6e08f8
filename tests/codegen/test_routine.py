"""Machine code of plain functions does what Python does with them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from llvmlite import ir

from smcpn.codegen.routine import PassedArgument, Program, at_address, routine
from smcpn.likelihood.particle.weights import choose, resample

LARGE = 3


class Pair(NamedTuple):
    """A field of each kind."""

    numbers: np.ndarray
    counts: np.ndarray
    marks: np.ndarray
    scale: float
    most: int
    odd: bool


def _share(counts: np.ndarray, k: int) -> tuple[float, bool]:
    return counts[k] / LARGE, counts[k] % 2 == 1 or counts[k] > LARGE


def everything(pair: Pair, result: np.ndarray) -> int:
    """Use all that is understood."""
    done, k = 0, 0
    while True:
        k += 1
        if k >= pair.most:
            break
        if pair.marks[k]:
            continue
        share, large = _share(pair.counts, k)
        row = pair.numbers[k]
        for j in range(len(row) - 1, -1, -1):
            value = row[j] if j % 2 == 0 else pair.counts[k]
            result[k, j] += share * value - float(j) ** 2
            if large and pair.odd and not 0.0 <= row[j] < 1.0:
                result[k, j] *= -pair.scale
        done += len(row)
    first, last = result[0], result[result.shape[0] - 1]
    first[0] = max(pair.scale, k, 0.5)
    last[0] = min(k, pair.counts[1] // 2) + pair.counts[0] % LARGE
    first[1] = pair.scale ** pair.counts[2] + pair.scale**-2 + pair.scale**0.5
    first[2] = math.copysign(np.floor(abs(-1.5)), -1.0) + int(2.7)
    last[1] = math.sin(pair.scale) + math.atan2(1.0, pair.scale) + math.log(pair.scale)
    last[2] = 1.0 if k in (LARGE, 8) and math.isfinite(pair.scale / k) else math.nan
    flat = result.reshape(result.shape[0] * result.shape[1])
    flat[len(flat) - 4] += 1.0
    return done


def pair() -> Pair:
    numbers = np.random.default_rng(0).normal(size=(9, 3))
    marks = np.arange(9) % 4 == 1
    return Pair(numbers, np.arange(9) - 2, marks, 1.7, 8, True)


def test_machine_code_does_what_python_does():
    given, expected, found = pair(), np.ones((9, 3)), np.ones((9, 3))
    count = everything(given, expected)
    assert routine(everything)(given, found) == count > 0
    np.testing.assert_allclose(found, expected, rtol=4e-16)
    again = np.ones((9, 3))
    assert routine(everything)(PassedArgument.of(given), again) == count
    np.testing.assert_array_equal(again, found)


@pytest.mark.parametrize(
    "wrong",
    [
        np.ones((3, 9)).T,
        np.ones((9, 3), dtype=np.float32),
        np.ones((9, 3), dtype=np.dtype(float).newbyteorder()),
    ],
)
def test_arrays_that_it_would_misread_are_refused(wrong):
    with pytest.raises(TypeError, match="was passed"):
        routine(everything)(pair(), wrong)


def test_a_number_that_it_would_cut_to_a_whole_one_is_refused():
    with pytest.raises(TypeError, match="float32"):
        PassedArgument.of(np.float32(0.5))


def _sliced(row: np.ndarray) -> float:
    return row[1:][0]


def _unsaid(row: np.ndarray):
    return row[0]


def _narrowed(row: np.ndarray) -> float:
    count = 0
    count += row[0]
    return count


@pytest.mark.parametrize("function", [_sliced, _unsaid, _narrowed])
def test_what_is_not_understood_is_refused(function):
    made = routine(function)
    with pytest.raises((TypeError, ValueError)):
        made(np.ones(3))


def test_a_function_is_translated_once_for_each_kind_of_arguments():
    module = ir.Module()
    kind = ir.FunctionType(ir.VoidType(), [ir.DoubleType(), ir.IntType(64)])
    made = ir.Function(module, kind, "caller")
    builder, program = ir.IRBuilder(made.append_basic_block()), Program(module)
    for argument in (*made.args, *made.args):
        program.call(builder, _doubled, [argument])
    assert len(module.functions) == 3


def _doubled(x: float) -> float:
    return 2 * x


def sums(reals: int, wholes: int, count: int, result: np.ndarray):
    """Sums of what is at two addresses."""
    real, whole = at_address(float, reals), at_address(int, wholes)
    for k in range(count):
        result[0] += real[k]
        result[1] += whole[k]


def test_arrays_are_found_by_their_addresses():
    reals, wholes, found = np.array([0.5, 0.25, 2.0]), np.array([1, -2, 4]), np.zeros((2, 2))
    for call, result in zip((sums, routine(sums)), found, strict=True):
        call(reals.ctypes.data, wholes.ctypes.data, 3, result)
    np.testing.assert_array_equal(found, [[2.75, 3.0]] * 2)


@pytest.mark.parametrize("call", [lambda function: function, routine], ids=["python", "compiled"])
def test_systematic_resampling_is_the_inverse_of_the_distribution_function(call):
    rng, n = np.random.default_rng(0), 64
    weights, uniform = rng.exponential(size=n) ** 3, 0.3
    ancestors = np.zeros(n + 1, dtype=np.int64)
    call(resample)(weights, weights.sum(), uniform, n, ancestors)
    cumulative = np.cumsum(weights) / weights.sum()
    expected = np.searchsorted(cumulative, (np.arange(n) + uniform) / n)
    np.testing.assert_array_equal(ancestors[:n], expected)
    shares, growth = rng.uniform(size=n), np.ones(n)
    begins = np.floor(uniform + np.cumsum(np.concatenate([[0.0], shares])))
    call(choose)(shares, growth, uniform, n)
    np.testing.assert_array_equal(shares, np.diff(begins))
    assert not growth.any()
