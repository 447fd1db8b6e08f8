"""Events of the state within steps that every particle chooses for itself.

Every accepted step looks for the first crossing of zero of each expression g of an event: at points
of the step, by the cubic interpolation of the states between its ends, two to every quarter, one of
them where g has an extremum by its own cubic. A g that this cubic does not describe asks for a
shorter step, as a local error does: no two crossings pass within a step unseen, but those of a
shorter excursion than g at these points shows.

Where there is a crossing, the step is tried again up to just behind it, until it ends at most a
time d behind it, 1e-8 of the step. There, with f at the end of the step, Newton's step

    s = -g / (dg/dt + dg/dx f)    (-d <= s <= 0)

(with a second term, that of Halley) leads back to the event, the state jumps there, and goes on
to the end of the step,

    x(tau-) = x + s f(x) + s^2/2 f'(x),   y = r(x(tau-)),   x+ = y - s f(y) + s^2/2 f'(y),

which has an error of the order d^3. Algebraic variables solve their equations after the jump, and
f has their derivatives along the solution. The steps are given numbers to a derivative, and s has
one: so the derivative of x+ is that of a solution whose event moves with the parameters, the
saltation matrix r_x + (f(y) - r_x f(x) - r_t) g_x / (g_t + g_x f) among it, and the second one is
right, too.

Each event remembers on which side its g has been. An event that jumps to where another g is on its
other side calls that one at the same time; an input that jumps may do so at a sample. A particle
with more than `MOST_EVENTS` in a sampling interval is lost, as is one whose g would be back at its
event within a hundred times d.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import casadi as ca
import numpy as np

from smcpn.codegen.tangent import derived
from smcpn.likelihood.algebraic import AlgebraicEquations
from smcpn.likelihood.delayed import DeadTimes
from smcpn.likelihood.own_steps import AT_REST, Clock, IntervalSymbols
from smcpn.model.events import EventGraphs
from smcpn.model.graphs import Model

MOST_EVENTS = 100
"""Events within a sampling interval beyond which there are infinitely many."""
QUARTERS = 4
"""Parts of a step in which a crossing is looked for."""
UNDESCRIBED = 0.2
"""Of the largest g in a step, how far it may be from its cubic, in root mean square."""
ROUNDED = 1e-9
"""Of the largest g so far, below which that may be rounding."""
RESOLVED, LEAST = 1e-8, 1e-12
"""Time behind an event at which a step may end, over the step and over the sampling interval."""
AHEAD = 100.0
"""The same times, in which a g that an event leaves at zero shows to which side it goes."""
SECANTS = 5
"""Steps of the search of a crossing within a part of a step."""
NEAR = 1e-3
"""Part of a step from its end, in which Newton's step finds the crossing."""
SHORTER = 0.999
"""Of a step that is tried again."""
NEVER = 2.0
"""Part of a step of what does not happen in it."""


@dataclass(frozen=True)
class Cubic:
    """Cubic of values and slopes at the ends of a step, as a function of the part of it, 0 to 1.

    rise, last_rise: Slopes at the ends, by the part of the step.
    """

    begin: ca.SX
    end: ca.SX
    rise: ca.SX
    last_rise: ca.SX

    def at(self, part: ca.SX | float) -> ca.SX:
        """Value."""
        rest, change = 1.0 - part, self.end - self.begin
        bent = rest * (self.rise - change) + part * (change - self.last_rise)
        return rest * self.begin + part * self.end + part * rest * bent

    def slope(self, part: ca.SX | float) -> ca.SX:
        """Derivative by the part."""
        change = self.end - self.begin
        first, second = self.rise - change, change - self.last_rise
        rest = 1.0 - part
        return change + first * rest * (1.0 - 3.0 * part) + second * part * (2.0 - 3.0 * part)

    def parts(self) -> list[ca.SX]:
        """Points within the step: ends of its quarters, and in each one its extremum or middle."""
        ends = [k / QUARTERS for k in range(QUARTERS + 1)]
        parts: list[ca.SX] = []
        for begin, end in pairwise(ends):
            first, last = self.slope(begin), self.slope(end)
            turns = first * last < 0.0
            share = ca.if_else(turns, first / ca.if_else(turns, first - last, 1.0), 0.5)
            parts += [begin + share * (end - begin), ca.SX(end)]
        return parts[:-1]


