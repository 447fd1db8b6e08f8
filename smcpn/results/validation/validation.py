"""`validate`: tests of whether a posterior is to be believed, as one object and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.arguments import Index, checked
from smcpn.base.late_binding import late_bound
from smcpn.base.tables import Card, Cell, Column, Table, WithCard, table_text, words
from smcpn.errors import InputError
from smcpn.likelihood.shift import DiscretisationShift
from smcpn.model.noise import taken_for
from smcpn.model.problem import Problem, check_record
from smcpn.model.record import Record
from smcpn.model.solver import Solver
from smcpn.results.validation.correlation import ParameterPair, worst_pair
from smcpn.results.validation.frequency import FrequencyResponse, frequency_response
from smcpn.results.validation.innovations import (
    LAGS,
    Innovations,
    Whiteness,
    innovations,
    whiteness,
)
from smcpn.results.validation.reweighting import log_likelihood_of
from smcpn.results.validation.verdict import (
    FALSE_ALARMS,
    Verdict,
    judge,
    number_of_tests,
    outlier,
    structure,
)
from smcpn.smc.particles import effective_sample_size, normalise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

HUGE = 1e100
"""Errors of which nothing can be told, as of a solution that diverges."""
REPLICATES, FEW = 999, 5
"""Records drawn from a model, of which so many have a fit as low as that of one right record in
200."""
FEWEST = 10.0
"""Effective particles that a further record has to leave."""


@checked
@dataclass(frozen=True, repr=False)
class Validation(WithCard):
    """Innovations, frequency responses, error budget and correlations; ``str()`` is their text.

    The innovations are those of one draw from the posterior, given the records tested. Together
    with the data it is distributed as the true parameters are, so that where the model is right
    every test has exactly its distribution, however curved the posterior, and although the
    parameters were learned from the same samples (Johnson 2004). The mean of a curved posterior
    resembles none of its particles.

    Attributes
    ----------
    model : str
        Name of the ODE.
    innovations : tuple of Innovations
        One per record.
    outputs : tuple of Whiteness
        Tests of the innovations, one per output.
    learned : tuple of bool
        Of each output, whether its noise, process noise or the diffusion was learned. The variance
        of the innovations then fits whatever the model, and its test has no power.
    solver_share : float
        Mean share of solver error in the innovation variance, of the worst output.
    largest_solver_share : float
        The largest at any sample.
    process_share : float
        Mean share of process noise in the innovation variance, of the worst output; 0 without.
    shift : DiscretisationShift or None
        That of the posterior: what finer steps would do to it, by which ``steps="auto"`` judges.
    pair : ParameterPair or None
        The worst-correlated pair of parameters.
    values : ndarray, (d,)
        Parameters of the draw.
    names : tuple of str
        Of the outputs.
    remarks : tuple of str
        What is to be looked at besides: a record that does not go with those learned from.
    taken_for : tuple of str
        What the noise takes each output for, see `taken_for`; empty where nothing is known of it.

    References
    ----------
    Johnson, V. E. (2004). A Bayesian chi^2 test for goodness-of-fit. Annals of Statistics 32.
    """

    model: str
    innovations: tuple[Innovations, ...]
    outputs: tuple[Whiteness, ...]
    learned: tuple[bool, ...]
    solver_share: float
    largest_solver_share: float
    process_share: float
    shift: DiscretisationShift | None
    pair: ParameterPair | None
    values: Array
    names: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    taken_for: tuple[str, ...] = ()

    @cached_property
    def responses(self) -> tuple[FrequencyResponse, ...]:
        """Frequency responses, one per record and output.

        None where a record has not one input, or is too short, and none of a model with process
        noise, which predicts one step ahead here.
        """
        if self.process_share:
            return ()
        return tuple(one for part in self.innovations for one in _responses(part))

    @property
    def verdict(self) -> Verdict:
        """Usable, look again, or wrong; of right models one in 25 is not called usable."""
        return self.judged()

    def judged(
        self,
        first: Sequence[str] = (),
        others: Sequence[str] = (),
        suspected: Sequence[str] = (),
    ) -> Verdict:
        """Judge the tests, and what else there is to look at, before them and after.

        What is ``suspected`` comes first where the errors have structure, and else not at all.
        """
        steps = () if self.shift is None else self.shift.warnings
        found = judge(
            self.outputs,
            self.learned,
            others=(*others, *self.remarks, *steps),
            names=self.names,
            first=first,
            fit=self.fit,
            suspected=suspected,
            misses_mean=self.misses_mean,
            taken_for=self.taken_for,
        )
        return replace(found, measure="one-step fit") if self.process_share else found

    @property
    def structured(self) -> bool:
        """True if the errors of some output are correlated, in time or with the input."""
        level = FALSE_ALARMS / number_of_tests(self.outputs, self.learned)
        return any(structure(output, level) for output in self.outputs)

    @property
    def fit(self) -> tuple[float, ...]:
        """100 (1 - rms error / std(y)) of each output, over all records.

        The errors are those of a simulation, or of predictions one step ahead where the likelihood
        sees the data. There are none where limits are all that is known.
        """
        if not self.innovations:
            return ()
        y, mean, _ = self._together
        return tuple(_fit(y, mean).tolist()) if np.isfinite(y).any() else ()

    @cached_property
    def misses_mean(self) -> tuple[bool, ...]:
        """True of each output that is nearer to its own mean, by more than noise makes it seem.

        Its fit is below 0, and below that of all but a few of the records that the model has drawn.
        """
        fit, rng = np.array(self.fit), np.random.default_rng(0)
        doubtful, lower = np.isfinite(fit) & (fit < 0.0), np.zeros(len(fit))
        for _ in range(REPLICATES):
            if not doubtful.any():
                break
            y, mean, variance = self._together
            lower += _fit(_alike(y, mean, variance, rng), mean) <= fit
            doubtful &= lower < FEW
        return tuple(doubtful.tolist())

    @cached_property
    def _together(self) -> tuple[Array, Array, Array]:
        """Measured values, their means and variances, of all records, (T, q) each."""
        parts = [(part.record.y, part.mean, part.variance) for part in self.innovations]
        y, mean, variance = map(np.concatenate, zip(*parts, strict=True))
        return y, mean, variance

    def __str__(self) -> str:
        return validation_text(self)

    @override
    def card(self) -> Card:
        columns = (
            words("output"), Column("mean", "+.3f"), Column("variance", ".4g"), Column("chi^2"),
            Column("whiteness"), Column("independence of u"),
        )  # fmt: skip
        rows = [
            [self.names[number], one.mean, one.variance,
             "learned" if learned else _p(one.chi2_p), _p(one.whiteness_p),
             _p(one.independence_p) if one.cross_correlation.size else ""]
            for number, (one, learned) in enumerate(zip(self.outputs, self.learned, strict=True))
        ]  # fmt: skip
        title = f"Validation of '{self.model}': {self.verdict}"
        notes = [*(line.strip() for line in _budget_lines(self)), "all of it: print(validation)"]
        return Card(Table(columns, rows, title, notes))

    @override
    def picture(self) -> Figure | None:
        return self.plot() if self.outputs else None

    @late_bound
    def plot(self, output: Index = 0) -> Figure:
        """Plot the normalised innovations of an output, and their correlations, with 99 % bands."""
        ...

    @late_bound
    def plot_error_budget(self, output: Index = 0) -> Figure:
        """Plot the solver's share of the innovation variance, and what finer steps change."""
        ...


