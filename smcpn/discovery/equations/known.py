"""Knowledge of the equations of a system before terms are looked for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.stored import Name, Names, Number, Stored, truths
from smcpn.errors import InputError, listed, nearest, real_number, shown
from smcpn.model.expression import AsTable
from smcpn.model.ode import ODE, TIME
from smcpn.model.parts import PARTS, check_parts
from smcpn.model.trace import argument_names, trace

Known = ODE | Mapping[str, Any]
"""A part of every equation, or whole equations by their states: a state, or a function."""


@dataclass(frozen=True, eq=False)
class KnownPart(Stored):
    """The known part f0 of x' = f0(x, u, t, parameters) + unknown terms.

    rhs: f0 (n, 1) of states, inputs, time and parameters; zero where nothing is known.
    defaults: As of an `ODE`.
    complete: (n,), equations that are known to have no other terms.
    diffusion: As of an `ODE`.
    """

    rhs: Annotated[ca.Function, AsTable("rhs")]
    parameters: Names
    defaults: Mapping[Name, Number]
    complete: Annotated[NDArray[np.bool_], truths("n")]
    diffusion: Annotated[ca.Function, AsTable("diffusion")] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, known: Known | None, states: Sequence[str], inputs: Sequence[str]) -> KnownPart:
        """Read what a user knows.

        Raises `InputError` if it names what is no state or input of the system, or cannot be
        traced.
        """
        if isinstance(known, ODE):
            remedy = dict.fromkeys(PARTS, "give known without them")
            who = "the known part of a discovery"
            check_parts(known.parts, who, {"process_noise"}, remedy, "known")
            return cls._partial(known, states, inputs)
        if known is not None and not isinstance(known, Mapping):
            raise InputError(
                f'known is {shown(known)}: give {{"x": "v"}} for x\' = v, or an equation made by '
                "smcpn.ode to which terms are added",
                argument="known",
            )
        return cls._whole(dict(known or {}), states, inputs)

    @classmethod
    def _partial(cls, known: ODE, states: Sequence[str], inputs: Sequence[str]) -> KnownPart:
        if set(known.states) != set(states) or not set(known.inputs) <= set(inputs):
            raise InputError(
                f"known is the model '{known.name}' of states {listed(known.states)} and inputs "
                f"{listed(known.inputs) or 'none'}, but the system has {listed(states)} and "
                f"{listed(inputs) or 'none'}: give both the same names",
                argument="known",
            )
        symbols, values = _symbols(states, inputs, len(known.parameters))
        own = [ca.vertcat(*[values[n] for n in names]) for names in (known.states, known.inputs)]
        rows = [known.states.index(name) for name in states]

        def reordered(function: ca.Function) -> ca.Function:
            graph = function(*own, *symbols[2:])[rows, :]
            return ca.Function(function.name(), symbols, [ca.densify(graph)])

        return cls(
            rhs=reordered(known.rhs),
            parameters=known.parameters,
            defaults=known.defaults,
            complete=np.array([name in known.chains for name in states]),
            diffusion=known.diffusion and reordered(known.diffusion),
        )

    @classmethod
    def _whole(
        cls, known: dict[str, Any], states: Sequence[str], inputs: Sequence[str]
    ) -> KnownPart:
        for state in known:
            if state not in states:
                raise InputError(
                    f"known names {shown(state)}, which is no state: {nearest(str(state), states)}",
                    argument="known",
                )
        taken = {state: _arguments(state, what) for state, what in known.items()}
        keyword = _parameters([ones for _, ones in taken.values()], (*states, *inputs, TIME))
        symbols, values = _symbols(states, inputs, len(keyword))
        parameters = dict(zip(keyword, ca.vertsplit(symbols[3]), strict=True))
        derivatives: dict[str, ca.SX] = {}
        for state, (arguments, ones) in taken.items():
            for name in arguments:
                if name not in values:
                    raise InputError(
                        f"known['{state}'] names '{name}', which is no state or input: "
                        f"{nearest(name, values)}",
                        argument="known",
                    )
            used = [values[name] for name in arguments]
            found = used
            if callable(known[state]):
                found = trace(known[state], used, {name: parameters[name] for name in ones})
            if len(found) != 1:
                raise InputError(
                    f"known['{state}'] returns {len(found)} values: return the derivative of "
                    f"'{state}' alone",
                    argument="known",
                )
            derivatives[state] = found[0]
        graph = ca.vertcat(*[derivatives.get(state, ca.SX(0)) for state in states])
        return cls(
            rhs=ca.Function("rhs", symbols, [ca.densify(graph)]),
            parameters=tuple(keyword),
            defaults={
                name: real_number(f"known: default of parameter '{name}'", value)
                for name, value in keyword.items()
                if value is not inspect.Parameter.empty
            },
            complete=np.isin(states, list(known)),
        )

    def check_conserved(self, weights: Mapping[int, float], states: Sequence[str]) -> None:
        """Refuse to conserve a weighted sum of states that the known part changes.

        Raises `InputError` if the weighted sum of its derivatives is not zero.
        """
        rng = np.random.default_rng(19)
        points = [rng.uniform(0.1, 2.0, size=(self.rhs.size1_in(k), 20)) for k in range(4)]
        rows = np.array(self.rhs(*points))[list(weights)]
        parts = rows * np.array(list(weights.values()))[:, None]
        if (np.abs(parts.sum(axis=0)) > 1e-9 * np.abs(parts).sum(axis=0)).any():
            raise InputError(
                f"constraints conserve a sum of {listed(states[i] for i in weights)}, which the "
                "known part of the equations changes: remove the constraint",
                argument="constraints",
            )


def _symbols(
    states: Sequence[str], inputs: Sequence[str], n_parameters: int
) -> tuple[list[ca.SX], dict[str, ca.SX]]:
    """Symbols of states, inputs, time and parameters as vectors, and the first three by name."""
    sizes = {"x": len(states), "u": len(inputs), TIME: 1, "p": n_parameters}
    symbols = [ca.SX.sym(name, size) for name, size in sizes.items()]
    entries = ca.vertsplit(ca.vertcat(*symbols[:3]))
    return symbols, dict(zip((*states, *inputs, TIME), entries, strict=True))


def _arguments(state: str, what: Any) -> tuple[list[str], dict[str, Any]]:
    """Names that a known equation takes: of variables, and of parameters with their defaults."""
    if isinstance(what, str):
        return [what], {}
    if callable(what):
        return argument_names(what)
    raise InputError(
        f"known['{state}'] is {shown(what)}: give the state that is its derivative, or a function "
        "of states, inputs and keyword-only parameters",
        argument="known",
    )


def _parameters(each: Sequence[Mapping[str, Any]], variables: Sequence[str]) -> dict[str, Any]:
    """Parameters of all known equations with their defaults, which must be the same."""
    found: dict[str, Any] = {}
    for name, default in (entry for ones in each for entry in ones.items()):
        if name in variables:
            raise InputError(
                f"known has a parameter '{name}', which is a state, an input or the time: make it "
                "a positional argument, or rename it",
                argument="known",
            )
        if found.setdefault(name, default) != default:
            raise InputError(
                f"known gives the parameter '{name}' the defaults {shown(found[name])} and "
                f"{shown(default)}: give it one",
                argument="known",
            )
    return found
