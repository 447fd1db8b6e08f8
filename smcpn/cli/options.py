"""Options of commands: those of a public function, and those that several commands share.

`taking` gives a command the options of functions that it calls, from their signatures.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from smcpn.cli.cases import CASES, SPLITS
from smcpn.cli.config.document import SUFFIX, USUAL_NAME
from smcpn.cli.signature import Parameter, parameters_of
from smcpn.cli.terminal import VisibleFormatter

if TYPE_CHECKING:
    from smcpn.cli.cases import Case
    from smcpn.smc.settings import PartialSettings

SEED = 1
PANELS = SYSTEM, DATA, RUN, OUTPUT, MESSAGES = "System", "Samples", "Run", "Output", "Messages"
"""Titles under which ``--help`` lists options, in this order."""
LEVELS = {0: logging.WARNING, 1: logging.INFO}
"""Least level that is printed, by the number of ``-v``; beyond it everything is."""
METAVARS = {
    "budget": "'1.5 ms'",
    "ca_file": "FILE",
    "credentials": "FILE",
    "experiment": "COLUMN",
    "executor": "loky:N|dask:ADDRESS|mpi",
    "forget": "'5 s'",
    "start": "auto",
}
"""Examples of values of options, where their words give none."""
FEW = 3
"""Words that are listed after an option; more are in its help."""


def option(
    panel: str, help: str, *names: str, metavar: str | None = None, words: Iterable[str] = ()
) -> Any:
    """Return an option of a command, which the help lists under a title.

    ``names`` are as they are typed, by default that of the argument; a flag that has one cannot be
    negated. ``metavar`` is what is written after it, the ``words`` that it completes to by default.
    """
    words = tuple(words)
    return typer.Option(
        *names,
        help=help,
        metavar=metavar or "|".join(words) or None,
        rich_help_panel=panel,
        autocompletion=completing(words) if words else None,
    )


class FunctionOptions(NamedTuple):
    """Options of a function that a command takes."""

    parameters: Sequence[Parameter]
    panel: str

    @classmethod
    def of(cls, module: str, function: str, *names: str, panel: str = RUN) -> FunctionOptions:
        """Return options of a function by their names, see `parameters_of`, and their title."""
        known = parameters_of(module, function)
        return cls([known[name] for name in names], panel)

    def among(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of some options that the function has."""
        names = [one.name for one in self.parameters if one.name in options]
        return {name: options[name] for name in names}


def taking(*groups: FunctionOptions) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of commands that gives them the options of functions.

    They are read, and refused where they are out of range, before the command is called with them
    as ``**options``; those that are not given are None. An argument that is annotated with a
    dataclass becomes its fields.
    """
    taken = {one.name: one for group in groups for one in group.parameters}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(command, eval_str=True).parameters
        grouped: dict[str, Any] = {
            name: one.annotation for name, one in own.items() if is_dataclass(one.annotation)
        }
        expanded: list[inspect.Parameter] = []
        for name, one in own.items():
            if name in grouped:
                expanded += inspect.signature(one.annotation, eval_str=True).parameters.values()
            elif one.kind is one.VAR_KEYWORD:
                expanded += [_as_option(k, of.panel) for of in groups for k in of.parameters]
            else:
                expanded.append(one)

        expanded = [one.replace(kind=one.KEYWORD_ONLY) for one in sorted(expanded, key=_panel)]

        @wraps(command)
        def call(**given: Any) -> Any:
            for name, parameter in taken.items():
                if given[name] is not None:
                    given[name] = parameter.read(given[name])
            for name, kind in grouped.items():
                given[name] = kind(**{one.name: given.pop(one.name) for one in fields(kind)})
            return command(**given)

        shown: Any = call
        shown.__signature__ = inspect.Signature(expanded)
        call.__annotations__ = {one.name: one.annotation for one in expanded}
        return call

    return decorate


def _panel(parameter: inspect.Parameter) -> int:
    """Return the number of the title under which an option is listed; -1 for an argument."""
    title = getattr(parameter.annotation.__metadata__[0], "rich_help_panel", None)
    return PANELS.index(title) if title in PANELS else -1


def _as_option(parameter: Parameter, panel: str) -> inspect.Parameter:
    """Return an option of a function as one of a command, which is None where it is not given."""
    name, words = parameter.name, parameter.words
    default = SEED if name == "seed" else parameter.default
    text = parameter.help
    if len(words) > FEW:
        text += f": {', '.join(words)}"
    elif isinstance(default, (int, float)) and not isinstance(default, bool):
        text += f"; {default} by default"
    metavar = METAVARS.get(name) or ("NAME" if len(words) > FEW else "|".join(words))
    if parameter.automatic or parameter.typed is Path:
        metavar = "N|auto" if parameter.automatic else "FILE"
    shown = option(panel, f"{text}.", f"--{name.replace('_', '-')}", metavar=metavar, words=words)
    flag = parameter.typed is bool
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if flag else None,
        annotation=Annotated[bool if flag else parameter.typed | None, shown],
    )


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


NOTHING_KEPT = "smcpn: interrupted, nothing is kept: --checkpoint FILE keeps a run to go on with"


def check_written(report: Path | None, picture: Path | None = None) -> None:
    """Refuse files that cannot be written before any work is done for them.

    Raises `InputError` if a folder does not exist, or the ending is not that of such a file.
    """
    if report is not None:
        from smcpn.report.page import check_destination

        check_destination(report)
    if picture is not None:
        from smcpn.report.style import check_picture

        check_picture(picture)


def settings_of(case: Case, **options: Any) -> PartialSettings:
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
Model = Annotated[str | None, option(SYSTEM, "A variant of a case study, e.g. duffing-offsets.")]
Split = Annotated[
    str | None,
    option(
        SYSTEM,
        "Whose training and test samples of a case study; the paper's by default.",
        words=SPLITS,
    ),
]
Hold = Annotated[
    str | None,
    option(
        SYSTEM,
        "Input between samples.",
        words=parameters_of("model.record", "Record")["hold"].words,
    ),
]
Starts = Annotated[
    int | None,
    typer.Option(
        help="Searches from draws of the prior; by default those of smcpn identify, from the "
        "likeliest of 64.",
        min=1,
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
Json = Annotated[bool, option(OUTPUT, "Print one JSON object.", "--json")]
ReportFile = Annotated[Path | None, option(OUTPUT, "Write an HTML report.", metavar="FILE")]
Counted = Annotated[
    bool,
    option(
        OUTPUT,
        "Count autocorrelated residuals: robust standard deviations, and bands as wide.",
        "--robust",
    ),
]
