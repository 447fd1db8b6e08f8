"""Where a benchmark ran: its figures are those of one machine and of some versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from smcpn.codegen.threads import processors

CORE = ("numpy", "scipy", "numba", "llvmlite")


def machine(packages: Iterable[str] = ()) -> dict[str, Any]:
    """Processor, load, and versions of Python and of those packages that are installed."""
    return {
        "processor": _model(),
        "processors": processors(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": {name: version for name in (*CORE, *packages) if (version := _version(name))},
    }


def described(figures: dict[str, Any]) -> str:
    """One line of it."""
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    return (
        f"machine: {figures['processors']} x {figures['processor']}, load {figures['load']:.2f}; "
        f"Python {figures['python']}, {versions}"
    )


def _model() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
