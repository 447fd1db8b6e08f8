"""The extended Kalman filter of models with process noise, against textbook filters."""

from __future__ import annotations

from functools import cache

import casadi as ca
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import optimize, stats
from scipy.linalg import expm

import smcpn
from smcpn import AR1, EKF0, EKF1, RK4, InputError
from smcpn.codegen.kernel import LaneKernel
from smcpn.likelihood.growing import growing_likelihood
from smcpn.likelihood.history import History
from smcpn.likelihood.kalman import IteratedKalman, Kalman
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.prediction import predictions
from smcpn.likelihood.registry import LIKELIHOODS, build_likelihood
from smcpn.likelihood.solver_choice import solver_from_prior
from smcpn.likelihood.transition import step_factor
from smcpn.results.simulation.states import states_of_particles
from tests.reference.kalman import Disturbed, extended_kalman

DT, NOISE = 0.1, (0.3, 0.5)
LINEAR = np.array([0.4, 2.0, 0.5])
STEPS = 40
"""So many that what the noise's series neglects, of order h^4, is below 1e-10."""
PRIOR = {name: stats.lognorm(1.0) for name in ("c", "k", "q")}
QUIET = {"c": PRIOR["c"], "k": PRIOR["k"]}


@smcpn.ode
def driven(x, v, u, *, c, k):
    """Driven oscillator."""
    return v, u - c * v - k * x


@smcpn.ode
def spiking(x, w, u, *, a, q):
    """FitzHugh and Nagumo."""
    return x - x**3 / 3 - w + u, a * (x + 0.7 - 0.8 * w)


@smcpn.ode
def relaxing(x, *, rate):
    """Ornstein and Uhlenbeck's drift."""
    return -rate * x


def record_of(n=40, hold="foh", irregular=False, seed=0, outputs=2, missing=True):
    rng = np.random.default_rng(seed)
    t = DT * np.cumsum(rng.uniform(0.4, 2.5, n) if irregular else np.ones(n))
    y = rng.standard_normal((n, outputs))
    if missing:
        y[7, 0], y[9], y[0] = np.nan, np.nan, np.nan
    when = {"t": t} if irregular else {"dt": DT}
    return smcpn.Record(u=np.sin(1.3 * t), y=y, hold=hold, **when)


def linear_problem(records, q="q", **changes):
    options = {
        "observe": ["x", "v"],
        "noise": list(NOISE),
        "initial": [0.3, -0.2],
        "process_noise": {"v": q},
        "prior": PRIOR if q == "q" else QUIET,
    }
    return smcpn.Problem(driven, records, **(options | changes))


def nonlinear_problem(record):
    prior = {name: stats.lognorm(1.0) for name in ("a", "q", "x0")}
    return smcpn.Problem(
        spiking,
        record,
        observe=["x", squared],
        noise=list(NOISE),
        initial=["x0", 0.1],
        process_noise={"x": "q", "w": 0.05},
        prior=prior,
    )


def squared(x, w, u):
    """A nonlinear output."""
    return x * w + u


def increments_of(problem, values, solver, name="kalman"):
    likelihood = build_likelihood(problem, solver, 1, name)
    values = np.atleast_2d(values)
    return likelihood.advance(values, likelihood.start(values), 0, likelihood.n_samples)[1][:, 0]


def held_input(record):
    """Input of an interval, of a record that is held or linear in between."""

    def inputs(k, share):
        end = record.u[k + 1] if record.hold == "foh" else record.u[k]
        return record.u[k] + share * (end - record.u[k])

    return inputs


@cache
def noise_function(problem):
    """Q of the model as a function of numbers."""
    model, h = problem.model.with_numbers(), ca.SX.sym("h")
    arguments, factor = [model.theta, model.x, model.u, model.t, h], step_factor(model, h)
    return ca.Function("noise", arguments, [factor @ factor.T])


