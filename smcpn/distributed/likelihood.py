"""The contracts of a likelihood, with large batches evaluated by workers."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.clock import counted_apart
from smcpn.distributed.parts import Message
from smcpn.distributed.tasks import Arrays, Batch, Form, Witness, form_of
from smcpn.distributed.workers import Workers
from smcpn.likelihood.contract import Keys
from smcpn.likelihood.derivatives import at_home

Array = NDArray[np.float64]

TRIAL_SAMPLES = 64
"""Samples over which the cost of a particle is measured, and workers prove themselves."""
WITNESSES = 2
"""Particles that a worker which joins evaluates as the driver did."""


CONTRACTS: dict[str, type[DistributedBatches]] = {}
"""What evaluates a contract by workers; each registers itself under its name."""


def distributed(likelihood: Any, workers: Workers | None) -> Any:
    """Return a likelihood whose large batches the workers evaluate, to the same bytes.

    Parameters
    ----------
    likelihood : CompiledLikelihood, ParticleLikelihood, Tangents or Sweeps
        One that can be `detached` from what it was made of, and names its ``contract``.
    workers : Workers or None
        None for the likelihood itself.
    """
    return likelihood if workers is None else CONTRACTS[likelihood.contract](likelihood, workers)


def evaluated_by(workers: Workers | None) -> Callable[[Any], Any]:
    """Return what `LogLikelihood.evaluated` takes, for workers or for this process."""
    return at_home if workers is None else partial(distributed, workers=workers)


class DistributedBatches:
    """A likelihood at home, and what sends its batches away where that pays.

    Parameters
    ----------
    home : CompiledLikelihood, ParticleLikelihood, Tangents or Sweeps
    workers : Workers

    Attributes
    ----------
    contract : str
        Of what it evaluates.
    """

    contract: ClassVar[str] = ""

    def __init__(self, home: Any, workers: Workers) -> None:
        self._home, self._workers = home, workers
        self._costs: dict[str, float] = {}
        """Seconds of one thread for a particle and sample, by method, as last measured."""
        self._formed: tuple[Any, Form] = (None, ())
        """Call whose results had a form last, and the form."""
        self._message: Message | None = None

    def __init_subclass__(cls) -> None:
        if cls.contract:
            CONTRACTS[cls.contract] = cls

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self._home.n_samples

    @property
    def n_steps(self) -> int:
        """Solver steps over all records, of one parameter vector."""
        return self._home.n_steps

    def start(self, values: Array) -> Array:
        """State before the first sample, (k, N)."""
        return self._home.start(values)

    def _evaluated(self, batch: Batch, work: float, trial: Batch, tried: float) -> Arrays:
        """Evaluate a batch, here or by the workers.

        Parameters
        ----------
        work, tried : float
            Samples of the batch and of ``trial`` for each particle, times what else they cost.
        trial : Batch
            A short one, whose time tells the cost where it is not known, and by two of whose
            particles workers that join prove themselves.
        """
        work *= len(batch)
        if not self._pays(batch.method, work, trial, tried):
            return batch.of(self._home)
        witness = partial(self._witness, trial.take(slice(WITNESSES)))
        if self._message is None:
            self._message = self._workers.sender.message(self._home.detached())
        expected = self._costs.get(batch.method, 0.0) * work
        found, seconds = self._workers.run(
            batch, self._message, self._unit(batch), witness, expected, self._form(batch)
        )
        self._costs[batch.method] = seconds / work
        return found

    def _form(self, batch: Batch) -> Form:
        """Form of the results of a batch, as it is for one of its particles here."""
        call = (batch.method, batch.others)
        if self._formed[0] != call:
            self._formed = call, form_of(self._witness(batch.take(slice(1))).found)
        return self._formed[1]

    def _unit(self, batch: Batch) -> int:
        """Particles of a batch that are computed together."""
        return self._home.lanes

    def _pays(self, method: str, work: float, trial: Batch, tried: float) -> bool:
        """True if a batch costs more than to send it; a trial tells what is not known."""
        if not self._workers.home_seconds:
            return work > 0
        some = trial.take(slice(max(WITNESSES, self._unit(trial))))
        tried *= len(some)
        if method not in self._costs and work > tried:
            begin = self._workers.clock()
            self._witness(some)
            self._costs[method] = (self._workers.clock() - begin) / tried
        return self._costs.get(method, 0.0) * work > self._workers.home_seconds

    def _share(self) -> float:
        """Share of the samples that a trial has."""
        return min(TRIAL_SAMPLES, self.n_samples) / max(self.n_samples, 1)

    def _of(self, home: Any) -> Self:
        """Proxy of another likelihood at home, which is as costly."""
        other = copy(self)
        other._home, other._message, other._formed = home, None, (None, ())
        return other

    def _witness(self, batch: Batch) -> Witness:
        with counted_apart(), np.errstate(all="ignore"):
            return Witness(batch, batch.of(self._home.detached()))


class Distributed(DistributedBatches):
    """The `Likelihood` contract, of which workers evaluate large batches."""

    contract = "exact"

    def advance(self, values: Array, state: Array, a: int, b: int) -> tuple[Array, Array]:
        """State s_{b-1} from s_{a-1}, and the increments l_a, ..., l_{b-1}, (b - a, N)."""
        batch = Batch("advance", (values,), (state,), (a, b))
        state, increments = self._evaluated(batch, b - a, *self._trial(values))
        return state, increments

    def evaluate(self, values: Array, b: int) -> tuple[Array, Array]:
        """State s_{b-1} and log p(y_0, ..., y_{b-1} | theta), (N,)."""
        batch = Batch("evaluate", (values,), (), (b,))
        state, total = self._evaluated(batch, b, *self._trial(values))
        return state, total

    def total(self, values: Array) -> Array:
        """Sum of all that the samples emit, (e, N), of a share of each record as of `blocks`."""
        batch = Batch("total", (values,))
        return self._evaluated(batch, self.n_samples, *self._trial(values))[0]

    def _trial(self, values: Array) -> tuple[Batch, int]:
        samples = min(TRIAL_SAMPLES, self.n_samples)
        return Batch("evaluate", (values,), (), (samples,)), samples


class DistributedDiffused(Distributed):
    """A `DiffusedLikelihood` that is evaluated by workers."""

    contract = "diffused"

    def at_diffusion(self, factor: float) -> Self:
        """Copy with the standard deviation of the diffusion times ``factor``."""
        return self._of(self._home.at_diffusion(factor))


class DistributedTangents(DistributedBatches):
    """`Tangents`, of which workers evaluate large batches."""

    contract = "tangents"

    def derivative(self, values: Array, directions: Array) -> Arrays:
        """Values (N,) and derivatives (N,) along one direction each, (N, d)."""
        return self._at("derivative", (values, directions))

    def gradient(self, values: Array) -> Arrays:
        """Values (N,) and gradients (d, N), of a share of each record from its beginning."""
        return self._at("gradient", (values,))

    def expansion(self, values: Array, share: float = 1.0) -> Arrays:
        """Values (N,), gradients (d, N), information (d, d, N) of `LogLikelihood.expansion`."""
        return self._at("expansion", (values,), share)

    def scores(self, values: Array) -> Arrays:
        """Values (N,), gradients (d, N), and sums of the squares of the samples' scores, (d, N)."""
        return self._at("scores", (values,))

    def _at(self, method: str, rows: Arrays, *share: float) -> Arrays:
        batch, own = Batch(method, rows, (), share), self._share()
        # Products of matrices are of the library there, which a worker has to prove as well.
        tried = method if method == "expansion" else "gradient"
        trial = Batch(tried, (rows[0],), (), (own,))
        return self._evaluated(batch, self.n_samples, trial, own * self.n_samples)

    def _unit(self, batch: Batch) -> int:
        # One point takes as many lanes as it has parameters, where it has no direction of its own.
        along = len(batch.rows) > 1
        return self._home.lanes if along else max(1, self._home.lanes // batch.rows[0].shape[1])


class DistributedSweeps(DistributedBatches):
    """`Sweeps`, of which workers evaluate large batches.

    The passes over samples are run there; what comes before and after them is done here.
    """

    contract = "sweeps"

    def numbers(self, values: Array) -> Array:
        """Numbers that the points compute once, (w, N)."""
        return self._home.numbers(values)

    def gradient(self, values: Array, slopes: Array, adjoints: Array) -> Array:
        """Gradients (d, N) of what `swept` returns."""
        return self._home.gradient(values, slopes, adjoints)

    def swept(self, values: Array, numbers: Array) -> Arrays:
        """Results of `CompiledSweep.run`, of a share of each record from its beginning."""
        batch, share = Batch("swept", (values,), (numbers,)), self._share()
        trial = Batch("swept", (values,), (numbers,), (share,))
        return self._evaluated(batch, self.n_samples, trial, share * self.n_samples)


class DistributedEstimate(DistributedBatches):
    """The `EstimatedLikelihood` contract, of which workers evaluate large batches.

    Parameters and keys travel; the filters are run there.
    """

    contract = "estimated"

    @property
    def state_particles(self) -> int:
        """Number of state particles N_x of each filter."""
        return self._home.state_particles

    @property
    def look_ahead(self) -> bool:
        """True if `estimate` looks ahead where it can."""
        return self._home.look_ahead

    def with_state_particles(self, number: int) -> Self:
        """Copy with another number of state particles."""
        return self._of(self._home.with_state_particles(number))

    def with_look_ahead(self, look_ahead: bool) -> Self:
        """Copy with filters that look ahead, or do not."""
        other = self._of(self._home.with_look_ahead(look_ahead))
        other._costs = {}
        return other

    def suited(self, values: Array) -> Self:
        """Copy with the filters that estimate better at some thetas, (m, d)."""
        return self.with_look_ahead(self._home.suited(values).look_ahead)

    def n_keys(self, b: int) -> int:
        """Number of blocks of the first b samples: keys that their filter needs."""
        return self._home.n_keys(b)

    def estimate(self, values: Array, keys: Keys, b: int) -> Array:
        """Log of the estimate of p(y_0, ..., y_{b-1} | theta), (N,)."""
        batch = Batch("estimate", (values, keys), (), (b,))
        return self._evaluated(batch, b * self.state_particles, *self._trial(values, keys))[0]

    def guided(self, values: Array, b: int) -> NDArray[np.bool_]:
        """True where `estimate` looks ahead at a theta, (N,)."""
        return self._home.guided(values, b)

    def advance_keyed(
        self, values: Array, keys: Keys, state: Array, a: int, b: int
    ) -> tuple[Array, Array]:
        """State after sample b - 1 from that before sample a, and log increments, (b - a, N)."""
        batch = Batch("advance_keyed", (values, keys), (state,), (a, b))
        work = (b - a) * self.state_particles
        state, increments = self._evaluated(batch, work, *self._trial(values, keys))
        return state, increments

    def _trial(self, values: Array, keys: Keys) -> tuple[Batch, int]:
        samples = min(TRIAL_SAMPLES, self.n_samples)
        trial = Batch("estimate", (values, keys), (), (samples,))
        return trial, samples * self.state_particles
