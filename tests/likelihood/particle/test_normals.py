"""Counter-based normals: known answers, the same as in numpy, and their law."""

import ctypes

import numpy as np
import pytest
from llvmlite import ir
from reference.particle_filter import normals, philox
from scipy import stats

from smcpn.codegen.loops import FAST, INTEGER, Function
from smcpn.codegen.native import code
from smcpn.codegen.terms import DOUBLE
from smcpn.likelihood.particle.normals import write_normals

KEY = 0x9E3779B97F4A7C15


@pytest.fixture(scope="module")
def compiled():
    """Fill an array (2, lanes) for a key and a step."""
    arguments = {"target": DOUBLE.as_pointer()} | dict.fromkeys(("lanes", "key", "step"), INTEGER)

    def write(module: ir.Module) -> None:
        made = Function(module, "fill", arguments)
        write_normals(made, made["target"], made["lanes"], made["key"], made["step"], 2)
        made.finish(FAST)

    fill = code("test of normals", write).function("fill", 4)

    def call(key: int, step: int, lanes: int) -> np.ndarray:
        array = np.empty((2, lanes))
        fill(array.ctypes.data, lanes, ctypes.c_int64(key).value, step)
        return array

    return call


def test_words_are_those_of_random123():
    # kat_vectors of Random123 1.14.
    assert [int(w) for w in philox((0, 0, 0, 0), 0)] == [
        0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48,
    ]  # fmt: skip
    assert [int(w) for w in philox((2**32 - 1,) * 4, 2**64 - 1)] == [
        0x5207DDC2, 0x45165E59, 0x4D8EE751, 0x8C52F662,
    ]  # fmt: skip


def test_compiled_as_in_numpy(compiled):
    for step in (0, 7, 2**31 + 5):
        np.testing.assert_allclose(
            compiled(KEY, step, 96), normals(KEY, step, 2, 96), rtol=1e-13, atol=1e-14
        )


def test_lanes_do_not_change_each_other(compiled):
    np.testing.assert_array_equal(compiled(KEY, 3, 64), compiled(KEY, 3, 256)[:, :64])


def test_law(compiled):
    z = np.concatenate([compiled(KEY + key, step, 4096) for key in range(8) for step in range(4)])
    z = z.reshape(-1, 2, 4096)
    flat = z.ravel()
    # Standard errors of 2.6e5 numbers; four of them.
    n = len(flat)
    for power, expected, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((flat**power).mean() - expected) < 4 * np.sqrt(spread / n)
    assert stats.kstest(flat, "norm").pvalue > 1e-4
    # Neighbours that share a block of the generator, and noises of one lane, are independent.
    for shift in (1, 8, 16, 24):
        pairs = (z[:, :, shift:] * z[:, :, :-shift]).ravel()
        assert abs(pairs.mean()) < 4 / np.sqrt(len(pairs))
        squares = ((z[:, :, shift:] ** 2 - 1) * (z[:, :, :-shift] ** 2 - 1)).ravel()
        assert abs(squares.mean()) < 4 * 2 / np.sqrt(len(squares))
    assert abs((z[:, 0] * z[:, 1]).mean()) < 4 / np.sqrt(n / 2)
