"""Posteriors that no Gaussian resembles: at a bound, and along a hyperbola. Are the errors true."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.reference.answer import Answer
from benchmarks.reference.quadrature import quadrature
from benchmarks.reference.solutions import gaussian
from benchmarks.reference.target import Target
from benchmarks.rows import Row
from benchmarks.study import study
from benchmarks.trust.known import Known, Tolerance, counted, default, errors_told, outcomes
from benchmarks.trust.several_modes import clock

Array = NDArray[np.float64]

SAMPLES = 200
NOISE = 0.2 * np.sqrt(SAMPLES / 20)
FARTHEST = 4.0
"""Errors of the evidence beyond which a run has to warn."""
TOLERANCE = Tolerance(evidence=0.0, errors=FARTHEST)
SLOPES: Mapping[str, Any] = {"half-normal": stats.halfnorm(), "uniform(0, 3)": stats.uniform(0, 3)}
"""Priors of a slope that the data say to be about zero."""
FACTORS: Mapping[str, Any] = {"a": stats.norm(0, 1), "b": stats.norm(0.3, 1)}
FACTOR_NOISE = 0.1
LAPLACE_MEANS = 0.2
"""Posterior standard deviations that a mean by `laplace` may be off by."""


def line_data() -> tuple[Array, Array]:
    """Times and samples of noise alone."""
    t = np.arange(1, SAMPLES + 1) / SAMPLES
    return t, NOISE * np.random.default_rng(6).normal(size=SAMPLES)


def line_prior(slope: str) -> dict[str, Any]:
    """By the prior of the slope."""
    return {"a": SLOPES[slope], "c": stats.norm(0, 1)}


def line_problem(slope: str, seed: int = 0) -> smcpn.Problem:
    """Slope and offset; the data are the same for any seed."""
    t, y = line_data()
    return smcpn.Problem(
        clock, smcpn.Record(t=np.append(0.0, t), y=np.append(np.nan, y)),
        observe=lambda x, *, a, c: a * x + c, noise=float(NOISE), prior=line_prior(slope),
        initial=[0.0],
    )  # fmt: skip


def line_answer(slope: str, seed: int = 0) -> Answer:
    """By quadrature."""
    t, y = line_data()

    def log_likelihood(v: Mapping[str, Array]) -> Array:
        return gaussian(y, v["a"] * t[:, None] + v["c"], float(NOISE))

    target = Target(line_prior(slope), log_likelihood)
    return quadrature(target, {"a": (-8.0, 4.0, 401), "c": (-1.0, 1.0, 201)})


def line_known(slope: str) -> Known:
    """With a prior of the slope."""
    return Known(
        f"boundary, {slope}", partial(line_problem, slope), partial(line_answer, slope),
        tolerance=TOLERANCE, same_data=True,
    )  # fmt: skip


def product_data() -> tuple[Array, Array]:
    """Times and samples."""
    t = np.linspace(0.1, 2.0, 20)
    return t, 0.8 * t + FACTOR_NOISE * np.random.default_rng(3).normal(size=20)


def product_problem(seed: int = 0) -> smcpn.Problem:
    """Two factors of which the data know the product; the data are the same for any seed."""
    t, y = product_data()
    return smcpn.Problem(
        clock, smcpn.Record(t=np.append(0.0, t), y=np.append(np.nan, y)),
        observe=lambda x, *, a, b: a * b * x, noise=FACTOR_NOISE, prior=dict(FACTORS),
        initial=[0.0],
    )  # fmt: skip


def product_answer(seed: int = 0) -> Answer:
    """By quadrature: the product's likelihood is Gaussian."""
    t, y = product_data()
    best, precision = t @ y / (t @ t), t @ t / FACTOR_NOISE**2
    highest = float(gaussian(y, best * t[:, None], FACTOR_NOISE)[0])

    def log_likelihood(v: Mapping[str, Array]) -> Array:
        return highest - 0.5 * precision * np.square(v["a"] * v["b"] - best)

    axes = {"a": (-6.0, 6.0, 2401), "b": (-6.0, 6.0, 2401)}
    return quadrature(Target(FACTORS, log_likelihood), axes)


HYPERBOLA = Known("hyperbola", product_problem, product_answer, tolerance=TOLERANCE, same_data=True)


@study("boundary", full=80, quick=4)
def boundary(seeds: int) -> Iterator[Row]:
    """Both priors of the slope, over seeds of the run."""
    for slope in SLOPES:
        found = outcomes(line_known(slope), default, range(seeds))
        yield from counted(slope, found, 0.0, 80)
        yield from errors_told(slope, found, 80, FARTHEST, bias=0.01)


@study("hyperbola", full=80, quick=4)
def hyperbola(seeds: int) -> Iterator[Row]:
    """Over seeds of the run."""
    found = outcomes(HYPERBOLA, default, range(seeds))
    yield from counted("default", found, 0.0, 80)
    yield from errors_told("default", found, 80, FARTHEST, bias=0.01)


@study("laplace-at-the-boundary", full=5, quick=1)
def laplace_at_the_boundary(seeds: int) -> Iterator[Row]:
    """Means of `laplace` beside the exact ones, or a warning that they differ."""
    for slope in SLOPES:
        told = line_answer(slope)
        for seed in range(seeds):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = smcpn.laplace(line_problem(slope), seed=seed)
            off = {name: (found.mean[name] - told.mean[name]) / told.sd[name] for name in told.sd}
            worst, listed = max(map(abs, off.values())), f"{len(found.warnings)} warnings"
            listed = ", ".join(f"{name} {z:+.2f}" for name, z in off.items()) + f"; {listed}"
            right = worst <= LAPLACE_MEANS
            name = f"{slope}, seed {seed}: means off, sd"
            met = right or bool(found.warnings)
            yield Row(name, worst, f"<= {LAPLACE_MEANS:g} or warned", met, listed)
