"""Initial states as formulas of parameters, and as the equilibrium of the model."""

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.errors import InputError
from smcpn.model.initial import STEADY

pytestmark = pytest.mark.numerics

T = np.linspace(0.0, 2.0, 9)
U = np.full(len(T), 2.0)
U[0] = 0.5
RECORD = smcpn.Record(t=T, u=U, y=np.ones(len(T)))
PRIOR = {name: stats.lognorm(1.0) for name in ("k", "total")}
THETA = np.array([[0.7, 3.0], [2.0, 5.0]])


@smcpn.ode
def exchange(a, b, u, *, k):
    """Two amounts whose sum is conserved."""
    return u * b - k * a, k * a - u * b


def _problem(initial, records=RECORD):
    return smcpn.Problem(exchange, records, observe="a", noise=0.1, prior=PRIOR, initial=initial)


def both(*, k, total, share=0.25):
    return share * total, k**2


FORMULAS = {
    "of one state": {"a": lambda *, total: 207.6 * total, "b": 1.0},
    "of all states": both,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_initial_states_are_formulas_of_parameters(name):
    k, total = THETA.T
    wanted = {"of one state": [207.6 * total, np.ones(2)], "of all states": [total / 4, k**2]}
    found = _problem(FORMULAS[name]).model.initial_states(THETA)
    np.testing.assert_allclose(found, np.transpose(wanted[name]), rtol=1e-14)


def test_a_steady_state_keeps_what_is_conserved_and_has_its_gradient():
    problem = _problem(smcpn.SteadyState(begin={"a": "total"}))
    k, total = THETA.T
    wanted = np.transpose([total * 0.5, total * k]) / (k + 0.5)[:, None]
    np.testing.assert_allclose(problem.model.initial_states(THETA), wanted, rtol=1e-12)
    function = smcpn.LogLikelihood(problem, solver=smcpn.RK4(steps=4))
    _, gradient = function.value_and_gradient(THETA[:1])
    steps = 1e-6 * np.eye(2)
    differences = [(function(THETA[:1] + h) - function(THETA[:1] - h))[0] / 2e-6 for h in steps]
    np.testing.assert_allclose(gradient[0], differences, rtol=1e-5)


def test_a_steady_state_is_one_at_given_inputs_and_of_each_record():
    other = smcpn.Record(t=T, u=np.full(len(T), 4.0), y=np.ones(len(T)))
    at_one = smcpn.SteadyState(u={"u": 1.0}, begin=[1.0, 0.0])
    problem = _problem([at_one, {"a": "total"}], [RECORD, other])
    np.testing.assert_allclose(
        problem.model.initial_states(THETA)[:, 0], 1.0 / (THETA[:, 0] + 1.0), rtol=1e-12
    )


def test_a_steady_state_has_no_event_on_the_way_to_it():
    refill = smcpn.event(
        when=lambda r, *, low: r - low, then=lambda n: {"r": 5.0, "n": n + 1.0}, direction="falling"
    )

    @smcpn.ode(events=[refill])
    def turnover(r, n, u, *, k):
        return 1.0 - k * u * r, 0.0

    # The loss grows after the first sample, until the amount has to be filled up.
    record = smcpn.Record(t=T, u=np.where(T > 0, 3.0, 1.0), y=np.ones(len(T)))
    problems = [
        smcpn.Problem(
            turnover, record, observe="r", noise=0.1, prior={"k": stats.lognorm(1.0), "low": 1.0},
            initial=initial,
        )
        for initial in (STEADY, {"r": lambda *, k: 1.0 / k}, smcpn.SteadyState(begin=[5.0, 0.0]))
    ]  # fmt: skip
    values = np.array([[0.7], [0.9], [2.0]])
    steady, formula, emptied = (
        smcpn.LogLikelihood(one, solver=smcpn.RK4(steps=8))(values) for one in problems
    )
    np.testing.assert_allclose(steady, formula, rtol=1e-9)
    assert np.isfinite(emptied).tolist() == [True, True, False]
    counts = smcpn.simulate(turnover, record, {"k": 0.7, "low": 1.0}, observe="n", initial=STEADY)
    assert counts[0] == 0.0
    assert counts[-1] > 0.0


def test_where_there_is_no_steady_state_the_likelihood_is_none():
    @smcpn.ode
    def growth(x, *, k):
        return k * x + 1.0

    record = smcpn.Record(t=T, y=np.ones(len(T)))
    problem = smcpn.Problem(
        growth, record, observe="x", noise=0.1, prior={"k": stats.norm(0, 1)},
        initial="steady state",
    )  # fmt: skip
    function = smcpn.LogLikelihood(problem, solver=smcpn.RK4(steps=2))
    found = function(np.array([[-2.0], [0.0]]))
    assert np.isfinite(found[0])
    assert found[1] == -np.inf


REFUSED = {
    "a positional argument": (lambda k: k, "write a star"),
    "two values of one state": ({"a": both}, "returns 2 values: return one"),
    "too few": (lambda *, k: (k,), "has 1 values for the 2 states"),
    "an input that there is not": (smcpn.SteadyState(u={"w": 1.0}), "no input of model"),
    "an unknown parameter": (lambda *, w: (w, w), "'w' has no prior"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    initial, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        _problem(initial)


def test_simulate_and_solve_take_formulas():
    values = {"k": 0.7, "total": 3.0}
    start = smcpn.SteadyState(begin={"a": "total"})
    path = smcpn.simulate(exchange, RECORD, values, observe="a", initial=start)
    np.testing.assert_allclose(path[0, 0], 1.25, rtol=1e-12)


def test_an_estimate_at_a_point_has_a_standard_error():
    @smcpn.ode
    def decay(x, *, k):
        return -k * x

    record = smcpn.Record(y=np.exp(-T) + 0.1 * np.random.default_rng(0).normal(size=len(T)), t=T)
    problem = smcpn.Problem(
        decay, record, observe="x", noise=0.1, prior={"k": stats.lognorm(1)},
        process_noise={"x": 0.1}, initial=[1.0],
    )  # fmt: skip
    values, solver = np.array([[1.0], [0.3]]), smcpn.RK4(steps=2)
    exact = smcpn.LogLikelihood(problem, "kalman", solver=solver)
    function = smcpn.LogLikelihood(
        problem, "particle-bootstrap", solver=solver, state_particles=128
    )
    found, error = function.estimate(values)
    assert (np.abs(found - exact(values)) < 4 * error).all()
    assert (error > 0).all()
    np.testing.assert_array_equal(function(values), found)
    with pytest.raises(InputError, match="no gradient"):
        function.value_and_gradient(values)
