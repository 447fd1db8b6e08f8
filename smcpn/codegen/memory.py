"""Loops in a recursion: functions that run over the memory of a lane, row after row.

The algebra of a large covariance as one graph is hundreds of thousands of operations. Written by
its rows it is a few functions, each of which runs on many of them: `Memory` notes what is kept and
what runs on it as the sections of a `LaneProgram`, whose graphs then read what these leave. The
functions take and return lists of numbers, so that `StraightLine` makes one graph by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, overload

import casadi as ca
from typing_extensions import override

Row = list[Any]
RowFunction = Callable[..., Row]


@dataclass(frozen=True)
class Place:
    """Place of an argument or a result in memory.

    first, length: Of its numbers in the first turn.
    move: From a turn to the next.
    """

    first: int
    length: int
    move: int = 0

    def numbers(self, turns: int) -> list[int]:
        """Places of its numbers in so many turns."""
        firsts = (self.first + turn * self.move for turn in range(turns))
        return [k for first in firsts for k in range(first, first + self.length)]


@dataclass(frozen=True)
class Pass:
    """A loop: one function in turns, at places that move from one to the next.

    No turn reads what another one writes. A number is written as soon as it is known: a result may
    take the place of an argument if each of its numbers depends on no other one of that argument.

    function: Of a column for each argument, to one with all results.
    turns: One, where ``writes`` do not move.
    """

    function: ca.Function
    reads: tuple[Place, ...]
    writes: tuple[Place, ...]
    turns: int

    @property
    def read(self) -> list[int]:
        """Places of the numbers that its turns read."""
        return [k for place in self.reads for k in place.numbers(self.turns)]


@dataclass(frozen=True)
class Section:
    """Part of a step before its graph: numbers that are kept in memory, and passes over them.

    values: (v, 1), of the vectors of a step, and of what earlier sections left in memory.
    places: (v,)
    """

    values: ca.SX
    places: tuple[int, ...]
    passes: tuple[Pass, ...]

    @property
    def written(self) -> list[int]:
        """Places of the numbers that it writes."""
        made = (k for one in self.passes for w in one.writes for k in w.numbers(one.turns))
        return [*self.places, *made]


@dataclass(frozen=True)
class Rows:
    """Rows of one length in memory, one after the other."""

    first: int
    length: int
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Place]:
        return (self[k] for k in range(self.count))

    @overload
    def __getitem__(self, which: int) -> Place: ...
    @overload
    def __getitem__(self, which: slice) -> Rows: ...
    def __getitem__(self, which: int | slice) -> Place | Rows:
        if isinstance(which, slice):
            begin = which.start or 0
            return Rows(self.first + begin * self.length, self.length, self.count - begin)
        return Place(self.first + which * self.length, self.length)


class StraightLine:
    """Algebra of rows that are lists of graphs, which are graphs again.

    symbols: One for each number in memory, by which graphs read it.
    """

    def __init__(self) -> None:
        self.symbols: list[ca.SX] = []

    @property
    def memory(self) -> ca.SX:
        """The symbols as a column."""
        return ca.vertcat(ca.SX(0, 1), *self.symbols)

    def sections(self) -> tuple[Section, ...]:
        """All that was noted for a step to do before its graph is evaluated."""
        return ()

    def keep(self, rows: Sequence[Row]) -> Any:
        """Rows that can be changed."""
        return [list(row) for row in rows]

    def values(self, row: Any) -> Row:
        """Numbers of a row."""
        return row

    def bound(self, values: Sequence[ca.SX]) -> Row:
        """Numbers that several graphs read."""
        return list(values)

    def made(self, function: RowFunction, *arguments: Any) -> Any:
        """Row that a function makes of others."""
        return function(*arguments)

    def made_each(self, function: RowFunction, rows: Any, *same: Any) -> Any:
        """Rows that a function makes of each, and of rows that are the same for all."""
        return [function(row, *same) for row in rows]

    def change(self, rows: Any, which: int, function: RowFunction, *arguments: Any) -> None:
        """Put what a function makes of a row and of others in its place."""
        rows[which] = function(rows[which], *arguments)

    def change_each(self, function: RowFunction, rows: Any, others: Any, *same: Any) -> Any:
        """Return what a function makes of each row, the other one beside it, and rows for all.

        The rows themselves may be overwritten: use those that are returned.
        """
        pairs = zip(rows, others, strict=True)
        return [function(row, other, *same) for row, other in pairs]


STRAIGHT = StraightLine()


class Memory(StraightLine):
    """Algebra of rows in the memory of a lane, by passes."""

    def __init__(self) -> None:
        super().__init__()
        self._sections: list[Section] = []
        self._kept: list[ca.SX] = []
        self._places: list[int] = []
        self._passes: list[Pass] = []
        self._functions: dict[tuple[Any, ...], ca.Function] = {}

    @override
    def sections(self) -> tuple[Section, ...]:
        if self._places or self._passes:
            values = ca.vertcat(ca.SX(0, 1), *self._kept)
            self._sections.append(Section(values, tuple(self._places), tuple(self._passes)))
            self._kept, self._places, self._passes = [], [], []
        return tuple(self._sections)

    @override
    def bound(self, values: Sequence[ca.SX]) -> Row:
        # They are computed once.
        return self.values(self.keep([list(values)])[0])

    @override
    def keep(self, rows: Sequence[Row]) -> Rows:
        values = [ca.SX(value) for value in chain(*rows)]
        waiting = ca.vertcat(ca.SX(0, 1), *(self.symbols[place] for place in self._places))
        if self._passes or ca.depends_on(ca.vertcat(*values), waiting):
            self.sections()
        kept = self._room(len(rows), len(rows[0]))
        self._kept += values
        self._places += range(kept.first, kept.first + kept.count * kept.length)
        return kept

    @override
    def values(self, row: Place) -> Row:
        return self.symbols[row.first : row.first + row.length]

    @override
    def made(self, function: RowFunction, *arguments: Place) -> Place:
        known = self._traced(function, arguments)
        result = self._room(1, known.size1_out(0))[0]
        self._passes.append(Pass(known, arguments, (result,), 1))
        return result

    @override
    def made_each(self, function: RowFunction, rows: Rows, *same: Place) -> Rows:
        reads = (_moving(rows), *same)
        known = self._traced(function, reads)
        result = self._room(len(rows), known.size1_out(0))
        self._run(known, reads, result)
        return result

    def each(self, function: RowFunction, *rows: Place) -> list[Place]:
        """Rows of what a function makes of one number of each row, at the same place in all."""
        reads, turns = tuple(Place(row.first, 1, 1) for row in rows), rows[0].length
        known = self._traced(function, reads)
        made = [self._room(1, turns)[0] for _ in range(known.size1_out(0))]
        writes = tuple(Place(row.first, 1, 1) for row in made)
        self._passes.append(Pass(known, reads, writes, turns))
        return made

    def between(self, symbols: Sequence[ca.SX]) -> tuple[Place, Row]:
        """Part of memory in which those of some symbols are that are of it, and its symbols."""
        known = {symbol.element_hash() for symbol in symbols}
        found = [k for k, one in enumerate(self.symbols) if one.element_hash() in known]
        part = Place(found[0], found[-1] + 1 - found[0])
        return part, self.values(part)

    @override
    def change(self, rows: Rows, which: int, function: RowFunction, *arguments: Place) -> None:
        reads = rows[which], *arguments
        self._passes.append(Pass(self._traced(function, reads), reads, reads[:1], 1))

    @override
    def change_each(self, function: RowFunction, rows: Rows, others: Rows, *same: Place) -> Rows:
        reads = (_moving(rows), _moving(others), *same)
        self._run(self._traced(function, reads), reads, rows)
        return rows

    def _run(self, function: ca.Function, reads: tuple[Place, ...], into: Rows) -> None:
        if len(into):
            self._passes.append(Pass(function, reads, (_moving(into),), len(into)))

    def _room(self, count: int, length: int) -> Rows:
        first, size = len(self.symbols), count * length
        self.symbols += ca.vertsplit(ca.SX.sym(f"memory_{first}", size)) if size else []
        return Rows(first, length, count)

    def _traced(self, function: RowFunction, reads: Sequence[Place]) -> ca.Function:
        key = (function, *(read.length for read in reads))
        if key not in self._functions:
            columns = [ca.SX.sym(f"x{k}", read.length) for k, read in enumerate(reads)]
            made = ca.vertcat(*function(*map(ca.vertsplit, columns)))
            self._functions[key] = ca.Function(f"pass_{len(self._functions)}", columns, [made])
        return self._functions[key]


def _moving(rows: Rows) -> Place:
    return Place(rows.first, rows.length, rows.length)
