"""Graphs of one particle whose filter sees the data: a solver step, a sample, an interval.

The filter of a probabilistic solver is *conditioned* on the residuals z of the ODE at the end of
every step, and on the outputs y at every sample. Beside it a *data-free* filter, which sees z
alone, calibrates a diffusion, or is what the increments of a joint likelihood are compared with.
The likelihoods that these graphs make are those of `conditioned`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.memory import StraightLine
from smcpn.likelihood.accumulating import SetBack
from smcpn.likelihood.coloured import faded
from smcpn.likelihood.covariance import (
    Factor,
    SharedCovariance,
    SharedGains,
    Shares,
    condition_on_output,
    known_covariance,
    output_covariance,
)
from smcpn.likelihood.delayed import DeadTimes
from smcpn.likelihood.difference_filter import (
    DataFreeSymbols,
    InnovationChange,
    LinearisationChange,
    linear_change,
)
from smcpn.likelihood.diffusion import Diffusion, DiffusionStep
from smcpn.likelihood.gaussian_filter import (
    FilterSymbols,
    Innovation,
    Linearisation,
    Mean,
    rescaled_mean,
    step_algebra,
)
from smcpn.likelihood.lanes import Grid, SampleSymbols, StartSymbols
from smcpn.likelihood.measurement import densest, measurement, where_present
from smcpn.model.problem import Model
from smcpn.model.solver import ProbabilisticSolver
from smcpn.pn.iwp import taylor_derivatives
from smcpn.pn.layout import Entry, Layout

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scheme:
    """Which likelihood the filters compute.

    joint: Whether an increment is log p(y, z) - log p(z) given the past, z being the residuals of
        the ODE since the sample before; otherwise log p(y | z).
    linearise_free: Whether the conditioned filter takes the data-free filter's linearisation of the
        ODE.
    excess: Nats per value by which a joint likelihood may lie above what a density of the data can,
        the noise at its densest; beyond, the data-free filter has diverged.
    """

    joint: bool
    linearise_free: bool = False
    excess: float = 0.0


@dataclass(frozen=True)
class ConditionedSymbols:
    """Symbols of the recursion of one particle, and of the rows that all particles share.

    The state of a particle holds the conditioned filter, the data-free one or its difference, the
    likelihood ratio of the residuals since the last sample, and the statistics of a calibrated
    diffusion. A sample corrects the state at the beginning of the interval after it.

    start_order: Highest derivative that starts from its exact value; those beyond start at zero.
    free: The data-free filter that a diffusion is calibrated by.
    data_free: Difference of the data-free filter, where an increment compares both.
    held: Inputs that are numbers of the interval behind the sample.
    h, h_before: Length of a step, and of those before the sample.
    scale, count: Variance that unit diffusion adds in a step, and the number of steps so far.
    spread: ``scale`` in a particle's own time.
    factor: By which the standard deviation of the diffusion is raised.
    ratio, quadratic: Product of s / s', and sum of e^2 / s - e'^2 / s', over the residuals since
        the last sample, e and s of the conditioned filter, e' and s' of the data-free one.
    surplus: Log-likelihood of the samples so far above the highest possible one.
    gap_before: Time since the sample before, where noise is coloured.
    """

    model: Model
    scheme: Scheme
    diffusion: Diffusion
    grid: Grid
    order: int
    start_order: int
    free: FilterSymbols | None
    conditioned: FilterSymbols
    data_free: DataFreeSymbols | None
    sample: SampleSymbols
    dead_times: DeadTimes
    held: ca.SX
    set_back: SetBack
    h: ca.SX
    h_before: ca.SX
    scale: ca.SX
    spread: ca.SX
    count: ca.SX
    factor: ca.SX
    ratio: ca.SX
    quadratic: ca.SX
    surplus: ca.SX
    gap_before: ca.SX

    @classmethod
    def of(
        cls,
        dead_times: DeadTimes,
        solver: ProbabilisticSolver,
        scheme: Scheme,
        diffusion: Diffusion,
        grid: Grid,
        *,
        share: bool = True,
        start_order: int | None = None,
    ) -> ConditionedSymbols:
        """Make the symbols.

        share: Whether covariances that are the same for all particles are left to shared rows.
        start_order: As the attribute, all derivatives by default; some public codes start some at
            zero.
        """
        # Without a Jacobian, covariances depend on the diffusion, the outputs and their noise only.
        model, delayed = dead_times.model, dead_times.parts > 1
        share = share and solver.jacobian == "none" and not delayed
        known = diffusion.is_number(model.theta)
        free = None
        if diffusion.calibrated:
            alone = Layout.connected(model.x, model.rhs, solver)
            free = FilterSymbols(model, alone, share, "free")
        together = Layout.connected(model.x, model.rhs, solver, model.outputs, model.coloured)
        shared = share and known and _known_outputs(model)
        conditioned = FilterSymbols(model, together, shared, "conditioned")
        names = ("h", "h_before", "count", "factor", "ratio", "quadratic", "surplus", "gap_before")
        scale = ca.SX.sym("scale")
        return cls(
            model,
            scheme,
            diffusion,
            grid,
            solver.order,
            solver.order if start_order is None else start_order,
            free,
            conditioned,
            DataFreeSymbols(conditioned) if scheme.joint else None,
            SampleSymbols.of(model, dead_times.at_sample),
            dead_times,
            ca.SX.sym("held", model.held),
            SetBack.of(model),
            scale=scale,
            spread=scale * dead_times.growth(2 * solver.order + 1),
            **{name: ca.SX.sym(name) for name in names},
        )

    @property
    def filters(self) -> list[FilterSymbols]:
        """The filters of a particle, in the order of its state and rows."""
        return [f for f in (self.free, self.conditioned) if f is not None]

    @property
    def bounded(self) -> bool:
        """True if the sum of the increments, and not each, has an upper bound."""
        return self.scheme.joint and self.model.density is None

    @property
    def scores(self) -> list[ca.SX]:
        """Symbols of what a particle keeps of its likelihood."""
        if not self.scheme.joint:
            return []
        return [self.ratio, self.quadratic, *([self.surplus] if self.bounded else [])]

    @property
    def constants(self) -> ca.SX:
        """Symbols of the known numbers."""
        return ca.vertcat(self.model.constants, *self.diffusion.constants, self.factor)

    def constant_values(self, factor: float) -> tuple[float, ...]:
        """Values of `constants` where the diffusion is raised by a factor."""
        return (*self.model.constant_values, *self.diffusion.constant_values, factor)


def _known_outputs(model: Model) -> bool:
    """True if the outputs' slopes and their Gaussian noise, which is white, are known numbers."""
    slopes = ca.vec(ca.jacobian(model.outputs, model.x))
    unknown = ca.vertcat(model.x, model.u, model.t, model.theta)
    known = not ca.depends_on(ca.vertcat(slopes, model.noise_variance), unknown)
    return known and model.density is None and not model.coloured


