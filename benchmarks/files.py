"""Whether files of loggers are read as they were meant: dialects that are written with their truth.

Every file has a separator, a decimal mark, quotes, an encoding, a header, times, marks of missing
samples and oddities drawn at random. It is read with the names of its columns and nothing else. A
refusal in one sentence is no wrong answer; another number without a word is.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

import smcpn
from benchmarks.rows import Row, at_least, at_most
from benchmarks.study import command, study

FILES, QUICK_FILES = 200, 60
READ = 0.95
"""Share of the files that is to be read."""
SAMPLES = 24

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Logged:
    """A file as a logger writes it, and what was measured.

    reading: Arguments of `smcpn.read_record`.
    t, u, y: In seconds since the time that the record counts from; u has no columns where there is
        none.
    traits: How it is written, for the message.
    """

    content: bytes
    reading: Mapping[str, Any]
    t: Array
    u: Array
    y: Array
    traits: Mapping[str, str]


@dataclass
class Logger:
    """Draws how a file is written, trait by trait, and writes it."""

    rng: np.random.Generator
    traits: dict[str, str] = field(default_factory=dict[str, str])

    def draw(self, trait: str, **shares: float) -> str:
        """Draw one of the values of a trait, which have these shares."""
        names = list(shares)
        share = np.array(list(shares.values()))
        self.traits[trait] = names[self.rng.choice(len(names), p=share / share.sum())]
        return self.traits[trait]

    def logged(self) -> Logged:
        """Return a file of a kind drawn at random."""
        return self._column() if self.draw("columns", several=9, one=1) == "one" else self._table()

    # A table

    def _table(self) -> Logged:
        separator = SEPARATORS[self.draw("separator", comma=5, semicolon=4, tab=3, bar=1, space=1)]
        decimal = self.draw("decimal", point=3, comma=2 if separator != "," else 0.5)
        quoted = self.draw("quotes", none=6, names=1, all=2)
        if (separator, decimal) == (",", "comma"):
            quoted = self.traits["quotes"] = "all"
        t, times, unit = self._times(separator, decimal)
        u, inputs = self._numbers("force", decimal)
        y, outputs = self._numbers("position", decimal)
        y, outputs = self._with_gaps(y, outputs, separator)
        columns: dict[str, list[str]] = {"time": times, "force": inputs, "position": outputs}
        units = {"time": unit, "force": "N", "position": "µm" if self._odd() else "mm"}
        if self.draw("others", none=3, note=1, number=1) != "none":
            other = self.traits["others"]
            columns[other] = [self._other(other, k, decimal) for k in range(SAMPLES)]
            units[other] = ""
        order = list(self.rng.permutation(list(columns)))
        rows = [[columns[name][k] for name in order] for k in range(SAMPLES)]
        lines = self._lines(rows, separator, quoted == "all")
        head, reading = self._header(order, units, separator, quoted)
        reading |= {"time": "time", "inputs": "force", "outputs": "position"}
        return self._written(head, lines, reading, t, u[:, None], y[:, None])

    def _times(self, separator: str, decimal: str) -> tuple[Array, list[str], str]:
        """Seconds since the time that counts, as texts, and the unit in the header."""
        kinds = dict.fromkeys(CLOCKS, 1.0) | dict.fromkeys(SELDOM, 0.3)
        kinds |= {"seconds": 8.0, "milliseconds": 2.0}
        if separator == " ":
            kinds = {"seconds": 1.0, "milliseconds": 1.0}
        kind = self.draw("time", **kinds)
        step = float(self.rng.choice([1.0, 60.0, 0.25, 10.0]))
        if kind in WHOLE_MINUTES:
            step = 60.0
        elif kind in WHOLE_SECONDS:
            step = max(step, 1.0)
        number = range(SAMPLES)
        seconds = np.arange(SAMPLES, dtype=float)
        if kind == "seconds":
            texts = [f"{step * k:.3f}" for k in number]
            t = np.array([float(one) for one in texts])
            return t, [_marked(one, decimal) for one in texts], "s"
        if kind == "milliseconds":
            return step * seconds, [f"{1000 * step * k:.0f}" for k in number], "ms"
        if "minutes and seconds" in kind:
            texts = [f"{7 * k // 60:02d}:{7 * k % 60:02d}" for k in number]
            return 7.0 * seconds, texts, "" if kind.startswith("bare") else "mm:ss"
        start = datetime(2026, 3, 14, 1, 2, 0, tzinfo=UTC)
        moments = [start + timedelta(seconds=step * k) for k in number]
        return step * seconds, [_clock(kind, one) for one in moments], ""

    def _numbers(self, name: str, decimal: str) -> tuple[Array, list[str]]:
        size = 10.0 ** self.rng.uniform(-3, 5)
        values = size * self.rng.normal(size=SAMPLES)
        # Marks of thousands are refused, and few loggers write them.
        form = self.draw(name, fixed=4, short=3, exponent=1, whole=1, thousands=0.1)
        if form in ("whole", "thousands"):
            values = np.round(1e3 * self.rng.normal(size=SAMPLES) + 900)
        pattern = {"fixed": "{:.3f}", "short": "{:.6g}", "exponent": "{:.5e}"}.get(form, "{:.0f}")
        texts = [pattern.format(value) for value in values]
        numbers = np.array([float(one) for one in texts])
        if form == "thousands":
            mark = {"point": ",", "comma": "."}[decimal]
            return numbers, [f"{value:,.0f}".replace(",", mark) for value in values]
        return numbers, [_marked(one, decimal) for one in texts]

    def _with_gaps(self, y: Array, texts: list[str], separator: str) -> tuple[Array, list[str]]:
        marks = {"none": 4.0, "nan": 1.0, "NA": 1.0, "--": 1.0, "N/A": 1.0, "": 2.0}
        if separator == " ":
            del marks[""]
        mark = self.draw("missing", **marks)
        if mark == "none":
            return y, texts
        gone = self.rng.uniform(size=SAMPLES) < 0.2
        return np.where(gone, np.nan, y), [
            mark if missing else text for missing, text in zip(gone, texts, strict=True)
        ]

    def _other(self, kind: str, k: int, decimal: str) -> str:
        return f"state {k}" if kind == "note" else _marked(f"{k / 8:.3f}", decimal)

    def _lines(self, rows: list[list[str]], separator: str, quoted: bool) -> list[str]:
        padded = self.draw("padding", none=6, right=1) == "right" and not quoted
        quote = '"{}"'.format if quoted or separator == " " else str
        if separator == " " and not quoted:
            quote = lambda text: f'"{text}"' if " " in text else text  # noqa: E731
        return [
            separator.join(f"{quote(one):>9}" if padded else quote(one) for one in row)
            for row in rows
        ]

    def _header(
        self, order: list[str], units: Mapping[str, str], separator: str, quoted: str
    ) -> tuple[list[str], dict[str, Any]]:
        form = self.draw("header", plain=3, brackets=3, parentheses=1, row=1, comment=1, none=1)
        if units["time"] in ("ms", "mm:ss") and form in ("plain", "comment", "none"):
            form = self.traits["header"] = "brackets"
        quote = '"{}"'.format if quoted != "none" else str
        shown = {"brackets": " [{}]", "parentheses": " ({})"}.get(form, "")
        names = [name + (shown.format(units[name]) if units[name] else "") for name in order]
        joined = separator.join(map(quote, names))
        if form == "none":
            return [], {"header": order}
        below = [separator.join(f"[{units[name]}]" for name in order)] if form == "row" else []
        head = [f"# {joined}" if form == "comment" else joined, *below]
        above = self.draw("preamble", none=4, settings=1, comments=1, empty=1)
        return [*PREAMBLES[above], *head], {}

    # One column

    def _column(self) -> Logged:
        decimal = self.draw("decimal", point=2, comma=1)
        y, texts = self._numbers("position", decimal)
        gone = self.rng.uniform(size=SAMPLES) < 0.15
        gone[[0, -1]] = False
        if self.draw("missing", none=1, empty=1) == "empty":
            y = np.where(gone, np.nan, y)
            texts = ["" if missing else text for missing, text in zip(gone, texts, strict=True)]
        if self.draw("quotes", none=3, all=1) == "all" or decimal == "comma":
            texts = [f'"{one}"' if one else one for one in texts]
        reading: dict[str, Any] = {"dt": 0.5, "outputs": "position"}
        head = ["position [mm]"]
        if self.draw("header", brackets=1, none=1) == "none":
            head, reading = [], reading | {"header": ["position"]}
        return self._written(
            head,
            texts,
            reading,
            0.5 * np.arange(SAMPLES, dtype=float),
            np.empty((SAMPLES, 0)),
            y[:, None],
        )

    # The file

    def _odd(self) -> bool:
        return bool(self.rng.uniform() < 0.3)

    def _written(
        self, head: list[str], lines: list[str], reading: dict[str, Any], t: Array, u: Array,
        y: Array,
    ) -> Logged:  # fmt: skip
        one = self.traits["columns"] == "one"
        if not one:
            lines = self._strewn(head, lines)
        ending = self.draw("trailing", none=5, separators=0 if one else 1)
        separator = SEPARATORS[self.traits.get("separator", "comma")]
        if ending == "separators" and separator != " ":
            head = [line + separator for line in head]
            lines = [line + separator if line else line for line in lines]
        newline = {"unix": "\n", "dos": "\r\n", "twice": "\r\r\n"}[
            self.draw("newline", unix=5, dos=5, twice=0.3)
        ]
        tail = {"newline": newline, "nothing": "", "empty": 3 * newline}[
            self.draw("end", newline=4, nothing=1, empty=1)
        ]
        encoding = self.draw("encoding", utf8=4, mark=1, latin1=1, utf16=0.5)
        text = newline.join([*head, *lines]) + tail
        content = text.encode(ENCODINGS[encoding])
        return Logged(content, reading, t, u, y, dict(self.traits))

    def _strewn(self, head: list[str], lines: list[str]) -> list[str]:
        """Lines with others between them that are no samples."""
        between = self.draw("between", nothing=5, comment=1, empty=1, header=1)
        if between == "nothing" or (between == "header" and len(head) != 1):
            return lines
        at = int(self.rng.integers(2, SAMPLES - 1))
        more = {"comment": ["# restarted"], "empty": [""], "header": head}[between]
        return [*lines[:at], *more, *lines[at:]]


SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "space": " "}
ENCODINGS = {"utf8": "utf-8", "mark": "utf-8-sig", "latin1": "latin-1", "utf16": "utf-16"}
PREAMBLES: dict[str, list[str]] = {
    "none": [],
    "settings": ["Logger 7", "Serial: A-12", "Interval 1 s"],
    "comments": ["# logger 7", "# started by hand"],
    "empty": ["Logger 7", ""],
}
CLOCKS = (
    "iso", "iso with T", "iso with Z", "iso with zone", "day first", "strokes", "month first",
    "compact", "time of day", "time with parts", "hours and minutes", "minutes and seconds",
)  # fmt: skip
SELDOM = ("bare minutes and seconds", "one digit of the hour", "day first in short")
WHOLE_MINUTES = ("hours and minutes", "day first in short")
WHOLE_SECONDS = ("day first", "strokes", "month first", "compact", "time of day", "iso with T",
                 "iso with Z", "iso with zone", "one digit of the hour")  # fmt: skip
FORMATS = {
    "iso with T": "%Y-%m-%dT%H:%M:%S", "iso with Z": "%Y-%m-%dT%H:%M:%SZ",
    "iso with zone": "%Y-%m-%d %H:%M:%S+00:00", "day first": "%d.%m.%Y %H:%M:%S",
    "strokes": "%Y/%m/%d %H:%M:%S", "month first": "%m/%d/%Y %H:%M:%S",
    "compact": "%Y%m%d%H%M%S", "time of day": "%H:%M:%S", "hours and minutes": "%H:%M",
    "one digit of the hour": "%-H:%M:%S", "day first in short": "%-d.%-m.%Y %-H:%M",
}  # fmt: skip
"""Of times as `datetime.strftime` writes them; those with parts of a second are written apart."""


def _clock(kind: str, moment: datetime) -> str:
    parts = f".{moment.microsecond // 1000:03d}"
    if kind == "iso":
        return f"{moment:%Y-%m-%d %H:%M:%S}{parts}"
    return f"{moment:%H:%M:%S}{parts}" if kind == "time with parts" else f"{moment:{FORMATS[kind]}}"


def _marked(number: str, decimal: str) -> str:
    return number.replace(".", ",") if decimal == "comma" else number


class _Heard(logging.Handler):
    """Keeps warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def outcome(logged: Logged, path: Path) -> tuple[str, str]:
    """Return how a file is read, and what is said of it: right, refused, told or silently wrong."""
    path.write_bytes(logged.content)
    heard, log = _Heard(), logging.getLogger("smcpn.io")
    log.addHandler(heard)
    try:
        record = smcpn.read_record(path, hold="foh", **logged.reading)
    except smcpn.InputError as error:
        whole = "\n" not in str(error)
        return "refused" if whole else "traceback", str(error)
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"
    finally:
        log.removeHandler(heard)
    pairs = ((record.t, logged.t), (record.u, logged.u), (record.y, logged.y))
    right = all(
        found.shape == meant.shape and np.allclose(found, meant, rtol=1e-9, atol=0, equal_nan=True)
        for found, meant in pairs
    )
    if right:
        return "right", ""
    # How the file is written is said of every other one: it is no word about a number.
    words = [one for one in heard.said if "read as" in one or "taken for" in one]
    return "told" if words else "silently wrong", "; ".join(words)


@study("dialects", full=FILES, quick=QUICK_FILES)
def dialects(count: int) -> Iterator[Row]:
    """Files of loggers, each in a dialect of its own."""
    found, told = Counter[str](), list[str]()
    with TemporaryDirectory() as folder:
        for seed in range(count):
            logged = Logger(np.random.default_rng(seed)).logged()
            how, words = outcome(logged, Path(folder) / f"{seed}.csv")
            found[how] += 1
            if how != "right":
                print(f"{seed} {how}: {words} {dict(logged.traits)}", file=sys.stderr)
                told.append(f"{seed} {how}")
    yield at_most("silently wrong", found["silently wrong"], 0, ", ".join(told))
    yield at_most("tracebacks", found["traceback"], 0)
    yield Row("read otherwise, with a word", found["told"])
    yield Row("refused in a sentence", found["refused"])
    yield at_least("read", found["right"], READ * count, f"of {count}")


if __name__ == "__main__":
    sys.exit(command(__name__))
