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
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import llvmlite
from llvmlite import binding, ir

from smcpn.codegen import store
from smcpn.codegen.clock import CLOCK
from smcpn.codegen.compiled_call import link
from smcpn.codegen.loops import ARGUMENTS, START_ARGUMENTS, Plan, write_advance, write_start
from smcpn.codegen.sweep_loops import SWEEP_ARGUMENTS, SweepPlan, write_sweep
from smcpn.codegen.target import Target, target
from smcpn.codegen.weights import write_update
from smcpn.errors import InputError
from smcpn.process.signals import uninterrupted
from smcpn.process.status import tell


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

    def __reduce__(self) -> tuple[Callable[..., Code], tuple[object, ...]]:
        return received, (self.name, self.target, self.content)

    def function(self, name: str, count: int) -> Any:
        """Return a function of `ctypes` that takes so many integers, and lets other threads run."""
        kind = ctypes.CFUNCTYPE(None, *([ctypes.c_int64] * count))
        return kind(self.engine.get_function_address(name))

    def brief_function(self, name: str, count: int) -> Any:
        """Return a function of `ctypes` as `function`, during which no other thread runs Python."""
        kind = ctypes.PYFUNCTYPE(None, *([ctypes.c_int64] * count))
        return kind(self.engine.get_function_address(name))


@dataclass(frozen=True)
class Native:
    """The machine code of a kernel, in memory.

    Attributes
    ----------
    advance, start : callable
        Functions of `ctypes`, which let other threads run; addresses and integers are passed as
        integers, as `smcpn.codegen.loops.ARGUMENTS` names them.
    update, brief_update : callable, optional
        See `smcpn.codegen.weights.write_update`; where the program has moments. Other threads do
        not run Python during the second one.
    """

    advance: Any
    start: Any
    update: Any
    brief_update: Any
    code: Code

    @classmethod
    def of(cls, code: Code, updates: bool) -> Native:
        """Find the functions in code."""
        return cls(
            code.function("advance", len(ARGUMENTS)),
            code.function("start", len(START_ARGUMENTS)),
            code.function("update", 4) if updates else None,
            code.brief_function("update", 4) if updates else None,
            code,
        )

    def __reduce__(self) -> tuple[Callable[..., Native], tuple[object, ...]]:
        return Native.of, (self.code, self.update is not None)

    @property
    def addresses(self) -> tuple[int, int]:
        """Addresses of `start` and `advance`."""
        find = self.code.engine.get_function_address
        return find("start"), find("advance")


def native(plan: Plan) -> Native:
    """Return the machine code of a kernel, compiled now or at an earlier start."""

    def write(module: ir.Module) -> None:
        write_start(module, plan.blocks["start"])
        advance = write_advance(module, plan)
        if plan.n_outputs:
            write_update(module, plan, advance)

    level = Optimisation.COMBINED if plan.long else Optimisation.FIRST
    return Native.of(code(plan.text, write, level), bool(plan.n_outputs))


@dataclass(frozen=True)
class NativeSweep:
    """The machine code of a reverse pass, in memory; ``run`` takes `SWEEP_ARGUMENTS`."""

    run: Any
    code: Code

    @classmethod
    def of(cls, code: Code) -> NativeSweep:
        """Find the function in code."""
        return cls(code.function("sweep", len(SWEEP_ARGUMENTS)), code)

    def __reduce__(self) -> tuple[Callable[..., NativeSweep], tuple[object, ...]]:
        return NativeSweep.of, (self.code,)


def native_sweep(plan: SweepPlan) -> NativeSweep:
    """Return the machine code of a reverse pass, compiled now or at an earlier start."""
    # Its statements are sorted already; to look for more takes as long as all the rest.
    return NativeSweep.of(
        code(plan.text, lambda module: write_sweep(module, plan), Optimisation.NONE)
    )


def loaded(text: str, write: Callable[[ir.Module], object]) -> Any:
    """Return the execution engine of LLVM of `code`.

    The engine is to be kept as long as its code is called.
    """
    return code(text, write).engine


def code(
    text: str, write: Callable[[ir.Module], object], level: Optimisation = Optimisation.FIRST
) -> Code:
    """Return code that is compiled now or was at an earlier start.

    An interrupt waits until it is whole.

    Parameters
    ----------
    text : str
        All that the code depends on, but for the modules of this package.
    write : callable
        Writes it to a module.
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
    return platform.create_target_machine(cpu=cpu, features=features, opt=2, jit=True)


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
