"""Posteriors of one study: Laplace at the mode that a search from the truth finds, and sampled."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import smcpn
from benchmarks.papers.dalton_problems import Study
from benchmarks.papers.dalton_settings import (
    CHAOTIC_RUNGE_KUTTA_STEPS,
    DRAW_SEED,
    DRAWS,
    LEVEL,
    RUNGE_KUTTA_STEPS,
    Grid,
)
from smcpn import Laplace
from smcpn.model.solver import RK4

Array = NDArray[np.float64]

METHOD = "trust-ncg"
"""Newton's method by conjugate gradients, as the paper's Newton-CG, but with a trust region."""
ITERATIONS, CHAOTIC_ITERATIONS = 500, 60
"""Most of a search; where the Hessian is chaotic more of them lead nowhere, and take minutes."""
SPURIOUS = 20.0
"""Nats by which an evidence, a mean of likelihoods, is above the highest if it is no such mean."""
FEWEST = 20
"""A sample of fewer different particles has collapsed onto a spike."""
PARTICLES = {False: 2000, True: 500}
"""By whether it has to be quick."""


@dataclass(frozen=True)
class Marginals:
    """A posterior of a study as draws, to compare and to draw.

    step: Length of a step; "" for Runge-Kutta.
    kind: {"Laplace", "sampled"}
    draws: (n, d), parameter values; none where there is no posterior.
    log_density: At the mode (Laplace), or log-evidence (sampled).
    reason: Why there is none.
    """

    study: Study
    step: str
    likelihood: str
    kind: str
    draws: Array = field(repr=False)
    log_density: float = float("nan")
    seconds: float = 0.0
    reason: str = ""

    @property
    def exists(self) -> bool:
        """Whether there is a posterior."""
        return not self.reason

    @property
    def moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation in unconstrained coordinates, (d,) each."""
        theta = self.study.problem.prior.unconstrained(self.draws)
        return theta.mean(axis=0), theta.std(axis=0)

    @property
    def scores(self) -> dict[str, float]:
        """Truth less mean, in standard deviations, both in unconstrained coordinates."""
        mean, sd = self.moments
        truth = self.study.problem.prior.unconstrained(self.study.truth[None, :])[0]
        return dict(zip(self.study.names, ((truth - mean) / sd).tolist(), strict=True))

    @property
    def covers(self) -> dict[str, bool]:
        """Whether the truth of each parameter is in the central interval."""
        low, high = np.quantile(self.draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        inside = (low <= self.study.truth) & (self.study.truth <= high)
        return dict(zip(self.study.names, inside.tolist(), strict=True))

    def beside(self, reference: Marginals) -> tuple[float, float]:
        """Largest difference of means in reference sd, and of sd relative to the reference."""
        (mean, sd), (other, scale) = self.moments, reference.moments
        return float(np.abs((mean - other) / scale).max()), float(np.abs(sd / scale - 1).max())


def fitted(
    study: Study, likelihood: str, solver: smcpn.EKF1 | RK4, step: str, iterations: int = ITERATIONS
) -> tuple[Marginals, Laplace | None]:
    """Search from the truth, as the paper does, and take the Gaussian about the mode."""
    began = time.perf_counter()
    maximum = smcpn.maximise(
        study.problem, likelihood, solver=solver, starts=study.truth, method=METHOD,
        iterations=iterations, search="shooting",
    )  # fmt: skip
    if not maximum.success:
        nothing = np.empty((0, len(study.truth)))
        seconds = time.perf_counter() - began
        return Marginals(
            study, step, likelihood, "Laplace", nothing, maximum.log_density, seconds,
            f"the search from the truth stopped: {maximum.reason}",
        ), None  # fmt: skip
    found = smcpn.laplace(maximum)
    marginals = of_laplace(study, found, step, time.perf_counter() - began)
    return marginals, found if found.success else None


def of_laplace(study: Study, found: Laplace, step: str, seconds: float) -> Marginals:
    """Draws of a Laplace approximation, from the paper's seed."""
    size = DRAWS if found.success else 0
    draws = found.draw(size, DRAW_SEED) if size else np.empty((0, len(study.truth)))
    return Marginals(
        study, step, found.likelihood, "Laplace", draws,
        found.maximum.log_density, seconds, found.reason,
    )  # fmt: skip


def sampled(study: Study, likelihood: str, grid: Grid, start: Laplace, quick: bool) -> Marginals:
    """The posterior, tempered from a Laplace approximation of the same problem."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        # That the solver's error exceeds the noise is what the study is about.
        warnings.simplefilter("ignore", smcpn.SamplerWarning)
        posterior = smcpn.identify(
            study.problem, solver=grid.solver, likelihood=likelihood, start=start,
            particles=PARTICLES[quick], seed=0, progress=False,
        )  # fmt: skip
    draws = np.stack(list(posterior.resample().values()), axis=1)
    different = len(np.unique(draws, axis=0))
    reason = "" if different >= FEWEST else f"it collapsed onto {different} of its particles"
    if posterior.log_evidence > start.maximum.log_likelihood + SPURIOUS:
        reason = "its evidence is above the likelihood of the best solution"
    return Marginals(
        study, grid.label, likelihood, "sampled", draws, posterior.log_evidence,
        time.perf_counter() - began, reason,
    )  # fmt: skip


def fitzhugh_nagumo_posteriors(
    study: Study, likelihoods: tuple[str, ...], grids: tuple[Grid, ...], quick: bool
) -> Iterator[Marginals]:
    """Runge-Kutta's first, then every likelihood at every step length, then sampled ones."""
    exact, start = fitted(study, "classical", RK4(RUNGE_KUTTA_STEPS), "")
    yield exact
    for grid in grids:
        for likelihood in likelihoods:
            yield fitted(study, likelihood, grid.solver, grid.label)[0]
        for likelihood in likelihoods:
            if likelihood != "fenrir" and start is not None:
                yield sampled(study, likelihood, grid, start, quick)


def lorenz_posteriors(study: Study, grids: tuple[Grid, ...], quick: bool) -> Iterator[Marginals]:
    """As of FitzHugh-Nagumo, but samplers start from the Laplace posterior of one filter."""
    yield fitted(
        study, "classical", RK4(CHAOTIC_RUNGE_KUTTA_STEPS), "", CHAOTIC_ITERATIONS
    )[0]  # fmt: skip
    for grid in grids:
        one, start = fitted(study, "filtering", grid.solver, grid.label)
        yield one
        for likelihood in ("dalton", "fenrir"):
            yield fitted(study, likelihood, grid.solver, grid.label, CHAOTIC_ITERATIONS)[0]
        for likelihood in ("dalton", "fenrir"):
            if start is not None:
                yield sampled(study, likelihood, grid, start, quick)
