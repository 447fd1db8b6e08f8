"""A whole CSV file: every line must be a sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from smcpn.errors import InputError
from smcpn.problem import Problem
from smcpn.record import Record
from smcpn.streaming.channels import BadLineError, Channels
from smcpn.streaming.csv_lines import CsvLines
from smcpn.streaming.sample import Sample


def csv_record(path: Path, problem: Problem) -> Record:
    """Read samples that follow the last record of a problem, sampled as that is.

    Raises
    ------
    InputError
        If the file cannot be read, a line is no sample (it is named), or the times of the samples
        do not fit the interval of the record.
    """
    samples = csv_samples(path, content_lines(path), CsvLines(Channels.of(problem)))
    last, times = problem.records[-1], [sample.t for sample in samples]
    u, y = (np.array([getattr(sample, name) for sample in samples]) for name in ("u", "y"))
    if last.dt is None:
        if None in times:
            raise InputError(f"{path} has no column t: the record it continues has times")
        return Record(u=u, y=y, t=times, hold=last.hold, name=str(path))
    if None not in times:
        _require_interval(path, np.array(times, dtype=float), last)
    return Record(u=u, y=y, dt=last.dt, hold=last.hold, name=str(path))


def content_lines(path: Path) -> list[tuple[int, str]]:
    """Return the lines of a file that hold something, with their numbers.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"{path} cannot be read: {reason}") from None
    return [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]


def csv_samples(path: Path, content: list[tuple[int, str]], lines: CsvLines) -> list[Sample]:
    """Read numbered lines of a file.

    Raises
    ------
    InputError
        If a line is no sample (it is named), or there are fewer than two.
    """
    samples: list[Sample] = []
    for number, line in content:
        try:
            sample = lines.parse(number, line)
        except BadLineError as error:
            raise InputError(f"{path}, line {number}: {error}") from None
        if sample is not None:
            samples.append(sample)
    if len(samples) < 2:
        raise InputError(f"{path} has {len(samples)} samples: give at least two")
    return samples


def _require_interval(path: Path, times: np.ndarray, last: Record) -> None:
    """Refuse times that leave a gap: samples would be taken for later ones than they are."""
    expected = last.t[-1] + last.interval * np.arange(1, len(times) + 1)
    wrong = np.flatnonzero(np.abs(times - expected) > 0.01 * last.interval)
    if len(wrong):
        k = int(wrong[0])
        raise InputError(
            f"{path}: t is {times[k]:g} at sample {k}, {expected[k]:g} follows the record at its "
            f"interval of {last.interval:g} s: fill gaps with empty outputs, or leave out t"
        )
