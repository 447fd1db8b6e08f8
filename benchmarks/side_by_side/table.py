"""The figures as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.machine import described
from benchmarks.side_by_side.accuracy import DRAWS

COLUMNS = {
    "equal_seconds": "equal accuracy",
    "seconds": "time, s",
    "first_seconds": "with compiling",
    "size": "size",
    "draws": "worth draws",
    "draws_se": "+-",
    "mean_error": "error of mean",
    "sd_error": "of sd",
    "peak_MB": "peak MB",
    "lines": "lines",
}


def printed(figures: dict[str, Any]) -> str:
    """One table and what follows from it."""
    lines = [f"{'':33s}" + "".join(f"{title:>15s}" for title in COLUMNS.values())]
    for name, values in figures["methods"].items():
        if "failed" in values:
            lines.append(f"{name:33s} no figures: {values['failed']}")
            continue
        lines.append(f"{name:33s}" + "".join(_cell(values.get(key, np.nan)) for key in COLUMNS))
        lines += [f"    failed, {text}" for text in values["failures"]]
    checked = figures["reference"]
    lines += [
        f"equal accuracy: seconds for what {DRAWS} independent draws are worth",
        f"reference: {checked['draws']:.0f} draws; a second method differs by at most "
        f"{checked['largest_mean_difference']:.2g} sd (means), "
        f"{checked['largest_sd_difference']:.2g} (sd)",
        *(_compared(ratio) for ratio in figures["comparison"]),
        described(figures["machine"]),
    ]
    return "\n".join(lines)


def _cell(value: float) -> str:
    return f"{value:15.0f}" if abs(value) >= 1000 else f"{value:15.3g}"


def _compared(ratio: dict[str, Any]) -> str:
    peers = "likelihoods vectorised by hand too" if ratio["hand_vectorised"] else "users' code"
    return (
        f"fastest peer ({peers}): {ratio['fastest_peer']}, {ratio['ratio']:.3g} times the time of "
        f"{ratio['own']}; target {ratio['target']:g}"
    )
