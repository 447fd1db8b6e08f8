"""Searching the maximum of a likelihood that is a sum of squares."""

from __future__ import annotations

from benchmarks.rows import Study

STUDIES: dict[str, Study] = {}
