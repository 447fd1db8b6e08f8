"""Work in a thread beside the updates of a stream."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from smcpn.base.priority import normal

Result = TypeVar("Result")


class Background(Generic[Result]):
    """A task in a thread of its own, which ends with the process.

    The task is called with this object, whose `given_up` says that the result is no longer wanted;
    it looks at that now and then.
    """

    def __init__(self, task: Callable[[Background[Result]], Result]) -> None:
        self.given_up = False
        self._task, self._done = task, threading.Event()
        self._result: Result | None = None
        self._error: BaseException | None = None
        _idle_thread().put(self._run)

    @property
    def done(self) -> bool:
        """True if the task has ended."""
        return self._done.is_set()

    def result(self) -> Result:
        """Wait for the task and return what it returned.

        Raises
        ------
        BaseException
            What the task raised.
        """
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def wait(self) -> None:
        """Wait until the task has ended, however it did."""
        self._done.wait()

    def _run(self) -> None:
        try:
            self._result = self._task(self)
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()


_idle: deque[SimpleQueue[Callable[[], Any]]] = deque()
"""Threads without a task, each by the queue of those that it will be given."""
if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads.
    os.register_at_fork(after_in_child=_idle.clear)


def _idle_thread() -> SimpleQueue[Callable[[], Any]]:
    """Return the queue of a thread that waits; to start one takes longer than a sample may."""
    try:
        return _idle.pop()
    except IndexError:
        tasks: SimpleQueue[Callable[[], Any]] = SimpleQueue()
        threading.Thread(target=_work, args=(tasks,), name="smcpn-online", daemon=True).start()
        return tasks


def _work(tasks: SimpleQueue[Callable[[], Any]]) -> None:
    normal()
    while True:
        tasks.get()()
        _idle.append(tasks)
