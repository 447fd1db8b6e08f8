"""The report of a posterior as one HTML file that needs no other.

It holds tables, figures, the validation, and what the result came from: settings, versions, and
fingerprints of the data.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.base.status import status
from smcpn.base.tables import Cell, Column, Fact, Table, words
from smcpn.errors import InputError
from smcpn.model.problem import Problem
from smcpn.model.record import Record, by_name, trained_on
from smcpn.report.functions import function_figure
from smcpn.report.page import (
    Gallery,
    Picture,
    check_destination,
    figure_folder,
    rendered,
    write_page,
)
from smcpn.report.parameters import check_truth, corner_figure, parameters_figure
from smcpn.report.plots import Plot, innovation_plots, simulation_figure, states_figure
from smcpn.report.residuals import error_budget_figure, frequency_figure, innovations_figure
from smcpn.results.draws import WeightedDraws
from smcpn.results.posterior import Posterior, Robust
from smcpn.results.scores import Score, score_table, scores_of, with_tests
from smcpn.results.simulation.simulation import Simulation
from smcpn.results.simulation.states import States
from smcpn.results.validation import Validation, frequency_response
from smcpn.results.validation.reweighting import ReweightedPosterior, compare_likelihoods
from smcpn.version import __version__

TEMPLATE = "report.html"
NOT_VALIDATED = (
    "Not done: the noise has a density that is not about the output, so that no innovation is "
    "normal. Compare simulations of the test records with what was measured."
)
Tests = Record | Sequence[Record] | Mapping[str, Record | Simulation] | None
MOST_FITS = 4
"""Fits among the main figures."""
PACKAGES = ("numpy", "scipy", "numba", "casadi", "matplotlib")


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
        **({"delay": _text(problem.delay)} if problem.delay else {}),
        "initial state": _text(problem.initial),
        "likelihood": posterior.likelihood_name,
        "solver": posterior.solver_and_reason,
        **({} if posterior.method is None else {"method": str(posterior.method)}),
        "particles": str(len(posterior.theta)),
        "seed": str(posterior.seed),
    }


def versions() -> dict[str, str]:
    """Installed versions of Python and of the packages that compute."""
    found = {
        "smcpn": __version__,
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


def data_table(uses: Iterable[tuple[str, Record]]) -> Table:
    """Return shape, hold and SHA-256 of each array of records, behind what these are used for."""
    columns = [words(name) for name in ("use", "record", "array", "shape", "hold")]
    rows = [
        [use, record.name, name, " x ".join(map(str, values.shape)),
         (record.hold if record.u_function is None else "function") if name == "u" else "",
         fingerprint(values)]
        for use, record in uses
        for name, values in (("t", record.t), ("u", record.u), ("y", record.y))
        if values.size
    ]  # fmt: skip
    return Table([*columns, words("SHA-256", long=True)], rows)


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


def summary_facts(posterior: WeightedDraws, scores: Mapping[str, Score]) -> list[Fact]:
    """Return the main figures of the result as (name, value): what was learned, and how it fits."""
    fits = [(name, one.fit) for name, one in scores.items() if np.isfinite(one.fit)]
    return [
        ("parameters", f"{len(posterior.names)}"),
        ("samples learned from", f"{posterior.problem.n_given}"),
        *((f"fit, {name}", f"{fit:.3g} %") for name, fit in fits[:MOST_FITS]),
    ]


PARAMETERS = ("parameter", "mean", "sd", "sd %", "2.5 %", "97.5 %", "truth", "", "prior")
"""Columns of the table of parameters."""
ROBUST = ("parameter", "sd", "robust sd", "factor", "")


def likelihood_table(rows: Sequence[ReweightedPosterior], t_unit: str = "s") -> Table:
    """Return the table of the posterior reweighted by other likelihoods."""
    columns = (
        words("likelihood"), words("solver"), Column("log-likelihood", ".2f"),
        Column("particles kept", ".1f", "%"), Column("largest shift", ".2g", "sd"), words(),
    )  # fmt: skip
    figures: list[list[Cell]] = [
        [row.reason, None, None, ""]
        if row.reason
        else [row.log_likelihood, 100 * row.kept, row.largest_shift[1], row.largest_shift[0]]
        for row in rows
    ]
    names = ([row.likelihood, row.solver.in_words(t_unit)] for row in rows)
    return Table(columns, [[*name, *own] for name, own in zip(names, figures, strict=True)])


def write_report(
    posterior: Posterior,
    path: str | Path,
    tests: Tests,
    *,
    observe: Any,
    published: Mapping[str, Any] | None,
    truth: Mapping[str, Any] | None,
    title: str | None,
    likelihoods: Sequence[str],
    robust: Robust | None,
    figures: str | Path | None,
    progress: bool | None,
) -> Path:
    """Write the report of a posterior, as `smcpn.Posterior.report` says."""
    file = check_destination(path)
    gallery = Gallery(None if figures is None else figure_folder(figures))
    known, problem = check_truth(posterior, truth), posterior.problem
    with status(progress) as say:
        say("report: simulations")
        simulations = {
            name: test
            if isinstance(test, Simulation)
            else posterior.simulate(test, observe=observe)
            for name, test in _named(tests, problem.records).items()
        }
        disturbed = problem.model.process_noise is not None
        states = [posterior.states(one) for one in problem.records] if disturbed else []
        say("report: validation")
        page = _page(
            posterior, gallery, simulations, _validated(posterior), published or {}, known, title,
            likelihoods, robust, states,
        )  # fmt: skip
        return write_page(file, page)


def _named(tests: Tests, learned: Sequence[Record]) -> Mapping[str, Record | Simulation]:
    """Tests by name."""
    if tests is None:
        return trained_on(learned)
    if isinstance(tests, Mapping):
        return tests
    return by_name([tests] if isinstance(tests, Record) else tests)


def _validated(posterior: Posterior) -> Validation | None:
    """Validation on the records learned from; None where the noise is not about the output."""
    try:
        return posterior.validate()
    except InputError:
        # A density that is neither about the output nor of counts has no innovations.
        if posterior.problem.model.density is None:
            raise
        return None


def _page(
    posterior: Posterior,
    gallery: Gallery,
    simulations: Mapping[str, Simulation],
    validation: Validation | None,
    published: Mapping[str, Any],
    known: dict[str, float],
    title: str | None,
    likelihoods: Sequence[str],
    robust: Robust | None,
    states: Sequence[States],
) -> str:
    scores = scores_of(simulations, posterior.problem.observe)
    compared = compare_likelihoods(
        posterior.problem, posterior.solver, posterior.likelihood,
        posterior.theta, posterior.log_weights, likelihoods,
    )  # fmt: skip
    truths = {"truth": known} if known else {}
    parameters = posterior.table().without_functions(posterior.problem.ode, **truths)
    uses = [("training", record) for record in posterior.problem.records]
    uses += [(f"test {name}", simulation.record) for name, simulation in simulations.items()]
    return rendered(
        TEMPLATE,
        title=title or posterior.problem.ode.name,
        description=posterior.problem.ode.doc.strip().split("\n\n")[0].replace("``", ""),
        facts=summary_facts(posterior, scores),
        verdict=with_tests(posterior.verdict, scores),
        doubts=posterior.warnings,
        run_facts=posterior.run_facts,
        computation=posterior.computation,
        parameters=parameters.select(*PARAMETERS),
        parameter_pictures=_parameter_pictures(gallery, posterior, known),
        functions=_function_sections(gallery, posterior),
        scores=score_table(scores, published),
        tests=_tests(gallery, simulations),
        likelihoods=likelihood_table(compared, posterior.problem.records[0].t_unit),
        robust=Table() if robust is None else robust.as_table().select(*ROBUST),
        effective="" if robust is None else robust.effective,
        states=_states(gallery, states),
        validation=NOT_VALIDATED if validation is None else str(validation),
        validation_pictures=_validation_pictures(gallery, validation),
        run=_run_pictures(gallery, posterior),
        settings=Table.of_pairs(settings(posterior)),
        versions=Table.of_pairs(versions()),
        data=data_table(uses),
    )


def _function_sections(
    gallery: Gallery, posterior: WeightedDraws
) -> list[tuple[str, list[Picture]]]:
    """Line of a summary and figure of every unknown function."""
    sections: list[tuple[str, list[Picture]]] = []
    functions = posterior.problem.ode.functions
    for name, (label, text) in zip(functions, posterior.function_facts(), strict=True):
        pictures: list[Picture] = []
        with suppress(InputError):  # of three variables, or where the simulation diverges
            found = posterior.function(name)
            pictures.append(
                gallery.picture(
                    "function",
                    partial(function_figure, found),
                    "The function and where the data that tell of it end: beyond the places that "
                    "the records visit only its prior and its shape tell.",
                )
            )
        sections.append((f"{label} {text}", pictures))
    return sections


def _parameter_pictures(
    gallery: Gallery, posterior: WeightedDraws, truth: dict[str, float]
) -> list[Picture]:
    if set(posterior.problem.ode.priors) >= set(posterior.names):
        return []
    alone = gallery.picture(
        "parameters",
        lambda: parameters_figure(posterior, truth),
        "Prior and posterior of each parameter"
        + (", in units of the true value." if truth else "."),
    )
    single = len(set(posterior.names) - set(posterior.problem.ode.priors)) == 1
    if single or len(posterior.theta) == 1:
        return [alone]
    return [
        alone,
        gallery.picture(
            "pairs",
            lambda: corner_figure(posterior, truth),
            "Pairs of parameters; above each panel the correlation in the sampler's coordinates.",
        ),
    ]


def _tests(
    gallery: Gallery, simulations: Mapping[str, Simulation]
) -> list[tuple[str, tuple[str, ...], list[Picture | Plot]]]:
    """Name, warnings and figures of each test: every output, its frequency response if any."""
    tests: list[tuple[str, tuple[str, ...], list[Picture | Plot]]] = []
    for name, simulation in simulations.items():
        figures: list[Picture | Plot] = []
        for output in range(simulation.mean.shape[1]):
            which = f", {simulation.names_of_outputs[output]}" if len(simulation.fit) > 1 else ""
            caption = f"{name}{which}: measured and simulated, the 95 % band, and the error."
            figures.append(simulation_figure(gallery, simulation, output, caption))
            try:
                response = frequency_response(simulation.record, simulation.mean, output)
            except InputError:
                continue
            caption = "Frequency response by the same estimator, of data and of the simulation."
            draw = partial(frequency_figure, response)
            figures.append(gallery.picture("frequency-response", draw, caption))
        tests.append((name, simulation.warnings, figures))
    return tests


def _states(gallery: Gallery, states: Sequence[States]) -> list[Picture | Plot]:
    return [
        states_figure(
            gallery,
            one,
            f"States of {one.record.name} given all of its samples, over {one.parameters} "
            "parameter vectors of the posterior; filtered: given the samples up to each one.",
        )
        for one in states
    ]


def _validation_pictures(gallery: Gallery, validation: Validation | None) -> list[Picture | Plot]:
    if validation is None:
        return []
    figures: list[Picture | Plot] = []
    for output in range(len(validation.outputs)):
        figures += [
            gallery.picture(
                "innovations",
                partial(innovations_figure, validation, output),
                f"{validation.innovations[0].residual(output).capitalize()}; shaded: where 99 % "
                "lie if model and noise are right.",
            ),
            *innovation_plots(validation, output),
            gallery.picture(
                "error-budget",
                partial(error_budget_figure, validation, output),
                "Error budget: what of the expected variance is measurement noise and what is not, "
                "and how far finer steps move the posterior means (shaded: one posterior sd).",
            ),
        ]
    return figures


def _run_pictures(gallery: Gallery, posterior: Posterior) -> list[Picture]:
    """Pictures of how the sampler went; none of a maximum, which has none."""
    if len(posterior.theta) == 1:
        return []
    return [gallery.picture("run", posterior.plot_run, posterior.run_caption)]
