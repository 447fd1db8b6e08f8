"""Time spent compiling and running kernels, which costs no import to look at."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class KernelClock:
    """Time spent compiling and running kernels, the work done, and kernels not found on disk."""

    compile_seconds: float = 0.0
    compile_processor_seconds: float = 0.0
    run_seconds: float = 0.0
    theta_steps: int = 0
    compiled: int = 0

    def since(self, before: KernelClock) -> KernelClock:
        """Difference to an earlier copy."""
        return KernelClock(
            self.compile_seconds - before.compile_seconds,
            self.compile_processor_seconds - before.compile_processor_seconds,
            self.run_seconds - before.run_seconds,
            self.theta_steps - before.theta_steps,
            self.compiled - before.compiled,
        )


CLOCK = KernelClock()
"""Time and work of all kernels of this process so far; only reports read it."""
_APART = threading.local()


def count(seconds: float, theta_steps: int = 0) -> None:
    """Add the run of a kernel to `CLOCK`, or to that of `counted_apart` in this thread."""
    clock = getattr(_APART, "clock", CLOCK)
    clock.run_seconds += seconds
    clock.theta_steps += theta_steps


@contextmanager
def compiling() -> Generator[None]:
    """Add the time of what is done within, in this thread, to that spent compiling."""
    began, used = time.perf_counter(), time.thread_time()
    try:
        yield
    finally:
        CLOCK.compile_seconds += time.perf_counter() - began
        CLOCK.compile_processor_seconds += time.thread_time() - used


@contextmanager
def counted_apart() -> Generator[KernelClock]:
    """Count what kernels run in this thread on a clock of its own, not on `CLOCK`."""
    _APART.clock = KernelClock()
    try:
        yield _APART.clock
    finally:
        del _APART.clock
