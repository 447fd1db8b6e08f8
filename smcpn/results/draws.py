"""Weighted draws from a posterior as data: moments, quantiles, the parameter table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import override

from smcpn.base.arguments import Count, Probabilities, Seed, checked
from smcpn.base.stored import Elsewhere, Line, Stored, Whole
from smcpn.base.tables import Card, Fact, WithCard, fact_lines, table_text
from smcpn.errors import InputError, listed
from smcpn.likelihood.registry import likelihood_name
from smcpn.likelihood.shift import DiscretisationShift
from smcpn.model.problem import Problem
from smcpn.model.solver import Solver
from smcpn.results.exchange import Exchange, Exchanges, exchange_facts, ordered
from smcpn.results.functions import WithFunctions
from smcpn.results.judgement import WithVerdict
from smcpn.results.method import MethodRecord
from smcpn.results.modes import PosteriorMode, apart, mode_lines, posterior_modes
from smcpn.results.summary import bounds_reached, parameter_rows, warned
from smcpn.results.tables import FIGURES, ParameterTable, WithTable, dataframe
from smcpn.results.validation.correlation import posterior_correlation
from smcpn.smc.particles import normalise
from smcpn.smc.replicates import Populations
from smcpn.smc.resampling import systematic

Array = NDArray[np.float64]


def weighted_quantile(values: Array, weights: Array, q: Probabilities) -> Array:
    """Quantile(s) of weighted numbers (N,), linear between the midpoints of their weights."""
    order = np.argsort(values)
    weights = weights[order]
    cumulative = np.cumsum(weights)
    return np.asarray(np.interp(q, (cumulative - 0.5 * weights) / cumulative[-1], values[order]))


FEW_LINES = 5
"""Lines on modes that a short text has."""


@dataclass(frozen=True)
class Timing(Stored):
    """Wall, compilation and kernel time of a run in seconds, and its size."""

    wall: float
    compile: float
    kernel: float
    theta_steps: Whole


@checked
@dataclass(frozen=True, repr=False)
class WeightedDraws(WithCard, WithTable, Populations, WithFunctions, WithVerdict):
    """Particles of a posterior with their problem; attributes as of `Posterior`."""

    problem: Annotated[Problem, Elsewhere("problem")]
    solver: Solver
    shift: DiscretisationShift | None
    timing: Timing
    seed: Annotated[int, Field(ge=0, le=1 << 128)] | None = None
    likelihood: Line | None = None
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    method: MethodRecord | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names, in the order of the columns of `values`."""
        return self.problem.names

    @cached_property
    def values(self) -> Array:
        """Parameter values of the particles, (N, d)."""
        return self.problem.prior.natural(self.theta)

    @property
    def weights(self) -> Array:
        """Normalised weights, (N,)."""
        return normalise(self.log_weights)

    @property
    def mean(self) -> dict[str, float]:
        """Posterior mean of each parameter; of a vector or a function by its name, (size,)."""
        return self.problem.by_name((self.weights @ self.values).tolist())

    @property
    def sd(self) -> dict[str, float]:
        """Posterior standard deviation of each parameter; of a vector as of `mean`."""
        weights, values = self.weights, self.values
        variance = weights @ np.square(values - weights @ values)
        return self.problem.by_name(np.sqrt(variance).tolist(), 0.0)

    def __getitem__(self, name: str) -> Array:
        """Values of one parameter, (N,), to be used with `weights`; of a vector (N, size)."""
        if name in self.problem.ode.wholes:
            return self._whole(self.problem.ode.wholes[name])
        if name not in self.names:
            raise InputError(f"no parameter '{name}': choose one of {listed(self.names)}")
        return self.values[:, self.names.index(name)]

    def _whole(self, names: Sequence[str]) -> Array:
        """Values of the parameters of a vector or a function, the fixed ones among them."""
        fixed = self.problem.fixed
        columns = [np.full(len(self.theta), fixed[n]) if n in fixed else self[n] for n in names]
        return np.stack(columns, axis=1)

    def quantile(self, name: str, q: Probabilities) -> Array:
        """Weighted quantile(s) of a parameter, of each entry of a vector along the last axis.

        Raises
        ------
        InputError
            If there is no such parameter.
        """
        values, weights = self[name], self.weights
        if values.ndim == 1:
            return weighted_quantile(values, weights, q)
        return np.stack([weighted_quantile(column, weights, q) for column in values.T], axis=-1)

    @property
    def acceptance(self) -> float:
        """Share of proposals accepted over all rejuvenations; nan without any."""
        proposed = sum(r.evaluations for r in self.rejuvenations)
        accepted = sum(r.accepted for r in self.rejuvenations)
        return accepted / proposed if proposed else float("nan")

    @property
    def likelihood_name(self) -> str:
        """Name of the likelihood, also where it is the solver's default."""
        return likelihood_name(self.problem, self.solver, self.likelihood)

    def chosen(self, particles: Count | None = None) -> tuple[Array, Array]:
        """Return values (n, d) and weights (n,) of so many particles of equal weight.

        They are drawn by systematic resampling with the seed of the run. All particles with their
        own weights where none or more are asked for.
        """
        if particles is None or particles >= len(self.theta):
            return self.values, self.weights
        return self.equal_draws(particles), np.full(particles, 1.0 / particles)

    def equal_draws(self, size: Count) -> Array:
        """Draw parameter values of equal weight, (size, d), or one for each particle if fewer.

        They are drawn by systematic resampling with the seed of the run.
        """
        rng = np.random.default_rng(self.seed or 0)
        return self.values[systematic(self.weights, rng, min(size, len(self.theta)))]

    def resample(self, size: Count | None = None, seed: Seed = 0) -> dict[str, Array]:
        """Draw equally weighted parameter values, one array of ``size`` (N) per name."""
        rng = np.random.default_rng(seed)
        index = rng.permutation(systematic(self.weights, rng, size))
        return {name: self.values[index, j] for j, name in enumerate(self.names)}

    @cached_property
    def ordered(self) -> Self:
        """The posterior with parameters in ascending order that may be exchanged, as two lags.

        Exchanged, they explain the data as well, so that the posterior of each is that of both. The
        posterior itself where there are none.
        """
        found = self.exchanges
        return replace(self, theta=ordered(self.theta, found)) if found else self

    @cached_property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Parameters with the same prior that may be exchanged without a change of the outputs."""
        tried = Exchanges(self.problem, self.solver, self.likelihood)
        return tried.found(self._all_modes, self.theta, self.weights)

    @cached_property
    def modes(self) -> tuple[PosteriorMode, ...]:
        """The modes that the particles of `ordered` fall into, the heaviest first."""
        return self.ordered._all_modes

    @cached_property
    def _all_modes(self) -> tuple[PosteriorMode, ...]:
        return posterior_modes(self.theta, self.values, self.weights)

    @property
    @override
    def several_modes(self) -> tuple[PosteriorMode, ...]:
        return self.modes if len(self.modes) > 1 else ()

    def _judged_draws(self) -> tuple[Array, Array]:
        return self.theta, self.log_weights

    def table(self) -> ParameterTable:
        """The parameter table as data, of `ordered`."""
        shown, names = self.ordered, np.array(self.names)
        interval = {name: shown.quantile(name, [0.025, 0.975]).tolist() for name in self.names}
        correlation = posterior_correlation(shown.theta, self.weights)
        rows = parameter_rows(
            self.problem.prior, shown.mean, shown.sd, interval, correlation,
            bounds_reached(self.problem.prior, shown.values, self.weights),
            names[apart(self.modes)].tolist(),
        )  # fmt: skip
        return ParameterTable(rows)

    def to_dataframe(self, backend: str = "pandas") -> Any:
        """Return a resample of the particles as a dataframe; see `WithTable.to_dataframe`."""
        return dataframe(self.resample(), backend)

    @override
    def card(self) -> Card:
        run = [f"{name} {value}" for name, value in self.run_facts if value]
        exchanges = exchange_facts(self.names, self.exchanges)
        notes = [
            *mode_lines(self.names, self.modes)[:FEW_LINES], ", ".join(run),
            f"{self.likelihood_name} likelihood, {self.solver_and_reason}",
            *fact_lines(exchanges), *warned(self.warnings),
            "all of it: print(posterior.summary())",
        ]  # fmt: skip
        table = self.table().as_table(self.problem.ode).select(*FIGURES)
        return Card(replace(table, title=self._title, notes=notes), self.verdict.lines)

    @property
    def solver_and_reason(self) -> str:
        """The solver, and why it was chosen where none was given."""
        reason = "" if self.method is None else self.method.solver_reason
        return f"{self.solver_in_words}: {reason}" if reason else self.solver_in_words

    def summary(self) -> str:
        """The parameter table, the figures of the run, and the verdict, as text.

        The entries of a vector of more than six share a line, with the least and the greatest of
        each figure; `table` has all. How it was computed is `computation`.
        """
        return "\n".join([*self.summary_lines(), *self.verdict.lines])

    def summary_lines(self) -> list[str]:
        """Lines of the summary above the verdict."""
        facts = [
            *exchange_facts(self.names, self.exchanges),
            *self._run(),
            ("likelihood", self.likelihood_name),
            ("solver", self.solver_and_reason),
        ]
        if self.shift is not None:
            facts.append(("discretisation", str(self.shift)))
        if self.timing.wall:
            facts.append(("time", f"{self.timing.wall:.2f} s"))
        return [
            table_text(self.table().without_functions(self.problem.ode)),
            *(["", *mode_lines(self.names, self.modes)] if self.several_modes else []),
            *self.function_lines(),
            "",
            *fact_lines(facts, self.warnings),
        ]

    @property
    def computation(self) -> str:
        """The way the posterior was computed, as text: the method in detail, and its work."""
        return "\n".join(fact_lines(self._computation()))

    def _computation(self) -> list[Fact]:
        moved, timing = "", self.timing
        if self.rejuvenations:
            last = self.rejuvenations[-1].acceptance
            moved = f", acceptance {self.acceptance:.2f} (last {last:.2f})"
        return [
            *([] if self.method is None else [("method", self.method.details)]),
            ("particles", f"{len(self.theta)}, worth {self.ess:.0f} independent draws"),
            ("rejuvenations", f"{len(self.rejuvenations)}{moved}"),
            ("time", f"{timing.wall:.2f} s ({timing.kernel:.2f} s in the kernel), "
             f"compilation {timing.compile:.2f} s, {timing.theta_steps:.3g} particle steps"),
        ]  # fmt: skip

    def _run(self) -> list[Fact]:
        """Figures of a summary on how the sampler got here."""
        rate, facts = self.learning_rate, list[Fact]()
        if not np.isnan(self.log_evidence):
            error = self.log_evidence_se
            stated = "" if np.isnan(error) else f" +- {error:.2g}"
            facts.append(("log-evidence", f"{self.log_evidence:.2f}{stated}"))
        if rate != 1.0:
            facts.append(("learning rate", f"{rate:.3g}, the power of the likelihood"))
        if self.method is not None:
            facts.append(("method", str(self.method)))
        return facts

    @property
    def run_facts(self) -> list[Fact]:
        """Figures of the sampler as (name, value)."""
        return [
            ("particles", f"{len(self.theta)}"),
            ("log-evidence", f"{self.log_evidence:.2f}" if np.isfinite(self.log_evidence) else ""),
        ]
