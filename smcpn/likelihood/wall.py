"""Test for a posterior that ends where its solver does: its failure is no likelihood of zero.

Where its steps are too long a solver diverges, or is far off, although the equation has a solution,
and parameters beyond that wall count as impossible. The particles of a posterior never show it, for
none is there. Points outside do: near ones, at the distance of its width, and far ones, with one
parameter drawn from the prior. Those to which the solver gives no likelihood are evaluated again
with more steps, for which nothing is compiled anew; if they are likely then, the posterior goes on
beyond the wall. `Rosenbrock` is asked only where no steps help: the problem is stiff there, or
its solution grows without bound under any solver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.registry import LIKELIHOODS, build_likelihood
from smcpn.likelihood.solver_choice import (
    FINER,
    MOST_STEPS,
    UNSTABLE_SHARE,
    LogLikelihoodBy,
    prior_draws,
    solver_beyond_wall,
    stiff_solver,
)
from smcpn.model.problem import Problem
from smcpn.model.solver import MAX_STEPS, Solver

Array = NDArray[np.float64]

POINTS, FEWER = 64, 32
"""Points of a posterior, of each of which one near and one wide move is made; or only a near one of
fewer."""
AGAIN = 4
"""Times as many with which a wall is looked for again where the first ones found it: of a dozen
moves of a parameter a single one is more than `MISSING`."""
FAR = 10.0
"""Nats that a move must lose to be judged again."""
COMPARED, REFUSED = 512, 2.0
"""Near moves by which two solvers are compared, and nats that one must lose to count as refused."""
MISSING = 0.05
"""Share of the moves that finer steps must accept: as much shifts the evidence by about what
``steps="auto"`` leaves."""
WORSE = 1.25
"""Factor on what a move loses by which finer steps show that it is unstable."""
LEVELS = 2
"""Fewest times that the steps are made finer before the stiff solver is asked."""
FEW = 0.25
"""Unstable moves that are followed to the finest steps, over the number of points."""
PASSED = 0.5
"""Share of what was not reached that lies beyond one bound of a parameter, for this to be told."""
TELLING = 3
"""Most parameters by which a place is told."""


@dataclass(frozen=True)
class Bound:
    """Value of a parameter that a posterior does not pass.

    name: Parameter.
    above: Whether what was not reached is above it.
    share: Share of the prior there.
    """

    name: str
    value: float
    above: bool
    share: float

    def __str__(self) -> str:
        side = "above" if self.above else "below"
        return f"{self.name} {side} {self.value:.3g} ({100 * self.share:.2g} % of the prior)"


@dataclass(frozen=True)
class Wall:
    """End of a posterior where its solver fails.

    solver: The one that fails.
    finer: The same with steps that reach further; None where these are too many.
    bound: What most of that which was not reached is beyond; None where no parameter alone parts it
        from the rest.
    example: Values, of the parameters that are most unusual there, which were not reached.
    remedy: What to do, where the steps are not chosen on the way.
    """

    solver: Solver
    finer: Solver | None
    bound: Bound | None
    example: Mapping[str, float]
    remedy: str

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence."""
        place = self.bound
        if place is None:
            values = ", ".join(f"{name} {value:.3g}" for name, value in self.example.items())
            place = f"a part of the posterior (as at {values})"
        return (
            f"{place} was never reached: {self.solver!r} fails there, which counts as a "
            f"likelihood of zero; {self.remedy}",
        )


class PosteriorPoints(NamedTuple):
    """Points of a posterior, and the log-likelihood by which moves from them are judged.

    solver: The one of the posterior.
    theta, weights: (n, d) and (n,), in unconstrained coordinates.
    log_likelihood: By this solver, and by the same with other steps.
    """

    problem: Problem
    solver: Solver
    likelihood: str
    theta: Array
    weights: Array
    log_likelihood: LogLikelihoodBy

    def even(self, n: int) -> Array:
        """Return evenly chosen ones, (n, d)."""
        positions = (np.arange(n) + 0.5) / n * self.weights.sum()
        chosen = np.searchsorted(np.cumsum(self.weights), positions)
        return self.theta[np.minimum(chosen, len(self.theta) - 1)]


