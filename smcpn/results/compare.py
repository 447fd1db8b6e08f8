"""Several models of the same data in one table: evidence, likelihood, information criteria."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import override

from smcpn.base.arguments import checked
from smcpn.base.late_binding import late_bound
from smcpn.base.tables import Card, Column, Table, WithCard, table_text, words
from smcpn.errors import InputError, counted, listed, one_of, shown
from smcpn.model.problem import Problem
from smcpn.results.laplace import Laplace
from smcpn.results.maximum import POSTERIOR, Maximum
from smcpn.results.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = Posterior | Maximum | Laplace
NAN = float("nan")


@dataclass(frozen=True)
class ModelRow:
    """Evidence and fit of one model; nan for what none of its results has.

    parameters, measurements: Unknown parameters k, and measured values n.
    log_evidence, log_evidence_se: Of the sampler, and its standard error.
    log_likelihood: The largest known.
    at: {"maximum", "mode", "particle"}, where it is: the maximum of the likelihood, the mode of the
        posterior, or the best particle. Only the first is what the information criteria mean; the
        others are below it.
    """

    name: str
    parameters: int
    measurements: int
    log_evidence: float
    log_evidence_se: float
    laplace_log_evidence: float
    log_likelihood: float
    at: str

    @property
    def aic(self) -> float:
        """Akaike's information criterion, 2 k - 2 log L."""
        return 2 * self.parameters - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's information criterion, k log n - 2 log L."""
        return self.parameters * float(np.log(self.measurements)) - 2 * self.log_likelihood

    @property
    def stated_evidence(self) -> str | float:
        """The log-evidence with its standard error where that is known."""
        error = self.log_evidence_se
        return (
            f"{self.log_evidence:.2f} +- {error:.2g}" if np.isfinite(error) else self.log_evidence
        )


DECIDING = ("log_evidence", "laplace_log_evidence", "bic")
"""Figures by which a model wins, the most telling one first."""
STRENGTHS = ((5.0, "very strong"), (3.0, "strong"), (1.0, "positive"), (0.0, ""))
"""Words for a difference of log-evidences from so many nats on (Kass and Raftery, 1995)."""
MOST_NATS = 50.0
"""Nats up to which odds are said."""
FIGURES = ("log_evidence", "laplace_log_evidence", "log_likelihood", "aic", "bic")


@checked
@dataclass(frozen=True, repr=False)
class ModelComparison(WithCard):
    """Evidences and information criteria of models of the same data, as a table.

    Attributes
    ----------
    rows : tuple of ModelRow
        In the order given.
    """

    rows: tuple[ModelRow, ...]

    def __getitem__(self, name: str) -> ModelRow:
        """The row of a model."""
        for row in self.rows:
            if row.name == name:
                return row
        known = listed(row.name for row in self.rows)
        raise InputError(f"no model '{name}': choose one of {known}")

    def relative(self, figure: str) -> dict[str, float]:
        """A figure of each model less that of the best, the largest evidence or the least AIC.

        Parameters
        ----------
        figure : {"log_evidence", "laplace_log_evidence", "log_likelihood", "aic", "bic"}
        """
        one_of("figure", figure, FIGURES)
        values = np.array([getattr(row, figure) for row in self.rows])
        best = np.nan
        if np.isfinite(values).any():
            known = values[np.isfinite(values)]
            best = known.min() if figure in ("aic", "bic") else known.max()
        return {row.name: float(v - best) for row, v in zip(self.rows, values, strict=True)}

    @property
    def deciding(self) -> str:
        """Name of the figure that decides: the first that every model has, evidences before BIC."""
        known = (one for one in DECIDING if np.isfinite(list(self.relative(one).values())).all())
        return next(known, DECIDING[-1])

    @property
    def best(self) -> str:
        """Name of the best model by the figure that decides; the first where none is known."""
        behind = self.relative(self.deciding)
        return min(behind, key=lambda name: np.nan_to_num(abs(behind[name]), nan=np.inf))

    @property
    def winner(self) -> str:
        """The best model, by how much, and what that is worth, in a sentence.

        The words for a difference are those of Kass and Raftery (1995), section 3.2; that of BIC is
        halved, which approximates a difference of log-evidences.
        """
        figure, best = self.deciding, self.best
        behind = self.relative(figure)
        others = {name: abs(one) for name, one in behind.items() if name != best}
        known = {name: one for name, one in others.items() if np.isfinite(one)}
        if not known:
            return f"'{best}' is the only model that is compared"
        second = min(known, key=lambda name: known[name])
        nats = known[second] / (2.0 if figure == "bic" else 1.0)
        words = next(word for least, word in STRENGTHS if nats >= least)
        odds = f", odds of {np.exp(nats):.3g} to 1" if nats < MOST_NATS else ""
        by = figure.replace("_", "-").replace("bic", "BIC").replace("laplace-log", "Laplace log")
        if not words:
            return f"'{best}' and '{second}' are as good as each other by {by} ({nats:.2g} nats)"
        return f"'{best}' wins by {by}, {nats:.3g} nats before '{second}'{odds}: {words} evidence"

    @override
    def card(self) -> Card:
        table = self.as_table().select(
            "model", "k", "log-evidence", "Laplace", "log-likelihood", "BIC"
        )
        title = f"Comparison of {counted(len(self.rows), 'model')}: {self.winner}"
        return Card(replace(table, title=title, notes=["all of it: print(comparison.summary())"]))

    @override
    def picture(self) -> Figure | None:
        return self.plot()

    @late_bound
    def plot(self) -> Figure:
        """Plot how far each model is behind the best, by the figure that decides."""
        ...

    def summary(self) -> str:
        """The table as text; a figure is followed by its difference from the best."""
        return "\n".join([table_text(self.as_table()), "", self.winner])

    def as_table(self) -> Table:
        """Return the table as it is shown, a figure followed by its difference from the best."""
        figures = ("log_evidence", "laplace_log_evidence", "aic", "bic")
        evidence, laplace, aic, bic = (self.relative(figure) for figure in figures)
        behind = Column("to best", "+.2f", missing="-")
        columns = [
            words("model"), Column("k"), _figure("log-evidence"), behind, _figure("Laplace"),
            behind, _figure("log-likelihood"), words("at"), _figure("AIC"), behind, _figure("BIC"),
            behind,
        ]  # fmt: skip
        rows = [
            [row.name, row.parameters, row.stated_evidence, evidence[row.name],
             row.laplace_log_evidence, laplace[row.name], row.log_likelihood, row.at,
             row.aic, aic[row.name], row.bic, bic[row.name]]
            for row in self.rows
        ]  # fmt: skip
        return Table(columns, rows)


