"""Likelihoods whose filter is conditioned on the data: `filtering`, `dalton` and `fenrir`.

A probabilistic solver is a Gaussian filter whose data are the residuals z of the ODE, zero at the
end of every step (`gaussian_filter`). The likelihoods let it see the samples y_0, y_1, ... too:

Filtering
    sum_t log p(y_t | y_<t, z_<=t). One filter, *conditioned* on the residuals and, at every
    sample, on the outputs, so that errors of the solver do not add up over the record. With a
    calibrated diffusion a *data-free* filter, which sees z alone, runs beside it: its residuals
    yield the diffusion (`diffusion`).
DALTON
    log p(y, z) - log p(z) (Wu and Lysy 2024, algorithm 1). The conditioned filter yields

        log p(y, z) = sum_t [log p(y_t | y_<t, z_<=t) + sum_n log N(e_n; 0, s_n)],

    e_n and s_n being residuals of the steps between the samples t - 1 and t and their variances.
    The data-free filter yields log p(z) = sum_t sum_n log N(e'_n; 0, s'_n). Each linearises the
    ODE at its own mean.
Fenrir
    log p(y | z) = log p(y, z) - log p(z) under one linear Gaussian model (Tronarp, Bosch and Hennig
    2022, eq. 50). The paper solves the ODE forward in time, which makes it a Gauss-Markov process
    given z, and conditions that process on the outputs backward in time. The process is the linear
    model that the data-free filter made on its way. So the two filters of DALTON compute the same
    number, the conditioned one taking the data-free one's linearisation, without a smoother.

All go forward in time, sample by sample, so all have increments. The difference log p(y, z) -
log p(z) is taken step by step, for the totals are large and nearly equal.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.program import LaneProgram
from smcpn.errors import InputError
from smcpn.likelihood.covariance import (
    Factor,
    SharedCovariance,
    SharedGains,
    SharedRun,
    condition_on_output,
    output_covariance,
)
from smcpn.likelihood.diffusion import Diffusion, known_diffusion, known_or_calibrated_diffusion
from smcpn.likelihood.expected import Expected, Prediction
from smcpn.likelihood.gaussian_filter import (
    FilterStep,
    FilterSymbols,
    Innovation,
    Linearisation,
    Mean,
    rescaled_mean,
)
from smcpn.likelihood.lanes import (
    LaneLikelihood,
    SampleSymbols,
    StartSymbols,
    sample_rows,
    start_row,
)
from smcpn.likelihood.measurement import measurement
from smcpn.likelihood.processes import Entry, Layout
from smcpn.model.hold import interval_derivatives, substep_inputs, substep_times
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.pn.taylor import taylor_derivatives
from smcpn.solver import ProbabilisticSolver


@dataclass(frozen=True)
class Scheme:
    """Which likelihood the filters compute.

    Attributes
    ----------
    joint : bool
        Whether an increment is log p(y, z) - log p(z) given the past, z being the residuals of
        the ODE since the sample before; otherwise log p(y | z).
    linearise_free : bool
        Whether the conditioned filter takes the data-free filter's linearisation of the ODE.
    """

    joint: bool
    linearise_free: bool = False


@dataclass(frozen=True)
class Grid:
    """What happens to the derivatives of the state at the samples.

    Attributes
    ----------
    restarts : bool
        They start anew: the input jumps or bends there.
    rescales : bool
        Their coordinates change: the length of the steps does.
    """

    restarts: bool
    rescales: bool

    @classmethod
    def of(cls, records: Sequence[Record]) -> Grid:
        """Grid that fits all records of a problem."""
        return cls(
            restarts=not all(record.smooth for record in records),
            rescales=not all(record.uniform for record in records),
        )


@dataclass(frozen=True)
class ConditionedSymbols:
    """The recursion of one particle: its symbols, and the kernel made of its graphs.

    The state of a particle holds one or two filters, the likelihood ratio of the residuals since
    the last sample, and the statistics of a calibrated diffusion. A sample corrects the state at
    the beginning of the interval after it.

    Attributes
    ----------
    model : Model
    scheme : Scheme
    diffusion : Diffusion
    grid : Grid
    order : int
        Of the solver.
    start_order : int
        Highest derivative that starts from its exact value; those beyond start at zero.
    free : FilterSymbols or None
        The data-free filter, where there is one.
    conditioned : FilterSymbols
    sample : SampleSymbols
    h, h_before : casadi.SX
        Length of a step, and of those before the sample.
    scale, count : casadi.SX
        h^(2 order + 1), and the number of steps so far.
    factor : casadi.SX
        By which the standard deviation of the diffusion is raised.
    ratio, quadratic : casadi.SX
        Product of s / s', and sum of e^2 / s - e'^2 / s', over the residuals since the last sample,
        e and s of the conditioned filter, e' and s' of the data-free one.
    """

    model: Model
    scheme: Scheme
    diffusion: Diffusion
    grid: Grid
    order: int
    start_order: int
    free: FilterSymbols | None
    conditioned: FilterSymbols
    sample: SampleSymbols
    h: ca.SX
    h_before: ca.SX
    scale: ca.SX
    count: ca.SX
    factor: ca.SX
    ratio: ca.SX
    quadratic: ca.SX

    @classmethod
    def of(
        cls,
        model: Model,
        solver: ProbabilisticSolver,
        scheme: Scheme,
        diffusion: Diffusion,
        grid: Grid,
        *,
        share: bool = True,
        start_order: int | None = None,
    ) -> ConditionedSymbols:
        """Make the symbols.

        Parameters
        ----------
        share : bool
            Whether covariances that are the same for all particles are left to shared rows.
        start_order : int, optional
            As the attribute, all derivatives by default; some public codes start some at zero.
        """
        # Without a Jacobian, covariances depend on the diffusion, the outputs and their noise only.
        share = share and solver.jacobian == "none"
        known = diffusion.is_number(model.theta)
        free = None
        if scheme.joint or diffusion.calibrated:
            alone = Layout.of(model, solver, outputs=False)
            free = FilterSymbols(model, alone, share and (diffusion.calibrated or known), "free")
        together = Layout.of(model, solver, outputs=True)
        shared = share and known and _known_outputs(model)
        names = ("h", "h_before", "scale", "count", "factor", "ratio", "quadratic")
        return cls(
            model,
            scheme,
            diffusion,
            grid,
            solver.order,
            solver.order if start_order is None else start_order,
            free,
            FilterSymbols(model, together, shared, "conditioned"),
            SampleSymbols.of(model),
            **{name: ca.SX.sym(name) for name in names},
        )

    @property
    def filters(self) -> list[FilterSymbols]:
        """The filters of a particle, in the order of its state and rows."""
        return [f for f in (self.free, self.conditioned) if f is not None]

    @property
    def constants(self) -> ca.SX:
        """Symbols of the known numbers."""
        return ca.vertcat(self.model.constants, *self.diffusion.constants, self.factor)

    def constant_values(self, factor: float) -> tuple[float, ...]:
        """Values of `constants` where the diffusion is raised by a factor."""
        return (*self.model.constant_values, *self.diffusion.constant_values, factor)

    @cached_property
    def step(self) -> Step:
        """State after a step of the solver."""
        return solver_step(self)

    @cached_property
    def update(self) -> Update:
        """Conditioned filter after a sample, and the sample's log density."""
        return condition_on_outputs(self)

    @cached_property
    def interval(self) -> Interval:
        """State at the beginning of an interval between samples."""
        return next_interval(self, self.update)

    @cached_property
    def shared(self) -> list[SharedCovariance]:
        """Covariances that are the same for all particles, whose gains the rows bring."""
        steps = [after for after in (self.step.free, self.step.conditioned) if after is not None]
        return [
            SharedCovariance(
                held=f.held,
                after_step=f.covariance_entries(after.factors),
                step_gains=after.gains,
                after_sample=f.covariance_entries(factors),
                sample_gains=self.update.gains if f is self.conditioned else SharedGains("none"),
            )
            for f, after, factors in zip(self.filters, steps, self.interval.factors, strict=True)
            if f.shared
        ]

    def program(self, emitted: ca.SX) -> LaneProgram:
        """Assemble the kernel that emits ``emitted`` at each sample."""
        model, sample = self.model, self.sample
        start_symbols, start = start_state(self)
        scores = [self.ratio, self.quadratic] if self.scheme.joint else []
        state = [*(s for f in self.filters for s in f.state), *scores, *self.diffusion.sums]
        sample_gains = [s for c in self.shared for s in c.sample_gains.symbols]
        rates = self.interval.input_derivatives
        return LaneProgram(
            theta=model.theta,
            constants=self.constants,
            constant_values=self.constant_values(1.0),
            state=ca.vertcat(*state),
            start_row=ca.vertcat(start_symbols.row, self.h),
            interval_row=ca.vertcat(sample.row, *rates, self.h, self.h_before, *sample_gains),
            step_row=ca.vertcat(model.u, model.t, self.h, self.scale, self.count),
            gain_row=ca.vertcat(*[s for c in self.shared for s in c.step_gains.symbols]),
            sample_row=ca.vertcat(sample.row, self.h_before, *sample_gains),
            start=start,
            interval=self.interval.state,
            step=self.step.state,
            emitted=emitted,
        )

    def log_density(self) -> ca.SX:
        """Log-likelihood of a sample given the past, (1, 1): the increment of `Scheme`."""
        product, total = ca.SX(1.0), ca.SX(0.0)
        if self.scheme.joint:
            product, total = self.ratio, -0.5 * self.quadratic
        for log_density, determinant in self.update.log_densities:
            product *= determinant
            total += log_density
        return total - 0.5 * ca.log(product)

    def prediction(self) -> tuple[ca.SX, ca.SX]:
        """Mean (q, 1) and covariance (q, q) of the noise-free outputs before a sample is seen.

        Only where no covariance is shared.
        """
        outputs, slopes = predicted_outputs(self)
        f = self.conditioned
        return ca.vertcat(*outputs), output_covariance(f.layout, f.factors, slopes)

    @property
    def states(self) -> ca.SX:
        """States of the model at a sample, (n, 1)."""
        return self.conditioned.states(self.conditioned.mean, self.h_before)

    def local_error(self) -> ca.SX:
        """Local error of a step, see `prediction`: what the residual does to each state, (n, 1)."""
        f = self.conditioned
        predicted = f.predict()
        rates = f.linearise(predicted, self.h).rates
        errors = []
        for state in range(self.model.x.numel()):
            k, i = f.layout.place(state)
            top = f.layout.processes[k].rate
            residual = (rates[k, top] - predicted[k][top]) / f.layout.scale(top, self.h)
            # A rate that is off for a step moves its state by h, the state before by h^2 / 2.
            errors.append(residual * f.layout.scale(top - i, self.h))
        return ca.vertcat(*errors)


