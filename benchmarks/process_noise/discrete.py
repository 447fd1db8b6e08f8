"""The discrete model that all likelihoods share, against exact transitions."""

from __future__ import annotations

from benchmarks.rows import Study

STUDIES: dict[str, Study] = {}
