"""Accuracy and cost of Rosenbrock steps: against exact solutions, and beside other solvers.

Times are of the processor, of one thread, without compilation, everything in one run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.integrate import solve_ivp

import smcpn
from benchmarks.clock import in_turns
from benchmarks.rows import Row, absent, at_least, at_most, near, reached, told
from benchmarks.stiff.classics import CLASSICS, Classic
from benchmarks.stiff.collection import PUBLISHED, boehm, boehm_problem
from benchmarks.stiff.scalar import solved
from benchmarks.study import study
from smcpn.likelihood.own_steps import solver_steps
from smcpn.likelihood.prediction import predictive_moments

Array = NDArray[np.float64]

RATES = (
    "Epo_degradation_BaF3", "k_exp_hetero", "k_exp_homo", "k_imp_hetero", "k_imp_homo", "k_phos",
)  # fmt: skip
"""Parameters of the equation of Boehm, in its order."""
AROUND = 0.1
"""Standard deviation of the logarithms of parameters about the optimum."""


def seconds(call: Callable[[], Any], least: float = 0.3) -> float:
    """Return the processor time of a call, the least of several means, after one that compiles."""
    call()
    began, count = time.process_time(), 0
    while time.process_time() - began < least / 3:
        call()
        count += 1
    means = []
    for _ in range(3):
        began = time.process_time()
        for _ in range(count):
            call()
        means.append((time.process_time() - began) / count)
    return min(means)


def near_optimum(n: int) -> tuple[smcpn.Problem, Array]:
    """The problem of Boehm, and values (n, d) about its optimum."""
    found = boehm_problem()
    spread = AROUND * np.random.default_rng(0).normal(size=(n, len(found.optimum)))
    return found.problem, found.optimum * np.exp(spread)


@study("trajectory", full=512, quick=128)
def trajectory(particles: int) -> Iterator[Row]:
    """Boehm at a tolerance of 1e-6: microseconds a particle, beside other solvers in one run."""
    problem, values = near_optimum(particles)
    likelihood = smcpn.LogLikelihood(problem, solver=smcpn.Rosenbrock(1e-6), threads=1)
    own = seconds(lambda: likelihood(values)) / particles * 1e6
    yield Row("microseconds a particle", own)
    columns, t = [problem.names.index(name) for name in RATES], problem.records[0].t
    few = values[:16, columns]
    scalar = seconds(lambda: [solved(t, one, 1e-6) for one in few]) / len(few) * 1e6
    yield at_least("scalar Rodas4, times as long", scalar / own, 2.0, f"{scalar:.3g} us")
    exact, _ = solved(t, few[0], 1e-11)
    yield Row(
        "scalar Rodas4, error in tolerances", _error(solved(t, few[0], 1e-6)[0], exact) / 1e-6
    )
    states = _all_states(problem)
    there = values[0, [problem.names.index(name) for name in states.names]]
    found = predictive_moments(states, smcpn.Rosenbrock(1e-6), there, enumerate(states.records))
    found = found[0][0]
    yield Row("error in tolerances", _error(found, exact) / 1e-6)
    yield kvaerno(t, values[:, columns], exact, own)


def _all_states(problem: smcpn.Problem) -> smcpn.Problem:
    record = smcpn.Record(t=problem.records[0].t, y=np.zeros((len(problem.records[0]), 8)))
    return smcpn.Problem(
        boehm, record, observe=list(boehm.states), noise=1.0,
        prior={name: problem.prior.distributions[name] for name in RATES},
        initial={"A": 207.6 * 0.693, "B": 207.6 * 0.307},
    )  # fmt: skip


def _error(found: Array, exact: Array) -> float:
    """Largest error at a sample, relative to the largest value of the state so far."""
    sizes = np.maximum.accumulate(np.abs(exact))
    return float(np.nanmax(np.abs(found - exact) / np.where(sizes > 0.0, sizes, np.nan)))


def kvaerno(t: Array, values: Array, exact: Array, own: float) -> Row:
    """Row of diffrax's Kvaerno5 under vmap and jit, of a tolerance of 1e-6."""
    name = "diffrax Kvaerno5, times as long"
    try:
        diffrax, jax = import_module("diffrax"), import_module("jax")
    except ImportError:
        return absent(name, "the package diffrax is not installed")
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    def rate(time: Any, x: Any, p: Any) -> Any:
        epo = 1.25e-7 * jnp.exp(-p[0] * time) * p[5]
        aa, ab, bb, out = epo * x[0] ** 2, epo * x[0] * x[1], epo * x[1] ** 2, 0.45 / 1.4
        return jnp.stack([
            -2 * aa - ab + out * (2 * p[2] * x[5] + p[1] * x[6]),
            -2 * bb - ab + out * (2 * p[2] * x[7] + p[1] * x[6]),
            ab - p[3] * x[2], aa - p[4] * x[3], bb - p[4] * x[4],
            p[4] * x[3] / out - p[2] * x[5], p[3] * x[2] / out - p[1] * x[6],
            p[4] * x[4] / out - p[2] * x[7],
        ])  # fmt: skip

    start = jnp.array([207.6 * 0.693, 207.6 * 0.307, 0, 0, 0, 0, 0, 0], dtype=float)
    term, solver = diffrax.ODETerm(rate), diffrax.Kvaerno5()
    control = diffrax.PIDController(rtol=1e-6, atol=1e-8)

    def solve(p: Any) -> Any:
        return diffrax.diffeqsolve(
            term, solver, t[0], t[-1], None, start, p, saveat=diffrax.SaveAt(ts=jnp.array(t)),
            stepsize_controller=control, max_steps=100_000, throw=False,
        ).ys  # fmt: skip

    together = jax.jit(jax.vmap(solve))
    given = jnp.array(values)
    other = seconds(lambda: together(given).block_until_ready()) / len(values) * 1e6
    error = _error(np.asarray(together(given)[0]), exact) / 1e-6
    return at_least(name, other / own, 20.0, f"{other:.3g} us, error {error:.2g} tolerances")


TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10)
QUICK_CLASSICS = ("Robertson", "van der Pol")


@study("precision", full=(TOLERANCES, tuple(CLASSICS)), quick=((1e-8,), QUICK_CLASSICS))
def precision(size: tuple[tuple[float, ...], tuple[str, ...]]) -> Iterator[Row]:
    """Errors of classic problems over the tolerance, and times as long that SciPy takes."""
    tolerances, names = size
    for name in names:
        classic = CLASSICS[name]
        exact = _scipy(classic, "Radau", 1e-12)
        problem = classic.problem()
        for tolerance in tolerances:
            solver = smcpn.Rosenbrock(tolerance)
            found = predictive_moments(problem, solver, np.ones(1), enumerate(problem.records))
            error = _error(found[0][0], exact) / tolerance
            yield at_most(f"{name} at {tolerance:g}: error in tolerances", error, 10.0)
            likelihood = smcpn.LogLikelihood(problem, solver=solver, threads=1)
            one, eight = np.ones((1, 1)), np.ones((likelihood._value.lanes, 1))
            own = seconds(lambda values=one, by=likelihood: by(values), 0.03)
            lane = seconds(lambda values=eight, by=likelihood: by(values), 0.03) / len(eight)
            for method in ("Radau", "BDF"):
                began = time.process_time()
                peer = _error(_scipy(classic, method, tolerance), exact) / tolerance
                taken = time.process_time() - began
                note = (
                    f"error {peer:.2g} tolerances; {taken / lane:.3g} times a lane of a full block"
                )
                yield at_least(f"{name} at {tolerance:g}: {method}", taken / own, 1.0, note)


def _scipy(classic: Classic, method: str, tolerance: float) -> Array:
    found = solve_ivp(
        classic.rate(), (0.0, classic.t[-1]), classic.initial, method, classic.t, rtol=tolerance,
        atol=tolerance * 1e-6,
    )  # fmt: skip
    # One that gives up before the end has no value where it did not get.
    ends = np.full((len(classic.t), len(classic.initial)), np.inf)
    ends[: len(found.t)] = found.y.T
    return ends


@study("golden")
def golden(quick: bool) -> Iterator[Row]:
    """Log-likelihoods at published optima, with every setting at its default.

    To 1e-3, or to the digits that are published.
    """
    for name, make in PUBLISHED.items():
        found = make()
        function = smcpn.LogLikelihood(found.problem)
        value = function(found.optimum[None])[0]
        yield near(name, value, found.log_likelihood, 1e-3, repr(function.solver))


