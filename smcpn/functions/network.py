"""Neural networks of one output, with priors that keep its size through the layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import casadi as ca
import numpy as np
from scipy import stats
from typing_extensions import override

from smcpn.arguments import Kind, Positive, UnfitError, checked, whole
from smcpn.errors import one_of
from smcpn.functions.activation import softplus
from smcpn.functions.unknown import Intervals, UnknownFunction, labels, one_interval_each

ACTIVATIONS = {"tanh": ca.tanh, "softplus": softplus}
MOST_VARIABLES, MOST_LAYERS, MOST_UNITS = 10, 5, 200
_WIDE = 1.5
"""Standard deviation of the log of the scale."""


@dataclass(frozen=True)
class Network(UnknownFunction):
    """Feed-forward network a_l(W_l ... a_1(W_1 z + b_1) ... + b_l), of inputs z in one size.

    The parameters ``[k]`` are, layer after layer, the weights W row by row (a row for each unit of
    the layer) and then the biases b. Weights are N(0, 1 / columns of W) and biases N(0, 1); those
    of the last layer, which is linear, times ``scale`` (Neal, *Bayesian Learning for Neural
    Networks*, 1996, section 2.1).

    Attributes
    ----------
    hidden : tuple of int
        Units of each hidden layer.
    activation : {"tanh", "softplus"}
    within : tuple of pairs of float
        Interval of each variable, over which z has mean 0 and variance 1; empty for z = arguments.
    size : float
    """

    hidden: tuple[int, ...]
    activation: str = "tanh"
    within: tuple[tuple[float, float], ...] = ()
    size: float = 1.0
    gaussian_given_scales: ClassVar[bool] = False

    @property
    @override
    def intervals(self) -> tuple[tuple[float, float], ...]:
        return self.within

    @property
    @override
    def priors(self) -> Mapping[str, Any]:
        return self._priors

    @property
    @override
    def scales(self) -> Mapping[str, str]:
        last = self.hidden[-1] + 1
        count = len(self.priors) - 1
        return {f"[{k}]": ".scale" for k in range(count - last, count)}

    @override
    def graph(self, arguments: Sequence[ca.SX], parameters: ca.SX) -> ca.SX:
        values = ca.vertcat(*arguments)
        if self.within:
            lower, upper = np.array(self.within).T
            values = (values - (lower + upper) / 2) * (np.sqrt(12.0) / (upper - lower))
        begin, activate = 0, ACTIVATIONS[self.activation]
        for layer, (rows, columns) in enumerate(self._shapes()):
            middle, end = begin + rows * columns, begin + rows * columns + rows
            weights = ca.reshape(parameters[begin:middle], columns, rows).T
            values = weights @ values + parameters[middle:end]
            if layer < len(self.hidden):
                values = activate(values)
            begin = end
        return values

    @cached_property
    def _priors(self) -> dict[str, Any]:
        bias, every = stats.norm(), []
        for rows, columns in self._shapes():
            every += [stats.norm(scale=columns**-0.5)] * (rows * columns) + [bias] * rows
        numbered = {f"[{k}]": prior for k, prior in enumerate(every)}
        return numbered | {".scale": stats.lognorm(_WIDE, scale=self.size)}

    def _shapes(self) -> Iterator[tuple[int, int]]:
        """Rows and columns of the weights of each layer."""
        sizes = [len(self.arguments), *self.hidden, 1]
        return zip(sizes[1:], sizes, strict=False)


def _read_layers(value: Any) -> tuple[int, ...]:
    units = whole(1, MOST_UNITS)
    given = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not 1 <= len(given) <= MOST_LAYERS:
        raise UnfitError
    return tuple(units.read(one) for one in given)


Layers = Annotated[
    Any,
    Kind(f"one to {MOST_LAYERS} whole numbers from 1 to {MOST_UNITS}, as (20, 20)", _read_layers),
]


@checked
def network(
    *arguments: str,
    hidden: Layers = (20, 20),
    activation: str = "tanh",
    within: Intervals | None = None,
    size: Positive = 1.0,
) -> Network:
    """Return an unknown function of one or more variables as a neural network.

    Parameters
    ----------
    *arguments : str
        Labels of its variables.
    hidden : tuple of int
        Units of each hidden layer; one variable and (20, 20) have 481 weights.
    activation : {"tanh", "softplus"}
    within : tuple of float, or a sequence of such, optional
        Interval of each variable, in its unit, over which it is brought to mean 0 and variance 1.
        Without it the variables should be of size one.
    size : float
        Typical size of the values; see `smcpn.spline`.

    Raises
    ------
    InputError
        If it has no variable, an unknown activation, or not one interval for each variable.

    Examples
    --------
    >>> import smcpn
    >>> len(smcpn.network("v", hidden=(20, 20)).priors)
    482
    """
    names = labels("network", arguments, MOST_VARIABLES)
    intervals = () if within is None else within
    if intervals:
        one_interval_each("network", names, intervals)
    return Network(names, hidden, one_of("activation", activation, ACTIVATIONS), intervals, size)
