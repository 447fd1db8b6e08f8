"""Threads of this process: how many there may be, and which of them compute."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


def processors() -> int:
    """Processors this process may use, or ``SMCPN_THREADS``."""
    wanted = os.environ.get("SMCPN_THREADS")
    if wanted and wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


@cache
def thread_pool(threads: int, process: int, urgent: bool = False) -> ThreadPoolExecutor:
    """The threads of this process: a forked child has none of its parent's and would wait.

    Those for what is urgent are others, which do not wait for the rest.
    """
    return ThreadPoolExecutor(threads, thread_name_prefix="smcpn")


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which matrices are multiplied on one thread.

    Those of a few parameters take less time than it takes to wake threads, and threads that wait
    for more keep processors from the kernels. Calls may be nested, and overlap in several threads.
    """
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> ThreadpoolController:
    """Libraries with threads of their own, looked for once."""
    return ThreadpoolController()