def rod(cells: int, losses: int = 1) -> smcpn.Problem:
    """A rod that is heated at one end and loses heat along its length, measured at the other.

    It may have so many parts, each of which loses it at a rate of its own.
    """
    of_cell = np.arange(cells) * losses // cells

    @smcpn.ode(sizes={"T": cells} | ({"loss": losses} if losses > 1 else {}))
    def heated(T: Any, u: Any, *, a: Any, loss: Any) -> Any:
        flow = -a * cells**2 * np.diff(T)
        into = np.concatenate([[2 * a * cells**2 * (u - T[0])], flow])
        own = np.concatenate([[loss[k]] for k in of_cell]) if losses > 1 else loss
        return into - np.concatenate([flow, [0.0]]) - own * T * (1 + 0.001 * T)

    t = np.linspace(0.0, 10.0, 21)
    record = smcpn.Record(t=t, u=1 + np.sin(t), y=np.zeros(21))
    names = [f"loss[{k}]" for k in range(losses)] if losses > 1 else ["loss"]
    prior: dict[str, Any] = {"a": stats.lognorm(0.3, scale=0.05)}
    prior |= {name: stats.lognorm(0.3) for name in names}
    return smcpn.Problem(heated, record, observe=f"T[{cells - 1}]", noise=0.1, prior=prior)


@study("cells", full=((25, 50, 100, 200), (3, 29)), quick=((25, 50), (3,)))
def cells(size: tuple[tuple[int, ...], tuple[int, ...]]) -> Iterator[Row]:
    """A heated rod: cost of a step, and of a gradient, by the number of cells; compilation."""
    sizes, of_losses = size
    values = np.array([0.05, 0.1]) * np.exp(AROUND * np.random.default_rng(0).normal(size=(64, 2)))
    calls: dict[str, Callable[[], Any]] = {}
    for n in sizes:
        began = time.process_time()
        function = smcpn.LogLikelihood(rod(n), solver=smcpn.Rosenbrock(1e-6), threads=1)
        of_value = time.process_time() - began
        calls[f"{n} cells: microseconds"] = partial(function, values)
        began = time.process_time()
        function.value_and_gradient(values[:1])
        of_gradient = time.process_time() - began
        gradient = partial(function.value_and_gradient, values)
        calls[f"{n} cells: microseconds of a gradient"] = gradient
        row = at_most if n == 100 else lambda name, figure, _, note: Row(name, figure, note=note)
        yield row(f"{n} cells: seconds to compile", of_value, 10.0, "of the processor")
        yield row(
            f"{n} cells: seconds to compile a gradient", of_gradient, 10.0, "of the processor"
        )
    costs = _least(calls)
    yield from told({name: 1e6 * cost / len(values) for name, cost in costs.items()})
    growth = np.polyfit(np.log(sizes), np.log([*costs.values()]).reshape(-1, 2), 1)[0]
    for (name, was), power in zip({"": 1.5, ", gradient": 1.7}.items(), growth, strict=True):
        row = at_most(f"power of the number of cells{name}", power, 1.3)
        # Two sizes tell it to a tenth or two.
        yield row if len(sizes) > 3 else reached(row, was)
    for n in sizes[:3]:
        for losses in of_losses:
            yield from _gradient_of_many(n, losses)


def _gradient_of_many(cells: int, losses: int) -> Iterator[Row]:
    """Cost of a gradient of some parameters, and its compilation."""
    name = f"{cells} cells, {losses + 1} parameters"
    function = smcpn.LogLikelihood(rod(cells, losses), solver=smcpn.Rosenbrock(1e-6), threads=1)
    around = AROUND * np.random.default_rng(0).normal(size=(64, losses + 1))
    values = np.array([0.05, *np.full(losses, 0.1)]) * np.exp(around)
    began = time.process_time()
    function.value_and_gradient(values[:1])
    taken = time.process_time() - began
    note = "by a reverse pass" if function.reverses else "by tangents"
    costs = _least({"value": partial(function, values),
                    "gradient": partial(function.value_and_gradient, values)})  # fmt: skip
    yield Row(f"{name}: values of a gradient", costs["gradient"] / costs["value"], note=note)
    yield at_most(f"{name}: seconds to compile a gradient", taken, 10.0, "of the processor")


