"""``smcpn discover``: the command and its options."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from smcpn.base.signals import exit_code
from smcpn.cli.options import (
    DATA,
    NOTHING_KEPT,
    OUTPUT,
    RUN,
    SYSTEM,
    FunctionOptions,
    Json,
    Quiet,
    ReportFile,
    Verbose,
    check_written,
    option,
    taking,
)
from smcpn.cli.terminal import remark, say
from smcpn.errors import InputError, nearest

EXPERIMENT = FunctionOptions.of("io.read", "read_records", "experiment", panel=DATA)
TEXT = FunctionOptions.of("io.read", "read_record", "delimiter", "decimal", panel=DATA)


@dataclass(frozen=True)
class DiscoverOptions:
    """Options of a discovery, and its files, as typed."""

    files: Annotated[
        list[Path],
        typer.Argument(
            help="CSV, MAT, HDF5 or NPZ files, each a record of its own.",
            metavar="FILE...",
            show_default=False,
        ),
    ]
    states: Annotated[
        str,
        option(
            SYSTEM,
            "States of the system, which are columns; NAME=COLUMN where these differ.",
            metavar="x,v",
        ),
    ]
    library: Annotated[
        str,
        option(
            SYSTEM,
            "Terms that the equations may have, e.g. 'poly(3) + sin', 'poly(2)*cos(x)'.",
            metavar="TERMS",
        ),
    ] = "poly(3)"
    inputs: Annotated[str | None, option(SYSTEM, "Inputs, which are columns too.", metavar="u")] = (
        None
    )
    known: Annotated[
        list[str] | None,
        option(
            SYSTEM,
            "A known equation, e.g. x=v for x' = v; may be repeated.",
            metavar="STATE=STATE",
        ),
    ] = None
    constraint: Annotated[
        list[str] | None,
        option(
            SYSTEM,
            'A relation of coefficients, e.g. "v\'\\[v] < 0"; may be repeated.',
            metavar="RELATION",
        ),
    ] = None
    observe: Annotated[
        str | None,
        option(
            SYSTEM,
            "The states that are measured, where the others are hidden; all by default.",
            metavar="x",
        ),
    ] = None
    time: Annotated[
        str | None, option(DATA, "Column of times; 't' or 'time' by default.", metavar="COLUMN")
    ] = None
    dt: Annotated[
        float | None, option(DATA, "Sampling interval, where there is no such column.")
    ] = None
    time_unit: Annotated[
        str | None,
        option(
            DATA,
            "Unit that the equations count time in: times are converted to it, --dt is in it.",
            metavar="UNIT",
        ),
    ] = None
    columns: Annotated[
        str | None,
        option(
            DATA, "Names of the columns of a CSV file without a line of names.", metavar="t,x,v"
        ),
    ] = None
    test: Annotated[
        list[Path] | None,
        option(DATA, "A file to simulate with what was found; may be repeated.", metavar="FILE"),
    ] = None
    noise: Annotated[
        str | None,
        option(
            RUN,
            "Standard deviation of the noise of each output, where it is known; or "
            "'relative', where it is a share of the outputs.",
            metavar="SD,SD|relative",
        ),
    ] = None
    method: Annotated[str | None, typer.Option(hidden=True)] = None

    @property
    def state_columns(self) -> dict[str, str]:
        """Columns of the states by their names."""
        return _pairs("states", self.states)

    @property
    def input_columns(self) -> dict[str, str]:
        """Columns of the inputs by their names."""
        return _pairs("inputs", self.inputs) if self.inputs else {}

    @property
    def measured(self) -> list[str] | None:
        """States that are measured; None for all."""
        return None if self.observe is None else _names("observe", self.observe)

    @property
    def outputs(self) -> dict[str, str]:
        """Columns of the states that are measured."""
        states = self.state_columns
        for name in self.measured or ():
            if name not in states:
                raise InputError(
                    f"--observe names '{name}', which is no state: {nearest(name, states)}",
                    argument="observe",
                )
        return {name: states[name] for name in self.measured or states}

    @property
    def column_names(self) -> list[str] | None:
        """Names of the columns, where the file has none."""
        return None if self.columns is None else _names("columns", self.columns)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of `smcpn.discover` that are not those of the records."""
        typed = {
            "method": self.method,
            "noise": None if self.noise is None else _noise(self.noise),
        }
        return {
            "library": self.library,
            "states": list(self.state_columns),
            "inputs": list(self.input_columns),
            "known": dict(_assigned(one) for one in self.known or ()) or None,
            "constraints": self.constraint or (),
            "observe": self.measured,
            **{name: value for name, value in typed.items() if value is not None},
        }


@taking(
    EXPERIMENT,
    TEXT,
    FunctionOptions.of(
        "run.discover", "discover", "prior", "particles", "replicates", "seed", "threads",
        "executor", "checkpoint", "existing",
    )
)  # fmt: skip
def discover(
    question: DiscoverOptions,
    report: ReportFile = None,
    picture: Annotated[
        Path | None,
        option(OUTPUT, "Draw the data and the fitted path.", metavar="FILE.png|svg|pdf"),
    ] = None,
    compare: Annotated[
        bool, option(OUTPUT, "Print the coefficients of pysindy beside.", "--compare")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    **options: Any,
) -> None:
    """Find the equations of measured records, with the probability of each term.

    Example: smcpn discover swing.csv --states x,v --library "poly(3) + sin" --known x=v

    Example: smcpn discover run1.csv run2.csv --states x,v --inputs u --report out.html

    Example: smcpn discover long.csv --states x,y,z --checkpoint long.h5 --executor loky:8
    """
    check_written(report, picture)
    arguments = question.arguments
    from smcpn.cli.discovering import as_dict, as_text, discovered, written
    from smcpn.cli.records import Source
    from smcpn.io.sink import json_text

    form = {**EXPERIMENT.among(options), **TEXT.among(options)}
    given = {k: v for k, v in options.items() if v is not None and k not in form}
    source = Source(
        question.input_columns, question.outputs, question.time, question.dt,
        question.column_names, question.time_unit, **form,
    )  # fmt: skip
    tests = question.test or ()
    try:
        outcome = discovered(source, question.files, tests, arguments | given, compare)
    except KeyboardInterrupt:
        if "checkpoint" in given:
            raise
        remark(NOTHING_KEPT)
        raise typer.Exit(exit_code(signal.SIGINT)) from None
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
