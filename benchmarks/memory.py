"""Memory of processes (Linux)."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path


def resident_memory(process: int | str = "self") -> float:
    """Resident size of a process, by default of this one, in bytes."""
    return _bytes("VmRSS", process)


def peak_memory() -> float:
    """Largest resident size since the start or `reset_peak`, in bytes.

    The maximum that ``getrusage`` tells would include that of the process which started this one.
    """
    return _bytes("VmHWM")


def reset_peak() -> None:
    """Begin to measure the peak anew."""
    Path("/proc/self/clear_refs").write_text("5")


def give_back() -> None:
    """Return what is not in use to the system, or a run would grow into it unseen."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _bytes(key: str, process: int | str = "self") -> float:
    status = Path(f"/proc/{process}/status")
    for line in status.read_text().splitlines():
        if line.startswith(key):
            return float(line.split()[1]) * 1024.0
    raise RuntimeError(f"{key} is not in {status}")
