"""A record simulated with a whole posterior: prediction, band, and error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.arguments import Index, checked
from smcpn.base.late_binding import late_bound
from smcpn.base.tables import Card, Column, Table, WithCard, words
from smcpn.errors import InputError, counted, listed
from smcpn.model.problem import Model, Problem, check_record, labelled, scalar_outputs
from smcpn.model.record import Record
from smcpn.results.simulation.simulator import Simulator

ALIKE = 64
"""Samples of two records that are compared to tell whether they are one."""


class FromTheStart(NamedTuple):
    """A record learned from, and the samples from its beginning to the end of another record."""

    learned: Record
    record: Record


def begins_as(own: Record, record: Record, same: bool) -> bool:
    """True if two records begin alike: they are one, or variants of one."""
    n = min(len(own), len(record), ALIKE)
    alike = own.t[0] == record.t[0] and np.array_equal(own.u[:n], record.u[:n])
    if not (same and own.n_outputs == record.n_outputs):
        return alike
    y, other = own.y[:n], record.y[:n]
    return alike and bool(np.all((y == other) | np.isnan(y) | np.isnan(other)))


def from_the_start(problem: Problem, record: Record, same: bool) -> FromTheStart | None:
    """Return what a part of a record is simulated over, so that its first state follows.

    None where it is no part, or what it was cut from has no beginning that was learned from.

    same: Whether the record measures what those of the problem do.
    """
    if record.cut is None:
        return None
    first, whole = record.cut.first, record.cut.whole
    end = first + len(record)
    if not np.array_equal(whole.u[first:end], record.u):
        return None
    for own in problem.records:
        begin = int(np.searchsorted(whole.t, own.t[0] - 1e-6 * own.interval))
        if begin < first and begins_as(own, whole[begin:], same):
            y = np.full((end - begin, record.n_outputs), np.nan)
            y[first - begin :] = record.y
            longer = whole[begin:end].with_hold(record.hold).with_outputs(y)
            return FromTheStart(own, longer)
    return None


def learned_samples(problem: Problem, record: Record) -> tuple[tuple[int, int], ...]:
    """Return the samples [a, b) of a record that are those of a record learned from."""
    found = {_shared(own, record) for own in problem.records}
    return tuple(sorted(one for one in found if one[0] < one[1]))


def _shared(own: Record, record: Record) -> tuple[int, int]:
    """Samples [a, b) of a record that another one has too; none where they differ."""
    slack = 1e-6 * record.interval
    begin = max(own.t[0], record.t[0]) - slack
    i, a = int(np.searchsorted(own.t, begin)), int(np.searchsorted(record.t, begin))
    n = min(len(own) - i, len(record) - a)
    if n <= 0 or own.n_outputs != record.n_outputs or own.n_inputs != record.n_inputs:
        return 0, 0
    some = False
    for k in range(0, n, TOGETHER):
        one, two = (slice(begin + k, begin + min(k + TOGETHER, n)) for begin in (i, a))
        y, other = own.y[one], record.y[two]
        alike = (
            np.allclose(own.t[one], record.t[two], rtol=0.0, atol=slack)
            and np.array_equal(own.u[one], record.u[two])
            and np.all((y == other) | np.isnan(y) | np.isnan(other))
        )
        if not alike:
            return 0, 0
        some = some or bool((y == other).any())
    return (a, a + n) if some else (0, 0)


Array = NDArray[np.float64]

TWO_SIDED_95 = 1.959963984540054
COLUMNS = (
    words("output"), Column("fit", ".2f", "%"),
    Column("RMSE of the mean", ".4g", missing="not measured"),
    Column("inside the 95 % band", ".1f", "%"),
)  # fmt: skip
TOGETHER = 2**16
"""Samples that are compared at a time."""


class ParticleSimulator(Protocol):
    """Outputs of every particle over a record, in chunks of time; `Simulator` is one."""

    @property
    def steps(self) -> int | str:
        """Integration steps per sample; a number once it has run."""
        ...

    def __call__(self, theta: Array) -> Iterator[tuple[int, int, Array]]:
        """Yield (a, b, outputs (b - a, q, N)) for parameters (p, N)."""
        ...

    def process_variance(self, problem: Problem, theta: Array, weights: Array) -> Array:
        """Variance of the outputs by process noise, weighted over parameters (p, N), (T, q)."""
        ...

    def halving_change(self, theta: Array) -> Array:
        """Change of the outputs for parameters (p, 1) when the step is halved, (T, q), a copy."""
        ...


@checked
@dataclass(frozen=True, repr=False)
class Simulation(WithCard):
    """A record simulated with every particle of a posterior, or predicted some samples ahead.

    What comes out has a mean and a 95 % band, from `lower` to `upper`, and is compared with the
    measured outputs. In a free run (`Posterior.simulate`) these only compare; a prediction
    (`Posterior.predict`) takes the state at which each window begins from those up to there.

    Attributes
    ----------
    record : Record
    mean : ndarray, (T, q)
        Posterior mean of the noise-free outputs; of counts and of zeros and ones, whose output is
        a logarithm, that of their mean.
    parameter_variance : ndarray, (T, q)
        Spread of the noise-free outputs over the particles. The solver's error during the
        identification is in it, because the likelihood counted it.
    process_variance : ndarray, (T, q)
        What process noise adds, linearised about each particle's run without it; 0 where the
        problem has none.
    noise_variance : ndarray, (q,) or (T, q)
        Posterior mean of the measurement noise; 0 where the record measures something else than
        the problem does. Of noise with a density that at the posterior mean, by the information of
        a sample about the output, of counts their variance; 0 where the output is not in the unit
        of y.
    solver_variance : ndarray, (T, q)
        Squared change of the outputs at the posterior mean when the Runge-Kutta step of this
        simulation is halved: the error of the curve that is shown, not of the `EKF0` that
        learned the parameters.
    rmse : ndarray, (N, q)
        Root mean square error of each particle over the samples measured.
    rmse_of_mean : ndarray, (q,)
        Of the posterior mean prediction.
    fit : ndarray, (q,)
        100 (1 - rmse_of_mean / std(y)).
    coverage : ndarray, (q,)
        Share of measured samples inside the 95 % band.
    weights : ndarray, (N,)
        Of the particles that were simulated; they sum to one.
    steps : int
        Runge-Kutta steps per sample; 0 where the model is stiff, and every particle chose its own.
    diverged : float
        Weight of the particles whose simulation diverged; they count nowhere else.
    warnings : tuple of str
        One sentence for each unknown function that is evaluated beyond what the records learned
        from visit, and one where the initial state was learned from another record.
    outputs : tuple of str
        Names of the outputs, where they are known.
    kind : str
        What was simulated, for titles.
    learned : tuple of (int, int)
        Samples [a, b) of the record that the posterior has learned from; the others it predicts.

    Examples
    --------
    >>> simulation = posterior.simulate(test)  # doctest: +SKIP
    >>> simulation.fit, simulation.coverage  # doctest: +SKIP
    """

    record: Record
    mean: Array
    parameter_variance: Array
    process_variance: Array
    noise_variance: Array
    solver_variance: Array
    rmse: Array
    rmse_of_mean: Array
    fit: Array
    coverage: Array
    weights: Array
    steps: int
    diverged: float = 0.0
    warnings: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    kind: str = "free simulation"
    learned: tuple[tuple[int, int], ...] = ()

    @property
    def sd(self) -> Array:
        """Predictive standard deviation, (T, q): the root of the sum of the variances."""
        return _deviation(
            self.parameter_variance, self.process_variance, self.noise_variance,
            self.solver_variance,
        )  # fmt: skip

    @property
    def lower(self) -> Array:
        """Lower end of the 95 % band, (T, q)."""
        return self.mean - TWO_SIDED_95 * self.sd

    @property
    def upper(self) -> Array:
        """Upper end of the 95 % band, (T, q)."""
        return self.mean + TWO_SIDED_95 * self.sd

    @override
    def card(self) -> Card:
        rows = [
            [name, self.fit[j], self.rmse_of_mean[j], 100 * self.coverage[j]]
            for j, name in enumerate(self.names_of_outputs)
        ]
        title = (
            f"Simulation of '{self.record.name}': {len(self.record)} samples, "
            f"{counted(len(self.weights), 'particle')}"
        )
        left = [f"{self.diverged:.2g} of the weight diverged"] if self.diverged else []
        return Card(Table(COLUMNS, rows, title, [*left, *self.warnings]))

    @late_bound
    def picture(self) -> Any:
        """Draw every output and its error."""
        ...

    @property
    def names_of_outputs(self) -> tuple[str, ...]:
        """Names of the outputs, or their numbers from 0 where these are not known."""
        count = self.mean.shape[1]
        alone = ("output",) if count == 1 else ()
        return self.outputs or alone or tuple(f"output {j}" for j in range(count))

    def with_noise(self, variance: Array) -> Simulation:
        """Return the same with another noise variance at each sample, (T, q).

        Raises
        ------
        InputError
            If it does not have the shape of the outputs, or is negative somewhere.
        """
        try:
            variance = np.broadcast_to(variance, self.mean.shape)
        except ValueError:
            raise InputError(
                f"variance has the shape {variance.shape}: give {self.mean.shape}, one for each "
                "sample and output",
                argument="variance",
            ) from None
        if (variance < 0.0).any():
            raise InputError("variance is negative at a sample: give squares", argument="variance")
        run = replace(self, noise_variance=variance)
        error, measured = np.abs(self.record.y - self.mean), np.isfinite(self.record.y)
        within = (error <= TWO_SIDED_95 * run.sd).sum(axis=0)
        with np.errstate(invalid="ignore"):
            coverage = within / measured.sum(axis=0)
        return replace(run, coverage=coverage)

    @late_bound
    def plot(self, output: Index | None = None) -> Any:
        """Plot measured and simulated outputs with a 95 % band, and the errors.

        Parameters
        ----------
        output : int, optional
            One of them, and closer where the error is largest; by default all.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InputError
            If there is no such output.
        """
        ...


def simulate_particles(
    problem: Problem,
    record: Record,
    values: Array,
    weights: Array,
    observe: Any = None,
    steps: int | str = "auto",
    step_length: float | None = None,
    simulator: ParticleSimulator | None = None,
    like: Record | None = None,
) -> Simulation:
    """Simulate a record with weighted parameter values, (N, d) and (N,).

    observe: str, callable, or sequence of these, what the record measures, where that is not what
        the problem observes.
    step_length: Seconds; ``steps="auto"`` starts near it.
    simulator: What yields the outputs, where it is not the free simulation from the problem's
        initial state; ``steps`` and ``step_length`` are then not used.
    like: The record of the problem whose initial state this one shares, where these differ.

    A part that was cut out behind the beginning of a record learned from is simulated from there.
    """
    model = problem.model if observe is None else problem.model_observing(observe)
    check_record(record, problem.ode, model.outputs.numel(), problem.records)
    warnings: tuple[str, ...] = ()
    if simulator is None:
        longer = _longer(problem, record, like, observe is None)
        if longer is not None:
            run = simulate_particles(
                problem, longer.record, values, weights, observe, steps, step_length,
                like=longer.like,
            )  # fmt: skip
            return part_of(run, problem, record, longer.chosen)
        warnings = () if like is not None else _learned_elsewhere(problem, record, observe is None)
        started = starting_like(problem, model, record if like is None else like)
        simulator = Simulator(started, record, steps, step_length)
    natural = model.natural_means() if observe is None else None
    if natural is not None:
        simulator = Means(simulator, natural)
    theta = np.ascontiguousarray(values.T)
    moments = _moments(simulator, record, theta, weights, model.outputs.numel())
    variances = _variances(problem, model, simulator, values, moments)
    chosen = int(simulator.steps)
    # Of a long record it takes as much memory as a result.
    del simulator
    scores = [_score(moments, variances, j) for j in range(model.outputs.numel())]
    rmse_of_mean, fit, coverage = np.array(scores).T
    return Simulation(
        record,
        moments.mean,
        *variances,
        rmse=moments.rmse,
        rmse_of_mean=rmse_of_mean,
        fit=fit,
        coverage=coverage,
        weights=weights,
        steps=chosen,
        diverged=float(weights[moments.diverged].sum()),
        outputs=tuple(map(str, problem.observe if observe is None else observed(problem, observe))),
        warnings=warnings,
        learned=learned_samples(problem, record) if observe is None else (),
    )


class _Longer(NamedTuple):
    """The record that is simulated in place of one whose samples are some of its own.

    record, like: Arguments of `simulate_particles`.
    chosen: Samples of the one that was given.
    """

    record: Record
    like: Record | None
    chosen: slice | NDArray[np.bool_]


def _longer(problem: Problem, record: Record, like: Record | None, same: bool) -> _Longer | None:
    """Samples with those that the model puts in between, or from where they were learned from."""
    prepared = problem.model.prepared(record)
    if prepared is not record:
        return _Longer(prepared, like, prepared.given)
    longer = from_the_start(problem, record, same) if like is None else None
    if longer is None:
        return None
    return _Longer(longer.record, longer.learned, slice(-len(record), None))


def _moments(
    simulator: ParticleSimulator, record: Record, theta: Array, weights: Array, n_outputs: int
) -> _Moments:
    """Moments of the outputs over the particles that do not diverge.

    One that diverges is found late: its part in what came before is taken back by a second run
    without it.
    """
    moments = _Moments(record, n_outputs, weights)
    while moments.spoiled_by(simulator(theta)):
        if not moments.weights.any():
            raise InputError(f"{record.name}: the simulation diverges for every particle")
    return moments


def _variances(
    problem: Problem, model: Model, simulator: ParticleSimulator, values: Array, moments: _Moments
) -> tuple[Array, Array, Array, Array]:
    """Variances by the parameters, by process noise, by the noise and by the solver's error."""
    centre = moments.weights @ values
    noise = _noise_variance(model, values, moments)
    if isinstance(simulator, Means):
        noise = np.where(simulator.natural, simulator.slopes(centre[:, None]), noise)
    process = simulator.process_variance(problem, np.ascontiguousarray(values.T), moments.weights)
    change = simulator.halving_change(centre[:, None])
    return moments.spread, process, noise, np.square(change, out=change)


