"""An unknown function as an argument of a model."""

import pickle

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.errors import InputError

friction = smcpn.spline("v", knots=8, within=(-1, 1), odd=True)


@smcpn.ode
def drive(x, v, u, *, m, friction):
    return v, (u - friction(v)) / m


def test_parameters_of_a_function_are_parameters_of_the_model() -> None:
    assert drive.parameters == ("m", *(f"friction[{k}]" for k in range(6)), "friction.scale")
    places = drive.functions["friction"].places
    assert float(places([0.0, 0.7], 0.0, 0.0, np.zeros(8))) == 0.7


def test_priors_are_given_and_may_be_replaced() -> None:
    record = smcpn.Record(u=np.zeros(20), y=np.ones(20), dt=0.1)
    prior = {"m": stats.lognorm(1.0), "friction": {"scale": stats.gamma(2.0)}}
    problem = smcpn.Problem(drive, record, observe="v", noise=0.1, prior=prior)
    assert set(problem.names) == set(drive.parameters)
    assert problem.prior.distributions["friction.scale"].dist.name == "gamma"


def test_pickled_model_has_the_same_functions() -> None:
    again = pickle.loads(pickle.dumps(drive))
    assert again.functions["friction"].function == friction
    assert float(again.functions["friction"].places([0.0, 0.7], 0.0, 0.0, np.zeros(8))) == 0.7


def test_function_must_be_called_with_its_arguments() -> None:
    with pytest.raises(InputError, match="2 arguments"):

        @smcpn.ode
        def wrong(v, u, *, f=friction):
            return f(v, u)

    with pytest.raises(InputError, match=r"call an unknown function with its arguments"):

        @smcpn.ode
        def multiplied(x, *, friction=friction):
            return -friction * x

    with pytest.raises(InputError, match=r"'Spline' object is not callable.* as the default"):

        @smcpn.ode
        def named_nowhere(x):
            return -friction(x)

    with pytest.raises(InputError, match="not called"):

        @smcpn.ode
        def unused(v, u, *, f=friction):
            return -v


def test_function_of_a_name_is_that_of_the_module_of_the_model() -> None:
    there = {"__name__": "there", "friction": smcpn.spline("v", knots=9, within=(-1, 1))}
    exec("def slide(v, *, friction):\n    return -friction(v)", there)
    assert smcpn.ode(there["slide"]).functions["friction"].function == there["friction"]


def test_function_of_a_name_is_that_of_the_enclosing_function_or_class() -> None:
    friction = smcpn.spline("v", knots=9, within=(-1, 1))
    slide = smcpn.ode(lambda v, *, friction: -friction(v))
    assert slide.functions["friction"].function == friction

    class Slides:
        friction = smcpn.spline("v", knots=7, within=(-1, 1))
        slide = smcpn.ode(lambda v, *, friction: -friction(v))

    assert Slides.slide.functions["friction"].function == Slides.friction


def test_name_that_is_no_function_is_refused_with_the_remedy() -> None:
    with pytest.raises(InputError, match=r"before a parenthesis.*default of its argument"):
        smcpn.ode(lambda v, *, nobody: -nobody(v))


@pytest.mark.parametrize("at", [[], [np.nan], [0.0, np.inf]])
def test_arguments_are_finite(at: list[float]) -> None:
    with pytest.raises(InputError, match="give finite numbers"):
        friction.sample(at)