def _known_outputs(model: Model) -> bool:
    """Whether the outputs' slopes and their Gaussian noise are known numbers."""
    slopes = ca.vec(ca.jacobian(model.outputs, model.x))
    unknown = ca.vertcat(model.x, model.u, model.t, model.theta)
    known = not ca.depends_on(ca.vertcat(slopes, model.noise_variance), unknown)
    return known and model.density is None


# ---- the recursion: start; per step predict and condition on the ODE; per sample condition on the
# outputs; per interval restart or rescale


def start_state(symbols: ConditionedSymbols) -> tuple[StartSymbols, ca.SX]:
    """State at the first sample: exact derivatives and no covariance."""
    model, layout, order = symbols.model, symbols.conditioned.layout, symbols.order
    derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, order)
    row = StartSymbols.of(model, rates)
    mean = [
        layout.scale(i, symbols.h) * derivatives[i][process.states[0]]
        if i <= symbols.start_order
        else ca.SX(0.0)
        for process in layout.processes
        for i in range(order + 1)
    ]
    initial = ca.substitute(ca.vertcat(*mean), model.x, row.initial(model))
    state: list[ca.SX] = []
    for f in symbols.filters:
        state += [initial, ca.SX.zeros(0 if f.shared else len(f.held), 1)]
    sums = [ca.SX(0.0)] * len(symbols.diffusion.sums)
    return row, ca.vertcat(*state, *_no_scores(symbols), *sums)


