"""Closed loop and prediction kernels against plain loops."""

import itertools

import casadi as ca
import numpy as np
import pytest
from scipy import stats
from scipy.linalg import expm

import smcpn
from smcpn.cli.cases.emps import PositionLoop
from smcpn.datasets.emps import Controller
from smcpn.results.simulation.closed_loop import ClosedLoop, predict_particles
from smcpn.results.simulation.filtered import StateFilter, WindowFilter, window_begins

TRUE = {"M": 95.0, "Fv": 200.0, "Fc": 20.0, "offset": -3.0}
CONTROLLER = Controller(kp=160.0, kv=240.0, gtau=35.0, limit=4.0)
DT = 1e-3
SAMPLES = 300
FILTER = StateFilter(sensor=1e-5, disturbance=(0.0, 0.05), initial=(1e-4, 1e-2))


def _force(rng):
    return 60.0 * np.cumsum(rng.standard_normal(SAMPLES)) / np.sqrt(SAMPLES)


def _problem(y=None) -> smcpn.Problem:
    rng = np.random.default_rng(1)
    record = smcpn.Record(
        u=_force(rng), y=np.zeros(SAMPLES) if y is None else y, dt=DT, hold="zoh", name="joint"
    )
    prior = {name: stats.norm(value, abs(value)) for name, value in TRUE.items()}
    return smcpn.Problem(smcpn.models.emps, record, observe="q", noise=1e-5, prior=prior)


PROBLEM = _problem()
THETA = np.array([[TRUE[name]] for name in PROBLEM.names])


def _rate(x, force, M=95.0, Fv=200.0, Fc=20.0, offset=-3.0, width=1e-3):
    _, v = x
    return np.array([v, (force - Fv * v - Fc * v / np.hypot(v, width) - offset) / M])


def _interval(x, force, steps=2, h=DT / 2):
    for _ in range(steps):
        k1 = _rate(x, force)
        k2 = _rate(x + h / 2 * k1, force)
        k3 = _rate(x + h / 2 * k2, force)
        k4 = _rate(x + h * k3, force)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x


def _outputs(simulator, theta=THETA):
    return np.concatenate([part for _, _, part in simulator(theta)])[:, 0]


def test_closed_loop_is_the_plain_loop():
    reference = 0.1 * np.linspace(0, 1, SAMPLES) ** 2
    disturbance = np.where(np.arange(SAMPLES) > 150, 2.0, 0.0)
    start = np.array([1e-3, 0.01])
    x, positions, commands = start, [], []
    for n in range(SAMPLES):
        positions.append(x[0])
        before = positions[max(n - 2, 0)]
        wanted = 240.0 * (160.0 * (reference[n] - x[0]) - (x[0] - before) / (2 * DT))
        commands.append(min(max(wanted, -4.0), 4.0))
        x = _interval(x, 35.0 * (commands[-1] + disturbance[n]))
    signals = np.column_stack([reference, disturbance])
    loop = ClosedLoop(
        PROBLEM.model, PROBLEM.records[0], start[None, :], PositionLoop(CONTROLLER), signals, 2
    )
    np.testing.assert_allclose(_outputs(loop)[:, 0], positions, rtol=0, atol=1e-13)
    assert max(np.abs(commands)) == 4.0, "the case must reach the saturation"
    np.testing.assert_allclose(CONTROLLER.command(reference, np.array(positions)), commands)


@pytest.mark.parametrize("late", [0.0, 0.3, 1.0, 2.6])
def test_commands_arrive_after_the_dead_time(late):
    """Against a plain loop that integrates up to an arrival, and on from there."""
    reference, start = 0.1 * np.linspace(0, 1, SAMPLES) ** 2, np.array([1e-3, 0.01])
    whole = int(late)
    x, positions, commands = start, [], []
    for n in range(SAMPLES):
        positions.append(x[0])
        before = positions[max(n - 2, 0)]
        wanted = 240.0 * (160.0 * (reference[n] - x[0]) - (x[0] - before) / (2 * DT))
        commands.append(min(max(wanted, -4.0), 4.0))
        first = (late - whole) * DT
        for back, length in ((whole + 1, first), (whole, DT - first)):
            x = _interval(x, 35.0 * commands[max(n - back, 0)], h=length / 2)
    given = PROBLEM.records[0]
    prior = dict(PROBLEM.prior.distributions) | {"late": stats.uniform(0, 3 * DT)}
    problem = smcpn.Problem(
        smcpn.models.emps, given, observe="q", noise=1e-5, prior=prior, delay={"force": "late"}
    )
    signals = np.column_stack([reference, 0.0 * reference])
    loop = ClosedLoop(problem.model, given, start[None, :], PositionLoop(CONTROLLER), signals, 2)
    found = _outputs(loop, np.vstack([THETA, [[late * DT]]]))[:, 0]
    np.testing.assert_allclose(found, positions, rtol=0, atol=1e-11)