def start_state(symbols: ConditionedSymbols) -> tuple[StartSymbols, ca.SX]:
    """State at the first sample: exact derivatives, and no covariance but that of the noise."""
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
        noise = {entry: model.noise_variance[j] for j, entry in f.layout.noise}
        state += [initial, ca.SX.zeros(len(noise), 1)]
        if not f.shared:
            factors = [known_covariance(block, noise) for block in f.layout.blocks]
            state += f.covariance_entries(factors)
    if symbols.data_free is not None:
        state += symbols.data_free.zero()
    sums = [ca.SX(0.0)] * len(symbols.diffusion.sums)
    return row, ca.vertcat(*state, *_scores(symbols, ca.SX(0.0)), *sums)


@dataclass(frozen=True)
class Step:
    """A particle after a step of the solver.

    Attributes
    ----------
    covariances : list of tuple of casadi.SX
        What each filter holds of its covariance, in the order of `ConditionedSymbols.filters`; the
        conditioned one's are followed by those of the difference.
    gains : list of SharedGains
    algebra : StraightLine
        With what is to be done before ``state`` is evaluated.
    """

    state: ca.SX
    covariances: list[tuple[ca.SX, ...]]
    gains: list[SharedGains]
    algebra: StraightLine


def solver_step(symbols: ConditionedSymbols) -> Step:
    """Predict and condition on the ODE at the end of the step, in both filters."""
    free, conditioned, data_free = symbols.free, symbols.conditioned, symbols.data_free
    algebra = step_algebra(conditioned.layout)
    drive: DiffusionStep | None = None
    alone: list[Innovation] = []
    state: list[ca.SX] = []
    covariances: list[tuple[ca.SX, ...]] = []
    gains: list[SharedGains] = []
    if free is not None:
        predicted = free.predict()
        linearisation = free.linearise(predicted, symbols.h).bound(algebra)
        drive = _diffusion_step(symbols, free, linearisation)
        noise = symbols.diffusion.free_noise(drive)
        before = free.condition_on_ode(predicted, linearisation, noise, algebra)
        alone = before.innovations
        state += free.values(before.mean, before.factors)
        covariances.append(free.covariance_entries(before.factors))
        gains.append(before.gains)
    predicted = conditioned.predict()
    ahead = None if data_free is None else data_free.predict()
    linearisation, change = _linearised(symbols, predicted, ahead, symbols.h, conditioned.rates)
    linearisation = linearisation.bound(algebra)
    drive = drive or _diffusion_step(symbols, conditioned, linearisation)
    noise, sums = symbols.diffusion.noise(drive, alone)
    after = conditioned.condition_on_ode(predicted, linearisation, noise, algebra)
    state += conditioned.values(after.mean, after.factors)
    covariances.append(conditioned.covariance_entries(after.factors))
    gains.append(after.gains)
    if data_free is not None and ahead is not None and change is not None:
        other = data_free.condition_on_ode(after, linearisation.slopes, ahead, change)
        state += data_free.values(other.mean, other.covariances)
        state += residual_scores(symbols, after.innovations, other.innovations)
        covariances[-1] += data_free.covariance_entries(other.covariances)
        gains[-1] = other.gains
    return Step(ca.vertcat(*state, *sums), covariances, gains, algebra)


