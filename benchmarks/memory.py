"""Memory of the process that asks (Linux)."""

from __future__ import annotations

from pathlib import Path

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident_memory() -> float:
    """Resident size, in bytes."""
    return _bytes("VmRSS")


def peak_memory() -> float:
    """Largest resident size since the start or `reset_peak`, in bytes.

    The maximum that ``getrusage`` tells would include that of the process which started this one.
    """
    return _bytes("VmHWM")


def reset_peak() -> None:
    """Begin to measure the peak anew."""
    RESET.write_text("5")


def _bytes(key: str) -> float:
    for line in STATUS.read_text().splitlines():
        if line.startswith(key):
            return float(line.split()[1]) * 1024.0
    raise RuntimeError(f"{key} is not in {STATUS}")
