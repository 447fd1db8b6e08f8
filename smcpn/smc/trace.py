"""Effective sample size and log-evidence of a run, sample by sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from smcpn.stored import Stored, Whole, finite, number

Array = NDArray[np.float64]


TRACED = 4096
"""Samples of a trace at most, the last one besides."""


@dataclass(frozen=True)
class Trace(Stored):
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
        first, first + stride, first + 2 stride, ...
    last : ndarray, (2,)
        Of the last sample seen.
    first : int
        The first sample after which they are known.
    """

    length: Annotated[Whole, number(0, "T")]
    stride: Annotated[Whole, number(1)]
    kept: Annotated[Array, finite(None, 2, missing=True)]
    last: Annotated[Array, finite(2, missing=True)]
    first: Annotated[Whole, number(0, "T")] = 0

    @classmethod
    def empty(cls) -> Trace:
        """Return the trace before the first sample."""
        return cls(0, 1, np.empty((0, 2)), np.full(2, np.nan))

    def extended(self, ess: Array, log_evidence: Array) -> Trace:
        """Return the trace after further samples, (n,) of both."""
        new = np.column_stack([ess, log_evidence])
        if not len(new):
            return self
        length, stride = self.length + len(new), self.stride
        following = (self.first - self.length) % stride
        kept = np.concatenate([self.kept, new[following::stride]])
        while len(kept) > TRACED:
            kept, stride = kept[::2], 2 * stride
        return Trace(length, stride, kept, new[-1], self.first)

    def corrected(self, log_evidence: float) -> Trace:
        """Return the trace with another log-evidence after the last sample."""
        kept, last = self.kept.copy(), np.array([self.last[0], log_evidence])
        if len(kept) and not self._last_is_extra:
            kept[-1, 1] = log_evidence
        return replace(self, kept=kept, last=last)

    @classmethod
    def of_end(cls, length: int, ess: float, log_evidence: float) -> Trace:
        """Return the trace of a method that has results at the last of ``length`` samples only."""
        end = np.array([ess, log_evidence])
        return cls(length, 1, end[None, :], end, length - 1)

    @property
    def regular(self) -> bool:
        """True if it is what `extended` makes of so many samples from the first known one on."""
        known, stride = self.length - self.first, 1
        while -(-known // stride) > TRACED:
            stride *= 2
        begun = known > 0 or self.length == self.first == 0
        return begun and self.stride == stride and len(self.kept) == -(-known // stride)

    @property
    def samples(self) -> NDArray[np.int64]:
        """Number of samples assimilated at each entry of the paths."""
        kept = self.first + np.arange(len(self.kept), dtype=np.int64) * self.stride + 1
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
        last_kept = self.first + (len(self.kept) - 1) * self.stride
        return self.length > max(last_kept + 1, 0)

    def _column(self, k: int) -> Array:
        column = self.kept[:, k]
        return np.append(column, self.last[k]) if self._last_is_extra else column.copy()