@dataclass(frozen=True)
class Step:
    """A particle after a step of the solver.

    Attributes
    ----------
    state : casadi.SX
    free : FilterStep or None
    conditioned : FilterStep
    """

    state: ca.SX
    free: FilterStep | None
    conditioned: FilterStep


def solver_step(symbols: ConditionedSymbols) -> Step:
    """Predict and condition on the ODE at the end of the step, in both filters."""
    free, conditioned = symbols.free, symbols.conditioned
    after_free, linearisation = None, None
    alone: list[Innovation] = []
    state: list[ca.SX] = []
    if free is not None:
        predicted = free.predict()
        linearisation = free.linearise(predicted, symbols.h)
        noise = symbols.diffusion.free_noise(symbols.scale, symbols.factor)
        after_free = free.condition_on_ode(predicted, linearisation, [noise] * len(free.mean))
        alone = after_free.innovations
        state += free.values(after_free.mean, after_free.factors)
    predicted = conditioned.predict()
    if linearisation is None or not symbols.scheme.linearise_free:
        linearisation = conditioned.linearise(predicted, symbols.h)
    noise, sums = symbols.diffusion.noise(
        alone, len(conditioned.mean), symbols.scale, symbols.count, symbols.factor
    )
    after = conditioned.condition_on_ode(predicted, linearisation, noise)
    state += conditioned.values(after.mean, after.factors)
    if symbols.scheme.joint:
        state += residual_scores(symbols, after.innovations, alone)
    return Step(ca.vertcat(*state, *sums), after_free, after)


