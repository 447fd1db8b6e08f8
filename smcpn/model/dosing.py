"""Doses in the graphs of a model: a state is a smooth part and what has arrived.

With x = z + sum over routes of F D(t), where D is the amount that has arrived by a route and F the
share of it that enters the state, x jumps with D and z does not:

    z' = f(z + F D(t), u, t),   z(t_0) = x(t_0) - F D(t_0).

z is the state of all kernels. D is constant or linear between the times at which something arrives
or ends. These become samples without outputs, and D is told by numbers of the interval that ends at
a sample, behind the inputs: every likelihood begins anew there, as where an input jumps.

A lag that is a parameter moves arrivals from particle to particle. An interval between samples in
which some may fall is cut into one part more than these are, and time runs at the speed w in a
part, from one arrival to the next:

    dz/ds = w f(z + F D(T), u(T), T),   T = first + w (s - s_0),

where a particle's part begins at `first`, and w is its length over that of the part in s; a part of
no length has w = 0. The kernels take their steps in s and know of no lag; derivatives by it are
those of w and T.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, listed, shown
from smcpn.model.delay import Delay
from smcpn.model.distribution import Distribution, support
from smcpn.model.dose import Dose
from smcpn.model.ode import ODE
from smcpn.model.record import BESIDE, Cut, Record, inputs_at
from smcpn.model.signal import BandLimited, given_function

Array = NDArray[np.float64]
Source = int | float

ARGUMENT = "doses"
TOGETHER = 1e-9
"""Part of a mean sampling interval within which an arrival is at a sample."""
SMOOTH_DEGREE = 8
"""Of the polynomials of an input that is smooth between samples, through nine points."""
CURVES = 6
"""Place of the inputs' coefficients among the numbers of an interval, where a lag is learned."""
MOST_ARRIVALS = 12
"""Arrivals of one route that may fall in one interval between samples."""


class Arrivals(NamedTuple):
    """Times from which something arrives, but for a lag: (m,) each.

    times: Ascending.
    jumps, slopes: By how much the amount that has arrived jumps then, and how much faster it grows
        after it.
    """

    times: Array
    jumps: Array
    slopes: Array

    @classmethod
    def of(cls, doses: Sequence[Dose]) -> Arrivals:
        """Take those of doses of one route; one over a while begins and ends."""
        rows = [(one.begin, one.amount, 0.0) for one in doses if not one.duration]
        for one in doses:
            if one.duration:
                rate = one.amount / one.duration
                rows += [(one.begin, 0.0, rate), (one.end, 0.0, -rate)]
        return cls(*np.array(sorted(rows), dtype=float).reshape(-1, 3).T)


