"""Models with algebraic equations, against the same with the equations solved by other means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import smcpn
from benchmarks.rows import Row, at_least, at_most
from benchmarks.stiff.classics import CLASSICS
from benchmarks.study import study

Array = NDArray[np.float64]

LEAKAGE, THERMAL = 1e-14, 0.02585
LEAST_P = 1e-3


@dataclass(frozen=True)
class Algebraic:
    """A model with algebraic equations, and the equation with their variables solved.

    initial: A number for each algebraic variable is where Newton's iteration begins.
    record: Times and inputs.
    rate: Of differential states, inputs and parameters: their derivatives.
    solved: Of the same: all states.
    noise: Of all states, in the study of ranks.
    """

    ode: smcpn.ODE
    prior: dict[str, Any]
    initial: dict[str, float]
    record: smcpn.Record
    rate: Callable[..., list[float]]
    solved: Callable[..., list[float]]
    noise: float

    def exact(self, values: dict[str, float]) -> Array:
        """All states at the samples, (T, n), by SciPy's Radau."""
        record = self.record
        states = [name for name in self.ode.states if name not in self.ode.algebraic]
        x = np.array([self.initial.get(name, 0.0) for name in states])
        found = [self.solved(x, record.u[0], **values)]
        for k, (a, b) in enumerate(zip(record.t[:-1], record.t[1:], strict=True)):
            held = record.u[k]
            x = solve_ivp(
                lambda t, x, u=held: self.rate(x, u, **values), (a, b), x, "Radau",
                rtol=1e-10, atol=1e-14,
            ).y[:, -1]  # fmt: skip
            found.append(self.solved(x, record.u[k + 1], **values))
        return np.array(found)


@smcpn.ode(algebraic=["c"])
def robertson(a, b, c, *, rate):
    """Robertson's reactions, the third substance by conservation."""
    r1, r2, r3 = 0.04 * a, 1e4 * b * c, 3e7 * b**2
    return rate * (r2 - r1), rate * (r1 - r2 - r3), a + b + c - 1.0


def _robertson(x: Array, u: Array, *, rate: float) -> list[float]:
    a, b = x
    r1, r2, r3 = 0.04 * a, 1e4 * b * (1.0 - a - b), 3e7 * b**2
    return [rate * (r2 - r1), rate * (r1 - r2 - r3)]


@smcpn.ode(algebraic=["d"])
def rectifier(v, d, u, *, r, load):
    """A source charges a capacitor by a diode, the voltage of which is an implicit exponential."""
    current = LEAKAGE * np.expm1(d / THERMAL)
    return (current - v / load) / 1e-5, u - v - d - r * current


def _diode(x: Array, u: Array, *, r: float, load: float) -> list[float]:
    def residual(d: float) -> float:
        return u[0] - x[0] - d - r * LEAKAGE * np.expm1(min(d / THERMAL, 700.0))

    solve: Any = brentq
    return [x[0], solve(residual, -abs(u[0]) - abs(x[0]) - 1.0, 2.0, xtol=1e-15, rtol=1e-15)]


def _rectified(x: Array, u: Array, *, r: float, load: float) -> list[float]:
    current = LEAKAGE * np.expm1(_diode(x, u, r=r, load=load)[1] / THERMAL)
    return [(current - x[0] / load) / 1e-5]


@smcpn.ode(algebraic=["a"])
def reactor(m, p, a, u, *, k, binding):
    """A stirred tank in which a monomer a is in equilibrium with its dimer, which reacts."""
    made = k * binding * a**2
    return u - m - 2.0 * made, made - p, a + 2.0 * binding * a**2 - m


def _monomer(x: Array, u: Array, *, k: float, binding: float) -> list[float]:
    return [*x, (np.sqrt(1.0 + 8.0 * binding * x[0]) - 1.0) / (4.0 * binding)]


def _reacted(x: Array, u: Array, *, k: float, binding: float) -> list[float]:
    made = k * binding * _monomer(x, u, k=k, binding=binding)[-1] ** 2
    return [u[0] - x[0] - 2.0 * made, made - x[1]]


def _driven(samples: int, dt: float, size: float, offset: float = 0.0) -> smcpn.Record:
    rng = np.random.default_rng(1)
    u = offset + size * (np.sin(0.7 * np.arange(samples)) + 0.2 * rng.normal(size=samples))
    return smcpn.Record(u=u, dt=dt, hold="zoh")


MODELS = {
    "Robertson": Algebraic(
        robertson, {"rate": stats.lognorm(0.3)}, {"a": 1.0},
        smcpn.Record(t=CLASSICS["Robertson"].t[:8], y=np.zeros(8)), _robertson,
        lambda x, u, rate: [*x, 1.0 - x.sum()], 0.02,
    ),
    "diode": Algebraic(
        rectifier, {"r": stats.lognorm(0.5, scale=10.0), "load": stats.lognorm(0.5, scale=1e3)},
        {}, _driven(40, 1e-3, 3.0), _rectified, _diode, 0.02,
    ),
    "reactor": Algebraic(
        reactor, {"k": stats.lognorm(0.5, scale=2.0), "binding": stats.lognorm(0.5, scale=5.0)},
        {"a": 0.5}, _driven(40, 0.3, 0.8, 1.2), _reacted, _monomer, 0.02,
    ),
}  # fmt: skip


def problem(model: Algebraic, y: Array) -> smcpn.Problem:
    """All states measured, as ``y`` (T, n)."""
    record = model.record.with_outputs(y)
    return smcpn.Problem(
        model.ode, record, observe=list(model.ode.states), noise=model.noise, prior=model.prior,
        initial=model.initial,
    )  # fmt: skip


def _ranks(model: Algebraic, runs: int) -> Array:
    """Weight of the posterior below the truth, (runs, d), by the equation solved otherwise."""
    rng, ranks = np.random.default_rng(7), list[list[float]]()
    for seed in range(runs):
        truth = {name: float(one.rvs(random_state=rng)) for name, one in model.prior.items()}
        exact = model.exact(truth)
        y = exact + model.noise * rng.normal(size=exact.shape)
        found = smcpn.identify(problem(model, y), seed=seed, progress=False)
        ranks.append(
            [
                float(found.weights @ (found.values[:, j] < truth[n]))
                for j, n in enumerate(found.names)
            ]
        )
    return np.array(ranks)


@study("algebraic", full=(100, tuple(MODELS)), quick=(0, ()))
def algebraic(size: tuple[int, tuple[str, ...]]) -> Iterator[Row]:
    """Solutions with default settings, as of the ODE; ranks of the truth in posteriors."""
    runs, ranked = size
    for name, model in MODELS.items():
        values = {parameter: float(one.median()) for parameter, one in model.prior.items()}
        path = smcpn.simulate(
            model.ode, model.record, values, observe=list(model.ode.states), initial=model.initial
        )
        exact = model.exact(values)
        error = np.abs(path - exact).max(axis=0) / np.abs(exact).max(axis=0)
        yield at_most(f"{name}: error over the largest value", float(error.max()), 1e-6)
    for name in ranked:
        for parameter, ranks in zip(MODELS[name].prior, _ranks(MODELS[name], runs).T, strict=True):
            p = float(stats.kstest(ranks, "uniform").pvalue)
            yield at_least(f"{name}: p of uniform ranks, {parameter}", p, LEAST_P, f"{runs} runs")
