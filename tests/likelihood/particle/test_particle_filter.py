"""Particle filters: against plain numpy, exact likelihoods, themselves, and bad models."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import casadi as ca
import numpy as np
import pytest
from reference.particle_filter import Model, particle_filter
from scipy import stats
from scipy.special import logsumexp

import smcpn
from smcpn.codegen.kernel import KernelArgumentError
from smcpn.errors import InputError
from smcpn.likelihood.contract import is_estimated
from smcpn.likelihood.particle.likelihood import Bootstrap, Particle, ParticleLikelihood
from smcpn.likelihood.registry import build_estimate
from smcpn.likelihood.transition import step_factor

VALUES = np.array([0.4, 1.5, 0.5])
PRIOR = {
    "c": stats.lognorm(0.3, scale=0.5),
    "k": stats.lognorm(0.2, scale=2.0),
    "q": stats.lognorm(0.3, scale=0.5),
}


@smcpn.ode
def oscillator(x, v, u, *, c, k, cubic=0.0):
    return v, u - c * v - k * x - cubic * x**3


def record_of(samples=40, seed=0, dt=0.2) -> smcpn.Record:
    """A record of the linear oscillator at `VALUES`, by Euler's method; some values are missing."""
    rng, (c, k, q) = np.random.default_rng(seed), VALUES
    u, h = np.cos(0.9 * dt * np.arange(samples)), dt / 50
    x, y = np.array([0.2, 0.0]), np.empty((samples, 2))
    for sample in range(samples):
        for _ in range(50 if sample else 0):
            rate = np.array([x[1], u[sample - 1] - c * x[1] - k * x[0]])
            x = x + h * rate + np.array([0.0, q * np.sqrt(h) * rng.normal()])
        y[sample] = x + 0.2 * rng.normal(size=2)
    y[3], y[5, 0] = np.nan, np.nan
    return smcpn.Record(u=u, y=y, dt=dt, hold="zoh")


def problem_of(records=None, cubic=0.0, **options) -> smcpn.Problem:
    return smcpn.Problem(
        oscillator,
        record_of() if records is None else records,
        **{
            "observe": ["x", "v"],
            "noise": 0.2,
            "prior": PRIOR | {"cubic": cubic},
            "process_noise": {"v": "q"},
            "initial": [0.2, 0.0],
        }
        | options,
    )


@cache
def likelihood_of(kind=Particle, cubic=0.0, steps=2, **options) -> ParticleLikelihood:
    return kind.build(problem_of(cubic=cubic), smcpn.RK4(steps=steps), 1, **options)


def keys_of(number: int, seed: int = 0, blocks: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, size=(number, blocks), dtype=np.uint64)


def reference_of(problem, cubic, steps) -> Model:
    """The same model in numpy, over its first record; L is that of the package."""
    (record, *_), (c, k, _) = problem.records, VALUES
    h, model = 0.2 / steps, problem.model
    factor = ca.Function("L", [model.theta, model.constants], [step_factor(model, ca.SX(h))])
    L = np.array(factor(VALUES, np.array(model.constant_values)))

    def step(n, x):
        u = record.u[n // steps, 0]

        def rate(x):
            return np.stack([x[1], u - c * x[1] - k * x[0] - cubic * x[0] ** 3])

        k1 = rate(x)
        k2 = rate(x + h / 2 * k1)
        k3 = rate(x + h / 2 * k2)
        return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(x + h * k3))

    start = np.array([0.2, 0.0])
    return Model(start, step, lambda n: L, lambda x: x, 0.04, record.y, steps)


