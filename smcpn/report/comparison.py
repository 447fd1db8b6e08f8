"""Several models of the same data: one HTML file that needs no other, and its main figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from smcpn.base.tables import Cell, Column, Table, words
from smcpn.model.record import by_name
from smcpn.report.html import versions
from smcpn.report.page import Gallery, rendered, write_page
from smcpn.report.plots import LONGEST, Plot, compared_plot
from smcpn.report.style import ACCENT, DARK, figure, plain, styled
from smcpn.results.compare import ModelComparison
from smcpn.results.draws import WeightedDraws
from smcpn.results.posterior import Posterior
from smcpn.results.scores import Score
from smcpn.results.simulation.simulation import Simulation

TEMPLATE = "comparison.html"
LONGEST_NAME = 24
"""Characters of a name that fit beside the bars."""

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

    Simulations are by record, and by model, which may lack; ``verdict`` has sentences on which
    model wins, by default that on the evidence; ``figures`` is a folder of the figures as files.
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


@styled
def comparison_figure(compared: ModelComparison) -> Figure:
    """Bars of how far each model is behind the best one, in nats of the figure that decides."""
    behind = compared.relative(compared.deciding)
    drawing = figure(0.7 + 0.28 * len(behind))
    axes = drawing.subplots()
    places = np.arange(len(behind))
    values = np.nan_to_num(np.abs(list(behind.values())))
    axes.barh(places, values, height=0.6, color=DARK, lw=0)
    for place, (value, real) in enumerate(zip(values, behind.values(), strict=True)):
        text = "best" if real == 0.0 else f"{value:.2f}" if np.isfinite(real) else "not known"
        color = ACCENT if real == 0.0 else "k"
        axes.text(value, place, f" {text}", va="center", fontsize=8.0, color=color)
    short = [
        name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in behind
    ]
    axes.set_yticks(places, [plain(name) for name in short])
    axes.set_ylim(len(behind) - 0.4, -0.6)
    axes.set_xlim(0.0, 1.2 * max(float(values.max(initial=0.0)), 1.0))
    axes.set_xlabel(f"{compared.deciding.replace('_', '-')} behind the best")
    axes.tick_params(left=False)
    return drawing
