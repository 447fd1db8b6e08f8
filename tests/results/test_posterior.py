from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import EKF0, RK4, InputError, Problem, Record, StateFilter
from smcpn.datasets.models import duffing
from smcpn.likelihood.prediction import predictions, predictive_moments
from smcpn.likelihood.shift import AUTOMATIC_SHIFT
from smcpn.likelihood.solver_choice import SOLVER_SHARE, error_budget, sufficient_steps
from smcpn.results.scores import (
    LEAST_SCORED,
    SCORED_STEPS,
    Score,
    particles_scored,
    score_note,
)
from smcpn.smc.replicates import SamplerWarning
from tests.models import duffing_problem, forced_input

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
    solver = EKF0(order=3, steps="auto")
    return smcpn.identify(problem, solver=solver, method="ibis", particles=500, seed=1)


def test_truth_is_found(posterior):
    for name, value in (TRUTH | {"sigma": 0.02}).items():
        assert abs(posterior.mean[name] - value) < 4 * posterior.sd[name], name
        assert posterior.sd[name] < 0.1 * value
        low, high = posterior.quantile(name, [0.001, 0.999])
        assert low < value < high


def test_automatic_steps_meet_the_stated_shift(posterior):
    assert isinstance(posterior.solver.steps, int)
    assert posterior.shift.size <= AUTOMATIC_SHIFT


def test_run_is_recorded(posterior):
    n = posterior.problem.n_samples
    assert posterior.ess_path.shape == posterior.log_evidence_path.shape == (n,)
    assert posterior.log_evidence_path[-1] == pytest.approx(posterior.log_evidence)
    assert 0.2 < posterior.acceptance <= 1
    assert posterior.timing.theta_steps > 0
    assert posterior.weights.sum() == pytest.approx(1.0)


def test_summary_reads(posterior):
    text = posterior.summary()
    for word in ("sigma", "lognorm(0.4", "log-evidence", "posterior sd"):
        assert word in text
    [verdict] = [line for line in text.splitlines() if line.startswith("verdict          ")]
    assert ", fit 9" in verdict
    for word in ("weighings", "Pareto", "rejuvenations", "particle steps"):
        assert word not in text
    assert "rejuvenations" in posterior.computation
    assert "prior-dominated" not in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(ode=lambda x: x), "decorate the function"),
        (dict(record=np.ones(9)), r"record is array\(.*: give one smcpn\.Record"),
        (dict(record=Record(y=np.ones(9), dt=0.1)), "u has 0 columns but model 'duffing' has 1"),
        (dict(record=Record(u=np.ones((9, 2)), dt=0.1)), "u has 2 columns but"),
        (dict(parameters=[1.0]), r"parameters is \[1.0\]: give a dict"),
        (dict(parameters=TRUTH | {"m": "1"}), "parameter 'm' is '1'"),
        (dict(parameters=TRUTH | {"m": np.nan}), "parameter 'm' is nan"),
        (dict(parameters={"m": 1.0}), r"parameter 'c' has no value: give parameters=\{'c': ...\}"),
        (dict(parameters=TRUTH | {"zeta": 1.0}), "'zeta' belongs to no parameter"),
    ],
)
def test_bad_simulations_are_refused(changes, message):
    arguments = dict(ode=duffing, record=Record(u=np.ones(9), dt=0.1), parameters=TRUTH) | changes
    with pytest.raises(InputError, match=message):
        smcpn.simulate(**arguments, observe="x")


def test_outputs_of_a_record_do_not_matter_to_a_simulation():
    record = Record(u=np.ones(9), y=np.ones(9), dt=0.1)
    both = smcpn.simulate(duffing, record, TRUTH, observe=["x", "v"], steps=4)
    bare = smcpn.simulate(duffing, Record(u=np.ones(9), dt=0.1), TRUTH, observe="v", steps=4)
    np.testing.assert_allclose(both[:, 1:], bare, rtol=1e-12)


def test_prior_dominated_parameter_is_flagged():
    @smcpn.ode
    def model(x, u, *, a, idle):
        return -a * x + u + 0.0 * idle * 1e-9 * x

    record = Record(u=np.ones(50), y=np.linspace(0, 1, 50), dt=0.1)
    problem = Problem(model, record, observe="x", noise=0.1,
                      prior={"a": stats.lognorm(0.5), "idle": stats.norm()})  # fmt: skip
    rows = {
        r.name: r for r in smcpn.identify(problem, solver=RK4(2), particles=500, seed=0).table()
    }
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
    with pytest.raises(InputError, match="output is 3: give a whole number from 0 to 0"):
        simulation.plot(3)
    figure = simulation.plot()
    assert "fit" in figure.axes[0].get_title()
    both = posterior.simulate(Record(u=test.u, dt=0.1), observe=["x", "v'"])
    assert both.outputs == ("x", "v'")
    assert [axes.get_ylabel() for axes in both.plot().axes] == ["x", "v'"]


