"""Plain functions of numbers and arrays, of this package, as machine code that Python calls.

They are translated into LLVM instructions. numba takes twenty seconds for the loops of `smcpn.pn`:
it looks at every statement a dozen times, and has LLVM optimise each function anew in every one
that calls it. Here statements become instructions in one pass, and LLVM sees the whole once.

A small part of Python is understood: assignments, ``for`` over a range, ``while``, ``if``,
``break``, ``continue``, ``return``; arithmetic, comparisons and conditional expressions; elements
and rows of C-ordered arrays, of which none is counted from the end, and of what is `at_address`;
fields of named tuples; calls of functions of the same kind. A function that returns something says
so in its annotation, and a variable stays what it is at first: a real number, a whole one, a truth
value or an array. Arithmetic is that of `loops.FAST`.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import hashlib
import inspect
import math
import operator
import struct
import textwrap
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Self, cast

import casadi as ca
import numpy as np
from llvmlite import ir

from smcpn.codegen.elementary import apply
from smcpn.codegen.loops import FAST, number
from smcpn.codegen.machine_code import called
from smcpn.codegen.native import Code, Optimisation, code
from smcpn.codegen.target import Target, target
from smcpn.codegen.terms import DOUBLE, INTEGER

TRUTH, STORED_TRUTH = ir.IntType(1), ir.IntType(8)
ELEMENTS = {
    np.dtype(np.float64): DOUBLE, np.dtype(np.int64): INTEGER, np.dtype(np.bool_): STORED_TRUTH,
}  # fmt: skip
"""What arrays hold, by their type; one in the byte order of another machine is none of these."""


@dataclass(frozen=True)
class View:
    """A C-ordered array: the address of its first element, and its lengths."""

    pointer: Any
    shape: tuple[Any, ...]

    @classmethod
    def of(cls, pointer: Any) -> View:
        """Return the array at a pointer, of a length that nothing tells."""
        return cls(pointer, (number(0),))


def leaves(value: Any) -> list[Any]:
    """Return the numbers and addresses that make up a value."""
    if isinstance(value, View):
        return [value.pointer, *value.shape]
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


def rebuilt(value: Any, given: Iterator[Any]) -> Any:
    """Return a value of the same make with other leaves."""
    if isinstance(value, View):
        return View(next(given), tuple(next(given) for _ in value.shape))
    if isinstance(value, tuple):
        parts = [rebuilt(part, given) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return next(given)


def _make(value: Any) -> tuple[Any, ...]:
    """Properties of a value that a translation depends on."""
    if isinstance(value, tuple) and not isinstance(value, View):
        return (type(value), *map(_make, value))
    return (type(value).__name__, *(str(leaf.type) for leaf in leaves(value)))


@functools.cache
def _definition(function: FunctionType) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    return definition


def _loops(function: FunctionType) -> bool:
    return any(isinstance(node, ast.For) for node in ast.walk(_definition(function)))


_RESULTS = {"float": DOUBLE, "Scalar": DOUBLE, "int": INTEGER, "bool": TRUTH, "Truth": TRUTH}


def _results(annotation: ast.expr | None) -> list[Any]:
    """Types of what a function returns."""
    match annotation:
        case None | ast.Constant(value=None):
            return []
        case ast.Name(id=name):
            return [_RESULTS[name]]
        case ast.Subscript(slice=ast.Tuple(elts=parts)):
            return [kind for part in parts for kind in _results(part)]
        case _:
            raise TypeError(f"cannot return {ast.unparse(annotation)}")


class Program:
    """A module with each function that was translated so far."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self._functions: dict[tuple[Any, ...], Any] = {}

    def call(self, builder: Any, function: FunctionType, arguments: Sequence[Any]) -> Any:
        """Write a call of a function, translated at its first use with such arguments."""
        key = (function, *map(_make, arguments))
        if key not in self._functions:
            self._functions[key] = _Body(self, function, arguments).function
        elif _loops(function):
            # To optimise its loops again for each place takes more than the calls.
            self._functions[key].attributes.add("noinline")
        given = [leaf for argument in arguments for leaf in leaves(argument)]
        returned = builder.call(self._functions[key], given)
        if isinstance(returned.type, ir.LiteralStructType):
            count = len(returned.type.elements)
            return tuple(builder.extract_value(returned, k) for k in range(count))
        return returned


