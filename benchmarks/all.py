"""Every benchmark in one run, each in a process of its own: ``--quick --check`` for an overview.

Rows have the command's name before their own. A command that fails is a row that misses its target.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from benchmarks.rows import Row, Study, at_most, command

COMMANDS = {
    name: f"benchmarks.{name}"
    for name in (
        "architecture",
        "bytes",
        "kernel",
        "gradients",
        "sampler",
        "trust",
        "seconds",
        "process_noise",
        "closures",
        "discovery",
        "attack",
        "files",
        "likelihoods",
        "solvers",
        "case_studies",
        "checkpoints",
        "online",
        "report",
        "live",
        "scaling",
        "scale_out",
        "side_by_side",
        "papers.fenrir",
        "papers.dalton",
        "papers.differential_programming",
        "newcomer",
    )
}

QUICK_SECONDS = 900.0


def _study(module: str, quick: bool) -> Iterator[Row]:
    arguments = ["--json", *(["--quick"] if quick else [])]
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        yield Row("", f"exit code {done.returncode}", "0", False, "its message is above")
        return
    for row in json.loads(done.stdout)["rows"]:
        yield Row(**row)


def _processor_seconds(quick: bool) -> Iterator[Row]:
    """Processor time of all commands, which other work of the machine does not lengthen."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime
    yield at_most("", seconds, QUICK_SECONDS) if quick else Row("", seconds)


if __name__ == "__main__":
    studies: dict[str, Study] = {name: partial(_study, one) for name, one in COMMANDS.items()}
    studies["processor seconds"] = _processor_seconds
    sys.exit(command(__doc__, studies))
