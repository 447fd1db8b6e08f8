"""What an identification returns: a weighted sample of the parameters, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.likelihood.build import Solver
from smcpn.problem import Problem
from smcpn.record import Record
from smcpn.simulation import Simulation, simulate_particles
from smcpn.smc.rejuvenation import Rejuvenation
from smcpn.smc.resampling import systematic
from smcpn.smc.weights import normalise

Array = NDArray[np.float64]

PRIOR_DOMINATED = 0.7
"""Posterior sd over prior sd above which the data said little about a parameter."""
_PRIOR_DRAWS = 4096


@dataclass(frozen=True)
class Timing:
    """Where the time of a run went, in seconds, and its size."""

    wall: float
    compile: float
    kernel: float
    theta_steps: int


@dataclass(frozen=True)
class ParameterRow:
    """One line of the parameter table."""

    name: str
    prior: str
    prior_sd: float
    mean: float
    sd: float
    low: float
    high: float

    @property
    def sd_percent(self) -> float:
        """Posterior sd as a percentage of the mean."""
        return 100 * self.sd / abs(self.mean) if self.mean else np.inf

    @property
    def prior_dominated(self) -> bool:
        """Whether the data hardly narrowed the prior."""
        return self.sd > PRIOR_DOMINATED * self.prior_sd


@dataclass(frozen=True)
class Posterior:
    """The posterior of an identification as weighted particles.

    Attributes
    ----------
    problem : Problem
    solver : EKF0 or RK4
        As it ran, its steps resolved.
    theta : ndarray, (N, d)
        Unconstrained coordinates.
    log_weights : ndarray, (N,)
    log_likelihood : ndarray, (N,)
    eve : ndarray, (N,)
        Ancestor of each particle at the start.
    log_evidence : float
        log p(y) under the model.
    ess_path, log_evidence_path : ndarray, (T,)
        After each sample: effective sample size before any rejuvenation, and log-evidence.
    rejuvenations : tuple of Rejuvenation
    solver_share : float
        Mean share of solver variance over noise variance, at the posterior mean.
    timing : Timing
    seed : int or None
    log_evidence_se : float
        Standard error of ``log_evidence``: from the ancestry of the particles, or from the
        spread of the replicates.
    log_evidences : ndarray, (R,)
        Of each replicate.
    replicate : ndarray, (N,)
        Number of the population of each particle.
    r_hat : ndarray, (d,)
        Potential scale reduction over replicates; nan for one.
    concerns : tuple of str
        What deserves a second look.
    """

    problem: Problem
    solver: Solver
    theta: Array
    log_weights: Array
    log_likelihood: Array
    eve: NDArray[np.int64]
    log_evidence: float
    ess_path: Array
    log_evidence_path: Array
    rejuvenations: tuple[Rejuvenation, ...]
    solver_share: float
    timing: Timing
    seed: int | None = None
    log_evidence_se: float = float("nan")
    log_evidences: Array = field(default_factory=lambda: np.empty(0))
    replicate: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    r_hat: Array = field(default_factory=lambda: np.empty(0))
    concerns: tuple[str, ...] = ()
    _cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names, in the order of the columns of `values`."""
        return self.problem.names

    @property
    def values(self) -> Array:
        """Parameter values of the particles, (N, d)."""
        if "values" not in self._cache:
            self._cache["values"] = self.problem.prior.natural(self.theta)
        return self._cache["values"]

    @property
    def weights(self) -> Array:
        """Normalised weights, (N,)."""
        return normalise(self.log_weights)

    @property
    def mean(self) -> dict[str, float]:
        """Posterior mean of each parameter."""
        return dict(zip(self.names, (self.weights @ self.values).tolist(), strict=True))

    @property
    def sd(self) -> dict[str, float]:
        """Posterior standard deviation of each parameter."""
        weights, values = self.weights, self.values
        variance = weights @ np.square(values - weights @ values)
        return dict(zip(self.names, np.sqrt(variance).tolist(), strict=True))

    @property
    def acceptance(self) -> float:
        """Share of proposals accepted over all rejuvenations; nan without any."""
        proposed = sum(r.evaluations for r in self.rejuvenations)
        accepted = sum(r.accepted for r in self.rejuvenations)
        return accepted / proposed if proposed else float("nan")

    def __getitem__(self, name: str) -> Array:
        """Particle values of one parameter, (N,), to be used with `weights`."""
        if name not in self.names:
            raise InputError(f"no parameter '{name}': choose one of {', '.join(self.names)}")
        return self.values[:, self.names.index(name)]

    def quantile(self, name: str, q: float | list[float]) -> Array:
        """Weighted quantile(s) of a parameter."""
        values = self[name]
        order = np.argsort(values)
        cumulative = np.cumsum(self.weights[order])
        centred = cumulative - 0.5 * self.weights[order]
        return np.asarray(np.interp(q, centred / cumulative[-1], values[order]))

    def resample(self, size: int | None = None, seed: int = 0) -> dict[str, Array]:
        """Draw equally weighted parameter values, one array of ``size`` (N) per name."""
        rng = np.random.default_rng(seed)
        index = rng.permutation(systematic(self.weights, rng, size))
        return {name: self.values[index, j] for j, name in enumerate(self.names)}

    def simulate(
        self, record: Record, *, observe: Any = None, steps: int | str = "auto"
    ) -> Simulation:
        """Simulate a record with every particle, by Runge-Kutta at a fine step.

        Parameters
        ----------
        record : Record
            Its hold tells what the input does between samples; the initial state is that of the
            problem. Samples whose y is NaN are simulated but not compared.
        observe : str, callable, or sequence of these, optional
            What the record measures, where that is not what the problem observes. The band then
            counts no measurement noise.
        steps : int or "auto"
            Steps per sample; ``"auto"`` doubles until the outputs settle.

        Raises
        ------
        InputError
            If the record does not have the inputs of the model.
        """
        learned_from = self.problem.records[0]
        interval = float(np.diff(learned_from.t).mean())
        return simulate_particles(
            self.problem,
            record,
            self.values,
            self.weights,
            observe,
            steps,
            step_length=interval / int(self.solver.steps),
        )

    def to_arviz(self, seed: int = 0) -> Any:
        """Export to ArviZ as an equally weighted sample; see `smcpn.interop.arviz.to_arviz`."""
        from smcpn.interop.arviz import to_arviz

        return to_arviz(self, seed)

    def table(self) -> list[ParameterRow]:
        """The parameter table as data."""
        prior_sd = self._prior_sd()
        return [
            ParameterRow(
                name=name,
                prior=describe(distribution),
                prior_sd=prior_sd[j],
                mean=self.mean[name],
                sd=self.sd[name],
                low=float(self.quantile(name, 0.025)),
                high=float(self.quantile(name, 0.975)),
            )
            for j, (name, distribution) in enumerate(self.problem.prior.distributions.items())
        ]

    def summary(self) -> str:
        """The parameter table and the figures of the run, as text."""
        return summary_text(self)

    def _prior_sd(self) -> Array:
        """Standard deviation of each prior, from draws with a fixed seed."""
        prior = self.problem.prior
        draws = prior.natural(prior.sample(np.random.default_rng(0), _PRIOR_DRAWS))
        return draws.std(axis=0)