def wall_of(points: PosteriorPoints, thorough: bool = True) -> Wall | None:
    """Return the wall at which a posterior ends; None where the solver puts up none.

    points: `POINTS` of them are taken, and where these find a wall `AGAIN` times as many.
    thorough: Whether wide moves are made, too; without finer steps to go on with they always are.
    """
    problem, solver, log_likelihood = points.problem, points.solver, points.log_likelihood
    following = solver_beyond_wall(problem, solver)
    thorough = thorough or following is None
    levels = list(_finer(problem, solver, LIKELIHOODS[points.likelihood].divides))
    for n in (POINTS if thorough else FEWER, AGAIN * POINTS):
        found = Moves(problem, points.even(n), log_likelihood(solver), thorough)
        near, wide = np.split(np.flatnonzero(found.refused), [found.refused[:n].sum()])
        if levels and len(near):
            found.judge(log_likelihood(levels[0]), near)
        if levels and len(wide):
            _judge_wide(problem, found, wide, levels, log_likelihood)
        if not found.pass_wall():
            return None
    return Wall(
        solver, following, _bound(problem, found.inside, found.beyond),
        _example(problem.names, found.inside, found.beyond), _remedy(problem, solver),
    )  # fmt: skip


def share_cut_off(points: PosteriorPoints, finer: Solver) -> float:
    """Return the share of near moves that the solver refuses and a finer one accepts.

    Where the solver's error grows along a tail, no particle is there to show it: they end where
    it begins.
    """
    theta = points.even(min(COMPARED, max(POINTS, len(points.theta) // 2)))
    found = Moves(points.problem, theta, points.log_likelihood(points.solver), False)
    refused = np.flatnonzero(found.lost > REFUSED)
    gained = found.accepted_by(points.log_likelihood(finer), refused)
    gained -= np.exp(-found.lost[refused])
    return float(np.maximum(gained, 0.0).sum()) / len(theta)


class Moves:
    """Moves from points of a posterior, with what they lose by its solver and by others.

    Near ones are the difference of two other points (ter Braak 2006, Statistics and Computing 16),
    for they follow any correlation; wide ones take one parameter after the other from the prior.
    """

    def __init__(
        self,
        problem: Problem,
        theta: Array,
        log_likelihood: Callable[[Array], Array],
        with_wide: bool,
    ) -> None:
        self.prior, (n, d) = problem.prior, theta.shape
        rng, each = np.random.default_rng(n), np.arange(n)
        first, second = (each + rng.permutation(n - 1)[:2, None] + 1) % n
        near = theta + 2.38 / np.sqrt(2 * d) * (theta[first] - theta[second])
        self.column, wide = each % d, theta.copy()
        wide[each, self.column] = prior_draws(problem)[each, self.column]
        self.inside = self._natural(theta)
        self.values = self._natural(np.concatenate([near, wide] if with_wide else [near]))
        at_points = np.nan_to_num(log_likelihood(self.inside), nan=-np.inf)
        # A draw from the prior is accepted by the likelihood alone.
        with np.errstate(all="ignore"):
            self._change = self.prior.log_density(near) - self.prior.log_density(theta)
        base = np.concatenate([at_points - self._change, at_points])
        self._base = base[: len(self.values)]
        self.lost = self._loss(log_likelihood, np.arange(len(self.values)))
        self.refused = np.isfinite(self._base) & (self.lost > FAR)
        self.accepted = np.zeros(len(self.values))

    def _natural(self, theta: Array) -> Array:
        with np.errstate(all="ignore"):
            return self.prior.natural(theta)

    def _loss(self, log_likelihood: Callable[[Array], Array], some: NDArray[np.int64]) -> Array:
        with np.errstate(all="ignore"):
            loss = self._base[some] - log_likelihood(self.values[some])
        return np.where(np.isfinite(loss), loss, np.inf)

    def judge(self, log_likelihood: Callable[[Array], Array], some: NDArray[np.int64]) -> Array:
        """Judge moves that were refused by another solver; return what they lose by it."""
        loss = self._loss(log_likelihood, some)
        self.accepted[some] = np.maximum(self.accepted[some], np.exp(-np.maximum(loss, 0.0)))
        return loss

    def accepted_by(
        self, log_likelihood: Callable[[Array], Array], some: NDArray[np.int64]
    ) -> Array:
        """Probabilities with which near moves are accepted by another solver at both ends."""
        ends = np.concatenate([self.inside[some], self.values[some]])
        with np.errstate(all="ignore"):
            begin, end = np.split(log_likelihood(ends), 2)
            gain = end + self._change[some] - begin
        return np.exp(np.minimum(np.where(np.isnan(gain), -np.inf, gain), 0.0))

    def pass_wall(self) -> bool:
        """True if enough of the near moves are accepted, or of the wide ones of a parameter."""
        near, wide = np.split(self.accepted, [len(self.inside)])
        shares = [near.mean()]
        if len(wide):
            shares += [wide[self.column == j].mean() for j in np.unique(self.column)]
        return max(shares) > MISSING

    @property
    def beyond(self) -> Array:
        """Values of the moves that are rather accepted than not, (B, d)."""
        return self.values[self.accepted >= min(0.5, self.accepted.max())]


def _judge_wide(
    problem: Problem,
    found: Moves,
    some: NDArray[np.int64],
    levels: list[Solver],
    log_likelihood: LogLikelihoodBy,
) -> None:
    """Judge wide moves by finer and finer steps, and all by the stiff solver if none help."""
    left, lost = some, found.lost[some]
    for finer in levels:
        now = found.judge(log_likelihood(finer), left)
        unstable = ~(now < np.maximum(WORSE * lost, FAR))
        left, lost = left[unstable], now[unstable]
        if len(left) < UNSTABLE_SHARE * len(found.inside):
            return
        every = -(-len(left) // int(FEW * len(found.inside)))
        left, lost = left[::every], lost[::every]
    stiff = None if len(levels) < LEVELS or levels[0].adaptive else stiff_solver(problem)
    if stiff is not None:
        compiled = build_likelihood(problem, stiff.begun())
        found.judge(lambda values: compiled.evaluate(values, compiled.n_samples)[1], some)


def _finer(problem: Problem, solver: Solver, divides: bool) -> Iterator[Solver]:
    """Yield the same solver finer and finer, beyond what ``steps="auto"`` takes, at bearable cost.

    Steps that are too many for an interval are those of a shorter one, where it may be divided.
    """
    longest = max(float(np.diff(record.t).max()) for record in problem.records)
    steps, interval = int(solver.steps), solver.interval or longest
    level = 0
    while level < LEVELS or steps * longest / interval < MAX_STEPS:
        level += 1
        finer = solver.refined(FINER)
        if finer is None and (solver.adaptive or not divides):
            return
        if finer is None:
            interval /= FINER
            finer = solver.divided(interval)
        steps = int(finer.steps)
        if steps * longest / interval * problem.n_samples > MOST_STEPS:
            return
        yield finer
        solver = finer


def _bound(problem: Problem, inside: Array, beyond: Array) -> Bound | None:
    """Bound of a parameter that parts values (B, d) from those inside; None without one."""
    bounds = np.stack([inside.min(axis=0), inside.max(axis=0)])
    passed = np.stack([beyond < bounds[0], beyond > bounds[1]]).mean(axis=1)
    if passed.max() < PASSED:
        return None
    above, j = np.unravel_index(int(passed.argmax()), passed.shape)
    value = float(bounds[above, j])
    with np.errstate(all="ignore"):
        prior = problem.prior.natural(prior_draws(problem))[:, j]
    share = np.mean(prior > value if above else prior < value)
    return Bound(problem.names[j], value, bool(above), float(share))


def _example(names: Sequence[str], inside: Array, beyond: Array) -> dict[str, float]:
    """Parameters of one of the values (B, d) that are farthest from the mean of those inside."""
    scale = np.maximum(inside.std(axis=0), np.finfo(float).tiny)
    places = np.abs(beyond - inside.mean(axis=0)) / scale
    middle = int(np.argsort(places.max(axis=1))[len(beyond) // 2])
    farthest = np.sort(np.argsort(-places[middle])[:TELLING])
    return {names[int(j)]: float(beyond[middle, j]) for j in farthest}


def _remedy(problem: Problem, solver: Solver) -> str:
    stiff = None if solver.adaptive else stiff_solver(problem)
    if stiff is None:
        return "raise steps, or narrow the prior"
    return f"take solver=smcpn.{stiff!r}, or raise steps"
