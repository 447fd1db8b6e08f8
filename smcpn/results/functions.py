"""Unknown functions as identified: values with their band, and where the data tell of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import Count, Numbers, Probability, checked
from smcpn.base.late_binding import late_bound
from smcpn.base.tables import Fact, fact_lines
from smcpn.errors import InputError, one_of
from smcpn.model.functions.unknown import UnknownFunction
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.model.solver import Solver
from smcpn.results.simulation.function_domain import (
    SLACK,
    FunctionDomain,
    remark,
    visited_by,
    visited_by_records,
)
from smcpn.results.simulation.simulation import from_the_start

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

DRAWS = 400
"""Draws of a function, by default."""
FEW_DRAWS = 64
"""Draws for the trajectories, and for the line of a summary."""
POINTS, SIDE = 161, 31
"""Default points of a function of one variable; of two, in each direction."""
MARGIN = 0.3
"""By which the default points go beyond the visited range on either side, in that range."""


@checked
@dataclass(frozen=True, eq=False, repr=False)
class IdentifiedFunction:
    """Draws of an unknown function from a posterior, at given points.

    Attributes
    ----------
    name : str
        In the model.
    arguments : tuple of str
        Labels of its variables.
    points : ndarray, (m,), or (m, variables) where there are several
    draws : ndarray, (n, m)
        Equally weighted values.
    places : ndarray, (K, variables)
        Arguments that the trajectories of the records learned from give it, sample by sample, for
        a typical draw.
    """

    name: str
    arguments: tuple[str, ...]
    points: Array
    draws: Array = field(repr=False)
    places: Array = field(repr=False)

    def __repr__(self) -> str:
        return (
            f"<{self.name}({', '.join(self.arguments)}): {len(self.draws)} draws at "
            f"{len(self.points)} points, visited {self._visited}>"
        )

    @property
    def mean(self) -> Array:
        """Posterior mean at every point, (m,)."""
        return self.draws.mean(axis=0)

    @property
    def sd(self) -> Array:
        """Posterior standard deviation at every point, (m,)."""
        return self.draws.std(axis=0)

    def interval(self, level: Probability = 0.95) -> tuple[Array, Array]:
        """Lower and upper end of the central ``level`` of the posterior, each (m,)."""
        lower, upper = np.quantile(self.draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return lower, upper

    @property
    def visited(self) -> Array:
        """Smallest and largest value of each variable in `places`, (variables, 2)."""
        return self._visited.range

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Of every point, whether it is in the visited range, (m,).

        Of several variables: whether it is near one of `places`, within 5 % of their ranges.
        """
        return self._visited.contains(self.points.reshape(len(self.points), -1))

    @property
    def _visited(self) -> FunctionDomain:
        return FunctionDomain(self.arguments, self.places)

    @late_bound
    def plot(self, truth: Callable[..., Any] | None = None) -> Figure:
        """Plot mean, 95 % band, some draws, and where the data end; see `Posterior.plot_function`.

        Raises
        ------
        InputError
            If it has more than two variables, or ``truth`` does not take its points.
        """
        ...


