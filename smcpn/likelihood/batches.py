"""Calls of methods for many points at once, which executors cut, send and gather.

A class that is `Batchable` names its methods of that kind; how they are cut follows from the names
of their arguments, `AXES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

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

    Attributes
    ----------
    batches : tuple of str
        Names of these methods.
    one_tells_form : bool
        Whether a call for one point is cheap enough to tell the form of the results.
    lanes : int
        Points that are computed together.
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
