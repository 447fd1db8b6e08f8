"""Noise that is correlated from sample to sample, against dense covariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import smcpn
from smcpn import AR1, EKF0, EKF1, RK4, AdaptiveEKF1, InputError
from smcpn.checkpoint import StoredProblem, StoredRecord
from smcpn.checkpoint.codec import read_again
from smcpn.likelihood.growing import growing_likelihood
from smcpn.likelihood.history import History
from smcpn.likelihood.particle.stream import stream_estimate
from smcpn.likelihood.prediction import predictive_moments
from smcpn.likelihood.registry import build_estimate, build_likelihood
from smcpn.online.window import FreeStart
from smcpn.results.simulation.simulation import simulate_particles
from smcpn.results.validation.innovations import innovations
from tests.reference.coloured import conditioned_increments, increments

RATE, SIGMA, RHO, DT = 0.7, 0.3, 0.8, 0.1
PRIOR = {
    "rate": stats.lognorm(1.0),
    "sigma": stats.lognorm(1.0),
    "rho": stats.uniform(-1.0, 2.0),
}
POSITIVE = PRIOR | {"rho": stats.uniform(0.0, 1.0)}
LEARNED = AR1("sigma", "rho")
FINE = RK4(steps=4)


@smcpn.ode
def decay(x, u, *, rate):
    """Decay with an input."""
    return u - rate * x


def doubled(x, u):
    """Twice the state."""
    return 2.0 * x + u


def record_of(n=40, seed=0, irregular=False, gaps=(), n_outputs=1):
    rng = np.random.default_rng(seed)
    steps = rng.uniform(0.4, 2.5, n) if irregular else np.ones(n)
    t = DT * np.cumsum(steps)
    y = np.exp(-RATE * t)[:, None] + SIGMA * rng.standard_normal((n, n_outputs))
    y[list(gaps)] = np.nan
    when = {"t": t} if irregular else {"dt": DT}
    return smcpn.Record(u=np.sin(t), y=y, hold="foh", **when)


def problem_of(records, noise=LEARNED, observe="x", prior=POSITIVE):
    return smcpn.Problem(decay, records, observe=observe, noise=noise, prior=prior, initial=[1.0])


def outputs_of(record, rate, observe="x"):
    return smcpn.simulate(decay, record, {"rate": rate}, observe=observe, initial=[1.0], steps=4)[
        :, 0
    ]


def advanced(likelihood, values):
    return likelihood.advance(values, likelihood.start(values), 0, likelihood.n_samples)[1]


@pytest.mark.parametrize("solver", [FINE, EKF0(3, 4)], ids=["rk4", "ekf0"])
@pytest.mark.parametrize("irregular", [False, True], ids=["uniform", "irregular"])
def test_increments_are_those_of_the_dense_covariance(irregular, solver):
    """A missing first sample, one in the middle, several in a row, and a second record."""
    records = [
        record_of(irregular=irregular, gaps=(0, 7, 20, 21, 22)),
        record_of(25, seed=1, irregular=irregular, gaps=(3,)),
    ]
    values = np.array([[0.7, 0.3, 0.8], [0.5, 1.1, 0.05], [1.2, 0.4, 0.999]])
    found = advanced(build_likelihood(problem_of(records), solver, 1), values)
    interval = float(np.median(np.diff(records[0].t)))
    for row, (rate, sigma, rho) in zip(found.T, values, strict=True):
        expected = [
            increments(r.t, r.y[:, 0] - outputs_of(r, rate), sigma, rho, interval) for r in records
        ]
        # The solvers differ from the reference by 1e-7 of the outputs, which 1 / (1 - rho^2)
        # multiplies.
        np.testing.assert_allclose(row, np.concatenate(expected), rtol=2e-5, atol=2e-5)


def test_negative_correlation_at_equal_spacing():
    record = record_of(gaps=(4, 5))
    found = advanced(
        build_likelihood(problem_of(record, prior=PRIOR), FINE, 1), np.array([[0.7, 0.3, -0.6]])
    )
    expected = increments(record.t, record.y[:, 0] - outputs_of(record, 0.7), 0.3, -0.6, DT)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("second", [0.4, "sigma"])
def test_every_output_has_its_own_noise(second):
    """One coloured output with a given interval and one that is white."""
    record = record_of(gaps=(12,), n_outputs=2)
    y = record.y.copy()
    y[3, 0] = y[9, 1] = np.nan
    record = smcpn.Record(u=record.u, y=y, dt=DT, hold="foh")
    noise = [AR1(0.2, "rho", interval=0.25), second]
    prior = {name: POSITIVE[name] for name in ("rate", "rho")}
    prior |= {"sigma": stats.lognorm(1.0)} if second == "sigma" else {}
    problem = problem_of(record, noise, ["x", doubled], prior)
    values = np.array([[0.7, 0.6, 0.4][: len(prior)]])
    found = advanced(build_likelihood(problem, FINE, 1), values)
    coloured = increments(record.t, record.y[:, 0] - outputs_of(record, 0.7), 0.2, 0.6, 0.25)
    residual = record.y[:, 1] - outputs_of(record, 0.7, doubled)
    white = np.nan_to_num(stats.norm(0.0, 0.4).logpdf(residual))
    np.testing.assert_allclose(found[:, 0], coloured + white, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("irregular", [False, True], ids=["uniform", "irregular"])
@pytest.mark.parametrize("solver", [EKF0(1, 1), AdaptiveEKF1(1, tolerance=0.2)], ids=str)
def test_the_solver_s_variance_is_an_error_of_every_sample(solver, irregular):
    """Coarse steps: the claimed variances are a tenth of that of the noise, and more."""
    record = record_of(irregular=irregular, gaps=(5, 6))
    problem = problem_of(record)
    values = np.array([0.7, 0.01, 0.8])
    found = advanced(build_likelihood(problem, solver, 1), values[None, :])[:, 0]
    ((mean, error),) = predictive_moments(problem, solver, values, [(0, record)])
    error = error[:, 0, 0]
    assert np.median(error) > 1e-5
    interval = float(np.median(np.diff(record.t)))
    expected = increments(record.t, (record.y - mean)[:, 0], 0.01, 0.8, interval, error)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("solver", [FINE, EKF0(2, 1), EKF1(2, 1)], ids=["rk4", "ekf0", "ekf1"])
def test_gradient_against_differences(solver):
    problem = problem_of(record_of(irregular=True, gaps=(5, 6)))
    likelihood = smcpn.LogLikelihood(problem, solver=solver, threads=1)
    at, step = np.array([0.7, 0.3, 0.6]), 1e-5
    _, gradient = likelihood.value_and_gradient(at[None, :])
    shifted = at + step * np.vstack([np.eye(3), -np.eye(3)])
    values = likelihood(shifted)
    np.testing.assert_allclose(gradient[0], (values[:3] - values[3:]) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("irregular", [False, True], ids=["uniform", "irregular"])
@pytest.mark.parametrize("solver", [FINE, EKF0(2, 2), EKF1(2, 2)], ids=["rk4", "ekf0", "ekf1"])
def test_a_stream_has_the_bytes_of_the_record(solver, irregular):
    record = record_of(irregular=irregular, gaps=(5, 6))
    problem = problem_of(record)
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), 20))
    expected = advanced(build_likelihood(problem, solver, 1), values)
    stream = growing_likelihood(problem, solver, History(1, 1, intervals=8, kept=2), threads=1)
    for a in range(0, len(record), 3):
        part = slice(a, a + 3)
        stream.stream.append(record.t[part], record.u[part], record.y[part])
    np.testing.assert_array_equal(advanced(stream, values), expected)
    # What it predicts of a sample is what its increment is the density of.
    columns = stream.columns(values)
    update, zero = stream.update(columns, 0), np.zeros(len(values))
    population = update.population(stream.start(values), zero, zero)
    for sample in range(len(record)):
        if sample not in update.samples:
            update = stream.update(columns, sample)
        before, population = population.log_likelihood, update(population, sample)
        mean, variance = update.moments[:2]
        if np.isfinite(record.y[sample]).all():
            density = stats.norm(mean, np.sqrt(variance)).logpdf(record.y[sample, 0])
            increment = population.log_likelihood - before
            np.testing.assert_allclose(increment, density, rtol=1e-8, atol=1e-10)


@pytest.fixture(scope="module")
def white_and_coloured():
    record = record_of(30)
    coloured = build_likelihood(problem_of(record, prior=PRIOR), FINE, 1)
    white = {name: PRIOR[name] for name in ("rate", "sigma")}
    return record, coloured, build_likelihood(problem_of(record, "sigma", prior=white), FINE, 1)


@settings(max_examples=30, deadline=None)
@given(
    rate=st.floats(0.1, 3.0),
    sigma=st.floats(1e-3, 1e3),
    rho=st.floats(-1e-17, 1e-17),
    seed=st.integers(0, 2**32 - 1),
    missing=st.sets(st.integers(0, 29), max_size=29),
)
def test_no_correlation_is_white_noise(white_and_coloured, rate, sigma, rho, seed, missing):
    record, coloured, white = white_and_coloured
    y = np.random.default_rng(seed).standard_normal((30, 1))
    y[list(missing)] = np.nan
    records = [smcpn.Record(u=record.u, y=y, dt=DT, hold="foh")]
    found = advanced(coloured.with_records(records), np.array([[rate, sigma, rho]]))
    expected = advanced(white.with_records(records), np.array([[rate, sigma]]))
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


@settings(max_examples=30, deadline=None)
@given(
    sigma=st.floats(1e-3, 1e3),
    rho=st.floats(-0.999, 0.999),
    seed=st.integers(0, 2**32 - 1),
    missing=st.sets(st.integers(0, 29), max_size=28),
)
def test_any_gaps_have_the_dense_density(white_and_coloured, sigma, rho, seed, missing):
    record, coloured, _ = white_and_coloured
    noise = sigma * np.random.default_rng(seed).standard_normal(30)
    noise[list(missing)] = np.nan
    y = outputs_of(record, RATE) + noise
    records = [smcpn.Record(u=record.u, y=y, dt=DT, hold="foh")]
    found = advanced(coloured.with_records(records), np.array([[RATE, sigma, rho]]))[:, 0]
    residual = y - outputs_of(record, RATE)
    expected = increments(record.t, residual, sigma, rho, DT)
    scale = 1e-9 * (1.0 + np.nanmax((residual / sigma) ** 2)) / (1.0 - rho**2) ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=max(scale, 1e-7))


def test_a_number_of_zero_compiles_to_white_noise():
    record = record_of()
    prior = {name: PRIOR[name] for name in ("rate", "sigma")}
    problem = problem_of(record, AR1("sigma", 0.0), prior=prior)
    assert problem.model.coloured == ()
    values = np.array([[0.7, 0.3]])
    white = build_likelihood(problem_of(record, "sigma", prior=prior), FINE, 1)
    np.testing.assert_array_equal(
        advanced(build_likelihood(problem, FINE, 1), values), advanced(white, values)
    )


def test_innovations_are_whitened_residuals():
    record = record_of(gaps=(5,))
    (found,) = innovations(problem_of(record), FINE, np.array([RATE, SIGMA, RHO]))
    residual = record.y[:, 0] - outputs_of(record, RATE)
    expected = (residual[1:] - RHO * residual[:-1]) / (SIGMA * np.sqrt(1 - RHO**2))
    expected = np.append(residual[0] / SIGMA, expected)
    seen = np.isfinite(expected)
    np.testing.assert_allclose(found.normalised[seen, 0], expected[seen], rtol=1e-5, atol=1e-5)
    # After the gap the sample two before tells of it.
    spread = SIGMA * np.sqrt(1 - RHO**4)
    after = (residual[6] - RHO**2 * residual[4]) / spread
    np.testing.assert_allclose(found.normalised[6, 0], after, rtol=1e-5)
    np.testing.assert_allclose(found.variance[6, 0], spread**2, rtol=1e-12)


def test_a_problem_is_the_same_from_a_file():
    problem = problem_of(record_of(irregular=True))
    records = [read_again(StoredRecord.of(one)).restored() for one in problem.records]
    again = read_again(StoredProblem.of(problem)).restored(records)
    assert again.noise == ["AR1(sd='sigma', rho='rho', interval=None)"]
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), 5))
    np.testing.assert_array_equal(
        advanced(build_likelihood(again, FINE, 1), values),
        advanced(build_likelihood(problem, FINE, 1), values),
    )


@pytest.mark.parametrize("irregular", [False, True], ids=["uniform", "irregular"])
@pytest.mark.parametrize(
    ("name", "kind"),
    # Fenrir takes rates where its filter without data is, which is elsewhere under EKF0.
    [
        ("filtering", EKF0),
        ("filtering", EKF1),
        ("dalton", EKF0),
        ("dalton", EKF1),
        ("fenrir", EKF1),
    ],
)
def test_a_filter_that_sees_the_data_carries_the_noise(name, kind, irregular):
    """The solver's error and the noise depend on each other once an output was seen."""
    record = record_of(25, irregular=irregular, gaps=(0, 7, 14, 15))
    interval, solver = float(np.median(np.diff(record.t))), kind(2, 2, diffusion=1.0)
    found = advanced(
        build_likelihood(problem_of(record), solver, 1, name), np.array([[0.7, 0.3, 0.8]])
    )[:, 0]
    noise = 0.3, 0.8, interval
    filtering, joint = conditioned_increments(record, 0.7, noise, 2, jacobian=kind is EKF1)
    expected = filtering if name == "filtering" else joint
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["dalton", "filtering", "adaptive"])
def test_half_an_interval_of_dead_time_is_a_record_of_half_its_intervals(name):
    """Noise moves from sample to sample, whatever the parts of an interval."""
    n, rng = 12, np.random.default_rng(1)
    u, y, twice = rng.normal(size=n), rng.normal(size=n), np.full(2 * n - 1, np.nan)
    twice[::2] = y
    moved = np.repeat(np.append(u[:1], u), 2)[1 : 2 * n]
    options = {"observe": "x", "prior": {"rate": stats.lognorm(1.0)}, "initial": [1.0]}
    options["noise"] = AR1(0.3, 0.6, interval=2 * DT)
    whole = smcpn.Record(u=u, y=y, dt=2 * DT, hold="zoh")
    parts = smcpn.Record(u=moved, y=twice, dt=DT, hold="zoh")
    solver = AdaptiveEKF1(tolerance=1e-6) if name == "adaptive" else EKF1(2, 2, diffusion=1.0)
    sums = [
        build_likelihood(smcpn.Problem(decay, record, **options, **more), solver, 1, name).evaluate(
            np.array([[0.7]]), len(record)
        )[1]
        for record, more in [(whole, {"delay": {"u": DT}}), (parts, {})]
    ]
    np.testing.assert_allclose(sums[0], sums[1], rtol=1e-6 if name == "adaptive" else 1e-12)


