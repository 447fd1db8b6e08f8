"""Glycolysis: 14 rates of a known equation, by the posterior of the whole trajectory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.papers.differential_programming_pairs import estimate
from benchmarks.papers.differential_programming_problems import EXPERIMENTS, Data
from benchmarks.papers.differential_programming_published import GLYCOLYSIS, rms_relative_error
from benchmarks.rows import Row
from smcpn import RK4, Laplace, Posterior, Problem, Record

SOLVER = RK4(steps=2)
"""Twice as many steps shift no rate by .05 posterior sd."""
FINE, NEXT_TO_NONE = RK4(steps=4), 1e-4
"""Of data without noise: solver, and noise as a share of the standard deviation of each state."""
RATE: Any = stats.lognorm(3.0)
"""Prior of each rate: 1, up to a factor of 400 in either direction with 95 %."""
CONCENTRATION: Any = stats.lognorm(2.0, scale=0.3)
DEVIATION: Any = stats.lognorm(3.0, scale=0.01)
STARTS = 2
"""Searches from the prior."""
PARTICLES = 1000
GENERALISED = 5
"""New initial states."""
LOWEST = (0.15, 0.19, 0.04, 0.10, 0.08, 0.14, 0.05)
HIGHEST = (1.60, 2.10, 0.20, 0.35, 0.30, 2.67, 0.10)
"""Between which they are drawn, of each state."""


def problem(record: Record, deviations: Sequence[float] | None = None) -> Problem:
    """All states measured; rates, initial states and, unless it is given, noise unknown."""
    ode = EXPERIMENTS["glycolysis"].ode
    prior: dict[str, Any] = dict.fromkeys(ode.parameters, RATE)
    noise: list[Any] = [f"sigma_{state}" for state in ode.states]
    if deviations is None:
        prior |= dict.fromkeys(noise, DEVIATION)
    return Problem(
        ode, record, observe=list(ode.states), prior=prior,
        noise=noise if deviations is None else list(deviations),
        initial=dict.fromkeys(ode.states, CONCENTRATION),
    )  # fmt: skip


def mode(record: Record, near: Laplace | None = None) -> Laplace:
    """Laplace approximation: from draws of the prior, or from the mode of another record."""
    if near is None:
        return smcpn.laplace(problem(record), solver=SOLVER, starts=STARTS, seed=1)
    begin = dict(zip(near.maximum.names, near.maximum.values.tolist(), strict=True))
    return smcpn.laplace(problem(record), solver=SOLVER, starts=begin, search="shooting")


def exact_mode(data: Data, near: Laplace) -> Laplace:
    """The same of data without noise, of which it is told that there is next to none."""
    told = problem(data.record, (NEXT_TO_NONE * data.experiment.scale).tolist())
    values = dict(zip(near.maximum.names, near.maximum.values.tolist(), strict=True))
    begin = {name: values[name] for name in told.names}
    return smcpn.laplace(told, solver=FINE, starts=begin, search="shooting")


def sampled(found: Laplace, seed: int = 1) -> Posterior:
    """The posterior by tempering from a Laplace approximation."""
    return smcpn.identify(
        found.maximum.problem, solver=SOLVER, start=found, particles=PARTICLES, seed=seed,
        progress=False,
    )  # fmt: skip


class Rates:
    """Median and 95 % interval of each rate.

    draws: (N,)
    """

    def __init__(self, draws: Mapping[str, np.ndarray]) -> None:
        self.truth = EXPERIMENTS["glycolysis"].truth
        self.quantiles = {
            name: tuple(np.quantile(draws[name], [0.025, 0.5, 0.975]).tolist())
            for name in self.truth
        }

    @property
    def covered(self) -> list[bool]:
        """Whether each interval has the truth."""
        return [low <= self.truth[n] <= high for n, (low, _, high) in self.quantiles.items()]

    @property
    def medians(self) -> dict[str, float]:
        """By name."""
        return {name: middle for name, (_, middle, _) in self.quantiles.items()}

    @property
    def error(self) -> float:
        """Root mean square of the relative errors."""
        return rms_relative_error(self.medians, self.truth)

    def __str__(self) -> str:
        inside = zip(self.truth, self.covered, strict=True)
        missed = " ".join(name for name, covered in inside if not covered)
        text = " ".join(
            f"{name} {middle:.4g} +- {(high - low) / 4:.1g}"
            for name, (low, middle, high) in self.quantiles.items()
        )
        return text + ("; misses " + missed if missed else "; covers all")


def laplace_rates(found: Laplace, seed: int = 0) -> Rates:
    """Of a Laplace approximation."""
    draws = found.draw(4000, seed)
    return Rates(dict(zip(found.maximum.names, draws.T, strict=True)))


def by_pairs(data: Data, **design: bool) -> dict[str, float]:
    """Least squares on the pairs; the search begins at the truth."""
    truth = data.experiment.truth
    found = estimate(data, data.experiment.ode, np.array(list(truth.values())), **design)
    return dict(zip(truth, found.tolist(), strict=True))


def rows(kind: str, data: Data, found: Rates, seconds: float, *, designs: bool) -> Iterator[Row]:
    """Root mean squares of the relative errors of the rates, by every method."""
    paper, truth = GLYCOLYSIS[kind], data.experiment.truth
    published = rms_relative_error(paper, truth)
    note = " ".join(f"{name} {value:g}" for name, value in paper.items())
    yield Row(f"{kind}: paper", published, note=f"without phi, a misprint; {note}")
    limit = published
    for name, design in (
        ("pairs, the paper's interval", {"published": True}),
        ("pairs, the data's interval", {}),
        ("pairs with latent starts", {"latent": True}),
    ):
        if designs and (data.experiment.noise or "latent" not in design):
            pairs = by_pairs(data, **design)
            error = rms_relative_error(pairs, truth)
            note = " ".join(f"{one} {value:.5g}" for one, value in pairs.items())
            yield Row(f"{kind}: {name}", error, note=note)
            limit = min(limit, error) if data.experiment.noise and not design else limit
    met, target = found.error < limit, f"error < {limit:.2g}"
    if data.experiment.noise:
        met, target = met and all(found.covered), f"covers, {target}"
    yield Row(f"{kind}: smcpn", found.error, target, met, f"{found}; {seconds:.1f} s")
