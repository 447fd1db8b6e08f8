"""One self-contained HTML file that a colleague can be sent."""

from __future__ import annotations

import base64
import datetime
import hashlib
import io
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import smcpn
from smcpn.errors import InputError
from smcpn.likelihood.registry import likelihood_name
from smcpn.model.record import Record
from smcpn.report.parameters import check_truth, corner_figure, parameters_figure
from smcpn.report.prediction import prediction_figure
from smcpn.report.residuals import error_budget_figure, frequency_figure, innovations_figure
from smcpn.report.sampler import run_figure
from smcpn.simulation.particles import Simulation
from smcpn.validation import frequency_response
from smcpn.validation.comparison import compare_likelihoods

if TYPE_CHECKING:
    from smcpn.results.posterior import Posterior
    from smcpn.validation.comparison import ComparedLikelihood


# ---- What a result came from: settings, versions, and fingerprints of the data.

PACKAGES = ("numpy", "scipy", "numba", "casadi", "matplotlib")


def settings(posterior: Posterior) -> dict[str, str]:
    """Everything but the data that the result depends on, as text."""
    problem, ode = posterior.problem, posterior.problem.ode
    return {
        "model": ode.name,
        "states": ", ".join(ode.states),
        "inputs": ", ".join(ode.inputs) or "none",
        "observed": _text(problem.observe),
        "noise sd": _text(problem.noise),
        "initial state": _text(problem.initial),
        "likelihood": likelihood_name(posterior.solver, posterior.likelihood),
        "solver": str(posterior.solver),
        "particles": str(len(posterior.theta)),
        "seed": str(posterior.seed),
    }


def versions() -> dict[str, str]:
    """Installed versions of what computes."""
    found = {
        "smcpn": smcpn.__version__,
        "Python": platform.python_version(),
        "platform": platform.platform(terse=True),
    }
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def fingerprint(values: NDArray[np.float64]) -> str:
    """SHA-256 of an array as little-endian doubles in C order; -0 and NaN count as stored."""
    return hashlib.sha256(np.ascontiguousarray(values, dtype="<f8").tobytes()).hexdigest()


def record_rows(role: str, record: Record) -> list[list[str]]:
    """Rows (role, record, array, shape, hold, SHA-256) of a record's arrays."""
    hold = "function" if record.u_function is not None else record.hold
    arrays = {"t": record.t, "u": record.u, "y": record.y}
    return [
        [
            role,
            record.name,
            name,
            " x ".join(str(n) for n in values.shape),
            hold if name == "u" else "",
            fingerprint(values),
        ]
        for name, values in arrays.items()
        if values.size
    ]


def _text(label: Any) -> str:
    if isinstance(label, dict):
        return ", ".join(f"{name} = {_text(value)}" for name, value in label.items())
    if isinstance(label, list):
        return ", ".join(_text(value) for value in label)
    return f"{label:.6g}" if isinstance(label, float) else str(label)


# ---- Tables of a report, as text in cells.


@dataclass(frozen=True)
class Table:
    """Column heads and rows of cells."""

    columns: list[str]
    rows: list[list[str]]


def summary_facts(posterior: Posterior) -> list[tuple[str, str]]:
    """The figures a reader looks for first, as (name, value)."""
    timing = posterior.timing
    return [
        ("samples", f"{posterior.problem.n_samples}"),
        ("particles", f"{len(posterior.theta)}"),
        ("log-evidence", f"{posterior.log_evidence:.2f}"),
        ("rejuvenations", f"{len(posterior.rejuvenations)}"),
        ("proposals accepted", _percent(posterior.acceptance)),
        ("solver / noise variance", f"{posterior.budget.share:.2g}"),
        ("time", f"{timing.wall:.2f} s"),
    ]


def parameter_table(posterior: Posterior, truth: Mapping[str, float]) -> Table:
    """Posterior of each parameter beside its prior, and beside the truth where it is known."""
    columns = ["parameter", "mean", "sd", "sd %", "2.5 %", "97.5 %"]
    rows = [
        [
            row.name,
            *row.figures,
            *([f"{truth[row.name]:.5g}" if row.name in truth else ""] if truth else []),
            row.flag,
            row.prior,
        ]
        for row in posterior.table()
    ]
    return Table([*columns, *(["truth"] if truth else []), "", "prior"], rows)


def likelihood_table(rows: Sequence[ComparedLikelihood]) -> Table:
    """How other likelihoods see the posterior."""
    columns = ["likelihood", "solver", "log-likelihood", "particles kept", "largest shift", ""]
    return Table(
        columns,
        [
            [
                row.name,
                str(row.solver),
                f"{row.log_likelihood:.2f}",
                _percent(row.kept),
                f"{row.shift:.2g} sd",
                row.parameter,
            ]
            for row in rows
        ],
    )


def score_table(
    posterior: Posterior, simulations: Mapping[str, Simulation], published: Mapping[str, Any]
) -> Table:
    """RMSE of free simulations over the particles, with what others have published below."""
    columns = ["test", "unit", "RMSE min", "mean", "max", "of the mean", "fit %", "in 95 % band"]
    rows = []
    for name, simulation in simulations.items():
        for j in range(simulation.rmse.shape[1]):
            rmse = simulation.rmse[:, j]
            figures = [rmse.min(), posterior.weights @ rmse, rmse.max(), simulation.rmse_of_mean[j]]
            label = name if simulation.rmse.shape[1] == 1 else f"{name}, output {j + 1}"
            rows.append(
                [
                    label,
                    simulation.record.y_unit,
                    *(_number(value) for value in figures),
                    f"{simulation.fit[j]:.2f}" if np.isfinite(simulation.fit[j]) else "",
                    _percent(simulation.coverage[j]),
                ]
            )
        if name in published:
            other = published[name]
            figures = [other.rmse_min, other.rmse_mean, other.rmse_max]
            rows.append(["- published", "", *(_number(value) for value in figures), "", "", ""])
    return Table(columns, rows)


def _number(value: Any) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "not measured"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if np.isfinite(share) else ""


# ---- A figure as a data URI, so that a page needs no other file.

RASTER_DPI = 150
"""Of what a figure asks to be drawn as points, e.g. thousands of markers."""

_PATH = re.compile(r' d="[^"]*"')
_DECIMALS = re.compile(r"(\.\d\d)\d+")


def svg_text(figure: Figure) -> str:
    """Render a figure as SVG; the same figure gives the same bytes.

    Text becomes outlines, so that it looks the same without matplotlib's fonts. Coordinates keep
    two decimals of a point, which halves the file.
    """
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "smcpn"}):
        figure.savefig(buffer, format="svg", dpi=RASTER_DPI, metadata={"Date": None})
    return _PATH.sub(lambda path: _DECIMALS.sub(r"\1", path.group()), buffer.getvalue())


def data_uri(figure: Figure) -> str:
    """Render a figure as the source of an ``img`` element."""
    content = base64.b64encode(svg_text(figure).encode()).decode()
    return f"data:image/svg+xml;base64,{content}"


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
        settings=settings(posterior),
        versions=versions(),
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
        rows += record_rows("training", record)
    for name, simulation in simulations.items():
        rows += record_rows(f"test {name}", simulation.record)
    return Table(["use", "record", "array", "shape", "hold", "SHA-256"], rows)
