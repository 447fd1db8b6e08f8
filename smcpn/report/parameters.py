"""Figures of the parameters: prior and posterior densities, and every pair.

Densities are drawn on linear and logarithmic axes: `Scale` says where, and on which of both.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

from smcpn.errors import InputError, listed, real_number
from smcpn.model.entries import by_scalar
from smcpn.report.style import (
    ACCENT,
    DARK,
    LIGHT,
    MIDDLE,
    NARROW,
    WIDTH,
    figure,
    is_narrow,
    plain,
    power_of_ten,
    styled,
)
from smcpn.results.draws import WeightedDraws, weighted_quantile
from smcpn.results.summary import long_vectors
from smcpn.results.validation.correlation import posterior_correlation

Array = NDArray[np.float64]

WIDE = 30.0
"""Ratio of the ends of the central 95 % from which values are drawn over their logarithm."""
SKEWED = 1.6
"""Ratio of the upper and the lower half of these logarithms from which they are not."""
BINS = 40


@dataclass(frozen=True)
class Scale:
    """An axis on which a density is drawn: over the values, or over their logarithms."""

    logarithmic: bool = False

    @classmethod
    def of(cls, values: Array, weights: Array | None = None) -> Scale:
        """Return that of weighted values: logarithmic of positive ones over decades, evenly."""
        if weights is None:
            weights = np.full(len(values), 1.0 / len(values))
        low, middle, high = weighted_quantile(values, weights, [0.025, 0.5, 0.975])
        if not (values > 0.0).all() or high < WIDE * low:
            return cls()
        upper, lower = np.log(high / middle), np.log(middle / low)
        return cls(bool(max(upper, lower) < SKEWED * min(upper, lower)))

    def forward(self, x: Array) -> Array:
        """Coordinates on the axis."""
        return np.log(x) if self.logarithmic else x

    def backward(self, x: Array) -> Array:
        """Values at coordinates."""
        return np.exp(x) if self.logarithmic else x

    def range(self, values: Array, weights: Array) -> tuple[float, float]:
        """Return the ends of the central 99.8 % of weighted values, a little widened."""
        low, high = weighted_quantile(self.forward(values), weights, [0.001, 0.999])
        margin = 0.08 * (high - low) or 1e-3 * abs(high) or 1.0
        begin, end = self.backward(np.array([low - margin, high + margin]))
        return float(begin), float(end)

    def grid(self, low: float, high: float, number: int) -> Array:
        """Return values at equal distances on the axis."""
        begin, end = self.forward(np.array([low, high])).tolist()
        return self.backward(np.linspace(begin, end, number))

    def slope(self, x: Array) -> Array:
        """Derivative of a value by its coordinate: a density over values, times it, is one here."""
        return x if self.logarithmic else np.ones_like(x)

    def histogram(self, values: Array, weights: Array) -> tuple[Array, Array]:
        """Return the density of weighted values over the coordinate, and the edges of its bins."""
        begin, end = self.forward(np.array(self.range(values, weights))).tolist()
        counts, edges = np.histogram(self.forward(values), BINS, (begin, end), weights=weights)
        return counts / np.diff(edges), self.backward(edges)

    def mark(self, axis: Axis, low: float, high: float, ticks: int) -> None:
        """Set the scale and the ends of an axis, and about so many ticks."""
        axes: Axes = axis.axes
        horizontal = axis is axes.xaxis
        if not self.logarithmic:
            axis.set_major_locator(MaxNLocator(ticks))
        elif horizontal:
            axes.set_xscale("log")
        else:
            axes.set_yscale("log")
        (axes.set_xlim if horizontal else axes.set_ylim)(low, high)
        if self.logarithmic:
            axis.set_major_locator(LogLocator(numticks=ticks + 1))
            axis.set_minor_locator(NullLocator())
            axis.set_minor_formatter(NullFormatter())


DRAWS = 4000
"""Draws that stand for a prior, and points of a scatter at most."""
ROW_HEIGHT = 1.15
"""Inches."""
MOST_PAIRED, MOST_PAIRED_NARROW = 12, 4
"""Parameters in a figure of pairs, and in one for a phone."""
_CENTRAL = (0.025, 0.5, 0.975)


@styled
def parameters_figure(posterior: WeightedDraws, truth: Mapping[str, Any] | None = None) -> Figure:
    """Prior and posterior density of every parameter, on the scale of either.

    A row of two axes per parameter, but for those of unknown functions: left over the prior's
    range, each density scaled to its own peak; right over the posterior's range, as densities,
    which a maximum does not have. Of a vector of more than six entries one row: median and central
    95 % of each entry. With known values in ``truth`` the axis counts in units of them, and 1 is
    marked.
    """
    truth, names = check_truth(posterior, truth), plain_names(posterior)
    vectors = long_vectors(names, posterior.problem.ode)
    singles = [name for name in names if not any(name in each for each in vectors.values())]
    drawing = figure(0.7 + ROW_HEIGHT * (len(singles) + len(vectors)))
    # A single point has no range of its own.
    views = 1 if len(posterior.weights) == 1 else 2
    rows = drawing.subplots(len(singles) + len(vectors), views, squeeze=False)
    draws = _prior_draws(posterior)
    for (vector, entries), row in zip(vectors.items(), rows[len(singles) :], strict=True):
        _plot_vector(row, vector, entries, posterior, draws, truth)
    for name, row in zip(singles, rows, strict=False):
        j = posterior.names.index(name)
        relative = bool(truth.get(name))
        unit = truth[name] if relative else _power_of_ten(posterior, name)
        prior = partial(posterior.problem.prior.density, name)
        scales = _scales(posterior, name, draws[:, j])
        if relative and unit < 0.0:
            scales = [Scale(), Scale()]
        limits = [
            scales[0].range(draws[:, j] / unit, np.full(DRAWS, 1 / DRAWS)),
            scales[1].range(posterior[name] / unit, posterior.weights),
        ]
        low, high = scales[0].range(posterior[name] / unit, posterior.weights)
        limits[0] = (min(limits[0][0], low), max(limits[0][1], high))
        views_of = zip(row, scales, limits, (True, False), strict=False)
        for axes, scale, (low, high), own_peak in views_of:
            _plot_prior(axes, scale, prior, unit, (low, high), own_peak)
            _plot_posterior(axes, scale, posterior[name] / unit, posterior.weights, own_peak)
            if name in truth:
                axes.axvline(truth[name] / unit, color=ACCENT, ls="--", lw=1.2, label="truth")
            scale.mark(axes.xaxis, low, high, 4)
            axes.set_ylim(bottom=0.0)
            axes.set_yticks([])
            axes.spines["left"].set_visible(False)
        row[0].set_ylabel(_label(name, unit, relative), rotation=0, ha="right")
    if singles:
        rows[0, 0].set_title("over the prior's range, peaks made equal")
        if views > 1:
            rows[0, 1].set_title("over the posterior's range, densities")
    handles, labels = rows[0, 0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside upper left", ncols=3)
    return drawing


@styled
def corner_figure(posterior: WeightedDraws, truth: Mapping[str, Any] | None = None) -> Figure:
    """Every pair of parameters as a scatter of the posterior, every parameter as a histogram.

    There are d x d axes, those above the diagonal removed. A number in a panel is the correlation
    in the sampler's coordinates; known values in ``truth`` are marked. Of more than twelve
    parameters those are drawn that are most correlated with another.
    """
    truth = check_truth(posterior, truth)
    every = plain_names(posterior)
    names = _most_correlated(every, posterior)
    d, columns = len(names), [posterior.names.index(name) for name in names]
    side = NARROW if is_narrow() else max(WIDTH, 1.2 * d)
    drawing = figure(side if d > 1 else 3.0, side)
    grid = drawing.subplots(d, d, squeeze=False)
    if d < len(every):
        drawing.suptitle(_left_out(d, len(every)), fontsize=8.0, x=0.02, ha="left")
    correlation = posterior_correlation(posterior.theta[:, columns], posterior.weights)
    units = {name: _power_of_ten(posterior, name) for name in names}
    draws = _prior_draws(posterior)
    scales = {
        name: _scales(posterior, name, draws[:, j])[1]
        for name, j in zip(names, columns, strict=True)
    }
    limits = {
        name: scales[name].range(posterior[name] / units[name], posterior.weights) for name in names
    }
    points = posterior.resample(min(DRAWS, len(posterior.theta)))
    for i in range(d):
        for j in range(d):
            axes = grid[i, j]
            if j > i:
                axes.remove()
                continue
            (x, x_unit), (y, y_unit) = ((names[k], units[names[k]]) for k in (j, i))
            if i == j:
                _plot_posterior(axes, scales[x], posterior[x] / x_unit, posterior.weights, True)
            else:
                _plot_pair(axes, points[x] / x_unit, points[y] / y_unit, correlation[i, j])
                if y in truth:
                    axes.axhline(truth[y] / y_unit, color=ACCENT, ls="--", lw=0.9)
            if x in truth:
                axes.axvline(truth[x] / x_unit, color=ACCENT, ls="--", lw=0.9)
            scales[x].mark(axes.xaxis, *limits[x], 2)
            if i != j:
                scales[y].mark(axes.yaxis, *limits[y], 3)
            labels = [_label(name, units[name], False) for name in (x, y)]
            _label_edges(axes, *labels, bottom=i == d - 1, left=j == 0, diagonal=i == j)
    return drawing


def _prior_draws(posterior: WeightedDraws) -> Array:
    """Draws of all parameters from the prior, (DRAWS, d)."""
    prior = posterior.problem.prior
    return prior.natural(prior.sample(np.random.default_rng(0), DRAWS))


def _left_out(shown: int, every: int) -> str:
    """Words of a figure of some of the parameters on the others."""
    more = f"; up to {MOST_PAIRED} where the page is wide" if is_narrow() else ""
    text = f"the {shown} of {every} parameters that are most correlated with another{more}"
    return textwrap.fill(text, 48 if is_narrow() else 120)


def _most_correlated(names: list[str], posterior: WeightedDraws) -> list[str]:
    """The parameters that are drawn, in their order."""
    most = MOST_PAIRED_NARROW if is_narrow() else MOST_PAIRED
    if len(names) <= most:
        return names
    columns = [posterior.names.index(name) for name in names]
    correlation = posterior_correlation(posterior.theta[:, columns], posterior.weights)
    others = np.abs(np.nan_to_num(correlation)) - np.eye(len(names))
    chosen = np.argsort(-others.max(axis=1), kind="stable")[:most]
    return [names[k] for k in sorted(chosen)]


def plain_names(posterior: WeightedDraws) -> list[str]:
    """Names of the parameters that do not belong to unknown functions.

    Raises `InputError` if all do.
    """
    names = [name for name in posterior.names if name not in posterior.problem.ode.priors]
    if not names:
        functions = listed(posterior.problem.ode.functions)
        raise InputError(f"all parameters belong to functions: use plot_function ({functions})")
    return names


def check_truth(posterior: WeightedDraws, truth: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the true values known, by scalar.

    Raises `InputError` if one belongs to no parameter.
    """
    fixed = posterior.problem.fixed
    given = by_scalar(truth or {}, posterior.problem.ode, "truth")
    # Of a vector some entries may be fixed.
    known = {name: one for name, one in given.items() if name in (truth or {}) or name not in fixed}
    for name in known:
        if name not in posterior.names:
            raise InputError(
                f"truth names '{name}', which is no parameter: choose of {listed(posterior.names)}"
            )
    return {name: real_number(f"truth of {name}", value) for name, value in known.items()}


