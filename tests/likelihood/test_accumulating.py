"""States that count since the last sample, in all likelihoods, against matrix exponentials.

With x = (i, cases), i' = u(t - tau) - d i + q dW and cases' = r i, a sample leaves Z x of x, with
Z = diag(1, 0).
"""

from __future__ import annotations

from itertools import pairwise, product

import casadi as ca
import numpy as np
import pytest
from scipy import stats
from scipy.linalg import expm

import smcpn
from smcpn import EKF0, EKF1, RK4, AdaptiveEKF1, Dose, Rosenbrock
from smcpn.likelihood.growing import growing_likelihood
from smcpn.likelihood.history import History
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.particle.stream import stream_estimate
from smcpn.likelihood.registry import LIKELIHOODS, build_estimate, build_likelihood
from smcpn.results.simulation.filtered import WindowFilter, window_begins
from smcpn.results.simulation.simulator import DisturbedSimulator
from smcpn.results.simulation.states import states_of_particles
from tests.nightly import nightly_but

N, DT, NOISE = 12, 0.5, np.array([0.3, 0.4])
DECAY, RATE, SPREAD = 0.3, 0.8, 0.5
RNG = np.random.default_rng(3)
U = RNG.normal(1.0, 1.0, N)
# About what the states are, with much noise.
Y = RNG.normal([0.8, 2.0], 0.4, (N, 2))
Y[4] = np.nan
UNEVEN = np.cumsum(RNG.uniform(0.3, 0.9, N))
START, Z = np.array([2.0, 0.4]), np.diag([1.0, 0.0])
DOSES = (Dose(1.0, "i", 3.0), Dose(2.6, "i", 2.0))


@smcpn.ode
def infected(i, cases, u, *, decay, rate):
    """A count of what leaves."""
    return u - decay * i, rate * i


COUNTING = infected.accumulating("cases")


def problem(t=None, y=Y, doses=(), delay=None, **changes):
    """The model with its decay as the only unknown, held inputs."""
    times = {"dt": DT} if t is None else {"t": t}
    record = smcpn.Record(u=U[: len(y)], y=y, doses=doses, hold="zoh", **times)
    given = {"prior": {"decay": stats.lognorm(1.0), "rate": RATE}, "noise": NOISE.tolist()}
    if delay is not None:
        given["delay"] = {"u": delay}
    observe = ["cases", "i"]
    return smcpn.Problem(
        COUNTING, record, observe=observe, initial=START.tolist(), **given | changes
    )


def matrices(h, u, disturbed=0.0):
    """Matrix, offset and covariance of an interval of length h, by Van Loan (1978)."""
    A = np.array([[-DECAY, 0.0, u], [RATE, 0.0, 0.0], [0.0, 0.0, 0.0]])
    whole = expm(A * h)
    G = np.diag([disturbed**2, 0.0])
    block = expm(np.block([[-A[:2, :2], G], [np.zeros((2, 2)), A[:2, :2].T]]) * h)
    F = whole[:2, :2]
    return F, whole[:2, 2], F @ block[:2, 2:]


def intervals(t, delay=0.0, doses=(), disturbed=0.0):
    """Matrix, offset and covariance of every interval between samples."""
    arrivals = sorted({*t, *(t + delay), *(d.time for d in doses)})
    made = []
    for begin, end in pairwise(t):
        F, b, Q = np.eye(2), np.zeros(2), np.zeros((2, 2))
        for one, other in pairwise([a for a in arrivals if begin - 1e-12 <= a <= end + 1e-12]):
            middle = 0.5 * (one + other) - delay
            u = U[max(np.searchsorted(t, middle, side="right") - 1, 0)]
            b = b + np.array([sum(d.amount for d in doses if d.time == one), 0.0])
            step, offset, added = matrices(other - one, u, disturbed)
            F, b, Q = step @ F, step @ b + offset, step @ Q @ step.T + added
        made.append((F, b, Q))
    return made


