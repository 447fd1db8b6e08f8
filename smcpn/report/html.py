"""One self-contained HTML file that a colleague can be sent."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from smcpn.errors import InputError
from smcpn.report import provenance
from smcpn.report.frequency import frequency_figure
from smcpn.report.parameters import check_truth, corner_figure, parameters_figure
from smcpn.report.prediction import prediction_figure
from smcpn.report.residuals import error_budget_figure, innovations_figure
from smcpn.report.run import run_figure
from smcpn.report.svg import data_uri
from smcpn.report.tables import (
    Table,
    likelihood_table,
    parameter_table,
    score_table,
    summary_facts,
)
from smcpn.simulation.particles import Simulation
from smcpn.validation import frequency_response
from smcpn.validation.comparison import compare_likelihoods

if TYPE_CHECKING:
    from smcpn.posterior import Posterior

TEMPLATE = "report.html"


@dataclass(frozen=True)
class Picture:
    """A figure of the page: where it comes from, and what it says to one who cannot see it."""

    source: str
    caption: str

    @classmethod
    def of(cls, figure: Figure, caption: str) -> Picture:
        """Embed a figure."""
        return cls(data_uri(figure), caption)


def write_report(
    posterior: Posterior,
    path: str | Path,
    tests: Mapping[str, Any],
    *,
    observe: Any = None,
    published: Mapping[str, Any],
    truth: Mapping[str, float] | None = None,
    title: str | None = None,
    likelihoods: Sequence[str] = (),
) -> Path:
    """Write the report; see `smcpn.posterior.Posterior.report`.

    Raises
    ------
    InputError
        If the file cannot be written, a test does not fit, or ``truth`` names no parameter.
    """
    path = check_destination(path)
    known = check_truth(posterior, truth)
    simulations = {
        name: test if isinstance(test, Simulation) else posterior.simulate(test, observe=observe)
        for name, test in tests.items()
    }
    page = _template().render(
        title=title or posterior.problem.ode.name,
        description=posterior.problem.ode.doc.strip().split("\n\n")[0].replace("``", ""),
        facts=summary_facts(posterior),
        parameters=parameter_table(posterior, known),
        parameter_pictures=_parameter_pictures(posterior, known),
        scores=score_table(posterior, simulations, published),
        tests=_test_pictures(simulations),
        likelihoods=likelihood_table(compare_likelihoods(posterior, likelihoods)),
        validation=str(posterior.validate()),
        validation_pictures=_validation_pictures(posterior),
        run=Picture.of(run_figure(posterior), "How the sampler went through the record."),
        settings=provenance.settings(posterior),
        versions=provenance.versions(),
        data=_fingerprints(posterior, simulations),
        written=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"report '{path}' cannot be written ({error.strerror})") from error
    return path


def check_destination(path: str | Path) -> Path:
    """Refuse a file that cannot be written, before any work is done for it.

    Raises
    ------
    InputError
        If it is a folder, or its folder does not exist.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"report '{path}' is a folder: name a file in it, such as report.html")
    if not path.parent.is_dir():
        raise InputError(f"report '{path}' lies in a folder that does not exist: create it first")
    return path


def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("smcpn.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(TEMPLATE)


def _parameter_pictures(posterior: Posterior, truth: dict[str, float]) -> list[Picture]:
    return [
        Picture.of(
            parameters_figure(posterior, truth),
            "Prior and posterior of each parameter"
            + (", in units of the true value." if truth else "."),
        ),
        Picture.of(
            corner_figure(posterior, truth),
            "Pairs of parameters; above each panel the correlation in the sampler's coordinates.",
        ),
    ]


def _test_pictures(simulations: Mapping[str, Simulation]) -> list[tuple[str, list[Picture]]]:
    """Name and figures of each test: every output, with its frequency response where it has one."""
    tests = []
    for name, simulation in simulations.items():
        pictures = []
        for output in range(simulation.mean.shape[1]):
            caption = "Measured and simulated, the error, and the samples where it is largest."
            pictures.append(Picture.of(prediction_figure(simulation, output), caption))
            try:
                response = frequency_response(simulation.record, simulation.mean, output)
            except InputError:
                continue
            caption = "Frequency response by the same estimator, of data and of the simulation."
            pictures.append(Picture.of(frequency_figure(response), caption))
        tests.append((name, pictures))
    return tests


def _validation_pictures(posterior: Posterior) -> list[Picture]:
    validation = posterior.validate()
    pictures = []
    for output in range(len(validation.outputs)):
        pictures += [
            Picture.of(
                innovations_figure(validation, output),
                "Normalised innovations; shaded: where 99 % lie if model and noise are right.",
            ),
            Picture.of(
                error_budget_figure(validation, output),
                "Error budget: what of the expected variance is solver error, and how far half "
                "the step moves the posterior means (shaded: one posterior sd).",
            ),
        ]
    return pictures


def _fingerprints(posterior: Posterior, simulations: Mapping[str, Simulation]) -> Table:
    rows = []
    for record in posterior.problem.records:
        rows += provenance.record_rows("training", record)
    for name, simulation in simulations.items():
        rows += provenance.record_rows(f"test {name}", simulation.record)
    return Table(["use", "record", "array", "shape", "hold", "SHA-256"], rows)
