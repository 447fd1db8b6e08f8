"""The covariance of a solver's filter as L D L', and its steps as functions of that factor.

The algebra is that of `smcpn.pn.gaussian`. A residual of the ODE has no noise and costs nothing:
with its row first in the orthogonalisation, the first column of L is its gain, and what remains of
L D L' is conditioned on it.

Processes that share a covariance form a `Block`, which has a factor of its own. Every function
takes the factor of a block and returns a new one. Between steps the covariance is conditioned on
the ODE: the rows of the values and of the derivatives beyond the ODE's are free, and those of the
derivatives that the ODE determines are linear combinations of the rows of the values.

Where nothing in the recursion depends on a particle, all particles have the same gains:
`SharedGains` puts symbols of a shared row in their place, and `SharedRun` computes their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, product

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.memory import STRAIGHT, Row, StraightLine
from smcpn.pn.gaussian import Factor, downdate, less, moved_factor, orthogonalised_in
from smcpn.pn.iwp import lower_factor, pascal, process_noise_factor
from smcpn.pn.layout import Block, Entry, Layout

Array = NDArray[np.float64]
Slopes = dict[tuple[Entry, Entry], ca.SX]
"""Derivative of a coordinate that the ODE determines by the coordinate of a value."""

Shares = Mapping[Entry, tuple[ca.SX, ca.SX]]
"""Share of a coordinate that a sample leaves, and variance of what is new; else it stays."""

MOST_ROWS = 24
"""Of a covariance, up to which its algebra is one graph; the code of more gets too long."""


@dataclass(frozen=True)
class ResidualGain:
    """Gain of a block's mean by the residuals z of its ODE, mu = mu^- + K z.

    rows: A row for every residual, then for every value and higher derivative: the slope by each
        residual, given the residuals before it.
    variances: Of each residual given those before it.
    """

    rows: list[Row]
    variances: Row


@dataclass(frozen=True)
class OutputGain:
    """Gain of the mean by a measured output, mu = mu^- + K (y - g).

    by_entry: The gain of each coordinate.
    variance: Of the innovation: output and noise.
    spread: Of the output without its noise.
    """

    by_entry: dict[Entry, ca.SX]
    variance: ca.SX
    spread: ca.SX


def entries(block: Block) -> list[Entry]:
    """Coordinates in the order of the rows of a block's factor."""
    return [*block.seen, *block.higher, *block.rates]


def most_rows(layout: Layout) -> int:
    """Rows of the largest covariance."""
    return max(len(block.processes) for block in layout.blocks) * (layout.order + 1)


def zero_covariance(block: Block) -> Factor:
    """Factor of a state that is known exactly."""
    free = len(block.seen) + len(block.higher)
    rows = [[ca.SX(float(i == j)) for j in range(free)] for i in range(free)]
    return Factor(rows + [[ca.SX(0.0)] * free for _ in block.rates], [ca.SX(0.0)] * free)


def known_covariance(block: Block, noise: dict[Entry, ca.SX]) -> Factor:
    """Factor of a state that is known exactly beside noise of known variances."""
    factor = zero_covariance(block)
    pivots = [
        noise.get(entry, pivot) for entry, pivot in zip(entries(block), factor.pivots, strict=False)
    ]
    return Factor(factor.rows, pivots)


def symbolic_factor(block: Block, coupled: bool, prefix: str) -> Factor:
    """Factor with a symbol wherever it is not the same at all times.

    coupled: Whether the linearised ODE makes the rates depend on the values.
    """
    factor = zero_covariance(block)
    n_free = len(factor.pivots)
    for i, row in enumerate(factor.rows):
        for j in range(i if i < n_free else len(block.values) if coupled else 0):
            row[j] = ca.SX.sym(f"{prefix}_{i}_{j}")
    pivots = [ca.SX.sym(f"{prefix}_{j}") for j in range(n_free)]
    return Factor(factor.rows, pivots)