@pytest.mark.parametrize("guided", [False, True])
def test_as_in_numpy(guided):
    # At this cubic the weights of look-ahead functions spread from the twentieth sample on.
    problem, keys = problem_of(record_of(90), cubic=6.0), keys_of(1)
    kind = Particle if guided else Bootstrap
    likelihood = kind.build(problem, smcpn.RK4(steps=2), 1, state_particles=64)
    model = reference_of(problem, 6.0, 2)
    increments, resampled, defensive = particle_filter(model, keys[0], 64, guided)
    assert resampled > (2 if guided else 10)
    assert defensive == (71 if guided else 0)
    estimate = likelihood.evaluate(VALUES[None], 90, keys)[1]
    np.testing.assert_allclose(estimate, increments.sum(), rtol=1e-9)
    if not guided:
        state = likelihood.start(VALUES[None])
        _, found = likelihood.advance(VALUES[None], state, 0, 90, keys)
        np.testing.assert_allclose(found[:, 0], increments, rtol=1e-8, atol=1e-9)


def kalman(model: Model) -> float:
    """Log-likelihood of a linear model by a textbook Kalman filter."""
    n = len(model.start)
    x, P, total = model.start, np.zeros((n, n)), 0.0
    for sample, y in enumerate(model.y):
        for k in model.interval(sample):
            zero = model.step(k, np.zeros(n))
            F = np.column_stack([model.step(k, e) - zero for e in np.eye(n)])
            L = model.factor(k)
            x, P = F @ x + zero, F @ P @ F.T + L @ L.T
        here = np.isfinite(y)
        if not here.any():
            continue
        H = np.eye(n)[here]
        S, e = H @ P @ H.T + model.variance * np.eye(len(H)), y[here] - H @ x
        total += stats.multivariate_normal.logpdf(e, cov=S)
        gain = P @ H.T @ np.linalg.inv(S)
        x, P = x + gain @ e, P - gain @ H @ P
    return total


def test_twisted_filter_of_a_linear_model_is_the_kalman_filter():
    likelihood = likelihood_of(state_particles=32)
    exact = kalman(reference_of(problem_of(), 0.0, 2))
    found = likelihood.evaluate(np.tile(VALUES, (3, 1)), 40, keys_of(3))[1]
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def unbiased(log_estimates: np.ndarray, exact: float) -> None:
    """The mean of estimates is within three standard errors of what they estimate."""
    assert log_estimates.std() < 1.0
    ratio = np.exp(log_estimates - exact)
    error = ratio.std(ddof=1) / np.sqrt(len(ratio))
    assert abs(ratio.mean() - 1.0) < 3 * error, (ratio.mean(), error)


def test_bootstrap_filter_is_unbiased():
    # 1000 runs of 256 particles over 12 samples, sd(log Z) .6: a standard error of .02.
    model = reference_of(problem_of(), 0.0, 2)
    exact = kalman(replace(model, y=model.y[:12]))
    likelihood = likelihood_of(Bootstrap, state_particles=256)
    unbiased(likelihood.evaluate(np.tile(VALUES, (1000, 1)), 12, keys_of(1000))[1], exact)


@smcpn.ode
def well(x, *, a, s=0.7):
    """Two wells."""
    return a * (x - x**3)


WELL = np.array([1.3, 0.75])
"""Depth and noise."""


@cache
def two_wells(samples=60) -> smcpn.Problem:
    """A state that passes from well to well, seen every unit of time."""
    rng, x, path = np.random.default_rng(5), 1.0, []
    for _ in range(samples):
        path.append(x)
        for _ in range(100):
            x += 0.01 * (x - x**3) + 0.075 * rng.normal()
    return smcpn.Problem(
        well,
        smcpn.Record(y=np.array(path) + 0.4 * rng.normal(size=samples), dt=1.0),
        observe="x",
        noise=0.4,
        initial={"x": 1.0},
        process_noise={"x": "s"},
        prior={"a": stats.lognorm(0.5), "s": stats.lognorm(0.5, scale=0.7)},
    )


