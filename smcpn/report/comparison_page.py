"""Several models of the same data as one HTML file that needs no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from smcpn.model.record import by_name
from smcpn.report.comparison import comparison_figure
from smcpn.report.html import versions
from smcpn.report.page import Gallery, Table, rendered, write_page
from smcpn.report.plots import LONGEST, Plot, compared_plot
from smcpn.results.compare import ModelComparison
from smcpn.results.draws import WeightedDraws
from smcpn.results.posterior import Posterior
from smcpn.results.scores import Score
from smcpn.simulation.simulation import Simulation

TEMPLATE = "comparison.html"

Simulations = Mapping[str, Mapping[str, Simulation]]
"""Of every record by name, by every model."""


def write_comparison(
    comparison: ModelComparison,
    posteriors: Mapping[str, WeightedDraws],
    simulations: Simulations,
    path: Path,
    title: str = "Models of the same data",
    verdict: Sequence[str] = (),
    figures: Path | None = None,
) -> Path:
    """Write which model is best, their scores, simulations over each other, and parameters.

    Parameters
    ----------
    comparison : ModelComparison
    posteriors : mapping of str to Posterior
        Of each model.
    simulations : mapping of str to mapping of str to Simulation
        By record, and by model; a model may lack.
    path : Path
    title : str
    verdict : sequence of str
        Sentences on which model wins; by default that on the evidence.
    figures : Path, optional
        Folder of the figures as files.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    gallery = Gallery(figures)
    page = rendered(
        TEMPLATE,
        title=title,
        verdict=verdict or [f"{comparison.winner}."],
        models=_models(comparison),
        behind=gallery.picture(
            "models",
            lambda: comparison_figure(comparison),
            "How far each model is behind the best one.",
        ),
        scores=_scores(simulations),
        records=[(name, _plots(name, every)) for name, every in simulations.items()],
        parameters=_parameters(posteriors),
        versions=versions(),
    )
    return write_page(path, page)


def over_records(posteriors: Mapping[str, Posterior]) -> Simulations:
    """Simulate the records that all models learned from."""
    records = next(iter(posteriors.values())).problem.records if posteriors else ()
    return {
        label: {
            name: posterior.simulate(posterior.problem.records[k])
            for name, posterior in posteriors.items()
        }
        for k, label in enumerate(by_name(records))
    }


def _models(comparison: ModelComparison) -> Table:
    behind = comparison.relative(comparison.deciding)
    rows = [
        [row.name, str(row.parameters), _number(row.log_evidence), _number(row.log_evidence_se, 2),
         _number(row.laplace_log_evidence), _number(row.log_likelihood), row.at,
         _number(row.aic), _number(row.bic)]
        for row in sorted(comparison.rows, key=lambda row: abs(np.nan_to_num(behind[row.name])))
    ]  # fmt: skip
    columns = ["model", "parameters", "log-evidence", "± se", "Laplace", "log-likelihood", "at",
               "AIC", "BIC"]  # fmt: skip
    return Table(columns, rows)


def _scores(simulations: Simulations) -> Table:
    rows: list[list[str]] = []
    for record, every in simulations.items():
        for model, simulation in every.items():
            for output in range(simulation.record.n_outputs):
                score = Score.of(simulation, output)
                name = f"{model}, {record}" if len(simulations) > 1 else model
                several = simulation.record.n_outputs > 1
                name += f", {simulation.names_of_outputs[output]}" if several else ""
                rows.append(
                    [name, f"{score.rmse_of_mean:.4g}", score.unit, f"{score.fit:.2f} %",
                     f"{100 * score.coverage:.1f} %"]
                )  # fmt: skip
    return Table(["model", "RMSE", "unit", "fit", "inside the 95 % band"], rows)


def _plots(name: str, every: Mapping[str, Simulation]) -> list[Plot]:
    """A plot of every output that was measured."""
    if not every:
        return []
    first = next(iter(every.values()))
    record, names = first.record, first.names_of_outputs
    if not 2 <= len(record) <= LONGEST:
        return []
    caption = f"{name}: measured, the mean simulation of each model, and the errors."
    return [
        compared_plot(
            record, j, names[j], {model: one.mean[:, j] for model, one in every.items()}, caption
        )
        for j in range(record.n_outputs)
        if np.isfinite(record.y[:, j]).any()
    ]


def _parameters(posteriors: Mapping[str, WeightedDraws]) -> Table:
    names = list(dict.fromkeys(name for one in posteriors.values() for name in one.names))
    rows = [
        [name, *(f"{one.mean[name]:.5g} ± {one.sd[name]:.2g}" if name in one.names else ""
                 for one in posteriors.values())]
        for name in names
    ]  # fmt: skip
    return Table(["parameter", *posteriors], rows)


def _number(value: float, digits: int = 0) -> str:
    if not np.isfinite(value):
        return ""
    return f"{value:.{digits}g}" if digits else f"{value:.2f}"