def _linearised(
    symbols: ConditionedSymbols,
    mean: Mean,
    ahead: Mean | None,
    h: ca.SX,
    derivatives: Sequence[tuple[int, int, ca.SX]],
) -> tuple[Linearisation, LinearisationChange | None]:
    """Linearise derivatives in the conditioned filter, and what differs in the data-free one.

    ahead: What ``mean`` is above that of the data-free filter, where there is one.
    """
    f, data_free = symbols.conditioned, symbols.data_free
    if data_free is None or ahead is None:
        return f.linearise_derivatives(mean, h, derivatives), None
    if not symbols.scheme.linearise_free:
        change = data_free.change(mean, ahead, h, derivatives)
        return f.linearise_derivatives(mean, h, derivatives), change
    pairs = zip(mean, ahead, strict=True)
    alone = [[own - more for own, more in zip(*rows, strict=True)] for rows in pairs]
    linearisation = f.linearise_derivatives(alone, h, derivatives)
    return linearisation, linear_change(linearisation.slopes, list(linearisation.rates), ahead)


def _diffusion_step(
    symbols: ConditionedSymbols, f: FilterSymbols, linearisation: Linearisation
) -> DiffusionStep:
    return DiffusionStep.of(f.layout, linearisation, symbols.spread, symbols.count, symbols.factor)


def residual_scores(
    symbols: ConditionedSymbols, conditioned: list[Innovation], changes: list[InnovationChange]
) -> list[ca.SX]:
    """Scores after a step, by which -(log ratio + quadratic) / 2 is log p(z | y) - log p(z)."""
    ratio, quadratic = symbols.ratio, symbols.quadratic
    for innovation, change in zip(conditioned, changes, strict=True):
        for e, s, ahead, learned in zip(
            innovation.residuals, innovation.variances, change.residuals, change.variances,
            strict=True,
        ):  # fmt: skip
            alone = s + learned
            ratio = ratio * (s / alone)
            # e^2 / s - (e - ahead)^2 / (s + learned)
            quadratic = quadratic + (e * (e * (learned / s) + 2.0 * ahead) - ahead**2) / alone
    return [ratio, quadratic, *symbols.scores[2:]]


def _scores(symbols: ConditionedSymbols, surplus: ca.SX) -> list[ca.SX]:
    """Scores where no residual has been met since the last sample."""
    return [ca.SX(1.0), ca.SX(0.0), surplus][: len(symbols.scores)]


@dataclass(frozen=True)
class PredictedOutputs:
    """Outputs of the conditioned filter before a sample is seen, with their coloured noise.

    mean: g(m) and what is expected of the noise, output by output.
    slopes: Their derivatives H by the coordinates that they see.
    covariance: (q, q), H P H'.
    gains: What shared rows bring of the covariance; empty where every particle has its own.
    """

    mean: list[ca.SX]
    slopes: list[dict[Entry, ca.SX]]
    covariance: ca.SX
    gains: SharedGains


