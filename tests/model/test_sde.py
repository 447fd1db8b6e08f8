"""`smcpn.sde`: drift and diffusion by one function."""

from __future__ import annotations

import pickle

import casadi as ca
import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.checkpoint import StoredProblem
from smcpn.checkpoint.codec import read_again
from smcpn.checkpoint.fingerprint import model_fingerprint
from smcpn.model.graphs import Model
from smcpn.model.ode import ODE
from smcpn.model.problem import Problem


@smcpn.sde
def scalar(x, *, mu, sigma):
    """Geometric Brownian motion."""
    return mu * x, sigma * x


@smcpn.sde
def by_state(x, v, u, *, c, q):
    return np.array([v, u - c * v]), np.array([0, q * (1 + x**2)])


@smcpn.sde
def by_matrix(x, v, u, *, c, q):
    return (v, u - c * v), [[q, 0, 1], [0, x, 2]]


@smcpn.sde
def by_expression(x, v, u, *, c, q):
    return ca.vertcat(v, u - c * v), ca.horzcat(ca.vertcat(q, 0), ca.vertcat(0, x))


def diffusion(ode: ODE, x: list[float], parameters: list[float]) -> np.ndarray:
    assert ode.diffusion is not None
    return (
        np.array(ode.diffusion(x, 0.0, 0.0, parameters))
        if ode.inputs
        else np.array(ode.diffusion(x, [], 0.0, parameters))
    )


def test_a_diffusion_is_one_entry_per_state_or_a_matrix() -> None:
    assert diffusion(scalar, [3.0], [0.1, 0.2]) == pytest.approx(0.6)
    assert diffusion(by_state, [2.0, 1.0], [0.3, 0.5]).tolist() == [[0.0], [2.5]]
    assert diffusion(by_expression, [4.0, 1.0], [0.3, 0.5]).tolist() == [[0.5, 0], [0, 4]]
    assert diffusion(by_matrix, [4.0, 1.0], [0.3, 0.5]).tolist() == [[0.5, 0, 1], [0, 4, 2]]


def test_it_is_an_equation_with_the_drift() -> None:
    assert (by_state.states, by_state.inputs, by_state.parameters) == (
        ("x", "v"), ("u",), ("c", "q"),
    )  # fmt: skip
    assert by_state.chains == {"x": "v"}
    assert scalar.doc == "Geometric Brownian motion."
    assert by_state.drift.diffusion is None
    again = pickle.loads(pickle.dumps(by_state))
    assert np.array_equal(diffusion(again, [2.0, 1.0], [0.3, 0.5]), [[0.0], [2.5]])
    assert pickle.loads(pickle.dumps(by_state.drift)).diffusion is None


def problem(ode: ODE, **arguments: object) -> Problem:
    record = smcpn.Record(u=np.zeros(4), y=np.zeros(4), dt=0.1)
    prior = {"c": stats.lognorm(1.0), "q": stats.lognorm(1.0)}
    return Problem(ode, record, observe="x", noise=0.1, prior=prior, **arguments)


def columns(model: Model) -> ca.Function:
    assert model.process_noise is not None
    return ca.Function("G", [model.x, model.theta], [model.process_noise.columns])


@pytest.mark.parametrize("ode", [by_state, by_matrix], ids=["by state", "matrix"])
def test_a_problem_is_the_same_after_it_was_stored(ode: ODE) -> None:
    whole = problem(ode)
    again = read_again(StoredProblem.of(whole)).restored(whole.records)
    assert model_fingerprint(again) == model_fingerprint(whole)
    first, second = (columns(p.model) for p in (whole, again))
    at = [2.0, 1.0], [0.3, 0.5]
    assert np.array_equal(np.array(first(*at)), np.array(second(*at)))
    assert first.sparsity_out(0) == second.sparsity_out(0)
    assert np.array_equal(diffusion(again.ode, [2, 1], [1, 2]), diffusion(ode, [2, 1], [1, 2]))


def test_noise_is_part_of_the_fingerprint() -> None:
    @smcpn.ode
    def plain(x, v, u, *, c, q):
        return v, u - c * v

    kinds = [problem(by_state), problem(by_matrix), problem(plain)]
    kinds += [problem(plain, process_noise={"v": value}) for value in ("q", "c")]
    assert len({model_fingerprint(one) for one in kinds}) == len(kinds)


BAD = {
    "does not return a pair": lambda x, v, *, q: (v, -x, q),
    "1 entries of diffusion for 2 states": lambda x, v, *, q: ((v, -x), (q,)),
    "rows of [2, 1] entries for 2 states": lambda x, v, *, q: ((v, -x), [[q, 1], 0]),
    "rows of [1] entries for 2 states": lambda x, v, *, q: ((v, -x), [[q]]),
    "a diffusion of zeros": lambda x, v, *, q: ((v, -x), (0, 0)),
    "branches on a traced value": lambda x, v, *, q: ((v, -x), (0, q if x > 0 else 1.0)),
}


@pytest.mark.parametrize("message", BAD)
def test_what_does_not_fit_is_one_sentence(message: str) -> None:
    with pytest.raises(smcpn.InputError) as caught:
        smcpn.sde(BAD[message])
    assert message in str(caught.value)


def test_noise_is_given_once() -> None:
    with pytest.raises(smcpn.InputError, match="beside the diffusion of model 'by_state'"):
        problem(by_state, process_noise={"v": 1.0})
