"""A system of which some terms are not known: known parts, candidates, and constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.discovery.equations.candidates import Candidates
from smcpn.discovery.equations.constraints import Freedom
from smcpn.discovery.equations.known import Known, KnownPart
from smcpn.discovery.equations.library import Library, candidates_of
from smcpn.errors import InputError, nearest, shown
from smcpn.model.ode import ODE, TIME, derivative_states

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CandidateSystem:
    """The systems x_i' = f0_i(x, u, t, parameters) + sum_j theta_ij f_j(x, u, t).

    A coefficient is called ``"x'[x y]"``. Linear constraints leave K of the allowed ones free,
    theta = basis phi + offset, so that a support is a choice among these.

    candidates: The terms f_j, and in which equations each may be.
    known: f0, with parameters of its own.
    freedom: Names, signs and ``basis`` of the free coefficients phi.
    """

    candidates: Candidates
    known: KnownPart
    freedom: Freedom

    @classmethod
    def of(
        cls,
        library: Library | Mapping[str, Library],
        states: Sequence[str] | None = None,
        inputs: Sequence[str] | None = None,
        *,
        known: Known | None = None,
        constraints: Sequence[str] = (),
    ) -> CandidateSystem:
        """Put a system together.

        Parameters
        ----------
        library : Library or mapping of str to Library
            Terms of every equation that is not known, or of the equation of each state.
        states, inputs : sequence of str, optional
            Names; those of ``known`` where that is an `ODE`.
        known : mapping or ODE, optional
            ``{"x": "v"}`` for x' = v, or a function of states, inputs and keyword-only parameters
            in place of the name: the whole equation. An `ODE`: terms are added to every equation,
            but to those which say that one state is the derivative of another.
        constraints : sequence of str
            ``"x'[x] = -x'[y]"``, ``"v'[v] < 0"``, ``"v'[sin(x)] = -9.81"``, and
            ``"s' + i' + r' = 0"`` for a sum that is conserved.

        Raises
        ------
        InputError
            One sentence that names what does not fit and the remedy.
        """
        if isinstance(known, ODE):
            states = known.states if states is None else states
            inputs = known.inputs if inputs is None else inputs
        if states is None:
            raise InputError("states is missing: name the states of the system", argument="states")
        candidates = candidates_of(library, states, inputs or ())
        part = KnownPart.of(known, candidates.states, candidates.inputs)
        if isinstance(library, Mapping):
            _check_each_described(candidates, part, partial=isinstance(known, ODE))
        candidates = candidates.restricted(~part.complete[:, None])
        if not candidates.allowed.any():
            raise InputError(
                "known leaves no equation to which terms may be added: remove one of its entries",
                argument="known",
            )
        return cls(candidates, part, Freedom.of(candidates, constraints, part))

    @property
    def coefficients(self) -> tuple[str, ...]:
        """Names of the K free coefficients phi, those of an equation together."""
        return self.freedom.names

    @property
    def places(self) -> NDArray[np.int64]:
        """Equation and term of each free coefficient, (K, 2)."""
        return self.freedom.free_places

    def matrix(self, free: Array) -> Array:
        """Coefficients theta (..., n, p) of every term at phi (..., K)."""
        return self.freedom.coefficients(free, self.candidates.allowed.shape)

    def free(self, matrix: NDArray[Any]) -> NDArray[Any]:
        """Entries (..., K) that are free of coefficients, or of a support, (..., n, p)."""
        return np.asarray(matrix)[..., self.places[:, 0], self.places[:, 1]]

    def scaled(self, states: Array, inputs: Array | None = None) -> CandidateSystem:
        """Systems for z = x / states, with the same free coefficients.

        `rate` and `columns` are then those of z; phi and names stay physical.
        """
        return replace(self, candidates=self.candidates.scaled(states, inputs))

    def known_rate(self, x: ca.SX, u: ca.SX, t: ca.SX, parameters: ca.SX) -> ca.SX:
        """f0 (n, 1) at the parameters of the known part."""
        n, scale = len(self.candidates.states), self.candidates.scale
        return self.known.rhs(x * scale[:n], u * scale[n:], t, parameters) / scale[:n]

    def known_diffusion(self, x: ca.SX, u: ca.SX, t: ca.SX, parameters: ca.SX) -> ca.SX | None:
        """G (n, m) of dx = f dt + G dW where the known part has it."""
        if self.known.diffusion is None:
            return None
        n, scale = len(self.candidates.states), self.candidates.scale
        columns = self.known.diffusion(x * scale[:n], u * scale[n:], t, parameters)
        return ca.densify(ca.diag(1 / scale[:n]) @ columns)

    def columns(self, x: ca.SX, u: ca.SX, t: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Derivative G (n, K) of the rate by phi, sparse, and what given coefficients add (n, 1).

        The rate is known_rate + given + G phi.
        """
        candidates, freedom = self.candidates, self.freedom
        terms = candidates.graph(x, u, t)
        rows, columns = freedom.places.T
        n, q = len(candidates.states), len(rows)
        weighted = terms[columns.tolist(), 0] / candidates.units[rows, columns]
        pattern = ca.Sparsity.triplet(n, q, rows.tolist(), list(range(q)))
        of_all = ca.SX(pattern, weighted)
        basis = freedom.basis.tocsc()
        pattern = ca.Sparsity(q, basis.shape[1], basis.indptr.tolist(), basis.indices.tolist())
        return of_all @ ca.SX(ca.DM(pattern, basis.data)), of_all @ ca.DM(freedom.offset)

    def rate(self, x: ca.SX, u: ca.SX, t: ca.SX, parameters: ca.SX, free: ca.SX) -> ca.SX:
        """Derivative of the states (n, 1) at parameters of the known part and phi (K, 1)."""
        columns, given = self.columns(x, u, t)
        return ca.densify(self.known_rate(x, u, t, parameters) + given + columns @ free)

    def equation(
        self,
        support: Sequence[bool] | NDArray[np.bool_] | None = None,
        values: Mapping[str, float] | None = None,
        name: str = "discovered",
    ) -> ODE:
        """Make the equation with the terms of a support, for any likelihood.

        Its parameters are those of the known part, then the free coefficients of the support. With
        all of them a support is a mask: the coefficients of absent terms are 0.

        Raises `InputError` if the support does not have K entries, or a value is for no parameter.

        Parameters
        ----------
        support : sequence of bool, (K,), optional
            Free coefficients that are not zero; all by default.
        values : mapping of str to float, optional
            Defaults of parameters by name.
        name : str
            Of the equation.
        """
        active = np.ones(len(self.coefficients), bool) if support is None else np.asarray(support)
        if active.shape != (len(self.coefficients),) or active.dtype != bool:
            raise InputError(
                f"support is {shown(support)}: give {len(self.coefficients)} truth values, one for "
                "each coefficient",
                argument="support",
            )
        chosen = np.flatnonzero(active).tolist()
        parameters = (*self.known.parameters, *(self.coefficients[k] for k in chosen))
        defaults = dict(self.known.defaults) | dict(values or {})
        for one in defaults:
            if one not in parameters:
                raise InputError(
                    f"values name {shown(one)}, which is no parameter of the equation: "
                    f"{nearest(one, parameters)}",
                    argument="values",
                )
        n_known = len(self.known.parameters)
        n, names = len(self.candidates.states), self.candidates.states
        x, u = ca.SX.sym("x", n), ca.SX.sym("u", len(self.candidates.inputs))
        t, p = ca.SX.sym(TIME), ca.SX.sym("p", len(parameters))
        free = ca.SX(len(active), 1)
        if chosen:
            free[chosen] = p[n_known:]
        rhs = self.rate(x, u, t, p[:n_known], free)
        chains = derivative_states(ca.vertsplit(x), ca.vertsplit(rhs))
        columns = self.known_diffusion(x, u, t, p[:n_known])
        return ODE(
            name=name,
            states=names,
            inputs=self.candidates.inputs,
            parameters=parameters,
            defaults=defaults,
            rhs=ca.Function("rhs", [x, u, t, p], [rhs]),
            chains={names[i]: names[j] for i, j in chains.items()},
            diffusion=None
            if columns is None
            else ca.Function("diffusion", [x, u, t, p], [columns]),
        )


def _check_each_described(candidates: Candidates, known: KnownPart, partial: bool) -> None:
    """Refuse libraries of single equations that leave one out, or describe one that is known."""
    with_terms = [bool(row.any()) for row in candidates.allowed]
    for state, described, complete in zip(
        candidates.states, with_terms, known.complete, strict=True
    ):
        if described and complete:
            raise InputError(
                f"library has terms for '{state}', whose equation is known: remove one of both",
                argument="library",
            )
        if not described and not complete and not partial:
            raise InputError(
                f"library has no terms for '{state}', whose equation is not known: give it a "
                "library, or an entry in known",
                argument="library",
            )
