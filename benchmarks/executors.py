"""Independent cases of a study, such as seeds or records, here or by the workers of an executor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

from smcpn.codegen.threads import processors
from smcpn.smc.distributed.engines import opened

Case = TypeVar("Case")
Found = TypeVar("Found")

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_CHOSEN: ContextVar[Executor | None] = ContextVar("_CHOSEN", default=None)
"""None in workers too, whose cases are theirs alone."""


def local() -> str:
    """Return the name of an executor with a process for each processor."""
    return f"loky:{processors()}"


@contextmanager
def executing(executor: Executor | str | None) -> Iterator[None]:
    """Let `each` use an executor, or one of a name as in ``smcpn.identify(executor=)``.

    Raises `InputError` if it cannot be opened.
    """
    with opened(executor) as own:
        if isinstance(executor, str):
            # For processes that begin with their first case; those of a cluster have their own.
            for name in ONE_THREAD:
                os.environ.setdefault(name, "1")
        token = _CHOSEN.set(own)
        try:
            yield
        finally:
            _CHOSEN.reset(token)


def each(function: Callable[[Case], Found], cases: Iterable[Case]) -> Iterator[Found]:
    """Yield a function of every case, in the order of the cases, whoever ran them.

    function: Its value depends on the case alone. It, the cases and its values can be pickled.
    """
    executor = _CHOSEN.get()
    if executor is None:
        yield from map(function, cases)
        return
    # dask would look for tasks in a case that is a tuple.
    futures = [executor.submit(partial(function, case)) for case in cases]
    try:
        for future in futures:
            yield future.result()
    finally:
        for future in futures:
            future.cancel()
