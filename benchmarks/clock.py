"""How long calls take."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.clock import CLOCK

Call = Callable[[], object]
Clock = Callable[[], float]


def seconds(call: Call, clock: Clock = time.perf_counter) -> float:
    """Return what one call takes by a clock."""
    begin = clock()
    call()
    return clock() - begin


def processor_seconds() -> float:
    """Return the processor time of this process and of those of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def running_seconds() -> float:
    """Return the processor time of this process without that in which kernels were compiled."""
    return time.process_time() - CLOCK.compile_processor_seconds


def best(call: Call, repeats: int) -> float:
    """Return the least processor seconds of several calls, after one that does not count.

    Other work of the machine is not in them.
    """
    call()
    return min(seconds(call, time.process_time) for _ in range(repeats))


def in_turns(
    calls: Mapping[str, Call], repeats: int, clock: Clock = time.perf_counter
) -> dict[str, NDArray[np.float64]]:
    """Return the seconds of each call, (repeats,), after one that does not count.

    They are made one after the other in every round, so that all meet the same machine.
    """
    for call in calls.values():
        call()
    taken = [[seconds(call, clock) for call in calls.values()] for _ in range(repeats)]
    return dict(zip(calls, np.array(taken).T, strict=True))
