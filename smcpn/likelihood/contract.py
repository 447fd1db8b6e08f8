"""The contract of a likelihood as samplers evaluate it, exact or estimated without bias.

A `LikelihoodView` has its first samples, some of the columns, or is a power of it. Calls for many
points at once are those that executors cut, send and gather: a class that is `Batchable` names its
methods of that kind, and how they are cut follows from the names of their arguments, `AXES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeIs, override

from smcpn.likelihood.inputs import CHUNK

Arrays = tuple[NDArray[Any], ...]

AXES = {
    "values": 0, "keys": 0, "directions": 0, "positions": 0, "seeds": 0, "state": -1, "numbers": -1
}  # fmt: skip
"""Axis of the points in an argument; that of all results is the last. Others are of all points."""
TRIAL_SAMPLES = 64
"""Samples over which the cost of a point is measured, and workers prove themselves."""


@dataclass(frozen=True)
class Batch:
    """A call of a method for many points: its name, and its arguments by name."""

    method: str
    arguments: Mapping[str, Any]

    def __len__(self) -> int:
        arrays = ((AXES[name], value) for name, value in self.arguments.items() if name in AXES)
        return next(value.shape[axis] for axis, value in arrays if value is not None)

    def take(self, some: slice) -> Batch:
        """Return the call for some of the points."""
        part = dict(self.arguments)
        for name in part.keys() & AXES.keys():
            if part[name] is not None:
                part[name] = part[name][some] if AXES[name] == 0 else part[name][..., some]
        return replace(self, arguments=part)

    def of(self, likelihood: Any) -> Arrays:
        """Call the method."""
        arguments = {
            name: np.ascontiguousarray(value)
            if AXES.get(name) == -1 and value is not None
            else value
            for name, value in self.arguments.items()
        }
        found = getattr(likelihood, self.method)(**arguments)
        return found if isinstance(found, tuple) else (found,)

    @property
    def others(self) -> dict[str, Any]:
        """Arguments that are the same for all points."""
        return {name: value for name, value in self.arguments.items() if name not in AXES}

    def with_arguments(self, **arguments: Any) -> Batch:
        """Return the call with other arguments."""
        return replace(self, arguments={**self.arguments, **arguments})


class Batchable:
    """An object with methods for many points at once that workers can evaluate.

    batches: Names of these methods.
    one_tells_form: Whether a call for one point is cheap enough to tell the form of the results.
    lanes: int, points that are computed together.
    """

    batches: ClassVar[tuple[str, ...]] = ()
    one_tells_form: ClassVar[bool] = True
    lanes: Any
    n_samples: Any
    state_particles: int = 0

    def detached(self) -> Any:
        """Copy on one thread, of machine code and rows only, which can be pickled."""
        raise NotImplementedError

    def unit(self, batch: Batch) -> int:
        """Points of a call that are computed together."""
        return self.lanes

    def work(self, batch: Batch) -> float:
        """Samples of the call for each point, times its state particles."""
        arguments = batch.arguments
        samples = arguments.get("share", 1.0) * self.n_samples
        if "b" in arguments:
            samples = arguments["b"] - arguments.get("a", 0)
        return samples * max(1, self.state_particles)

    def trial(self, batch: Batch) -> Batch:
        """Return a short call whose time tells the cost, and by which workers prove themselves."""
        if "b" in batch.arguments:
            a, b = batch.arguments.get("a", 0), batch.arguments["b"]
            return batch.with_arguments(b=min(b, a + TRIAL_SAMPLES))
        return batch.with_arguments(share=min(1.0, TRIAL_SAMPLES / max(self.n_samples, 1)))


Array = NDArray[np.float64]
Keys = NDArray[np.uint64]

NO_KEYS: Keys = np.empty((0, 0), dtype=np.uint64)
"""Those of an exact likelihood."""


class Derivatives(Protocol):
    """The logarithm of a likelihood over all samples with its gradient, for many points at once."""

    def value_and_gradient(self, values: Array, /) -> tuple[Array, Array]:
        """Log-likelihood (N,) and derivatives (N, d) at ``values``, not finite if diverged."""
        ...

    @property
    def gradient_cost(self) -> float:
        """Evaluations that a gradient costs, the same number on every machine."""
        ...


class Likelihood(Protocol):
    """p(y_0, ..., y_{T-1} | theta) as a recursion over samples, for N points at once.

    A point is theta and keys u, the seeds of the random numbers of an estimate; an exact likelihood
    has none. The state s_k is all that the samples to come depend on besides the point: where a
    solver is, and how uncertain. With s_{-1} = `start`, `advance` computes sample after sample

        s_k = F_k(s_{k-1}, theta, u),    l_k = log p(y_k | y_0, ..., y_{k-1}, theta),

    and `accumulate` the sum of the increments, equal to rounding, whatever the blocks. A NaN or
    infinite increment marks a point whose solution diverged.

    ``values`` are parameter values in natural coordinates, (N, d); ``keys`` are (N, B) or wider,
    B = `n_keys` of the samples in question, and no key is used by two blocks of samples. A state is
    an array with the points on its last axis, (k, N); k may be 0.

    Attributes
    ----------
    n_samples : int
        Number of samples T.
    state_particles : int
        Number of state particles N_x of each filter of an estimate; 0 of an exact likelihood.
    look_ahead : bool
        Whether `evaluate` looks ahead where it can.
    derivatives : callable or None
        Makes or returns the likelihood with its gradient, where there is one.
    """

    n_samples: int
    state_particles: int = 0
    look_ahead: bool = False
    derivatives: Callable[[], Derivatives] | None = None

    def n_keys(self, b: int) -> int:
        """Number of keys that a point needs for the first b samples."""
        return 0

    def start(self, values: Array) -> Array:
        """State before the first sample, (k, N)."""
        ...

    def advance(
        self, values: Array, state: Array, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        """State s_{b-1} from s_{a-1}, and the increments l_a, ..., l_{b-1}, (b - a, N).

        The exponential of the sum of the increments of an estimate is unbiased at every sample, and
        the same whatever the blocks in which it is computed.
        """
        ...

    def accumulate(
        self, values: Array, state: Array | None, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        """State s_{b-1} from s_{a-1}, None for the start, and l_a + ... + l_{b-1}, (N,).

        Added in the order of time, so that it does not depend on how many are in memory.
        """
        state, total = self.start(values) if state is None else state, np.zeros(len(values))
        for begin in range(a, b, CHUNK):
            end = min(begin + CHUNK, b)
            state, increments = self.advance(values, state, begin, end, keys)
            total = np.add.reduce(np.vstack([total, increments]))
        return state, total

    def evaluate(self, values: Array, b: int, keys: Keys = NO_KEYS) -> tuple[Array, Array]:
        """State s_{b-1} and log p(y_0, ..., y_{b-1} | theta), (N,).

        The filter of an estimate may look ahead as far as sample b - 1: the estimate of fewer
        samples is none of its parts, and it leaves no state.
        """
        return self.accumulate(values, None, 0, b, keys)


class EstimatedLikelihood(Likelihood, Protocol):
    """p(y | theta) estimated without bias by a particle filter of the states, one for each theta.

    A filter *is* its theta and one 64-bit key for each block of samples, from which all of its
    random numbers come: the same arguments give the same bytes, for any threads, and in whatever
    company a theta is evaluated. With independent uniform keys u, E_u Z(theta, u) = p(y | theta).
    So a sampler over (theta, u) that targets p(theta) Z(theta, u) has the exact posterior as its
    marginal, for any number of state particles (Andrieu and Roberts 2009). An estimate of zero
    (-inf), or NaN, excludes a theta.

    References
    ----------
    Andrieu, C., Roberts, G. O. (2009). The pseudo-marginal approach for efficient Monte Carlo
    computations. Annals of Statistics 37. Chopin, N., Jacob, P. E., Papaspiliopoulos, O. (2013).
    SMC^2. JRSS B 75.
    """

    @property
    def n_steps(self) -> int:
        """Solver steps over all records, of one state particle."""
        ...

    def with_state_particles(self, number: int) -> EstimatedLikelihood:
        """Copy with another number of state particles, by the same compiled code."""
        ...

    def with_look_ahead(self, look_ahead: bool) -> EstimatedLikelihood:
        """Copy with filters that look ahead, or do not."""
        ...

    def suited(self, values: Array) -> EstimatedLikelihood:
        """Copy with the filters that estimate better at some thetas, (m, d)."""
        ...

    def guided(self, values: Array, b: int) -> NDArray[np.bool_]:
        """True where `evaluate` looks ahead at a theta, (N,); else it is a bootstrap filter."""
        ...


class DiffusedLikelihood(Likelihood, Protocol):
    """A likelihood whose solver has a diffusion that can be raised without compiling anew."""

    def at_diffusion(self, factor: float) -> Likelihood:
        """Copy with the standard deviation of the diffusion times ``factor``."""
        ...


def is_estimated(likelihood: Likelihood) -> TypeIs[EstimatedLikelihood]:
    """True if a likelihood is an estimate, whose points have keys."""
    return likelihood.state_particles > 0


class LikelihoodView(Likelihood):
    """An exact likelihood as another one sees it: of fewer samples or columns, or to a power.

    n_samples: First samples that there are; all, by default.
    power: Factor on every log-density.
    unread: Last columns of ``values`` that are no parameters of the likelihood.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        *,
        n_samples: int | None = None,
        power: float = 1.0,
        unread: int = 0,
    ) -> None:
        self._likelihood, self._power, self._unread = likelihood, power, unread
        self.n_samples = likelihood.n_samples if n_samples is None else n_samples

    @override
    def start(self, values: Array) -> Array:
        return self._likelihood.start(self._own(values))

    @override
    def advance(
        self, values: Array, state: Array, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        state, increments = self._likelihood.advance(self._own(values), state, a, b)
        return state, self._power * increments

    @override
    def accumulate(
        self, values: Array, state: Array | None, a: int, b: int, keys: Keys = NO_KEYS
    ) -> tuple[Array, Array]:
        state, total = self._likelihood.accumulate(self._own(values), state, a, b)
        return state, self._power * total

    def _own(self, values: Array) -> Array:
        return np.ascontiguousarray(values[:, : values.shape[1] - self._unread])