class OfCounts:
    """Proportional control of what was counted in the sampling interval before."""

    n_memory = 0

    def start(self, output):
        return ca.SX(0, 1)

    def command(self, memory, output, signals):
        return 2.0 * (signals - output), memory


@pytest.mark.parametrize("late", [0.0, 0.3])
def test_a_controller_measures_counts(late):
    """Against the matrix exponential between samples and arrivals of commands."""

    @smcpn.ode
    def tank(level, flown, u, *, k):
        return u - k * level, k * level

    given = smcpn.Record(u=np.zeros(30), y=np.ones(30), dt=0.5, hold="zoh")
    problem = smcpn.Problem(
        tank.accumulating("flown"), given, observe="flown", noise=0.1, initial=[0.3, 0.2],
        prior={"k": stats.uniform(0, 2)}, delay={"u": late} if late else None,
    )  # fmt: skip
    x, counts, commands = np.array([0.3, 0.2]), [], []
    generator = np.array([[-0.8, 0.0, 1.0], [0.8, 0.0, 0.0], [0.0, 0.0, 0.0]])
    for k in range(30):
        counts.append(x[1])
        commands.append(2.0 * (0.5 + 0.01 * k - x[1]))
        x = x * [1.0, 0.0]
        for command, length in ((commands[max(k - 1, 0)], late), (commands[k], 0.5 - late)):
            x = (expm(length * generator) @ [*x, command])[:2]
    signals, start = 0.5 + 0.01 * np.arange(30)[:, None], np.array([[0.3, 0.2]])
    loop = ClosedLoop(problem.model, given, start, OfCounts(), signals, 64)
    found = _outputs(loop, np.array([[0.8]]))[:, 0]
    np.testing.assert_allclose(found, counts, rtol=0, atol=1e-11)


class OfDifferences(OfCounts):
    """Proportional control with a share of the change since the sample before."""

    n_memory = 1

    def start(self, output):
        return output

    def command(self, memory, output, signals):
        return 2.0 * (signals - output) + 0.3 * (output - memory), output


DOSES = [
    smcpn.Dose(0.0, "gut", 1.0), smcpn.Dose(0.22, "gut", 1.0, fraction="F"),
    smcpn.Dose(0.24, "level", 0.5), smcpn.Dose(1.0, "level", 1.0),
    smcpn.Dose(1.6, "level", 1.0, duration=1.13, lag=0.2), smcpn.Dose(5.4, "gut", 1.0),
]  # fmt: skip
"""At samples and between them, at once and over a while."""


@pytest.mark.parametrize("late", [0.0, 0.2])
def test_doses_arrive_beside_a_controller(late):
    """Against the matrix exponential between samples, arrivals of commands and of doses."""

    @smcpn.ode
    def tank(gut, level, u, *, k):
        return -0.7 * gut, 0.7 * gut + u - k * level

    n, dt, x, share = 12, 0.5, np.array([0.3, 0.2]), {"F": 0.6, 1.0: 1.0}
    given = smcpn.Record(u=np.zeros(n), y=np.ones(n), dt=dt, hold="zoh", doses=DOSES)
    prior = {"k": stats.uniform(0, 2), "F": stats.uniform(0, 1)}
    problem = smcpn.Problem(
        tank, given, observe=lambda level, t: level + 0.1 * t, noise=0.1, initial=x, prior=prior,
        delay={"u": late} if late else None,
    )  # fmt: skip
    reference, outputs, commands = 0.5 + 0.01 * np.arange(n)[:, None], [], []
    generator = np.array([[-0.7, 0.0], [0.7, -0.8]])
    loop = ClosedLoop(problem.model, given, x[None, :], OfDifferences(), reference, 64)
    for k, t in enumerate(dt * np.arange(n)):
        outputs.append(x[1] + 0.1 * t)
        change = outputs[-1] - outputs[max(k - 1, 0)]
        commands.append(2.0 * (reference[k, 0] - outputs[-1]) + 0.3 * change)
        edges = {t, t + dt, t + late}
        edges |= {e for d in DOSES for e in (d.begin, d.end) if t <= e < t + dt}
        for a, b in itertools.pairwise(sorted(edges)):
            rate = np.array([0.0, commands[k if a >= t + late else max(k - 1, 0)]])
            for dose in DOSES:
                there = np.array([dose.state == "gut", dose.state == "level"])
                there = there * share[dose.fraction] * dose.amount
                if dose.begin == a and not dose.duration:
                    x = x + there
                elif dose.begin <= a < dose.end:
                    rate += there / dose.duration
            driven = np.block([[generator, rate[:, None]], [np.zeros((1, 3))]])
            x = (expm((b - a) * driven) @ [*x, 1.0])[:2]
    (record,) = problem.records
    found = _outputs(loop, np.array([[0.8], [0.6]]))[record.given, 0]
    np.testing.assert_allclose(found, outputs, rtol=0, atol=1e-10)