@pytest.mark.numerics
def test_short_predictions_see_through_a_disturbance(posterior):
    """A push that the model does not know of: the free run is off from there, windows recover."""
    test = simulated(200, seed=9)
    y = test.y.copy()
    y[100:, 0] += 0.3 * np.exp(-0.2 * 0.2 * np.arange(100)) * np.cos(1.4 * 0.2 * np.arange(100))
    pushed = Record(u=test.u, y=y, dt=0.2, hold="bandlimited")
    state_filter = StateFilter(sensor=0.02, disturbance=(0.05, 0.1), initial=(0.1, 0.1))
    free = posterior.simulate(pushed).rmse_of_mean[0]
    errors = [posterior.predict(pushed, k, state_filter).rmse_of_mean[0] for k in (1, 5, 40)]
    assert 0.015 < errors[0] < errors[1] < errors[2] < free
    with pytest.raises(InputError, match="horizon is 0"):
        posterior.predict(pushed, 0, state_filter)
    with pytest.raises(InputError, match="one per state"):
        posterior.predict(pushed, 5, StateFilter(0.02, (0.1,), (0.1, 0.1)))


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


def budget_of(problem, solver):
    found = predictions(problem, solver, enumerate(problem.records))
    return error_budget(problem, found, np.array(list(TRUTH.values())), solver.steps)


def test_solver_error_falls_with_the_steps():
    problem = duffing_problem()
    values = np.array(list(TRUTH.values()))
    for make in (lambda s: EKF0(order=3, steps=s), lambda s: RK4(steps=s)):
        shares = [budget_of(problem, make(s)).share for s in (2, 4, 8)]
        assert shares[0] > 4 * shares[1] > 16 * shares[2] > 0
    assert budget_of(problem, EKF0(order=6, steps=1)).share == np.inf
    assert budget_of(problem, RK4(4)).claimed == 0.0
    chosen = sufficient_steps(problem, EKF0(), values)
    assert budget_of(problem, chosen).share <= SOLVER_SHARE


@pytest.mark.parametrize("hold", ["zoh", "foh", "bandlimited"])
def test_automatic_steps_bound_the_true_error(hold):
    """Against RK4 at a fine step, not against what the solver says of itself."""
    u = forced_input(150, 0.2, seed=2)
    record = Record(u=u, y=np.zeros(150), dt=0.2, hold=hold)
    problem = Problem(duffing, record, observe="x", noise=1e-3, prior=PRIOR)
    values = np.array(list(TRUTH.values()))
    solver = sufficient_steps(problem, EKF0(order=3), values)
    exact = smcpn.simulate(duffing, record, TRUTH, observe="x", steps=64)
    ((mean, _),) = predictive_moments(problem, solver, values, [(0, record)])
    assert np.square(mean - exact).mean() <= SOLVER_SHARE * 1e-6


@pytest.mark.numerics
def test_prior_median_that_diverges_is_no_obstacle():
    @smcpn.ode
    def growth(x, u, *, a):
        return a * x + u

    record = Record(u=np.ones(200), dt=0.1)
    y = smcpn.simulate(growth, record, {"a": -1.0}, observe="x")
    record = Record(u=record.u, y=y, dt=0.1)
    problem = Problem(growth, record, observe="x", noise=0.01, prior={"a": stats.norm(5, 4)})
    posterior = smcpn.identify(problem, particles=300, seed=0, progress=False)
    assert posterior.mean["a"] == pytest.approx(-1.0, abs=5 * posterior.sd["a"])
    assert posterior.shift.size <= AUTOMATIC_SHIFT


def test_a_solver_that_is_too_coarse_is_a_concern():
    record = simulated(100, noise=1e-3)
    problem = Problem(duffing, record, observe="x", noise=1e-3, prior=PRIOR)
    with pytest.warns(SamplerWarning, match="raise steps"):
        posterior = smcpn.identify(problem, solver=EKF0(order=1, steps=1), particles=200, seed=0)
    assert "raise steps" in posterior.summary()


def test_impossible_share_is_refused():
    with pytest.raises(InputError, match="steps 'auto' finds no number up to 1024"):
        sufficient_steps(duffing_problem(20), RK4(), np.array([np.nan, 1.0, 1.0, 1.0]))