def describe(distribution: Any) -> str:
    """Short text of a prior: family and arguments of a frozen scipy distribution."""
    family = getattr(getattr(distribution, "dist", None), "name", None)
    if family is None:
        return type(distribution).__name__
    arguments = [f"{a:.4g}" for a in distribution.args]
    arguments += [f"{key}={value:.4g}" for key, value in distribution.kwds.items()]
    return f"{family}({', '.join(arguments)})"


def summary_text(posterior: Posterior) -> str:
    """Render a posterior as a plain-text table."""
    columns = ["parameter", "prior", "mean", "sd", "sd %", "2.5 %", "97.5 %", ""]
    rows = [
        [
            row.name,
            row.prior,
            f"{row.mean:.5g}",
            f"{row.sd:.2g}",
            f"{row.sd_percent:.2g}",
            f"{row.low:.5g}",
            f"{row.high:.5g}",
            "prior-dominated" if row.prior_dominated else "",
        ]
        for row in posterior.table()
    ]
    timing, last = posterior.timing, posterior.rejuvenations[-1:]
    lines = [
        align([columns, *rows], left=(0, 1, 7)),
        "",
        f"log-evidence     {posterior.log_evidence:.2f} +- {posterior.log_evidence_se:.2g}",
        f"rejuvenations    {len(posterior.rejuvenations)}"
        + (
            f", acceptance {posterior.acceptance:.2f} (last {last[0].acceptance:.2f})"
            if last
            else ""
        ),
        f"solver           {posterior.solver}",
        f"solver variance  {posterior.solver_share:.2%} of the noise variance",
        f"time             {timing.wall:.2f} s ({timing.kernel:.2f} s in the kernel), "
        f"compilation {timing.compile:.2f} s, {timing.theta_steps:.3g} particle steps",
    ]
    return "\n".join(lines)


def align(rows: list[list[str]], left: tuple[int, ...] = ()) -> str:
    """Set rows of text in columns, right-aligned but for the columns ``left``."""
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if j in left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