def kalman(steps, y=Y, noise=NOISE):
    """Increments, predicted and filtered moments, by the filter as textbooks write it."""
    m, P, rows = START, np.zeros((2, 2)), []
    for k, measured in enumerate(y):
        if k:
            F, b, Q = steps[k - 1]
            m, P = F @ Z @ m + b, F @ Z @ P @ Z @ F.T + Q
        before, increment, H = (m, P), 0.0, np.array([[0.0, 1.0], [1.0, 0.0]])
        if np.isfinite(measured).all():
            v, S = measured - H @ m, H @ P @ H.T + np.diag(noise**2)
            K = P @ H.T @ np.linalg.inv(S)
            m, P = m + K @ v, P - K @ S @ K.T
            increment = stats.multivariate_normal(cov=S).logpdf(v)
        rows.append((increment, *before, m, P))
    return [np.array(part) for part in zip(*rows, strict=True)]


FINE = {"order": 3, "steps": 32, "diffusion": 1e-4}
SOLVERS = {
    "classical": RK4(32), "marginal": EKF0(order=4, steps=32), "rosenbrock": Rosenbrock(1e-9),
    "adaptive": AdaptiveEKF1(tolerance=1e-7), "filtering": EKF1(**FINE), "dalton": EKF1(**FINE),
    "fenrir": EKF1(**FINE),
}  # fmt: skip
GRIDS = {
    "even": {}, "uneven": {"t": UNEVEN}, "dosed": {"doses": DOSES}, "late": {"delay": 0.63},
    "late, uneven": {"t": UNEVEN, "delay": 0.63}, "late, dosed": {"delay": 0.63, "doses": DOSES},
}  # fmt: skip


OFTEN = {(name, "even") for name in SOLVERS} | {
    ("marginal", "dosed"), ("marginal", "late"), ("classical", "late, uneven"),
    ("filtering", "dosed"), ("classical", "late, dosed"),
    ("filtering", "late, dosed"),
}  # fmt: skip


@pytest.mark.parametrize(("likelihood", "grid"), nightly_but(OFTEN, product(SOLVERS, GRIDS)))
def test_a_solution_counts_as_the_matrix_exponential(likelihood, grid):
    one, options = problem(**GRIDS[grid]), GRIDS[grid]
    t = DT * np.arange(N) if "t" not in options else options["t"]
    steps = intervals(t, options.get("delay", 0.0), options.get("doses", ()))
    found = smcpn.LogLikelihood(one, likelihood, SOLVERS[likelihood])
    assert found([[DECAY]])[0] == pytest.approx(kalman(steps)[0].sum(), abs=1e-4)


@pytest.mark.parametrize(
    ("likelihood", "kind"),
    nightly_but(
        [("filtering", EKF0), ("dalton", EKF0)],
        product(("filtering", "dalton", "fenrir"), (EKF0, EKF1)),
    ),
)
def test_filters_of_all_forms_agree_where_they_claim_nothing(likelihood, kind):
    expected = kalman(intervals(DT * np.arange(N)))[0].sum()
    for form in ("first", "chain"):
        solver = kind(order=4, steps=32, form=form, diffusion=1e-4)
        found = smcpn.LogLikelihood(problem(), likelihood, solver)
        assert found([[DECAY]])[0] == pytest.approx(expected, abs=1e-3)
        _, gradient = found.value_and_gradient([[DECAY]])
        ends = found([[DECAY + 1e-5], [DECAY - 1e-5]])
        assert gradient[0, 0] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4)


