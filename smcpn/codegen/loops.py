"""Write the loops of a kernel around its blocks of statements, as one LLVM module.

Loops and arguments are plain: addresses and integers come in, nothing is allocated, and the
innermost loop runs over whole vectors of lanes. Optimisation has little left to do, which is what
keeps compilation short.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

from llvmlite import ir

from smcpn.codegen.elementary import QUICK
from smcpn.codegen.long_blocks import Loop
from smcpn.codegen.lower import Operand, Value
from smcpn.codegen.machine_code import Block, Writer
from smcpn.codegen.terms import DOUBLE, vector

INTEGER = ir.IntType(64)
NUMBERS, _COUNTS = DOUBLE.as_pointer(), INTEGER.as_pointer()
_VOID = ir.VoidType()

ROWS = (
    "samples", "begins", "record", "inputs", "intervals", "gains", "n_gains", "recur", "sample",
    "steps",
)  # fmt: skip
"""Addresses and integers by which compiled code finds what all particles share, in an array.

``sample`` and ``steps`` are the number of the first sample in its record, and of the steps before
it."""
ARGUMENTS = {
    "theta": NUMBERS, "particles": INTEGER, "state": NUMBERS, "following": NUMBERS,
    "rows": _COUNTS, "first": INTEGER, "last": INTEGER,
    "emitted": NUMBERS, "moments": NUMBERS, "totals": NUMBERS, "first_block": INTEGER,
    "last_block": INTEGER, "work": NUMBERS,
}  # fmt: skip
"""What `advance` is called with; ``emitted`` and ``moments`` are null where nothing is stored."""
START_ARGUMENTS = {
    "theta": NUMBERS, "particles": INTEGER, "row": NUMBERS, "state": NUMBERS, "work": NUMBERS,
}  # fmt: skip


class LoopCall(NamedTuple):
    """Number of a loop, first slots of its arrays, and turns."""

    loop: int
    slots: tuple[int, ...]
    turns: int


ARRAY = 2**20
"""Slots of an array of lanes at most."""

BESIDE = 4
"""Turns of a loop that are written side by side."""
MOST_KEPT = 8
"""Values that wait in registers for all turns of a loop."""
MOST_ATTEMPTS = 10_000
"""Steps in one sampling interval, accepted or not, of particles that choose them by themselves."""

# Not all of fast arithmetic: that would assume there is no NaN and remove the guards against it.
FAST = ("afn", "arcp", "contract", "nsz", "reassoc")
_ARITHMETIC = frozenset({"fadd", "fsub", "fmul", "fdiv", "frem", "fcmp"})


def number(value: int) -> ir.Constant:
    """Return a constant integer."""
    return ir.Constant(INTEGER, value)


@dataclass(frozen=True)
class KernelPlan:
    """Blocks of statements, and where their values are in the work array.

    blocks: Statements that run once for all lanes, of each of ``pieces`` (``_shared``), and others.
    pieces: What runs in each lane, one piece on all of them after the other.
    lanes, width: Particles of a block, and how many of them one instruction runs.
    slots: Number of the slots.
    widths: See `LaneProgram.widths`.
    window, parts: See `LaneProgram`.
    left: Entry of the state that is left of the interval, where lanes take their own steps.
    loops: What sections run over memory, with an array for each argument and result.
    """

    blocks: dict[str, Block]
    pieces: Mapping[str, Sequence[Block | Loop | LoopCall]]
    lanes: int
    width: int
    n_state: int
    slots: int
    widths: dict[str, int]
    window: int
    parts: int
    left: int | None
    loops: tuple[Loop, ...]

    @property
    def sizes(self) -> Self:
        """The plan without statements: what is known of machine code where it is called."""
        return replace(self, blocks={}, pieces=dict.fromkeys(self.pieces, ()), loops=())

    @property
    def text(self) -> str:
        """All that the machine code depends on, but for the modules that write it."""
        sizes = {field.name: getattr(self, field.name) for field in fields(self)[2:]}
        blocks = [*self.blocks.items()]
        blocks += [(name, block) for name, parts in self.pieces.items() for block in parts]
        return f"{type(self)} {sizes}\n" + "\n".join(f"{name}{block}" for name, block in blocks)


@dataclass(frozen=True)
class Plan(KernelPlan):
    """A kernel, of which ``start`` is one block more.

    n_theta, n_start: Numbers of a particle, with the constants, and of the row of a start.
    emit_slot, totals_slot, moments_slot: First slots of what a sample emits, of its sums and of its
        moments.
    passes: Calls of loops in each section, after its block.
    """

    pieces: Mapping[str, Sequence[Block]]
    n_theta: int
    n_start: int
    n_emitted: int
    n_moments: int
    n_outputs: int
    emit_slot: int
    totals_slot: int
    moments_slot: int
    passes: tuple[tuple[LoopCall, ...], ...]

    @property
    def long(self) -> bool:
        """True if a block was cut into pieces."""
        return any(len(parts) > 1 for parts in self.pieces.values())


class Function:
    """A function that is being written: its builder, its arguments, and loops."""

    def __init__(
        self, module: ir.Module, name: str, arguments: dict[str, Any], called: bool = False
    ) -> None:
        """Begin a function, by default one that others find; else one that is ``called`` here."""
        kind = ir.FunctionType(_VOID, list(arguments.values()))
        self.function: Any = ir.Function(module, kind, name)
        self.function.attributes.add("nounwind")
        if called:
            self.function.linkage = "internal"
            self.function.attributes.add("noinline")
        for argument, (label, of) in zip(self.function.args, arguments.items(), strict=True):
            argument.name = label
            if of.is_pointer:
                argument.add_attribute("noalias")
        self.arguments = dict(zip(arguments, self.function.args, strict=True))
        self.builder: Any = ir.IRBuilder(self.function.append_basic_block("entry"))

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]

    def sum(self, *terms: Any) -> Any:
        """Add integers, those that are known beforehand."""
        known = sum(term.constant for term in terms if isinstance(term, ir.Constant))
        others = [term for term in terms if not isinstance(term, ir.Constant)]
        total, *others = [*others, number(known)] if known or not others else others
        for term in others:
            total = self.builder.add(total, term, flags=("nsw",))
        return total

    def times(self, left: Any, right: Any) -> Any:
        """Multiply integers."""
        if isinstance(left, ir.Constant) and isinstance(right, ir.Constant):
            return number(left.constant * right.constant)
        return self.builder.mul(left, right, flags=("nsw",))

    def at(self, pointer: Any, *places: Any) -> Any:
        """Return the address of an element: the sum of the places."""
        return self.builder.gep(pointer, [self.sum(*places)], inbounds=True)

    def smaller(self, left: Any, right: Any) -> Any:
        """Return the smaller of two integers."""
        return self.builder.select(self.builder.icmp_signed("<", left, right), left, right)

    @contextmanager
    def loop(self, begin: Any, end: Any, step: int = 1) -> Generator[Any]:
        """Write ``for index in range(begin, end, step)``; the body is written inside."""
        builder = self.builder
        before = builder.block
        head, body, after = (builder.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        index = builder.phi(INTEGER)
        index.add_incoming(begin, before)
        builder.cbranch(builder.icmp_signed("<", index, end), body, after)
        builder.position_at_end(body)
        yield index
        index.add_incoming(self.sum(index, number(step)), builder.block)
        builder.branch(head)
        builder.position_at_end(after)

    @contextmanager
    def where(self, test: Any) -> Generator[None]:
        """Write ``if test:``."""
        with self.builder.if_then(test):
            yield

    @contextmanager
    def given(self, argument: str) -> Generator[None]:
        """Write ``if argument is not None:`` of an address."""
        null = ir.Constant(self[argument].type, None)
        with self.where(self.builder.icmp_unsigned("!=", self[argument], null)):
            yield

    def finish(self, flags: Sequence[str] = ()) -> None:
        """Return; arithmetic that says nothing of its own gets the flags."""
        self.builder.ret_void()
        for block in self.function.blocks:
            for instruction in block.instructions:
                if instruction.opname in _ARITHMETIC and not instruction.flags:
                    instruction.flags = list(flags)


def copies(module: ir.Module, name: str, lanes: int, into_lanes: bool) -> Callable[..., None]:
    """Define a function that copies rows of particles into lanes of the work array, or back.

    Lanes beyond the last particle repeat it. Returns what writes a call.
    """
    arguments = {
        "work": NUMBERS, "array": NUMBERS, "rows": INTEGER, "particles": INTEGER,
        "base": INTEGER, "live": INTEGER,
    }  # fmt: skip
    made = Function(module, name, arguments, called=True)
    builder, width = made.builder, number(lanes)
    vectors = vector(DOUBLE, lanes).as_pointer()

    def move(source: Any, target: Any, kind: Any = None) -> None:
        if kind is not None:
            source, target = (builder.bitcast(each, kind) for each in (source, target))
        builder.store(builder.load(source, align=8), target, align=8)

    with made.loop(number(0), made["rows"]) as row:
        lane = made.at(made["work"], made.times(row, width))
        particle = made.at(made["array"], made.times(row, made["particles"]), made["base"])
        whole = builder.icmp_signed("==", made["live"], width)
        with builder.if_else(whole) as (then, otherwise):
            with then:
                move(*((particle, lane) if into_lanes else (lane, particle)), vectors)
            with otherwise:
                last = builder.sub(made["live"], number(1))
                with made.loop(number(0), width if into_lanes else made["live"]) as i:
                    near = made.at(particle, made.smaller(i, last))
                    move(*((near, made.at(lane, i)) if into_lanes else (made.at(lane, i), near)))
    made.finish()

    def call(caller: Function, *values: Any) -> None:
        caller.builder.call(made.function, values)

    return call


class SharedPlaces:
    """Places of the shared vectors in memory, at the samples and steps of some rows.

    rows: LLVM pointer, to the numbers that `ROWS` names.
    widths, window, parts: See `LaneProgram`.
    """

    def __init__(
        self,
        function: Function,
        rows: Any,
        widths: Mapping[str, int],
        window: int,
        parts: int = 1,
    ) -> None:
        self._function, self._widths, builder = function, widths, function.builder
        self._parts = parts
        self._given = {
            name: builder.load(function.at(rows, number(k)), name=name)
            for k, name in enumerate(ROWS)
        }
        self._begins = builder.inttoptr(self._given["begins"], _COUNTS)
        self._back = int(window > 1)

    def begin(self, sample: Any) -> Any:
        """Number of the first step after a sample."""
        return self._function.builder.load(self._function.at(self._begins, sample))

    @contextmanager
    def each_part(self, back: bool = False) -> Generator[Any]:
        """Write a loop over the parts of an interval, backwards from the last one if ``back``."""
        if self._parts == 1:
            yield None
            return
        with self._function.loop(number(0), number(self._parts)) as part:
            last = number(self._parts - 1)
            yield self._function.builder.sub(last, part) if back else part

    def steps(self, sample: Any, part: Any = None) -> tuple[Any, Any]:
        """First step of the interval that leads to a sample, and of the next; none to the first.

        Of a part they are its own.
        """
        builder = self._function.builder
        before = self._function.sum(sample, number(-1))
        before = builder.select(builder.icmp_signed("<", before, number(0)), number(0), before)
        begin, end = self.begin(before), self.begin(sample)
        if part is None:
            return begin, end
        length = builder.sdiv(builder.sub(end, begin), number(self._parts))
        begin = self._function.sum(begin, self._function.times(part, length))
        return begin, self._function.sum(begin, length)

    def of_sample(self, sample: Any) -> dict[str, Any]:
        """Places at a sample, by the names of the vectors."""
        zero = ir.Constant(DOUBLE, 0.0)
        index = [zero, zero, *self._counted(sample, self.begin(sample))]
        return self._of(sample, index if self._parts == 1 else [*index, zero])

    def of_interval(self, sample: Any, part: Any = None) -> dict[str, Any]:
        """Places in the interval that leads to a sample, or in a part of it."""
        begin, end = self.steps(sample, part)
        last = self._gains(self._function.sum(end, number(-1)), begin)
        zero = ir.Constant(DOUBLE, 0.0)
        return self._of_interval(sample, begin, end, zero, part) | {"g": last}

    def of_step(
        self, sample: Any, step: Any, begin: Any, end: Any, part: Any = None
    ) -> dict[str, Any]:
        """Places at a step of the interval that leads to a sample, or a part: of [begin, end)."""
        builder = self._function.builder
        within = builder.sitofp(builder.sub(step, begin), DOUBLE)
        places = self._of_interval(sample, begin, end, within, part)
        return places | {"r": self._row("inputs", "r", step), "g": self._gains(step, begin)}

    def _gains(self, step: Any, begin: Any) -> Any:
        """Gains of a step of an interval that begins with another one."""
        function, builder, given = self._function, self._function.builder, self._given
        since = builder.sub(step, function.times(given["recur"], begin))
        gain = function.smaller(since, builder.sub(given["n_gains"], number(1)))
        return self._row("gains", "g", gain)

    def _of_interval(
        self, sample: Any, begin: Any, end: Any, within: Any, part: Any
    ) -> dict[str, Any]:
        builder, before = self._function.builder, self._function.sum(sample, number(-1))
        count = builder.sitofp(builder.sub(end, begin), DOUBLE)
        index = [within, count, *self._counted(before, begin)]
        index += [] if part is None else [builder.sitofp(part, DOUBLE)]
        places = self._of(sample, index)
        return places | {"q": self._row("intervals", "q", before)}

    def _of(self, sample: Any, index: list[Any]) -> dict[str, Any]:
        first = self._function.sum(sample, number(-self._back))
        record = self._function.builder.inttoptr(self._given["record"], NUMBERS)
        return {"w": self._row("samples", "w", first), "i": index, "o": record}

    def _counted(self, sample: Any, steps: Any) -> list[Any]:
        """Steps before and number of a sample, in its record, as real numbers."""
        function, given = self._function, self._given
        return [
            function.builder.sitofp(function.sum(given[name], value), DOUBLE)
            for name, value in (("steps", steps), ("sample", sample))
        ]

    def _row(self, name: str, vector: str, row: Any) -> Any:
        function = self._function
        array = function.builder.inttoptr(self._given[name], NUMBERS)
        return function.at(array, function.times(row, number(self._widths[vector])))


def element(function: Function, places: Mapping[str, Any], value: Value) -> Any:
    """Pointer to an element of a vector at one of these places, or its value."""
    place = places[value.vector]
    if isinstance(place, list):
        return place[value.index]
    return function.at(place, number(value.index))


class Shared:
    """Values that a block of shared statements leaves for the lanes.

    ``places`` are pointers to vectors by their names, or lists of values; or a function from an
    element to its pointer or value; ``known`` are values from before. Differences of times are not
    rearranged, as sums of lanes are.
    """

    def __init__(
        self,
        function: Function,
        block: Block,
        places: Mapping[str, Any] | Callable[[Value], Any],
        known: Shared | None = None,
    ) -> None:
        builder, writer = function.builder, Writer(function.builder, DOUBLE)
        if known is not None:
            writer.values.update(known.values)
        for value in block.arguments:
            if value in writer.values:
                continue
            found = places(value) if callable(places) else element(function, places, value)
            pointed = found.type.is_pointer
            writer.values[value] = builder.load(found, align=8) if pointed else found
        before = len(builder.block.instructions)
        writer.run(block.statements)
        for instruction in builder.block.instructions[before:]:
            if instruction.opname in _ARITHMETIC and not instruction.flags:
                instruction.flags = ["contract"]
        self.values = {
            value: writer.value(value) for value in block.results if isinstance(value, Value)
        }

    def of(self, block: Block) -> Shared:
        """Shared values that a block takes."""
        return self.known_as({value: self.values[value] for value in block.arguments})

    def known_as(self, values: Mapping[Value, Any]) -> Shared:
        """Shared values in their place, such as arguments of another function."""
        other = copy(self)
        other.values = dict(values)
        return other


def run_lanes(
    function: Function,
    block: Block,
    lanes: int | Any,
    width: int,
    shared: Shared | None = None,
    arrays: Sequence[Any] | None = None,
) -> None:
    """Write a block of statements for all lanes, whole vectors of them at once.

    lanes: int or LLVM integer
    arrays: sequence of LLVM pointers, where slots are: k of the a-th array is numbered
        ``a * ARRAY + k``. By default there is one, the argument ``work``.
    """
    if isinstance(lanes, int):
        lanes = number(lanes)
    builder = function.builder
    arrays = [function["work"]] if arrays is None else arrays
    kind = vector(DOUBLE, width)
    writer = Writer(builder, kind, block.repeated)
    spread = {} if shared is None else {v: writer.spread(x) for v, x in shared.values.items()}
    slots = (*(slot for _, slot in block.loads), *(slot for slot, _ in block.stores))
    with function.loop(number(0), lanes, width) as lane:
        first = {k: function.at(arrays[k], lane) for k in dict.fromkeys(s // ARRAY for s in slots)}

        def address(slot: int) -> Any:
            array, place = divmod(slot, ARRAY)
            element = function.at(first[array], function.times(number(place), lanes))
            return builder.bitcast(element, kind.as_pointer())

        writer.values.update(spread)
        for value, slot in block.loads:
            writer.values[value] = builder.load(address(slot), align=8)
        writer.run(block.statements)
        for slot, operand in block.stores:
            builder.store(writer.value(operand), address(slot), align=8)


def run_loop(
    function: Function,
    loop: Loop,
    lanes: int,
    width: int,
    shared: Shared | None,
    arrays: Sequence[Any],
    turned: Any = None,
) -> None:
    """Write a `Loop` for all lanes; arguments are those of `run_lanes`.

    ``turned`` is an LLVM integer, the turns of the inner loop where these are not known before.

    Turns of the inner loop are written side by side, statement by statement: what they all read is
    loaded once, and none waits for the result of another.
    """
    builder, (outer_turns, inner_turns) = function.builder, loop.turns
    turns = _Turns(function, loop, lanes, width, shared, arrays)
    if turned is None:
        beside = min(BESIDE, inner_turns)
        rest = inner_turns % beside
        whole, turned = number(inner_turns - rest), number(inner_turns)
    else:
        beside = rest = BESIDE
        whole = builder.and_(turned, number(-BESIDE))
    with (
        function.loop(number(0), number(lanes), width) as lane,
        function.loop(number(0), number(outer_turns)) as outer,
    ):
        known = turns.kept(lane, outer)
        with function.loop(number(0), whole, beside) as inner:
            turns.write((lane, outer, inner), beside, known)
        if rest:
            with function.loop(whole, turned) as inner:
                turns.write((lane, outer, inner), 1, known)


_Place = tuple[Any, Any, Any]
"""Lane, and turns of the outer and the inner loop."""


class _Turns:
    """Writes turns of the inner loop of a `Loop`, side by side; parameters as of `run_loop`."""

    def __init__(
        self,
        function: Function,
        loop: Loop,
        lanes: int,
        width: int,
        shared: Shared | None,
        arrays: Sequence[Any],
    ) -> None:
        self._function, self._builder, self._lanes = function, function.builder, lanes
        self._kind, self._block, self._arrays = vector(DOUBLE, width), loop.block, arrays
        self._outer_turns, _ = loop.turns
        writer = Writer(self._builder, self._kind)
        values = {} if shared is None else shared.values
        self._spread = {value: writer.spread(x) for value, x in values.items()}
        self._sources = {
            v: (slot, *move)
            for (v, slot), move in zip(loop.block.loads, loop.load_moves, strict=True)
        }
        self._stores: dict[Operand, list[tuple[int, tuple[int, int]]]] = {}
        for (slot, operand), move in zip(loop.block.stores, loop.store_moves, strict=True):
            self._stores.setdefault(operand, []).append((slot, move))

    def kept(self, lane: Any, outer: Any) -> dict[Value, Any]:
        """Load what is the same in all turns, where registers hold it."""
        values = [value for value, (_, _, inner) in self._sources.items() if not inner]
        return {
            value: self._builder.load(self._address((lane, outer, None), value, 0), align=8)
            for value in (values if len(values) <= MOST_KEPT else [])
        }

    def write(self, place: _Place, count: int, known: dict[Value, Any]) -> None:
        """Write so many turns from a place on, with values that are loaded already."""
        writers = [Writer(self._builder, self._kind, functions=QUICK) for _ in range(count)]
        for writer in writers:
            writer.values.update(self._spread | known)
        loaded, made = set[Operand](known), set[Operand]()
        for statement in self._block.statements:
            for value in statement.operands:
                self._load(value, place, writers, loaded)
            for writer in writers:
                writer.run((statement,))
            made.add(statement.target)
            self._store(statement.target, place, writers)
        for operand in self._stores:
            if operand not in made:
                self._load(operand, place, writers, loaded)
                self._store(operand, place, writers)

    def _load(
        self, value: Operand, place: _Place, writers: list[Writer], loaded: set[Operand]
    ) -> None:
        if value not in self._sources or value in loaded:
            return
        assert isinstance(value, Value)
        loaded.add(value)
        moves = self._sources[value][2]
        here = [
            self._builder.load(self._address(place, value, turn), align=8)
            for turn in range(len(writers) if moves else 1)
        ]
        for turn, writer in enumerate(writers):
            writer.values[value] = here[min(turn, len(here) - 1)]

    def _store(self, operand: Operand, place: _Place, writers: list[Writer]) -> None:
        for slot, move in self._stores.get(operand, ()):
            for turn, writer in enumerate(writers):
                address = self._at(place, (slot, *move), turn)
                self._builder.store(writer.value(operand), address, align=8)

    def _address(self, place: _Place, value: Value, turn: int) -> Any:
        return self._at(place, self._sources[value], turn)

    def _at(self, place: _Place, source: tuple[int, int, int], turn: int) -> Any:
        """Address of a slot that moves with the outer and the inner loop, some turns ahead."""
        function, lanes, (lane, outer, inner) = self._function, self._lanes, place
        slot, outward, inward = source
        array, slot = divmod(slot, ARRAY)
        terms = [lane]
        if outward and self._outer_turns > 1:
            terms.append(function.times(outer, number(outward * lanes)))
        if inward and inner is not None:
            terms.append(function.times(inner, number(inward * lanes)))
        near = function.at(self._arrays[array], *terms)
        element = function.at(near, number((slot + turn * inward) * lanes))
        return self._builder.bitcast(element, self._kind.as_pointer())


def write_start(module: ir.Module, block: Block) -> None:
    """Write ``start``: the first state of each particle."""
    made = Function(module, "start", START_ARGUMENTS)
    builder, particles = made.builder, made["particles"]
    with made.loop(number(0), particles) as i:
        writer = Writer(builder, DOUBLE, block.repeated)
        for value in block.arguments:
            place = (
                made.at(made["theta"], made.times(number(value.index), particles), i)
                if value.vector == "p"
                else made.at(made["row"], number(value.index))
            )
            writer.values[value] = builder.load(place, align=8)
        writer.run(block.statements)
        for k, operand in block.stores:
            place = made.at(made["state"], made.times(number(k), particles), i)
            builder.store(writer.value(operand), place, align=8)
    made.finish()


def _moments(module: ir.Module, plan: Plan) -> Callable[..., None]:
    """Define a function of what else a sample yields, of a block of lanes; return a call of it.

    It is a function of its own, so that the arithmetic of the rest does not depend on it.
    """
    made = Function(
        module, "moments", {"work": NUMBERS, "rows": _COUNTS, "sample": INTEGER}, called=True
    )
    places = SharedPlaces(made, made["rows"], plan.widths, plan.window, plan.parts)
    shared = Shared(made, plan.blocks["moments_shared"], places.of_sample(made["sample"]))
    _lanes_of(made, plan, "moments", shared)
    made.finish(FAST)

    def call(caller: Function, *values: Any) -> None:
        caller.builder.call(made.function, values)

    return call


def loop_functions(
    module: ir.Module, loops: Sequence[Loop], lanes: int, width: int
) -> Callable[[Function, LoopCall], None]:
    """Define a function for each loop over memory; return what writes a call."""
    functions: list[Any] = []
    for k, loop in enumerate(loops):
        arrays = 1 + max(slot // ARRAY for slot, _ in loop.block.stores)
        names = [f"array{place}" for place in range(arrays)]
        kinds = {"work": NUMBERS, **dict.fromkeys(names, INTEGER), "turns": INTEGER}
        made = Function(module, f"pass{k}", kinds, called=True)
        at = [made.at(made["work"], made.times(made[name], number(lanes))) for name in names]
        if any(move for _, move in loop.store_moves):
            run_loop(made, loop, lanes, width, None, at, made["turns"])
        else:
            run_lanes(made, loop.block, lanes, width, None, at)
        made.finish(FAST)
        functions.append(made.function)

    def run(caller: Function, call: LoopCall) -> None:
        given = [*map(number, call.slots), number(call.turns)]
        caller.builder.call(functions[call.loop], [caller["work"], *given])

    return run


def write_advance(module: ir.Module, plan: Plan) -> ir.Function:
    """Write ``advance``: particles through samples, a block of lanes after the other."""
    made = Function(module, "advance", ARGUMENTS)
    made.function.attributes.add("noinline")
    gather = copies(module, "gather", plan.lanes, into_lanes=True)
    scatter = copies(module, "scatter", plan.lanes, into_lanes=False)
    moments = _moments(module, plan) if plan.n_moments else None
    builder, particles, lanes = made.builder, made["particles"], number(plan.lanes)
    run_pass = loop_functions(module, plan.loops, plan.lanes, plan.width)

    def slots(first: int) -> Any:
        return made.at(made["work"], number(first * plan.lanes))

    places = SharedPlaces(made, made["rows"], plan.widths, plan.window, plan.parts)
    with made.loop(made["first_block"], made["last_block"]) as block:
        base = made.times(block, lanes)
        live = made.smaller(lanes, builder.sub(particles, base))
        place = (particles, base, live)
        gather(made, slots(0), made["state"], number(plan.n_state), *place)
        gather(made, slots(plan.n_state), made["theta"], number(plan.n_theta), *place)
        with made.loop(number(0), number(plan.n_emitted * plan.lanes)) as k:
            builder.store(ir.Constant(DOUBLE, 0.0), made.at(slots(plan.totals_slot), k), align=8)
        _lanes_of(made, plan, "hoist")
        with made.loop(made["first"], made["last"]) as sample:
            later = builder.icmp_signed(">", sample, number(0))
            with made.where(later), places.each_part() as part:
                _write_interval(made, plan, places, (sample, part), run_pass)
            at = places.of_sample(sample)
            _lanes_of(made, plan, "sample", Shared(made, plan.blocks["sample_shared"], at))
            since_first = builder.sub(sample, made["first"])

            def store(name: str, slot: int, n: int, since: Any = since_first) -> None:
                array = made.at(made[name], made.times(made.times(since, number(n)), particles))
                scatter(made, slots(slot), array, number(n), *place)

            with made.given("emitted"):
                store("emitted", plan.emit_slot, plan.n_emitted)
            if moments is not None:
                with made.given("moments"):
                    moments(made, slots(0), made["rows"], sample)
                    store("moments", plan.moments_slot, plan.n_moments)
        scatter(made, slots(0), made["following"], number(plan.n_state), *place)
        scatter(made, slots(plan.totals_slot), made["totals"], number(plan.n_emitted), *place)
    made.finish(FAST)
    return made.function


def _lanes_of(made: Function, plan: Plan, name: str, shared: Shared | None = None) -> None:
    for piece in plan.pieces[name]:
        own = None if shared is None else shared.of(piece)
        run_lanes(made, piece, plan.lanes, plan.width, own)


def _write_interval(
    made: Function,
    plan: Plan,
    places: SharedPlaces,
    where: tuple[Any, Any],
    run_pass: Callable[[Function, LoopCall], None],
) -> None:
    """Write the solver steps of the interval that leads to a sample, or of a part of it."""
    sample, part = where
    if "interval" in plan.pieces:
        at = places.of_interval(sample, part)
        shared = Shared(made, plan.blocks["interval_shared"], at)
        _lanes_of(made, plan, "interval", shared)
    begin, end = places.steps(sample, part)
    once = Shared(made, plan.blocks["once_shared"], places.of_interval(sample, part))
    with made.loop(begin, end) as n:
        at = places.of_step(sample, n, begin, end, part)
        blocks = [f"section{k}" for k in range(len(plan.passes))]
        before = [Shared(made, plan.blocks[f"{name}_shared"], at) for name in blocks]
        shared = Shared(made, plan.blocks["step_shared"], at, once)

        def step() -> None:
            for k, own in enumerate(before):
                _lanes_of(made, plan, f"section{k}", own)
                for call in plan.passes[k]:
                    run_pass(made, call)
            _lanes_of(made, plan, "step", shared)

        _steps(made, plan, step)


def _steps(made: Function, plan: Plan, step: Callable[[], None]) -> None:
    """Write one step; where lanes take their own, steps until none of the block has any left."""
    if plan.left is None:
        step()
        return
    left = made.at(made["work"], number(plan.left * plan.lanes))
    with attempts(made, plan.lanes, plan.width, number(MOST_ATTEMPTS), lambda _: left):
        step()


@contextmanager
def attempts(
    made: Function, lanes: int, width: int, most: Any, left: Callable[[Any], Any]
) -> Generator[Any]:
    """Write steps, ``most`` of them at most, until no lane of the block has any time left.

    Yields the number of the step, which is their number afterwards. ``left`` is the address of the
    times that are left before it.
    """
    builder, kind = made.builder, vector(DOUBLE, width)
    zero = ir.Constant(kind, [0.0] * width)
    bits = ir.IntType(width)
    again, after = builder.append_basic_block(), builder.append_basic_block()
    body, before = builder.append_basic_block(), builder.block
    builder.branch(again)
    builder.position_at_end(again)
    attempt = builder.phi(INTEGER)
    attempt.add_incoming(number(0), before)
    some, times = ir.Constant(bits, 0), left(attempt)
    for lane in range(0, lanes, width):
        place = builder.bitcast(made.at(times, number(lane)), kind.as_pointer())
        positive = builder.fcmp_ordered(">", builder.load(place, align=8), zero)
        some = builder.or_(some, builder.bitcast(positive, bits))
    going = builder.and_(
        builder.icmp_unsigned("!=", some, ir.Constant(bits, 0)),
        builder.icmp_signed("<", attempt, most),
    )
    builder.cbranch(going, body, after)
    builder.position_at_end(body)
    yield attempt
    attempt.add_incoming(made.sum(attempt, number(1)), builder.block)
    builder.branch(again)
    builder.position_at_end(after)
