"""When a sample was taken."""

from __future__ import annotations

from smcpn.errors import InputError
from smcpn.streaming.sample import Sample


class Clock:
    """The times of samples.

    A sample's time is the one its source states; else its sequence number times the sampling
    interval; else that of the sample before and one interval. In the last case a bad line keeps
    its place in time.

    Parameters
    ----------
    interval : float, optional
        Sampling interval in seconds; None where the times are irregular.
    start : float
        Time of sequence number zero.
    first : float, optional
        Time of the first sample that states none; ``start`` by default.
    """

    def __init__(self, interval: float | None, start: float, first: float | None = None) -> None:
        self._interval, self._start = interval, start
        # Counted from the last time stated, so that the sum gathers no rounding.
        self._origin, self._ticks = start if first is None else first, 0

    def time_of(self, sample: Sample) -> float:
        """Return the time of a sample.

        Raises
        ------
        InputError
            If it states none and the sampling interval is not known.
        """
        if sample.t is not None:
            return self._set(sample.t)
        if self._interval is None:
            raise InputError(
                f"line {sample.line} states no time and the problem's record is irregular: "
                "send t with every sample"
            )
        if sample.number is not None:
            return self._set(self._start + self._interval * sample.number)
        t = self._origin + self._interval * self._ticks
        self._ticks += 1
        return t

    def bad_line(self) -> None:
        """Count a line that is no sample: where times are counted it keeps its place."""
        self._ticks += 1

    def _set(self, t: float) -> float:
        self._origin, self._ticks = t, 1
        return t
