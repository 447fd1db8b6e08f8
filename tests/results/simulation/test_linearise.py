from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import signal, stats

import smcpn
from smcpn import RK4, InputError
from smcpn.results.maximum import StartResult
from smcpn.results.simulation.linearise import OperatingPoint, linearised


@smcpn.ode(sizes={"x": 2, "v": 2, "F": 2, "k": 3})
def chain(x, v, F, *, k, c=0.3, hard=0.5):
    """Two masses between walls, with hardening springs to the ground."""
    return v, np.diff(k * np.diff(x, prepend=0.0, append=0.0)) - c * v + F - hard * x**3


@smcpn.ode
def pendulum(angle, rate, torque, *, damping):
    return rate, torque - np.sin(angle) - damping * rate


@smcpn.ode
def well(x, v, u, *, c=0.1, k=1.0):
    return v, u - c * v + k * x - x**3


@smcpn.ode
def coulomb(x, v, u, *, c=1.0):
    return v, u - c * np.tanh(v / 0.01)


def test_matrices_are_those_of_the_textbook():
    k, c, hard, force = np.array([3.0, 1.0, 2.0]), 0.3, 0.5, np.array([1.0, 0.2])
    linear = smcpn.linearise(chain, {"k": k}, observe=["x", "v[0]'"], input={"F": force})
    x = linear.state[:2]
    stiffness = np.array([[k[0] + k[1], -k[1]], [-k[1], k[1] + k[2]]])
    np.testing.assert_allclose(stiffness @ x + hard * x**3, force, rtol=1e-12)
    assert linear.at_rest
    assert (linear.state[2:] == 0.0).all()
    slope = stiffness + np.diag(3 * hard * x**2)
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [-slope, -c * np.eye(2)]])
    B = np.vstack([np.zeros((2, 2)), np.eye(2)])
    np.testing.assert_allclose(linear.A, A, rtol=1e-14)
    np.testing.assert_array_equal(linear.B, B)
    np.testing.assert_allclose(linear.C, np.vstack([np.eye(2, 4), A[2]]), rtol=1e-14)
    np.testing.assert_array_equal(linear.D, np.vstack([np.zeros((2, 2)), B[2]]))
    np.testing.assert_allclose(linear.output, [*x, 0.0], atol=1e-14)
    assert linear.outputs == ("x[0]", "x[1]", "v[0]'")
    # Of K phi = w^2 phi with this damping: poles s^2 + c s + w^2 = 0.
    w = np.sqrt(np.linalg.eigvalsh(slope))
    assert [one.frequency for one in linear.poles()] == pytest.approx(w / (2 * np.pi))
    assert [one.damping for one in linear.poles()] == pytest.approx(c / (2 * w))


def test_response_is_that_of_the_transfer_function():
    linear = smcpn.linearise(pendulum, {"damping": 0.1}, observe="angle", input=0.5)
    f = np.array([0.01, 0.1, 0.3])
    transfer = signal.TransferFunction([1.0], [1.0, 0.1, np.cos(np.arcsin(0.5))])
    _, size, phase = signal.bode(transfer, 2 * np.pi * f)
    bode = linear.bode(f)
    np.testing.assert_allclose(bode.magnitude[:, 0, 0], size, rtol=1e-10)
    np.testing.assert_allclose(bode.phase[:, 0, 0], phase, rtol=1e-10)


def test_a_small_step_about_the_point_is_that_of_the_linear_model():
    linear = smcpn.linearise(pendulum, {"damping": 0.3}, observe="angle", input=0.5)
    n, dt, small = 100, 0.1, 1e-4
    record = smcpn.Record(u=np.full(n, 0.5 + small), dt=dt, hold="zoh")
    simulated = smcpn.simulate(
        pendulum, record, {"damping": 0.3}, observe="angle", initial=list(linear.state), steps=20
    )
    _, step, _ = signal.lsim(linear.to_scipy(), np.full(n, small), dt * np.arange(n))
    # What is left is quadratic in the step.
    np.testing.assert_allclose(simulated[:, 0] - linear.output[0], step, atol=20 * small**2)


def test_the_equilibrium_is_that_nearby():
    assert smcpn.linearise(well, {}, observe="x").state[0] == 0.0
    for sign in (-1, 1):
        linear = smcpn.linearise(well, {}, observe="x", near={"x": 2.0 * sign})
        np.testing.assert_allclose(linear.state, [sign, 0.0], rtol=1e-12)
    # Any position is one where nothing pulls back.
    stays = smcpn.linearise(coulomb, {}, observe="x", near={"x": 2.0, "v": 0.1})
    np.testing.assert_allclose(stays.state, [2.0, 0.0])
    assert np.isnan(stays.poles()[0].damping)


