"""Several models of the same data as one HTML file that needs no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from smcpn.model.record import by_name
from smcpn.report.comparison import comparison_figure
from smcpn.report.html import versions
from smcpn.report.page import Gallery, rendered, write_page
from smcpn.report.plots import LONGEST, Plot, compared_plot
from smcpn.results.compare import ModelComparison
from smcpn.results.draws import WeightedDraws
from smcpn.results.posterior import Posterior
from smcpn.results.scores import Score
from smcpn.simulation.simulation import Simulation
from smcpn.tables import Cell, Column, Table, words

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
        models=comparison.as_table().select(*MODELS),
        behind=gallery.picture(
            "models",
            lambda: comparison_figure(comparison),
            "How far each model is behind the best one.",
        ),
        scores=_scores(simulations),
        records=[(name, _plots(name, every)) for name, every in simulations.items()],
        parameters=_parameters(posteriors),
        versions=Table.of_pairs(versions()),
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


MODELS = ("model", "k", "log-evidence", "Laplace", "log-likelihood", "at", "AIC", "BIC")
"""Columns of the table of models."""


def _scores(simulations: Simulations) -> Table:
    columns = (
        words("model"), Column("RMSE", ".4g"), words("unit"), Column("fit", ".2f", "%"),
        Column("inside the 95 % band", ".1f", "%"),
    )  # fmt: skip
    rows: list[list[Cell]] = []
    for record, every in simulations.items():
        for model, simulation in every.items():
            for output, name in enumerate(simulation.names_of_outputs):
                score = Score.of(simulation, output)
                of = [model, *[record] * (len(simulations) > 1),
                      *[name] * (simulation.record.n_outputs > 1)]  # fmt: skip
                rows.append(
                    [", ".join(of), score.rmse_of_mean, score.unit, score.fit, 100 * score.coverage]
                )
    return Table(columns, rows)


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
    return Table([words("parameter"), *map(Column, posteriors)], rows)
