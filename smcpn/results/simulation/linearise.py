"""Linear state-space model of a nonlinear one at an operating point: derivatives of its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import checked
from smcpn.errors import InputError, listed, real_number, shown
from smcpn.likelihood.algebraic import AlgebraicEquations
from smcpn.model.entries import by_scalar
from smcpn.model.graphs import Model
from smcpn.model.ode import ODE
from smcpn.model.parts import check_parts
from smcpn.model.problem import labelled, scalar_outputs
from smcpn.results.simulation.simulate import known_model
from smcpn.results.simulation.state_space import Matrices, StateSpace

Array = NDArray[np.float64]

INSTEAD = {
    "events": "give state=, where the model is linear until one",
}
"""Remedies for parts that linear models have not."""
TOLERANCE = 1e-9
"""Rate of change of an equilibrium, relative to its parts and to that where the search began."""
NEWTON_STEPS = 6
"""From the equilibrium at the mean parameters to those of the draws."""
ROUNDING = 1e-12
"""Part of its size below which a state at rest is 0."""


@checked
def linearise(
    ode: ODE,
    parameters: Mapping[str, Any],
    *,
    observe: Any,
    input: Any = 0.0,
    state: Any = None,
    near: Any = 0.0,
    time: float = 0.0,
) -> StateSpace:
    """Return the linear state-space model of an ODE with known parameters at an operating point.

    Derivatives are those of the expression graph, exact to rounding; of an `smcpn.sde` those of
    its drift.

    Parameters
    ----------
    ode : ODE
    parameters : mapping of str to float
        As for `simulate`.
    observe : str, callable, or sequence of these
        As for `Problem`.
    input : number, mapping of str to float, or sequence
        The constant input of the operating point; an input that a mapping leaves out is 0.
    state : number, mapping or sequence, optional
        The state of the operating point. By default the equilibrium at this input.
    near : number, mapping or sequence
        State from which the equilibrium is searched for, where there are several.
    time : float
        Seconds; only a model that depends on time depends on it.

    Returns
    -------
    StateSpace

    Raises
    ------
    InputError
        If a parameter is missing or unknown, a value does not fit the model, or there is no
        equilibrium near ``near``.

    Examples
    --------
    >>> import numpy as np, smcpn
    >>> @smcpn.ode
    ... def pendulum(angle, rate, torque, *, damping):
    ...     return rate, torque - np.sin(angle) - damping * rate
    >>> linear = smcpn.linearise(pendulum, {"damping": 0.1}, observe="angle", input=0.5)
    >>> linear.state.round(4).tolist()  # sin(angle) = 0.5
    [0.5236, 0.0]
    """
    what = scalar_outputs(observe, ode)
    model, values = known_model(ode, parameters, what, "rest", None)
    at = OperatingPoint.of(ode, input, state, near, time)
    return linearised(ode, model, labelled(what), values, values[None, :], at)


@dataclass(frozen=True)
class OperatingPoint:
    """Point at which a model is linearised; a state of None is the equilibrium near ``near``."""

    input: Array
    state: Array | None
    near: Array
    time: float

    @classmethod
    def of(cls, ode: ODE, input: Any, state: Any, near: Any, time: float) -> OperatingPoint:
        """Read the arguments of `linearise`."""
        return cls(
            _numbers("input", input, ode.inputs, ode),
            None if state is None else _numbers("state", state, ode.states, ode),
            _numbers("near", near, ode.states, ode),
            time,
        )


def linearised(
    ode: ODE,
    model: Model,
    outputs: Sequence[Any],
    mean: Array,
    draws: Array,
    at: OperatingPoint,
    t_unit: str = "s",
) -> StateSpace:
    """Linearise a model at parameters (d,) and at each of those of draws (N, d).

    model: Its states, inputs and outputs are those of ``ode``, and ``outputs``.
    """
    takes = {"delay", "doses", "accumulators", "algebraic"}
    takes |= set() if at.state is None else {"events"}
    check_parts(model.parts, "a linear model", takes, INSTEAD)
    # Doses come and go: the model about a point is that of the equation.
    model = model.without_doses()
    graphs = _Graphs(ode.name, model, at)
    x0 = graphs.state(at.near, mean[None])
    points = graphs.states(x0[0], draws)
    one, every = graphs.matrices(x0, mean[None]), graphs.matrices(points, draws)
    still = graphs.at_rest(x0, mean[None], np.zeros(x0.shape))
    return StateSpace(
        name=ode.name,
        states=tuple(ode.states[k] for k in model.differential),
        inputs=ode.inputs,
        outputs=tuple(map(str, outputs)),
        A=one.A[0], B=one.B[0], C=one.C[0], D=one.D[0],
        state=x0[0, model.differential], input=at.input, output=one.output[0], time=at.time,
        at_rest=bool(np.isfinite(still).all()), delay=one.delay[0],
        draws=every, t_unit=t_unit,
    )  # fmt: skip


@dataclass(frozen=True)
class _Graphs:
    """A model and its derivatives as functions of N states (N, n) and parameters (N, d)."""

    name: str
    model: Model
    at: OperatingPoint

    def _function(self, *graphs: ca.SX) -> ca.Function:
        model = self.model
        symbols = [model.x, model.u, model.t, model.theta]
        return ca.Function("graphs", symbols, [ca.densify(one) for one in graphs])

    def _evaluated(self, function: ca.Function, x: Array, values: Array) -> list[Array]:
        """Values of each result of a function, (N, rows, columns)."""
        N = len(values)
        inputs = np.tile(self.at.input[:, None], (1, N))
        found = function.call([x.T, inputs, np.full((1, N), self.at.time), values.T])
        shapes = [function.size_out(k) for k in range(len(found))]
        return [
            np.asarray(one, dtype=np.float64).reshape(rows, N, columns).swapaxes(0, 1)
            for one, (rows, columns) in zip(found, shapes, strict=True)
        ]

    @cached_property
    def _field(self) -> ca.Function:
        """Derivative of the state, and its derivatives by state and input."""
        rhs = self.model.with_numbers().rhs
        by_state, by_input = (ca.jacobian(rhs, one) for one in (self.model.x, self.model.u))
        return self._function(rhs, by_state, by_input)

    def matrices(self, x: Array, values: Array) -> Matrices:
        """A, B, C, D and the outputs; algebraic variables follow states and inputs."""
        model = self.model.with_numbers()
        blocks = [ca.jacobian(f, v) for f in (model.rhs, model.outputs) for v in (model.x, model.u)]
        function = self._function(*blocks, model.outputs)
        A, B, C, D, output = self._evaluated(function, x, values)
        if model.algebraic:
            A, B, C, D = self._eliminated(A, B, C, D)
        if not all(np.isfinite(one).all() for one in (A, B, C, D)):
            raise InputError(
                f"model '{self.name}' has no derivative at this operating point: move it, or write "
                "the model so that it has one, as np.sqrt(x**2 + e) in place of abs"
            )
        return Matrices(
            A, B, C, D, x[:, model.differential], output[:, :, 0], self._dead_times(values)
        )

    def _eliminated(self, A: Array, B: Array, C: Array, D: Array) -> tuple[Array, ...]:
        """Matrices without the algebraic variables, of which 0 = g_x dx + g_z dz + g_u du."""
        d, z = self.model.differential, list(self.model.algebraic)
        by_states, by_variables = A[:, :, d], A[:, :, z]
        try:
            share = np.linalg.solve(
                by_variables[:, z], np.concatenate([by_states[:, z], B[:, z]], axis=2)
            )
        except np.linalg.LinAlgError:
            raise InputError(
                f"the algebraic equations of model '{self.name}' do not determine their variables "
                "at this operating point: move it",
            ) from None
        of_state, of_input = share[:, :, : len(d)], share[:, :, len(d) :]
        return (
            by_states[:, d] - by_variables[:, d] @ of_state,
            B[:, d] - by_variables[:, d] @ of_input,
            C[:, :, d] - C[:, :, z] @ of_state,
            D - C[:, :, z] @ of_input,
        )

    def _dead_times(self, values: Array) -> Array:
        """Dead time of every input, (N, m)."""
        found = np.zeros((len(values), len(self.at.input)))
        if self.model.delay is not None:
            for k, source in zip(self.model.delay.inputs, self.model.delay.sources, strict=True):
                found[:, k] = values[:, source] if isinstance(source, int) else source
        return found

    def state(self, near: Array, values: Array) -> Array:
        """The operating point at parameters (1, d), (1, n)."""
        if self.at.state is not None:
            return self._consistent(self.at.state[None], values)
        start = np.abs(self._evaluated(self._field, near[None], values)[0][:, :, 0])
        return self._searched(near, values, start)

    def states(self, near: Array, values: Array) -> Array:
        """The operating points, (N, n), near that of the mean parameters."""
        begin = np.tile(near, (len(values), 1))
        if self.at.state is not None:
            return self._consistent(begin, values)
        start = np.abs(self._evaluated(self._field, begin, values)[0][:, :, 0])
        found = self.at_rest(self._newton(begin, values), values, start)
        for k in np.flatnonzero(~np.isfinite(found).all(axis=1)):
            found[k] = self._searched(near, values[k : k + 1], start[k : k + 1])[0]
        return found

    def _consistent(self, x: Array, values: Array) -> Array:
        """States that are given, with the algebraic variables that their equations determine."""
        model = self.model.with_numbers()
        if not model.algebraic:
            return x
        driven = ca.vertcat(model.u, model.t)
        solved = AlgebraicEquations(model).solved(model.x, driven)
        found = self._evaluated(self._function(solved), x, values)[0][:, :, 0]
        if not np.isfinite(found).all():
            raise InputError(
                f"the algebraic equations of model '{self.name}' find no solution from the state "
                "that is given: give their variables numbers near it",
                argument="state",
            )
        return found

    def _newton(self, x: Array, values: Array) -> Array:
        """The states after some steps of Newton's method, the shortest where there are many."""
        for _ in range(NEWTON_STEPS):
            rate, slope, _ = self._evaluated(self._field, x, values)
            usable = np.isfinite(slope).all(axis=(1, 2)) & np.isfinite(rate).all(axis=(1, 2))
            x[usable] -= (np.linalg.pinv(slope[usable]) @ rate[usable])[:, :, 0]
        return x

    def _searched(self, near: Array, theta: Array, start: Array) -> Array:
        """The equilibrium at parameters (1, d), (1, n), by methods that converge from afar."""
        from scipy import optimize

        def rates(x: Array) -> tuple[Array, Array]:
            rate, slope, _ = self._evaluated(self._field, x[None], theta)
            return rate[0, :, 0], slope[0]

        for method in ("lm", "hybr"):
            with np.errstate(all="ignore"):
                end = optimize.root(rates, near, jac=True, method=method, tol=1e-14).x
            found = self.at_rest(np.asarray(end, dtype=np.float64)[None], theta, start)
            if np.isfinite(found).all():
                return found
        values = ", ".join(f"{value:.5g}" for value in self.at.input)
        remedy = "give near=, or state= to linearise elsewhere"
        if self.model.accumulators:
            remedy = "what an accumulator counts goes on where the others rest: give state="
        raise InputError(
            f"model '{self.name}' has no equilibrium at input [{values}] that is found from the "
            f"state in near: {remedy}",
            argument="near",
        )

    def at_rest(self, x: Array, values: Array, start: Array) -> Array:
        """The states, with 0 for what is 0 to rounding; nan where they change.

        That is judged by what the derivative is made of, and what it is at ``start``. A state that
        is 0, as a velocity at rest, has the size that it reaches within the time constant of the
        fastest pole.
        """
        rate, by_state, by_input = self._evaluated(self._field, x, values)
        usable = np.isfinite(rate).all(axis=(1, 2)) & np.isfinite(by_state).all(axis=(1, 2))
        found = np.full(x.shape, np.nan)
        slope = np.abs(by_state[usable])
        parts = (slope @ np.abs(x[usable])[:, :, None])[:, :, 0] + start[usable]
        parts += np.abs(by_input[usable]) @ np.abs(self.at.input)
        fastest = np.abs(np.linalg.eigvals(by_state[usable])).max(axis=1, keepdims=True)
        size = np.where(fastest > 0, parts / np.where(fastest > 0, fastest, 1.0), 0.0)
        allowed = TOLERANCE * (parts + (slope @ size[:, :, None])[:, :, 0])
        still = (np.abs(rate[usable, :, 0]) <= allowed).all(axis=1, keepdims=True)
        tidy = np.where(np.abs(x[usable]) <= ROUNDING * size, 0.0, x[usable])
        found[usable] = np.where(still, tidy, np.nan)
        return found


def _numbers(argument: str, value: Any, names: Sequence[str], ode: ODE) -> Array:
    """Numbers for names, (n,): of one number for all, a mapping, or one for each."""
    if isinstance(value, Mapping):
        given = by_scalar(value, ode, argument)
        for name in given:
            if name not in names:
                raise InputError(
                    f"{argument} names {shown(name)}: model '{ode.name}' has {listed(names)}",
                    argument=argument,
                )
        return np.array([real_number(f"{argument} '{n}'", given.get(n, 0.0)) for n in names])
    entries = list(value) if isinstance(value, (list, tuple)) else value
    if isinstance(entries, np.ndarray):
        entries = entries.ravel().tolist() if entries.ndim else entries.item()
    if not isinstance(entries, list):
        return np.full(len(names), real_number(argument, entries, argument=argument))
    if len(entries) != len(names):
        raise InputError(
            f"{argument} has {len(entries)} entries: give {len(names)}, for {listed(names)}",
            argument=argument,
        )
    return np.array(
        [real_number(f"{argument} '{n}'", v) for n, v in zip(names, entries, strict=True)]
    )
