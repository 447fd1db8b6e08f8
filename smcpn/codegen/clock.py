"""Time spent compiling and running kernels, which costs no import to look at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class KernelClock:
    """Time spent compiling and running kernels, the work done, and kernels not found on disk."""

    compile_seconds: float = 0.0
    run_seconds: float = 0.0
    theta_steps: int = 0
    compiled: int = 0

    def since(self, before: KernelClock) -> KernelClock:
        """Difference to an earlier copy."""
        return KernelClock(
            self.compile_seconds - before.compile_seconds,
            self.run_seconds - before.run_seconds,
            self.theta_steps - before.theta_steps,
            self.compiled - before.compiled,
        )


CLOCK = KernelClock()
"""Time and work of all kernels of this process so far; only reports read it."""
