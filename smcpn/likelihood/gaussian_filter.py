"""An extended Kalman filter over the processes of a model, as functions of expression graphs.

The prior is an integrated Wiener process for every state, or for a chain x, v = x', ... of them
(`pn.layout.Layout`). The filter's state is a mean in Nordsieck coordinates, h^i / i! times the i-th
derivative, and a covariance as factors (`covariance`). A solver step

- predicts, m^- = A m, P^- = A P A' + Q (10),
- linearises the ODE at the predicted mean, x' = f(m^-) + F (x - m^-), with what of the Jacobian F
  the solver keeps,
- and conditions on the residuals z = x' - f(x) being zero: with S = H P^- H' and K = P^- H' S^-1,
  m = m^- - K z (11).

References
----------
Bosch, Hennig, Tronarp (2021). Calibrated adaptive probabilistic ODE solvers. AISTATS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import casadi as ca

from smcpn.codegen.memory import STRAIGHT, Memory, StraightLine
from smcpn.likelihood import covariance
from smcpn.likelihood.accumulating import SetBack
from smcpn.likelihood.covariance import (
    MOST_ROWS,
    Factor,
    ResidualGain,
    SharedGains,
    Shares,
    Slopes,
)
from smcpn.model.problem import Model
from smcpn.pn.iwp import pascal
from smcpn.pn.layout import Block, Entry, Layout

Mean = list[list[ca.SX]]
"""Nordsieck coordinates, process by process, and the coloured noise of each output that has it."""


@dataclass(frozen=True)
class Linearisation:
    """The ODE about values: rate = ``rates`` + ``slopes`` (values - ``about``), in coordinates.

    rates: Coordinate of each derivative that the ODE determines.
    slopes: Its derivative by the coordinate of a value; what is neglected is absent.
    """

    rates: dict[Entry, ca.SX]
    slopes: Slopes
    about: dict[Entry, ca.SX]

    def bound(self, algebra: StraightLine) -> Linearisation:
        """Copy whose numbers are computed once for all graphs that read them."""
        values = algebra.bound([*self.rates.values(), *self.slopes.values()])
        n = len(self.rates)
        rates = dict(zip(self.rates, values[:n], strict=True))
        return Linearisation(rates, dict(zip(self.slopes, values[n:], strict=True)), self.about)

    def at(self, entry: Entry, mean: Mean) -> ca.SX:
        """Linearised rate at a mean."""
        value = self.rates[entry]
        for (rate, by), slope in self.slopes.items():
            if rate == entry:
                value += slope * (mean[by[0]][by[1]] - self.about[by])
        return value


@dataclass(frozen=True)
class Innovation:
    """Residuals of a block's ODE and their variances, each given the residuals before it.

    processes: Process of each.
    """

    processes: tuple[int, ...]
    residuals: tuple[ca.SX, ...]
    variances: tuple[ca.SX, ...]


class FilterStep(NamedTuple):
    """State of a filter after a solver step.

    innovations: One per block.
    gains: Empty where every particle has its own covariance.
    residual_gains, gains_used: One per block: as functions of the covariance, and with the symbols
        of shared rows in their place.
    """

    mean: Mean
    factors: list[Factor]
    innovations: list[Innovation]
    gains: SharedGains
    residual_gains: list[ResidualGain]
    gains_used: list[ResidualGain]


class FilterSymbols:
    """A filter of one particle: the symbols of its state, and its equations.

    shared: Whether the covariance is the same for all particles: a particle then holds the mean
        only, and the gains come from shared rows.
    prefix: Of the names of symbols.
    factors: One per block.
    held: Entries of the factors that change.
    """

    def __init__(self, model: Model, layout: Layout, shared: bool, prefix: str) -> None:
        self.model, self.layout, self.shared, self.prefix = model, layout, shared, prefix
        self.mean: Mean = [
            [ca.SX.sym(f"{prefix}_{k}_{i}") for i in range(layout.order + 1)]
            for k in range(len(layout.processes))
        ]
        self.mean += [[ca.SX.sym(f"{prefix}_noise_{j}")] for j, _ in layout.noise]
        coupled = layout.jacobian != "none"
        self.factors = [
            covariance.symbolic_factor(block, coupled, f"{prefix}_{number}")
            for number, block in enumerate(layout.blocks)
        ]
        self.held = self.covariance_entries(self.factors)

    @property
    def state(self) -> list[ca.SX]:
        """Symbols that a particle holds."""
        return self.values(self.mean, self.factors)

    def values(self, mean: Mean, factors: Sequence[Factor]) -> list[ca.SX]:
        """Values of `state` for a mean and factors."""
        return [*chain(*mean), *(() if self.shared else self.covariance_entries(factors))]

    @property
    def rates(self) -> list[tuple[int, int, ca.SX]]:
        """Rates that the ODE determines: process, derivative, function of the model's states."""
        return [
            (k, process.rate, self.model.rhs[process.states[-1]])
            for k, process in enumerate(self.layout.processes)
        ]

    def covariance_entries(self, factors: Sequence[Factor]) -> tuple[ca.SX, ...]:
        """Values of `held` in factors of the same blocks."""
        pairs = zip(self.factors, factors, strict=True)
        return tuple(chain(*(covariance.free_entries(own, other) for own, other in pairs)))

    def predict(self) -> Mean:
        """Mean after a step of the prior, A m (10a)."""
        return [pascal(row) for row in self.mean]

    def states(self, mean: Mean, h: ca.SX) -> ca.SX:
        """States of the model at a mean, (n, 1)."""
        places = [self.layout.place(s) for s in range(self.model.x.numel())]
        return ca.vertcat(*[mean[k][i] / self.layout.scale(i, h) for k, i in places])

    def linearise(self, mean: Mean, h: ca.SX) -> Linearisation:
        """Linearise the ODE at a mean, with what the layout keeps of the Jacobian."""
        return self.linearise_derivatives(mean, h, self.rates)

    def linearise_derivatives(
        self, mean: Mean, h: ca.SX, derivatives: Sequence[tuple[int, int, ca.SX]]
    ) -> Linearisation:
        """Linearise derivatives, given as functions of the model's states, at a mean."""
        model, layout = self.model, self.layout
        at = self.states(mean, h)
        rates: dict[Entry, ca.SX] = {}
        slopes: Slopes = {}
        about = {(k, i): mean[k][i] for k, p in enumerate(layout.processes) for i in range(p.rate)}
        for k, i, expression in derivatives:
            scale = layout.scale(i, h)
            rates[k, i] = scale * ca.substitute(expression, model.x, at)
            for state in range(model.x.numel()):
                by = layout.place(state)
                if not layout.keeps(k, by[0]):
                    continue
                slope = ca.jacobian(expression, model.x[state])
                if not slope.is_zero():
                    slope = ca.substitute(slope, model.x, at)
                    slopes[(k, i), by] = slope * scale / layout.scale(by[1], h)
        return Linearisation(rates, slopes, about)

    def condition_on_ode(
        self,
        predicted: Mean,
        linearisation: Linearisation,
        noise: Sequence[ca.SX],
        algebra: StraightLine,
        factors: Sequence[Factor] | None = None,
    ) -> FilterStep:
        """Predict the covariance and condition mean and covariance on z = 0, (10b) and (11).

        noise: Variance that the diffusion adds in the step, one per process.
        algebra: Of the covariances, see `step_algebra`.
        factors: The covariance before, by default as it is held.
        """
        mean, shared = predicted, SharedGains(f"{self.prefix}g")
        before = self.factors if factors is None else factors
        after: list[Factor] = []
        innovations: list[Innovation] = []
        own: list[ResidualGain] = []
        used: list[ResidualGain] = []
        for block, factor in zip(self.layout.blocks, before, strict=True):
            slopes = linearisation.slopes
            gain, filtered = covariance.step(self.layout, block, factor, slopes, noise, algebra)
            own.append(gain)
            if self.shared:
                gain, shared = shared.of_residuals(gain)
            used.append(gain)
            mean, innovation = _updated_mean(block, mean, gain, linearisation)
            after.append(filtered)
            innovations.append(innovation)
        return FilterStep(mean, after, innovations, shared, own, used)

    def output_slopes(self, h: ca.SX, outputs: ca.SX) -> list[dict[Entry, ca.SX]]:
        """Derivative of each output by the coordinates that it sees, at the filter's mean."""
        model, at = self.model, self.states(self.mean, h)
        jacobian = ca.jacobian(outputs, model.x)
        slopes: list[dict[Entry, ca.SX]] = []
        for j in range(outputs.numel()):
            row: dict[Entry, ca.SX] = {}
            for state in range(model.x.numel()):
                if not jacobian[j, state].is_zero():
                    k, i = self.layout.place(state)
                    slope = ca.substitute(jacobian[j, state], model.x, at)
                    row[k, i] = slope / self.layout.scale(i, h)
            row |= {entry: ca.SX(1.0) for noisy, entry in self.layout.noise if noisy == j}
            slopes.append(row)
        return slopes

    def rescale(self, factors: Sequence[Factor], h_ratio: ca.SX) -> list[Factor]:
        """Covariance in the coordinates of steps ``h_ratio`` times as long."""
        pairs = zip(self.layout.blocks, factors, strict=True)
        return [covariance.rescale(block, factor, h_ratio) for block, factor in pairs]

    def shares(self, set_back: SetBack) -> Shares:
        """Coordinates of which samples do not leave all, as `moved` takes them."""
        counted = self.model.accumulators
        return {self.layout.place(k): (set_back.share[k], ca.SX(0.0)) for k in counted}

    def moved(
        self, mean: Mean, factors: Sequence[Factor], shares: Shares
    ) -> tuple[Mean, list[Factor]]:
        """State of which a share is left, with new noise; rates follow by `restart`."""
        after = [
            [shares[k, i][0] * v if (k, i) in shares else v for i, v in enumerate(row)]
            for k, row in enumerate(mean)
        ]
        pairs = zip(self.layout.blocks, factors, strict=True)
        return after, [covariance.moved(block, factor, shares) for block, factor in pairs]

    def restart(
        self, mean: Mean, factors: Sequence[Factor], derivatives: Linearisation
    ) -> tuple[Mean, list[Factor]]:
        """State whose derivatives follow from the values, as ``derivatives`` says."""
        restarted = [list(row) for row in mean]
        for k, i in derivatives.rates:
            restarted[k][i] = derivatives.at((k, i), mean)
        pairs = zip(self.layout.blocks, factors, strict=True)
        return restarted, [covariance.restart(b, f, derivatives.slopes) for b, f in pairs]


