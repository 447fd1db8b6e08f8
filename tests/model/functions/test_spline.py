"""Unknown functions as splines: what their prior promises, for any parameters."""

import functools
import pickle

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import smcpn
from smcpn.errors import InputError
from smcpn.model.functions.spline import SmoothBasis, Spline

SHAPES: list[dict[str, object]] = [
    {},
    {"odd": True},
    {"even": True},
    {"positive": True},
    {"monotone": "increasing"},
    {"monotone": "decreasing", "odd": True},
    {"monotone": "decreasing", "positive": True},
    {"even": True, "positive": True},
]
V = np.linspace(-2.5, 2.5, 41)


@functools.cache
def of_shape(number: int, degree: int) -> Spline:
    return made(SHAPES[number], degree=degree)


def made(shape: dict[str, object], **options: object) -> Spline:
    return smcpn.spline("v", **{"knots": 7, "within": (-1, 1), **shape, **options})


@settings(max_examples=60, deadline=None)
@given(
    number=st.integers(0, len(SHAPES) - 1),
    degree=st.integers(1, 3),
    weights=st.lists(st.floats(-2, 2), min_size=13, max_size=13),
)
def test_shape_holds_for_any_parameters(number, degree, weights) -> None:
    shape, function = SHAPES[number], of_shape(number, degree)
    values = function.values(V, [weights[: len(function.priors)]])[0]
    rounding = 1e-11 * (1.0 + np.abs(values).max())
    assert np.isfinite(values).all()
    if "odd" in shape:
        assert np.abs(values + values[::-1]).max() <= rounding
    if "even" in shape:
        assert np.abs(values - values[::-1]).max() <= rounding
    if "positive" in shape:
        assert values.min() > 0.0
    if "monotone" in shape:
        rises = np.diff(values) * (1 if shape["monotone"] == "increasing" else -1)
        assert rises.min() >= -rounding


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("degree", [2, 3])
def test_derivatives_are_continuous(shape, degree) -> None:
    function = made(shape, degree=degree)
    at, of = ca.SX.sym("v"), ca.SX.sym("p", len(function.priors))
    derivatives = [function.graph([at], of)]
    for _ in range(degree - 1):
        derivatives.append(ca.gradient(derivatives[-1], at))
    everything = ca.Function("all", [at, of], [ca.vertcat(*derivatives)])
    parameters = 0.5 * np.random.default_rng(3).normal(size=len(function.priors))
    largest = np.abs(np.asarray(everything.map(41)(V[None, :], parameters))).max()
    for knot in np.arange(-13, 14) / 6:
        below, above = (np.asarray(everything(knot + e, parameters)) for e in (-1e-9, 1e-9))
        assert above == pytest.approx(below, rel=1e-6, abs=1e-6 * largest)


def test_coordinates_are_independent_under_a_random_walk_of_the_slopes() -> None:
    basis = SmoothBasis.of(12, 3, 0)
    second = np.diff(basis.curved, n=2, axis=0)
    walk = second @ second.T / basis.step**2
    assert walk == pytest.approx(np.eye(len(second)), abs=1e-10)
    assert np.diff(basis.straight, n=2, axis=0) == pytest.approx(0.0, abs=1e-12)


def test_prior_draws_have_the_moments_of_the_prior() -> None:
    function = made({}, size=3.0)
    n, inside = 800, np.linspace(-1, 1, 41)
    drawn = {name: np.zeros(n) for name in function.priors}
    rng = np.random.default_rng(1)
    for name in function.scales:
        drawn[name] = 2.0 * rng.normal(size=n)
    curved = function.values(inside, np.stack(list(drawn.values()), axis=1))
    squares = (curved**2).mean(axis=1)
    # The mean square of the curved part is scale^2: 3 standard errors of the draws, and 5 % for a
    # mean over points that are no quadrature.
    assert squares.mean() == pytest.approx(4.0, abs=3 * squares.std() / np.sqrt(n) + 0.2)
    line = function.values(inside, np.eye(len(function.priors))[:2])
    assert line[0] == pytest.approx(1.0)
    assert line[1] == pytest.approx(np.sqrt(3.0) * inside)
    drawn_levels = function.sample([0.0], n=n, seed=2)
    assert np.median(np.abs(drawn_levels)) < 10 * 3.0
    assert stats.kstest(function.priors["[0]"].rvs(n, random_state=rng) / 3.0, "t", (3,))[1] > 1e-3


def test_band_grows_beyond_the_interval_and_linearly_in_the_end() -> None:
    """An integrated random walk, of which all is known inside, has the variance h^3 / 3."""
    function = made({}, knots=12)
    spacing = 2 / 11
    drawn = np.zeros((500, len(function.priors)))
    drawn[:, -3:-1] = np.random.default_rng(0).normal(size=(500, 2))
    far = 1.0 + spacing * np.array([0.0, 1.0, 3.0, 6.0])
    sd = function.values(far, drawn).std(axis=0)
    assert sd[0] < 1e-12
    assert (np.diff(sd) > 0.0).all()
    # Steps of the walk are those between the knots, h = 1 from here.
    exact = SmoothBasis.of(12, 3, 0).step * np.sqrt(np.array([1.0, 3.0, 6.0]) ** 3 / 3)
    assert sd[2:] / exact[1:] == pytest.approx(0.8, abs=0.25)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"odd": True, "even": True}, "odd and even"),
        ({"odd": True, "positive": True}, "odd and positive"),
        ({"even": True, "monotone": "increasing"}, "even and monotone"),
        ({"odd": True, "within": (0, 1)}, "symmetric"),
        ({"within": (1, 0)}, "lower and a larger upper bound"),
        ({"within": "ab"}, "lower and a larger upper bound"),
        ({"within": (0, np.inf)}, "lower and a larger upper bound"),
        ({"knots": 3}, "whole number from 4"),
        ({"degree": 4}, "whole number from 1 to 3"),
        ({"monotone": "up"}, "increasing"),
        ({"size": 0.0}, "above 0"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message) -> None:
    with pytest.raises(InputError, match=message):
        made(arguments)


def test_labels_must_name_the_variables() -> None:
    with pytest.raises(InputError, match="name of a variable"):
        smcpn.spline("", within=(-1, 1))
    with pytest.raises(InputError, match="name one to 2 variables"):
        smcpn.gaussian_process(within=(-1, 1))


def test_values_need_a_column_for_each_parameter() -> None:
    with pytest.raises(InputError, match="columns"):
        made({}).values(V, np.zeros((2, 3)))


def test_pickled_function_is_the_same() -> None:
    function = made({})
    drawn = function.sample(V, n=3, seed=5)
    again = pickle.loads(pickle.dumps(function))
    assert again == function
    assert again.sample(V, n=3, seed=5).tobytes() == drawn.tobytes()
