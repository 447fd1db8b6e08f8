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
from pathlib import Path
from typing import Any

import llvmlite
from llvmlite import binding, ir

from smcpn.codegen import store
from smcpn.codegen.clock import CLOCK
from smcpn.codegen.loops import ARGUMENTS, START_ARGUMENTS, Plan, write_advance, write_start
from smcpn.codegen.sweep_loops import SWEEP_ARGUMENTS, SweepPlan, write_sweep
from smcpn.codegen.weights import write_update
from smcpn.signals import uninterrupted

_LOADED: dict[str, Any] = {}
_LOCK = threading.RLock()
"""Code that another thread is still compiling is waited for."""


@dataclass(frozen=True)
class Native:
    """The machine code of a kernel, in memory.

    Attributes
    ----------
    advance, start : callable
        Functions of `ctypes`, which let other threads run; addresses and integers are passed as
        integers, as `smcpn.codegen.loops.ARGUMENTS` names them.
    update : callable, optional
        See `smcpn.codegen.weights.write_update`; where the program has moments.
    """

    advance: Any
    start: Any
    update: Any
    _engine: Any

    @property
    def addresses(self) -> tuple[int, int]:
        """Addresses of `start` and `advance`."""
        find = self._engine.get_function_address
        return find("start"), find("advance")


def native(plan: Plan) -> Native:
    """Return the machine code of a kernel, compiled now or at an earlier start."""

    def write(module: ir.Module) -> None:
        write_start(module, plan.blocks["start_lane"])
        advance = write_advance(module, plan)
        if plan.n_outputs:
            write_update(module, plan, advance)

    engine = loaded(plan.text, write)
    return Native(
        _callable(engine, "advance", len(ARGUMENTS)),
        _callable(engine, "start", len(START_ARGUMENTS)),
        _callable(engine, "update", 4) if plan.n_outputs else None,
        engine,
    )


@dataclass(frozen=True)
class NativeSweep:
    """The machine code of a reverse pass, in memory; ``run`` takes `SWEEP_ARGUMENTS`."""

    run: Any
    _engine: Any


def native_sweep(plan: SweepPlan) -> NativeSweep:
    """Return the machine code of a reverse pass, compiled now or at an earlier start."""
    engine = loaded(plan.text, lambda module: write_sweep(module, plan))
    return NativeSweep(_callable(engine, "sweep", len(SWEEP_ARGUMENTS)), engine)


def loaded(text: str, write: Callable[[ir.Module], object]) -> Any:
    """Return an execution engine of LLVM with code that is compiled now or was at an earlier start.

    An interrupt waits until it is whole. The engine is to be kept as long as its code is called.

    Parameters
    ----------
    text : str
        All that the code depends on, but for the modules of this package.
    write : callable
        Writes it to a module.
    """
    key = "|".join([text, _writers(), llvmlite.__version__, *_processor()])
    name = f"kernel_{hashlib.sha256(key.encode()).hexdigest()[:24]}"
    with _LOCK:
        if name not in _LOADED:
            with uninterrupted(), store.locked(name):
                engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine())
                engine.add_object_file(binding.ObjectFileRef.from_data(_object(name, write)))
                engine.finalize_object()
                _LOADED[name] = engine
        return _LOADED[name]


def _object(name: str, write: Callable[[ir.Module], object]) -> bytes:
    entry = f"{name}.object"
    code = store.load(entry)
    if code is None:
        CLOCK.compiled += 1
        code = compiled(write)
        store.save(entry, code)
    return code


def compiled(write: Callable[[ir.Module], object]) -> bytes:
    """Compile what is written to a module to an object file."""
    return _machine().emit_object(_optimised(write))


def assembly(write: Callable[[ir.Module], object]) -> str:
    """Return what is written to a module as the assembly of this processor."""
    return _machine().emit_assembly(_optimised(write))


def _optimised(write: Callable[[ir.Module], object]) -> Any:
    written, machine = ir.Module("kernel"), _machine()
    written.triple = machine.triple
    write(written)
    module = binding.parse_assembly(str(written))
    module.verify()
    # The statements are vectors without common parts already.
    tuning = binding.create_pipeline_tuning_options(speed_level=1)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = False
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


def _callable(engine: Any, name: str, count: int) -> Any:
    kind = ctypes.CFUNCTYPE(None, *([ctypes.c_int64] * count))
    return kind(engine.get_function_address(name))


def _machine() -> Any:
    _initialise()
    cpu, features = _processor()
    target = binding.Target.from_triple(binding.get_process_triple())
    return target.create_target_machine(cpu=cpu, features=features, opt=2, jit=True)


def _processor() -> tuple[str, str]:
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


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