def step_algebra(layout: Layout) -> StraightLine:
    """Algebra of the covariances of a layout: of large ones by loops over memory."""
    return Memory() if covariance.most_rows(layout) > MOST_ROWS else STRAIGHT


def rescaled_mean(mean: Mean, h_ratio: ca.SX) -> Mean:
    """Mean in the coordinates of steps ``h_ratio`` times as long."""
    return [[value * h_ratio**i for i, value in enumerate(row)] for row in mean]


def _updated_mean(
    block: Block, predicted: Mean, gain: ResidualGain, linearisation: Linearisation
) -> tuple[Mean, Innovation]:
    """Condition the mean of a block on the residuals of its ODE being zero (11d)."""
    mean = [list(row) for row in predicted]
    n = len(block.rates)
    residuals: list[ca.SX] = []
    for number, rate in enumerate(block.rates):
        z = linearisation.at(rate, mean) - mean[rate[0]][rate[1]]
        for earlier in range(number):
            z -= gain.rows[number][earlier] * residuals[earlier]
        residuals.append(z)
    for number, (k, i) in enumerate([*block.seen, *block.higher]):
        for j, z in enumerate(residuals):
            mean[k][i] += gain.rows[n + number][j] * z
    for k, i in block.rates:
        # Without noise on the residual its gain is one: the rate is conditioned on exactly.
        mean[k][i] = linearisation.at((k, i), mean)
    return mean, Innovation(block.processes, tuple(residuals), tuple(gain.variances))
