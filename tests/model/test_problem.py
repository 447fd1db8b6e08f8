from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import EKF0, RK4, InputError, Problem, Record
from smcpn.datasets.models import duffing
from smcpn.likelihood.registry import build_likelihood

PRIOR = {name: stats.lognorm(0.2) for name in ("m", "c", "k", "k3")}


def record(**changes):
    return Record(**({"u": np.ones(20), "y": np.zeros(20), "dt": 0.1} | changes))


def build(**changes):
    arguments = {"observe": "x", "noise": 0.1, "prior": PRIOR} | changes
    return Problem(duffing, arguments.pop("records", record()), **arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(observe="z"), "observe names 'z', which is no state of model 'duffing'"),
        (dict(observe=3), "observe names 3"),
        (dict(observe=["x", "v"]), "y has 1 column but observe names 2 outputs"),
        (dict(observe=lambda x: None), "returns nothing: return what is measured"),
        (dict(observe=lambda q: q), "takes 'q', which is no state or input"),
        (dict(observe=lambda x: x if x > 0 else 0), "branches"),
        (dict(prior={k: v for k, v in PRIOR.items() if k != "k3"}), "parameter 'k3' has no prior"),
        (dict(prior=PRIOR | {"zeta": stats.norm()}), "prior 'zeta' belongs to no parameter"),
        (dict(prior=PRIOR | {"zeta": 1.0}), "prior 'zeta' belongs to no parameter"),
        (dict(prior=PRIOR | {"m": np.nan}), "prior of 'm' is nan"),
        (dict(prior=dict.fromkeys(PRIOR, 1.0)), "fixes every parameter"),
        (dict(prior=[1, 2]), "prior is list"),
        (dict(noise=-0.1), "noise is -0.1: give a positive"),
        (dict(noise=0.0), "noise is 0.0"),
        (dict(noise=np.nan), "noise is nan"),
        (dict(noise="sigma"), "parameter 'sigma' has no prior"),
        (dict(noise="sigma", prior=PRIOR | {"sigma": 0.0}), "noise 'sigma' is fixed to 0: give"),
        (dict(noise="sigma", prior=PRIOR | {"sigma": -1}), "noise 'sigma' is fixed to -1"),
        (dict(observe=lambda x, *, gain="2": gain * x), "parameter 'gain' is '2'"),
        (dict(observe=lambda x=0.0: x), "gives 'x' a default: remove it"),
        (dict(noise=[0.1, 0.1]), "noise has 2 entries"),
        (dict(initial=[1.0]), "initial has 1 values for the 2 states"),
        (dict(initial={"w": 1.0}), "initial names 'w'"),
        (dict(initial=[np.inf, 0.0]), "initial x\\(0\\) is inf"),
        (dict(initial="x0"), "initial has 1 values"),
        (dict(records=record(y=np.full(20, np.nan))), "every y is NaN"),
        (dict(records=record(y=None)), "every y is NaN"),
        (dict(records=record(u=None)), "u has 0 columns but model 'duffing' has 1 input"),
        (dict(records=record(u=np.ones((20, 2)))), "u has 2 columns"),
        (dict(records=[]), "no record"),
        (dict(records=None), "records is None: give an smcpn.Record"),
        (
            dict(records=record(y=np.array([[0.0, np.nan]] * 20)), observe=["x", "v"]),
            r"every y of output 1 \('v'\) is NaN: leave this column out",
        ),
        (dict(records=[record(), record(u=np.ones((20, 2)))]), "differ in the number"),
        (dict(records=[1.0]), "a record is float"),
        (dict(coordinates={"m": "logit"}), "does not fit"),
    ],
)
def test_bad_problems_are_refused(changes, message):
    with pytest.raises(InputError, match=message) as caught:
        build(**changes)
    assert "\n" not in str(caught.value)


def test_undecorated_function_is_refused():
    with pytest.raises(InputError, match=r"decorate the function with @smcpn\.ode"):
        Problem(lambda x: x, record(), observe="x", noise=1.0, prior=PRIOR)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EKF0(order=12), "order is 12"),
        (lambda: EKF0(order=3.0), "order is 3.0: give a whole number from 1 to 11"),
        (lambda: EKF0(order=True), "order is True"),
        (lambda: EKF0(steps=True), "steps is True: give a whole number .*, or 'auto'"),
        (lambda: RK4(steps=np.ones(100)), r"steps is array\(.*: give"),
        (lambda: EKF0(order=0), "order is 0"),
        (lambda: EKF0(steps=0), "steps is 0"),
        (lambda: EKF0(steps=1.5), "steps is 1.5"),
        (lambda: EKF0(steps="many"), "steps is 'many'"),
        (lambda: EKF0(form="third"), "form is 'third'"),
        (lambda: RK4(steps=5000), "steps is 5000"),
    ],
)
def test_bad_solvers_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.filterwarnings("ignore::smcpn.SamplerWarning")
def test_numbers_of_numpy_are_numbers():
    assert EKF0(order=np.int32(2), steps=np.int64(2)) == EKF0(order=2, steps=2)
    assert type(RK4(steps=np.int64(2)).steps) is int
    posterior = smcpn.identify(
        build(), solver=RK4(1), particles=np.int64(20), seed=np.int64(2), ess=np.float32(0.5)
    )
    assert type(posterior.seed) is int


