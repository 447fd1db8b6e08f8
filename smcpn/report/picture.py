"""A picture as a file, in the format that its name says."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backend_bases import FigureCanvasBase

from smcpn.errors import InputError


def check_picture(path: Path) -> None:
    """Refuse a picture that cannot be written, before any work is done for it.

    Raises
    ------
    InputError
        If its suffix names no format, or its folder does not exist.
    """
    formats = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in formats:
        raise InputError(f"picture '{path}' has no known format: name it .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise InputError(f"picture '{path}' lies in a folder that does not exist: create it first")
