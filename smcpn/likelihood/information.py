"""Information of the samples about the parameters, from first derivatives alone.

At a kink of the likelihood the second derivatives say nothing, the first still do. For Gaussian
outputs N(g, S), given the samples before where the likelihood sees them, the expected information
(Fisher's, of Gauss-Newton) is

    sum_t J' S^-1 J + tr(S^-1 dS_i S^-1 dS_j) / 2,    J = dg / dtheta.

For any measurement the sum of the outer products of the samples' scores estimates it (Berndt, Hall,
Hall, Hausman 1974), the worse the fewer samples there are.
"""

from __future__ import annotations

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.emit import LEAST_LANES
from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.tangent import tangent
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.lanes import CHUNK, Grid, LaneLikelihood
from smcpn.likelihood.registry import LIKELIHOODS, Recursion

Array = NDArray[np.float64]


def score_information(function: LogLikelihood, values: Array) -> Array:
    """Sum of the outer products of the samples' scores at parameter values (d,), (d, d)."""
    scored, d = function.tangent, len(values)
    directions = np.hstack([np.tile(values, (d, 1)), np.eye(d)])
    state, total = scored.start(directions), np.zeros((d, d))
    for a in range(0, scored.n_samples, CHUNK):
        b = min(a + CHUNK, scored.n_samples)
        state, emitted = scored.emitted(directions, state, a, b)
        total += emitted[:, 1].T @ emitted[:, 1]
    return total


def fisher_information(function: LogLikelihood, values: Array) -> Array:
    """Expected information about the parameters at values (d,), (d, d).

    That of the scores where measurements scatter otherwise than Gaussian.
    """
    problem = function.problem
    density = problem.model.density
    if density is not None and not density.gaussian:
        return score_information(function, values)
    if function.expands:
        return function.expansion(values[None, :])[2][0]
    predicted, d, q = _predicted(function), len(values), len(problem.observe)
    directions = np.hstack([np.tile(values, (d, 1)), np.eye(d)])
    present = np.concatenate([np.isfinite(record.y) for record in problem.records])
    state, total = predicted.start(directions), np.zeros((d, d))
    for a in range(0, predicted.n_samples, CHUNK):
        b = min(a + CHUNK, predicted.n_samples)
        state, emitted = predicted.emitted(directions, state, a, b)
        own, slopes = emitted[:, : q + q * q, 0], emitted[:, q + q * q :]
        covariance = own[:, q:].reshape(-1, q, q)
        # (m, d, q, q)
        change = slopes[:, q:].transpose(0, 2, 1).reshape(b - a, d, q, q)
        total += _information(slopes[:, :q], covariance, change, present[a:b])
    return total


def uninformed(function: LogLikelihood, values: Array) -> list[str]:
    """Names of the parameters at values (d,) of which the samples say nothing at all."""
    information = np.diag(fisher_information(function, values))
    return [name for name, own in zip(function.names, information, strict=True) if own == 0.0]


def _information(
    slopes: Array, covariance: Array, change: Array, present: NDArray[np.bool_]
) -> Array:
    """Sum over m samples: slopes (m, q, d), covariance (m, q, q), its change (m, d, q, q)."""
    both = present[:, :, None] & present[:, None, :]
    missing = np.where(present, 0.0, 1.0)[:, :, None] * np.eye(present.shape[1])
    whiten = np.linalg.inv(np.linalg.cholesky(np.where(both, covariance, 0.0) + missing))
    mean = whiten @ np.where(present[:, :, None], slopes, 0.0)
    wide = whiten[:, None]
    scaled = wide @ np.where(both[:, None], change, 0.0) @ wide.transpose(0, 1, 3, 2)
    mean = mean.reshape(-1, mean.shape[2])
    flat = scaled.transpose(0, 2, 3, 1).reshape(-1, scaled.shape[1])
    return np.asarray(mean.T @ mean + 0.5 * flat.T @ flat, dtype=np.float64)


def _predicted(function: LogLikelihood) -> LaneLikelihood:
    """Measurements as the likelihood expects them, mean and covariance, with their derivatives."""
    problem, solver = function.problem, function.solver
    grid = Grid.of(problem.records, problem.model.delay)
    recursion = LIKELIHOODS[function.likelihood].predicting(problem, solver, grid)
    kernel = recursion.kernel(solver, None, _predicting_program, LEAST_LANES)
    return recursion.over(problem.records, solver, kernel)


def _predicting_program(recursion: Recursion) -> LaneProgram:
    expected = recursion.expected()
    mean = expected.outputs + expected.noise_mean
    covariance = expected.covariance + ca.diag(expected.noise_variance)
    return tangent(recursion.program(ca.vertcat(mean, ca.densify(ca.vec(covariance)))))
