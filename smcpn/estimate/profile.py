"""`smcpn.profile`: how far the data bound each parameter, the others adapted to each of its values.

The profile of a parameter is the highest log density that the others reach where it is held,

    l(theta_j) = max over the others of log p(y | theta) + log p(others),

its own prior left out, so that it is flat where the data say nothing. Of a maximum of the
likelihood the priors of the others are left out too, which is the profile likelihood. The interval
is where it is less than half the 95 % quantile of chi^2 with one degree of freedom below its top.

Raue, A., et al. (2009). Structural and practical identifiability analysis of partially observed
dynamical models by exploiting the profile likelihood. Bioinformatics 25, 1923-1929.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.arguments import checked
from smcpn.base.late_binding import late_bound
from smcpn.base.status import status
from smcpn.base.tables import Card, Table, WithCard, fact_lines, table_text, words
from smcpn.errors import InputError, counted, listed, one_of
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.search import chosen_search
from smcpn.likelihood.gradient import LogLikelihood
from smcpn.likelihood.solver_choice import finer_solver
from smcpn.model.learned_scales import learned_scales
from smcpn.results.laplace import Laplace
from smcpn.results.maximum import POSTERIOR, Maximum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

DROP = 1.9207
"""Half the 95 % quantile of chi^2 with one degree of freedom: the drop that ends an interval."""
ENOUGH = 3.0
"""Drop at which a profile ends."""
SMALL, LARGE = 0.3, 1.2
"""Drop of a step below which the next is twice as long, and above which it is taken again, half
as long."""
STEPS, ITERATIONS = 40, 200
"""Most points on a side, and most iterations of the search at each."""
FINEST = 2.0**-8
"""Shortest step, in first ones."""
WIDEST, BEYOND = 8, 6.0
"""Fewest steps to the end of a profile: that of the prior, or so many standard deviations beyond a
maximum that is outside of it."""
PRIOR, DIVERGES = "the end of its prior", "where the solution diverges"
UNFINISHED = "as far as it was followed"
TAIL, DRAWS = 0.001, 4096
"""Share of the prior beyond the ends of a profile, by so many draws."""
HIGHER, COARSE = 0.1, 0.5
"""Nats above the maximum from which a profile is told to have found another one, and by which
finer steps may move it."""


@checked
@dataclass(frozen=True)
class Profile:
    """The profile of one parameter.

    values: (K,), of the parameter, ascending.
    drop: (K,), how far the log density is below its top there.
    others: (K, d), all parameters there.
    low, high: Ends of the 95 % interval; nan where the profile does not fall so far.
    reached: Where it ends below and above.
    highest: The largest log density met, the prior of the parameter itself included.
    """

    name: str
    values: Array
    drop: Array
    others: Array
    low: float
    high: float
    reached: tuple[str, str]
    highest: float

    @property
    def interval(self) -> str:
        """The interval, and where the data bound it on one side only, as text."""
        if np.isnan(self.low) and np.isnan(self.high):
            return "not bounded by the data"
        if np.isnan(self.low):
            return f"below {self.high:.4g}"
        return (
            f"above {self.low:.4g}" if np.isnan(self.high) else f"{self.low:.4g} to {self.high:.4g}"
        )

    @property
    def open_ends(self) -> str:
        """Ends at which the profile has not fallen far enough, and why; empty where it falls."""
        told = [
            f"{self.drop[k]:.2g} lower at {self.values[k]:.4g}, {reached}"
            for k, end, reached in zip((0, -1), (self.low, self.high), self.reached, strict=True)
            if np.isnan(end)
        ]
        return "; ".join(told)


@checked
@dataclass(frozen=True, repr=False)
class Profiles(WithCard):
    """Profiles of some or all parameters; ``profiles["k"]`` is that of one.

    Attributes
    ----------
    model : str
        Name of the ODE.
    rows : tuple of Profile
    warnings : tuple of str
        Of profiles that rise above the maximum.
    """

    model: str
    rows: tuple[Profile, ...]
    warnings: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Profile:
        rows = {row.name: row for row in self.rows}
        return rows[one_of("name", name, rows)]

    @override
    def card(self) -> Card:
        return Card(replace(self._table, notes=self.warnings))

    @override
    def picture(self) -> Figure:
        return self.plot()

    def summary(self) -> str:
        """The intervals, and where there are none how far the profile falls, as text."""
        warnings = fact_lines((), self.warnings)
        return "\n".join([table_text(self._table), *warnings])

    @property
    def _table(self) -> Table:
        return Table(
            (words("parameter"), words("95 % interval"), words("log density")),
            [[row.name, row.interval, row.open_ends] for row in self.rows],
            f"Profiles of '{self.model}': {counted(len(self.rows), 'parameter')}",
        )

    @late_bound
    def plot(self) -> Figure:
        """Plot every profile with its interval, and the drop that ends it."""
        ...


@checked
def profile(
    result: Maximum | Laplace,
    names: str | Sequence[str] | None = None,
    *,
    progress: bool | None = None,
) -> Profiles:
    """Return how far the data bound parameters: the log density along each, the others adapted.

    It tells a parameter that the data bound from one that they do not, whose profile is flat up to
    the end of its prior, and shows what is not Gaussian. The search of the maximum goes on from
    point to point; the priors of the other parameters count where they did in it, so that
    ``maximise(problem, target="likelihood")`` has the profile likelihood (Raue et al. 2009).

    Parameters
    ----------
    result : Maximum or Laplace
    names : str or sequence of str, optional
        Parameters; by default all.
    progress : bool, optional
        A line of status on standard error, as of `maximise`.

    Raises
    ------
    InputError
        If there is no maximum, no parameter or none of that name, or scales of the prior are
        learned, of which a joint density has no maximum.

    Examples
    --------
    >>> profiles = smcpn.profile(smcpn.laplace(problem))  # doctest: +SKIP
    >>> profiles["k"].interval  # doctest: +SKIP
    """
    maximum = result.maximum if isinstance(result, Laplace) else result
    if not maximum.found:
        raise InputError("there is no maximum to begin at: every search diverges")
    if learned_scales(maximum.problem) is not None:
        raise InputError(
            "the problem learns scales of its prior, given which a profile has no maximum: fix them"
        )
    wanted = (names,) if isinstance(names, str) else maximum.names if names is None else names
    if not wanted:
        raise InputError(
            f"names is empty: choose of {listed(maximum.names)}, or leave it out for all",
            argument="names",
        )
    if unknown := [name for name in wanted if name not in maximum.names]:
        raise InputError(
            f"no parameter '{unknown[0]}': choose of {listed(maximum.names)}", argument="names"
        )
    with status(progress) as say:
        rows = list[Profile]()
        for name in wanted:
            say(f"profile of {name}")
            rows.append(_Along(maximum, maximum.names.index(name)).profile())
    return Profiles(maximum.problem.ode.name, tuple(rows), _warnings(maximum, rows))


def _warnings(maximum: Maximum, rows: Sequence[Profile]) -> tuple[str, ...]:
    """Say that a profile is one of the solver's steps, or has led higher than the maximum."""
    moved = {row.name: _moved_by_finer_steps(maximum, row) for row in rows}
    worst = max(moved, key=lambda name: moved[name])
    if moved[worst] > COARSE:
        return (
            f"twice as many steps of the solver move the profile of {worst} by {moved[worst]:.2g}: "
            f"give the maximum finer steps than {maximum.solver.resolution}",
        )
    highest = max(rows, key=lambda row: row.highest)
    higher = highest.highest - maximum.log_density
    if higher < HIGHER:
        return ()
    place = highest.values[int(highest.drop.argmin())]
    return (
        f"the profile of {highest.name} leads {higher:.2g} higher than the maximum, about "
        f"{highest.name} = {place:.4g}: search again with more starts",
    )


