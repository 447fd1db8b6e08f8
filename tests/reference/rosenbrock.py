"""Rosenbrock methods as plain loops: order conditions by rooted trees, dense systems, one lane.

Works on floats and on numbers of many digits (mpmath), which a tangent is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

Tree = tuple[Any, ...]
"""A rooted tree as the tuple of the subtrees at its root."""


class Method(NamedTuple):
    """Coefficients as Hairer and Wanner transform them: a, c (s, s) strictly lower triangular."""

    gamma: float
    a: Any
    c: Any
    alpha: Any
    d: Any

    @classmethod
    def of(cls, gamma: float, a: Any, c: Any, alpha: Any, d: Any) -> Method:
        """Make it of rows of the stages from the second on."""
        squares = np.zeros((2, len(alpha), len(alpha)))
        for square, lower in zip(squares, (a, c), strict=True):
            for i, row in enumerate(lower, start=1):
                square[i, : len(row)] = row
        return cls(gamma, squares[0], squares[1], np.array(alpha), np.array(d))

    def untransformed(self) -> tuple[Any, Any, Any, Any]:
        """Matrices alpha and beta, and weights of the solution and of the embedded one."""
        s = len(self.alpha)
        gammas = np.linalg.inv(np.eye(s) / self.gamma - self.c)
        alphas = self.a @ gammas
        last = np.eye(s)[-1]
        return alphas, alphas + gammas, gammas.T @ (self.a[-1] + last), gammas.T @ self.a[-1]


RODAS4 = Method.of(
    0.25,
    (
        (1.544,),
        (0.9466785280815826, 0.2557011698983284),
        (3.314825187068521, 2.896124015972201, 0.9986419139977817),
        (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950),
        (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 1.0),
    ),
    (
        (-5.6688,),
        (-2.430093356833875, -0.2063599157091915),
        (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
        (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
        (8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136,
         -6.058818238834054),
    ),
    (0.0, 0.386, 0.21, 0.63, 1.0, 1.0),
    (0.25, -0.1043, 0.1035, -0.0362, 0.0, 0.0),
)  # fmt: skip
"""Rodas4 of Hairer and Wanner (1996), IV.10, from their code."""


def trees(size: int) -> list[Tree]:
    """All rooted trees of so many nodes."""

    def forests(size: int, largest: int) -> Iterator[Tree]:
        if size == 0:
            yield ()
        for first in range(min(size, largest), 0, -1):
            for tree in trees(first):
                for rest in forests(size - first, first):
                    yield tuple(sorted((tree, *rest)))

    return sorted(set(forests(size - 1, size - 1)))


def nodes(tree: Tree) -> int:
    """Number of nodes."""
    return 1 + sum(map(nodes, tree))


def density(tree: Tree) -> int:
    """Product over the nodes of the size of what hangs on each."""
    return nodes(tree) * int(np.prod([density(branch) for branch in tree], initial=1))


def deviations(method: Method, order: int, embedded: bool = False) -> np.ndarray:
    """What is left of each order condition (Hairer and Wanner 1996, theorem IV.7.3)."""
    alphas, betas, solution, weights = method.untransformed()

    def phi(tree: Tree) -> Any:
        matrix = betas if len(tree) == 1 else alphas
        return np.prod([matrix @ phi(branch) for branch in tree], axis=0, initial=1.0) * np.ones(
            len(alphas)
        )

    chosen = weights if embedded else solution
    return np.array([chosen @ phi(tree) - 1.0 / density(tree) for tree in trees(order)])


class Problem(NamedTuple):
    """Right-hand side f(t, x), its Jacobian, and its time derivative."""

    rate: Callable[[Any, Any], Any]
    slopes: Callable[[Any, Any], Any]
    moved: Callable[[Any, Any], Any]


def solved(matrix: Any, right: Any) -> Any:
    """Solution by Gauss elimination, for any kind of number."""
    matrix, x, n = matrix.copy(), right.copy(), len(right)
    for k in range(n):
        for i in range(k + 1, n):
            factor = matrix[i, k] / matrix[k, k]
            # Numbers of many digits times an array are tried as numbers first: slowly.
            matrix[i] = matrix[i] - matrix[k] * factor
            x[i] = x[i] - x[k] * factor
    for k in reversed(range(n)):
        x[k] = (x[k] - sum(matrix[k, k + 1 :] * x[k + 1 :])) / matrix[k, k]
    return x


def step(method: Method, problem: Problem, t: Any, x: Any, h: Any) -> tuple[Any, Any]:
    """State after a step, and its difference to the embedded one."""
    place, matrix = x, np.eye(len(x)) / (h * method.gamma) - problem.slopes(t, x)
    moved, stages = problem.moved(t, x), []
    for i in range(len(method.alpha)):
        place = x + sum((k * method.a[i, j] for j, k in enumerate(stages)), 0.0 * x)
        right = problem.rate(t + method.alpha[i] * h, place) + moved * (h * method.d[i])
        right = right + sum((k * method.c[i, j] for j, k in enumerate(stages)), 0.0 * x) / h
        stages.append(solved(matrix, right))
    return place + stages[-1], stages[-1]


def steps(method: Method, problem: Problem, t: Any, x: Any, lengths: Any) -> Any:
    """State after steps of given lengths."""
    for h in lengths:
        x, _ = step(method, problem, t, x, h)
        t = t + h
    return x
