"""A measured record: inputs and outputs on a time axis, and what the input does in between."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from mmap import mmap
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from smcpn.base.arguments import Index, check_fields, checked, whole
from smcpn.base.late_binding import late_bound
from smcpn.base.tables import Card, Table, WithCard
from smcpn.base.units import duration, time_unit
from smcpn.errors import InputError, listed, real_number, shown
from smcpn.model.dose import as_doses

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
InputFunction = Callable[[Array], ArrayLike]

BESIDE = ("y_sd", "y_lower", "y_upper")
"""What may be known of every value of y, each an array of its shape."""
HOLDS = ("zoh", "foh", "bandlimited")
MOST = 100_000
"""Most columns and repetitions of a record."""
COARSEST = 0.25
"""Rounding of times, relative to their interval, from which on samples are not told apart."""
CONTEXT = 64
"""Input samples a slice remembers on either side, so that interpolation sees across its ends."""


class Cut(NamedTuple):
    """The record that another one is a part of, and the number of its first sample there."""

    whole: Record
    first: int


@checked
@dataclass(frozen=True, eq=False)
class Record(WithCard):
    """Inputs ``u`` and outputs ``y`` of one experiment.

    Parameters
    ----------
    u : array_like, shape (T,) or (T, n_inputs), or callable, optional
        Input samples; of a file of gigabytes ``np.load("u.npy", mmap_mode="r")``, which is read
        as it is needed. A function of time, ``u(t) -> (len(t),)`` or ``(len(t), n_inputs)``,
        where the input is known between samples too; it then needs no ``hold``.
        None for a system without input.
    y : array_like, shape (T,) or (T, n_outputs), optional
        Output samples; NaN marks a missing one. None where there is nothing to compare with.
    y_sd : array_like, shape of ``y``, optional
        Standard deviation of each value, where it is known: ``noise="y_sd"`` of `smcpn.Problem`
        takes it, and a formula of the noise may have it as an argument. NaN for an output of which
        none is known, whose noise is another: ``noise=["y_sd", "sigma"]``.
    y_lower, y_upper : array_like, shape of ``y``, optional
        Limits of a value that was not measured itself, and is NaN in ``y``: below a detection limit
        it has an ``y_upper``, of a sensor that saturates an ``y_lower``, and both in an interval;
        NaN elsewhere. For a stream whose samples may have them, give columns of NaN.
    doses : sequence of Dose or dict
        Amounts that enter states at known times, at once or over a while, at and between samples:
        ``[smcpn.Dose(0.0, "gut", 320.0)]``. A problem inserts samples without outputs at these
        times in its own records.
    dt : float, optional
        Sampling interval, in ``t_unit``. Give either ``dt`` or ``t``.
    t : array_like, shape (T,), optional
        Sampling times in ``t_unit``, strictly increasing.
    hold : {"foh", "zoh", "bandlimited"}
        The input between samples: linear, held, or the band-limited signal through the samples
        (by FFT where ``periodic``, by a windowed sinc otherwise). On real records this choice
        can matter more than the solver.
    periodic : bool
        The record is whole periods of a steady state.
    start : float
        Time of the first sample where ``dt`` is given.
    y_unit : str or sequence of str
        Unit of the outputs, or of each of them, for tables and figures: ``["mg/L", "%"]``. It is
        kept as one text, ``"mg/L, %"``.
    t_unit : str
        Unit of time, for tables and figures: ``"h"``. Rates and dead times of the model are in it
        too; nothing is converted. Records of one problem have the same.
    name : str
        Used in messages and figures.

    Raises
    ------
    InputError
        For unsorted or repeated times, NaN in ``u``, unequal lengths, an unknown hold, and a dose
        that is not given between the first and the last sample.

    Examples
    --------
    >>> record = Record(u=[0.0, 1.0, 1.0], y=[0.0, np.nan, 0.4], dt=0.1, y_unit="m")
    >>> len(record), record.interval
    (3, 0.1)
    """

    u: Any = None
    y: Any = None
    dt: float | None = None
    t: Any = None
    hold: str = "foh"
    periodic: bool = False
    start: float = 0.0
    y_unit: str | Sequence[str] = ""
    t_unit: str = "s"
    name: str = "record"
    y_sd: Any = None
    y_lower: Any = None
    y_upper: Any = None
    doses: Any = ()
    u_function: InputFunction | None = None
    t_before: Array | None = None
    u_before: Array | None = None
    u_after: Array | None = None
    cut: Cut | None = None
    held: int = 0

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        check_fields(
            self, "name", "y_unit", "t_unit", "periodic", "u_function", "t_before", "u_before",
            "u_after", "cut", "held",
        )  # fmt: skip
        put("t_unit", time_unit(self.t_unit))
        given = () if isinstance(self.y_unit, str) else tuple(self.y_unit)
        if not isinstance(self.y_unit, str):
            put("y_unit", _joined_units(given))
        if callable(self.u):
            put("u_function", self.u)
            put("u", None)
        t: Any = self.t
        if t is not None:
            t = _numbers(t, "t", self.name)
            if t.ndim != 1:
                raise InputError(f"{self.name}: t must be one-dimensional, not {t.shape}")
        start = real_number(f"{self.name}: start", self.start, "give a time", argument="start")
        put("start", start)
        if self.dt is not None:
            remedy = "give a positive number, in the unit of time"
            put("dt", real_number(f"{self.name}: dt", self.dt, remedy, "dt", above=0.0))
        y = None if self.y is None else _columns(self.y, "y", self.name)
        u = None if self.u is None else _columns(self.u, "u", self.name)
        put("t", _times(t, self.dt, self.start, _length(u, y, t, self.name), self.name))
        if self.u_function is not None and u is None:
            u = _columns(self._called(self.u_function), "u", self.name)
        put("u", np.empty((len(self.t), 0)) if u is None else u)
        put("y", np.full((len(self.t), 0), np.nan) if y is None else y)
        if given and y is not None and len(given) != y.shape[1]:
            raise InputError(
                f"{self.name}: y_unit has {_count(len(given), 'unit')} for "
                f"{_count(y.shape[1], 'output')}: give one for all, or one for each",
                argument="y_unit",
            )
        for name, values in (("u", self.u), ("y", self.y)):
            length = len(np.asarray(values))
            if length != len(self.t):
                raise InputError(
                    f"{self.name}: {name} has {length} samples but the time axis has {len(self.t)}"
                )
        for name in BESIDE:
            if getattr(self, name) is not None:
                put(name, self._checked_beside(name))
        self._check_values()
        self._check_beside()
        put("doses", as_doses(self.doses, self.name))
        self._check_doses()
        # A record is not changed by what its user does to the arrays afterwards, nor by us.
        for values in (self.t, self.u, self.y, *self._of_y().values()):
            np.asarray(values).setflags(write=False)

    @overload
    @classmethod
    def from_dataframe(
        cls,
        df: Any,
        *,
        outputs: str | Sequence[str] = (),
        inputs: str | Sequence[str] = (),
        time: str | None = None,
        dt: float | None = None,
        t_unit: str | None = None,
        hold: str = "foh",
        to: Mapping[str, str] | None = None,
        name: str = "record",
        experiment: None = None,
        y_sd: str | Sequence[str] = (),
        y_lower: str | Sequence[str] = (),
        y_upper: str | Sequence[str] = (),
    ) -> Record: ...
    @overload
    @classmethod
    def from_dataframe(
        cls,
        df: Any,
        *,
        outputs: str | Sequence[str] = (),
        inputs: str | Sequence[str] = (),
        time: str | None = None,
        dt: float | None = None,
        t_unit: str | None = None,
        hold: str = "foh",
        to: Mapping[str, str] | None = None,
        name: str = "record",
        experiment: str,
        y_sd: str | Sequence[str] = (),
        y_lower: str | Sequence[str] = (),
        y_upper: str | Sequence[str] = (),
    ) -> list[Record]: ...
    @classmethod
    @late_bound
    def from_dataframe(
        cls,
        df: Any,
        *,
        outputs: str | Sequence[str] = (),
        inputs: str | Sequence[str] = (),
        time: str | None = None,
        dt: float | None = None,
        t_unit: str | None = None,
        hold: str = "foh",
        to: Mapping[str, str] | None = None,
        name: str = "record",
        experiment: str | None = None,
        y_sd: str | Sequence[str] = (),
        y_lower: str | Sequence[str] = (),
        y_upper: str | Sequence[str] = (),
    ) -> Record | list[Record]:
        """Return the record of some columns of a dataframe, or one of each experiment in it.

        Parameters
        ----------
        df : dataframe or xarray.Dataset
            Of pandas, polars or another library that narwhals reads (extra ``dataframe``). Units
            are those of ``df.attrs["units"]``, a mapping by column, and of the variables and
            coordinates of a dataset.
        outputs, inputs : str or sequence of str
            Columns of y, where a missing value is a missing sample, and of u; rows whose ``MDV`` or
            ``EVID``, if it is no column named here, is not 0 have no y.
        time : str, optional
            Column of numbers, dates or durations; of the latter two the first sample is at 0 and
            the unit seconds, unless ``to`` says another. Give either it or ``dt``.
        dt, hold, name
            See `Record`. Times within 0.1 % of an interval of equal spacing count as equally
            spaced.
        t_unit : str, optional
            Unit of ``dt``, or of a column of numbers whose unit is not known; seconds by default.
        to : mapping of str to str, optional
            Units that columns are converted to: ``{"x": "m", "date": "day"}``.
        experiment : str, optional
            Column that tells experiments apart: a list with the record of each comes back, in the
            order in which they begin.
        y_sd, y_lower, y_upper : str or sequence of str
            Columns of what a record has beside y, in the unit of their output; one for each, ""
            where there is none.

        Raises
        ------
        InputError
            If a column is not there or does not hold numbers or times, a unit is not known or does
            not convert, and as `Record`.

        Examples
        --------
        >>> record = smcpn.Record.from_dataframe(  # doctest: +SKIP
        ...     df, inputs="force", outputs=["x", "v"], time="date", to={"date": "h"})
        """
        ...

    def __getstate__(self) -> dict[str, Any]:
        # A file is sent by its name, and times that follow from dt not at all.
        # Nor is the whole record sent with a part of it.
        own = vars(self) | {"cut": None}
        state = {name: InFile.of(value) or value for name, value in own.items()}
        return state if self.dt is None else {**state, "t": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            found = value.read() if isinstance(value, InFile) else value
            object.__setattr__(self, name, found)
        if self.t is None:
            object.__setattr__(self, "t", _times(None, self.dt, self.start, len(self.u), self.name))

    def _called(self, function: InputFunction) -> ArrayLike:
        try:
            return function(self.t)
        except Exception as error:
            why = f"{type(error).__name__}: {shown(str(error))}"
            raise InputError(
                f"{self.name}: u(t) fails ({why}): give a function of an array of times",
                argument="u",
            ) from error

    def _check_values(self) -> None:
        bad = np.argwhere(~np.isfinite(self.u))
        if len(bad):
            raise InputError(
                f"{self.name}: u is {self.u[tuple(bad[0])]} at sample {bad[0][0]}: an input must "
                "be known at every sample (only y may be missing)",
                argument="u",
            )
        if np.isinf(self.y).any():
            sentence = f"{self.name}: y is infinite at sample {_first(np.isinf(self.y))}"
            raise InputError(sentence, argument="y")
        if not isinstance(self.hold, str) or self.hold not in HOLDS:
            sentence = f"{self.name}: hold is {shown(self.hold)}, none of {', '.join(HOLDS)}"
            raise InputError(sentence, argument="hold")
        if self.hold == "bandlimited" and not self.held and not self.uniform:
            raise InputError(
                f"{self.name}: hold 'bandlimited' needs uniform sampling; "
                "choose 'foh', or resample the record",
                argument="hold",
            )

    def _checked_beside(self, name: str) -> Array:
        """Return y_sd, y_lower or y_upper as an array of the shape of y."""
        given = _columns(getattr(self, name), name, self.name)
        if given.shape != self.y.shape:
            raise InputError(
                f"{self.name}: {name} has shape {given.shape} and y {self.y.shape}: give one "
                "number for each value of y, NaN where there is none",
                argument=name,
            )
        return given

    def _check_beside(self) -> None:
        """Refuse deviations and limits that a value cannot have."""
        if all(getattr(self, name) is None for name in BESIDE):
            return
        columns, has_sd = (beside(self, name) for name in BESIDE), stated_outputs([self])
        for name, where, why in faults_beside(self.y, *columns, has_sd=has_sd):
            if where.any() and getattr(self, name) is not None:
                place = tuple(np.argwhere(where)[0])
                given = f"{name} is {getattr(self, name)[place]:g} at sample {place[0]}"
                raise InputError(f"{self.name}: {given}: {why}", argument=name)

    def _check_doses(self) -> None:
        """Refuse doses before or after the record; one that was cut out may have such."""
        if self.u_before is not None:
            return
        for dose in self.doses:
            if not self.t[0] <= dose.time <= self.t[-1]:
                raise InputError(
                    f"{self.name}: a dose is given at {dose.time:g}, and the record reaches from "
                    f"{self.t[0]:g} to {self.t[-1]:g}: leave it out, begin the record earlier, by "
                    "samples whose y is NaN, or give what is left of it as the initial state",
                    argument="doses",
                )

    def _of_y(self) -> dict[str, Array]:
        """Arrays of the outputs by the names of fields: y, and those given beside it."""
        given = {name: getattr(self, name) for name in ("y", *BESIDE)}
        return {name: values for name, values in given.items() if values is not None}

    @property
    def limits(self) -> bool:
        """True if values may be known by limits, whether or not one is."""
        return self.y_lower is not None or self.y_upper is not None

    @property
    def limited(self) -> NDArray[np.bool_]:
        """True where limits are known in place of a value, (T, n_outputs)."""
        limited = np.zeros(self.y.shape, dtype=bool)
        for limits in (self.y_lower, self.y_upper):
            if limits is not None:
                limited |= np.isfinite(limits)
        return limited

    @property
    def told(self) -> NDArray[np.bool_]:
        """True where something is known of an output, its value or a limit, (T, n_outputs)."""
        return np.isfinite(self.y) | self.limited

    def __len__(self) -> int:
        return len(self.t)

    @override
    def card(self) -> Card:
        return Card(Table(title=repr(self)[1:-1]))

    def picture(self) -> Figure | None:
        """Figure of inputs and outputs."""
        return self.plot()

    @late_bound
    def plot(self) -> Figure:
        """Plot inputs and outputs over time."""
        ...

    def __repr__(self) -> str:
        spacing = (
            f"every {duration(self.interval, self.t_unit)}"
            if self.uniform
            else "at irregular times"
        )
        hold = "a function" if self.u_function is not None else self.hold
        given = self.n_inputs - self.held
        inputs = f"{_count(given, 'input')} ({hold})" if given else "no input"
        if self.doses:
            inputs += f", {_count(len(self.doses), 'dose')}"
        outputs = _count(self.n_outputs, "output") if self.n_outputs else "no output"
        samples = f"{self.given.sum()} samples"
        return f"<Record '{self.name}': {samples} {spacing}, {inputs}, {outputs}>"

    @property
    def given(self) -> NDArray[np.bool_]:
        """True for the samples that a problem has not inserted where doses arrive, (T,)."""
        return given_among(self.u, self.held)

    @property
    def n_inputs(self) -> int:
        """Number of inputs, with those that tell of the doses of a problem's record."""
        return self.u.shape[1]

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.y.shape[1]

    def unit_of(self, output: Index) -> str:
        """Unit of an output by its number: that of all where one is known, "" where none is."""
        units = str(self.y_unit).split(_BETWEEN_UNITS)
        return units[output if output < len(units) else 0]

    @property
    def uniform(self) -> bool:
        """True if the sampling interval is the same throughout, to 1e-9 and rounding."""
        if self.dt is not None or len(self.t) < 3:
            return True
        steps = np.diff(self.t)
        # Seconds since 1970 are rounded to a quarter of a microsecond.
        rounding = 4 * np.finfo(float).eps * np.abs(self.t).max()
        return bool(np.ptp(steps) <= 1e-9 * steps.mean() + rounding)

    @property
    def interval(self) -> float:
        """Sampling interval, the mean one where it varies."""
        if self.dt is not None:
            return self.dt
        return float(self.t[-1] - self.t[0]) / (len(self.t) - 1)

    @property
    def smooth(self) -> bool:
        """True if the input has no jump or kink at the samples."""
        known = self.u_function is not None or self.n_inputs == 0
        return known or self.hold == "bandlimited"

    def __getitem__(self, index: slice) -> Record:
        """Cut out the samples ``record[a:b]``; the input beyond the cut stays known.

        The part remembers what it was cut from: a posterior that learned from the beginning of the
        whole runs through what lies between.
        """
        if not isinstance(index, slice) or index.step not in (None, 1):
            raise InputError(f"{self.name}: slice a record as record[a:b], without a step")
        try:
            a, b, _ = index.indices(len(self))
        except TypeError:
            raise InputError(
                f"{self.name}: the slice is {shown(index)}: give whole numbers"
            ) from None
        if b <= a:
            raise InputError(f"{self.name}: the slice [{a}:{b}] is empty")
        before, after = self.input_around()
        whole, first = self.cut or (self, 0)
        return self._with(
            cut=Cut(whole, first + a),
            u=self.u[a:b],
            **({name: one[a:b] for name, one in self._of_y().items()} | self._no_outputs),
            t=self.t[a:b],
            start=float(self.t[a]),
            periodic=self.periodic and b - a == len(self),
            t_before=self._times_before(a),
            u_before=np.concatenate([before, self.u[max(0, a - CONTEXT) : a]])[-CONTEXT:],
            u_after=np.concatenate([self.u[b : b + CONTEXT], after])[:CONTEXT],
        )

    def _times_before(self, place: int) -> Array | None:
        """Times of the inputs known before a sample; None where they follow from dt."""
        if self.dt is not None:
            return None
        known = np.empty(0) if self.t_before is None else self.t_before
        return np.concatenate([known, self.t[:place]])[-CONTEXT:]

    def input_around(self) -> tuple[Array, Array]:
        """Input samples known before and after the record, each (n, n_inputs), n may be 0."""
        if self.periodic:
            u = self.u[self.given]
            reach = min(CONTEXT, len(u))
            return u[-reach:], u[:reach]
        nothing = np.empty((0, self.n_inputs))
        return (
            nothing if self.u_before is None else self.u_before,
            nothing if self.u_after is None else self.u_after,
        )

    def hide(self, a: int, b: int) -> Record:
        """Mark the outputs ``[a, b)`` as missing: simulated through, but not compared."""
        hidden = {name: one.copy() for name, one in self._of_y().items()}
        for one in hidden.values():
            one[a:b] = np.nan
            one.setflags(write=False)
        return self._with(**hidden)

    def unmeasured(self, n_outputs: Annotated[int, whole(0, MOST)]) -> Record:
        """Return the record with ``n_outputs`` outputs of which no sample is known."""
        y = np.full((len(self), n_outputs), np.nan)
        y.setflags(write=False)
        return self.with_outputs(y)

    def with_outputs(self, y: Any) -> Record:
        """Return the record with other outputs, (T,) or (T, n_outputs); NaN is a missing sample."""
        return self._with(**dict.fromkeys(BESIDE), y=y)

    def with_doses(self, doses: Any) -> Record:
        """Return the record with other doses, as of `smcpn.read_doses`.

        Raises
        ------
        InputError
            If they do not fit the record, or this is a problem's, which has samples for its doses.
        """
        if self.held:
            raise InputError(
                f"{self.name}: it is a problem's record, with samples where its doses arrive: give "
                "doses to the record that the problem was made of"
            )
        return self._with(doses=doses)

    def with_hold(self, hold: str) -> Record:
        """Return the record with another input between samples."""
        return self._with(hold=hold)

    def repeat(self, times: Annotated[int, whole(1, MOST)]) -> Record:
        """Play a periodic record several times in a row.

        With ``record.repeat(2).hide(0, len(record))`` the first period only brings the state
        to its steady state.
        """
        if not self.periodic or self.dt is None:
            raise InputError(f"{self.name}: only a periodic record with dt can be repeated")
        return self._with(
            cut=None,
            u=np.tile(self.u, (times, 1)),
            **({n: np.tile(one, (times, 1)) for n, one in self._of_y().items()} | self._no_outputs),
        )

    def followed_by(self, more: Record) -> Record:
        """Append samples that were measured after these.

        With ``dt`` they follow at once, whatever time they begin at; with ``t`` their times must.

        Raises
        ------
        InputError
            If the columns or intervals differ, the times overlap, the record is periodic, or its
            input is a function.
        """
        reason = self._not_continued_by(more)
        if reason:
            raise InputError(f"{self.name} cannot be continued by {more.name}: {reason}")
        return self._with(
            cut=None,
            u=np.concatenate([self.u, more.u]),
            **{
                name: np.concatenate([one, getattr(more, name)])
                for name, one in self._of_y().items()
            },
            t=np.concatenate([self.t, more.t]),
            u_after=more.u_after,
            doses=(*self.doses, *more.doses),
        )

    @property
    def _no_outputs(self) -> dict[str, None]:
        """The argument y of a record without outputs."""
        return {} if self.n_outputs else {"y": None}

    def _not_continued_by(self, more: Record) -> str:
        if self.periodic or self.u_function is not None or more.u_function is not None:
            return "it is periodic" if self.periodic else "the input is a function of time"
        if (self.n_inputs, self.n_outputs) != (more.n_inputs, more.n_outputs):
            return "it has other inputs or outputs"
        if self._of_y().keys() != more._of_y().keys():
            return "only one of them has y_sd, y_lower or y_upper"
        if self.t_unit != more.t_unit:
            return f"its time is in {more.t_unit}, not {self.t_unit}"
        if (self.dt is None) != (more.dt is None) or self.dt != more.dt:
            return f"its dt is {more.dt}, not {self.dt}"
        if self.dt is None and more.t[0] <= self.t[-1]:
            return f"it begins at t = {more.t[0]:g}, not after {self.t[-1]:g}"
        return ""

    def _with(self, **changes: Any) -> Record:
        """Replace fields; the time axis follows from dt where there is one."""
        if self.dt is not None:
            changes["t"] = None
        return replace(self, **changes)


