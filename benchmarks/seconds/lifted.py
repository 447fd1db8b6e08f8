"""Maxima that one trajectory from the initial state does not find: chaos, and wrong periods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.papers.fenrir_fits import SWEEP_SEED, WITHIN
from benchmarks.papers.fenrir_published import PENDULUM_STARTS
from benchmarks.papers.fenrir_settings import SETTINGS, fitzhugh_nagumo, trajectory
from benchmarks.rows import Row, at_least, least_of
from benchmarks.study import study
from smcpn import ODE, RK4, Maximum, Problem

SAME = 0.05
"""Nats below the highest maximum known that count as the same."""
OMEGA: Any = stats.lognorm(1.0, scale=3.0)
PERIODS = (0.4, 0.7, 1.6)
"""Wrong periods at the start, over the right one."""


@smcpn.ode
def lorenz(x, y, z, *, sigma, rho, beta):
    """Convection (Lorenz 1963)."""
    return sigma * (y - x), x * (rho - z) - y, x * y - beta * z


@smcpn.ode
def oscillation(x, v, *, omega):
    """Free oscillation."""
    return v, -(omega**2) * x


def problem_of(
    ode: ODE,
    truth: Mapping[str, float],
    state: Sequence[float],
    observe: Sequence[str],
    noise: float,
    spread: tuple[float, float],
    t: np.ndarray,
) -> Problem:
    """Problem with log-normal priors about the truth, and an unknown initial state.

    ``spread`` is that of the logarithms of the parameters, and of the initial state.
    """
    seen = [ode.states.index(name) for name in observe]
    states = trajectory(ode, list(truth.values()), state, t)[:, seen]
    y = states + noise * np.random.default_rng(0).normal(size=states.shape)
    prior: dict[str, Any] = {
        name: stats.lognorm(spread[0], scale=value) for name, value in truth.items()
    }
    initial = [stats.norm(0.0, spread[1]) for _ in state]
    record = smcpn.Record(y=y, t=t)
    return Problem(ode, record, observe=list(observe), noise=noise, prior=prior, initial=initial)


def systems(quick: bool) -> Iterator[tuple[str, Problem, np.ndarray, RK4]]:
    """Name, problem, its true values, and a solver that is accurate to the end of the record."""
    chaos = {"sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
    spikes = {"a": 0.2, "b": 0.2, "c": 3.0}
    begin = (12.3, 12.0, 32.3)
    for observe in (("x",),) if quick else (("x",), ("x", "y", "z")):
        t = np.arange(1001) * 0.02
        problem = problem_of(lorenz, chaos, begin, observe, 0.5, (0.5, 20.0), t)
        truth = np.array([*chaos.values(), *begin])
        yield f"Lorenz63, 20 s of {', '.join(observe)}", problem, truth, RK4(steps=32)
    for observe in (("V",),) if quick else (("V",), ("V", "R")):
        t = np.arange(201) * 0.1
        problem = problem_of(fitzhugh_nagumo, spikes, (-1.0, 1.0), observe, 0.1, (1.0, 1.0), t)
        truth = np.array([*spikes.values(), -1.0, 1.0])
        yield f"FitzHugh-Nagumo, {', '.join(observe)}", problem, truth, RK4(steps=8)


def draws(quick: bool) -> Iterator[Row]:
    """Of searches from draws of the prior, those that end at the maximum next to the truth."""
    count = 10 if quick else 100
    for name, problem, truth, solver in systems(quick):
        right = smcpn.maximise(problem, solver=solver, starts=truth, search="lifted")
        found = smcpn.maximise(problem, solver=solver, starts=count, seed=1, search="lifted")
        ends = np.array([one.log_density for one in found.starts])
        recovered = int(np.sum(np.abs(ends - right.log_density) < SAME))
        note = f"of {count}, {found.seconds:.1f} s; from the truth {right.log_density:.2f}, "
        note += f"highest {found.log_density:.2f}"
        if not quick:
            usual = smcpn.maximise(problem, solver=solver, seed=1)
            note += f", by default {usual.log_density:.2f} in {usual.seconds:.1f} s"
        least = least_of(0.95, count, 100) * count
        yield at_least(f"{name}: draws at the maximum", recovered, least, note)


def pendulum(quick: bool) -> Iterator[Row]:
    """The sweep of lengths of the Fenrir paper, section 5.4, by least squares."""
    count = 20 if quick else PENDULUM_STARTS
    setting = SETTINGS["pendulum"]
    problem = setting.least_squares(setting.record(SWEEP_SEED))
    starts = {"length": np.logspace(-2.0, 2.0, count)}
    for search in ("shooting", "lifted"):
        found = smcpn.maximise(
            problem, solver=RK4(setting.steps), starts=starts, target="likelihood", search=search
        )
        recovered = _within(found, setting.truth["length"])
        name = f"pendulum, {search}: lengths recovered"
        note = f"of {count}, {found.seconds:.1f} s; published: 118 of 161"
        if search == "lifted":
            least = least_of(155 / 161, count, PENDULUM_STARTS) * count
            yield at_least(name, recovered, least, note)
        else:
            yield Row(name, recovered, note=note)


def _within(found: Maximum, truth: float) -> int:
    return sum(abs(one.values[0] - truth) < WITHIN for one in found.starts)


def sine(quick: bool) -> Iterator[Row]:
    """Twenty periods, from three wrong ones."""
    t = np.arange(801) * 0.05
    y = np.sin(np.pi * t) + 0.1 * np.random.default_rng(0).normal(size=len(t))
    problem = Problem(
        oscillation, smcpn.Record(y=y, t=t), observe="x", noise=0.1,
        prior={"omega": OMEGA}, initial=[0.0, stats.norm(0.0, 5.0)],
    )  # fmt: skip
    starts = {"omega": [np.pi / period for period in PERIODS]}
    for search in ("shooting", "auto"):
        found = smcpn.maximise(problem, solver=RK4(2), starts=starts, search=search)
        recovered = _within(found, np.pi)
        name, note = f"sine, {search}: wrong periods recovered", f"{found.seconds:.2f} s"
        if search == "auto":
            yield at_least(name, recovered, len(PERIODS), note)
        else:
            yield Row(name, recovered, note=note)


@study("lifted")
def lifted(quick: bool) -> Iterator[Row]:
    """All of them."""
    yield from pendulum(quick)
    yield from draws(quick)
    yield from sine(quick)
