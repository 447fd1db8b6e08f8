"""Contract of all searches: a method from starts to maxima, their ends, and why they stopped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, shown
from smcpn.estimate.log_density import LogDensity
from smcpn.likelihood.gradient import LogLikelihood

Array = NDArray[np.float64]

SEARCHES: dict[str, type[Search]] = {}
"""Every search by its name; each registers itself where it is defined."""
AUTOMATIC = "auto"
ROUNDING = 1e-8
"""Share of a log density below which a difference may be rounding."""

CONVERGED = "converged"
INTERRUPTED = "the user has interrupted"
LIMIT = "the limit of iterations"
DIVERGED_START = "the solution diverges at the start"
NO_GRADIENT = "the gradient is not finite"
NO_BETTER = "no better point along the search direction"
DIVERGES = "the solution diverges just beyond"
EDGE = "at the edge of the support of "


@dataclass(frozen=True)
class Region:
    """Coordinates of a search: theta over a scale, so that the first step has length one.

    scale: (d,)
    bounds: (d, 2), of theta.
    """

    names: tuple[str, ...]
    scale: Array
    bounds: Array

    @property
    def scaled_bounds(self) -> Array:
        """Bounds of the coordinates of the search, (d, 2)."""
        return self.bounds / self.scale[:, None]

    def at_edge(self, theta: Array) -> list[str]:
        """Names of the parameters that are at the edge of their support."""
        near = 1e-9 * (1.0 + np.abs(theta))
        low, high = theta <= self.bounds[:, 0] + near, theta >= self.bounds[:, 1] - near
        return [name for name, hit in zip(self.names, low | high, strict=True) if hit]


@dataclass(frozen=True)
class SearchEnd:
    """End of a search, its reason, and the path to it.

    theta: (d,)
    evaluations: Of the log density with its gradient, or of its Hessian.
    path: (K + 1, d), theta at the start and after each iteration.
    path_log_density: (K + 1,)
    lifted: Whether a path that may leave the model led there.
    """

    theta: Array
    log_density: float
    reason: str
    evaluations: int
    path: Array
    path_log_density: Array
    lifted: bool = False

    @property
    def success(self) -> bool:
        """True if the search converged."""
        return self.reason == CONVERGED

    def followed_by(self, other: SearchEnd) -> SearchEnd:
        """Return the end of ``other``, which went on from here, with the path of both."""
        return replace(
            other,
            evaluations=self.evaluations + other.evaluations,
            path=np.concatenate([self.path, other.path]),
            path_log_density=np.concatenate([self.path_log_density, other.path_log_density]),
            lifted=self.lifted or other.lifted,
        )


class Search(ABC):
    """A method that leads from starts to maxima of a log density.

    A subclass that gives a ``name`` is a ``method`` of `smcpn.maximise` from then on. Its starts
    may come from anywhere: from the prior, from a user, or from another search that knows no
    likelihood but finds points that are worth a search.
    """

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            SEARCHES[cls.name] = cls

    @classmethod
    def suits(cls, function: LogLikelihood) -> bool:
        """True if it can search with a likelihood; by default with any."""
        return True

    def nearer(self) -> Search:
        """Return the method for starts that are near a maximum."""
        return self

    def patient(self) -> Search:
        """Return the method that goes on where this one creeps."""
        return self

    @abstractmethod
    def __call__(
        self, density: LogDensity, starts: Array, stages: Sequence[Sequence[int]], iterations: int
    ) -> list[SearchEnd]:
        """Search from every start, and return where each ended and why, in their order.

        Each of ``stages`` has the columns that are free in it, and goes on from the best point of
        the one before, whatever ended that one; the last has all. ``iterations`` are the most of a
        stage. A failure is an end as well, and an end does not depend on the other starts, (S, d).
        """


def check_method(method: str) -> None:
    """Refuse what is the name of no search.

    Raises `InputError` naming those there are.
    """
    if not isinstance(method, str) or method not in (AUTOMATIC, *SEARCHES):
        raise InputError(
            f"method is {shown(method)}: choose one of {', '.join([AUTOMATIC, *SEARCHES])}"
        )


def chosen_search(method: str, function: LogLikelihood) -> Search:
    """Return the search of a name; of "auto", the first that suits the likelihood.

    Raises `InputError` if it does not suit the likelihood.
    """
    suitable = {name: kind for name, kind in SEARCHES.items() if kind.suits(function)}
    if method == AUTOMATIC:
        return next(iter(suitable.values()))()
    if method not in suitable:
        raise InputError(
            f"method is {method!r}, which does not suit the {function.likelihood} likelihood or "
            f"its noise: choose one of {', '.join([AUTOMATIC, *suitable])}"
        )
    return suitable[method]()
