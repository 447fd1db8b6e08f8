"""One sample as a source delivers it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Inputs and outputs at one time.

    Attributes
    ----------
    line : int
        Its line in the source, from 1; its place among the samples where there are no lines.
    t : float, optional
        Time in seconds, where the source states it.
    u : numpy.ndarray, shape (n_inputs,)
    y : numpy.ndarray, shape (n_outputs,)
        NaN marks a missing output.
    number : int, optional
        Sequence number, where the source states it: sampling intervals since the time zero.
    """

    line: int
    t: float | None
    u: Array
    y: Array
    number: int | None = None
