"""Initial value problems of the probabilistic solvers' papers, and their solutions.

A vector field is one plain function: `smcpn.ode` traces it, numpy and JAX evaluate it. Settings are
those of Bosch, Hennig and Tronarp (*Calibrated Adaptive Probabilistic ODE Solvers*), in the version
of its code; Pleiades is that of Hairer, Norsett and Wanner (*Solving ODEs I*, II.10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

import smcpn

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class InitialValueProblem:
    """x' = f(x, theta) from a known state over a span of time.

    name: For tables.
    function: The vector field, written as for `smcpn.ode`.
    initial: State at the begin of the span.
    span: Begin and end.
    theta: Values of the parameters.
    stiff: Whether an implicit method is needed.
    """

    name: str
    function: Callable[..., Any]
    initial: tuple[float, ...]
    span: tuple[float, float]
    theta: Mapping[str, float] = field(default_factory=dict)
    stiff: bool = False

    @cached_property
    def model(self) -> smcpn.ODE:
        """The traced model."""
        return smcpn.ode(self.function)

    def rate(self, t: float, x: Any) -> Any:
        """f(x) in the precision of ``x``, (d,)."""
        return np.array(self.function(*x, **self.theta))


def logistic_equation(x, *, r):
    """Growth with saturation at one."""
    return (r * x * (1 - x),)


def predator_prey(x, y, *, a, b, c, d):
    """Lotka-Volterra; the paper's (34) should read -gamma y2."""
    return a * x - b * x * y, -c * y + d * x * y


def fitzhugh_nagumo_field(v, r, *, a, b, c):
    """In the sign of *Calibrated*: -(v - a - b r) / c, where other papers have + b r."""
    return c * (v - v**3 / 3 + r), -(v - a - b * r) / c


def brusselator_field(x, y):
    """Autocatalytic reaction."""
    return 1 + x**2 * y - 4 * x, 3 * x - x**2 * y


def van_der_pol_field(x, v, *, mu):
    """Relaxation oscillator, a chain: the derivative of x is v."""
    return v, mu * ((1 - x**2) * v - x)


# fmt: off
def pleiades_field(
    x1, x2, x3, x4, x5, x6, x7, y1, y2, y3, y4, y5, y6, y7,
    u1, u2, u3, u4, u5, u6, u7, v1, v2, v3, v4, v5, v6, v7,
):
    """Seven stars of masses 1 to 7 in a plane, under gravity."""
    x, y = (x1, x2, x3, x4, x5, x6, x7), (y1, y2, y3, y4, y5, y6, y7)
    u, v = (u1, u2, u3, u4, u5, u6, u7), (v1, v2, v3, v4, v5, v6, v7)
    along, across = [0.0 * x1] * 7, [0.0 * x1] * 7
    for i in range(7):
        for j in range(i):
            dx, dy = x[i] - x[j], y[i] - y[j]
            cubed = (dx**2 + dy**2) ** 1.5
            along[i], across[i] = along[i] - (j + 1) * dx / cubed, across[i] - (j + 1) * dy / cubed
            along[j], across[j] = along[j] + (i + 1) * dx / cubed, across[j] + (i + 1) * dy / cubed
    return [*u, *v, *along, *across]
# fmt: on