def free_entries(symbolic: Factor, factor: Factor) -> list[ca.SX]:
    """Entries of a factor where that of `symbolic_factor` has symbols."""
    places = [*chain(*symbolic.rows), *symbolic.pivots]
    values = [*chain(*factor.rows), *factor.pivots]
    return [v for place, v in zip(places, values, strict=True) if not place.is_constant()]


@cache
def noise_factor(order: int, first: int) -> tuple[Array, Array]:
    """Process noise of a step of length one with derivative ``first`` put first, as L and D.

    Returns rows (order + 1, order + 1): row i belongs to derivative i; in the order first, 0, 1,
    ... they are unit lower triangular; weights (order + 1,).
    """
    sequence = [first, *(i for i in range(order + 1) if i != first)]
    lower = lower_factor(process_noise_factor(order)[sequence])
    lower = np.tril(lower)
    rows = np.empty_like(lower)
    rows[sequence] = lower / np.diag(lower)
    return rows, np.diag(lower) ** 2


def predict(
    layout: Layout, block: Block, factor: Factor, noise: Sequence[ca.SX]
) -> tuple[dict[Entry, Row], Row]:
    """Rows of W = [A L, L_Q] by coordinate and weights [D, D_Q]: A P A' + Q before factorisation.

    noise: Variance of the diffusion times h^(2 order + 1), one per process of the model.
    """
    held = dict(zip(entries(block), factor.rows, strict=True))
    size = layout.order + 1
    rows: dict[Entry, Row] = {}
    weights = list(factor.pivots)
    for number, k in enumerate(block.processes):
        columns = zip(*[held[k, i] for i in range(size)], strict=True)
        moved = list(zip(*[pascal(column) for column in columns], strict=True))
        unit_rows, unit_weights = noise_factor(layout.order, layout.processes[k].rate)
        zeros = [ca.SX(0.0)] * size
        for i in range(size):
            own = [ca.SX(float(v)) for v in unit_rows[i]]
            added = [own if other == number else zeros for other in range(len(block.processes))]
            rows[k, i] = [*moved[i], *(v for part in added for v in part)]
        weights += [noise[k] * float(w) for w in unit_weights]
    for entry in block.noise:
        rows[entry] = [*held[entry], *[ca.SX(0.0)] * (len(weights) - len(factor.pivots))]
    return rows, weights


def step(
    layout: Layout,
    block: Block,
    factor: Factor,
    slopes: Slopes,
    noise: Sequence[ca.SX],
    algebra: StraightLine = STRAIGHT,
) -> tuple[ResidualGain, Factor]:
    """Predict and condition on the residuals z = rate - f being zero.

    slopes: Of the linearised f.
    noise: As of `predict`.
    algebra: As of `orthogonalised`.

    References
    ----------
    Bosch, Hennig, Tronarp (2021), (10b) and (11); Thornton's orthogonalisation does both.
    """
    rows, weights = predict(layout, block, factor, noise)
    n, order = len(block.rates), [*block.rates, *block.seen, *block.higher]
    kept = algebra.keep([rows[entry] for entry in order])
    pairs = [pair for pair in product(block.rates, block.values) if pair in slopes]
    multiples = algebra.keep([[slopes[pair]] for pair in pairs]) if pairs else []
    for (rate, by), slope in zip(pairs, multiples, strict=True):
        algebra.change(kept, order.index(rate), less, slope, kept[order.index(by)])
    predicted = orthogonalised_in(algebra, kept, weights)
    gain = ResidualGain([row[:n] for row in predicted.rows], predicted.pivots[:n])
    kept = [row[n:] for row in predicted.rows[n:]]
    rates = _linear_rows(block, block.rates, kept, slopes)
    return gain, Factor(kept + rates, predicted.pivots[n:])


