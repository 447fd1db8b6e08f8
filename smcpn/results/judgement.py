"""The verdict that stands at the end of every result on a problem."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, counted
from smcpn.likelihood.shift import DiscretisationShift
from smcpn.model.problem import Problem
from smcpn.model.solver import Solver
from smcpn.results.modes import PosteriorMode
from smcpn.results.summary import ParameterRow
from smcpn.results.validation.validation import Validation, validate
from smcpn.results.validation.verdict import NOT_JUDGED, WARNED, Verdict

Array = NDArray[np.float64]

JUDGED = 1 << 18
"""Most samples of a record that a verdict is by, which is to cost little."""


class WithVerdict(ABC):
    """A result that ends in a verdict: draws from a posterior of a problem, and what is wrong."""

    problem: Problem
    solver: Solver
    likelihood: str | None
    shift: DiscretisationShift | None
    warnings: tuple[str, ...]
    learning_rate: float = 1.0

    @abstractmethod
    def _judged_draws(self) -> tuple[Array, Array]:
        """Return unconstrained coordinates (N, d) and log weights (N,)."""

    @abstractmethod
    def table(self) -> Sequence[ParameterRow]:
        """Return the parameter table."""

    @property
    def _title(self) -> str:
        """Kind of result, model and sizes in a line."""
        problem = self.problem
        return (
            f"{type(self).__name__} of '{problem.ode.name}': "
            f"{counted(len(problem.names), 'parameter')}, {problem.n_given} samples"
        )

    @property
    def solver_in_words(self) -> str:
        """The solver, its steps in the unit of time of the records."""
        return self.solver.in_words(self.problem.records[0].t_unit)

    @property
    def several_modes(self) -> tuple[PosteriorMode, ...]:
        """Return the modes where there are several, else none."""
        return ()

    @property
    def verdict(self) -> Verdict:
        """Verdict on the records learned from: usable, look again or wrong, and why.

        It is that of `Posterior.validate` on the first 262144 samples, and knows of the prior's
        bounds, of several modes and of the warnings of the run.
        """
        tested = self._tested
        if isinstance(tested, str):
            return Verdict(NOT_JUDGED, (tested,))
        rows = list(self.table())
        first = [row.far for row in rows if row.surprising] + [r.ends for r in rows if r.ends]
        others = [*_uncounted(tested), *self._doubts()]
        return tested.judged(first, others, self._unlikely_noise(rows))

    @cached_property
    def _tested(self) -> Validation | str:
        """Validation on the first samples, or why there is none."""
        if self.learning_rate != 1.0:
            return "the likelihood was weighed down by robust(): look at the verdict without it"
        try:
            problem = self.problem
            if max(map(len, problem.records)) > JUDGED:
                problem = problem.with_records([record[:JUDGED] for record in problem.records])
            return validate(
                problem, self.solver, self.likelihood, *self._judged_draws(), self.shift
            )
        except InputError as error:
            return str(error)

    def _unlikely_noise(self, rows: Sequence[ParameterRow]) -> list[str]:
        """Say which parameters of the noise are outside the central 95 % of their prior.

        Errors of a model raise the noise that is learned, as does another unit.
        """
        model, (_, _, low, high, _) = self.problem.model, self.problem.prior.spread
        of_noise = ca.which_depends(model.noise, model.theta, 1)
        found = list[str]()
        for j in np.flatnonzero(of_noise).tolist():
            row = rows[j]
            size = "more" if row.low > high[j] else "less" if row.high < low[j] else ""
            if size and not row.surprising:
                found.append(row.unlikely(size))
        return found

    def _doubts(self) -> list[str]:
        """Say that there are several modes, and warnings of the run."""
        modes = len(self.several_modes)
        told = [f"{modes} modes explain the record: the mean of all is none of them"] * (modes > 1)
        own = set(self.warnings) - set(() if self.shift is None else self.shift.warnings)
        return [*told, *[WARNED] * bool(own)]


def _uncounted(tested: Validation) -> list[str]:
    """Say that standard deviations take errors for white that have structure."""
    if not tested.structured:
        return []
    return [
        "standard deviations take errors for white: posterior.robust(), or --robust, widens them"
    ]
