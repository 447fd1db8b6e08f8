"""The noise's Gaussian over a step, against the matrix exponential of Van Loan (1978)."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.linalg import expm

import smcpn
from smcpn.likelihood.transition import step_factor
from smcpn.model.ode import ODE
from smcpn.model.problem import Problem
from tests.reference.van_loan import van_loan

EPS = np.finfo(float).eps


def linear_problem(A: np.ndarray, G: np.ndarray) -> Problem:
    """dx = A x dt + G dW with the scale of G a parameter."""
    n = len(A)
    x, u, t, scale = ca.SX.sym("x", n), ca.SX(0, 1), ca.SX.sym("t"), ca.SX.sym("scale")
    arguments = [x, u, t, scale]
    names = tuple(f"x{i}" for i in range(n))
    rhs = ca.Function("rhs", arguments, [ca.densify(ca.sparsify(ca.SX(A)) @ x)])
    diffusion = ca.Function("diffusion", arguments, [ca.densify(scale * ca.SX(G))])
    ode = ODE("linear", names, (), ("scale",), {}, rhs, {}, diffusion=diffusion)
    record = smcpn.Record(y=np.zeros(3), dt=0.1)
    prior = {"scale": stats.lognorm(1.0)}
    return Problem(ode, record, observe="x0", noise=0.1, prior=prior)


def matrices(A: np.ndarray, G: np.ndarray, h: float, scale: float = 1.0) -> tuple[np.ndarray, ...]:
    """L and Q = L L' of a linear system."""
    model, step = linear_problem(A, G).model, ca.SX.sym("h")
    graph = ca.densify(step_factor(model, step))
    factor = np.array(ca.Function("step", [step, model.theta], [graph])(h, scale))
    return factor, factor @ factor.T


CHAINS = {
    "x' = v": (np.diag([1.0], 1), np.array([[0.0], [0.7]])),
    "three": (np.diag([1.0, 1.0], 1), np.array([[0.0], [0.0], [0.7]])),
    "four, noise on two": (np.diag([1.0, 2.0, -1.0], 1), np.eye(4)[:, [1, 3]]),
    "no dynamics": (np.zeros((2, 2)), np.array([[1.0, 0.0], [0.5, 2.0]])),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("h", [1e-3, 0.3, 2.0])
def test_the_noise_of_a_chain_of_integrators_is_exact(name: str, h: float) -> None:
    A, G = CHAINS[name]
    L, Q = matrices(A, G, h, scale=0.3)
    exact = van_loan(A, 0.3 * G, h)
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact))) + (np.diag(exact) == 0)
    assert np.abs((Q - exact) / scale).max() < 1e-12
    assert L.shape[1] == np.linalg.matrix_rank(Q / scale)


LINEAR = {
    "Ornstein-Uhlenbeck": (np.array([[-1.0]]), np.array([[1.0]])),
    "oscillator": (np.array([[0.0, 1.0], [-2.0, -0.5]]), np.array([[0.0], [1.0]])),
    "two tanks": (np.array([[-1.0, 0.0], [1.0, -0.6]]), np.eye(2)),
    "third order": (np.diag([1.0, 1.0], 1) - np.diag([0, 0, 0.5]), np.array([[0], [0], [1.0]])),
}


@pytest.mark.parametrize("name", LINEAR)
def test_the_error_of_the_covariance_falls_with_the_fifth_power_of_the_step(name: str) -> None:
    A, G = LINEAR[name]
    errors = [np.abs(matrices(A, G, h)[1] - van_loan(A, G, h)).max() for h in (0.1, 0.05)]
    # 5 in the limit; 4.9 to 5.0 here.
    assert np.log2(errors[0] / errors[1]) > 4.8


def test_the_covariance_after_a_second_is_of_fourth_order() -> None:
    A, G = LINEAR["oscillator"]

    def after(h: float) -> np.ndarray:
        Q, P, F = matrices(A, G, h)[1], np.zeros((2, 2)), expm(A * h)
        for _ in range(round(1 / h)):
            P = F @ P @ F.T + Q
        return P

    exact = van_loan(A, G, 1.0)
    errors = [np.abs(after(h) - exact).max() for h in (0.1, 0.05)]
    assert 3.8 < np.log2(errors[0] / errors[1]) < 4.4
    assert errors[1] < 1e-7


