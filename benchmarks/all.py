"""Every benchmark in one run, each in a process of its own: ``--quick --check`` for an overview.

As many run side by side as there are processors: what is judged is processor time, or a ratio that
other work leaves. Rows have the command's name before their own; a command that fails is a row that
misses its target.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.rows import Row, at_most
from benchmarks.study import command, study

COMMANDS = (
    "trust", "discovery", "closures", "models", "stiff", "process_noise", "attack", "case_studies",
    "seconds", "online", "scale_out", "side_by_side", "likelihoods", "checkpoints", "live",
    "sampler", "scaling", "solvers", "architecture", "papers.differential_programming",
    "papers.fenrir", "bytes", "report", "kernel", "papers.dalton", "files", "newcomer",
)  # fmt: skip
"""Those that take longest come first, so that no processor waits for one at the end."""
QUICK_MINUTES = 15.0


def rows_of(name: str, quick: bool) -> list[Row]:
    """Return the rows of a command, and its processor time, which no other work lengthens.

    name: Of the command; studies after it, if not all are meant.
    """
    module, *studies = name.split()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        arguments = [*studies, "--json", str(file), *(["--quick"] if quick else [])]
        process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.{module}", *arguments], stdout=subprocess.DEVNULL
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            text = f"exit code {process.returncode}"
            rows = [Row("", text, "0", False, "its message is above")]
        else:
            rows = [Row(**row) for row in json.loads(file.read_text())["rows"]]
    return [*rows, Row("processor seconds", used.ru_utime + used.ru_stime)]


@study("all", full=math.inf, quick=QUICK_MINUTES)
def every_command(most: float) -> Iterator[Row]:
    """Every command, as many at once as there are processors, and how long they take together."""
    began, quick = time.monotonic(), math.isfinite(most)
    with ThreadPoolExecutor(os.cpu_count()) as side_by_side:
        found = side_by_side.map(partial(rows_of, quick=quick), COMMANDS)
        for name, rows in zip(COMMANDS, found, strict=True):
            yield from (replace(row, name=f"{name}: {row.name}") for row in rows)
    yield at_most("minutes", (time.monotonic() - began) / 60.0, most)


if __name__ == "__main__":
    sys.exit(command(__name__))