def noise_covariance(problem, values):
    """Q of the model for parameter values."""
    function = noise_function(problem)
    return lambda x, u, t, h: function(values, np.real(x), u, t, h).full()


def exact_noise(jacobian, diffusion):
    """Q by Van Loan's matrix exponential."""
    n = len(jacobian)

    def covariance(x, u, t, h):
        whole = np.block([[-jacobian, diffusion], [np.zeros((n, n)), jacobian.T]])
        power = expm(whole * h)
        return power[n:, n:].T @ power[:n, n:]

    return covariance


def linear_system(problem, covariance=None, values=LINEAR):
    c, k, q = values
    jacobian = np.array([[0.0, 1.0], [-k, -c]])
    exact = exact_noise(jacobian, np.diag([0.0, q**2]))
    return Disturbed(
        lambda x, u, t: jacobian @ x + np.array([0.0, u[0]]),
        lambda x, u, t: x,
        exact if covariance is None else covariance,
        np.square(NOISE),
        np.array([0.3, -0.2]),
    )


@pytest.mark.parametrize("hold", ["zoh", "foh"])
@pytest.mark.parametrize("irregular", [False, True])
def test_a_linear_system_has_the_increments_of_a_textbook_filter(hold, irregular):
    records = [record_of(12, hold, irregular, seed) for seed in (0, 1)]
    problem = linear_problem(records)
    increments = increments_of(problem, LINEAR, RK4(steps=STEPS))
    expected = [
        extended_kalman(linear_system(problem), r.t, r.y, held_input(r), STEPS).increments
        for r in records
    ]
    np.testing.assert_allclose(increments, np.concatenate(expected), atol=1e-10)


def with_coloured_noise(sd, rho):
    """The linear system with Ornstein and Uhlenbeck's process, sampled AR1, as a third state."""
    c, k, q = LINEAR
    slope = np.array([[0.0, 1.0, 0.0], [-k, -c, 0.0], [0.0, 0.0, np.log(rho) / DT]])
    return Disturbed(
        lambda x, u, t: slope @ x + np.array([0.0, u[0], 0.0]),
        lambda x, u, t: np.array([x[0] + x[2], x[1]]),
        exact_noise(slope, np.diag([0.0, q**2, -2.0 * sd**2 * slope[2, 2]])),
        np.array([0.0, NOISE[1] ** 2]),
        np.array([0.3, -0.2, 0.0]),
        np.diag([0.0, 0.0, sd**2]),
    )


@pytest.mark.parametrize("irregular", [False, True])
@pytest.mark.parametrize("name", ["kalman", "kalman-iterated"])
def test_coloured_noise_is_a_state_that_is_measured_exactly(irregular, name):
    r = record_of(16, "foh", irregular)
    problem = linear_problem([r], noise=[AR1(0.3, 0.6, interval=DT), NOISE[1]])
    expected = extended_kalman(with_coloured_noise(0.3, 0.6), r.t, r.y, held_input(r), STEPS)
    found = increments_of(problem, LINEAR, RK4(steps=STEPS), name)
    np.testing.assert_allclose(found, expected.increments, atol=1e-9)
    (run,) = predictions(problem, RK4(steps=STEPS), [(0, r)], "kalman")
    outputs, covariance, mean, variance = run.with_noise(LINEAR, STEPS)
    np.testing.assert_allclose(
        outputs + mean, expected.predicted @ [[1, 0], [0, 1], [1, 0]], atol=1e-9
    )
    share = np.array([1.0, 0.0, 1.0])
    spread = np.einsum("i,tij,j->t", share, expected.predicted_covariance, share)
    np.testing.assert_allclose(covariance[:, 0, 0] + variance[:, 0], spread, atol=1e-9)


