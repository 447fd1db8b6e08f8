"""The posterior of a record: how long `identify` takes by default, how often it weighs, if right.

IBIS and tempering from the prior are what they were: `method="ibis"` does the work of the default
of the commit before this one.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.rows import ERRORS, Row, at_least, at_most, unjudged
from benchmarks.study import study
from benchmarks.trust.starts import two_signs
from benchmarks.trust.steps import pendulum_problem
from smcpn.cases import load_case

Array = NDArray[np.float64]
QUICK_SAMPLES = 2000
RMS, QUICK_SEEDS, QUICK_RMS = 1.25, 3, 2.8
"""Of z, and what chance leaves of three: their reference is one run, as uncertain as they are, so
that one in a thousand right samplers exceeds it."""


def identified(problem: smcpn.Problem, **options: Any) -> smcpn.Posterior:
    """Identify, with warnings kept in the posterior only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", smcpn.SamplerWarning)
        return smcpn.identify(problem, progress=False, **options)


def official(quick: bool) -> smcpn.Problem:
    """The problem of ``identify silverbox --split official``."""
    problem = load_case("silverbox", split="official").problem
    return problem.with_records([problem.records[0][:QUICK_SAMPLES]]) if quick else problem


@study("identify_long")
def identify_long(quick: bool) -> Iterator[Row]:
    """IBIS over the default, each compiled before; particles by default."""
    problem, solver = official(quick), smcpn.EKF0(order=3, steps=8)
    short = problem.with_records([problem.records[0][:300]])
    starts = {"auto": "auto", "ibis": None}
    for method in starts:
        identified(short, solver=solver, method=method, particles=2000, start=starts[method])
    auto = [identified(problem, solver=solver, seed=seed) for seed in range(3)]
    ibis = identified(problem, solver=solver, method="ibis", seed=0)
    seconds = float(np.median([one.timing.wall for one in auto]))
    ratio = ibis.timing.wall / seconds
    note = f"{ibis.timing.wall:.3g} s ({_weighings(ibis)[0]:.3g} weighings) over {seconds:.3g} s"
    row = at_least("time of IBIS over auto", ratio, 15.0, note)
    yield unjudged(row, "on a short record most of the time is Python's") if quick else row
    for what, weighings in (
        ("weighings", [_weighings(one)[0] for one in auto]),
        ("with its searches", [sum(_weighings(one)) for one in auto]),
    ):
        yield at_most(what, max(weighings), 6.0, f"{problem.n_samples} samples")
    sd = np.array(list(ibis.sd.values()))
    means = np.array([list(one.mean.values()) for one in auto]).mean(axis=0)
    off = np.abs(means - list(ibis.mean.values())) / sd
    spread = np.array([list(one.sd.values()) for one in auto]).mean(axis=0) / sd - 1.0
    noise = np.sqrt(1.0 / ibis.ess + 1.0 / sum(one.ess for one in auto))
    # One run of IBIS is no exact answer: standard errors of the difference are allowed beside.
    errors = ERRORS if quick else 2.0
    for what, difference, limit, error in (
        ("means, posterior sd", off, 0.1, noise),
        ("sd, relative", spread, 0.05, noise / np.sqrt(2.0)),
    ):
        allowed = round(float(limit + errors * error), 3)
        note = f"{limit:g} and {errors:g} errors of {error:.2g}"
        yield at_most(what, float(np.abs(difference).max()), allowed, note)
    evidence = float(np.mean([one.log_evidence for one in auto])) - ibis.log_evidence
    yield at_most("log-evidence", abs(evidence), 0.1, f"claimed by IBIS {ibis.log_evidence_se:.2g}")


def _weighings(posterior: smcpn.Posterior) -> tuple[float, float]:
    assert posterior.method is not None
    return posterior.method.weighings, posterior.method.search_weighings


@smcpn.ode
def product_decay(x, *, a, b):
    """Decay at the rate a squared + b: a curved ridge, bent by the sign of a's slope."""
    return -(a**2 + b) * x


def banana() -> smcpn.Problem:
    """Posterior along a parabola, several prior sd long."""
    t = np.arange(21) / 10
    y = np.exp(-1.2 * t) + 0.02 * np.random.default_rng(1).normal(size=21)
    prior: dict[str, Any] = {"a": stats.norm(0.5, 0.5), "b": stats.norm(0.7, 0.5)}
    return smcpn.Problem(
        product_decay, smcpn.Record(t=t, y=y), observe="x", noise=0.02, initial=[1.0],
        prior=prior,
    )  # fmt: skip


def flat_pendulum() -> smcpn.Problem:
    """The prior tells as much as the data: noise half as large as the swing."""
    noise = 0.5 * np.random.default_rng(2).normal(size=(30, 1))
    record = smcpn.Record(y=np.zeros(30), dt=0.4)
    swing = smcpn.simulate(
        pendulum_problem(np.zeros(30), 0.5).ode, record, {"k": 1.1, "c": 0.3}, observe="x",
        initial=[1.2, 0.0], steps=32,
    )  # fmt: skip
    return pendulum_problem(swing + noise, 0.5)


