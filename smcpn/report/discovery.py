"""Figures of a discovery and its report: inclusion probabilities, fitted paths, residuals.

The report is one HTML file that needs no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from smcpn.base.status import status
from smcpn.base.tables import Column, Fact, Table, words
from smcpn.discovery.results.discovery import Discovery
from smcpn.discovery.results.models import ModelTable
from smcpn.discovery.results.notation import WrittenTerm, as_probability, with_uncertainty
from smcpn.discovery.results.printed import (
    LEAST_INCLUSION,
    averaged_terms,
    equation_lines,
    scores_of_tests,
)
from smcpn.discovery.results.residuals import correlation, residuals_of
from smcpn.errors import InputError, listed
from smcpn.model.record import Record
from smcpn.report.html import data_table, versions
from smcpn.report.page import (
    Gallery,
    Picture,
    check_destination,
    figure_folder,
    rendered,
    write_page,
)
from smcpn.report.plots import Plot, path_plots, simulation_figure
from smcpn.report.style import (
    ACCENT,
    DARK,
    LIGHT,
    MIDDLE,
    envelope,
    figure,
    over_time,
    plain,
    styled,
)
from smcpn.report.trajectories import labelled, plot_state_measured
from smcpn.results.simulation.simulation import Simulation

Array = NDArray[np.float64]

MOST_TERMS = 40
"""Terms that a figure shows, the most probable ones."""
MOST_RECORDS = 4
ROW = 0.2
"""Inches of one term."""
RIGHT = 1.3
"""End of the axis of probabilities: the coefficients stand beyond 1."""
LABELS = {
    "probability": "probability that the equation has the term",
    "level": "level of the widest interval without zero",
}


@styled
def inclusion_figure(found: Discovery) -> Figure:
    """Bars of the probability of each term, by equation, its coefficient beside.

    Terms of a probability below `LEAST_INCLUSION` are counted, not drawn.

    There is an axes for each equation that is not known.
    """
    every = averaged_terms(found)
    names = found.system.candidates.states
    allowed = [sum(found.system.freedom.places[:, 0] == i) for i in range(len(names))]
    ranked = sorted((-term.inclusion, i, k) for i, one in enumerate(every) for k, term in
                    enumerate(one) if term.inclusion >= LEAST_INCLUSION)  # fmt: skip
    kept = {(i, k) for _, i, k in ranked[:MOST_TERMS]}
    shown = [[term for k, term in enumerate(one) if (i, k) in kept] for i, one in enumerate(every)]
    open_equations = [i for i in range(len(names)) if allowed[i]]
    sizes = [max(1, len(shown[i])) for i in open_equations]
    drawing = figure(0.5 + ROW * sum(sizes) + 0.35 * len(sizes), 6.4)
    rows = drawing.subplots(len(sizes), 1, sharex=True, squeeze=False, height_ratios=sizes)[:, 0]
    for axes, i in zip(rows, open_equations, strict=True):
        _plot_terms(axes, shown[i])
        left = allowed[i] - len(shown[i])
        rest = f"  ({left} other terms below {LEAST_INCLUSION:g})" if left else ""
        axes.set_title(f"{plain(names[i])}'{rest}", loc="left")
    rows[-1].set_xlabel(LABELS[found.measure], x=0.5 / RIGHT)
    return drawing


def _plot_terms(axes: Axes, terms: list[WrittenTerm]) -> None:
    places = np.arange(len(terms))
    colors = [DARK if term.inclusion >= 0.5 else MIDDLE for term in terms]
    axes.barh(places, [term.inclusion for term in terms], height=0.6, color=colors, lw=0)
    for place, term in enumerate(terms):
        text = plain(with_uncertainty(term.mean, term.sd))
        axes.text(1.03, place, text, va="center", fontsize=8.0, clip_on=False)
    axes.axvline(0.5, color=ACCENT, lw=0.6, ls=":")
    axes.set_yticks(places, [plain(term.name) for term in terms])
    axes.set_xlim(0.0, RIGHT)
    axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0])
    axes.set_ylim(max(len(terms), 1) - 0.4, -0.6)
    axes.tick_params(left=False)
    axes.spines["bottom"].set_bounds(0.0, 1.0)


@styled
def path_figure(found: Discovery) -> Figure:
    """Measurements and the path of the most probable model, a row for each state.

    There is a column for each of the first `MOST_RECORDS` records.
    """
    states, records = found.system.candidates.states, found.records[:MOST_RECORDS]
    drawing = figure(0.9 + 1.4 * len(states))
    grid = drawing.subplots(len(states), len(records), sharex="col", sharey="row", squeeze=False)
    measured = [_output_of(row) for row in found.observe]
    for column, (record, path) in enumerate(zip(records, found.paths, strict=False)):
        for i, axes in enumerate(grid[:, column]):
            if i in measured:
                plot_state_measured(axes, record.t, record.y[:, measured.index(i)], 2.5)
            axes.plot(*envelope(record.t, path[:, i]), color=DARK, lw=0.9, label="fitted")
            axes.set_xlim(float(record.t[0]), float(record.t[-1]))
            if column == 0:
                axes.set_ylabel(plain(states[i]))
        grid[0, column].set_title(plain(record.name))
        grid[-1, column].set_xlabel(over_time(record))
    legend = labelled(grid[:, 0])
    left = len(found.records) - len(records)
    title = f"{left} more records" if left else None
    drawing.legend(legend.values(), legend, loc="outside upper left", ncols=2, title=title)
    drawing.align_ylabels(list(grid[:, 0]))
    return drawing


def _output_of(row: Array) -> int | None:
    """Number of the state that an output is, None where it is a sum of several."""
    places = np.flatnonzero(row)
    return int(places[0]) if len(places) == 1 and row[places[0]] == 1.0 else None


@styled
def residuals_figure(found: Discovery) -> Figure:
    """Measurements less the fitted path, in units of the noise.

    There is a row for each output, and a column for each of the first `MOST_RECORDS` records.
    """
    records = found.records[:MOST_RECORDS]
    drawing = figure(0.7 + 1.2 * len(found.observe))
    grid = drawing.subplots(
        len(found.observe), len(records), sharex="col", sharey="row", squeeze=False
    )
    left = residuals_of(found)[: len(records)]
    for column, (record, residuals) in enumerate(zip(records, left, strict=True)):
        residuals = residuals / np.where(found.noise > 0, found.noise, 1)
        for j, axes in enumerate(grid[:, column]):
            axes.axhspan(-1.96, 1.96, color=LIGHT, lw=0, zorder=0)
            axes.plot(*envelope(record.t, residuals[:, j]), color=DARK, lw=0.6)
            axes.set_xlim(float(record.t[0]), float(record.t[-1]))
            if column == 0:
                axes.set_ylabel(f"{plain(found.outputs[j])} / sd")
        grid[0, column].set_title(plain(record.name))
        grid[-1, column].set_xlabel(over_time(record))
    return drawing


TEMPLATE = "discovery.html"
LEARNED = 2
"""Records learned from, at most, that are simulated."""
LISTED = 60
"""Coefficients in the table, at most."""


def write_discovery(
    found: Discovery,
    path: str | Path,
    tests: Mapping[str, Record | Simulation] | None,
    *,
    title: str,
    figures: str | Path | None,
    progress: bool | None,
) -> Path:
    """Write the report of a discovery, as `smcpn.Discovery.report` says."""
    file = check_destination(path)
    gallery = Gallery(None if figures is None else figure_folder(figures))
    with status(progress):
        return write_page(file, _page(found, gallery, tests or {}, title))


def _page(
    found: Discovery, gallery: Gallery, tests: Mapping[str, Record | Simulation], title: str
) -> str:
    simulations = list(_simulated(found, tests))
    run = {name: one for name, one in simulations if isinstance(one, Simulation)}
    uses = [("training", record) for record in found.records]
    uses += [
        (f"test {name}", test.record if isinstance(test, Simulation) else test)
        for name, test in tests.items()
    ]
    return rendered(
        TEMPLATE,
        title=title,
        description=_description(found),
        facts=_facts(found),
        equations="\n".join(equation_lines(found)),
        behind=LABELS[found.measure],
        warnings=found.warnings,
        inclusion=gallery.picture(
            "terms",
            lambda: inclusion_figure(found),
            f"{found.measure.capitalize()} of each term, and its coefficient.",
        ),
        coefficients=_coefficients(found),
        models=ModelTable(found.models).as_table(),
        noise=_noise(found),
        paths=gallery.picture(
            "paths",
            lambda: path_figure(found),
            "Measurements, and the path of the most probable model.",
        ),
        explored=path_plots(found),
        residuals=gallery.picture(
            "residuals",
            lambda: residuals_figure(found),
            "Measurements less the path, in units of the noise; 95 % lie in the band if the model "
            "and the noise are right.",
        ),
        scores=scores_of_tests(found, run),
        simulations=[(name, *_shown(gallery, one, found.outputs)) for name, one in simulations],
        settings=_settings(found),
        versions=Table.of_pairs(versions()),
        data=data_table(uses),
    )


def _description(found: Discovery) -> str:
    system, samples = found.system, sum(len(record) for record in found.records)
    records = f"{len(found.records)} records" if len(found.records) > 1 else "one record"
    return (
        f"From {samples} samples of {listed(found.outputs)} in {records}, among "
        f"{len(system.coefficients)} coefficients of {len(system.candidates.names)} candidate "
        "terms."
    )


def _facts(found: Discovery) -> list[Fact]:
    best = found.models[0]
    return [
        ("samples", str(sum(len(record) for record in found.records))),
        ("candidates", str(len(found.system.coefficients))),
        ("terms, best model", str(len(best.names))),
        ("its probability", as_probability(best.probability)),
        ("models", str(len(found.models))),
    ]


def _coefficients(found: Discovery) -> Table:
    probable = sorted(
        (one for one in found.coefficients.items() if one[1].inclusion >= LEAST_INCLUSION),
        key=lambda one: -round(one[1].inclusion, 2),
    )
    columns = (
        words("coefficient"), Column(found.measure), Column("mean", ".5g"), Column("sd", ".2g"),
        Column("2.5 %", ".5g"), Column("97.5 %", ".5g"),
    )  # fmt: skip
    rows = [
        [name, as_probability(one.inclusion), one.mean, one.sd, one.lower, one.upper]
        for name, one in probable[:LISTED]
    ]
    return Table(columns, rows)


def _noise(found: Discovery) -> Table:
    columns = (
        words("output"), Column("noise sd", ".4g"),
        Column("correlation of successive residuals", "+.2f"),
    )  # fmt: skip
    return Table(columns, list(zip(found.outputs, found.noise, correlation(found), strict=True)))


def _simulated(
    found: Discovery, tests: Mapping[str, Record | Simulation]
) -> Iterator[tuple[str, Simulation | str]]:
    """Yield simulations by name, or why there is none."""
    for name, test in tests.items():
        yield name, test if isinstance(test, Simulation) else found.simulate(test)
    for record in found.records[:LEARNED]:
        try:
            yield f"{record.name}, learned from", found.simulate(record)
        except InputError as error:
            yield f"{record.name}, learned from", f"Not simulated: {error}."


def _shown(
    gallery: Gallery, simulation: Simulation | str, outputs: Sequence[str]
) -> tuple[list[Picture | Plot], str]:
    """Figures of a simulation and what is to be said of it."""
    if isinstance(simulation, str):
        return [], simulation
    caption = "measured and simulated, the 95 % band, and the error."
    pictures = [
        simulation_figure(gallery, simulation, j, f"{name}: {caption}")
        for j, name in enumerate(outputs)
    ]
    left = simulation.diverged
    return pictures, f"{left:.0%} of the draws left the range of the data." if left else ""


def _settings(found: Discovery) -> Table:
    candidates = found.system.candidates
    given: dict[str, Any] = {
        "states": listed(candidates.states),
        "inputs": listed(candidates.inputs) or "none",
        "measured": listed(found.outputs),
        "candidate terms": listed(candidates.names),
        **found.settings,
    }
    return Table.of_pairs({name: str(value) for name, value in given.items()})
