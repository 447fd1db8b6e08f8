"""Options that several commands share, and what they complete to."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smcpn.cases import CASES, SPLITS
from smcpn.cli.names import CPUS, HOLDS, LEAST, LIKELIHOODS, METHODS, PARTICLES, STARTS
from smcpn.cli.terminal import VisibleFormatter
from smcpn.config.document import SUFFIX, USUAL_NAME
from smcpn.errors import InputError, one_of, whole_number
from smcpn.solver import EKF0, SOLVERS

if TYPE_CHECKING:
    from smcpn.cases import Case
    from smcpn.settings import Settings

SEED = 1
SYSTEM, RUN, OUTPUT, MESSAGES = "System", "Run", "Output", "Messages"
"""Titles under which ``--help`` lists options."""
LEVELS = {0: logging.WARNING, 1: logging.INFO}
"""Least level that is printed, by the number of ``-v``; beyond it everything is."""
WORDS = {
    "likelihood": LIKELIHOODS,
    "method": METHODS,
    "solver": (*SOLVERS, "auto"),
    "start": STARTS,
    "cpu": CPUS,
}
"""What options take that are one word of several."""


def complete_system(incomplete: str) -> list[str]:
    """Names of case studies, and configurations, Python files and folders on the way to one."""
    typed = Path(incomplete)
    folder, stem = (typed, "") if incomplete.endswith("/") else (typed.parent, typed.name)
    try:
        inside = sorted(folder.iterdir())
    except OSError:
        inside = []
    paths = [
        f"{path}/" if path.is_dir() and not (path / USUAL_NAME).is_file() else str(path)
        for path in inside
        if path.name.startswith(stem)
        and (path.is_dir() or path.suffix in (SUFFIX, ".py"))
        and not path.name.startswith(".")
    ]
    return [name for name in CASES if name.startswith(incomplete)] + paths


def completing(words: Iterable[str]) -> Callable[[str], list[str]]:
    """Return what completes an option that is one of some words."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def log_to_stderr(count: int) -> int:
    """Log the package to standard error, from the level that ``count`` times ``-v`` selects."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(VisibleFormatter("smcpn: %(message)s"))
    logger = logging.getLogger("smcpn")
    logger.handlers = [handler] if count else []
    logger.setLevel(LEVELS.get(count, logging.DEBUG))
    return count


def silence(quiet: bool) -> bool:
    """Leave out how files are written, which is told otherwise."""
    logging.getLogger("smcpn.io").setLevel(logging.ERROR if quiet else logging.NOTSET)
    return quiet


def whole_or_auto(name: str, text: str | None) -> int | str | None:
    """Return the value of an option that is a whole number or "auto".

    Raises
    ------
    InputError
        If it is neither a whole number nor "auto".
    """
    if text is None or text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        sentence = f"--{name.replace('_', '-')} is '{text}': give a whole number or 'auto'"
        raise InputError(sentence, argument=name) from None


def check_options(
    *,
    order: int | None = None,
    steps: int | str | None = None,
    **options: Any,
) -> None:
    """Refuse options out of range, before files are looked for and the engine is imported.

    Raises
    ------
    InputError
        As `smcpn.settings.Settings` does.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name in WORDS.keys() & given.keys():
        one_of(name, given[name], WORDS[name])
    for name in LEAST.keys() & given.keys():
        whole_number(name, given[name], LEAST[name])
    grid = {"order": order, "steps": steps}
    EKF0(**{name: value for name, value in grid.items() if value is not None})  # type: ignore[arg-type]


def check_written(report: Path | None, picture: Path | None = None) -> None:
    """Refuse files that cannot be written before any work is done for them.

    Raises
    ------
    InputError
        If a folder does not exist, or the ending is not that of such a file.
    """
    if report is not None:
        from smcpn.report.page import check_destination

        check_destination(report)
    if picture is not None:
        from smcpn.report.style import check_picture

        check_picture(picture)