def conditioned(jacobian, steps=2, data=True, sees_cases=True):
    """Log densities of outputs and of residuals, by a dense filter of i, i', i'', cases, ..., (2,).

    A filter of twice integrated Wiener processes of unit diffusion meets the ODE at the end of
    every step, and begins every interval with exact derivatives of what the sample leaves.
    """
    h = DT / steps
    A = np.kron(np.eye(2), np.array([[1, h, h**2 / 2], [0, 1, h], [0, 0, 1]]))
    powers = np.array([[5, 4, 3], [4, 3, 2], [3, 2, 1]])
    Q = np.kron(np.eye(2), np.outer([0.5, 1, 1], [0.5, 1, 1]) * h**powers / powers)
    H, rates = np.zeros((2, 6)), np.array([[-DECAY, 0.0], [RATE, 0.0]])
    H[0, 3] = H[1, 0] = 1.0
    seen = jacobian * rates
    # Derivatives of i and cases, that of the rate being -d i' and r i'.
    values, sees = np.zeros((2, 6)), np.zeros((2, 6))
    values[0, 0] = values[1, 3] = sees[0, 1] = sees[1, 4] = 1.0

    def restarted(m, P, u):
        x, first = Z @ values @ m, 0.0
        first = rates @ x + [u, 0.0]
        slopes = np.stack([np.eye(2), seen, seen @ seen], axis=1).reshape(6, 2) @ Z
        second = rates @ first
        return np.stack(
            [x, first, second], axis=1
        ).ravel(), slopes @ values @ P @ values.T @ slopes.T

    m, P = restarted(np.array([START[0], 0, 0, START[1], 0, 0]), np.zeros((6, 6)), U[0])
    m[3], P[:] = START[1], 0.0
    of_y = of_z = 0.0
    for k in range(N):
        if k:
            m, P = restarted(m, P, U[k - 1])
        for _ in range(steps if k else 0):
            m, P = A @ m, A @ P @ A.T + Q
            z = sees @ m - rates @ values @ m - [U[k - 1], 0.0]
            D = sees - seen @ values
            S = D @ P @ D.T
            K = P @ D.T @ np.linalg.inv(S)
            of_z += stats.multivariate_normal(cov=S).logpdf(z)
            m, P = m - K @ z, P - K @ S @ K.T
        if data and np.isfinite(Y[k]).all():
            v, S = Y[k] - H @ m, H @ P @ H.T + np.diag(NOISE**2)
            K = P @ H.T @ np.linalg.inv(S)
            m, P = m + K @ v, P - K @ S @ K.T
            of_y += stats.multivariate_normal(cov=S).logpdf(v)
    return np.array([of_y, of_z])


# Fenrir is linearised where the filter without data is, which EKF1 does not see of a linear model.
CLAIMS = [("filtering", EKF0), ("dalton", EKF0)]
CLAIMS += [(name, EKF1) for name in ("filtering", "dalton", "fenrir")]


@pytest.mark.parametrize(("likelihood", "kind"), CLAIMS)
def test_a_claimed_error_is_set_back_as_by_a_dense_filter(likelihood, kind):
    solver = kind(order=2, steps=2, diffusion=1.0)
    jacobian = kind is EKF1
    found = smcpn.LogLikelihood(problem(), likelihood, solver)([[DECAY]])[0]
    y, z = conditioned(jacobian)
    expected = y if likelihood == "filtering" else y + z - conditioned(jacobian, data=False)[1]
    assert found == pytest.approx(expected, abs=1e-9)


def test_gains_that_all_share_know_which_samples_end_a_count():
    one, solver = problem(doses=DOSES), EKF0(order=2, steps=2, diffusion=1.0)
    kind, grid = LIKELIHOODS["filtering"], Grid.of(one.records)
    found = []
    for share in (True, False):
        recursion = kind(one, solver, grid, share=share)
        assert bool(recursion.shared) == share
        built = recursion.over(one.records, solver, recursion.kernel(solver))
        found.append(built.evaluate(np.array([[DECAY]]), len(one.records[0]))[1][0])
    assert found[0] == pytest.approx(found[1], abs=1e-10)


@smcpn.ode
def wave(cases, t, *, decay, rate):
    """A rate whose period is the sampling interval."""
    return rate * (1.0 + np.sin(2 * np.pi / DT * t)) + 0.0 * decay


def claim(recursion):
    expected = recursion.expected()
    return recursion.program(ca.vertcat(expected.outputs, ca.densify(expected.covariance)))


@pytest.mark.parametrize(
    ("likelihood", "solver"),
    [("marginal", EKF0(order=2, steps=6)), ("adaptive", AdaptiveEKF1(order=2, tolerance=1e-2))],
    ids=["marginal", "adaptive"],
)
@pytest.mark.parametrize("counts", [True, False])
def test_the_claimed_error_of_a_count_is_that_since_the_last_sample(likelihood, solver, counts):
    ode = wave.accumulating("cases") if counts else wave
    record = smcpn.Record(y=np.ones(N), dt=DT)
    given = {"prior": {"decay": stats.lognorm(1.0), "rate": RATE}, "noise": 0.1}
    one = smcpn.Problem(ode, record, observe="cases", initial=[0.0], **given)
    kind = LIKELIHOODS[likelihood]
    recursion = kind.predicting(one, solver, Grid.of(one.records))
    built = recursion.over(one.records, solver, recursion.kernel(solver, write=claim))
    outputs, variance = built.emitted(np.array([[0.3]]), built.start(np.array([[0.3]])), 0, N)[1].T[
        0
    ]
    growth = variance[2:] / variance[1:-1]
    assert variance[0] == 0.0 < variance[1]
    if counts:
        np.testing.assert_allclose(outputs[1:], RATE * DT, rtol=1e-2)
        np.testing.assert_allclose(growth[2:], 1.0, rtol=1e-2)
    else:
        assert (growth > 1.05).all()


