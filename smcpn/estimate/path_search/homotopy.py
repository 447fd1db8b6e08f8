"""Search over path and parameters together, while the model error falls to nothing.

A single trajectory through a long record is a poor guide to its parameters: where the system is
chaotic, or has gone through many periods, the likelihood has a maximum for every way to be wrong at
the end. A path that may leave the model a little at every sample stays with the data, whatever the
parameters, and what it has to leave the model by is nearly linear in them. So the search minimises

    -log p(y | path) + sum over samples of w' Q^-1 w / 2 - log p(theta),
    w_k = flow(x_{k-1}, theta) - x_k,                                     Q = diag(error scale)^2,

by Gauss-Newton steps with halving, first with a large Q, then with ever smaller ones from where the
last one ended. With Q near zero the path is a trajectory of the model.

From given starts it takes as much of the records as is quickly done (`lifted_ends`).

References
----------
Bock, H. G. (1983). Recent advances in parameter identification techniques for ODE: multiple
shooting, which is the case of Q = 0. Tremolet, Y. (2006). Accounting for an imperfect model in
4D-Var: the cost. Beck, J., Bosch, N., Deistler, M., Kadhim, K. L., Macke, J. H., Hennig, P.,
Tronarp, F. (2024). Diffusion tempering improves parameter estimation with probabilistic
integrators for ODEs: a falling diffusion, which is the same homotopy.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.status import tell
from smcpn.errors import InputError
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.path_search.linearisation import Field
from smcpn.estimate.path_search.paths import ProblemPaths
from smcpn.estimate.path_search.smoothing import Linear, smoothed
from smcpn.estimate.smoothed_outputs import difference_variances, output_variances
from smcpn.likelihood.gauss_newton import HALVINGS, halved
from smcpn.model.prior import prior_expansion
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.results.maximum import POSTERIOR

Array = NDArray[np.float64]

LARGEST_ERROR = 1e-2
"""First model error of a sample, as a share of the spread of a state, at least; or half of the
noise, as a share of that of the outputs, where this is larger."""
SMALLEST_ERROR = 1e-6
"""Last one, as a share of the noise: the path is a trajectory."""
FACTOR = 0.1
"""From one model error to the next."""
FIRST_ITERATIONS, ITERATIONS = 15, 4
"""Most iterations with the first model error, and with every other."""
SETTLED = 0.05
"""A step that lowers the cost by less ends the iterations with a model error."""
LONGEST = 2.0
"""Longest step of a parameter, in standard deviations of the prior."""
DAMPING = 1e-3
"""Curvature added to that of every parameter, over that of a normal prior of its spread."""
TOGETHER = 0.05
"""Searches whose costs and parameters, in standard deviations of the prior, differ by less have
come together."""
INTEGRATION = 0.1
"""Error of the flow over an interval, as a share of the model error, at most."""
AT_THE_END = 1e-2
"""What an error of a sampling interval may have become at the end, as a share of the noise."""
LOST = 1e3
"""A search whose cost is higher than the least by more has not come to a trajectory."""
ROUNDED = 1e-12
"""Least model error, as a share of the spread of a state, that rounding leaves visible."""
LEARNED_BELOW = 1e-2
"""Model error, as a share of the noise, from which residuals tell the noise."""


@dataclass
class Searches:
    """Points of S searches.

    theta: (S, d)
    path: (S, T, n)
    variances: (S, q), of the noise.
    cost: (S,)
    of_start: (S0,), the search that each of the starts has become.
    """

    theta: Array
    path: Array
    variances: Array
    cost: Array
    of_start: NDArray[np.int64]

    def at(self, chosen: NDArray[np.intp], of_start: NDArray[np.int64]) -> Searches:
        """Return the searches of these numbers, which began at ``of_start``."""
        return Searches(
            self.theta[chosen], self.path[chosen], self.variances[chosen], self.cost[chosen],
            of_start,
        )  # fmt: skip

    def put(self, chosen: NDArray[np.intp], part: Searches) -> None:
        """Replace those of some numbers."""
        self.theta[chosen], self.path[chosen] = part.theta, part.path
        self.variances[chosen], self.cost[chosen] = part.variances, part.cost


class Homotopy:
    """Leads starts to maxima over path and parameters.

    Of ``density`` it has priors and scales of the parameters; its likelihood is not evaluated. The
    records to search with are those of ``problem``.
    """

    def __init__(self, density: LogDensity, problem: Problem) -> None:
        model = problem.model.with_numbers()
        self._density, self._model = density, model
        self._paths = ProblemPaths(problem, density.centre)
        self._shown = difference_variances(problem.records)
        self._log_variance = Field(model, ca.log(model.noise_variance))
        self._learned = model.density is None and ca.depends_on(model.noise_variance, model.theta)
        self._counts = np.isfinite(np.concatenate([r.y for r in problem.records])).sum(axis=0)
        noise = np.minimum(
            self._noise(density.centre[None, :])[0] / output_variances(problem.records), 1.0
        )
        self._relative_noise = float(np.sqrt(np.minimum(noise, 1.0).mean()))
        told = [model.rhs, model.outputs, model.noise_variance, *model.initial]
        self._informed = np.array(ca.which_depends(ca.vertcat(*told), model.theta, 1))

    def __call__(self, starts: Array) -> tuple[Array, NDArray[np.int64]]:
        """Return where searches from starts (S0, d) end, (S, d), and the end of each start, (S0,).

        Searches that come together go on as one. The end of a start is -1 where its path is not
        finite, or costs far more than others.
        """
        # A search may go where numbers overflow; its cost is infinite there, and it comes back.
        with np.errstate(all="ignore"):
            return self._run(starts)

    def _run(self, starts: Array) -> tuple[Array, NDArray[np.int64]]:
        searches = self._begun(starts)
        last = SMALLEST_ERROR * self._relative_noise
        share = max(LARGEST_ERROR, 0.5 * self._relative_noise)
        iterations = FIRST_ITERATIONS
        while share > last:
            tell(f"paths: {len(searches.theta)} searches, model error {share:.2g}")
            self._settle(searches, share, iterations)
            searches = together(searches, np.where(self._informed, self._density.scale, np.inf))
            share, iterations = share * FACTOR, ITERATIONS
        self._sharpen(searches, share / FACTOR)
        return self._finite(searches)

    def _sharpen(self, searches: Searches, share: float) -> None:
        """Go on to where a model error, or one of the flow, has not grown to the noise at the end.

        Only where small changes grow, as in chaos, is that less than ``share``, the last one.
        """
        growth = self._paths.growth(searches.path, searches.theta)
        growth = np.where(np.isfinite(growth), growth, 1.0)
        noise = AT_THE_END * self._relative_noise
        error = noise * self._spread(searches) / growth[:, None]
        last = max(noise / max(growth[np.argmin(searches.cost)], 1.0), ROUNDED)
        if share > last:
            self._paths.refine(searches.path, searches.theta, error)
        while share > last:
            share = max(share * FACTOR**2, last)
            self._settle(searches, share, ITERATIONS)

    def _finite(self, searches: Searches) -> tuple[Array, NDArray[np.int64]]:
        """Return the ends that are not lost, and the end of each start; -1 where it has none."""
        finite = searches.cost < searches.cost.min(initial=np.inf) + LOST
        place = np.where(finite, np.cumsum(finite) - 1, -1)
        return searches.theta[finite], place[searches.of_start]

    def _begun(self, starts: Array) -> Searches:
        return Searches(
            theta=starts.copy(),
            path=self._paths.start(starts),
            variances=self._noise(starts),
            cost=np.full(len(starts), np.inf),
            of_start=np.arange(len(starts)),
        )

    def _noise(self, theta: Array) -> Array:
        """Variances of the noise: as known, or as differences of the samples show it."""
        known = self._model.noise_variances(self._density.prior.natural(theta)).T
        unknown = self._learned or self._model.density is not None
        return np.tile(self._shown, (len(theta), 1)) if unknown else known

    def _settle(self, searches: Searches, share: float, iterations: int) -> None:
        """Minimise the cost with one model error, as a share of the spread of the states."""
        scale = share * self._spread(searches)
        self._paths.refine(searches.path, searches.theta, INTEGRATION * scale)
        error = scale**2
        active = np.arange(len(searches.theta))
        for _ in range(iterations):
            part = searches.at(active, searches.of_start)
            if self._learned and share < LEARNED_BELOW * self._relative_noise:
                told = self._paths.mean_squares(part.path, part.theta)
                part.variances = np.maximum(told, LEARNED_BELOW**2 * self._shown)
            part.cost = self._cost(part.path, part.theta, part.variances, error[active])
            before = part.cost.copy()
            self._step(part, error[active])
            searches.put(active, part)
            active = active[part.cost < before - SETTLED]
            if len(active) == 0:
                break

    def _spread(self, searches: Searches) -> Array:
        """Spread of each state, (S, n): over time, or at least in an interval."""
        over_time = searches.path.std(axis=1)
        gaps = self._paths.gaps(searches.path, searches.theta)
        left = np.sqrt(np.mean(np.where(np.isfinite(gaps), gaps, 0.0) ** 2, axis=1))
        spread = np.maximum(over_time, left)
        return np.where(spread > 0.0, spread, 1.0)

    def _cost(self, path: Array, theta: Array, variances: Array, error: Array) -> Array:
        cost = self._paths.cost(path, theta, variances, error[:, None])
        if self._density.target == POSTERIOR:
            cost = cost - self._density.prior.log_density(theta)
        return np.where(np.isfinite(cost), cost, np.inf)

    def _step(self, searches: Searches, error: Array) -> None:
        """Take a Gauss-Newton step, halved until the cost falls; without one where it does not."""
        move = [np.zeros_like(searches.path), np.zeros_like(searches.theta)]
        pull, curvature = self._normal_equations(searches.theta, searches.variances)
        linears = self._paths.linear(searches.path, searches.theta, searches.variances)
        for k, linear in enumerate(linears):
            found = self._solution(linear, error[k], pull[k], curvature[k])
            if found is not None:
                move[0][k], move[1][k] = found

        def accepted(which: NDArray[np.intp], share: Array) -> NDArray[np.bool_]:
            path = searches.path[which] + share[:, None, None] * move[0][which]
            theta = searches.theta[which] + share[:, None] * move[1][which]
            theta = np.clip(theta, *self._density.bounds.T)
            cost = self._cost(path, theta, searches.variances[which], error[which])
            lower = cost < searches.cost[which]
            done = which[lower]
            searches.path[done], searches.theta[done] = path[lower], theta[lower]
            searches.cost[done] = cost[lower]
            return lower

        halved(accepted, len(searches.theta), HALVINGS)

    def _solution(
        self, linear: Linear, error: Array, pull: Array, curvature: Array
    ) -> tuple[Array, Array] | None:
        """Move of the path (T, n) and of theta (d,); None where it is not determined."""
        scale = self._density.scale
        try:
            found = smoothed(linear, np.broadcast_to(error, linear.gap.shape))
            constant, by = found.residuals[:, 0], found.residuals[:, 1:] * scale
            matrix = by.T @ by + curvature * np.outer(scale, scale)
            matrix += DAMPING * np.eye(len(scale))
            theta = np.linalg.solve(matrix, pull * scale - by.T @ constant)
        except (ValueError, np.linalg.LinAlgError):
            return None
        if not np.isfinite(theta).all():
            return None
        theta = np.where(self._informed, theta, 0.0)
        share = min(1.0, LONGEST / max(np.abs(theta).max(), LONGEST))
        theta = theta * scale
        return share * (found.path[..., 0] + found.path[..., 1:] @ theta), share * theta

    def _normal_equations(self, theta: Array, variances: Array) -> tuple[Array, Array]:
        """Gradient (S, d) and curvature (S, d, d) of the log prior and of the noise's parameters.

        The latter lead the logarithm of the variance to that of the residuals, with the Fisher
        information of a variance.
        """
        density, (searches, d) = self._density, theta.shape
        gradient, curvature = np.zeros((searches, d)), np.zeros((searches, d, d))
        if density.target == POSTERIOR:
            prior = prior_expansion(density.prior, theta, density.scale)
            first, second = prior.gradient, prior.diagonal
            gradient += np.where(np.isfinite(first), first, 0.0)
            curvature += np.where(second < 0.0, -second, 0.0)[:, :, None] * np.eye(d)
        if self._learned:
            nothing = np.zeros((searches, 1, self._model.x.numel()))
            log_variance, by = self._log_variance.with_derivatives(
                nothing, np.zeros((1, self._model.u.numel())), np.zeros(1),
                density.prior.natural(theta),
            )  # fmt: skip
            by = by[:, 0, :, -d:] * density.prior.slopes(theta)[0][:, None, :]
            off = np.log(variances) - log_variance[:, 0]
            gradient += 0.5 * np.einsum("j,sj,sjd->sd", self._counts, off, by)
            curvature += 0.5 * np.einsum("j,sjd,sje->sde", self._counts, by, by)
        return gradient, curvature


def together(searches: Searches, scale: Array) -> Searches:
    """Join searches whose costs and parameters are nearly the same, to the one of least cost."""
    leaders: list[int] = []
    follows = np.empty(len(searches.theta), dtype=np.int64)
    for k in np.argsort(searches.cost, kind="stable").tolist():
        for place, leader in enumerate(leaders):
            near = np.abs(searches.theta[k] - searches.theta[leader]) < TOGETHER * scale
            cost, least = searches.cost[k], searches.cost[leader]
            if near.all() and (cost == least or cost < least + TOGETHER):
                follows[k] = place
                break
        else:
            follows[k] = len(leaders)
            leaders.append(k)
    return searches.at(np.array(leaders), follows[searches.of_start])


_log = logging.getLogger(__name__)

POINTS = 20_000
"""Sampling intervals, of all starts together, that are searched with at most."""
LEAST_SAMPLES = 500
"""Samples of each record that are searched with at least."""
LEAST_TOGETHER, MOST_TOGETHER = 4, 64
"""Starts that are searched side by side: as many as leave whole records, if not fewer."""


def lifted_ends(density: LogDensity, starts: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return the points (S, d) that searches over path and parameters end in, and whose they are.

    Long records of ``density`` are searched by their beginnings. Of starts (S0, d) the second
    result, (S0,), has the number of the end that each led to; -1 where it led nowhere.
    """
    began = time.perf_counter()
    ends: list[Array] = []
    of_start = np.full(len(starts), -1)
    problem = density.log_likelihood.problem
    size = min(max(POINTS // problem.n_samples, LEAST_TOGETHER), MOST_TOGETHER)
    for first in range(0, len(starts), size):
        part = starts[first : first + size]
        samples = max(POINTS // len(part), LEAST_SAMPLES)
        found, of_part = Homotopy(density, beginning(problem, samples))(part)
        of_start[first : first + size] = np.where(of_part < 0, -1, of_part + len(ends))
        ends += list(found)
    _log.info(
        "lifted search: %d starts to %d ends in %.2f s",
        len(starts), len(ends), time.perf_counter() - began,
    )  # fmt: skip
    return np.array(ends).reshape(-1, starts.shape[1]), of_start


def beginning(problem: Problem, samples: int) -> Problem:
    """The problem with the first measured ``samples`` of all records together.

    Records share them in proportion to their lengths.
    """
    share = samples / problem.n_samples
    if share >= 1.0:
        return problem
    try:
        return problem.with_records([_beginning(record, share) for record in problem.records])
    except InputError:
        # An output was measured later only.
        return problem


def _beginning(record: Record, share: float) -> Record:
    measured = np.flatnonzero(np.isfinite(record.y).any(axis=1))
    wanted = min(max(round(share * len(record)), LEAST_SAMPLES), len(measured))
    return record[: measured[wanted - 1] + 1] if wanted else record
