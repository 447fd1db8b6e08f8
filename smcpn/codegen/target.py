"""The processor that machine code is compiled for: this one, or any of some ten years."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from llvmlite import binding

from smcpn.errors import InputError, listed, shown


class Target(NamedTuple):
    """A platform, a processor and its features, as LLVM names them, to compile machine code for.

    Code of one target computes the same bytes on every processor that has its features.
    """

    triple: str
    cpu: str
    features: str

    @classmethod
    @functools.cache
    def host(cls) -> Target:
        """The target that is this machine's own processor, with all its instructions."""
        features = binding.get_host_cpu_features().flatten()
        return cls(binding.get_process_triple(), binding.get_host_cpu_name(), features)

    @classmethod
    @functools.cache
    def portable(cls) -> Target:
        """One that all machines of some ten years have: x86-64-v3, or the plainest of others."""
        triple = binding.get_process_triple()
        if triple.startswith("x86_64"):
            return cls(triple, "x86-64-v3", ",".join(f"+{name}" for name in X86_64_V3))
        return cls(triple, "generic", "")

    @property
    def fused(self) -> bool:
        """True if it multiplies and adds with one rounding."""
        return "fma" in self._features or self.triple.startswith(("aarch64", "arm64"))

    @property
    def doubles(self) -> int:
        """Doubles in a vector."""
        return 8 if "avx512f" in self._features else 4 if "avx" in self._features else 2

    def __str__(self) -> str:
        digest = hashlib.sha256("|".join(self).encode()).hexdigest()
        return f"{self.cpu}-{digest[:8]}"

    def missing(self, machine: Target) -> list[str]:
        """Features that a machine lacks to run code of this target; empty where it can."""
        if self.triple.split("-")[0] != machine.triple.split("-")[0]:
            return [self.triple]
        return sorted(self._needed - machine._needed)

    @property
    def _needed(self) -> set[str]:
        x86 = self.triple.startswith(("x86", "i686"))
        return {name for name in self._features if not x86 or name.startswith(ARITHMETIC)}

    @property
    def _features(self) -> frozenset[str]:
        return _switched_on(self.features)


@functools.cache
def _switched_on(features: str) -> frozenset[str]:
    """Names of features that a processor has: every instruction asks for them."""
    return frozenset(name[1:] for name in features.split(",") if name.startswith("+"))


X86_64_V3 = (
    "avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse3",
    "sse4.1", "sse4.2", "ssse3",
)  # fmt: skip
NATIVE, PORTABLE = CPUS = ("native", "portable")
"""Processors that kernels can be compiled for: this one, or any of some ten years."""
ARITHMETIC = ("avx", "bmi", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse", "ssse", "xop")
"""Features of x86 that compiled arithmetic may use; others, as for encryption, do not matter."""
VARIABLE = "SMCPN_CPU"
"""In the environment: what "native" stands for in this process, one of `CPUS`."""

_TARGET: ContextVar[Target | None] = ContextVar("target", default=None)


def target() -> Target:
    """Return the target of compilation: that of `compiling_for`, or of ``SMCPN_CPU``."""
    return _TARGET.get() or _named(NATIVE)


@contextmanager
def compiling_for(cpu: str | Target) -> Generator[None]:
    """Compile for one of `CPUS`, in this thread."""
    token = _TARGET.set(_named(cpu) if isinstance(cpu, str) else cpu)
    try:
        yield
    finally:
        _TARGET.reset(token)


def _named(cpu: str) -> Target:
    """The target that one of `CPUS` stands for here."""
    given, said = "cpu", cpu
    if cpu == NATIVE:
        given, said = VARIABLE, os.environ.get(VARIABLE) or NATIVE
    if said not in CPUS:
        raise InputError(f"{given} is {shown(said)}: choose one of {listed(CPUS)}, or unset it")
    if said == NATIVE:
        return Target.host()
    missing = Target.portable().missing(Target.host())
    if missing:
        raise InputError(
            f"{given} is '{said}', and this processor lacks {', '.join(missing)}: leave it out",
            argument="cpu",
        )
    return Target.portable()
