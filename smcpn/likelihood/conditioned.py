"""Filters that see the data: the one family behind `filtering`, `dalton` and `fenrir`.

A filter *conditioned* on the data corrects its state at every sample; beside it, where needed, a
*data-free* filter solves the ODE as if there were none. Both step forward in time, so that all
three likelihoods come as increments.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import log, pi

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import Rows
from smcpn.codegen.program import LaneProgram
from smcpn.hold import interval_derivatives, substep_inputs, substep_times
from smcpn.likelihood.covariance import Covariance, Gain, SharedRun
from smcpn.likelihood.gaussian_filter import GaussianFilter, Innovation, Linearisation, Mean
from smcpn.likelihood.lanes import SampleSymbols, StartSymbols, sample_rows, start_row
from smcpn.likelihood.processes import Layout
from smcpn.pn.taylor import taylor_derivatives
from smcpn.problem import Model
from smcpn.record import Record
from smcpn.solver import EKF0, EKF1

Array = NDArray[np.float64]


class Filter:
    """Symbols and graphs of one of the filters in a lane."""

    def __init__(self, model: Model, layout: Layout, shared: bool, prefix: str) -> None:
        self.graphs = GaussianFilter(model, layout)
        self.layout = layout
        self.mean: Mean = [
            [ca.SX.sym(f"{prefix}m_{k}_{i}") for i in range(layout.order + 1)]
            for k in range(len(layout.processes))
        ]
        self.covariance = Covariance(self.graphs, shared, prefix)

    @property
    def state(self) -> list[ca.SX]:
        return [*chain(*self.mean), *self.covariance.state]

    def flat(self, mean: Mean, factors) -> list[ca.SX]:
        values = [] if self.covariance.shared else self.covariance.flat(factors)
        return [*chain(*mean), *values]

    def step(
        self, predicted: Mean, linearisation: Linearisation, noise: list[ca.SX]
    ) -> tuple[Mean, list[Innovation]]:
        factors = self.covariance.step(linearisation, noise)
        mean, innovations = predicted, []
        for block, factor in zip(self.layout.blocks, factors, strict=True):
            mean, innovation = self.graphs.updated_mean(block, mean, factor, linearisation)
            innovations.append(innovation)
        return mean, innovations


@dataclass(frozen=True)
class Kind:
    """Which filters a likelihood runs."""

    free: bool
    linearise_free: bool
    score_residuals: bool


class ConditionedSymbols:
    def __init__(
        self, model: Model, solver, kind: Kind, restarts: bool, rescales: bool,
        diffusion, taylor: int | None = None,
    ) -> None:
        self.model, self.solver, self.kind = model, solver, kind
        self.restarts, self.rescales = restarts, rescales
        self.layout = Layout.of(model, solver)
        self.taylor = solver.order if taylor is None else taylor
        self.diffusion = diffusion
        self.needs_free = kind.free or diffusion in ("fixed", "fixed-diagonal")
        no_slopes = self.layout.jacobian == "none"
        self.kappa = ca.SX.sym("diffusion")
        known = not isinstance(diffusion, str)
        outside = ca.symvar(ca.vertcat(
            ca.vec(ca.jacobian(model.outputs, model.x)), model.noise_variance))
        constant = {s.element_hash() for s in ca.vertsplit(model.constants)} if model.constants.numel() else set()
        fixed_outputs = all(s.element_hash() in constant for s in outside)
        self.free = Filter(model, self.layout, no_slopes, "f") if self.needs_free else None
        self.seen = Filter(model, self.layout, no_slopes and known and fixed_outputs, "d")
        self.h, self.ratio, self.scale = ca.SX.sym("h"), ca.SX.sym("ratio"), ca.SX.sym("scale")
        self.count = ca.SX.sym("count")
        self.sample = SampleSymbols.of(model)
        self.likelihood_ratio, self.quadratic = ca.SX.sym("ratio_z"), ca.SX.sym("quad_z")
        n_sums = len(self.layout.processes) if diffusion == "fixed-diagonal" else int(diffusion == "fixed")
        self.sums = [ca.SX.sym(f"sum_{k}") for k in range(n_sums)]
        self.scores = [self.likelihood_ratio, self.quadratic] if kind.score_residuals else []

    def program(self) -> LaneProgram:
        model = self.model
        step = self._step()
        interval, emitted, rates = self._sample()
        start_symbols, start = self._start()
        free = self.free
        state = [*(free.state if free else []), *self.seen.state, *self.scores, *self.sums]
        self.step_symbols = ca.vertcat(self.scale)
        self.sample_symbols = ca.vertcat(self.sample.present, self.h, self.ratio)
        extra = known_number(self.diffusion)
        self.constants = ca.vertcat(model.constants, self.kappa) if extra is not None else model.constants
        self.constant_values = (*model.constant_values, extra) if extra is not None else model.constant_values
        gains = [f.covariance for f in (self.free, self.seen) if f and f.covariance.shared]
        row = self.sample.row
        k_symbols = [s for c in gains for s in c.sample_gains.symbols]
        return LaneProgram(
            theta=model.theta,
            constants=self.constants,
            constant_values=self.constant_values,
            state=ca.vertcat(*state),
            start_row=ca.vertcat(start_symbols.row, self.h),
            interval_row=ca.vertcat(row, *rates, self.h, self.ratio, *k_symbols),
            step_row=ca.vertcat(model.u, model.t, self.h, self.scale, self.count),
            gain_row=ca.vertcat(*[s for c in gains for s in c.step_gains.symbols]),
            sample_row=ca.vertcat(row, self.h, *k_symbols),
            start=ca.vertcat(*start),
            interval=interval,
            step=step,
            emitted=emitted,
        )

    def _noise(self, residual=None) -> list[ca.SX]:
        n = len(self.layout.processes)
        return [self.scale * self._diffusion_variance()] * n

    def _diffusion_variance(self) -> ca.SX:
        if isinstance(self.diffusion, ca.SX):
            return self.diffusion**2
        return self.kappa**2

    def _step(self) -> ca.SX:
        layout, free, seen = self.layout, self.free, self.seen
        sums = list(self.sums)
        after: list[ca.SX] = []
        lin_free, free_innovations = None, []
        if free:
            predicted = free.graphs.predicted_mean(free.mean)
            lin_free = free.graphs.linearised(predicted, self.h)
            mean, free_innovations = free.step(predicted, lin_free, [self.scale] * len(layout.processes))
            after += free.flat(mean, free.covariance.after_step)
        predicted = seen.graphs.predicted_mean(seen.mean)
        lin = seen.graphs.linearised(predicted, self.h) if not self.kind.linearise_free else lin_free
        if self.diffusion in ("fixed", "fixed-diagonal"):
            terms = {}
            for block, inn in zip(layout.blocks, free_innovations, strict=True):
                for (k, _), e, s in zip(block.rates, inn.residuals, inn.variances, strict=True):
                    terms[k] = e * e / s
            if self.diffusion == "fixed":
                sums[0] += sum(terms.values(), ca.SX(0)) / len(terms)
                variances = [sums[0] / self.count] * len(terms)
            else:
                sums = [s + terms[k] for k, s in enumerate(sums)]
                variances = [s / self.count for s in sums]
            noise = [self.scale * (v + 1e-60) for v in variances]
        elif self.diffusion in ("dynamic", "dynamic-diagonal"):
            noise = []
            for k, p in enumerate(layout.processes):
                z = lin.at((k, p.rate), predicted) - predicted[k][p.rate]
                _, w = seen.graphs._noise[p.rate]
                noise.append(z * z / float(w[0]) + 1e-60 * self.scale)
            if self.diffusion == "dynamic":
                noise = [sum(noise, ca.SX(0)) / len(noise)] * len(noise)
        else:
            noise = self._noise()
        mean, innovations = seen.step(predicted, lin, noise)
        after += seen.flat(mean, seen.covariance.after_step)
        if self.kind.score_residuals:
            ratio, quadratic = self.likelihood_ratio, self.quadratic
            kappa2 = self._diffusion_variance()
            for a, b in zip(innovations, free_innovations, strict=True):
                for e, s, e0, s0 in zip(a.residuals, a.variances, b.residuals, b.variances, strict=True):
                    ratio = ratio * (s / (s0 * kappa2))
                    quadratic = quadratic + (e * e / s - e0 * e0 / (s0 * kappa2))
            after += [ratio, quadratic]
        return ca.vertcat(*after, *sums)

    def _observe(self, mean: Mean) -> tuple[Mean, list[ca.SX], list[Gain]]:
        """Sequential update by the outputs; returns the mean, the residuals and the gains."""
        model, seen, sample = self.model, self.seen, self.sample
        outputs = ca.substitute(model.outputs, ca.vertcat(model.u, model.t), ca.vertcat(sample.u, sample.t))
        slopes = seen.graphs.output_slopes(mean, self._h_before, outputs)
        present = ca.vertsplit(sample.present)
        gains = seen.covariance.observe(slopes, ca.vertsplit(model.noise_variance), present)
        expected = ca.vertsplit(ca.substitute(outputs, model.x, seen.graphs.states(mean, self._h_before)))
        now = [list(row) for row in mean]
        residuals = []
        for j, gain in enumerate(gains):
            e = sample.y[j] - expected[j]
            for (k, i), slope in slopes[j].items():
                e -= slope * (now[k][i] - mean[k][i])
            e *= present[j]
            residuals.append(e)
            for (k, i), g in gain.gain.items():
                now[k][i] = now[k][i] + g * e
        return now, residuals, gains

    def _sample(self) -> tuple[ca.SX, ca.SX, list[ca.SX]]:
        model, seen, free = self.model, self.seen, self.free
        self._h_before = self.h / self.ratio
        mean, residuals, gains = self._observe(seen.mean)
        product, quadratic = ca.SX(1), ca.SX(0)
        for e, gain in zip(residuals, gains, strict=True):
            product *= gain.variance
            quadratic += e * e / gain.variance
        if self.kind.score_residuals:
            product *= self.likelihood_ratio
            quadratic += self.quadratic
        emitted = -0.5 * (ca.log(product) + quadratic + log(2 * pi) * ca.sum1(self.sample.present))
        emitted = ca.substitute(emitted, self.ratio, ca.SX(1))
        derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, self.layout.order)
        state: list[ca.SX] = []
        if self.restarts:
            u_t = ca.vertcat(model.u, model.t)
            here = ca.vertcat(self.sample.u, self.sample.t)
            entries = []
            for k, p in enumerate(self.layout.processes):
                for i in range(p.rate, self.layout.order + 1):
                    entries.append((k, i, ca.substitute(derivatives[i][p.states[0]], u_t, here)))
            free_lin = None
            if free:
                m = self._rescaled(free.mean)
                free_lin = free.graphs.linear_entries(m, self.h, entries)
                free.covariance.rescale(self.ratio)
                free.covariance.restart(free_lin)
                state += free.flat(_restarted(m, free_lin), free.covariance.after_sample)
            m = self._rescaled(mean)
            lin = free_lin if self.kind.linearise_free else seen.graphs.linear_entries(m, self.h, entries)
            seen.covariance.rescale(self.ratio)
            seen.covariance.restart(lin)
            state += seen.flat(_restarted(m, lin), seen.covariance.after_sample)
        else:
            rates = []
            if free:
                if self.rescales:
                    free.covariance.rescale(self.ratio)
                state += free.flat(self._rescaled(free.mean), free.covariance.after_sample)
            if self.rescales:
                seen.covariance.rescale(self.ratio)
            state += seen.flat(self._rescaled(mean), seen.covariance.after_sample)
        state += [ca.SX(1), ca.SX(0)] if self.kind.score_residuals else []
        interval = ca.vertcat(*state, *self.sums)
        if not (self.rescales or self.restarts):
            interval = ca.substitute(interval, self.ratio, ca.SX(1))
        return interval, emitted, rates

    def _rescaled(self, mean: Mean) -> Mean:
        if not self.rescales:
            return mean
        return [[v * self.ratio**i for i, v in enumerate(row)] for row in mean]

    def _start(self):
        model = self.model
        derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, self.layout.order)
        symbols = StartSymbols.of(model, rates)
        initial = symbols.initial(model)
        mean = []
        for p in self.layout.processes:
            for i in range(self.layout.order + 1):
                d = derivatives[i][p.states[0]] if i <= self.taylor else ca.SX(0)
                mean.append(ca.substitute(self.layout.scale(i, self.h) * d, model.x, initial))
        start = []
        for f in (self.free, self.seen):
            if f:
                start += [*mean, *[ca.SX(0)] * len(f.covariance.state)]
        start += [ca.SX(1), ca.SX(0)] if self.kind.score_residuals else []
        return symbols, start + [ca.SX(0)] * len(self.sums)


def known_number(diffusion):
    return float(diffusion) if isinstance(diffusion, (int, float)) else None


def _restarted(mean: Mean, derivatives: Linearisation) -> Mean:
    mean = [list(row) for row in mean]
    result = [list(row) for row in mean]
    for k, i in derivatives.rates:
        result[k][i] = derivatives.at((k, i), mean)
    return result


def conditioned_rows(symbols: ConditionedSymbols, record: Record, number: int = 0) -> Rows:
    model, solver = symbols.model, symbols.solver
    steps, n, order = int(solver.steps), record.n_inputs, solver.order
    n_intervals = len(record) - 1
    if symbols.rescales:
        lengths = np.diff(record.t) / steps
    else:
        lengths = np.full(n_intervals, (record.t[-1] - record.t[0]) / (n_intervals * steps))
    before = np.append(lengths[:1], lengths)
    ratio = lengths / before[:-1]
    inputs = np.empty((n_intervals, steps, n + 4))
    inputs[..., :n] = substep_inputs(record, steps)[:, 1:]
    inputs[..., n] = substep_times(record, steps)[:, 1:]
    inputs[..., n + 1] = lengths[:, None]
    inputs[..., n + 2] = lengths[:, None] ** (2 * order + 1)
    inputs = inputs.reshape(n_intervals * steps, n + 4)
    inputs[:, n + 3] = np.arange(1, len(inputs) + 1)
    samples = sample_rows(record, model.outputs.numel())
    present = samples[:, -model.outputs.numel():]
    step_gains, sample_gains = [], []
    run_samples = np.column_stack([present, np.append(lengths, lengths[-1]), np.append(ratio, 1.0)])
    for f in (symbols.free, symbols.seen):
        if f and f.covariance.shared:
            run = SharedRun(f.covariance, symbols.step_symbols, symbols.sample_symbols, symbols.constants)
            g, k = run(inputs[:, n + 2 : n + 3], run_samples, np.array(symbols.constant_values), steps)
            step_gains.append(g)
            sample_gains.append(k)
    parts = [samples[:-1]]
    if symbols.restarts:
        parts.append(interval_derivatives(record, order - 1).reshape(n_intervals, -1))
    parts += [lengths[:, None], ratio[:, None], *[k[:-1] for k in sample_gains]]
    gains = np.column_stack(step_gains) if step_gains else np.empty((1, 0))
    start = start_row(record, number, len(model.initial), order)
    return Rows(
        start=np.append(start, lengths[0]),
        inputs=inputs,
        gains=np.ascontiguousarray(gains),
        samples=np.column_stack([samples, before[:, None], *sample_gains]),
        steps=steps,
        intervals=np.ascontiguousarray(np.column_stack(parts)),
    )
