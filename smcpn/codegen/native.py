"""Compile machine code once, keep the object file, and load it at every later start.

What runs is always the object file as it is kept: a process that has just compiled it and one
that read it give the same bytes.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import llvmlite
from llvmlite import binding, ir

from smcpn.base.signals import uninterrupted
from smcpn.base.status import tell
from smcpn.codegen import store
from smcpn.codegen.clock import CLOCK
from smcpn.codegen.compiled_call import link
from smcpn.codegen.implicit import define
from smcpn.codegen.loops import Plan, write_advance, write_start
from smcpn.codegen.sweep_loops import SweepPlan, write_sweep
from smcpn.codegen.target import Target, target
from smcpn.codegen.weights import write_update
from smcpn.errors import InputError


class Optimisation(IntEnum):
    """Effort of LLVM before it selects instructions."""

    NONE = 0
    COMBINED = 1
    """Instructions are combined. `FIRST` looks for dependences of all loads and stores of a loop
    besides, which takes a time that grows with the square of their number."""
    FIRST = 2
    VECTORISED = 3
    """Vectors are made of plain loops."""


_LOADED: dict[str, Code] = {}
_LOCK = threading.RLock()
"""Code that another thread is still compiling is waited for."""


@dataclass(frozen=True, eq=False)
class Code:
    """Machine code in memory, with the object file that it was loaded from.

    It can be pickled, for another process of this user: code is nothing to be read from a file.
    """

    name: str
    target: Target
    content: bytes
    engine: Any
    _functions: dict[tuple[str, bool], Any] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Callable[..., Code], tuple[object, ...]]:
        return received, (self.name, self.target, self.content)

    def address(self, name: str) -> int:
        """Return the address of a function, valid as long as the code is kept."""
        return self.engine.get_function_address(name)

    def function(self, name: str, count: int, brief: bool = False) -> Any:
        """Return a function of `ctypes` that takes so many integers: addresses among them.

        Other threads run meanwhile, but for one that is ``brief``.
        """
        if (name, brief) not in self._functions:
            kind = ctypes.PYFUNCTYPE if brief else ctypes.CFUNCTYPE
            made: Any = kind(None, *([ctypes.c_int64] * count))(self.address(name))
            # Whoever has the function keeps the code.
            made.code, self._functions[name, brief] = self, made
        return self._functions[name, brief]


def native(plan: Plan) -> Code:
    """Return the machine code of a kernel, compiled now or at an earlier start."""

    def write(module: ir.Module) -> None:
        write_start(module, plan.blocks["start"])
        advance = write_advance(module, plan)
        if plan.n_outputs:
            write_update(module, plan, advance)

    level = Optimisation.COMBINED if plan.long else Optimisation.FIRST
    return code(plan.text, write, level)


def native_sweep(plan: SweepPlan) -> Code:
    """Return the machine code of a reverse pass, compiled now or at an earlier start."""
    # Its statements are sorted already; to look for more takes as long as all the rest.
    return code(plan.text, lambda module: write_sweep(module, plan), Optimisation.NONE)


def code(
    text: str, write: Callable[[ir.Module], object], level: Optimisation = Optimisation.FIRST
) -> Code:
    """Return code that is compiled now or was at an earlier start.

    An interrupt waits until it is whole.

    text: All that the code depends on, but for the modules of this package.
    write: Writes it to a module.
    """
    chosen = target()
    key = "|".join([text, _writers(), llvmlite.__version__, chosen.cpu, chosen.features])
    name = f"kernel_{hashlib.sha256(key.encode()).hexdigest()[:24]}"
    with _LOCK:
        if name not in _LOADED:
            with uninterrupted(), store.locked(name):
                _LOADED[name] = _linked(name, chosen, _object(name, write, level))
        return _LOADED[name]


def received(name: str, target: Target, content: bytes) -> Code:
    """Return code that another process compiled."""
    with _LOCK:
        if name not in _LOADED:
            missing = target.missing(Target.host())
            if missing:
                raise InputError(
                    f"the processor {Target.host().cpu} lacks {', '.join(missing)} of "
                    f"{target.cpu}, for which the kernels were compiled"
                )
            _initialise()
            _LOADED[name] = _linked(name, target, content)
        return _LOADED[name]


def _linked(name: str, target: Target, content: bytes) -> Code:
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(content))
    engine.finalize_object()
    return Code(name, target, content, engine)


def _object(name: str, write: Callable[[ir.Module], object], level: Optimisation) -> bytes:
    entry = f"{name}.object"
    content = store.load(entry)
    if content is None:
        CLOCK.compiled += 1
        tell("compiling")
        content = compiled(write, level)
        store.save(entry, content)
    return content


def compiled(
    write: Callable[[ir.Module], object], level: Optimisation = Optimisation.FIRST
) -> bytes:
    """Compile what is written to a module to an object file."""
    return _machine().emit_object(_optimised(write, level))


def _optimised(
    write: Callable[[ir.Module], object], level: Optimisation = Optimisation.FIRST
) -> Any:
    written, machine = ir.Module("kernel"), _machine()
    written.triple = machine.triple
    write(written)
    define(written)
    module = binding.parse_assembly(str(written))
    link(module)
    module.verify()
    tuning = binding.create_pipeline_tuning_options(speed_level=max(level - 1, 0))
    tuning.slp_vectorization = tuning.loop_unrolling = False
    tuning.loop_vectorization = level == Optimisation.VECTORISED
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    if level == Optimisation.COMBINED:
        passes = binding.create_new_module_pass_manager()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, builder)
    return module


def _machine() -> Any:
    _initialise()
    triple, cpu, features = target()
    platform = binding.Target.from_triple(triple)
    return platform.create_target_machine(cpu=cpu, features=features, opt=1, jit=True)


@functools.cache
def _initialise() -> None:
    with suppress(RuntimeError):
        # Needed by llvmlite 0.44, refused by later ones.
        binding.initialize()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


@functools.cache
def _writers() -> str:
    """SHA-256 of the modules that write machine code."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