def many_parameters(d: int = 25) -> smcpn.Problem:
    """A linear regression as an ODE: the slope of x is the sum of d inputs, each with a factor."""
    names = [f"theta{j}" for j in range(d)]

    def slope(x: Any, *inputs: Any, **factors: Any) -> Any:
        return sum((u * factors[name] for u, name in zip(inputs, names, strict=True)), 0.0 * x)

    kinds = inspect.Parameter
    arguments = [
        kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in ["x", *map("u{}".format, range(d))]
    ]
    arguments += [kinds(name, kinds.KEYWORD_ONLY) for name in names]
    slope.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
    slope.__name__, slope.__doc__ = "regression", "A sum of inputs."
    rng = np.random.default_rng(0)
    u = rng.normal(size=(120, d))
    ode, record = smcpn.ode(slope), smcpn.Record(u=u, dt=1.0)
    truth = dict(zip(names, rng.normal(size=d).tolist(), strict=True))
    y = smcpn.simulate(ode, record, truth, observe="x", initial=[0.0])
    y = y + 2.0 * rng.normal(size=y.shape)
    prior: dict[str, Any] = dict.fromkeys(names, stats.norm())
    return smcpn.Problem(
        ode, smcpn.Record(u=u, y=y, dt=1.0), observe="x", noise=2.0, initial=[0.0],
        prior=prior,
    )  # fmt: skip


def bouc_wen() -> smcpn.Problem:
    """The ridge of beta, gamma and delta, from the first half second."""
    problem = load_case("bouc-wen").problem
    return problem.with_records([problem.records[0][:2048]])


RIGHT: Mapping[str, tuple[Callable[[], smcpn.Problem], smcpn.RK4]] = {
    "two modes": (two_signs, smcpn.RK4(2)),
    "banana": (banana, smcpn.RK4(2)),
    "flat pendulum": (flat_pendulum, smcpn.RK4(4)),
    "25 parameters": (many_parameters, smcpn.RK4(1)),
    "ridge": (bouc_wen, smcpn.RK4(2)),
}
WIDTH = 0.1
"""Relative error of the standard deviation of b1 above which a run on the resonator has to warn."""


@study("auto_right")
def auto_right(quick: bool) -> Iterator[Row]:
    """Means and evidence of the default from a start, against tempering from the prior."""
    for name, (make, solver) in RIGHT.items():
        yield from _right(
            name, make(), solver, QUICK_SEEDS if quick else 20, 3000 if quick else 10_000
        )


def _right(
    name: str, problem: smcpn.Problem, solver: smcpn.RK4, seeds: int, particles: int
) -> Iterator[Row]:
    reference = identified(problem, solver=solver, method="tempering", particles=particles, seed=99)
    runs = [_started(problem, solver, seed) for seed in range(seeds)]
    told = sum(bool(run.method and run.method.fallback) for run in runs)
    z = np.array([_z_of_means(run, reference) for run in runs])
    errors = [np.hypot(run.log_evidence_se, reference.log_evidence_se) for run in runs]
    evidence = np.array([run.log_evidence - reference.log_evidence for run in runs]) / errors
    weighings = np.median([_weighings(run)[0] for run in runs])
    note = f"{told} of {seeds} fell back and said so, {weighings:.2g} weighings"
    limit = QUICK_RMS if seeds == QUICK_SEEDS else RMS
    yield at_most(f"{name}, z rms of means", _rms(z), limit, note)
    yield at_most(f"{name}, z rms of evidence", _rms(evidence), limit, note)


def _started(problem: smcpn.Problem, solver: smcpn.RK4, seed: int) -> smcpn.Posterior:
    """By the default with a start, on a short record too."""
    return identified(problem, solver=solver, method="auto", start="auto", seed=seed)


def _rms(z: Array) -> float:
    return float(np.sqrt(np.mean(np.square(z))))


def _z_of_means(run: smcpn.Posterior, reference: smcpn.Posterior) -> Array:
    """Difference of the means of the unconstrained coordinates, in its standard error, (d,)."""
    (mean, error), (other, its_error) = _mean_and_error(run), _mean_and_error(reference)
    return (mean - other) / np.hypot(error, its_error)


def _mean_and_error(posterior: smcpn.Posterior) -> tuple[Array, Array]:
    """Of self-normalised importance sampling, where copies of a particle count as one."""
    _, first, copies = np.unique(posterior.theta[:, 0], return_index=True, return_inverse=True)
    theta, weights = posterior.theta[first], np.bincount(copies, weights=posterior.weights)
    mean = weights @ theta
    return mean, np.sqrt(np.square(weights) @ np.square(theta - mean))


PEAK = """
import smcpn
from benchmarks.memory import peak_memory
from benchmarks.seconds.identify import identified, official
identified(official(%r), solver=smcpn.EKF0(order=3, steps=8), seed=0)
print(peak_memory() / 1e6)
"""


@study("memory")
def memory(quick: bool) -> Iterator[Row]:
    """Peak of a process that identifies the long record, in megabytes."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK % quick], capture_output=True, text=True, check=True
    )
    yield at_most("identify, MB", float(done.stdout.split()[-1]), 320.0)