_BETWEEN_UNITS = ", "


def inputs_at(record: Record, t: Array) -> Array:
    """Inputs at any times from the first to the last sample, (m, n_inputs): held or linear ones.

    Or those of the function that the input is.
    """
    u = np.empty((len(t), record.n_inputs))
    if record.u_function is not None:
        u[:] = np.reshape(record.u_function(t), u.shape)
    elif record.hold == "zoh":
        u[:] = record.u[np.searchsorted(record.t, t, side="right") - 1]
    else:
        for j in range(record.n_inputs):
            u[:, j] = np.interp(t, record.t, record.u[:, j])
    return u


def _joined_units(units: Sequence[str]) -> str:
    """Units of several outputs as one text; one for all where they are the same."""
    if len(set(units)) == 1:
        return units[0]
    return _BETWEEN_UNITS.join(one.replace(_BETWEEN_UNITS, ",") for one in units)


class InFile(NamedTuple):
    """An array of floats that is a part of a file, for another process to read."""

    path: str
    offset: int
    shape: tuple[int, ...]
    modified: int

    @classmethod
    def of(cls, array: Any) -> InFile | None:
        """Return where an array is; None where it is in no file that is mapped for reading."""
        root = array
        while isinstance(root, np.ndarray) and isinstance(root.base, np.ndarray):
            root = root.base
        if not isinstance(root, np.memmap) or root.filename is None or root.mode != "r":
            return None
        place = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        path = os.fspath(root.filename)
        return cls(path, root.offset + place, array.shape, os.stat(path).st_mtime_ns)

    def read(self) -> Array:
        """Map the part of the file."""
        try:
            if os.stat(self.path).st_mtime_ns == self.modified:
                return np.asarray(np.memmap(self.path, float, "r", self.offset, self.shape))
        except (OSError, ValueError):
            pass
        raise InputError(
            f"{self.path} is not the file of the record: have every worker see the same file under "
            "the same name, or give the record as arrays"
        )


