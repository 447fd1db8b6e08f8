"""The sequel's data: states observed in turns, some not at all, a gap after the first sample.

Source: Bhouri and Perdikaris, *Gaussian processes meet NeuralODEs: a Bayesian framework for
learning the dynamics of partially observed systems from scarce and noisy data* (2022), and its
public code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import smcpn
from benchmarks.papers.differential_programming_problems import EXPERIMENTS, Experiment
from smcpn import Library, Record

Array = NDArray[np.float64]

NOISE = 0.1
"""Standard deviation, in units of that of each state."""
FINER = 10
"""Samples of the solution that noise is drawn for, from one of the grid to the next."""


@dataclass(frozen=True)
class Sequel:
    """One experiment of the sequel.

    system: Whose equation, truth and start these are.
    end, forecast: Of the record, and of the forecast.
    intervals, gap: Of the grid, and samples that are left out after the first.
    first, odd, even: States that are observed at the first sample, and at every other one of those
        that are left: from the second on, and from the third on.
    key: Of the authors' noise, drawn by JAX.
    """

    system: Experiment
    end: float
    forecast: float
    intervals: int
    gap: int
    first: tuple[str, ...]
    odd: tuple[str, ...]
    even: tuple[str, ...]
    key: int

    @property
    def observed(self) -> tuple[str, ...]:
        """States that are seen, in the order of the equation."""
        return tuple(s for s in self.system.ode.states if s in self.odd + self.even)

    def record(self, noise: Array) -> Record:
        """Samples on the grid, NaN where not seen.

        noise: (10 intervals + 1, n), of unit variance.
        """
        times = np.linspace(0.0, self.end, FINER * self.intervals + 1)
        exact = self.system.states(times)
        y = exact + NOISE * exact.std(axis=0) * noise
        y = y[::FINER, [self.system.ode.states.index(state) for state in self.observed]]
        turns = np.arange(self.intervals + 1) - self.gap
        for j, state in enumerate(self.observed):
            seen = (turns > 0) & (turns % 2 == (state in self.odd))
            seen[0] = state in self.first
            y[~seen, j] = np.nan
        return Record(y=y, t=times[::FINER])

    def drawn(self, seed: int) -> Record:
        """The record with noise of a seed."""
        shape = FINER * self.intervals + 1, len(self.system.start)
        return self.record(np.random.default_rng(seed).normal(size=shape))

    def authors(self) -> Record | None:
        """The record of the authors, where JAX is installed."""
        try:
            import jax  # pyright: ignore[reportMissingImports]
        except ImportError:
            return None
        shape = FINER * self.intervals + 1, len(self.system.start)
        # Their version drew so, and in double precision.
        with jax.enable_x64(True), jax.threefry_partitionable(False):
            noise = jax.random.normal(jax.random.PRNGKey(self.key), shape)
        return self.record(np.array(noise))


def _powers(name: str) -> Library:
    return smcpn.polynomials(3, variables=[name], constant=False)


def _itself(name: str) -> Library:
    return smcpn.polynomials(1, variables=[name], constant=False)


LIBRARY = _powers("x") + _powers("y") + _itself("x") * _itself("y")
"""x, y, x y, x^2, y^2, x^3, y^3 in each equation."""

SEQUELS: Mapping[str, Sequel] = {
    "lotka-volterra": Sequel(
        EXPERIMENTS["lotka-volterra"],
        end=16.5, forecast=30.0, intervals=110, gap=9,
        first=("y",), odd=("x",), even=("y",), key=123,
    ),
    "glycolysis": Sequel(
        EXPERIMENTS["glycolysis"],
        end=3.0, forecast=6.0, intervals=120, gap=19,
        first=("A3", "S4ex"), odd=("A3",), even=("N2", "S4ex"), key=1234,
    ),
}  # fmt: skip
