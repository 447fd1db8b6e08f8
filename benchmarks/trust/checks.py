"""Units, Laplace at a kink, and `validate()`: figures of whether a check says what is true."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import stats

import smcpn
from benchmarks.rows import Row, Study, at_most, between
from smcpn import RK4, Maximum, Problem, Record

NOISE = 0.05


@smcpn.ode
def leaking(x, u, *, k, g):
    """A decay, filled while the input is below g."""
    return -k * x + 3.0 * np.maximum(g - u, 0.0)


def _leaking_problem(u: np.ndarray, y: np.ndarray) -> Problem:
    return Problem(
        leaking,
        Record(u=u, y=y, dt=0.1, hold="zoh"),
        observe="x",
        noise=NOISE,
        prior={"k": stats.lognorm(0.5), "g": stats.lognorm(0.5, scale=0.6)},
        initial=[0.0],
    )


def _leaked(u: np.ndarray, k: float, g: float) -> np.ndarray:
    """Solve `leaking` exactly from zero, the input held over samples of 0.1."""
    x, kept = np.zeros(len(u)), np.exp(-0.1 * k)
    for n in range(len(u) - 1):
        x[n + 1] = kept * x[n] + (1.0 - kept) * 3.0 * max(g - u[n], 0.0) / k
    return x


def kinked_maximum(seed: int = 0, samples: int = 200) -> Maximum:
    """Mode of a posterior with a kink beside it, a ten thousandth of a standard error away.

    The input of one sample is moved to where, at the mode, it is about to act. Beyond the kink
    the log density rises, so that differences of gradients across it say that it has no maximum.
    """
    rng = np.random.default_rng(seed)
    u = rng.uniform(0.0, 1.0, samples)
    u[samples // 2 :: 20] = 5.0
    y = _leaked(u, k=1.0, g=0.6) + NOISE * rng.standard_normal(samples)
    first = smcpn.maximise(_leaking_problem(u, y), solver=RK4(2))
    sd = smcpn.laplace(first).sd["g"]
    for k in range(samples // 2, samples - 20, 20):
        level = u.copy()
        level[k] = first["g"] + 1e-4 * sd
        problem = _leaking_problem(level, y)
        moved = smcpn.LogLikelihood(problem, solver=RK4(2))
        slope = moved.value_and_gradient(first.values[None, :] + [[0.0, 1e-3 * sd]])[1][0, 1]
        if slope * sd > 0.02:
            return smcpn.maximise(problem, solver=RK4(2), starts=first.values)
    raise ValueError(f"seed {seed} has no sample after which the residuals are of one sign")


def kink(quick: bool) -> Iterator[Row]:
    """Laplace's standard deviations beside those of a sampler."""
    maximum = kinked_maximum()
    found = smcpn.laplace(maximum)
    posterior = smcpn.identify(
        maximum.problem, solver=RK4(2), particles=1000 if quick else 4000, seed=1
    )
    yield at_most("directions replaced, missing from the text", float(not found.gauss_newton), 0)
    for row in found.compare(posterior).rows:
        yield between(f"sd of {row.name}, Laplace over IBIS", row.sd_ratio, 0.9, 1.1)


STUDIES: dict[str, Study] = {"laplace at a kink": kink}
