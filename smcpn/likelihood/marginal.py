"""The data-free marginal likelihood of PN-SMC: EKF0 integrates, the data only weight.

Longbottom et al. (2024), arXiv:2404.12923, eqs. 16-21. Every state x of the model has a nu-times
integrated Wiener process as its prior. Given theta, a filter meets the ODE at each step, and no
data:

    predict      m = A mu,  P = A Sigma A' + Q                                    (eq. 16)
    update       z = h f(m_0) - m_1,  s = P_11,  K = P_1 / s,
                 mu = m + K z,  Sigma = P - K s K'                                (eq. 17)
    calibrate    Gamma_ii = mean of z_i^2 / s over the steps so far               (eq. 19)
    measure      v = y - g(mu),  S = J Gamma Sigma J' + R,  J = dg/dx at mu
                 log p(y_n | y_<n, theta) = log N(v; 0, S)               (minus eq. 20)

and log p(y | theta) is the sum of these over the samples (eq. 21). The mean over all steps is the
quasi-maximum-likelihood estimate of a diagonal diffusion; taken over those so far it is causal, so
that increments do not change as samples come. P, s and K do not depend on theta: all particles
share them (`smcpn.pn.iwp`).

Where the input jumps or bends at the samples (hold zoh, foh), and where these are not equally
spaced, the derivatives of the state restart at every sample from their exact values: the smooth
process prior would otherwise carry them across the jump, with an error that it does not know of.

Coloured noise has a filter of its own (`coloured`), which takes the solver's error in an output as
independent from sample to sample and, where several outputs are measured, from that in the others.
This is an approximation; where the solver claims nothing it is exact.

An observed derivative is g = f at the state. The filter's own entry for it is conditioned on
exactly and would claim an acceleration without solver error.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import factorial

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.lower import LaneProgram
from smcpn.errors import InputError
from smcpn.likelihood.accumulating import SetBack
from smcpn.likelihood.coloured import NoiseFilter
from smcpn.likelihood.delayed import DeadTimes
from smcpn.likelihood.diffusion import powered
from smcpn.likelihood.inputs import CHUNK, KernelInputs
from smcpn.likelihood.lanes import Grid, SampleSymbols, StartSymbols
from smcpn.likelihood.registry import ExpectedOutputs, Recursion
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.model.signal import Samples
from smcpn.model.solver import EKF0, Solver
from smcpn.pn.iwp import SharedGains, pascal, shared_gains, taylor_derivatives

Array = NDArray[np.float64]

MAX_ORDER = 6
COMPARED_ORDER = 4
"""Highest order of the solver of a comparison with another likelihood."""


class Marginal(Recursion):
    """The EKF0 recursion of one particle.

    The state of a lane holds the Nordsieck coordinates m_ij = h^j x_i^(j) / j! of every state and
    the running sum of z_i^2 / s; where samples are not equally spaced also the variance of a state
    at unit diffusion, and where states count since the last sample that since then. All particles
    share inputs and gains.

    Diffusion has the unit that it takes with the mean step as unit of time; a step of another
    length h scales variances by (h / mean)^(2 order + 1).
    """

    name = "marginal"
    divides = True
    varying_noise = True
    coloured_noise = True
    gaussian = True
    takes_parts = Recursion.takes_parts | {"delay", "accumulators"}

    def __init__(self, problem: Problem, solver: EKF0, grid: Grid) -> None:
        _check(solver)
        self.dead_times = DeadTimes(problem.model, grid)
        self.model, self.order = self.dead_times.model, solver.order
        self.local_order = self.order + 1
        counts = bool(self.model.accumulators)
        self.restarts = grid.restarts or grid.rescales or counts
        # Steps are of different lengths, or variances of states grow over different times.
        self.rescales = grid.rescales or self.dead_times.parts > 1 or counts
        n = self.model.x.numel()
        self.m = [[ca.SX.sym(f"m_{i}_{j}") for j in range(self.order + 1)] for i in range(n)]
        self.residual_sum = ca.SX.sym("residual_sum", n, 1)
        self.variance, self.set_back = ca.SX.sym("variance"), SetBack.of(self.model)
        self.counted = ca.SX.sym("counted", int(counts))
        self.per_step = ca.SX.sym("per_step")
        self.own = self.dead_times.growth(2 * self.order + 1)
        self.h = ca.SX.sym("h")
        self.noise = NoiseFilter.of(self.model)
        self.sample = SampleSymbols.of(self.model, self.dead_times.at_sample)
        self.signal = self.dead_times.signal(
            grid.smooth,
            not grid.rescales,
            places=(1.0,),
            rates=self.order - 1 if self.restarts else 0,
            more=int(not self.restarts),
        )
        names = ("unit", "variance_of_interval")
        self.unit, self.added = (self.signal.constant(name) for name in names)

    @classmethod
    def goes_with(cls, solver: type[Solver] | Solver) -> bool:
        """`EKF0`: the covariance of a linearised vector field is another for each particle."""
        return solver.probabilistic and solver.jacobian == "none"

    @classmethod
    def counterpart(cls, problem: Problem, solver: Solver) -> Solver:
        """Solver to compare with, of the other's order where it has one."""
        order = min(getattr(solver, "order", EKF0.order), COMPARED_ORDER)
        return EKF0(order=order, steps=solver.steps)

    def _predicted(self) -> tuple[list[list[ca.SX]], ca.SX]:
        """Coordinates m = A mu after a step of the prior (eq. 16), and h f(m_0) there."""
        m = [pascal(row) for row in self.m]
        predicted = ca.vertcat(*[row[0] for row in m])
        return m, self.h * ca.substitute(self.model.rhs, self.model.x, predicted)

    def _step(self) -> tuple[ca.SX, ca.SX, ca.SX]:
        """Rows of input and gains, and the state after a step (eqs. 16, 17, 19)."""
        gain = [ca.SX.sym(f"gain_{j}") for j in range(self.order + 1)]
        precision, scale = ca.SX.sym("precision"), ca.SX.sym("scale")
        m, rates = self._predicted()
        residual_sum = []
        for i, row in enumerate(m):
            z = rates[i] - row[1]
            row[:] = [value + g * z for value, g in zip(row, gain, strict=True)]
            # Without noise on the residual its gain is one: the rate is conditioned on exactly.
            row[1] = rates[i]
            residual_sum.append(self.residual_sum[i] + z * z * (precision * scale / self.own))
        step_row = ca.vertcat(self.model.u, self.model.t, self.h, scale)
        state = ca.vertcat(*[v for row in m for v in row], *residual_sum)
        return step_row, ca.vertcat(*gain, precision), state

    def expected(self) -> ExpectedOutputs:
        """Mean g(mu), solver covariance J Gamma Sigma J', and states at a sample (eq. 20)."""
        model, states = self.model, ca.vertcat(*[row[0] for row in self.m])
        jacobian = ca.jacobian(model.outputs, model.x)
        scaled = self.residual_sum * (self.per_step * self._variances)
        numerical = jacobian @ ca.diag(scaled) @ jacobian.T
        u = self.sample.input
        outputs, numerical = ca.substitute(
            [model.outputs, numerical], [model.x, model.u, model.t], [states, u, self.sample.t]
        )
        return self.noise.expected(self.sample, outputs, numerical, states)

    def log_density(self) -> ca.SX:
        """Log N(y; g(mu), J Gamma Sigma J' + R), (1, 1) (eqs. 20-21); not finite if impossible."""
        return self.expected().log_density(self.sample)

    def local_error(self) -> ca.SX:
        """Local error of a step: h times the residual."""
        m, rates = self._predicted()
        return rates - ca.vertcat(*[row[1] for row in m])

    @override
    def program(self, emitted: ca.SX) -> LaneProgram:
        model, signal = self.model, self.signal
        step_row, gain_row, step = self._step()
        derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, self.order)
        coordinates = self._coordinates(derivatives)
        start = StartSymbols.of(model, rates)
        initial = ca.substitute(coordinates, model.x, start.initial(model))
        restart = ca.substitute(coordinates, model.x, ca.vertcat(*[row[0] for row in self.m]))
        growth, added = ca.SX.sym("growth"), ca.SX.sym("added")
        varies = self.rescales
        variances = ca.vertcat(self.variance, self.counted)
        held = [self.residual_sum, *([variances] if varies else [])]
        begun = [
            self.residual_sum,
            *([variances + growth * self.own * added] if varies else []),
        ]
        program = LaneProgram(
            theta=model.theta,
            constants=model.constants,
            constant_values=model.constant_values,
            state=ca.vertcat(*[v for row in self.m for v in row], *held),
            start_row=ca.vertcat(start.row, self.h),
            interval_row=ca.vertcat(model.u, model.t, *rates, self.h, growth),
            step_row=step_row,
            gain_row=ca.vertcat(gain_row, added),
            sample_row=ca.vertcat(
                self.sample.row, self.per_step, *([] if varies else [self.variance])
            ),
            start=ca.vertcat(initial, ca.SX.zeros(sum(part.numel() for part in held), 1)),
            interval=ca.vertcat(restart, *begun) if self.restarts else None,
            step=ca.vertcat(step, *held[1:]),
            emitted=emitted,
            shared=signal.graphs(
                step=ca.vertcat(signal.input(1.0), signal.time(1.0), signal.h, 1.0 / self._growth),
                interval=ca.vertcat(
                    signal.begin, signal.begin_time, *signal.rates, signal.h, self._growth
                ),
                sample=self._sample_graph(0),
            ),
        )
        counting = self.set_back
        entries = ca.vertcat(*(row[0] for row in self.m), self.counted)
        share = ca.vertcat(counting.share, counting.row)
        program = counting.join(program, signal, entries, share)
        before = self._sample_graph(1)
        program = self.noise.join(program, signal, self.expected(), self.sample, before)
        return self.dead_times.join(program, signal)

    @property
    def _variances(self) -> ca.SX:
        """Variance of every state at unit diffusion, (n, 1): of a count that since it began."""
        variances = ca.repmat(self.variance, self.model.x.numel(), 1)
        for place in self.model.accumulators:
            variances[place] = self.counted
        return variances

    @property
    def _growth(self) -> ca.SX:
        """Variance that a step adds over that of a step of mean length."""
        if not self.rescales:
            return ca.SX(1.0)
        return powered(self.signal.h / self.unit, 2 * self.order + 1)

    def _sample_graph(self, back: int) -> ca.SX:
        """Row of a sample, or of the one before an interval."""
        signal = self.signal
        # Residuals of short steps are small: together they are those of the whole interval.
        steps = signal.steps if signal.parts == 1 else signal.steps * (1.0 / signal.parts)
        row = ca.vertcat(signal.sample(back), 1.0 / ca.fmax(steps, 1.0))
        if self.rescales:
            return row
        known = signal.number * self.added if self.restarts else signal.others(back)
        return ca.vertcat(row, known)

    def _coordinates(self, derivatives: list[ca.SX]) -> ca.SX:
        """Nordsieck coordinates h^j x^(j) / j!, state by state."""
        factors = [self.h**j / factorial(j) for j in range(self.order + 1)]
        return ca.vertcat(
            *[
                factors[j] * derivatives[j][i]
                for i in range(len(self.m))
                for j in range(self.order + 1)
            ]
        )

    @override
    def inputs(
        self, record: Record, steps: int, number: int = 0, interval: float | None = None
    ) -> KernelInputs:
        order, signal = self.order, self.signal
        plain = KernelInputs(
            signal,
            record,
            steps,
            start_order=order - 1,
            number=number,
            n_initial=len(self.model.initial),
            recur=self.restarts,
            interval=interval if self.restarts else None,
        )
        steps = plain.most_steps
        # Without restarts, gains are stationary long before as many steps.
        shared = shared_gains(order, steps if self.restarts else steps * CHUNK)
        taken = np.arange(1, (steps if self.restarts else len(shared.gain)) + 1)
        last = np.minimum(taken, len(shared.gain)) - 1
        gains = np.column_stack(
            [shared.gain[last], 1.0 / shared.innovation[last], shared.variance_after(taken)]
        )
        unit = record.interval / steps
        given = replace(
            plain,
            start_more=self.dead_times.start(np.array([unit])),
            numbers=(unit, float(shared.variance_after(steps))),
            gains=gains,
            shared=None if self.restarts else GrowingVariance(shared, steps),
        )
        return given.in_parts()


