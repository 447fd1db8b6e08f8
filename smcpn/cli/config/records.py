"""The sections [inputs], [outputs] and [data]: which files hold which samples of what.

Units of columns are converted by `pint`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from smcpn.base.units import model_time, time_unit
from smcpn.cli.config.document import Section, choice, flag, text, texts
from smcpn.errors import InputError, counted, listed, real_number, shown, visible
from smcpn.io.channels import Channels as LineChannels
from smcpn.io.channels import Column, Kind, Slot
from smcpn.io.dialect import DECIMALS
from smcpn.io.doses import doses_left_out, read_doses
from smcpn.io.files import ColumnError, Columns, Layout, read_columns
from smcpn.io.parse import StreamFormat
from smcpn.io.read import chosen, matching
from smcpn.model.entries import spanned
from smcpn.model.record import BESIDE, HOLDS, Record
from smcpn.model.units_and_times import (
    BesideColumns,
    converted,
    dates_as_seconds,
    stated_unit,
    time_axis,
    told_gaps,
)

Array = NDArray[np.float64]
_log = logging.getLogger("smcpn.io")


CLOCKS = ("time", "dt", "rate")
OF_FILES = (
    *CLOCKS, "t_unit", "hold", "periodic", "header", "delimiter", "decimal", "experiment", "doses",
)  # fmt: skip
"""Keys of [data] that hold for all files, and may stand in the entry of one."""
OF_ENTRY = ("file", "name", "samples", "columns", "experiments", *OF_FILES)
OF_UNIT = ("unit", "to")
_SLICE = re.compile(r"\s*(\d{0,18})\s*:\s*(\d{0,18})\s*")


@dataclass(frozen=True)
class Channel:
    """An input or an output of the model, and the column it is in.

    name: An input of the model, or what an output measures.
    section: Where it is described.
    unit: Of the column, where the configuration states it.
    to: Unit to convert it to; none where "".
    beside: Which of y_sd, y_lower and y_upper there are of an output, and their columns.
    """

    name: str
    section: Section
    column: str
    unit: str = ""
    to: str = ""
    beside: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, parent: Section, name: str, known: tuple[str, ...]) -> Channel:
        """Read ``u = "force"`` or ``u = {column = "force", unit = "N"}``."""
        value = parent.table.get(name, name)
        if isinstance(value, str):
            return cls(name, parent, parent.read(name, text, name))
        section = parent.section(name)
        section.refuse_others(known)
        unit, to = (section.optional(one, text) or "" for one in OF_UNIT)
        beside = tuple((one, section.read(one, text)) for one in BESIDE if one in section)
        return cls(name, section, section.read("column", text, name), unit, to, beside)

    @classmethod
    def of_vector(
        cls, parent: Section, name: str, entries: Sequence[str], known: tuple[str, ...]
    ) -> list[Channel]:
        """Read ``x = ["a", "b"]``, ``x = {column = ["a", "b"], y_sd = ["c", "d"], unit = "m"}``.

        Without ``column`` the columns are called ``x[0]``, ``x[1]``, ...

        Raises `ConfigurationError` if there is not one column for each entry.
        """
        short = isinstance(parent.table[name], list)
        section, key = (parent, name) if short else (parent.section(name), "column")
        if not short:
            section.refuse_others(known)
        beside = [] if short else [one for one in BESIDE if one in section]
        columns = [_one_for_each(section, one, entries) for one in (key, *beside)]
        unit, to = ("", "") if short else (section.optional(one, text) or "" for one in OF_UNIT)
        return [
            cls(entry, section, column, unit, to, tuple(zip(beside, others, strict=True)))
            for entry, column, *others in zip(entries, *columns, strict=True)
        ]

    def blamed(self) -> tuple[Section, str | None]:
        """The key of the configuration that an error about the column names."""
        if "column" in self.section.table:
            return self.section, "column"
        return self.section, self.name if self.name in self.section.table else None

    def unit_of(self, noted: str) -> str:
        """Unit of the column, where the file notes ``noted``.

        Raises `ConfigurationError` if file and configuration contradict each other.
        """
        if self.unit and noted and time_unit(self.unit) != time_unit(noted):
            raise self.section.error(
                "unit", f"unit is '{self.unit}', but the file says '{noted}': correct one of them"
            )
        return self.unit or noted

    def values(self, measured: Array, noted: str) -> tuple[Array, str]:
        """Return the column in the unit the model is to see, and that unit."""
        unit = self.unit_of(noted)
        if not self.to:
            return measured, unit
        if not unit:
            raise self.section.error("to", f"to is '{self.to}': say in which unit the column is")
        with self.section.blame("unit" if self.unit else "to"):
            return converted(measured, unit, self.to), self.to


def _one_for_each(section: Section, key: str, entries: Sequence[str]) -> list[str]:
    """Columns of the entries of a vector."""
    columns = list(section.read(key, texts, list(entries)))
    if len(columns) != len(entries):
        raise section.error(
            key,
            f"it has {counted(len(columns), 'column')}: name {len(entries)}, for "
            f"{spanned(entries)}",
        )
    return columns


@dataclass(frozen=True)
class Channels:
    """All inputs and outputs, in the order of the model."""

    inputs: tuple[Channel, ...]
    outputs: tuple[Channel, ...]


@dataclass(frozen=True)
class Reader:
    """Reads the entries of [data].

    data: Keys that hold for all files.
    hold: In place of what the configuration says.
    """

    data: Section
    channels: Channels
    hold: str | None = None
    noted: dict[str, str] = field(default_factory=dict[str, str])
    """Units that the files read so far state, by column."""
    known: dict[tuple[Path, Layout], list[Columns]] = field(
        default_factory=dict[tuple[Path, Layout], list[Columns]]
    )
    """Files read so far: those to learn from and the tests are often parts of one."""

    def of_stream(self) -> StreamFormat:
        """Return how a stream is written: as the first file to learn from.

        Raises `InputError` if that file cannot be read any more.
        """
        entry = self.data.entries("train")[0]
        _, time = self._clock(entry)
        inputs = self._renamed(entry, self.channels.inputs)
        outputs = self._renamed(entry, self.channels.outputs)
        layout = self._layout(entry, time, inputs, outputs)
        unit = self._of(entry, "t_unit").read("t_unit", text, "s")
        columns: dict[Slot, Column] = {("t", 0): Column(to=time_unit(unit))}
        if time is not None:
            unit = self._time_unit(entry, time, self.noted.get(time.column, ""))
            wanted = time_unit(time.to or self._t_unit(entry) or model_time(unit))
            columns["t", 0] = Column(time.column, time.unit, wanted, unit)
        kinds: tuple[tuple[Kind, tuple[Channel, ...]], ...] = (("u", inputs), ("y", outputs))
        for kind, channels in kinds:
            for j, one in enumerate(channels):
                noted = self.noted.get(one.column, "")
                to = one.to or one.unit or noted
                columns[kind, j] = Column(one.column, one.unit, to, noted)
                for name, column in one.beside:
                    own = self.noted.get(column, noted)
                    columns[cast("Kind", name), j] = Column(column, one.unit, to, own)
        u, y = (tuple(one.name for one in channels) for channels in (inputs, outputs))
        return StreamFormat(
            LineChannels(u, y, columns),
            None if layout.header is None else list(layout.header),
            layout.delimiter,
            layout.decimal,
            self._compartments(entry),
        )

    def _compartments(self, entry: Section) -> tuple[str, ...]:
        """Names of compartments 1, 2, and so on in a table of doses."""
        given = entry.table.get("doses", self.data.table.get("doses"))
        states = given.get("states", ()) if isinstance(given, Mapping) else ()
        return (states,) if isinstance(states, str) else tuple(states)

    def records(self, key: str) -> dict[str, Record]:
        """Read the files of ``train`` or ``test``, by name.

        Raises `InputError` naming the line and the key, or the line of the file.
        """
        records: dict[str, Record] = {}
        for entry in self.data.entries(key):
            entry.refuse_others(OF_ENTRY)
            for record in self._records(entry):
                if record.name in records:
                    raise entry.error(None, f"two records are called '{record.name}': give a name")
                records[record.name] = record
        return records

    @property
    def states_unit(self) -> bool:
        """True if the configuration says in which unit the model counts time."""
        entries = self.data.entries("train")
        clocks = [time for _, time in map(self._clock, entries) if time is not None]
        return any("t_unit" in one for one in (self.data, *entries)) or any(
            one.unit or one.to for one in clocks
        )

    def _records(self, entry: Section) -> list[Record]:
        """Records of the files of an entry, and of the experiments in each."""
        file = entry.read("file", text)
        with entry.blame("file"):
            paths = matching(entry.document.beside(file))
        clock, time = self._clock(entry)
        inputs = self._renamed(entry, self.channels.inputs)
        outputs = self._renamed(entry, self.channels.outputs)
        layout = self._layout(entry, time, inputs, outputs)
        labels = entry.optional("experiments", _labels)
        records: list[Record] = []
        for path in paths:
            with entry.blame("file"):
                found = self._columns(path, layout, time, (*inputs, *outputs))
                left_out = doses_left_out(path, layout.wanted)
            if left_out and "doses" not in self._of(entry, "doses"):
                remedy = "state doses in [data]; doses = [] where there are none"
                _log.warning("%s", visible(f"{left_out}: {remedy}"))
            beside, q = _beside(outputs), len(outputs)
            with entry.blame("experiments"):
                found = chosen(path, found, labels)
            name = _name(entry, file if len(paths) == 1 else path.name, path, len(paths) > 1)
            several = len(found) > 1 or layout.experiment is not None
            for one in found:
                self.noted.update(one.units)
                u, _ = _converted(inputs, one.u, one.units)
                y, units = _converted(outputs, one.y, one.units)
                pairs = [(c.unit_of(one.units.get(c.column, "")), c.to) for c in outputs]
                measured: dict[str, Any] = {
                    "u": u,
                    "y": y,
                    **self._axis(entry, one, clock, time),
                    "y_unit": units,
                    **beside.values(one.y[:, q:], pairs, one.units),
                    "name": f"{name} [{one.label}]" if several else name,
                }
                subject = one.label if several else None
                measured["doses"] = self._doses(entry, subject, measured["t_unit"], path)
                records.append(self._record(entry, measured))
        return records

    def _doses(self, entry: Section, subject: str | None, t_unit: str, samples: Path) -> list[Any]:
        """Doses of a record: those listed, or in a file, of the experiment where that has an ID.

        Times in a file are in the unit that it states, or, where it is that of the samples, the
        configuration; else in that of the record.
        """
        given = entry.table.get("doses", self.data.table.get("doses", []))
        with self._of(entry, "doses").blame("doses"):
            if isinstance(given, list):
                return given
            table: dict[str, Any] = {"subject": subject}
            table |= given if isinstance(given, Mapping) else {"file": given}
            if not isinstance(table.get("file"), str):
                raise InputError(
                    f"doses is {shown(given)}: give a list of doses, the name of a file, or a "
                    'table with file = "doses.csv"'
                )
            path = entry.document.beside(table.pop("file"))
            unknown = set(table) - {"states", "subject", "lag", "fraction", "t_unit"}
            if unknown:
                raise InputError(
                    f"doses has {listed(unknown)}: give file, states, subject, lag, fraction and "
                    "t_unit"
                )
            _, time = self._clock(entry)
            if path == samples and time is not None:
                table = {"t_unit": time.unit or self._t_unit(entry)} | table
            return list(read_doses(path, to=t_unit, **table))

    def _record(self, entry: Section, measured: Mapping[str, Any]) -> Record:
        hold = self._of(entry, "hold").read("hold", choice(*HOLDS), "foh")
        with entry.blame(None):
            record = Record(
                **measured,
                hold=hold if self.hold is None else self.hold,
                periodic=self._of(entry, "periodic").optional("periodic", flag) or False,
            )
        samples = entry.read("samples", _samples, slice(None))
        with entry.blame("samples"):
            return told_gaps(record[samples])

    def _columns(
        self,
        path: Path,
        layout: Layout,
        time: Channel | None,
        channels: tuple[Channel, ...],
    ) -> list[Columns]:
        try:
            if (path, layout) not in self.known:
                self.known[path, layout] = read_columns(path, layout)
            return self.known[path, layout]
        except ColumnError as error:
            if error.argument == layout.experiment:
                raise
            if time is not None and error.argument == time.column:
                section, key = time.blamed()
            else:
                named = {one.column: one.blamed() for one in channels}
                named |= {
                    column: (one.section, key) for one in channels for key, column in one.beside
                }
                section, key = named[str(error.argument)]
            raise section.error(key, str(error)) from error

    def _layout(
        self,
        entry: Section,
        time: Channel | None,
        inputs: tuple[Channel, ...],
        outputs: tuple[Channel, ...],
    ) -> Layout:
        header = self._of(entry, "header").optional("header", texts)
        columns = [*(() if time is None else (time,)), *inputs, *outputs]
        for number, channel in enumerate(columns):
            if channel.column in [other.column for other in columns[:number]]:
                section, key = channel.blamed()
                raise section.error(key, f"column '{channel.column}' is used twice")
        measured = (channel.column for channel in outputs)
        return Layout(
            time=None if time is None else time.column,
            inputs=tuple(channel.column for channel in inputs),
            outputs=(*measured, *_beside(outputs).columns),
            header=None if header is None else tuple(header),
            delimiter=self._of(entry, "delimiter").optional("delimiter", _mark),
            decimal=self._of(entry, "decimal").optional("decimal", choice(*DECIMALS)),
            experiment=self._of(entry, "experiment").optional("experiment", text),
        )

    def _renamed(self, entry: Section, channels: tuple[Channel, ...]) -> tuple[Channel, ...]:
        """Channels with the columns that this file has them in."""
        columns = entry.section("columns")
        columns.refuse_others([one.name for one in (*self.channels.inputs, *self.channels.outputs)])
        return tuple(
            Channel(
                name=one.name,
                section=columns,
                column=columns.read(one.name, text),
                unit=one.unit,
                to=one.to,
                beside=one.beside,
            )
            if one.name in columns
            else one
            for one in channels
        )

    def _clock(self, entry: Section) -> tuple[Section, Channel | None]:
        """Return the table that defines the time axis, and the column of times, if there is one."""
        holder = entry if any(key in entry for key in CLOCKS) else self.data
        given = [key for key in CLOCKS if key in holder]
        if len(given) != 1:
            found = f"{' and '.join(given)} are given" if given else "the time axis is missing"
            raise holder.error(
                given[-1] if given else None,
                f'{found}: give one of time = "column", dt = seconds, rate = hertz',
            )
        time = Channel.of(holder, "time", ("column", *OF_UNIT)) if given == ["time"] else None
        return holder, time

    def _axis(
        self, entry: Section, columns: Columns, clock: Section, time: Channel | None
    ) -> dict[str, Any]:
        """Arguments of `Record`: dt, or t where the samples are not equally spaced; the unit."""
        if time is None:
            dt = clock.optional("dt", _above_zero)
            every = 1.0 / clock.read("rate", _above_zero) if dt is None else dt
            return {"dt": every, "t_unit": self._of(entry, "t_unit").read("t_unit", text, "s")}
        assert columns.t is not None
        noted = columns.units.get(time.column, "")
        unit = self._time_unit(entry, time, noted)
        given = noted or time.unit or self._t_unit(entry) or ""
        t = dates_as_seconds(columns.t, given, f"column '{time.column}'")
        with time.section.blame("to" if time.to else "unit" if time.unit else None):
            return time_axis(t, unit, time.to or self._t_unit(entry))

    def _time_unit(self, entry: Section, time: Channel, noted: str) -> str:
        """Unit of a column of times, of which the file notes ``noted``."""
        with self._of(entry, "t_unit").blame("t_unit"):
            return stated_unit(self._t_unit(entry), time.unit_of(noted), f"column '{time.column}'")

    def _t_unit(self, entry: Section) -> str | None:
        """Unit of time that an entry or all of them state."""
        return self._of(entry, "t_unit").optional("t_unit", text)

    def _of(self, entry: Section, key: str) -> Section:
        return entry if key in entry else self.data


def _name(entry: Section, file: str, path: Path, several: bool) -> str:
    """Name of the record of a file: the one given, or that of the file with its samples."""
    if "name" in entry:
        given = entry.read("name", text)
        return f"{given} {path.stem}" if several else given
    cut = f" [{entry.table['samples']}]" if "samples" in entry else ""
    return f"{file}{cut}"


def _converted(
    channels: tuple[Channel, ...], measured: Array, noted: Mapping[str, str]
) -> tuple[Array, list[str]]:
    both = [
        channel.values(measured[:, j], noted.get(channel.column, ""))
        for j, channel in enumerate(channels)
    ]
    if not both:
        return measured, []
    return np.stack([values for values, _ in both], axis=1), [unit for _, unit in both]


def _beside(outputs: tuple[Channel, ...]) -> BesideColumns:
    """Columns of what is known beside the outputs."""
    known = [dict(one.beside) for one in outputs]
    names = [name for name in BESIDE if any(name in one for one in known)]
    return BesideColumns({name: tuple(one.get(name, "") for one in known) for name in names})


def _above_zero(key: str, value: Any) -> float:
    number = real_number(key, value)
    if not number > 0:
        raise InputError(f"{key} is {number:g}: give a number above 0")
    return number


def _mark(key: str, value: Any) -> str:
    if isinstance(value, str) and len(value) == 1:
        return value
    raise InputError(f"{key} is {shown(value)}: give one character")


def _labels(key: str, value: Any) -> list[str]:
    fit = isinstance(value, list) and value and all(isinstance(one, (str, int)) for one in value)
    if fit:
        return [str(one) for one in value]
    raise InputError(f"{key} is {shown(value)}: give a list of labels, as [1, 2]")


def _samples(key: str, value: Any) -> slice:
    match = _SLICE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InputError(
            f'{key} is {shown(value)}: write "0:600" for the first 600, "600:" for the others'
        )
    begin, end = (int(part) if part else None for part in match.groups())
    return slice(begin, end)
