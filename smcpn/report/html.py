"""The report of a posterior as one HTML file that needs no other.

It holds tables, figures (as SVG), the validation, and what the result came from: settings,
versions, and fingerprints of the data.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import io
import platform
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import smcpn
from smcpn.errors import InputError
from smcpn.files import file_path, is_plain
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.report.functions import function_figure
from smcpn.report.parameters import check_truth, corner_figure, parameters_figure
from smcpn.report.residuals import error_budget_figure, frequency_figure, innovations_figure
from smcpn.report.states import states_figure
from smcpn.results.draws import WeightedDraws
from smcpn.results.posterior import Posterior
from smcpn.results.robust import Robust
from smcpn.results.scores import score_table, scores_of
from smcpn.results.summary import shortened
from smcpn.simulation.particles import Simulation
from smcpn.simulation.states import States
from smcpn.validation import Validation, frequency_response
from smcpn.validation.reweighting import Reweighted, compare_likelihoods

TEMPLATE = "report.html"
GENERATOR = b'<meta name="generator" content="smcpn">'
RASTER_DPI = 150
"""Of parts of a figure that are drawn as points, e.g. thousands of markers."""
NOT_VALIDATED = (
    "Not done: the noise has a density of its own, so that no innovation would be normal. Compare "
    "simulations of the test records with what was measured."
)
PACKAGES = ("numpy", "scipy", "numba", "casadi", "matplotlib")

_PATH = re.compile(r' d="[^"]*"')
_DECIMALS = re.compile(r"(\.\d\d)\d+")


def settings(posterior: WeightedDraws) -> dict[str, str]:
    """Return the settings that the result depends on, as text; the data are not among them."""
    problem, ode = posterior.problem, posterior.problem.ode
    return {
        "model": ode.name,
        "states": ", ".join(ode.states),
        "inputs": ", ".join(ode.inputs) or "none",
        "observed": _text(problem.observe),
        "noise sd": _text(problem.noise),
        "process noise": _process_noise(problem),
        "initial state": _text(problem.initial),
        "likelihood": posterior.likelihood_name,
        "solver": str(posterior.solver),
        **({} if posterior.method is None else {"method": str(posterior.method)}),
        "particles": str(len(posterior.theta)),
        "seed": str(posterior.seed),
    }


def versions() -> dict[str, str]:
    """Installed versions of Python and of the packages that compute."""
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


def _process_noise(problem: Problem) -> str:
    if problem.ode.diffusion is not None:
        return "of the model"
    return _text(problem.process_noise) or "none"


def _text(label: Any) -> str:
    if isinstance(label, dict):
        return ", ".join(f"{name} = {_text(value)}" for name, value in label.items())
    if isinstance(label, list):
        return ", ".join(_text(value) for value in label)
    return f"{label:.6g}" if isinstance(label, float) else str(label)


@dataclass(frozen=True)
class Table:
    """Column heads and rows of cells."""

    columns: list[str]
    rows: list[list[str]]


def summary_facts(posterior: WeightedDraws) -> list[tuple[str, str]]:
    """Return the main figures of the run as (name, value)."""
    timing = posterior.timing
    return [
        ("samples", f"{posterior.problem.n_samples}"),
        *posterior.run_facts,
        ("shift by finer steps", _shift(posterior)),
        ("time", f"{timing.wall:.2f} s"),
    ]


def parameter_table(posterior: WeightedDraws, truth: Mapping[str, float]) -> Table:
    """Table of the posterior and prior of each parameter, with the truth where it is known."""
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
        if row.name not in posterior.problem.ode.priors
    ]
    lines = shortened(rows, posterior.problem.ode)
    return Table([*columns, *(["truth"] if truth else []), "", "prior"], lines)


def robust_table(robust: Robust | None) -> Table:
    """Table of plain and robust standard deviations; empty without."""
    columns = ["parameter", "sd", "robust sd", "factor", ""]
    if robust is None:
        return Table(columns, [])
    return Table(columns, [[row[0], *row[2:]] for row in robust.rows()])


def likelihood_table(rows: Sequence[Reweighted]) -> Table:
    """Table of the posterior reweighted by other likelihoods."""
    columns = ["likelihood", "solver", "log-likelihood", "particles kept", "largest shift", ""]
    return Table(
        columns,
        [
            [
                row.likelihood,
                str(row.solver),
                *(
                    [row.reason, "", "", ""]
                    if row.reason
                    else [
                        f"{row.log_likelihood:.2f}",
                        _percent(row.kept),
                        f"{row.largest_shift[1]:.2g} sd",
                        row.largest_shift[0],
                    ]
                ),
            ]
            for row in rows
        ],
    )


def _shift(posterior: WeightedDraws) -> str:
    return "" if posterior.shift is None else f"{posterior.shift.worst:.2g} posterior sd"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if np.isfinite(share) else ""


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


@dataclass(frozen=True)
class Picture:
    """A figure of the page: its ``src``, and a caption that is also its ``alt`` text."""

    source: str
    caption: str

    @classmethod
    def of(cls, figure: Figure, caption: str) -> Picture:
        """Embed a figure."""
        return cls(data_uri(figure), caption)


def write_report(
    posterior: Posterior,
    path: str | Path,
    simulations: Mapping[str, Simulation],
    validation: Validation | None,
    *,
    published: Mapping[str, Any],
    truth: Mapping[str, float] | None = None,
    title: str | None = None,
    likelihoods: Sequence[str] = (),
    robust: Robust | None = None,
    states: Sequence[States] = (),
) -> Path:
    """Write the report; see `smcpn.Posterior.report`.

    Parameters
    ----------
    posterior : Posterior
    path : str or Path
    simulations : mapping of str to Simulation
        Of the test records, by name.
    validation : Validation, optional
        On the records learned from; none where the noise has a density of its own.
    published, truth, title, likelihoods, robust
        As of `smcpn.Posterior.report`.
    states : sequence of States
        Of the records learned from, where the problem has process noise.

    Raises
    ------
    InputError
        If the file cannot be written, or ``truth`` names no parameter.
    """
    path = Path(path)
    known = check_truth(posterior, truth)
    scores = scores_of(simulations, posterior.problem.observe)
    columns, *score_rows = score_table(scores, published)
    compared = compare_likelihoods(
        posterior.problem, posterior.solver, posterior.likelihood,
        posterior.theta, posterior.log_weights, likelihoods,
    )  # fmt: skip
    page = template(TEMPLATE).render(
        title=title or posterior.problem.ode.name,
        description=posterior.problem.ode.doc.strip().split("\n\n")[0].replace("``", ""),
        facts=summary_facts(posterior),
        parameters=parameter_table(posterior, known),
        parameter_pictures=_parameter_pictures(posterior, known),
        functions=_function_sections(posterior),
        scores=Table(columns, score_rows),
        tests=_test_pictures(simulations),
        likelihoods=likelihood_table(compared),
        robust=robust_table(robust),
        effective="" if robust is None else robust.effective,
        states=_state_pictures(states),
        validation=NOT_VALIDATED if validation is None else str(validation),
        validation_pictures=_validation_pictures(validation),
        run=Picture.of(posterior.plot_run(), posterior.run_caption),
        settings=settings(posterior),
        versions=versions(),
        data=_fingerprints(posterior, simulations),
        written=now(),
    )
    return write_page(path, page)


def now() -> str:
    """Return the time as a page gives it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def write_page(path: Path, page: str) -> Path:
    """Write the text of a page.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
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
    file_path("report", path)
    if path.is_dir():
        raise InputError(f"report '{path}' is a folder: name a file in it, such as report.html")
    if not path.parent.is_dir():
        raise InputError(f"report '{path}' lies in a folder that does not exist: create it first")
    return path


def is_report(path: Path) -> bool:
    """Whether a plain file is a report that `write_report` wrote."""
    if not is_plain(path):
        return False
    with path.open("rb") as file:
        return GENERATOR in file.read(200)


def template(name: str) -> Any:
    """Return a template of this package by the name of its file."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("smcpn.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)


