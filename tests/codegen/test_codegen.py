from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from scipy import stats

from smcpn import EKF0, InputError, Problem, Record
from smcpn.codegen import kernel, threads
from smcpn.codegen.emit import kernel_code
from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.lower import LaneProgram, Level, Literal, Statement, Value, Vector, lower
from smcpn.codegen.machine_code import FUNCTIONS, INSTRUCTIONS
from smcpn.datasets.models import duffing
from smcpn.likelihood.classical import runge_kutta_program
from smcpn.likelihood.lanes import SampleSymbols
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.expression import instructions
from smcpn.model.signal import Signal
from tests.models import predator_prey_problem

A, B = ca.SX.sym("a"), ca.SX.sym("b")
EXPRESSIONS = {
    "arithmetic": A * B - A / B + 2 * A - (-B) + A**2 + 1 / A,
    "powers": ca.sqrt(ca.fabs(A)) + ca.fabs(A) ** 2.5 + ca.fabs(A) ** B,
    "exponentials": ca.exp(-A) + ca.log(ca.fabs(B)) + ca.log1p(ca.fabs(A)) + ca.expm1(B),
    "circular": ca.sin(A) + ca.cos(B) + ca.tan(A) + ca.atan(B) + ca.atan2(A, B),
    "inverse circular": ca.asin(A / 4) + ca.acos(B / 4),
    "hyperbolic": ca.sinh(A) + ca.cosh(B) + ca.tanh(A),
    "inverse hyperbolic": ca.asinh(A) + ca.acosh(1 + ca.fabs(B)) + ca.atanh(A / 4),
    "rounding": ca.floor(A) + ca.ceil(B) + ca.fmod(A, 0.7) + ca.sign(A) + ca.copysign(A, B),
    "extrema": ca.fmax(A, B) + 3 * ca.fmin(A, B) + ca.fabs(A - B),
    "comparisons": (A < B) + 2 * (A <= B) + 4 * (A == B) + 8 * (A != B) + 16 * ca.logic_not(A < 0),
    "logic": ca.logic_and(A > 0, B > 0) + 2 * ca.logic_or(A > 0, B > 0),
    "choice": ca.if_else(A > B, A, B * 3),
    "special": ca.erf(A) + ca.hypot(A, B),
}


def emit(expression: ca.SX, theta: np.ndarray, shared: np.ndarray, threads: int = 1) -> np.ndarray:
    """Emit ``expression`` of a (per particle) and b (shared) once, for every particle."""
    nothing, state = ca.SX.sym("none", 0, 1), ca.SX.sym("state")
    program = LaneProgram(
        theta=A,
        state=state,
        start_row=nothing,
        step_row=nothing,
        gain_row=nothing,
        sample_row=B,
        start=ca.SX(0),
        step=state,
        emitted=expression,
    )
    lanes = LaneKernel(program, threads=threads)
    rows = Rows(np.empty(0), shared[:, None], 1)
    start = lanes.start(theta[None, :], rows)
    return lanes.advance(theta[None, :], start, rows, 0, 1, store=True)[1][0, 0]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_operation_computes_what_casadi_computes(name):
    theta = np.concatenate([np.random.default_rng(0).uniform(-3, 3, 97), [0.5, -0.5, 1.7]])
    expected = ca.Function("f", [A, B], [EXPRESSIONS[name]])(theta[None, :], 1.7)
    values = emit(EXPRESSIONS[name], theta, np.array([1.7]))
    np.testing.assert_allclose(values, np.array(expected)[0], rtol=5e-14, atol=1e-15)


def test_every_listed_operation_is_tested():
    graph = ca.Function("f", [A, B], list(EXPRESSIONS.values()))
    met = {instruction.operation for instruction in instructions(graph)}
    assert {*INSTRUCTIONS, *FUNCTIONS} <= met


def test_logarithm_over_the_range_of_doubles():
    x = np.exp(np.random.default_rng(1).uniform(-700, 700, 5000))
    near_one = 1 + np.linspace(-1e-3, 1e-3, 501)
    x = np.concatenate([x, near_one[near_one != 1]])
    np.testing.assert_allclose(emit(ca.log(A), x, np.zeros(1)), np.log(x), rtol=1e-15)


def test_logarithm_of_what_has_none():
    values = emit(ca.log(A), np.array([0.0, -1.0, np.inf, np.nan, 1.0]), np.zeros(1))
    np.testing.assert_array_equal(values, [-np.inf, np.nan, np.inf, np.nan, 0.0])


@pytest.mark.parametrize("expression", [ca.fmax(A, B), ca.fmin(A, B), ca.sign(A), ca.fmax(B, A)])
def test_nan_passes_through(expression):
    assert np.isnan(emit(expression, np.array([np.nan]), np.zeros(1))).all()


def test_unsupported_operation_is_named():
    with pytest.raises(InputError, match="operation erfinv"):
        emit(ca.erfinv(A), np.zeros(1), np.zeros(1))


