"""Problems of the studies, their runs, and what is compared of them."""

from __future__ import annotations

import hashlib
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from smcpn.distributed import workers
from smcpn.results.posterior import Posterior


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


@smcpn.ode
def dragged(x, v, u, *, k, drag):
    """Driven oscillator whose drag is unknown."""
    return v, u - drag(v) - k * x


@cache
def closure() -> smcpn.Problem:
    """The oscillator with a spline for its drag."""
    record = oscillation(200).records[0]
    prior: dict[str, Any] = {"k": stats.lognorm(1.0)}
    return smcpn.Problem(dragged, record, observe="x", noise=0.02, prior=prior)


@cache
def decay() -> smcpn.Problem:
    """The disturbed decay, for SMC^2."""
    y = np.random.default_rng(0).normal(size=100).cumsum() / 10 + 1.0
    prior: dict[str, Any] = {"c": stats.lognorm(0.5), "s": stats.lognorm(0.5)}
    record = smcpn.Record(y=y, dt=0.2)
    return smcpn.Problem(disturbed, record, observe="x", noise=0.3, initial={"x": 1.0}, prior=prior)


RUNS: dict[str, dict[str, Any]] = {
    "ibis": {"method": "ibis", "particles": 200},
    "tempering": {"method": "tempering", "particles": 300},
    "closure": {"method": "tempering", "particles": 100},
    "smc2": {"likelihood": "particle", "state_particles": 32, "particles": 100},
}
"""Options of the runs that are compared."""


def run(name: str, executor: Any = None, **options: Any) -> Posterior:
    """One of `RUNS`, of which every batch is sent away."""
    workers.HOME_SECONDS = 0.0
    problem = {"smc2": decay, "closure": closure}.get(name, partial(oscillation, 200))()
    solver = smcpn.RK4(2) if name == "smc2" else smcpn.EKF0(steps=2)
    return smcpn.identify(
        problem, solver=solver, seed=1, progress=False, executor=executor, **RUNS[name], **options
    )


def digest(posterior: Posterior) -> str:
    """SHA-256 of particles, weights and evidence."""
    arrays = [posterior.theta, posterior.log_weights, posterior.log_likelihood]
    content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    evidence = np.float64(posterior.log_evidence).tobytes()
    return hashlib.sha256(content + evidence).hexdigest()


@cache
def alone(name: str) -> str:
    """Digest of a run in this process."""
    return digest(run(name))
