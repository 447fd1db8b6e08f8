"""Algebraic equations: against an integrator that solves them at every evaluation, and refusals."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.optimize import brentq

import smcpn
from smcpn import InputError, Record, Rosenbrock
from smcpn.checkpoint.fingerprint import model_fingerprint
from smcpn.checkpoint.problem import StoredProblem
from smcpn.likelihood import rosenbrock
from smcpn.likelihood.prediction import predictive_moments
from smcpn.likelihood.registry import LIKELIHOODS, build_estimate
from smcpn.results.simulation.initialisation import fitted_initial_states
from smcpn.results.simulation.states import States, states_of_particles

pytestmark = pytest.mark.numerics

LEAKAGE, THERMAL = 1e-14, 0.02585
RECTIFIER = {"r": 10.0, "load": 1e3}


@smcpn.ode(algebraic=["d"])
def rectifier(v, d, u, *, r, load):
    """Capacitor behind a diode, whose voltage d an exponential determines."""
    current = LEAKAGE * np.expm1(d / THERMAL)
    return (current - v / load) / 1e-5, u - v - d - r * current


def rectified(record: Record, hold: str, *, r, load) -> np.ndarray:
    """Voltages of capacitor and diode, (T, 2), the latter by bisection at every evaluation."""
    t, u = record.t, record.u[:, 0]

    def diode(v, source):
        def residual(d):
            return source - v - d - r * LEAKAGE * np.expm1(min(d / THERMAL, 700.0))

        return brentq(residual, -abs(source) - abs(v) - 1.0, 2.0, xtol=1e-15, rtol=1e-15)

    v, found = 0.0, [(0.0, diode(0.0, u[0]))]
    for k in range(1, len(t)):

        def source(s, k=k):
            return u[k - 1] if hold == "zoh" else np.interp(s, t[k - 1 : k + 1], u[k - 1 : k + 1])

        def rate(s, y, source=source):
            current = LEAKAGE * np.expm1(diode(y[0], source(s)) / THERMAL)
            return [(current - y[0] / load) / 1e-5]

        end = solve_ivp(rate, (t[k - 1], t[k]), [v], "Radau", rtol=1e-8, atol=1e-10)
        v = end.y[0, -1]
        found.append((v, diode(v, u[k])))
    return np.array(found)


def driven(amplitude=2.0, hold="zoh", samples=10) -> Record:
    rng = np.random.default_rng(1)
    u = amplitude * (np.sin(np.arange(samples)) + 0.1 * rng.normal(size=samples))
    return Record(u=u, y=np.zeros((samples, 2)), dt=1e-3, hold=hold)


def rectifier_problem(record: Record, **more) -> smcpn.Problem:
    prior = {name: stats.lognorm(0.1, scale=value) for name, value in RECTIFIER.items()}
    given = {"observe": ["v", "d"], "noise": 0.01, "prior": prior} | more
    return smcpn.Problem(rectifier, record, **given)


def solution(problem, solver, values):
    return predictive_moments(problem, solver, np.array(values), enumerate(problem.records))[0][0]


@pytest.mark.parametrize(("amplitude", "hold"), [(2.0, "zoh"), (2.0, "foh"), (100.0, "zoh")])
def test_solutions_are_those_of_the_equation_with_the_variables_solved(amplitude, hold):
    record = driven(amplitude, hold)
    found = solution(rectifier_problem(record), Rosenbrock(1e-8), list(RECTIFIER.values()))
    exact = rectified(record, hold, **RECTIFIER)
    assert found == pytest.approx(exact, abs=1e-8 * amplitude)


@smcpn.ode(algebraic=["i"])
def conducting(v, i, u, *, r, load):
    """The same circuit, of which the current i is the variable: it is within the exponential."""
    return (i - v / load) / 1e-5, LEAKAGE * np.expm1((u - v - r * i) / THERMAL) - i


def test_a_current_within_an_exponential_follows_an_input_that_jumps():
    record = driven(amplitude=10.0)
    prior = {name: stats.lognorm(0.1, scale=value) for name, value in RECTIFIER.items()}
    problem = smcpn.Problem(conducting, record, observe=["v", "i"], noise=0.01, prior=prior)
    v, i = solution(problem, Rosenbrock(1e-8), list(RECTIFIER.values())).T
    voltage, drop = rectified(record, "zoh", **RECTIFIER).T
    assert v == pytest.approx(voltage, abs=1e-5)
    current = (record.u[:, 0] - voltage - drop) / RECTIFIER["r"]
    assert i == pytest.approx(current, abs=1e-5)


@smcpn.ode(algebraic=["z"])
def rooted(x, z, u):
    """A root of u that is followed by its sign."""
    return z - x, z**2 - u


def test_a_variable_stays_on_its_branch_where_the_input_jumps():
    u = np.array([1.0, 0.25, 4.0, 0.01, 100.0, 0.36])
    record = Record(u=u, dt=1.0, hold="zoh")
    for sign in (1.0, -1.0):
        z = smcpn.simulate(rooted, record, {}, observe="z", initial={"x": 0.0, "z": sign})
        assert z[:, 0] == pytest.approx(sign * np.sqrt(u))


@smcpn.ode(algebraic=["z", "w"])
def circular(x, z, w, t, *, k):
    """Of each equation the variable stands in the other place; w = x / (1 + t), z = exp(w)."""
    return -k * z, w * (1 + t) - x, np.log(z) - w


def circular_problem(y=None, **more) -> smcpn.Problem:
    t = np.array([0.0, 0.3, 1.0, 2.0])
    record = Record(t=t, y=np.zeros((4, 3)) if y is None else y)
    given = {
        "observe": ["x", "z", "w"], "noise": 0.1, "initial": {"x": 1.0, "z": 1.0},
        "prior": {"k": stats.lognorm(0.5, scale=0.2)},
    } | more  # fmt: skip
    return smcpn.Problem(circular, record, **given)


def circular_solution(k) -> np.ndarray:
    t = circular_problem().records[0].t
    found = solve_ivp(
        lambda t, x: -k * np.exp(x / (1 + t)), (0.0, t[-1]), [1.0], t_eval=t, rtol=1e-11, atol=1e-13
    )
    x = found.y[0]
    return np.column_stack([x, np.exp(x / (1 + t)), x / (1 + t)])


@pytest.mark.nightly
def test_equations_may_stand_in_the_places_of_each_other_and_depend_on_time():
    exact = circular_solution(0.2)
    assert solution(circular_problem(), Rosenbrock(1e-8), [0.2]) == pytest.approx(exact, abs=1e-7)
    path = smcpn.simulate(
        circular, circular_problem().records[0], {"k": 0.2}, observe=["x", "z", "w"],
        initial={"x": 1.0, "z": 1.0},
    )  # fmt: skip
    assert path == pytest.approx(exact, abs=1e-6)


def test_likelihood_and_gradient_are_those_of_the_solution():
    problem = circular_problem(circular_solution(0.25) + 0.1)
    function = smcpn.LogLikelihood(problem)
    assert isinstance(function.solver, Rosenbrock)
    y = problem.records[0].y

    def exact(k):
        return stats.norm(circular_solution(k), 0.1).logpdf(y).sum()

    value, gradient = function.value_and_gradient(np.array([[0.2]]))
    assert value[0] == pytest.approx(exact(0.2), abs=1e-4)
    slope = (exact(0.2 + 1e-4) - exact(0.2 - 1e-4)) / 2e-4
    assert gradient[0, 0] == pytest.approx(slope, rel=1e-5)


@pytest.mark.slow
@pytest.mark.nightly
def test_stages_by_loops_are_those_of_one_graph(monkeypatch):
    values = np.array([[0.7], [1.4]])
    found = []
    for most in (24, 1):
        monkeypatch.setattr(rosenbrock, "MOST_STATES", most)
        problem = circular_problem(circular_solution(0.7))
        function = smcpn.LogLikelihood(problem, solver=Rosenbrock(1e-8))
        found.append(function.value_and_gradient(values))
    (whole, slopes), (looped, by_loops) = found
    assert looped == pytest.approx(whole, rel=1e-9)
    assert by_loops == pytest.approx(slopes, rel=1e-7, abs=1e-7)


@pytest.mark.nightly
def test_a_chain_of_many_states_has_the_end_that_its_algebraic_equation_says():
    cells = 26

    @smcpn.ode(sizes={"v": cells}, algebraic=["inflow"])
    def chain(v, inflow, u, *, g):
        flow = np.concatenate([[inflow], g * (v[:-1] - v[1:])])
        return (*(flow - np.concatenate([flow[1:], [0.0]])), inflow + 0.5 * inflow - g * (u - v[0]))

    laplace = np.diag(np.ones(cells - 1), 1) + np.diag(np.ones(cells - 1), -1)
    laplace -= np.diag(laplace.sum(axis=1))
    laplace[0, 0] -= 1 / 1.5
    t = np.array([0.0, 1.0, 30.0, 400.0])
    exact = 1.0 - np.array([expm(2.0 * laplace * time).sum(axis=1) for time in t])
    record = Record(u=np.ones(4), t=t, hold="zoh")
    found = smcpn.solve(chain, record, {"g": 2.0}, solver=Rosenbrock(1e-8))
    assert found.mean[:, :cells] == pytest.approx(exact, abs=1e-7)
    assert found.mean[:, -1] == pytest.approx(2.0 * (1.0 - exact[:, 0]) / 1.5, abs=1e-7)


@smcpn.ode(algebraic=["z"])
def folding(x, z, *, k):
    """The root of x, which falls to zero at time 1 / k, where dg/dz is singular."""
    return -k * (1 + 0.1 * z), z**2 - x


def folding_problem(start=0.5) -> smcpn.Problem:
    record = Record(y=np.ones(3), dt=0.5)
    return smcpn.Problem(
        folding, record, observe="z", noise=0.1, initial={"x": 1.0, "z": start},
        prior={"k": stats.lognorm(1.0)},
    )  # fmt: skip


def test_variables_that_vanish_are_solved():
    @smcpn.ode(algebraic=["z"])
    def discharge(x, z, *, k):
        return -k * z, np.log(1.0 + z) - x

    start = {"x": 1e-9, "z": 0.0}
    found = smcpn.simulate(
        discharge, Record(t=[0.0, 1.0, 2.0]), {"k": 1.0}, observe=["x", "z"], initial=start
    )
    exact = 1e-9 * np.exp(-np.arange(3.0))
    np.testing.assert_allclose(found, np.column_stack([exact, exact]), rtol=1e-4)


def test_where_the_equations_get_singular_there_is_no_likelihood():
    found = smcpn.LogLikelihood(folding_problem())(np.array([[0.5], [2.0], [0.8]]))
    assert np.isfinite(found).tolist() == [True, False, True]
    negative = smcpn.LogLikelihood(folding_problem(-0.5))(np.array([[0.5]]))
    # The start of the iteration says which root it is.
    assert negative[0] < found[0] - 100.0


def test_an_equilibrium_has_consistent_variables():
    record = driven(samples=3)
    record = Record(u=record.u + 3.0, y=record.y, dt=1e-3, hold="zoh")
    path = smcpn.simulate(
        rectifier, record, RECTIFIER, observe=["v", "d"],
        initial=smcpn.SteadyState(begin={"v": 2.0, "d": 0.6}),
    )  # fmt: skip
    current = path[0, 0] / RECTIFIER["load"]
    assert path[0, 1] == pytest.approx(THERMAL * np.log1p(current / LEAKAGE), rel=1e-6)
    assert path[0].sum() + RECTIFIER["r"] * current == pytest.approx(record.u[0, 0], rel=1e-6)


def test_files_and_fingerprints_know_what_is_algebraic():
    problem = circular_problem()
    stored = StoredProblem.of(problem).restored(problem.records)
    assert stored.ode.algebraic == ("z", "w")
    found = solution(stored, Rosenbrock(1e-8), [0.2])
    assert np.array_equal(found, solution(problem, Rosenbrock(1e-8), [0.2]))
    assert model_fingerprint(stored) == model_fingerprint(problem)

    @smcpn.ode
    def same(x, z, w, t, *, k):
        return -k * z, np.log(z) - w, w * (1 + t) - x

    other = circular_problem()
    other = smcpn.Problem(
        same, other.records[0], observe=["x", "z", "w"], noise=0.1, prior={"k": stats.lognorm(0.5)},
        initial={"x": 1.0, "z": 1.0},
    )  # fmt: skip
    assert model_fingerprint(other) != model_fingerprint(problem)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_stream_follows_them_to_the_same_evidence():
    record = driven(samples=12)
    y = rectified(record, "zoh", **RECTIFIER)
    problem = rectifier_problem(Record(u=record.u, y=y, dt=1e-3, hold="zoh"))
    settings = {"particles": 40, "seed": 1, "solver": Rosenbrock(1e-6)}
    live = smcpn.Online(problem, **settings)
    for u, values in zip(record.u, y, strict=True):
        state = live.update(u, values)
    assert state.state_mean["v"] == pytest.approx(y[-1, 0], abs=0.02)
    assert state.state_mean["d"] == pytest.approx(y[-1, 1], abs=0.02)
    whole = smcpn.identify(problem, method="ibis", progress=False, **settings)
    assert live.posterior().log_evidence == whole.log_evidence


def test_the_prior_is_simulated():
    run = smcpn.simulate(circular_problem(circular_solution(0.2)), draws=40, seed=0)
    assert run.steps == 0
    assert run.coverage == pytest.approx(1.0)


@smcpn.ode(algebraic=["z"])
def valve(x, z, u, *, a, q):
    """Flow through a resistance that grows with it, z + q z^3 = u - x, into a store."""
    return a * z, u - x - z - q * z**3


def solved_flow(x, u, *, q):
    root = ca.sqrt(3 * q)
    return 2 / root * ca.sinh(ca.asinh(1.5 * root * (u - x)) / 3)


@smcpn.ode
def solved_valve(x, u, *, a, q):
    """The same with the cubic equation solved."""
    return a * solved_flow(x, u, q=q)


@smcpn.ode(algebraic=["z"])
def divider(x, z, u, *, a, q):
    """Capacitor behind the node z of a voltage divider."""
    return a * (z - x), (u - z) - q * z - (z - x)


def node(x, u, *, q):
    return (u + x) / (2 + q)


@smcpn.ode
def solved_divider(x, u, *, a, q):
    return a * (node(x, u, q=q) - x)


VALVES, DIVIDERS = (
    ((valve, "z"), (solved_valve, solved_flow)),
    ((divider, "z"), (solved_divider, node)),
)
SOLVERS = {
    "marginal": smcpn.EKF0(3, 2), "classical": smcpn.RK4(2), "kalman": smcpn.RK4(2),
    "kalman-iterated": smcpn.RK4(1), "particle": smcpn.RK4(2),
    "filtering": smcpn.EKF1(2, 2, diffusion=1.0), "dalton": smcpn.EKF1(2, 2, diffusion=1.0),
    "fenrir": smcpn.EKF1(2, 2, diffusion=1.0), "adaptive": smcpn.AdaptiveEKF1(tolerance=1e-4),
}  # fmt: skip
FLOWS = {"a": stats.lognorm(0.5), "q": stats.lognorm(0.5)}


def flow_problem(equation, flow, likelihood, **options) -> smcpn.Problem:
    rng = np.random.default_rng(0)
    record = Record(u=rng.normal(size=20), y=rng.normal(size=(20, 2)), dt=0.1, hold="zoh")
    disturbed = LIKELIHOODS[likelihood].takes_process_noise
    given = {"process_noise": {"x": 0.3}} if disturbed else {}
    return smcpn.Problem(
        equation, record, observe=["x", flow], noise=0.2, prior=FLOWS, **given, **options
    )


def late(likelihood):
    return pytest.param(VALVES, likelihood, {"delay": {"u": 0.13}}, marks=pytest.mark.nightly)


@pytest.mark.parametrize(
    ("equations", "likelihood", "options"),
    [
        (VALVES, "marginal", {}), (VALVES, "kalman", {}), (DIVIDERS, "kalman", {}),
        late("classical"), late("kalman-iterated"), late("filtering"), late("adaptive"),
        *(pytest.param(VALVES, one, {}, marks=pytest.mark.nightly)
          for one in ("classical", "particle", "dalton", "fenrir")),
    ],
)  # fmt: skip
def test_every_likelihood_is_that_of_the_variables_solved(equations, likelihood, options):
    values, found = np.array([[2.0, 0.8], [1.0, 0.5]]), []
    for equation, flow in equations:
        problem, solver = flow_problem(equation, flow, likelihood, **options), SOLVERS[likelihood]
        if likelihood == "particle":
            filters = build_estimate(problem, solver, 1, likelihood).with_state_particles(32)
            found.append(filters.evaluate(values, 20, np.ones((2, 1), dtype=np.uint64))[1])
            continue
        function = smcpn.LogLikelihood(problem, likelihood=likelihood, solver=solver)
        found.append(np.column_stack([function(values), function.value_and_gradient(values)[1]]))
    np.testing.assert_allclose(*found, rtol=1e-10)


def test_noise_moves_algebraic_variables_with_the_states():
    plan, truth = Record(u=np.cos(0.1 * np.arange(30)), dt=0.1), {"a": 2.0, "q": 0.8}
    given = {"observe": ["x", "z"], "process_noise": {"x": 0.3}, "steps": 4, "seed": 1}
    x, z = smcpn.simulate(valve, plan, truth, initial={"x": 0.7}, **given).T
    np.testing.assert_allclose(z + 0.8 * z**3, plan.u[:, 0] - x, atol=1e-12)


def flow_states(problem, likelihood) -> States:
    values = np.array([[2.0, 0.8]])
    return states_of_particles(
        problem, SOLVERS[likelihood], likelihood, problem.records[0], values, np.ones(1),
        draws=8, parameters=1, seed=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("likelihood", "late"),
    [("kalman", 0), *(pytest.param("particle", k, marks=pytest.mark.nightly) for k in (0, 2))],
)
def test_states_given_the_record_are_those_of_the_variables_solved(likelihood, late):
    """Inputs arrive between samples, and are at one those of so many before."""
    options = {"delay": {"u": 0.13}} if late else {}
    problems = [flow_problem(*one, likelihood, **options) for one in VALVES]
    found, exact = (flow_states(one, likelihood) for one in problems)
    for name in ("mean", "sd", "filtered_mean", "filtered_sd"):
        np.testing.assert_allclose(
            getattr(found, name)[:, 0], getattr(exact, name)[:, 0], rtol=1e-9, atol=1e-12
        )
    (x, z), u = found.filtered_mean.T, found.record.u[np.maximum(np.arange(20) - late, 0), 0]
    np.testing.assert_allclose(found.filtered_sd[0], [0.0, 0.0], atol=1e-12)
    if likelihood == "particle":
        x, z = np.moveaxis(found.draws, -1, 0)
    np.testing.assert_allclose(z + 0.8 * z**3, u - x, atol=1e-11)
    if likelihood == "kalman":
        slope = 1.0 / (1.0 + 2.4 * z**2)
        np.testing.assert_allclose(found.filtered_sd[:, 1], slope * found.filtered_sd[:, 0])
        np.testing.assert_allclose(found.sd[:, 1], slope * found.sd[:, 0])


@pytest.mark.nightly
def test_states_are_fitted_to_first_samples():
    times, truth = 0.1 * np.arange(30), {"a": 2.0, "q": 0.8}
    plan = Record(u=np.cos(times), dt=0.1)
    y = smcpn.simulate(valve, plan, truth, observe="x", initial={"x": 0.7, "z": 0.0})
    prior = dict.fromkeys(truth, stats.lognorm(0.5))
    problem = smcpn.Problem(valve, plan.with_outputs(y), observe="x", noise=0.1, prior=prior)
    window = problem.records[0][:10]
    found = fitted_initial_states(problem.model, window, np.array([[2.0, 0.8]]), steps=8)
    np.testing.assert_allclose(found, [[0.7, 0.0]], atol=1e-6)


def model(function, **options):
    return lambda: smcpn.ode(**options)(function)


def linear(x, z, *, k):
    return -k * z, z - x


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (model(linear, algebraic=["y"]), "algebraic is 'y': choose one of x, z"),
        (model(linear, algebraic="z"), "give a list of names"),
        (model(linear, algebraic=["x", "z"]), "every state .* is algebraic"),
        (model(lambda x, z, *, k: (-k * z, x - k), algebraic=["z"]), "index higher than 1"),
        (
            model(lambda x, z, w, *, k: (-z, x - z, z - k * x), algebraic=["z", "w"]),
            "do not determine w",
        ),
        (model(linear, algebraic=["z"], states=["x", "z"]), "can be traced"),
        (lambda: circular_problem(observe=["x", "z'", "w"]), "whose derivative"),
        (lambda: circular_problem(initial={"x": 1.0, "z": stats.norm(1, 1)}), r"'z\(0\)' nothing"),
        (lambda: smcpn.LogLikelihood(circular_problem(initial="rest")), "are not finite there"),
        (lambda: smcpn.LogLikelihood(folding_problem(0.0)), "dg/dz is singular there"),
        (lambda: smcpn.solve(circular, (0.0, 1.0), {"k": 1.0}), "smcpn.Rosenbrock"),
        (
            lambda: smcpn.simulate(
                folding, folding_problem().records[0], {"k": 2.0}, observe="z",
                initial={"x": 1.0, "z": 0.5},
            ),
            "give initial numbers",
        ),
        (
            lambda: smcpn.simulate(rectifier, driven(), RECTIFIER, observe="v", steps=4),
            "leave steps out",
        ),
        (lambda: smcpn.maximise(circular_problem(), search="lifted"), "choose 'shooting'"),
    ],
)  # fmt: skip
def test_what_has_no_answer_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