def test_a_point_that_is_no_equilibrium():
    linear = smcpn.linearise(well, {}, observe="x", state=[0.5, 0.2], input=0.3)
    assert not linear.at_rest
    assert "no equilibrium" in repr(linear)
    np.testing.assert_allclose(linear.A, [[0, 1], [1 - 3 * 0.25, -0.1]])
    unstable = smcpn.linearise(well, {}, observe="x")
    assert unstable.poles()[-1].damping == pytest.approx(1.0)
    assert min(one.damping for one in unstable.poles()) == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"input": 2.0}, "no equilibrium at input .2."),
        ({"input": "a"}, "input is 'a'"),
        ({"state": {"y": 1.0}}, "state names 'y'"),
        ({"near": [1.0, 2.0, 3.0]}, "near has 3 entries"),
    ],
)
def test_what_cannot_be_linearised_is_refused(options, says):
    with pytest.raises(InputError, match=says):
        smcpn.linearise(coulomb, {}, observe="x", **options)


def test_no_derivative_is_refused():
    @smcpn.ode
    def root(x, u):
        return u - np.sqrt(x)

    with pytest.raises(InputError, match="no derivative"):
        smcpn.linearise(root, {}, observe="x", state=0.0)
    assert smcpn.linearise(root, {}, observe="x", input=2.0, near=1.0).state == pytest.approx(4.0)


@smcpn.ode(algebraic=["z", "w"])
def store(x, z, w, y, u, *, k):
    """Two stores, with a flow z through a resistance that grows with it, and its power w."""
    return -x + z, u - x - z - k * z**3, w - z * u, z - 2.0 * y


@smcpn.ode
def solved_store(x, y, u, *, k):
    root = np.sqrt(3 * k)
    z = 2 / root * np.sinh(np.arcsinh(1.5 * root * (u - x)) / 3)
    return -x + z, z - 2.0 * y


@pytest.mark.parametrize("state", [None, {"x": 0.4, "y": 0.1}])
def test_algebraic_variables_are_eliminated(state):
    """Against the equation with its variables solved for by hand."""
    at = {"parameters": {"k": 0.8}, "input": 1.3, "state": state}
    found = smcpn.linearise(store, observe=["y", "w", "z"], **at)
    root = np.sqrt(3 * 0.8)
    flow = lambda x, u: 2 / root * np.sinh(np.arcsinh(1.5 * root * (u - x)) / 3)  # noqa: E731
    plain = smcpn.linearise(
        solved_store, observe=["y", lambda x, u: u * flow(x, u), lambda x, u: flow(x, u)], **at
    )
    assert found.states == ("x", "y")
    for name in ("A", "B", "C", "D", "state", "output"):
        np.testing.assert_allclose(getattr(found, name), getattr(plain, name), atol=1e-10)
    assert found.at_rest == plain.at_rest == (state is None)


def test_algebraic_equations_that_have_no_solution_are_refused():
    @smcpn.ode(algebraic=["z"])
    def outside(x, z, *, k):
        return -k * z, z**2 + x + 1.0

    with pytest.raises(InputError, match="find no solution"):
        smcpn.linearise(outside, {"k": 1.0}, observe="x", state={"x": 1.0, "z": 1.0})


def test_python_control_has_the_same_model():
    control = pytest.importorskip("control")
    linear = smcpn.linearise(chain, {"k": 1.0}, observe="x")
    made = linear.to_control()
    assert isinstance(made, control.StateSpace)
    assert made.input_labels == list(linear.inputs)
    np.testing.assert_array_equal(made.A, linear.A)


def well_problem():
    u = np.sin(0.3 * np.arange(40))
    record = smcpn.Record(u=u, y=np.cos(u), dt=0.1, hold="zoh")
    prior = {"c": stats.uniform(0.2, 0.2), "k": stats.uniform(1.0, 0.5)}
    return smcpn.Problem(well, record, observe="x", noise=10.0, prior=prior, initial=[1.0, 0.0])


@pytest.fixture(scope="module")
def posterior():
    """Hardly more than the prior: k is uniform from 1 to 1.5, c from 0.2 to 0.4."""
    return smcpn.identify(well_problem(), solver=RK4(1), particles=300, seed=1, progress=False)


