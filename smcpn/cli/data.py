"""``smcpn new``, a system to begin with; ``smcpn data``, the benchmark files on this computer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smcpn.base.tables import Table, table_text, words
from smcpn.cli.config.document import USUAL_NAME
from smcpn.cli.terminal import say


def new(
    folder: Annotated[Path, typer.Argument(help="Made where it does not exist.", metavar="FOLDER")],
) -> None:
    """Write a system to change into yours: model.py, config.toml and data.csv.

    The data are simulated from the model, so that it can be run as it is. Nothing is overwritten.

    Example: smcpn new mysystem && smcpn identify mysystem/config.toml
    """
    from smcpn.cli.config.new import write_new

    for path in write_new(folder):
        say(path)
    say(f"next: smcpn identify {folder / USUAL_NAME}")


data_app = typer.Typer(
    no_args_is_help=True, help="Find and fetch the benchmark files: smcpn data check."
)


@data_app.command("check")
def check() -> None:
    """Say which benchmark files were found where, and whether they are the published ones.

    Example: smcpn data check
    """
    from smcpn.datasets.inventory import data_folders, inventory

    states = inventory()
    columns = words("file"), words("state"), words("where, or how to get it")
    rows = [
        [
            f"{state.file.system}/{state.file.name}",
            state.verdict,
            state.file.without if state.path is None else str(state.path),
        ]
        for state in states
    ]
    say(table_text(Table(columns, rows)))
    folders = " and ".join(f"'{folder}'" for folder in data_folders())
    say(f"\nLooked in {folders}; SMCPN_DATA names a folder to look in first.")
    if any(state.path is not None and not state.matches for state in states):
        raise typer.Exit(1)


@data_app.command("fetch")
def fetch_files(
    folder: Annotated[
        Path | None, typer.Option(help="Where to put them; by default the first data folder.")
    ] = None,
) -> None:
    """Download the Silverbox and the EMPS with the package nonlinear-benchmarks.

    The Bouc-Wen records need no download: they are generated.

    Example: smcpn data fetch --folder ~/benchmarks
    """
    from smcpn.datasets.inventory import fetch

    for path in fetch(folder):
        say(path)