def validate(
    problem: Problem,
    solver: Solver,
    likelihood: str | None,
    theta: Array,
    log_weights: Array,
    shift: DiscretisationShift | None = None,
    record: Record | None = None,
) -> Validation:
    """Validate a posterior on the records it was learned from, or on another.

    solver: As it ran, its steps a number.
    theta: (N, d), unconstrained coordinates of the particles.
    shift: Of the posterior when its solver is made twice as fine.
    record: Measured as the problem observes; by default the records learned from.
    """
    weights = normalise(log_weights)
    if record is not None:
        check_record(record, problem.ode, len(problem.observe), problem.records)
        record = problem.model.prepared(record)
    values = problem.prior.natural(theta)
    tested, remarks = weights, tuple[str, ...]()
    if record is not None and all(record is not one for one in problem.records):
        change = log_likelihood_of(problem, solver, likelihood, values, record)
        left = float(effective_sample_size(log_weights + change)) if change.max() > -np.inf else 0.0
        if left >= FEWEST:
            tested = normalise(log_weights + change)
        else:
            remarks = ("the parameters: this record and those learned from have none in common",)
    draw = values[_drawn(tested)]
    parts = innovations(problem, solver, draw, record, likelihood)
    names = tuple(map(str, problem.observe))
    _check_innovations(parts, names)
    shares = np.concatenate([part.solver_share for part in parts])
    process = np.concatenate([part.process_share for part in parts])
    # Lags and places count the samples that were given, not those inserted where doses arrive.
    given = [part.record.given for part in parts]
    n_inputs = len(problem.ode.inputs)
    inputs = [part.record.u[own, :n_inputs] for part, own in zip(parts, given, strict=True)]
    density = problem.model.density
    return Validation(
        model=problem.ode.name,
        innovations=parts,
        outputs=tuple(
            whiteness(
                [part.normalised[own, j] for part, own in zip(parts, given, strict=True)],
                inputs,
                normal=density is None or density.normal,
                weights=[part.weights[own, j] for part, own in zip(parts, given, strict=True)],
            )
            for j in range(len(problem.observe))
        ),
        learned=_learned(problem),
        solver_share=float(shares.mean(axis=0).max()),
        largest_solver_share=float(shares.max()),
        process_share=float(process.mean(axis=0).max()),
        shift=shift,
        pair=worst_pair(problem.names, theta, weights),
        values=draw,
        names=names,
        remarks=remarks,
        taken_for=tuple(map(taken_for, problem.noise)),
    )


