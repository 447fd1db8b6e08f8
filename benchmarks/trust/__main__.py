"""Whether an answer is right, or says that it is not: bias, error bars, coverage, warnings.

``--quick`` takes fewer seeds and shorter records. The targets are the same but where so few seeds
cannot tell: there they follow from the standard error, as the study says.
"""

from __future__ import annotations

import sys

from benchmarks.study import command

PARTS = (
    "steps", "moves", "checks", "robust", "coloured", "starts",
    "short_records", "several_modes", "curved", "wells", "prior_drawn",
    "sequel", "said_first", "known_structure",
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(command(__name__, PARTS))