def test_every_draw_has_its_own_equilibrium(posterior):
    linear = posterior.linearise(draws=200)
    k, c = posterior.equal_draws(200).T[[posterior.names.index(one) for one in ("k", "c")]]
    np.testing.assert_allclose(linear.draws.state[:, 0], np.sqrt(k), rtol=1e-12)
    np.testing.assert_allclose(linear.draws.A[:, 1], np.stack([-2 * k, -c], axis=1), rtol=1e-12)
    (pole,) = linear.poles()
    ends = np.quantile(np.sqrt(2 * k) / (2 * np.pi), [0.025, 0.975])
    assert pole.frequency_interval == pytest.approx(tuple(ends))
    assert pole.frequency == pytest.approx(np.sqrt(2 * posterior.mean["k"]) / (2 * np.pi))


def test_the_band_is_that_of_the_draws(posterior):
    linear = posterior.linearise(draws=200)
    bode = linear.bode([0.05, 5.0])
    each = [signal.bode(([1.0], [1.0, *-A[1, ::-1]]), [0.1 * np.pi]) for A in linear.draws.A]
    sizes, phases = np.array([(size[0], phase[0]) for _, size, phase in each]).T
    for (lower, upper), found in (
        (bode.magnitude_interval(), sizes),
        (bode.phase_interval(), phases),
    ):
        ends = np.quantile(found, [0.025, 0.975])
        assert (lower[0, 0, 0], upper[0, 0, 0]) == pytest.approx(tuple(ends), abs=1e-9)


def test_a_dead_time_turns_the_phase():
    u = np.sin(0.3 * np.arange(40))
    record = smcpn.Record(u=u, y=np.cos(u), dt=0.1, hold="zoh")
    prior = {"k": stats.uniform(1.0, 0.5), "tau": stats.uniform(0.0, 0.4)}
    problem = smcpn.Problem(
        well, record, observe="x", noise=10.0, prior=prior, initial=[1.0, 0.0], delay={"u": "tau"}
    )
    values, f = np.array([[1.2, 0.3], [1.2, 0.1]]), np.array([0.1, 0.2])
    at = OperatingPoint.of(well, 0.0, None, 1.0, 0.0)
    linear = linearised(well, problem.model, problem.observe, values[0], values, at)
    np.testing.assert_array_equal(linear.delay, [0.3])
    phases = linear.bode(f).phase_interval(1.0)
    turned = phases[1] - phases[0]
    np.testing.assert_allclose(turned[:, 0, 0], 360.0 * f * 0.2, rtol=1e-9)
    assert "u 0.3" in repr(linear)
    # Far above the poles it turns by many a circle from one frequency to the next.
    high = np.array([100.0, 157.0])
    np.testing.assert_allclose(np.diff(linear.bode(high).phase[:, 0, 0]), -360 * 57 * 0.3, atol=1)
    lower, upper = linear.bode(high).phase_interval(1.0)
    np.testing.assert_allclose(np.diff(upper - lower, axis=0), 360.0 * 57 * 0.2, atol=1)


def test_the_response_at_a_pole_without_damping_is_refused():
    @smcpn.ode
    def undamped(x, v, u, *, k):
        return v, u - k * x

    linear = smcpn.linearise(undamped, {"k": 1.0}, observe="x")
    assert np.isfinite(linear.bode().magnitude).all()
    with pytest.raises(InputError, match="pole without damping"):
        linear.bode([0.1, abs(linear.poles()[0].pole) / (2 * np.pi)])


def test_the_figure_shows_magnitude_and_phase(posterior):
    (step,) = posterior.plot_step(draws=50, duration=2.0).axes
    assert step.get_xlim()[1] == 2.0
    figure = posterior.plot_bode(draws=50)
    assert isinstance(figure, Figure)
    magnitude, phase = figure.axes
    assert (magnitude.get_ylabel(), phase.get_ylabel()) == ("magnitude (dB)", "phase (°)")
    # At rest at x = sqrt(k), the stiffness is 2 k.
    curve = magnitude.lines[0].get_ydata()
    assert curve[0] == pytest.approx(-20 * np.log10(2 * posterior.mean["k"]), abs=0.2)


