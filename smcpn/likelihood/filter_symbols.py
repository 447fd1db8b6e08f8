"""One of the filters of a particle: the symbols that it holds, and what a step makes of them."""

from __future__ import annotations

from itertools import chain

import casadi as ca

from smcpn.likelihood.covariance import Covariance
from smcpn.likelihood.factor import Factor
from smcpn.likelihood.gaussian_filter import GaussianFilter, Innovation, Linearisation, Mean
from smcpn.likelihood.processes import Layout
from smcpn.problem import Model


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
