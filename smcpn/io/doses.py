"""Doses in a table of their own, or among the samples of a data set as NONMEM has it."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smcpn.arguments import FileName, checked
from smcpn.errors import InputError, listed, shown
from smcpn.model.dose import MOST, Dose

LONGEST = 1 << 28
"""Characters of a table of doses."""
_NONE = ("", ".", "na", "nan")
"""Fields that hold nothing."""
_WORDS = {"amt": "amount", "cmt": "state", "dur": "duration", "f1": "fraction", "alag1": "lag"}
"""Columns of NONMEM by the arguments of a dose."""


@checked
def read_doses(
    path: FileName,
    *,
    states: str | Sequence[str] = (),
    subject: str | None = None,
    lag: float | str = 0.0,
    fraction: float | str = 1.0,
) -> list[Dose]:
    """Return the doses in a file of comma-, semicolon- or tab-separated text.

    Parameters
    ----------
    path : str or path
        Its first line names columns: ``time``, ``amount`` (or ``AMT``), ``state`` (``CMT``), and
        where they are wanted ``duration`` (``DUR``) or ``RATE``, ``lag`` and ``fraction``,
        ``ADDL`` more doses every ``II``, and ``ID``; case does not count, other columns are left
        out. A line without an amount, or whose ``EVID`` is 0, is no dose. Times are those of the
        record, in its unit.
    states : str or sequence of str
        Names of compartments 1, 2, ... where the file has numbers; of the only one where it has no
        such column.
    subject : str, optional
        Value of ``ID`` whose doses are read.
    lag, fraction : float or str
        Of doses for which the file has none, see `Dose`.

    Raises
    ------
    InputError
        If the file cannot be read, or a line is no dose; it names the line.
    """
    names = [states] if isinstance(states, str) else list(states)
    doses: list[Dose] = []
    for line, row in _rows(Path(path)):
        if subject is not None and row.get("id") != subject:
            continue
        try:
            doses += _doses(row, names, {"lag": lag, "fraction": fraction})
        except InputError as error:
            raise InputError(f"{path}, line {line}: {error}", argument="path") from error
        if len(doses) > MOST:
            raise InputError(f"{path} has more than {MOST} doses: give fewer", argument="path")
    return doses


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Lines and their numbers, by the names of columns; fields that hold nothing are left out."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read(LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error})", argument="path") from error
    lines = text.splitlines()
    header = lines[0] if lines else ""
    mark = max(",;\t", key=header.count)
    names = [_WORDS.get(one, one) for one in (n.strip().lower() for n in header.split(mark))]
    if not {"time", "amount"} <= set(names):
        raise InputError(
            f"{path}: the first line names {listed(names) or 'nothing'}: name time and amount "
            "(or AMT) there",
            argument="path",
        )
    rows = csv.reader(lines[1:], delimiter=mark)
    return [
        (
            number,
            {
                name: field.strip()
                for name, field in zip(names, row, strict=False)
                if field.strip().lower() not in _NONE
            },
        )
        for number, row in enumerate(rows, start=2)
    ]


def _doses(row: Mapping[str, str], states: Sequence[str], given: Mapping[str, Any]) -> list[Dose]:
    """Doses of a line."""
    event = _number(row, "evid", 1.0)
    amount = _number(row, "amount", 0.0)
    if event == 0.0 or (amount == 0.0 and "evid" not in row):
        return []
    if event != 1.0:
        raise InputError(f"EVID is {row['evid']}: only doses (1) and samples (0) are read")
    rate, duration = _number(row, "rate", 0.0), _number(row, "duration", 0.0)
    if rate < 0.0:
        raise InputError(f"RATE is {row['rate']}: give the duration of the dose as DUR")
    found = {name: _word(row[name]) for name in ("lag", "fraction") if name in row}
    more, every = _number(row, "addl", 0.0), _number(row, "ii", 0.0)
    if not 0.0 <= more <= MOST or (more and every <= 0.0):
        raise InputError(f"ADDL is {row['addl']} and II {row.get('ii')}: give II above 0")
    return [
        Dose(
            _number(row, "time", None) + k * every,
            _state(row, states),
            amount,
            amount / rate if rate else duration,
            **{**given, **found},
        )
        for k in range(1 + int(more))
    ]


def _state(row: Mapping[str, str], states: Sequence[str]) -> str:
    """State that a dose enters."""
    if "state" not in row:
        if len(states) != 1:
            raise InputError("it has no state: give a column state, or states one name")
        return states[0]
    name = row["state"]
    if not name.isdigit():
        return name
    if not 1 <= int(name) <= len(states):
        raise InputError(
            f"compartment {name} has no name: give states the names of compartments 1, 2, ..."
        )
    return states[int(name) - 1]


def _number(row: Mapping[str, str], name: str, default: float | None) -> float:
    if name not in row and default is not None:
        return default
    value = _word(row.get(name, ""))
    if isinstance(value, str):
        raise InputError(f"{name} is {shown(value)}: give a number")
    return value


def _word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
