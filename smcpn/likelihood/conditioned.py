"""Filters that see the data: the one family behind `filtering`, `dalton` and `fenrir`.

A filter *conditioned* on the data corrects its state at every sample. Beside it, where needed, a
*data-free* filter solves the ODE as if there were no data. Both go forward in time, so all three
likelihoods come as increments; a `Scheme` is what tells them apart.

Where the input jumps or bends at the samples, the derivatives of the state restart at every
sample from their exact values, as in `marginal`; the covariance keeps that of the values and what
the linearisation makes of it. Where only the spacing changes, the coordinates are rescaled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.program import LaneProgram
from smcpn.errors import InputError
from smcpn.likelihood.covariance import Covariance, FilterSymbols, SharedRun, rescaled_mean
from smcpn.likelihood.diffusion import Diffusion, KnownDiffusion, known_diffusion, running_diffusion
from smcpn.likelihood.expected import Expected, Prediction
from smcpn.likelihood.gaussian_filter import Innovation, Mean
from smcpn.likelihood.lanes import (
    LaneLikelihood,
    SampleSymbols,
    StartSymbols,
    sample_rows,
    start_row,
)
from smcpn.likelihood.measurement import measurement
from smcpn.model.hold import interval_derivatives, substep_inputs, substep_times
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.pn.layout import Entry, Layout
from smcpn.pn.taylor import taylor_derivatives
from smcpn.solver import EKF0, EKF1


@dataclass(frozen=True)
class Scheme:
    """What tells one likelihood of the family from another.

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
    """What the records ask of the recursion at every sample.

    Attributes
    ----------
    restarts : bool
        The input jumps or bends there.
    rescales : bool
        The length of the steps changes.
    """

    restarts: bool
    rescales: bool

    @classmethod
    def of(cls, records: Sequence[Record]) -> Grid:
        """Look at all records of a problem."""
        return cls(
            restarts=not all(record.smooth for record in records),
            rescales=not all(record.uniform for record in records),
        )


