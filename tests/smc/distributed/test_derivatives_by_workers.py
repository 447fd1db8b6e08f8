"""Gradients, expansions and searches by workers: the same bytes as at home."""

import numpy as np
import pytest
from models import decay_problem

import smcpn
from smcpn.codegen.clock import CLOCK
from smcpn.likelihood import gradient
from smcpn.smc.distributed.workers import Workers, evaluated_by

SOLVER = smcpn.EKF0(order=2, steps=2)


def assert_same(one, other):
    """The same bytes, in arrays that are read in the same order."""
    assert len(one) == len(other)
    for ours, theirs in zip(one, other, strict=True):
        assert ours.tobytes() == theirs.tobytes()
        assert ours.strides == theirs.strides


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [1, 2, 40])
def test_derivatives_are_the_same(executor, monkeypatch, reverse, n):
    monkeypatch.setattr(gradient, "FORWARD", 0 if reverse else 20)
    problem = decay_problem()
    home = smcpn.LogLikelihood(problem, solver=SOLVER)
    away = home.evaluated(evaluated_by(Workers(executor)))
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), n))
    values[n // 2] = 1e300
    for of in (home, away):
        assert of.reverses == reverse
    assert_same([away(values)], [home(values)])
    assert_same(away.value_and_gradient(values), home.value_and_gradient(values))
    assert_same(away.expansion(values), home.expansion(values))
    assert_same(away.expansion(values, 0.3), home.expansion(values, 0.3))
    assert_same(away.derivative(values, values), home.derivative(values, values))
    assert_same(away.gradient_and_hessian(values), home.gradient_and_hessian(values))
    sent = {task.batch.method for task in executor.tasks}
    assert sent >= {"total", "expansion", "derivative", "scores"}
    assert ("swept" in sent) == reverse


def test_a_reverse_pass_travels_without_graphs(executor, monkeypatch):
    monkeypatch.setattr(gradient, "FORWARD", 0)
    home = smcpn.LogLikelihood(decay_problem(), solver=SOLVER)
    away = home.evaluated(evaluated_by(Workers(executor)))
    away.value_and_gradient(np.ones((40, len(home.names))))
    sizes = [len(task.likelihood.content) for task in executor.tasks]
    assert max(sizes) < 2000


def test_a_search_is_the_same_and_its_result_needs_no_workers(executor):
    def found(**options):
        before = CLOCK.theta_steps
        result = smcpn.laplace(decay_problem(), solver="auto", starts=3, **options)
        return result, CLOCK.theta_steps - before

    (here, work), (there, worked) = found(), found(executor=executor)
    assert here.mode.tobytes() == there.mode.tobytes()
    assert here.covariance.tobytes() == there.covariance.tobytes()
    assert here.log_evidence == there.log_evidence
    assert repr(here.solver) == repr(there.solver)
    assert work == worked
    sent = len(executor.tasks)
    assert sent > 5
    there.maximum.function(there.maximum.values[None, :])
    assert len(executor.tasks) == sent


@pytest.mark.filterwarnings("ignore::smcpn.SamplerWarning")
def test_moves_along_gradients_are_the_same(executor, monkeypatch):
    monkeypatch.setattr(gradient, "FORWARD", 0)

    moves = smcpn.HamiltonianMonteCarlo(length=2, steps=4)

    def run(**options):
        return smcpn.identify(
            decay_problem(), solver=SOLVER, moves=moves, particles=64,
            method="tempering", seed=1, progress=False, **options,
        )  # fmt: skip

    here, there = run(), run(executor=executor)
    assert here.theta.tobytes() == there.theta.tobytes()
    assert here.log_evidence == there.log_evidence
    assert "swept" in {task.batch.method for task in executor.tasks}


@pytest.mark.filterwarnings("ignore::smcpn.SamplerWarning")
def test_discovered_equations_are_the_same(executor):
    y = np.exp(-0.1 * np.arange(30)) + 0.01 * np.random.default_rng(0).normal(size=30)
    options = {"library": "poly(1)", "states": ["x"], "particles": 64, "prior": "laplace"}

    def run(**others):
        found = smcpn.discover(smcpn.Record(y=y, dt=0.1), **options, **others)
        return found.posterior

    here, there = run(), run(executor=executor)
    assert here.coefficients.tobytes() == there.coefficients.tobytes()
    assert here.log_evidence == there.log_evidence
    assert {task.batch.method for task in executor.tasks} >= {"expansion"}
