"""Likelihoods of the data by dense filters: the reference for the compiled ones.

`ekf0` is the marginal likelihood (Bosch, Hennig, Tronarp 2021; Schober et al. 2019), `filtering`
that of the data-conditioned solver, `dalton` that of Wu and Lysy (2024), `fenrir` that of Tronarp,
Bosch and Hennig (2022).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from smcpn.errors import InputError
from smcpn.model.problem import Model
from smcpn.model.record import Record
from smcpn.model.signal import (
    RecordSamples,
    substep_inputs,
    substep_times,
)
from smcpn.model.solver import EKF0, ProbabilisticSolver
from tests.reference.gauss_markov import Affine, Dynamics, Filter, Innovation, Normal

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Step:
    """A step of the solver: its transition, and time and input at its end."""

    kernel: Affine
    t: float
    u: Array


class StateSpace(Dynamics):
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
    restarting : bool
        Whether the derivatives start anew from their exact values at every sample: where the
        input jumps or bends, which a smooth process would carry on.
    start : Normal
        At the first sample.
    """

    def __init__(
        self,
        model: Model,
        record: Record,
        theta: Array,
        solver: ProbabilisticSolver,
        *,
        diffusion: float | Array | None = None,
        derivatives: Array | None = None,
    ) -> None:
        model = model.with_numbers()
        super().__init__([model.x, model.u, model.t, model.theta], model.rhs, theta, solver)
        value = solver.diffusion if diffusion is None else diffusion
        if isinstance(value, str):
            raise InputError(f"diffusion is {value!r}: give its value")
        self.diffusion = np.broadcast_to(np.asarray(value, dtype=float), len(self.chains))
        self.gaussian, self.record, self.restarting = (
            model.density is None,
            record,
            not record.smooth,
        )
        self._times = substep_times(record, int(solver.steps))
        self._inputs = substep_inputs(record, int(solver.steps))
        self._jumps = RecordSamples(record).rates(0, len(record), solver.order - 1)
        self._build_functions(model)
        self.start = self._start(derivatives)

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
            A, root = self.prior(float(following - t))
            noise = root * np.repeat(self.diffusion, self.size)
            yield Step(Affine(A, np.zeros(len(A)), noise), float(following), u)

    def restart_at(self, sample: int) -> tuple[float, Array, Array]:
        """Time, input and its derivatives just after a sample."""
        return self.record.t[sample], self.record.u[sample], self._jumps[sample]

    def _start(self, derivatives: Array | None) -> Normal:
        if derivatives is None:
            x, order = np.array(self._initial(self.theta)).ravel(), self.solver.order
            following = RecordSamples(self.record).rates(0, 2, order - 1) if order > 1 else [()]
            rates = np.array(following[0])
            exact = self.exact(x, self.record.u[0], self.record.t[0], rates)
            mean = exact.matrix[:, self.values] @ x + exact.offset
        else:
            mean = np.asarray(derivatives, dtype=float).ravel()
        return Normal(mean, np.zeros((len(mean), len(mean))))

    def _build_functions(self, model: Model) -> None:
        at = [model.x, model.u, model.t, model.theta]
        gradient = ca.jacobian(model.outputs, model.x)
        self._outputs = ca.Function("outputs", at, [model.outputs, gradient, model.noise_variance])
        if model.density is not None:
            symbols = [model.density.y, model.density.output, model.theta]
            density = model.density
            terms = [density.log_density, density.expansion()[0], density.information()]
            self._density = ca.Function("density", symbols, terms)
        self._initial = ca.Function("initial", [model.theta], [model.initial[0]])


def observed(space: StateSpace, sample: int, state: Normal) -> tuple[Normal, float]:
    """State given the outputs of a sample that are present, and the log density of these.

    A density that is not Gaussian acts through a pseudo-observation (Wu and Lysy 2024, section
    3.2): the Gaussian that has its gradient and curvature at the predicted output g. In terms of
    the output's variance s, the gradient l' and the information i (-l'', see
    `OutputDensity.information`) the output moves by d = s l' / (1 + i s), its variance becomes
    s / (1 + i s), and Laplace's approximation of the density of y is

        log p(y | g + d) - log(1 + i s) / 2 - d^2 / (2 s),

    which for a Gaussian is exact. Summed over the samples it is the ratio of eq. 13, with the
    curvatures at the same points, evaluated at the filtered outputs in place of the smoothed ones;
    the paper's own form divides densities on two different planes, those of z = 0 linearised with
    the data and without, and has no increments.
    """
    seen = space.observation(sample, state.mean)
    if seen is None:
        return state, 0.0
    matrix, residual, noise, present = seen
    if space.gaussian:
        state, innovation = state.given(matrix, residual, noise)
        return state, innovation.log_density
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