def as_records(records: Record | Sequence[Record]) -> tuple[Record, ...]:
    """Accept one record or several."""
    single = isinstance(records, np.ndarray) and records.ndim == 0
    if single or not isinstance(records, (Record, Iterable)):
        raise InputError(f"records is {shown(records)}: give an smcpn.Record or a list of them")
    several = (records,) if isinstance(records, Record) else tuple(records)
    if not several:
        raise InputError("no record: give at least one smcpn.Record")
    for record in several:
        if not isinstance(record, Record):
            raise InputError(f"a record is {type(record).__name__}: give an smcpn.Record")
        if (record.n_inputs, record.n_outputs) != (several[0].n_inputs, several[0].n_outputs):
            raise InputError(
                f"records '{several[0].name}' and '{record.name}' differ in the number of inputs "
                "or outputs"
            )
        if record.t_unit != several[0].t_unit:
            raise InputError(
                f"records '{several[0].name}' and '{record.name}' count time in "
                f"{several[0].t_unit} and {record.t_unit}: convert one of them (t_unit)"
            )
    return several


def beside(record: Record, name: str) -> Array:
    """One of y_sd, y_lower and y_upper of a record, of the shape of y; NaN where not given."""
    given = getattr(record, name)
    return np.full(record.y.shape, np.nan) if given is None else given


