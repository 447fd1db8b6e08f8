"""Cut a long block of statements into pieces that a processor runs on all lanes in turn.

The code of thousands of statements does not fit the first-level cache, and LLVM takes a time that
grows with the square of their number. A piece fits: run on all lanes before the next one, its code
is fetched once for all of them. Values that a later piece reads wait in slots of their own, which
are used again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from smcpn.codegen.lower import Operand, Statement, Value
from smcpn.codegen.machine_code import Block

PIECE = 250
"""Statements of a piece."""


def pieces(block: Block, free: int) -> tuple[list[Block], int]:
    """Return blocks that do the same one after the other, and the end of the slots they use.

    Parameters
    ----------
    block : Block
        Without results.
    free : int
        First of the slots for values that wait.
    """
    parts = [
        block.statements[first : first + PIECE]
        for first in range(0, max(len(block.statements), 1), PIECE)
    ]
    return _Cut(block, parts, free).run()


@dataclass
class _Cut:
    block: Block
    parts: list[tuple[Statement, ...]]
    free: int
    _waiting: dict[Value, int] = field(default_factory=dict)
    _unused: list[int] = field(default_factory=list)

    def run(self) -> tuple[list[Block], int]:
        last, places = len(self.parts) - 1, dict(self.block.loads)
        made = {s.target: k for k, part in enumerate(self.parts) for s in part}
        reads = [_values(o for s in part for o in s.operands) for part in self.parts]
        until = {value: k for k, read in enumerate(reads) for value in read}
        # What is stored may not be read any more: it is stored in the last piece otherwise.
        stored = _values(operand for _, operand in self.block.stores)
        read_last = {
            slot: last if value in stored else until.get(value, 0)
            for value, slot in self.block.loads
        }
        stores: list[list[tuple[int, Operand]]] = [[] for _ in self.parts]
        for slot, operand in self.block.stores:
            k = made.get(operand, last) if isinstance(operand, Value) else last
            k = k if read_last.get(slot, 0) <= k else last
            stores[k].append((slot, operand))
            if isinstance(operand, Value):
                reads[k][operand] = None
                until[operand] = max(until.get(operand, 0), k)
        blocks = [
            self._piece(k, part, reads[k], stores[k], made, until, places)
            for k, part in enumerate(self.parts)
        ]
        return blocks, self.free

    def _piece(
        self,
        number: int,
        part: tuple[Statement, ...],
        read: dict[Value, None],
        stores: list[tuple[int, Operand]],
        made: dict[Value, int],
        until: dict[Value, int],
        places: dict[Value, int],
    ) -> Block:
        before = [value for value in read if made.get(value, -1) != number]
        loads = [(v, places[v]) for v in before if v in places]
        loads += [(v, self._waiting[v]) for v in before if v in self._waiting]
        for value in [value for value in self._waiting if until[value] <= number]:
            self._unused.append(self._waiting.pop(value))
        kept = [s.target for s in part if until.get(s.target, number) > number]
        for value in kept:
            self._waiting[value] = self._slot()
        return Block(
            arguments=tuple(v for v in before if v not in places and v not in made),
            loads=tuple(loads),
            statements=part,
            stores=(*stores, *((self._waiting[value], value) for value in kept)),
        )

    def _slot(self) -> int:
        if self._unused:
            return self._unused.pop()
        self.free += 1
        return self.free - 1


def _values(operands: Iterable[Operand]) -> dict[Value, None]:
    """Operands that are no literals, each once, in order."""
    return dict.fromkeys(operand for operand in operands if isinstance(operand, Value))