systems = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from([0.0, 0.0, 1.0, -0.5, 2.0]), min_size=n * n, max_size=n * n),
        st.lists(st.sampled_from([0.0, 1.0, -0.3]), min_size=2 * n, max_size=2 * n),
    )
)


def test_states_with_the_same_noise_have_no_direction_by_rounding() -> None:
    A = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    G = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    for scale in (1.0, 1.5, 2.0):
        L = matrices(A, G, 0.015625, scale)[0]
        assert L[1, 1] == 0.0
        assert L[2, 1] == 0.0
        np.testing.assert_allclose(L, scale * matrices(A, G, 0.015625)[0], rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(systems, st.floats(1e-4, 0.02), st.floats(0.1, 10.0))
def test_of_any_system(system: tuple[list[float], list[float]], h: float, scale: float) -> None:
    """Q is that of the matrix exponential, k is at most n, and L is in proportion to the noise."""
    A, G = (np.array(part) for part in system)
    n = round(len(A) ** 0.5)
    A, G = A.reshape(n, n), G.reshape(n, 2)
    if not G.any():
        G[-1, 0] = 1.0
    L, Q = matrices(A, G, h)
    exact = van_loan(A, G, h)
    assert L.shape[1] <= n
    # The first terms left out are (A h)^4 / 5! and (A h)^4 / 720 of Q.
    error = (np.linalg.norm(A, 2) * h) ** 4 / 50 + 1e-12
    assert np.abs(Q - exact).max() <= error * np.linalg.norm(exact, 2)
    assert np.allclose(matrices(A, G, h, scale)[0], scale * L, rtol=1e-10, atol=1e-12 * scale)


def test_a_state_without_noise_at_some_parameter_has_none() -> None:
    """Where a standard deviation is 0 the factor is finite, with a row of zeros."""
    problem = duffing_problem({"x": "p", "v": "q"}, p=stats.lognorm(1.0), q=stats.lognorm(1.0))
    model, h = problem.model, ca.SX.sym("h")
    L = ca.Function("L", [h, model.theta], [step_factor(model.with_numbers(), h)])
    c, nothing = 0.4, np.array(L(0.1, [0.4, 0.0, 0.0]))
    assert np.array_equal(nothing, np.zeros((2, 2)))
    only = np.array(L(0.1, [c, 0.3, 0.0]))
    assert np.allclose(only @ only.T, np.diag([0.009, 0.0]), atol=1e-15)


@smcpn.ode
def duffing(x, v, u, *, c, k):
    return v, u - c * v - k * x**3


RECORD = smcpn.Record(u=np.zeros(4), y=np.zeros(4), dt=0.1)


def duffing_problem(process_noise: object, ode: ODE = duffing, **prior: object) -> Problem:
    priors = {"c": stats.lognorm(1.0), "k": 1.0} | prior
    return Problem(ode, RECORD, observe="x", noise=0.1, prior=priors, process_noise=process_noise)


def test_what_the_state_changes_is_left_out_of_the_jacobian() -> None:
    model = duffing_problem({"v": "q"}, q=stats.lognorm(1.0)).model
    h = ca.SX.sym("h")
    factor = step_factor(model, h)
    assert model.process_noise is not None
    assert model.process_noise.additive
    assert not ca.depends_on(factor, model.x)
    c, q, step = 0.4, 0.7, 0.05
    L = np.array(ca.Function("L", [h, model.theta], [factor])(step, [c, q]))
    linear = van_loan(np.array([[0.0, 1.0], [0.0, -c]]), np.array([[0.0], [q]]), step)
    assert np.allclose(L @ L.T, linear, rtol=1e-4)


def test_correlated_noise_of_two_states() -> None:
    noise = {"x": 0.5, "v": "q", ("v", "x"): "rho"}
    problem = duffing_problem(noise, q=stats.lognorm(1.0), rho=stats.uniform(-1, 2))
    model = problem.model.with_numbers()
    assert problem.process_noise == {"x": 0.5, "v": "q", "v,x": "rho"}
    assert model.process_noise is not None
    G = np.array(
        ca.Function("G", [model.theta], [ca.densify(model.process_noise.columns)])([0.4, 2.0, -0.6])
    )
    assert np.allclose(G @ G.T, [[0.25, -0.6], [-0.6, 4.0]])


def test_where_it_is_taken_can_be_said() -> None:
    @smcpn.sde
    def driven(x, u, t, *, q):
        return -t * x, q * u * np.sqrt(1 + x**2)

    record = smcpn.Record(u=np.ones(3), y=np.zeros(3), dt=0.1)
    problem = Problem(driven, record, observe="x", noise=0.1, prior={"q": stats.lognorm(1.0)})
    model, h = problem.model, ca.SX.sym("h")
    assert model.process_noise is not None
    assert not model.process_noise.additive
    taken = {"x": ca.SX(2.0), "u": ca.SX(3.0), "t": ca.SX(0.5)}
    L = ca.Function("L", [h, model.theta], [step_factor(model, h, **taken)])(0.01, 0.7)
    rate = 0.7 * 3.0 * np.sqrt(5.0)
    exact = rate**2 * (1 - np.exp(-2 * 0.5 * 0.01)) / (2 * 0.5)
    assert float(L) ** 2 == pytest.approx(exact, rel=1e-7)


BAD = [
    ({"w": 1.0}, "process_noise names 'w', which is no state of model 'duffing' (x, v)"),
    ({"v": -1.0}, "process noise of 'v' is -1.0: give a positive number"),
    ({"v": 0}, "process noise of 'v' is 0: give a positive number"),
    ({"v": float("nan")}, "process noise of 'v' is nan: give a positive number"),
    ({"v": "r"}, "parameter 'r' has no prior"),
    ({"v": "k", "x": "zero"}, "'zero' is fixed to 0"),
    ({"v": "any"}, "the prior of 'any' reaches from -inf to inf, but it is positive"),
    ({}, "process_noise is {}: give a dict"),
    ("v", "process_noise is 'v': give a dict"),
    ({("x", "v"): 0.5, "x": 1.0}, "gives 'v' no noise of its own"),
    ({"x": 1.0, "v": 1.0, ("x", "v"): 1.0}, "is 1.0: give a number between -1 and 1"),
    ({"x": 1.0, "v": 1.0, ("x", "v"): "wide"}, "a correlation is between -1 and 1"),
    ({"x": 1.0, "v": 1.0, ("x", "x"): 0.1}, "name two states in a tuple"),
    ({"x": 1.0, "v": 1.0, ("x", "v"): 0.1, ("v", "x"): 0.1}, "twice"),
]  # fmt: skip


@pytest.mark.parametrize(("noise", "message"), BAD, ids=[message for _, message in BAD])
def test_what_does_not_fit_is_one_sentence(noise: object, message: str) -> None:
    unused = {"zero": 0.0, "any": stats.norm(), "wide": stats.lognorm(1.0)}
    with pytest.raises(smcpn.InputError) as caught:
        duffing_problem(noise, **unused)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_disturbed_has_no_derivative_to_observe() -> None:
    arguments = {"noise": 1.0, "prior": {"c": stats.lognorm(1.0), "k": 1.0}}
    noise = {"process_noise": {"v": 0.1}}
    Problem(duffing, RECORD, observe="x'", **arguments, **noise)
    with pytest.raises(smcpn.InputError, match="'v' has process noise and so no derivative"):
        Problem(duffing, RECORD, observe="v'", **arguments, **noise)
    with pytest.raises(smcpn.InputError, match="'v' has process noise and so no derivative"):
        Problem(duffing, RECORD, observe="x", **arguments, **noise).model_observing("v'")


def test_correlations_that_cannot_be_together() -> None:
    @smcpn.ode
    def three(a, b, c, *, k):
        return -k * a, -b, -c

    noise = {"a": 1, "b": 1, "c": 1, ("a", "b"): 0.9, ("b", "c"): 0.9, ("a", "c"): -0.9}
    record = smcpn.Record(y=np.zeros(3), dt=0.1)
    with pytest.raises(smcpn.InputError, match="no Wiener processes have together"):
        Problem(
            three, record, observe="a", noise=1, prior={"k": stats.lognorm(1)}, process_noise=noise
        )


def test_likelihoods_without_process_noise_say_so() -> None:
    problem = duffing_problem({"v": 0.1})
    for likelihood in ("marginal", "classical", "filtering"):
        with pytest.raises(smcpn.InputError, match=f"the {likelihood} likelihood takes no process"):
            smcpn.identify(problem, likelihood=likelihood, particles=64, progress=False)