@dataclass(frozen=True)
class GrowingVariance:
    """Variance of a state at the samples, at unit diffusion, where steps never start anew."""

    gains: SharedGains
    steps: int
    memory: Array = field(default_factory=lambda: np.empty(0))
    n_gains: int = 0

    def __call__(
        self, samples: Samples, a: int, b: int, memory: Array
    ) -> tuple[None, Array, Array]:
        """As of `smcpn.likelihood.inputs.SharedPass`."""
        variance = self.gains.variance_after(self.steps * np.arange(a, b))
        return None, variance[:, None], memory


def _check(solver: EKF0) -> None:
    if solver.form != "first":
        raise InputError(
            "form 'chain' cannot be used with the marginal likelihood: without data its variance "
            "of the displacement grows without bound, EKF0 knows no restoring force; "
            "use form='first'"
        )
    if solver.diffusion != "fixed-diagonal":
        raise InputError(
            f"diffusion {solver.diffusion!r} cannot be used with the marginal likelihood, which "
            "calibrates by the running quasi-MLE: use diffusion='fixed-diagonal'"
        )
    if solver.order > MAX_ORDER:
        raise InputError(
            f"order is {solver.order}: the marginal likelihood takes orders up to {MAX_ORDER}, "
            "beyond which its explicit steps would have to be tiny"
        )
