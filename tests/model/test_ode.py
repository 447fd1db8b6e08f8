from __future__ import annotations

import functools
import math

import casadi as ca
import numpy as np
import pytest
from scipy import interpolate

import smcpn
from smcpn import InputError, ode
from smcpn.datasets.models import duffing


def test_signature_gives_states_inputs_parameters():
    assert duffing.states == ("x", "v")
    assert duffing.inputs == ("u",)
    assert duffing.parameters == ("m", "c", "k", "k3")


def test_rhs_is_the_function():
    values = duffing.rhs([0.5, -1.0], [2.0], 0.0, [2.0, 0.1, 3.0, 4.0])
    expected = [-1.0, (2.0 + 0.1 - 1.5 - 0.5) / 2.0]
    np.testing.assert_allclose(np.array(values).ravel(), expected, rtol=1e-15)


def test_chain_is_found_only_where_a_derivative_is_a_state():
    assert duffing.chains == {"x": "v"}

    @ode
    def scaled(x, v, *, k):
        return 2 * v, -k * x

    assert scaled.chains == {}


def test_time_and_defaults():
    @ode
    def model(x, u, t, *, rate, gain=2.0):
        return -rate * x + gain * u * np.sin(t)

    assert (model.states, model.inputs) == (("x",), ("u",))
    assert model.defaults == {"gain": 2.0}
    assert float(model.rhs([1.0], [3.0], 0.5, [1.0, 2.0])) == pytest.approx(-1 + 6 * math.sin(0.5))


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x if x > 0 else -x,
        lambda x: max(x, 0.0),
        lambda x: -x if x > 0 and x < 1 else x,
    ],
)
def test_branching_is_refused_with_the_mend(body):
    with pytest.raises(InputError, match=r"branches on a traced value: write numpy\.where"):

        @ode
        def model(x, *, k):
            return body(x) * k


KNOTS = np.linspace(0.0, 1.0, 6)
TABLES = {
    "CubicSpline": interpolate.CubicSpline(KNOTS, KNOTS**2),
    "PchipInterpolator": interpolate.PchipInterpolator(KNOTS, KNOTS**2),
    "interp1d": interpolate.interp1d(KNOTS, KNOTS**2),
    "splev": lambda x: interpolate.splev(x, interpolate.splrep(KNOTS, KNOTS**2)),
    "BSpline": interpolate.make_interp_spline(KNOTS, KNOTS**2),
}


@pytest.mark.parametrize("name", TABLES)
def test_table_of_scipy_is_named_with_the_mend(name):
    with pytest.raises(InputError, match=rf"calls scipy's {name}, which .* numpy\.interp\(x, poin"):

        @ode
        def model(x, *, k):
            return -k * TABLES[name](x)


def test_number_in_a_table_is_refused_with_the_mend():
    with pytest.raises(InputError, match=r"cannot be traced.*up in a table by numpy\.interp"):

        @ode
        def model(x, *, k):
            return -k * KNOTS[int(x)]


def test_nan_among_the_constants_is_refused():
    with pytest.raises(InputError, match=r"NaN in what it returns in place 0: check the const"):

        @ode
        def model(x, *, k):
            return -k * x + math.nan


def test_table_of_numbers_is_a_function_of_a_state():
    @ode
    def model(x, *, k):
        return -k * np.interp(x, KNOTS, KNOTS**2)

    for x in (-0.5, 0.0, 0.13, 0.9, 2.0):
        found = float(model.rhs([x], [], 0.0, [3.0]))
        assert found == pytest.approx(-3.0 * np.interp(x, KNOTS, KNOTS**2), abs=1e-14)


@pytest.mark.parametrize("lose", [math.sin, float])
def test_number_of_a_symbol_is_refused(lose):
    with pytest.raises(InputError, match=r"makes a number of a traced value in '.*': use numpy"):

        @ode
        def model(x, v, *, k):
            return v, -k * lose(x)


@pytest.mark.parametrize("draw", [np.random.normal, np.random.default_rng(0).normal])
def test_random_numbers_are_refused(draw):
    with pytest.raises(InputError, match="'model' returns something else when it is called again"):

        @ode
        def model(x, *, k):
            return draw() - k * x


def test_random_numbers_are_refused_in_diffusions_and_outputs_too():
    with pytest.raises(InputError, match="'model' returns something else when it is called again"):

        @smcpn.sde
        def model(x, *, k):
            return -k * x, np.random.default_rng().normal()

    @ode
    def decay(x, *, k):
        return -k * x

    record = smcpn.Record(y=np.ones(5), dt=0.1)
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="observe function returns something else"):
        smcpn.simulate(decay, record, {"k": 1.0}, observe=lambda x: x * rng.normal())