def residual_scores(
    symbols: ConditionedSymbols, conditioned: list[Innovation], free: list[Innovation]
) -> list[ca.SX]:
    """Ratio and quadratic after a step: log p(z | y) - log p(z) is -(log ratio + quadratic) / 2."""
    ratio, quadratic = symbols.ratio, symbols.quadratic
    for (e, s), (e_free, s_free) in zip(_pairs(conditioned), _pairs(free), strict=True):
        ratio = ratio * (s / s_free)
        quadratic = quadratic + (e * e / s - e_free * e_free / s_free)
    return [ratio, quadratic]


def _pairs(innovations: list[Innovation]) -> list[tuple[ca.SX, ca.SX]]:
    """Residuals and variances over all blocks."""
    return [
        pair
        for innovation in innovations
        for pair in zip(innovation.residuals, innovation.variances, strict=True)
    ]


def _no_scores(symbols: ConditionedSymbols) -> list[ca.SX]:
    """Ratio and quadratic where no residual has been met since the last sample."""
    return [ca.SX(1.0), ca.SX(0.0)] if symbols.scheme.joint else []


def predicted_outputs(symbols: ConditionedSymbols) -> tuple[list[ca.SX], list[dict[Entry, ca.SX]]]:
    """Outputs g(m) at a sample, and their slopes by the coordinates of the values."""
    model, sample, f = symbols.model, symbols.sample, symbols.conditioned
    here = ca.substitute(
        model.outputs, ca.vertcat(model.u, model.t), ca.vertcat(sample.u, sample.t)
    )
    slopes = f.output_slopes(symbols.h_before, here)
    states = f.states(f.mean, symbols.h_before)
    return ca.vertsplit(ca.substitute(here, model.x, states)), slopes


@dataclass(frozen=True)
class Update:
    """The conditioned filter after a sample.

    Attributes
    ----------
    mean : Mean
    factors : list of Factor
    log_densities : list of (casadi.SX, casadi.SX)
        Of each output, see `Measurement.log_density`.
    gains : SharedGains
        Empty where every particle has its own covariance.
    """

    mean: Mean
    factors: list[Factor]
    log_densities: list[tuple[ca.SX, ca.SX]]
    gains: SharedGains


def condition_on_outputs(symbols: ConditionedSymbols) -> Update:
    """Condition on one output after the other, all linearised at the predicted mean."""
    f, sample = symbols.conditioned, symbols.sample
    outputs, slopes = predicted_outputs(symbols)
    mean, factors = [list(row) for row in f.mean], list(f.factors)
    gains, log_densities = SharedGains("output_gain"), []
    for j, expected in enumerate(outputs):
        for (k, i), slope in slopes[j].items():
            expected += slope * (mean[k][i] - f.mean[k][i])
        present = {entry: slope * sample.present[j] for entry, slope in slopes[j].items()}
        value = measurement(symbols.model, j, expected, sample.y[j], sample.present[j])
        factors, gain = condition_on_output(f.layout, factors, present, value.noise)
        if f.shared:
            gain, gains = gains.of_output(gain)
        for (k, i), g in gain.by_entry.items():
            mean[k][i] = mean[k][i] + g * value.innovation
        log_densities.append(value.log_density(gain))
    return Update(mean, factors, log_densities, gains)


@dataclass(frozen=True)
class Interval:
    """A particle at the beginning of an interval between samples.

    Attributes
    ----------
    state : casadi.SX
    factors : list of list of Factor
        Of each filter.
    input_derivatives : list of casadi.SX
        Symbols of the derivatives of the input that a restart needs.
    """

    state: ca.SX
    factors: list[list[Factor]]
    input_derivatives: list[ca.SX]