def predict_outputs(symbols: ConditionedSymbols) -> PredictedOutputs:
    """Linearise the outputs at the predicted mean."""
    model, sample, f = symbols.model, symbols.sample, symbols.conditioned
    here = ca.substitute(
        model.outputs, ca.vertcat(model.u, model.t), ca.vertcat(sample.input, sample.t)
    )
    slopes = f.output_slopes(symbols.h_before, here)
    mean = ca.vertsplit(ca.substitute(here, model.x, f.states(f.mean, symbols.h_before)))
    for j, (k, i) in f.layout.noise:
        mean[j] += f.mean[k][i]
    covariance = output_covariance(f.layout, f.factors, slopes)
    gains = SharedGains("output_gain")
    if f.shared:
        values, gains = gains.replace(ca.vertsplit(ca.densify(ca.vec(covariance))))
        covariance = ca.reshape(ca.vertcat(*values), covariance.shape)
    return PredictedOutputs(mean, slopes, covariance, gains)


@dataclass(frozen=True)
class Update:
    """The conditioned filter after a sample.

    log_densities: Of each output, see `GaussianMeasurement.log_density`.
    gains: Empty where every particle has its own covariance.
    ahead: What the mean is above that of the data-free filter.
    learned: What the data-free filter's covariance is above this one, by block.
    """

    mean: Mean
    factors: list[Factor]
    log_densities: list[tuple[ca.SX, ca.SX]]
    gains: SharedGains
    ahead: Mean | None
    learned: list[ca.SX]


def condition_on_outputs(symbols: ConditionedSymbols, predicted: PredictedOutputs) -> Update:
    """Condition on one output after the other, all linearised at the predicted mean."""
    f, sample, slopes = symbols.conditioned, symbols.sample, predicted.slopes
    mean, factors = [list(row) for row in f.mean], list(f.factors)
    gains, log_densities = predicted.gains, []
    data_free, ahead, learned = symbols.data_free, None, []
    if data_free is not None:
        ahead, learned = [list(row) for row in data_free.mean], data_free.covariances
    for j, expected in enumerate(predicted.mean):
        for (k, i), slope in slopes[j].items():
            expected += slope * (mean[k][i] - f.mean[k][i])
        here = sample.present[j]
        present = {entry: where_present(slope, here) for entry, slope in slopes[j].items()}
        value = measurement(sample, j, expected)
        factors, gain = condition_on_output(f.layout, factors, present, value.noise)
        if data_free is not None:
            learned = data_free.condition_on_output(learned, gain)
        if f.shared:
            gain, gains = gains.of_output(gain)
        for (k, i), g in gain.by_entry.items():
            mean[k][i] = mean[k][i] + g * value.innovation
            if ahead is not None:
                ahead[k][i] = ahead[k][i] + g * value.innovation
        log_densities.append(value.log_density(gain))
    return Update(mean, factors, log_densities, gains, ahead, learned)


def log_density(symbols: ConditionedSymbols, update: Update) -> ca.SX:
    """Log-likelihood of a sample given the past, (1, 1): the increment of the `Scheme`."""
    product, total = ca.SX(1.0), ca.SX(0.0)
    if symbols.scheme.joint:
        product, total = symbols.ratio, -0.5 * symbols.quadratic
    for log_density, determinant in update.log_densities:
        product *= determinant
        total += log_density
    return total - 0.5 * ca.log(product)


def surplus_after(symbols: ConditionedSymbols, increment: ca.SX) -> ca.SX:
    """Log-likelihood above the highest possible one, this sample included."""
    present = symbols.sample.present
    model, variance = symbols.model, ca.SX(symbols.model.noise_variance)
    for j in model.coloured:
        phi = ca.substitute(model.noise_correlation[j], model.gap, symbols.gap_before)
        variance[j] *= 1.0 - phi**2
    highest = densest(variance, present)
    return symbols.surplus + increment - highest - symbols.scheme.excess * ca.sum1(present)


@dataclass(frozen=True)
class Interval:
    """A particle at the beginning of an interval between samples.

    covariances: As of a `Step`.
    input_derivatives: Symbols of the derivatives of the input that a restart needs.
    """

    state: ca.SX
    covariances: list[tuple[ca.SX, ...]]
    input_derivatives: list[ca.SX]