class ConditionedSymbols:
    """The graphs of the recursion of one particle.

    The state of a lane holds one or two filters, the likelihood ratio of the residuals since the
    last sample, and what the diffusion is calibrated from. A sample corrects the state at the
    begin of the interval after it.

    Parameters
    ----------
    model : Model
    solver : EKF0 or EKF1
    scheme : Scheme
    diffusion : Diffusion
    grid : Grid
    share : bool
        Whether covariances that are the same for all particles are left to shared rows.
    start_order : int, optional
        Highest derivative that starts from its exact value; those beyond start at zero, as in
        some public codes. All are exact by default.
    """

    def __init__(
        self,
        model: Model,
        solver: EKF0 | EKF1,
        scheme: Scheme,
        diffusion: Diffusion,
        grid: Grid,
        *,
        share: bool = True,
        start_order: int | None = None,
    ) -> None:
        self.model, self.scheme, self.diffusion, self.grid = model, scheme, diffusion, grid
        self.order = solver.order
        self._start_order = self.order if start_order is None else start_order
        self.sample = SampleSymbols.of(model)
        self.h, self.h_before = ca.SX.sym("h"), ca.SX.sym("h_before")
        self.scale, self.count = ca.SX.sym("scale"), ca.SX.sym("count")
        self._ratio, self._quadratic = ca.SX.sym("ratio"), ca.SX.sym("quadratic")
        self._factor = ca.SX.sym("factor")
        plain = share and isinstance(solver, EKF0)
        self.free: FilterSymbols | None = None
        if scheme.joint or not isinstance(diffusion, KnownDiffusion):
            alone = Layout.connected(model.x, model.rhs, solver)
            calibrated = not isinstance(diffusion, KnownDiffusion)
            shared = plain and (calibrated or _number(diffusion, model))
            self.free = FilterSymbols(model, alone, shared, "free")
        together = Layout.connected(model.x, model.rhs, solver, model.outputs)
        shared = plain and _number(diffusion, model) and _known_outputs(model)
        self.seen = FilterSymbols(model, together, shared, "seen")
        self._step = self._step_graph()
        self._corrected, self._scored = self._observe()
        self._interval, self._rates = self._interval_graph()

    @property
    def filters(self) -> list[FilterSymbols]:
        """The filters of a lane, in the order of its state and rows."""
        return [f for f in (self.free, self.seen) if f is not None]

    @property
    def shared(self) -> list[Covariance]:
        """Covariances that the rows bring."""
        return [f.covariance for f in self.filters if f.covariance.shared]

    @property
    def constants(self) -> ca.SX:
        """Symbols of the known numbers."""
        own = [self.diffusion.sd] if isinstance(self.diffusion, KnownDiffusion) else []
        named = [sd for sd in own if self.diffusion.number is not None]
        return ca.vertcat(self.model.constants, *named, self._factor)

    def constant_values(self, factor: float) -> tuple[float, ...]:
        """Values of `constants` where the diffusion is raised by a factor."""
        number = self.diffusion.number
        return (*self.model.constant_values, *([] if number is None else [number]), factor)

    def program(self, emitted: ca.SX) -> LaneProgram:
        """Assemble the kernel that emits ``emitted`` at each sample."""
        model, sample = self.model, self.sample
        symbols, start = self._start()
        sample_gains = [s for c in self.shared for s in c.sample_gains.symbols]
        return LaneProgram(
            theta=model.theta,
            constants=self.constants,
            constant_values=self.constant_values(1.0),
            state=ca.vertcat(*[s for f in self.filters for s in f.state], *self._tail),
            start_row=ca.vertcat(symbols.row, self.h),
            interval_row=ca.vertcat(sample.row, *self._rates, self.h, self.h_before, *sample_gains),
            step_row=ca.vertcat(model.u, model.t, self.h, self.scale, self.count),
            gain_row=ca.vertcat(*[s for c in self.shared for s in c.step_gains.symbols]),
            sample_row=ca.vertcat(sample.row, self.h_before, *sample_gains),
            start=start,
            interval=self._interval,
            step=self._step,
            emitted=emitted,
        )

    def log_density(self) -> ca.SX:
        """Log-likelihood of a sample given the past, (1, 1)."""
        product, log_density = ca.SX(1.0), ca.SX(0.0)
        if self.scheme.joint:
            product, log_density = self._ratio, -0.5 * self._quadratic
        for part, determinant in self._scored:
            product *= determinant
            log_density += part
        return log_density - 0.5 * ca.log(product)

    def prediction(self) -> tuple[ca.SX, ca.SX]:
        """Mean (q, 1) and covariance (q, q) of the noise-free outputs before a sample is seen.

        Only where no covariance is shared.
        """
        outputs, slopes = self._outputs()
        covariance = self.seen.covariance.of_outputs(slopes)
        return ca.vertcat(*outputs), covariance

    @property
    def states(self) -> ca.SX:
        """States of the model at a sample, (n, 1)."""
        return self.seen.graphs.states(self.seen.mean, self.h_before)

    def local_error(self) -> ca.SX:
        """Of a step, see `prediction`: what the residual does to each state, (n, 1)."""
        graphs, layout = self.seen.graphs, self.seen.layout
        predicted = graphs.predicted_mean(self.seen.mean)
        rates = graphs.linearised(predicted, self.h).rates
        errors = []
        for state in range(self.model.x.numel()):
            k, i = layout.place(state)
            top = layout.processes[k].rate
            residual = (rates[k, top] - predicted[k][top]) / layout.scale(top, self.h)
            # A rate that is off for a step moves its state by h, the state before by h^2 / 2.
            errors.append(residual * layout.scale(top - i, self.h))
        return ca.vertcat(*errors)

    @property
    def _tail(self) -> list[ca.SX]:
        scores = [self._ratio, self._quadratic] if self.scheme.joint else []
        return [*scores, *self.diffusion.sums]

    def _step_graph(self) -> ca.SX:
        """Both filters predict and meet the ODE at the end of the step."""
        free, seen, after = self.free, self.seen, []
        linearisation, alone = None, []
        if free:
            predicted = free.graphs.predicted_mean(free.mean)
            linearisation = free.graphs.linearised(predicted, self.h)
            mean, alone = free.step(predicted, linearisation, self._noise_alone())
            after += free.values(mean, free.covariance.after_step)
        variances, sums = self.diffusion.variances(alone, self.count, len(seen.mean))
        predicted = seen.graphs.predicted_mean(seen.mean)
        if linearisation is None or not self.scheme.linearise_free:
            linearisation = seen.graphs.linearised(predicted, self.h)
        noise = self._noise_alone()
        if not isinstance(self.diffusion, KnownDiffusion):
            noise = [self.scale * (variance * self._factor**2) for variance in variances]
        mean, together = seen.step(predicted, linearisation, noise)
        after += seen.values(mean, seen.covariance.after_step)
        if self.scheme.joint:
            after += self._scores(alone, together)
        return ca.vertcat(*after, *sums)

    def _noise_alone(self) -> list[ca.SX]:
        """Process noise of the data-free filter.

        It is that of the conditioned filter where they are compared: with equal arithmetic their
        rounding errors cancel, which are large where the diffusion is small. Otherwise it is one.
        """
        if isinstance(self.diffusion, KnownDiffusion):
            return [self.scale * (self.diffusion.sd * self._factor) ** 2] * len(self.seen.mean)
        return [self.scale] * len(self.seen.mean)

    def _scores(self, alone: list[Innovation], together: list[Innovation]) -> list[ca.SX]:
        """Go on with log p(z | y) - log p(z): the ratio of variances and the squares' difference.

        Their difference is taken step by step, for the totals are large.
        """
        ratio, quadratic = self._ratio, self._quadratic
        pairs = zip(_independent(together), _independent(alone), strict=True)
        for (e, s), (e_free, s_free) in pairs:
            ratio = ratio * (s / s_free)
            quadratic = quadratic + (e * e / s - e_free * e_free / s_free)
        return [ratio, quadratic]

    def _outputs(self) -> tuple[list[ca.SX], list[dict[Entry, ca.SX]]]:
        """Expected outputs at a sample, and their slopes by the coordinates of the values."""
        model, sample, seen = self.model, self.sample, self.seen
        here = ca.substitute(
            model.outputs, ca.vertcat(model.u, model.t), ca.vertcat(sample.u, sample.t)
        )
        slopes = seen.graphs.output_slopes(seen.mean, self.h_before, here)
        states = seen.graphs.states(seen.mean, self.h_before)
        return ca.vertsplit(ca.substitute(here, model.x, states)), slopes

    def _observe(self) -> tuple[Mean, list[tuple[ca.SX, ca.SX]]]:
        """Update by one output after the other, linearised where all were expected.

        Returns
        -------
        mean : Mean
        scored : list of (casadi.SX, casadi.SX)
            Of each output, see `Measurement.log_density`.
        """
        seen, sample, scored = self.seen, self.sample, []
        outputs, slopes = self._outputs()
        mean = [list(row) for row in seen.mean]
        for j, expected in enumerate(outputs):
            for (k, i), slope in slopes[j].items():
                expected += slope * (mean[k][i] - seen.mean[k][i])
            seen_here = {entry: slope * sample.present[j] for entry, slope in slopes[j].items()}
            value = measurement(self.model, j, expected, sample.y[j], sample.present[j])
            gain = seen.covariance.observe(seen_here, value.noise)
            for (k, i), g in gain.by_entry.items():
                mean[k][i] = mean[k][i] + g * value.residual()
            scored.append(value.log_density(gain))
        return mean, scored

    def _interval_graph(self) -> tuple[ca.SX, list[ca.SX]]:
        """Correct by the sample that was left, and get the derivatives ready for the steps."""
        ratio = self.h / self.h_before if self.grid.rescales else ca.SX(1.0)
        means = [self._corrected if f is self.seen else f.mean for f in self.filters]
        rates: list[ca.SX] = []
        if self.grid.restarts:
            state, rates = self._restart(means, ratio)
        else:
            pairs = zip(self.filters, means, strict=True)
            state = [v for f, mean in pairs for v in f.rescaled(mean, ratio)]
        scores = [ca.SX(1.0), ca.SX(0.0)] if self.scheme.joint else []
        return ca.vertcat(*state, *scores, *self.diffusion.sums), rates

    def _restart(self, means: list[Mean], ratio: ca.SX) -> tuple[list[ca.SX], list[ca.SX]]:
        model, processes = self.model, self.seen.layout.processes
        derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, self.order)
        at = ca.vertcat(model.u, model.t), ca.vertcat(self.sample.u, self.sample.t)
        wanted = [
            (k, i, ca.substitute(derivatives[i][process.states[0]], *at))
            for k, process in enumerate(processes)
            for i in range(process.rate, self.order + 1)
        ]
        state: list[ca.SX] = []
        linearisation = None
        for f, corrected in zip(self.filters, means, strict=True):
            mean = rescaled_mean(corrected, ratio)
            if linearisation is None or not self.scheme.linearise_free:
                linearisation = f.graphs.linear_entries(mean, self.h, wanted)
            state += f.restarted(mean, linearisation, ratio)
        return state, rates

    def _start(self) -> tuple[StartSymbols, ca.SX]:
        """Exact derivatives and no covariance."""
        model, layout = self.model, self.seen.layout
        derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, self.order)
        symbols = StartSymbols.of(model, rates)
        mean = [
            layout.scale(i, self.h) * derivatives[i][process.states[0]]
            if i <= self._start_order
            else ca.SX(0.0)
            for process in layout.processes
            for i in range(self.order + 1)
        ]
        mean = ca.substitute(ca.vertcat(*mean), model.x, symbols.initial(model))
        state: list[ca.SX] = []
        for f in self.filters:
            state += [mean, ca.SX.zeros(len(f.covariance.state), 1)]
        scores = [ca.SX(1.0), ca.SX(0.0)] if self.scheme.joint else []
        return symbols, ca.vertcat(*state, *scores, *[ca.SX(0.0)] * len(self.diffusion.sums))


