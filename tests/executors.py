"""Executors that do what engines on many machines do, in this process and at once."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import Executor, Future

import numpy as np

from smcpn.smc.distributed import tasks
from smcpn.smc.distributed.parts import Store


class UnreliableExecutor(Executor):
    """Runs what waits in random order, loses a share, and forgets parts as a worker that is new.

    Everything is pickled on its way there and back.
    """

    def __init__(self, seed: int = 0, loses: float = 0.0, forgets: float = 0.0) -> None:
        self.rng = np.random.default_rng(seed)
        self.loses, self.forgets = loses, forgets
        self.tasks: list[tasks.Task] = []
        self.carried = 0
        self._waiting: list[tuple[Future, bytes]] = []
        self._there, self._closed = threading.Condition(), False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def submit(self, fn, /, *args):
        future = Future()
        if not isinstance(fn, tasks.Task):
            future.set_result(fn(0.0))
            return future
        self.tasks.append(fn)
        self.carried += bool(fn.parts)
        with self._there:
            self._waiting.append((future, pickle.dumps(fn)))
            self._there.notify()
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        with self._there:
            self._closed = True
            self._there.notify()
        self._thread.join()

    def _work(self):
        while True:
            with self._there:
                self._there.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                future, task = self._waiting.pop(self.rng.integers(len(self._waiting)))
            if not future.set_running_or_notify_cancel():
                continue
            if self.rng.random() < self.loses:
                future.set_exception(ConnectionError("the worker is gone"))
                continue
            if self.rng.random() < self.forgets:
                tasks.RECEIVED = Store()
            try:
                future.set_result(self.answer(pickle.loads(task)))
            except Exception as error:
                future.set_exception(error)

    def answer(self, task):
        return pickle.loads(pickle.dumps(task()))
