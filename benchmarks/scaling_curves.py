"""Time against a size: the curve and its slopes, as rows, as a table and as a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from benchmarks.rows import Row
from benchmarks.study import Passage, Picture, Result
from smcpn.report.style import ACCENT, DARK, MIDDLE, figure, styled

TOLERANCE, OFF = 0.05, 1.25
"""What a slope may be off; the factor that other work may make one of its times longer."""
SLOPES = {
    "slope": "slope", "last_slope": "last two sizes", "processor_slope": "processor time",
    "evaluation_slope": "processor time per evaluation",
}  # fmt: skip
FEW = 100
"""Largest size up to which every size is a tick."""
LOOKS = ({"color": DARK, "marker": "o"}, {"color": ACCENT, "marker": "s", "ls": "--"})


@dataclass(frozen=True)
class Taken:
    """Time of one measurement, and how often it evaluated the record.

    seconds: Wall time.
    processor_seconds: Of all threads. It differs where the machine does something else too.
    evaluations: How often each particle and sample was evaluated.
    """

    seconds: float
    processor_seconds: float
    evaluations: float = 1.0


@dataclass(frozen=True)
class Curve:
    """Time against a size, in logarithms.

    title, size: What is measured, and against what.
    taken: At each size.
    expected: Slope of the processor time that is the target.
    """

    title: str
    size: str
    sizes: Sequence[int]
    taken: Sequence[Taken]
    expected: float | None = None

    @property
    def name(self) -> str:
        """Size and what is measured."""
        return f"{self.size}: {self.title}"

    @property
    def seconds(self) -> list[float]:
        """Wall times."""
        return [taken.seconds for taken in self.taken]

    @property
    def slope(self) -> float:
        """Of a line through the logarithms of the wall times."""
        return _slope(self.sizes, self.seconds)

    @property
    def processor_slope(self) -> float:
        """The same of the processor times, which tell more on a busy machine."""
        return _slope(self.sizes, [taken.processor_seconds for taken in self.taken])

    @property
    def last_slope(self) -> float:
        """Between the two largest sizes, where what is spent once matters least."""
        return _slope(self.sizes[-2:], self.seconds[-2:])

    @property
    def evaluation_slope(self) -> float:
        """Of the processor time of one evaluation: that of a run over its `evaluations`."""
        each = [taken.processor_seconds / taken.evaluations for taken in self.taken]
        return _slope(self.sizes, each)

    @property
    def tolerance(self) -> float:
        """What the slope may be off: more where the sizes are so near that one time decides."""
        return max(TOLERANCE, float(np.log(OFF) / np.log(self.sizes[-1] / self.sizes[0])))

    def rows(self) -> Iterator[Row]:
        """Yield its slope with its target, and its points."""
        if len(self.sizes) > 1:
            note = ", ".join(f"{SLOPES[of]} {getattr(self, of):.3f}" for of in list(SLOPES)[1:])
            target, met = "", None
            if self.expected is not None:
                target = f"{self.expected:g} +- {self.tolerance:.2g} of processor time"
                met = abs(self.processor_slope - self.expected) <= self.tolerance
            yield Row(f"{self.title}, slope", self.slope, target, met, note)
        for size, taken in zip(self.sizes, self.taken, strict=True):
            seconds = taken.processor_seconds
            note = f"of processors {seconds:.4g}, evaluations {taken.evaluations:.3g} N T"
            yield Row(f"{self.title}, {size}, s", taken.seconds, note=note)


def _slope(sizes: Sequence[float], times: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def markdown(curves: Sequence[Curve]) -> str:
    """Return the table of some curves, with how often runs evaluated each particle and sample."""
    lines = [_line(["study", "target", *SLOPES.values(), "seconds"]), _line(["---"] * 7)]
    remarks: list[str] = []
    for curve in curves:
        target = "-" if curve.expected is None else f"{curve.expected:g} ± {TOLERANCE:g}"
        slopes = ["one size only"] * len(SLOPES)
        if len(curve.sizes) > 1:
            slopes = [f"{getattr(curve, of):.3f}" for of in SLOPES]
        pairs = zip(curve.sizes, curve.seconds, strict=True)
        times = ", ".join(f"{size}: {seconds:.3g}" for size, seconds in pairs)
        lines.append(_line([curve.name, target, *slopes, times]))
        if any(taken.evaluations != 1.0 for taken in curve.taken):
            counts = ", ".join(f"{taken.evaluations:.3g}" for taken in curve.taken)
            remarks.append(f"- {curve.name}: each particle and sample was evaluated {counts} times")
    return "\n".join([*lines, "", *remarks, ""])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def told(curves: Sequence[Curve]) -> Iterator[Result]:
    """Yield the rows of curves against one size, with their figure and table."""
    for curve in curves:
        yield from curve.rows()
    yield Picture(f"scaling_{curves[0].size}", partial(scaling_figure, curves))
    yield Passage(markdown(curves))


@styled
def scaling_figure(curves: Sequence[Curve]) -> Figure:
    """Time against a size, with a line of slope one."""
    drawn = figure(2.8, width=4.2)
    panel = drawn.subplots()
    for curve, look in zip(curves, LOOKS, strict=False):
        slope = f": slope {curve.slope:.2f}" if len(curve.sizes) > 1 else ""
        label = f"{curve.title}{slope}"
        panel.loglog(curve.sizes, curve.seconds, ms=4, label=label, **look)
        sizes = np.array([curve.sizes[0], curve.sizes[-1]], dtype=float)
        direction = -1.0 if curve.size == "threads" else 1.0
        guide = curve.seconds[0] * (sizes / sizes[0]) ** direction
        panel.loglog(sizes, guide, color=MIDDLE, lw=0.6, ls=":")
    panel.set(xlabel=curves[0].size, ylabel="time (s)")
    if curves[0].sizes[-1] <= FEW:
        panel.set_xticks(curves[0].sizes, [str(size) for size in curves[0].sizes])
        panel.set_xticks([], minor=True)
    panel.margins(x=0.05)
    panel.legend()
    return drawn


@styled
def memory_figure(used: Sequence[Mapping[str, float]]) -> Figure:
    """Memory against the length of the record."""
    drawn = figure(2.8, width=4.2)
    panel = drawn.subplots()
    samples = np.array([row["samples"] for row in used])
    shared = [
        (row["record_bytes_per_sample"] + row["table_bytes_per_sample"]) * row["samples"] / 1e6
        for row in used
    ]
    panel.loglog(samples, [row["run_MB"] for row in used], ms=4, label="a run adds", **LOOKS[0])
    panel.loglog(samples, shared, ms=4, label="record and its tables", **LOOKS[1])
    panel.set(xlabel="samples", ylabel="memory (MB)")
    panel.margins(x=0.05)
    panel.legend()
    return drawn
