"""The data-free likelihood of EKF1 with steps that every particle chooses for itself.

A first-order filter meets the ODE at the end of each step, as in `gaussian_filter`; being A-stable,
its steps are bounded by accuracy alone, so that it takes stiff problems. Steps are judged as in
`smcpn.solve` (Bosch, Hennig, Tronarp 2021; numbers of equations are theirs):

    predict     the mean (10a), and evaluate f and its Jacobian F there (11a),
    calibrate   the local diffusion s^2 = z' S^-1 z / d, S = H Q H', z the residual (21),
    judge       the local error sqrt(s^2 S_ii) (27)-(29), against ``tolerance`` times the largest
                that state i has been so far,
    accept      where it is below one: predict the covariance (10b), condition both on z = 0 (11);
                reject otherwise. Either way `smcpn.pn.step_control` says how long to step next.

The last step of a sampling interval ends at the sample. There

    log p(y_n | y_<n, theta) = log N(y_n; g(mu), J Sigma J' + R),  J = dg/dx at mu,

with the mean mu and covariance Sigma of the filter, which never sees the data (PN-SMC eq. 20, with
Sigma of EKF1 in place of that of EKF0); coloured noise is followed as in `marginal`. That suits
stiff problems: the solution forgets its errors, and where it does not, as in the time of a jump,
Sigma says so. A filter that were corrected by data in the midst of a jump would leave the slow
manifold at every sample.

Diffusion is that of the step, the same for all processes in units of the largest value that each
has had: nothing depends on the units of time or state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.memory import StraightLine
from smcpn.likelihood.accumulating import SetBack
from smcpn.likelihood.coloured import NoiseFilter
from smcpn.likelihood.covariance import output_covariance, predict, zero_covariance
from smcpn.likelihood.delayed import DeadTimes
from smcpn.likelihood.gaussian_filter import (
    FilterSymbols,
    Linearisation,
    Mean,
    rescaled_mean,
    step_algebra,
)
from smcpn.likelihood.inputs import KernelInputs
from smcpn.likelihood.lanes import Grid, SampleSymbols, StartSymbols
from smcpn.likelihood.own_steps import (
    AT_REST,
    Clock,
    IntervalSymbols,
    interval_signal,
    own_step_inputs,
)
from smcpn.likelihood.registry import ExpectedOutputs, Recursion
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.model.solver import AdaptiveEKF1, Solver
from smcpn.pn.gaussian import orthogonalised, squared_mahalanobis
from smcpn.pn.iwp import pascal, taylor_derivatives
from smcpn.pn.layout import Layout

Array = NDArray[np.float64]

ROUNDING = float(np.finfo(float).eps)
"""Least residual in units of its state."""


@dataclass(frozen=True)
class Attempt:
    """A step that is tried.

    mean: Predicted.
    sizes: (n, 1), with the predicted states.
    noise: Variance of the process noise of each process, in its coordinates.
    error: Local error in units of the tolerance, root mean square over the states.
    """

    h: ca.SX
    mean: Mean
    linearisation: Linearisation
    sizes: ca.SX
    noise: list[ca.SX]
    error: ca.SX


class Adaptive(Recursion):
    """The adaptive EKF1 recursion of one particle."""

    name = "adaptive"
    varying_noise = coloured_noise = True
    takes_parts = Recursion.takes_parts | {"delay", "accumulators"}

    def __init__(self, problem: Problem, solver: AdaptiveEKF1, grid: Grid) -> None:
        self.dead_times, self.order = DeadTimes(problem.model, grid), solver.order
        self.model, self.local_order = self.dead_times.model, solver.order + 1
        model, self._solver = self.model, solver
        self.set_back, self.restarts = SetBack.of(model), grid.restarts or bool(model.accumulators)
        self.layout = Layout.connected(model.x, model.rhs, solver, model.outputs)
        self.filter = FilterSymbols(model, self.layout, shared=False, prefix="m")
        self.clock, self.sample = (
            Clock.of(model),
            SampleSymbols.of(model, self.dead_times.at_sample),
        )
        self.noise = NoiseFilter.of(model)
        self.tolerance = ca.SX.sym("tolerance")
        self.between = IntervalSymbols.of(model)
        rates = self.order - 1 if self.restarts else 0
        self.signal = interval_signal(self.dead_times, grid, rates)

    @classmethod
    def goes_with(cls, solver: type[Solver] | Solver) -> bool:
        """Solvers that choose their steps by themselves."""
        return solver.adaptive

    @classmethod
    def counterpart(cls, problem: Problem, solver: Solver) -> Solver:
        """The solver itself, whose steps are its own."""
        return AdaptiveEKF1().begun()

    @override
    def constant_values(self, solver: Solver) -> tuple[float, ...]:
        return (*self.model.constant_values, float(cast(AdaptiveEKF1, solver).tolerance))

    @override
    def program(self, emitted: ca.SX) -> LaneProgram:
        model, clock, signal = self.model, self.clock, self.signal
        algebra, step = self._step()
        derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, self.order)
        start = StartSymbols.of(model, rates)
        initial, held = start.initial(model), ca.vertcat(*self.filter.state)
        begin = self.filter.states(self.filter.mean, clock.h)
        sizes, begun = self.between.sizes(model, initial, begin, clock.sizes)
        program = LaneProgram(
            theta=model.theta,
            constants=ca.vertcat(model.constants, self.tolerance),
            constant_values=self.constant_values(self._solver),
            state=ca.vertcat(clock.symbols, held),
            start_row=ca.vertcat(start.row, self.between.length),
            interval_row=ca.vertcat(
                model.u,
                model.t,
                *(rates if self.restarts else []),
                self.between.begin_row,
                self.set_back.row,
            ),
            step_row=self.between.row,
            sample_row=self.sample.row,
            start=self._start(derivatives, initial, sizes),
            interval=self._interval(derivatives, begun),
            step=step,
            emitted=emitted,
            shared=signal.graphs(
                step=self.between.graph(signal),
                interval=ca.vertcat(
                    signal.begin,
                    signal.begin_time,
                    *signal.rates,
                    self.between.begin_graph(signal),
                    self.set_back.graph(signal),
                ),
                sample=signal.sample(),
            ),
            left=0,
            control=tuple(range(clock.symbols.numel())),
            memory=algebra.memory,
            sections=algebra.sections(),
        )
        program = self.noise.join(program, signal, self.expected(), self.sample)
        return self.dead_times.join(program, signal)

    def _start(self, derivatives: list[ca.SX], initial: ca.SX, sizes: ca.SX) -> ca.SX:
        """State at the first sample: exact derivatives and no covariance."""
        h = self.between.length
        mean = [
            self.layout.scale(i, h) * derivatives[i][process.states[0]]
            for process in self.layout.processes
            for i in range(self.order + 1)
        ]
        exact = ca.substitute(ca.vertcat(*mean), self.model.x, initial)
        clock = Clock.values(ca.SX(0.0), h, h, sizes, 0.0, 0.0)
        return ca.vertcat(clock, exact, ca.SX.zeros(len(self.filter.held), 1))

    def _interval(self, derivatives: list[ca.SX], sizes: ca.SX) -> ca.SX:
        """State at a sample, from which the next interval begins."""
        f, clock = self.filter, replace(self.clock, sizes=sizes)
        mean, factors = f.moved(f.mean, f.factors, f.shares(self.set_back))
        if self.restarts:
            exact = [
                (k, i, derivatives[i][p.states[0]])
                for k, p in enumerate(self.layout.processes)
                for i in range(p.rate, self.order + 1)
            ]
            linearisation = f.linearise_derivatives(mean, clock.h, exact)
            mean, factors = f.restart(mean, factors, linearisation)
        # One that took more steps than it may would try as many in every interval.
        held = ca.if_else(clock.left > 0.0, ca.SX(np.nan), ca.vertcat(*f.values(mean, factors)))
        return ca.vertcat(clock.begun(self.between.length), held)

    def _attempt(self, algebra: StraightLine) -> Attempt:
        """Try a step: no covariance is needed to judge it."""
        f, clock = self.filter, self.clock
        h = clock.step
        mean = [pascal(row) for row in rescaled_mean(f.mean, h / clock.h)]
        linearisation = self._driven(f.linearise(mean, h), h).bound(algebra)
        sizes = ca.fmax(clock.sizes, ca.fabs(f.states(mean, h)))
        noise, error = self._judged(mean, linearisation, sizes, h, algebra)
        return Attempt(h, mean, linearisation, sizes, noise, error)

    def _driven(self, linearisation: Linearisation, h: ca.SX) -> Linearisation:
        """Linearisation with time and input at the end of a step."""
        model = self.model
        symbols, values = ca.vertcat(model.u, model.t), self.between.at(self.clock.left - h)
        return Linearisation(
            {
                entry: ca.substitute(rate, symbols, values)
                for entry, rate in linearisation.rates.items()
            },
            {
                pair: ca.substitute(slope, symbols, values)
                for pair, slope in linearisation.slopes.items()
            },
            linearisation.about,
        )

    def _judged(
        self,
        mean: Mean,
        linearisation: Linearisation,
        sizes: ca.SX,
        h: ca.SX,
        algebra: StraightLine,
    ) -> tuple[list[ca.SX], ca.SX]:
        """Process noise by the local diffusion (21), and local error (27)-(29)."""
        layout, moving = self.layout, [not rate.is_zero() for rate in ca.vertsplit(self.model.rhs)]
        # What stays as it is has neither residual nor error.
        d = sum(moving[process.states[-1]] for process in layout.processes)
        units = [ca.fmax(sizes[process.states[0]], AT_REST) ** 2 for process in layout.processes]
        variance, spreads = ca.SX(0.0), {}
        for block in layout.blocks:
            rows, weights = predict(layout, block, zero_covariance(block), units)
            seen = []
            for rate in block.rates:
                row = rows[rate]
                for by in block.values:
                    slope = linearisation.slopes.get((rate, by))
                    if slope is not None:
                        row = [v - slope * w for v, w in zip(row, rows[by], strict=True)]
                seen.append(row)
                spreads[rate] = sum(w * v * v for w, v in zip(weights, row, strict=True))
            used = [k for k, weight in enumerate(weights) if not weight.is_zero()]
            rows_used = [[row[k] for k in used] for row in seen]
            factor = orthogonalised(rows_used, [weights[k] for k in used], algebra=algebra)
            residuals = [linearisation.rates[k, i] - mean[k][i] for k, i in block.rates]
            variance += squared_mahalanobis(factor, residuals) / max(d, 1)
        total = ca.SX(0.0)
        for state in np.flatnonzero(moving).tolist():
            k, i = layout.place(state)
            top = layout.processes[k].rate
            # A rate that is off for a step moves its state by h, the state before by h^2 / 2.
            moved = layout.scale(top - i, h) / layout.scale(top, h)
            total += variance * spreads[k, top] * moved**2 / ca.fmax(sizes[state], AT_REST) ** 2
        error = ca.sqrt(total / max(sum(moving), 1)) / self.tolerance
        # A residual that happens to come out as zero does not mean that the step has no error.
        return [(variance + ROUNDING**2) * unit for unit in units], error

    def _step(self) -> tuple[StraightLine, ca.SX]:
        """State after a step that is accepted, rejected, or not taken any more."""
        f, clock, algebra = self.filter, self.clock, step_algebra(self.layout)
        tried = self._attempt(algebra)
        before = f.rescale(f.factors, tried.h / clock.h)
        after = f.condition_on_ode(
            tried.mean, tried.linearisation, tried.noise, algebra, factors=before
        )
        filtered = ca.vertcat(*f.values(after.mean, after.factors))
        judged = clock.judged(tried.h, tried.error, tried.sizes, self.local_order)
        state = judged.state(filtered, ca.vertcat(*f.state))
        return algebra, ca.vertcat(judged.clock, state)

    def expected(self) -> ExpectedOutputs:
        """Mean g(mu), solver covariance J Sigma J', and states at a sample."""
        model, f, h = self.model, self.filter, self.clock.h
        at = ca.vertcat(model.u, model.t), ca.vertcat(self.sample.input, self.sample.t)
        here, states = ca.substitute(model.outputs, *at), f.states(f.mean, h)
        # Where steps are still left to take, they were too many.
        known = ca.if_else(self.clock.left > 0.0, ca.SX(np.nan), 0.0)
        outputs = ca.substitute(here, model.x, states) + known
        covariance = output_covariance(self.layout, f.factors, f.output_slopes(h, here))
        return self.noise.expected(self.sample, outputs, covariance, states)

    def log_density(self) -> ca.SX:
        """Log N(y; g(mu), J Sigma J' + R), (1, 1)."""
        return self.expected().log_density(self.sample)

    def local_error(self) -> ca.SX:
        """Local error that the step control allows every step."""
        return self.tolerance * self.clock.sizes

    @override
    def inputs(
        self, record: Record, steps: int, number: int = 0, interval: float | None = None
    ) -> KernelInputs:
        return own_step_inputs(self.signal, self.dead_times, self.order - 1, record, number)
