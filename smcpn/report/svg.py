"""A figure as a data URI, so that a page needs no other file."""

from __future__ import annotations

import base64
import io
import re

import matplotlib as mpl
from matplotlib.figure import Figure

RASTER_DPI = 150
"""Of what a figure asks to be drawn as points, e.g. thousands of markers."""

_PATH = re.compile(r' d="[^"]*"')
_DECIMALS = re.compile(r"(\.\d\d)\d+")


def svg_text(figure: Figure) -> str:
    """Render a figure as SVG; the same figure gives the same bytes.

    Text becomes outlines, so that it looks the same without matplotlib's fonts. Coordinates keep
    two decimals of a point, which halves the file.
    """
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "smcpn"}):
        figure.savefig(buffer, format="svg", dpi=RASTER_DPI, metadata={"Date": None})
    return _PATH.sub(lambda path: _DECIMALS.sub(r"\1", path.group()), buffer.getvalue())


def data_uri(figure: Figure) -> str:
    """Render a figure as the source of an ``img`` element."""
    content = base64.b64encode(svg_text(figure).encode()).decode()
    return f"data:image/svg+xml;base64,{content}"