GRID_OF_NOISE = {name: GRIDS[name] for name in ("even", "uneven", "dosed", "late", "late, dosed")}


def disturbed(grid="even", **changes):
    options = GRIDS[grid]
    return problem(process_noise={"i": SPREAD}, **options | changes), intervals(
        options.get("t", DT * np.arange(N)),
        options.get("delay", 0.0),
        options.get("doses", ()),
        SPREAD,
    )


@pytest.mark.parametrize(
    ("likelihood", "grid"),
    nightly_but(
        {("particle", "even"), ("particle", "late, dosed"), ("kalman-iterated", "late, dosed")}
        | {("kalman", grid) for grid in GRID_OF_NOISE},
        product(("kalman", "kalman-iterated", "particle"), GRID_OF_NOISE),
    ),
)
def test_disturbed_states_count_as_by_an_exact_filter(likelihood, grid):
    one, steps = disturbed(grid)
    build = build_estimate if likelihood == "particle" else build_likelihood
    built, values = build(one, RK4(16), 1, likelihood), np.full((2, 1), DECAY)
    keys = np.array([[1], [2]], dtype=np.uint64)
    found = built.evaluate(values, built.n_samples, keys)[1]
    # Of a linear model filters that look ahead know all, and their estimate is the likelihood.
    np.testing.assert_allclose(found, kalman(steps)[0].sum(), atol=1e-6)


def test_a_bootstrap_filter_estimates_the_likelihood_of_counts():
    one, steps = disturbed()
    built = build_estimate(one, RK4(4), 1, "particle-bootstrap").with_state_particles(4096)
    keys = np.arange(1, 33, dtype=np.uint64)[:, None]
    found = built.evaluate(np.full((32, 1), DECAY), N, keys)[1]
    exact = kalman(steps)[0].sum()
    ratio = np.exp(found - exact)
    assert ratio.mean() == pytest.approx(1.0, abs=4 * ratio.std() / np.sqrt(32))
    assert ratio.std() < 0.5


def joint(steps, y=Y):
    """Means and variances of all states given all samples, by the Gaussian of all of them."""
    T, m = len(y), [START]
    whole = np.zeros((2 * T, 2 * T))
    for k, (F, b, Q) in enumerate(steps):
        here, after = slice(2 * k, 2 * k + 2), slice(2 * k + 2, 2 * k + 4)
        m.append(F @ Z @ m[-1] + b)
        whole[after, : 2 * k + 2] = F @ Z @ whole[here, : 2 * k + 2]
        whole[: 2 * k + 2, after] = whole[after, : 2 * k + 2].T
        whole[after, after] = F @ Z @ whole[here, here] @ Z @ F.T + Q
    seen = np.isfinite(y).ravel()
    H = np.kron(np.eye(T), [[0.0, 1.0], [1.0, 0.0]])[seen]
    S = H @ whole @ H.T + np.diag(np.tile(NOISE**2, T)[seen])
    K = np.linalg.solve(S, H @ whole).T
    mean = np.concatenate(m)
    mean = mean + K @ (y.ravel()[seen] - H @ mean)
    return mean.reshape(T, 2), np.sqrt(np.diag(whole - K @ S @ K.T)).reshape(T, 2)


@pytest.mark.parametrize(
    ("likelihood", "grid"), [("kalman", "even"), ("kalman", "dosed"), ("particle", "even")]
)
def test_states_between_set_backs_are_smoothed(likelihood, grid):
    one, steps = disturbed(grid)
    mean, sd = joint(steps)
    _, _, _, filtered, covariance = kalman(steps)
    record = one.records[0]
    states = states_of_particles(
        one, RK4(16), likelihood, record, np.full((40, 1), DECAY), np.full(40, 1 / 40),
        draws=2, parameters=40, seed=1,
    )  # fmt: skip
    own = np.isin(record.t, DT * np.arange(N))
    exact = likelihood == "kalman"
    near = {"atol": 1e-5} if exact else {"atol": 0.1}
    np.testing.assert_allclose(states.mean[own], mean, **near)
    np.testing.assert_allclose(states.sd[own], sd, **near)
    np.testing.assert_allclose(states.filtered_mean[own], filtered, **near)
    spread = np.sqrt(np.einsum("tii->ti", covariance))
    np.testing.assert_allclose(states.filtered_sd[own], spread, **near)