def by_grid(y: np.ndarray, steps: int, points: int = 401) -> float:
    """Log-likelihood of two wells at `WELL`: a filter on a grid, the same solver steps."""
    (a, s), h, grid = WELL, 1.0 / steps, np.linspace(-3.5, 3.5, points)

    def rate(x):
        return a * (x - x**3)

    def densities(x):
        k1 = rate(x)
        k2 = rate(x + h / 2 * k1)
        k3 = rate(x + h / 2 * k2)
        mean = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(x + h * k3))
        density = stats.norm.pdf(grid, mean[:, None], s * np.sqrt(h))
        return density * (grid[1] - grid[0])

    step = densities(grid)
    interval = np.linalg.matrix_power(step, steps)
    total = stats.norm.logpdf(y[0], 1.0, 0.4)
    p = densities(np.array([1.0]))[0] @ np.linalg.matrix_power(step, steps - 1)
    for value in y[1:]:
        p = p * stats.norm.pdf(value, grid, 0.4)
        total += np.log(p.sum())
        p = p / p.sum() @ interval
    return total


@pytest.mark.parametrize("particles", [128, pytest.param(512, marks=pytest.mark.nightly)])
def test_filters_that_look_ahead_are_unbiased_where_the_state_may_be_in_either_of_two_wells(
    particles,
):
    """Without a share that does not look ahead .25 was missing, at a variance of .3 and less."""
    problem = two_wells()
    likelihood = Particle.build(problem, smcpn.RK4(steps=10), 1, state_particles=particles)
    exact = by_grid(problem.records[0].y[:, 0], 10)
    estimates = likelihood.evaluate(np.tile(WELL, (400, 1)), 60, keys_of(400))[1]
    unbiased(estimates, exact)
    # A log-normal estimate of mean one: its logarithm lacks half its variance.
    missing = exact - estimates.mean()
    assert missing < estimates.var() + 3 * estimates.std() / np.sqrt(400)


def mean_of(log_estimates: np.ndarray) -> tuple[float, float]:
    """Log of the mean of estimates, and its standard error."""
    mean = logsumexp(log_estimates) - np.log(len(log_estimates))
    return mean, np.exp(log_estimates - mean).std() / np.sqrt(len(log_estimates))


@smcpn.sde
def growth(x, *, r, s):
    """Logistic growth of log x, and of its noise."""
    return r * (1.0 - np.exp(x)), s * (1.0 + 0.5 * np.sin(x))


COUNTS = np.array([1, 2, 0, 1, 3, 2, 4, 3, 2, 3, 4, 2, 1, 3, 2, 2, 3, 4, 1, 2.0])


def observed(record: smcpn.Record, output: int) -> smcpn.Record:
    """The same record with one of its outputs."""
    return smcpn.Record(u=record.u, y=record.y[:, output], dt=0.2, hold="zoh")


OTHERS = {
    "cubic": lambda: (problem_of(record_of()[:20], cubic=0.5), VALUES),
    "one output": lambda: (
        problem_of(observed(record_of()[:20], 0), cubic=0.5, observe="x"),
        VALUES,
    ),
    "student": lambda: (
        problem_of(noise=[smcpn.StudentT(0.2, 3.0), 0.2], cubic=1.0),
        VALUES,
    ),
    "square": lambda: (
        problem_of(
            record_of()[:20], observe=[lambda x: x + 0.3 * x**2, "v"], noise=0.2, cubic=1.0
        ),
        VALUES,
    ),
    "diffusion of the state, counts": lambda: (
        smcpn.Problem(
            growth,
            smcpn.Record(y=COUNTS, dt=0.5),
            observe=lambda x: x + 0.7,
            noise=smcpn.Poisson(),
            prior={"r": stats.lognorm(0.3), "s": stats.lognorm(0.3, scale=0.4)},
            initial=[-0.5],
        ),
        np.array([0.6, 0.4]),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "cubic", "diffusion of the state, counts",
        *(
            pytest.param(name, marks=pytest.mark.nightly)
            for name in ("student", "one output", "square")
        ),
    ],
)  # fmt: skip
def test_twisted_and_bootstrap_filters_estimate_the_same(name):
    # 400 runs each: standard errors of .001 to .02, compared at four of their sum.
    problem, values = OTHERS[name]()
    likelihood = Particle.build(problem, smcpn.RK4(steps=2), 1, state_particles=128)
    values, keys = np.tile(values, (400, 1)), keys_of(400)
    twisted = likelihood.evaluate(values, likelihood.n_samples, keys)[1]
    bootstrap = likelihood.with_look_ahead(False).evaluate(values, likelihood.n_samples, keys)[1]
    assert likelihood.guided(values, likelihood.n_samples).all()
    assert not likelihood.with_look_ahead(False).guided(values, likelihood.n_samples).any()
    assert twisted.var() < bootstrap.var() / 4
    (one, error), (other, other_error) = mean_of(twisted), mean_of(bootstrap)
    assert abs(one - other) < 4 * np.hypot(error, other_error)