def test_other_refusals():
    with pytest.raises(InputError, match="returns 2 derivatives but names only 1"):

        @ode
        def too_many(x, *, k):
            return -k * x, x

    with pytest.raises(InputError, match="name every state"):

        @ode
        def anonymous(*states):
            return states

    with pytest.raises(InputError, match=r"as a vector in 'return x\[1\].*sizes="):

        @ode
        def of_scipy(t, x, *, k):
            return x[1], -k * x[0]

    with pytest.raises(InputError, match=r"as a vector in 'x, v = states'.*sizes="):

        @ode
        def unpacked(states, *, k):
            x, v = states
            return v, -k * x

    with pytest.raises(InputError, match=r"cannot be traced.*write numpy\.logical_and"):

        @ode
        def conjunction(x, *, k):
            return np.where((x > 0) & (k > 0), x, k)

    with pytest.raises(InputError, match=r"cannot be traced.*write numpy\..*logical_not"):

        @ode
        def negation(x, *, k):
            return np.where(~(x > 0), x, k)

    with pytest.raises(InputError, match=r"\(NameError: name 'rate' is not defined\)$"):

        @ode
        def misspelt(x, *, k):
            return -rate * x  # noqa: F821

    with pytest.raises(InputError, match="has a parameter 't', which is the time"):

        @ode
        def timed(x, *, t):
            return -x * t

    with pytest.raises(InputError, match="'nothing' returns nothing"):

        @ode
        def nothing(x, *, k):
            return []

    with pytest.raises(InputError, match="'forgotten' returns nothing"):

        @ode
        def forgotten(x, *, k):
            -k * x

    with pytest.raises(InputError, match=r"not .* out = np\.zeros"):

        @ode
        def filled(x, v, *, k):
            out = np.zeros(2)
            out[0], out[1] = v, -k * np.sin(x)
            return out

    with pytest.raises(InputError, match="model 'dict' has no signature"):
        ode(dict)

    with pytest.raises(InputError, match=r"gives 'u' a default: .* write '\*, u'"):

        @ode
        def defaulted(x, u=0.0, *, k):
            return -k * x + u

    with pytest.raises(InputError, match="model 'square' returns an array of shape"):

        @ode
        def square(x, v, *, k):
            return np.array([[x, v], [v, x]])

    with pytest.raises(InputError, match="model is 3: give a function"):
        ode(3)


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_derivatives_may_be_an_array(shape):
    @ode
    def pendulum(angle, rate, u, *, k):
        return np.array([rate, u - k * np.sin(angle)]).reshape(shape)

    assert (pendulum.states, pendulum.inputs) == (("angle", "rate"), ("u",))
    assert pendulum.chains == {"angle": "rate"}
    values = np.array(pendulum.rhs([0.5, 2.0], [3.0], 0.0, [4.0])).ravel()
    np.testing.assert_allclose(values, [2.0, 3.0 - 4.0 * np.sin(0.5)], rtol=1e-15)


def test_partial_of_a_function():
    def decay(x, u, *, rate, gain):
        return -rate * x + gain * u

    model = ode(functools.partial(decay, gain=2.0))
    assert (model.name, model.parameters) == ("decay", ("rate", "gain"))
    assert model.defaults == {"gain": 2.0}


def test_tracing_leaves_casadi_as_it_was():
    before = ca.GlobalOptions.getNumpyMode()
    attributes = set(vars(ca.ArrayInterfaceSX))

    @ode
    def model(x, *, k):
        return np.tanh(k * x)

    assert ca.GlobalOptions.getNumpyMode() == before
    assert set(vars(ca.ArrayInterfaceSX)) == attributes


def test_functions_of_scipy():
    from scipy import special

    @smcpn.ode
    def model(x, *, c=2.0):
        return special.erf(c * x) - 0.5 * special.expit(x)

    record = smcpn.Record(y=np.zeros(3), dt=0.1)
    found = smcpn.simulate(
        model, record, {}, observe=lambda x: special.erf(x), initial=[0.3], steps=64
    )
    assert found[0, 0] == pytest.approx(special.erf(0.3), abs=1e-14)
    slope = special.erf(0.6) - 0.5 * special.expit(0.3)
    expected = 0.3 + 1e-3 * slope
    short = smcpn.Record(y=np.zeros(2), dt=1e-3)
    state = smcpn.simulate(model, short, {}, observe="x", initial=[0.3])
    assert state[1, 0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["gamma", "erfc", "xlog1py"])
def test_functions_that_cannot_be_traced_are_named(name):
    from scipy import special

    def model(x):
        function = getattr(special, name)
        return function(x, x) if name == "xlog1py" else function(x)

    with pytest.raises(smcpn.InputError, match=rf"calls {name}, which cannot .*: write it with"):
        smcpn.ode(model)


def test_a_missing_operator_is_shown_with_its_line():
    with pytest.raises(smcpn.InputError, match=r"before a parenthesis.*c \* v \(u - k") as raised:

        @smcpn.ode
        def spring(x, v, u, *, c, k):
            return v, u - c * v (u - k * x)  # fmt: skip

    assert "put an operator or a comma before it" in str(raised.value)


def test_too_few_derivatives_are_told_from_too_few_inputs():
    @smcpn.ode
    def spring(x, v, u, *, c, k):
        return u - c * v - k * x

    record = smcpn.Record(u=np.ones(9), y=np.ones(9), dt=0.1)
    with pytest.raises(smcpn.InputError, match=r"returns 1 derivative.*derivative of every state"):
        smcpn.Problem(spring, record, observe="x", noise=1.0, prior={"c": 1.0, "k": 1.0})
