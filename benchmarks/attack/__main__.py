"""Whether files, streams, caches and arguments made to do harm end in a sentence, or harm nothing.

``--quick`` tries fewer of each kind, and judges them by the same targets.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from benchmarks.study import command

PARTS = (
    "bystanders", "code", "kills", "files_mutated", "readers", "arguments",
    "commands", "configurations", "live", "outputs", "posteriors",
)  # fmt: skip

NEEDED = ("pandas", "uvicorn", "starlette")
"""Packages beside those of smcpn itself."""


def missing() -> str:
    """Return a sentence on the packages that are not installed; empty where all are."""
    lacking = [name for name in NEEDED if find_spec(name) is None]
    listed, names = ", ".join(lacking), " ".join(lacking)
    return f"it needs {listed}, not installed here: pip install {names}" if lacking else ""


if __name__ == "__main__":
    sys.exit(missing() or command(__name__, PARTS))
