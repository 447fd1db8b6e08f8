"""Neural networks of one output, with priors that keep its size through the layers.

A `LinearisedNetwork` is linear in its weights about given ones, in the few directions that matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy import fft, stats
from scipy.stats import qmc
from typing_extensions import override

from smcpn.base.arguments import Kind, Positive, UnfitError, checked, whole
from smcpn.errors import InputError, one_of, real_number
from smcpn.model.functions.unknown import (
    Intervals,
    UnknownFunction,
    labels,
    one_interval_each,
    softplus,
)

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
    @override
    def priors(self) -> Mapping[str, Any]:
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


Array = NDArray[np.float64]

RESOLVED = 1e-4
"""Size of a direction in the weights, over that of the largest, below which it is left out."""
POINTS = 512
"""Points of the domain at which directions are compared; a power of two."""
TERMS, EXACT = 128, 1e-8
"""Most Chebyshev polynomials of one variable, and the share of the function that they may lack."""
MOST_WEIGHTS = 20_000


@dataclass(frozen=True)
class LinearisedNetwork(Network):
    """f(z) + df/dw(z) (w - w*), linear in the weights w of a network about its weights w*.

    Only the directions in w that make different functions are parameters. With the prior
    w ~ N(0, S), the singular value decomposition of df/dw S^(1/2) at points of ``domain`` gives
    directions V with w - w* = S^(1/2) V (x - x*), x ~ N(0, 1); the others have singular values
    below 1e-4 of the largest and change no function. The parameters ``[k]`` are the x of the
    weights of the hidden layers, then those of the last layer, which are times ``scale``, as in
    the network. Functions have the posterior, and data the evidence, of the model that is linear in
    all weights.

    Of one variable it is summed up as Chebyshev polynomials over ``domain``, and constant beyond.

    Attributes
    ----------
    weights : tuple of float
        The network's parameters w*, its scale last.
    domain : tuple of pairs of float
        Interval of each variable in which functions are told apart.

    References
    ----------
    Immer, A., Korzepa, M., Bauer, M. (2021). Improving predictions of Bayesian neural nets via
    local linearization. AISTATS, equation 7.
    """

    gaussian_given_scales: ClassVar[bool] = True
    weights: tuple[float, ...] = ()
    domain: tuple[tuple[float, float], ...] = ()

    @cached_property
    def network(self) -> Network:
        """The network."""
        return Network(self.arguments, self.hidden, self.activation, self.within, self.size)

    @property
    @override
    def scales(self) -> Mapping[str, str]:
        hidden, last = self._counts
        return {f"[{k}]": ".scale" for k in range(hidden, hidden + last)}

    @cached_property
    def maximum(self) -> Array:
        """Parameters, (p,), with which it is the network with the weights w*."""
        directions = _blocks(*self._found)
        return np.append(
            (np.array(self.weights[:-1]) / self._spread) @ directions, self.weights[-1]
        )

    @property
    @override
    def remark(self) -> str:
        return f"linear in its {len(self.weights) - 1} weights about their maximum"

    @override
    def graph(self, arguments: Sequence[ca.SX], parameters: ca.SX) -> ca.SX:
        if self._polynomials is not None:
            low, high = self.domain[0]
            within = ca.fmin(ca.fmax(arguments[0], low), high)
            coordinate = (within - (low + high) / 2) * (2.0 / (high - low))
            change = ca.mtimes(ca.DM(self._polynomials[:, 1:]), parameters[:-1])
            return _chebyshev_sum(ca.DM(self._polynomials[:, 0]) + change, coordinate)
        weights = ca.SX.sym("weights", len(self.weights))
        change = ca.mtimes(ca.DM(self._directions), parameters[:-1] - self.maximum[:-1])
        graph = self.network.graph(arguments, weights)
        tangent = ca.jtimes(graph, weights, ca.vertcat(change, 0.0))
        return ca.substitute(graph + tangent, weights, ca.DM(self.weights))

    @cached_property
    @override
    def priors(self) -> Mapping[str, Any]:
        normal = stats.norm()
        numbered = {f"[{k}]": normal for k in range(sum(self._counts))}
        return numbered | {".scale": self.network.priors[".scale"]}

    @property
    def _counts(self) -> tuple[int, int]:
        """Directions in the weights of the hidden layers, and of the last one."""
        return self._found[0].shape[1], self._found[1].shape[1]

    @cached_property
    def _found(self) -> tuple[Array, Array]:
        """Directions of both parts, orthonormal columns in weights over their prior's sd."""
        spread, last = self._spread, self.hidden[-1] + 1
        slopes = self._expanded(self._points())[:, 1:] * spread
        # Directions of the last layer count by the scale that it has.
        parts = (slopes[:, :-last], slopes[:, -last:] * self.weights[-1])
        decomposed = [np.linalg.svd(part, full_matrices=False)[1:] for part in parts]
        least = RESOLVED * max(values[0] for values, _ in decomposed)
        hidden, output = (_signed(rows[values > least]).T for values, rows in decomposed)
        return hidden, output

    @cached_property
    def _directions(self) -> Array:
        """Matrix from the parameters but the scale to the weights, (w, p - 1)."""
        return self._spread[:, None] * _blocks(*self._found)

    @property
    def _spread(self) -> Array:
        """Standard deviation of each weight under the prior, for a scale of one."""
        priors = self.network.priors
        return np.array([prior.std() for name, prior in priors.items() if name != ".scale"])

    @cached_property
    def _polynomials(self) -> Array | None:
        """Chebyshev coefficients of what is constant and of each parameter, (terms, p).

        None for several variables, and for a network too steep for `TERMS` of them.
        """
        if len(self.arguments) > 1:
            return None
        low, high = self.domain[0]
        nodes = np.cos(np.pi * (np.arange(2 * TERMS) + 0.5) / (2 * TERMS))
        expanded = self._expanded((0.5 * (low + high) + 0.5 * (high - low) * nodes)[:, None])
        slopes = expanded[:, 1:] @ self._directions
        values = np.column_stack([expanded[:, 0] - slopes @ self.maximum[:-1], slopes])
        coefficients = np.asarray(fft.dct(values, axis=0), dtype=np.float64) / (2 * TERMS)
        coefficients[0] /= 2.0
        sizes = np.abs(coefficients).max(axis=1)
        terms = int(np.flatnonzero(sizes > EXACT * sizes.max())[-1]) + 1
        return coefficients[:terms] if terms <= TERMS else None

    def _expanded(self, points: Array) -> Array:
        """Value of the network, and its derivative by every weight, (m, 1 + w)."""
        at, weights = ca.SX.sym("at", len(self.arguments)), ca.SX.sym("weights", len(self.weights))
        graph = self.network.graph(ca.vertsplit(at), weights)
        both = ca.horzcat(graph, ca.gradient(graph, weights)[:-1].T)
        rows = ca.Function("rows", [at, weights], [ca.densify(both)])
        found = rows.map(len(points))(points.T, ca.DM(self.weights))
        return np.array(found).reshape(len(points), -1)

    def _points(self) -> Array:
        """Points spread evenly over the domain, (m, variables)."""
        low, high = np.array(self.domain).T
        cube = qmc.Sobol(len(low), scramble=False).random(POINTS)
        return low + (high - low) * (cube + 0.5 / POINTS)


