"""The hybrid pendulum of the differential programming paper: polynomials beside a function of x.

    x' = a0 + ax x + ay y + axx x^2 + axy x y + ayy y^2,
    y' = by y + bxy x y + byy y^2 + closure(x),         truth: x' = y, y' = -0.2 y - 8.91 sin x.

Terms of x alone are left out of y': a closure of x has them. y^2 may stay, because the
oscillation decays: over a single one y^2 would be a function of x as well.

The paper learns from 1000 pairs of noise-free samples, by a network 1-20-20-1 in place of the
closure, and prints figures only. Without noise there is nothing that a posterior could be right
about but the error of the closure itself. The paper's has a width all the same: under its prior
Gamma(1, 1) of the precision and a likelihood to the power S/2, S = 1000 pairs, no precision beyond
S/2 + 1 = 501 is likely, a standard deviation of 4.5 % of that of each state. Here the noise is 2 %
and learned; data without noise are learned from with the paper's 4.5 %.

The network itself has 481 weights. The data leave nearly all of them open, one by one, and its
posterior is that of the model linear in them about a maximum (`smcpn.linearise_networks`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.executors import each
from benchmarks.papers.differential_programming_figures import Forecast, forecast_figure
from benchmarks.papers.differential_programming_problems import EXPERIMENTS
from benchmarks.rows import Row, at_least, at_most, least_of, reached
from benchmarks.study import Picture, Result, study

Array = NDArray[np.float64]

PENDULUM = EXPERIMENTS["pendulum"]
EVERY, QUICK_EVERY = 8, 20
"""Samples of the paper's 8001 from one that is learned from to the next; for a quick network."""
SEEDS, QUICK_SEEDS = 8, 1
NETWORK_SEEDS = 4
DRAWS, POINTS = 1000, 100
STARTS = 4
"""Searches, from draws of the prior."""
THEIR_PRECISION = 501.0
"""Highest likely precision of the paper's posterior, of states scaled to a variance of one."""
TWO_SIDED_95 = 1.96

closure = smcpn.spline("x", knots=12, within=(-2.2, 2.2), size=10.0)
network = smcpn.network("x", hidden=(20, 20), within=(-2.2, 2.2), size=10.0)


@smcpn.ode
def hybrid(x, y, *, a0, ax, ay, axx, axy, ayy, by, bxy, byy, closure):
    """Polynomials, and a function of x."""
    angle = a0 + ax * x + ay * y + axx * x**2 + axy * x * y + ayy * y**2
    return angle, by * y + bxy * x * y + byy * y**2 + closure(x)


@smcpn.ode
def hybrid_network(x, y, *, a0, ax, ay, axx, axy, ayy, by, bxy, byy, closure: Any = network):
    """The same with the paper's network."""
    angle = a0 + ax * x + ay * y + axx * x**2 + axy * x * y + ayy * y**2
    return angle, by * y + bxy * x * y + byy * y**2 + closure(x)


COEFFICIENTS: dict[str, float] = {
    name: {"ay": 1.0, "by": -0.2}.get(name, 0.0)
    for name in ("a0", "ax", "ay", "axx", "axy", "ayy", "by", "bxy", "byy")
}


def truth(x: Array) -> Array:
    """What the closure is to find."""
    return -PENDULUM.truth["b"] * np.sin(x)


def problem_of(
    y: Array,
    noise: Any = ("noise_x", "noise_y"),
    model: smcpn.ODE = hybrid,
    every: int = EVERY,
) -> smcpn.Problem:
    """The problem of measured states (N, 2) at the paper's times.

    noise: Parameters that hold it, or its standard deviations.
    """
    record = smcpn.Record(y=y[::every], dt=float(PENDULUM.times[every]))
    prior: dict[str, Any] = {name: stats.norm(0.0, 3.0) for name in COEFFICIENTS}
    prior |= {"x0": stats.norm(-1.0, 1.0), "y0": stats.norm(-4.0, 2.0)}
    scales = dict(zip(noise, (0.03, 0.1), strict=True))
    prior |= {one: stats.lognorm(1.0, scale=s) for one, s in scales.items() if isinstance(one, str)}
    return smcpn.Problem(
        model, record, observe=["x", "y"], noise=list(noise), prior=prior, initial=["x0", "y0"]
    )


def identified(problem: smcpn.Problem, seed: int = 1) -> smcpn.Posterior:
    """The posterior, begun where a search over path and parameters ends."""
    solver = smcpn.RK4(1)
    start = smcpn.laplace(problem, solver=solver, search="lifted", starts=STARTS)
    return smcpn.identify(
        problem, solver=solver, start=start, particles=DRAWS, seed=seed, progress=False
    )


def by_network(problem: smcpn.Problem) -> smcpn.Posterior:
    """The posterior of a network, linear in its weights about a maximum."""
    return smcpn.identify(problem, solver=smcpn.RK4(1), particles=DRAWS, seed=1, progress=False)


@dataclass(frozen=True)
class Figures:
    """What is found of one record, by the truth.

    seconds, processor: Search and sampling, by the clock and of all processors.
    coverage: Share of the visited range in which the 95 % band of the function has the truth.
    error: Rms error of its mean there, over the rms of the truth.
    forecast: Share of the times from the record's end to twice that at which the 95 % band of the
        states, noise not counted, has the truth.
    terms: Coefficients of nine whose 95 % interval has the truth.
    """

    seconds: float
    processor: float
    coverage: float
    error: float
    forecast: float
    terms: int


