"""The figures of `benchmarks.scaling` as text, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.machine import described
from benchmarks.rows import Row, at_most
from benchmarks.scaling_study import SLOPES, TOLERANCE, Study

FLAT_MB = 20.0
COLUMNS = (
    "study", "target", "slope", "last two sizes", "processor time", "processor time per evaluation",
    "seconds",
)  # fmt: skip

Studies = Mapping[str, Sequence[Study]]
Memory = Sequence[Mapping[str, float]]


def rows(studies: Studies, used: Memory) -> Iterator[Row]:
    """Yield the slope of every curve with its target, its points, and the memory of runs."""
    for curve in _curves(studies):
        if len(curve.sizes) > 1:
            target = "" if curve.expected is None else f"{curve.expected:g} +- {TOLERANCE:g}"
            others = [
                f"{title} {cell}"
                for title, cell in zip(COLUMNS[3:6], _slopes(curve)[2:], strict=True)
            ]
            yield Row(f"{_title(curve)}, slope", curve.slope, target, curve.met, ", ".join(others))
        for size, taken in zip(curve.sizes, curve.taken, strict=True):
            seconds = taken.processor_seconds
            note = f"of processors {seconds:.4g}, evaluations {taken.evaluations:.3g} N T"
            yield Row(f"{_title(curve)}, {size}, s", taken.seconds, note=note)
    for one in used:
        note = (
            f"record {one['record_bytes_per_sample']:.3g} and tables "
            f"{one['table_bytes_per_sample']:.3g} bytes per sample"
        )
        yield Row(f"memory of a run, T = {one['samples']:.0f}, MB", one["run_MB"], note=note)
    if used:
        growth = used[-1]["run_MB"] - used[0]["run_MB"]
        yield at_most("memory, longest less shortest, MB", growth, FLAT_MB)


def markdown(studies: Studies, used: Memory, machine: dict[str, Any]) -> str:
    """A page below a title, for the documentation to include."""
    lines = ["# Measured", "", _row(COLUMNS), _row(["---", *["---:"] * 5, "---"])]
    for curve in _curves(studies):
        times = ", ".join(
            f"{size}: {seconds:.3g}"
            for size, seconds in zip(curve.sizes, curve.seconds, strict=True)
        )
        lines.append(_row([_title(curve), *_slopes(curve), times]))
    remarks = [
        f"- {remark}" for remark in (*_evaluations(studies), *_memory(used), described(machine))
    ]
    return "\n".join([*lines, "", *remarks]) + "\n"


def _curves(studies: Studies) -> Iterator[Study]:
    for group in studies.values():
        yield from group


def _title(curve: Study) -> str:
    return f"{curve.size}: {curve.title}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _slopes(curve: Study) -> list[str]:
    """The target and what is to be compared with it."""
    target = "-" if curve.expected is None else f"{curve.expected:g} ± {TOLERANCE:g}"
    if len(curve.sizes) < 2:
        return [target, *["one size only"] * len(SLOPES)]
    return [target, *(f"{getattr(curve, name):.3f}" for name in SLOPES)]


def _evaluations(studies: Studies) -> Iterator[str]:
    """How often the runs evaluated each particle and sample."""
    for curve in _curves(studies):
        if any(taken.evaluations != 1.0 for taken in curve.taken):
            counts = ", ".join(f"{taken.evaluations:.3g}" for taken in curve.taken)
            yield f"{_title(curve)}: each particle and sample was evaluated {counts} times"


def _memory(used: Memory) -> Iterator[str]:
    for row in used:
        yield (
            f"memory, T = {row['samples']}: a run adds {row['run_MB']:.3g} MB to the record's "
            f"{row['record_bytes_per_sample']:.3g} and its tables' "
            f"{row['table_bytes_per_sample']:.3g} bytes per sample"
        )
    if used:
        growth = used[-1]["run_MB"] - used[0]["run_MB"]
        yield (
            f"memory: {growth:+.3g} MB from the shortest to the longest; flat is below {FLAT_MB:g}"
        )
