"""The covariance recursion of a filter: held by every particle, or run once for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.gaussian_filter import (
    Factor,
    GaussianFilter,
    Innovation,
    Linearisation,
    Mean,
    updated,
)
from smcpn.model.problem import Model
from smcpn.pn.layout import Block, Entry, Layout

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Gain:
    """What a scalar output does to a mean.

    Attributes
    ----------
    by_entry : dict of Entry to casadi.SX
    variance, spread : casadi.SX
        Variance of the innovation, and of the output without its noise.
    """

    by_entry: dict[Entry, ca.SX]
    variance: ca.SX
    spread: ca.SX


class External:
    """Values that reach a graph as symbols of a shared row."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.symbols: list[ca.SX] = []
        self.values: list[ca.SX] = []

    def __call__(self, value: ca.SX) -> ca.SX:
        """Symbol that stands for a value; a constant stays."""
        if value.is_constant():
            return value
        self.symbols.append(ca.SX.sym(f"{self._prefix}_{len(self.symbols)}"))
        self.values.append(value)
        return self.symbols[-1]


class Covariance:
    """The graphs of one filter's covariance, and what the mean needs of them.

    Where no part of the recursion depends on a particle (``shared``), the gains become symbols of
    the shared rows, which `SharedRun` fills, and a particle holds the mean only.

    Parameters
    ----------
    filter : GaussianFilter
    shared : bool
    prefix : str
        For the names of symbols.
    """

    def __init__(self, filter: GaussianFilter, shared: bool, prefix: str) -> None:
        self.filter, self.shared, self._prefix = filter, shared, prefix
        self.held: list[ca.SX] = []
        self.factors = [self._symbolic(block) for block in filter.layout.blocks]
        self.step_gains, self.sample_gains = External(f"{prefix}g"), External(f"{prefix}k")
        self.after_step: list[Factor] = []
        self.after_sample = list(self.factors)

    @property
    def state(self) -> list[ca.SX]:
        """Symbols that a particle holds."""
        return [] if self.shared else self.held

    def _symbolic(self, block: Block) -> Factor:
        """Symbols where a factor is not the same at all times, in the order of `flat`."""
        factor = self.filter.start_factor(block)
        n_free = len(factor.pivots)
        coupled = self.filter.layout.jacobian != "none"
        for i, row in enumerate(factor.rows):
            for j in range(i if i < n_free else len(block.values) if coupled else 0):
                row[j] = self._new()
        factor.pivots = [self._new() for _ in factor.pivots]
        return factor

    def _new(self) -> ca.SX:
        self.held.append(ca.SX.sym(f"{self._prefix}_{len(self.held)}"))
        return self.held[-1]

    def flat(self, factors: list[Factor]) -> list[ca.SX]:
        """Values of `held` in factors of the same blocks."""
        values: list[ca.SX] = []
        for own, other in zip(self.factors, factors, strict=True):
            for places, row in zip(
                [*own.rows, own.pivots], [*other.rows, other.pivots], strict=True
            ):
                values += [v for p, v in zip(places, row, strict=True) if not p.is_constant()]
        return values

    def step(self, linearisation: Linearisation, noise: list[ca.SX]) -> list[Factor]:
        """Predict, condition on the ODE; return the predicted factors, rows of residuals first."""
        predicted: list[Factor] = []
        self.after_step = []
        for block, factor in zip(self.filter.layout.blocks, self.factors, strict=True):
            before, after = self.filter.updated_factor(block, factor, linearisation, noise)
            self.after_step.append(after)
            predicted.append(self._gains_of(before, len(block.rates)) if self.shared else before)
        return predicted

    def _gains_of(self, predicted: Factor, n_rates: int) -> Factor:
        external = self.step_gains
        rows = [[external(v) for v in row[:n_rates]] for row in predicted.rows]
        return Factor(rows, [external(v) for v in predicted.pivots[:n_rates]])

    def observe(self, slope: dict[Entry, ca.SX], noise: ca.SX) -> Gain:
        """Condition on one output of a sample, after those before it.

        Parameters
        ----------
        slope : dict of Entry to casadi.SX
            Derivative of the output by the coordinates of the values.
        noise : casadi.SX
            Variance.
        """
        gain, variance, spread = {}, noise, ca.SX(0.0)
        for number, block in enumerate(self.filter.layout.blocks):
            if not any(entry in slope for entry in block.values):
                continue
            sensitivity = [slope.get(entry, ca.SX(0.0)) for entry in block.values]
            update = updated(self.after_sample[number], sensitivity, noise)
            self.after_sample[number] = update.factor
            gain = dict(zip(self.filter.entries(block), update.gain, strict=True))
            variance, spread = update.variance, update.spread
        if self.shared:
            gain = {entry: self.sample_gains(v) for entry, v in gain.items()}
            variance = self.sample_gains(variance)
        return Gain(gain, variance, spread)

    def of_outputs(self, slopes: list[dict[Entry, ca.SX]]) -> ca.SX:
        """Covariance of the noise-free outputs before a sample is seen, (q, q)."""
        result = ca.SX.zeros(len(slopes), len(slopes))
        for block, factor in zip(self.filter.layout.blocks, self.factors, strict=True):
            rows = []
            for slope in slopes:
                row = [ca.SX(0.0)] * len(factor.pivots)
                for number, entry in enumerate(block.values):
                    weight = slope.get(entry, ca.SX(0.0))
                    row = [v + weight * w for v, w in zip(row, factor.rows[number], strict=True)]
                rows.append(ca.horzcat(*row))
            spread = ca.vertcat(*rows)
            result += spread @ ca.diag(ca.vertcat(*factor.pivots)) @ spread.T
        return result

    def rescale(self, ratio: ca.SX) -> None:
        """Go over to a step ``ratio`` times as long."""
        factors: list[Factor] = []
        for block, factor in zip(self.filter.layout.blocks, self.after_sample, strict=True):
            entries = self.filter.entries(block)
            rows = [
                [
                    v * ratio ** (entries[i][1] - entries[j][1]) if i != j else v
                    for j, v in enumerate(row)
                ]
                for i, row in enumerate(factor.rows)
            ]
            pivots = [p * ratio ** (2 * entries[j][1]) for j, p in enumerate(factor.pivots)]
            factors.append(Factor(rows, pivots))
        self.after_sample = factors

    def restart(self, derivatives: Linearisation) -> None:
        """Let the values determine all derivatives anew, as far as ``derivatives`` says."""
        factors: list[Factor] = []
        for block, factor in zip(self.filter.layout.blocks, self.after_sample, strict=True):
            n_values = len(block.values)
            values = factor.rows[:n_values]
            higher = self.filter.rate_rows(block, block.higher, values, derivatives)
            for number, row in enumerate(higher):
                row[n_values + number] = ca.SX(1.0)
            rates = self.filter.rate_rows(block, block.rates, values, derivatives)
            pivots = factor.pivots[:n_values] + [ca.SX(0.0)] * len(higher)
            factors.append(Factor([*values, *higher, *rates], pivots))
        self.after_sample = factors