@pytest.mark.parametrize("grid", GRID_OF_NOISE)
def test_simulated_counts_scatter_as_exact_ones(grid):
    one, steps = disturbed(grid)
    _, mean, covariance, *_ = kalman(steps, np.full_like(Y, np.nan))
    record, n = one.records[0], 4000
    own = record.u[:, 1] == 0.0 if record.held else np.full(N, fill_value=True)
    simulated = DisturbedSimulator(one.model, record, 4, seed=1)
    paths = np.concatenate([part for *_, part in simulated(np.full((1, n), DECAY))])[own][:, ::-1]
    variance = np.einsum("tii->ti", covariance)
    away = np.abs(paths.mean(axis=2) - mean)
    assert (away <= 4.5 * np.sqrt(variance / n) + 1e-3).all()
    np.testing.assert_allclose(paths.var(axis=2), variance, rtol=0.15, atol=1e-9)
    never = window_begins(record, None)
    predicted = WindowFilter(one, one.model, record.unmeasured(2), never, 8)
    theta, weights = np.full((1, 2), DECAY), np.full(2, 0.5)
    found = predicted.process_variance(one, theta, weights)[own][:, ::-1]
    np.testing.assert_allclose(found, variance, rtol=1e-4, atol=1e-9)


def test_samples_ahead_are_predicted_from_the_last_window():
    one, steps = disturbed()
    record, theta = one.records[0], np.full((1, 1), DECAY)
    ahead = WindowFilter(one, one.model, record, window_begins(record, 1), 16)
    found = np.concatenate([part for *_, part in ahead(theta)])[:, ::-1, 0]
    np.testing.assert_allclose(found, kalman(steps)[1], atol=1e-5)


STREAMED = {
    **SOLVERS, "kalman": RK4(2), "kalman-iterated": RK4(2), "particle": RK4(2),
    "particle-bootstrap": RK4(2),
}  # fmt: skip


LESS = ("dalton", "filtering", "fenrir", "kalman-iterated", "particle")
"""A likelihood of the same form stands for each of these in every run."""


@pytest.mark.parametrize(
    "likelihood", nightly_but([one for one in STREAMED if one not in LESS], STREAMED)
)
def test_a_stream_counts_as_the_record(likelihood):
    kind, solver = LIKELIHOODS[likelihood], STREAMED[likelihood]
    one = disturbed()[0] if kind.takes_process_noise else problem()
    build, make = build_likelihood, growing_likelihood
    if kind.estimated:
        build, make = build_estimate, stream_estimate
    whole = build(one, solver, 1, likelihood)
    stream = make(one, solver, History(1, 2), threads=1, likelihood=likelihood)
    record = one.records[0]
    stream.stream.append(record.t, record.u, record.y)
    values, keys = np.array([[0.2], [0.4]]), np.ones((2, 1), dtype=np.uint64)

    def increments(of):
        return of.advance(values, of.start(values), 0, N, keys)[1]

    np.testing.assert_allclose(increments(stream), increments(whole), rtol=1e-10)


def test_what_a_filter_expects_of_a_stream_is_a_count():
    """Moments before a sample, and states behind it, are those of the state that is measured."""
    one, _ = disturbed()
    stream = stream_estimate(one, RK4(4), History(1, 2), threads=1).with_state_particles(4096)
    record, keys = one.records[0], np.ones((1, 1), dtype=np.uint64)
    stream.stream.append(record.t, record.u, record.y)
    values, state = np.array([[DECAY]]), stream.start(np.array([[DECAY]]))
    _, predicted, _, filtered, _ = kalman(disturbed()[1])
    for k in range(6):
        state, _, moments = stream.assimilated(values, keys, state, k)
        np.testing.assert_allclose(moments[1::-1, 0], predicted[k], atol=0.1)
        known = np.column_stack([record.t, record.u, record.y])[: k + 1]
        found = stream.state_moments(values, state, known, k)[0][:, 0]
        np.testing.assert_allclose(found, filtered[k], atol=0.1)