def stated_outputs(records: Sequence[Record]) -> NDArray[np.bool_]:
    """True for outputs of which records have standard deviations of the values, (q,)."""
    stated = [np.isfinite(beside(record, "y_sd")).any(axis=0) for record in records]
    return np.asarray(np.any(stated, axis=0))


def check_values_alone(record: Record, who: str) -> None:
    """Refuse a record of which ``who`` would pass over doses, deviations or limits."""
    known = {name: getattr(record, name) for name in ("doses", *BESIDE)}
    more = [name for name, one in known.items() if one is not None and len(one)]
    if more:
        raise InputError(
            f"{record.name} has {listed(more)}, which {who} does not take: leave them out, or "
            "identify a model, which does",
            argument="records",
        )


def faults_beside(
    y: Array, sd: Array, lower: Array, upper: Array, *, has_sd: NDArray[np.bool_]
) -> Iterator[tuple[str, NDArray[np.bool_], str]]:
    """Yield what y_sd, y_lower and y_upper may not be: the name, where it is, and the remedy.

    has_sd: (q,), outputs that have a y_sd, for every value then.
    """
    measured = np.isfinite(y)
    positive = "give a positive standard deviation for every value of y, or of an output for none"
    yield "y_sd", (sd <= 0.0) | (measured & has_sd & ~np.isfinite(sd)), positive
    twice = "y is measured there: give NaN in y for a value known by its limits"
    yield "y_lower", measured & np.isfinite(lower), twice
    yield "y_upper", measured & np.isfinite(upper), twice
    yield "y_upper", lower >= upper, "give a limit above y_lower"


