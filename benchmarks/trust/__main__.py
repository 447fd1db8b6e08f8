"""Whether an answer is right, or says that it is not: bias, error bars, coverage, warnings.

``--quick`` takes fewer seeds and shorter records. The targets are the same but where so few seeds
cannot tell: there they follow from the standard error, as the study says.
"""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.executors import option
from benchmarks.rows import Study, command

PARTS: tuple[str, ...] = (
    "steps", "stiff", "moves", "checks", "robust", "coloured", "cancellation", "starts",
    "short_records", "several_modes", "curved", "stiff_wall", "wells",
    "prior_drawn", "others", "sequel", "cost", "said_first", "known_structure",
)  # fmt: skip
"""Modules of this package with a mapping ``STUDIES`` each."""


def studies() -> dict[str, Study]:
    """All studies by name, in the order of the parts."""
    found: dict[str, Study] = {}
    for part in PARTS:
        found |= import_module(f"benchmarks.trust.{part}").STUDIES
    return found


if __name__ == "__main__":
    sys.exit(command(__doc__, studies(), executor=option()))
