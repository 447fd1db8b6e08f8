"""The solver that draws of the prior called for is left where particles call for another one.

Decisions go by counted steps; the answers here are those of closed forms, on grids.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.likelihood.solver_choice import SolverChoice, choose_solver
from smcpn.run.identify import Settings
from smcpn.run.run import Begin, Run
from smcpn.run.stages import advance
from tests.nightly import nightly_but

pytestmark = pytest.mark.numerics

Array = np.ndarray[Any, Any]


@smcpn.ode
def follower(x, z, *, k, c):
    """A state that follows another one."""
    return -k * (x - z), -c * z


@smcpn.ode
def chain(a, b, *, kf, ks):
    return -kf * a, kf * a - ks * b


EARLY_AND_LATE = np.concatenate([[0.0], np.linspace(5e-4, 5e-3, 10), np.linspace(2.0, 20.0, 10)])
LONG = np.linspace(0.0, 40.0, 1201)


def followed(t: Array, k: Any, c: Any) -> Array:
    return k / (k - c) * (np.exp(-c * t) - np.exp(-k * t))


def stiff_at_the_data() -> smcpn.Problem:
    """The rate is a thousand, which one draw of the prior in three hundred reaches."""
    y = followed(EARLY_AND_LATE, 1000.0, 0.1) + 0.01 * np.random.default_rng(1).normal(size=21)
    prior: dict[str, Any] = {"k": stats.lognorm(2.5, scale=1.0), "c": stats.lognorm(1.0)}
    return smcpn.Problem(
        follower, smcpn.Record(t=EARLY_AND_LATE, y=y), observe="x", noise=0.01,
        initial={"z": 1.0}, prior=prior,
    )  # fmt: skip


def stiff_in_the_prior() -> smcpn.Problem:
    """A quarter of the prior is stiff, and the posterior is not."""
    b = 0.5 / 0.4 * (np.exp(-0.1 * LONG) - np.exp(-0.5 * LONG))
    y = np.stack([np.exp(-0.5 * LONG), b], axis=1)
    y += 0.2 * np.random.default_rng(1).normal(size=y.shape)
    prior: dict[str, Any] = {"kf": stats.loguniform(1e-3, 1e5), "ks": stats.loguniform(1e-3, 10)}
    return smcpn.Problem(
        chain, smcpn.Record(t=LONG, y=y), observe=["a", "b"], noise=0.2, initial={"a": 1.0},
        prior=prior,
    )  # fmt: skip


def exact() -> tuple[float, float, float]:
    """Log-evidence, and mean and sd of the log of k, of `stiff_at_the_data` by a grid."""
    y = stiff_at_the_data().records[0].y[:, 0]
    k, c = np.exp(np.linspace(6.7, 7.1, 161)), np.exp(np.linspace(-2.45, -2.15, 161))
    mean = followed(EARLY_AND_LATE, k[:, None, None], c[None, :, None])
    log_density = stats.norm.logpdf(y, mean, 0.01).sum(axis=2)
    log_density += stats.norm.logpdf(np.log(k), 0.0, 2.5)[:, None] + stats.norm.logpdf(np.log(c))
    cells = np.exp(log_density - log_density.max())
    weights = cells.sum(axis=1) / cells.sum()
    middle = float(weights @ np.log(k))
    area = (0.4 / 160) * (0.3 / 160)
    evidence = float(np.log(cells.sum() * area) + log_density.max())
    return evidence, middle, float(np.sqrt(weights @ np.square(np.log(k) - middle)))


@pytest.mark.nightly
def test_a_run_goes_on_with_the_stiff_solver_where_the_data_are_stiff():
    problem = stiff_at_the_data()
    assert choose_solver(problem).solver == smcpn.EKF0()
    found = smcpn.identify(problem, seed=1, progress=False)
    assert isinstance(found.solver, smcpn.Rosenbrock)
    assert found.likelihood_name == "rosenbrock"
    assert found.warnings == ()
    assert "the problem is stiff, explicit steps would be" in found.solver_and_reason
    log_evidence, middle, sd = exact()
    assert abs(found.log_evidence - log_evidence) < 0.15
    assert abs(found.weights @ np.log(found.values[:, 0]) - middle) < 0.2 * sd


@pytest.mark.nightly
def test_searches_go_on_with_the_stiff_solver_where_the_data_are_stiff():
    """The mode is that of the closed form; a solver that is given stays."""
    problem = stiff_at_the_data()
    found = smcpn.laplace(smcpn.maximise(problem))
    assert isinstance(found.solver, smcpn.Rosenbrock)
    assert isinstance(smcpn.maximise(problem, solver=smcpn.EKF0(), starts=1).solver, smcpn.EKF0)
    log_evidence, middle, sd = exact()
    assert abs(found.log_evidence - log_evidence) < 0.05
    assert abs(np.log(found.maximum["k"]) - middle) < 0.1 * sd


def test_the_stiff_steps_follow_where_explicit_ones_fail_at_a_part_of_the_posterior():
    """Draws of the prior do not show it: the data leave the rate open upwards."""
    t = np.array([0.0, 5, 10, 20, 40, 80])
    b = np.where(t > 0, np.exp(-0.03 * t), 0.0)
    prior = {"kf": stats.lognorm(1.2, scale=1.0), "ks": stats.lognorm(2.0, scale=0.1)}
    record = smcpn.Record(t=t, y=b + 0.02 * np.random.default_rng(1).normal(size=6))
    problem = smcpn.Problem(chain, record, observe="b", noise=0.02, initial={"a": 1.0}, prior=prior)
    assert choose_solver(problem).solver == smcpn.EKF0()
    found = smcpn.identify(problem, particles=400, seed=1, progress=False)
    assert "explicit steps fail" in found.solver_and_reason
    assert found.warnings == ()


@pytest.fixture
def every_step_counts(monkeypatch: pytest.MonkeyPatch):
    """A short record is worth another solver, so that the test is short."""
    monkeypatch.setattr("smcpn.likelihood.solver_choice.WORTH", 0)


@pytest.mark.nightly
def test_explicit_steps_follow_where_the_posterior_is_not_stiff_and_that_pays(every_step_counts):
    problem, options = stiff_in_the_prior(), {"particles": 200, "seed": 1, "progress": False}
    assert choose_solver(problem).solver == smcpn.Rosenbrock()
    found = smcpn.identify(problem, **options)
    stiff = smcpn.identify(problem, solver=smcpn.Rosenbrock(), **options)
    assert isinstance(found.solver, smcpn.EKF0)
    assert "the posterior is not stiff" in found.solver_and_reason
    # Both begin with the same draws about the same mode.
    assert found.log_evidence == pytest.approx(stiff.log_evidence, abs=0.01)
    for name in found.names:
        assert abs(found.mean[name] - stiff.mean[name]) < 0.05 * stiff.sd[name]


def test_a_refused_start_is_not_searched_for_again(monkeypatch: pytest.MonkeyPatch):
    """The stiff solver that particles from the prior call for has nothing to begin at."""
    problem = stiff_at_the_data()
    run = Run(problem, Settings(particles=100, seed=1, method="tempering").resolved(problem))
    run.change(refused_k=np.inf)

    def planned(*_: Any) -> None:
        raise AssertionError("searched twice")

    monkeypatch.setattr("smcpn.run.run.planned", planned)
    choice = SolverChoice(smcpn.Rosenbrock(), "rosenbrock", "particles call for it")
    plan = run.planned_anew(choice).plan
    assert plan is not None
    assert plan.choice == choice
    assert plan.solver == smcpn.Rosenbrock().begun()


def test_explicit_steps_that_save_little_are_not_compiled():
    found = smcpn.identify(stiff_in_the_prior(), particles=100, seed=1, progress=False)
    assert isinstance(found.solver, smcpn.Rosenbrock)


@pytest.mark.parametrize(
    ("problem", "method"),
    nightly_but(
        [(stiff_at_the_data, "ibis")],
        [(stiff_at_the_data, "ibis"), (stiff_in_the_prior, "tempering")],
    ),
)
def test_every_snapshot_leads_to_the_same_end(problem, method, every_step_counts):
    chosen = Settings(particles=100, seed=1, method=method).resolved(problem())
    run, snapshots = Run(problem(), chosen), []
    while run.outcome is None:
        snapshots.append(run.snapshot())
        advance(run)
    place = [one.plan.choice is not None for one in snapshots].index(True)
    assert 0 < place < len(snapshots)
    expected = run.snapshot().samplers[0].system.theta.tobytes()
    for snapshot in (snapshots[place - 1], snapshots[place], snapshots[-1]):
        again = Run.resumed(problem(), chosen, snapshot)
        while again.outcome is None:
            advance(again)
        assert again.solver == run.solver
        assert again.snapshot().samplers[0].system.theta.tobytes() == expected
        assert again.outcome.populations.log_evidence == run.outcome.populations.log_evidence


def test_explicit_steps_that_are_made_finer_stay_explicit(every_step_counts):
    """The run begins at the prior again, and the stiff solver does not come back by itself."""
    problem = stiff_in_the_prior()
    chosen = Settings(particles=100, seed=1, method="tempering").resolved(problem)
    run = Run(problem, chosen)
    while run.state.plan is None or run.plan.choice is None:
        advance(run)
    finer = replace(run.solver, steps=2 * run.solver.steps)
    run.begin(Begin(finer))
    assert run.solver == finer
    while run.outcome is None:
        advance(run)
    assert isinstance(run.solver, smcpn.EKF0)
    stiff = smcpn.identify(
        problem, solver=smcpn.Rosenbrock(), method="tempering", particles=100, seed=1,
        progress=False,
    )  # fmt: skip
    assert run.outcome.populations.log_evidence == pytest.approx(stiff.log_evidence, abs=0.5)


def test_a_run_that_is_killed_after_it_was_chosen_again_goes_on_from_its_file(
    tmp_path, every_step_counts
):
    options: dict[str, Any] = {"particles": 100, "seed": 1, "method": "tempering"}
    problem, path = stiff_in_the_prior(), tmp_path / "run.h5"
    whole = smcpn.identify(problem, progress=False, **options)
    assert isinstance(whole.solver, smcpn.EKF0)

    def kill(progress):
        if len(progress.rejuvenations) == len(whole.rejuvenations) - 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        smcpn.identify(problem, progress=kill, checkpoint=path, checkpoint_every=0.0, **options)
    found = smcpn.resume(path, progress=False)
    assert found.theta.tobytes() == whole.theta.tobytes()
    assert found.solver_and_reason == whole.solver_and_reason
    with pytest.raises(
        smcpn.InputError, match=r"started with solver = the default, not .*Rosenbrock"
    ):
        smcpn.identify(
            problem, solver=smcpn.Rosenbrock(), progress=False, checkpoint=path, **options
        )
