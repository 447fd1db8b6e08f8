"""Families of unknown functions: what an evaluation costs, and how far their priors may be off."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.rows import Row, Study, at_most
from smcpn.codegen.lower import Level, Vector, lower
from smcpn.functions.unknown import UnknownFunction

Array = NDArray[np.float64]
INTERVAL, NOISE, SOLVER = 0.02, 0.01, smcpn.RK4(steps=1)
WITHIN = (-1.2, 1.2)
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
def record() -> smcpn.Record:
    """Twenty seconds of a drive, its velocity measured with noise."""
    t = INTERVAL * np.arange(1000)
    silent = smcpn.Record(u=2.0 * np.sin(t) * np.sin(0.155 * t), dt=INTERVAL)
    y = smcpn.simulate(drive, silent, {"m": 1.5}, observe="v")
    noise = NOISE * np.random.default_rng(0).normal(size=y.shape)
    return smcpn.Record(u=silent.u, y=y + noise, dt=INTERVAL)


def approximated(friction: UnknownFunction) -> tuple[smcpn.Laplace, Array]:
    """Return the Laplace approximation, and draws of the friction at `PLACES` from it."""

    @smcpn.ode
    def unknown(v, u, *, m, f: Any = friction):
        return (u - f(v)) / m

    problem = smcpn.Problem(
        unknown, record(), observe="v", noise=NOISE, prior={"m": cast(Any, stats.lognorm(1.0))}
    )
    found = smcpn.laplace(problem, solver=SOLVER)
    columns = [problem.names.index("f" + of) for of in friction.priors]
    return found, friction.values(PLACES, found.draw(1000, seed=1)[:, columns])


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


def sizes(quick: bool) -> Iterator[Row]:
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


STUDIES: dict[str, Study] = {"families": operations, "sizes": sizes}