def test_a_maximum_is_linearised():
    problem = well_problem()
    values = np.array([0.3, 1.2])
    start = StartResult(values, values, 0.0, "", True, 1, values[None], np.zeros(1))
    theta = problem.prior.unconstrained(values[None])[0]
    maximum = smcpn.Maximum(
        problem, RK4(1), "classical", "posterior", "l-bfgs-b", theta, 0.0, 0.0, (start,)
    )
    linear = maximum.linearise()
    np.testing.assert_allclose(linear.A, [[0, 1], [-2.4, -0.3]], rtol=1e-9, atol=1e-12)
    with pytest.raises(InputError, match="no frequency"):
        maximum.plot_bode(frequencies=[0.0, 1.0])


def test_step_response_is_that_of_scipy():
    linear = smcpn.linearise(chain, {"k": 2.0}, observe=["x", "v'"])
    step = linear.step(12.0)
    for j in range(len(linear.inputs)):
        one = signal.StateSpace(linear.A, linear.B[:, [j]], linear.C, linear.D[:, [j]])
        _, found = signal.step(one, T=step.t)
        np.testing.assert_allclose(step.response[:, :, j], found, rtol=1e-9, atol=1e-9)


def test_step_response_begins_after_the_dead_time(posterior):
    linear = posterior.linearise(draws=100)
    tau = np.linspace(0.0, 0.37, 100)[:, None]
    late = replace(linear, draws=replace(linear.draws, delay=tau)).step(4.0)
    for k in (0, 31, 99):
        A = linear.draws.A[k]
        own = signal.lti([1.0], [1.0, -A[1, 1], -A[1, 0]])
        since = np.maximum(late.t - tau[k], 0.0)
        _, found = signal.step(own, T=np.linspace(0.0, 4.0, 40001))
        found = np.interp(since, np.linspace(0.0, 4.0, 40001), found)
        np.testing.assert_allclose(late.draws[k, :, 0, 0], found, atol=1e-7)
    lower, upper = late.interval(0.5)
    ends = np.quantile(late.draws[:, -1, 0, 0], [0.25, 0.75])
    assert (lower[-1, 0, 0], upper[-1, 0, 0]) == pytest.approx(tuple(ends))


def test_step_figure_settles(posterior):
    (axes,) = posterior.linearise(draws=50).plot_step().axes
    assert axes.get_xlabel() == "time (s)"
    assert axes.lines[0].get_ydata()[-1] == pytest.approx(0.5 / posterior.mean["k"], rel=0.02)


def test_no_input_no_step_response():
    @smcpn.ode
    def decay(x, *, k):
        return -k * x

    with pytest.raises(InputError, match="has no input: it has no step response"):
        smcpn.linearise(decay, {"k": 1.0}, observe="x").step()


def test_a_step_beyond_all_numbers_is_refused():
    linear = smcpn.linearise(well, {"c": 0.1, "k": 1.0}, observe="x", near=0.0)
    with pytest.raises(InputError, match=r"duration is 1e\+308, over which the resp"):
        linear.step(1e308)


@pytest.mark.parametrize("lag", [0.2, "lag"])
@pytest.mark.parametrize("u", [np.zeros(5), np.sin], ids=["held", "function"])
def test_a_problem_with_doses_has_the_linear_model_of_its_equation(lag, u):
    @smcpn.ode
    def eliminated(gut, c, u, *, ka, most, half):
        return -ka * gut, ka * gut - most * c / (half + c) + u

    doses = [smcpn.Dose(0.5, "gut", 10.0, lag=lag, fraction="F"), smcpn.Dose(2.0, "c", 1.0, 1.5)]
    record = smcpn.Record(t=np.arange(5.0), u=u, y=np.zeros(5), doses=doses)
    known = {"ka": 1.2, "most": 2.0, "half": 1.0}
    prior = {name: stats.norm(value, 0.1) for name, value in known.items()}
    prior |= {"F": stats.uniform(0, 1), "lag": stats.uniform(0, 1)}
    used = prior if lag == "lag" else {k: v for k, v in prior.items() if k != "lag"}
    model = smcpn.Problem(eliminated, record, observe="c", noise=0.1, prior=used).model
    values = np.array([*known.values(), 0.5, 0.3])[: len(used)]
    at = OperatingPoint.of(eliminated, 0.5, None, 0.0, 0.0)
    found = linearised(eliminated, model, ["c"], values, values[None], at)
    exact = smcpn.linearise(eliminated, known, observe="c", input=0.5)
    for name in ("A", "B", "C", "D", "state"):
        np.testing.assert_allclose(getattr(found, name), getattr(exact, name), atol=1e-14)