def condition_on_output(
    layout: Layout, factors: Sequence[Factor], slope: dict[Entry, ca.SX], noise: ca.SX
) -> tuple[list[Factor], OutputGain]:
    """Condition the covariance of a filter, a factor per block, on one output.

    slope: Derivative of the output by the coordinates that it sees, all of one block.
    noise: Variance of the output's noise.
    """
    result = list(factors)
    gain = OutputGain({}, noise, ca.SX(0.0))
    for number, block in enumerate(layout.blocks):
        if any(entry in slope for entry in block.seen):
            sensitivity = [slope.get(entry, ca.SX(0.0)) for entry in block.seen]
            result[number], by_row, variance, spread = downdate(factors[number], sensitivity, noise)
            by_entry = dict(zip(entries(block), by_row, strict=True))
            gain = OutputGain(by_entry, variance, spread)
    return result, gain


def output_covariance(
    layout: Layout, factors: Sequence[Factor], slopes: Sequence[dict[Entry, ca.SX]]
) -> ca.SX:
    """Covariance H P H' of what outputs see, (q, q)."""
    result = ca.SX.zeros(len(slopes), len(slopes))
    for block, factor in zip(layout.blocks, factors, strict=True):
        rows = []
        for slope in slopes:
            row = [ca.SX(0.0)] * len(factor.pivots)
            for number, entry in enumerate(block.seen):
                weight = slope.get(entry, ca.SX(0.0))
                row = [v + weight * w for v, w in zip(row, factor.rows[number], strict=True)]
            rows.append(ca.horzcat(*row))
        spread = ca.vertcat(*rows)
        result += spread @ ca.diag(ca.vertcat(*factor.pivots)) @ spread.T
    return result


def rescale(block: Block, factor: Factor, h_ratio: ca.SX) -> Factor:
    """Factor in the Nordsieck coordinates of a step ``h_ratio`` times as long."""
    power = [i for _, i in entries(block)]
    rows = [
        [v * h_ratio ** (power[i] - power[j]) if i != j else v for j, v in enumerate(row)]
        for i, row in enumerate(factor.rows)
    ]
    pivots = [p * h_ratio ** (2 * power[j]) for j, p in enumerate(factor.pivots)]
    return Factor(rows, pivots)


def moved(block: Block, factor: Factor, shares: Shares) -> Factor:
    """Factor of coordinates of which a share is left, see `smcpn.pn.gaussian.moved_factor`."""
    free, stays = entries(block)[: len(factor.pivots)], (ca.SX(1.0), ca.SX(0.0))
    share, variance = zip(*(shares.get(entry, stays) for entry in free), strict=True)
    return moved_factor(factor, ca.vertcat(*share), ca.vertcat(*variance))


def restart(block: Block, factor: Factor, slopes: Slopes) -> Factor:
    """Covariance where the values determine all derivatives, with ``slopes`` of each of these."""
    n_values = len(block.seen)
    values = factor.rows[:n_values]
    higher = _linear_rows(block, block.higher, values, slopes)
    for number, row in enumerate(higher):
        row[n_values + number] = ca.SX(1.0)
    rates = _linear_rows(block, block.rates, values, slopes)
    pivots = factor.pivots[:n_values] + [ca.SX(0.0)] * len(higher)
    return Factor([*values, *higher, *rates], pivots)


def _linear_rows(
    block: Block, derivatives: Sequence[Entry], rows: list[Row], slopes: Slopes
) -> list[Row]:
    """Rows of linearised derivatives, from those of the values, which come first in ``rows``."""
    result: list[Row] = []
    for entry in derivatives:
        row: Row = [ca.SX(0.0)] * len(rows[0])
        for number, by in enumerate(block.values):
            slope = slopes.get((entry, by))
            if slope is not None:
                row = [v + slope * w for v, w in zip(row, rows[number], strict=True)]
        result.append(row)
    return result


