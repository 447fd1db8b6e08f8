"""Calls of a function that numba compiled, for all lanes of a vector together.

The call is written by the convention of numba: a function returns a status, zero unless it raised,
and an array of two axes is nine numbers. Its LLVM text is optimised for the number of lanes, and
linked into the module that calls it, so that the object file is whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import nan
from typing import Any

from llvmlite import binding, ir

from smcpn.codegen.target import target
from smcpn.codegen.terms import DOUBLE, INTEGER
from smcpn.model.compiled_function import CALL, CompiledFunction, compiled_function

_NUMBERS, _STATUS = DOUBLE.as_pointer(), ir.IntType(32)
_BYTES = ir.IntType(8).as_pointer()
_ARRAY = (_BYTES, _BYTES, INTEGER, INTEGER, _NUMBERS, INTEGER, INTEGER, INTEGER, INTEGER)
"""Of numba's arrays: owner, parent, size, bytes of an element, data, shape, strides."""


class CompiledCalls:
    """Calls of functions of several results in one block of statements, which share their memory.

    kind: llvmlite.ir.Type, of all values, a double or a vector of them.
    """

    def __init__(self, builder: Any, kind: Any) -> None:
        self._builder, self._kind, self._width = builder, kind, getattr(kind, "count", 1)
        self._memory: dict[str, tuple[Any, Any]] = {}
        self._made: dict[tuple[str, tuple[Any, ...]], list[Any]] = {}

    def rate(self, operation: str, number: int, arguments: Sequence[Any]) -> Any:
        """One of the results at arguments; the function is called once for all of them."""
        call = operation, tuple(map(id, arguments))
        if call not in self._made:
            self._made[call] = self._called(operation, arguments)
        return self._made[call][number]

    def _called(self, operation: str, arguments: Sequence[Any]) -> list[Any]:
        of = compiled_function(operation)
        if operation not in self._memory:
            with self._builder.goto_entry_block():
                sizes = of.n_arguments * self._width, of.n_results * self._width
                given, made = (self._builder.alloca(DOUBLE, size) for size in sizes)
            self._memory[operation] = given, made
        given, made = self._memory[operation]
        for row, argument in enumerate(arguments):
            self._builder.store(argument, self._row(given, row), align=8)
        module, name = self._builder.module, f"{operation}.{self._width}"
        if name not in module.globals:
            _function(module, name)
        self._builder.call(module.globals[name], [given, made])
        return [self._builder.load(self._row(made, row), align=8) for row in range(of.n_results)]

    def _row(self, numbers: Any, row: int) -> Any:
        return row_of(self._builder, numbers, row, self._kind)


def row_of(builder: Any, numbers: Any, row: int, kind: Any) -> Any:
    """Pointer to a row of numbers, which is of a kind: a double, or a vector of lanes."""
    place = [ir.Constant(INTEGER, row * getattr(kind, "count", 1))]
    return builder.bitcast(builder.gep(numbers, place, inbounds=True), kind.as_pointer())


def link(module: Any) -> None:
    """Give a module the code of the compiled functions that it calls."""
    for name in [function.name for function in module.functions if function.is_declaration]:
        if name.startswith(CALL):
            operation, _, width = name.rpartition(".")
            module.link_in(binding.parse_assembly(_optimised(operation, int(width))))
            module.get_function(name).linkage = "internal"


def _function(module: ir.Module, name: str) -> Any:
    """Function of arguments and derivatives, both (rows, lanes), which do not overlap."""
    made = ir.Function(module, ir.FunctionType(ir.VoidType(), [_NUMBERS, _NUMBERS]), name)
    for argument in made.args:
        argument.add_attribute("noalias")
    return made


@cache
def _optimised(operation: str, width: int) -> str:
    """LLVM text of a function of so many lanes, and of what it calls."""
    of, written = compiled_function(operation), ir.Module("call")
    assert isinstance(of, CompiledFunction)
    symbol, text = of.code
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=target().cpu, features=target().features, opt=3
    )
    written.triple = machine.triple
    _write(written, f"{operation}.{width}", symbol, of.n_arguments, of.n_results, width)
    module = binding.parse_assembly(str(written))
    module.link_in(binding.parse_assembly(text))
    for function in module.functions:
        if not function.is_declaration and not function.name.startswith(CALL):
            function.linkage = "internal"
    tuning = binding.create_pipeline_tuning_options(speed_level=3)
    tuning.slp_vectorization = True
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return str(module)


def _write(
    module: ir.Module, name: str, symbol: str, n_arguments: int, n_states: int, width: int
) -> None:
    """Write the call of numba's loop over lanes; NaN in those where the function raises."""
    kinds = [_BYTES.as_pointer(), _BYTES.as_pointer(), *_ARRAY, *_ARRAY, INTEGER, INTEGER]
    loop = ir.Function(module, ir.FunctionType(_STATUS, kinds), symbol)
    function = _function(module, name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    nothing = [builder.alloca(_BYTES), builder.alloca(_BYTES)]
    arrays = [*_array(function.args[0], n_arguments, width),
              *_array(function.args[1], n_states, width)]  # fmt: skip

    def raised(first: int, last: int) -> Any:
        lanes = [ir.Constant(INTEGER, lane) for lane in (first, last)]
        status = builder.call(loop, [*nothing, *arrays, *lanes])
        return builder.icmp_signed("!=", status, ir.Constant(_STATUS, 0))

    with builder.if_then(raised(0, width), likely=False):
        for lane in range(width):
            with builder.if_then(raised(lane, lane + 1)):
                for row in range(n_states):
                    place = ir.Constant(INTEGER, row * width + lane)
                    builder.store(ir.Constant(DOUBLE, nan), builder.gep(function.args[1], [place]))
    builder.ret_void()


def _array(data: Any, rows: int, width: int) -> list[Any]:
    """An array (rows, width) of doubles as numba passes it."""
    none = ir.Constant(_BYTES, None)
    sizes = [ir.Constant(INTEGER, size) for size in (rows * width, 8, rows, width, 8 * width, 8)]
    return [none, none, *sizes[:2], data, *sizes[2:]]
