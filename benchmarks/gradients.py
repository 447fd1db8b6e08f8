"""Time of values, gradients and Hessians of a likelihood.

FitzHugh-Nagumo with the data of the golden values: 800 steps, 41 observations of both states.
Eight directions: a, b, c, both initial values, both noises and the diffusion. rodeo is timed in the
same run where it is installed (it needs a folder of its own: it wants JAX).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.clock import best
from benchmarks.likelihood_peers import VARIANCE, rodeo_likelihood
from benchmarks.rows import Row, absent, at_least, told
from benchmarks.study import command, study
from smcpn import EKF0, EKF1, LogLikelihood, Problem, Record
from smcpn.codegen.kernel import KernelArrays
from smcpn.likelihood.registry import LIKELIHOODS
from tests.models import (
    FITZHUGH_NAGUMO,
    FITZHUGH_NAGUMO_START,
    fitzhugh_nagumo,
    fitzhugh_nagumo_problem,
)

Array = NDArray[np.float64]
Gradient = Callable[[], tuple[Array, Array]]

THETA = np.array([*FITZHUGH_NAGUMO, *FITZHUGH_NAGUMO_START, VARIANCE**0.5, VARIANCE**0.5, 1.0])
DIAGONAL = EKF1(2, 20, diffusion="kappa", jacobian="diagonal")
SOLVERS = {
    "EKF0": EKF0(2, 20, diffusion="kappa"),
    "EKF1 diagonal": DIAGONAL,
    "EKF1": EKF1(2, 20, diffusion="kappa"),
}
TARGET = 10
BATCH = 64


def golden_problem() -> Problem:
    """The golden problem with everything that can be learned as a parameter."""
    names = ("a", "b", "c", "V0", "R0", "s1", "s2", "kappa")
    prior: dict[str, Any] = {name: stats.lognorm(1.0) for name in names}
    prior |= {name: stats.norm(0.0, 2.0) for name in ("V0", "R0")}
    return Problem(
        fitzhugh_nagumo,
        Record(y=fitzhugh_nagumo_problem().records[0].y, dt=1.0),
        observe=["V", "R"],
        noise=["s1", "s2"],
        prior=prior,
        initial=["V0", "R0"],
        diffusion="kappa",
    )


@study("peer", full=30, quick=5)
def peer(repeats: int) -> Iterator[Row]:
    """Value and gradient at one theta, against rodeo's, which keeps the Jacobian's diagonal."""
    problem = golden_problem()
    for method in ("fenrir", "dalton"):
        function = LogLikelihood(problem, method, DIAGONAL)
        ours = _milliseconds(lambda f=function: f.value_and_gradient(THETA[None, :]), repeats)
        yield Row(f"{method}, ours, ms", ours)
        try:
            theirs = rodeo_gradients(problem.records[0].y, method)
        except ImportError:
            yield absent(f"{method}, rodeo / ours", "the package rodeo is not installed")
            continue
        # rodeo starts the third derivative at zero.
        same = LIKELIHOODS[method].build(problem, DIAGONAL, start_order=1).tangent()
        gradient = same.total(np.hstack([np.tile(THETA, (8, 1)), np.eye(8)]))[1]
        taken = {}
        for mode, call in theirs.items():
            off = np.abs(call()[1] / gradient - 1.0).max()
            yield Row(f"{method}, rodeo {mode}, gradient off by", off)
            taken[mode] = _milliseconds(call, repeats)
            yield Row(f"{method}, rodeo {mode}, ms", taken[mode])
        yield at_least(f"{method}, rodeo / ours", min(taken.values()) / ours, TARGET)


@study("latency", full=200, quick=20)
def latency(repeats: int) -> Iterator[Row]:
    """Milliseconds of a call with one theta, and in a batch; what Python adds to the kernel."""
    problem, results = golden_problem(), dict[str, float]()
    one, many = THETA[None, :], THETA * np.ones((BATCH, 1))
    for name, solver in SOLVERS.items():
        function = LogLikelihood(problem, "fenrir", solver, threads=1)
        whole = _milliseconds(lambda f=function: f.value_and_gradient(one), repeats)
        results[f"{name}, value, ms"] = _milliseconds(lambda f=function: f(one), repeats)
        results[f"{name}, value and gradient, ms"] = whole
        results[f"{name}, outside the kernel, ms"] = whole - _kernel_milliseconds(function, repeats)
        results[f"{name}, Hessian, ms"] = _milliseconds(lambda f=function: f.hessian(one), 5)
        batch = _milliseconds(lambda f=function: f.value_and_gradient(many), 5)
        results[f"{name}, value and gradient in a batch of {BATCH}, ms each"] = batch / BATCH
    yield from told(results)


def rodeo_gradients(y: Array, method: str) -> dict[str, Gradient]:
    """Value and gradient of rodeo by JAX, in both modes, compiled."""
    likelihood, jax = rodeo_likelihood(y, method), import_module("jax")

    def one(theta: Any) -> Any:
        return likelihood(theta[:3], theta[3:5], theta[5:7] ** 2, theta[7])

    reverse = jax.jit(jax.value_and_grad(one))
    forward = jax.jit(lambda theta: (one(theta), jax.jacfwd(one)(theta)))
    theta = jax.numpy.asarray(THETA)

    def call(function: Any) -> Gradient:
        def evaluate() -> tuple[Array, Array]:
            value, gradient = function(theta)
            return np.asarray(value), np.asarray(gradient)

        return evaluate

    return {"reverse": call(reverse), "forward": call(forward)}


def _kernel_milliseconds(function: LogLikelihood, repeats: int) -> float:
    """The compiled loop alone, without a copy or a check."""
    tangent = function.tangent
    kernel, rows = tangent._kernel, tangent.rows[0]
    theta = kernel.columns(np.hstack([np.tile(THETA, (8, 1)), np.eye(8)]).T)
    state = kernel.start(theta[: kernel.program.theta.numel()], rows)
    arrays = KernelArrays(theta, state, np.empty_like(state), None, None, np.empty((2, 8)))
    return _milliseconds(lambda: kernel._run(arrays, rows, (0, len(rows)), (0, 1)), repeats)


def _milliseconds(call: Callable[[], Any], repeats: int) -> float:
    return 1e3 * best(call, repeats)


if __name__ == "__main__":
    sys.exit(command(__name__))
