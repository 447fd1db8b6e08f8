"""A record predicted by draws from the prior, before anything is learned from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.arguments import Index, checked
from smcpn.base.late_binding import late_bound
from smcpn.base.tables import Card, Column, Table, fact_lines, table_text, words
from smcpn.errors import InputError, counted, shown, whole_number
from smcpn.likelihood.state_events import MOST_EVENTS
from smcpn.model.graphs import Model
from smcpn.model.problem import Problem, check_record
from smcpn.model.record import Record
from smcpn.model.solver import Rosenbrock
from smcpn.results.simulation.simulation import (
    Simulation,
    by_column,
    simulate_particles,
    starting_like,
)
from smcpn.results.simulation.simulator import (
    LEAST_STEPS,
    OWN_STEPS,
    DisturbedSimulator,
    OwnSteps,
    Simulator,
)

Array = NDArray[np.float64]

DRAWS, FEWEST = 1000, 40
"""Draws by default, and the fewest that have a quantile of 2.5 %."""
PATHS = 10
"""Draws whose paths are kept."""
INSIDE, WIDE = 0.95, 10.0
"""Share of a record inside the band, and span of the band in that of the record, of no remark."""
PILOT, COMPARED = 64, 4_000_000
"""Most draws by which steps are chosen, and most numbers of them."""
SETTLED, UNSETTLED = 1e-2, 0.05
"""Relative change of a path that counts as none, and share of the draws that may change more."""
STIFF = 0.01
"""Share of the draws that may diverge by too few steps."""
MOST_STEPS = 256
"""Steps per sample up to which they are doubled."""


@checked
@dataclass(frozen=True, repr=False)
class PriorPrediction(Simulation):
    """Prediction of a record by draws from the prior, before anything is learned from it.

    A prior makes sense if what was measured is among what it predicts, and what it predicts is
    not absurd. The band is of quantiles, because that of a wide prior is not symmetric; it counts
    parameters, process noise and measurement noise, that with a density as `Simulation` does.
    Attributes are those of `Simulation` over the draws, each of the same weight, and:

    Attributes
    ----------
    band : ndarray, (3, T, q)
        Quantiles of 2.5, 50 and 97.5 %: `lower`, `median` and `upper`.
    paths : ndarray, (k, T, q)
        Outputs of some draws, without measurement noise.
    coverage : ndarray, (q,)
        Share of the measured samples between `lower` and `upper`.
    parameter_variance : ndarray, (T, q)
        Spread of the draws' outputs, process noise included; `process_variance` is 0.
    diverged : float
        Share of the draws whose simulation diverged; they count nowhere else.

    Examples
    --------
    >>> prediction = smcpn.simulate(problem, draws=500)  # doctest: +SKIP
    >>> print(prediction.summary())  # doctest: +SKIP
    """

    band: Array = field(kw_only=True)
    paths: Array = field(kw_only=True)

    @property
    def lower(self) -> Array:
        """Lower end of the 95 % band, (T, q)."""
        return self.band[0, :, :]

    @property
    def median(self) -> Array:
        """Median of the draws, (T, q)."""
        return self.band[1, :, :]

    @property
    def upper(self) -> Array:
        """Upper end of the 95 % band, (T, q)."""
        return self.band[2, :, :]

    @property
    def excess(self) -> Array:
        """Span of the band in that of the measurements, (q,); nan where these are constant."""
        excess = np.full(len(self.coverage), np.nan)
        for j, column in enumerate(self.record.y.T):
            measured = column[np.isfinite(column)]
            if len(measured) and np.ptp(measured) > 0.0:
                span = self.upper[:, j].max() - self.lower[:, j].min()
                excess[j] = span / np.ptp(measured)
        return excess

    @property
    def verdicts(self) -> list[str]:
        """Sentences on each output that was measured: whether the prior allows it, and how much."""
        return [
            f"{name}: {_inside(coverage)}{_beyond(excess)}"
            for name, coverage, excess in zip(
                self.names_of_outputs, self.coverage, self.excess, strict=True
            )
            if np.isfinite(coverage)
        ]

    @override
    def card(self) -> Card:
        return Card(replace(self._table, notes=[*self.verdicts, *self.warnings]))

    def summary(self) -> str:
        """The table, whether the prior allows the record, and what is wrong with it, as text."""
        lines = [*self.verdicts, *fact_lines((), self.warnings)]
        return "\n".join([self._table.title, "", table_text(self._table), "", *lines])

    @property
    def _table(self) -> Table:
        columns = (
            words("output"), Column("inside the 95 % band", ".1f", "%", "not measured"),
            Column("band / measured range"),
        )  # fmt: skip
        rows = [
            [name, 100 * inside, _figure(excess) if np.isfinite(excess) else ""]
            for name, inside, excess in zip(
                self.names_of_outputs, self.coverage, self.excess, strict=True
            )
        ]
        title = f"Prior of '{self.record.name}': {counted(len(self.weights), 'draw')}"
        return Table(columns, rows, title)

    @override
    def picture(self) -> Any:
        return self.plot()

    @late_bound
    def plot(self, output: Index | None = None) -> Any:
        """Plot the 95 % band of the prior, some paths from it, and the record.

        Where the band is far wider than what was measured, a second panel shows that range.

        Parameters
        ----------
        output : int, optional
            One of them; by default all.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InputError
            If there is no such output.
        """
        ...


def simulate_prior(
    problem: Problem,
    record: Record | None = None,
    draws: int = DRAWS,
    steps: int | str = "auto",
    seed: int | None = None,
) -> PriorPrediction:
    """Predict a record by draws from the prior of a problem; arguments as of `simulate`."""
    if record is not None and not isinstance(record, Record):
        raise InputError(f"record is {shown(record)}: give one smcpn.Record", argument="record")
    draws = whole_number("draws", draws, FEWEST)
    rng = np.random.default_rng(None if seed is None else whole_number("seed", seed, 0))
    first = problem.records[0]
    record = first if record is None else record
    check_record(record, problem.ode, problem.model.outputs.numel(), problem.records)
    record = problem.model.prepared(record)
    own = any(one is record for one in problem.records)
    model = starting_like(problem, problem.model, record if own else first)
    values = problem.prior.natural(problem.prior.sample(rng, draws))
    # What a wide prior allows overflows; that is counted, not warned of by numpy.
    with np.errstate(all="ignore"):
        simulator = _PriorSimulator(model, record, steps, values, int(rng.integers(2**63)))
        weights = np.full(draws, 1.0 / draws)
        run = simulate_particles(problem, record, values, weights, simulator=simulator)
        finite = np.asarray(~np.isinf(run.rmse).any(axis=1))
        band, paths = _band(simulator, values, finite, rng)
    given = {one.name: getattr(run, one.name) for one in fields(Simulation)}
    given |= {
        "coverage": _coverage(record, band), "kind": "what the prior allows",
        "warnings": tuple(_warnings(simulator, run.diverged)),
    }  # fmt: skip
    return PriorPrediction(**given, band=band, paths=paths)


class _PriorSimulator(Simulator):
    """Outputs of draws from a prior over one record, with process noise where the model has it.

    values: (N, d), draws by which the steps are judged: one parameter vector in the middle tells
        little of a wide prior.
    seed: Of the process noise.
    unsettled, stiff: Shares of the draws whose outputs change with the steps, and that diverge by
        their steps.
    """

    def __init__(
        self, model: Model, record: Record, steps: int | str, values: Array, seed: int
    ) -> None:
        super().__init__(model, record, steps)
        self.model, self.record = model, record
        self._pilot = int(np.clip(COMPARED // (len(record) * model.outputs.numel()), 8, PILOT))
        self._disturbed = None
        automatic = self.steps == "auto"
        if model.events is not None:
            # Paths of which an event passes a sample by finer steps have not changed.
            self._change = np.zeros((len(record), model.outputs.numel()))
            self.unsettled = 0.0
            self.steps, self.stiff = self._stable(values, OWN_STEPS, False)
            return
        if isinstance(self.steps, OwnSteps):
            self._change, self.unsettled, self.stiff = self._refined(values), 0.0, 0.0
            return
        steps = LEAST_STEPS if self.steps == "auto" else int(self.steps)
        steps, self._change, self.unsettled = self._accurate(values, steps, automatic)
        self.steps, self.stiff = self._stable(values, steps, automatic)
        if model.process_noise is not None:
            self._disturbed = DisturbedSimulator(model, record, self.steps, seed)

    def _refined(self, values: Array) -> Array:
        """Median change of the outputs by a finer tolerance, where draws choose their steps."""
        theta, solver = np.ascontiguousarray(values[: self._pilot].T), Rosenbrock().begun()
        coarse, fine = (
            np.concatenate([part for _, _, part in self._run_stiff(theta, one)])
            for one in (solver, solver.refined() or solver)
        )
        return np.nan_to_num(np.median(np.abs(fine - coarse), axis=2))

    def _accurate(self, values: Array, steps: int, automatic: bool) -> tuple[int, Array, float]:
        """Double the steps until the paths of draws settle; also what halving a step changes."""
        pilot, coarse = values[: self._pilot], self._outputs(values[: self._pilot], steps)
        while True:
            fine = self._outputs(pilot, 2 * steps)
            change = np.abs(fine - coarse)
            error, size = (np.sqrt(np.square(one).mean(axis=0)) for one in (change, fine))
            settled = (error <= SETTLED * size).all(axis=0) | ~(_finite(coarse) | _finite(fine))
            unsettled = 1.0 - float(settled.mean())
            if not automatic or unsettled <= UNSETTLED or 2 * steps > MOST_STEPS:
                return steps, np.nan_to_num(np.median(change, axis=2)), unsettled
            steps, coarse = 2 * steps, fine

    def _stable(self, values: Array, steps: int, automatic: bool) -> tuple[int, float]:
        """Double the steps until hardly a draw diverges that finer steps would bring to the end."""
        lost = ~_finite(self._outputs(values, steps))
        some = values[lost][: self._pilot]
        if not len(some):
            return steps, 0.0
        own = isinstance(steps, OwnSteps)
        curable = _finite(self._outputs(some, steps if own else max(steps, MOST_STEPS)))
        if lost.all() and not curable.any():
            raise InputError(
                f"{self.record.name}: the simulation diverges for each of {len(values)} draws of "
                "the prior: look at its signs and units, or narrow it",
                argument="prior",
            )
        while True:
            stiff = float(lost.mean() * (curable & ~_finite(self._outputs(some, steps))).mean())
            if not automatic or stiff <= STIFF or 2 * steps > MOST_STEPS:
                return steps, stiff
            steps *= 2

    def _outputs(self, values: Array, steps: int) -> Array:
        parts = self._run(np.ascontiguousarray(values.T), steps)
        return np.concatenate([part for _, _, part in parts])

    def _paths(self, theta: Array, steps: int) -> Iterator[tuple[int, int, Array]]:
        return self._run(theta, steps) if self._disturbed is None else self._disturbed(theta)

    def halving_change(self, theta: Array) -> Array:
        """Median change of the outputs of some draws when the step is halved, (T, q)."""
        return self._change.copy()

    def process_variance(self, problem: Problem, theta: Array, weights: Array) -> Array:
        """Zero: the process noise is in the paths."""
        return np.zeros(self._change.shape)


def _warnings(simulator: _PriorSimulator, diverged: float) -> Iterator[str]:
    """Yield sentences on draws that cannot be simulated, or not well."""
    if diverged:
        yield (
            f"{_figure(100 * diverged)} % of the prior's draws diverge{_or_stiff(simulator)}: "
            f"{'take more steps, or ' * bool(simulator.stiff)}bound their parameters"
        )
    if simulator.unsettled > UNSETTLED:
        yield (
            f"{_figure(100 * simulator.unsettled)} % of the prior's draws are too fast for "
            f"{simulator.steps} steps per sample, or chaotic: their paths are rough"
        )


def _or_stiff(simulator: _PriorSimulator) -> str:
    """Say what else than its equation lets a draw diverge."""
    if simulator.model.events is not None:
        return f", or have more than {MOST_EVENTS} events between two samples"
    if simulator.stiff:
        return (
            f" ({_figure(100 * simulator.stiff)} % by too few steps per sample, {simulator.steps})"
        )
    if isinstance(simulator.steps, OwnSteps):
        return ", or their algebraic equations have no solution"
    return f", or need over {max(int(simulator.steps), MOST_STEPS)} steps per sample"


def _finite(outputs: Array) -> NDArray[np.bool_]:
    """True where an output of (T, q, N) is finite throughout, (N,)."""
    return np.asarray(np.isfinite(outputs).all(axis=(0, 1)))


def _band(
    simulator: _PriorSimulator,
    values: Array,
    finite: NDArray[np.bool_],
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Quantiles of what would be measured, (3, T, q), and the outputs of some draws, (k, T, q)."""
    model, q = simulator.model, simulator.model.outputs.numel()
    noise = _Noise(model, values[finite], simulator.record)
    band = np.empty((3, len(simulator.record), q))
    paths = np.empty((min(PATHS, int(finite.sum())), *band.shape[1:]))
    # One error for each draw, whatever the sample: the band is that of each sample by itself.
    normal = rng.standard_normal((q, int(finite.sum())))
    for a, b, outputs in simulator(np.ascontiguousarray(values.T)):
        mean, sd = noise(np.ascontiguousarray(outputs[:, :, finite]), a)
        band[[0, 2], a:b] = np.quantile(mean + sd * normal, [0.025, 0.975], axis=2)
        band[1, a:b] = np.median(mean, axis=2)
        paths[:, a:b] = np.moveaxis(mean[:, :, : len(paths)], -1, 0)
    return band, paths