def _moved_by_finer_steps(maximum: Maximum, row: Profile) -> float:
    """Distance that twice as many steps move a profile against its top; 0 if they cost too much."""
    finer = finer_solver(maximum.problem, maximum.solver)
    if finer is None:
        return 0.0
    again = LogLikelihood(maximum.problem, maximum.likelihood, finer)
    points = row.others[row.drop < ENOUGH]
    with np.errstate(all="ignore"):
        change = again(points) - maximum.function(points)
    change = change - change[row.drop[row.drop < ENOUGH].argmin()]
    return float(np.nanmax(np.abs(change), initial=0.0))


@dataclass(frozen=True)
class _Side:
    """Points on the way from a maximum to one side, their full log density, and how they end."""

    theta: Array
    log_density: Array
    reached: str


class _Along:
    """The way along one parameter, column j, from a maximum to both sides."""

    def __init__(self, maximum: Maximum, j: int) -> None:
        self.density = LogDensity(maximum.function, maximum.target)
        self.name, self.top, self.height, self.j = (
            maximum.names[j], maximum.theta, maximum.log_density, j,
        )  # fmt: skip
        self._search = chosen_search(maximum.method, maximum.function).nearer()
        self._others = [k for k in range(len(self.top)) if k != j]

    def profile(self) -> Profile:
        """Follow it to both sides until it has fallen, or the prior or the solution ends."""
        prior, j = self.density.prior, self.j
        below, above = (self._side(step, end) for step, end in self._ways())
        theta = np.array([*below.theta[::-1], self.top, *above.theta])
        height = np.array([*below.log_density[::-1], self.height, *above.log_density])
        level = self._without_own(theta, height)
        values, reached = prior.natural(theta), (below.reached, above.reached)
        if values[-1, j] < values[0, j]:
            theta, values, level = theta[::-1], values[::-1], level[::-1]
            reached = (above.reached, below.reached)
        drop, top = level.max() - level, int(level.argmax())
        ends = [crossing(theta[top::-1, j], drop[top::-1]), crossing(theta[top:, j], drop[top:])]
        points = np.tile(self.top, (2, 1))
        points[:, j] = ends
        low, high = prior.natural(points)[:, j].tolist()
        return Profile(self.name, values[:, j], drop, values, low, high, reached, height.max())

    def _without_own(self, theta: Array, log_density: Array) -> Array:
        """Leave the prior of the parameter itself out of log densities (K,)."""
        if self.density.target != POSTERIOR:
            return log_density
        return log_density - self.density.prior.log_densities(theta)[:, self.j]

    def _ways(self) -> list[tuple[float, float]]:
        """First step, and end of the way, to either side."""
        j, density = self.j, self.density
        _, _, (information,) = density.expansion(self.top[None, :])
        with np.errstate(all="ignore"):
            sd = float(np.sqrt(np.linalg.pinv(information, hermitian=True)[j, j]))
        sd = min(sd, density.scale[j]) if 0.0 < sd < np.inf else density.scale[j]
        draws = density.prior.sample(np.random.default_rng(0), DRAWS)[:, j]
        low, high = np.quantile(draws, (TAIL, 1.0 - TAIL))
        least, most = density.bounds[j]
        return [
            (-sd / 2, max(min(low, self.top[j] - BEYOND * sd), least)),
            (sd / 2, min(max(high, self.top[j] + BEYOND * sd), most)),
        ]

    def _side(self, step: float, end: float) -> _Side:
        """Follow it in steps of about half a nat until it has fallen, or what can be known ends."""
        points, heights = [self.top], [self.height]
        levels = [float(self._without_own(self.top[None, :], np.array([self.height]))[0])]
        shortest, longest, reached = abs(step) * FINEST, abs(end - self.top[self.j]) / WIDEST, PRIOR
        for _ in range(STEPS):
            left = end - points[-1][self.j]
            if left * step <= 0.0 or max(levels) - levels[-1] > ENOUGH:
                break
            step = float(np.copysign(min(abs(step), abs(left), max(longest, shortest)), step))
            theta, height = self._highest(points, points[-1][self.j] + step)
            level = float(self._without_own(theta[None, :], np.array([height]))[0])
            fallen = levels[-1] - level
            if not fallen < LARGE and abs(step) > shortest:
                step /= 2.0
                continue
            if not np.isfinite(level):
                reached = DIVERGES
                break
            points, heights, levels = [*points, theta], [*heights, height], [*levels, level]
            step *= 2.0 if fallen < SMALL else 1.0
        else:
            reached = UNFINISHED
        return _Side(np.array(points[1:]), np.array(heights[1:]), reached)

    def _highest(self, points: Sequence[Array], at: float) -> tuple[Array, float]:
        """Return the highest point where the parameter is held, from those before, extrapolated."""
        start = points[-1].copy()
        if len(points) > 1:
            way = points[-1] - points[-2]
            start += way * (at - start[self.j]) / way[self.j]
            start = np.clip(start, *self.density.bounds.T)
        start[self.j] = at
        if not self._others:
            return start, float(self.density.value(start[None, :])[0])
        (found,) = self._search(self.density, start[None, :], [self._others], ITERATIONS)
        return found.theta, found.log_density


def crossing(theta: Array, drop: Array) -> float:
    """Return where a profile falls by `DROP` for the last time, linear in its root; or nan."""
    k = int(np.flatnonzero(drop < DROP)[-1]) + 1
    if k == len(drop):
        return float("nan")
    (a, b), (before, after) = np.sqrt(drop[k - 1 : k + 1]), theta[k - 1 : k + 1]
    return float(before + (after - before) * (np.sqrt(DROP) - a) / (b - a))