def _deviation(parameters: Array, process: Array, noise: Array, solver: Array) -> Array:
    """Standard deviation by the variances of `Simulation`, (T, q)."""
    sd = parameters + process
    sd += noise
    sd += solver
    return np.sqrt(sd, out=sd)


def part_of(
    run: Simulation, problem: Problem, record: Record, chosen: slice | NDArray[np.bool_]
) -> Simulation:
    """Return a simulation of the samples of a record alone; others were not compared."""
    noise = run.noise_variance
    return replace(
        run,
        record=record,
        mean=run.mean[chosen],
        parameter_variance=run.parameter_variance[chosen],
        process_variance=run.process_variance[chosen],
        solver_variance=run.solver_variance[chosen],
        noise_variance=noise if noise.ndim == 1 else noise[chosen],
        learned=learned_samples(problem, record),
    )


def _noise_variance(model: Model, values: Array, moments: _Moments) -> Array:
    """Posterior mean of the noise variance; of a density that at the mean, (q,) or (T, q)."""
    if model.density is None:
        return np.nan_to_num(model.noise_variances(values), posinf=0.0) @ moments.weights
    centre = moments.weights @ values
    # That of a density whose output is not in the unit of y is left out of the band.
    samples = model.sample_numbers(moments.record)
    return np.nan_to_num(model.density_scatter(centre, moments.mean, moments.mean, samples)[0])