def test_states_beside_coloured_noise_are_those_of_a_textbook_smoother():
    r = record_of(12)
    problem = linear_problem([r], noise=[AR1(0.3, 0.6, interval=DT), NOISE[1]])
    run = extended_kalman(with_coloured_noise(0.3, 0.6), r.t, r.y, held_input(r), 16)
    mean, spread = run.filtered.copy(), run.covariance.copy()
    for k in range(len(mean) - 2, -1, -1):
        gain = run.covariance[k] @ run.transitions[k + 1].T
        gain = gain @ np.linalg.pinv(run.predicted_covariance[k + 1])
        mean[k] += gain @ (mean[k + 1] - run.predicted[k + 1])
        spread[k] += gain @ (spread[k + 1] - run.predicted_covariance[k + 1]) @ gain.T
    values, weights = np.tile(LINEAR, (2, 1)), np.full(2, 0.5)
    found = states_of_particles(
        problem, RK4(steps=16), "kalman", r, values, weights, draws=2, parameters=2, seed=0
    )
    np.testing.assert_allclose(found.mean, mean[:, :2], atol=1e-6)
    np.testing.assert_allclose(found.sd, np.sqrt([np.diag(p)[:2] for p in spread]), atol=1e-5)


def test_a_stream_and_a_gradient_with_coloured_noise():
    problem = linear_problem(record_of(), noise=[AR1(0.3, 0.6), AR1(0.2, -0.4)])
    r, values = problem.records[0], np.vstack([LINEAR, 1.3 * LINEAR])
    whole = build_likelihood(problem, RK4(2), 1, "kalman")
    expected = whole.advance(values, whole.start(values), 0, len(r))[1]
    stream = growing_likelihood(problem, RK4(2), History(1, 2, intervals=8, kept=2), threads=1)
    stream.stream.append(r.t, r.u, r.y)
    increments = stream.advance(values, stream.start(values), 0, len(r))[1]
    np.testing.assert_array_equal(increments, expected)
    function = smcpn.LogLikelihood(problem, "kalman", RK4(2))
    _, gradient = function.value_and_gradient(LINEAR[None])
    moved = 1e-5 * np.eye(3)
    numeric = (function(LINEAR + moved) - function(LINEAR - moved)) / 2e-5
    np.testing.assert_allclose(gradient[0], numeric, rtol=1e-6)


def test_the_noise_of_a_linear_system_converges_with_the_fourth_order():
    problem = linear_problem(record_of(20))
    r = problem.records[0]
    exact = extended_kalman(linear_system(problem), r.t, r.y, held_input(r), 16).increments.sum()
    errors = [abs(increments_of(problem, LINEAR, RK4(n)).sum() - exact) for n in (1, 2)]
    assert errors[0] < 1e-3
    assert errors[0] / errors[1] > 10.0


def nonlinear_system(problem, values):
    a, _, x0 = values
    return Disturbed(
        lambda x, u, t: np.array(
            [x[0] - x[0] ** 3 / 3 - x[1] + u[0], a * (x[0] + 0.7 - 0.8 * x[1])]
        ),
        lambda x, u, t: np.array([x[0], x[0] * x[1] + u[0]]),
        noise_covariance(problem, values),
        np.square(NOISE),
        np.array([x0, 0.1]),
    )


def test_a_nonlinear_system_has_the_increments_of_a_textbook_filter():
    problem, values = nonlinear_problem(record_of()), np.array([0.3, 0.4, 0.6])
    r = problem.records[0]
    system = nonlinear_system(problem, values)
    expected = extended_kalman(system, r.t, r.y, held_input(r), 3).increments
    np.testing.assert_allclose(increments_of(problem, values, RK4(3)), expected, atol=1e-10)


