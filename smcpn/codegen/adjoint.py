"""Products with the transposed Jacobian of a graph, by reverse accumulation, and what they need.

The graphs of a recursion are functions of numbers that a particle computes once, its parameters or
functions of these, and of its state. A reverse pass accumulates the derivatives by these numbers,
and goes on to the parameters once, at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import casadi as ca

from smcpn.codegen.elementary import FUNCTIONS
from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.memory import Pass, Section
from smcpn.codegen.tangent import SELECTIONS, SINGULAR, slopes
from smcpn.model.expression import CONSTANT, INPUT, OUTPUT, applied, instructions

LAYERS = 16
"""Values of functions in a step from which it is taken for that of a network."""
_LINEAR = frozenset({"add", "sub", "neg", "twice"})
"""Operations whose slopes are numbers."""


@dataclass(frozen=True)
class HoistedRecursion:
    """A recursion over numbers that a particle computes once.

    program: Its ``theta`` are symbols of these numbers, (w, 1); ``start`` is still of the
        parameters.
    parameters: Symbols of the parameters, (p, 1).
    numbers: The numbers, (w, 1), of parameters and constants.
    """

    program: LaneProgram
    parameters: ca.SX
    numbers: ca.SX


def hoisted(program: LaneProgram) -> HoistedRecursion:
    """Take everything that depends on parameters alone out of intervals, steps and ``emitted``.

    The numbers are the largest parts of the graphs that depend on parameters and on neither state
    nor rows. What depends on the constants only stays where it is.
    """
    values_of_sections = [section.values for section in program.sections]
    begun = [] if program.interval is None else [program.interval]
    graphs = [*begun, *values_of_sections, program.step, program.emitted]
    sizes = [graph.numel() for graph in graphs]
    free = ca.symvar(joined := ca.vertcat(*graphs))
    function = ca.Function("graphs", [ca.vertcat(*free)], [ca.cse(ca.densify(joined))])
    parameters, constants = _hashes(program.theta), _hashes(program.constants)
    values: dict[int, ca.SX] = {}
    of_parameters: set[int] = set()
    in_time: set[int] = set()
    symbols: dict[int, ca.SX] = {}
    outputs, functions = ca.SX.zeros(joined.numel(), 1), 0

    def read(row: int) -> ca.SX:
        """A value where time goes on: a parameter or what is made of parameters is a symbol."""
        if row in in_time or row not in of_parameters:
            return values[row]
        return symbols.setdefault(row, ca.SX.sym(f"number_{len(symbols)}"))

    for row, (operation, operands, constant) in enumerate(instructions(function)):
        if operation == OUTPUT:
            outputs[operands[2]] = read(operands[0])
        elif operation == INPUT:
            values[row] = symbol = free[operands[1]]
            if symbol.element_hash() in parameters:
                of_parameters.add(row)
            elif symbol.element_hash() not in constants:
                in_time.add(row)
        elif operation == CONSTANT:
            values[row] = ca.SX(constant)
        else:
            if not in_time.isdisjoint(operands):
                in_time.add(row)
                functions += operation in FUNCTIONS
            if not of_parameters.isdisjoint(operands):
                of_parameters.add(row)
            taken = [read(k) if row in in_time else values[k] for k in operands]
            values[row] = applied(operation, taken)
    edges = [0, *(sum(sizes[: k + 1]) for k in range(len(sizes)))]
    parts = ca.vertsplit(outputs, edges)
    if functions >= LAYERS:
        # Parameters in their order: those of a matrix are at equal distances then.
        order = {program.theta[k].element_hash(): k for k in range(program.theta.numel())}
        places = {row: order.get(values[row].element_hash(), len(order)) for row in symbols}
        symbols = dict(sorted(symbols.items(), key=lambda pair: places[pair[0]]))
    return HoistedRecursion(
        replace(
            program,
            theta=ca.vertcat(ca.SX(0, 1), *symbols.values()),
            interval=parts[0] if begun else None,
            sections=tuple(
                replace(section, values=part)
                for section, part in zip(program.sections, parts[len(begun) : -2], strict=True)
            ),
            step=parts[-2],
            emitted=parts[-1],
        ),
        program.theta,
        ca.vertcat(ca.SX(0, 1), *(values[row] for row in symbols)),
    )


def _hashes(symbols: ca.SX) -> set[int]:
    return {symbols[k].element_hash() for k in range(symbols.numel())}


def taped(graph: ca.SX, back: ca.SX, moving: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX]:
    """Functions such as exp and tanh that a graph and its way back share, to be computed once.

    Arithmetic is cheaper to do again than to keep.

    graph, back: (m, 1) and (n, 1)
    moving: Symbols that a function has to depend on.

    Returns symbols (z, 1): in place of their values; values (z, 1): of the symbols of ``graph``;
    back (n, 1): of these symbols too.
    """
    free = ca.symvar(joined := ca.vertcat(graph, back))
    function = ca.Function("graphs", [ca.vertcat(*free)], [ca.cse(ca.densify(joined))])
    rows = list(instructions(function))
    shared = _reached(rows, graph.numel()) & _moving(rows, free, _hashes(moving))
    values, again = _values(rows, free), list[ca.SX]()
    outputs, kept = ca.SX.zeros(joined.numel(), 1), dict[int, tuple[ca.SX, ca.SX]]()
    for row, (operation, operands, _) in enumerate(rows):
        here = values[row]
        if operation == OUTPUT:
            outputs[operands[2]] = again[operands[0]]
        elif operation in FUNCTIONS and row in shared:
            here = ca.SX.sym(f"taped_{row}")
            kept[here.element_hash()] = here, values[row]
        elif operation not in (INPUT, CONSTANT):
            here = applied(operation, [again[k] for k in operands])
        again.append(here)
    back = outputs[graph.numel() :]
    read = [h for symbol in ca.symvar(back) if (h := symbol.element_hash()) in kept]
    if len(read) >= LAYERS:
        # As they are computed: those of a layer follow one another then.
        needed_by = set(read)
        read = [key for key in kept if key in needed_by]
    needed = [kept[key] for key in read]
    symbols = ca.vertcat(ca.SX(0, 1), *(symbol for symbol, _ in needed))
    return symbols, ca.vertcat(ca.SX(0, 1), *(value for _, value in needed)), back


def _reached(rows: Sequence[tuple[str, tuple[int, ...], float]], outputs: int) -> set[int]:
    """Rows that the first outputs depend on."""
    reached: set[int] = set()
    for row in reversed(range(len(rows))):
        operation, operands, _ = rows[row]
        if operation == OUTPUT and operands[2] < outputs:
            reached.add(operands[0])
        elif row in reached and operation not in (INPUT, CONSTANT):
            reached.update(operands)
    return reached


def transposed(graph: ca.SX, symbols: Sequence[ca.SX], weights: ca.SX) -> list[ca.SX]:
    """Products J' w of the Jacobians of a column of graphs, by each column of symbols.

    The rules of single operations are those of `smcpn.codegen.tangent`, from the outputs to the
    inputs. An entry that is zero throughout is structurally zero.

    graph: (m, 1)
    symbols: (n, 1) each
    weights: (m, 1)
    """
    free = ca.symvar(graph)
    function = ca.Function("graph", [ca.vertcat(*free)], [ca.cse(ca.densify(graph))])
    rows = list(instructions(function))
    values = _values(rows, free)
    wanted = {column[k].element_hash() for column in symbols for k in range(column.numel())}
    moving = _moving(rows, free, wanted)
    # As in a tangent, nothing comes of a branch that is not taken, and what does not move is not
    # moved by an infinite slope.
    selected, singular = _below(rows, SELECTIONS), _below(rows, SINGULAR)
    sums: dict[int, ca.SX] = {}
    found: dict[int, ca.SX] = {}
    for row in reversed(range(len(rows))):
        operation, operands, _ = rows[row]
        if operation == OUTPUT:
            if operands[0] in moving and not (weight := weights[operands[2]]).is_zero():
                _add(sums, operands[0], weight)
            continue
        total = sums.pop(row, None)
        if total is None:
            continue
        if operation == INPUT:
            found[free[operands[1]].element_hash()] = total
            continue
        taken = [values[k] for k in operands]
        for k, slope in enumerate(slopes(operation, taken)):
            if operands[k] not in moving or not slope.nnz():
                continue
            part = _part(operation, k, taken, slope, total)
            if operation not in _LINEAR:
                part = applied("if_else_zero", [total, part]) if row in selected else part
                part = applied("if_else_zero", [slope, part]) if row in singular else part
            _add(sums, operands[k], part)
    return [_gathered(column, found) for column in symbols]


def passes_back(sections: Sequence[Section], size: int) -> list[tuple[Pass, ...]]:
    """Passes that take derivatives back through those of each section, the last one first.

    Memory of so many numbers has the derivatives by them behind it, which passes add to.
    """
    functions: dict[int, ca.Function] = {}

    def back(one: Pass) -> Pass:
        if (key := hash(one.function)) not in functions:
            functions[key] = _back(one)
        given, made = (
            tuple(replace(place, first=size + place.first) for place in places)
            for places in (one.reads, one.writes)
        )
        return Pass(functions[key], (*one.reads, *made, *given), given, one.turns)

    return [tuple(map(back, reversed(section.passes))) for section in sections]


def _back(one: Pass) -> ca.Function:
    """Function of the arguments of a pass and the derivatives by results and by arguments."""
    given, name = one.function.sx_in(), f"{one.function.name()}_back"
    weights = [ca.SX.sym(f"w{k}", place.length) for k, place in enumerate(one.writes)]
    before = [ca.SX.sym(f"b{k}", place.length) for k, place in enumerate(one.reads)]
    by_given = transposed(one.function(*given), given, ca.vertcat(*weights))
    made = ca.vertcat(*before) + ca.vertcat(*by_given)
    return ca.Function(name, [*given, *weights, *before], [made])


def _add(sums: dict[int, ca.SX], row: int, term: ca.SX) -> None:
    sums[row] = sums[row] + term if row in sums else term


def _gathered(symbols: ca.SX, found: dict[int, ca.SX]) -> ca.SX:
    """Column of what was found for each symbol, sparse where there is nothing."""
    column = ca.SX(symbols.numel(), 1)
    for k in range(symbols.numel()):
        product = found.get(symbols[k].element_hash())
        if product is not None and not product.is_zero():
            column[k] = product
    return column


def _values(rows: Sequence[tuple[str, tuple[int, ...], float]], free: list[ca.SX]) -> list[ca.SX]:
    values: list[ca.SX] = []
    for operation, operands, constant in rows:
        if operation == OUTPUT:
            values.append(ca.SX())
        elif operation == INPUT:
            values.append(free[operands[1]])
        elif operation == CONSTANT:
            values.append(ca.SX(constant))
        else:
            values.append(applied(operation, [values[k] for k in operands]))
    return values


def _moving(
    rows: Sequence[tuple[str, tuple[int, ...], float]], free: list[ca.SX], wanted: set[int]
) -> set[int]:
    """Rows that depend on the symbols with these hashes."""
    moving: set[int] = set()
    for row, (operation, operands, _) in enumerate(rows):
        if operation == INPUT:
            depends = free[operands[1]].element_hash() in wanted
        else:
            depends = operation not in (CONSTANT, OUTPUT) and not moving.isdisjoint(operands)
        if depends:
            moving.add(row)
    return moving


def _below(
    rows: Sequence[tuple[str, tuple[int, ...], float]], operations: frozenset[str]
) -> set[int]:
    """Rows on which one of these operations depends."""
    below: set[int] = set()
    for row in reversed(range(len(rows))):
        operation, operands, _ = rows[row]
        inner = operation not in (INPUT, CONSTANT, OUTPUT)
        if inner and (operation in operations or row in below):
            below.update(operands)
    return below


def _part(operation: str, k: int, operands: list[ca.SX], slope: ca.SX, total: ca.SX) -> ca.SX:
    """Contribution of an operation to what its k-th operand receives: slope times ``total``."""
    if operation in SELECTIONS:
        return applied("if_else_zero", [slope, total])
    product = slope * total
    if operation == "pow" and k == 1:
        product = applied("if_else_zero", [operands[0], product])
    if operation in SINGULAR:
        product = applied("if_else_zero", [total, product])
    return product
