"""One Gaussian filter over the processes of a model, as expression graphs.

The covariance of a block of processes is held after an update with the ODE, so it has no part
along the residual: rows of the values and of the derivatives beyond the ODE's are a factor
(`factor`), and the rows of the derivatives that the ODE determines follow from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from smcpn.model.problem import Model
from smcpn.pn.iwp import lower_factor, pascal, process_noise_factor
from smcpn.pn.layout import Block, Entry, Layout

# ---- The covariance of a Gaussian filter as L D L' in straight-line arithmetic.
#
# A filter that subtracts s K K' from its covariance loses its digits where the noise is small
# against
# what is not yet known: at high orders, and at a large diffusion. The factors keep them without a
# square root: a prediction is a weighted Gram-Schmidt orthogonalisation (Thornton), an update by an
# output the rank-one downdate of Bierman. A residual without noise costs nothing: with its row
# first,
# the first column of L is its gain, and what remains of L D L' is conditioned on it.
#
# The arithmetic is that of whatever the rows hold: expression graphs, or numbers.

Row = list[Any]


@dataclass
class Factor:
    """Covariance as rows (D) rows': ``rows`` of any number, as long as the ``pivots`` D.

    The first rows are unit lower triangular; rows beyond them are combinations of the first.
    """

    rows: list[Row]
    pivots: Row


def orthogonalised(rows: Sequence[Row], weights: Row) -> Factor:
    """Factor of W diag(weights) W' with a unit lower triangle, by modified Gram-Schmidt.

    Parameters
    ----------
    rows : rows of W, (m, c)
    weights : (c,)
    """
    remaining = [list(row) for row in rows]
    size = len(remaining)
    lower = [[ca.SX(float(i == j)) for j in range(size)] for i in range(size)]
    pivots: Row = []
    for j, row in enumerate(remaining):
        weighted = [w * v for w, v in zip(weights, row, strict=True)]
        pivot = _dot(weighted, row)
        pivots.append(pivot)
        for i in range(j + 1, size):
            ratio = _dot(weighted, remaining[i]) / pivot
            lower[i][j] = ratio
            remaining[i] = [v - ratio * p for v, p in zip(remaining[i], row, strict=True)]
    return Factor(lower, pivots)


@dataclass
class Update:
    """What a scalar output with noise does to a Gaussian.

    Attributes
    ----------
    factor : Factor
    gain : Row
        One entry per row of the factor.
    variance : scalar
        Of the innovation: output and noise.
    spread : scalar
        Of the output without its noise.
    """

    factor: Factor
    gain: Row
    variance: Any
    spread: Any


def updated(factor: Factor, sensitivity: Row, noise: Any) -> Update:
    """Condition on a scalar output.

    Parameters
    ----------
    factor : Factor
    sensitivity : Row
        Derivative of the output by the first rows; the others do not enter.
    noise : scalar
        Variance of the output's noise.
    """
    seen = len(sensitivity)
    rows, pivots = [list(row) for row in factor.rows], list(factor.pivots)
    gain: Row = [ca.SX(0.0)] * len(rows)
    variance, spread = noise, ca.SX(0.0)
    for j in reversed(range(seen)):
        f = _dot([row[j] for row in rows[:seen]], sensitivity)
        carried = factor.pivots[j] * f
        total = variance + carried * f
        spread += carried * f
        pivots[j] = factor.pivots[j] * (variance / total)
        shift = f / variance
        for i, row in enumerate(rows):
            old = row[j]
            row[j] = old - shift * gain[i]
            gain[i] = gain[i] + carried * old
        variance = total
    return Update(Factor(rows, pivots), [g / variance for g in gain], variance, spread)


def noise_factor(order: int, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Process noise of a unit step with derivative ``first`` put first, as rows and weights.

    Returns
    -------
    rows : ndarray, (order + 1, order + 1)
        Row i belongs to derivative i; in the order first, 0, 1, ... they are unit lower triangular.
    weights : ndarray, (order + 1,)
    """
    sequence = [first, *(i for i in range(order + 1) if i != first)]
    lower = lower_factor(process_noise_factor(order)[sequence])
    lower = np.tril(lower)
    rows = np.empty_like(lower)
    rows[sequence] = lower / np.diag(lower)
    return rows, np.diag(lower) ** 2


def _dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return sum((x * y for x, y in zip(a, b, strict=True)), ca.SX(0.0))


