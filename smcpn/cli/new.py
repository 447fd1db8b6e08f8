"""``smcpn new``: a system to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smcpn.config.locate import USUAL_NAME
from smcpn.config.new import write_new


def new(
    folder: Annotated[Path, typer.Argument(help="Made where it does not exist.", metavar="FOLDER")],
) -> None:
    """Write a system to change into yours: model.py, config.toml and data.csv.

    The data are simulated from the model, so that it can be run as it is. Nothing is overwritten.

    Example: smcpn new mysystem && smcpn identify mysystem/config.toml
    """
    for path in write_new(folder):
        print(path)
    print(f"next: smcpn identify {folder / USUAL_NAME}")
