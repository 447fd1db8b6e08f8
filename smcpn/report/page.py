"""A page of HTML that needs no other file: its tables, pictures, style and script, and its file."""

from __future__ import annotations

import base64
import datetime
import gc
import hashlib
import io
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from smcpn.base.files import file_path, is_plain, write_output, write_outputs
from smcpn.base.status import tell
from smcpn.base.tables import Table, table_html
from smcpn.errors import InputError
from smcpn.report.style import narrow_column, picture_bytes

CREATOR = "smcpn.report"
"""Of the figures in a folder, by which they are known as those of a report before."""
GENERATOR = b'<meta name="generator" content="smcpn">'
STYLE = ("uplot/uPlot.min.css", "page.css")
SCRIPT = ("uplot/uPlot.iife.min.js", "axes.js", "plots.js")
RASTER_DPI = 150
"""Of parts of a figure that are drawn as points, e.g. thousands of markers."""

_SAFE = "!$'()*+,-./:;=?@_~"
"""Characters that a URL of data keeps, in an attribute between double quotes."""
_PATH = re.compile(r' d="([^"]*)"')
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_AROUND = re.compile(r" ?([A-Za-z]) ?")
_DECIMALS = re.compile(r"(\.\d\d)\d+")


@dataclass(frozen=True)
class Picture:
    """A figure: its ``src``, a caption that is its ``alt`` too, and the ``srcset`` for a phone."""

    source: str
    caption: str
    narrow: str = ""


class Gallery:
    """The figures of a page: each is drawn for the page, and written to a folder if one is named.

    The folder receives every figure as SVG and PDF, ``01-parameters.svg`` and so on.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder, self._count = folder, 0

    def picture(
        self, name: str, draw: Callable[[], Figure], caption: str, reflow: bool = True
    ) -> Picture:
        """Draw a figure, and once more as wide as a phone where it is to reflow."""
        tell(f"report: {name}")
        with _uncollected():
            figure = draw()
            self._count += 1
            if self._folder is not None:
                self._write(figure, self._folder, f"{self._count:02d}-{name}")
            narrow = ""
            if reflow:
                with narrow_column():
                    narrow = _data_uri(draw())
            return Picture(_data_uri(figure), caption, narrow)

    @staticmethod
    def _write(figure: Figure, folder: Path, name: str) -> None:
        contents: dict[str, bytes] = {}
        for ending, date in (("svg", "Date"), ("pdf", "CreationDate")):
            metadata = {date: None, "Creator": CREATOR}
            contents[f"{name}.{ending}"] = picture_bytes(
                figure, ending, metadata=metadata, dpi=2 * RASTER_DPI
            )
        write_outputs(folder, contents, lambda content: CREATOR.encode() in content)


@contextmanager
def _uncollected() -> Generator[None]:
    """Leave garbage for later: to look for it among the parts of a figure takes a tenth."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def svg_text(figure: Figure) -> str:
    """Render a figure as SVG without ground; the same figure gives the same bytes.

    Text becomes outlines, so that it looks the same without matplotlib's fonts. Coordinates keep
    two decimals of a point and are written without spaces, which halves the file.
    """
    buffer, canvas = io.StringIO(), FigureCanvasSVG(figure)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine("none")
    figure.patch.set_facecolor("none")
    figure.dpi = RASTER_DPI
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "smcpn"}):
        # savefig would draw everything once more, only to lay it out.
        canvas.print_svg(buffer, metadata={"Date": None})
    return _PATH.sub(_short, _METADATA.sub("", buffer.getvalue()))


def _short(path: re.Match[str]) -> str:
    """Write the commands of a path with few characters."""
    commands = _AROUND.sub(r"\1", " ".join(_DECIMALS.sub(r"\1", path[1]).split()))
    return f' d="{commands.replace(" ", ",")}"'


def _data_uri(figure: Figure) -> str:
    """Render a figure as the source of an ``img`` element.

    As percent-encoded text it is a quarter shorter than in base64.
    """
    text = " ".join(svg_text(figure).split()).replace('"', "'")
    return f"data:image/svg+xml,{quote(text, safe=_SAFE)}"


def rendered(name: str, scripts: tuple[str, ...] = SCRIPT, **values: Any) -> str:
    """Return the text of a page from a template of this package, by the name of its file.

    The page loads nothing, and runs no script but its own: its content security policy names the
    hashes of style and script. Only the live page reads on from where it came from.
    """
    style, script = _joined(STYLE), _joined(scripts)
    sources = "" if scripts == SCRIPT else "connect-src 'self'; "
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
        f"script-src '{_hash(script)}'; {sources}base-uri 'none'; form-action 'none'"
    )
    return _template(name).render(
        style=style, script=script, policy=policy, written=_now(), grid=_grid, **values
    )


@cache
def _joined(names: tuple[str, ...]) -> str:
    folder = resources.files("smcpn.report")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    """Hash of an element's text, as a content security policy names it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def write_page(path: Path, page: str) -> Path:
    """Write the text of a page; see `smcpn.base.files.write_output`."""
    write_output(path, page.encode())
    return path


def check_destination(path: str | Path) -> Path:
    """Refuse a file that cannot be written, before any work is done for it.

    Raises `InputError` if it is a folder, or its folder does not exist.
    """
    path = Path(path)
    file_path("report", path)
    if path.is_dir():
        raise InputError(f"report '{path}' is a folder: name a file in it, such as report.html")
    if not path.parent.is_dir():
        raise InputError(f"report '{path}' lies in a folder that does not exist: create it first")
    return path


def figure_folder(path: str | Path) -> Path:
    """Return a folder for figures, made where there is none.

    Raises `InputError` if it is a file, or cannot be made.
    """
    path = file_path("figures", path)
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(
            f"figures '{path}' is no folder and cannot be made one ({error.strerror})",
            argument="figures",
        ) from error
    return path


def is_report(path: Path) -> bool:
    """True if a plain file is a report that `write_report` wrote."""
    if not is_plain(path):
        return False
    with path.open("rb") as file:
        return GENERATOR in file.read(200)


def _grid(table: Table) -> Any:
    """Return a table as markup that a template does not escape again."""
    from markupsafe import Markup

    return Markup(table_html(table))


def _template(name: str) -> Any:
    """Return a template of this package by the name of its file."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("smcpn.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)
