"""Long blocks of statements: loops that are found in them, and pieces that they are cut into.

The code of thousands of statements does not fit the first-level cache, and LLVM takes a time that
grows with the square of their number.

A traced network is thousands of statements, one weight each, whose code is fetched anew in every
step: the matrix products of its layers. Statements are gathered into trees, of values that are read
once. Trees of one shape whose operands lie at equal distances in the work array are the same code
at other places: a loop. What is left over stays a block as it was.

A block that stays long is cut into pieces that a processor runs on all lanes in turn. A piece fits
the cache: run on all lanes before the next one, its code is fetched once for all of them. Values
that a later piece reads wait in slots of their own, which are used again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.elementary import FUNCTIONS
from smcpn.codegen.lower import Level, Literal, Operand, Statement, Value
from smcpn.codegen.machine_code import Block

PIECE = 250
"""Statements of a piece."""


def pieces(block: Block, free: int, most: int) -> tuple[list[Block], int]:
    """Return blocks that do the same one after the other, and the end of the slots they use.

    block: Without results.
    free: First of the slots for values that wait.
    most: Statements of a piece.
    """
    parts = [
        block.statements[first : first + most]
        for first in range(0, max(len(block.statements), 1), most)
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


LEAST = 3
"""Turns of a loop at least."""


@dataclass(frozen=True)
class Loop:
    """A block that runs in two nested loops, in which its slots move.

    block: Of the first turn.
    turns: Of the outer and of the inner loop.
    load_moves, store_moves: Slots from one turn of the outer and of the inner loop to the next, of
        each load and store.
    """

    block: Block
    turns: tuple[int, int]
    load_moves: tuple[tuple[int, int], ...]
    store_moves: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        moves = f"loads move by {self.load_moves}, stores by {self.store_moves}"
        return f"{self.turns} times, {moves}\n{self.block}"


@dataclass
class _Tree:
    """A value that is read more than once or stored, and all that is computed for it alone.

    statements: The last one makes the value.
    leaves: What differs from turn to turn, in the order in which the statements read it.
    shape: hashable, the same for trees that do the same with other leaves.
    depth: Larger than that of all trees it reads.
    """

    statements: list[Statement]
    leaves: list[Value]
    shape: object
    depth: int

    @property
    def target(self) -> Value:
        return self.statements[-1].target


def rolled(block: Block, free: int) -> tuple[list[Block | Loop], int]:
    """Return blocks and loops that do the same one after the other, and the end of their slots.

    block: Without results.
    free: First of the slots for values that wait.
    """
    return _Rolling(block, free).run()


@dataclass
class _Rolling:
    block: Block
    free: int
    _readers: dict[Value, set[Value]] = field(default_factory=dict)
    _targets: dict[Value, int] = field(default_factory=dict)
    _places: dict[Value, int] = field(default_factory=dict)
    _straight: list[_Tree] = field(default_factory=list)
    _found: list[Block | Loop] = field(default_factory=list)

    def run(self) -> tuple[list[Block | Loop], int]:
        trees = _trees(self.block)
        for tree in trees:
            for leaf in tree.leaves:
                self._readers.setdefault(leaf, set()).add(tree.target)
        self._places = dict(self.block.loads)
        self._targets = self._at_once({tree.target for tree in trees})
        by_depth: dict[int, dict[object, list[_Tree]]] = {}
        for tree in trees:
            kind = tree.shape, tree.target in self._targets
            by_depth.setdefault(tree.depth, {}).setdefault(kind, []).append(tree)
        for depth in sorted(by_depth):
            loops = list[tuple[list[_Tree], tuple[int, int]]]()
            for alike in by_depth[depth].values():
                runs, others = self._runs(alike)
                loops += runs
                self._straight += others
                for tree in others:
                    self._places[tree.target] = self._place(tree)
            if loops:
                self._close()
                self._found += [self._loop(*loop) for loop in loops]
        self._close()
        self._copy()
        return self._found, self.free

    def _at_once(self, made: set[Value]) -> dict[Value, int]:
        """Slots where values may be stored once they are known: no other reads what is there."""
        before = {slot: value for value, slot in self.block.loads}
        copied = {operand for _, operand in self.block.stores if operand not in made}
        found = dict[Value, int]()
        for slot, value in self.block.stores:
            old = before.get(slot)
            readers = set[Value]() if old is None else self._readers.get(old, set())
            alone = readers <= {value} and old not in copied
            if isinstance(value, Value) and value in made and alone:
                found.setdefault(value, slot)
        return found

    def _place(self, tree: _Tree) -> int:
        """Slot of the value of a tree that is in no loop."""
        if tree.target in self._targets:
            return self._targets[tree.target]
        self.free += 1
        return self.free - 1

    def _runs(
        self, alike: list[_Tree]
    ) -> tuple[list[tuple[list[_Tree], tuple[int, int]]], list[_Tree]]:
        """Trees that are turns of loops, with the turns, and those that are not."""
        if len(alike) < LEAST:
            return [], alike
        slots = np.array(
            [[self._places[leaf] for leaf in tree.leaves] + self._target(tree) for tree in alike]
        )
        order = np.lexsort(slots.T[::-1])
        rows, others = slots[order], list[_Tree]()
        found = list[tuple[int, tuple[int, int]]]()
        for first, length in _equal_steps(rows):
            if length < LEAST:
                others += [alike[k] for k in order[first : first + length]]
            elif found and _goes_on(rows, *found[-1], first, length):
                begin, (outer, inner) = found[-1]
                found[-1] = begin, (outer + 1, inner)
            else:
                found.append((first, (1, length)))
        runs = [
            ([alike[k] for k in order[first : first + outer * inner]], (outer, inner))
            for first, (outer, inner) in found
        ]
        return runs, others

    def _target(self, tree: _Tree) -> list[int]:
        return [self._targets[tree.target]] if tree.target in self._targets else []

    def _loop(self, trees: list[_Tree], turns: tuple[int, int]) -> Loop:
        for tree in trees:
            self._places[tree.target] = self._place(tree)
        places = [trees[0], trees[turns[1]] if turns[0] > 1 else trees[0], trees[1]]
        columns = [
            [self._places[value] for value in (*tree.leaves, tree.target)] for tree in places
        ]
        moves = [
            (after - here, beside - here) for here, after, beside in zip(*columns, strict=True)
        ]
        first = trees[0]
        # A leaf that moves in two ways is two values.
        moving = list(zip(first.leaves, moves[:-1], strict=True))
        names = {key: Value("leaf", k, Level.LANE) for k, key in enumerate(dict.fromkeys(moving))}
        following, leaves = iter(moving), set(first.leaves)
        statements = [
            Statement(
                s.target,
                s.operation,
                tuple(names[next(following)] if o in leaves else o for o in s.operands),
            )
            for s in first.statements
        ]
        block = Block(
            arguments=self._arguments(first.statements),
            loads=tuple((name, self._places[leaf]) for (leaf, _), name in names.items()),
            statements=tuple(statements),
            stores=((self._places[first.target], first.target),),
        )
        return Loop(block, turns, tuple(move for _, move in names), (moves[-1],))

    def _close(self) -> None:
        """Make a block of the trees that are in no loop."""
        if not self._straight:
            return
        statements = [s for tree in self._straight for s in tree.statements]
        made = {s.target for s in statements}
        leaves = dict.fromkeys(leaf for tree in self._straight for leaf in tree.leaves)
        stored = {value for _, value in self.block.stores}
        read_later = [
            tree.target
            for tree in self._straight
            if tree.target in stored or not self._readers.get(tree.target, set()) <= made
        ]
        block = Block(
            arguments=self._arguments(statements),
            loads=tuple((leaf, self._places[leaf]) for leaf in leaves if leaf not in made),
            statements=tuple(statements),
            stores=tuple((self._places[target], target) for target in read_later),
        )
        parts, self.free = pieces(block, self.free, PIECE)
        self._found += parts
        self._straight = []

    def _copy(self) -> None:
        """Store what could not be stored at once, and what is no value of this block."""
        stores = tuple(
            (slot, operand)
            for slot, operand in self.block.stores
            if isinstance(operand, Literal) or self._targets.get(operand) != slot
        )
        read = dict.fromkeys(o for _, o in stores if isinstance(o, Value))
        loads = tuple((value, self._places[value]) for value in read if value in self._places)
        arguments = tuple(value for value in read if value not in self._places)
        if stores:
            self._found.append(Block(arguments=arguments, loads=loads, stores=stores))

    def _arguments(self, statements: Iterable[Statement]) -> tuple[Value, ...]:
        """Arguments of the block that statements read."""
        read = {operand for statement in statements for operand in statement.operands}
        return tuple(value for value in self.block.arguments if value in read)


def _trees(block: Block) -> list[_Tree]:
    """The trees of a block, each after those that it reads."""
    uses = Counter(o for s in block.statements for o in s.operands if isinstance(o, Value))
    stored, shared = {value for _, value in block.stores}, set(block.arguments)
    # A loop of nothing but functions keeps its constants in registers.
    apart = {o for s in block.statements if s.operation in FUNCTIONS for o in s.operands}
    inner, found = dict[Operand, _Tree](), list[_Tree]()
    depths = dict[Operand, int]()
    shapes = dict[object, int]()
    for s in block.statements:
        made, leaves, own = list[Statement](), list[Value](), list[Value]()
        shape, depth = list[object]([s.operation]), 0
        for operand in s.operands:
            part = inner.pop(operand, None)
            if part is not None:
                made += part.statements
                leaves += part.leaves
                depth = max(depth, part.depth)
                shape.append(part.shape)
            elif isinstance(operand, Literal) or operand in shared:
                shape.append(operand)
            else:
                own.append(operand)
                depth = max(depth, depths.get(operand, 0))
                shape.append("leaf")
        number = shapes.setdefault(tuple(shape), len(shapes))
        tree = _Tree([*made, s], leaves + own, number, depth)
        known = s.target in stored or s.target in apart or s.operation in FUNCTIONS
        if uses[s.target] == 1 and not known:
            inner[s.target] = tree
        else:
            tree.depth += 1
            depths[s.target] = tree.depth
            found.append(tree)
    return found


def _equal_steps(rows: NDArray[np.int64]) -> Iterable[tuple[int, int]]:
    """First and number of the rows that follow one another at equal steps."""
    steps, first = np.diff(rows, axis=0), 0
    while first < len(rows):
        last = first + 1
        while last < len(rows) and (steps[last - 1] == steps[first]).all():
            last += 1
        # Two rows are always at equal steps: the second may begin a longer run.
        last = first + 1 if last == first + 2 else last
        yield first, last - first
        first = last


def _goes_on(
    rows: NDArray[np.int64], begin: int, turns: tuple[int, int], first: int, length: int
) -> bool:
    """True if a run of rows is one more outer turn of those before it."""
    outer, inner = turns
    if length != inner or begin + outer * inner != first:
        return False
    alike = (rows[first + 1] - rows[first] == rows[begin + 1] - rows[begin]).all()
    step = rows[begin + inner] - rows[begin]
    return bool(alike and (rows[first] - rows[first - inner] == step).all())
