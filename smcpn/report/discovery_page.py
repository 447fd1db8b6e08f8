"""The report of a discovery as one HTML file that needs no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from smcpn.discovery.results.discovery import Discovery
from smcpn.discovery.results.models import ModelTable
from smcpn.discovery.results.notation import as_probability
from smcpn.discovery.results.printed import LEAST_INCLUSION, equation_lines, scores_of_tests
from smcpn.discovery.results.residuals import correlation
from smcpn.errors import InputError, listed
from smcpn.model.record import Record
from smcpn.report.discovery import LABELS, inclusion_figure, path_figure, residuals_figure
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
from smcpn.simulation.simulation import Simulation
from smcpn.status import status
from smcpn.tables import Column, Fact, Table, words

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