def next_interval(symbols: ConditionedSymbols, update: Update) -> Interval:
    """Take the state over from the sample before: rescaled, and restarted where the input asks."""
    h_ratio = symbols.h / symbols.h_before if symbols.grid.rescales else ca.SX(1.0)
    derivatives, inputs = _exact_derivatives(symbols) if symbols.grid.restarts else ([], [])
    state: list[ca.SX] = []
    factors: list[list[Factor]] = []
    linearisation: Linearisation | None = None
    for f in symbols.filters:
        source = update if f is symbols.conditioned else f
        mean = rescaled_mean(source.mean, h_ratio)
        blocks = f.rescale(source.factors, h_ratio)
        if symbols.grid.restarts:
            if linearisation is None or not symbols.scheme.linearise_free:
                linearisation = f.linearise_derivatives(mean, symbols.h, derivatives)
            mean, blocks = f.restart(mean, blocks, linearisation)
        state += f.values(mean, blocks)
        factors.append(blocks)
    tail = [*_no_scores(symbols), *symbols.diffusion.sums]
    return Interval(ca.vertcat(*state, *tail), factors, inputs)


def _exact_derivatives(
    symbols: ConditionedSymbols,
) -> tuple[list[tuple[int, int, ca.SX]], list[ca.SX]]:
    """Derivatives of each process that are no states, at a sample; and those of the input."""
    model = symbols.model
    derivatives, inputs = taylor_derivatives(model.x, model.u, model.t, model.rhs, symbols.order)
    at = ca.vertcat(model.u, model.t), ca.vertcat(symbols.sample.u, symbols.sample.t)
    wanted = [
        (k, i, ca.substitute(derivatives[i][process.states[0]], *at))
        for k, process in enumerate(symbols.conditioned.layout.processes)
        for i in range(process.rate, symbols.order + 1)
    ]
    return wanted, inputs


# ---- What all particles share in the likelihoods of `conditioned`: inputs, samples, and gains.

Array = NDArray[np.float64]


def conditioned_rows(
    symbols: ConditionedSymbols, record: Record, steps: int, number: int = 0, factor: float = 1.0
) -> Rows:
    """Build the rows of `ConditionedSymbols.program` for a record, the ``number``-th.

    ``factor`` raises the diffusion, where it is a number that gains depend on.
    """
    model, n_intervals = symbols.model, len(record) - 1
    lengths = _step_lengths(symbols, record, steps)
    before = np.append(lengths[:1], lengths)
    inputs = _step_rows(record, steps, lengths, symbols.order)
    samples = sample_rows(record, model.outputs.numel())
    constants = np.array(symbols.constant_values(factor))
    shared = np.column_stack([_present(symbols, samples), np.append(lengths, lengths[-1]), before])
    step_gains, sample_gains = _gains(symbols, inputs[:, -2:-1], shared, constants, steps)
    parts = [samples[:-1]]
    if symbols.grid.restarts:
        parts.append(interval_derivatives(record, symbols.order - 1).reshape(n_intervals, -1))
    parts += [lengths[:, None], before[:-1, None], sample_gains[:-1]]
    start = start_row(record, number, len(model.initial), symbols.order)
    return Rows(
        start=np.append(start, lengths[0]),
        inputs=inputs,
        gains=step_gains,
        samples=np.column_stack([samples, before, sample_gains]),
        steps=steps,
        intervals=np.ascontiguousarray(np.column_stack(parts)),
    )


def _step_lengths(symbols: ConditionedSymbols, record: Record, steps: int) -> Array:
    """Length of the steps of each interval; one and the same where the coordinates stay."""
    if symbols.grid.rescales:
        return np.diff(record.t) / steps
    count = len(record) - 1
    return np.full(count, float(record.t[-1] - record.t[0]) / (count * steps))


def _step_rows(record: Record, steps: int, lengths: Array, order: int) -> Array:
    """Input, time and length of each step, what it does to the noise, and its number."""
    n = record.n_inputs
    rows = np.empty((len(lengths), steps, n + 4))
    rows[..., :n] = substep_inputs(record, steps)[:, 1:]
    rows[..., n] = substep_times(record, steps)[:, 1:]
    rows[..., n + 1] = lengths[:, None]
    rows[..., n + 2] = lengths[:, None] ** (2 * order + 1)
    rows[..., n + 3] = np.arange(1, len(lengths) * steps + 1).reshape(-1, steps)
    return rows.reshape(-1, n + 4)


