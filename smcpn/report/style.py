"""The look of every figure, and what they share.

Curves differ in lightness, dash and marker, so that grey print is enough. A long series is drawn by
the smallest and largest values of each bin, so that no peak is lost.
"""

from __future__ import annotations

import functools
import io
import re
import textwrap
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogFormatterSciNotation, ScalarFormatter
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from smcpn.base.files import file_path, write_output
from smcpn.base.units import time_label
from smcpn.errors import InputError
from smcpn.model.record import Record

P = ParamSpec("P")
Array = NDArray[np.float64]

FEW = 30
"""Samples up to which each is a point."""
BINS = 700
"""Bins across a figure: about one per pixel of a report's column."""

DARK = "#12395b"
"""Curves of the posterior and its simulations."""
MIDDLE = "#8f9aa3"
"""Measurements, drawn wide under the dark curve; and the prior."""
LIGHT = "#cfdbe6"
"""Bands."""
ACCENT = "#c8501e"
"""Marks that are few: the truth, rejuvenations, limits crossed."""
PAPER = "#f4f1e8"
"""Ground behind what was learned from."""

WIDTH = 7.2
"""Inches: a report's column."""
NARROW = 3.9
"""Inches: the column on a phone."""
POWER_PAD = 16.0
"""Points between a title and its axes, where the power of ten of the numbers stands there."""
_TITLE, _NARROW_TITLE = 90, 40
"""Characters of a line of a title; on a phone."""
_narrow: ContextVar[bool] = ContextVar("narrow", default=False)


@contextmanager
def narrow_column() -> Generator[None]:
    """Make figures drawn inside as wide as a phone: panels above, not beside each other."""
    token = _narrow.set(True)
    try:
        yield
    finally:
        _narrow.reset(token)


def is_narrow() -> bool:
    """Return True while figures are drawn for the narrow screen of a phone."""
    return _narrow.get()


def columns(number: int) -> int:
    """Columns of a legend, of so many where there is room."""
    return min(number, 2) if is_narrow() else number


RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-3, 4),
    "axes.xmargin": 0.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "lines.linewidth": 1.0,
    "figure.dpi": 100.0,
}


def styled(function: Callable[P, Figure]) -> Callable[P, Figure]:
    """Make a function draw in this style, whatever the user's own settings are."""

    @functools.wraps(function)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(RC)
            drawing = function(*args, **kwargs)
            _reflow(drawing)
            for axes in drawing.axes:
                if not any(axes.get_title(loc=place) for place in ("left", "center", "right")):
                    axes.set_title("", y=1.0)  # else its place is searched for, as that of labels
                for axis in (axes.xaxis, axes.yaxis):
                    _write_plainly(axis)
                    if not axis.get_label_text():
                        # Else its place is searched for, four times in each figure.
                        axis.set_label_coords(0.0, 0.0)
                _lift_title(axes)
            return drawing

    return drawn


def _write_plainly(axis: Axis) -> None:
    """Leave no mathematics at the ticks."""
    if type(axis.get_major_formatter()) is ScalarFormatter:
        axis.set_major_formatter(Numbers())
    if type(axis.get_major_formatter()) is LogFormatterSciNotation:
        axis.set_major_formatter(Powers())
        axis.set_minor_formatter(Powers())


def _lift_title(axes: Axes) -> None:
    """Leave room below a title for the power of ten of the numbers beside it."""
    formatter = axes.yaxis.get_major_formatter()
    formatter.set_locs(list(axes.yaxis.get_majorticklocs()))
    for place in ("left", "center", "right") if formatter.get_offset() else ():
        title = axes.get_title(loc=place)
        if title:
            axes.set_title(title, loc=place, pad=POWER_PAD)


def _reflow(drawing: Figure) -> None:
    """Break titles that are longer than their axes are wide."""
    width = _NARROW_TITLE if is_narrow() else _TITLE
    for axes in drawing.axes:
        spec = axes.get_subplotspec()
        room = width if spec is None else width * len(spec.colspan) // spec.get_gridspec().ncols
        for place in ("left", "center"):
            title = axes.get_title(loc=place)
            axes.set_title(textwrap.fill(title, room), loc=place)


class Numbers(ScalarFormatter):
    """Numbers at ticks as plain text, which takes a third of the time of mathematics."""

    def get_offset(self) -> str:
        """Return the power of ten that all numbers of the axis are to be multiplied by."""
        power = super().get_offset().removeprefix("1e")
        return f"{TIMES}{power_of_ten(power)}" if power else ""


class Powers(LogFormatterSciNotation):
    """Powers of ten at the ticks of a logarithmic axis as plain text."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label of a tick."""
        return _POWER.sub(_plain_power, super().__call__(x, pos))