def _plot_vector(
    row: Sequence[Axes],
    vector: str,
    entries: Sequence[str],
    posterior: WeightedDraws,
    draws: Array,
    truth: Mapping[str, float],
) -> None:
    """Median and central 95 % of every entry, left beside those of the prior."""
    columns = [posterior.names.index(name) for name in entries]
    places = [int(name[len(vector) + 1 : -1]) for name in entries]
    low, middle, high = np.array([posterior.quantile(n, _CENTRAL) for n in entries]).T
    below, _, above = np.quantile(draws[:, columns], _CENTRAL, axis=0)
    row[0].vlines(places, below, above, color=LIGHT, lw=6.0, label="prior")
    for axes in row:
        axes.errorbar(
            places, middle, [middle - low, high - middle], ls="", marker="o", ms=3.0, color=DARK,
            lw=1.3, label="posterior",
        )  # fmt: skip
        known = [(k, truth[n]) for k, n in zip(places, entries, strict=True) if n in truth]
        if known:
            axes.plot(
                *zip(*known, strict=True), ls="", marker="x", ms=4.0, color=ACCENT, label="truth"
            )
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(3))
        axes.set_xlim(min(places) - 0.5, max(places) + 0.5)
        axes.set_xlabel("entry")
    row[0].set_ylabel(plain(vector), rotation=0, ha="right")


