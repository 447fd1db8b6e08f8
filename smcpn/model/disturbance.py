"""The argument ``process_noise`` of a problem, checked and made into a `ProcessNoise`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from smcpn.errors import InputError, listed, real_number, shown
from smcpn.model.distribution import Distribution, support
from smcpn.model.entries import by_scalar, is_name
from smcpn.model.noise import Symbols
from smcpn.model.ode import ODE

ARGUMENT = "process_noise"
_DEVIATION = (
    "give a positive number, in the state's unit per square root of time, or a parameter's name"
)
_CORRELATION = "give a number between -1 and 1, or a parameter's name"
LEAST_EIGENVALUE = 1e-12
"""Of a matrix of correlations that are all numbers."""


@dataclass(frozen=True)
class ProcessNoise:
    """Columns G(x, u, t; theta) of dx = f dt + G dW, in the sense of Ito.

    columns: (n, m), one for each of m independent Wiener processes; zeros are left out of its
        sparsity.
    x: (n, 1), symbols of the states.
    """

    columns: ca.SX
    x: ca.SX

    @cached_property
    def additive(self) -> bool:
        """True if G does not depend on the state."""
        return not ca.depends_on(self.columns, self.x)


@dataclass(frozen=True)
class Disturbance:
    """Process noise by states: each has a Wiener process, two of which may be correlated.

    deviations: State to the standard deviation that its noise alone has after one second, or the
        parameter that holds it.
    correlations: Two states to the correlation of their Wiener processes.
    """

    deviations: Mapping[str, float | str]
    correlations: Mapping[tuple[str, str], float | str]

    @classmethod
    def of(cls, given: Any, ode: ODE) -> Disturbance | None:
        """Read the argument ``process_noise`` of a model; None where there is none."""
        if given is None:
            return None
        if ode.diffusion is not None:
            raise _refused(
                f"process_noise is given beside the diffusion of model '{ode.name}', which "
                "@smcpn.sde has: leave one of them out"
            )
        if not isinstance(given, Mapping) or not given:
            raise _refused(
                f'process_noise is {shown(given)}: give a dict such as {{"{ode.states[0]}": "q"}}, '
                "from a state to a number or a parameter's name"
            )
        deviations: dict[str, float | str] = {}
        correlations: dict[tuple[str, str], float | str] = {}
        for key, value in by_scalar(given, ode, ARGUMENT).items():
            if isinstance(key, tuple):
                correlations[_pair(key, given, correlations, ode)] = _correlation(key, value)
            else:
                deviations[_state(key, ode)] = _deviation(key, value)
        return cls(deviations, correlations)

    def check(self, free: Mapping[str, Distribution], fixed: Mapping[str, float]) -> None:
        """Refuse parameters that it cannot have, by their numbers or priors."""
        for state, name in self.deviations.items():
            lower, _, what = _bounds(name, free, fixed)
            if lower < 0.0 or (name in fixed and lower == 0.0):
                raise _refused(f"process noise of '{state}': {what}, but it is positive", state)
        for (first, second), name in self.correlations.items():
            lower, upper, what = _bounds(name, free, fixed)
            if lower < -1.0 or upper > 1.0:
                raise _refused(
                    f"process noise of '{first}' and '{second}': {what}, but a correlation is "
                    "between -1 and 1: give a prior such as scipy.stats.uniform(-1, 2)",
                    f"{first},{second}",
                )
        self._check_matrix(fixed)

    def process_noise(self, ode: ODE, x: ca.SX, symbols: Symbols) -> ProcessNoise:
        """Columns D C, with the standard deviations D and C C' the correlations.

        C is the lower triangle of Cholesky; not a number where correlations are impossible.
        """
        states = [name for name in ode.states if name in self.deviations]
        correlation = ca.SX.eye(len(states))
        for pair, value in self.correlations.items():
            one, other = sorted(map(states.index, pair))
            label = f"process noise {states[one]},{states[other]}"
            correlation[other, one] = symbols.number(value, label)
        columns = ca.SX(len(ode.states), len(states))
        factor = ca.sparsify(ca.chol(ca.tril2symm(correlation)).T)
        for row, name in enumerate(states):
            deviation = symbols.number(self.deviations[name], f"process noise {name}")
            columns[ode.states.index(name), :] = deviation * factor[row, :]
        return ProcessNoise(ca.sparsify(columns), x)

    def labelled(self) -> dict[str, float | str]:
        """As plain data: a pair of states as ``"x1,x2"``."""
        pairs = {",".join(pair): value for pair, value in self.correlations.items()}
        return {**self.deviations, **pairs}

    def _check_matrix(self, fixed: Mapping[str, float]) -> None:
        """Refuse numbers that are no correlations of several states with each other."""
        values = {
            pair: fixed.get(value) if isinstance(value, str) else value
            for pair, value in self.correlations.items()
        }
        if any(value is None for value in values.values()):
            return
        states = list(self.deviations)
        matrix = np.eye(len(states))
        for pair, value in values.items():
            one, other = map(states.index, pair)
            matrix[one, other] = matrix[other, one] = value
        if np.linalg.eigvalsh(matrix)[0] < LEAST_EIGENVALUE:
            raise _refused(
                f"process noise has the correlations {shown(list(values.values()))}, which no "
                "Wiener processes have together: give smaller ones"
            )


def _state(name: Any, ode: ODE) -> str:
    if not isinstance(name, str) or name not in ode.states:
        raise _refused(
            f"process_noise names {shown(name)}, which is no state of model '{ode.name}' "
            f"({listed(ode.states)})",
            name if isinstance(name, str) else "",
        )
    return name


def _pair(
    key: tuple[Any, ...], given: Mapping[Any, Any], known: Mapping[Any, Any], ode: ODE
) -> tuple[str, str]:
    states = [_state(name, ode) for name in key]
    if len(set(states)) != 2 or len(states) != 2:
        raise _refused(f"process_noise has the key {shown(key)}: name two states in a tuple")
    for name in states:
        if name not in given:
            raise _refused(
                f"process_noise correlates {shown(key)} but gives '{name}' no noise of its own: "
                f'add "{name}": a number or a parameter\'s name'
            )
    if (states[1], states[0]) in known:
        raise _refused(f"process_noise correlates {shown(key)} twice: leave one out")
    return states[0], states[1]


def _deviation(state: str, value: Any) -> float | str:
    if is_name(value):
        return value
    argument = f"{ARGUMENT}.{state}"
    return real_number(f"process noise of '{state}'", value, _DEVIATION, argument, above=0.0)


def _correlation(key: tuple[Any, ...], value: Any) -> float | str:
    if is_name(value):
        return value
    what = f"correlation of the process noise of {shown(key)}"
    argument = f"{ARGUMENT}.{','.join(key)}"
    return real_number(what, value, _CORRELATION, argument, above=-1.0, below=1.0)


def _bounds(
    value: float | str, free: Mapping[str, Distribution], fixed: Mapping[str, float]
) -> tuple[float, float, str]:
    """Bounds of a number or parameter, and what they are of; a parameter without prior has any."""
    if value in free:
        lower, upper = support(free[str(value)])
        return lower, upper, f"the prior of '{value}' reaches from {lower:g} to {upper:g}"
    number = fixed.get(value, 0.5) if isinstance(value, str) else value
    return number, number, f"'{value}' is fixed to {number:g}"


def _refused(sentence: str, key: str = "") -> InputError:
    return InputError(sentence, argument=f"{ARGUMENT}.{key}" if key else ARGUMENT)
