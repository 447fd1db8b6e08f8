"""The figures as rows, and as a table for a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.machine import described
from benchmarks.rows import Row, absent, at_least, unjudged
from benchmarks.side_by_side.methods import DRAWS

NOTHING, ABSENT = "-", "is not installed"
COLUMNS = {
    "equal_seconds": "equal accuracy",
    "seconds": "time, s",
    "processor_seconds": "of processors",
    "first_seconds": "with compiling",
    "size": "size",
    "draws": "worth draws",
    "draws_se": "+-",
    "mean_error": "error of mean",
    "sd_error": "of sd",
    "peak_MB": "peak MB",
    "lines": "lines",
}


def rows(figures: dict[str, Any]) -> Iterator[Row]:
    """Yield the ratios to the fastest peers, and the time of every method at equal accuracy."""
    for ratio in figures["comparison"]:
        peers = "likelihoods vectorised by hand too" if ratio["hand_vectorised"] else "users' code"
        name = f"{ratio['fastest_peer']} / {ratio['own']} ({peers})"
        note = f"{ratio['processor_ratio']:.3g} of processor time"
        row = at_least(name, ratio["ratio"], ratio["target"], note)
        yield row if figures["draws"] >= DRAWS else unjudged(row, "a short record, few draws")
    for name, values in figures["methods"].items():
        if "failed" in values:
            yield absent(f"{name}, s at equal accuracy", values["failed"])
        else:
            cells = zip(list(COLUMNS.values())[1:], _cells(values)[1:], strict=True)
            note = ", ".join(f"{title} {cell}" for title, cell in cells if cell != NOTHING)
            failures = "".join(f"; failed, {text}" for text in values["failures"])
            yield Row(
                f"{name}, s at equal accuracy", values.get("equal_seconds"), note=note + failures
            )
    checked = figures["reference"]
    for key in ("mean", "sd"):
        difference = checked[f"largest_{key}_difference"]
        yield Row(f"reference, largest difference of a {key} to a second method, sd", difference)


def markdown(figures: dict[str, Any]) -> str:
    """A page below a title, for the documentation to include."""
    head = ["", *COLUMNS.values()]
    lines = [_row(head), _row(["---", *["---:"] * len(COLUMNS)])]
    for name, values in figures["methods"].items():
        if "failed" in values:
            lines.append(
                _row([name, f"no figures: {values['failed']}", *[""] * (len(COLUMNS) - 1)])
            )
        else:
            lines.append(_row([name, *_cells(values)]))
    remarks = [f"- {remark}" for remark in _remarks(figures)]
    return "\n".join([*lines, "", *remarks]) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(values: dict[str, Any]) -> list[str]:
    return [_number(values[key]) if key in values else NOTHING for key in COLUMNS]


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _remarks(figures: dict[str, Any]) -> list[str]:
    checked = figures["reference"]
    return [
        f"{figures['samples']} samples; equal accuracy: seconds for what {figures['draws']} "
        "independent draws are worth",
        f"reference: {checked['draws']:.0f} draws; a second method differs by at most "
        f"{checked['largest_mean_difference']:.2g} sd (means), "
        f"{checked['largest_sd_difference']:.2g} (sd)",
        *(_compared(ratio) for ratio in figures["comparison"]),
        described(figures["machine"]),
    ]


def _compared(ratio: dict[str, Any]) -> str:
    peers = "likelihoods vectorised by hand too" if ratio["hand_vectorised"] else "users' code"
    return (
        f"fastest peer ({peers}): {ratio['fastest_peer']}, {ratio['ratio']:.3g} times the time of "
        f"{ratio['own']} ({ratio['processor_ratio']:.3g} of processor time); "
        f"target {ratio['target']:g}"
    )