def test_bootstrap_filters_where_a_gaussian_misses_a_well():
    # Two wells, hardly seen: twisted filters estimate e^-20 of the evidence, and vary by a nat.
    y = np.sign(np.sin(0.2 * np.arange(40))) + 0.5 * np.random.default_rng(0).normal(size=40)
    record = smcpn.Record(u=np.zeros(40), y=y, dt=2.0, hold="zoh")
    prior = PRIOR | {"k": stats.norm(-1.0, 0.2), "cubic": 1.0}
    problem = problem_of(record, observe="x", noise=0.5, prior=prior)
    values = np.array([0.3, -1.0, 0.4])
    wells = Particle.build(problem, smcpn.RK4(steps=20), 1, state_particles=32)
    assert not wells.suited(values).look_ahead
    assert not wells.with_look_ahead(False).suited(values).look_ahead
    assert likelihood_of(cubic=0.4, state_particles=32).suited(VALUES).look_ahead


def test_the_same_bytes_in_any_company_and_on_any_threads():
    likelihood = likelihood_of(cubic=1.0, state_particles=32)
    values = VALUES * np.random.default_rng(1).uniform(0.8, 1.2, (21, 3))
    keys = keys_of(21)
    whole = likelihood.evaluate(values, 40, keys)[1]
    backward = likelihood.evaluate(values[::-1].copy(), 40, keys[::-1].copy())[1][::-1]
    np.testing.assert_array_equal(backward, whole)
    np.testing.assert_array_equal(likelihood.evaluate(values[4:5], 40, keys[4:5])[1], whole[4:5])
    threads = Particle.build(problem_of(cubic=1.0), smcpn.RK4(steps=2), 2, state_particles=32)
    np.testing.assert_array_equal(threads.evaluate(values, 40, keys)[1], whole)


def test_samples_in_blocks():
    likelihood = likelihood_of(cubic=1.0, state_particles=64)
    values, keys = np.tile(VALUES, (3, 1)), keys_of(3)
    whole, increments = likelihood.advance(values, likelihood.start(values), 0, 40, keys)
    state, parts = likelihood.start(values), []
    for a, b in ((0, 1), (1, 2), (2, 17), (17, 40)):
        state, part = likelihood.advance(values, state, a, b, keys)
        parts.append(part)
    np.testing.assert_array_equal(np.concatenate(parts), increments)
    np.testing.assert_array_equal(state, whole)
    np.testing.assert_allclose(
        likelihood.with_look_ahead(False).evaluate(values, 40, keys)[1],
        increments.sum(axis=0),
        rtol=1e-12,
    )


def test_a_key_moves_its_own_block_of_samples():
    likelihood = Particle.build(
        problem_of(record_of(150)), smcpn.RK4(steps=1), 1, state_particles=32
    )
    values, keys = VALUES[None], keys_of(1, blocks=3)
    assert likelihood.n_keys(150) == 3
    state = likelihood.start(values)
    _, before = likelihood.advance(values, state, 0, 150, keys)
    keys[0, 1] += np.uint64(1)
    _, after = likelihood.advance(values, state, 0, 150, keys)
    np.testing.assert_array_equal(before[:64], after[:64])
    assert (before[64:] != after[64:]).all()