@dataclass(frozen=True)
class Pass:
    """A pass through time.

    filters: Of each interval between samples.
    innovations: Of each step of each interval, of the ODE.
    data: (T,), log density of y at each sample, given all that was seen before; 0 where nothing
        was.
    filtered: State at each sample.
    """

    filters: list[Filter]
    innovations: list[list[Innovation]]
    data: Array
    filtered: list[Normal]

    @property
    def ode(self) -> Array:
        """Log density of z on the steps before each sample, given all seen before, (T,)."""
        sums = [sum(found.log_density for found in interval) for interval in self.innovations]
        return np.array([0.0, *sums])

    @property
    def points(self) -> list[Array]:
        """Means at which the vector field was linearised, in the order of time."""
        return [point for interval in self.filters for point in interval.points]

    @cached_property
    def backward(self) -> list[list[Affine]]:
        """Of each interval, the kernels that lead from its end to its begin, in order of time."""
        return [interval.backward() for interval in self.filters]


def forward(space: StateSpace, *, data: bool, at: list[Array] | None = None) -> Pass:
    """Filter the ODE's data, and the outputs too where ``data`` is true.

    data: Whether y corrects the state.
    at: Means to linearise the vector field at, as another pass left them; by default the predicted
        ones.
    """
    state, points = space.start, None if at is None else iter(at)
    result = Pass([], [], np.zeros(len(space.record)), [])
    for sample in range(len(space.record)):
        if sample:
            interval = Filter(space, state, points)
            if space.restarting and sample > 1:
                interval.restart(*space.restart_at(sample - 1))
            steps = space.steps(sample - 1)
            result.innovations.append([interval.step(s.kernel, s.t, s.u) for s in steps])
            result.filters.append(interval)
            state = interval.state
        if data:
            state, result.data[sample] = observed(space, sample, state)
        result.filtered.append(state)
    return result


def filtering(space: StateSpace) -> Array:
    """Increments log p(y_t | y_<t, z_<=t), (T,)."""
    return forward(space, data=True).data


def dalton(space: StateSpace) -> Array:
    """Increments of log p(y, z) - log p(z), each by a filter of its own (Algorithm 1), (T,).

    An output that is not linear in the state is linearised once z is seen, not before.
    """
    joint, alone = forward(space, data=True), forward(space, data=False)
    return joint.ode + joint.data - alone.ode


def fenrir(space: StateSpace) -> Array:
    """Log p(y_t | y_>t, z), (T,); their sum is the log-likelihood (eq. 50).

    The solution given z alone is a Markov process that runs backwards (eq. 13). Its kernels are
    affine, so a Kalman filter from the last sample to the first meets the data.
    """
    solution = forward(space, data=False)
    state = solution.filtered[-1]
    log_densities = np.zeros(len(space.record))
    for sample in reversed(range(len(space.record))):
        if sample < len(space.record) - 1:
            for kernel in reversed(solution.backward[sample]):
                state = state.through(kernel)
        state, log_densities[sample] = observed(space, sample, state)
    return log_densities


@dataclass(frozen=True)
class Ekf0Solution:
    """Filter moments at the samples of a record.

    mean: (T, n), filtered mean of the states.
    covariance: (T, n, n), filtered covariance of the states under the running diffusion.
    increments: (T,), log N(y_n; g(mean), J covariance J' + R); 0 where nothing was measured.
    """

    mean: Array
    covariance: Array
    increments: Array


def ekf0(model: Model, record: Record, theta: Array, order: int, steps: int) -> Ekf0Solution:
    """Solve an ODE probabilistically over a record and score its outputs (PN-SMC eqs. 16-21).

    The diffusion of every state is its running quasi-MLE. The derivatives also restart where the
    samples are not equally spaced.
    """
    space = StateSpace(model, record, theta, EKF0(order, steps), diffusion=1.0)
    space.restarting = not (record.smooth and record.uniform)
    run = forward(space, data=False)
    squares = [np.sum([v.whitened**2 for v in interval], axis=0) for interval in run.innovations]
    totals = np.cumsum([np.zeros(len(space.values)), *squares], axis=0)
    diffusion = totals / np.maximum(np.arange(len(record)) * steps, 1)[:, None]
    own = np.array([np.diag(state.covariance)[space.values] for state in run.filtered])
    covariance = (diffusion * own)[:, :, None] * np.eye(len(space.values))
    increments = [_score(space, k, run.filtered[k].mean, c) for k, c in enumerate(covariance)]
    mean = np.array([state.mean[space.values] for state in run.filtered])
    return Ekf0Solution(mean, covariance, np.array(increments))


def _score(space: StateSpace, sample: int, mean: Array, covariance: Array) -> float:
    """Log density of a sample's outputs, given a solution that the data do not correct."""
    seen = space.observation(sample, mean)
    if seen is None:
        return 0.0
    slope, residual, noise, _ = seen
    total = slope[:, space.values] @ covariance @ slope[:, space.values].T + noise @ noise.T
    root = np.linalg.cholesky(total)
    whitened = np.asarray(solve_triangular(root, residual, lower=True))
    return Innovation(whitened, float(2.0 * np.log(np.diag(root)).sum())).log_density
