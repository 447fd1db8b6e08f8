"""Cases of searches, gradients, NUTS, discoveries and solutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

import smcpn
import smcpn.sindy as ps
from benchmarks.bytes import problems
from benchmarks.bytes.runs import EKF0, arrays_of

PENDULUM = smcpn.polynomials(1) + smcpn.terms(np.sin)


def laplace(of: Callable[[], smcpn.Problem] = problems.oscillating, **options: Any) -> list[Any]:
    """Mode, factor of the covariance and evidence of a Laplace approximation."""
    result = smcpn.laplace(of(), seed=2, **options)
    return [result.mode, result.factor, result.log_evidence, arrays_of(result.to_posterior(50))]


def maximum(of: Callable[[], smcpn.Problem] = problems.oscillating, **options: Any) -> list[Any]:
    """A maximisation: where it ends, and the path there."""
    result = smcpn.maximise(of(), starts=4, seed=3, **options)
    return [result.values, result.path]


def gradient(of: Callable[[], smcpn.Problem], **options: Any) -> list[Any]:
    """Values and gradients of a log-likelihood at draws of the prior."""
    problem = of()
    theta = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), 10))
    return [*smcpn.LogLikelihood(problem, **options).value_and_gradient(theta)]


def nuts(of: Callable[[], smcpn.Problem] = problems.short) -> list[Any]:
    """Draws of two chains of NUTS."""
    solver = smcpn.RK4(steps=2)
    result = smcpn.nuts(of(), 50, tune=50, chains=2, solver=solver, seed=1, progress=False)
    return [result.theta, result.log_weights]


def linearised_network() -> list[Any]:
    """A search with a network, and one that is linear in its weights about it."""
    of = partial(problems.short, problems.with_network)
    found = smcpn.maximise(of(), solver=smcpn.RK4(steps=1), starts=2, seed=3)
    return [found.values, *maximum(lambda: smcpn.linearise_networks(found))]


def discovered(**options: Any) -> list[Any]:
    """Equations of a pendulum: their models, probabilities and noise, and draws."""
    settings: dict[str, Any] = {
        "library": PENDULUM,
        "known": {"x": "v"},
        "progress": False,
    } | options
    result = smcpn.discover(problems.swinging(), **settings)
    best = result.models[0]
    return [str(result), result.probabilities, best.mean, best.covariance, result.draws(20, seed=1)]


def sindy() -> list[Any]:
    """The same data under pysindy's names."""
    record = problems.swinging()
    library = ps.PolynomialLibrary(degree=1) + ps.FourierLibrary(n_frequencies=1)
    model = ps.SINDy(feature_library=library).fit(record.y, t=record.t)
    return [model.coef_, model.coef_std_, model.inclusion_, model.equations()]


def solution(solver: Any, times: Any = (0.0, 5.0)) -> list[Any]:
    """Moments of a solution on its grid, and two samples of it."""
    values = {"a": 1.5, "b": 1.0, "c": 3.0}
    result = smcpn.solve(problems.lotka_volterra, times, values, initial=[1.0, 1.0], solver=solver)
    draws = result.sample(np.random.default_rng(0), 2, t=np.linspace(0.0, 5.0, 11))
    return [result.t, result.mean, result.sd, draws]


ESTIMATES: Mapping[str, Callable[[], list[Any]]] = {
    "laplace": laplace,
    "laplace kalman": partial(laplace, problems.driven_by_noise),
    "maximum": maximum,
    "maximum lifted": partial(maximum, search="lifted", solver=smcpn.RK4(steps=2)),
    "maximum spline": partial(maximum, partial(problems.short, problems.with_spline)),
    "maximum network": linearised_network,
    "gradient marginal": partial(gradient, problems.oscillating),
    "gradient classical": partial(gradient, problems.several_records, solver=smcpn.RK4(steps=2)),
    "gradient filtering": partial(gradient, problems.short, solver=EKF0, likelihood="filtering"),
    "gradient reverse": partial(
        gradient, partial(problems.short, problems.with_fine_spline), solver=smcpn.RK4(steps=1)
    ),
    "nuts": nuts,
    "discovery": discovered,
    "discovery shrinkage laplace": partial(discovered, prior="laplace", particles=50),
    "discovery shrinkage horseshoe": partial(discovered, prior="horseshoe", particles=50),
    "sindy": sindy,
    "solve adaptive": partial(solution, smcpn.EKF1(order=3, smooth=True)),
    "solve grid": partial(
        solution,
        smcpn.EKF0(order=2, steps=1, diffusion="dynamic", smooth=True),
        np.linspace(0.0, 5.0, 101),
    ),
}