def test_several_records():
    records = [record_of(), record_of(30, seed=1)]
    likelihood = Particle.build(problem_of(records), smcpn.RK4(steps=2), 1, state_particles=32)
    exact = sum(kalman(reference_of(problem_of(record), 0.0, 2)) for record in records)
    found = likelihood.evaluate(VALUES[None], 70, keys_of(1))[1]
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    bootstrap = likelihood.with_look_ahead(False).with_state_particles(64)
    _, increments = bootstrap.advance(
        VALUES[None], bootstrap.start(VALUES[None]), 0, 70, keys_of(1)
    )
    np.testing.assert_allclose(
        increments.sum(axis=0), bootstrap.evaluate(VALUES[None], 70, keys_of(1))[1], rtol=1e-12
    )


def test_where_the_guide_is_no_number_the_filter_is_a_bootstrap_filter():
    # At a cubic of 3e5 the Kalman filter's step from the prediction error explodes.
    problem = problem_of(cubic=stats.lognorm(1.0))
    likelihood = Particle.build(problem, smcpn.RK4(steps=1), 1, state_particles=32)
    assert problem.names == ("c", "k", "q", "cubic")
    values = np.column_stack([np.tile(VALUES, (2, 1)), [0.5, 4e3]])
    guided = likelihood.guided(values, 40)
    np.testing.assert_array_equal(guided, [True, False])
    found = likelihood.evaluate(values, 40, keys_of(2))[1]
    bootstrap = likelihood.with_look_ahead(False).evaluate(values, 40, keys_of(2))[1]
    assert found[0] != bootstrap[0]
    np.testing.assert_array_equal(found[1], bootstrap[1])


def test_steps_far_too_coarse_have_no_guide():
    """Rounding made log-likelihoods of 1e15, which a run then took for its posterior."""
    likelihood = likelihood_of(steps=1)
    k = np.geomspace(1.0, 1e6, 64)
    values = np.column_stack([np.full(64, 0.4), k, np.full(64, 0.01)])
    kalman = smcpn.LogLikelihood(problem_of(), "kalman", likelihood.solver, 1)(values)
    estimates, guided = (
        likelihood.evaluate(values, 40, keys_of(64))[1],
        likelihood.guided(values, 40),
    )
    assert guided[0]
    assert not guided[-1]
    np.testing.assert_allclose(estimates[guided], kalman[guided], rtol=1e-6)
    assert not (estimates > kalman + 1.0).any()


def test_a_diverged_filter_excludes_its_theta():
    values = np.array([[-1e6, 1.0, 0.5], VALUES])
    found = likelihood_of(cubic=1.0, state_particles=32).evaluate(values, 40, keys_of(2))[1]
    assert not np.isfinite(found[0])
    assert not found[0] > 0
    assert np.isfinite(found[1])


@pytest.mark.parametrize("guided", [False, True])
def test_history(guided):
    likelihood = likelihood_of(Particle if guided else Bootstrap, state_particles=64)
    (history,) = likelihood.history(VALUES, keys_of(1)[0], 40)
    assert history.guided == guided
    assert history.states.shape == (40, 2, 64)
    assert (history.ancestors == np.arange(64)).all() == guided
    np.testing.assert_allclose(
        history.log_evidence, likelihood.evaluate(VALUES[None], 40, keys_of(1))[1][0], rtol=1e-12
    )


def test_filtered_moments_of_a_bootstrap_filter():
    # Of 8192 particles, a few hundred effective ones: errors of .05 sd, of .1 at most over all.
    likelihood = likelihood_of(Bootstrap, state_particles=8192)
    (history,) = likelihood.history(VALUES, keys_of(1)[0], 40)
    (mean, covariance), (exact, spread), _ = history.filtered(), *moments()
    scale = np.sqrt(np.einsum("tii->ti", spread)[1:])
    assert (np.abs(mean - exact)[1:] / scale).max() < 0.15
    np.testing.assert_allclose(covariance[20], spread[20], rtol=0.15)


