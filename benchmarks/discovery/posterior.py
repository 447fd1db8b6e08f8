"""The posterior of supports by whole trajectories: time, the sequel's record, and all supports."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.integrate import solve_ivp
from scipy.special import softmax

import smcpn
from benchmarks.discovery.systems import FIRST_SEED
from benchmarks.rows import Row, Study, at_least, at_most
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.search.regression import BetaBinomial
from smcpn.discovery.search.search import search
from smcpn.discovery.supports.sampling import INITIAL_SPREAD, NOISE_SPREAD, sample_posterior

Array = NDArray[np.float64]

TRUTH = {"x'[x]": 1.0, "x'[x y]": -0.1, "y'[y]": -1.5, "y'[x y]": 0.75}
PUBLISHED = {"x'[x]": 0.259, "x'[x y]": 0.010, "y'[y]": 0.252, "y'[x y]": 0.047}
"""What the sequel's NUTS prints behind +- (.786, -.102, -1.587, .710)."""
PARTICLES = 5000
"""Of the sequel."""


def _lotka_volterra(t: Array) -> Array:
    def rate(_: float, x: Array) -> list[float]:
        return [x[0] - 0.1 * x[0] * x[1], -1.5 * x[1] + 0.75 * x[0] * x[1]]

    return solve_ivp(rate, (0.0, t[-1]), (5.0, 5.0), t_eval=t, rtol=1e-10, atol=1e-12).y.T


def _noisy(x: Array, share: float, seed: int) -> Array:
    rng = np.random.default_rng(FIRST_SEED + seed)
    return x + share * x.std(axis=0) * rng.normal(size=x.shape)


def duration(quick: bool) -> Iterator[Row]:
    """Lotka-Volterra with 20 terms and 1000 samples, 3 % noise, the second call."""
    t = np.linspace(0.0, 25.0, 1000)
    record = smcpn.Record(y=_noisy(_lotka_volterra(t), 0.03, 0), t=t)
    taken = {}
    for name, method in (("first call", "smc"), ("warm", "smc"), ("search alone", "search")):
        begin = time.perf_counter()
        found = smcpn.discover(
            record, library=smcpn.polynomials(3), states=("x", "y"), method=method, seed=1,
            threads=1,
        )  # fmt: skip
        taken[name] = time.perf_counter() - begin
        if name == "warm":
            assert found.posterior is not None
            yield Row("effective draws of 1000", found.posterior.ess)
            yield at_least("right support", found.models[0].names == tuple(TRUTH), 1)
    yield at_most("seconds, warm, one core", taken["warm"], 5.0)
    yield Row("seconds of the first call, with kernels compiled or read", taken["first call"])
    yield Row("seconds of the search in it", taken["search alone"])


def sequel(quick: bool) -> Iterator[Row]:
    """Lotka-Volterra of the sequel: states in turns, nine samples left out, 10 % noise."""
    t = np.linspace(0.0, 16.5, 111)
    x = _lotka_volterra(t)
    powers = [smcpn.polynomials(3, variables=[name], constant=False) for name in "xy"]
    linear = [smcpn.polynomials(1, variables=[name], constant=False) for name in "xy"]
    library = powers[0] + powers[1] + linear[0] * linear[1]
    seeds = 2 if quick else 20
    covered = dict.fromkeys(TRUTH, 0)
    ess, taken = list[float](), list[float]()
    widths: dict[str, list[float]] = {name: [] for name in TRUTH}
    for seed in range(seeds):
        y = _noisy(x, 0.1, seed)
        y[1::2, 0] = y[0::2, 1] = y[1:10] = np.nan
        record = smcpn.Record(y=y, t=t)
        begin = time.perf_counter()
        found = smcpn.discover(
            record, library=library, states=("x", "y"), particles=PARTICLES, seed=1, threads=1
        )
        taken.append(time.perf_counter() - begin)
        assert found.posterior is not None
        ess.append(found.posterior.ess)
        for name, value in TRUTH.items():
            one = found.coefficients[name]
            covered[name] += one.lower <= value <= one.upper
            widths[name].append(one.sd)
    for name in TRUTH:
        note = f"sd {np.median(widths[name]):.2g}, theirs {PUBLISHED[name]:.2g}"
        yield Row(f"truth in the 95 % interval: {name}", covered[name] / seeds, note=note)
    pooled = sum(covered.values()) / (4 * seeds)
    yield at_least("truth in the 95 % intervals, pooled", pooled, 0.9, f"{seeds} seeds")
    yield at_least("effective draws, least", min(ess), 1000.0, f"of {PARTICLES}")
    yield at_most("seconds, warm, median", float(np.median(taken[1:])), 10.0)


def every_support(quick: bool) -> Iterator[Row]:
    """All supports of four terms: evidence of each by `identify`, and of the sampler."""
    slab, outputs = 3.0, ["x"]
    rng = np.random.default_rng(FIRST_SEED)
    t = np.linspace(0.0, 8.0, 40)
    x = 1.6 / (1.0 + 15.0 * np.exp(-0.8 * t))
    record = smcpn.Record(y=x + 0.1 * rng.normal(size=len(t)), t=t)
    system = CandidateSystem.of(smcpn.polynomials(3), ["x"])
    found = search([record], system, slabs=(slab,))
    drawn = sample_posterior(
        system, [record], outputs, found, slabs=(slab,), particles=4000, replicates=4, seed=1
    )
    prior = BetaBinomial(np.asarray(system.candidates.degrees)[system.places[:, 1]])
    sd, begin = float(found.noise[0]), float(found.models[0].initial[0, 0])
    scores, supports = [], np.array(list(product([False, True], repeat=4)))
    for support in supports:
        names = np.array(system.coefficients)[support]
        scale = slab * found.slab[support]
        given: Mapping[str, Any] = {
            n: stats.norm(0.0, s) for n, s in zip(names, scale, strict=True)
        }
        given["sd"] = stats.lognorm(NOISE_SPREAD, scale=sd)
        problem = smcpn.Problem(
            system.equation(support), record, observe="x", noise="sd",
            prior=given,
            initial=[stats.norm(begin, INITIAL_SPREAD * sd)],
        )  # fmt: skip
        posterior = smcpn.identify(
            problem, particles=500 if quick else 4000, solver=drawn.solver, seed=1,
            method="tempering", progress=False,
        )  # fmt: skip
        scores.append(posterior.log_evidence + prior.log_probability(support))
    probabilities = softmax(scores)
    inclusion = probabilities @ supports
    for k, name in enumerate(system.coefficients):
        note = f"se {drawn.inclusion_se[k]:.4f}, by all supports {inclusion[k]:.4f}"
        yield Row(f"inclusion of {name}", float(drawn.inclusion[k]), note=note)
    worst = float(np.abs(drawn.inclusion - inclusion).max())
    yield at_most("largest difference of inclusion", worst, 0.05 if quick else 0.02)
    total = float(np.logaddexp.reduce(scores))
    note = f"{drawn.log_evidence:.3f} +- {drawn.log_evidence_se:.3f}, by all supports {total:.3f}"
    yield at_most("difference of log-evidence", abs(drawn.log_evidence - total), 0.2, note)


STUDIES: dict[str, Study] = {
    "posterior-time": duration,
    "sequel": sequel,
    "every-support": every_support,
}
