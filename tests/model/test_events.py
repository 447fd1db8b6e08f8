"""Events of the state as they are written: what they may take and return, and what is refused."""

from __future__ import annotations

import pickle

import casadi as ca
import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import InputError
from smcpn.checkpoint.fingerprint import model_fingerprint


def bounce(**other):
    given = {"when": lambda x: x, "then": lambda v, *, r: {"v": -r * v}, "direction": "falling"}
    return smcpn.event(**(given | other))


def ball(*events, sizes=None):
    @smcpn.ode(events=list(events), sizes=sizes)
    def equation(x, v, *, drag):
        return v, -1.0 - drag * v

    return equation


def rows(equation, x, v, drag=0.1, r=0.8):
    column = equation.events(ca.DM([x, v]), ca.DM(0, 1), 2.0, ca.DM([drag, r]))
    return np.array(column).reshape(-1, 4)


def test_parameters_of_events_are_parameters_of_the_model_and_states_that_stay_are_kept():
    equation = ball(bounce(), bounce(when=lambda t, x: t - x, direction="either"))
    assert equation.parameters == ("drag", "r")
    assert rows(equation, 3.0, 2.0).tolist() == [[3.0, -1.0, 3.0, -1.6], [-1.0, 0.0, 3.0, -1.6]]


def test_all_states_may_be_returned_and_a_default_makes_a_constant():
    equation = ball(bounce(then=lambda x, v, *, r=0.5: (x + 1.0, -r * v)))
    assert equation.defaults == {"r": 0.5}
    assert rows(equation, 3.0, 2.0).tolist() == [[3.0, -1.0, 4.0, -1.6]]


def test_vectors_are_named_whole_or_by_entry():
    @smcpn.ode(
        sizes={"x": 2},
        events=[
            smcpn.event(when=lambda x: x[0] - x[1], then=lambda x: {"x": x[::-1]}),
            smcpn.event(when=lambda x: x[0] - 1.0, then=lambda: {"x[1]": 7.0}),
        ],
    )
    def pair(x, *, k):
        return -k * x

    found = np.array(pair.events(ca.DM([3.0, 5.0]), ca.DM(0, 1), 0.0, 1.0)).reshape(2, 4)
    assert found.tolist() == [[-2.0, 0.0, 5.0, 3.0], [2.0, 0.0, 3.0, 7.0]]


def test_events_survive_a_pickle_and_new_functions():
    f = smcpn.spline("v", knots=4, within=(-1, 1))

    @smcpn.ode(events=[bounce()])
    def equation(x, v, *, f=f):
        return v, f(v)

    finer = equation.with_functions({"f": smcpn.spline("v", knots=6, within=(-1, 1))})
    assert finer.parameters[-1] == "r"
    assert len(finer.parameters) == len(equation.parameters) + 2
    known = pickle.loads(pickle.dumps(ball(bounce())))
    assert rows(known, 3.0, 2.0).tolist() == [[3.0, -1.0, 3.0, -1.6]]
    assert known.diffusion is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ball("x"), r"events is \['x'\]: give a list"),
        (lambda: bounce(direction="up"), "direction is 'up'"),
        (lambda: bounce(when=1.0), "when is 1.0: give a function"),
        (lambda: ball(bounce(when=lambda x: x > 0)), "does not pass through zero"),
        (lambda: ball(bounce(when=lambda *, r: r)), "does not pass through zero"),
        (lambda: ball(bounce(when=lambda x: (x, x))), "returns 2 numbers: return one"),
        (lambda: ball(bounce(when=lambda z: z)), "when of an event takes 'z'"),
        (lambda: ball(bounce(then=lambda x: x)), "returns 1 numbers for 2 states"),
        (lambda: ball(bounce(then=lambda x: {"drag": x})), "names 'drag', which is no state"),
        (lambda: ball(bounce(then=lambda x: {"v": (x, x)})), "returns 2 numbers for 'v'"),
        (
            lambda: ball(bounce(then=lambda: {"v": np.random.default_rng().normal()})),
            "returns something else",
        ),
        (
            lambda: ball(
                bounce(then=lambda *, r=1.0: {"v": r}), bounce(then=lambda *, r=2: (r, r))
            ),
            "defaults 1 and 2",
        ),
    ],
)
def test_what_is_no_event_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


RECORD = smcpn.Record(y=np.zeros(5), dt=0.5)


def problem(**given):
    prior = {"drag": stats.uniform(0, 1), "r": stats.uniform(0.5, 0.4)}
    initial = given.pop("initial", [1.0, 0.0])
    return smcpn.Problem(
        ball(bounce()), RECORD, observe="x", noise=0.1, prior=prior, initial=initial, **given
    )


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda: smcpn.LogLikelihood(problem(), solver=smcpn.EKF0()),
            "choose likelihood classical or rosenbrock",
        ),
        (
            lambda: smcpn.LogLikelihood(problem(), solver=smcpn.AdaptiveEKF1()),
            "adaptive likelihood takes",
        ),
        (
            lambda: smcpn.solve(ball(bounce()), (0, 1), dict(drag=0.1, r=0.5), initial=[1, 0]),
            "solve takes",
        ),
        (
            lambda: problem(process_noise={"v": 0.1}),
            "process noise and events of the state do not go together",
        ),
        (
            lambda: smcpn.simulate(
                ball(bounce()), RECORD, dict(drag=0.1, r=0.5), observe="x", steps=4
            ),
            "steps is 4, and a model with events",
        ),
        (
            lambda: smcpn.linearise(ball(bounce()), dict(drag=0.1, r=0.5), observe="x"),
            "a linear model takes no events",
        ),
        (
            lambda: smcpn.maximise(problem(), starts=1, search="lifted"),
            "search 'lifted' takes no events",
        ),
    ],
)
def test_what_would_pass_over_events_says_so(use, message):
    with pytest.raises(InputError, match=message):
        use()


def test_fingerprint_knows_the_events():
    found = {model_fingerprint(one) for one in (problem(), problem())}
    other = smcpn.Problem(
        ball(bounce(direction="either")), RECORD, observe="x", noise=0.1, initial=[1.0, 0.0],
        prior={"drag": stats.uniform(0, 1), "r": stats.uniform(0.5, 0.4)},
    )  # fmt: skip
    assert len(found) == 1
    assert model_fingerprint(other) not in found
