"""Fenrir: the data weigh the solution of the ODE backwards in time (Tronarp et al., appendix B)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import factorial

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, solve_triangular

from smcpn.errors import InputError
from smcpn.model.hold import interval_derivatives, start_derivatives, substep_inputs, substep_times
from smcpn.model.problem import Model
from smcpn.model.record import Record
from smcpn.pn.iwp import process_noise_factor, transition
from smcpn.pn.taylor import taylor_derivatives
from smcpn.solver import EKF0, EKF1

# ---- A normal distribution by its mean and a factor of its covariance, and what filters do to it.

Array = NDArray[np.float64]


def _upper(stacked: Array) -> Array:
    """Upper triangular R of a QR decomposition."""
    return np.asarray(np.linalg.qr(stacked, mode="r"))


@dataclass(frozen=True)
class Affine:
    """x' = matrix x + offset + noise, with the covariance ``factor factor'`` of the noise."""

    matrix: Array
    offset: Array
    factor: Array


@dataclass(frozen=True)
class Normal:
    """N(mean, factor factor').

    Attributes
    ----------
    mean : ndarray, (d,)
    factor : ndarray, (d, d)
        Not necessarily triangular; a known state has a factor of zeros.
    """

    mean: Array
    factor: Array

    @property
    def covariance(self) -> Array:
        """Covariance, (d, d)."""
        return self.factor @ self.factor.T

    def through(self, kernel: Affine) -> Normal:
        """Distribution of x' (the prediction of a Kalman filter)."""
        stacked = np.vstack([(kernel.matrix @ self.factor).T, kernel.factor.T])
        upper = _upper(stacked)
        return Normal(kernel.matrix @ self.mean + kernel.offset, upper.T)

    def given(self, matrix: Array, innovation: Array, noise: Array) -> tuple[Normal, float]:
        """Condition on ``matrix (x - mean) + e = innovation``, e ~ N(0, noise noise').

        One QR decomposition gives the factor of the innovation's covariance, the gain and the
        factor of what is left, without a difference of covariances.

        Returns
        -------
        Normal
            x given the innovation.
        float
            Log density of the innovation.
        """
        q, d = matrix.shape
        stacked = np.vstack(
            [
                np.hstack([noise.T, np.zeros((q, d))]),
                np.hstack([(matrix @ self.factor).T, self.factor.T]),
            ]
        )
        upper = _upper(stacked)
        root, cross = upper[:q, :q].T, upper[:q, q:].T
        whitened = solve_triangular(root, innovation, lower=True)
        log_density = -0.5 * (
            whitened @ whitened
            + 2.0 * np.log(np.abs(np.diag(root))).sum()
            + q * np.log(2.0 * np.pi)
        )
        return Normal(self.mean + cross @ whitened, upper[q:, q:].T), float(log_density)

    def reversed(self, kernel: Affine, kept: NDArray[np.int64] | None = None) -> Affine:
        """Kernel from x' back to x, for x of this distribution (Fenrir eq. 12).

        Parameters
        ----------
        kernel : Affine
        kept : ndarray of int, optional
            Entries of x' that determine the others: all of them, unless x' has been computed from
            a part of x.
        """
        kept = np.arange(len(kernel.offset)) if kept is None else kept
        matrix, d = kernel.matrix[kept], len(self.mean)
        noise = kernel.factor[kept]
        stacked = np.vstack(
            [
                np.hstack([(matrix @ self.factor).T, self.factor.T]),
                np.hstack([noise.T, np.zeros((noise.shape[1], d))]),
            ]
        )
        k, upper = len(kept), _upper(stacked)
        gain = np.zeros((d, len(kernel.matrix)))
        gain[:, kept] = solve_triangular(upper[:k, :k], upper[:k, k:]).T
        predicted = kernel.matrix @ self.mean + kernel.offset
        return Affine(gain, self.mean - gain @ predicted, upper[k:, k:].T)


# ---- A problem as a Gauss-Markov model on a grid: the prior, z = 0 on every step, y at the
# samples.
#
# The prior gives every state, or every chain x' = v of states, an integrated Wiener process of its
# own. The data of the ODE are z = X^(l) - f = 0, where l is the length of the chain and f the
# derivative of its last state (DALTON eq. 2). All is in the units of the problem.


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


# ---- What a sample's measurements say about a state: Gaussian noise, or any other density.
#
# A density that is not Gaussian acts through a pseudo-observation (DALTON section 3.2): the
# Gaussian
# that has its gradient and curvature at the predicted output g. In terms of the output's variance
# s,
# the gradient l' and the information i (-l'', see `OutputDensity.information`) the output moves by
# d = s l' / (1 + i s), its variance becomes s / (1 + i s), and Laplace's approximation of the
# density of y is
#
#     log p(y | g + d) - log(1 + i s) / 2 - d^2 / (2 s),
#
# which for a Gaussian is exact. Summed over the samples it is the ratio of DALTON's eq. 13, with
# the
# curvatures at the same points, evaluated at the filtered outputs in place of the smoothed ones;
# the
# paper's own form divides densities on two different planes, those of z = 0 linearised with the
# data
# and without, and has no increments.


def weighed(space: StateSpace, sample: int, state: Normal) -> tuple[Normal, float]:
    """State given the outputs of a sample that are present, and the log density of these."""
    seen = space.observation(sample, state.mean)
    if seen is None:
        return state, 0.0
    matrix, residual, noise, present = seen
    if space.gaussian:
        return state.given(matrix, residual, noise)
    total, begin = 0.0, state.mean
    outputs = space.record.y[sample][present] - residual
    for row, output, j in zip(matrix, outputs, present, strict=True):
        # One output after the other; each is linearised where the first was.
        at = float(output + row @ (state.mean - begin))
        state, log_density = _laplace(space, sample, int(j), state, row, at)
        total += log_density
    return state, total


def _laplace(
    space: StateSpace, sample: int, j: int, state: Normal, row: Array, output: float
) -> tuple[Normal, float]:
    _, gradient, informed = space.expansion(sample, j, output)
    loading = state.factor.T @ row
    variance = float(loading @ loading)
    shrink = 1.0 + informed * variance
    shift = variance * gradient / shrink
    log_density, _, _ = space.expansion(sample, j, output + shift)
    mean = state.mean + state.factor @ loading * (gradient / shrink)
    # Potter's form: the factor of what is left, for any information.
    downdate = informed / (shrink + np.sqrt(shrink))
    factor = state.factor - downdate * np.outer(state.factor @ loading, loading)
    penalty = 0.5 * gradient * shift / shrink
    return Normal(mean, factor), log_density - 0.5 * float(np.log(shrink)) - penalty


# ---- The extended Kalman filter over the grid, with the data or without.


@dataclass
class Pass:
    """What a pass through time leaves behind.

    Attributes
    ----------
    ode : ndarray, (T,)
        Log density of z on the steps before each sample, given all that was seen before.
    data : ndarray, (T,)
        Log density of y at each sample, given all that was seen before; 0 where nothing was.
    filtered : list of Normal
        State at each sample.
    points : list of ndarray
        Means at which the vector field was linearised, in the order of time.
    backward : list of list of Affine
        Of each interval, the kernels that lead from its end to its begin, in the order of time.
    """

    ode: Array
    data: Array
    filtered: list[Normal] = field(default_factory=list)
    points: list[Array] = field(default_factory=list)
    backward: list[list[Affine]] = field(default_factory=list)


def forward(space: StateSpace, *, data: bool, at: list[Array] | None = None) -> Pass:
    """Filter the ODE's data, and the outputs too where ``data`` is true.

    Parameters
    ----------
    space : StateSpace
    data : bool
        Whether y corrects the state.
    at : list of ndarray, optional
        Means to linearise the vector field at, as another pass left them; by default the
        predicted ones.
    """
    return _Filter(space, at).run(data)


class _Filter:
    def __init__(self, space: StateSpace, at: list[Array] | None) -> None:
        self.space, self.state = space, space.start
        samples = len(space.record)
        self.result = Pass(np.zeros(samples), np.zeros(samples))
        self._at = None if at is None else iter(at)

    def run(self, data: bool) -> Pass:
        for sample in range(len(self.space.record)):
            if sample:
                self.result.backward.append(self._interval(sample - 1))
            if data:
                self.state, self.result.data[sample] = weighed(self.space, sample, self.state)
            self.result.filtered.append(self.state)
        return self.result

    def _interval(self, sample: int) -> list[Affine]:
        """Go from a sample to the next and return the kernels that lead back."""
        kernels: list[Affine] = []
        if self.space.restarts(sample):
            restart = self.space.restart(sample, self._point())
            kernels.append(self.state.reversed(restart, self.space.values))
            self.state = self.state.through(restart)
        for step in self.space.steps(sample):
            kernels.append(self.state.reversed(step.kernel))
            self.state = self.state.through(step.kernel)
            point = self._point()
            matrix, unexplained = self.space.ode_residual(point, step.t, step.u)
            innovation = unexplained - matrix @ (self.state.mean - point)
            silent = np.zeros((len(innovation), len(innovation)))
            self.state, log_density = self.state.given(matrix, innovation, silent)
            self.result.ode[sample + 1] += log_density
        return kernels

    def _point(self) -> Array:
        """Mean to linearise at."""
        point = self.state.mean if self._at is None else next(self._at)
        self.result.points.append(point)
        return point


# ---- The likelihood of the data-conditioned solver: product of p(y_t | y_<t, z_<=t).


def filtering(space: StateSpace) -> Array:
    """Increments log p(y_t | y_<t, z_<=t), (T,)."""
    return forward(space, data=True).data


# ---- DALTON: log p(y, z) - log p(z), each by a filter of its own (Wu and Lysy, Algorithm 1).


def dalton(space: StateSpace) -> Array:
    """Increments of log p(y, z) - log p(z) from sample to sample, (T,).

    An output that is not linear in the state is linearised once z is seen, not before.
    """
    joint, alone = forward(space, data=True), forward(space, data=False)
    return joint.ode + joint.data - alone.ode


def fenrir(space: StateSpace) -> Array:
    """Log p(y_t | y_>t, z), (T,); their sum is the log-likelihood (eq. 50).

    The solution given z alone is a Markov process that runs backwards (eq. 13). Its kernels are
    affine, so a Kalman filter from the last sample to the first weighs the data.
    """
    solution = forward(space, data=False)
    state = solution.filtered[-1]
    log_densities = np.zeros(len(space.record))
    for sample in reversed(range(len(space.record))):
        if sample < len(space.record) - 1:
            for kernel in reversed(solution.backward[sample]):
                state = state.through(kernel)
        state, log_densities[sample] = weighed(space, sample, state)
    return log_densities
