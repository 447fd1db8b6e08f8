"""Steps chosen by what they do to the posterior, while a run goes on."""

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.likelihood.solver_choice import solver_from_prior
from smcpn.model.solver import MAX_STEPS
from smcpn.run import judge, sample
from smcpn.run.identify import Settings
from smcpn.run.run import Run
from smcpn.run.stages import advance
from tests.checkpoint.test_checkpoint_run import fingerprint
from tests.models import oscillator
from tests.nightly import nightly_but

TRUTH = {"c": 0.3, "k": 2.0}


@pytest.fixture(scope="module")
def problem():
    """Steps that look fine for one sample shift the posterior of three hundred."""
    n = np.arange(300)
    u = np.sin(0.6 * (1.2 * n + 0.0007 * n**2))
    record = smcpn.Record(u=u, dt=0.6)
    y = smcpn.simulate(oscillator, record, TRUTH, observe="x", steps=32)
    y += 0.03 * np.random.default_rng(0).normal(size=y.shape)
    prior = {"c": stats.lognorm(1.0), "k": stats.lognorm(1.0)}
    record = smcpn.Record(u=u, y=y, dt=0.6)
    return smcpn.Problem(oscillator, record, observe="x", noise=0.03, prior=prior)


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Runs begin with the steps that suit the median draw, which turn out to be too few."""
    monkeypatch.setattr("smcpn.run.plan.solver_for_run", solver_from_prior)


def settings(problem, **changes):
    options = {"solver": smcpn.RK4("auto"), "particles": 100, "seed": 1} | changes
    return Settings(**options).resolved(problem)


CASES = {
    "on the way": {"method": "ibis"},
    "at the end": {"method": "tempering"},
    "replicates": {"method": "ibis", "replicates": 2},
}


def steps_of(snapshots):
    return [solver.steps for snapshot in snapshots for solver in snapshot.solvers]


@pytest.mark.parametrize("case", nightly_but(["on the way"], CASES))
def test_every_snapshot_of_a_run_that_refines_leads_to_the_same_end(problem, case, monkeypatch):
    monkeypatch.setattr(sample, "FIRST_CHECK", 60)
    chosen = settings(problem, **CASES[case])
    run, snapshots = Run(problem, chosen), []
    while run.outcome is None:
        snapshots.append(run.snapshot())
        advance(run)
    refining = [s for s in snapshots if any(one.refining for one in s.samplers)]
    assert len(refining) >= 2
    assert len(set(steps_of(snapshots))) > 1
    expected = [s.system.theta.tobytes() for s in run.snapshot().samplers]
    for snapshot in [*refining, *snapshots[:: len(snapshots) // 3]]:
        again = Run.resumed(problem, chosen, snapshot)
        while again.outcome is None:
            advance(again)
        assert again.solver == run.solver
        assert [s.system.theta.tobytes() for s in again.snapshot().samplers] == expected
        assert again.outcome.populations.log_evidence == run.outcome.populations.log_evidence


def test_bytes_are_the_same_for_any_threads_and_block(problem, monkeypatch):
    monkeypatch.setattr(sample, "FIRST_CHECK", 60)
    ends = [
        smcpn.identify(
            problem, solver=smcpn.RK4(), particles=100, seed=2, progress=False, **options
        )
        for options in ({"threads": 1, "block": 5}, {"threads": 2}, {"block": 300})
    ]
    assert len({fingerprint(end) for end in ends}) == 1


@pytest.mark.parametrize("method", ["ibis", "tempering"])
def test_the_answer_is_that_of_a_run_at_fine_steps(problem, method):
    options = {"particles": 500, "method": method, "progress": False}
    found = smcpn.identify(problem, solver=smcpn.RK4(), seed=1, **options)
    fine = smcpn.identify(problem, solver=smcpn.RK4(16), seed=2, **options)
    assert 1 < found.solver.steps < 16
    # 5 standard errors of the difference, an effective particle in three, and what steps leave.
    for name in found.names:
        assert abs(found.mean[name] - fine.mean[name]) < (5 * 0.11 + 0.1) * fine.sd[name]
    error = np.hypot(found.log_evidence_se, fine.log_evidence_se)
    assert abs(found.log_evidence - fine.log_evidence) < 5 * error + 0.1
    assert not found.warnings


def test_a_population_that_is_too_far_off_begins_again(problem, monkeypatch):
    monkeypatch.setattr(judge, "FAR", 0.0)
    chosen = settings(problem, method="tempering")
    run = Run(problem, chosen)
    while run.outcome is None:
        advance(run)
        assert all(sampler.finer is None for sampler in run.samplers)
    direct = Run(problem, settings(problem, method="tempering", solver=run.solver))
    while direct.outcome is None:
        advance(direct)
    assert run.outcome.populations.theta.tobytes() == direct.outcome.populations.theta.tobytes()


def test_the_end_of_the_automatic_choice_is_told(problem, monkeypatch):
    monkeypatch.setattr(judge, "finer_solver", lambda problem, solver: None)
    with pytest.warns(smcpn.SamplerWarning, match="as fine as the automatic choice goes"):
        found = smcpn.identify(
            problem, solver=smcpn.RK4(), particles=50, seed=1, method="tempering", progress=False
        )
    assert found.shift is None
    assert "discretisation" not in found.summary()


def test_a_refined_solver_has_more_steps_up_to_the_limit():
    assert smcpn.EKF0(2, 3).refined() == smcpn.EKF0(2, 6)
    assert smcpn.RK4(3).refined(4) == smcpn.RK4(12)
    assert smcpn.RK4(MAX_STEPS).refined() is None
    assert smcpn.RK4().automatic
    assert not smcpn.RK4(2).automatic
    assert smcpn.RK4(2).resolution == "steps=2"
