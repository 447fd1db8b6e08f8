"""Vectors of doubles that the processor has instructions for."""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir

DOUBLE, INTEGER = ir.DoubleType(), ir.IntType(64)


def _doubles() -> int:
    known = {name for name, present in binding.get_host_cpu_features().items() if present}
    return 8 if "avx512f" in known else 4 if "avx" in known else 2


WIDTH = _doubles()
"""Doubles in a vector of the processor."""


def vector(element: Any, width: int) -> Any:
    """Return the type of a vector."""
    return ir.VectorType(element, width)