def _power_of_ten(posterior: WeightedDraws, name: str) -> float:
    """Unit that leaves short numbers on an axis."""
    largest = float(np.abs(posterior.quantile(name, [0.025, 0.975])).max())
    exponent = int(np.floor(np.log10(largest))) if largest > 0 else 0
    return 1.0 if -2 <= exponent < 4 else 10.0**exponent


def _label(name: str, unit: float, relative: bool) -> str:
    if relative:
        return f"{plain(name)}\n/ truth"
    return plain(name) if unit == 1.0 else f"{plain(name)}\n/ {power_of_ten(round(np.log10(unit)))}"


def _scales(posterior: WeightedDraws, name: str, draws: Array) -> list[Scale]:
    """Scales of the axes of a parameter: over the range of its prior, and over its own."""
    prior = Scale.of(draws)
    own = Scale.of(posterior[name], posterior.weights) if prior.logarithmic else prior
    return [prior, own]


def _plot_prior(
    axes: Axes,
    scale: Scale,
    prior: Callable[[Array], Array],
    unit: float,
    ends: tuple[float, float],
    own_peak: bool,
) -> None:
    x = scale.grid(*ends, 160)
    density = prior(x * unit) * abs(unit) * scale.slope(x)
    density = density / (density.max() or 1.0) if own_peak else density
    axes.fill_between(x, density, color=LIGHT, lw=0)
    axes.plot(x, density, color=MIDDLE, lw=1.0, ls="-.", label="prior")


