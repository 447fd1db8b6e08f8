"""Networks against numpy, and the size of their prior."""

import itertools

import casadi as ca
import numpy as np
import pytest

import smcpn
from smcpn.errors import InputError
from smcpn.model.functions.unknown import softplus

ACTIVATIONS = {"tanh": np.tanh, "softplus": lambda x: np.logaddexp(0.0, x)}


def reference(x, parameters, sizes, activation):
    """A feed-forward network at inputs (m, variables): weights by rows, then biases, by layers."""
    values, begin = x.T, 0
    for layer, (columns, rows) in enumerate(itertools.pairwise(sizes)):
        weights = parameters[begin : begin + rows * columns].reshape(rows, columns)
        begin += rows * columns
        values = weights @ values + parameters[begin : begin + rows, None]
        begin += rows
        if layer < len(sizes) - 2:
            values = ACTIVATIONS[activation](values)
    return values[0]


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@pytest.mark.parametrize("hidden", [(5,), (7, 4, 3)])
def test_values_are_those_of_numpy(activation, hidden) -> None:
    within = [(-2.0, 4.0), (0.0, 0.1)]
    function = smcpn.network("a", "b", hidden=hidden, activation=activation, within=within)
    rng = np.random.default_rng(0)
    parameters = rng.normal(size=len(function.priors))
    raw = rng.uniform(0.0, 1.0, size=(9, 2))
    lower, upper = np.array(within).T
    expected = reference(np.sqrt(12) * (raw - 0.5), parameters[:-1], (2, *hidden, 1), activation)
    found = function.values(lower + (upper - lower) * raw, [parameters])[0]
    assert found == pytest.approx(expected, rel=1e-12)


def test_one_variable_and_two_layers_of_twenty_have_481_weights() -> None:
    function = smcpn.network("v", hidden=(20, 20))
    assert len(function.priors) == 482
    assert list(function.scales) == [f"[{k}]" for k in range(460, 481)]
    assert set(function.scales.values()) == {".scale"}


def test_prior_draws_have_the_variance_of_the_last_layer() -> None:
    """Given the scale, the variance is scale^2 (1 + mean square of the units of the last layer)."""
    function = smcpn.network("v", hidden=(20, 20))
    rng, n = np.random.default_rng(4), 1500
    drawn = {name: one.rvs(size=n, random_state=rng) for name, one in function.priors.items()}
    drawn[".scale"][:] = 3.0
    for name, scale in function.scales.items():
        drawn[name] *= drawn[scale]
    parameters = np.stack(list(drawn.values()), axis=1)
    values = function.values([0.7], parameters)[:, 0]
    first = np.tanh(parameters[:, :20] * 0.7 + parameters[:, 20:40])
    weights = parameters[:, 40:440].reshape(n, 20, 20)
    second = np.tanh(np.einsum("nij,nj->ni", weights, first) + parameters[:, 440:460])
    expected = 9.0 * (1.0 + (second**2).mean())
    # 4 standard errors of a variance of n draws.
    assert values.var() == pytest.approx(expected, rel=4 * np.sqrt(2 / n))


def test_softplus_is_exact_for_large_arguments_and_smooth_at_zero() -> None:
    x = ca.SX.sym("x")
    function = ca.Function("softplus", [x], [softplus(x), ca.gradient(softplus(x), x)])
    for at in (-800.0, -700.0, -30.0, -1e-9, 0.0, 1.0, 40.0, 1e300):
        value, slope = (float(one) for one in function(at))
        assert value == pytest.approx(np.logaddexp(0.0, at), rel=1e-15, abs=0.0)
        assert slope == pytest.approx(1.0 / (1.0 + np.exp(min(-at, 700.0))), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hidden": ()}, "one to 5 whole numbers"),
        ({"hidden": (20, 0)}, "one to 5 whole numbers"),
        ({"hidden": "ab"}, "one to 5 whole numbers"),
        ({"activation": "relu"}, "tanh"),
        ({"within": [(0, 1), (0, 1)]}, "2 intervals"),
        ({"within": (1, 0)}, "lower and a larger upper bound"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message) -> None:
    with pytest.raises(InputError, match=message):
        smcpn.network("v", **arguments)
