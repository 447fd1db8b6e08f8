"""Events of the state: where an expression crosses zero, the state jumps.

An event has an expression g(x, u, t; theta), a direction in which its crossing of zero counts, and
the state after it, r(x, u, t; theta). At the first time tau at which g has come from one side to
the other the solution goes on from x(tau+) = r(x(tau-)), between events by x' = f. A g that is zero
at the beginning has not crossed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca

from smcpn.errors import InputError, listed, one_of, shown
from smcpn.model.function_arguments import FunctionArguments
from smcpn.model.trace import check_same, function_name, scalars

ARGUMENT = "events"
DIRECTIONS = {"rising": 1, "falling": -1, "either": 0}
"""Sign of the slope with which an expression crosses zero; 0 for both."""
_TRUTHS = (ca.OP_LT, ca.OP_LE, ca.OP_EQ, ca.OP_NE, ca.OP_AND, ca.OP_OR, ca.OP_NOT)


@dataclass(frozen=True)
class Event:
    """A jump of the state where an expression crosses zero, made by `event`.

    Attributes
    ----------
    when, then : callable
    direction : {"rising", "falling", "either"}
    """

    when: Callable[..., Any]
    then: Callable[..., Any]
    direction: str = "either"

    def __post_init__(self) -> None:
        one_of("direction", self.direction, DIRECTIONS)
        for name, function in (("when", self.when), ("then", self.then)):
            if not callable(function):
                raise InputError(
                    f"{name} is {shown(function)}: give a function of the states, lambda x, v: ...",
                    argument=name,
                )


def event(
    *, when: Callable[..., Any], then: Callable[..., Any], direction: str = "either"
) -> Event:
    """Return an event of the state, for ``@smcpn.ode(events=[...])``.

    Where ``when`` crosses zero, the state jumps to what ``then`` returns. Both name the states,
    inputs and ``t`` that they take, and parameters as keyword-only arguments, of the model or of
    their own. A switch is a state whose derivative is zero, which events set.

    Parameters
    ----------
    when : callable
        Returns one expression, continuous in the states: a difference such as ``x - limit``, not a
        comparison. One that is zero at the first sample, or just after its event, has not crossed.
    then : callable
        Returns the states after the jump: all of them, or a dict of those that change.
    direction : {"rising", "falling", "either"}
        In which ``when`` crosses.

    Returns
    -------
    Event

    Raises
    ------
    InputError
        For an unknown direction, or what is no function.

    Examples
    --------
    >>> import smcpn
    >>> bounce = smcpn.event(
    ...     when=lambda x: x, then=lambda v, *, restitution: {"v": -restitution * v},
    ...     direction="falling",
    ... )
    >>> @smcpn.ode(events=[bounce])
    ... def ball(x, v, *, drag):
    ...     return v, -9.81 - drag * v
    >>> ball.parameters
    ('drag', 'restitution')
    """
    return Event(when, then, direction)


@dataclass(frozen=True)
class Events:
    """All events of a model in a column of graphs, as files hold them.

    column: (E (n + 2), 1), of each event its expression, the sign of its direction, and the state
        after it.
    """

    column: ca.SX
    n_states: int

    @classmethod
    def of_column(cls, column: ca.SX | None, n_states: int) -> Events | None:
        """Events of a column; None of none."""
        if column is None:
            return None
        signs = column[1 :: event_rows(n_states)]
        if not all(
            one.is_constant() and float(one) in DIRECTIONS.values() for one in ca.vertsplit(signs)
        ):
            raise InputError("the stored events have no direction: the file is damaged")
        return cls(column, n_states)

    def of_following(self, of_states: ca.SX) -> ca.SX:
        """Column of numbers of the states, (n, 1), where `column` has the state after events."""
        rows = self.column.numel() // event_rows(self.n_states)
        return ca.repmat(ca.vertcat(ca.SX(2, 1), of_states), rows, 1)

    @property
    def each(self) -> list[EventGraphs]:
        """Graphs of every event."""
        parts = ca.vertsplit(self.column, event_rows(self.n_states))
        return [EventGraphs(one[0], int(float(one[1])), one[2:]) for one in parts]


@dataclass(frozen=True)
class EventGraphs:
    """Graphs of an event over the symbols of a model.

    expression: What crosses zero.
    sign: As of `DIRECTIONS`.
    """

    expression: ca.SX
    sign: int
    following: ca.SX

    def crosses(self, side: ca.SX, value: ca.SX) -> ca.SX:
        """True where a value of the expression is across zero from a side where it was."""
        rises = ca.logic_and(side < 0.0, value >= 0.0)
        falls = ca.logic_and(side > 0.0, value <= 0.0)
        return {1: rises, -1: falls, 0: ca.logic_or(rises, falls)}[self.sign]


def event_rows(n_states: int) -> int:
    """Return the entries of `Events.column` for each event."""
    return n_states + 2


def check_events(events: object) -> None:
    """Refuse what is no list of events."""
    if not isinstance(events, (list, tuple)) or not all(isinstance(e, Event) for e in events):
        raise InputError(
            f"events is {shown(events)}: give a list, [smcpn.event(when=..., then=...)]",
            argument=ARGUMENT,
        )


def event_column(events: Sequence[Event], known: FunctionArguments, states: Sequence[str]) -> ca.SX:
    """Trace events over the symbols of a model of these states, see `Events.column`."""
    check_events(events)
    first, again = (
        ca.vertcat(*(entry for one in events for entry in _rows(one, known, states)))
        for _ in range(2)
    )
    symbols = ca.symvar(ca.vertcat(first, again))
    check_same([ca.Function("events", symbols, [one]) for one in (first, again)], "an event")
    return first


def _rows(event: Event, known: FunctionArguments, states: Sequence[str]) -> list[ca.SX]:
    expression, direction = _expression(event, known), ca.SX(DIRECTIONS[event.direction])
    return [expression, direction, *_following(event, known, states)]


def _expression(event: Event, known: FunctionArguments) -> ca.SX:
    """Graph of what crosses zero."""
    name, what = function_name(event.when), "when of an event"
    returned = scalars(known.returned(event.when, what, ARGUMENT), name)
    if len(returned) != 1:
        raise InputError(
            f"{what}, '{name}', returns {len(returned)} numbers: return one", argument=ARGUMENT
        )
    graph = returned[0]
    moving = ca.vertcat(*(one for one in known.named.values() if isinstance(one, ca.SX)))
    if graph.op() in _TRUTHS or not ca.depends_on(graph, moving):
        raise InputError(
            f"{what}, '{name}', returns {shown(graph)}, which does not pass through zero: return "
            "a difference that changes its sign, x - limit",
            argument=ARGUMENT,
        )
    return graph


def _following(event: Event, known: FunctionArguments, states: Sequence[str]) -> list[ca.SX]:
    """Graphs of the states after an event."""
    name, what = function_name(event.then), "then of an event"
    returned = known.returned(event.then, what, ARGUMENT)
    if not isinstance(returned, Mapping):
        every = scalars(returned, name)
        if len(every) != len(states):
            raise InputError(
                f"{what}, '{name}', returns {len(every)} numbers for {len(states)} states: return "
                'one for each, or a dict of those that change, {"v": -v}',
                argument=ARGUMENT,
            )
        return every
    following = {state: known.named[state] for state in states}
    for state, value in returned.items():
        entries = known.wholes.get(state, (state,))
        if not set(entries) <= set(states):
            raise InputError(
                f"{what}, '{name}', names {shown(state)}, which is no state of model "
                f"'{known.model}': name some of {listed(states)}",
                argument=ARGUMENT,
            )
        own = scalars(value, name)
        if len(own) not in (1, len(entries)):
            raise InputError(
                f"{what}, '{name}', returns {len(own)} numbers for {shown(state)}, which has "
                f"{len(entries)}: return as many, or one for all",
                argument=ARGUMENT,
            )
        following |= dict(zip(entries, own * (len(entries) // len(own)), strict=True))
    return [ca.SX(following[state]) for state in states]
