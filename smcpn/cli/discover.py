"""``smcpn discover``: the command and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from smcpn.cli.names import DISCOVERY_PRIORS
from smcpn.cli.options import (
    OUTPUT,
    RUN,
    SYSTEM,
    Json,
    Particles,
    Quiet,
    ReportFile,
    Seed,
    Verbose,
    Workers,
    check_options,
    check_written,
)
from smcpn.cli.terminal import remark, say
from smcpn.errors import InputError, one_of

DATA = "Data"
"""Title under which ``--help`` lists options about files."""

Files = Annotated[
    list[Path],
    typer.Argument(
        help="CSV, MAT, HDF5 or NPZ files, each a record of its own.",
        metavar="FILE...",
        show_default=False,
    ),
]
States = Annotated[
    str,
    typer.Option(
        help="States of the system, which are columns; NAME=COLUMN where these differ.",
        metavar="x,v",
        rich_help_panel=SYSTEM,
        show_default=False,
    ),
]
Terms = Annotated[
    str,
    typer.Option(
        help="Terms that the equations may have, e.g. 'poly(3) + sin', 'poly(2)*cos(x)'.",
        metavar="TERMS",
        rich_help_panel=SYSTEM,
    ),
]
Inputs = Annotated[
    str,
    typer.Option(
        help="Inputs, which are columns too.",
        metavar="u",
        rich_help_panel=SYSTEM,
        show_default=False,
    ),
]
Known = Annotated[
    list[str] | None,
    typer.Option(
        help="A known equation, e.g. x=v for x' = v; may be repeated.",
        metavar="STATE=STATE",
        rich_help_panel=SYSTEM,
    ),
]
Constraints = Annotated[
    list[str] | None,
    typer.Option(
        help='A relation of coefficients, e.g. "v\'\\[v] < 0"; may be repeated.',
        metavar="RELATION",
        rich_help_panel=SYSTEM,
    ),
]
Measured = Annotated[
    str | None,
    typer.Option(
        help="The states that are measured, where the others are hidden; all by default.",
        metavar="x",
        rich_help_panel=SYSTEM,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        help="Column of times; 't' or 'time' by default.",
        metavar="COLUMN",
        rich_help_panel=DATA,
    ),
]
Interval = Annotated[
    float | None,
    typer.Option(
        help="Sampling interval, where there is no such column.",
        rich_help_panel=DATA,
    ),
]
TimeUnit = Annotated[
    str | None,
    typer.Option(
        help="Unit that the equations count time in: times are converted to it, --dt is in it.",
        metavar="UNIT",
        rich_help_panel=DATA,
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Names of the columns of a CSV file without a line of names.",
        metavar="t,x,v",
        rich_help_panel=DATA,
    ),
]
Experiment = Annotated[
    str | None,
    typer.Option(
        help="Column that tells the experiments of a file apart.",
        metavar="COLUMN",
        rich_help_panel=DATA,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help="What separates columns of a text, where the guess is wrong.", rich_help_panel=DATA
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        help="Decimal mark of a text, where the guess is wrong.",
        metavar=".|,",
        rich_help_panel=DATA,
    ),
]
Tests = Annotated[
    list[Path] | None,
    typer.Option(
        help="A file to simulate with what was found; may be repeated.",
        metavar="FILE",
        rich_help_panel=DATA,
    ),
]
Weighing = Annotated[
    str | None,
    typer.Option(help="How equations are looked for: search.", hidden=True),
]
Prior = Annotated[
    str | None,
    typer.Option(
        help="Of the coefficients: some are zero, or all are shrunk.",
        metavar="|".join(DISCOVERY_PRIORS),
        rich_help_panel=RUN,
    ),
]
Noise = Annotated[
    str | None,
    typer.Option(
        help="Standard deviation of the noise of each output, where it is known; or "
        "'relative', where it is a share of the outputs.",
        metavar="SD,SD|relative",
        rich_help_panel=RUN,
    ),
]
Replicates = Annotated[
    int | None,
    typer.Option(help="Independent runs, which are pooled.", rich_help_panel=RUN),
]
Threads = Annotated[
    int | None,
    typer.Option(help="Threads of the kernels; results do not depend on it.", rich_help_panel=RUN),
]
Picture = Annotated[
    Path | None,
    typer.Option(
        help="Draw the data and the fitted path.",
        metavar="FILE.png|svg|pdf",
        rich_help_panel=OUTPUT,
    ),
]
Peers = Annotated[
    bool,
    typer.Option(
        "--compare", help="Print the coefficients of pysindy beside.", rich_help_panel=OUTPUT
    ),
]


def discover(
    files: Files,
    states: States,
    library: Terms = "poly(3)",
    inputs: Inputs = "",
    known: Known = None,
    constraint: Constraints = None,
    observe: Measured = None,
    time: Time = None,
    dt: Interval = None,
    time_unit: TimeUnit = None,
    columns: Columns = None,
    experiment: Experiment = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    test: Tests = None,
    method: Weighing = None,
    prior: Prior = None,
    noise: Noise = None,
    particles: Particles = None,
    replicates: Replicates = None,
    seed: Seed = None,
    threads: Threads = None,
    executor: Workers = None,
    report: ReportFile = None,
    picture: Picture = None,
    compare: Peers = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Find the equations of measured records, with the probability of each term.

    Example: smcpn discover swing.csv --states x,v --library "poly(3) + sin" --known x=v

    Example: smcpn discover run1.csv run2.csv --states x,v --inputs u --report out.html
    """
    if prior is not None:
        one_of("prior", prior, DISCOVERY_PRIORS)
    numbers: dict[str, Any] = {
        "particles": particles,
        "replicates": replicates,
        "seed": seed,
        "threads": threads,
        "executor": executor,
    }
    check_options(**numbers)
    check_written(report, picture)
    settings = {
        "method": method,
        "prior": prior,
        "noise": None if noise is None else _noise(noise),
        **numbers,
    }
    from smcpn.cli.discovering import Asked, as_dict, as_text, discovered, written
    from smcpn.io.sink import json_text

    asked = Asked(
        files=tuple(files),
        states=_pairs("states", states),
        inputs=_pairs("inputs", inputs) if inputs else {},
        library=library,
        known=dict(_assigned(one) for one in known or ()),
        constraints=tuple(constraint or ()),
        observe=None if observe is None else _names("observe", observe),
        time=time,
        dt=dt,
        columns=None if columns is None else _names("columns", columns),
        form={
            "time_unit": time_unit,
            "experiment": experiment,
            "delimiter": delimiter,
            "decimal": decimal,
        },
        tests=tuple(test or ()),
        compare=compare,
        settings={name: value for name, value in settings.items() if value is not None},
    )
    outcome = discovered(asked)
    say(json_text(as_dict(outcome)) if as_json else as_text(outcome))
    for what, file in written(outcome, report, picture):
        if not quiet:
            remark(f"{what}: {file}")


def _names(option: str, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InputError(
            f"--{option} is '{text}': give names with commas between, as x,v", argument=option
        )
    return names


def _noise(text: str) -> str | list[float]:
    """Numbers, or the word that they are relative."""
    if text in ("relative", "unknown"):
        return text
    try:
        return [float(one) for one in text.split(",")]
    except ValueError:
        raise InputError(
            f"--noise is '{text}': give a number for each output, as 0.1,0.02, or 'relative'",
            argument="noise",
        ) from None


def _pairs(option: str, text: str) -> dict[str, str]:
    """Columns by names: ``x,v=velocity``."""
    found: dict[str, str] = {}
    for one in _names(option, text):
        name, _, column = (part.strip() for part in one.partition("="))
        if name in found:
            raise InputError(f"--{option} names '{name}' twice: remove one", argument=option)
        found[name] = column or name
    return found


def _assigned(text: str) -> tuple[str, Any]:
    state, equals, derivative = (part.strip() for part in text.partition("="))
    state = state.removesuffix("'")
    if not (equals and state and derivative):
        raise InputError(f"--known is '{text}': write x=v for x' = v", argument="known")
    return state, derivative