Mean = list[list[ca.SX]]
"""Nordsieck coordinates, process by process."""


@dataclass(frozen=True)
class Linearisation:
    """The ODE about values: rate = ``rates`` + ``slopes`` (values - ``about``), in coordinates.

    Attributes
    ----------
    rates : dict of Entry to casadi.SX
        Coordinate of each derivative that the ODE determines.
    slopes : dict of (Entry, Entry) to casadi.SX
        Its derivative by the coordinate of a value; what is neglected is absent.
    about : dict of Entry to casadi.SX
    """

    rates: dict[Entry, ca.SX]
    slopes: dict[tuple[Entry, Entry], ca.SX]
    about: dict[Entry, ca.SX]

    def at(self, entry: Entry, mean: Mean) -> ca.SX:
        """Rate expected at a mean."""
        value = self.rates[entry]
        for (rate, by), slope in self.slopes.items():
            if rate == entry:
                value += slope * (mean[by[0]][by[1]] - self.about[by])
        return value


@dataclass(frozen=True)
class Innovation:
    """Residuals of the ODE in one block, made independent of each other."""

    residuals: tuple[ca.SX, ...]
    variances: tuple[ca.SX, ...]


class GaussianFilter:
    """Graphs of prediction and updates of one filter.

    Parameters
    ----------
    model : Model
    layout : Layout
    """

    def __init__(self, model: Model, layout: Layout) -> None:
        self.model, self.layout = model, layout
        self._noise = {p.rate: noise_factor(layout.order, p.rate) for p in layout.processes}

    def predicted_mean(self, mean: Mean) -> Mean:
        """Multiply by the Pascal matrix, by additions."""
        return [pascal(row) for row in mean]

    def states(self, mean: Mean, h: ca.SX) -> ca.SX:
        """States of the model at a mean, (n, 1)."""
        places = [self.layout.place(s) for s in range(self.model.x.numel())]
        return ca.vertcat(*[mean[k][i] / self.layout.scale(i, h) for k, i in places])

    def linearised(self, mean: Mean, h: ca.SX) -> Linearisation:
        """Linearise the ODE at a mean, as far as the layout says."""
        return self.linear_entries(
            mean,
            h,
            [
                (k, p.rate, self.model.rhs[p.states[-1]])
                for k, p in enumerate(self.layout.processes)
            ],
        )

    def linear_entries(
        self, mean: Mean, h: ca.SX, entries: list[tuple[int, int, ca.SX]]
    ) -> Linearisation:
        """Linearise derivatives, given as functions of the model's states, at a mean.

        Parameters
        ----------
        entries : list of (process, derivative, casadi.SX)
        """
        model, layout = self.model, self.layout
        at = self.states(mean, h)
        rates: dict[Entry, ca.SX] = {}
        slopes: dict[tuple[Entry, Entry], ca.SX] = {}
        about = {(k, i): mean[k][i] for k, p in enumerate(layout.processes) for i in range(p.rate)}
        for k, i, expression in entries:
            factor = layout.scale(i, h)
            rates[k, i] = factor * ca.substitute(expression, model.x, at)
            for state in range(model.x.numel()):
                by = layout.place(state)
                if not layout.keeps(k, by[0]):
                    continue
                slope = ca.jacobian(expression, model.x[state])
                if not slope.is_zero():
                    slope = ca.substitute(slope, model.x, at)
                    slopes[(k, i), by] = slope * factor / layout.scale(by[1], h)
        return Linearisation(rates, slopes, about)

    def start_factor(self, block: Block) -> Factor:
        """No covariance."""
        free = len(block.values) + len(block.higher)
        rows = [[ca.SX(float(i == j)) for j in range(free)] for i in range(free)]
        return Factor(rows + [[ca.SX(0.0)] * free for _ in block.rates], [ca.SX(0.0)] * free)

    def updated_factor(
        self, block: Block, factor: Factor, linearisation: Linearisation, noise: list[ca.SX]
    ) -> tuple[Factor, Factor]:
        """Predict over a step and condition on the ODE.

        Parameters
        ----------
        noise : list of casadi.SX
            Diffusion times h^(2 order + 1), one per process of the model.

        Returns
        -------
        predicted : Factor
            Before the update: rows of the residuals, then of values and higher derivatives.
        filtered : Factor
        """
        rows, weights = self._predicted_rows(block, factor, noise)
        residual_rows = []
        for rate in block.rates:
            row = rows[rate]
            for by in block.values:
                slope = linearisation.slopes.get((rate, by))
                if slope is not None:
                    row = [v - slope * w for v, w in zip(row, rows[by], strict=True)]
            residual_rows.append(row)
        free = [*block.values, *block.higher]
        predicted = orthogonalised([*residual_rows, *(rows[e] for e in free)], weights)
        n = len(block.rates)
        kept = [row[n:] for row in predicted.rows[n:]]
        rate_rows = self.rate_rows(block, block.rates, kept, linearisation)
        return predicted, Factor(kept + rate_rows, predicted.pivots[n:])

    def rate_rows(
        self,
        block: Block,
        entries: Sequence[Entry],
        rows: list[list[ca.SX]],
        linearisation: Linearisation,
    ) -> list[list[ca.SX]]:
        """Rows of linearised derivatives, from those of the values, which come first."""
        result = []
        for entry in entries:
            row = [ca.SX(0.0)] * len(rows[0])
            for number, by in enumerate(block.values):
                slope = linearisation.slopes.get((entry, by))
                if slope is not None:
                    row = [v + slope * w for v, w in zip(row, rows[number], strict=True)]
            result.append(row)
        return result

    def _predicted_rows(
        self, block: Block, factor: Factor, noise: list[ca.SX]
    ) -> tuple[dict[Entry, list[ca.SX]], list[ca.SX]]:
        """Rows of [A L, noise factor] by entry, and the weights of the columns."""
        order = self.layout.order
        held = dict(zip(self.entries(block), factor.rows, strict=True))
        size = order + 1
        rows: dict[Entry, list[ca.SX]] = {}
        weights = list(factor.pivots)
        for number, k in enumerate(block.processes):
            old = [held[k, i] for i in range(size)]
            moved = list(zip(*[pascal(column) for column in zip(*old, strict=True)], strict=True))
            unit_rows, unit_weights = self._noise[self.layout.processes[k].rate]
            zeros = [ca.SX(0.0)] * size
            for i in range(size):
                own = [ca.SX(float(v)) for v in unit_rows[i]]
                added = [own if other == number else zeros for other in range(len(block.processes))]
                rows[k, i] = [*moved[i], *(v for part in added for v in part)]
            weights += [noise[k] * float(w) for w in unit_weights]
        return rows, weights

    def entries(self, block: Block) -> list[Entry]:
        """Entries in the order of a filtered factor's rows."""
        return [*block.values, *block.higher, *block.rates]

    def updated_mean(
        self, block: Block, mean: Mean, predicted: Factor, linearisation: Linearisation
    ) -> tuple[Mean, Innovation]:
        """Condition the mean of a block on the ODE."""
        mean = [list(row) for row in mean]
        n = len(block.rates)
        residuals: list[ca.SX] = []
        for number, rate in enumerate(block.rates):
            z = linearisation.at(rate, mean) - mean[rate[0]][rate[1]]
            for earlier in range(number):
                z -= predicted.rows[number][earlier] * residuals[earlier]
            residuals.append(z)
        for number, (k, i) in enumerate([*block.values, *block.higher]):
            for j, z in enumerate(residuals):
                mean[k][i] += predicted.rows[n + number][j] * z
        for k, i in block.rates:
            # Without noise on the residual its gain is one: the rate is conditioned on exactly.
            mean[k][i] = linearisation.at((k, i), mean)
        return mean, Innovation(tuple(residuals), tuple(predicted.pivots[:n]))

    def output_slopes(self, mean: Mean, h: ca.SX, outputs: ca.SX) -> list[dict[Entry, ca.SX]]:
        """Derivative of each output by the coordinates of the values."""
        model, at = self.model, self.states(mean, h)
        jacobian = ca.jacobian(outputs, model.x)
        slopes: list[dict[Entry, ca.SX]] = []
        for j in range(outputs.numel()):
            row: dict[Entry, ca.SX] = {}
            for state in range(model.x.numel()):
                if not jacobian[j, state].is_zero():
                    k, i = self.layout.place(state)
                    slope = ca.substitute(jacobian[j, state], model.x, at)
                    row[k, i] = slope / self.layout.scale(i, h)
            slopes.append(row)
        return slopes
