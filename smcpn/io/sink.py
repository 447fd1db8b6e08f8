"""The output of a stream: one JSON line per sample."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from smcpn.base.files import opened_output, reason_of
from smcpn.errors import InputError

PROBABILITIES = (0.025, 0.5, 0.975)
PLAIN = (
    "ess", "innovation", "log_evidence", "latency", "late", "lag", "degraded", "projected",
    "rejuvenations", "status", "missing", "approximate",
)  # fmt: skip
"""Attributes of `smcpn.online.State` that a line holds as they are."""


class OutputClosedError(Exception):
    """The reader of standard output has left."""


class JsonSink:
    """Write a line for every sample, at once.

    Raises `InputError` if the file cannot be written.

    path: A file; standard output by default.
    after: Time of the last sample of an earlier run: its file is cut after the line of that sample
        and continued, as if nothing had happened. A new file otherwise.
    """

    def __init__(self, path: str | None, after: float | None = None) -> None:
        self._name = "standard output" if path is None else f"'{path}'"
        try:
            self._file = sys.stdout.buffer if path is None else _continued(path, after)
        except OSError as error:
            raise self._refusal(error) from error

    def write(self, fields: dict[str, Any]) -> None:
        """Write one line.

        Raises `OutputClosedError` when nobody reads standard output any more. Raises `InputError`
        if it cannot be written, on a full disk for instance.
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
            # The failure of the write that left something was raised then.
            with suppress(OSError):
                self._file.close()

    def _refusal(self, error: OSError) -> InputError:
        return InputError(f"{self._name} cannot be written: {reason_of(error)}: give another --to")


def state_fields(
    t: float, state: Any, probabilities: tuple[float, ...] = PROBABILITIES
) -> dict[str, Any]:
    """Return the fields of the line of a sample.

    ``t`` is the time of the sample in seconds; there are no quantiles where ``probabilities`` are
    empty.
    """
    fields = {"t": t, "n": state.sample, "mean": state.mean, "sd": state.sd}
    fields |= {"state_mean": state.state_mean, "state_sd": state.state_sd}
    if probabilities:
        # One call a parameter: each sorts the particles.
        fields["quantiles"] = {
            name: state.quantile(name, list(probabilities)) for name in state.mean
        }
    for name in PLAIN:
        fields[name] = getattr(state, name)
    alarm = state.alarm
    fields["alarm"] = None if alarm is None else {"since": alarm.since, "score": alarm.score}
    return {name: _plain(value) for name, value in fields.items()}


def json_text(fields: Any) -> str:
    """Return an object as one line of JSON, null for a number that is not finite."""
    return json.dumps(_plain(fields), allow_nan=False)


def _plain(value: Any) -> Any:
    """Return a value as JSON knows it: numpy's as Python's, null for what is not finite."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _continued(path: str, after: float | None) -> BinaryIO:
    """Open a file for writing after the line of a sample; a device or a pipe has no lines."""
    if after is None or not os.path.isfile(path):
        return opened_output(Path(path))
    file = open(path, "r+b")  # noqa: SIM115
    file.truncate(_end_of(file, after))
    file.seek(0, os.SEEK_END)
    return file


def _end_of(file: BinaryIO, after: float) -> int:
    """Return the byte offset after the last whole line of a sample up to a time."""
    end = 0
    for line in file:
        try:
            content = json.loads(line) if line.endswith(b"\n") else {}
            before = float(content["t"]) <= after
        except (ValueError, KeyError, TypeError):
            before = False
        if not before:
            break
        end += len(line)
    return end
