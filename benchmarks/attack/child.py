"""A call in a forked process of its own, with limits of time and memory, and how it ended."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.memory import resident_memory
from smcpn.errors import InputError

SECONDS = 10
MEGABYTES = 500
CEILING = 3_000_000_000
"""Bytes of data segment at which an allocation fails, before the machine suffers."""
_FORKING = threading.Lock()
"""What filelock does before and after a fork bears no other fork."""


@dataclass(frozen=True)
class Ended:
    """How a call ended.

    kind: ``"value"``, ``"refused"`` (an `InputError` of one line), ``"traceback"`` (any other
        exception), ``"crash"`` (a signal), ``"hang"`` or ``"growth"``.
    text: Message, traceback or name of the signal.
    value: What the call returned.
    megabytes: Growth of resident memory over that of the parent.
    """

    kind: str
    text: str = ""
    value: Any = None
    megabytes: float = 0.0

    @property
    def harmless(self) -> bool:
        """Whether it returned, or refused in one sentence."""
        return self.kind in ("value", "refused")


def ended(call: Callable[[], Any], seconds: int = SECONDS, megabytes: int = MEGABYTES) -> Ended:
    """Run a call in a forked child and return how it ended.

    What the parent has imported and compiled the child has too, so that a thousand calls take
    seconds. The child leaves no file behind but what the call wrote.

    call: Without arguments; what it returns can be pickled.
    seconds: From which it hangs.
    megabytes: Growth from which it took too much.
    """
    reading, writing = os.pipe()
    before = resident_memory() / 1e6
    with _FORKING:
        child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _run(call, seconds, writing)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    _, status, usage = os.wait4(child, 0)
    growth = usage.ru_maxrss / 1e3 - before
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        kind = "hang" if number == signal.SIGALRM else "crash"
        return Ended(kind, signal.Signals(number).name, megabytes=growth)
    kind, text, value = pickle.loads(told) if told else ("crash", "it ended without a word", None)
    if growth > megabytes:
        return Ended("growth", f"{growth:.0f} MB; {kind}: {text}", value, growth)
    return Ended(kind, text, value, growth)


def _run(call: Callable[[], Any], seconds: int, pipe: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (CEILING, CEILING))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    # The default action of the alarm ends compiled code too.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    try:
        told = ("value", "", call())
    except InputError as error:
        whole = "\n" not in str(error)
        told = ("refused" if whole else "traceback", str(error), None)
    except BaseException:
        told = ("traceback", traceback.format_exc(), None)
    signal.alarm(0)
    with os.fdopen(pipe, "wb") as file:
        pickle.dump(told, file)
