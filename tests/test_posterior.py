from __future__ import annotations

import numpy as np
import pytest
from problems import duffing_problem, forced_input
from scipy import stats

import smcpn
from smcpn import EKF0, RK4, InputError, Problem, Record
from smcpn.likelihood.budget import SOLVER_SHARE, solver_share, sufficient_steps
from smcpn.models import duffing

TRUTH = {"m": 1.0, "c": 0.4, "k": 2.0, "k3": 0.5}
PRIOR = {name: stats.lognorm(0.4, scale=value * 1.2) for name, value in TRUTH.items()}


def simulated(n: int = 300, noise: float = 0.02, seed: int = 0, **changes) -> Record:
    u = forced_input(n, 0.2, seed)
    exact = smcpn.simulate(
        duffing, Record(u=u, dt=0.2, hold="bandlimited"), TRUTH, observe="x", steps=32
    )
    y = exact + noise * np.random.default_rng(seed).standard_normal(exact.shape)
    return Record(u=u, y=y, dt=0.2, hold="bandlimited", y_unit="m", **changes)


@pytest.fixture(scope="module")
def posterior():
    problem = Problem(duffing, simulated(), observe="x", noise="sigma",
                      prior=PRIOR | {"sigma": stats.lognorm(1.0, scale=0.05)})  # fmt: skip
    return smcpn.ibis(problem, solver=EKF0(order=3, steps="auto"), particles=500, seed=1)


def test_truth_is_found(posterior):
    for name, value in (TRUTH | {"sigma": 0.02}).items():
        assert abs(posterior.mean[name] - value) < 4 * posterior.sd[name], name
        assert posterior.sd[name] < 0.1 * value
        low, high = posterior.quantile(name, [0.001, 0.999])
        assert low < value < high


def test_automatic_steps_meet_the_stated_share(posterior):
    assert isinstance(posterior.solver.steps, int)
    assert posterior.solver_share <= SOLVER_SHARE


def test_run_is_recorded(posterior):
    n = posterior.problem.n_samples
    assert posterior.ess_path.shape == posterior.log_evidence_path.shape == (n,)
    assert posterior.log_evidence_path[-1] == pytest.approx(posterior.log_evidence)
    assert 0.2 < posterior.acceptance <= 1
    assert posterior.timing.theta_steps > 0
    assert posterior.weights.sum() == pytest.approx(1.0)


def test_summary_reads(posterior):
    text = posterior.summary()
    for word in ("sigma", "lognorm(0.4", "log-evidence", "rejuvenations", "solver variance"):
        assert word in text
    assert "prior-dominated" not in text


def test_prior_dominated_parameter_is_flagged():
    @smcpn.ode
    def model(x, u, *, a, idle):
        return -a * x + u + 0.0 * idle * 1e-9 * x

    record = Record(u=np.ones(50), y=np.linspace(0, 1, 50), dt=0.1)
    problem = Problem(model, record, observe="x", noise=0.1,
                      prior={"a": stats.lognorm(0.5), "idle": stats.norm()})  # fmt: skip
    rows = {r.name: r for r in smcpn.ibis(problem, solver=RK4(2), particles=500, seed=0).table()}
    assert rows["idle"].prior_dominated
    assert not rows["a"].prior_dominated


def test_resample(posterior):
    draws = posterior.resample(20_000, seed=1)
    assert set(draws) == set(posterior.names)
    assert draws["k"].mean() == pytest.approx(posterior.mean["k"], rel=1e-3)
    assert np.array_equal(posterior.resample(seed=3)["m"], posterior.resample(seed=3)["m"])
    with pytest.raises(InputError, match="no parameter 'zeta'"):
        posterior["zeta"]


def test_simulation_of_new_data(posterior):
    test = simulated(200, seed=9)
    simulation = posterior.simulate(test)
    assert simulation.rmse_of_mean[0] == pytest.approx(0.02, rel=0.2)
    assert simulation.fit[0] == pytest.approx(100 * (1 - simulation.rmse_of_mean[0] / test.y.std()))
    assert 0.88 < simulation.coverage[0] < 0.995
    assert simulation.rmse.shape == (500, 1)
    figure = simulation.plot()
    assert "fit" in figure.axes[0].get_title()


