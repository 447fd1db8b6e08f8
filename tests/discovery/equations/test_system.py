"""`CandidateSystem`: known parts, constraints, scaling, and the equations that it makes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import smcpn
from smcpn.checkpoint import StoredProblem
from smcpn.checkpoint.codec import read_again
from smcpn.discovery.equations.system import CandidateSystem

POLYNOMIALS = smcpn.polynomials(2)


@smcpn.ode
def partial(x, v, u, *, m, c=0.1):
    return v, u / m - c * v


def rate_of(ode: smcpn.ODE, x: list[float], u: list[float], **values: float) -> np.ndarray:
    parameters = [{**ode.defaults, **values}.get(name, 0.0) for name in ode.parameters]
    return np.array(ode.rhs(x, u, 0.3, parameters)).ravel()


def test_a_known_chain_has_no_terms_and_stays_a_chain() -> None:
    library = POLYNOMIALS + smcpn.terms(np.sin, variables=["x"])
    system = CandidateSystem.of(library, ["x", "v"], known={"x": "v"})
    assert system.candidates.allowed.any(axis=1).tolist() == [False, True]
    assert system.coefficients[0] == "v'[1]"
    ode = system.equation()
    assert ode.chains == {"x": "v"}
    assert ode.parameters == system.coefficients
    found = rate_of(ode, [0.5, 2.0], [], **{"v'[sin(x)]": -8.91, "v'[v]": -0.2})
    np.testing.assert_allclose(found, [2.0, -8.91 * np.sin(0.5) - 0.4], rtol=1e-14)


def test_terms_are_added_to_a_partial_equation_with_parameters_of_its_own() -> None:
    system = CandidateSystem.of(smcpn.polynomials(3), known=partial)
    assert (system.candidates.states, system.candidates.inputs) == (("x", "v"), ("u",))
    support = np.isin(system.coefficients, ["v'[x]", "v'[x^3]"])
    ode = system.equation(support, {"v'[x]": -1.0})
    assert ode.parameters == ("m", "c", "v'[x]", "v'[x^3]")
    assert ode.defaults == {"c": 0.1, "v'[x]": -1.0}
    found = rate_of(ode, [2.0, 3.0], [4.0], m=2.0, **{"v'[x^3]": 0.5})
    np.testing.assert_allclose(found, [3.0, 4.0 / 2 - 0.3 - 2.0 + 4.0], rtol=1e-14)


def test_states_and_inputs_in_another_order_than_those_of_the_known_part() -> None:
    system = CandidateSystem.of(POLYNOMIALS, ["v", "x"], ["w", "u"], known=partial)
    ode = system.equation()
    found = rate_of(ode, [3.0, 2.0], [9.0, 4.0], m=2.0, **{"v'[w]": 1.0})
    np.testing.assert_allclose(found, [2.0 - 0.3 + 9.0, 3.0], rtol=1e-14)
    assert ode.chains == {"x": "v"}


def test_a_whole_equation_by_a_function() -> None:
    known = {"x": lambda v, t, *, a=2.0: a * v * np.cos(t)}
    ode = CandidateSystem.of(POLYNOMIALS, ["x", "v"], known=known).equation()
    assert ode.parameters[0] == "a"
    np.testing.assert_allclose(rate_of(ode, [1.0, 3.0], []), [6 * np.cos(0.3), 0.0], rtol=1e-14)


def test_libraries_of_single_equations_beside_a_partial_one() -> None:
    sine = smcpn.terms(np.sin, variables=["x"])
    system = CandidateSystem.of({"v": sine}, known=partial)
    assert system.coefficients == ("v'[sin(x)]",)
    both = CandidateSystem.of({"x": POLYNOMIALS, "v": sine}, ["x", "v"])
    assert both.coefficients[-2:] == ("x'[v^2]", "v'[sin(x)]")


def test_the_diffusion_of_a_known_part_stays() -> None:
    @smcpn.sde
    def noisy(x, v, *, q):
        return (v, -x), (0, q * x)

    system = CandidateSystem.of(POLYNOMIALS, ["v", "x"], known=noisy)
    ode, scaled = system.equation(), system.scaled(np.array([2.0, 4.0])).equation()
    assert ode.diffusion is not None
    assert scaled.diffusion is not None
    parameters = [3.0, *[0.0] * (len(ode.parameters) - 1)]
    assert np.array(ode.diffusion([1.0, 2.0], [], 0.0, parameters)).ravel().tolist() == [6.0, 0.0]
    assert np.array(scaled.diffusion([0.5, 0.5], [], 0.0, parameters)).ravel().tolist() == [3, 0]


def test_equal_coefficients_signs_and_given_ones() -> None:
    constraints = ["x'[x] = -x'[y]", "2 y'[y] < 0", "y'[x y] = -1.5", "y'[x]=3*x'[y] + 1"]
    system = CandidateSystem.of(POLYNOMIALS, ["x", "y"], constraints=constraints)
    names = system.coefficients
    assert len(names) == 12 - 3
    signs = dict(zip(names, system.freedom.signs.tolist(), strict=True))
    assert signs.pop("y'[y]") == -1
    assert not any(signs.values())
    free = np.random.default_rng(0).normal(size=(5, len(names)))
    theta = system.matrix(free)
    place = {name: k for k, name in enumerate(system.candidates.names)}
    np.testing.assert_allclose(theta[:, 0, place["x"]], -theta[:, 0, place["y"]])
    np.testing.assert_allclose(theta[:, 1, place["x"]], 3 * theta[:, 0, place["y"]] + 1)
    np.testing.assert_allclose(theta[:, 1, place["x y"]], -1.5)
    assert (system.free(theta) == free).all()
    values = dict(zip(names, free[0], strict=True))
    found = rate_of(system.equation(), [0.4, -2.0], [], **values)
    terms = system.candidates.values(np.array([[0.4, -2.0]]))[0]
    np.testing.assert_allclose(found, theta[0] @ terms, rtol=1e-13)


@given(seed=st.integers(0, 10_000), rows=st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_what_constraints_leave_free_is_their_null_space(seed: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"{state}'[{term}]" for state in "xy" for term in ("1", "x", "y")]
    C = rng.integers(-2, 3, size=(rows, 6))
    d = C @ rng.integers(-3, 4, size=6)
    texts = [
        " + ".join(f"{w} * {name}" for w, name in zip(row, names, strict=True)) + f" = {value}"
        for row, value in zip(C, d, strict=True)
    ]
    texts = [text.replace("+ -", "- ") for text in texts]
    freedom = CandidateSystem.of(smcpn.polynomials(1), ["x", "y"], constraints=texts).freedom
    basis = freedom.basis.toarray()
    assert basis.shape == (6, 6 - np.linalg.matrix_rank(C))
    np.testing.assert_allclose(C @ basis, 0, atol=1e-9)
    np.testing.assert_allclose(C @ freedom.offset, d, atol=1e-9)


def test_a_conserved_sum_is_conserved_whatever_the_coefficients() -> None:
    system = CandidateSystem.of(
        POLYNOMIALS, ["s", "i", "r"], ["u"], constraints=["s' + i' + 2 r' = 0", "i'[i] < 0"]
    )
    assert len(system.coefficients) == 2 * 15
    ode, rng = system.equation(), np.random.default_rng(1)
    free = rng.normal(size=30)
    rate = np.array(ode.rhs(rng.normal(size=3), rng.normal(size=1), 0.0, free)).ravel()
    assert rate @ [1, 1, 2] == pytest.approx(0.0, abs=1e-12)
    assert system.freedom.signs[system.coefficients.index("i'[i]")] == -1


def test_a_sign_is_carried_to_the_coefficient_that_stays_free() -> None:
    constraints = ["x'[x] = -2 y'[y]", "x'[x] < 0", "y'[y] >= 0"]
    system = CandidateSystem.of(POLYNOMIALS, ["x", "y"], constraints=constraints)
    (sign,) = [s for s in system.freedom.signs if s]
    (name,) = [n for n, s in zip(system.coefficients, system.freedom.signs, strict=True) if s]
    assert (name, sign) in {("y'[y]", 1), ("x'[x]", -1)}


def test_the_scaled_system_is_the_same_in_other_units() -> None:
    scale, input_scale = np.array([3.0, 0.2]), np.array([5.0])
    library = smcpn.polynomials(3) + smcpn.terms(np.sin)
    system = CandidateSystem.of(
        library, known=partial, constraints=["v'[x] = 2 v'[x^3] - 1", "v'[1] = 4"]
    )
    rng = np.random.default_rng(2)
    x, u, free = rng.normal(size=2), rng.normal(size=1), rng.normal(size=len(system.coefficients))
    parameters = np.concatenate([[2.0, 0.1], free])
    physical = np.array(system.equation().rhs(x, u, 0.0, parameters)).ravel()
    scaled = system.scaled(scale, input_scale)
    found = np.array(scaled.equation().rhs(x / scale, u / input_scale, 0.0, parameters)).ravel()
    np.testing.assert_allclose(found * scale, physical, rtol=1e-12)


def test_columns_are_the_derivative_by_the_free_coefficients() -> None:
    system = CandidateSystem.of(POLYNOMIALS, ["x", "y"], constraints=["x' + y' = 0"])
    x, u, t = ca.SX.sym("x", 2), ca.SX.sym("u", 0), ca.SX.sym("t")
    phi = ca.SX.sym("phi", len(system.coefficients))
    columns, given = system.columns(x, u, t)
    rate = system.rate(x, u, t, ca.SX(0, 1), phi)
    both = ca.Function("both", [x], [ca.jacobian(rate, phi), columns, given])
    expected, found, offset = (np.array(one) for one in both([0.3, 0.8]))
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert not offset.any()


def test_likelihoods_take_the_equation_and_a_mask_is_zeros() -> None:
    """The log-likelihood of a support is that of the whole equation with zeros elsewhere."""
    system = CandidateSystem.of(POLYNOMIALS, ["x", "v"], known={"x": "v"})
    truth = {"v'[x]": -4.0, "v'[v]": -0.3}
    support = np.isin(system.coefficients, list(truth))
    small, whole = system.equation(support), system.equation()
    grid = smcpn.Record(u=np.zeros((40, 0)), dt=0.1)
    y = smcpn.simulate(small, grid, truth, observe="x", initial=[1.0, 0.0])
    record = smcpn.Record(y=y, dt=0.1)

    def log_likelihood(ode: smcpn.ODE, values: dict[str, float]) -> float:
        problem = smcpn.Problem(
            ode, record, observe="x", noise=0.05, initial=[1.0, 0.0],
            prior={name: stats.norm(0, 10) for name in ode.parameters},
        )  # fmt: skip
        point = np.array([[values.get(name, 0.0) for name in problem.names]])
        return smcpn.LogLikelihood(problem, solver=smcpn.RK4(steps=2))(point).item()

    found = log_likelihood(small, truth)
    assert log_likelihood(whole, truth) == pytest.approx(found, rel=1e-10)
    assert found > log_likelihood(small, truth | {"v'[x]": -4.2}) + 1


def test_a_problem_of_the_equation_is_stored_and_restored() -> None:
    ode = CandidateSystem.of(POLYNOMIALS, ["x", "v"], known={"x": "v"}).equation()
    record = smcpn.Record(y=np.arange(5.0), dt=0.1)
    prior = {name: stats.norm(0, 10) for name in ode.parameters}
    problem = smcpn.Problem(ode, record, observe="x", noise=0.05, prior=prior)
    again = read_again(StoredProblem.of(problem)).restored(problem.records)
    assert again.names == problem.names == ode.parameters


def test_a_system_is_pickled() -> None:
    system = CandidateSystem.of(POLYNOMIALS, ["x", "v"], known={"x": "v"}, constraints=["v'[1]=2"])
    again = pickle.loads(pickle.dumps(system))
    parameters = np.arange(5.0)
    both = [np.array(s.equation().rhs([1.0, 2.0], [], 0.0, parameters)) for s in (system, again)]
    assert (both[0] == both[1]).all()


def made(**changes: Any) -> CandidateSystem:
    arguments = {"library": POLYNOMIALS, "states": ["x", "v"]} | changes
    return CandidateSystem.of(**arguments)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: CandidateSystem.of(POLYNOMIALS), "states is missing"),
        (lambda: made(known=3), "known is 3"),
        (lambda: made(known={"w": "v"}), "known names 'w'"),
        (lambda: made(known={"x": "w"}), "known['x'] names 'w'"),
        (lambda: made(known={"x": 3}), "known['x'] is 3"),
        (lambda: made(known={"x": lambda v, *, x: v * x}), "parameter 'x', which is a state"),
        (
            lambda: made(known={"x": lambda v, *, a=1: a * v, "v": lambda v, *, a=2: a * v}),
            "defaults 1 and 2",
        ),
        (lambda: made(known={"x": lambda v: (v, v)}), "returns 2 values"),
        (lambda: made(known=partial, inputs=["w"]), "inputs u, but the system has x, v and w"),
        (lambda: made(known={"x": "v", "v": lambda x: -x}), "leaves no equation"),
        (lambda: made(library={"x": POLYNOMIALS}, known={"x": "v"}), "terms for 'x'"),
        (lambda: made(library={"x": POLYNOMIALS}), "no terms for 'v'"),
        (lambda: made(constraints="x'[x] < 0"), 'constraints is "x\'[x] < 0"'),
        (lambda: made(constraints=["x'[w] < 0"]), "the term 'w'"),
        (lambda: made(constraints=["w'[x] < 0"]), "'w', which is no state"),
        (lambda: made(constraints=["x'[x] < 1"]), "is no sign of one coefficient"),
        (lambda: made(constraints=["x' + v' < 0"]), "is no sign of one coefficient"),
        (lambda: made(constraints=["x'[x] < 0", "x'[x] > 0"]), "contradicts another"),
        (lambda: made(constraints=["x'[x] = 1", "x'[x] = 2"]), "contradict one another"),
        (lambda: made(constraints=["x'[x] = 1", "x'[x] < 0"]), "cannot hold"),
        (lambda: made(constraints=["x' + v'[x] = 0"]), "mixes equations"),
        (lambda: made(constraints=["x'[x] ="]), "cannot be read"),
        (lambda: made(constraints=["x'[x] + = 0"]), "cannot be read"),
        (lambda: made(constraints=["x'[x] x'[v] = 0"]), "cannot be read"),
        (lambda: made(constraints=["x'[x] = 0 = 1"]), "cannot be read"),
        (lambda: made(constraints=["3 * + x'[x] = 0"]), "cannot be read"),
        (lambda: made(constraints=["3 * = x'[x]"]), "cannot be read"),
        (lambda: made(constraints=["1e999 x'[x] = 0"]), "cannot be read"),
        (lambda: made(constraints=["0 x'[x] < 0"]), "is no sign of one"),
        (lambda: made(constraints=["1 = 0"]), "cannot be read"),
        (lambda: made(constraints=["import os"]), "cannot be read"),
        (lambda: made(known={"x": "v"}, constraints=["x'[x] < 0"]), "it is not allowed"),
        (lambda: made(known={"x": "v"}, constraints=["x' + v' = 0"]), "the known part"),
        (lambda: made().equation([True]), "support is [True]"),
        (lambda: made().equation(values={"x'[w]": 1.0}), "values name"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_sentence(
    make: Callable[[], object], sentence: str
) -> None:
    with pytest.raises(smcpn.InputError) as caught:
        make()
    assert sentence in str(caught.value)