@pytest.mark.parametrize("grid", ["even", "dosed"])
def test_a_nested_filter_follows_counts_and_doses(grid, tmp_path):
    t = DT * np.arange(N)
    prior = {"decay": stats.uniform(0.29, 0.02), "rate": RATE}
    _, steps = disturbed(grid)
    mean = kalman(steps, np.full_like(Y, np.nan))[1][:, ::-1]
    y, doses = mean + RNG.normal(size=Y.shape) * NOISE, GRIDS[grid].get("doses", ())
    one, _ = disturbed(grid, t=t, y=y, prior=prior)
    live = smcpn.NestedFilter(one, solver=RK4(4), particles=50, state_particles=256, seed=1)
    increments, _, _, filtered, _ = kalman(steps, y)
    for k in range(N):
        given = [d for d in doses if (t[k - 1] if k else -1.0) <= d.time < t[k]]
        if k == 6:
            live.save(tmp_path / "nested.h5")
            live = smcpn.NestedFilter.load(tmp_path / "nested.h5")
        state = live.update([U[k]], y[k], t[k], doses=given)
        found = [state.state_mean[name] for name in ("i", "cases")]
        np.testing.assert_allclose(found, filtered[k], atol=0.12)
    assert live.doses == tuple(doses)
    assert state.log_evidence == pytest.approx(increments.sum(), abs=0.7)


def test_states_of_a_stream_have_what_doses_brought():
    t, found = DT * np.arange(5), []
    for likelihood in ("kalman", "particle"):
        one, _ = disturbed("dosed", t=DT * np.arange(N))
        live = smcpn.Online(one, solver=RK4(4), likelihood=likelihood, particles=100, seed=1)
        for k in range(5):
            given = [d for d in DOSES if (t[k - 1] if k else -1.0) <= d.time < t[k]]
            state = live.update([U[k]], Y[k], t[k], doses=given)
        found.append([state.state_mean[name] for name in ("i", "cases")])
    np.testing.assert_allclose(found[0], found[1], atol=0.15)


RHO = 0.6
AR1_NOISE = [smcpn.AR1(NOISE[0], RHO), NOISE[1]]


def coloured(steps):
    """Log-likelihood where the noise of cases is a third state, RHO of which is left by a step."""
    m, P, total = np.append(START, 0.0), np.diag([0.0, 0.0, NOISE[0] ** 2]), 0.0
    H, R = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), np.diag([0.0, NOISE[1] ** 2])
    for k, measured in enumerate(Y):
        if k:
            F, b, Q = steps[k - 1]
            F, b = np.pad(F @ Z, (0, 1)), np.append(b, 0.0)
            F[2, 2] = RHO
            m, P = F @ m + b, F @ P @ F.T + np.pad(Q, (0, 1))
            P[2, 2] += NOISE[0] ** 2 * (1.0 - RHO**2)
        if np.isfinite(measured).all():
            S = H @ P @ H.T + R
            K = P @ H.T @ np.linalg.inv(S)
            total += stats.multivariate_normal(cov=S).logpdf(measured - H @ m)
            m, P = m + K @ (measured - H @ m), P - K @ S @ K.T
    return total


@pytest.mark.parametrize(
    "likelihood",
    nightly_but(
        ("classical", "marginal", "rosenbrock", "filtering", "kalman", "particle"),
        sorted(STREAMED.keys() - {"kalman-iterated", "particle-bootstrap"}),
    ),
)
def test_counts_go_with_coloured_noise(likelihood):
    kind, t = LIKELIHOODS[likelihood], DT * np.arange(N)
    spread = SPREAD if kind.takes_process_noise else 0.0
    options = {"process_noise": {"i": SPREAD}} if spread else {}
    one = problem(noise=AR1_NOISE, **options)
    build = build_estimate if kind.estimated else build_likelihood
    solver = RK4(16) if spread else SOLVERS[likelihood]
    built, keys = build(one, solver, 1, likelihood), np.ones((1, 1), dtype=np.uint64)
    found = built.evaluate(np.array([[DECAY]]), N, keys)[1]
    assert found[0] == pytest.approx(coloured(intervals(t, disturbed=spread)), abs=1e-4)
