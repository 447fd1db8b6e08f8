"""Detection of a change of the system: Page's CUSUM test on the innovations."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from smcpn.stream_state import ChangeState

Array = NDArray[np.float64]

VARIANCE_RATIO = 4.0
"""The test looks for innovations of twice the predicted standard deviation."""
_GAIN, _LOSS = 0.5 * (1.0 - 1.0 / VARIANCE_RATIO), 0.5 * log(VARIANCE_RATIO)


@dataclass(frozen=True)
class Alarm:
    """A change that the innovations make evident.

    Attributes
    ----------
    sample, t : int, float
        Sample and time of the alarm.
    since_sample, since : int, float
        The most likely sample of the change, and its time.
    score : float
        Log likelihood ratio of a change against none.
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

    Parameters
    ----------
    samples_between : float
        Of false alarms, on average at least.

    Attributes
    ----------
    state : ChangeState

    References
    ----------
    Lorden, G. (1971). Procedures for reacting to a change in distribution. Annals of
    Mathematical Statistics 42: E[T] >= exp(threshold).
    """

    def __init__(self, samples_between: float) -> None:
        self.threshold = log(samples_between)
        self.state = ChangeState()

    def reset(self) -> None:
        """Begin anew."""
        self.state = ChangeState()

    def __call__(self, innovation: Array, sample: int, t: float) -> Alarm | None:
        """Take in the innovations of a sample, (q,), nan where missing."""
        score, raised = self.state.score, self.state.raised
        for e in innovation.tolist():
            if e == e:
                score += _GAIN * e * e - _LOSS
        if score <= 0.0:
            self.reset()
            return None
        since = self.state.since or (sample, t)
        alarmed = score >= self.threshold and not raised
        # Bounded, so that the score comes back soon after the innovations did.
        score = min(score, 2.0 * self.threshold)
        self.state = ChangeState(score, since, raised or alarmed)
        return Alarm(sample, t, *since, score) if alarmed else None
