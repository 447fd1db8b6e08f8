"""Work of a worker: a method of a likelihood, for some of the particles."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, metadata
from typing import Any

import numpy as np

from smcpn.codegen.clock import counted_apart
from smcpn.codegen.target import Target
from smcpn.errors import InputError
from smcpn.likelihood.contract import Arrays, Batch
from smcpn.smc.distributed.parts import Message, Store
from smcpn.version import __version__

Form = tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]
"""Type, and shape but for the particles, of each of several results."""

RECEIVED = Store()
ONE_KIND = "give workers of one kind of processor, or cpu='portable'"


def form_of(arrays: Arrays) -> Form:
    """Return types and shapes of results, but for the number of particles."""
    return tuple((array.dtype, array.shape[:-1]) for array in arrays)


@dataclass(frozen=True)
class Witness:
    """A batch of two particles, and what the driver found: a worker must find the same bytes."""

    batch: Batch
    found: Arrays

    def holds(self, likelihood: Any) -> bool:
        """True if a likelihood finds it here."""
        here = self.batch.of(likelihood)
        return all(
            np.array_equal(ours, theirs, equal_nan=True)
            for ours, theirs in zip(here, self.found, strict=True)
        )


@dataclass(frozen=True)
class Answer:
    """The result of a task as a worker returns it: numbers, missing parts, a refusal, or an error.

    worker: Host, process and processor.
    found: Results.
    lacking: Fingerprints of parts of which the worker has not all.
    refused: Why this worker cannot take part, and the remedy.
    error: Raised by the computation.
    seconds, theta_steps: Processor time of the worker, and work as of `KernelClock`.
    elapsed: Seconds on the clock.
    """

    worker: str
    found: Arrays | None = None
    lacking: tuple[str, ...] = ()
    refused: str = ""
    error: Exception | None = None
    seconds: float = 0.0
    theta_steps: int = 0
    elapsed: float = 0.0

    def answers(self, batch: Batch, form: Form) -> bool:
        """True if it is an answer to a task: results of this form, or a word on why there is none.

        The form is as the driver finds it; empty where that would take as long as the task.
        """
        work = (self.seconds, self.theta_steps, self.elapsed)
        texts = (self.worker, self.refused, *self.lacking)
        if not all(isinstance(one, str) for one in texts):
            return False
        if not all(isinstance(one, (int, float)) and 0 <= one < np.inf for one in work):
            return False
        if self.lacking or self.refused or self.error is not None:
            return self.error is None or isinstance(self.error, Exception)
        found = self.found
        if not isinstance(found, tuple) or not all(isinstance(one, np.ndarray) for one in found):
            return False
        numbers = all(one.ndim and one.dtype.kind in "biuf" for one in found)
        sizes = {one.shape[-1] for one in found if one.ndim}
        return numbers and sizes == {len(batch)} and form in ((), form_of(found))


Versions = tuple[tuple[str, str], ...]


@cache
def versions() -> Versions:
    """Name and version of what computes here."""
    found = ((name, metadata.version(name)) for name in ("numpy", "numba", "llvmlite"))
    return (("smcpn", __version__), ("Python", platform.python_version()), *found)


@dataclass(frozen=True)
class Task:
    """A batch of particles, as an executor calls it.

    parts: Those that another worker lacked.
    witness: With the parts: who receives them proves itself.
    number: Of the submission: engines that know equal tasks by their content compute each.
    driver: `versions` of who sends it.
    """

    likelihood: Message
    batch: Batch
    parts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    witness: Witness | None = None
    number: int = 0
    driver: Versions = field(default_factory=versions)

    @property
    def __name__(self) -> str:
        """Name that a dashboard shows."""
        return f"smcpn-{self.batch.method}"

    def __call__(self) -> Answer:
        """Evaluate it, or say why not."""
        try:
            return self._answer()
        except Exception as error:
            return Answer(worker_name(), error=error)

    def _answer(self) -> Answer:
        begin, began, worker = time.thread_time(), time.perf_counter(), worker_name()
        differing = self._differing()
        if "smcpn" in differing:
            return Answer(worker, refused=f"{differing}: install the same smcpn on all machines")
        try:
            RECEIVED.receive(self.parts)
        except InputError as error:
            return Answer(worker, refused=f"refuses the kernels: {error}; {ONE_KIND}")
        likelihood = RECEIVED.read(self.likelihood)
        if likelihood is None:
            return Answer(worker, lacking=self.likelihood.needs)
        with counted_apart(), np.errstate(all="ignore"):
            if self.witness is not None and not self.witness.holds(likelihood):
                remedy = f"{differing}: install the same versions" if differing else ONE_KIND
                return Answer(worker, refused=f"finds other numbers than the driver: {remedy}")
        with counted_apart() as work, np.errstate(all="ignore"):
            found = self.batch.of(likelihood)
        seconds, elapsed = time.thread_time() - begin, time.perf_counter() - began
        return Answer(worker, found, seconds=seconds, theta_steps=work.theta_steps, elapsed=elapsed)

    def _differing(self) -> str:
        """Which versions are others than the driver's; empty where none are."""
        pairs = zip(versions(), self.driver, strict=True)
        found = [
            f"{name} {ours}, not {theirs}" for (name, ours), (_, theirs) in pairs if ours != theirs
        ]
        return f"has {', '.join(found)}" if found else ""


def worker_name() -> str:
    """Host, process and processor of this worker."""
    return f"{socket.gethostname()}:{os.getpid()} ({Target.host().cpu})"


def warm(seconds: float) -> str:
    """Load what tasks need, occupy the worker for a moment, and return its name."""
    for module in ("smcpn.likelihood.derivatives", "smcpn.likelihood.particle.likelihood"):
        import_module(module)
    time.sleep(seconds)
    return worker_name()