def next_interval(symbols: ConditionedSymbols, update: Update) -> Interval:
    """Take the state over from the sample before: rescaled, and restarted where the input asks."""
    h_ratio = symbols.h / symbols.h_before if symbols.grid.rescales else ca.SX(1.0)
    derivatives, inputs = _exact_derivatives(symbols) if symbols.grid.restarts else ([], [])
    state: list[ca.SX] = []
    covariances: list[tuple[ca.SX, ...]] = []
    free, f, data_free = symbols.free, symbols.conditioned, symbols.data_free
    surplus = surplus_after(symbols, log_density(symbols, update)) if symbols.bounded else ca.SX(0)
    update = _left_behind(symbols, update)
    if free is not None:
        mean, blocks = free.moved(free.mean, free.factors, free.shares(symbols.set_back))
        mean, blocks = rescaled_mean(mean, h_ratio), free.rescale(blocks, h_ratio)
        if symbols.grid.restarts:
            linearisation = free.linearise_derivatives(mean, symbols.h, derivatives)
            mean, blocks = free.restart(mean, blocks, linearisation)
        state += free.values(mean, blocks)
        covariances.append(free.covariance_entries(blocks))
    mean, blocks = rescaled_mean(update.mean, h_ratio), f.rescale(update.factors, h_ratio)
    ahead, learned = update.ahead, update.learned
    if data_free is not None and ahead is not None:
        ahead, learned = rescaled_mean(ahead, h_ratio), data_free.rescale(learned, h_ratio)
    if symbols.grid.restarts:
        linearisation, change = _linearised(symbols, mean, ahead, symbols.h, derivatives)
        if data_free is not None and ahead is not None and change is not None:
            slopes = linearisation.slopes
            ahead, learned = data_free.restart(ahead, learned, blocks, slopes, change)
        mean, blocks = f.restart(mean, blocks, linearisation)
    state += f.values(mean, blocks)
    covariances.append(f.covariance_entries(blocks))
    if data_free is not None and ahead is not None:
        state += data_free.values(ahead, learned)
        covariances[-1] += data_free.covariance_entries(learned)
    # Residuals of all parts of an interval count at the sample that ends it.
    scores = zip(_scores(symbols, surplus), symbols.scores, strict=True)
    kept = [symbols.dead_times.at_first(new, so_far) for new, so_far in scores]
    tail = [*kept, *symbols.diffusion.sums]
    return Interval(ca.vertcat(*state, *tail), covariances, inputs)


def _left_behind(symbols: ConditionedSymbols, update: Update) -> Update:
    """Return what a sample leaves: all but counts, with the coloured noise at the next one.

    The noise of the filter that sees no data stays as it is without: stationary.
    """
    model, f, data_free = symbols.model, symbols.conditioned, symbols.data_free
    shares: Shares = {
        **f.shares(symbols.set_back),
        **{entry: faded(model, [j]) for j, entry in f.layout.noise},
    }
    mean, factors = f.moved(update.mean, update.factors, shares)
    ahead, learned = update.ahead, update.learned
    if data_free is not None and ahead is not None:
        ahead, learned = data_free.moved(ahead, learned, shares)
    return replace(update, mean=mean, factors=factors, ahead=ahead, learned=learned)


def _exact_derivatives(
    symbols: ConditionedSymbols,
) -> tuple[list[tuple[int, int, ca.SX]], list[ca.SX]]:
    """Derivatives of each process that are no states, at a sample; and those of the input."""
    model = symbols.model
    derivatives, inputs = taylor_derivatives(model.x, model.u, model.t, model.rhs, symbols.order)
    sample, given = symbols.sample, model.u.numel() - model.held
    u = ca.vertcat(*ca.vertsplit(sample.u)[:given], symbols.held)
    time = symbols.dead_times.begin_time(sample.t)
    at = ca.vertcat(model.u, model.t), ca.vertcat(u, time)
    wanted = [
        (k, i, ca.substitute(derivatives[i][process.states[0]], *at))
        for k, process in enumerate(symbols.conditioned.layout.processes)
        for i in range(process.rate, symbols.order + 1)
    ]
    return wanted, inputs


def shared_covariances(
    symbols: ConditionedSymbols, step: Step, update: Update, interval: Interval
) -> list[SharedCovariance]:
    """Covariances that are the same for all particles, whose gains the rows bring."""
    data_free = symbols.data_free
    return [
        SharedCovariance(
            held=f.held if data_free is None else (*f.held, *data_free.held),
            after_step=step.covariances[number],
            step_gains=step.gains[number],
            after_sample=interval.covariances[number],
            sample_gains=update.gains if f is symbols.conditioned else SharedGains("none"),
        )
        for number, f in enumerate(symbols.filters)
        if f.shared
    ]