def _signed(rows: Array) -> Array:
    """Directions whose largest entry is positive: a decomposition leaves their signs open."""
    largest = np.abs(rows).argmax(axis=1)[:, None]
    return rows * np.sign(np.take_along_axis(rows, largest, axis=1))


def _blocks(first: Array, second: Array) -> Array:
    """Block diagonal matrix of two."""
    (a, b), (c, d) = first.shape, second.shape
    return np.block([[first, np.zeros((a, d))], [np.zeros((c, b)), second]])


def _chebyshev_sum(coefficients: ca.SX, x: ca.SX) -> ca.SX:
    """Sum of c_k T_k(x) (Clenshaw)."""
    first, *others = ca.vertsplit(coefficients)
    last, before = ca.SX(0), ca.SX(0)
    for coefficient in reversed(others):
        last, before = coefficient + 2.0 * x * last - before, last
    return first + x * last - before


def _read_weights(value: Any) -> tuple[float, ...]:
    if not isinstance(value, (list, tuple)) or not 0 < len(value) <= MOST_WEIGHTS:
        raise UnfitError
    try:
        return tuple(real_number("weights", one) for one in value)
    except InputError:
        raise UnfitError from None


Weights = Annotated[Any, Kind(f"a list of at most {MOST_WEIGHTS} finite numbers", _read_weights)]


@checked
def linearised_network(
    *arguments: str,
    hidden: Layers = (20, 20),
    activation: str = "tanh",
    within: Intervals | None = None,
    size: Positive = 1.0,
    weights: Weights,
    domain: Intervals,
) -> LinearisedNetwork:
    """Return a network as a function that is linear in its weights about given ones.

    `smcpn.linearise_networks` makes it of a maximum.

    weights: All parameters of the network, in the order of its ``priors``; the scale is positive.
    domain: Interval of each variable over which functions are told apart.
    """
    made = network(*arguments, hidden=hidden, activation=activation, within=within, size=size)
    one_interval_each("linearised_network", made.arguments, domain)
    if len(weights) != len(made.priors) or not weights[-1] > 0.0:
        raise InputError(
            f"weights has {len(weights)} numbers: give the {len(made.priors)} parameters of the "
            "network, the last of them, the scale, above 0",
            argument="weights",
        )
    return LinearisedNetwork(
        made.arguments, made.hidden, made.activation, made.within, made.size, weights, domain
    )
