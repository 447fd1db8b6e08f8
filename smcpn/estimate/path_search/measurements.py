"""Measured outputs as a path sees them: their cost, and their Gauss-Newton approximation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.arrays import ArrayFunction
from smcpn.model.graphs import Model
from smcpn.model.record import Record

Array = NDArray[np.float64]


class Measurements(Protocol):
    """Measured outputs of T samples, some missing, given those expected by S searches."""

    def cost(self, expected: Array, variances: Array) -> Array:
        """Minus the log density, (S,), but for what no path changes.

        Parameters
        ----------
        expected : ndarray, (S, T, q)
            Noise-free outputs.
        variances : ndarray, (S, q)
            Of Gaussian noise.
        """
        ...

    def expansion(self, expected: Array, variances: Array) -> tuple[Array, Array]:
        """Residual and weight, (S, T, q) both: the cost is about weight residual^2 / 2."""
        ...


class Gaussian:
    """Measurements with Gaussian noise, weighted as if it were white."""

    def __init__(self, y: Array) -> None:
        self._present = np.isfinite(y)
        self._y = np.where(self._present, y, 0.0)

    def cost(self, expected: Array, variances: Array) -> Array:
        """Minus the log density, (S,), but for what no path changes."""
        residual, weight = self.expansion(expected, variances)
        return 0.5 * np.sum(weight * residual**2, axis=(1, 2))

    def expansion(self, expected: Array, variances: Array) -> tuple[Array, Array]:
        """Residual and weight, (S, T, q) both."""
        residual = np.where(self._present, self._y - expected, 0.0)
        return residual, self._present / variances[:, None, :]


class OfDensity:
    """Measurements of any density, whose parameters stay as they were at the start.

    Parameters
    ----------
    values : ndarray, (d,)
        Parameter values.
    """

    def __init__(self, model: Model, records: Sequence[Record], values: Array) -> None:
        density, y = model.density, np.concatenate([record.y for record in records])
        assert density is not None
        limited = np.concatenate([record.limited for record in records])
        self._present = np.isfinite(y) | limited
        # In place of a missing value one that every density has.
        self._y = np.where(np.isfinite(y), y, 1.0)
        samples = [np.column_stack(model.sample_numbers(record)) for record in records]
        self._samples = np.concatenate(samples)
        graphs = ca.vertcat(density.log_density, density.expansion()[0], density.information())
        graphs = ca.substitute(graphs, model.theta, ca.DM(values))
        known = ca.vertcat(density.beside, model.u, model.t)
        self._function = ArrayFunction(ca.vertcat(density.y, density.output, known), graphs)

    def cost(self, expected: Array, variances: Array) -> Array:
        """Minus the log density, (S,), but for what no path changes."""
        return -np.sum(np.where(self._present, self._at(expected)[0], 0.0), axis=(1, 2))

    def expansion(self, expected: Array, variances: Array) -> tuple[Array, Array]:
        """Residual and weight, (S, T, q) both, of a Gaussian pseudo-observation."""
        _, gradient, information = self._at(expected)
        weight = np.where(self._present, information, 0.0)
        told = weight > 0.0
        return np.where(told, gradient / np.where(told, weight, 1.0), 0.0), weight

    def _at(self, expected: Array) -> Array:
        """Log density, gradient and information, (3, S, T, q)."""
        q = expected.shape[2]
        columns = [self._y[:, j] for j in range(q)] + [expected[..., j] for j in range(q)]
        found = self._function([*columns, *self._samples.T])
        result = np.empty((3, *expected.shape))
        for k, column in enumerate(found):
            result[k // q, ..., k % q] = column
        return result


def state_outputs(model: Model) -> list[int]:
    """Outputs that are a function of the state and not of parameters, and measured as they are.

    A density that is not highest at the measured value, as of counts, measures something else.
    """
    gradient = ca.SX.zeros(model.outputs.numel(), 1)
    if model.density is not None:
        density = model.density
        gradient = ca.substitute(density.expansion()[0], density.output, density.y)
        gradient = ca.substitute(gradient, density.beside, ca.SX.zeros(density.beside.numel(), 1))
    return [
        j
        for j, output in enumerate(ca.vertsplit(model.outputs))
        if not ca.depends_on(output, model.theta) and gradient[j].is_zero()
    ]