def _function_sections(posterior: WeightedDraws) -> list[tuple[str, list[Picture]]]:
    """Line of a summary and figure of every unknown function."""
    sections: list[tuple[str, list[Picture]]] = []
    for name, line in zip(posterior.problem.ode.functions, posterior.function_lines(), strict=True):
        pictures: list[Picture] = []
        with suppress(InputError):  # of three variables, or where the simulation diverges
            caption = (
                "The function and where the data that tell of it end: beyond the places that the "
                "records visit only its prior and its shape tell."
            )
            pictures.append(Picture.of(function_figure(posterior.function(name)), caption))
        sections.append((" ".join(line.split()), pictures))
    return sections


def _parameter_pictures(posterior: WeightedDraws, truth: dict[str, float]) -> list[Picture]:
    if set(posterior.problem.ode.priors) >= set(posterior.names):
        return []
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


def _test_pictures(
    simulations: Mapping[str, Simulation],
) -> list[tuple[str, tuple[str, ...], list[Picture]]]:
    """Name, warnings and figures of each test: every output, its frequency response if any."""
    tests = []
    for name, simulation in simulations.items():
        pictures = []
        for output in range(simulation.mean.shape[1]):
            caption = "Measured and simulated, the error, and the samples where it is largest."
            pictures.append(Picture.of(simulation.plot(output), caption))
            try:
                response = frequency_response(simulation.record, simulation.mean, output)
            except InputError:
                continue
            caption = "Frequency response by the same estimator, of data and of the simulation."
            pictures.append(Picture.of(frequency_figure(response), caption))
        tests.append((name, simulation.warnings, pictures))
    return tests


def _state_pictures(states: Sequence[States]) -> list[Picture]:
    return [
        Picture.of(
            states_figure(one),
            f"States of {one.record.name} given all of its samples, over {one.parameters} "
            "parameter vectors of the posterior; filtered: given the samples up to each one.",
        )
        for one in states
    ]


def _validation_pictures(validation: Validation | None) -> list[Picture]:
    if validation is None:
        return []
    pictures = []
    for output in range(len(validation.outputs)):
        pictures += [
            Picture.of(
                innovations_figure(validation, output),
                "Normalised innovations; shaded: where 99 % lie if model and noise are right.",
            ),
            Picture.of(
                error_budget_figure(validation, output),
                "Error budget: what of the expected variance is measurement noise and what is not, "
                "and how far finer steps move the posterior means (shaded: one posterior sd).",
            ),
        ]
    return pictures


def _fingerprints(posterior: WeightedDraws, simulations: Mapping[str, Simulation]) -> Table:
    rows = []
    for record in posterior.problem.records:
        rows += record_rows("training", record)
    for name, simulation in simulations.items():
        rows += record_rows(f"test {name}", simulation.record)
    return Table(["use", "record", "array", "shape", "hold", "SHA-256"], rows)
