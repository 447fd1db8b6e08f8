"""How a run went, sample by sample, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LENGTH = 4096
"""Samples remembered at most, the last one besides."""


@dataclass(frozen=True)
class Trace:
    """Effective sample size and log-evidence after every ``stride``-th sample, and after the last.

    The stride doubles whenever more than 4096 samples would be kept. What is kept depends on the
    number of samples only, not on the blocks in which they came.

    Attributes
    ----------
    length : int
        Samples seen.
    stride : int
    kept : ndarray, (n, 2)
        Effective sample size before a rejuvenation, and log p(y_0, ..., y_t), of the samples
        0, stride, 2 stride, ...
    last : ndarray, (2,)
        Of the last sample seen.
    """

    length: int
    stride: int
    kept: Array
    last: Array

    @classmethod
    def empty(cls) -> Trace:
        """Before the first sample."""
        return cls(0, 1, np.empty((0, 2)), np.full(2, np.nan))

    def extended(self, ess: Array, log_evidence: Array) -> Trace:
        """Return the trace after further samples, (n,) of both."""
        new = np.column_stack([ess, log_evidence])
        if not len(new):
            return self
        length, stride = self.length + len(new), self.stride
        kept = np.concatenate([self.kept, new[-self.length % stride :: stride]])
        while len(kept) > LENGTH:
            kept, stride = kept[::2], 2 * stride
        return Trace(length, stride, kept, new[-1])

    @classmethod
    def of_end(cls, length: int, ess: float, log_evidence: float) -> Trace:
        """Of a path that knows nothing before the last of ``length`` samples."""
        return cls(length, length, np.empty((0, 2)), np.array([ess, log_evidence]))

    @property
    def samples(self) -> NDArray[np.int64]:
        """Number of samples assimilated at each entry of the paths."""
        kept = np.arange(len(self.kept), dtype=np.int64) * self.stride + 1
        return np.append(kept, self.length) if self._last_is_extra else kept

    @property
    def ess(self) -> Array:
        """Effective sample size at each of `samples`."""
        return self._column(0)

    @property
    def log_evidence(self) -> Array:
        """Log-evidence at each of `samples`."""
        return self._column(1)

    @property
    def _last_is_extra(self) -> bool:
        return self.length > (len(self.kept) - 1) * self.stride + 1 and self.length > 0

    def _column(self, k: int) -> Array:
        column = self.kept[:, k]
        return np.append(column, self.last[k]) if self._last_is_extra else column.copy()
