"""Likelihoods whose filter is conditioned on the data: `Filtering`, `Dalton` and `Fenrir`.

A probabilistic solver is a Gaussian filter whose data are the residuals z of the ODE, zero at the
end of every step (`gaussian_filter`). The likelihoods let it see the samples y_0, y_1, ... too:

Filtering
    sum_t log p(y_t | y_<t, z_<=t). One filter, *conditioned* on the residuals and, at every
    sample, on the outputs, so that errors of the solver do not add up over the record. With a
    calibrated diffusion a *data-free* filter, which sees z alone, runs beside it: its residuals
    yield the diffusion (`smcpn.likelihood.diffusion`).
DALTON
    log p(y, z) - log p(z) (Wu and Lysy 2024, algorithm 1). The conditioned filter yields

        log p(y, z) = sum_t [log p(y_t | y_<t, z_<=t) + sum_n log N(e_n; 0, s_n)],

    e_n and s_n being residuals of the steps between the samples t - 1 and t and their variances.
    A data-free filter yields log p(z) = sum_t sum_n log N(e'_n; 0, s'_n). Each linearises the
    ODE at its own mean.
Fenrir
    log p(y | z) = log p(y, z) - log p(z) under one linear Gaussian model (Tronarp, Bosch and Hennig
    2022, eq. 50). The paper solves the ODE forward in time, which makes it a Gauss-Markov process
    given z, and conditions that process on the outputs backward in time. The process is the linear
    model that the data-free filter made on its way. So the two filters of DALTON compute the same
    number, the conditioned one taking the data-free one's linearisation, without a smoother.

All go forward in time, sample by sample, so all have increments. In DALTON and Fenrir the data-free
filter is carried as its difference from the conditioned one (`data_free`): the totals log p(y, z)
and log p(z) are large and nearly equal.

Where the input jumps or bends at the samples, the derivatives of the state restart at every
sample from their exact values, as in `marginal`; the covariance keeps that of the values and what
the linearisation makes of it. Where only the spacing changes, the coordinates are rescaled.

References
----------
Wu, Lysy (2024). Data-adaptive probabilistic likelihood approximation for ordinary differential
equations. AISTATS.
Tronarp, Bosch, Hennig (2022). Fenrir: physics-enhanced regression for initial value problems. ICML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.kernel import LaneKernel
from smcpn.codegen.lower import LaneProgram
from smcpn.errors import InputError
from smcpn.likelihood.coloured import with_coloured_noise
from smcpn.likelihood.conditioning import (
    ConditionedSymbols,
    Scheme,
    condition_on_outputs,
    log_density,
    next_interval,
    predict_outputs,
    shared_covariances,
    solver_step,
    start_state,
    surplus_after,
)
from smcpn.likelihood.covariance import (
    MOST_ROWS,
    SharedCovariance,
    SharedRun,
    most_rows,
    output_covariance,
)
from smcpn.likelihood.delayed import DeadTimes
from smcpn.likelihood.diffusion import Diffusion, known_diffusion, known_or_calibrated_diffusion
from smcpn.likelihood.inputs import KernelInputs
from smcpn.likelihood.lanes import Grid, LaneLikelihood
from smcpn.likelihood.measurement import possible
from smcpn.likelihood.registry import ExpectedOutputs, Recursion, number_of_steps
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.model.signal import Samples, SharedGraphs
from smcpn.model.solver import EKF1, ProbabilisticSolver, Solver
from smcpn.pn.layout import Layout

Array = NDArray[np.float64]


class GainPass:
    """Gains of covariances that all particles share, as a `SharedPass`.

    Its memory are these covariances at a sample.

    length: Of a step, where all are alike, or of those of mean length.
    steps: Of a sampling interval.
    factor: Raises the diffusion, where it is a number that gains depend on.
    """

    def __init__(
        self,
        symbols: ConditionedSymbols,
        covariances: list[SharedCovariance],
        length: float,
        steps: int,
        factor: float,
    ) -> None:
        self._symbols, self._length, self._steps = symbols, length, steps
        self._constants = np.array(symbols.constant_values(factor))
        row = ca.vertcat(symbols.sample.present, symbols.h, symbols.h_before, symbols.set_back.row)
        self._runs = [
            SharedRun(covariance, symbols.scale, row, symbols.constants, steps)
            for covariance in covariances
        ]
        self.memory = np.zeros(sum(run.size for run in self._runs))
        self.n_gains = sum(len(covariance.step_gains.symbols) for covariance in covariances)

    def __call__(
        self, samples: Samples, a: int, b: int, memory: Array
    ) -> tuple[Array, Array, Array]:
        """Gains of the steps and of the samples [a, b), and the covariances at the last one."""
        symbols, columns = self._symbols, samples.columns(a - 1, b)
        lengths = np.full(b - a, self._length)
        if symbols.grid.rescales:
            lengths = np.diff(columns[:, 0]) / self._steps
        following = np.append(lengths[1:], lengths[-1])
        present = np.isfinite(columns[1:, -symbols.model.outputs.numel() :])
        left = symbols.set_back.numbers(columns[1:])
        rows = np.column_stack([present, following, lengths, left])
        scales = symbols.diffusion.scales(lengths[1:], self._length, symbols.order)
        by_step = np.repeat(scales, self._steps)[:, None]
        made: list[tuple[Array, Array, Array]] = []
        for run in self._runs:
            made.append(run(memory[: run.size], by_step, rows, self._constants))
            memory = memory[run.size :]
        step_gains, sample_gains, after = zip(*made, strict=True)
        return np.column_stack(step_gains), np.column_stack(sample_gains), np.concatenate(after)


class ConditionedLikelihood(LaneLikelihood):
    """A compiled likelihood whose diffusion can be raised without compiling anew."""

    def __init__(
        self,
        kernel: LaneKernel,
        recursion: Conditioned,
        records: Sequence[Record],
        solver: Solver,
        factor: float = 1.0,
    ) -> None:
        self._recursion, steps = recursion, number_of_steps(solver)

        def inputs(record: Record, number: int) -> KernelInputs:
            return recursion.inputs(record, steps, number, factor=factor)

        super().__init__(kernel, records, solver, inputs)

    def at_diffusion(self, factor: float) -> ConditionedLikelihood:
        """Copy with the standard deviation of the diffusion times ``factor``."""
        kernel = self._kernel.with_constants(self._recursion.symbols.constant_values(factor))
        return ConditionedLikelihood(kernel, self._recursion, self._records, self.solver, factor)


class Conditioned(Recursion):
    """A likelihood of the data-conditioned filter: `Filtering`, `Dalton` or `Fenrir`.

    Coloured noise is one more entry of the filter, which `coloured.moved_factor` takes from sample
    to sample, and which the filter without data has as it is without: stationary.
    """

    coloured_noise = True
    takes_parts = Recursion.takes_parts | {"delay", "accumulators"}
    scheme: ClassVar[Scheme]
    """Which likelihood the filters compute."""

    def __init__(
        self,
        problem: Problem,
        solver: ProbabilisticSolver,
        grid: Grid,
        *,
        share: bool = True,
        start_order: int | None = None,
    ) -> None:
        dead_times = DeadTimes(problem.model, grid)
        self.model = model = dead_times.model
        grid = replace(grid, restarts=grid.restarts or bool(model.accumulators))
        layout = Layout.connected(model.x, model.rhs, solver, model.outputs, model.coloured)
        rows = most_rows(layout)
        if self.scheme.joint and rows > MOST_ROWS:
            raise InputError(
                f"the covariance of coupled states has {rows} rows, more than the {MOST_ROWS} that "
                f"the likelihood {self.name} compares with those of a filter without data: use "
                "likelihood='filtering', a lower order, or EKF1(jacobian='diagonal')"
            )
        self.local_order = solver.order + 1
        diffusion = self.diffusion(problem, solver)
        self.symbols = ConditionedSymbols.of(
            dead_times,
            solver,
            self.scheme,
            diffusion,
            grid,
            share=share,
            start_order=start_order,
        )
        self.sample = self.symbols.sample
        self.step = solver_step(self.symbols)
        self.predicted = predict_outputs(self.symbols)
        self.update = condition_on_outputs(self.symbols, self.predicted)
        self.interval = next_interval(self.symbols, self.update)
        self.shared = shared_covariances(self.symbols, self.step, self.update, self.interval)
        self.signal = dead_times.signal(
            grid.smooth,
            not grid.rescales,
            places=(1.0,),
            rates=solver.order - 1 if grid.restarts else 0,
            before=int(grid.rescales),
            more=sum(len(covariance.sample_gains.symbols) for covariance in self.shared),
        )
        # Of a step, where all are alike, or of those of mean length; and its share of an interval.
        self.length, self.share = (self.signal.constant(name) for name in ("length", "share"))

    @classmethod
    def diffusion(cls, problem: Problem, solver: ProbabilisticSolver) -> Diffusion:
        """Diffusion of the processes; refuses that of a solver which it cannot use."""
        return known_diffusion(problem, solver, likelihood=cls.name)

    @classmethod
    def goes_with(cls, solver: type[Solver] | Solver) -> bool:
        """Any solver that is a Gaussian filter with steps that all particles share."""
        return solver.probabilistic and not solver.adaptive

    @classmethod
    def default_solver(cls, problem: Problem) -> Solver:
        """`EKF1` with a process for each chain of derivatives.

        A filter that sees the data has no use for the first-order form: where v is x', one process
        for both has no second residual to leave an error.
        """
        needed = cls.known_diffusion and cls.takes_noise(problem.model)
        if problem.diffusion is None and needed:
            raise InputError(
                f"the {cls.name} likelihood needs a diffusion: give "
                "solver=smcpn.EKF1(diffusion=...) a number, or learn it, "
                "smcpn.Problem(diffusion='kappa', prior={'kappa': ...})"
            )
        return EKF1(order=4, form="chain", diffusion=problem.diffusion or "fixed")

    @classmethod
    def counterpart(cls, problem: Problem, solver: Solver) -> Solver:
        """Solver to compare with; a diffusion that has to be known and is not, is one."""
        diffusion = problem.diffusion or (1.0 if cls.known_diffusion else "fixed")
        return EKF1(order=4, steps=solver.steps, form="chain", diffusion=diffusion)

    @classmethod
    def predicting(cls, problem: Problem, solver: Solver, grid: Grid, **options: Any) -> Self:
        """Copy that predicts; each particle holds its covariances."""
        return super().predicting(problem, solver, grid, share=False, **options)

    @override
    def constant_values(self, solver: Solver) -> tuple[float, ...]:
        return self.symbols.constant_values(1.0)

    @override
    def over(
        self, records: Sequence[Record], solver: Solver, kernel: LaneKernel
    ) -> ConditionedLikelihood:
        return ConditionedLikelihood(kernel, self, records, solver)

    @override
    def program(self, emitted: ca.SX) -> LaneProgram:
        model, symbols, sample = self.model, self.symbols, self.symbols.sample
        start_symbols, start = start_state(symbols)
        state = [s for f in symbols.filters for s in f.state]
        if symbols.data_free is not None:
            state += symbols.data_free.state
        state += [*symbols.scores, *symbols.diffusion.sums]
        sample_gains = [s for c in self.shared for s in c.sample_gains.symbols]
        derivatives, h = self.interval.input_derivatives, (symbols.h, symbols.h_before)
        gap, gap_before = ([model.gap], [symbols.gap_before]) if model.coloured else ([], [])
        program = LaneProgram(
            theta=model.theta,
            constants=symbols.constants,
            constant_values=symbols.constant_values(1.0),
            state=ca.vertcat(*state),
            start_row=ca.vertcat(start_symbols.row, symbols.h),
            shared=self._graphs(),
            interval_row=ca.vertcat(
                sample.row,
                *derivatives,
                *h,
                *sample_gains,
                symbols.held,
                *gap,
                *gap_before,
                symbols.set_back.row,
            ),
            step_row=ca.vertcat(model.u, model.t, symbols.h, symbols.scale, symbols.count),
            gain_row=ca.vertcat(*[s for c in self.shared for s in c.step_gains.symbols]),
            sample_row=ca.vertcat(sample.row, symbols.h_before, *sample_gains, *gap_before),
            start=start,
            interval=self.interval.state,
            step=self.step.state,
            emitted=emitted,
            memory=self.step.algebra.memory,
            sections=self.step.algebra.sections(),
        )
        return symbols.dead_times.join(program, self.signal)

    def _graphs(self) -> SharedGraphs:
        """Rows by the samples: of a step, an interval, and a sample."""
        symbols, signal = self.symbols, self.signal
        h = before = before_sample = self.length
        if symbols.grid.rescales:
            h = before_sample = signal.spacing * self.share
            before = signal.spacing_before * self.share
        gaps, gap_before = [], []
        if self.model.coloured:
            interval = signal.parts / self.share
            gaps, gap_before = [signal.gap, before * interval], [before_sample * interval]
        scale = symbols.diffusion.scales(h, self.length, symbols.order)
        count = signal.steps + signal.step + 1.0
        return signal.graphs(
            step=ca.vertcat(signal.input(1.0), signal.time(1.0), h, scale, count),
            interval=ca.vertcat(
                signal.sample(1),
                *signal.rates,
                h,
                before,
                signal.others(1),
                signal.of_interval,
                *gaps,
                symbols.set_back.graph(signal),
            ),
            sample=ca.vertcat(signal.sample(), before_sample, signal.others(), *gap_before),
        )

    def log_density(self) -> ca.SX:
        """Log density, not finite from where the samples' sum is impossible."""
        increment = log_density(self.symbols, self.update)
        if not self.symbols.bounded:
            return increment
        return possible(increment, surplus_after(self.symbols, increment))

    def expected(self) -> ExpectedOutputs:
        """Outputs and states given the samples before."""
        f, predicted = self.symbols.conditioned, self.predicted
        states = f.states(f.mean, self.symbols.h_before)
        outputs, noise = ca.vertcat(*predicted.mean), ca.SX(len(predicted.mean), 1)
        covariance, slopes = predicted.covariance, [dict(row) for row in predicted.slopes]
        for j, (k, i) in f.layout.noise:
            noise[j] = f.mean[k][i]
            del slopes[j][k, i]
        if f.layout.noise:
            covariance = output_covariance(f.layout, f.factors, slopes)
        white = ExpectedOutputs.with_white_noise(self.sample, outputs - noise, covariance, states)
        return with_coloured_noise(white, self.model, noise, predicted.covariance)

    def local_error(self) -> ca.SX:
        """Change of each state by the residual of a step, (n, 1)."""
        f, h = self.symbols.conditioned, self.symbols.h
        predicted = f.predict()
        rates = f.linearise(predicted, h).rates
        errors = []
        for state in range(self.model.x.numel()):
            k, i = f.layout.place(state)
            top = f.layout.processes[k].rate
            residual = (rates[k, top] - predicted[k][top]) / f.layout.scale(top, h)
            # A rate that is off for a step moves its state by h, the state before by h^2 / 2.
            errors.append(residual * f.layout.scale(top - i, h))
        return ca.vertcat(*errors)

    def inputs(
        self,
        record: Record,
        steps: int,
        number: int = 0,
        interval: float | None = None,
        factor: float = 1.0,
    ) -> KernelInputs:
        """Inputs of its kernel; ``factor`` raises the diffusion."""
        symbols = self.symbols
        span = record[:2] if symbols.grid.rescales else record
        parts, dead_times = self.signal.parts, symbols.dead_times
        length = float(span.t[-1] - span.t[0]) / ((len(span) - 1) * steps * parts)
        return KernelInputs(
            self.signal,
            record,
            steps * parts,
            start_order=symbols.order - 1,
            start_more=dead_times.start(np.array([length])),
            number=number,
            n_initial=len(self.model.initial),
            numbers=(length, 1.0 / steps),
            shared=GainPass(symbols, self.shared, length, steps, factor) if self.shared else None,
        )


class Filtering(Conditioned):
    """sum_t log p(y_t | y_<t, z_<=t); a diffusion that changes by step is refused."""

    name = "filtering"
    any_density = True
    gaussian = True
    scheme = Scheme(joint=False)

    @classmethod
    @override
    def diffusion(cls, problem: Problem, solver: ProbabilisticSolver) -> Diffusion:
        return known_or_calibrated_diffusion(problem, solver, likelihood=cls.name)


class Dalton(Conditioned):
    """log p(y, z) - log p(z), each linearised where its own filter is.

    The filters linearise in different places, which leaves no density of the data; far above one,
    the data-free filter has diverged. A diffusion that is calibrated is refused.
    """

    name = "dalton"
    known_diffusion = True
    any_density = True
    scheme = Scheme(joint=True, excess=1.0)


class Fenrir(Conditioned):
    """log p(y | z) under the data-free filter's linearisation.

    A diffusion that is calibrated is refused.
    """

    name = "fenrir"
    known_diffusion = True
    scheme = Scheme(joint=True, linearise_free=True)