@checked
class WithFunctions(ABC):
    """Of a posterior: the unknown functions of its model."""

    problem: Problem
    solver: Solver
    likelihood: str | None

    @abstractmethod
    def equal_draws(self, size: Count) -> Array:
        """Parameter values (at most size, d) of equal weight, the same at every call."""

    @property
    def step_length(self) -> float:
        """Seconds of a solver step in the identification."""
        longest = self.solver.interval or self.problem.records[0].interval
        return longest / int(self.solver.steps)

    def function(
        self, name: str, at: Numbers | None = None, *, draws: Count = DRAWS
    ) -> IdentifiedFunction:
        """Return draws of an unknown function of the model, with mean and band.

        Parameters
        ----------
        name : str
            Of the argument of the model: ``"friction"``.
        at : float or array_like, shape (m,) or (m, variables), optional
            Where: points, or one; by default the visited range and 30 % of it on either side, where
            the band shows how little is known. Of more than two variables: the visited places.
        draws : int
            From the posterior, at most.

        Raises
        ------
        InputError
            If the model has no such function, ``at`` does not have its variables or is not finite,
            or the simulation of a record learned from diverges for every draw.

        Examples
        --------
        >>> found = posterior.function("friction", np.linspace(-1, 1, 50))  # doctest: +SKIP
        >>> found.mean, found.interval(0.95), found.visited  # doctest: +SKIP
        """
        functions = self.problem.ode.functions
        if not functions:
            raise InputError(
                f"model '{self.problem.ode.name}' has no unknown function: "
                "see posterior.summary() for its parameters",
                argument="name",
            )
        function = functions[one_of("name", name, functions)].function
        visited = self.visited[name]
        points = _default_points(visited) if at is None else _points(at, function)
        values = self._values_of(name, points, draws)
        shaped = points[:, 0] if points.shape[1] == 1 else points
        return IdentifiedFunction(name, function.arguments, shaped, values, visited.places)

    def plot_function(self, name: str, truth: Callable[..., Any] | None = None) -> Figure:
        """Plot an unknown function of the model, and where the data that tell of it end.

        Of one variable: mean, 95 % band, some draws, and below how often the records visit it. Of
        two: contours of mean and standard deviation, with the visited places.

        Parameters
        ----------
        name : str
        truth : callable, optional
            The true function, of arrays, to draw beside.

        Raises
        ------
        InputError
            As of `function`, and if it has more than two variables.
        """
        return self.function(name).plot(truth)

    @cached_property
    def visited(self) -> dict[str, FunctionDomain]:
        """Arguments of each unknown function along the trajectories of the records, by its name."""
        if not self.problem.ode.functions:
            return {}
        return visited_by_records(
            self.problem, self.solver, self.likelihood, self.equal_draws(FEW_DRAWS),
            self.step_length,
        )  # fmt: skip

    def function_lines(self) -> list[str]:
        """Lines of a summary, one for each unknown function."""
        return fact_lines(self.function_facts())

    def function_facts(self) -> list[Fact]:
        """Return where the records visit each unknown function, and how far it is known there."""
        return [self._fact(name) for name in self.problem.ode.functions]

    def _fact(self, name: str) -> Fact:
        function = self.problem.ode.functions[name].function
        label = f"{name}({', '.join(function.arguments)})"
        try:
            visited = self.visited[name]
        except InputError as error:
            return label, f"its visited range is not known: {error}"
        order = np.argsort(visited.places[:, 0], kind="stable")
        some = visited.places[order[np.linspace(0, len(order) - 1, 50).astype(int)]]
        values = self._values_of(name, some, FEW_DRAWS)
        sd = values.std(axis=0)
        spread = f", sd {sd.min():.2g} to {sd.max():.2g} there" if len(values) > 1 else ""
        remark = f"; {function.remark}" if function.remark else ""
        return label, f"visited {visited}{spread}{_leaving(function, visited)}{remark}"

    def _beyond(
        self, record: Record, initialise: int = 0, like: Record | None = None
    ) -> tuple[str, ...]:
        """Sentences on functions that a free simulation of a record takes out of their range."""
        if not self.problem.ode.functions or any(record is one for one in self.problem.records):
            return ()
        if not initialise and like is None:
            like, record = from_the_start(self.problem, record, True) or (None, record)
        values = self.equal_draws(FEW_DRAWS)
        try:
            learned = self.visited
            now = visited_by(self.problem, record, values, self.step_length, initialise, like)
        except InputError as error:
            # One trajectory that diverges is no reason to refuse the simulation of all draws.
            return (f"whether functions are evaluated beyond the records is not known: {error}",)
        said = [remark(name, learned[name], places) for name, places in now.items()]
        return tuple(one for one in said if one)

    def _values_of(self, name: str, points: Array, draws: int) -> Array:
        """Values (n, m) of a function in at most so many draws, at points (m, variables)."""
        function = self.problem.ode.functions[name].function
        return function.values(points, self._parameters(name, self.equal_draws(draws)))

    def _parameters(self, name: str, values: Array) -> Array:
        """Parameters (N, p) of a function, of parameter values (N, d)."""
        problem = self.problem
        return np.column_stack(
            [
                values[:, problem.names.index(one)]
                if one in problem.names
                else np.full(len(values), problem.fixed[one])
                for one in (name + of for of in problem.ode.functions[name].function.priors)
            ]
        )


def _leaving(function: UnknownFunction, visited: FunctionDomain) -> str:
    """Words on records that leave the intervals of a function, or ""."""
    left = [
        (lower, upper)
        for (lower, upper), (low, high) in zip(function.intervals, visited.range, strict=False)
        if low < lower - SLACK * (upper - lower) or high > upper + SLACK * (upper - lower)
    ]
    if not left:
        return ""
    within = " and ".join(f"({lower:g}, {upper:g})" for lower, upper in left)
    return f"; THAT LEAVES within={within}: widen it"


def _points(at: Array, function: UnknownFunction) -> Array:
    """Points as (m, variables)."""
    variables = len(function.arguments)
    points = at
    if at.ndim == 0 or (at.ndim == 1 and variables == 1):
        points = at.reshape(-1, 1)
    elif at.shape == (variables,):
        points = at[None, :]
    if points.ndim != 2 or points.shape[1] != variables or not points.size:
        expected = "(m,)" if variables == 1 else f"(m, {variables})"
        raise InputError(f"at has shape {at.shape}: give points of shape {expected}", argument="at")
    if not np.isfinite(points).all():
        raise InputError("at has NaN or infinity: give finite numbers", argument="at")
    return points


def _default_points(visited: FunctionDomain) -> Array:
    """The visited range and its surroundings, (m, variables)."""
    low, high = visited.range.T
    margin = MARGIN * np.where(high > low, high - low, 1.0)
    if len(low) > 2:
        return visited.places
    number = POINTS if len(low) == 1 else SIDE
    axes = [np.linspace(a, b, number) for a, b in zip(low - margin, high + margin, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(low))