def test_simulation_of_what_was_not_measured(posterior):
    record = simulated(100, seed=9)
    bare = Record(u=record.u, dt=0.2, hold="bandlimited")
    simulation = posterior.simulate(bare)
    assert np.isnan(simulation.rmse_of_mean).all()
    np.testing.assert_allclose(simulation.mean, posterior.simulate(record).mean, atol=1e-9)
    velocity = posterior.simulate(bare, observe="v").mean[:, 0]
    slope = np.gradient(simulation.mean[:, 0], 0.2)
    assert np.corrcoef(velocity[2:-2], slope[2:-2])[0, 1] > 0.99
    stiffness = posterior.simulate(bare, observe=lambda x, *, k: k * x).mean[:, 0]
    np.testing.assert_allclose(stiffness, posterior.mean["k"] * simulation.mean[:, 0], rtol=0.02,
                               atol=0.02)  # fmt: skip
    with pytest.raises(InputError, match="takes 'zeta', which is no parameter"):
        posterior.simulate(bare, observe=lambda x, *, zeta: zeta * x)
    with pytest.raises(InputError, match="u has 0 columns"):
        posterior.simulate(Record(y=np.zeros(10), dt=0.2))


def test_hidden_samples_do_not_count(posterior):
    record = simulated(200, seed=9)
    spoiled = Record(u=record.u, y=np.where(np.arange(200)[:, None] < 50, 1e3, record.y), dt=0.2,
                     hold="bandlimited")  # fmt: skip
    a, b = posterior.simulate(spoiled.hide(0, 50)), posterior.simulate(record.hide(0, 50))
    np.testing.assert_allclose(a.rmse, b.rmse, rtol=1e-12)


def test_rmse_is_what_it_says(posterior):
    record = simulated(50, seed=9)
    theta = posterior.values[17]
    one = smcpn.simulate(
        duffing, record, dict(zip(posterior.names[:4], theta[:4], strict=True)), observe="x",
        steps=16,
    )  # fmt: skip
    simulation = posterior.simulate(record, steps=16)
    rmse = np.sqrt(np.mean((one - record.y) ** 2))
    assert simulation.rmse[17, 0] == pytest.approx(rmse, rel=1e-10)


def test_solver_share_falls_with_the_steps():
    problem = duffing_problem()
    values = np.array(list(TRUTH.values()))
    for make in (lambda s: EKF0(order=3, steps=s), lambda s: RK4(steps=s)):
        shares = [solver_share(problem, make(s), values) for s in (2, 4, 8)]
        assert shares[0] > 4 * shares[1] > 16 * shares[2] > 0
    assert solver_share(problem, EKF0(order=6, steps=1), values) == np.inf
    chosen = sufficient_steps(problem, EKF0(), values)
    assert solver_share(problem, chosen, values) <= SOLVER_SHARE


def test_impossible_share_is_refused():
    with pytest.raises(InputError, match="steps 'auto' finds no number up to 1024"):
        sufficient_steps(duffing_problem(), RK4(), np.array([np.nan, 1.0, 1.0, 1.0]))


def test_simulate_refusals():
    record = Record(u=np.ones(5), dt=0.1)
    with pytest.raises(InputError, match="'zeta' belongs to no parameter"):
        smcpn.simulate(duffing, record, TRUTH | {"zeta": 1.0}, observe="x")
    with pytest.raises(InputError, match="parameter 'k3' has no"):
        smcpn.simulate(duffing, record, {k: v for k, v in TRUTH.items() if k != "k3"}, observe="x")
    with pytest.raises(InputError, match="does not settle"):
        smcpn.simulate(duffing, record, TRUTH | {"c": -1e9}, observe="x")


def test_progress_callback_and_silence(capsys):
    seen = []
    smcpn.ibis(duffing_problem(30), solver=RK4(1), particles=100, seed=0, progress=seen.append)
    assert seen[-1].sample == seen[-1].n_samples == 30
    smcpn.ibis(duffing_problem(30), solver=RK4(1), particles=100, seed=0, progress=False)
    smcpn.ibis(duffing_problem(30), solver=RK4(1), particles=100, seed=0)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    smcpn.ibis(duffing_problem(30), solver=RK4(1), particles=100, seed=0, progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("30/30")
