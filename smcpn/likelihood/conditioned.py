"""Filters that see the data: the one family behind `filtering`, `dalton` and `fenrir`.

A filter *conditioned* on the data corrects its state at every sample. Beside it, where needed, a
*data-free* filter solves the ODE as if there were no data. Both go forward in time, so all three
likelihoods come as increments; a `Scheme` is what tells them apart.

Where the input jumps or bends at the samples, the derivatives of the state restart at every
sample from their exact values, as in `marginal`; the covariance keeps that of the values and what
the linearisation makes of it. Where only the spacing changes, the coordinates are rescaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca

from smcpn.codegen.program import LaneProgram
from smcpn.likelihood.covariance import Covariance
from smcpn.likelihood.diffusion import Diffusion, KnownDiffusion
from smcpn.likelihood.filter_symbols import FilterSymbols, rescaled_mean
from smcpn.likelihood.gaussian_filter import Innovation, Mean
from smcpn.likelihood.lanes import SampleSymbols, StartSymbols
from smcpn.likelihood.measurement import measurement
from smcpn.likelihood.processes import Entry, Layout
from smcpn.pn.taylor import taylor_derivatives
from smcpn.problem import Model
from smcpn.record import Record
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
            alone = Layout.of(model, solver, outputs=False)
            calibrated = not isinstance(diffusion, KnownDiffusion)
            shared = plain and (calibrated or _number(diffusion, model))
            self.free = FilterSymbols(model, alone, shared, "free")
        together = Layout.of(model, solver, outputs=True)
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