LOGISTIC = InitialValueProblem("logistic", logistic_equation, (0.1,), (0.0, 2.5), {"r": 3.0})
LOTKA_VOLTERRA = InitialValueProblem(
    "Lotka-Volterra", predator_prey, (1.0, 1.0), (0.0, 10.0), {"a": 1.5, "b": 1, "c": 3, "d": 1}
)
FITZHUGH_NAGUMO = InitialValueProblem(
    "FitzHugh-Nagumo", fitzhugh_nagumo_field, (-1.0, 1.0), (0.0, 20.0), {"a": 0.2, "b": 0.2, "c": 3}
)
BRUSSELATOR = InitialValueProblem("Brusselator", brusselator_field, (1.5, 3.0), (0.0, 10.0))
VAN_DER_POL_1E5 = InitialValueProblem(
    "van der Pol 1e5", van_der_pol_field, (2.0, 0.0), (0.0, 2.0), {"mu": 1e5}, stiff=True
)
VAN_DER_POL_1E6 = InitialValueProblem(
    "van der Pol 1e6", van_der_pol_field, (2.0, 0.0), (0.0, 6.3), {"mu": 1e6}, stiff=True
)
# fmt: off
PLEIADES_POSITIONS = (3.0, 3, -1, -3, 2, -2, 2, 3, -3, 2, 0, 0, -4, 4)
PLEIADES_VELOCITIES = (0.0, 0, 0, 0, 0, 1.75, -1.5, 0, 0, 0, -1.25, 1, 0, 0)
# fmt: on
PLEIADES = InitialValueProblem(
    "Pleiades", pleiades_field, (*PLEIADES_POSITIONS, *PLEIADES_VELOCITIES), (0.0, 3.0)
)
ALL = (
    LOGISTIC,
    LOTKA_VOLTERRA,
    FITZHUGH_NAGUMO,
    BRUSSELATOR,
    VAN_DER_POL_1E5,
    PLEIADES,
)
"""The problems of the work-precision diagrams."""
QUICK = (LOTKA_VOLTERRA,)
"""A stiff one takes SciPy and JAX a minute."""


@cache
def final_state(problem: InitialValueProblem) -> Array:
    """Solution at the end of the span, by SciPy's tightest: 1e-10 or better, (d,)."""
    method, rtol = ("Radau", 1e-12) if problem.stiff else ("DOP853", 3e-14)
    jacobian: dict[str, Any] = {"jac": numpy_jacobian(problem)} if problem.stiff else {}
    solved = solve_ivp(
        problem.rate, problem.span, problem.initial, method, rtol=rtol, atol=1e-14, **jacobian
    )
    return solved.y[:, -1]


def numpy_jacobian(problem: InitialValueProblem) -> Callable[[float, Array], Array]:
    """df/dx as a function of numbers, from the model's graph."""
    rhs = problem.model.rhs
    x, theta = ca.SX.sym("x", len(problem.initial)), ca.DM(list(problem.theta.values()))
    jacobian = ca.Function("jacobian", [x], [ca.jacobian(rhs(x, ca.SX(0, 1), 0, theta), x)])
    return lambda t, x: np.array(jacobian(x))


def extended_solution(problem: InitialValueProblem, times: Array, rows: int = 6) -> Any:
    """Solution of a problem that is not stiff in 80-bit arithmetic, to 1e-15, (T, d).

    Gragg's modified midpoint rule between two times, extrapolated in h^2 (Hairer, Norsett and
    Wanner, II.9): its coefficients are whole numbers, so any precision will do. A covariance from
    tolerance 1e-13 can only be judged against a solution this exact.

    problem: What to solve.
    times: (T,), from the begin of the span; the spacing is the step of order 2 ``rows``.
    rows: Rows of the extrapolation.
    """
    grid = times.astype(np.longdouble)
    states = [np.array(problem.initial, np.longdouble)]
    for begin, end in pairwise(grid):
        states.append(_extrapolated(problem.rate, states[-1], begin, end - begin, rows))
    return np.array(states)


def _extrapolated(rate: Callable[..., Any], x: Any, t: Any, h: Any, rows: int) -> Any:
    divisions = [2 * (row + 1) for row in range(rows)]
    table: list[Any] = []
    for row, n in enumerate(divisions):
        entry = _midpoint(rate, x, t, h / n, n)
        for column in range(row):
            factor = np.longdouble(n) / divisions[row - column - 1]
            following = entry + (entry - table[column]) / (factor**2 - 1)
            table[column], entry = entry, following
        table.append(entry)
    return table[-1]


def _midpoint(rate: Callable[..., Any], x: Any, t: Any, h: Any, n: int) -> Any:
    before, now = x, x + h * rate(t, x)
    for step in range(1, n):
        before, now = now, before + 2 * h * rate(t + step * h, now)
    return (before + now + h * rate(t + n * h, now)) / 2
