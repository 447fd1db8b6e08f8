"""Priors whose scale is another parameter, or a number: p(x | s) = p(x / s) / s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, real_number, shown
from smcpn.model.coordinates import Coordinate, Identity, Log, Logit

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """Which columns of a prior are multiplied by which others, or by known numbers.

    Attributes
    ----------
    columns : ndarray of int, (m,)
    by : ndarray of int, (m,)
        Column of the scale; -1 where it is known.
    known : ndarray, (m,)
        The known scales.
    """

    columns: NDArray[np.int64]
    by: NDArray[np.int64]
    known: Array

    def of(self, values: Array) -> Array:
        """The scales, (n, m), among parameter values (n, d)."""
        return np.where(self.by < 0, self.known, values[:, self.by])

    def multiplied(self, theta: Array, values: Array) -> Array:
        """Coordinates (n, d) times the scales of these values."""
        if len(self.columns):
            theta[:, self.columns] *= self.of(values)
        return theta

    def divided(self, theta: Array, values: Array) -> Array:
        """Coordinates (n, d) over the scales of these values."""
        if not len(self.columns):
            return theta
        divided = theta.copy()
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            divided[:, self.columns] /= self.of(values)
        return divided

    @classmethod
    def of_prior(cls, scales: Mapping[str, str | float], maps: Mapping[str, Coordinate]) -> Self:
        """Return the columns of scales, by the names of all parameters and their coordinates.

        Raises
        ------
        InputError
            If a scale is not positive, is scaled itself, or multiplies what has bounds.
        """
        names, known = list(maps), [1.0] * len(scales)
        for k, (name, scale) in enumerate(scales.items()):
            argument = f"scales.{name}"
            if name not in maps:
                raise InputError(f"scales names '{name}', which has no prior", argument=argument)
            if not isinstance(maps[name], Identity):
                raise InputError(
                    f"prior of '{name}' has bounds and the scale {shown(scale)}: give a "
                    "distribution on the whole line, such as stats.norm()",
                    argument=argument,
                )
            if not isinstance(scale, str):
                known[k] = _positive(name, scale)
            elif scale in scales or not _is_positive(maps.get(scale)):
                if scale in maps and scale not in scales:
                    raise InputError(
                        f"prior of '{scale}' reaches below zero, and a scale is positive: give a "
                        "distribution of positive numbers, such as stats.lognorm(1.0)",
                        argument=f"prior.{scale}",
                    )
                raise InputError(
                    f"scale of '{name}' is '{scale}': name a parameter with a positive prior, "
                    "such as stats.lognorm(1.0)",
                    argument=argument,
                )
        by = [names.index(scale) if isinstance(scale, str) else -1 for scale in scales.values()]
        columns = [names.index(name) for name in scales]
        return cls(np.array(columns, int), np.array(by, int), np.array(known, float))

    def gradient(self, by_y: Array, y: Array, values: Array, slopes: Array) -> Array:
        """Gradient of log p(y) / s by the coordinates, y being those over the scales, (n, d).

        Parameters
        ----------
        by_y : ndarray, (n, d)
            Derivative of log p by y.
        y, values, slopes : ndarray, (n, d)
            What is `divided`, parameter values, and their derivatives by the coordinates.
        """
        gradient, scales = by_y.copy(), self.of(values)
        gradient[:, self.columns] = by_y[:, self.columns] / scales
        learned = np.flatnonzero(self.by >= 0)
        columns, by = self.columns[learned], self.by[learned]
        pull = -slopes[:, by] / scales[:, learned] * (1.0 + y[:, columns] * by_y[:, columns])
        np.add.at(gradient.T, by, pull.T)
        return gradient


def _positive(name: str, scale: float) -> float:
    scale = real_number(f"scale of '{name}'", scale, argument=f"scales.{name}")
    if scale <= 0.0:
        raise InputError(
            f"scale of '{name}' is {scale:g}: give a positive number", argument=f"scales.{name}"
        )
    return scale


def _is_positive(coordinate: Coordinate | None) -> bool:
    """True if a parameter is positive wherever its coordinate is finite."""
    bounded = isinstance(coordinate, (Log, Logit))
    return bounded and bool(coordinate.natural(np.array([-40.0, 40.0])).min() >= 0.0)