def _fit(y: Array, mean: Array) -> Array:
    """100 (1 - rms error / std(y)) of each output, (q,)."""
    with np.errstate(all="ignore"):
        share = np.sqrt(np.nanmean(np.square(y - mean), axis=0)) / np.nanstd(y, axis=0)
    return 100.0 * (1.0 - share)


def _alike(y: Array, mean: Array, variance: Array, rng: np.random.Generator) -> Array:
    """Draw values like measured ones y, (T, q), of these means and variances.

    Those that are never negative are skewed, as counts and relative errors are.
    """
    with np.errstate(invalid="ignore"):
        binary = np.all((y == 0.0) | (y == 1.0) | np.isnan(y), axis=0)
        skewed = ~np.any((y < 0.0) | (mean <= 0.0), axis=0)
        shape = np.where(skewed, np.square(mean) / variance, 1.0)
        drawn = np.where(
            skewed,
            rng.standard_gamma(shape) * mean / shape,
            mean + np.sqrt(variance) * rng.standard_normal(y.shape),
        )
    drawn = np.where(binary, rng.random(y.shape) < mean, drawn)
    return np.where(np.isfinite(y), drawn, np.nan)


def _drawn(weights: Array) -> int:
    """Number of one particle, drawn by its weight; the same whenever it is asked for."""
    chosen = np.random.default_rng(0).random() * weights.sum()
    return min(int(np.searchsorted(np.cumsum(weights), chosen, side="right")), len(weights) - 1)


def _learned(problem: Problem) -> tuple[bool, ...]:
    """Of each output, whether a parameter scales the variance of its innovations."""
    model, process = problem.model, problem.model.process_noise
    of_states = problem.diffusion is not None or (
        process is not None and ca.depends_on(process.columns, model.theta)
    )
    return tuple(of_states or ca.depends_on(one, model.theta) for one in ca.vertsplit(model.noise))


def _responses(part: Innovations) -> list[FrequencyResponse]:
    """Return those there are: not every record has a frequency response."""
    try:
        outputs = range(part.record.n_outputs)
        return [frequency_response(part.record, part.mean, j) for j in outputs]
    except InputError:
        return []


