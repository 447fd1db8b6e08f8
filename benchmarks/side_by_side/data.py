"""The record and the prior of every method, as plain numbers: no peer has to import smcpn."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
NAMES = ("m", "c", "k", "k3")


class Data(NamedTuple):
    """The Silverbox paper record, which begins at rest, and the prior.

    u: (T, 2 steps + 1), band-limited input at the ends and middles of the steps before each sample.
    y: (T,), output from the second sample on; the first tells nothing about the parameters.
    h: Length of a Runge-Kutta step.
    noise: Standard deviation.
    loc, scale: (4,), of the normal prior of the logarithms of `NAMES`.
    """

    u: Array
    y: Array
    h: float
    noise: float
    loc: Array
    scale: Array

    def save(self, path: Path) -> None:
        """Write an NPZ file."""
        np.savez(path, **self._asdict())

    @classmethod
    def load(cls, path: Path) -> Data:
        """Read what `save` wrote."""
        with np.load(path) as stored:
            u, y, h, noise, loc, scale = (stored[name] for name in cls._fields)
        return cls(u, y, float(h), float(noise), loc, scale)