@dataclass(frozen=True)
class Scan:
    """The search of a crossing along the points of a step, as far as it has come.

    side: As of `Watch.sides`; that before a crossing once there is one.
    at_once, found: Whether it has crossed at the first point, or at any.
    point, value: The last one, and g there.
    lower, below, upper, above: The points between which the first crossing is, and the values
        there.
    """

    event: EventGraphs
    side: ca.SX
    at_once: ca.SX
    found: ca.SX
    point: ca.SX
    value: ca.SX
    lower: ca.SX
    below: ca.SX
    upper: ca.SX
    above: ca.SX

    @classmethod
    def of(cls, event: EventGraphs, side: ca.SX, value: ca.SX) -> Scan:
        """The scan of the first point; a half side is one on which it has not been yet."""
        at_once = ca.logic_and(ca.fabs(side) == 1.0, event.crosses(side, value))
        clear = ca.logic_or(at_once, ca.fabs(side) == 0.5)
        side = ca.if_else(ca.logic_or(clear, value == 0.0), side, ca.sign(value))
        none = ca.SX(0.0)
        return cls(event, side, at_once, at_once, none, value, none, value, none, value)

    def followed_by(self, point: ca.SX | float, value: ca.SX) -> Scan:
        """The scan with one more point."""
        crosses = self.event.crosses(self.side, value)
        new = ca.logic_and(crosses, ca.logic_not(self.found))
        found, point = ca.logic_or(self.found, crosses), ca.SX(point)
        return Scan(
            self.event,
            ca.if_else(ca.logic_or(found, value == 0.0), self.side, ca.sign(value)),
            self.at_once,
            found,
            point,
            value,
            ca.if_else(new, self.point, self.lower),
            ca.if_else(new, self.value, self.below),
            ca.if_else(new, point, self.upper),
            ca.if_else(new, value, self.above),
        )

    def root(self, at: Callable[[ca.SX], ca.SX]) -> ca.SX:
        """Part of the step where g is zero, by the Illinois method (Dowell and Jarratt 1971)."""
        lower, below, upper, above = self.lower, self.below, self.upper, self.above
        last = ca.SX(NEVER)

        def nowhere(slope: ca.SX) -> ca.SX:
            # Compiled code may find no difference where g is rounding on both sides of a crossing.
            # Just behind its own event g has no crossing that steps resolve: the path is lost.
            return ca.logic_and(slope == 0.0, ca.fabs(self.side) == 1.0)

        def secant() -> ca.SX:
            slope = below - above
            return upper + above * (upper - lower) / ca.if_else(nowhere(slope), np.inf, slope)

        for _ in range(SECANTS):
            part = secant()
            value = at(part)
            past = value * above >= 0.0
            halved = ca.if_else(past == last, 0.5, 1.0)
            lower, below = (ca.if_else(past, lower, part), ca.if_else(past, below * halved, value))
            upper, above = (ca.if_else(past, part, upper), ca.if_else(past, value, above * halved))
            last = past
        return secant()


