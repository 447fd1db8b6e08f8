"""The problems of the DALTON paper with their data, as in its code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.papers.dalton_settings import (
    DATA_SEED,
    NOISE_VARIANCE,
    PRIOR_SD,
    STARTS_DIFFUSION,
)
from benchmarks.solver_problems import InitialValueProblem, extended_solution
from smcpn import Poisson, Problem, Record
from tests.models import fitzhugh_nagumo, fitzhugh_nagumo_solution

Array = NDArray[np.float64]


@smcpn.ode
def lorenz63(x, y, z, *, alpha, rho, beta):
    """Convection, chaotic."""
    return alpha * (y - x), x * (rho - z) - y, x * y - beta * z


@dataclass(frozen=True)
class Study:
    """A problem, and the parameters its data were made with.

    truth: (d,), in the order of ``problem.names``.
    """

    name: str
    problem: Problem
    truth: Array

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.problem.names


@cache
def fitzhugh_nagumo_study() -> Study:
    """Section 5.1: both states at t = 0, 1, ..., 40, noise variance .005."""
    states = fitzhugh_nagumo_solution()
    noise = np.random.default_rng(DATA_SEED).normal(size=states.shape)
    record = Record(y=states + np.sqrt(NOISE_VARIANCE) * noise, dt=1.0)
    return _fitzhugh_nagumo("fn", record, observe=["V", "R"], noise=np.sqrt(NOISE_VARIANCE))


@cache
def counts_study() -> Study:
    """Section 5.2: Poisson counts with log rate .1 + .5 x of either state."""

    def of_v(V):
        return 0.1 + 0.5 * V

    def of_r(R):
        return 0.1 + 0.5 * R

    rates = np.exp(0.1 + 0.5 * fitzhugh_nagumo_solution())
    counts = np.random.default_rng(DATA_SEED).poisson(rates).astype(float)
    record = Record(y=counts, dt=1.0)
    return _fitzhugh_nagumo("counts", record, observe=[of_v, of_r], noise=Poisson())


def _fitzhugh_nagumo(name: str, record: Record, **measured: Any) -> Study:
    prior: dict[str, Any] = {parameter: stats.lognorm(PRIOR_SD) for parameter in "abc"}
    problem = Problem(
        fitzhugh_nagumo,
        record,
        prior=prior,
        initial={state: stats.norm(0.0, PRIOR_SD) for state in fitzhugh_nagumo.states},
        **measured,
    )
    return Study(name, problem, np.array([0.2, 0.2, 3.0, -1.0, 1.0]))


LORENZ_TRUTH = {"alpha": 10.0, "rho": 28.0, "beta": 8.0 / 3.0}
LORENZ_START = (-12.0, -5.0, 38.0)
LORENZ_END = 20


@cache
def lorenz_study() -> Study:
    """Section 5.3, first: all states at t = 0, 1, ..., 20, the initial state unknown."""
    problem = Problem(
        lorenz63,
        _lorenz_record(1),
        observe=lorenz63.states,
        noise=np.sqrt(NOISE_VARIANCE),
        prior=_lorenz_prior(),
        initial={state: stats.norm(0.0, PRIOR_SD) for state in lorenz63.states},
    )
    return Study("lorenz", problem, np.array([*LORENZ_TRUTH.values(), *LORENZ_START]))


@cache
def lorenz_starts_study(learned: bool) -> Study:
    """Section 5.3, second: t = 0, .1, ..., 20, the initial state known.

    The code of the paper learns a factor on the diffusion here, under a flat prior; the prior on
    kappa is as good as flat.
    """
    flat: dict[str, Any] = {"kappa": stats.lognorm(10.0, scale=STARTS_DIFFUSION)} if learned else {}
    problem = Problem(
        lorenz63,
        _lorenz_record(10),
        observe=lorenz63.states,
        noise=np.sqrt(NOISE_VARIANCE),
        prior=_lorenz_prior() | flat,
        initial=LORENZ_START,
        diffusion="kappa" if learned else None,
    )
    return Study("starts", problem, np.array([*LORENZ_TRUTH.values()]))


def _lorenz_prior() -> dict[str, Any]:
    return {name: stats.lognorm(PRIOR_SD) for name in LORENZ_TRUTH}


def _lorenz_record(per_unit: int) -> Record:
    states = lorenz_solution()[:: FINE // per_unit]
    noise = np.random.default_rng(DATA_SEED).normal(size=states.shape)
    return Record(y=states + np.sqrt(NOISE_VARIANCE) * noise, dt=1.0 / per_unit)


FINE = 100


@cache
def lorenz_solution() -> Array:
    """States every .01, (2001, 3), to 1e-8.

    Errors grow by 1e8 over the span: double precision at a tolerance of 1e-11 ends 1.5e-3 off.
    """

    def field(x, y, z, *, alpha, rho, beta):
        return alpha * (y - x), x * (rho - z) - y, x * y - beta * z

    flow = InitialValueProblem("Lorenz63", field, LORENZ_START, (0.0, LORENZ_END), LORENZ_TRUTH)
    times = np.arange(LORENZ_END * FINE + 1) / FINE
    return np.asarray(extended_solution(flow, times), dtype=float)