@smcpn.ode(algebraic=["friction"])
def with_friction(q, v, friction, force, *, M, Fv, Fc, offset, width=1e-3):
    """The drive of `smcpn.models.emps` whose friction is a variable."""
    return v, (force - friction - offset) / M, friction - Fv * v - Fc * v / np.hypot(v, width)


@pytest.mark.nightly
def test_controllers_and_predictions_take_algebraic_equations():
    """As the model whose variable is solved for."""
    given = _problem(1e-5 * np.random.default_rng(2).normal(size=SAMPLES)).records[0][:60]
    posed = [
        smcpn.Problem(ode, given, observe="q", noise=1e-5, prior=dict(PROBLEM.prior.distributions))
        for ode in (smcpn.models.emps, with_friction)
    ]
    reference = np.column_stack([np.linspace(0, 0.02, 60), np.zeros(60)])
    starts = np.array([[1e-3, 0.01]]), np.array([[1e-3, 0.01, 0.0]])
    loops = [
        ClosedLoop(one.model, given, start, PositionLoop(CONTROLLER), reference, 2)
        for one, start in zip(posed, starts, strict=True)
    ]
    np.testing.assert_allclose(*map(_outputs, loops), rtol=0, atol=1e-12)
    filters = FILTER, StateFilter(FILTER.sensor, (0.0, 0.05, 0.0), (1e-4, 1e-2, 0.0))
    ahead = [
        predict_particles(one, given, THETA.T, np.ones(1), 5, filter, DT / 2)
        for one, filter in zip(posed, filters, strict=True)
    ]
    np.testing.assert_allclose(ahead[0].mean, ahead[1].mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(ahead[0].sd, ahead[1].sd, rtol=1e-6)
    seen = smcpn.Problem(
        with_friction, given, observe=lambda q, force: q + force, noise=1e-5,
        prior=dict(PROBLEM.prior.distributions),
    )  # fmt: skip
    with pytest.raises(smcpn.InputError, match="an output depends on the input"):
        ClosedLoop(seen.model, given, starts[1], PositionLoop(CONTROLLER), reference, 2)


@smcpn.ode(algebraic=["bound"])
def binding(gut, blood, bound, *, k):
    """As `plain_binding`, whose bound share is a variable."""
    return -k * gut, k * gut - bound, bound - blood / (1.0 + blood**2)


@smcpn.ode
def plain_binding(gut, blood, *, k):
    return -k * gut, k * gut - blood / (1.0 + blood**2)


@pytest.mark.nightly
def test_predictions_take_doses_beside_algebraic_equations():
    doses = [smcpn.Dose(0.4, "gut", 2.0), smcpn.Dose(1.0, "blood", 1.0, duration=0.7)]
    y = 0.1 * np.random.default_rng(0).normal(size=12)
    record = smcpn.Record(y=y, dt=0.25, doses=doses)
    means = []
    for ode, more in ((binding, [0.0]), (plain_binding, [])):
        problem = smcpn.Problem(
            ode, record, observe="blood", noise=0.1, prior={"k": stats.lognorm(0.5)}
        )
        filter = StateFilter(0.1, (0.0, 0.05, *more), (1e-2, 1e-2, *more))
        ahead = predict_particles(problem, record, np.ones((1, 1)), np.ones(1), 3, filter, 0.05)
        means.append(np.hstack([ahead.mean, ahead.sd]))
    np.testing.assert_allclose(*means, rtol=0, atol=1e-8)


def test_closed_loop_refuses_signals_of_another_length():
    with pytest.raises(smcpn.InputError, match="signals has 5 samples"):
        ClosedLoop(
            PROBLEM.model, PROBLEM.records[0], np.zeros((1, 2)), PositionLoop(CONTROLLER),
            np.zeros((5, 2)), 2,
        )  # fmt: skip


def _measured():
    rng = np.random.default_rng(2)
    force, x, y = _force(np.random.default_rng(1)), np.array([0.0, 0.02]), []
    for n in range(SAMPLES):
        y.append(x[0] + 1e-5 * rng.standard_normal())
        x = _interval(x, force[n] + 5.0)
    return np.array(y)


def _plain_prediction(y, force, start, horizon):
    """Extended Kalman filter with a numerical Jacobian, restarted windows beside it."""
    mean, free = start.copy(), start.copy()
    P = np.diag(np.square(FILTER.initial))
    h = DT / 2
    Q = FILTER.disturbance[1] ** 2 * np.array([[h**3 / 3, h**2 / 2], [h**2 / 2, h]])
    H = np.array([[1.0, 0.0]])
    predicted = []
    for n in range(len(y)):
        predicted.append(free[0])
        if np.isfinite(y[n]):
            K = P @ H.T / (H @ P @ H.T + FILTER.sensor**2)
            mean = mean + (K * (y[n] - mean[0])).ravel()
            P = P - K @ H @ P
        if n % horizon == 0:
            free = mean.copy()
        free = _interval(free, force[n])
        for _ in range(2):
            ends = [
                [_interval(mean + s * e, force[n], 1, h) for e in np.eye(2) * 1e-7] for s in (1, -1)
            ]
            F = (np.array(ends[0]) - ends[1]).T / 2e-7
            mean = _interval(mean, force[n], 1, h)
            P = F @ P @ F.T + Q
    return np.array(predicted)


def _windows(problem, horizon, steps=2):
    record = problem.records[0]
    begins, start = window_begins(record, horizon), np.zeros((1, 2))
    return WindowFilter(problem, problem.model, record, begins, steps, FILTER, start)


@pytest.mark.parametrize("horizon", [1, 50])
def test_prediction_is_the_plain_filter(horizon):
    y = _measured()
    y[40:60] = np.nan
    problem = _problem(y)
    start = np.array([0.0, 0.0])
    simulator = _windows(problem, horizon)
    force = problem.records[0].u[:, 0]
    plain = _plain_prediction(y, force, start, horizon)
    np.testing.assert_allclose(_outputs(simulator)[:, 0], plain, rtol=0, atol=1e-11)


def test_the_error_of_the_steps_is_the_difference_to_steps_half_as_long():
    problem = _problem(_measured())
    coarse, fine = (_windows(problem, 50, steps) for steps in (2, 4))
    change = _outputs(fine) - _outputs(coarse)
    np.testing.assert_array_equal(coarse.halving_change(THETA), change)
    assert np.abs(change).max() > 0.0


def test_a_window_does_not_see_what_comes_after_its_start():
    y, later = _measured(), _measured()
    later[101:] += 1.0
    first, second = (_outputs(_windows(problem, 50)) for problem in (_problem(y), _problem(later)))
    np.testing.assert_array_equal(first[:151], second[:151])
    assert np.abs(first[151:] - second[151:]).min() > 0.1


def test_a_gap_has_as_many_steps_as_it_needs():
    @smcpn.ode
    def spring(x, v, *, k):
        return v, -k * x

    t = np.append(0.1 * np.arange(30), 5.0 + 0.1 * np.arange(30))
    x = np.cos(3.0 * t)
    record = smcpn.Record(t=t, y=x)
    problem = smcpn.Problem(
        spring, record, observe="x", noise=0.01, initial=[1.0, 0.0], prior={"k": stats.lognorm(1)}
    )
    exactly = StateFilter(0.01, (1e-6, 1e-6), (1e-6, 1e-6))
    found = predict_particles(problem, record, np.array([[9.0]]), np.ones(1), len(t), exactly, 0.02)
    np.testing.assert_allclose(found.mean[:, 0], x, atol=1e-4)


def test_prediction_refuses_no_horizon():
    with pytest.raises(smcpn.InputError, match="horizon is 0"):
        predict_particles(PROBLEM, PROBLEM.records[0], THETA.T, np.ones(1), 0, FILTER, DT / 2)


def test_the_loop_graph_remembers_two_positions():
    loop = PositionLoop(CONTROLLER)
    y, memory, signals = ca.SX(3.0), ca.SX([2.0, 1.0]), ca.SX([3.0, 0.0])
    command, remembered = loop.command(memory, y, signals)
    assert float(command) == -35.0 * 4.0
    assert np.array(ca.DM(remembered)).ravel().tolist() == [3.0, 2.0]