@smcpn.ode
def shaken(x, v, u, *, rate):
    """Linear oscillator."""
    return v, u - rate * v - 2.0 * x


def shaken_problem(irregular, n=25):
    rng = np.random.default_rng(1)
    y = 0.3 * rng.normal(size=(n, 2))
    y[0, 0] = y[4, 0] = y[5] = np.nan
    when = {"t": np.cumsum(rng.uniform(0.1, 0.3, n))} if irregular else {"dt": 0.2}
    record = smcpn.Record(u=np.sin(0.4 * np.arange(n)), y=y, hold="zoh", **when)
    return smcpn.Problem(
        shaken, record, observe=["x", "v"], noise=[AR1(0.2, 0.7), 0.2], process_noise={"v": 0.3},
        prior={"rate": stats.lognorm(1.0)}, initial=[0.1, 0.0],
    )  # fmt: skip


@pytest.mark.parametrize("irregular", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_particles_that_look_ahead_are_exact_on_a_linear_model(irregular):
    """Given its path a particle knows the noise; that of Kalman is held by a textbook's filter."""
    problem, values = shaken_problem(irregular), np.array([[0.7], [1.2]])
    n = len(problem.records[0])
    exact = build_likelihood(problem, RK4(2), 1, "kalman").evaluate(values, n)[1]
    estimate = build_estimate(problem, RK4(2), 1, "particle")
    keys = np.arange(2, dtype=np.uint64)[:, None]
    assert estimate.guided(values, n).all()
    np.testing.assert_allclose(estimate.evaluate(values, n, keys)[1], exact, rtol=1e-9)
    bootstrap = estimate.with_look_ahead(False).with_state_particles(4096)
    found = bootstrap.evaluate(values, n, keys)[1]
    np.testing.assert_allclose(found, exact, atol=1.0)  # three of its standard deviations


def test_filters_of_a_stream_expect_the_noise_that_is_left():
    problem, values = shaken_problem(irregular=False), np.array([[0.7], [1.2]])
    record, keys = problem.records[0], np.arange(2, dtype=np.uint64)[:, None]
    whole = build_estimate(problem, RK4(2), 1, "particle-bootstrap").with_state_particles(4096)
    stream = stream_estimate(
        problem, RK4(2), History(1, 2), threads=1, likelihood="particle-bootstrap"
    )
    stream.stream.append(record.t, record.u, record.y)
    stream = stream.with_state_particles(4096)
    filters = growing_likelihood(problem, RK4(2), History(1, 2), threads=1, likelihood="kalman")
    filters.stream.append(record.t, record.u, record.y)
    update, zero = filters.update(filters.columns(values), 0), np.zeros(2)
    population = update.population(filters.start(values), zero, zero)
    state = stream.start(values)
    for k in range(4):
        if k not in update.samples:
            update = filters.update(filters.columns(values), k)
        population = update(population, k)
        expected, increment = whole.advance(values, state.copy(), k, k + 1, keys)
        if k == 0:
            state = expected
            continue
        state, found, moments = stream.assimilated(values, keys, state, k)
        np.testing.assert_array_equal(state, expected)
        np.testing.assert_array_equal(found, increment[0])
        # Means to a tenth of the noise, variances to a fifth: errors of so many particles.
        np.testing.assert_allclose(moments[:2], update.moments[:2], atol=0.02)
        np.testing.assert_allclose(moments[2:4], update.moments[2:4], rtol=0.2)


REFUSED = {
    "sd": (lambda: AR1(0.0, 0.5), "sd of AR1 is 0.0: give a positive number"),
    "rho": (lambda: AR1(0.1, 1.0), "rho of AR1 is 1.0: give a number between -1 and 1"),
    "interval": (
        lambda: AR1(0.1, 0.5, 0.0),
        "interval of AR1 is 0.0: give a time above 0, or leave it out",
    ),
    "class": (lambda: problem_of(record_of(), AR1), "noise is the class AR1: give an instance"),
    "prior": (
        lambda: problem_of(record_of(), prior=PRIOR | {"rho": stats.norm(0.5, 0.1)}),
        r"prior of 'rho' reaches from -inf to inf: a correlation is between -1 and 1",
    ),
    "no prior": (
        lambda: problem_of(record_of(), prior={"rate": stats.lognorm(1.0), "sigma": 0.1}),
        "parameter 'rho' has no prior",
    ),
    "fixed": (
        lambda: problem_of(record_of(), prior=PRIOR | {"rho": 1.5}),
        "rho of AR1, 'rho', is fixed to 1.5",
    ),
    "fixed sd": (
        lambda: problem_of(record_of(), prior=PRIOR | {"sigma": -1.0}),
        "noise 'sigma' is fixed to -1",
    ),
    "negative, irregular": (
        lambda: problem_of(record_of(irregular=True), prior=PRIOR),
        r"'rho' reaches from -1 to 1: a negative correlation needs samples .* from 0 to 1",
    ),
    "negative, other interval": (
        lambda: problem_of(record_of(), AR1("sigma", -0.2, interval=0.3), prior=PRIOR),
        "rho of AR1 is -0.2: a negative correlation needs samples 0.3 s apart",
    ),
    "density": (
        lambda: problem_of(
            record_of(n_outputs=2), [AR1(0.1, 0.5), smcpn.StudentT(0.1)], ["x", "x"], PRIOR
        ),
        "beside coloured noise",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        make()


def coloured_record(rng, n, rho=RHO):
    """Decay from 1 with an input, and stationary noise."""
    noise = SIGMA * rng.standard_normal(n)
    for k in range(1, n):
        noise[k] = rho * noise[k - 1] + np.sqrt(1 - rho**2) * noise[k]
    record = smcpn.Record(u=np.sign(np.sin(0.7 * np.arange(n))), dt=DT, hold="zoh")
    y = outputs_of(record.unmeasured(1), RATE) + noise
    return smcpn.Record(u=record.u, y=y, dt=DT, hold="zoh")


@pytest.mark.slow
@pytest.mark.nightly
def test_identify_recovers_the_noise():
    """Six records of 400 samples: z of three parameters each, of which 18 have rms 1 +- .17."""
    z = []
    for seed in range(6):
        record = coloured_record(np.random.default_rng(seed), 400)
        posterior = smcpn.identify(
            problem_of(record), solver=RK4(2), particles=200, seed=seed, progress=False
        )
        mean, sd = posterior.mean, posterior.sd
        truth = {"rate": RATE, "sigma": SIGMA, "rho": RHO}
        z += [(mean[name] - value) / sd[name] for name, value in truth.items()]
    assert 0.5 < np.sqrt(np.mean(np.square(z))) < 1.5
    validated = posterior.validate()
    assert "not white" not in str(validated)


def test_online_and_a_resumed_run_have_the_bytes_of_a_run(tmp_path):
    record = coloured_record(np.random.default_rng(0), 40)
    problem, options = problem_of(record), {"solver": RK4(2), "particles": 100, "seed": 1}
    live = smcpn.Online(problem, **options)
    for u, y in zip(record.u, record.y, strict=True):
        live.update(u, y)
    path = tmp_path / "run.h5"
    batch = smcpn.identify(problem, method="ibis", progress=False, checkpoint=path, **options)
    np.testing.assert_array_equal(smcpn.resume(path).theta, batch.theta)
    np.testing.assert_array_equal(live.posterior().theta, batch.theta)
    # The noise that the last sample had is still there one sample ahead, and not after a hundred.
    sd = live.predict(np.zeros((100, 1))).sd[:, 0]
    assert sd[0] < 0.9 * sd[-1]


def test_a_window_keeps_the_parameters_of_the_noise():
    assert FreeStart(problem_of(record_of())).lasting == ("rate", "sigma", "rho")


def test_a_band_of_a_simulation_has_the_whole_standard_deviation():
    record = record_of()
    (values,) = np.array([[[RATE, SIGMA, RHO]]])
    simulation = simulate_particles(problem_of(record), record, values, np.ones(1))
    np.testing.assert_allclose(simulation.sd, SIGMA, rtol=1e-3)
