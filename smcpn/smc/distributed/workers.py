"""The driver's side: batches cut into tasks, submitted, and gathered in the order of particles.

A task is a pure function of its particles, so that it may be computed anywhere, again, or twice:
one that is lost is submitted again, one that is slow a second time, and what comes first is taken.
A likelihood that is `distributed` has its large batches evaluated so.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from typing import Any

import numpy as np

from smcpn.codegen import clock
from smcpn.codegen.clock import counted_apart
from smcpn.errors import ExecutorError, InputError, shown
from smcpn.likelihood.contract import Arrays, Batch, Batchable
from smcpn.likelihood.derivatives import at_home
from smcpn.smc.distributed.engines import Engine, engine_of, opened
from smcpn.smc.distributed.parts import Message, Sender
from smcpn.smc.distributed.tasks import Answer, Form, Task, Witness, form_of, warm

_log = logging.getLogger(__name__)

HOME_SECONDS = 0.2
"""Work, in seconds of one thread, from which a batch is sent away."""
TASKS_PER_WORKER = 4
"""Tasks of a long batch for each worker, so that none waits long for the slowest."""
TASK_SECONDS = 0.1
"""Work of a task below which a worker has only one of a batch."""
MOST_PARTICLES = 8192
"""Particles of a task at most: the memory of a worker does not depend on their number."""
WARM_SECONDS = 30.0
"""Wait this long for workers to load the package, before the first tasks."""
OCCUPIED_SECONDS = 0.05
"""Time for which loading occupies a worker, so that the next one gets the next call."""
MOST_LOSSES = 5
"""Times that a task may be lost while no other is done."""
TICK_SECONDS = 0.5
SLOW_SECONDS, SLOW_FACTOR = 2.0, 5.0
"""The last tasks are submitted again after this time without an answer, and this many times that of
the longest task; each time without any it is twice as long."""
AGAIN_SECONDS = 0.2
"""In place of the first where that happened in the batch before: a worker may be suspended."""
UNKNOWN_SECONDS = 60.0
"""The same where nothing tells how long a task takes."""
WORKERLESS_SECONDS = 600.0
"""Wait this long for a cluster to have a worker."""


class Workers:
    """The workers of an executor.

    ``home_seconds`` is the work, in seconds of one thread, up to which a batch is not sent,
    `HOME_SECONDS` by default; ``clock`` the processor time of this thread, by which the cost of a
    batch is tried. ``done`` are the tasks that each worker has done, by its name, ``resubmitted``
    those that were lost or slow, ``seconds`` the processor time of all, and ``slow_seconds`` the
    time without an answer from which a task of the next batch may be slow. An executor that takes
    no tasks, as one that was shut down, is refused.
    """

    def __init__(
        self,
        executor: Any,
        home_seconds: float | None = None,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self.engine, self.clock = engine_of(executor), clock
        self.home_seconds = HOME_SECONDS if home_seconds is None else home_seconds
        self.sender, self.numbers = Sender(), count()
        self.done: dict[str, int] = {}
        self.resubmitted, self.seconds = 0, 0.0
        self.slow_seconds = SLOW_SECONDS
        self._owned: list[Engine] = []
        self._loading = self._warmed()

    def run(
        self,
        batch: Batch,
        likelihood: Message,
        lanes: int,
        witness: Callable[[], Witness],
        seconds: float = 0.0,
        form: Form = (),
    ) -> tuple[Arrays, float]:
        """Evaluate a batch; return the results and the workers' time in seconds.

        Tasks begin at multiples of ``lanes``, the particles that are computed together; ``witness``
        makes what workers that receive parts of the likelihood have to find; ``seconds`` is the
        work that is expected, of one thread; ``form`` that of the results, empty for that of the
        task which is answered first. If tasks are lost again and again, or a worker finds other
        numbers or what is no answer, it raises `ExecutorError`.
        """
        begin = time.perf_counter()
        wait(self._loading, WARM_SECONDS)
        self._loading = []
        size = max(1, self.engine.size)
        each = min(max(1, int(seconds / size / TASK_SECONDS)), TASKS_PER_WORKER)
        places = cut(len(batch), lanes, each * size)
        pieces = [batch.take(place) for place in places]
        gathering = _Gathering(self, likelihood, pieces, witness, seconds / len(pieces), form)
        answers = gathering.answers()
        for answer in answers:
            self.done[answer.worker] = self.done.get(answer.worker, 0) + 1
        theta_steps = sum(answer.theta_steps for answer in answers)
        clock.count(time.perf_counter() - begin, theta_steps)
        found = [answer.found or () for answer in answers]
        joined = tuple(np.concatenate(part, axis=-1) for part in zip(*found, strict=True))
        seconds = sum(answer.seconds for answer in answers)
        self.seconds += seconds
        return joined, seconds

    @property
    def state(self) -> str:
        """Numbers of workers that have taken part and of tasks submitted again, in words."""
        again = f", {self.resubmitted} tasks again" if self.resubmitted else ""
        return f"workers {len(self.done)} of {self.engine.size}{again}"

    def renew(self, broken: Any) -> None:
        """Replace an engine that is broken, once, where that is possible."""
        if broken is not self.engine:
            return
        renewed = self.engine.renewed()
        if renewed is not None:
            _log.warning("workers have died: others are started")
            self.engine = renewed
            self._owned.append(renewed)

    def close(self) -> None:
        """Shut down the executors that were made in place of broken ones."""
        for engine in self._owned:
            engine.close()

    def _warmed(self) -> list[Future[str]]:
        executor, size = self.engine.executor, max(1, self.engine.size)
        try:
            return [executor.submit(warm, OCCUPIED_SECONDS) for _ in range(size)]
        except RuntimeError as error:
            raise InputError(
                f"executor takes no tasks ({error}): give one that has not been shut down",
                argument="executor",
            ) from error


@contextmanager
def workers_of(executor: Any) -> Generator[Workers | None]:
    """Yield the workers of an executor or of its name, or None; they are left as they were.

    Workers that a run has already are yielded as they are.
    """
    if executor is None or isinstance(executor, Workers):
        yield executor
        return
    with opened(executor) as made:
        workers = Workers(made)
        try:
            yield workers
        finally:
            workers.close()


def cut(particles: int, lanes: int, tasks: int) -> list[slice]:
    """Cut particles at multiples of ``lanes`` into about so many tasks.

    None has a single particle where lanes have more, but for the only one: sums over samples would
    add otherwise.
    """
    blocks = -(-particles // lanes)
    parts = min(blocks, max(tasks, -(-particles // MOST_PARTICLES)))
    edges = [lanes * (blocks * k // parts) for k in range(parts)]
    if lanes > 1 and len(edges) > 1 and particles - edges[-1] == 1:
        edges.pop()
    return [slice(*pair) for pair in pairwise([*edges, particles])]


@dataclass(frozen=True)
class _Sent:
    """A task under way: its place, the engine that has it, whether it carries parts, its number."""

    place: int
    engine: Any
    carries: bool
    number: int = 0


class _Gathering:
    """The tasks of one batch, until all are answered."""

    def __init__(
        self,
        workers: Workers,
        message: Message,
        pieces: Sequence[Batch],
        witness: Callable[[], Witness],
        expected: float = 0.0,
        form: Form = (),
    ) -> None:
        self._workers, self._message, self._pieces = workers, message, pieces
        self._witness, self._expected, self._form = witness, expected, form
        self._answers: dict[int, Answer] = {}
        self._pending: dict[Future[Answer], _Sent] = {}
        self._held: list[int] = []
        """Tasks that wait until the parts they need have been carried to a worker."""
        self._supplied: dict[str, int] = {}
        """Number of the task that carried parts to a worker last."""
        self._losses: dict[int, int] = {}
        self._progress = self._told = time.monotonic()
        self._hurries, self._hurried = 0, False

    def answers(self) -> list[Answer]:
        """Return the answers in the order of the pieces."""
        tick = min(TICK_SECONDS, self._workers.slow_seconds)
        try:
            for place in range(len(self._pieces)):
                self._submit(place)
            while len(self._answers) < len(self._pieces):
                done, _ = wait(self._pending, tick, FIRST_COMPLETED)
                for future in sorted(done, key=lambda one: self._pending[one].number):
                    self._settle(self._pending.pop(future), future)
                if not done:
                    self._hurry()
        finally:
            if not self._workers.engine.ended:
                for future in self._pending:
                    future.cancel()
        self._workers.slow_seconds = AGAIN_SECONDS if self._hurried else SLOW_SECONDS
        return [self._answers[place] for place in range(len(self._pieces))]

    def _submit(self, place: int, carry: bool = False) -> int:
        """Submit a task, and return its number."""
        workers, message = self._workers, self._message
        parts = {one: workers.sender.part(one) for one in message.needs} if carry else {}
        witness = self._witness() if carry else None
        task = Task(message, self._pieces[place], parts, witness, next(workers.numbers))
        sent = _Sent(place, workers.engine, carry, task.number)
        try:
            future = workers.engine.submit(task)
        except Exception as error:
            self._lose(sent, error)
        else:
            self._pending[future] = sent
        return task.number

    def _settle(self, sent: _Sent, future: Future[Answer]) -> None:
        if sent.place not in self._answers:
            self._take(sent, future)
        if sent.carries:
            self._release()

    def _take(self, sent: _Sent, future: Future[Answer]) -> None:
        """Keep the answer of a task, or send again what it needs."""
        error = CancelledError("cancelled") if future.cancelled() else future.exception()
        if error is not None:
            self._lose(sent, error)
            return
        answer: Any = future.result()
        fits = isinstance(answer, Answer) and answer.answers(self._pieces[sent.place], self._form)
        if not fits:
            worker, kind = shown(getattr(answer, "worker", "?")), type(answer).__name__
            raise ExecutorError(
                f"the worker {worker} gives no answer to a task: its {kind} does not have the type "
                "or shape of the result, so install the same smcpn there"
            )
        if answer.lacking:
            self._supply(sent, answer.worker)
        elif answer.refused:
            raise ExecutorError(f"the worker {answer.worker} {answer.refused}")
        elif answer.error is not None:
            raise answer.error
        else:
            self._answers[sent.place] = answer
            self._form = form_of(answer.found or ())
            self._progress, self._hurries = time.monotonic(), 0
            self._losses.clear()

    def _supply(self, sent: _Sent, worker: str) -> None:
        """Send parts to a worker that lacks them: with one task, while the others wait for it."""
        if worker in self._supplied and any(one.carries for one in self._pending.values()):
            self._held.append(sent.place)
        else:
            # What was submitted before parts were carried to the worker may have come before them.
            late = sent.number < self._supplied.get(worker, -1)
            number = self._submit(sent.place, carry=not late)
            if not late:
                self._supplied[worker] = number

    def _release(self) -> None:
        held, self._held = self._held, []
        for place in held:
            self._submit(place)

    def _lose(self, sent: _Sent, error: BaseException) -> None:
        """Submit a lost task again."""
        losses = self._losses[sent.place] = self._losses.get(sent.place, 0) + 1
        if losses > MOST_LOSSES:
            said = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            unread = isinstance(error, ImportError) or "deserializ" in said
            remedy = "install the same smcpn on all machines" if unread else "look at its workers"
            raise ExecutorError(
                f"the executor has lost a task {losses} times ({said}): {remedy}, and start again; "
                "a run with a checkpoint goes on from there"
            ) from error
        self._workers.resubmitted += 1
        if isinstance(error, BrokenExecutor):
            self._workers.renew(sent.engine)
        self._submit(sent.place)
        if sent.carries:
            self._release()

    def _hurry(self) -> None:
        """Submit the last tasks a second time where they take far longer than all before."""
        waited = time.monotonic() - self._progress
        if self._workers.engine.ended:
            raise ExecutorError(
                "the executor is closed, as where its scheduler cannot be reached: look at it, and "
                "start again; a run with a checkpoint goes on from there"
            )
        if self._workers.engine.size == 0:
            self._tell_of_none(waited)
            return
        late = {sent.place for sent in self._pending.values()} - self._answers.keys()
        known = max([self._expected, *(answer.elapsed for answer in self._answers.values())])
        least = self._workers.slow_seconds
        patience = max(least, SLOW_FACTOR * known) if known else UNKNOWN_SECONDS
        if len(late) > self._workers.engine.size or waited < patience * 2**self._hurries:
            return
        _log.info("%d tasks are slow: they are submitted again", len(late))
        self._progress = time.monotonic()
        self._hurries, self._hurried = self._hurries + 1, True
        # Who waits for parts would wait for ever for a worker that does not answer.
        carry = any(one.carries for one in self._pending.values())
        for place in sorted(late):
            self._workers.resubmitted += 1
            self._submit(place, carry)

    def _tell_of_none(self, waited: float) -> None:
        """Say that there is no worker, once, and give up after a time."""
        if waited > WORKERLESS_SECONDS:
            raise ExecutorError(
                f"the executor has had no worker for {waited:.0f} s: start some, which have the "
                "same smcpn installed, and start again; a run with a checkpoint goes on from there"
            )
        if self._told <= self._progress:
            self._told = time.monotonic()
            _log.warning("the executor has no worker: start some, with the same smcpn installed")


WITNESSES = 2
"""Particles that a worker which joins evaluates as the driver did."""


def distributed(likelihood: Any, workers: Workers | None) -> Any:
    """Return a likelihood whose large batches the workers evaluate, to the same bytes.

    Without workers it is the likelihood itself.
    """
    return likelihood if workers is None else Proxy(likelihood, workers)


def evaluated_by(workers: Workers | None) -> Callable[[Any], Any]:
    """Return what `LogLikelihood.evaluated` takes, for workers or for this process."""
    return at_home if workers is None else partial(distributed, workers=workers)


class Proxy:
    """An object whose large batches go to workers; in all else it is the one at home."""

    def __init__(self, home: Batchable, workers: Workers) -> None:
        self._home, self._workers = home, workers
        self._costs: dict[str, float] = {}
        """Seconds of one thread for a particle and sample, by method, as last measured."""
        self._formed: tuple[Any, Form] = (None, ())
        """Call whose results had a form last, and the form."""
        self._message: Message | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._home, name)
        if not callable(value):
            return value
        return partial(self._batch if name in self._home.batches else self._call, value)

    def _call(self, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call a method at home; workers evaluate its result as well where they can."""
        found = method(*given, **named)
        if found is self._home:
            return self
        return Proxy(found, self._workers) if isinstance(found, Batchable) else found

    def _batch(self, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call a method for many points, here or by the workers."""
        bound = inspect.signature(method).bind(*given, **named)
        bound.apply_defaults()
        batch = Batch(method.__name__, bound.arguments)
        first, *others = found = self._evaluated(batch)
        return found if others else first

    def _evaluated(self, batch: Batch) -> Arrays:
        work, trial = self._home.work(batch) * len(batch), self._home.trial(batch)
        if not self._pays(batch, work, trial):
            return batch.of(self._home)
        witness = partial(self._witness, trial.take(slice(WITNESSES)))
        if self._message is None:
            self._message = self._workers.sender.message(self._home.detached())
        expected = self._costs.get(batch.method, 0.0) * work
        found, seconds = self._workers.run(
            batch, self._message, self._home.unit(batch), witness, expected, self._form(batch)
        )
        self._costs[batch.method] = seconds / work
        return found

    def _form(self, batch: Batch) -> Form:
        """Form of the results of a batch, as it is for one of its particles here."""
        call = (batch.method, batch.others)
        if self._home.one_tells_form and self._formed[0] != call:
            self._formed = call, form_of(self._witness(batch.take(slice(1))).found)
        return self._formed[1]

    def _pays(self, batch: Batch, work: float, trial: Batch) -> bool:
        """True if a batch costs more than to send it; a trial tells what is not known."""
        if not self._workers.home_seconds:
            return work > 0
        some = trial.take(slice(max(WITNESSES, self._home.unit(trial))))
        tried = self._home.work(some) * len(some)
        if batch.method not in self._costs and work > tried:
            begin = self._workers.clock()
            self._witness(some)
            self._costs[batch.method] = (self._workers.clock() - begin) / tried
        return self._costs.get(batch.method, 0.0) * work > self._workers.home_seconds

    def _witness(self, batch: Batch) -> Witness:
        with counted_apart(), np.errstate(all="ignore"):
            return Witness(batch, batch.of(self._home.detached()))