def settings_of(case: Case, **options: Any) -> Settings:
    """Return the settings of a case with the options of a command, the seed always known."""
    settings = case.asked(**options)
    return settings.with_options(seed=SEED if settings.seed is None else settings.seed)


System = Annotated[
    str,
    typer.Argument(
        help=f"{', '.join(CASES)}; or a configuration, as mysystem/config.toml; or model.py.",
        autocompletion=complete_system,
        metavar="SYSTEM",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(help="A variant of a case study, e.g. duffing-offsets.", rich_help_panel=SYSTEM),
]
Split = Annotated[
    str | None,
    typer.Option(
        help="Whose training and test samples of a case study; the paper's by default.",
        metavar="|".join(SPLITS),
        autocompletion=completing(SPLITS),
        rich_help_panel=SYSTEM,
    ),
]
Hold = Annotated[
    str | None,
    typer.Option(
        help="Input between samples.",
        metavar="|".join(HOLDS),
        autocompletion=completing(HOLDS),
        rich_help_panel=SYSTEM,
    ),
]
Likelihood = Annotated[
    str | None,
    typer.Option(
        help=f"How data and solver meet: {', '.join(LIKELIHOODS)}.",
        metavar="NAME",
        autocompletion=completing(LIKELIHOODS),
        rich_help_panel=RUN,
    ),
]
SolverName = Annotated[
    str | None,
    typer.Option(
        "--solver",
        help=f"How the ODE is solved: {', '.join(SOLVERS)}; 'auto' looks whether it is stiff.",
        metavar="NAME",
        autocompletion=completing(("auto", *SOLVERS)),
        rich_help_panel=RUN,
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        help=f"How particles get from the prior to the posterior: {', '.join(METHODS)}.",
        metavar="NAME",
        autocompletion=completing(METHODS),
        rich_help_panel=RUN,
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        help="'auto' begins near the posterior, at the modes that searches find.",
        metavar="auto",
        rich_help_panel=RUN,
    ),
]
Particles = Annotated[
    int | None,
    typer.Option(help=f"Number of particles; {PARTICLES} by default.", rich_help_panel=RUN),
]
Seed = Annotated[
    int | None,
    typer.Option(help=f"Same seed, same result; {SEED} by default.", rich_help_panel=RUN),
]
Steps = Annotated[
    str | None,
    typer.Option(help="Solver steps per sample, or 'auto'.", metavar="N|auto", rich_help_panel=RUN),
]
StateParticles = Annotated[
    str | None,
    typer.Option(
        help="Particles of each filter of the particle likelihood, or 'auto'.",
        metavar="N|auto",
        rich_help_panel=RUN,
    ),
]
Order = Annotated[
    int | None,
    typer.Option(help="Order of the solver's prior.", metavar="1-11", rich_help_panel=RUN),
]
Workers = Annotated[
    str | None,
    typer.Option(
        "--executor",
        help="Who evaluates large batches of particles; the result is the same.",
        metavar="loky:N|dask:ADDRESS|mpi",
        rich_help_panel=RUN,
    ),
]
Cpu = Annotated[
    str | None,
    typer.Option(
        help="Compile for this processor, or for any of some ten years: for mixed clusters.",
        metavar="|".join(CPUS),
        rich_help_panel=RUN,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        callback=silence,
        help="No progress, no remarks: errors only.",
        rich_help_panel=MESSAGES,
    ),
]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        callback=log_to_stderr,
        help="Print what is done, and how the result was computed; -vv prints more.",
        rich_help_panel=MESSAGES,
        show_default=False,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=OUTPUT)
]
ReportFile = Annotated[
    Path | None,
    typer.Option(help="Write an HTML report.", metavar="FILE", rich_help_panel=OUTPUT),
]
Counted = Annotated[
    bool,
    typer.Option(
        "--robust",
        help="Count autocorrelated residuals: robust standard deviations, and bands as wide.",
        rich_help_panel=OUTPUT,
    ),
]