def _plot_posterior(
    axes: Axes, scale: Scale, values: Array, weights: Array, own_peak: bool
) -> None:
    if len(values) == 1:
        axes.axvline(float(values[0]), color=DARK, lw=1.3, label="maximum")
        return
    density, edges = scale.histogram(values, weights)
    heights = density / (density.max() or 1.0) if own_peak else density
    axes.stairs(heights, edges, color=DARK, lw=1.3, label="posterior")


def _plot_pair(axes: Axes, x: Array, y: Array, correlation: float) -> None:
    # Thousands of points are one small picture in the file, not thousands of elements.
    one = len(x) == 1
    axes.plot(
        x, y, ls="", marker="o", ms=5.0 if one else 2.0, mew=0, color=DARK,
        alpha=1.0 if one else 0.25, rasterized=True,
    )  # fmt: skip
    if np.isfinite(correlation):
        axes.set_title(f"{correlation:+.2f}", loc="right", pad=1.5, fontsize=7.5)


def _label_edges(axes: Axes, x: str, y: str, *, bottom: bool, left: bool, diagonal: bool) -> None:
    axes.tick_params(labelbottom=bottom, labelleft=left, labelsize=7)
    if bottom:
        axes.set_xlabel(x)
        axes.tick_params(axis="x", labelrotation=30)
    if diagonal:
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
    elif left:
        axes.set_ylabel(y)