def judged(
    problem: smcpn.Problem, identify: Callable[..., smcpn.Posterior] = identified
) -> Figures:
    """Identify, and compare with the truth."""
    begin, used = time.perf_counter(), time.process_time()
    posterior = identify(problem)
    seconds, used = time.perf_counter() - begin, time.process_time() - used
    coverage, error = of_function(posterior)
    known = [
        float(posterior.quantile(name, 0.025)) <= value <= float(posterior.quantile(name, 0.975))
        for name, value in COEFFICIENTS.items()
    ]
    return Figures(seconds, used, coverage, error, of_forecast(posterior), sum(known))


def of_function(posterior: smcpn.Posterior) -> tuple[float, float]:
    """Coverage and relative error of the function over the visited range."""
    low, high = posterior.visited["closure"].range[0]
    found = posterior.function("closure", np.linspace(low, high, POINTS), draws=DRAWS)
    expected = truth(found.points)
    lower, upper = found.interval()
    error = np.sqrt(np.square(found.mean - expected).mean() / np.square(expected).mean())
    return float(((lower <= expected) & (expected <= upper)).mean()), float(error)


def forecast(posterior: smcpn.Posterior) -> smcpn.Simulation:
    """The states to twice the end of the record, with the true ones beside."""
    dt = posterior.problem.records[0].interval
    times = np.arange(0.0, PENDULUM.forecast + dt / 2, dt)
    return posterior.simulate(smcpn.Record(y=PENDULUM.states(times), dt=dt, name="forecast"))


def of_forecast(posterior: smcpn.Posterior) -> float:
    """Share of the forecast that the band without noise has."""
    run = forecast(posterior)
    later = run.record.t > PENDULUM.end
    sd = np.sqrt(run.parameter_variance + run.solver_variance)
    inside = np.abs(run.record.y - run.mean) <= TWO_SIDED_95 * sd
    return float(inside[later].mean())


def _judged(seed: int) -> Figures:
    return judged(problem_of(PENDULUM.data(seed).y))


@study("pendulum-spline", full=SEEDS, quick=QUICK_SEEDS)
def spline(records: int) -> Iterator[Result]:
    """Twelve B-splines in place of the network, over records with 2 % noise."""
    seeds = range(records)
    all_of = list(each(_judged, seeds))
    note = f"mean of {len(all_of)} seeds"
    coverage = [one.coverage for one in all_of]
    forecasts = [one.forecast for one in all_of]
    yield at_least("95 % band covers", float(np.mean(coverage)), 0.9, f"{note}, {_se(coverage)}")
    yield at_most("relative rms error", max(one.error for one in all_of), 0.03, "largest")
    yield at_least(
        "forecast covers", float(np.mean(forecasts)), 0.9, f"t = 20 to 40, {note}, {_se(forecasts)}"
    )
    share = sum(one.terms for one in all_of) / (len(COEFFICIENTS) * len(all_of))
    least = least_of(0.9, len(COEFFICIENTS) * records, len(COEFFICIENTS) * SEEDS)
    yield at_least("coefficients covered", share, least, f"{len(COEFFICIENTS)} for each seed")
    note = f"median; first {all_of[0].seconds:.1f} on the clock"
    used = float(np.median([one.processor for one in all_of]))
    row = at_most("seconds of the processor", used, 10.0, note)
    yield reached(row, 25.0) if records < SEEDS else row
    if records == QUICK_SEEDS:
        return
    theirs = PENDULUM.scale / np.sqrt(THEIR_PRECISION)
    exact = judged(problem_of(PENDULUM.exact, tuple(theirs)))
    yield at_least("no noise, likelihood as wide as the paper's: band covers", exact.coverage, 0.9)
    yield at_most("no noise: relative rms error", exact.error, 0.03)
    yield Picture("differential_programming_closure", closure_figure)
    yield Picture("differential_programming_hybrid", hybrid_figure)


@study("pendulum-network", full=(NETWORK_SEEDS, EVERY), quick=None)
def of_network(size: tuple[int, int]) -> Iterator[Row]:
    """The paper's network 1-20-20-1, over records with 2 % noise."""
    seeds, every = size
    problems = [
        problem_of(PENDULUM.data(seed).y, model=hybrid_network, every=every)
        for seed in range(seeds)
    ]
    all_of = list(each(partial(judged, identify=by_network), problems))
    note = f"mean of {seeds} records of {problems[0].n_samples} samples"
    coverage = float(np.mean([one.coverage for one in all_of]))
    yield at_least("95 % band covers", coverage, 0.9, note)
    yield at_most("relative rms error", max(one.error for one in all_of), 0.03, "largest")
    forecasts = [one.forecast for one in all_of]
    listed = ", ".join(f"{one:.2f}" for one in forecasts)
    yield at_least(
        "forecast covers", float(np.mean(forecasts)), 0.9, f"t = 20 to 40; each {listed}"
    )
    share = sum(one.terms for one in all_of) / (len(COEFFICIENTS) * seeds)
    yield at_least("coefficients covered", share, 0.9, f"{len(COEFFICIENTS)} for each seed")
    seconds = max(one.seconds for one in all_of)
    used = max(one.processor for one in all_of)
    yield at_most("seconds", seconds, 120.0, f"largest; {used:.0f} s of processor")


def _se(values: list[float]) -> str:
    return f"se {stats.sem(values):.2g}" if len(values) > 1 else "one record"


@cache
def shown() -> smcpn.Posterior:
    """Posterior of the paper's record, which is drawn."""
    return identified(problem_of(PENDULUM.data().y))


def closure_figure() -> Figure:
    """Draw the function, and the truth."""
    return shown().function("closure", np.linspace(-np.pi, np.pi, 161)).plot(truth)


def hybrid_figure() -> Figure:
    """Draw the forecast."""
    found = shown()
    return forecast_figure(
        {"": Forecast(("x", "y"), forecast(found), found.problem.records[0], (0, 1))}
    )
