"""EKF0 for one parameter vector, as the textbook writes it: the reference for the kernels.

Nothing is shared, cut short or scaled for speed. Where the input jumps or bends at the samples, or
they are not equally spaced, the derivatives restart at each sample from their exact values. Time
is counted in units of the first step, so that plain covariance matrices keep their digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from smcpn.model.hold import start_derivatives, substep_inputs, substep_times
from smcpn.model.problem import Model
from smcpn.model.record import Record
from smcpn.pn.taylor import taylor_derivatives

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ekf0Solution:
    """Filter moments at the samples of a record.

    Attributes
    ----------
    mean : ndarray, (T, n)
        Filtered mean of the states.
    covariance : ndarray, (T, n, n)
        Filtered covariance of the states under the running diffusion.
    diffusion : ndarray, (T, n)
        Running quasi-MLE of the diagonal diffusion, in units of the first step.
    increments : ndarray, (T,)
        log N(y_n; g(mean), J covariance J' + R); 0 where nothing was measured.
    """

    mean: Array
    covariance: Array
    diffusion: Array
    increments: Array


def ekf0(model: Model, record: Record, theta: Array, order: int, steps: int) -> Ekf0Solution:
    """Solve an ODE probabilistically over a record and score its outputs (PN-SMC eqs. 16-21)."""
    functions = _Functions(model, order)
    times, inputs = substep_times(record, steps), substep_inputs(record, steps)
    unit = float(times[0, 1] - times[0, 0])
    n, size = model.x.numel(), order + 1
    mean = functions.initial(record, theta, unit)
    unit_covariance = np.zeros((size, size))
    residuals = np.zeros(n)
    solution = _empty(len(record), n)
    restarts = not (record.smooth and record.uniform)
    for sample in range(len(record)):
        if sample and restarts:
            mean = functions.derivatives(record, sample - 1, mean[:, 0], theta, unit)
            unit_covariance = np.diag([unit_covariance[0, 0], *np.zeros(order)])
        for step in range(steps if sample else 0):
            k = sample - 1
            h = (times[k, step + 1] - times[k, step]) / unit
            a, q = _transition(order, h), _process_noise(order, h)
            mean = np.einsum("ij,kj->ik", mean, a)
            predicted = a @ unit_covariance @ a.T + q
            rate = unit * functions.rate(mean[:, 0], inputs[k, step + 1], times[k, step + 1], theta)
            z, s = rate - mean[:, 1], predicted[1, 1]
            gain = predicted[:, 1] / s
            mean = mean + np.outer(z, gain)
            unit_covariance = _conditioned(predicted, gain)
            residuals += z**2 / s
        diffusion = residuals / max(sample * steps, 1)
        solution.mean[sample] = mean[:, 0]
        solution.diffusion[sample] = diffusion
        solution.covariance[sample] = np.diag(diffusion * unit_covariance[0, 0])
        solution.increments[sample] = functions.score(
            record, sample, mean[:, 0], solution.covariance[sample], theta
        )
    return solution


class _Functions:
    """The model's graphs as plain functions of numbers."""

    def __init__(self, model: Model, order: int) -> None:
        model = model.with_numbers()
        at = [model.x, model.u, model.t, model.theta]
        self._rate = ca.Function("rate", at, [model.rhs])
        jacobian = ca.jacobian(model.outputs, model.x)
        self._outputs = ca.Function("outputs", at, [model.outputs, jacobian, model.noise_variance])
        derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, order)
        self._taylor = ca.Function("taylor", [*at, ca.vertcat(*rates)], [ca.horzcat(*derivatives)])
        self._start = ca.Function("start", [model.theta], [model.initial[0]])
        self._order = order

    def initial(self, record: Record, theta: Array, unit: float) -> Array:
        """Exact derivatives at the first sample, in units of time ``unit``, (n, order + 1)."""
        return self.derivatives(record, 0, np.array(self._start(theta)).ravel(), theta, unit)

    def derivatives(
        self, record: Record, sample: int, x: Array, theta: Array, unit: float
    ) -> Array:
        """Exact derivatives of the state from ``x`` at a sample on, (n, order + 1)."""
        part = record[sample : sample + 3] if sample + 1 < len(record) - 1 else record[sample:]
        rates = start_derivatives(part, self._order - 1) if self._order > 1 else np.empty(0)
        derivatives = self._taylor(x, record.u[sample], record.t[sample], theta, rates.ravel())
        return np.array(derivatives) * np.power(unit, np.arange(self._order + 1.0), dtype=float)

    def rate(self, x: Array, u: Array, t: float, theta: Array) -> Array:
        return np.array(self._rate(x, u, t, theta)).ravel()

    def score(
        self, record: Record, sample: int, x: Array, covariance: Array, theta: Array
    ) -> float:
        outputs, jacobian, noise = (
            np.array(value) for value in self._outputs(x, record.u[sample], record.t[sample], theta)
        )
        seen = np.isfinite(record.y[sample])
        if not seen.any():
            return 0.0
        total = jacobian @ covariance @ jacobian.T + np.diag(noise.ravel())
        normal = stats.multivariate_normal(outputs.ravel()[seen], total[np.ix_(seen, seen)])  # type: ignore[arg-type]
        return float(normal.logpdf(record.y[sample][seen]))


def _conditioned(predicted: Array, gain: Array) -> Array:
    """Joseph form: subtracting s K K' instead loses all digits of order 5 in 200 steps."""
    complement = np.eye(len(gain))
    complement[:, 1] -= gain
    covariance = complement @ predicted @ complement.T
    return 0.5 * (covariance + covariance.T)


def _transition(order: int, h: float) -> Array:
    size = order + 1
    return np.array(
        [[h ** (j - i) / factorial(j - i) if j >= i else 0.0 for j in range(size)]
         for i in range(size)]
    )  # fmt: skip


def _process_noise(order: int, h: float) -> Array:
    """By integrating the transition's last column, term by term (PN-SMC eq. 13c)."""
    powers = [order - i for i in range(order + 1)]
    return np.array(
        [[h ** (a + b + 1) / ((a + b + 1) * factorial(a) * factorial(b)) for b in powers]
         for a in powers]
    )  # fmt: skip


def _empty(samples: int, n: int) -> Ekf0Solution:
    return Ekf0Solution(
        np.empty((samples, n)), np.empty((samples, n, n)), np.empty((samples, n)), np.empty(samples)
    )
