"""Terms over the states and inputs of a system, with their names, as expression graphs.

A term is a product of variables and of functions of variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.stored import Names, Stored, Whole, counts, finite, truths
from smcpn.errors import InputError, listed, nearest, shown
from smcpn.model.expression import AsTable, ExpressionTable
from smcpn.model.ode import TIME
from smcpn.model.trace import function_name, trace


@dataclass(frozen=True)
class Factor:
    """A state, an input or the time, or a function of these; equal to one of the same name.

    name: ``"x"``, ``"sin(2 x)"``.
    arguments: The variable, or the arguments of the function.
    function: None for the variable itself.
    degree: What it adds to the degree of a term.
    """

    name: str
    arguments: tuple[str, ...] = field(compare=False)
    function: Callable[..., Any] | None = field(default=None, compare=False)
    degree: int = field(default=1, compare=False)

    def graph(self, symbols: Mapping[str, ca.SX]) -> ca.SX:
        """Trace it over symbols of the variables.

        Raises `InputError` if the function cannot be traced, or does not return one expression.
        """
        values = [symbols[name] for name in self.arguments]
        if self.function is None:
            return values[0]
        try:
            found = trace(self.function, values, {})
        except InputError as error:
            as_model = f"model '{function_name(self.function)}'"
            raise InputError(
                str(error).replace(as_model, f"library term '{self.name}'"), argument="library"
            ) from error
        if len(found) != 1:
            raise InputError(
                f"library term '{self.name}' returns {len(found)} values: return one expression",
                argument="library",
            )
        return found[0]


@dataclass(frozen=True)
class Term:
    """A product of powers of factors, the constant 1 where there are none."""

    powers: tuple[tuple[Factor, int], ...] = ()

    @property
    def name(self) -> str:
        """As it is written: ``"x^2 sin(v)"``, ``"1"``."""
        written = [f.name if power == 1 else f"{f.name}^{power}" for f, power in self.powers]
        return " ".join(written) or "1"

    @property
    def degree(self) -> int:
        """Sum of the degrees of its factors."""
        return sum(factor.degree * power for factor, power in self.powers)

    @property
    def is_monomial(self) -> bool:
        """True if it has no function."""
        return all(factor.function is None for factor, _ in self.powers)

    def power(self, variable: str) -> int:
        """Power of a variable itself, whatever functions of it there are."""
        return dict(self.powers).get(Factor(variable, (variable,)), 0)

    def __mul__(self, other: Term) -> Term:
        powers = dict(self.powers)
        for factor, power in other.powers:
            powers[factor] = powers.get(factor, 0) + power
        return Term(tuple(powers.items()))

    def ordered(self, variables: tuple[str, ...]) -> Term:
        """Term with its variables in this order, and functions behind them by name."""

        def place(entry: tuple[Factor, int]) -> tuple[int, str]:
            factor = entry[0]
            known = factor.function is None
            return variables.index(factor.name) if known else len(variables), factor.name

        return Term(tuple(sorted(self.powers, key=place)))


@dataclass(frozen=True)
class Variables:
    """Names that terms are functions of: the states, then the inputs."""

    states: tuple[str, ...]
    inputs: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """States and inputs."""
        return self.states + self.inputs

    @property
    def timed(self) -> tuple[str, ...]:
        """States, inputs and the time."""
        return (*self.names, TIME)

    def chosen(self, names: Sequence[str] | None) -> tuple[str, ...]:
        """Return the variables that a library is restricted to; all where it is not.

        Raises `InputError` if a name is none of a variable.
        """
        if names is None:
            return self.names
        for name in names:
            if name not in self.timed:
                raise InputError(
                    f"library variables name {shown(name)}, which is no state or input "
                    f"({listed(self.names)}): {nearest(name, self.timed)}",
                    argument="variables",
                )
        return tuple(dict.fromkeys(names))


MOST_TERMS = 5000
"""Of one library: a search over so many takes hours."""
N_POINTS = 48
"""Random points at which terms are compared."""
SAME = 1e-9
"""Relative difference below which two terms are multiples of one another."""


@dataclass(frozen=True, eq=False)
class Candidates(Stored):
    """Terms that the equations of a system may have, p of them for n states.

    names: As they are written: ``"1"``, ``"x"``, ``"x y"``, ``"x^2"``, ``"sin(x)"``, ``"u"``.
    degrees: Total degree of each; a function counts as one factor, the k-th harmonic as k.
    allowed: (n, p), whether the equation of a state may have the term.
    scale: (n + m,), units in which the states and inputs of `graph` are given, one unless `scaled`.
    powers: (p, n + m), powers of the states and inputs themselves in each term.
    terms: Of scaled states and inputs, time, and both scales.
    """

    names: Names
    degrees: tuple[Whole, ...]
    allowed: Annotated[NDArray[np.bool_], truths("n", "p")]
    states: Names
    inputs: Names
    scale: Annotated[NDArray[np.float64], finite(None)] = field(repr=False)
    powers: Annotated[NDArray[np.int64], counts("p", None)] = field(repr=False)
    terms: Annotated[ca.Function, AsTable("terms")] = field(repr=False)

    @classmethod
    def of(
        cls, terms: Mapping[tuple[int, ...], Sequence[Term]], variables: Variables
    ) -> Candidates:
        """Return the terms of equations, by the numbers of the states that they are of.

        A term that is a multiple of a monomial, or of a term before it, is left out.

        Raises `InputError` if there are none or more than `MOST_TERMS`, one is zero or not finite
        everywhere, or two different functions have one name.
        """
        found = {
            equations: [one.ordered(variables.timed) for one in own]
            for equations, own in terms.items()
        }
        every = [term for own in found.values() for term in own]
        distinct = list(dict.fromkeys(every))
        if not 0 < len(distinct) <= MOST_TERMS:
            raise InputError(
                f"the library has {len(distinct)} terms: give one with 1 to {MOST_TERMS}",
                argument="library",
            )
        _check_namesakes(every, variables)
        function = _graphs(distinct, variables)
        kept, stands_for = _first_multiples(function, distinct)
        number = {term: k for k, term in enumerate(distinct)}
        allowed = np.zeros((len(variables.states), len(kept)), dtype=bool)
        for equations, own in found.items():
            for term in own:
                allowed[list(equations), stands_for[number[term]]] = True
        distinct = [distinct[k] for k in kept]
        arguments = function.sx_in()
        powers = [[term.power(name) for name in variables.names] for term in distinct]
        return cls(
            names=tuple(term.name for term in distinct),
            degrees=tuple(term.degree for term in distinct),
            allowed=allowed,
            states=variables.states,
            inputs=variables.inputs,
            scale=np.ones(len(variables.names)),
            powers=np.array(powers, dtype=np.int64).reshape(len(distinct), -1),
            terms=ca.Function("terms", arguments, [function(*arguments)[kept]]),
        )

    def graph(self, x: ca.SX, u: ca.SX, t: ca.SX) -> ca.SX:
        """Terms (p, 1) of states (n, 1), inputs (m, 1) and time.

        Of `scaled` candidates the arguments and the terms are in the units of the scale.
        """
        n = len(self.states)
        graph = self.terms(x, u, t, self.scale[:n], self.scale[n:])
        return ca.densify(ca.SX(graph))

    def values(
        self, x: NDArray[np.float64], u: NDArray[np.float64] | None = None, t: Any = 0.0
    ) -> NDArray[np.float64]:
        """Terms (N, p) at states (N, n), inputs (N, m) and times, a number or (N,)."""
        n, m, size = len(self.states), len(self.inputs), len(x)
        inputs = np.zeros((size, m)) if u is None else np.asarray(u, dtype=float)
        times = np.broadcast_to(np.asarray(t, dtype=float), (size,))
        x_, u_, t_ = ca.SX.sym("x", n), ca.SX.sym("u", m), ca.SX.sym("t")
        function = ca.Function("values", [x_, u_, t_], [self.graph(x_, u_, t_)])
        found = function(np.asarray(x, dtype=float).T, inputs.T, times[None, :])
        return np.array(found).T.reshape(size, len(self.names))

    def restricted(self, allowed: NDArray[np.bool_]) -> Candidates:
        """Copy with only those terms in an equation that are allowed in both, (n, p)."""
        return replace(self, allowed=self.allowed & allowed)

    def scaled(
        self, states: NDArray[np.float64], inputs: NDArray[np.float64] | None = None
    ) -> Candidates:
        """Terms over states and inputs in other units, which keep high degrees in range.

        With z = x / s a monomial is that of z, and a function is that of s z, so that a state of
        1e60 in its degree 6 does not overflow. Names stay those of the physical variables.

        ``states``, (n,), are s, such as the root mean square of each state, and ``inputs``, (m,),
        that of the inputs, one by default.
        """
        n, m = len(self.states), len(self.inputs)
        given = np.concatenate([states, np.ones(m) if inputs is None else inputs]).astype(float)
        if given.shape != (n + m,) or not (np.isfinite(given) & (given > 0)).all():
            raise InputError(
                f"scale is {shown(given)}: give a positive number for each of "
                f"{n} states and {m} inputs",
                argument="scale",
            )
        return replace(self, scale=given)

    @property
    def units(self) -> NDArray[np.float64]:
        """Factor (n, p) from a coefficient of the scaled equation to that of the physical one.

        The equation of z_i = x_i / s_i has the coefficient theta / units before a scaled term.
        """
        n = len(self.states)
        log = np.log(self.scale)
        return np.exp(log[:n, None] - self.powers @ log)

    @property
    def table(self) -> ExpressionTable:
        """The terms as a table."""
        return ExpressionTable.of(self.terms)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"terms": self.table}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"terms": state["terms"].function("terms")})


def _graphs(terms: Iterable[Term], variables: Variables) -> ca.Function:
    """Terms as a function of scaled states and inputs, time, and the scales of both."""
    n, m = len(variables.states), len(variables.inputs)
    z, w, t = ca.SX.sym("x", n), ca.SX.sym("u", m), ca.SX.sym("t")
    scale_x, scale_u = ca.SX.sym("scale_x", n), ca.SX.sym("scale_u", m)
    scaled = dict(zip(variables.timed, ca.vertsplit(ca.vertcat(z, w, t)), strict=True))
    physical = ca.vertsplit(ca.vertcat(z * scale_x, w * scale_u, t))
    symbols = dict(zip(variables.timed, physical, strict=True))
    factors = {factor: factor for term in terms for factor, _ in term.powers}
    graphs = {
        factor: factor.graph(scaled if factor.function is None else symbols) for factor in factors
    }
    products: list[ca.SX] = []
    for term in terms:
        product = ca.SX(1)
        for factor, power in term.powers:
            product = product * graphs[factor] ** power
        products.append(product)
    arguments = [z, w, t, scale_x, scale_u]
    return ca.Function("terms", arguments, [ca.densify(ca.vertcat(*products))])


def _at_random_points(function: ca.Function) -> NDArray[np.float64]:
    """Terms (p, N) at points of all magnitudes, the same in every call."""
    n, m = function.size1_in(0), function.size1_in(1)
    rng = np.random.default_rng(20)
    size = 10 ** rng.uniform(-3, 1.5, size=(n + m + 1, N_POINTS))
    points = size * rng.choice([-1.0, 1.0], size=size.shape)
    ones = np.ones((n + m, 1))
    return np.array(function(points[:n], points[n:-1], points[-1:], ones[:n], ones[n:]))


def _first_multiples(
    function: ca.Function, terms: Sequence[Term]
) -> tuple[list[int], dict[int, int]]:
    """Find the terms that are no multiple of a monomial, or of a term before them.

    Returned are their numbers, and from the number of every term to the place in these of the one
    that it is a multiple of. A term that is zero, or not finite, wherever it is tried is refused.
    """
    values = _at_random_points(function)
    for term, row in zip(terms, values, strict=True):
        used = row[np.isfinite(row)]
        if not used.any():
            reason = "zero" if used.size else "not finite"
            raise InputError(
                f"library term '{term.name}' is {reason} everywhere: remove it", argument="library"
            )
    samples = _Samples.of(values)
    kept = np.array([term.is_monomial for term in terms])
    same = {int(k): int(k) for k in np.flatnonzero(kept)}
    for k in np.flatnonzero(~kept).tolist():
        near = np.flatnonzero(kept & (np.abs(samples.contrast - samples.contrast[k]) < SAME))
        same[k] = next((j for j in near.tolist() if samples.are_multiples(j, k)), k)
        kept[k] = same[k] == k
    place = np.cumsum(kept) - 1
    return np.flatnonzero(kept).tolist(), {k: int(place[j]) for k, j in same.items()}


@dataclass(frozen=True)
class _Samples:
    """Logarithms and signs of terms (p, N) at points.

    kind: (p, N), 1 where a value compares; 0, 2 and 3 where it is zero, not a number, and infinite.
    contrast: (p,), logarithm of the ratio of the values at two points: equal for multiples, and for
        few others.
    """

    log: NDArray[np.float64]
    sign: NDArray[np.float64]
    kind: NDArray[np.float64]
    contrast: NDArray[np.float64]

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> _Samples:
        with np.errstate(all="ignore"):
            log = np.log(np.abs(values))
            contrast = log[:, 0] - log[:, 1]
        finite = np.isfinite(log)
        kind = np.where(finite, 1.0, np.nan_to_num(values, nan=2.0, posinf=3.0, neginf=3.0))
        compares = finite[:, 0] & finite[:, 1]
        return cls(log, np.sign(values), kind, np.where(compares, contrast, 0.0))

    def are_multiples(self, j: int, k: int) -> bool:
        """True if two terms have one ratio at all points."""
        if not np.array_equal(self.kind[j], self.kind[k]):
            return False
        used = self.kind[k] == 1.0
        signs = self.sign[j, used] * self.sign[k, used]
        ratios = self.log[j, used] - self.log[k, used]
        return bool(abs(signs.sum()) == len(signs) and np.ptp(ratios) < SAME)


def _check_namesakes(terms: Iterable[Term], variables: Variables) -> None:
    """Refuse two different functions of one name, of which `Term` would keep the first only."""
    functions: dict[str, dict[int, Term]] = {}
    for term in terms:
        for factor, _ in term.powers:
            if factor.function is not None:
                one = Term(((factor, 1),))
                functions.setdefault(factor.name, {})[id(factor.function)] = one
    for name, several in functions.items():
        if len(several) > 1:
            values = [_at_random_points(_graphs([one], variables)) for one in several.values()]
            if not all(np.allclose(values[0], v, SAME, equal_nan=True) for v in values[1:]):
                raise InputError(
                    f"the library has two different functions '{name}': rename one of them",
                    argument="library",
                )
