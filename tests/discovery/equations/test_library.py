"""`smcpn.polynomials`, `fourier`, `terms`: names, order, degrees, and the values of the graphs."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smcpn
from smcpn.discovery.equations.library import candidates_of

X = np.array([[0.3, -1.2], [2.0, 0.7], [-0.4, 1.5]])
U = np.array([[0.5], [-1.0], [2.0]])
x, v, u = X[:, 0], X[:, 1], U[:, 0]


def drag(x, v):
    return v * abs(x - v)


def test_polynomials_are_ordered_by_degree_as_the_tables_of_the_field() -> None:
    found = smcpn.polynomials(degree=3).candidates(["x", "y"])
    assert found.names == (
        "1", "x", "y", "x^2", "x y", "y^2", "x^3", "x^2 y", "x y^2", "y^3",
    )  # fmt: skip
    assert found.degrees == (0, 1, 1, 2, 2, 2, 3, 3, 3, 3)
    assert found.allowed.shape == (2, 10)
    assert found.allowed.all()


@given(n=st.integers(1, 3), m=st.integers(0, 2), degree=st.integers(0, 4), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_monomials_are_their_names(n: int, m: int, degree: int, seed: int) -> None:
    """Each name, read as Python, gives the value of the graph; there is one of each."""
    states, inputs = [f"x{i}" for i in range(n)], [f"u{i}" for i in range(m)]
    found = smcpn.polynomials(degree).candidates(states, inputs)
    assert len(found.names) == math.comb(n + m + degree, degree) == len(set(found.names))
    point = np.random.default_rng(seed).normal(size=(4, n + m))
    values = found.values(point[:, :n], point[:, n:])
    variables = dict(zip([*states, *inputs], point.T, strict=True))
    for name, column in zip(found.names, values.T, strict=True):
        expected = eval(name.replace(" ", "*").replace("^", "**"), {}, variables)
        np.testing.assert_allclose(column, np.broadcast_to(expected, 4), rtol=1e-13)


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        (smcpn.terms(np.sin), {"sin(x)": np.sin(x), "sin(v)": np.sin(v), "sin(u)": np.sin(u)}),
        (smcpn.terms(drag), {"drag(x, v)": v * abs(x - v)}),
        (smcpn.terms(np.abs, variables=["v"]), {"abs(v)": abs(v)}),
        (smcpn.terms(pull=lambda t, u: u * np.cos(t)), {"pull(t, u)": u * np.cos(0.25)}),
        (smcpn.terms(day=lambda t: np.cos(t)), {"day(t)": np.full(3, np.cos(0.25))}),
        (smcpn.terms(ca.tanh, variables=["x"]), {"tanh(x)": np.tanh(x)}),
        (
            smcpn.fourier(2, frequency=0.5, variables=["x"]),
            {
                "sin(0.5 x)": np.sin(x / 2), "cos(0.5 x)": np.cos(x / 2),
                "sin(x)": np.sin(x), "cos(x)": np.cos(x),
            },
        ),
        (
            smcpn.polynomials(1, variables=["v"]) * smcpn.terms(np.sin, variables=["x"]),
            {"sin(x)": np.sin(x), "v sin(x)": v * np.sin(x)},
        ),
        (
            smcpn.terms(np.exp, variables=["x"]) * smcpn.terms(np.exp, variables=["x"]),
            {"exp(x)^2": np.exp(2 * x)},
        ),
    ],
)  # fmt: skip
def test_terms_by_functions(library: smcpn.Library, expected: dict[str, np.ndarray]) -> None:
    found = library.candidates(["x", "v"], ["u"])
    assert found.names == tuple(expected)
    values = found.values(X, U, 0.25)
    np.testing.assert_allclose(values, np.column_stack(list(expected.values())), rtol=1e-14)


def test_a_multiple_of_another_term_is_left_out_and_a_monomial_stays() -> None:
    square = smcpn.terms(np.square, twice=lambda x, v: 2 * x * v, one=lambda x: 3.0)
    found = (square + smcpn.polynomials(2) + smcpn.polynomials(1)).candidates(["x", "v"])
    assert found.names == ("1", "x", "v", "x^2", "x v", "v^2")
    products = smcpn.fourier(2).candidates(["x"]).names
    product = smcpn.terms(np.sin) * smcpn.terms(np.cos)
    assert (smcpn.fourier(2) + product).candidates(["x"]).names == products


@pytest.mark.parametrize(
    "functions",
    [
        {"a": lambda x: abs(x)},
        {"a": lambda x: np.exp(x)},
        {"a": lambda x: np.tanh(x)},
        {"a": lambda x: np.maximum(x, 0)},
        {"a": lambda x: x + 1e-6},
    ],
)
def test_what_is_no_multiple_stays(functions: dict[str, Callable[..., object]]) -> None:
    library = smcpn.polynomials(3) + smcpn.terms(**functions) * smcpn.polynomials(2)
    assert len(library.candidates(["x"]).names) == 7


def test_a_library_for_each_equation() -> None:
    """Terms are shared where one is a multiple of another's."""
    own = {"x": smcpn.terms(np.square), "v": smcpn.polynomials(2, variables=["x"])}
    found = candidates_of(own, ["x", "v"])
    assert found.names == ("square(v)", "1", "x", "x^2")
    assert found.allowed.tolist() == [[True, False, False, True], [False, True, True, True]]


