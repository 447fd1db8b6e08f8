"""All that a stream goes on from, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from smcpn.base.stored import Number, Stored, Whole, any_number, counts, finite
from smcpn.io.axis import AxisState
from smcpn.smc.state import SamplerState

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ChangeState(Stored):
    """State of the test for changes of the system, see `smcpn.online.change`.

    since: Sample and time since which it is above zero.
    raised: Whether it has raised an alarm since.
    """

    score: Number = 0.0
    since: tuple[Whole, Number] | None = None
    raised: bool = False


@dataclass(frozen=True)
class StreamState(Stored):
    """The state of a stream at one time, but for its problem, settings and options.

    axis: Where it is on its time axis.
    observed: Samples that the test for changes has seen.
    begin: Number of the first sample of the window that counts.
    counted: Samples of the window that count; the others wait for inputs to come.
    frozen: Whether its population rejuvenates no more.
    awaited: Sample at which a population after an alarm begins, while there is none.
    spawned: Random generators that were made so far.
    t, u, y: (m,), (m, n), (m, w), samples of the window.
    held: (n,), the last input.
    innovation, prediction: (q,), (2, q), of the last sample that was assimilated.
    start: (2, n), mean and deviation of the states at the first sample; (2, 0) for the first
        window.
    noted, states: (m,), (m, n), samples at which means of the states are kept, and these; None
        where nothing is forgotten.
    doses: (D, 5), given so far: time, amount, duration, lag (0 where a parameter is) and number of
        the route.
    """

    axis: AxisState
    change: ChangeState
    observed: Whole
    begin: Whole
    counted: Whole
    frozen: bool
    awaited: Whole | None
    spawned: Annotated[int, Field(ge=0, lt=1 << 32)]
    t: Annotated[Array, finite("T", rising=True)]
    u: Annotated[Array, finite("T", "n")]
    y: Annotated[Array, finite("T", "m", missing=True)]
    held: Annotated[Array, finite("n")]
    innovation: Annotated[Array, any_number("q")]
    prediction: Annotated[Array, any_number(2, "q")]
    start: Annotated[Array, finite(2, None)]
    noted: Annotated[NDArray[np.int64], counts("noted", rising=True)] | None
    states: Annotated[Array, finite("noted", "states")] | None
    population: SamplerState
    doses: Annotated[Array, finite(None, 5)] = field(default_factory=lambda: np.empty((0, 5)))
