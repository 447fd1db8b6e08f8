"""Every benchmark in one run, each in a process of its own: ``--quick --check`` for an overview.

Rows have the command's name before their own. A command that fails is a row that misses its target.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.clock import processor_seconds
from benchmarks.rows import Row, at_most
from benchmarks.study import Study, command

COMMANDS = (
    "architecture", "bytes", "kernel", "sampler", "trust", "stiff", "seconds",
    "process_noise", "closures", "discovery", "attack", "files", "likelihoods", "solvers",
    "case_studies", "checkpoints", "online", "report", "live", "scaling", "scale_out",
    "side_by_side", "papers.fenrir", "papers.dalton", "papers.differential_programming", "models",
    "newcomer",
)  # fmt: skip
QUICK_SECONDS = 900.0


def rows_of(name: str, quick: bool) -> Iterator[Row]:
    """Yield the rows of a command, and its processor time, which no other work lengthens.

    Parameters
    ----------
    name : str
        Of the command; studies after it, if not all are meant.
    """
    module, *studies = name.split()
    before = processor_seconds()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        arguments = [*studies, "--json", str(file), *(["--quick"] if quick else [])]
        done = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{module}", *arguments],
            stdout=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        if done.returncode:
            yield Row("", f"exit code {done.returncode}", "0", False, "its message is above")
        else:
            for row in json.loads(file.read_text())["rows"]:
                yield Row(**row)
    yield Row("processor seconds", processor_seconds() - before)


def processor_time(most: float) -> Iterator[Row]:
    """Yield the processor time of all commands so far."""
    yield at_most("", processor_seconds(), most)


STUDIES = [
    *(Study(name, partial(rows_of, name)) for name in COMMANDS),
    Study("processor seconds", processor_time, full=float("inf"), quick=QUICK_SECONDS),
]


if __name__ == "__main__":
    sys.exit(command(__name__))