def test_derivatives_are_those_of_casadi() -> None:
    found = (smcpn.polynomials(2) + smcpn.terms(np.sin)).candidates(["x", "v"])
    x, u, t = ca.SX.sym("x", 2), ca.SX.sym("u", 0), ca.SX.sym("t")
    slope = ca.Function("J", [x], [ca.jacobian(found.graph(x, u, t), x)])
    a, b = 0.3, -0.7
    expected = [
        [0, 0], [1, 0], [0, 1], [2 * a, 0], [b, a], [0, 2 * b], [np.cos(a), 0], [0, np.cos(b)],
    ]  # fmt: skip
    np.testing.assert_allclose(np.array(slope([a, b])), expected, rtol=1e-14)


def test_scaled_states_keep_high_degrees_in_range() -> None:
    """A coefficient before a scaled term times its unit is the physical one."""
    scale, at = np.array([1e60, 0.5]), np.array([[2e60, 0.3]])
    library = smcpn.polynomials(6) + smcpn.terms(np.sin, variables=["v"])
    physical = library.candidates(["x", "v"], ["u"])
    scaled = physical.scaled(scale, np.array([10.0]))
    u = np.array([[3.0]])
    z, w = at / scale, u / 10.0
    found = scaled.values(z, w)
    assert np.isfinite(found).all()
    assert scaled.names == physical.names
    place = {name: k for k, name in enumerate(physical.names)}
    assert found[0, place["x^6"]] == pytest.approx(64.0)
    assert found[0, place["sin(v)"]] == pytest.approx(np.sin(0.3))
    with np.errstate(over="ignore"):
        finite = np.isfinite(physical.values(at, u)[0])
    assert not finite[place["x^6"]]
    # theta f(x) / s = (theta / units) f(z)
    of_z = found[0, finite] / scaled.units[:, finite]
    np.testing.assert_allclose(
        of_z * scale[:, None], np.tile(physical.values(at, u)[0, finite], (2, 1)), rtol=1e-12
    )


def test_candidates_are_pickled() -> None:
    found = (smcpn.polynomials(2) + smcpn.terms(wave=lambda x: np.sin(x))).candidates(["x"])
    again = pickle.loads(pickle.dumps(found.scaled(np.array([2.0]))))
    assert again.names == found.names
    assert (again.values(X[:, :1] / 2) == found.scaled(np.array([2.0])).values(X[:, :1] / 2)).all()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: smcpn.polynomials(-1), "degree is -1: give a whole number from 0 to 20"),
        (lambda: smcpn.polynomials(2, variables="x"), "variables is 'x'"),
        (lambda: smcpn.fourier(0), "harmonics is 0"),
        (lambda: smcpn.fourier(frequency=-1.0), "frequency is -1.0: give a number above 0"),
        (lambda: smcpn.terms(), "terms is empty"),
        (lambda: smcpn.terms(lambda x: x), "give it a name"),
        (lambda: smcpn.polynomials(2) + np.sin, "smcpn.terms(np.sin)"),  # pyright: ignore
        (lambda: smcpn.polynomials(2) * 2, "multiplied by 2"),  # pyright: ignore
        (lambda: smcpn.terms(**{"a]": lambda x: x}), "letters, digits"),
        (lambda: smcpn.terms(3), "terms has 3"),
        (lambda: smcpn.terms(a=3), "function 'a' of terms is 3"),
        (lambda: smcpn.terms(np.arctan2), "takes 2 arguments without names"),
        (lambda: smcpn.terms(a=lambda x, *, k: k * x), "has the parameter 'k'"),
        (lambda: smcpn.terms(a=lambda: 1.0), "has no argument"),
        (lambda: smcpn.terms(np.sin, sin=lambda x: x), "two functions 'sin'"),
        (lambda: smcpn.polynomials(2, variables=["w"]).candidates(["x"]), "name 'w'"),
        (lambda: smcpn.terms(a=lambda x, w: x * w).candidates(["x"]), "takes 'w'"),
        (lambda: smcpn.terms(a=lambda x: (x, x)).candidates(["x"]), "returns 2 values"),
        (lambda: smcpn.terms(a=lambda x: math.sin(x)).candidates(["x"]), "library term 'a(x)'"),
        (lambda: smcpn.terms(a=lambda x: x if x > 0 else 0).candidates(["x"]), "numpy.where"),
        (lambda: smcpn.terms(a=lambda x: 0 * x).candidates(["x"]), "is zero everywhere"),
        (lambda: smcpn.polynomials(20).candidates(list("abcdef")), "the most is 5000"),
        (lambda: smcpn.polynomials(2).candidates([]), "states is empty"),
        (lambda: smcpn.polynomials(2).candidates("xv"), "give a list"),
        (lambda: smcpn.polynomials(2).candidates(["x", "x"]), "twice among states and inputs"),
        (lambda: smcpn.polynomials(2).candidates(["x"], ["t"]), "which is the time"),
        (lambda: smcpn.polynomials(2).candidates(["x y"]), "letters, digits"),
        (lambda: candidates_of("poly", ["x"]), "library is 'poly'"),  # pyright: ignore
        (lambda: candidates_of({"w": smcpn.polynomials(1)}, ["x"]), "no state"),
        (
            lambda: (smcpn.terms(a=lambda x: x**2) + smcpn.terms(a=lambda x: x**3)).candidates(
                ["x"]
            ),
            "two different functions 'a(x)'",
        ),
        (lambda: smcpn.polynomials(1).candidates(["x"]).scaled(np.array([0.0])), "scale is"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_sentence(
    make: Callable[[], object], sentence: str
) -> None:
    with pytest.raises(smcpn.InputError) as caught:
        make()
    assert sentence in str(caught.value)