class _Noise:
    """Mean and standard deviation of what is measured, given outputs of parameter vectors."""

    def __init__(self, model: Model, values: Array, record: Record) -> None:
        self._model, self._values, self._natural = model, values, model.natural_means()
        self._record = record

    def __call__(self, outputs: Array, begin: int) -> tuple[Array, Array]:
        """Return both for outputs (T, q, N) from a sample on."""
        mean, variance = outputs, self._variance(outputs, begin)
        if self._natural is not None:
            mean, slope = (by_column(self._natural, outputs, which) for which in (0, 1))
            natural = np.array(self._natural(0)[2]) == 1.0
            variance = np.where(natural, slope, variance)
        return mean, np.sqrt(np.nan_to_num(variance, posinf=0.0))

    def _variance(self, outputs: Array, begin: int) -> Array:
        if self._model.density is None:
            return self._model.noise_variances(self._values)
        rows = np.moveaxis(outputs, 1, 2).reshape(-1, outputs.shape[1])
        values = np.tile(self._values, (len(outputs), 1))
        samples = self._model.sample_numbers(self._record[begin : begin + len(outputs)])
        samples = samples.repeated(outputs.shape[2])
        found = self._model.density_scatter(values, rows, rows, samples)[0]
        return np.moveaxis(found.reshape(len(outputs), outputs.shape[2], -1), 2, 1)


def _coverage(record: Record, band: Array) -> Array:
    """Share of the measured samples of each output inside a band, (q,); nan where none is."""
    if not record.n_outputs:
        return np.full(band.shape[2], np.nan)
    inside = (record.y >= band[0]) & (record.y <= band[2])
    with np.errstate(invalid="ignore"):
        return inside.sum(axis=0) / np.isfinite(record.y).sum(axis=0)


def _inside(coverage: float) -> str:
    if coverage >= INSIDE:
        return "inside the prior's 95 % band"
    outside = f"{_figure(100 * (1 - coverage))} % of the record are outside the prior's 95 % band"
    if coverage >= 0.5:
        return outside
    return f"{outside}: look at units, signs, initial state and priors"


def _beyond(excess: float) -> str:
    if not excess > WIDE:
        return ""
    return f"; the prior allows a range {_figure(excess)} times that measured"


def _figure(number: float) -> str:
    """Write a number with two digits: 1.3, 300, 2e+07."""
    return f"{float(f'{number:.2g}'):g}"