def test_a_smoothing_program_emits_moments_and_transitions_of_the_textbook_filter():
    problem, values = nonlinear_problem(record_of()), np.array([0.3, 0.4, 0.6])
    r, solver = problem.records[0], RK4(3)
    recursion = Kalman(problem, solver, Grid.of(problem.records))
    kernel = LaneKernel(recursion.smoothing_program(), 1)
    rows, theta = recursion.inputs(r, 3).whole(r), values[:, None]
    _, emitted, _ = kernel.advance(theta, kernel.start(theta, rows), rows, 0, len(r), True)
    ours = np.split(emitted[:, :, 0], np.cumsum([2, 4, 4, 2]), axis=1)
    filtered = extended_kalman(nonlinear_system(problem, values), r.t, r.y, held_input(r), 3)
    expected = (
        filtered.predicted,
        filtered.predicted_covariance,
        filtered.transitions,
        filtered.filtered,
        filtered.covariance,
    )
    for own, other in zip(ours, expected, strict=True):
        columns = other if other.ndim == 2 else other.transpose(0, 2, 1).reshape(len(r), -1)
        np.testing.assert_allclose(own, columns, atol=1e-11)


@pytest.mark.parametrize("hold", ["zoh", "foh", "bandlimited"])
def test_without_process_noise_it_is_the_classical_likelihood(hold):
    record = record_of(hold=hold, missing=hold != "bandlimited")
    values = LINEAR[None, :2]
    quiet = linear_problem(record, q=1e-7)
    still = linear_problem(record, prior=QUIET, process_noise=None)
    kalman = build_likelihood(quiet, RK4(4), 1, "kalman").total(values)
    classical = build_likelihood(still, RK4(4), 1, "classical").total(values)
    np.testing.assert_allclose(kalman, classical, rtol=0, atol=1e-6)


def in_many_digits(t, y, q, noise):
    """Log-likelihood of an integrated Wiener process that sensors measure, in 60 digits."""
    with mp.workdps(60):
        total, m, p = mpf(0), [mpf(0), mpf(0)], [[mpf(0)] * 2, [mpf(0)] * 2]
        for k, value in enumerate(y):
            if k:
                h = mpf(t[k]) - mpf(t[k - 1])
                m = [m[0] + h * m[1], m[1]]
                p00 = p[0][0] + 2 * h * p[0][1] + h**2 * p[1][1] + mpf(q) ** 2 * h**3 / 3
                p01 = p[0][1] + h * p[1][1] + mpf(q) ** 2 * h**2 / 2
                p = [[p00, p01], [p01, p[1][1] + mpf(q) ** 2 * h]]
            for sensor in value:
                s, z = p[0][0] + mpf(noise) ** 2, mpf(sensor) - m[0]
                total -= (mp.log(2 * mp.pi * s) + z**2 / s) / 2
                gain = [p[0][0] / s, p[0][1] / s]
                m = [m[0] + gain[0] * z, m[1] + gain[1] * z]
                p = [[p[i][j] - gain[i] * s * gain[j] for j in (0, 1)] for i in (0, 1)]
        return float(total)


@smcpn.ode
def drifting(x, v, *, q):
    """Chain of two integrators."""
    return v, 0.0 * v