TIMES = "\N{MULTIPLICATION SIGN}"
_POWER = re.compile(r"\$\\mathdefault\{(.*?)10\^\{(-?\d+)\}\}\$")
_RAISED = str.maketrans("-\N{MINUS SIGN}0123456789", "⁻⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _plain_power(match: re.Match[str]) -> str:
    return match[1].replace(r"\times", TIMES) + power_of_ten(match[2])


def power_of_ten(exponent: int | str) -> str:
    """Write 10 to a whole power."""
    return f"10{str(exponent).translate(_RAISED)}"


class NotebookFigure(Figure):
    """A figure that a notebook shows by itself; others need pyplot to be imported there."""

    def _repr_png_(self) -> bytes:
        return picture_bytes(self, "png")


def figure(height: float, width: float = WIDTH) -> Figure:
    """Make an empty figure; sizes in inches, the width no more than the column's."""
    width = min(width, NARROW) if is_narrow() else width
    return NotebookFigure(figsize=(width, height), layout=Constrained())


class Constrained(ConstrainedLayoutEngine):
    """Constrained layout that measures what stands about each axes once, not twice.

    The second time it would find the same but for ticks that come or go with the last millimetres.
    """

    def execute(self, fig: Figure) -> None:
        """Place the axes."""
        every: list[Any] = fig.axes
        for axes in every:
            axes.get_tightbbox = _Around(axes)
        try:
            super().execute(fig)
        finally:
            for axes in every:
                del axes.get_tightbbox


class _Around:
    """The box of an axes with all that belongs to it, where the axes is now."""

    def __init__(self, axes: Axes) -> None:
        self._axes, self._measure = axes, axes.get_tightbbox
        self._margins: Array | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Bbox:
        inner = np.array(self._axes.bbox.extents)
        if self._margins is None:
            whole = self._measure(*args, **kwargs)
            self._margins = 0.0 * inner if whole is None else np.array(whole.extents) - inner
        return Bbox.from_extents(*(inner + self._margins))


def plain(text: str) -> str:
    """Keep matplotlib from reading a name such as ``a$b`` as mathematics."""
    return text.replace("$", r"\$")


def with_unit(quantity: str, unit: str) -> str:
    """Label of an axis."""
    return f"{quantity} ({plain(unit)})" if unit else quantity


def over_time(record: Record) -> str:
    """Label of the time axis of a record."""
    return plain(time_label(record.t_unit))


def as_points(values: Array) -> bool:
    """True if a line does not show the numbers: few, or most with NaN on either side."""
    seen = np.concatenate([[False], np.isfinite(values), [False]])
    if seen.sum() <= FEW:
        return True
    lonely = seen[1:-1] & ~seen[:-2] & ~seen[2:]
    return bool(2 * lonely.sum() > seen.sum())


def envelope(t: Array, values: Array, bins: int = BINS) -> tuple[Array, Array]:
    """Replace a series by the extremes of each bin, in the order they occur.

    The result, (2 bins,), is the series itself, (T,), where it is no longer than twice the bins
    allow. NaN marks what is not drawn.
    """
    if len(values) <= 4 * bins:
        return t, values
    edges = np.linspace(0, len(values), bins + 1).astype(int)
    places: list[int] = []
    for a, b in pairwise(edges):
        part = values[a:b]
        if np.isnan(part).all():
            places += [a, a]
        else:
            places += sorted((a + int(np.nanargmin(part)), a + int(np.nanargmax(part))))
    return t[places], values[places]


def band_envelope(
    t: Array, lower: Array, upper: Array, bins: int = BINS
) -> tuple[Array, Array, Array]:
    """Replace a band by the smallest lower and largest upper end of each bin."""
    if len(t) <= 4 * bins:
        return t, lower, upper
    edges = np.linspace(0, len(t), bins + 1).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a bin without any number stays NaN
        low = np.array([np.nanmin(lower[a:b]) for a, b in pairwise(edges)])
        high = np.array([np.nanmax(upper[a:b]) for a, b in pairwise(edges)])
    # The ends stay where they are, so that the band reaches as far as the curve.
    centre = t[(edges[:-1] + edges[1:]) // 2].copy()
    centre[0], centre[-1] = t[0], t[-1]
    return centre, low, high


def picture_bytes(figure: Figure, ending: str, **options: Any) -> bytes:
    """Return a figure as the content of a file of this ending, as ``png``."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending, **options)
    return buffer.getvalue()


def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure; see `smcpn.base.files.write_output`."""
    ending = path.suffix.lower().removeprefix(".") or "png"
    write_output(path, picture_bytes(figure, ending, bbox_inches="tight"))


def check_picture(path: Path) -> None:
    """Refuse a picture that cannot be written, before any work is done for it.

    Raises `InputError` if its suffix names no format, or its folder does not exist.
    """
    file_path("picture", path)
    formats = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in formats:
        raise InputError(f"picture '{path}' has no known format: name it .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise InputError(f"picture '{path}' lies in a folder that does not exist: create it first")