def _columns(values: Any, name: str, record: str) -> Array:
    array = _numbers(values, name, record)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InputError(
            f"{record}: {name} has shape {array.shape}: give (samples,) or (samples, channels)"
        )
    return array


def _numbers(values: Any, name: str, record: str) -> Array:
    """Copy into an array of floats what holds real numbers and nothing else.

    An array that nobody can write to, such as one of a file that is open for reading, is taken.
    """
    try:
        given = np.asarray(values)
        if given.dtype == np.float64 and given.flags.c_contiguous and _is_fixed(given):
            return given
        kind = given.dtype.kind
        if kind in "mM":
            raise InputError(
                f"{record}: {name} holds {given.dtype}: give times as floats, for instance "
                f"({name} - {name}[0]) / np.timedelta64(1, 's')"
            )
        if kind == "c":
            raise InputError(
                f"{record}: {name} is complex: give its real part, or both parts as two columns"
            )
        if kind in "SU":
            raise InputError(f"{record}: {name} is not an array of numbers but of text")
        return np.array(given, dtype=float, order="C")
    except InputError:
        raise
    except Exception as error:
        # An object may raise anything when it is asked for numbers.
        reason = " ".join(str(error).split())
        raise InputError(f"{record}: {name} is not an array of numbers ({reason})") from error