@pytest.mark.numerics
def test_each_record_starts_from_its_own_state():
    a, b = simulated(80, seed=1), simulated(80, seed=2)
    moved = smcpn.simulate(duffing, Record(u=b.u, dt=0.2, hold="bandlimited"), TRUTH,
                           observe="x", initial=[1.0, 0.0])  # fmt: skip
    b = Record(u=b.u, y=moved, dt=0.2, hold="bandlimited", name="moved")
    problem = Problem(duffing, [a, b], observe="x", noise=0.02, prior=PRIOR,
                      initial=["rest", {"x": stats.norm(0.5, 1.0)}])  # fmt: skip
    posterior = smcpn.identify(problem, solver=EKF0(steps=4), particles=300, seed=1)
    assert posterior.mean["x(0)[1]"] == pytest.approx(1.0, abs=0.1)
    assert posterior.simulate(a).rmse_of_mean[0] < 0.04
    assert posterior.simulate(b).rmse_of_mean[0] < 0.04
    with pytest.raises(InputError, match="choose which one with like="):
        posterior.simulate(b.hide(0, 10))
    assert posterior.simulate(b.hide(0, 10), like=b).rmse_of_mean[0] < 0.04


@pytest.mark.slow
def test_one_diverging_particle_does_not_spoil_the_prediction():
    @smcpn.ode
    def cubic(x, u, *, k):
        return -x + k * x**3 + u

    record = Record(u=0.3 * np.ones(60), y=np.linspace(0, 0.3, 60), dt=0.1)
    problem = Problem(cubic, record, observe="x", noise=10.0, prior={"k": stats.norm(0, 1)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplerWarning)
        posterior = smcpn.identify(problem, solver=RK4(4), particles=500, seed=0)
    harder = Record(u=1.0 * np.ones(60), y=np.linspace(0, 1, 60), dt=0.1)
    simulation = posterior.simulate(harder, steps=8)
    assert 0 < simulation.diverged < 1
    assert np.isfinite(simulation.mean).all()
    assert np.isfinite(simulation.sd).all()
    assert np.isinf(simulation.rmse).any()
    score = Score.of(simulation)
    assert score.rmse_min <= score.rmse_mean <= score.rmse_max < np.inf
    assert "diverges for" in score.warnings[-1]


@pytest.mark.slow
def test_steps_beyond_half_the_limit_can_be_simulated():
    problem = duffing_problem(12)
    posterior = smcpn.identify(problem, solver=RK4(600), method="ibis", particles=50, seed=0)
    assert np.isfinite(posterior.simulate(problem.records[0]).mean).all()


def test_simulate_refusals():
    record = Record(u=np.ones(5), dt=0.1)
    with pytest.raises(InputError, match="'zeta' belongs to no parameter"):
        smcpn.simulate(duffing, record, TRUTH | {"zeta": 1.0}, observe="x")
    with pytest.raises(InputError, match="parameter 'k3' has no"):
        smcpn.simulate(duffing, record, {k: v for k, v in TRUTH.items() if k != "k3"}, observe="x")
    with pytest.raises(InputError, match="does not settle"):
        smcpn.simulate(duffing, record, TRUTH | {"c": -1e9}, observe="x")


@pytest.mark.slow
def test_progress_callback_and_silence(capsys):
    seen, options = [], {"solver": RK4(1), "method": "ibis", "particles": 100, "seed": 0}
    smcpn.identify(duffing_problem(30), progress=seen.append, **options)
    assert seen[-1].sample == seen[-1].n_samples == 30
    smcpn.identify(duffing_problem(30), progress=False, **options)
    smcpn.identify(duffing_problem(30), **options)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    smcpn.identify(duffing_problem(30), progress=True, **options)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1].startswith("30/30")


def test_some_particles_score_as_all_do_within_the_stated_error(posterior):
    test = simulated(400, seed=3)
    all_of_them = Score.of(posterior.simulate(test))
    assert all_of_them.particles == len(posterior.theta)
    some = [
        Score.of(replace(posterior, seed=seed).simulate(test, particles=64)) for seed in range(8)
    ]
    z = [(one.rmse_mean - all_of_them.rmse_mean) / one.rmse_mean_se for one in some]
    # Systematic draws are no worse than independent ones, whose z has root mean square 1 +- .25.
    assert np.sqrt(np.mean(np.square(z))) < 2.0
    assert {one.particles for one in some} == {64}
    assert max(abs(one.fit - all_of_them.fit) for one in some) < 0.1
    assert posterior.chosen(10**6)[0] is posterior.values


def test_only_runs_that_take_long_are_scored_by_some_particles(posterior):
    short = simulated(400)
    assert particles_scored(posterior, [short]) is None
    steps = 400 * posterior.solver.steps
    many = particles_scored(posterior, [short] * int(SCORED_STEPS / steps / 200))
    assert many == 192
    assert particles_scored(posterior, [short] * int(SCORED_STEPS / steps)) == LEAST_SCORED
    scores = {"test": Score.of(posterior.simulate(short, particles=64))}
    assert "scored with 64 of 500 particles" in score_note(scores, 500)[0]
    assert not score_note(scores, 64)
