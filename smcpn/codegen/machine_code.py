"""Write statements as LLVM instructions, without numba's analysis of them.

numba looks at every statement of a Python function a dozen times: inference of types, static
single assignment, liveness. Of a covariance recursion, tens of thousands of statements, that takes
longer than LLVM takes to compile it. Here every value is a float64 that is assigned once, so that
each statement is one instruction or call, written in a single pass. `loops` sets them into loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from smcpn.codegen.compiled_call import CompiledCalls
from smcpn.codegen.elementary import FUNCTIONS, Functions, apply
from smcpn.codegen.lower import Literal, Operand, Statement, Value
from smcpn.codegen.terms import constant
from smcpn.errors import InputError
from smcpn.model.compiled_function import CALL
from smcpn.model.expression import OPERANDS


def _number(like: Any, number: float) -> Any:
    return constant(like.type, number)


def _test(builder: Any, left: Any, comparison: str, right: Any) -> Any:
    """Compare as Python does: with a NaN, ``!=`` is true and all others are false."""
    compare = builder.fcmp_unordered if comparison == "!=" else builder.fcmp_ordered
    return compare(comparison, left, right)


def _nonzero(builder: Any, x: Any) -> Any:
    return _test(builder, x, "!=", _number(x, 0.0))


def _truth(builder: Any, test: Any, like: Any) -> Any:
    return builder.select(test, _number(like, 1.0), _number(like, 0.0))


def _compared(comparison: str) -> Callable[..., Any]:
    return lambda builder, x, y: _truth(builder, _test(builder, x, comparison, y), x)


def _choose(builder: Any, test: tuple[Any, str, Any], if_true: Any, if_false: Any) -> Any:
    return builder.select(_test(builder, *test), if_true, if_false)


def _sign(builder: Any, x: Any) -> Any:
    zero = _number(x, 0.0)
    not_positive = _choose(builder, (x, "<", zero), _number(x, -1.0), builder.fmul(x, zero))
    return _choose(builder, (x, ">", zero), _number(x, 1.0), not_positive)


def _extreme(builder: Any, x: Any, y: Any, strictly: str, weakly: str) -> Any:
    # The sum is reached with a NaN only, which it passes on and a comparison loses.
    other = _choose(builder, (y, weakly, x), y, builder.fadd(x, y))
    return _choose(builder, (x, strictly, y), x, other)


INSTRUCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda b, x, y: b.fadd(x, y),
    "sub": lambda b, x, y: b.fsub(x, y),
    "mul": lambda b, x, y: b.fmul(x, y),
    "div": lambda b, x, y: b.fdiv(x, y),
    "neg": lambda b, x: b.fneg(x),
    "twice": lambda b, x: b.fmul(_number(x, 2.0), x),
    "sq": lambda b, x: b.fmul(x, x),
    "inv": lambda b, x: b.fdiv(_number(x, 1.0), x),
    "fmax": lambda b, x, y: _extreme(b, x, y, ">", ">="),
    "fmin": lambda b, x, y: _extreme(b, x, y, "<", "<="),
    "sign": _sign,
    "lt": _compared("<"),
    "le": _compared("<="),
    "eq": _compared("=="),
    "ne": _compared("!="),
    "not": lambda b, x: _truth(b, _test(b, x, "==", _number(x, 0.0)), x),
    "and": lambda b, x, y: _truth(b, b.and_(_nonzero(b, x), _nonzero(b, y)), x),
    "or": lambda b, x, y: _truth(b, b.or_(_nonzero(b, x), _nonzero(b, y)), x),
    "if_else_zero": lambda b, x, y: b.select(_nonzero(b, x), y, _number(y, 0.0)),
}
"""Operations that are a few instructions: from an LLVM builder and operands to the result."""


MOST_INLINE = 32
"""Uses of a function in a block up to which each is its instructions, dozens of them.

Beyond, they are calls of one function, of the same bits: the code of a network of neurons would
else not fit the first-level cache, and take most of the time to compile."""


@dataclass(frozen=True)
class Block:
    """Statements with what they are given and what becomes of their results.

    arguments: Passed as numbers.
    loads: Read from slots of a work array.
    stores: Written to slots of the work array, after everything is read.
    results: Returned as numbers.
    """

    arguments: tuple[Value, ...] = ()
    loads: tuple[tuple[Value, int], ...] = ()
    statements: tuple[Statement, ...] = ()
    stores: tuple[tuple[int, Operand], ...] = ()
    results: tuple[Operand, ...] = ()

    def __post_init__(self) -> None:
        for operation in {statement.operation for statement in self.statements}:
            known = operation in INSTRUCTIONS or operation in FUNCTIONS
            if not known and not operation.startswith(CALL):
                raise InputError(
                    f"the model uses the operation {operation}, which cannot be compiled: "
                    "rewrite it with arithmetic and numpy's elementary functions"
                )

    @property
    def repeated(self) -> frozenset[str]:
        """Functions that are used too often to be written out each time."""
        uses = Counter(s.operation for s in self.statements if s.operation in FUNCTIONS)
        return frozenset(name for name, count in uses.items() if count > MOST_INLINE)

    def __str__(self) -> str:
        lines = [f"({', '.join(map(str, self.arguments))})"]
        lines += [f"{value} = w[{slot}]" for value, slot in self.loads]
        lines += map(str, self.statements)
        lines += [f"w[{slot}] = {value}" for slot, value in self.stores]
        return "\n".join([*lines, f"return ({', '.join(map(str, self.results))})"])


class Writer:
    """Writes instructions to an LLVM builder, on doubles or vectors, and knows what they made.

    Operations ``called`` are calls of a function of the module, others are written by
    ``functions``.
    """

    def __init__(
        self,
        builder: Any,
        kind: Any,
        called: frozenset[str] = frozenset(),
        functions: Functions = FUNCTIONS,
    ) -> None:
        self._builder, self._kind = builder, kind
        self._called, self._functions = called, functions
        self.values: dict[Value, Any] = {}
        self._calls = CompiledCalls(builder, kind)

    def spread(self, number: Any) -> Any:
        """Return a vector whose elements are all a number."""
        builder, nothing = self._builder, ir.Constant(self._kind, ir.Undefined)
        first = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), self._kind.count), 0)
        return builder.shuffle_vector(first, nothing, places)

    def value(self, operand: Operand) -> Any:
        """Return what an operand is."""
        if isinstance(operand, Literal):
            return constant(self._kind, operand.number)
        return self.values[operand]

    def run(self, statements: tuple[Statement, ...]) -> None:
        """Write statements."""
        for statement in statements:
            operands = [self.value(operand) for operand in statement.operands]
            operation = statement.operation
            if operation in INSTRUCTIONS:
                result = INSTRUCTIONS[operation](self._builder, *operands)
            elif operation in self._called:
                function = called(self._builder.module, operation, operands[0].type)
                result = self._builder.call(function, operands)
            elif operation.startswith(CALL):
                number = statement.operands[0]
                assert isinstance(number, Literal)
                result = self._calls.rate(operation, int(number.number), operands[2:])
            else:
                result = apply(self._builder, operation, operands, self._functions)
            self.values[statement.target] = result


def called(module: Any, operation: str, kind: Any) -> Any:
    """Return an operation as a function of a module, of doubles or of vectors of them."""
    name = f"{operation}.{getattr(kind, 'count', 1)}"
    if name not in module.globals:
        kinds = [kind] * OPERANDS[operation]
        function = ir.Function(module, ir.FunctionType(kind, kinds), name)
        function.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            function.attributes.add(attribute)
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        builder.ret(apply(builder, operation, list(function.args)))
    return module.globals[name]