def _figure(name: str) -> Column:
    return Column(name, ".2f", missing="-")


def compare(models: Mapping[str, Result | Sequence[Result]]) -> ModelComparison:
    """Compare models of the same data.

    Evidences and information criteria can be compared where the measured values are the same;
    what a model makes of them (its inputs, their hold, its noise) may differ.

    Parameters
    ----------
    models : mapping of str to Posterior, Maximum, Laplace, or a sequence of these
        One or several results of each model.

    Returns
    -------
    ModelComparison

    Raises
    ------
    InputError
        If results are of different data, or those of one model have different parameters.

    References
    ----------
    Kass, R. E., Raftery, A. E. (1995). Bayes factors. JASA 90.

    Examples
    --------
    >>> print(smcpn.compare({  # doctest: +SKIP
    ...     "linear": smcpn.laplace(linear), "cubic": smcpn.laplace(cubic)}).summary())
    """
    if not isinstance(models, Mapping) or not models:
        raise InputError(f"models is {shown(models)}: give a mapping of name to result")
    results = {name: _results(name, given) for name, given in models.items()}
    (first, those), *others = results.items()
    for name, ours in [(first, those), *others]:
        for one in ours:
            if one.names != ours[0].names:
                raise InputError(f"'{name}' has results with different parameters: name each model")
            if not _same_measurements(those[0].problem, one.problem):
                raise InputError(
                    f"'{name}' is of other measurements than '{first}': only results over the "
                    "same t and y can be compared"
                )
    return ModelComparison(tuple(_row(name, given) for name, given in results.items()))


def _results(name: str, given: Result | Sequence[Result]) -> list[Result]:
    several = list(given) if isinstance(given, (list, tuple)) else [given]
    known = [one for one in several if isinstance(one, Result)]
    if not several or len(known) < len(several):
        raise InputError(
            f"models['{name}'] is {shown(given)}: give what smcpn.identify, smcpn.maximise or "
            "smcpn.laplace return"
        )
    return known


def _same_measurements(one: Problem, other: Problem) -> bool:
    """True if times and measured values agree; inputs are a part of the model."""
    return len(one.records) == len(other.records) and all(
        np.array_equal(a.t, b.t) and np.array_equal(a.y, b.y, equal_nan=True)
        for a, b in zip(one.records, other.records, strict=True)
    )


def _row(name: str, results: list[Result]) -> ModelRow:
    problem = results[0].problem
    posteriors = [one for one in results if isinstance(one, Posterior)]
    approximations = [one for one in results if isinstance(one, Laplace)]
    sampled = min(posteriors, key=lambda one: _unknown_last(one.log_evidence_se), default=None)
    log_likelihood, at = max(map(_best, results))
    return ModelRow(
        name=name,
        parameters=len(problem.names),
        measurements=sum(int(np.isfinite(record.y).sum()) for record in problem.records),
        log_evidence=NAN if sampled is None else sampled.log_evidence,
        log_evidence_se=NAN if sampled is None else sampled.log_evidence_se,
        laplace_log_evidence=max((one.log_evidence for one in approximations), default=NAN),
        log_likelihood=log_likelihood,
        at=at,
    )


def _best(result: Result) -> tuple[float, str]:
    """The largest log-likelihood of a result, and where it is."""
    if isinstance(result, Posterior):
        return float(result.log_likelihood.max()), "particle"
    maximum = result.maximum if isinstance(result, Laplace) else result
    return maximum.log_likelihood, "mode" if maximum.target == POSTERIOR else "maximum"


def _unknown_last(error: float) -> float:
    return error if np.isfinite(error) else np.inf