def _independent(innovations: list[Innovation]) -> list[tuple[ca.SX, ca.SX]]:
    """Residuals and variances over all blocks."""
    return [
        pair
        for innovation in innovations
        for pair in zip(innovation.residuals, innovation.variances, strict=True)
    ]


def _number(diffusion: Diffusion, model: Model) -> bool:
    """Whether the diffusion is the same for all particles and all time."""
    return isinstance(diffusion, KnownDiffusion) and not ca.depends_on(diffusion.sd, model.theta)


def _known_outputs(model: Model) -> bool:
    """Whether the outputs' slopes and their Gaussian noise are known numbers."""
    slopes = ca.vec(ca.jacobian(model.outputs, model.x))
    unknown = ca.vertcat(model.x, model.u, model.t, model.theta)
    known = not ca.depends_on(ca.vertcat(slopes, model.noise_variance), unknown)
    return known and model.density is None


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


# ---- From a scheme of `conditioned` to a compiled likelihood, and to what it expects of a sample.

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
            raise InputError(
                "steps 'auto' is still to be chosen: use smcpn.identify, or give a number"
            )
        model = problem.model
        layout = Layout.connected(model.x, model.rhs, solver, model.outputs)
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


# ---- The likelihood of the solver that sees the data: the product of p(y_t | y_<t, z_<=t).
#
# Every sample corrects the state, so that errors of the solver do not add up over the record. With
# a calibrated diffusion (``"fixed"``, ``"fixed-diagonal"``) a data-free filter runs beside it,
# whose
# residuals give the running quasi-MLE.


