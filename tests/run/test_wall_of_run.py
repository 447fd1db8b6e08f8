"""A posterior that reaches where explicit solvers fail: another solver, or one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.likelihood.solver_choice import choose_solver
from tests.models import predator_prey_problem

pytestmark = pytest.mark.numerics


@smcpn.ode
def chain(a, b, *, kf, ks):
    return -kf * a, kf * a - ks * b


@smcpn.ode
def explosion(x, *, a):
    return a * x**2


T = np.array([0.0, 5, 10, 20, 40, 80])


def chain_record() -> smcpn.Record:
    b = np.exp(-0.03 * T)
    b[0] = 0
    return smcpn.Record(t=T, y=b + 0.02 * np.random.default_rng(1).normal(size=6))


def chain_problem(noise: Any = 0.02) -> smcpn.Problem:
    """A fast step before a slow one, of which only the slow one is seen."""
    prior: dict[str, Any] = {"kf": stats.loguniform(1e-3, 1e4), "ks": stats.loguniform(1e-3, 1e1)}
    return smcpn.Problem(
        chain, chain_record(), observe="b", noise=noise, initial={"a": 1.0}, prior=prior
    )


def exact() -> tuple[float, float, float]:
    """Log-evidence, and ends of the 95 % interval of kf, by the solution on a grid."""
    y, ks = chain_record().y[:, 0], np.logspace(-3, 1, 4001)
    kf, marginal = np.logspace(-3, 4, 1401) * 1.0001, []
    for k in kf:
        b = k * (np.exp(-k * T[:, None]) - np.exp(-ks * T[:, None])) / (ks - k)
        total = -0.5 * np.square((y[:, None] - b) / 0.02).sum(axis=0)
        marginal.append(np.exp(total).mean())
    shares = np.cumsum(marginal) / np.sum(marginal)
    low, high = (float(kf[np.searchsorted(shares, q)]) for q in (0.025, 0.975))
    return float(np.log(np.mean(marginal)) - 6 * np.log(0.02 * np.sqrt(2 * np.pi))), low, high


def test_the_default_reaches_all_of_a_posterior_of_which_a_part_is_stiff():
    posterior = smcpn.identify(chain_problem(), seed=1, progress=False)
    log_evidence, low, high = exact()
    values = posterior.problem.prior.natural(posterior.theta)[:, 0]
    order = np.argsort(values)
    shares = np.cumsum(posterior.weights[order])
    ends = values[order][np.searchsorted(shares, (0.025, 0.975))]
    assert np.abs(np.log10(ends / [low, high])).max() < 0.1
    assert abs(posterior.log_evidence - log_evidence) < 0.1
    assert posterior.warnings == ()


@pytest.mark.parametrize(
    "solver",
    [
        pytest.param(smcpn.EKF0(steps=64), marks=pytest.mark.nightly),
        smcpn.RK4(steps=64),
        smcpn.RK4(),
    ],
)
def test_a_solver_that_was_chosen_names_its_wall(solver):
    with pytest.warns(UserWarning, match=r"kf above .* % of the prior\) was never reached"):
        posterior = smcpn.identify(chain_problem(), solver=solver, seed=1, progress=False)
    said = [one for one in posterior.warnings if "never reached" in one]
    assert len(said) == 1
    assert posterior.solver.kind in said[0]
    assert "smcpn.Rosenbrock" in said[0]


def test_searches_name_the_wall_too():
    found = smcpn.maximise(chain_problem(), solver=smcpn.RK4(steps=64))
    assert any("never reached" in one for one in found.warnings)
    assert found.wall is not None
    assert found.wall.bound is not None
    assert found.wall.bound.name == "kf"
    assert isinstance(smcpn.maximise(chain_problem()).solver, smcpn.Rosenbrock)


def test_streams_take_the_stiff_solver():
    assert isinstance(smcpn.Online(chain_problem()).solver, smcpn.Rosenbrock)


def test_a_solution_that_explodes_by_itself_is_no_failure_of_the_solver():
    t = np.linspace(0.0, 10.0, 21)
    y = 1 / (1 - 0.05 * t) + 0.05 * np.random.default_rng(0).normal(size=21)
    problem = smcpn.Problem(
        explosion, smcpn.Record(t=t, y=y), observe="x", noise=0.05, initial={"x": 1.0},
        prior={"a": stats.lognorm(1.5, scale=0.2)},
    )  # fmt: skip
    assert choose_solver(problem).solver == smcpn.EKF0()
    for solver in (None, smcpn.RK4(steps=4)):
        posterior = smcpn.identify(problem, solver=solver, seed=1, progress=False)
        assert not any("never reached" in one for one in posterior.warnings)


def test_no_other_solver_is_asked_where_nothing_stays_unstable(monkeypatch: pytest.MonkeyPatch):
    """Draws of the prior diverge here with few steps, and with more they do not."""

    def refused(*_: Any) -> None:
        raise AssertionError("a second solver was asked")

    monkeypatch.setattr("smcpn.likelihood.solver_choice.solver_steps", refused)
    monkeypatch.setattr("smcpn.likelihood.wall.stiff_solver", refused)
    problem = predator_prey_problem()
    assert choose_solver(problem).solver == smcpn.EKF0()
    for solver in (None, smcpn.EKF0(steps=2)):
        smcpn.identify(problem, solver=solver, particles=200, seed=1, progress=False)


def test_noise_of_another_density_is_taken_too():
    assert choose_solver(chain_problem(smcpn.StudentT(0.02))).solver == smcpn.Rosenbrock()


def test_where_the_stiff_solver_cannot_be_had_the_sentence_says_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
):
    """As of a model whose inputs have dead times."""
    monkeypatch.setattr("smcpn.likelihood.wall.stiff_solver", lambda problem: None)
    with pytest.warns(UserWarning, match="never reached.*raise steps, or narrow the prior"):
        smcpn.identify(chain_problem(), solver=smcpn.RK4(64), seed=1, particles=400, progress=False)
