"""Where benchmark files are looked for."""

from __future__ import annotations

import os
from pathlib import Path

from smcpn.errors import InputError

DEFAULT_FOLDER = "benchmarks_data"


def data_folders() -> list[Path]:
    """Folders searched: ``SMCPN_DATA``, then ``benchmarks_data`` in the working directory."""
    named = os.environ.get("SMCPN_DATA")
    return ([Path(named)] if named else []) + [Path(DEFAULT_FOLDER)]


def find_file(system: str, name: str) -> Path | None:
    """Find ``system/name`` or ``name`` in the data folders; None where there is none."""
    for folder in data_folders():
        for path in (folder / system / name, folder / name):
            if path.is_file():
                return path
    return None


def require_file(system: str, name: str, source: str) -> Path:
    """Find a file that cannot be generated.

    Raises
    ------
    InputError
        One sentence on how to get it.
    """
    path = find_file(system, name)
    if path is None:
        where = " or ".join(f"'{folder}'" for folder in data_folders())
        raise InputError(
            f"{system} needs the file {name}, which is not in {where}: get it {source}, "
            "and set SMCPN_DATA to its folder"
        )
    return path