def _diffusion(problem: Problem, solver: EKF0 | EKF1) -> Diffusion:
    processes = len(Layout.connected(problem.model.x, problem.model.rhs, solver).processes)
    return running_diffusion(problem, solver, processes)


filtering = Conditioned(Scheme(joint=False), _diffusion)
"""Builds the sum of log p(y_t | y_<t, z_<=t); a diffusion that changes by step is refused."""


# ---- DALTON with Gaussian noise: log p(y, z) - log p(z), each linearised where its own filter is.
#
# Wu and Lysy (2024), algorithm 1: one filter sees the outputs y and the residuals z of the ODE, the
# other the residuals alone. The difference is taken sample by sample, so that it has increments.

dalton = Conditioned(Scheme(joint=True), partial(known_diffusion, likelihood="dalton"))
"""Builds log p(y, z) - log p(z); a diffusion that is calibrated is refused."""


# ---- Fenrir: the solution of the ODE as a Gauss-Markov process, conditioned on the data
# afterwards.
#
# Tronarp et al. (2022) solve the ODE forward and condition the smoothed process on the outputs
# going
# backward. That process is the linear Gaussian model the data-free filter has made, given the
# residuals z of the ODE, so p(y | z) = p(y, z) / p(z) of the same model, which two filters compute
# going forward: the conditioned one takes the data-free one's linearisation. So Fenrir has
# increments, and needs no smoother.

fenrir = Conditioned(
    Scheme(joint=True, linearise_free=True), partial(known_diffusion, likelihood="fenrir")
)
"""Builds log p(y | z); a diffusion that is calibrated is refused."""
