"""Detection of a change of the system: Page's CUSUM test on the innovations."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from smcpn.checkpoint.stream_state import ChangeState

Array = NDArray[np.float64]

VARIANCE_RATIO = 4.0
"""The test looks for innovations of twice the predicted standard deviation."""
_GAIN, _LOSS = 0.5 * (1.0 - 1.0 / VARIANCE_RATIO), 0.5 * log(VARIANCE_RATIO)


@dataclass(frozen=True)
class Alarm:
    """A change that the innovations make evident.

    sample, t: Sample and time of the alarm.
    since_sample, since: The most likely sample of the change, and its time.
    score: Log likelihood ratio of a change against none.
    """

    sample: int
    t: float
    since_sample: int
    since: float
    score: float


class ChangeTest:
    """CUSUM of the log likelihood ratio of too large innovations against those predicted.

    Per measured output the score grows by log N(e; 0, 4) - log N(e; 0, 1), e being the
    innovation in predicted standard deviations, and it does not fall below zero. Where the model
    is right, e is standard normal and independent, and the mean number of samples between false
    alarms is at least ``samples_between``, whatever the ratio of the variances.

    References
    ----------
    Lorden, G. (1971). Procedures for reacting to a change in distribution. Annals of
    Mathematical Statistics 42: E[T] >= exp(threshold).
    """

    def __init__(self, samples_between: float) -> None:
        self.threshold = log(samples_between)
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.state = ChangeState()

    @property
    def state(self) -> ChangeState:
        """All that it goes on from."""
        return ChangeState(self._score, self._since, self._raised)

    @state.setter
    def state(self, state: ChangeState) -> None:
        # Numbers of their own change faster than a dataclass of them, once for every sample.
        self._score, self._since, self._raised = state.score, state.since, state.raised

    def __call__(self, innovation: Array, sample: int, t: float) -> Alarm | None:
        """Take in the innovations of a sample, (q,), nan where missing."""
        score = self._score
        for e in innovation.tolist():
            if e == e:
                score += _GAIN * e * e - _LOSS
        if score <= 0.0:
            self._score, self._since, self._raised = 0.0, None, False
            return None
        # Bounded, so that the score comes back soon after the innovations did.
        self._score = min(score, 2.0 * self.threshold)
        if self._since is None:
            self._since = sample, t
        if score < self.threshold or self._raised:
            return None
        self._raised = True
        return Alarm(sample, t, *self._since, self._score)
