"""Likelihoods whose large batches workers evaluate."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from smcpn.codegen.clock import counted_apart
from smcpn.likelihood.batches import Arrays, Batch, Batchable
from smcpn.likelihood.derivatives import at_home
from smcpn.smc.distributed.parts import Message
from smcpn.smc.distributed.tasks import Form, Witness, form_of
from smcpn.smc.distributed.workers import Workers

WITNESSES = 2
"""Particles that a worker which joins evaluates as the driver did."""


def distributed(likelihood: Any, workers: Workers | None) -> Any:
    """Return a likelihood whose large batches the workers evaluate, to the same bytes.

    Parameters
    ----------
    likelihood : Batchable
    workers : Workers or None
        None for the likelihood itself.
    """
    return likelihood if workers is None else Proxy(likelihood, workers)


def evaluated_by(workers: Workers | None) -> Callable[[Any], Any]:
    """Return what `LogLikelihood.evaluated` takes, for workers or for this process."""
    return at_home if workers is None else partial(distributed, workers=workers)


class Proxy:
    """An object whose large batches go to workers; in all else it is the one at home.

    Parameters
    ----------
    home : Batchable
    workers : Workers
    """

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
