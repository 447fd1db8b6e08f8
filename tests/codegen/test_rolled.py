"""Loops found in long blocks of statements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from smcpn.codegen.long_blocks import Loop, rolled
from smcpn.codegen.lower import Level, Operand, Statement, Value
from smcpn.codegen.machine_code import Block
from tests.codegen import test_pieces

R0 = Value("r", 0, Level.SHARED)


def run(part: Block | Loop, slots: dict[int, float]) -> None:
    """Do what a block or a loop says, in Python."""
    shared = {R0: 3.0}
    if isinstance(part, Block):
        test_pieces.run(part, slots, shared)
        return
    block = part.block
    for turn in np.ndindex(part.turns):
        loads = zip(block.loads, part.load_moves, strict=True)
        stores = zip(block.stores, part.store_moves, strict=True)
        moved = Block(
            block.arguments,
            tuple((value, slot + int(np.dot(turn, move))) for (value, slot), move in loads),
            block.statements,
            tuple((slot + int(np.dot(turn, move)), value) for (slot, value), move in stores),
        )
        test_pieces.run(moved, slots, shared)


def assert_the_same(block: Block, parts: Sequence[Block | Loop], free: int, end: int) -> None:
    """Slots below the first free one have the same values."""
    numbers = np.random.default_rng(1).normal(size=free)
    expected = dict(enumerate(map(float, numbers)))
    found = expected | dict.fromkeys(range(free, end), np.nan)
    run(block, expected)
    for part in parts:
        run(part, found)
    np.testing.assert_array_equal([found[k] for k in expected], [*expected.values()])


@pytest.mark.parametrize("seed", range(30))
def test_any_block_does_what_it_did(seed: int):
    rng = np.random.default_rng(seed)
    block = test_pieces.random_block(rng, int(rng.integers(0, 60)))
    parts, end = rolled(block, test_pieces.SLOTS)
    assert_the_same(block, parts, test_pieces.SLOTS, end)


def test_layers_and_the_derivatives_by_their_weights_are_loops(monkeypatch: pytest.MonkeyPatch):
    """Layers of 4 and 5 units, and the outer product of what they give, added to what was."""
    operations = {"mul": np.multiply, "tanh": np.tanh}
    monkeypatch.setattr(test_pieces, "OPERATIONS", test_pieces.OPERATIONS | operations)
    loads, statements = list[tuple[Value, int]](), list[Statement]()

    def loaded() -> Value:
        loads.append((Value("m", len(loads), Level.LANE), len(loads)))
        return loads[-1][0]

    def made(operation: str, *operands: Operand) -> Value:
        target = Value("a", len(statements), Level.LANE)
        statements.append(Statement(target, operation, operands))
        return target

    def layer(values: list[Value], width: int) -> list[Value]:
        matrix = [[loaded() for _ in range(width)] for _ in values]
        units = [made("mul", matrix[0][k], values[0]) for k in range(width)]
        for row, value in zip(matrix[1:], values[1:], strict=True):
            units = [
                made("add", unit, made("mul", w, value)) for unit, w in zip(units, row, strict=True)
            ]
        return [made("tanh", made("sub", unit, R0)) for unit in units]

    first = layer([loaded(), loaded()], 4)
    second = layer(first, 5)
    pairs = [(one, other) for one in first for other in second]
    stores = list[tuple[int, Operand]]()
    for one, other in pairs:
        before = loaded()
        stores.append((len(loads) - 1, made("add", before, made("mul", one, other))))
    block = Block((R0,), tuple(loads), tuple(statements), tuple(stores))
    parts, end = rolled(block, len(loads))
    assert [part.turns for part in parts if isinstance(part, Loop)] == [
        (1, 4), (1, 4), (1, 5), (1, 5), (4, 5),
    ]  # fmt: skip
    assert len(parts) == 5
    assert_the_same(block, parts, len(loads), end)


def test_what_others_still_read_is_not_written_over():
    """Every slot gets a value that another tree makes of it: all are copied in the end."""
    loads = tuple((Value("m", k, Level.LANE), k) for k in range(5))
    sums = tuple(
        Statement(Value("a", k, Level.LANE), "add", (loads[k][0], loads[(k + 1) % 5][0]))
        for k in range(5)
    )
    block = Block((), loads, sums, tuple((k, s.target) for k, s in enumerate(sums)))
    parts, end = rolled(block, 5)
    assert_the_same(block, parts, 5, end)
