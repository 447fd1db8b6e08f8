"""A problem as a Gauss-Markov model on a grid: the prior, z = 0 on every step, y at the samples.

The prior gives every state, or every chain x' = v of states, an integrated Wiener process of its
own. The data of the ODE are z = X^(l) - f = 0, where l is the length of the chain and f the
derivative of its last state (DALTON eq. 2). All is in the units of the problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import factorial

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from smcpn.errors import InputError
from smcpn.hold import interval_derivatives, start_derivatives, substep_inputs, substep_times
from smcpn.pn.iwp import process_noise_factor, transition
from smcpn.pn.likelihoods.normal import Affine, Normal
from smcpn.pn.taylor import taylor_derivatives
from smcpn.problem import Model
from smcpn.record import Record
from smcpn.solver import EKF0, EKF1

Array = NDArray[np.float64]


def chains(model: Model, form: str) -> list[list[int]]:
    """States that share a process, by their place: x, its derivative v, and so on.

    ``"first"`` gives one list per state. ``"chain"`` joins a state and the one that is its
    derivative; a state joins one chain only, and a circle stays open.
    """
    n = model.x.numel()
    following: dict[int, int] = {}
    for i in range(n if form == "chain" else 0):
        for j in range(n):
            if not ca.is_equal(model.rhs[i], model.x[j], 1) or j in following.values():
                continue
            if _last(following, j) != i:
                following[i] = j
    heads = [i for i in range(n) if i not in following.values()]
    return [_chain(following, head) for head in heads]


def _known(solver: EKF0 | EKF1, diffusion: float | Array | None) -> Array:
    value = solver.diffusion if diffusion is None else diffusion
    if isinstance(value, str):
        raise InputError(f"diffusion is {value!r}: give its value")
    return np.asarray(value, dtype=float)


def _last(following: dict[int, int], state: int) -> int:
    return _chain(following, state)[-1]


def _chain(following: dict[int, int], head: int) -> list[int]:
    chain = [head]
    while chain[-1] in following:
        chain.append(following[chain[-1]])
    return chain


@dataclass(frozen=True)
class Step:
    """A step of the solver: its transition, and time and input at its end."""

    kernel: Affine
    t: float
    u: Array


class StateSpace:
    """The model of one record at one parameter vector.

    Parameters
    ----------
    model : Model
        With the initial state of the record first.
    record : Record
    theta : ndarray, (p,)
        Parameter values.
    solver : EKF0 or EKF1
        Order, steps per sample, form, and Jacobian.
    diffusion : float or ndarray, (processes,), optional
        Standard deviation of the Wiener processes, in units of the problem; by default the
        number that the solver gives.
    derivatives : ndarray, (processes, order + 1), optional
        State at the first sample, known exactly; by default the Taylor derivatives.

    Raises
    ------
    InputError
        If no diffusion is given, or the order is too low for a chain.

    Attributes
    ----------
    gaussian : bool
        Whether all measurements scatter as a Gaussian.
    chains : list of list of int
        States of each process.
    values : ndarray of int, (n,)
        Places of the states in a mean.
    start : Normal
        At the first sample.
    """

    def __init__(
        self,
        model: Model,
        record: Record,
        theta: Array,
        solver: EKF0 | EKF1,
        *,
        diffusion: float | Array | None = None,
        derivatives: Array | None = None,
    ) -> None:
        model = model.with_numbers()
        self.gaussian = model.density is None
        self.record, self.theta, self.solver = record, np.asarray(theta, dtype=float), solver
        self.size = solver.order + 1
        self.chains = chains(model, solver.form)
        if max(map(len, self.chains)) > solver.order:
            raise InputError(f"order is {solver.order}: a chain of that many states needs one more")
        self.diffusion = np.broadcast_to(_known(solver, diffusion), len(self.chains))
        places = [
            (i, self.size * p + k) for p, c in enumerate(self.chains) for k, i in enumerate(c)
        ]
        self.values = np.array([place for _, place in sorted(places)])
        self._rates = np.array([self.size * p + len(c) for p, c in enumerate(self.chains)])
        self._last = [chain[-1] for chain in self.chains]
        self._times = substep_times(record, int(solver.steps))
        self._inputs = substep_inputs(record, int(solver.steps))
        self._jumps = interval_derivatives(record, solver.order - 1)
        self._build_functions(model)
        self.start = self._start(derivatives)

    def ode_residual(self, mean: Array, t: float, u: Array) -> tuple[Array, Array]:
        """Linearise z = X^(l) - f at a mean: its matrix, and what is to be explained, -z."""
        x = mean[self.values]
        rate = np.array(self._rate(x, u, t, self.theta)).ravel()[self._last]
        matrix = np.zeros((len(self.chains), len(mean)))
        matrix[np.arange(len(self.chains)), self._rates] = 1.0
        matrix[:, self.values] -= self._jacobian_at(x, u, t)[self._last]
        return matrix, rate - mean[self._rates]

    def observation(
        self, sample: int, mean: Array
    ) -> tuple[Array, Array, Array, NDArray[np.int64]] | None:
        """Linearise the outputs that are present.

        Returns
        -------
        matrix, residual, noise, present : ndarray
            Jacobian, measured less expected, factor of the noise (NaN where that is not
            Gaussian), and which outputs they are; None where nothing was measured.
        """
        record = self.record
        present = (
            np.flatnonzero(np.isfinite(record.y[sample])) if record.n_outputs else np.empty(0, int)
        )
        if not len(present):
            return None
        at = mean[self.values], record.u[sample], record.t[sample], self.theta
        outputs, jacobian, variance = (np.array(value) for value in self._outputs(*at))
        matrix = np.zeros((len(present), len(mean)))
        matrix[:, self.values] = jacobian[present]
        residual = record.y[sample][present] - outputs.ravel()[present]
        return matrix, residual, np.diag(np.sqrt(variance.ravel()[present])), present

    def expansion(self, sample: int, j: int, output: float) -> tuple[float, float, float]:
        """Log density of the j-th measured value about an output, gradient and information."""
        outputs = np.zeros(self.record.n_outputs)
        outputs[j] = output
        values = self._density(np.nan_to_num(self.record.y[sample], nan=1.0), outputs, self.theta)
        log_density, gradient, informed = (float(np.array(value)[j, 0]) for value in values)
        return log_density, gradient, informed

    def steps(self, sample: int) -> Iterator[Step]:
        """Steps from a sample to the next."""
        times, inputs = self._times[sample], self._inputs[sample]
        for t, following, u in zip(times[:-1], times[1:], inputs[1:], strict=True):
            yield Step(self._step(float(following - t)), float(following), u)

    def restarts(self, sample: int) -> bool:
        """Whether the derivatives start anew from their exact values at a sample.

        They do where the input jumps or bends: a smooth process would carry them across the jump.
        At the first sample they are exact already.
        """
        return sample > 0 and not self.record.smooth

    def restart(self, sample: int, point: Array) -> Affine:
        """Every derivative as a function of the states, linearised at a mean."""
        record = self.record
        exact, jacobian = self._taylor_at(
            point[self.values], record.u[sample], record.t[sample], self._jumps[sample]
        )
        matrix = np.zeros((len(point), len(point)))
        matrix[:, self.values] = jacobian
        return Affine(matrix, exact - matrix @ point, np.zeros((len(point), 0)))

    def _step(self, h: float) -> Affine:
        """Transition and noise of a step, brought from Nordsieck's coordinates to plain ones."""
        order = self.solver.order
        scale = np.array([factorial(j) / h**j for j in range(self.size)])
        matrix = scale[:, None] * transition(order) / scale
        noise = h ** (order + 0.5) * scale[:, None] * process_noise_factor(order)
        return Affine(
            np.asarray(block_diag(*[matrix] * len(self.chains))),
            np.zeros(self.size * len(self.chains)),
            np.asarray(block_diag(*[kappa * noise for kappa in self.diffusion])),
        )

    def _start(self, derivatives: Array | None) -> Normal:
        if derivatives is None:
            x = np.array(self._initial(self.theta)).ravel()
            order = self.solver.order
            inputs = start_derivatives(self.record, order - 1) if order > 1 else np.empty(0)
            mean, _ = self._taylor_at(x, self.record.u[0], self.record.t[0], inputs)
        else:
            mean = np.asarray(derivatives, dtype=float).ravel()
        return Normal(mean, np.zeros((len(mean), len(mean))))

    def _taylor_at(self, x: Array, u: Array, t: float, rates: Array) -> tuple[Array, Array]:
        """Derivatives of every process and their Jacobian, (d,) and (d, n)."""
        derivatives, jacobian = self._taylor(x, u, t, self.theta, np.ravel(rates))
        jacobian = np.array(jacobian)
        if isinstance(self.solver, EKF0):
            jacobian[:] = 0.0
        elif self.solver.jacobian == "diagonal":
            jacobian *= np.repeat(self._own, self.size, axis=0)
        jacobian[self.values] = np.eye(len(x))
        return np.array(derivatives).ravel(), jacobian

    def _jacobian_at(self, x: Array, u: Array, t: float) -> Array:
        """What the linearisation knows of df/dx, (n, n)."""
        if isinstance(self.solver, EKF0):
            return np.zeros((len(x), len(x)))
        jacobian = np.array(self._jacobian(x, u, t, self.theta))
        if self.solver.jacobian == "diagonal":
            for own, chain in zip(self._own, self.chains, strict=True):
                jacobian[chain] *= own
        return jacobian

    @property
    def _own(self) -> Array:
        """Which states belong to a process, (processes, n) of 0 and 1."""
        own = np.zeros((len(self.chains), len(self.values)))
        for p, chain in enumerate(self.chains):
            own[p, chain] = 1.0
        return own

    def _build_functions(self, model: Model) -> None:
        at = [model.x, model.u, model.t, model.theta]
        self._rate = ca.Function("rate", at, [model.rhs])
        self._jacobian = ca.Function("jacobian", at, [ca.jacobian(model.rhs, model.x)])
        gradient = ca.jacobian(model.outputs, model.x)
        self._outputs = ca.Function("outputs", at, [model.outputs, gradient, model.noise_variance])
        if model.density is not None:
            symbols = [model.density.y, model.density.output, model.theta]
            density = model.density
            terms = [density.log_density, density.expansion()[0], density.information()]
            self._density = ca.Function("density", symbols, terms)
        self._initial = ca.Function("initial", [model.theta], [model.initial[0]])
        order = self.solver.order
        derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, order)
        stacked = ca.vertcat(*[derivatives[j][c[0]] for c in self.chains for j in range(self.size)])
        self._taylor = ca.Function(
            "taylor", [*at, ca.vertcat(*rates)], [stacked, ca.jacobian(stacked, model.x)]
        )