def _is_fixed(array: Any) -> bool:
    """True if neither an array nor one that it is a part of can be written to."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None or isinstance(array, mmap)


def _length(u: Array | None, y: Array | None, t: Any, record: str) -> int:
    lengths = {
        name: len(values) for name, values in (("t", t), ("u", u), ("y", y)) if values is not None
    }
    if not lengths:
        raise InputError(f"{record}: give t, or samples of u or y")
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise InputError(f"{record}: unequal numbers of samples ({counts})")
    length = next(iter(lengths.values()))
    if length < 2:
        counted = f"{length} sample{'s' * (length != 1)}"
        raise InputError(f"{record}: {counted}; a record needs at least two")
    return length


def _times(t: Array | None, dt: float | None, start: float, length: int, record: str) -> Array:
    if (t is None) == (dt is None):
        raise InputError(f"{record}: give either dt or t")
    if t is None:
        last = start + float(dt) * length  # type: ignore[arg-type]
        if np.spacing(max(abs(start), abs(last))) > COARSEST * float(dt):  # type: ignore[arg-type]
            raise InputError(
                f"{record}: start is {start:g}, where floating point does not tell times apart "
                f"that are dt = {dt:g} from each other: begin nearer to 0",
                argument="start",
            )
        times = np.arange(length, dtype=float)
        times *= float(dt)  # type: ignore[arg-type]
        times += start
        return times
    if not np.isfinite(t).all():
        raise InputError(
            f"{record}: t must be finite, it is not at sample {_first(~np.isfinite(t))}"
        )
    gaps = np.diff(t)
    if (gaps <= 0).any():
        at = _first(gaps <= 0) + 1
        what = "repeats" if gaps[at - 1] == 0 else "comes before"
        raise InputError(
            f"{record}: time {t[at]:g} of sample {at} {what} the one before it: "
            "sort the times and merge repeated ones"
        )
    return t


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _first(mask: NDArray[np.bool_]) -> int:
    return int(np.argwhere(mask)[0][0])


def given_among(u: Array, held: int) -> NDArray[np.bool_]:
    """True for samples, by their inputs (m, n), that were not inserted where doses arrive, (m,)."""
    return u[:, -held] == 0.0 if held else np.full(len(u), True)


def by_name(records: Sequence[Record]) -> dict[str, Record]:
    """Return records by their names; numbers from 0 tell apart the same ones."""
    names = [record.name for record in records]
    if len(set(names)) < len(names):
        names = [f"{name}, record {k}" for k, name in enumerate(names)]
    return dict(zip(names, records, strict=True))


def trained_on(records: Sequence[Record]) -> dict[str, Record]:
    """Return training records as tests, where there is no other, by names that say so."""
    return {f"{name} (trained on)": record for name, record in by_name(records).items()}