def test_what_depends_on_parameters_only_leaves_the_loop():
    state = ca.SX.sym("m")
    statements = lower(
        state / (A * A),
        [Vector(A, "p", Level.PARTICLE), Vector(state, "m", Level.LANE)],
        "a",
    )
    assert [s.operation for s in statements.by_level[Level.PARTICLE]] == ["sq", "inv"]
    p, m = Value("p", 0, Level.PARTICLE), Value("m", 0, Level.LANE)
    square, inverse, quotient = (Value("a", k, Level.LANE) for k in range(3))
    assert statements.by_level[Level.PARTICLE][0] == Statement(square, "sq", (p,))
    assert statements.by_level[Level.LANE] == [Statement(quotient, "mul", (m, inverse))]
    assert statements.outputs == [quotient]


def test_division_by_a_number_is_a_product_with_its_inverse():
    statements = lower(A / 3.0, [Vector(A, "m", Level.LANE)], "a")
    (statement,) = statements.by_level[Level.LANE]
    assert statement.operation == "mul"
    assert Literal(1.0 / 3.0) in statement.operands


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_has_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(kernel, "INLINE_STEPS", 0)

    def work() -> None:
        theta = np.linspace(-3, 3, 1000)
        np.testing.assert_array_equal(emit(A + B, theta, np.ones(1), threads=2), theta + 1)

    work()
    assert threads.thread_pool.cache_info().currsize
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(timeout=60)
    if child.exitcode is None:
        child.kill()
    assert child.exitcode == 0


def test_another_number_is_not_another_kernel():
    """Noise, fixed parameters and initial values reach the kernel as arguments."""
    record = Record(u=np.ones(20), y=np.zeros(20), dt=0.1)
    kernels, logs = set(), set()
    for noise, k3, x0 in ((0.1, 0.5, 0.3), (0.2, 0.7, 0.4)):
        problem = Problem(
            duffing, record, observe="x", noise=noise, initial=[x0, 0.0],
            prior={"m": stats.lognorm(0.2), "c": 0.3, "k": 2.0, "k3": k3},
        )  # fmt: skip
        kernel = build_likelihood(problem, EKF0(steps=2))
        kernels.add(kernel_code(kernel._kernel.program).text)
        logs.add(float(kernel.evaluate(np.ones((1, 1)), 20)[1][0]))
    assert len(kernels) == 1
    assert len(logs) == 2


def test_rows_of_another_shape_are_refused():
    """Compiled code would read beyond them."""
    problem = Problem(
        duffing, Record(u=np.ones(20), y=np.zeros(20), dt=0.1), observe="x", noise=0.1,
        prior={"m": stats.lognorm(0.2), "c": 0.3, "k": 2.0, "k3": 0.5},
    )  # fmt: skip
    likelihood = build_likelihood(problem, EKF0(steps=2))
    with pytest.raises(ValueError, match="not of the program's shape"):
        likelihood.evaluate(np.ones((5, 2)), 20)
    kernel, rows, theta = likelihood._kernel, likelihood._rows[0], np.ones((1, 5))
    state = kernel.start(theta, rows)
    columns = kernel.columns(theta)
    for size in {0, 1, len(state) - 1, len(state) + 1}:
        other = np.ones((size, 5))
        with pytest.raises(ValueError, match="not of the program's shape"):
            kernel.advance(theta, other, rows, 0, 20, False)
        with pytest.raises(ValueError, match="not of the program's shape"):
            kernel.moments_at(columns, other, rows, 0)
    for wrong in (
        (columns[1:], state, rows, 0),
        (columns, state[:, 1:], rows, 0),
        (columns, state, rows, 20),
        (columns, state, rows, -1),
        (columns, state, replace(rows, samples=rows.samples[:, 1:]), 0),
    ):
        with pytest.raises(ValueError, match="not of the program's shape"):
            kernel.moments_at(*wrong)
    for first, last in ((0, 21), (-1, 5), (5, 4)):
        with pytest.raises(ValueError, match="not of the program's shape"):
            kernel.advance(theta, state, rows, first, last, False)
    # Type and order are those of the signature.
    for wrong in (state.astype(np.float32), np.asfortranarray(state).astype(int)):
        with pytest.raises(TypeError):
            kernel.advance(theta, wrong, rows, 0, 20, False)
    short = replace(rows, gains=rows.gains[:, :-1])
    with pytest.raises(ValueError, match="not of the program's shape"):
        likelihood._kernel.start(np.ones((1, 5)), short)


@pytest.mark.parametrize("name", ["start", "interval", "step"])
def test_a_state_of_another_size_is_refused(name):
    model = predator_prey_problem().model
    signal = Signal(model.u.numel(), model.outputs.numel())
    program = runge_kutta_program(model, signal, SampleSymbols.of(model), model.x)
    with pytest.raises(ValueError, match=f"{name} makes a state of 3 entries, and it has 2"):
        replace(program, **{name: ca.SX.zeros(3)})
