"""Lowered statements as machine code without numba's analysis of them.

numba looks at every statement of a function a dozen times: inference of types, static single
assignment, liveness. Of a covariance recursion, tens of thousands of statements, that takes longer
than LLVM takes to compile it. Here every value is a float64 that is assigned once, so that the
instructions can be written down as the statements are read.
"""

from __future__ import annotations

import ast
import hashlib
import math
import operator
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_DOUBLE = ir.DoubleType()
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "fadd",
    ast.Sub: "fsub",
    ast.Mult: "fmul",
    ast.Div: "fdiv",
}
_COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "=="}
_MODULES: dict[str, Any] = {"math": math, "np": np}


def straight_line(
    statements: str, lanes: int, shared: tuple[str, ...], functions: dict[str, Callable[..., Any]]
) -> Any:
    """Make a function ``(w, i, values)`` that compiled code calls.

    Parameters
    ----------
    statements : str
        Lines ``name = expression``, ``w[k] = expression`` and ``w[k] += expression``, where an
        expression holds names, numbers, ``w[k]`` and what `smcpn.codegen.lower.OPERATIONS` writes.
    lanes : int
        ``w[k]`` is the element ``k * lanes + i`` of the array passed as ``w``.
    shared : tuple of str
        Names that the statements find in ``values``, in order.
    functions : dict of str to callable
        Compiled functions of the statements' own names.
    """

    @intrinsic
    def run(typingctx: Any, w: Any, i: Any, values: Any) -> tuple[Any, Callable[..., Any]]:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, value=arguments[0])
            names = {name: builder.extract_value(arguments[2], k) for k, name in enumerate(shared)}
            emitter = _Emitter(context, builder, (array.data, arguments[1], lanes), functions)
            emitter.run(statements, names)
            return context.get_dummy_value()

        return types.void(w, types.unliteral(i), values), codegen

    return run


@cache
def digest() -> str:
    """What a kernel's text must name, for its machine code depends on it."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]


class _Emitter:
    """Writes the instructions of one block of statements."""

    def __init__(
        self,
        context: Any,
        builder: Any,
        place: tuple[Any, Any, int],
        functions: dict[str, Callable[..., Any]],
    ) -> None:
        self._context, self._builder, self._functions = context, builder, functions
        self._data, self._lane, self._lanes = place
        self._names: dict[str, Any] = {}

    def run(self, statements: str, names: dict[str, Any]) -> None:
        self._names = dict(names)
        for statement in ast.parse(statements).body:
            if isinstance(statement, ast.Assign):
                target, value = statement.targets[0], self._value(statement.value)
            elif isinstance(statement, ast.AugAssign):
                target = statement.target
                old = self._builder.load(self._address(target))
                value = self._builder.fadd(old, self._value(statement.value))
            else:
                # `pass` stands where there is nothing to do.
                continue
            if isinstance(target, ast.Name):
                self._names[target.id] = value
            else:
                self._builder.store(value, self._address(target))

    def _address(self, node: Any) -> Any:
        offset = ir.Constant(self._lane.type, node.slice.value * self._lanes)
        place = self._builder.add(self._lane, offset, flags=("nsw",))
        return self._builder.gep(self._data, [place], inbounds=True)

    def _value(self, node: Any) -> Any:
        match node:
            case ast.Name():
                return self._names[node.id]
            case ast.Constant(value=float(number)):
                return ir.Constant(_DOUBLE, number)
            case ast.Subscript():
                return self._builder.load(self._address(node))
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                return ir.Constant(_DOUBLE, getattr(_MODULES[module], name))
            case ast.UnaryOp(op=ast.USub()):
                return self._builder.fneg(self._value(node.operand))
            case ast.BinOp(op=ast.Pow()):
                return self._call(operator.pow, [node.left, node.right])
            case ast.BinOp(op=ast.operator() as operation):
                write = getattr(self._builder, _ARITHMETIC[type(operation)])
                return write(self._value(node.left), self._value(node.right))
            case ast.IfExp():
                truth, falsehood = self._value(node.body), self._value(node.orelse)
                return self._builder.select(self._condition(node.test), truth, falsehood)
            case ast.Call():
                return self._call(self._function(node.func), node.args)
            case _:
                raise NotImplementedError(ast.dump(node))

    def _condition(self, node: Any) -> Any:
        if isinstance(node, ast.BoolOp):
            join = self._builder.and_ if isinstance(node.op, ast.And) else self._builder.or_
            first, second = (self._condition(part) for part in node.values)
            return join(first, second)
        left, right = self._value(node.left), self._value(node.comparators[0])
        if isinstance(node.ops[0], ast.NotEq):
            # Of a NaN this is true, of all others false.
            return self._builder.fcmp_unordered("!=", left, right)
        return self._builder.fcmp_ordered(_COMPARISONS[type(node.ops[0])], left, right)

    def _function(self, node: Any) -> Callable[..., Any]:
        if isinstance(node, ast.Name):
            return self._functions.get(node.id, abs)
        return getattr(_MODULES[node.value.id], node.attr)

    def _call(self, function: Callable[..., Any], operands: list[Any]) -> Any:
        context = self._context
        kind = context.typing_context.resolve_value_type(function)
        signature = kind.get_call_type(context.typing_context, (types.float64,) * len(operands), {})
        implementation = context.get_function(kind, signature)
        context.add_linking_libs(getattr(implementation, "libs", ()))
        return implementation(self._builder, [self._value(node) for node in operands])
