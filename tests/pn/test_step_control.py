"""Step control: the equations in numpy, as numbers, as CasADi expressions, and compiled."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from numpy.typing import NDArray

from smcpn.codegen.routine import routine
from smcpn.pn import step_control

ERRORS = np.array([0.0, 1e-12, 1e-3, 0.4, 0.9**5, 0.99, 1.0, 7.0, 1e4, 1e300, np.inf, np.nan])
BEFORE = np.array([0.0, 1e-4, 0.3, 0.0, 0.9**5, 0.1, 0.5, 0.2, 0.3, 0.1, 0.7, 0.2])
ORDER = 5
LENGTHS = [(1.0, 5.0, 1.0), (3.0, 5.0, 2.5), (5.0, 5.0, 5.0), (7.0, 5.0, 5.0)]
LENGTHS.append((5.0 * (1 - 1e-11), 5.0, 5.0))
"""Steps that are wanted, what is left to a stop, and steps to take."""


def proportional(error: np.ndarray) -> np.ndarray:
    """Equation (30) with its limits."""
    with np.errstate(divide="ignore"):
        ratio = np.clip(0.9 * error ** (-1 / ORDER), 0.2, 10.0)
    return np.where(np.isnan(error), 0.2, ratio)


def proportional_integral(error: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Gustafsson's, with .7 and .4; without the second factor where ``before`` is zero."""
    aim = 0.9**ORDER
    memory = np.where(before > 0.0, (before / aim) ** (0.4 / ORDER), 1.0)
    with np.errstate(divide="ignore"):
        return np.clip((aim / error) ** (0.7 / ORDER) * memory, 0.2, 10.0)


def written(values: NDArray[np.float64], result: NDArray[np.float64]):
    """Fill rows with the factors at rows of errors, and with the lengths, in compiled code."""
    for k in range(len(values)):
        error, before = values[k, 0], values[k, 1]
        result[k, 0] = step_control.factor(error, ORDER)
        result[k, 1] = step_control.factor_with_memory(error, before, ORDER, 0.7, 0.4)
        result[k, 2] = step_control.length(values[k, 2], values[k, 3])


def expressions() -> ca.Function:
    """The same as `written`, of one row, as a graph."""
    row = ca.SX.sym("row", 4)
    error, before, wanted, remaining = ca.vertsplit(row)
    outputs = (
        step_control.factor(error, ORDER),
        step_control.factor_with_memory(error, before, ORDER, 0.7, 0.4),
        step_control.length(wanted, remaining),
    )
    return ca.Function("f", [row], [ca.vertcat(*outputs)])


def test_numbers_graphs_and_compiled_code_have_the_values_of_the_equations():
    lengths = np.resize(LENGTHS, (len(ERRORS), 3))
    rows = np.column_stack([ERRORS, BEFORE, lengths[:, :2]])
    expected = np.column_stack(
        [proportional(ERRORS), proportional_integral(ERRORS, BEFORE), lengths[:, 2]]
    )
    expected[-1, 1] = np.nan  # an error of NaN is never accepted
    numbers = [
        [
            float(step_control.factor(error, ORDER)),
            float(step_control.factor_with_memory(error, before, ORDER, 0.7, 0.4)),
            float(step_control.length(wanted, remaining)),
        ]
        for error, before, wanted, remaining in rows.tolist()
    ]
    compiled = np.empty_like(expected)
    routine(written)(rows, compiled)
    graph = np.array(expressions().map(len(rows))(rows.T)).T
    for found in (np.array(numbers), compiled, graph):
        np.testing.assert_allclose(found[:-1], expected[:-1], rtol=1e-14)
        np.testing.assert_allclose(found[-1, ::2], expected[-1, ::2], rtol=1e-14)


def test_a_step_cut_short_by_a_stop_does_not_shorten_the_one_after_it():
    assert step_control.wanted_next(0.3, 2.0, True) == 2.0
    assert step_control.wanted_next(0.3, 2.0, False) == 0.3


@pytest.mark.parametrize(("h", "moves"), [(1e-13, True), (1e-17, False), (0.0, False)])
def test_a_step_below_the_resolution_of_its_clock_does_not_move_it(h: float, moves: bool):
    assert step_control.moves(1.0, h) == moves