class Means:
    """Means of what is measured, from a simulator whose outputs are natural parameters.

    Variances and changes of the outputs are carried over by the slope (delta method).

    means: As of `Model.natural_means`.
    """

    def __init__(self, simulator: ParticleSimulator, means: ca.Function) -> None:
        self._simulator, self._means = simulator, means
        self.natural = np.array(means(0)[2]).ravel() == 1.0

    @property
    def steps(self) -> int | str:
        """Solver steps per sample."""
        return self._simulator.steps

    def __call__(self, theta: Array) -> Iterator[tuple[int, int, Array]]:
        """Yield the means of the solver for all particles, chunk by chunk."""
        for a, b, outputs in self._simulator(theta):
            yield a, b, by_column(self._means, outputs, 0)

    def slopes(self, theta: Array) -> Array:
        """Derivative of the means by the outputs for parameters (p, 1), (T, q)."""
        parts = [by_column(self._means, outputs, 1) for _, _, outputs in self._simulator(theta)]
        return np.concatenate(parts)[:, :, 0]

    def process_variance(self, problem: Problem, theta: Array, weights: Array) -> Array:
        """Variance of the outputs by process noise: none."""
        variance = self._simulator.process_variance(problem, theta, weights)
        return variance * np.square(self.slopes((theta @ weights)[:, None]))

    def halving_change(self, theta: Array) -> Array:
        """Change of the outputs by half as many steps."""
        return self._simulator.halving_change(theta) * self.slopes(theta)


