"""The result of `smcpn.maximise`: the highest point found, and the search of every start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.arguments import checked
from smcpn.base.tables import Card, Column, Fact, Table, WithCard, fact_lines, table_text, words
from smcpn.errors import InputError, listed
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.shift import DiscretisationShift
from smcpn.likelihood.wall import Wall
from smcpn.model.learned_scales import learned_scales
from smcpn.model.prior import described
from smcpn.model.problem import Problem
from smcpn.model.solver import Solver
from smcpn.results.by_draws import Analyses
from smcpn.results.draws import Timing
from smcpn.results.method import as_high, where_ended
from smcpn.results.posterior import Posterior
from smcpn.results.summary import shortened, warned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

POSTERIOR, LIKELIHOOD = TARGETS = ("posterior", "likelihood")
"""Densities that can be maximised."""
ROWS, FEW_FACTS = 10, 4
"""Most starts that a summary lists, and figures that a short text has."""


@dataclass(frozen=True)
class StartResult:
    """Start, end and path of one search.

    start, values: (d,), parameter values at the start and at the end.
    log_density: At the end; -inf if the solution diverges at the start.
    reason: Why the search stopped.
    success: Whether it converged.
    evaluations: Of the log density with its gradient, or of its Hessian.
    path: (K + 1, d), parameter values at the start and after each iteration.
    path_log_density: (K + 1,)
    lifted: Whether a path that may leave the model led there.
    """

    start: Array
    values: Array
    log_density: float
    reason: str
    success: bool
    evaluations: int
    path: Array
    path_log_density: Array
    lifted: bool = False


@checked
@dataclass(frozen=True, repr=False)
class Maximum(WithCard, Analyses):
    """The mode that searches found: the highest point that one converged to, or else the highest.

    Attributes
    ----------
    problem : Problem
    solver : Solver
        As it ran, its steps resolved.
    likelihood : str
        Its name.
    target : {"posterior", "likelihood"}
        What was maximised. The posterior is the density of the unconstrained coordinates of
        `Prior`, log-Jacobian included.
    method : str
    theta : ndarray, (d,)
        Unconstrained coordinates of the maximum.
    log_density : float
        Of the target there, its normaliser unknown; -inf if every start diverges.
    log_likelihood : float
    starts : tuple of StartResult
        In the order given.
    best : int
        Which of the starts led to the maximum.
    seconds : float
        Wall time without compilation.
    shift : DiscretisationShift or None
        Shift of the maximum when its solver is made twice as fine, by the Hessian there; None
        where it was not measured.
    wall : Wall or None
        Of the solver, at which the posterior ends.
    doubt : str
        Why a higher mode may have been missed, and what to do; empty where several searches
        agree, or the mode explains the data.
    warnings : tuple of str
        Problems found in the search, one sentence each, `doubt` among them.
    """

    problem: Problem = field(repr=False)
    solver: Solver
    likelihood: str  # pyright: ignore[reportIncompatibleVariableOverride]
    target: str
    method: str
    theta: Array
    log_density: float
    log_likelihood: float
    starts: tuple[StartResult, ...] = field(repr=False)
    best: int = 0
    seconds: float = 0.0
    shift: DiscretisationShift | None = None
    wall: Wall | None = None
    doubt: str = ""
    warnings: tuple[str, ...] = ()

    @cached_property
    def function(self) -> LogLikelihood:
        """The log-likelihood, with the solver as it ran, made when it is first asked for."""
        return LogLikelihood(self.problem, self.likelihood, self.solver)

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names, in the order of `values`."""
        return self.problem.names

    @property
    def values(self) -> Array:
        """Parameter values at the maximum, (d,)."""
        return self.starts[self.best].values

    @property
    def reason(self) -> str:
        """Why the search that led there stopped."""
        return self.starts[self.best].reason

    @property
    def success(self) -> bool:
        """True if that search converged."""
        return self.starts[self.best].success

    @property
    def found(self) -> bool:
        """True if some start does not diverge, so that there is a point."""
        return bool(np.isfinite(self.log_density))

    @property
    def path(self) -> Array:
        """Parameter values at its start and after each of its iterations, (K + 1, d)."""
        return self.starts[self.best].path

    @property
    def evaluations(self) -> int:
        """Evaluations of all starts."""
        return sum(start.evaluations for start in self.starts)

    @property
    def agreeing(self) -> int:
        """Starts that ended as high."""
        return len(self._highest)

    @property
    def _highest(self) -> list[StartResult]:
        top = self.log_density
        ends = [one for one in self.starts if one.log_density > -np.inf]
        return [
            one for one in ends if as_high(one.log_density, top) and as_high(top, one.log_density)
        ]

    @property
    def ends(self) -> tuple[float, ...]:
        """Log density of the ends that converged, or are as high, the highest first."""
        top = self.log_density
        told = [one for one in self.starts if one.success or as_high(one.log_density, top)]
        return tuple(sorted((one.log_density for one in told), reverse=True))

    @property
    def independent(self) -> int:
        """Starts that ended as high, those that lifted paths led there as one.

        These paths may all lead to one mode, whatever others there are.
        """
        lifted = sum(one.lifted for one in self._highest)
        return self.agreeing - max(lifted - 1, 0)

    def __getitem__(self, name: str) -> float | Array:
        """Value of one parameter; of a vector (size,)."""
        if name in (wholes := self.problem.ode.wholes):
            fixed = self.problem.fixed
            return np.array([fixed[one] if one in fixed else self[one] for one in wholes[name]])
        if name not in self.names:
            raise InputError(f"no parameter '{name}': choose one of {listed(self.names)}")
        return float(self.values[self.names.index(name)])

    def _drawn(self) -> Posterior:
        return self.to_posterior()

    def plot_function(self, name: str, truth: Callable[..., Any] | None = None) -> Figure:
        """Plot an unknown function of the model; see `Posterior.plot_function`."""
        return self.posterior.plot_function(name, truth)

    def to_posterior(self) -> Posterior:
        """Return the one particle of a `Posterior`, to simulate, validate and plot with."""
        return equally_weighted(self, self.theta[None, :], float("nan"), None, self.warnings)

    @override
    def card(self) -> Card:
        notes = [
            *fact_lines(self.run_facts[:FEW_FACTS]),
            *warned(self.warnings), "all of it: print(maximum.summary())",
        ]  # fmt: skip
        table = self._parameters(self.names).select("parameter", self._kind)
        return Card(replace(table, title=self._title, notes=notes), self.verdict.lines)

    def _parameters(self, names: Sequence[str]) -> Table:
        columns = words("parameter"), words("prior", long=True), Column(self._kind, ".6g")
        values = dict(zip(self.names, self.values.tolist(), strict=True))
        rows = [[name, described(self.problem.prior, name), values[name]] for name in names]
        return shortened(Table(columns, rows), self.problem.ode)

    @override
    def picture(self) -> Figure | None:
        return self.simulate(self.problem.records[0]).picture() if self.found else None

    def summary(self) -> str:
        """The maximum and how it was found, as text."""
        ode = self.problem.ode
        starts = ["", table_text(self._starts), ""] if len(self.starts) > 1 else []
        return "\n".join([
            table_text(self._parameters([name for name in self.names if name not in ode.priors])),
            *(self.posterior.function_lines() if ode.functions else ()),
            "",
            *fact_lines(self.run_facts, self.warnings),
            *starts,
            *self.verdict.lines,
        ])  # fmt: skip

    def _judged_draws(self) -> tuple[Array, Array]:
        return self.theta[None, :], np.zeros(1)

    @property
    def _kind(self) -> str:
        return "mode" if self.target == POSTERIOR else "maximum"

    def figures(self) -> list[str]:
        """Lines of a summary below its table."""
        return fact_lines(self.run_facts)

    @property
    def run_facts(self) -> list[Fact]:
        """Figures of the maximum and of the searches as (name, value)."""
        density = f"{self.log_density:.4f} (not normalised, unconstrained coordinates)"
        stopped = "converged" if self.success else f"STOPPED: {self.reason}"
        return [
            *([("log posterior", density)] if self.target == POSTERIOR else []),
            ("log-likelihood", f"{self.log_likelihood:.4f}"),
            *self._scales(),
            ("search", f"{stopped} after {len(self.path) - 1} iterations of {self.method}"),
            ("searches", f"{len(self.starts)}: {self.ended}; {self.evaluations} evaluations"),
            ("likelihood", self.likelihood),
            ("solver", self.solver_in_words),
            *([] if self.shift is None else [("discretisation", str(self.shift))]),
            ("time", f"{self.seconds:.2f} s"),
        ]

    @property
    def ended(self) -> str:
        """Ends of the searches in words; of the highest, how many are lifted paths'."""
        kind = "log posterior" if self.target == POSTERIOR else "log-likelihood"
        lifted = sum(one.lifted for one in self._highest)
        along = f" ({lifted} of the highest with the model relaxed on the way)" if lifted else ""
        return where_ended(len(self.starts), self.ends, kind) + along

    def _scales(self) -> list[Fact]:
        """Learned scales, whose maximum is that of their marginal density."""
        columns = learned_scales(self.problem) if self.function.expands else None
        if columns is None or self.target != POSTERIOR:
            return []
        names = listed([self.names[j] for j in columns.scales])
        return [("scales", f"{names} at their marginal mode, the others given that")]

    @property
    def _starts(self) -> Table:
        columns = (
            Column("start"), Column("log density", ".10g"), Column("evaluations"), words("stopped")
        )  # fmt: skip
        order = np.argsort([-start.log_density for start in self.starts], kind="stable")
        rows = [
            [number, start.log_density, start.evaluations, start.reason]
            for number, start in ((int(k), self.starts[k]) for k in order[:ROWS])
        ]
        rest = len(self.starts) - ROWS
        return Table(columns, rows, notes=[f"and {rest} more"] if rest > 0 else ())


def equally_weighted(
    maximum: Maximum,
    theta: Array,
    log_evidence: float,
    seed: int | None,
    warnings: tuple[str, ...],
) -> Posterior:
    """Return a `Posterior` of given particles, theta (N, d), that no sampler has moved."""
    problem, n = maximum.problem, len(theta)
    nothing = np.empty(0)
    return Posterior(
        problem=problem,
        solver=maximum.solver,
        likelihood=maximum.likelihood,
        theta=theta,
        log_weights=np.zeros(n),
        log_likelihood=maximum.function(problem.prior.natural(theta)),
        ancestor=np.arange(n),
        log_evidence=log_evidence,
        log_evidence_se=float("nan"),
        path_samples=np.empty(0, np.int64),
        ess_path=nothing,
        log_evidence_path=nothing,
        rejuvenations=(),
        shift=maximum.shift,
        timing=Timing(wall=maximum.seconds, compile=0.0, kernel=0.0, theta_steps=0),
        seed=seed,
        log_evidences=nothing,
        replicate=np.zeros(n, np.int64),
        r_hat=np.full(theta.shape[1], np.nan),
        warnings=warnings,
    )