def test_wrong_combinations_are_refused():
    problem = build()
    with pytest.raises(InputError, match="form 'chain' cannot be used with the marginal"):
        build_likelihood(problem, EKF0(steps=2, form="chain"))
    with pytest.raises(InputError, match="form 'chain' cannot be used with the marginal"):
        smcpn.identify(problem, solver=EKF0(form="chain"))
    with pytest.raises(InputError, match="choose one of"):
        build_likelihood(problem, "rk4")
    with pytest.raises(InputError, match=r"solver is the class EKF0: .* smcpn\.EKF0\(\)"):
        smcpn.identify(problem, solver=EKF0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(particles=3), "particles is 3"),
        (dict(ess=1.5), "ess is 1.5"),
        (dict(block=0), "block is 0"),
        (dict(seed=-1), "seed is -1"),
        (dict(seed=True), "seed is True"),
        (dict(particles=100.0), "particles is 100.0: give a whole number from 10"),
        (dict(particles="100"), "particles is '100'"),
        (dict(block=2.5), "block is 2.5"),
        (dict(ess="0.5"), "ess is '0.5': give a share"),
        (dict(threads=-1), "threads is -1: give a whole number from 1, or None"),
        (dict(threads="2"), "threads is '2'"),
        (dict(threads=0), "threads is 0"),
        (dict(max_moves=0), "max_moves is 0"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        smcpn.identify(build(), solver=EKF0(steps=1), **settings)


@pytest.mark.parametrize(
    "use",
    [smcpn.identify, smcpn.maximise, smcpn.laplace, smcpn.LogLikelihood, smcpn.Online],
    ids=lambda use: use.__name__,
)
def test_what_is_no_problem_is_refused(use):
    with pytest.raises(InputError, match=r"problem is 3: give a smcpn\.Problem"):
        use(3)


@pytest.mark.slow
def test_model_that_is_nan_at_every_prior_draw():
    @smcpn.ode
    def broken(x, *, k):
        return np.sqrt(-1.0 - k * k) * x

    problem = Problem(
        broken, record(u=None), observe="x", noise=0.1, prior={"k": stats.norm()}, initial=[1.0]
    )
    with pytest.raises(InputError, match="NaN or infinite at every draw from the prior"):
        smcpn.identify(problem, solver=EKF0(steps=1), particles=100, seed=1)


def test_fixed_parameter_and_noise_parameter():
    problem = build(prior=PRIOR | {"k3": 0.5, "sigma": stats.lognorm(1.0)}, noise="sigma")
    assert problem.names == ("m", "c", "k", "sigma")
    variance = problem.model.noise_variances(np.array([[1.0, 1.0, 1.0, 3.0]]))
    np.testing.assert_allclose(variance, [[9.0]])


def test_default_of_an_observe_function_holds_unless_a_prior_names_it():
    def scaled(x, *, gain=2.0):
        return gain * x

    def scaled_again(x, *, gain=5.0):
        return gain * x

    problem = build(observe=[scaled, scaled_again], records=record(y=np.zeros((20, 2))))
    assert problem.names == ("m", "c", "k", "k3")
    model = problem.model
    outputs = ca.Function("outputs", [model.x, model.constants], [model.outputs])
    values = np.array(outputs([3.0, 0.0], model.constant_values)).ravel()
    np.testing.assert_array_equal(values, [6.0, 15.0])
    assert build().model_observing(scaled).outputs.shape == (1, 1)
    assert build(observe=scaled, prior=PRIOR | {"gain": stats.norm()}).names[-1] == "gain"


def test_initial_distributions_become_parameters():
    problem = build(records=[record(), record()], initial={"x": stats.norm(0, 1), "v": "c"})
    assert problem.names == ("m", "c", "k", "k3", "x(0)[0]", "x(0)[1]")
    assert problem.n_samples == 40
