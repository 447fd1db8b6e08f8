"""Columns of a CSV file by their names."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError


def columns_of(
    path: Path, names: Sequence[str], what: str, rows: int | None = None
) -> NDArray[np.float64]:
    """Columns of a comma-separated file with a header, (rows, len(names)).

    Parameters
    ----------
    names : sequence of str
    what : str
        What the file is to be, for messages.
    rows : int, optional
        How many there are in the published file.

    Raises
    ------
    InputError
        If a column is missing, a cell is no number, or there are more rows or fewer.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            cells = [[float(row[name]) for name in names] for row in csv.DictReader(file)]
        table = np.array(cells, dtype=float).reshape(len(cells), len(names))
    except KeyError as error:
        raise InputError(
            f"{path} has no column {error}, and so is no record of {what}: fetch it again"
        ) from error
    except (TypeError, ValueError, OSError, csv.Error) as error:
        raise InputError(
            f"{path} cannot be read as the record of {what} ({error}): fetch it again"
        ) from error
    if not len(table) or rows not in (None, len(table)):
        wanted = "" if rows is None else f", not {rows}"
        raise InputError(f"{path} has {len(table)} samples{wanted}: fetch it again")
    return table
