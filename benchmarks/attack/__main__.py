"""Whether files, streams, caches and arguments made to do harm end in a sentence, or harm nothing.

``--quick`` tries fewer of each kind, and judges them by the same targets.
"""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.rows import Study, command

PARTS: tuple[str, ...] = (
    "noise", "bystanders", "code", "caches", "kills", "files_mutated", "readers", "arguments",
    "commands", "configurations", "live",
)  # fmt: skip
"""Modules of this package with a mapping ``STUDIES`` each."""


def studies() -> dict[str, Study]:
    """All studies by name, in the order of the parts."""
    found: dict[str, Study] = {}
    for part in PARTS:
        found |= import_module(f"benchmarks.attack.{part}").STUDIES
    return found


if __name__ == "__main__":
    sys.exit(command(__doc__, studies()))