@dataclass(frozen=True)
class SharedGains:
    """Kalman gains that are the same for all particles.

    symbols: In the order of a shared row.
    values: Graphs that the symbols stand for, functions of the covariance alone.
    """

    prefix: str
    symbols: tuple[ca.SX, ...] = ()
    values: tuple[ca.SX, ...] = ()

    def replace(self, values: Sequence[ca.SX]) -> tuple[list[ca.SX], SharedGains]:
        """Symbols in place of ``values``, constants kept, and the gains with these appended."""
        replaced: list[ca.SX] = []
        symbols, shared = list(self.symbols), list(self.values)
        for value in values:
            if not value.is_constant():
                shared.append(value)
                symbols.append(ca.SX.sym(f"{self.prefix}_{len(symbols)}"))
                value = symbols[-1]
            replaced.append(value)
        return replaced, SharedGains(self.prefix, tuple(symbols), tuple(shared))

    def of_residuals(self, gain: ResidualGain) -> tuple[ResidualGain, SharedGains]:
        """`replace` in the gain of a block's residuals."""
        n = len(gain.variances)
        flat, shared = self.replace([*chain(*gain.rows), *gain.variances])
        rows = [flat[k : k + n] for k in range(0, len(flat), n)]
        return ResidualGain(rows[:-1], rows[-1]), shared

    def of_output(self, gain: OutputGain) -> tuple[OutputGain, SharedGains]:
        """`replace` in the gain of an output; its spread is not shared."""
        flat, shared = self.replace([*gain.by_entry.values(), gain.variance])
        by_entry = dict(zip(gain.by_entry, flat[:-1], strict=True))
        return OutputGain(by_entry, flat[-1], gain.spread), shared


@dataclass(frozen=True)
class SharedCovariance:
    """The recursion of a covariance that is the same for all particles.

    held: Symbols of its entries.
    after_step, after_sample: Their values after a step, and after a sample.
    """

    held: tuple[ca.SX, ...]
    after_step: tuple[ca.SX, ...]
    step_gains: SharedGains
    after_sample: tuple[ca.SX, ...]
    sample_gains: SharedGains


class SharedRun:
    """The recursion of a shared covariance with numbers.

    step_symbols, sample_symbols, constants: Symbols that the step and the sample's update depend on
        besides the covariance.
    steps: Steps per sampling interval.
    size: Entries of the covariance; all are zero where the state is known exactly.
    """

    def __init__(
        self,
        covariance: SharedCovariance,
        step_symbols: ca.SX,
        sample_symbols: ca.SX,
        constants: ca.SX,
        steps: int,
    ) -> None:
        held = ca.vertcat(*covariance.held)
        self.size, self._steps = held.numel(), steps
        self._step = ca.Function(
            "step", [held, step_symbols, constants],
            [ca.vertcat(*covariance.after_step), ca.vertcat(*covariance.step_gains.values)],
        )  # fmt: skip
        self._sample = ca.Function(
            "sample", [held, sample_symbols, constants],
            [ca.vertcat(*covariance.after_sample), ca.vertcat(*covariance.sample_gains.values)],
        )  # fmt: skip
        self._interval = self._step.mapaccum(steps)

    def __call__(
        self, state: Array, step_rows: Array, sample_rows: Array, constants: Array
    ) -> tuple[Array, Array, Array]:
        """Gains of every step and of every sample of a window.

        state: (size,), covariance at the first sample, before its update.
        step_rows: ((m - 1) steps, s)
        sample_rows: (m, r)

        Returns by_step ((m - 1) steps, g); by_sample (m, k); state (size,): at the last sample,
        before its update.
        """
        n, repeated = self._steps, np.tile(constants[:, None], self._steps)
        by_step, by_sample = [np.empty((0, self._step.size1_out(1)))], []
        for k, row in enumerate(sample_rows):
            after, gains = self._sample(state, row, constants)
            by_sample.append(np.array(gains).ravel())
            if k + 1 < len(sample_rows):
                part = step_rows[k * n : (k + 1) * n].T
                states, gains = self._interval(after, part, repeated)
                by_step.append(np.array(gains).T)
                state = np.array(states)[:, -1]
        return np.concatenate(by_step), np.array(by_sample), state