@pytest.mark.parametrize("noise", [1e-6, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("q", [1e-3, 1.0, 30.0])
def test_digits_are_kept_for_any_noise(noise, q):
    """Two sensors of one state, after 100 s without any: P - K S K' has no digit for the second."""
    t = 100.0 + 0.1 * np.arange(30)
    t[0] = 0.0
    y = np.sin(t)[:, None] + min(noise, 1.0) * np.random.default_rng(0).standard_normal((30, 2))
    problem = smcpn.Problem(
        drifting, smcpn.Record(y=y, t=t), observe=["x", "x"], noise=[noise, noise],
        process_noise={"v": "q"}, prior={"q": stats.lognorm(2.0)},
    )  # fmt: skip
    own = increments_of(problem, [q], RK4(1)).sum()
    assert own == pytest.approx(in_many_digits(t, y, q, noise), rel=1e-12)


def test_a_state_without_noise_of_its_own_keeps_its_covariance_positive():
    problem = linear_problem(record_of(300))
    recursion = Kalman(problem, RK4(2), Grid.of(problem.records))
    pivots = ca.vertcat(*recursion.filtered.factor.pivots)
    kernel = LaneKernel(recursion.program(pivots), 1)
    r, theta = problem.records[0], LINEAR[:, None] * np.array([1.0, 1e-3, 1e3])
    rows = recursion.inputs(r, 2).whole(r)
    _, emitted, _ = kernel.advance(theta, kernel.start(theta, rows), rows, 0, len(r), True)
    assert np.isfinite(emitted).all()
    assert (emitted >= 0.0).all()


@smcpn.ode
def uncoupled(x, v, z, *, q):
    """An oscillator beside a decay."""
    return v, -x, -z


def test_uncoupled_states_keep_no_covariance():
    record = smcpn.Record(y=np.zeros((9, 2)), dt=0.1)
    problem = smcpn.Problem(
        uncoupled, record, observe=["x", "z"], noise=0.1, process_noise={"v": "q"},
        prior={"q": stats.lognorm(1.0)},
    )  # fmt: skip
    recursion = Kalman(problem, RK4(1), Grid.of(problem.records))
    program = recursion.program(recursion.log_density())
    # The means; L_10, D_0 and D_1 of the oscillator, and the noise of its step; nothing of the
    # decay, which is known.
    assert program.state.numel() == 3 + 3 + recursion.transition.factor.nnz()


def test_the_gradient_is_that_of_the_filter():
    problem, values = nonlinear_problem(record_of()), np.array([0.3, 0.4, 0.6])
    log_likelihood = smcpn.LogLikelihood(problem, "kalman", RK4(2))
    _, gradient = log_likelihood.value_and_gradient(values[None, :])
    steps = 1e-4 * np.eye(3)
    weights = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
    numeric = sum(w * log_likelihood(values + k * steps) / 1e-4 for k, w in weights.items())
    np.testing.assert_allclose(gradient[0], numeric, rtol=1e-7)


def test_a_stream_has_the_increments_of_the_record():
    problem = linear_problem(record_of())
    r, values = problem.records[0], np.vstack([LINEAR, 1.3 * LINEAR])
    whole = build_likelihood(problem, RK4(2), 1, "kalman")
    expected = whole.advance(values, whole.start(values), 0, len(r))[1]
    stream = growing_likelihood(problem, RK4(2), History(1, 2, intervals=8, kept=2), threads=1)
    for a in range(0, len(r), 3):
        stream.stream.append(r.t[a : a + 3], r.u[a : a + 3], r.y[a : a + 3])
    increments = stream.advance(values, stream.start(values), 0, len(r))[1]
    np.testing.assert_array_equal(increments, expected)


def test_the_error_that_the_solver_claims_vanishes_with_its_steps():
    problem, values = nonlinear_problem(record_of()), np.array([[0.3, 0.4, 0.6]])
    likelihoods = [build_likelihood(problem, RK4(n), 1, "kalman") for n in (4, 8)]
    for order in (1, 2, 3):
        others = [build_likelihood(problem, EKF0(order, n), 1, "kalman") for n in (4, 8)]
        pairs = zip(likelihoods, others, strict=True)
        errors = [abs((one.total(values) - other.total(values)).item()) for one, other in pairs]
        # Their means are of order nu, the variances that they claim of order 2 nu + 1.
        assert errors[0] / errors[1] > 0.75 * 2**order


def test_the_first_order_step_is_that_of_heun_with_its_residual_as_error():
    problem = linear_problem(record_of())
    model = problem.model.with_numbers()
    recursion = Kalman(problem, EKF0(1, 1), Grid.of(problem.records))
    transition, step = recursion.transition, recursion.transition.step
    symbols = [model.x, model.theta, step.h, step.t, *step.inputs]
    numbers = (np.array([0.3, -0.2]), LINEAR, 0.05, 0.0, 0.1, 0.2, 0.3)
    graphs = [transition.following, transition.error_variance]
    following, variance = (v.full().ravel() for v in ca.Function("f", symbols, graphs)(*numbers))
    c, k, _ = LINEAR

    def rate(x, u):
        return np.array([x[1], u - c * x[1] - k * x[0]])

    x = numbers[0]
    first = rate(x, 0.1)
    z = 0.05 * (rate(x + 0.05 * first, 0.3) - first)
    np.testing.assert_allclose(following, x + 0.05 * first + z / 2, rtol=1e-14)
    np.testing.assert_allclose(variance, z**2 / 12, rtol=1e-12)


def test_linear_outputs_gain_nothing_from_iterations():
    problem = linear_problem(record_of())
    plain, iterated = (
        increments_of(problem, LINEAR, RK4(1), name) for name in ("kalman", "kalman-iterated")
    )
    np.testing.assert_allclose(iterated, plain, rtol=1e-10, atol=1e-12)


@smcpn.ode
def wandering(x, *, q):
    """A Wiener process."""
    return 0.0 * x


def cubed(x):
    """A curved output."""
    return x**3


def test_the_iterated_update_ends_where_the_posterior_is_highest():
    record = smcpn.Record(y=np.array([1.0, 2.2]), dt=1.0)
    problem = smcpn.Problem(
        wandering, record, observe=cubed, noise=0.1, initial=[1.0], process_noise={"x": "q"},
        prior={"q": stats.lognorm(1.0)},
    )  # fmt: skip

    class Converged(IteratedKalman):
        iterations = 12

    recursion = Converged(problem, RK4(1), Grid.of(problem.records))
    kernel = LaneKernel(recursion.program(recursion.filtered.mean), 1)
    r, theta = problem.records[0], np.array([[0.5]])
    rows = recursion.inputs(r, 1).whole(r)
    _, emitted, _ = kernel.advance(theta, kernel.start(theta, rows), rows, 0, 2, True)
    x = emitted[1, 0, 0]
    slope = (x - 1.0) / 0.25 - 3 * x**2 * (2.2 - x**3) / 0.01
    assert abs(slope) < 1e-6


def test_counts_are_weighed_by_laplace_about_the_prediction():
    record = smcpn.Record(y=np.array([np.nan, 3.0]), dt=1.0)
    problem = smcpn.Problem(
        wandering, record, observe="x", noise=smcpn.Poisson(), initial=[1.0],
        process_noise={"x": "q"}, prior={"q": stats.lognorm(1.0)},
    )  # fmt: skip
    own = increments_of(problem, [0.2], RK4(1))[1]
    x = np.linspace(-1.0, 3.0, 4001)
    density = stats.norm.pdf(x, 1.0, 0.2) * stats.poisson.pmf(3, np.exp(x))
    assert own == pytest.approx(np.log(np.trapezoid(density, x)), abs=0.01)


def test_surprising_counts_are_weighed_about_where_they_put_the_state():
    record = smcpn.Record(y=np.array([np.nan, 12.0]), dt=1.0)
    problem = smcpn.Problem(
        wandering, record, observe="x", noise=smcpn.Poisson(), initial=[1.0],
        process_noise={"x": "q"}, prior={"q": stats.lognorm(1.0)},
    )  # fmt: skip
    x = np.linspace(-3.0, 5.0, 8001)
    density = stats.norm.pdf(x, 1.0, 0.8) * stats.poisson.pmf(12, np.exp(x))
    exact = np.log(np.trapezoid(density, x))
    plain, iterated = (
        increments_of(problem, [0.8], RK4(1), name)[1] for name in ("kalman", "kalman-iterated")
    )
    assert abs(iterated - exact) < 0.02 < abs(plain - exact)


def test_other_likelihoods_refuse_process_noise_and_name_this_one():
    problem = linear_problem(record_of())
    for name, kind in LIKELIHOODS.items():
        if not kind.takes_process_noise:
            adaptive = smcpn.AdaptiveEKF1(tolerance=1e-4), smcpn.Rosenbrock(tolerance=1e-4)
            solvers = RK4(1), EKF0(2, 1), EKF1(2, 1), *adaptive
            solver = next(one for one in solvers if kind.goes_with(one))
            with pytest.raises(InputError, match=r"no process noise.*kalman"):
                build_likelihood(problem, solver, 1, name)


def test_what_it_cannot_use_is_refused():
    with pytest.raises(InputError, match="does not go with"):
        build_likelihood(linear_problem(record_of()), EKF1(2, 1), 1, "kalman")
    for solver in (EKF0(4, 1), EKF0(2, 1, diffusion=0.3), EKF0(2, 1, form="chain")):
        with pytest.raises(InputError, match="of order 1 to 3"):
            build_likelihood(linear_problem(record_of()), solver, 1, "kalman")
    with pytest.raises(InputError, match="process noise only"):
        build_likelihood(
            linear_problem(record_of(), prior=QUIET, process_noise=None), RK4(1), 1, "kalman"
        )


def test_it_is_the_likelihood_of_a_problem_with_process_noise():
    log_likelihood = smcpn.LogLikelihood(linear_problem(record_of()))
    assert log_likelihood.likelihood == "kalman"
    assert log_likelihood.solver == RK4(int(log_likelihood.solver.steps))


def test_steps_are_chosen_by_what_changes_a_prediction():
    fine = solver_from_prior(linear_problem(record_of()), RK4())
    slow = smcpn.Record(y=np.zeros((9, 2)), u=np.zeros(9), dt=2.0)
    coarse = solver_from_prior(linear_problem(slow), RK4())
    assert int(fine.steps) < int(coarse.steps) <= 64


def test_a_state_that_noise_reaches_late_has_a_gradient():
    """The first step leaves its variance zero, as noise reaches it through a nonlinear rate."""
    record = smcpn.Record(y=0.1 * np.random.default_rng(0).standard_normal(30), dt=DT)
    problem = smcpn.Problem(
        swinging, record, observe="x", noise=0.05, initial=[0.0, 0.1], process_noise={"v": "q"},
        prior={"k": stats.lognorm(1.0), "q": stats.lognorm(1.0)},
    )  # fmt: skip
    log_likelihood, values = smcpn.LogLikelihood(problem, solver=RK4(1)), np.array([1.2, 0.3])
    _, gradient = log_likelihood.value_and_gradient(values[None, :])
    steps = 1e-5 * np.eye(2)
    numeric = (log_likelihood(values + steps) - log_likelihood(values - steps)) / 2e-5
    np.testing.assert_allclose(gradient[0], numeric, rtol=1e-6)


@smcpn.ode
def swinging(x, v, *, k):
    """Noise reaches the first state through a sine."""
    return np.sin(v), -k * np.sin(x)


@smcpn.ode
def draining(h, u, *, k):
    """A tank that may be empty."""
    return u - k * ca.sqrt(ca.fmax(h, 0.0))


def test_an_empty_tank_has_a_covariance_and_a_gradient():
    """Below zero the root of the level is flat, though its slope is infinite at zero."""
    record = smcpn.Record(u=np.zeros(20), y=-0.01 * np.ones(20), dt=DT, hold="zoh")
    problem = smcpn.Problem(
        draining, record, observe="h", noise=0.05, initial=[-0.01], process_noise={"h": "q"},
        prior={"k": stats.lognorm(1.0), "q": stats.lognorm(1.0)},
    )  # fmt: skip
    values = np.array([[0.5, 0.02]])
    value, gradient = smcpn.LogLikelihood(problem, solver=RK4(1)).value_and_gradient(values)
    t = record.t - record.t[0]
    covariance = 0.02**2 * np.minimum.outer(t, t) + 0.05**2 * np.eye(20)
    exact = stats.multivariate_normal(-0.01 * np.ones(20), covariance).logpdf(record.y[:, 0])
    assert value[0] == pytest.approx(exact, rel=1e-12)
    assert np.isfinite(gradient).all()


def test_a_run_is_resumed_and_streamed_as_any_other(tmp_path):
    problem = linear_problem(disturbed_record(linear_problem(record_of(30)), LINEAR, seed=2))
    options = {"particles": 200, "seed": 1, "solver": RK4(2), "progress": False}
    run = smcpn.identify(problem, checkpoint=tmp_path / "run.h5", method="ibis", **options)
    assert run.likelihood_name == "kalman"
    resumed = smcpn.resume(tmp_path / "run.h5")
    np.testing.assert_array_equal(resumed.theta, run.theta)
    tempered = smcpn.identify(problem, method="tempering", **options)
    error = np.hypot(run.log_evidence_se, tempered.log_evidence_se)
    assert abs(run.log_evidence - tempered.log_evidence) < 5 * error
    live = smcpn.Online(problem, particles=100, seed=1, solver=RK4(2))
    r = problem.records[0]
    for k in range(5):
        state = live.update(r.u[k], r.y[k], t=r.t[k])
    assert np.isfinite(list(state.mean.values())).all()


def disturbed_record(problem, values, seed):
    """A record of the same times with outputs of the model at these values, by Euler's method."""
    model, r = problem.model.with_numbers(), problem.records[0]
    symbols = [model.theta, model.x, model.u, model.t]
    graphs = [model.rhs, model.process_noise.columns, model.outputs, model.noise_variance]
    function = ca.Function("f", symbols, graphs)
    rng, h = np.random.default_rng(seed), DT / 10
    x = ca.Function("x", [model.theta], [model.initial[0]])(values).full()
    y = np.empty_like(r.y)
    for k, u in enumerate(r.u):
        output, variance = (part.full()[:, 0] for part in function(values, x, u, r.t[k])[2:])
        y[k] = output + np.sqrt(variance) * rng.standard_normal(len(variance))
        for _ in range(10):
            rate, columns = (part.full() for part in function(values, x, u, r.t[k])[:2])
            x = x + h * rate + np.sqrt(h) * columns @ rng.standard_normal((columns.shape[1], 1))
    return smcpn.Record(u=r.u, y=y, dt=DT, hold="foh")


def test_a_covariance_that_is_too_large_to_compile_is_refused(monkeypatch):
    monkeypatch.setattr("smcpn.likelihood.kalman.MAX_ENTRIES", 2)
    with pytest.raises(InputError, match="2 states has 3 entries"):
        build_likelihood(linear_problem(record_of()), RK4(1), 1, "kalman")


@pytest.mark.parametrize("kind", ["linear", "nonlinear"])
def test_at_a_maximum_the_textbook_filter_has_no_slope(kind):
    values = {"linear": LINEAR, "nonlinear": np.array([0.3, 0.4, 0.6])}[kind]
    make = {"linear": linear_problem, "nonlinear": nonlinear_problem}[kind]
    problem = make(record_of(40))
    problem = make(disturbed_record(problem, values, seed=1))
    maximum = smcpn.maximise(problem, solver=RK4(1), threads=1)
    assert (maximum.method, maximum.function.likelihood) == ("levenberg-marquardt", "kalman")
    r, prior = problem.records[0], problem.prior

    def cost(theta):
        at = prior.natural(theta[None])[0]
        covariance = noise_covariance(problem, at)
        system = linear_system(problem, covariance, at)
        if kind == "nonlinear":
            system = nonlinear_system(problem, at)
        total = extended_kalman(system, r.t, r.y, held_input(r), 1).increments.sum()
        return -total - prior.log_density(theta[None])[0]

    numeric = optimize.approx_fprime(maximum.theta, cost, 1e-6)
    # In units of the log density, of parameters known to a tenth or so; forward differences.
    assert np.abs(numeric).max() < 1e-3
