"""A process of its own for libraries that a damaged file may crash: nothing but it is lost.

It answers one request after another, so that only the first one waits for its start, and ends with
the process that asks or when it has not been asked for a while. Requests and answers are JSON and
arrays of numbers, never code.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError

Array = NDArray[np.float64]
Answer = tuple[dict[str, Any], list[Array]]

IDLE_SECONDS = 60.0
"""Without a request, after which it ends."""
START_SECONDS = 60.0
"""Beyond the time for a request that are waited for an answer, by the clock."""
MEMORY_BYTES = 8 << 30
"""Of the process, where the system can limit it."""
_LONGEST_ANSWER = 1 << 24


class LostError(Exception):
    """The process ended, or was ended, without an answer; the message says why."""


class ReadingProcess:
    """Asks a process of its own, which is started for the first question.

    The module is run as a program, which calls `serve`.
    """

    def __init__(self, module: str) -> None:
        self._module, self._lock = module, threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._left: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def ask(self, request: dict[str, Any], seconds: float) -> Answer:
        """Return the answer to a request.

        The answer may take so many ``seconds`` of processor time; if the process crashes or takes
        longer that is a `LostError`, and if it cannot be started an `InputError`.
        """
        line = json.dumps({**request, "seconds": seconds, "folder": os.getcwd()}).encode() + b"\n"
        with self._lock:
            try:
                return self._asked(line, seconds)
            except _IdleError:
                return self._asked(line, seconds)

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()

    def _forget(self) -> None:
        """Leave the process to the one that this one was forked from."""
        self._left, self._process, self._lock = self._process, None, threading.Lock()

    def _asked(self, line: bytes, seconds: float) -> Answer:
        process = self._process
        if process is None or process.poll() is not None:
            self.close()
            process = self._process = self._started()
        waiting = threading.Timer(START_SECONDS + seconds, process.kill)
        waiting.daemon = True
        waiting.start()
        answered = False
        try:
            assert process.stdin is not None
            process.stdin.write(line)
            process.stdin.flush()
            found = _received(process.stdout)
            answered = True
        except (OSError, EOFError, ValueError, TypeError, KeyError, MemoryError):
            raise _why(process, seconds) from None
        finally:
            waiting.cancel()
            if not answered:
                # Whatever it may still say belongs to no question.
                self.close()
        return found

    def _started(self) -> subprocess.Popen[bytes]:
        found = os.pathsep.join(path for path in sys.path if os.path.isabs(path))
        try:
            # A session of its own: an interrupt from the keyboard is not meant for it.
            return subprocess.Popen(
                [sys.executable, "-P", "-m", self._module],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": found}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise InputError(
                f"no process can be started to read the file in ({error.strerror or error}): end "
                "others, or save the file as CSV or NPZ"
            ) from None


class _IdleError(LostError):
    """The process ended for want of questions while one was asked."""


def _why(process: subprocess.Popen[bytes], seconds: float) -> LostError:
    """Return why a process gave no answer."""
    with suppress(subprocess.TimeoutExpired):
        # A pipe may be closed a moment before its process has ended.
        process.wait(timeout=5.0)
    code = process.returncode
    name = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    if name == "SIGALRM":
        return _IdleError("its end for want of questions")
    if name in ("SIGPROF", "SIGKILL") or code is None:
        return LostError(f"more than {seconds:.0f} seconds of work, or too much memory ({name})")
    return LostError(f"a crash ({name})")


def _received(pipe: Any) -> Answer:
    """Return an answer from a pipe, as `serve` writes it."""
    length = int.from_bytes(_exactly(pipe, 4), "little")
    if length > _LONGEST_ANSWER:
        raise ValueError("no answer")
    head = json.loads(_exactly(pipe, length))
    arrays: list[Array] = []
    for shape in head["shapes"]:
        array = np.empty(tuple(map(int, shape)))
        _fill(pipe, array)
        arrays.append(array)
    return head, arrays


def _exactly(pipe: Any, size: int) -> bytes:
    found = pipe.read(size)
    if len(found) < size:
        raise EOFError
    return found


def _fill(pipe: Any, array: Array) -> None:
    """Read an array, without a copy of it."""
    if array.size and pipe.readinto(array.data.cast("B")) < array.nbytes:
        raise EOFError


def serve(answered: Callable[[dict[str, Any]], Answer]) -> None:
    """Answer requests from standard input until it ends.

    ``answered`` makes of a request its answer, without exceptions.
    """
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # A library may print, which is no answer.
    os.dup2(2, 1)
    _limit_memory()
    while True:
        _end_after(IDLE_SECONDS, "REAL")
        line = questions.readline()
        _end_after(0.0, "REAL")
        if not line:
            return
        request = json.loads(line)
        with suppress(OSError):
            os.chdir(request["folder"])
        _end_after(request["seconds"], "PROF")
        head, arrays = answered(request)
        _end_after(0.0, "PROF")
        content = json.dumps({**head, "shapes": [one.shape for one in arrays]}).encode()
        answers.write(len(content).to_bytes(4, "little") + content)
        for one in arrays:
            answers.write(np.ascontiguousarray(one).data.cast("B") if one.size else b"")
        answers.flush()


def _end_after(seconds: float, clock: str) -> None:
    """End this process after some time, 0 for never, where the system has a timer for it."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(getattr(signal, f"ITIMER_{clock}"), seconds)


def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        limit = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MEMORY_BYTES, most)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
