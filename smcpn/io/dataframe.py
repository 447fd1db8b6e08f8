"""Columns of dataframes as samples: pandas, polars and whatever else narwhals reads, and xarray."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, listed, shown, visible
from smcpn.io.unmeasured import flags_among, without_twins, without_unmeasured
from smcpn.model.record import Record
from smcpn.model.units_and_times import DATED, MeasuredSamples, Names, RecordColumns, told_unit

Array = NDArray[np.float64]
_log = logging.getLogger(__name__)


def records_of(
    kind: type[Record],
    df: Any,
    *,
    outputs: Names,
    inputs: Names,
    time: str | None,
    dt: float | None,
    t_unit: str | None,
    hold: str,
    to: Mapping[str, str] | None,
    name: str,
    experiment: str | None,
    y_sd: Names,
    y_lower: Names,
    y_upper: Names,
) -> Record | list[Record]:
    """Return the record of some columns of a dataframe, as `smcpn.Record.from_dataframe` says."""
    beside = {"y_sd": y_sd, "y_lower": y_lower, "y_upper": y_upper}
    wanted = RecordColumns.of(outputs, inputs, time, dt, t_unit, hold, to, beside)
    every, experiments = Columns(df).measured(wanted, experiment)
    found = [
        wanted.record(
            "df", f"{name} [{label}]" if label else name, every.of(without_twins(every, rows))
        )
        for label, rows in experiments
    ]
    told_unit(found, wanted.states_unit)
    return found[0] if experiment is None else found


class Columns:
    """Columns of a dataframe as arrays of floats, by name.

    A dataset of xarray has one dimension, whose coordinate is a column.
    """

    def __init__(self, df: Any) -> None:
        self._units = _units(df)
        if hasattr(df, "to_dataframe"):
            df = _of_dataset(df)
        try:
            narwhals = import_module("narwhals")
        except ImportError:
            raise InputError(
                "dataframes are read by narwhals, which is not installed: "
                "pip install smcpn[dataframe]"
            ) from None
        try:
            self._frame = narwhals.from_native(df, eager_only=True)
        except TypeError:
            raise InputError(
                f"df is {shown(type(df).__name__)}: give a dataframe of pandas or polars (of a "
                "lazy one its collect()) or an xarray.Dataset",
                argument="df",
            ) from None
        except Exception as error:
            # Of narwhals, for instance where two columns have one name.
            raise InputError(
                f"df cannot be read ({shown(str(error))}): give columns names of their own",
                argument="df",
            ) from error

    def measured(
        self, wanted: RecordColumns, experiment: str | None
    ) -> tuple[MeasuredSamples, list[tuple[str, NDArray[np.int_]]]]:
        """Return samples, and the label and the rows of each experiment among them.

        Raises `InputError` if a column is not there, or does not hold numbers, times or labels.
        """
        u, y = self._matrix(wanted.inputs, "inputs"), self._matrix(wanted.measured, "outputs")
        t, units = None, dict(self._units)
        if wanted.time is not None:
            t, dated = self._times(wanted.time)
            units |= {wanted.time: DATED} if dated else {}
        flags = flags_among(map(str, self._frame.columns), wanted.columns)
        y, told = without_unmeasured(y, {one: self._numbers(one, "outputs") for one in flags})
        if told:
            _log.warning("%s", visible(f"df: {told}"))
        every = [("", np.arange(len(y)))]
        rows = every if experiment is None else self._experiments(experiment)
        return MeasuredSamples(t, u, y, units), rows

    def _matrix(self, names: Sequence[str], argument: str) -> Array:
        """Values of columns, (T, n), NaN where they are missing."""
        columns = [self._numbers(name, argument) for name in names]
        return np.column_stack(columns) if columns else np.empty((len(self._frame), 0))

    def _times(self, name: str) -> tuple[Array, bool]:
        """Times of a column, (T,), seconds from the first of dates; whether these are dates."""
        column = self._column(name, "time")
        if column.is_null().any():
            raise InputError(
                f"time: column {shown(name)} has missing values: drop these rows",
                argument="time",
            )
        kind = type(column.dtype).__name__
        if kind not in ("Date", "Datetime", "Duration"):
            return self._numbers(name, "time"), False
        if kind == "Datetime" and column.dtype.time_zone is not None:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        times = column.to_numpy()
        unit = "datetime64[ns]" if kind != "Duration" else "timedelta64[ns]"
        elapsed = np.asarray(times).astype(unit)
        return (elapsed - elapsed[:1]).astype("timedelta64[ns]").astype(np.int64) / 1e9, True

    def _experiments(self, name: str) -> list[tuple[str, NDArray[np.int_]]]:
        """Labels in a column, in the order in which they begin, and the rows of each."""
        labels = self._column(name, "experiment").to_list()
        rows: dict[str, list[int]] = {}
        for row, label in enumerate(labels):
            if label is None or label != label:
                raise InputError(
                    f"experiment: column {shown(name)} has no label in row {row}: fill it in, or "
                    "drop the row",
                    argument="experiment",
                )
            rows.setdefault(f"{label:g}" if isinstance(label, float) else str(label), []).append(
                row
            )
        return [(label, np.array(found)) for label, found in rows.items()]

    def _numbers(self, name: str, argument: str) -> Array:
        column = self._column(name, argument)
        if not (column.dtype.is_numeric() or type(column.dtype).__name__ == "Boolean"):
            cure = "convert it first"
            if argument == "time":
                cure += ", dates in texts by pandas.to_datetime or str.to_datetime of polars"
            raise InputError(
                f"{argument}: column {shown(name)} holds {column.dtype}, not numbers: {cure}",
                argument=argument,
            )
        values = column.to_numpy()
        if values.dtype.kind not in "fiub":
            values = [np.nan if value is None else float(value) for value in column.to_list()]
        return np.asarray(values, dtype=float)

    def _column(self, name: str, argument: str) -> Any:
        known = list(self._frame.columns)
        if name not in known:
            raise InputError(
                f"{argument} names {shown(name)}, which is no column: choose from "
                f"{listed(map(str, known))}",
                argument=argument,
            )
        return self._frame[name]


def _of_dataset(dataset: Any) -> Any:
    """A dataset of one dimension as a dataframe of pandas, the coordinate among its columns."""
    dimensions = list(dataset.dims)
    if len(dimensions) != 1:
        raise InputError(
            f"df has the dimensions {shown(dimensions)}: select one along which the samples follow",
            argument="df",
        )
    if not hasattr(dataset, "data_vars"):
        raise InputError(
            "df is an xarray.DataArray: give to_dataset(name=...), or to_dataset(dim=...) of one "
            "whose channels are a dimension",
            argument="df",
        )
    return dataset.to_dataframe().reset_index()


def _units(df: Any) -> dict[str, str]:
    """Units by column: ``df.attrs["units"]``, and those that a dataset has for its variables."""
    attributes = getattr(df, "attrs", None)
    units = attributes.get("units") if isinstance(attributes, dict) else None
    found = {str(k): str(v) for k, v in units.items()} if isinstance(units, dict) else {}
    for name, variable in getattr(df, "variables", {}).items():
        if "units" in variable.attrs:
            found[str(name)] = str(variable.attrs["units"])
    return found