class Watch:
    """Symbols of what looks for events and chooses steps by them, and the graphs of a step.

    aim: Step to try, just behind an event; 0 where none is known.
    count: Events since the last sample.
    sides: (E, 1), sign of each g where last it was not zero; half of the sign to which it goes just
        after its own event.
    sizes: (E, 1), largest value of each g so far.
    kept: (k, 1), numbers of the start of a record by which steps are chosen.
    """

    def __init__(
        self,
        model: Model,
        clock: Clock,
        between: IntervalSymbols,
        dead_times: DeadTimes,
        kept: ca.SX | None = None,
    ) -> None:
        assert model.events is not None
        self._model, self._clock, self._between = model, clock, between
        self._dead_times = dead_times
        self.kept = ca.SX(0, 1) if kept is None else kept
        self._events = model.events.each
        self.aim, self.count = ca.SX.sym("aim"), ca.SX.sym("count")
        self.sides = ca.SX.sym("side", len(self._events), 1)
        self.sizes = ca.SX.sym("reach", len(self._events), 1)
        self._driven = ca.vertcat(model.u, model.t)
        self._rates = ca.SX.sym("rates", self._driven.numel(), 1)
        self._algebra, self._slopes = None, model.rhs
        if model.algebraic:
            self._algebra = AlgebraicEquations(model)
            self._slopes = self._algebra.slopes(self._rates)

    @property
    def symbols(self) -> ca.SX:
        """All of them."""
        return ca.vertcat(self.aim, self.count, self.sides, self.sizes, self.kept)

    def started(self, model: Model, initial: ca.SX, driven: ca.SX) -> ca.SX:
        """Values at the first sample, of the model as given at its state, inputs and time."""
        assert model.events is not None
        values = ca.vertcat(*(one.expression for one in model.events.each))
        symbols = ca.vertcat(model.x, model.u, model.t)
        here = ca.substitute(values, symbols, ca.vertcat(initial, driven))
        return ca.vertcat(0.0, 0.0, ca.sign(here), ca.fabs(here), self.kept)

    @property
    def begun(self) -> ca.SX:
        """Values at the beginning of an interval."""
        count = self._dead_times.at_first(ca.SX(0.0), self.count)
        return ca.vertcat(0.0, count, self.sides, self.sizes, self.kept)

    def step(self, wanted: ca.SX) -> ca.SX:
        """Step to try where no event is known to be ahead of one that is wanted."""
        return ca.if_else(self.aim > 0.0, ca.fmin(self.aim, self._clock.left), wanted)

    @property
    def _resolution(self) -> ca.SX:
        """Time behind an event at which a step may end."""
        step = ca.fmin(self._clock.wanted, self._clock.left)
        return ca.fmax(RESOLVED * step, LEAST * self._between.length)

    def after(self, h: ca.SX, error: ca.SX, following: ca.SX, sizes: ca.SX, order: int) -> ca.SX:
        """Clock, watch and state after a step that was tried; arguments as of `Clock.judged`.

        following: (n, 1), state at its end.
        """
        clock, x, resolution = self._clock, self._model.x, self._resolution
        found = [self._crossing(k, h, following) for k in range(len(self._events))]
        parts, within, last, reached, errors = (
            ca.vertcat(*one) for one in zip(*found, strict=True)
        )
        for one in ca.vertsplit(errors):
            # A g that is no number asks for a shorter step, too; an error that is none stays so.
            known = ca.if_else(one < np.inf, one, np.inf)
            error = ca.if_else(known > error, known, error)
        first = ca.mmin(parts)
        judged = clock.judged(h, error, sizes, order, cut=self.aim > 0.0)
        at_once = ca.logic_and(clock.left > 0.0, first == 0.0)
        base, left = ca.if_else(at_once, x, following), clock.left - ca.if_else(at_once, 0.0, h)
        primary = ca.vertsplit(ca.logic_and(parts == first, first <= 1.0))
        step, back = self._newton(primary, base, left)
        near = ca.logic_and(step <= 0.0, step >= -resolution)
        crossed = ca.logic_and(judged.done, first <= 1.0)
        hit = ca.logic_or(at_once, ca.logic_and(crossed, near))
        again = ca.logic_and(crossed, ca.logic_not(hit))
        taken = ca.logic_and(judged.done, ca.logic_not(again))
        # What has not come to its zero by itself, but by an input that jumps, is as early as that.
        known = ca.logic_or(ca.logic_not(at_once), ca.fabs(step) <= 2.0 * resolution)
        sides = ca.if_else(at_once, self.sides, within)
        jumped, sides, number = self._jump(
            primary, base, left, ca.if_else(known, back, 0.0), sides, resolution
        )
        count = self.count + ca.if_else(hit, number, 0.0)
        lost = ca.logic_or(judged.lost, count > MOST_EVENTS)
        missed = clock.values(
            clock.left, clock.h, clock.wanted, clock.sizes, clock.accepted, clock.rejected + 1.0
        )
        times = ca.if_else(at_once, clock.symbols, ca.if_else(again, missed, judged.clock))
        times[clock.sized] = ca.fmax(times[clock.sized], ca.if_else(hit, ca.fabs(jumped), 0.0))
        times[0] = ca.if_else(lost, 0.0, times[0])
        state = ca.if_else(hit, jumped, ca.if_else(again, x, judged.state(following, x)))
        shorter = ca.fmin(first * h + 0.5 * resolution, SHORTER * h)
        return ca.vertcat(
            times,
            ca.if_else(again, shorter, 0.0),
            count,
            ca.if_else(hit, sides, ca.if_else(taken, last, self.sides)),
            ca.if_else(judged.done, reached, self.sizes),
            self.kept,
            ca.if_else(lost, ca.SX(np.nan), state),
        )

    def _at(self, graph: ca.SX, x: ca.SX, left: ca.SX) -> ca.SX:
        """A graph at a state where so much time is left."""
        symbols = ca.vertcat(self._model.x, self._driven, self._rates)
        values = ca.vertcat(x, self._between.at(left), self._between.rates(left))
        return ca.substitute(graph, symbols, values)

    def _rate(self, graph: ca.SX) -> ca.SX:
        """Derivative of a graph in time along the solution."""
        symbols = ca.vertcat(self._model.x, self._driven)
        return derived(graph, symbols, ca.vertcat(self._slopes, self._rates))[1]

    def _flown(self, x: ca.SX, left: ca.SX, time: ca.SX) -> ca.SX:
        """State a short time later, to second order."""
        slope, bend = (self._at(one, x, left) for one in (self._slopes, self._rate(self._slopes)))
        return x + time * (slope + 0.5 * time * bend)

    def _settled(self, x: ca.SX, left: ca.SX) -> ca.SX:
        """State whose algebraic variables solve their equations, after those that it has jumped."""
        if self._algebra is None:
            return x
        return self._algebra.solved(x, self._between.at(left))

    def _newton(self, primary: list[ca.SX], base: ca.SX, left: ca.SX) -> list[ca.SX]:
        """Times from a state to the first event by Newton's and Halley's step, negative if before.

        With the latter, and two terms of the solution, the event has a second derivative, too.
        """
        times = [ca.SX(0.0), ca.SX(0.0)]
        for own, one in zip(primary[::-1], self._events[::-1], strict=True):
            slope = self._rate(one.expression)
            value, rate, bend = (
                self._at(graph, base, left) for graph in (one.expression, slope, self._rate(slope))
            )
            step = -value / rate
            new = (step, step * (1.0 - 0.5 * step * bend / rate))
            times = [ca.if_else(own, *pair) for pair in zip(new, times, strict=True)]
        return times

    def _jump(
        self,
        primary: list[ca.SX],
        base: ca.SX,
        left: ca.SX,
        back: ca.SX,
        sides: ca.SX,
        resolution: ca.SX,
    ) -> tuple[ca.SX, ca.SX, ca.SX]:
        """State at a time, of which events happen ``back`` later, sides after them, how many."""
        time = left - back
        before = y = self._flown(base, left, back)
        fired = list(primary)
        for one, own in zip(self._events, primary, strict=True):
            y = ca.if_else(own, self._at(one.following, y, time), y)
        y = self._settled(y, time)
        for _ in self._events[1:]:
            for k, one in enumerate(self._events):
                there = self._at(one.expression, y, time)
                moved = ca.fabs(there - self._at(one.expression, before, time))
                called = ca.logic_and(one.crosses(sides[k], there), moved > ROUNDED * self.sizes[k])
                called = ca.logic_and(called, ca.logic_not(fired[k]))
                y = ca.if_else(called, self._settled(self._at(one.following, y, time), time), y)
                fired[k] = ca.logic_or(fired[k], called)
        left_at, ahead, number = [], AHEAD * resolution, sum(fired, ca.SX(0.0))
        for k, one in enumerate(self._events):
            slope = self._rate(one.expression)
            value, rate, bend = (
                self._at(graph, y, time) for graph in (one.expression, slope, self._rate(slope))
            )
            straight = value + ahead * rate
            left_at.append(ca.if_else(fired[k], 0.5 * ca.sign(straight), sides[k]))
            # One that is back as soon as it has left happens infinitely often.
            back_again = sides[k] * (straight + 0.5 * ahead**2 * bend) <= 0.0
            endless = ca.logic_and(fired[k], ca.logic_and(sides[k] * straight > 0.0, back_again))
            number += ca.if_else(endless, MOST_EVENTS + 1.0, 0.0)
        return self._flown(y, time, -back), ca.vertcat(*left_at), number

    def _crossing(self, k: int, h: ca.SX, following: ca.SX) -> tuple[ca.SX, ...]:
        """Look for the first crossing of an event in a step that leads to a state.

        Returns part: of the step, 0 where it has crossed before it; `NEVER` where it does not;
        side, last_side, size: as of `Watch`, the sides by the points before the end of the step,
        and with it; error: of the cubic, in units of what it may be.
        """
        one, left, x = self._events[k], self._clock.left, self._model.x
        slope = self._rate(one.expression)
        ends = ((x, left), (following, left - h))
        path = Cubic(x, following, *(h * self._at(self._slopes, *end) for end in ends))
        value, rate = ([self._at(graph, *end) for end in ends] for graph in (one.expression, slope))
        cubic = Cubic(*value, *(h * each for each in rate))

        def at(part: ca.SX | float) -> ca.SX:
            return self._at(one.expression, path.at(part), left - part * h)

        parts = cubic.parts()
        values = [at(part) for part in parts]
        every = [value[0], *values, value[1]]
        largest = ca.mmax(ca.fabs(ca.vertcat(*every)))
        size = ca.fmax(self.sizes[k], largest)
        off = ca.vertcat(*values) - ca.vertcat(*map(cubic.at, parts))
        rms = ca.sqrt(ca.sumsqr(off) / len(parts))
        error = rms / (UNDESCRIBED * largest + ROUNDED * size + AT_REST)
        scan = within = Scan.of(one, self.sides[k], value[0])
        for part, v in zip([*parts, 1.0], every[1:], strict=True):
            within, scan = scan, scan.followed_by(part, v)
        back = -value[1] / rate[1]
        newton = ca.logic_and(scan.upper == 1.0, ca.logic_and(back <= 0.0, back >= -NEAR * h))
        part = ca.if_else(newton, 1.0 + back / h, scan.root(at))
        part = ca.if_else(scan.at_once, 0.0, ca.if_else(scan.found, part, NEVER))
        # Inputs that jump together do so one after the other, in parts that have no length.
        found = (part, within.side, scan.side, size, error)
        nothing = (ca.SX(NEVER), self.sides[k], self.sides[k], self.sizes[k], ca.SX(0.0))
        return tuple(map(self._dead_times.while_lasting, found, nothing))