def _least(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Processor time of each call, the least of some, in turns: other work slows all of them."""
    return {name: taken.min() for name, taken in in_turns(calls, 7, time.process_time).items()}


def cascade(n: int) -> smcpn.Problem:
    """A chain of n reversible reactions, each faster than the one before, seen at both ends."""
    speeds = np.geomspace(1.0, 1e3, n - 1)

    def rate(x: Any, k: Any, s: Any) -> Any:
        flow = speeds * (k * x[:-1] - s * x[1:] ** 2)
        return np.concatenate([-flow[:1], flow[:-1] - flow[1:], flow[-1:]])

    @smcpn.ode(sizes={"x": n})
    def reactions(x: Any, *, k: Any, s: Any) -> Any:
        return rate(x, k, s)

    t, initial = np.linspace(0.0, 2.0, 9), 0.5 + 0.1 * np.arange(n)
    y = solve_ivp(
        lambda _, x: rate(x, 1.0, 1.0), (0.0, 2.0), initial, "Radau", t, rtol=1e-10, atol=1e-10
    ).y[[0, n - 1]].T  # fmt: skip
    prior: dict[str, Any] = {"k": stats.lognorm(0.3), "s": stats.lognorm(0.3)}
    return smcpn.Problem(
        reactions, smcpn.Record(t=t, y=y), observe=["x[0]", f"x[{n - 1}]"], noise=0.05,
        initial={f"x[{k}]": float(initial[k]) for k in range(n)}, prior=prior,
    )  # fmt: skip


@study("ekf1", full=(9, 12, 15), quick=(6,))
def ekf1(sizes: tuple[int, ...]) -> Iterator[Row]:
    """Coupled stiff states by AdaptiveEKF1 of order 3: against Radau; cost of a step, compilation.

    The data are Radau's solution at k = s = 1, without noise: the log-likelihood there is that of
    residuals zero.
    """
    calls: dict[str, Callable[[], Any]] = {}
    steps: list[float] = []
    for n in sizes:
        problem, began = cascade(n), time.process_time()
        solver = smcpn.AdaptiveEKF1(order=3, tolerance=1e-6)
        function = smcpn.LogLikelihood(problem, solver=solver, threads=1)
        compiled = time.process_time() - began
        yield at_most(f"{n} states: seconds to compile", compiled, 20.0, "of the processor")
        values = np.ones((function._value.lanes, 2))
        golden = 18 * -np.log(0.05 * np.sqrt(2 * np.pi))
        yield near(f"{n} states: log-likelihood", function(values)[0], golden, 1e-3)
        rough = smcpn.LogLikelihood(problem, solver=smcpn.Rosenbrock(1e-10), threads=1)
        away = np.array([[1.2, 0.9]])
        yield near(f"{n} states: away from it", function(away)[0], rough(away)[0], 1e-2)
        steps.append(len(values) * solver_steps(function._value, problem, values[:1])[0][0])
        calls[f"{n} states: microseconds of a step"] = partial(function, values)
    costs = np.array([*_least(calls).values()]) / steps
    yield from told(dict(zip(calls, 1e6 * costs, strict=True)))
    # From fewer, the size of the cache shows in the power more than the arithmetic.
    if len(sizes) > 2:
        growth = np.polyfit(np.log(sizes), np.log(costs), 1)[0]
        yield at_most("power of the number of states", growth, 3.0)


@study("gradients", full=(1e-5, 1e-7, 1e-9), quick=(1e-6,))
def gradients(tolerances: tuple[float, ...]) -> Iterator[Row]:
    """Derivatives of the log-likelihood of Boehm, against those of an exact solution.

    That the tangent is the derivative of the steps taken, to 1e-9 in 50 digits, is in the tests.
    """
    problem, values = near_optimum(8)
    fine = smcpn.LogLikelihood(problem, solver=smcpn.Rosenbrock(1e-11))
    exact = fine.value_and_gradient(values)[1] * values
    for tolerance in tolerances:
        function = smcpn.LogLikelihood(problem, solver=smcpn.Rosenbrock(tolerance))
        found = function.value_and_gradient(values)[1] * values
        error = np.abs(found - exact).max() / np.abs(exact).max()
        yield at_most(f"at {tolerance:g}: error in tolerances", error / tolerance, 10.0)
