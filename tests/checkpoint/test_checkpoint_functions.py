"""Unknown functions and vectors in files: the same after, damaged refused in one sentence."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smcpn
from smcpn.checkpoint import model_fingerprint
from smcpn.checkpoint.codec import read_again
from smcpn.checkpoint.problem import restored_function, stored_function
from smcpn.errors import InputError, NotStorableError
from smcpn.model.functions.spline import Spline
from tests.checkpoint.changed import document_of, problem_of
from tests.checkpoint.closures import FRICTION, closure_problem

PROBLEM = closure_problem()
DOCUMENT, ARRAYS = document_of(PROBLEM)


def restored(change=lambda document: None):
    document = json.loads(json.dumps(DOCUMENT))
    change(document)
    return problem_of(document, ARRAYS, PROBLEM.records)


def test_function_and_places_come_back():
    ode = restored().ode
    found = ode.functions["friction"]
    assert found.function == FRICTION
    assert ode.wholes == PROBLEM.ode.wholes
    given_places = PROBLEM.ode.functions["friction"].places
    numbers = [np.arange(n, dtype=float) for n in (4, 1, 1, len(ode.parameters))]
    np.testing.assert_array_equal(
        np.array(found.places(*numbers)), np.array(given_places(*numbers))
    )
    np.testing.assert_array_equal(np.array(found.places(*numbers)), [[2.0], [3.0]])


def of_function(**changes):
    return lambda d: d["ode"]["functions"][0].update(changes)


def with_setting(name, value):
    return lambda d: d["ode"]["functions"][0]["settings"].update({name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (of_function(kind="Problem"), "'Problem', which is none of spline"),
        (of_function(kind="os.system"), "which is none of spline"),
        (of_function(name="f"), "has other parameters"),
        (of_function(settings={}), "is no spline .*within"),
        (of_function(settings=[]), "settings' is"),
        (with_setting("extra", 1), "is no spline .*extra"),
        (with_setting("knots", 9), "has other parameters"),
        (with_setting("knots", 10**12), "friction': knots is 1000000000000"),
        (with_setting("knots", -3), "friction': knots is -3"),
        (with_setting("knots", "7"), "friction': knots is '7'"),
        (with_setting("knots", 7.5), "friction': knots is 7.5"),
        (with_setting("within", [1, -1]), "friction': within is"),
        (with_setting("within", [0.0, 10**400]), "stored"),
        (with_setting("within", 3), "friction': within is 3"),
        (with_setting("odd", 1), "friction': odd is 1"),
        (of_function(arguments=["v", "w"]), "friction' is no spline"),
        (of_function(arguments=[["v"]]), "arguments.0' is"),
        (of_function(arguments=["v"] * 1000), "arguments' is"),
        (with_setting("argument", "v"), "is no spline"),
        (lambda d: d["ode"]["functions"].pop(), "does not fit its names"),
        (lambda d: d["ode"]["functions"].append(d["ode"]["functions"][0]), "as names"),
        (lambda d: d["ode"]["sizes"].update(x=3), "stored size of 'x' is 3"),
        (lambda d: d["ode"]["sizes"].update(x=10**15), "stored size of 'x'"),
        (lambda d: d["ode"]["sizes"].update(x=-1), "sizes.x' is -1"),
        (lambda d: d["ode"]["sizes"].update(z=1), "stored size of 'z'"),
        (lambda d: d["scales"].update(nothing="friction.scale"), "scales names 'nothing'"),
        (lambda d: d["scales"].update({"friction[0]": "friction[1]"}), "scale of 'friction"),
    ],
)
def test_damaged_functions_are_refused(change, message):
    with pytest.raises(InputError, match=message) as caught:
        restored(change)
    assert "\n" not in str(caught.value)


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(0, 12), st.floats(), st.text(max_size=5)
)
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(["knots", "within", "odd", "size"]), value=ANYTHING)
@pytest.mark.slow
def test_no_setting_crashes(name, value):
    try:
        found = restored(with_setting(name, value))
    except InputError:
        return
    model_fingerprint(found)


def test_fingerprint_tells_functions_and_sizes_apart():
    ode = PROBLEM.ode
    own = model_fingerprint(PROBLEM)
    other = replace(FRICTION, within=(-1.0, 1.5), odd=False)
    functions = {"friction": replace(ode.functions["friction"], function=other)}
    for changed in (replace(ode, functions=functions), replace(ode, sizes={"x": 2})):
        problem = restored()
        problem.ode = changed
        assert model_fingerprint(problem) != own


def test_a_function_of_the_users_own_is_refused():
    class Straight(Spline):
        """A spline by another name."""

    own = Straight(("v",), 5, (-1.0, 1.0))
    with pytest.raises(
        NotStorableError, match=r"'f' is a Straight that no file can hold: make it by spline"
    ):
        stored_function("f", own)


@pytest.mark.parametrize(
    "function",
    [
        smcpn.spline("v", within=(0, 2), monotone="increasing", positive=True, size=3.0),
        smcpn.gaussian_process("v", "h", within=[(0, 30), (0, 10)], features=5),
        smcpn.network("v", hidden=(20, 20)),
        smcpn.network("v", "w", hidden=3, activation="softplus", within=[(0, 1), (-1, 1)]),
    ],
    ids=lambda function: type(function).__name__,
)
def test_functions_round_trip(function):
    assert restored_function(read_again(stored_function("f", function))) == function


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::smcpn.SamplerWarning")
@pytest.mark.nightly
def test_run_comes_back_with_its_function(tmp_path):
    @smcpn.ode(sizes={"x": 2})
    def model(x, *, friction=FRICTION):
        return -friction(x)

    record = smcpn.Record(y=np.exp(-np.arange(12) / 4) - 0.5, dt=0.2)
    problem = smcpn.Problem(
        model, record, observe="x[1]", noise=0.1, prior={}, initial={"x": [0.0, 0.5]}
    )
    file = tmp_path / "run.h5"
    posterior = smcpn.identify(
        problem, solver=smcpn.RK4(1), method="tempering", particles=30, seed=1,
        checkpoint=file, progress=False,
    )  # fmt: skip
    loaded = smcpn.load(file)
    assert loaded.names == posterior.names == model.wholes["friction"]
    np.testing.assert_array_equal(loaded["friction"], posterior["friction"])
    v = np.linspace(-1, 1, 5)
    draws = [one.function("friction", v).draws for one in (posterior, loaded)]
    np.testing.assert_array_equal(*draws)
    assert loaded.plot_function("friction").axes
