"""One look for every figure: told apart by lightness, dash and marker, so grey print is enough."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

import matplotlib as mpl
from matplotlib.figure import Figure

P = ParamSpec("P")

DARK = "#12395b"
"""What the model says: curves of the posterior and its simulations."""
MIDDLE = "#8f9aa3"
"""What was measured, drawn wide under the dark curve; and the prior."""
LIGHT = "#cfdbe6"
"""Bands."""
ACCENT = "#c8501e"
"""Marks that are few: the truth, rejuvenations, limits crossed."""

WIDTH = 7.2
"""Inches: a report's column."""

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
    "axes.formatter.use_mathtext": True,
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
            return function(*args, **kwargs)

    return drawn


def figure(height: float, width: float = WIDTH) -> Figure:
    """Make an empty figure; sizes in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def plain(text: str) -> str:
    """Keep matplotlib from reading a name such as ``a$b`` as mathematics."""
    return text.replace("$", r"\$")


def with_unit(quantity: str, unit: str) -> str:
    """Label of an axis."""
    return f"{quantity} ({plain(unit)})" if unit else quantity