def test_paths_of_a_twisted_filter_are_smoothed():
    # 1024 independent paths: four standard errors, of the mean and of the variance.
    likelihood = likelihood_of(state_particles=1024)
    (history,) = likelihood.history(VALUES, keys_of(1)[0], 40)
    paths = history.draw(np.random.default_rng(0), 4096)
    _, (exact, spread) = moments()
    np.testing.assert_allclose(paths[:, 0], np.tile([0.2, 0.0], (4096, 1)))
    variance = np.einsum("tii->ti", spread)[1:]
    away = (history.states.mean(axis=2) - exact)[1:] / np.sqrt(variance / 1024)
    assert np.abs(away).max() < 4
    np.testing.assert_allclose(paths.var(axis=0)[1:], variance, rtol=4 * np.sqrt(4 / 1024))
    # The noise of the ancestors adds to that of the particles.
    away = (paths.mean(axis=0) - exact)[1:] / np.sqrt(variance / 1024 + variance / 4096)
    assert np.abs(away).max() < 4


def moments() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Filtered and smoothed means and covariances at the samples, by dense least squares.

    The path of all samples is Gaussian: its mean and covariance are conditioned on the outputs.
    """
    model = reference_of(problem_of(), 0.0, 2)
    T, n = len(model.y), len(model.start)
    mean, transfer, states = model.start, [], []
    for sample in range(T):
        for k in model.interval(sample):
            zero = model.step(k, np.zeros(n))
            F = np.column_stack([model.step(k, e) - zero for e in np.eye(n)])
            transfer = [F @ block for block in transfer] + [model.factor(k)]
            mean = F @ mean + zero
        states.append((mean, list(transfer)))
    noises = sum(block.shape[1] for block in transfer)
    M, G = np.array([m for m, _ in states]).ravel(), np.zeros((T * n, noises))
    for sample, (_, blocks) in enumerate(states):
        width = sum(block.shape[1] for block in blocks)
        if blocks:
            G[sample * n : (sample + 1) * n, :width] = np.hstack(blocks)

    def given(samples: int) -> tuple[np.ndarray, np.ndarray]:
        y = model.y.ravel()
        here = np.isfinite(y) & (np.arange(T * n) < samples * n)
        H = G[here]
        gain = G @ H.T @ np.linalg.inv(H @ H.T + model.variance * np.eye(len(H)))
        m, P = M + gain @ (y - M)[here], G @ G.T - gain @ H @ G.T
        at = np.arange(T * n).reshape(T, n)
        return m.reshape(T, n), np.array([P[np.ix_(rows, rows)] for rows in at])

    each = [given(sample + 1) for sample in range(T)]
    filtered = tuple(np.array([part[k][t] for t, part in enumerate(each)]) for k in range(2))
    return filtered, given(T)


def test_built_by_its_name():
    solver = smcpn.RK4(steps=2)
    assert not build_estimate(problem_of(), solver, 1, "particle-bootstrap").look_ahead
    likelihood = build_estimate(problem_of(), solver, 1, "particle")
    assert isinstance(likelihood, ParticleLikelihood)
    assert likelihood.look_ahead
    assert likelihood.n_samples == 40
    assert likelihood.n_steps == 78
    assert likelihood.with_state_particles(128).state_particles == 128


def test_refused():
    plain = problem_of(process_noise=None, prior={"c": PRIOR["c"], "k": 2.0})
    with pytest.raises(
        InputError, match="particle likelihood takes states with process noise only"
    ):
        build_estimate(plain, smcpn.RK4(steps=2), 1, "particle")
    for wrong in (0, 33, 64.0, True):
        with pytest.raises(InputError, match=r"state_particles is .*: give a multiple of 32"):
            likelihood_of().with_state_particles(wrong)


def test_arrays_that_do_not_fit_are_not_read():
    likelihood, values = likelihood_of(), VALUES[None]
    for keys in (keys_of(1, blocks=0), keys_of(2), keys_of(1).astype(np.int64), keys_of(1)[0]):
        with pytest.raises(KernelArgumentError):
            likelihood.evaluate(values, 40, keys)[1]
    state = likelihood.start(values)
    with pytest.raises(KernelArgumentError):
        likelihood.advance(values, state[:-1], 0, 40, keys_of(1))
    with pytest.raises(KernelArgumentError):
        likelihood.evaluate(values[:, :2], 40, keys_of(1))[1]


def test_protocol():
    assert is_estimated(likelihood_of())
