"""Families of unknown functions: what an evaluation costs, and how far their priors may be off."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple, cast

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.executors import each
from benchmarks.rows import Row, at_least, at_most
from benchmarks.study import study
from smcpn.codegen.lower import Level, Vector, lower
from smcpn.model.functions.unknown import UnknownFunction

Array = NDArray[np.float64]
INTERVAL, NOISE, SOLVER = 0.02, 0.01, smcpn.RK4(steps=1)
WITHIN = (-1.2, 1.2)
HELD, DRAWS = 0.88, 2000
AMBIGUOUS = 8
"""Record that networks fit by several functions, of which one holds over .63 of the range."""
PLACES = np.linspace(0.02, 1.0, 50)
"""Within the range that the drive visits."""


def law(v: Any) -> Any:
    """Friction of the drive."""
    return 0.5 * np.tanh(v / 0.3) + 0.3 * v


@smcpn.ode
def drive(v, u, *, m):
    """A mass with a friction that is known."""
    return (u - law(v)) / m


@cache
def record(seed: int = 0) -> smcpn.Record:
    """Twenty seconds of a drive, its velocity measured with noise."""
    t = INTERVAL * np.arange(1000)
    silent = smcpn.Record(u=2.0 * np.sin(t) * np.sin(0.155 * t), dt=INTERVAL)
    y = smcpn.simulate(drive, silent, {"m": 1.5}, observe="v")
    noise = NOISE * np.random.default_rng(seed).normal(size=y.shape)
    return smcpn.Record(u=silent.u, y=y + noise, dt=INTERVAL)


def unknown_in(friction: UnknownFunction, seed: int = 0) -> smcpn.Problem:
    """The drive with an unknown friction, and its record."""

    @smcpn.ode
    def unknown(v, u, *, m, f: Any = friction):
        return (u - f(v)) / m

    prior = {"m": cast(Any, stats.lognorm(1.0))}
    return smcpn.Problem(unknown, record(seed), observe="v", noise=NOISE, prior=prior)


def approximated(friction: UnknownFunction) -> tuple[smcpn.Laplace, Array]:
    """Return the Laplace approximation, and draws of the friction at `PLACES` from it."""
    problem = unknown_in(friction)
    found = smcpn.laplace(problem, solver=SOLVER)
    columns = [problem.names.index("f" + of) for of in friction.priors]
    return found, friction.values(PLACES, found.draw(1000, seed=1)[:, columns])


@study("families")
def operations(quick: bool) -> Iterator[Row]:
    """Operations of one evaluation, where what the parameters alone determine is known."""
    for name, function, most in (
        ("spline, odd, 12 knots", smcpn.spline("v", within=WITHIN, odd=True), 70),
        ("spline, 12 knots", smcpn.spline("v", within=WITHIN), 120),
        ("Gaussian process, 20 features", smcpn.gaussian_process("v", within=WITHIN), 80),
        ("network, 481 weights", smcpn.network("v", within=WITHIN), 1000),
    ):
        v, parameters = ca.SX.sym("v"), ca.SX.sym("p", len(function.priors))
        inputs = [Vector(parameters, "p", Level.PARTICLE), Vector(v, "m", Level.LANE)]
        found = lower(function.graph([v], parameters), inputs, "a")
        yield at_most(f"operations: {name}", len(found.by_level[Level.LANE]), most)


@study("sizes", quick=None)
def sizes(_: bool) -> Iterator[Row]:
    """The same friction from priors whose size is right, and wrong by a factor of 100."""
    options: dict[str, Any] = {"within": WITHIN, "odd": True}
    right, draws = approximated(smcpn.spline("v", **options))
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    for size in (100.0, 0.01):
        other, moved = approximated(smcpn.spline("v", size=size, **options))
        shift = np.abs(moved.mean(axis=0) - mean) / sd
        yield at_most(
            f"size {size:g} for 1: largest shift of the curve in sd",
            float(shift.max()),
            0.5,
            f"sd x {float(np.median(moved.std(axis=0) / sd)):.2f}, "
            f"log-evidence {other.log_evidence - right.log_evidence:+.1f}",
        )


class Covered(NamedTuple):
    """Coverage of the band of an unknown function over the visited range of one record.

    `chance` is the probability of one below `HELD` if the posterior is right: its own draws have
    it. Errors at neighbouring places are nearly one, so that this is not rare.
    """

    share: float
    warned: bool
    chance: float


def covered(of: tuple[int, int]) -> Covered:
    """Return how far the band of a network holds, for a record and a seed of the run."""
    number, seed = of
    problem = unknown_in(smcpn.network("v", hidden=(6, 6), within=WITHIN), number)
    found = smcpn.identify(problem, seed=seed, progress=False)
    y = problem.records[0].y
    places = np.linspace(y.min(), y.max(), 101)
    function: UnknownFunction = found.problem.ode.functions["f"].function
    columns = [found.problem.names.index("f" + of) for of in function.priors]
    rng = np.random.default_rng(0)
    drawn = rng.choice(len(found.weights), DRAWS, p=found.weights / found.weights.sum())
    functions = function.values(places, found.values[drawn][:, columns])
    low, high = np.quantile(functions, [0.025, 0.975], axis=0)
    truth, *shares = ((low <= f) & (f <= high) for f in (law(places), *functions))
    held = np.mean(shares, axis=1)
    return Covered(float(truth.mean()), bool(found.warnings), float(np.mean(held < HELD)))


@study("networks", quick=None)
def networks(quick: bool) -> Iterator[Row]:
    """Coverage of the 95 % band of a small network over the visited range, record by record."""
    runs = [(number, number) for number in range(12)]
    again = [(AMBIGUOUS, seed) for seed in range(20, 24)]
    found = list(each(covered, runs + again))
    for (number, seed), one in zip(runs + again, found, strict=True):
        name, note = f"network, record {number}, seed {seed}: coverage", "warned" * one.warned
        yield Row(name, one.share, f">= {HELD:.2f}", one.share >= HELD or one.warned, note)
    records = found[: len(runs)]
    shares = np.array([one.share for one in records])
    note = f"standard error {shares.std(ddof=1) / np.sqrt(len(shares)):.3f}"
    mean = float(shares.mean())
    yield at_least("network: mean coverage of the records", mean, 0.93, note)
    chances = sum(one.chance for one in records)
    name = "network: records below 0.88, over what right bands are expected to have"
    yield Row(name, float((shares < HELD).sum() / chances), note=f"{chances:.1f} expected")