class SharedRun:
    """The recursion of a shared `Covariance` with numbers.

    Parameters
    ----------
    covariance : Covariance
    step_symbols, sample_symbols, constants : casadi.SX
        Symbols that the step and the sample's update depend on besides the covariance.
    """

    def __init__(
        self, covariance: Covariance, step_symbols: ca.SX, sample_symbols: ca.SX, constants: ca.SX
    ) -> None:
        held = ca.vertcat(*covariance.held)
        after = ca.vertcat(*covariance.flat(covariance.after_step))
        self._size = held.numel()
        self._step = ca.Function(
            "step", [held, step_symbols, constants],
            [after, ca.vertcat(*covariance.step_gains.values)],
        )  # fmt: skip
        after = ca.vertcat(*covariance.flat(covariance.after_sample))
        self._sample = ca.Function(
            "sample", [held, sample_symbols, constants],
            [after, ca.vertcat(*covariance.sample_gains.values)],
        )  # fmt: skip

    def __call__(
        self, step_rows: Array, sample_rows: Array, constants: Array, steps: int
    ) -> tuple[Array, Array]:
        """Gains of every step (n, g) and of every sample (T, k).

        Parameters
        ----------
        step_rows : ndarray, ((T - 1) steps, s)
        sample_rows : ndarray, (T, m)
        """
        interval = self._step.mapaccum(steps)
        state = np.zeros((self._size, 1))
        by_step: list[Array] = []
        by_sample: list[Array] = []
        for k, row in enumerate(sample_rows):
            after, gains = self._sample(state, row, constants)
            by_sample.append(np.array(gains).ravel())
            if k + 1 < len(sample_rows):
                part = step_rows[k * steps : (k + 1) * steps].T
                states, gains = interval(after, part, np.tile(constants[:, None], steps))
                by_step.append(np.array(gains).T)
                state = np.array(states)[:, -1:]
        return np.concatenate(by_step), np.array(by_sample)


# ---- One of the filters of a particle: the symbols that it holds, and what a step makes of them.


class FilterSymbols:
    """One filter of a lane: the symbols of its mean and covariance."""

    def __init__(self, model: Model, layout: Layout, shared: bool, prefix: str) -> None:
        self.layout, self.graphs = layout, GaussianFilter(model, layout)
        self.mean: Mean = [
            [ca.SX.sym(f"{prefix}_{k}_{i}") for i in range(layout.order + 1)]
            for k in range(len(layout.processes))
        ]
        self.covariance = Covariance(self.graphs, shared, prefix)

    @property
    def state(self) -> list[ca.SX]:
        """What a particle holds of it."""
        return [*chain(*self.mean), *self.covariance.state]

    def values(self, mean: Mean, factors: list[Factor]) -> list[ca.SX]:
        """Values of `state`."""
        covariance = self.covariance
        return [*chain(*mean), *([] if covariance.shared else covariance.flat(factors))]

    def step(
        self, predicted: Mean, linearisation: Linearisation, noise: list[ca.SX]
    ) -> tuple[Mean, list[Innovation]]:
        """Condition the predicted mean on the ODE."""
        factors = self.covariance.step(linearisation, noise)
        mean, innovations = predicted, []
        for block, factor in zip(self.layout.blocks, factors, strict=True):
            mean, innovation = self.graphs.updated_mean(block, mean, factor, linearisation)
            innovations.append(innovation)
        return mean, innovations

    def restarted(self, mean: Mean, derivatives: Linearisation, ratio: ca.SX) -> list[ca.SX]:
        """Values of `state` where the values determine all derivatives anew."""
        self.covariance.rescale(ratio)
        self.covariance.restart(derivatives)
        result = [list(row) for row in mean]
        for k, i in derivatives.rates:
            result[k][i] = derivatives.at((k, i), mean)
        return self.values(result, self.covariance.after_sample)

    def rescaled(self, mean: Mean, ratio: ca.SX) -> list[ca.SX]:
        """Values of `state` for steps ``ratio`` times as long."""
        self.covariance.rescale(ratio)
        return self.values(rescaled_mean(mean, ratio), self.covariance.after_sample)


def rescaled_mean(mean: Mean, ratio: ca.SX) -> Mean:
    """Coordinates of a mean for steps ``ratio`` times as long."""
    return [[value * ratio**i for i, value in enumerate(row)] for row in mean]