def _present(symbols: ConditionedSymbols, samples: Array) -> Array:
    return samples[:, -symbols.model.outputs.numel() :]


def _gains(
    symbols: ConditionedSymbols, scales: Array, samples: Array, constants: Array, steps: int
) -> tuple[Array, Array]:
    """Gains of the covariances that no particle holds, per step and per sample."""
    row = ca.vertcat(symbols.sample.present, symbols.h, symbols.h_before)
    by_step, by_sample = [np.empty((len(scales), 0))], [np.empty((len(samples), 0))]
    for covariance in symbols.shared:
        run = SharedRun(covariance, symbols.scale, row, symbols.constants)
        gains = run(scales, samples, constants, steps)
        by_step.append(gains[0])
        by_sample.append(gains[1])
    return np.column_stack(by_step), np.column_stack(by_sample)


# ---- from a scheme to a compiled likelihood, and to what it expects of a sample

MAX_SIZE = 24
"""Rows of a covariance beyond which straight-line code gets too long to compile."""


class ConditionedLikelihood(LaneLikelihood):
    """A compiled likelihood whose diffusion can be raised without compiling anew."""

    def __init__(
        self,
        kernel: LaneKernel,
        symbols: ConditionedSymbols,
        records: Sequence[Record],
        solver: ProbabilisticSolver,
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
    """Builds the likelihood of a scheme when called with a problem and a solver.

    Attributes
    ----------
    scheme : Scheme
    diffusion : callable
        ``diffusion(problem, solver, processes)`` returns the `Diffusion` for a number of processes,
        or refuses the solver's.
    """

    scheme: Scheme
    diffusion: Callable[[Problem, ProbabilisticSolver, int], Diffusion]

    def __call__(
        self,
        problem: Problem,
        solver: ProbabilisticSolver,
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
        symbols = self.symbols(problem, solver, Grid.of(problem.records), start_order)
        kernel = LaneKernel(symbols.program(symbols.log_density()), threads)
        return ConditionedLikelihood(kernel, symbols, problem.records, solver)

    def prediction(
        self, problem: Problem, solver: ProbabilisticSolver, number: int, record: Record
    ) -> Prediction:
        """Mean and covariance of the noise-free outputs given the samples before."""
        given = replace(solver, steps=1)
        symbols = self.symbols(problem, given, Grid.of([record]), share=False)
        emitted = Expected(*symbols.prediction(), states=symbols.states)

        def rows(record: Record, steps: int) -> Rows:
            return conditioned_rows(symbols, record, steps, number)

        return Prediction.of(
            symbols.program, emitted, symbols.local_error(), solver.order + 1, rows
        )

    def symbols(
        self,
        problem: Problem,
        solver: ProbabilisticSolver,
        grid: Grid,
        start_order: int | None = None,
        share: bool = True,
    ) -> ConditionedSymbols:
        """Symbols of the recursion of a problem, see `ConditionedSymbols.of`."""
        if solver.steps == "auto":
            raise InputError(
                "steps 'auto' is still to be chosen: use smcpn.identify, or give a number"
            )
        layout = Layout.of(problem.model, solver, outputs=True)
        size = max(len(block.processes) for block in layout.blocks) * (solver.order + 1)
        if size > MAX_SIZE:
            raise InputError(
                f"the covariance of coupled states has {size} rows, more than the {MAX_SIZE} that "
                "are compiled: use a lower order, EKF0, or EKF1(jacobian='diagonal')"
            )
        diffusion = self.diffusion(problem, solver, len(layout.processes))
        return ConditionedSymbols.of(
            problem.model,
            solver,
            self.scheme,
            diffusion,
            grid,
            share=share,
            start_order=start_order,
        )


filtering = Conditioned(
    Scheme(joint=False), partial(known_or_calibrated_diffusion, likelihood="filtering")
)
"""Builds the sum of log p(y_t | y_<t, z_<=t); a diffusion that changes by step is refused."""

dalton = Conditioned(Scheme(joint=True), partial(known_diffusion, likelihood="dalton"))
"""Builds log p(y, z) - log p(z); a diffusion that is calibrated is refused."""

fenrir = Conditioned(
    Scheme(joint=True, linearise_free=True), partial(known_diffusion, likelihood="fenrir")
)
"""Builds log p(y | z); a diffusion that is calibrated is refused."""