def validation_text(validation: Validation) -> str:
    """Render a validation: each figure, what was expected of it, what a deviation means."""
    records = ", ".join(part.record.name for part in validation.innovations)
    lines = [f"validation of {validation.model} on {records}, at a draw from the posterior", ""]
    level = FALSE_ALARMS / number_of_tests(validation.outputs, validation.learned)
    for number, output in enumerate(validation.outputs):
        label = "" if len(validation.outputs) == 1 else f" of {validation.names[number]}"
        lines += [
            f"{'one-step ' if validation.process_share else ''}"
            f"{validation.innovations[0].residual(number)}{label}",
            *_innovation_lines(output, validation.learned[number], level),
            "",
        ]
    lines += ["error budget", *_budget_lines(validation), ""]
    if validation.responses:
        lines += ["frequency response (H1), simulation against data"]
        lines += [
            f"  {one.name}: error {one.error:.2%} rms over {one.frequency[0]:.3g} to "
            f"{one.frequency[-1]:.3g} {one.unit}, lowest coherence {one.coherence.min():.3f}"
            for one in validation.responses
        ]
        lines.append("")
    pair = validation.pair
    if pair is not None:
        lines.append(
            f"worst-correlated pair: {pair.first} and {pair.second}, {pair.correlation:+.3f}"
            + (": a combination of the two is known better than each" if pair.ridge else "")
        )
    lines += ["", f"verdict: {validation.verdict}"]
    return "\n".join(lines)


def _innovation_lines(output: Whiteness, learned: bool, level: float) -> list[str]:
    expected = "says nothing: the noise was learned" if learned else "expected 1"
    of = f"of {output.samples} samples"
    rows: list[list[Cell]] = [
        ["  mean", f"{output.mean:+.3f}", "expected 0"],
        ["  variance", f"{output.variance:.4g}", expected],
        ["  chi^2", f"{output.chi2:.5g}", of if learned else f"{of}, {_p(output.chi2_p)}"],
        ["  whiteness", "", f"Ljung-Box, {LAGS} lags, {_p(output.whiteness_p)}"],
    ]
    if output.cross_correlation.size:
        remark = f"worst of all lags, {_p(output.independence_p)}"
        rows.append(["  independence of u", "", remark])
    largest = output.largest
    if largest is not None:
        rows.append(["  largest", f"{largest.size:+.3g}", f"{largest}, Grubbs, {_p(largest.p)}"])
    remarks = [f"  - {remark}" for remark in _remarks(output, learned, level)]
    return [table_text(Table((words(), Column(), words()), rows, notes=remarks))]


def _remarks(output: Whiteness, learned: bool, level: float) -> list[str]:
    """Explain the tests that failed."""
    remarks = []
    if not learned and output.chi2_p < level:
        size = "larger than" if output.variance > 1 else "smaller than"
        remarks.append(f"the errors are {size} the noise and the solver explain")
    if output.whiteness_p < level:
        remarks.append("not white: model error, or noise that is not white")
    if output.independence_p < level:
        remarks.append("depends on the input: the model misses something the input does")
    if output.largest is not None and output.largest.p < level:
        remarks.append(outlier(output.largest))
    return remarks or [f"no test fails at {level:.2g}"]


def _budget_lines(validation: Validation) -> list[str]:
    if validation.process_share:
        what, share = "process noise", f"{validation.process_share:.3%} in the mean"
    else:
        what, share = "solver error", f"{validation.solver_share:.3%} in the mean, "
        share += f"{validation.largest_solver_share:.3%} at most"
    line = f"  {what} in the innovation variance: {share}"
    shift = validation.shift
    return [line, f"  {'finer steps were not tried' if shift is None else shift}"]


def _p(value: float) -> str:
    return "p < 1e-6" if value < 1e-6 else f"p = {value:.2g}"


def _check_innovations(parts: Sequence[Innovations], names: Sequence[str]) -> None:
    """Refuse innovations of a solution that diverges, and of a record that lacks outputs."""
    for part in parts:
        largest = np.nanmax(np.abs(part.normalised), initial=0.0)
        if not np.isfinite(part.variance).all() or largest > HUGE:
            raise InputError(
                f"{part.record.name}: the solution at a draw from the posterior diverges: "
                "raise steps, or check the model on this record"
            )
    for part in parts:
        if not np.isfinite(part.normalised).any():
            raise InputError(f"{part.record.name}: every y is NaN: there is nothing to validate on")
    together = np.concatenate([part.normalised for part in parts])
    for j, name in enumerate(names):
        if not np.isfinite(together[:, j]).any():
            raise InputError(
                f"{parts[0].record.name}: '{name}' is NaN in every sample: there is nothing to "
                "validate it on; give a record in which all outputs were measured now and then"
            )
