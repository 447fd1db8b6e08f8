"""What comes out: one JSON line per sample."""

from __future__ import annotations

import json
import math
import os
import sys
from typing import Any, BinaryIO

import numpy as np

from smcpn.errors import InputError

PROBABILITIES = (0.025, 0.5, 0.975)


class OutputClosedError(Exception):
    """The reader of standard output has left."""


class JsonSink:
    """Write a line for every sample, at once.

    Parameters
    ----------
    path : str, optional
        A file; standard output by default.
    after : int
        Samples absorbed before: the file of an earlier run is cut after the line of the last of
        them and continued. 0 begins a new file.

    Raises
    ------
    InputError
        If the file cannot be written.
    """

    def __init__(self, path: str | None, after: int = 0) -> None:
        self._name = "standard output" if path is None else f"'{path}'"
        try:
            self._file = sys.stdout.buffer if path is None else _continued(path, after)
        except OSError as error:
            raise self._refusal(error) from error

    def write(self, fields: dict[str, Any]) -> None:
        """Write one line.

        Raises
        ------
        OutputClosedError
            When nobody reads standard output any more.
        InputError
            If it cannot be written, on a full disk for instance.
        """
        try:
            self._file.write(json.dumps(fields, allow_nan=False).encode() + b"\n")
            self._file.flush()
        except BrokenPipeError as error:
            # Python flushes standard output once more at exit: into nothing then.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())
            raise OutputClosedError from error
        except OSError as error:
            raise self._refusal(error) from error

    def close(self) -> None:
        """Close the file; standard output stays open."""
        if self._file is not sys.stdout.buffer:
            self._file.close()

    def _refusal(self, error: OSError) -> InputError:
        return InputError(f"{self._name} cannot be written: {error.strerror}: give another --to")


def state_fields(
    sample: int, t: float, state: Any, probabilities: tuple[float, ...] = PROBABILITIES
) -> dict[str, Any]:
    """Return what a line says of the state after a sample.

    Parameters
    ----------
    sample : int
        Number of samples absorbed, this one included.
    t : float
        Time in seconds.
    state : OnlineState
    probabilities : tuple of float
        Quantiles to tell; none where empty.
    """
    fields = {
        "n": sample,
        "t": t,
        "mean": _numbers(state.mean),
        "sd": _numbers(state.sd),
        "ess": _number(state.ess),
        "innovation": _number(state.innovation),
        "log_evidence": _number(state.log_evidence),
        "latency": _number(state.latency),
        "alarm": bool(state.alarm),
    }
    if probabilities:
        fields["quantiles"] = {f"{p:g}": _numbers(state.quantile(p)) for p in probabilities}
    return fields


def _numbers(values: Any) -> dict[str, Any]:
    return {name: _number(value) for name, value in values.items()}


def _number(value: Any) -> Any:
    """A number as JSON knows it: null where it is not finite, a list for an array."""
    array = np.asarray(value)
    if array.ndim:
        return [_number(entry) for entry in array]
    number = array.item()
    return number if not isinstance(number, float) or math.isfinite(number) else None


def _continued(path: str, after: int) -> BinaryIO:
    """Open a file for writing after the line of a sample."""
    if after == 0 or not os.path.exists(path):
        return open(path, "wb")
    file = open(path, "r+b")  # noqa: SIM115
    file.truncate(_end_of(file, after))
    file.seek(0, os.SEEK_END)
    return file


def _end_of(file: BinaryIO, after: int) -> int:
    end = 0
    for line in file:
        try:
            number = json.loads(line)["n"] if line.endswith(b"\n") else None
        except (ValueError, KeyError, TypeError):
            number = None
        if not isinstance(number, int) or number > after:
            break
        end += len(line)
    return end
