"""Problems of the studies, their runs, and what is compared of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.bytes.digest import digest, of_posterior
from smcpn.results.posterior import Posterior
from smcpn.smc.distributed import workers


@smcpn.ode
def duffing(x, v, u, *, c, k, k3):
    """Driven oscillator with a hardening spring."""
    return v, u - c * v - k * x - k3 * x**3


@smcpn.sde
def disturbed(x, *, c, s):
    """Decay that noise disturbs."""
    return -c * x, s


@cache
def oscillation(samples: int) -> smcpn.Problem:
    """The oscillator with so many samples."""
    u = 2.0 * np.sin(0.02 * np.arange(samples) ** 1.2)
    record = smcpn.Record(u=u, dt=0.1)
    y = smcpn.simulate(duffing, record, {"c": 0.3, "k": 2.0, "k3": 0.5}, observe="x")
    y += 0.02 * np.random.default_rng(0).normal(size=y.shape)
    prior: dict[str, Any] = {name: stats.lognorm(1.0) for name in ("c", "k", "k3")}
    record = smcpn.Record(u=u, y=y, dt=0.1)
    return smcpn.Problem(duffing, record, observe="x", noise=0.02, prior=prior)


drag = smcpn.spline("v", knots=5, within=(-2, 2), odd=True)
fine_drag = smcpn.spline("v", knots=24, within=(-3, 3))


@smcpn.ode
def dragged(x, v, u, *, k, drag):
    """Driven oscillator whose drag is unknown."""
    return v, u - drag(v) - k * x


@smcpn.ode
def finely_dragged(x, v, u, *, k, fine_drag):
    """The same with so many parameters that moves follow gradients, by reverse passes."""
    return v, u - fine_drag(v) - k * x


@cache
def closure(ode: Any = dragged) -> smcpn.Problem:
    """The oscillator with a spline for its drag."""
    record = oscillation(200).records[0]
    prior: dict[str, Any] = {"k": stats.lognorm(1.0)}
    return smcpn.Problem(ode, record, observe="x", noise=0.02, prior=prior)


@cache
def decay() -> smcpn.Problem:
    """The disturbed decay, for SMC^2."""
    y = np.random.default_rng(0).normal(size=100).cumsum() / 10 + 1.0
    prior: dict[str, Any] = {"c": stats.lognorm(0.5), "s": stats.lognorm(0.5)}
    record = smcpn.Record(y=y, dt=0.2)
    return smcpn.Problem(disturbed, record, observe="x", noise=0.3, initial={"x": 1.0}, prior=prior)


FEW_STEPS = smcpn.HamiltonianMonteCarlo(length=2, steps=4)
RUNS: dict[str, tuple[Callable[[], smcpn.Problem], dict[str, Any]]] = {
    "ibis": (partial(oscillation, 200), {"method": "ibis", "particles": 200}),
    "tempering": (partial(oscillation, 200), {"method": "tempering", "particles": 300}),
    "closure": (closure, {"method": "tempering", "particles": 100}),
    "gradients": (
        partial(closure, finely_dragged),
        {"method": "tempering", "moves": FEW_STEPS, "particles": 32},
    ),
    "smc2": (
        decay,
        {
            "likelihood": "particle", "state_particles": 32, "particles": 100,
            "solver": smcpn.RK4(2),
        },
    ),
}  # fmt: skip
"""Problems and options of the runs that are compared."""


def run(name: str, executor: Any = None, **options: Any) -> Posterior:
    """One of `RUNS`, of which every batch is sent away."""
    workers.HOME_SECONDS = 0.0
    problem, own = RUNS[name]
    given: dict[str, Any] = {"solver": smcpn.EKF0(steps=2)} | own | options
    return smcpn.identify(problem(), seed=1, progress=False, executor=executor, **given)


def found(name: str, executor: Any = None) -> str:
    """SHA-256 of what another method finds, of which every batch is sent away."""
    workers.HOME_SECONDS = 0.0
    if name == "discover":
        equations = smcpn.discover(
            oscillation(200).records, library="poly(3)", states=["x", "v"], observe=["x"],
            known={"x": "v"}, prior="horseshoe", particles=100, executor=executor,
        ).posterior  # fmt: skip
        assert equations is not None
        arrays = [equations.coefficients, equations.weights]
    elif name == "nuts":
        chains = smcpn.nuts(
            oscillation(200), 50, tune=50, solver=smcpn.EKF0(steps=2), seed=1, progress=False,
            executor=executor,
        )  # fmt: skip
        arrays = [chains.theta, chains.statistics.energy]
    else:
        mode = smcpn.laplace(oscillation(200), solver=smcpn.EKF0(steps=2), executor=executor)
        arrays = [mode.mode, mode.covariance]
    return digest(arrays)


METHODS = ("laplace", "discover", "nuts")
"""Of `found`."""


@cache
def alone(name: str) -> str:
    """Digest of a run, or of another method, in this process."""
    return found(name) if name in METHODS else of_posterior(run(name))
