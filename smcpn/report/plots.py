"""Curves over time that a reader of the report can zoom into, down to every sample.

The samples are in the page, compressed: what was measured in single precision, what was computed
to a small part of its band. `plots.js` draws them with uPlot. Where there is no script, and on
paper, a static figure stands in their place.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.base.units import time_label
from smcpn.discovery.results.discovery import Discovery
from smcpn.model.record import BESIDE, Record, beside
from smcpn.report.page import Gallery, Picture
from smcpn.report.style import as_points, with_unit
from smcpn.report.trajectories import states_figure as static_states
from smcpn.report.trajectories import worst_window
from smcpn.results.simulation.simulation import TWO_SIDED_95, Simulation
from smcpn.results.simulation.states import States
from smcpn.results.validation import Validation
from smcpn.results.validation.innovations import BAND

Array = NDArray[np.float64]
Terms = tuple[tuple[float, str], ...]
"""A sum of arrays by name, each with its factor."""

FINE = 2**11
"""Steps in half a band, of what was computed: finer than any screen."""
LONGEST = 2**19
"""Samples up to which a record is put into a page: some megabytes for each output."""
MOST_RECORDS = 4
"""Records of which innovations and states can be explored, the first ones."""


@dataclass(frozen=True)
class Curve:
    """A curve of a panel: a sum of arrays, the role that decides how it is drawn, its points."""

    label: str
    role: str
    terms: Terms
    points: bool = False


@dataclass(frozen=True)
class Panel:
    """Curves over one axis, with at most one band between two sums of arrays."""

    label: str
    curves: tuple[Curve, ...]
    band: tuple[Terms, Terms] | None = None
    levels: tuple[float, float] | None = None


@dataclass(frozen=True)
class Plot:
    """Panels over the times of a record.

    arrays: (T,), NaN is drawn as a gap.
    panels: Above each other; they zoom together.
    picture: What is shown without a script, and printed.
    mark: A window of time that a button goes to, and what the button says.
    shaded: Intervals of time with another ground.
    """

    record: Record
    arrays: Mapping[str, Array | RoundedArray]
    panels: Sequence[Panel]
    caption: str
    picture: Picture | None = None
    mark: tuple[str, float, float] | None = None
    shaded: Sequence[tuple[float, float]] = ()

    def data(self) -> str:
        """The plot as JSON, for an attribute of an element."""
        return json.dumps(
            {
                "t": _time(self.record.t),
                "time": time_label(self.record.t_unit),
                "arrays": {name: packed(values) for name, values in self.arrays.items()},
                "panels": [
                    {**vars(panel), "curves": [vars(curve) for curve in panel.curves]}
                    for panel in self.panels
                ],
                "mark": self.mark,
                "shaded": list(self.shaded),
            }
        )


@dataclass(frozen=True)
class RoundedArray:
    """An array of which multiples of a step are enough: what was computed, not measured."""

    values: Array
    step: float


def packed(values: Array | RoundedArray) -> dict[str, Any]:
    """Samples as base64 of compressed single precision, or of differences of whole steps.

    The first bytes of all numbers stand before the second ones and so on: signs and exponents are
    alike, and compress; the last digits of noise do not. A sample takes about 4 bytes, or 2.
    """
    step = 0.0
    if isinstance(values, RoundedArray):
        values, step = values.values, values.step
    if step > 0.0 and np.isfinite(values).all() and np.abs(values).max() < step * 2**29:
        counts = np.rint(values / step).astype(np.int64)
        change = np.diff(counts, prepend=0)
        # Zigzag: small numbers of either sign have zeros in their high bytes.
        words = np.where(change < 0, -2 * change - 1, 2 * change).astype("<u4")
    else:
        step, words = 0.0, np.ascontiguousarray(values, dtype="<f4")
    planes = words.view(np.uint8).reshape(-1, 4).T.tobytes()
    deflated = base64.b64encode(zlib.compress(planes, 6)).decode()
    return {"n": len(words), "step": step, "deflated": deflated}


def _time(t: Array) -> dict[str, Any]:
    """The times by start and step where they are even, else each one after the first."""
    start, step = float(t[0]), float(t[-1] - t[0]) / max(len(t) - 1, 1)
    if np.allclose(t, start + step * np.arange(len(t)), rtol=0.0, atol=1e-6 * step):
        return {"n": len(t), "start": start, "step": step}
    return {"start": start, "after": packed(t - start)}


def simulation_figure(
    gallery: Gallery, simulation: Simulation, output: int, caption: str
) -> Plot | Picture:
    """A simulated output with its error below; a picture where nothing was measured."""
    record = simulation.record
    picture = gallery.picture("simulation", lambda: simulation.plot(output), caption, reflow=False)
    if not 2 <= len(record) <= LONGEST:
        return picture
    mean = simulation.mean[:, output]
    half = TWO_SIDED_95 * simulation.sd[:, output]
    step = float(np.median(half)) / FINE
    arrays: dict[str, Array | RoundedArray] = {
        "mean": RoundedArray(mean, step), "half": RoundedArray(half, step)
    }  # fmt: skip
    unit = record.unit_of(output)
    label = with_unit(simulation.names_of_outputs[output], unit)
    model = Curve("simulated", "model", ((1, "mean"),))
    band: tuple[Terms, Terms] = (((1, "mean"), (-1, "half")), ((1, "mean"), (1, "half")))
    y = record.y[:, output] if record.n_outputs else np.full(len(record), np.nan)
    if not np.isfinite(y).any():
        return Plot(record, arrays, [Panel(label, (model,), band)], caption, picture)
    points = as_points(y)
    error = Curve("error", "model", ((1, "y"), (-1, "mean")), points)
    part = record.t[worst_window(np.abs(y - mean))]
    limits = {name: beside(record, name)[:, output] for name in BESIDE[1:]}
    limits = {name: one for name, one in limits.items() if np.isfinite(one).any()}
    words = {"y_lower": "above a limit", "y_upper": "below a limit"}
    drawn = [Curve(words[name], "second", ((1, name),), True) for name in limits]
    arrays |= limits
    panels = [
        Panel(label, (Curve("measured", "data", ((1, "y"),), points), model, *drawn), band),
        Panel(with_unit("error", unit), (error,), (((-1, "half"),), ((1, "half"),))),
    ]
    mark = ("largest error", float(part[0]), float(part[-1]))
    t, shaded = record.t, [(a, b) for a, b in simulation.learned if b - a < len(record)]
    if shaded:
        caption += " Shaded: what was learned from; the rest is predicted."
    ground = [(float(t[a]), float(t[min(b, len(t) - 1)])) for a, b in shaded]
    return Plot(record, {**arrays, "y": y}, panels, caption, picture, mark, ground)


def innovation_plots(validation: Validation, output: int) -> list[Plot]:
    """Normalised innovations of the first records over time."""
    plots: list[Plot] = []
    for part in validation.innovations[:MOST_RECORDS]:
        t, values = part.record.t, part.normalised[:, output]
        if 2 <= len(t) <= LONGEST and np.isfinite(values).any():
            name = part.residual(output)
            curve = Curve("standard deviations", "model", ((1, "v"),))
            panel = Panel(name, (curve,), levels=(-BAND, BAND))
            part_of = worst_window(np.abs(values))
            mark = ("largest", float(t[part_of][0]), float(t[part_of][-1]))
            caption = f"{name.capitalize()} of {part.record.name}, sample by sample."
            rounded = {"v": RoundedArray(values, 1 / FINE)}
            plots.append(Plot(part.record, rounded, [panel], caption, mark=mark))
    return plots


def states_figure(gallery: Gallery, states: States, caption: str) -> Plot | Picture:
    """Smoothed states with their band, what was measured, and the filtered mean."""
    record = states.record
    picture = gallery.picture("states", lambda: static_states(states), caption, reflow=False)
    if not 2 <= len(record) <= LONGEST:
        return picture
    arrays: dict[str, Array | RoundedArray] = {}
    panels: list[Panel] = []
    for i, name in enumerate(states.names):
        arrays |= {
            f"mean{i}": states.mean[:, i],
            f"filtered{i}": states.filtered_mean[:, i],
            f"low{i}": states.lower[:, i],
            f"high{i}": states.upper[:, i],
        }
        curves = [
            Curve("filtered", "second", ((1, f"filtered{i}"),)),
            Curve("smoothed", "model", ((1, f"mean{i}"),)),
        ]
        output = states.measured[i]
        if output is not None and record.n_outputs:
            arrays[f"y{i}"] = record.y[:, output]
            curves.insert(0, Curve("measured", "data", ((1, f"y{i}"),)))
        panels.append(Panel(name, tuple(curves), (((1, f"low{i}"),), ((1, f"high{i}"),))))
    return Plot(record, arrays, panels, caption, picture)


def path_plots(found: Discovery) -> list[Plot]:
    """Measurements, and the path of the most probable model, of the first records."""
    states = found.system.candidates.states
    plots: list[Plot] = []
    for record, path in list(zip(found.records, found.paths, strict=False))[:MOST_RECORDS]:
        if not 2 <= len(record) <= LONGEST:
            continue
        arrays: dict[str, Array | RoundedArray] = {f"x{i}": path[:, i] for i in range(len(states))}
        panels: list[Panel] = []
        for i, name in enumerate(states):
            curves = [Curve("fitted", "model", ((1, f"x{i}"),))]
            for j, row in enumerate(found.observe):
                if np.flatnonzero(row).tolist() == [i] and row[i] == 1.0:
                    arrays[f"y{j}"] = record.y[:, j]
                    curves.insert(0, Curve("measured", "data", ((1, f"y{j}"),)))
            panels.append(Panel(name, tuple(curves)))
        plots.append(Plot(record, arrays, panels, f"{record.name}, sample by sample."))
    return plots


def compared_plot(
    record: Record, output: int, name: str, means: Mapping[str, Array], caption: str
) -> Plot:
    """One measured output and what each of several models simulates, errors below."""
    arrays = {"y": record.y[:, output]} | {f"m{k}": mean for k, mean in enumerate(means.values())}
    points = as_points(record.y[:, output])
    measured = Curve("measured", "data", ((1, "y"),), points)
    models = [Curve(name, f"model{k}", ((1, f"m{k}"),)) for k, name in enumerate(means)]
    errors = [
        Curve(name, f"model{k}", ((1, "y"), (-1, f"m{k}")), points) for k, name in enumerate(means)
    ]
    unit = record.unit_of(output)
    panels = [
        Panel(with_unit(name, unit), (measured, *models)),
        Panel(with_unit("error", unit), tuple(errors)),
    ]
    return Plot(record, arrays, panels, caption)