class _Body:
    """One function while it is translated."""

    def __init__(self, program: Program, function: FunctionType, arguments: Sequence[Any]) -> None:
        definition = _definition(function)
        self._program, self._globals = program, function.__globals__
        self._results = _results(definition.returns)
        self._values: dict[str, Any] = {}
        self._slots: dict[str, Any] = {}
        self._loops: list[tuple[Any, Any]] = []
        given = [leaf for argument in arguments for leaf in leaves(argument)]
        self.function = self._declared(function.__name__, [leaf.type for leaf in given])
        self._entry = self.function.append_basic_block("entry")
        body = self.function.append_basic_block("body")
        self._builder: Any = ir.IRBuilder(body)
        self._bind(definition, arguments)
        self._run(definition.body)
        if not self._builder.block.is_terminated:
            self._builder.unreachable() if self._results else self._builder.ret_void()
        ir.IRBuilder(self._entry).branch(body)

    def _declared(self, name: str, kinds: list[Any]) -> Any:
        results: Any = ir.VoidType()
        if self._results:
            several = len(self._results) > 1
            results = ir.LiteralStructType(self._results) if several else self._results[0]
        module = self._program.module
        made = ir.Function(
            module, ir.FunctionType(results, kinds), module.get_unique_name(f"{name}.")
        )
        made.linkage = "internal"
        made.attributes.add("nounwind")
        return made

    def _bind(self, definition: ast.FunctionDef, arguments: Sequence[Any]) -> None:
        """Name the arguments; those that the function changes become variables."""
        changed = {
            node.id for node in ast.walk(definition)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }  # fmt: skip
        given = iter(self.function.args)
        for argument, value in zip(definition.args.args, arguments, strict=True):
            own = rebuilt(value, given)
            if argument.arg in changed:
                self._assign(argument.arg, own)
            else:
                self._values[argument.arg] = own

    # Statements

    def _run(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Expr(value=value):
                self._value(value)
            case ast.Assign(targets=[target], value=value):
                self._store(target, self._value(value))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._store(target, self._value(value))
            case ast.AugAssign(target=target, op=op, value=value):
                self._augment(target, op, value)
            case ast.If(test=test, body=body, orelse=orelse):
                self._choose(test, lambda: self._run(body), lambda: self._run(orelse))
            case ast.While(test=test, body=body, orelse=[]):
                self._repeat(lambda: self._truth(self._value(test)), body, lambda: None)
            case ast.For(target=ast.Name(id=name), iter=ast.Call(args=args), body=body, orelse=[]):
                self._count(name, args, body)
            case ast.Break():
                self._builder.branch(self._loops[-1][1])
            case ast.Continue():
                self._builder.branch(self._loops[-1][0])
            case ast.Return(value=value):
                self._return(value)
            case _:
                raise TypeError(f"cannot translate: {ast.unparse(statement)}")

    def _return(self, value: ast.expr | None) -> None:
        if value is None:
            self._builder.ret_void()
            return
        parts = [
            self._as(kind, leaf)
            for kind, leaf in zip(self._results, leaves(self._value(value)), strict=True)
        ]
        if len(parts) == 1:
            self._builder.ret(parts[0])
            return
        whole: Any = ir.Constant(ir.LiteralStructType(self._results), ir.Undefined)
        for k, part in enumerate(parts):
            whole = self._builder.insert_value(whole, part, k)
        self._builder.ret(whole)

    def _choose(
        self, test: ast.expr, then: Callable[[], None], otherwise: Callable[[], None]
    ) -> None:
        builder = self._builder
        blocks = [self.function.append_basic_block() for _ in range(3)]
        builder.cbranch(self._truth(self._value(test)), *blocks[:2])
        for block, write in zip(blocks, (then, otherwise), strict=False):
            builder.position_at_end(block)
            write()
            if not builder.block.is_terminated:
                builder.branch(blocks[2])
        builder.position_at_end(blocks[2])

    def _count(self, name: str, args: Sequence[ast.expr], body: Sequence[ast.stmt]) -> None:
        """Write ``for name in range(*args)``; the step is a literal."""
        step = ast.literal_eval(args[2]) if len(args) == 3 else 1
        ends = [self._value(arg) for arg in args[:2]]
        begin, end = ends if len(ends) == 2 else (number(0), ends[0])
        counter = self._variable(INTEGER)
        builder = self._builder
        builder.store(begin, counter)

        def more() -> Any:
            following = builder.load(counter)
            self._assign(name, following)
            return builder.icmp_signed("<" if step > 0 else ">", following, end)

        def advance() -> None:
            following = builder.add(builder.load(counter), number(step), flags=("nsw",))
            builder.store(following, counter)

        self._repeat(more, body, advance)

    def _repeat(
        self, test: Callable[[], Any], body: Sequence[ast.stmt], advance: Callable[[], None]
    ) -> None:
        builder = self._builder
        head, inner, latch, after = (self.function.append_basic_block() for _ in range(4))
        builder.branch(head)
        builder.position_at_end(head)
        builder.cbranch(test(), inner, after)
        builder.position_at_end(inner)
        self._loops.append((latch, after))
        self._run(body)
        self._loops.pop()
        if not builder.block.is_terminated:
            builder.branch(latch)
        builder.position_at_end(latch)
        advance()
        builder.branch(head)
        builder.position_at_end(after)

    def _augment(self, target: ast.expr, op: ast.operator, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            current = self._name(target.id)
            self._assign(target.id, self._operation(op, current, self._value(value)))
            return
        assert isinstance(target, ast.Subscript)
        pointer = self._place(target).pointer
        added = self._value(value)
        result = self._operation(op, self._builder.load(pointer), added)
        self._builder.store(result, pointer)

    def _store(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self._assign(name, value)
            case ast.Tuple(elts=parts):
                for part, own in zip(parts, value, strict=True):
                    self._store(part, own)
            case ast.Subscript():
                pointer = self._place(target).pointer
                self._builder.store(self._as(pointer.type.pointee, value), pointer)
            case _:
                raise TypeError(f"cannot assign to {ast.unparse(target)}")

    def _variable(self, kind: Any) -> Any:
        return ir.IRBuilder(self._entry).alloca(kind)

    def _assign(self, name: str, value: Any) -> None:
        if name not in self._slots:
            slots = iter([self._variable(leaf.type) for leaf in leaves(value)])
            self._slots[name] = rebuilt(value, slots)
        for slot, leaf in zip(leaves(self._slots[name]), leaves(value), strict=True):
            self._builder.store(self._as(slot.type.pointee, leaf), slot)

    # Expressions

    def _name(self, name: str) -> Any:
        if name in self._values:
            return self._values[name]
        slot = self._slots[name]
        return rebuilt(slot, iter([self._builder.load(one) for one in leaves(slot)]))

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return _constant(value)
            case ast.Name(id=name) if name in self._values or name in self._slots:
                return self._name(name)
            case ast.Name() | ast.Attribute(value=ast.Name()) if self._is_known(node):
                return _constant(self._known(node))
            case ast.Attribute(value=owner, attr=name):
                return getattr(self._value(owner), name)
            case ast.Tuple(elts=parts):
                return tuple(self._value(part) for part in parts)
            case ast.Subscript(value=owner, slice=ast.Constant(value=k)) if isinstance(
                found := self._value(owner), tuple
            ):
                return found[cast(int, k)]
            case ast.Subscript():
                return self._element(self._place(node))
            case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=2)):
                base = self._value(left)
                return self._operation(ast.Mult(), base, base)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(op, self._value(left), self._value(right))
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(op, self._value(operand))
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compared(left, ops, others)
            case ast.BoolOp(op=op, values=values):
                return self._joined(isinstance(op, ast.And), values)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._either(test, body, orelse)
            case ast.Call(func=function, args=args, keywords=[]):
                return self._call(function, args)
            case _:
                raise TypeError(f"cannot translate: {ast.unparse(node)}")

    def _known(self, node: ast.expr) -> Any:
        """Object that a name means outside of the function."""
        if isinstance(node, ast.Attribute):
            return getattr(self._known(node.value), node.attr)
        assert isinstance(node, ast.Name)
        builtin = vars(inspect.getmodule(len))
        return self._globals[node.id] if node.id in self._globals else builtin[node.id]

    def _is_known(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return True
        owner = getattr(node, "value", None)
        return isinstance(owner, ast.Name) and isinstance(self._globals.get(owner.id), ModuleType)

    def _place(self, node: ast.Subscript) -> View:
        """The row of an array, or its element, that is meant."""
        view: View = self._value(node.value)
        index = node.slice
        places = [self._value(p) for p in (index.elts if isinstance(index, ast.Tuple) else [index])]
        rest, builder = view.shape[len(places) :], self._builder
        offset = places[0]
        for length, place in zip(view.shape[1:], places[1:], strict=False):
            offset = builder.add(builder.mul(offset, length, flags=("nsw",)), place, flags=("nsw",))
        for length in rest:
            offset = builder.mul(offset, length, flags=("nsw",))
        return View(builder.gep(view.pointer, [offset], inbounds=True), rest)

    def _element(self, view: View) -> Any:
        if view.shape:
            return view
        found = self._builder.load(view.pointer)
        return self._truth(found) if found.type == STORED_TRUTH else found

    def _as(self, kind: Any, value: Any) -> Any:
        """A number as one of another kind."""
        if value.type == kind:
            return value
        if kind == DOUBLE and value.type == INTEGER:
            return self._builder.sitofp(value, DOUBLE)
        if value.type == TRUTH and kind in (INTEGER, STORED_TRUTH):
            return self._builder.zext(value, kind)
        raise TypeError(f"cannot take a {value.type} for a {kind}")

    def _alike(self, *values: Any) -> list[Any]:
        kind = DOUBLE if any(value.type == DOUBLE for value in values) else INTEGER
        if all(value.type == TRUTH for value in values):
            kind = TRUTH
        return [self._as(kind, value) for value in values]

    def _operation(self, op: ast.operator, left: Any, right: Any) -> Any:
        builder = self._builder
        if isinstance(op, ast.Pow):
            if right.type == INTEGER:
                return self._program.call(builder, _whole_power, [self._as(DOUBLE, left), right])
            return self._function("pow", left, right)
        if isinstance(op, ast.Div):
            left, right = self._as(DOUBLE, left), self._as(DOUBLE, right)
        left, right = self._alike(left, right)
        if left.type == DOUBLE:
            return getattr(builder, _REAL[type(op)])(left, right, flags=FAST)
        if isinstance(op, (ast.FloorDiv, ast.Mod)):
            quotient, rest = self._divided(left, right)
            return quotient if isinstance(op, ast.FloorDiv) else rest
        return getattr(builder, _WHOLE[type(op)])(left, right, flags=("nsw",))

    def _divided(self, left: Any, right: Any) -> tuple[Any, Any]:
        """Quotient of whole numbers, rounded down as Python does, and the rest."""
        builder, nothing = self._builder, number(0)
        rest = builder.srem(left, right)
        differ = builder.icmp_signed("<", builder.xor(rest, right), nothing)
        down = builder.and_(builder.icmp_signed("!=", rest, nothing), differ)
        quotient = builder.sub(builder.sdiv(left, right), builder.zext(down, INTEGER))
        return quotient, builder.add(rest, builder.select(down, right, nothing))

    def _unary(self, op: ast.unaryop, value: Any) -> Any:
        if isinstance(op, ast.Not):
            return self._builder.not_(self._truth(value))
        assert isinstance(op, ast.USub)
        if value.type == DOUBLE:
            return self._builder.fneg(value, flags=FAST)
        return self._builder.neg(value)

    def _truth(self, value: Any) -> Any:
        if value.type == TRUTH:
            return value
        return self._test(ast.NotEq(), value, ir.Constant(value.type, 0))

    def _test(self, op: ast.cmpop, left: Any, right: Any) -> Any:
        left, right = self._alike(left, right) if left.type != right.type else (left, right)
        sign = _COMPARISONS[type(op)]
        if left.type != DOUBLE:
            return self._builder.icmp_signed(sign, left, right)
        compare = self._builder.fcmp_unordered if sign == "!=" else self._builder.fcmp_ordered
        return compare(sign, left, right)

    def _compared(
        self, left: ast.expr, ops: Sequence[ast.cmpop], others: Sequence[ast.expr]
    ) -> Any:
        values = [self._value(node) for node in (left, *others)]
        if isinstance(ops[0], ast.In):
            tests = [self._test(ast.Eq(), values[0], one) for one in values[1]]
            return functools.reduce(self._builder.or_, tests)
        tests = [self._test(op, *pair) for op, pair in zip(ops, pairwise(values), strict=True)]
        return functools.reduce(self._builder.and_, tests)

    def _joined(self, every: bool, values: Sequence[ast.expr]) -> Any:
        """``and`` or ``or``, which look at a value only if those before do not decide."""
        builder, result = self._builder, self._variable(TRUTH)
        after = self.function.append_basic_block()
        for value in values:
            test = self._truth(self._value(value))
            builder.store(test, result)
            following = self.function.append_basic_block()
            builder.cbranch(test, *((following, after) if every else (after, following)))
            builder.position_at_end(following)
        builder.branch(after)
        builder.position_at_end(after)
        return builder.load(result)

    def _either(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Any:
        builder, ends = self._builder, []

        def written(node: ast.expr) -> None:
            value = self._value(node)
            ends.append((value, builder.block))
            # Only known when the other one is written too: whether it becomes a real number.
            builder.unreachable()

        self._choose(test, lambda: written(body), lambda: written(orelse))
        after, values = builder.block, []
        kind = DOUBLE if any(value.type == DOUBLE for value, _ in ends) else ends[0][0].type
        for value, block in ends:
            block.instructions.pop()
            block.terminator = None
            builder.position_at_end(block)
            values.append((self._as(kind, value), block))
            builder.branch(after)
        builder.position_at_end(after)
        result = builder.phi(kind)
        for value, block in values:
            result.add_incoming(value, block)
        return result

    def _call(self, function: ast.expr, args: Sequence[ast.expr]) -> Any:
        if isinstance(function, ast.Attribute) and not self._is_known(function):
            assert function.attr == "reshape"
            lengths = tuple(self._value(arg) for arg in args)
            return View(self._value(function.value).pointer, lengths)
        called_function = self._known(function)
        if called_function is at_address:
            return self._at(self._known(args[0]), self._value(args[1]))
        values = [self._value(arg) for arg in args]
        if called_function in _FUNCTIONS:
            return self._function(_FUNCTIONS[called_function], *values)
        if called_function in _WRITTEN:
            return _WRITTEN[called_function](self, *values)
        return self._program.call(self._builder, called_function, values)

    def _function(self, operation: str, *values: Any) -> Any:
        """Write an elementary function: a few instructions, or a call."""
        given = [self._as(DOUBLE, value) for value in values]
        if operation in _SHORT:
            return apply(self._builder, operation, given)
        return self._builder.call(called(self._program.module, operation, DOUBLE), given)

    def _at(self, kind: Any, address: Any) -> View:
        """``at_address(kind, address)``."""
        pointer = (DOUBLE if kind is float else INTEGER).as_pointer()
        return View.of(self._builder.inttoptr(address, pointer))

    def length(self, view: View) -> Any:
        """``len(view)``."""
        return view.shape[0]

    def extreme(self, sign: str, *values: Any) -> Any:
        """Write ``min`` or ``max`` as Python compares."""
        first, *others = self._alike(*values)
        for other in others:
            op = ast.Lt() if sign == "<" else ast.Gt()
            first = self._builder.select(self._test(op, other, first), other, first)
        return first

    def chosen(self, test: Any, value: Any, other: Any) -> Any:
        """Write ``ca.if_else(test, value, other)``."""
        return self._builder.select(self._truth(test), *self._alike(value, other))

    def finite(self, value: Any) -> Any:
        """``math.isfinite(value)``."""
        size = self._function("fabs", value)
        return self._builder.fcmp_ordered("<", size, ir.Constant(DOUBLE, math.inf))

    def truncated(self, value: Any) -> Any:
        """``int(value)``."""
        return self._builder.fptosi(value, INTEGER)

    def real(self, value: Any) -> Any:
        """``float(value)``."""
        return self._as(DOUBLE, value)

    def call_address(self, address: Any, *values: Any) -> None:
        """Call a function by its address on numbers and arrays, of which it takes the addresses."""
        given = [value.pointer if isinstance(value, View) else value for value in values]
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in given])
        self._builder.call(self._builder.inttoptr(address, kind.as_pointer()), given)


def _constant(value: Any) -> Any:
    if isinstance(value, bool):
        return ir.Constant(TRUTH, value)
    if isinstance(value, int):
        return number(value)
    if isinstance(value, float):
        return ir.Constant(DOUBLE, value)
    raise TypeError(f"cannot use {value!r} in a translated function")


_POINTER = ctypes.POINTER(ctypes.c_double)


def call_address(address: int, *values: Any) -> None:
    """Call a function by its address on numbers and arrays, which it takes by their addresses."""
    given = [one.ctypes.data_as(_POINTER) if isinstance(one, np.ndarray) else one for one in values]
    kinds = [_POINTER if isinstance(one, np.ndarray) else ctypes.c_double for one in values]
    ctypes.CFUNCTYPE(None, *kinds)(address)(*given)


def at_address(kind: type[float] | type[int], address: int) -> Any:
    """Return what is at an address, doubles or 64-bit integers, of a length that nothing tells."""
    return ctypes.cast(address, _POINTER if kind is float else ctypes.POINTER(ctypes.c_int64))


def _whole_power(base: float, exponent: int) -> float:
    """Power by squaring."""
    left = -exponent if exponent < 0 else exponent
    result = 1.0
    while left != 0:
        if left % 2 == 1:
            result *= base
        left = left // 2
        base *= base
    return 1.0 / result if exponent < 0 else result


_REAL: dict[type[ast.operator], str] = {
    ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv",
}  # fmt: skip
_WHOLE: dict[type[ast.operator], str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_SHORT = ("sqrt", "fabs", "copysign", "floor", "ceil")
_FUNCTIONS: dict[Any, str] = {
    abs: "fabs", math.sqrt: "sqrt", math.exp: "exp", math.log: "log", math.sin: "sin",
    math.cos: "cos", math.tan: "tan", math.sinh: "sinh", math.cosh: "cosh", math.tanh: "tanh",
    math.asin: "asin", math.acos: "acos", math.atan: "atan", math.asinh: "asinh",
    math.acosh: "acosh", math.atanh: "atanh", math.erf: "erf", math.atan2: "atan2",
    math.copysign: "copysign", math.floor: "floor", np.floor: "floor", np.ceil: "ceil",
    ca.exp: "exp", ca.log: "log",
}  # fmt: skip
_WRITTEN: dict[Any, Callable[..., Any]] = {
    len: _Body.length,
    min: lambda body, *values: body.extreme("<", *values),
    max: lambda body, *values: body.extreme(">", *values),
    # A formula that is compiled here may be one of CasADi's expressions elsewhere.
    ca.fmin: lambda body, *values: body.extreme("<", *values),
    ca.fmax: lambda body, *values: body.extreme(">", *values),
    ca.if_else: _Body.chosen,
    math.isfinite: _Body.finite,
    int: _Body.truncated,
    float: _Body.real,
    call_address: _Body.call_address,
}


_ADDRESS = INTEGER.as_pointer()
_HEAD = object.__basicsize__
"""Bytes of an object before what its type has. Of an array these are the address of its data, the
number of its dimensions, and the address of its lengths, in every version of numpy."""
_DATA, _LENGTHS = _HEAD, _HEAD + 16
_DOUBLE, _INTEGER = struct.Struct("=d"), struct.Struct("=q")


@dataclass(frozen=True, slots=True)
class PassedArgument:
    """An argument of a routine as it is passed, for one that many calls take.

    value: object, a number, an array, or a named tuple of these; kept alive.
    words: Numbers as 64 bits, arrays as the addresses of their objects.
    makes: Kinds of the numbers and arrays.
    """

    value: Any
    words: list[int]
    makes: list[str]

    @classmethod
    def of(cls, value: Any) -> Self:
        """Look at an argument."""
        words, makes = zip(*map(_word, _flat(value)), strict=True)
        return cls(value, list(words), list(makes))

    def __reduce__(self) -> tuple[Any, ...]:
        return PassedArgument.of, (self.value,)


def _flat(value: Any) -> tuple[Any, ...]:
    """The numbers and arrays of an argument."""
    return value if isinstance(value, tuple) else (value,)


def _word(leaf: Any) -> tuple[int, str]:
    if isinstance(leaf, np.ndarray):
        if leaf.dtype not in ELEMENTS or not leaf.flags.c_contiguous:
            raise TypeError(f"an array of {leaf.dtype} with strides {leaf.strides} was passed")
        return id(leaf), f"{leaf.dtype.char}{leaf.ndim}"
    if isinstance(leaf, float):
        return _INTEGER.unpack(_DOUBLE.pack(leaf))[0], "d"
    if isinstance(leaf, (bool, np.bool_)):
        return int(leaf), "?"
    return operator.index(leaf), "l"


class Routine:
    """A function as machine code, compiled at its first call or at an earlier start.

    Its arguments are whole and real numbers, truth values, C-ordered arrays of these, and named
    tuples of them, or each of these as `PassedArgument`. It returns nothing or a whole number.
    Other threads run meanwhile.
    """

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._compiled: dict[tuple[Target, tuple[str, ...]], tuple[Code, Any]] = {}

    def __call__(self, *arguments: Any) -> int:
        """Run it."""
        words: list[int] = []
        makes: list[str] = []
        for argument in arguments:
            if isinstance(argument, PassedArgument):
                words += argument.words
                makes += argument.makes
                continue
            for leaf in _flat(argument):
                word, make = _word(leaf)
                words.append(word)
                makes.append(make)
        key = target(), tuple(makes)
        if key not in self._compiled:
            self._compiled[key] = self._compile(arguments, key[1])
        passed = array("q", words)
        return self._compiled[key][1](passed.buffer_info()[0])

    def _compile(self, arguments: tuple[Any, ...], makes: tuple[str, ...]) -> tuple[Code, Any]:
        function = self._function
        values = tuple(a.value if isinstance(a, PassedArgument) else a for a in arguments)
        text = f"{function.__qualname__} {makes}\n{sources(function)}"
        made = code(text, lambda module: _write(module, function, values), Optimisation.VECTORISED)
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
        return made, kind(made.address("run"))


@functools.cache
def routine(function: Any) -> Routine:
    """Return a function of this package as machine code."""
    return Routine(function)


@functools.cache
def sources(function: FunctionType) -> str:
    """Return the SHA-256 of the package that a function is of, and so of all that it calls."""
    files = sorted(Path(inspect.getfile(function)).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _write(module: ir.Module, function: FunctionType, values: tuple[Any, ...]) -> None:
    """Write the function that takes the address of what is passed."""
    made = ir.Function(module, ir.FunctionType(INTEGER, [_ADDRESS]), "run")
    builder: Any = ir.IRBuilder(made.append_basic_block("entry"))
    leaves = [
        _taken(builder, builder.load(builder.gep(made.args[0], [number(k)])), leaf)
        for k, leaf in enumerate([leaf for value in values for leaf in _flat(value)])
    ]
    returned = Program(module).call(builder, function, rebuilt(values, iter(leaves)))
    builder.ret(returned if returned.type == INTEGER else number(0))


def _taken(builder: Any, word: Any, leaf: Any) -> Any:
    """Return what a word of the arguments stands for: a number, a truth value or an array."""
    if isinstance(leaf, float):
        return builder.bitcast(word, DOUBLE)
    if not isinstance(leaf, np.ndarray):
        return builder.trunc(word, TRUTH) if isinstance(leaf, (bool, np.bool_)) else word

    def held(place: int) -> Any:
        return builder.load(builder.inttoptr(builder.add(word, number(place)), _ADDRESS))

    lengths = builder.inttoptr(held(_LENGTHS), _ADDRESS)
    shape = [builder.load(builder.gep(lengths, [number(k)])) for k in range(leaf.ndim)]
    data = builder.inttoptr(held(_DATA), ELEMENTS[leaf.dtype].as_pointer())
    return View(data, tuple(shape))