@dataclass(frozen=True)
class Route:
    """Doses that enter one state, with the same fraction and lag.

    fraction, lag: As of `Dose`; a lag that is known is 0: it is in the times of arrival.
    places: State, fraction and lag by their places: of the state in x, and of parameters in theta;
        a number stands for itself.
    bounds: Least and greatest lag.
    slots: Arrivals that may fall in one interval between samples, for a lag that is a parameter.
    """

    state: str
    fraction: float | str
    lag: float | str
    places: tuple[int, Source, Source]
    bounds: tuple[float, float] = (0.0, 0.0)
    slots: int = 0

    @property
    def key(self) -> tuple[str, float | str, float | str]:
        """State, fraction and lag of its doses."""
        return self.state, self.fraction, self.lag

    @property
    def width(self) -> int:
        """Numbers of an interval."""
        return 2 + 3 * self.slots

    def columns(self, doses: Sequence[Dose], begin: Array, end: Array) -> Array:
        """Numbers of the intervals from ``begin`` to ``end``, (m, width).

        They are the amount that has surely arrived after the begin, its rate, and of every arrival
        that may fall in the interval its time, jump and change of the rate.
        """
        columns, most = np.zeros((len(begin), self.width)), self.bounds[1]
        # What may arrive just at the begin has a place of its own, where the lag is a parameter.
        side = "left" if self.slots else "right"
        whole = sorted((one.end + most, one.amount) for one in doses)
        ends, amounts = np.array(whole, dtype=float).reshape(-1, 2).T
        columns[:, 0] = np.append(0.0, np.cumsum(amounts))[np.searchsorted(ends, begin, side)]
        for one in doses:
            if one.duration:
                other = "left" if side == "right" else "right"
                a, b = (int(np.searchsorted(begin, x + most, other)) for x in (one.begin, one.end))
                rate = one.amount / one.duration
                columns[a:b, 0] += rate * (begin[a:b] - one.begin)
                columns[a:b, 1] += rate
        if self.slots:
            columns[:, 2::3] = end[:, None]
            arrivals = Arrivals.of(doses)
            first, last = self.within(arrivals, begin, end)
            for slot in range(self.slots):
                there = first + slot < last
                for k, values in enumerate(arrivals):
                    columns[there, 2 + 3 * slot + k] = values[first[there] + slot]
        return columns

    def within(
        self, arrivals: Arrivals, begin: Array, end: Array
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers [first, last) of the arrivals that may fall in intervals."""
        least, most = self.bounds
        first = np.searchsorted(arrivals.times + most, begin, side="left")
        last = np.searchsorted(arrivals.times + least, end, side="left")
        return first, np.maximum(first, last)


@dataclass(frozen=True)
class Dosing:
    """Routes of the doses of a problem's records, and their part in its graphs.

    n_inputs: Of the equation.
    degree: Of the polynomials of an input within an interval, where a lag is a parameter.
    """

    routes: tuple[Route, ...]
    n_inputs: int
    degree: int = 1

    @classmethod
    def of(
        cls,
        records: Sequence[Record],
        ode: ODE,
        free: Mapping[str, Distribution],
        fixed: Mapping[str, float],
    ) -> Dosing | None:
        """Read the doses of records; None where they have none."""
        keys = dict.fromkeys(route_of(dose) for record in records for dose in record.doses)
        if not keys:
            return None
        routes = [_route(key, ode, free, fixed) for key in keys]
        smooth = bool(ode.inputs) and any(record.smooth for record in records)
        dosing = cls(tuple(routes), len(ode.inputs), SMOOTH_DEGREE if smooth else 1)
        for record in records:
            dosing.check(record)
        return replace(dosing, routes=tuple(_with_slots(one, records) for one in routes))

    @classmethod
    def restored(
        cls,
        routes: Sequence[tuple[str, float | str, float | str, int]],
        ode: ODE,
        free: Mapping[str, Distribution],
        fixed: Mapping[str, float],
        degree: int,
    ) -> Dosing:
        """Make it of the states, fractions, lags and slots of routes, as a file has them."""
        made = [replace(_route(key, ode, free, fixed), slots=n) for *key, n in routes]
        return cls(tuple(made), len(ode.inputs), degree)

    @property
    def lagged(self) -> bool:
        """True if a lag is a parameter."""
        return any(one.slots for one in self.routes)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Fraction and lag of each route: places of parameters, or numbers."""
        return tuple(one for route in self.routes for one in route.places[1:])

    @property
    def learned(self) -> bool:
        """True if a lag or a fraction is a parameter that is not known."""
        return any(isinstance(one, int) for one in self.sources)

    def moving(self, delay: Delay | None) -> Delay | None:
        """Return dead times beside it, which count in a particle's own time."""
        return delay and replace(delay, lagged=self.lagged)

    def over(self, kept: Sequence[int]) -> Dosing:
        """Return it for a model of some of the parameters, by their places, in this order."""

        def place(source: Source) -> Source:
            return kept.index(source) if isinstance(source, int) else source

        routes = (
            replace(one, places=(one.places[0], *map(place, one.places[1:]))) for one in self.routes
        )
        return replace(self, routes=tuple(routes))

    @property
    def width(self) -> int:
        """Numbers of an interval behind the inputs."""
        own = 6 + (self.degree + 1) * self.n_inputs if self.lagged else 2
        return own + sum(one.width for one in self.routes)

    @property
    def names(self) -> tuple[str, ...]:
        """Parameters that are lags and fractions."""
        both = [one for route in self.routes for one in (route.fraction, route.lag)]
        return tuple(dict.fromkeys(one for one in both if isinstance(one, str)))

    # Records

    def check(self, record: Record) -> None:
        """Refuse a record whose doses, or whose input between samples, are not for these graphs."""
        self.check_kinds(record.doses, record.name)
        if not record.doses:
            return
        if self.lagged and self.n_inputs and record.smooth and self.degree == 1:
            raise _refused(
                f"{record.name}: u is smooth between samples, and the problem is posed for inputs "
                "that are held or linear, with a lag that is a parameter: pose it with such a "
                "record too"
            )

    def check_kinds(self, doses: Sequence[Dose], where: str) -> None:
        """Refuse doses of another state, fraction or lag than the problem is posed for."""
        known = [one.key for one in self.routes]
        for dose in doses:
            if route_of(dose) not in known:
                kinds = listed(f"{state} (fraction {f}, lag {lag})" for state, f, lag in known)
                raise _refused(
                    f"{where}: a dose enters {dose.state} (fraction {dose.fraction}, lag "
                    f"{dose.lag}), and the problem is posed for {kinds}: give it one of these, or "
                    "pose the problem with a dose of each kind"
                )

    def prepared(self, record: Record) -> Record:
        """Return a record with samples where doses arrive, and numbers of intervals behind u."""
        if record.held:
            return record
        self.check(record)
        if record.cut is None:
            return self._inserted(record, *self._intervals(record), None)
        whole = self.prepared(record.cut.whole)
        a, b = np.flatnonzero(whole.given)[record.cut.first + np.array([0, len(record) - 1])]
        t, held = whole.t[a : b + 1], whole.u[a : b + 1, -self.width :]
        return self._inserted(record, t, held, Cut(whole, a))

    def _intervals(self, record: Record) -> tuple[Array, Array]:
        """Times of the samples of a record and of those that are inserted, and their numbers."""
        doses, anchors = on_anchors(record)
        begin = np.concatenate([anchors[:1], anchors[:-1]])
        parts = np.ones(len(anchors), dtype=np.int64)
        for route in self.routes:
            found = _may_arrive(route, doses, anchors)
            if route.slots < found.max() and isinstance(route.lag, str):
                raise _refused(
                    f"{record.name}: {found.max()} doses may arrive between two samples, and in "
                    f"the records learned from {route.slots}: add times without outputs"
                )
            parts[1:] += found[1:]
        ends = np.repeat(np.arange(len(anchors)), parts)
        part = np.arange(len(ends)) - np.repeat(np.cumsum(parts) - parts, parts)
        share = (part + 1.0) / parts[ends]
        t = np.where(share == 1.0, anchors[ends], begin[ends] + share * (anchors - begin)[ends])
        held = [1.0 - np.isin(t, record.t), begin[ends]]
        if self.lagged:
            starts = np.append(t[:1], t[:-1])
            lengths = np.where(t > starts, t - starts, 1.0)
            held += [starts, lengths, part, anchors[ends]]
            held.append(self._inputs(record, begin, anchors)[ends])
        # What is given at the first sample comes after it.
        after = np.append(np.nextafter(begin[:1], -np.inf), begin[1:])
        held += [
            route.columns([one for one in doses if route_of(one) == route.key], after, anchors)[
                ends
            ]
            for route in self.routes
        ]
        return t, np.column_stack(held)

    def _inputs(self, record: Record, begin: Array, end: Array) -> Array:
        """Coefficients of the inputs by powers of the time since intervals began, (m, k n)."""
        n, t, u, m = self.n_inputs, record.t, record.u, len(begin)
        if not n:
            return np.empty((m, 0))
        curves = np.zeros((m, self.degree + 1, n))
        if record.smooth:
            share = np.linspace(0.0, 1.0, self.degree + 1)
            lengths = np.where(end > begin, end - begin, 1.0)[:, None]
            points = inputs_at(with_function(record), (begin[:, None] + lengths * share).ravel())
            fitted = np.linalg.inv(np.vander(share, increasing=True)) @ points.reshape(m, -1, n)
            curves[:] = fitted / (lengths ** np.arange(self.degree + 1))[:, :, None]
            return curves.reshape(m, -1)
        last = np.clip(np.searchsorted(t, begin, side="right") - 1, 0, len(t) - 2)
        slope = np.diff(u, axis=0) / np.diff(t)[:, None] * (record.hold == "foh")
        curves[:, 0] = u[last] + slope[last] * (begin - t[last])[:, None]
        curves[:, 1] = slope[last]
        return curves.reshape(m, -1)

    def _inserted(self, record: Record, t: Array, held: Array, cut: Cut | None) -> Record:
        """A record with more samples, which have no outputs."""
        own = held[:, 0] == 0.0
        if own.sum() != len(record):
            raise _refused(f"{record.name}: a dose arrives within rounding of a sample: move it")
        outputs: dict[str, Any] = {}
        for name in ("y", *BESIDE):
            values = getattr(record, name)
            if values is not None:
                outputs[name] = np.full((len(t), values.shape[1]), np.nan)
                outputs[name][own] = values
        blank = {
            name: None if one is None else np.pad(one, ((0, 0), (0, held.shape[1])))
            for name, one in (("u_before", record.u_before), ("u_after", record.u_after))
        }
        even = record.dt is not None and len(t) == len(record)
        given = with_function(record)
        inputs = inputs_at(given, t)
        inputs[own] = record.u
        return replace(
            given, u=np.column_stack([inputs, held]), held=held.shape[1], cut=cut,
            **outputs, **blank, t=None if even else t, dt=record.dt if even else None,
        )  # fmt: skip

    # Graphs

    def symbols(self) -> ca.SX:
        """Symbols of the numbers of an interval, (width, 1)."""
        return ca.SX.sym("held", self.width)

    def nothing(self, u: ca.SX) -> ca.SX:
        """Numbers of an interval in which nothing arrives, (width, 1), under inputs that stay."""
        held = ca.SX.zeros(self.width, 1)
        if not self.lagged:
            return held
        # From 0 to 1, in one part, so that time runs as given; what may arrive does so at its end.
        held[[3, 5]] = 1.0
        held[6 : 6 + self.n_inputs] = u
        begin = 6 + (self.degree + 1) * self.n_inputs
        for route in self.routes:
            held[begin + 2 : begin + route.width : 3] = 1.0
            begin += route.width
        return held

    def applied(self, graph: ca.SX, model: Any, at_sample: bool) -> ca.SX:
        """A graph of x, u and t as one of z, of the numbers of the interval, and of t or s.

        model: Model, whose inputs are those of the equation and `symbols`.
        at_sample: At the sample that ends an interval, before what arrives just then, and not
            within.
        """
        clock = _Clock(self, model, at_sample)
        moved = ca.vertcat(model.x + clock.arrived(), model.t if at_sample else clock.time)
        graph = ca.substitute(graph, ca.vertcat(model.x, model.t), moved)
        delayed = () if model.delay is None else model.delay.inputs
        known = [j for j in range(self.n_inputs) if j not in delayed]
        if at_sample or not self.lagged or not known:
            return graph
        return ca.substitute(graph, model.u[known], clock.inputs[known])

    def edges(self, model: Any) -> ca.SX:
        """Times of a particle at the begin and at the end of an interval, (2, 1)."""
        return ca.vertcat(*_Clock(self, model, False).edges)

    def speed(self, model: Any) -> ca.SX:
        """Speed of time within an interval, w."""
        return _Clock(self, model, False).speed

    def arrived(self, model: Any, at_sample: bool = True) -> ca.SX:
        """Amounts that have arrived in every state, x - z, (n, 1)."""
        return _Clock(self, model, at_sample).arrived()


def as_given(record: Record) -> Record:
    """Return a record without the samples that were inserted where doses arrive."""
    if not record.held:
        return record
    n, own, function = record.n_inputs - record.held, record.given, given_function(record)
    even = record.dt is not None
    outputs = {name: getattr(record, name) for name in ("y", *BESIDE)}
    return replace(
        record, u=record.u[own, :n], u_function=function, held=0, cut=None,
        t=None if even else record.t[own],
        **{name: None if one is None else one[own] for name, one in outputs.items()},
        u_before=None if record.u_before is None else record.u_before[:, :n],
        u_after=None if record.u_after is None else record.u_after[:, :n],
    )  # fmt: skip


def with_function(record: Record) -> Record:
    """Return a record whose band-limited input, if it has one, is known between samples too."""
    if record.hold != "bandlimited" or record.u_function is not None or not record.smooth:
        return record
    function = BandLimited.of(as_given(record))
    return replace(record, u_function=function, t=None if record.dt else record.t)


class _Clock:
    """Time of a particle within an interval, and what has arrived by then.

    edges: Begin and end of the interval, in a particle's own time.
    inputs: (n, 1), of the equation, at that time.
    """

    def __init__(self, dosing: Dosing, model: Any, at_sample: bool) -> None:
        self._dosing, self._model, self._theta = dosing, model, model.theta
        held = list(ca.vertsplit(model.u[dosing.n_inputs :]))
        take = lambda number: [held.pop(0) for _ in range(number)]  # noqa: E731
        # The first says whether the sample was inserted.
        _, self._begin = take(2)
        n = dosing.n_inputs
        own = take(4 + (dosing.degree + 1) * n if dosing.lagged else 0)
        self._routes = [(route, take(route.width)) for route in dosing.routes]
        self.time, self.speed, self.inputs = model.t, ca.SX(1.0), ca.SX(0, 1)
        self._middle, self.edges = model.t, (model.t, model.t)
        if dosing.lagged:
            start, length, part, end, *inputs = own
            first, last = self.edges = self._edges(part, end)
            self.speed = (last - first) / length
            self.time = last if at_sample else first + self.speed * (model.t - start)
            self._middle = last if at_sample else 0.5 * (first + last)
            since = self.time - self._begin
            curves = [inputs[k : k + n] for k in range(0, len(inputs), n or 1)]
            self.inputs = ca.SX(ca.vertcat(*curves.pop())) if n else ca.SX(0, 1)
            for lower in reversed(curves):
                self.inputs = ca.vertcat(*lower) + self.inputs * since

    def arrived(self) -> ca.SX:
        """Amounts that have arrived in every state, (n, 1)."""
        entered = [ca.SX(0.0)] * self._model.x.numel()
        for route, (amount, rate, *slots) in self._routes:
            state, fraction, _ = route.places
            lag = self._lag(route)
            total = amount + rate * (self.time - self._begin - (lag if route.slots else 0.0))
            for time, jump, slope in _triples(slots):
                at = time + lag
                # Within a part it is the same: by its middle, since the begin may be rounded.
                total += ca.if_else(self._middle > at, jump + slope * (self.time - at), 0.0)
            share = self._theta[fraction] if isinstance(fraction, int) else fraction
            entered[state] += share * total
        return ca.vertcat(*entered)

    def _edges(self, part: ca.SX, end: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Begin and end of the part of an interval."""
        cuts = [
            ca.fmin(ca.fmax(time + self._lag(route), self._begin), end)
            for route, (_, _, *slots) in self._routes
            for time, _, _ in _triples(slots)
        ]
        edges = [self._begin, *ascending(cuts), end]
        first, last = (
            sum((ca.if_else(part == k, edge, 0.0) for k, edge in enumerate(some)), ca.SX(0.0))
            for some in (edges[:-1], edges[1:])
        )
        return first, last

    def _lag(self, route: Route) -> ca.SX:
        lag = route.places[2]
        return self._theta[lag] if isinstance(lag, int) else ca.SX(lag)


def on_anchors(record: Record) -> tuple[list[Dose], Array]:
    """Doses of a record, and times of samples and of arrivals that no parameter moves.

    An arrival within rounding of one of these is at it.
    """
    slack, (first, last) = TOGETHER * record.interval, record.t[[0, -1]]
    edges = {edge for one in record.doses if one.known for edge in (one.begin, one.end)}
    between = [-np.inf]
    for edge in sorted(edges):
        new = edge > between[-1] + slack and _nearest(record.t, edge, slack) is None
        between += [edge] if new and first < edge < last else []
    times = np.sort(np.append(record.t, between[1:]))

    def moved(one: Dose) -> Dose:
        if one.end < first - slack or last + slack < one.begin:
            return one
        begin, end = (
            edge if (near := _nearest(times, edge, slack)) is None else near
            for edge in (one.begin, one.end)
        )
        return replace(one, time=begin, duration=end - begin, lag=0.0)

    return [moved(one) if one.known else one for one in record.doses], times


def _nearest(times: Array, time: float, slack: float) -> float | None:
    """Time that is that near to one; None where there is none."""
    place = int(np.searchsorted(times, time))
    near = [one for one in times[max(place - 1, 0) : place + 1].tolist() if abs(one - time) < slack]
    return near[0] if near else None


def _may_arrive(route: Route, doses: Sequence[Dose], anchors: Array) -> NDArray[np.int64]:
    """Arrivals by a route that may fall in the interval that ends at each time, (m,)."""
    if not isinstance(route.lag, str):
        return np.zeros(len(anchors), dtype=np.int64)
    arrivals = Arrivals.of([one for one in doses if route_of(one) == route.key])
    first, last = route.within(arrivals, np.append(anchors[:1], anchors[:-1]), anchors)
    return last - first


def _with_slots(route: Route, records: Sequence[Record]) -> Route:
    """A route with places for all that may arrive in an interval of some records."""
    if not isinstance(route.lag, str):
        return route
    slots = 1
    for record in records:
        most = int(_may_arrive(route, *on_anchors(record)).max())
        if most > MOST_ARRIVALS:
            raise _refused(
                f"{record.name}: {most} doses may arrive between two samples by the prior of "
                f"'{route.lag}': give it narrower bounds, or add times without outputs"
            )
        slots = max(slots, most)
    return replace(route, slots=slots)


def ascending(values: Sequence[ca.SX]) -> list[ca.SX]:
    """The values in ascending order."""
    values = list(values)
    for last in range(len(values) - 1, 0, -1):
        for k in range(last):
            low, high = ca.fmin(*values[k : k + 2]), ca.fmax(*values[k : k + 2])
            values[k : k + 2] = [low, high]
    return values


def _triples(values: Sequence[ca.SX]) -> Iterator[tuple[ca.SX, ca.SX, ca.SX]]:
    return zip(values[::3], values[1::3], values[2::3], strict=True)


def route_of(dose: Dose) -> tuple[str, float | str, float | str]:
    """State, fraction and lag of a dose, as `Route.key` has them."""
    return dose.state, dose.fraction, 0.0 if dose.known else dose.lag


def _route(
    key: Sequence[Any],
    ode: ODE,
    free: Mapping[str, Distribution],
    fixed: Mapping[str, float],
) -> Route:
    state, fraction, lag = key
    if state not in ode.states:
        raise _refused(
            f"a dose names state {shown(state)}, and model '{ode.name}' has "
            f"{listed(ode.states)}: give one of these"
        )
    if state in ode.accumulators:
        raise _refused(
            f"a dose enters {state}, which is set back to zero after every sample: let it enter "
            "another state"
        )
    if state in ode.algebraic:
        raise _refused(
            f"a dose enters {state}, whose equation has no derivative: give a state of a balance"
        )
    names = list(free)

    def source(name: str, value: float | str) -> Source:
        if not isinstance(value, str):
            return value
        if value not in free and value not in fixed:
            raise _refused(
                f"the {name} of a dose is '{value}', which has no prior: give prior={{'{value}': "
                "...} a distribution, or a number to fix it"
            )
        return names.index(value) if value in free else fixed[value]

    places = ode.states.index(state), source("fraction", fraction), source("lag", lag)
    bounds = (0.0, 0.0)
    if isinstance(lag, str):
        bounds = support(free[lag]) if lag in free else (fixed[lag], fixed[lag])
        if not 0.0 <= bounds[0] <= bounds[1] < np.inf or not isfinite(bounds[1]):
            raise _refused(
                f"the lag of a dose is '{lag}', whose prior reaches from {bounds[0]:g} to "
                f"{bounds[1]:g}: give it bounds that are not negative, such as those of "
                "scipy.stats.uniform(0, 2), or truncate it"
            )
    return Route(state, fraction, lag, places, bounds)


def _refused(sentence: str) -> InputError:
    return InputError(sentence, argument=ARGUMENT)
