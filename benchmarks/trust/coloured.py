"""Coverage of the 90 % intervals where the noise is correlated from sample to sample.

A linear system, x' = gain u - rate x, is measured 60 times with stationary noise whose correlation
between neighbouring samples is about .9. The parameters of each record are drawn from the prior, so
that intervals of the right model cover in 90 % of the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.executors import each
from benchmarks.rows import Row, between
from benchmarks.study import study

SAMPLES, DT, PARTICLES = 60, 0.5, 300
RECORDS, QUICK_RECORDS = 200, 12
PRIOR: dict[str, Any] = {
    "rate": stats.lognorm(0.5, scale=0.4),
    "gain": stats.lognorm(0.5),
    "sigma": stats.lognorm(0.5, scale=0.05),
}
CORRELATED = PRIOR | {"rho": stats.beta(27.0, 3.0)}


@smcpn.ode
def relaxation(x, u, *, rate, gain):
    """First-order lag with an input."""
    return gain * u - rate * x


def coloured_record(rng: np.random.Generator, truth: dict[str, float]) -> smcpn.Record:
    """Return a record of the system from rest, with an input that changes every ten samples."""
    u = np.repeat(rng.uniform(0.0, 1.0, SAMPLES // 10), 10)
    system = {name: truth[name] for name in ("rate", "gain")}
    silent = smcpn.Record(u=u, dt=DT, hold="zoh")
    clean = smcpn.simulate(relaxation, silent, system, observe="x", steps=4)[:, 0]
    noise, rho = truth["sigma"] * rng.standard_normal(SAMPLES), truth["rho"]
    for k in range(1, SAMPLES):
        noise[k] = rho * noise[k - 1] + np.sqrt(1.0 - rho**2) * noise[k]
    return smcpn.Record(u=u, y=clean + noise, dt=DT, hold="zoh")


def covered(
    record: smcpn.Record, noise: str | smcpn.AR1, prior: dict[str, Any], truth: dict[str, float]
) -> list[bool]:
    """Whether the 90 % interval of each parameter holds the true value."""
    problem = smcpn.Problem(relaxation, record, observe="x", noise=noise, prior=prior)
    posterior = smcpn.identify(
        problem, solver=smcpn.RK4(4), particles=PARTICLES, seed=1, progress=False
    )
    intervals = {name: posterior.quantile(name, [0.05, 0.95]) for name in posterior.names}
    return [bool(low <= truth[name] <= high) for name, (low, high) in intervals.items()]


def _covered_by_both(case: tuple[smcpn.Record, dict[str, float]]) -> tuple[list[bool], list[bool]]:
    record, truth = case
    white = covered(record, "sigma", PRIOR, truth)
    return white, covered(record, smcpn.AR1("sigma", "rho"), CORRELATED, truth)


@study("coloured", full=RECORDS, quick=QUICK_RECORDS)
def coverage(records: int) -> Iterator[Row]:
    """Share of intervals that hold the true value, over all parameters, by noise model."""
    rng, cases = np.random.default_rng(0), []
    for _ in range(records):
        truth = {name: float(p.rvs(random_state=rng)) for name, p in CORRELATED.items()}
        cases.append((coloured_record(rng, truth), truth))
    white, coloured = zip(*each(_covered_by_both, cases), strict=True)
    yield Row("white noise model", float(np.mean(white)), note=_by_parameter(PRIOR, white))
    share, note = float(np.mean(coloured)), _by_parameter(CORRELATED, coloured)
    # Parameters of one record are not independent: the scatter is that of records.
    se = _error(coloured) if records < RECORDS else 0.0
    yield between("AR1", share, 0.86, 0.94, note, se)


def _by_parameter(prior: dict[str, Any], hits: Sequence[list[bool]]) -> str:
    """Coverage of each parameter, and the standard error of their mean over the records."""
    shares = zip(prior, np.mean(hits, axis=0), strict=True)
    return f"{', '.join(f'{name} {share:.2f}' for name, share in shares)}; se {_error(hits):.3f}"


def _error(hits: Sequence[list[bool]]) -> float:
    return float(np.std(np.mean(hits, axis=1)) / np.sqrt(len(hits)))
