"""The contracts of a likelihood, with large batches evaluated by workers."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.clock import counted_apart
from smcpn.distributed.parts import Message
from smcpn.distributed.tasks import Arrays, Batch, Witness
from smcpn.distributed.workers import Workers
from smcpn.likelihood.contract import EstimatedLikelihood, Keys

Array = NDArray[np.float64]

TRIAL_SAMPLES = 64
"""Samples over which the cost of a particle is measured, and workers prove themselves."""
WITNESSES = 2
"""Particles that a worker which joins evaluates as the driver did."""


def distributed(likelihood: Any, workers: Workers | None) -> Any:
    """Return a likelihood whose large batches the workers evaluate, to the same bytes.

    Parameters
    ----------
    likelihood : LaneLikelihood or ParticleLikelihood
        One that can be `detached` from what it was made of.
    workers : Workers or None
        None for the likelihood itself.
    """
    if workers is None:
        return likelihood
    if isinstance(likelihood, EstimatedLikelihood):
        return DistributedEstimate(likelihood, workers)
    lowers = hasattr(likelihood, "at_diffusion")
    return (DistributedDiffused if lowers else Distributed)(likelihood, workers)


@dataclass
class Cost:
    """Seconds of one thread for a particle and sample, as last measured; 0 before."""

    seconds: float = 0.0


class _Distributed:
    """A likelihood at home, and what sends its batches away where that pays.

    Parameters
    ----------
    home : LaneLikelihood or ParticleLikelihood
    workers : Workers
    """

    def __init__(self, home: Any, workers: Workers) -> None:
        self._home, self._workers, self._cost = home, workers, Cost()
        self._message: Message | None = None

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self._home.n_samples

    @property
    def n_steps(self) -> int:
        """Solver steps over all records, of one parameter vector."""
        return self._home.n_steps

    def start(self, values: Array) -> Array:
        """See `Likelihood.start`."""
        return self._home.start(values)

    def _evaluated(self, batch: Batch, samples: int, trial: Batch, weight: int = 1) -> Arrays:
        """Evaluate a batch over so many samples, ``weight`` times as costly as the cost says."""
        work = len(batch) * samples * weight
        if not self._pays(work, trial, weight):
            return batch.of(self._home)
        witness = partial(self._witness, trial.take(slice(WITNESSES)))
        if self._message is None:
            self._message = self._workers.sender.message(self._home.detached())
        found, seconds = self._workers.run(
            batch, self._message, self._home.lanes, witness, self._cost.seconds * work
        )
        self._cost.seconds = seconds / work
        return found

    def _pays(self, work: int, trial: Batch, weight: int) -> bool:
        """Whether a batch costs more than to send it; a trial tells what is not known."""
        if not self._workers.home_seconds:
            return work > 0
        some = trial.take(slice(self._home.lanes))
        tried = len(some) * some.samples[0] * weight
        if not self._cost.seconds and work > tried:
            begin = time.thread_time()
            self._witness(some)
            self._cost.seconds = (time.thread_time() - begin) / tried
        return self._cost.seconds * work > self._workers.home_seconds

    def _of(self, home: Any) -> Self:
        """The same of another likelihood at home, which is as costly."""
        other = copy(self)
        other._home, other._message = home, None
        return other

    def _witness(self, batch: Batch) -> Witness:
        with counted_apart(), np.errstate(all="ignore"):
            return Witness(batch, batch.of(self._home.detached()))


class Distributed(_Distributed):
    """The `Likelihood` contract, of which workers evaluate large batches."""

    def advance(self, values: Array, state: Array, a: int, b: int) -> tuple[Array, Array]:
        """See `Likelihood.advance`."""
        batch = Batch("advance", (values,), (state,), (a, b))
        state, increments = self._evaluated(batch, b - a, self._trial(values))
        return state, increments

    def evaluate(self, values: Array, b: int) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        batch = Batch("evaluate", (values,), (), (b,))
        state, total = self._evaluated(batch, b, self._trial(values))
        return state, total

    def _trial(self, values: Array) -> Batch:
        return Batch("evaluate", (values,), (), (min(TRIAL_SAMPLES, self.n_samples),))


class DistributedDiffused(Distributed):
    """The same of a `DiffusedLikelihood`."""

    def at_diffusion(self, factor: float) -> Self:
        """See `DiffusedLikelihood.at_diffusion`."""
        return self._of(self._home.at_diffusion(factor))


class DistributedEstimate(_Distributed):
    """The `EstimatedLikelihood` contract, of which workers evaluate large batches.

    Parameters and keys travel; the filters are run there.
    """

    @property
    def state_particles(self) -> int:
        """See `EstimatedLikelihood.state_particles`."""
        return self._home.state_particles

    @property
    def look_ahead(self) -> bool:
        """See `EstimatedLikelihood.look_ahead`."""
        return self._home.look_ahead

    def with_state_particles(self, number: int) -> Self:
        """See `EstimatedLikelihood.with_state_particles`."""
        return self._of(self._home.with_state_particles(number))

    def with_look_ahead(self, look_ahead: bool) -> Self:
        """See `EstimatedLikelihood.with_look_ahead`."""
        other = self._of(self._home.with_look_ahead(look_ahead))
        other._cost = Cost()
        return other

    def suited(self, values: Array) -> Self:
        """See `EstimatedLikelihood.suited`."""
        return self.with_look_ahead(self._home.suited(values).look_ahead)

    def n_keys(self, b: int) -> int:
        """See `EstimatedLikelihood.n_keys`."""
        return self._home.n_keys(b)

    def estimate(self, values: Array, keys: Keys, b: int) -> Array:
        """See `EstimatedLikelihood.estimate`."""
        batch = Batch("estimate", (values, keys), (), (b,))
        return self._evaluated(batch, b, self._trial(values, keys), self.state_particles)[0]

    def guided(self, values: Array, b: int) -> NDArray[np.bool_]:
        """See `EstimatedLikelihood.guided`."""
        return self._home.guided(values, b)

    def advance_keyed(
        self, values: Array, keys: Keys, state: Array, a: int, b: int
    ) -> tuple[Array, Array]:
        """See `EstimatedLikelihood.advance_keyed`."""
        batch = Batch("advance_keyed", (values, keys), (state,), (a, b))
        trial = self._trial(values, keys)
        state, increments = self._evaluated(batch, b - a, trial, self.state_particles)
        return state, increments

    def _trial(self, values: Array, keys: Keys) -> Batch:
        return Batch("estimate", (values, keys), (), (min(TRIAL_SAMPLES, self.n_samples),))
