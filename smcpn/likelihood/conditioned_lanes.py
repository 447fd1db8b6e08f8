"""From a scheme of `conditioned` to a compiled likelihood, and to what it expects of a sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.errors import InputError
from smcpn.likelihood.conditioned import ConditionedSymbols, Grid, Scheme
from smcpn.likelihood.conditioned_rows import conditioned_rows
from smcpn.likelihood.diffusion import Diffusion
from smcpn.likelihood.lanes import LaneLikelihood
from smcpn.likelihood.prediction import Expected, Prediction
from smcpn.likelihood.processes import Layout
from smcpn.problem import Problem
from smcpn.record import Record
from smcpn.solver import EKF0, EKF1

MAX_SIZE = 24
"""Rows of a covariance beyond which straight-line code gets too long to compile."""


class ConditionedLikelihood(LaneLikelihood):
    """A likelihood of the family; its diffusion can be raised without compiling anew."""

    def __init__(
        self,
        kernel: LaneKernel,
        symbols: ConditionedSymbols,
        records: Sequence[Record],
        solver: EKF0 | EKF1,
        factor: float = 1.0,
    ) -> None:
        self._symbols = symbols

        def write(record: Record, number: int) -> Rows:
            return conditioned_rows(symbols, record, int(solver.steps), number, factor)

        super().__init__(kernel, records, solver, write)

    def at_diffusion(self, factor: float) -> ConditionedLikelihood:
        """See `DiffusedLikelihood.at_diffusion`."""
        kernel = self._kernel.with_constants(self._symbols.constant_values(factor))
        return ConditionedLikelihood(kernel, self._symbols, self._records, self.solver, factor)


@dataclass(frozen=True)
class Conditioned:
    """A likelihood of the family, to be built of a problem by calling it.

    Attributes
    ----------
    scheme : Scheme
        What is weighed, and which filter linearises where.
    diffusion : callable
        ``diffusion(problem, solver)`` returns the `Diffusion`, or refuses the solver's.
    """

    scheme: Scheme
    diffusion: Callable[[Problem, EKF0 | EKF1], Diffusion]

    def __call__(
        self,
        problem: Problem,
        solver: EKF0 | EKF1,
        threads: int | None = None,
        *,
        start_order: int | None = None,
    ) -> ConditionedLikelihood:
        """Build the likelihood.

        Parameters
        ----------
        problem : Problem
        solver : EKF0 or EKF1
        threads : int, optional
        start_order : int, optional
            See `ConditionedSymbols`.

        Raises
        ------
        InputError
            If the likelihood cannot use the solver's diffusion, its steps are not a number, or its
            covariance is too large to be compiled.
        """
        symbols = self._symbols(problem, solver, Grid.of(problem.records), start_order)
        kernel = LaneKernel(symbols.program(symbols.log_density()), threads)
        return ConditionedLikelihood(kernel, symbols, problem.records, solver)

    def prediction(
        self, problem: Problem, solver: EKF0 | EKF1, number: int, record: Record
    ) -> Prediction:
        """Mean and covariance of the noise-free outputs given the samples before."""
        given = replace(solver, steps=1)
        symbols = self._symbols(problem, given, Grid.of([record]), share=False)
        emitted = Expected(*symbols.prediction(), states=symbols.states)

        def rows(record: Record, steps: int) -> Rows:
            return conditioned_rows(symbols, record, steps, number)

        return Prediction.of(
            symbols.program, emitted, symbols.local_error(), solver.order + 1, rows
        )

    def _symbols(
        self,
        problem: Problem,
        solver: EKF0 | EKF1,
        grid: Grid,
        start_order: int | None = None,
        share: bool = True,
    ) -> ConditionedSymbols:
        if solver.steps == "auto":
            raise InputError("steps 'auto' is still to be chosen: use smcpn.ibis, or give a number")
        layout = Layout.of(problem.model, solver, outputs=True)
        size = max(len(block.processes) for block in layout.blocks) * (solver.order + 1)
        if size > MAX_SIZE:
            raise InputError(
                f"the covariance of coupled states has {size} rows, more than the {MAX_SIZE} that "
                "are compiled: use a lower order, EKF0, or EKF1(jacobian='diagonal')"
            )
        return ConditionedSymbols(
            problem.model,
            solver,
            self.scheme,
            self.diffusion(problem, solver),
            grid,
            share=share,
            start_order=start_order,
        )