def by_column(means: ca.Function, outputs: Array, which: int) -> Array:
    """Return means (0) or slopes (1) of outputs (T, q, N), by `Model.natural_means`."""
    rows = outputs.transpose(1, 0, 2)
    columns = rows.reshape(len(rows), -1)
    found = np.array(means.map(columns.shape[1])(columns)[which])
    return found.reshape(rows.shape).transpose(1, 0, 2)


def observed(problem: Problem, observe: Any) -> list[str]:
    """Names of what a record measures, where that is not what the problem observes."""
    return labelled(scalar_outputs(observe, problem.ode))


def starting_like(problem: Problem, model: Model, record: Record) -> Model:
    """Choose the initial state of the problem's record that is ``record``."""
    return replace(model, initial=(model.initial[initial_number(problem, record)],))


def initial_number(problem: Problem, record: Record) -> int:
    """Number of the initial state of the problem's record that is ``record``."""
    initial = problem.model.with_numbers().initial
    zero = ca.SX.zeros(*initial[0].shape)
    if all(ca.is_equal(ca.densify(other - initial[0]), zero, 2) for other in initial[1:]):
        return 0
    for number, own in enumerate(problem.records):
        if own is record:
            return number
    raise InputError(
        f"{record.name}: the problem's {len(problem.records)} records start from different states: "
        "choose which one with like=, one of these records, or have it found from the first "
        "samples of this one, initialise=20"
    )


