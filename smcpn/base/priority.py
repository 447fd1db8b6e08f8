"""Priority of threads: an update that has a deadline before all that has none."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from smcpn.errors import InputError

LOWEST = 1
"""Of the real-time priorities, each of which comes before all others."""


@contextmanager
def real_time() -> Generator[None]:
    """Run the calling thread before all others of the machine, as soon as it has work to do.

    For updates with a budget on a machine that does other work too. Threads that it starts come
    first as well, but those that rejuvenate. Linux only; the scheduler is ``SCHED_FIFO``.

    Raises
    ------
    InputError
        If the system has no such priority, or this user may not take it.

    Examples
    --------
    >>> with real_time():  # doctest: +SKIP
    ...     for u, y in source:
    ...         state = live.update(u, y)
    """
    if sys.platform != "linux":
        raise InputError(
            f"real-time priority (--real-time) needs Linux, this is {sys.platform}: leave it out"
        )
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(LOWEST))
    except PermissionError as error:
        raise InputError(
            "this user may not take real-time priority (--real-time): allow it (ulimit -r 1, "
            "'rtprio' in /etc/security/limits.conf, LimitRTPRIO=1 of systemd, --cap-add SYS_NICE "
            "of a container), or leave it out"
        ) from error
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def normal() -> None:
    """Have the calling thread wait for others as most do, though it was started in real time.

    Idle and batch priority stay: to leave them takes a permission.
    """
    if sys.platform == "linux" and os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
