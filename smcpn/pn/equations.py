"""What compiled code needs of an ODE: made once for each, whatever its parameters and inputs."""

from __future__ import annotations

import functools

import casadi as ca
import numpy as np

from smcpn.codegen.vector_field import CompiledField
from smcpn.ode import ODE
from smcpn.pn.layout import Layout, make_layout
from smcpn.pn.series import SeriesProgram, series_program
from smcpn.solver import EKF0, EKF1

KEPT = 64
"""Models, and pairs of model and solver, whose compiled form stays in memory."""


class Equations:
    """Graphs of an ODE over one set of symbols, and the programs for its Taylor series."""

    def __init__(self, ode: ODE) -> None:
        sizes = [ode.rhs.size1_in(k) for k in range(4)]
        self.symbols = [ca.SX.sym(name, n, 1) for name, n in zip("xutp", sizes, strict=True)]
        self.rhs = ode.rhs(*self.symbols)

    @functools.cached_property
    def series(self) -> SeriesProgram:
        """Taylor series of the solution."""
        return series_program(self.symbols, self.rhs)

    @functools.cached_property
    def tangent_series(self) -> SeriesProgram:
        """Taylor series of the solution and of its derivative in a direction, of 2 n states."""
        x, *others = self.symbols
        direction = ca.SX.sym("direction", x.numel(), 1)
        rates = ca.vertcat(self.rhs, ca.jtimes(self.rhs, x, direction))
        return series_program([ca.vertcat(x, direction), *others], rates)


class Discretisation:
    """An ODE arranged for a solver: layout, and the compiled rates of its processes.

    Attributes
    ----------
    layout : Layout
    equations : Equations
    rate : CompiledField
        Rate of the top of every process, (d,).
    jacobian : CompiledField or None
        Derivative of these in the states, (d, n), for EKF1.
    """

    def __init__(self, ode: ODE, solver: EKF0 | EKF1) -> None:
        self.layout: Layout = make_layout(ode, solver)
        self.equations = equations(ode)
        process, derivative = self.layout.process, self.layout.derivative
        last = [
            int(np.flatnonzero((process == p) & (derivative == top - 1))[0])
            for p, top in enumerate(self.layout.top)
        ]
        symbols, rates = self.equations.symbols, self.equations.rhs[last]
        self.rate = CompiledField.of(symbols, rates)
        self.jacobian = None
        if isinstance(solver, EKF1):
            jacobian = ca.jacobian(rates, symbols[0])
            if solver.jacobian == "diagonal":
                own = process[None, :] == np.arange(len(last))[:, None]
                jacobian = ca.sparsify(jacobian * ca.DM(own.astype(float)))
            self.jacobian = CompiledField.of(symbols, jacobian)


@functools.lru_cache(KEPT)
def equations(ode: ODE) -> Equations:
    """Graphs of an ODE, made at the first call."""
    return Equations(ode)


@functools.lru_cache(KEPT)
def discretisation(ode: ODE, solver: EKF0 | EKF1) -> Discretisation:
    """Compile an ODE for a solver, at the first call."""
    return Discretisation(ode, solver)
