"""An expression graph as a table of plain numbers and names, and back.

CasADi numbers its operations, and may number them anew; the table names them. A row is one
instruction, its operands are rows before it, so that a table can be written to a file, compared,
and evaluated again without running anybody's code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

from smcpn.base.stored import Stored, Unchecked, by_document
from smcpn.errors import InputError
from smcpn.model.compiled_function import CALL, KNOWN, compiled_function

INPUT, CONSTANT, OUTPUT = "input", "constant", "output"

UNARY = frozenset({
    "neg", "twice", "sq", "inv", "sqrt", "exp", "log", "log1p", "expm1", "fabs", "sign", "not",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "erf", "erfinv", "floor", "ceil",
})  # fmt: skip
BINARY = frozenset({
    "add", "sub", "mul", "div", "pow", "constpow", "atan2", "hypot", "copysign", "fmod",
    "remainder", "fmax", "fmin", "lt", "le", "eq", "ne", "and", "or", "if_else_zero",
})  # fmt: skip
OPERANDS = {INPUT: 2, CONSTANT: 0, OUTPUT: 3} | dict.fromkeys(UNARY, 1) | dict.fromkeys(BINARY, 2)
"""Every instruction by name, and how many of its three operands it uses."""
LISTS = {"list": 1, "append": 2}
"""Rows of a table that gather the operands of a call, whose own row has the last of them."""
_CALLS = re.compile(rf"{CALL}[0-9a-f]{{10}}")

MAX_ELEMENTS = 1_000_000
"""Elements of all arguments together: a damaged shape must not fill the memory."""

MAX_ROWS = 100_000
"""Rows of a table: a kernel of so many would take an hour to compile."""

_NAME_TYPE = "S16"
_CASADI_NAMES = {INPUT: "OP_INPUT", CONSTANT: "OP_CONST", OUTPUT: "OP_OUTPUT"}
_CODES = {name: getattr(ca, _CASADI_NAMES.get(name, f"OP_{name.upper()}")) for name in OPERANDS}
_NAMES = {getattr(ca, name): name[3:].lower() for name in dir(ca) if name.startswith("OP_")} | {
    code: name for name, code in _CODES.items()
}


class Instruction(NamedTuple):
    """One row of a graph.

    operation: A key of `OPERANDS`, one of a `CalledFunction`, or what else CasADi knows.
    operands: Rows whose values are taken. Of an input its argument and element; of an output the
        row of its value, the result and its element.
    """

    operation: str
    operands: tuple[int, ...]
    constant: float = 0.0


def instructions(function: ca.Function) -> Iterator[Instruction]:
    """Walk a function of SX, every value in a row of its own, those of functions it calls too."""
    row_in: dict[int, int] = {}
    row, nodes = 0, None
    for k in range(function.n_instructions()):
        code = function.instruction_id(k)
        source, target = function.instruction_input(k), function.instruction_output(k)
        if code == ca.OP_CALL:
            nodes = function.instructions_sx() if nodes is None else nodes
            inner, values = nodes[k].which_function(), [row_in[s] for s in source]
            made, written = _called(inner, values, row)
            yield from made
            row += len(made)
            row_in.update((t, value) for t, value in zip(target, written, strict=True) if t >= 0)
            continue
        if code == ca.OP_OUTPUT:
            yield Instruction(OUTPUT, (row_in[source[0]], *target))
        elif code == ca.OP_INPUT:
            yield Instruction(INPUT, tuple(source))
        elif code == ca.OP_CONST:
            yield Instruction(CONSTANT, (), function.instruction_constant(k))
        else:
            yield Instruction(_NAMES.get(code, str(code)), tuple(row_in[s] for s in source))
        if code != ca.OP_OUTPUT:
            row_in[target[0]] = row
        row += 1


def _called(
    function: ca.Function, given: list[int], row: int
) -> tuple[list[Instruction], list[int]]:
    """Instructions of a call, the first of them in a row, and rows of its results.

    A function of SX, as CasADi calls for derivatives of a `CalledFunction`, is written out.

    given: Rows of the elements of all arguments.
    """
    operation = CALL + function.name().removeprefix(CALL.replace(":", "_"))
    if operation in KNOWN:
        return [Instruction(operation, tuple(given))], [row]
    begins = np.cumsum([0, *(function.nnz_in(k) for k in range(function.n_in()))]).tolist()
    edges = np.cumsum([0, *(function.nnz_out(k) for k in range(function.n_out()))]).tolist()
    made, places, results = list[Instruction](), dict[int, int](), [0] * edges[-1]
    for number, (name, operands, constant) in enumerate(instructions(function)):
        if name == INPUT:
            places[number] = given[begins[operands[0]] + operands[1]]
        elif name == OUTPUT:
            results[edges[operands[1]] + operands[2]] = places[operands[0]]
        else:
            places[number] = row + len(made)
            made.append(Instruction(name, tuple(places[k] for k in operands), constant))
    return made, results


def _gathered(rows: Iterable[Instruction]) -> list[Instruction]:
    """Instructions of which none has more than three operands: those of calls are lists."""
    made, places = list[Instruction](), dict[int, int]()
    for number, (operation, operands, constant) in enumerate(rows):
        if operation not in (INPUT, OUTPUT):
            operands = tuple(places[k] for k in operands)
        elif operation == OUTPUT:
            operands = (places[operands[0]], *operands[1:])
        if operation.startswith(CALL):
            made.append(Instruction("list", operands[:1]))
            for operand in operands[1:]:
                made.append(Instruction("append", (len(made) - 1, operand)))
            operands = (len(made) - 1,)
        places[number] = len(made)
        made.append(Instruction(operation, operands, constant))
    return made


def applied(operation: str, operands: Sequence[ca.SX]) -> ca.SX:
    """Graph of an operation of `UNARY` or `BINARY`, or of a compiled function, on its operands."""
    if operation.startswith(CALL):
        k, interval, *point = operands
        return compiled_function(operation).graph(k, interval, ca.vertcat(*point))
    make = ca.SX.unary if operation in UNARY else ca.SX.binary
    return make(_CODES[operation], *operands)


@dataclass(frozen=True, eq=False)
class ExpressionTable(Stored):
    """A function of SX as arrays.

    The rows keep CasADi's order, so that the same kernels are generated from what `function`
    returns as from the original.

    operation: (n,), keys of `OPERANDS`.
    operands: (n, 3), see `Instruction`; -1 where unused.
    constant: (n,), value of the constants; 0 elsewhere.
    input_shapes, output_shapes: (k, 2), rows and columns of every argument and result, which are
        dense and stored by column.
    """

    operation: Annotated[NDArray[np.bytes_], Unchecked()]
    operands: Annotated[NDArray[np.int64], Unchecked()]
    constant: Annotated[NDArray[np.float64], Unchecked()]
    input_shapes: Annotated[NDArray[np.int64], Unchecked()]
    output_shapes: Annotated[NDArray[np.int64], Unchecked()]

    def __post_init__(self) -> None:
        n = np.size(self.operation)
        if n > MAX_ROWS:
            raise InputError(f"the model has {n} operations, and the most is {MAX_ROWS}")
        put: Callable[[str, Any], None] = lambda name, v: object.__setattr__(self, name, v)  # noqa: E731
        put("operation", _array("operation", self.operation, _NAME_TYPE, (n,)))
        put("operands", _array("operands", self.operands, "i8", (n, 3)))
        put("constant", _array("constant", self.constant, "f8", (n,)))
        for name in ("input_shapes", "output_shapes"):
            shapes = getattr(self, name)
            put(name, _array(name, shapes, "i8", (np.size(shapes) // 2, 2)))
        self._check()

    @classmethod
    def of(cls, function: ca.Function) -> ExpressionTable:
        """Make the table of a function of SX."""
        dense = [function.sparsity_in(k).is_dense() for k in range(function.n_in())]
        dense += [function.sparsity_out(k).is_dense() for k in range(function.n_out())]
        if not all(dense):
            raise InputError(f"function '{function.name()}' is sparse: make it dense")
        rows = _gathered(instructions(function))
        return cls(
            operation=np.array([row.operation for row in rows], dtype=_NAME_TYPE),
            operands=np.array(
                [(*row.operands, -1, -1, -1)[:3] for row in rows], dtype=np.int64
            ).reshape(-1, 3),
            constant=np.array([row.constant for row in rows], dtype=float),
            input_shapes=_shapes([function.size_in(k) for k in range(function.n_in())]),
            output_shapes=_shapes([function.size_out(k) for k in range(function.n_out())]),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The table as named arrays."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def same_as(self, other: ExpressionTable) -> bool:
        """True if both have the same rows."""
        mine, others = self.arrays(), other.arrays()
        return all(np.array_equal(values, others[name]) for name, values in mine.items())

    def with_numbers_free(self) -> tuple[ExpressionTable, NDArray[np.float64]]:
        """Return it with its constants, but powers, as one more argument, and their values."""
        powers = self.operands[np.isin(self.operation, [b"pow", b"constpow"]), 1]
        free = np.flatnonzero(self.operation == CONSTANT.encode())
        free = free[~np.isin(free, powers)]
        operation, operands, constant = (
            self.operation.copy(), self.operands.copy(), self.constant.copy()
        )  # fmt: skip
        operation[free] = INPUT
        operands[free, 0], operands[free, 1] = len(self.input_shapes), np.arange(len(free))
        constant[free] = 0.0
        shapes = np.vstack([self.input_shapes, [len(free), 1]])
        table = ExpressionTable(operation, operands, constant, shapes, self.output_shapes)
        return table, self.constant[free]

    def function(self, name: str) -> ca.Function:
        """Build the function again."""
        return ca.Function(name, *self.graphs())

    def graphs(self) -> tuple[list[ca.SX], list[ca.SX]]:
        """Build the graphs again, row by row: fresh symbols of the arguments, and the results.

        CasADi simplifies what it builds. What it has simplified once it leaves as it is, so that
        the rows come out the same, which `same_as` checks.
        """
        arguments = [
            ca.SX.sym(f"i{k}", int(rows), int(columns))
            for k, (rows, columns) in enumerate(self.input_shapes)
        ]
        results = [[ca.SX(0)] * int(rows * columns) for rows, columns in self.output_shapes]
        values, gathered = dict[int, ca.SX](), dict[int, list[ca.SX]]()
        for row, code in enumerate(self.operation):
            operation, (first, second, element) = code.decode(), self.operands[row].tolist()
            if operation == OUTPUT:
                results[second][element] = values[first]
            elif operation == INPUT:
                values[row] = arguments[first][second]
            elif operation == CONSTANT:
                values[row] = ca.SX(float(self.constant[row]))
            elif operation in LISTS:
                taken = (first, second)[: LISTS[operation]]
                gathered[row] = [*gathered.get(first, []), values[taken[-1]]]
            elif operation.startswith(CALL):
                values[row] = applied(operation, gathered[first])
            else:
                taken = (first, second)[: OPERANDS[operation]]
                values[row] = applied(operation, [values[k] for k in taken])
        shaped = [
            ca.reshape(ca.SX(ca.vertcat(*entries)), int(rows), int(columns))
            for entries, (rows, columns) in zip(results, self.output_shapes, strict=True)
        ]
        return arguments, shaped

    def _check(self) -> None:
        for name in ("input_shapes", "output_shapes"):
            # Python's integers do not overflow.
            shapes = getattr(self, name).tolist()
            sides = [side for shape in shapes for side in shape]
            within = not sides or (min(sides) >= 0 and max(sides) <= MAX_ELEMENTS)
            if not within or _elements(shapes) > MAX_ELEMENTS:
                raise InputError(f"expression table: {name} {shapes} cannot be: {_DAMAGED}")
        if np.isnan(self.constant).any():
            row = int(np.isnan(self.constant).argmax())
            raise InputError(f"expression table: the constant of row {row} is NaN: {_DAMAGED}")
        written: list[tuple[int, int]] = []
        values, lists = set[int](), set[int]()
        for row, code in enumerate(self.operation):
            operation, operands = code.decode("ascii", "replace"), self.operands[row].tolist()
            if not (operation in OPERANDS or operation in LISTS or _CALLS.fullmatch(operation)):
                raise InputError(
                    f"the model uses the operation {operation or 'without a name'} (row {row}), "
                    "which cannot be stored: rewrite it with arithmetic and numpy's elementary "
                    "functions"
                )
            self._check_row(row, operation, operands, values, lists)
            if operation == OUTPUT:
                written.append((operands[1], operands[2]))
            else:
                (lists if operation in LISTS else values).add(row)
        if not len(set(written)) == len(written) == _elements(self.output_shapes.tolist()):
            raise InputError(f"expression table: an output is not computed once: {_DAMAGED}")

    def _check_row(
        self, row: int, operation: str, operands: list[int], values: set[int], lists: set[int]
    ) -> None:
        """Refuse operands that do not come before, and elements that are not there."""
        count = (OPERANDS | LISTS).get(operation, 1)
        taken = operands[:1] if operation == OUTPUT else operands[:count]
        if operation == INPUT:
            fits = _has_element(self.input_shapes, *operands[:2])
        elif operation == "append":
            fits = taken[0] in lists and taken[1] in values
        else:
            fits = (lists if _CALLS.fullmatch(operation) else values).issuperset(taken)
        if operation == OUTPUT:
            fits = fits and _has_element(self.output_shapes, *operands[1:])
        if not fits or any(unused != -1 for unused in operands[count:]):
            raise InputError(
                f"expression table: row {row} ({operation}) has operands {operands}, "
                f"which do not come before it or are not there: {_DAMAGED}"
            )


@dataclass(frozen=True)
class AsTable:
    """Annotation of a function of SX, by its name, of which a file holds the table."""

    name: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return by_document(
            lambda table: table.function(self.name),
            lambda function: ExpressionTable.of(function).arrays(),
            handler,
            ExpressionTable,
        )


_DAMAGED = "the table is damaged"


def _array(name: str, values: Any, kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return as an array of this type and shape what is one without rounding."""
    given = np.asarray(values)
    accepted = {"S": "SU", "i": "iu", "f": "f"}[kind[0]]
    if given.shape != shape or (given.size and given.dtype.kind not in accepted):
        raise InputError(
            f"expression table: {name} has shape {given.shape} and type {given.dtype}, "
            f"not {shape} and {np.dtype(kind)}: {_DAMAGED}"
        )
    try:
        array = given.astype(kind)
    except UnicodeError as error:
        raise InputError(f"expression table: {name} is not plain text: {_DAMAGED}") from error
    return array


def _shapes(sizes: list[tuple[int, int]]) -> NDArray[np.int64]:
    return np.array(sizes, dtype=np.int64).reshape(-1, 2)


def _elements(shapes: list[list[int]]) -> int:
    return sum(rows * columns for rows, columns in shapes)


def _has_element(shapes: NDArray[np.int64], number: int, element: int) -> bool:
    return 0 <= number < len(shapes) and 0 <= element < int(np.prod(shapes[number]))