def _learned_elsewhere(problem: Problem, record: Record, same: bool) -> tuple[str, ...]:
    """A warning where a record begins at an initial state that was learned from another one.

    same: Whether the record measures what those of the problem do.
    """
    if any(begins_as(own, record, same) for own in problem.records):
        return ()
    if record.cut is not None and record.cut.first:
        return (
            f"'{record.name}' is a part of a record of whose beginning nothing was learned: its "
            "first state is not known, and taken for that of the problem; initialise=20 finds it "
            "from its first 20 samples",
        )
    model = problem.model.with_numbers()
    within = {one.name() for one in ca.symvar(model.rhs)}
    own = [one.name() for one in ca.symvar(model.initial[0]) if one.name() not in within]
    if not own:
        return ()
    return (
        f"'{record.name}' begins at {listed(own)} as learned from '{problem.records[0].name}', "
        "which is another record: initialise=20 finds its own initial state from its first 20 "
        "samples",
    )


class _Moments:
    """Weighted moments of the outputs over the particles, and each particle's squared error."""

    def __init__(self, record: Record, n_outputs: int, weights: Array) -> None:
        shape = (len(record), n_outputs)
        self.weights, self.diverged = weights, np.zeros(len(weights), bool)
        self.record = record
        self.y = record.y if record.n_outputs else np.broadcast_to(np.nan, shape)
        self.mean, self.spread = np.empty(shape), np.empty(shape)
        self.counts = np.zeros(n_outputs, dtype=np.int64)
        self._squares = np.zeros((n_outputs, len(weights)))

    @property
    def rmse(self) -> Array:
        """Root mean square error of each particle, (N, q); inf where it diverged."""
        with np.errstate(invalid="ignore", divide="ignore"):
            rmse = np.sqrt(self._squares.T / self.counts)
        rmse[self.diverged] = np.inf
        return rmse

    def spoiled_by(self, parts: Iterator[tuple[int, int, Array]]) -> bool:
        """Accumulate a run; return whether a particle diverged that did not before."""
        known = self.diverged.copy()
        self._squares[:], self.counts[:] = 0.0, 0
        for a, b, outputs in parts:
            with np.errstate(over="ignore", invalid="ignore"):
                error = outputs - self._reference(a, b)[:, :, None]
                self._add(a, b, error, known)
        if not (self.diverged & ~known).any():
            return False
        self.weights = np.where(self.diverged, 0.0, self.weights)
        total = self.weights.sum()
        self.weights = self.weights / total if total else self.weights
        return True

    def _reference(self, a: int, b: int) -> Array:
        """Measured values at samples [a, b), 0 where there is none: errors are small beside it."""
        y = self.y[a:b]
        return np.where(np.isfinite(y), y, 0.0)

    def _add(self, a: int, b: int, error: Array, known: NDArray[np.bool_]) -> None:
        if known.any():
            error[:, :, known] = 0.0
        shift = error @ self.weights
        np.square(error, out=error)
        second = error @ self.weights
        self.mean[a:b] = self._reference(a, b) + shift
        self.spread[a:b] = np.maximum(second - np.square(shift), 0.0)
        measured = np.isfinite(self.y[a:b])
        self.counts += measured.sum(axis=0)
        for j in range(error.shape[1]):
            self._squares[j] += measured[:, j].astype(float) @ error[:, j]
        # A particle of weight zero spoils a weighted sum as well: 0 times infinity.
        if not np.isfinite(second).all():
            self.diverged |= ~np.isfinite(error).all(axis=(0, 1))


def _score(
    moments: _Moments, variances: tuple[Array, ...], output: int
) -> tuple[float, float, float]:
    """RMSE of the mean, fit, coverage of the band; nan where nothing was measured."""
    seen = int(moments.counts[output])
    if not seen:
        return np.nan, np.nan, np.nan
    total, square, within, parts = 0.0, 0.0, 0, list[slice]()
    for a in range(0, len(moments.y), TOGETHER):
        parts.append(part := slice(a, a + TOGETHER))
        y = moments.y[part, output]
        some = np.isfinite(y)
        y = y[some]
        error = y - moments.mean[part, output][some]
        sd = _deviation(*(v[output] if v.ndim == 1 else v[part, output] for v in variances))
        total += y.sum()
        square += np.square(error).sum()
        within += (np.abs(error) <= TWO_SIDED_95 * sd[some]).sum()
    centre, rmse = total / seen, float(np.sqrt(square / seen))
    outputs = (moments.y[part, output] for part in parts)
    about = (y[np.isfinite(y)] - centre for y in outputs)
    spread = float(np.sqrt(sum(np.square(deviation).sum() for deviation in about) / seen))
    fit = 100 * (1 - rmse / spread) if spread else np.nan
    return rmse, fit, float(within / seen)
