"""The experiments of the DALTON paper, ours against its statements.

``fn``, ``counts`` and ``lorenz`` are posteriors (Figures 1, 2, 4), ``starts`` is Figure 5, and
``coarse`` looks closer at the longest step of FitzHugh-Nagumo. Scores are truth less mean in
posterior standard deviations, in the coordinates of the search. ``--quick`` takes `fn` at one
step length, and two starts. Settings and published statements: `benchmarks.papers.dalton_settings`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.executors import each
from benchmarks.papers.dalton_figures import posterior_figure, starts_figure
from benchmarks.papers.dalton_posteriors import (
    Marginals,
    fitted,
    fitzhugh_nagumo_posteriors,
    lorenz_posteriors,
)
from benchmarks.papers.dalton_problems import (
    counts_study,
    fitzhugh_nagumo_study,
    lorenz_study,
)
from benchmarks.papers.dalton_settings import (
    CONVERGED_AT,
    CONVERGED_WITHIN,
    GRIDS,
    HALF_WIDTH,
    PUBLISHED_C,
    PUBLISHED_STARTS,
    RUNGE_KUTTA_STEPS,
    STARTS,
)
from benchmarks.papers.dalton_starts import (
    Ends,
    Sweep,
    ends_about_truth,
    multi_start,
    newton_cg_ends,
    sweep,
)
from benchmarks.rows import Row, equal
from benchmarks.study import Picture, Result, command, study
from smcpn.model.solver import RK4

DRAWS_OF_PRIOR = 20


def posterior_row(m: Marginals) -> Row:
    """Scores of all parameters, and those that are not covered."""
    name = f"{m.likelihood} {m.step} {m.kind}".replace("  ", " ")
    height = f"log {'evidence' if m.kind == 'sampled' else 'density'} {m.log_density:.6g}"
    if not m.exists:
        return Row(name, f"none: {m.reason}; {height}")
    missed = [parameter for parameter, covered in m.covers.items() if not covered]
    verdict = f"misses {' '.join(missed)}" if missed else "covers all"
    scores = " ".join(f"{parameter} {score:+.1f}" for parameter, score in m.scores.items())
    return Row(name, f"{verdict}; {scores}; {height}; {m.seconds:.1f} s")


def convergence_rows(posteriors: list[Marginals]) -> Iterable[Row]:
    """How far from Runge-Kutta's posterior each Laplace posterior is."""
    exact = posteriors[0]
    for m in posteriors[1:]:
        if not (m.kind == "Laplace" and m.exists and exact.exists):
            continue
        shift, spread = m.beside(exact)
        paper, met = "", None
        if m.step == CONVERGED_AT[m.study.name] and m.likelihood != "filtering":
            paper, met = "as RK", max(shift, spread) <= CONVERGED_WITHIN
        ours = f"means within {shift:.2f} sd, sd within {100 * spread:.0f} %"
        yield Row(f"{m.likelihood} {m.step} against RK", ours, paper, met)


def laplace_row(posteriors: list[Marginals]) -> Iterable[Row]:
    """Whether the Laplace posterior is that of the sampler, at the same step length."""
    for one in posteriors:
        for other in posteriors:
            pair = (one.kind, other.kind) == ("Laplace", "sampled") and one.exists and other.exists
            if pair and (one.likelihood, one.step) == (other.likelihood, other.step):
                shift, spread = one.beside(other)
                ours = f"means within {shift:.2f} sd, sd within {100 * spread:.0f} %"
                name = f"{one.likelihood} {one.step} Laplace against sampled"
                yield Row(name, ours)


def told(posteriors: list[Marginals]) -> Iterator[Result]:
    """Rows and figure of a study of posteriors."""
    name = posteriors[0].study.name
    yield from map(posterior_row, posteriors)
    if name in CONVERGED_AT:
        yield from convergence_rows(posteriors)
    yield from laplace_row(posteriors)
    yield Picture(f"dalton_{name}", partial(posterior_figure, posteriors))


@study("fn")
def fn(quick: bool) -> Iterator[Result]:
    """Section 5.1."""
    grids = GRIDS["fn"][1:2] if quick else GRIDS["fn"]
    likelihoods = ("dalton",) if quick else ("dalton", "fenrir", "filtering")
    study = fitzhugh_nagumo_study()
    yield from told(list(fitzhugh_nagumo_posteriors(study, likelihoods, grids, quick)))


@study("counts", quick=None)
def counts(quick: bool) -> Iterator[Result]:
    """Section 5.2: Fenrir takes Gaussian noise only."""
    likelihoods = ("dalton", "filtering")
    found = fitzhugh_nagumo_posteriors(counts_study(), likelihoods, GRIDS["counts"], quick)
    yield from told(list(found))


@study("lorenz", quick=None)
def lorenz(quick: bool) -> Iterator[Result]:
    """Section 5.3, first study."""
    posteriors = list(lorenz_posteriors(lorenz_study(), GRIDS["lorenz"], quick))
    yield from told(posteriors)
    for m in posteriors:
        if (m.likelihood, m.kind) == ("dalton", "sampled"):
            covered = m.exists and all(m.covers.values())
            yield equal(f"DALTON {m.step} covers all, sampled", "yes" if covered else "no", "yes")


@study("starts", quick=None)
def starts(_: bool) -> Iterator[Result]:
    """Section 5.3, second study."""
    cases = [(name, given) for name in ("dalton", "filtering", "fenrir") for given in (True, False)]
    sweeps = [sweep(*case, STARTS) for case in [*cases, ("classical", False)]]
    yield from map(sweep_row, sweeps)
    yield Picture("dalton_starts", partial(starts_figure, sweeps))
    yield coverage_row(sweeps[1])
    best = multi_start("dalton", DRAWS_OF_PRIOR)
    ours = f"{best.agreeing} of {DRAWS_OF_PRIOR}; {best.seconds:.0f} s"
    yield Row("dalton, diffusion known, from draws of the prior: at the highest", ours)


def coverage_row(one: Sweep) -> Row:
    """Whether the Laplace posterior at the highest end covers the truth."""
    inside = [abs(score) <= HALF_WIDTH for score in one.scores.values()]
    covered = bool(inside) and all(inside)
    name = f"{one.likelihood}, diffusion known: posterior at the highest"
    return Row(name, "covers all" if covered else "misses", "covers all", covered)


def sweep_row(one: Sweep) -> Row:
    """How many starts found the truth."""
    total, found = len(one.found), int(one.found.sum())
    known = "learned" if one.learned else "known"
    ours = f"{found} of {total}; {one.maximum.seconds:.1f} s"
    if one.scores:
        ours += "; " + " ".join(f"{name} {score:+.1f}" for name, score in one.scores.items())
    if one.false_convergence:
        ours += f"; {one.false_convergence} converged elsewhere"
    paper, met = "fails far from it", found < total
    if one.likelihood == "filtering":
        paper, met = "", None
    elif PUBLISHED_STARTS[one.likelihood] is not None:
        paper, met = f"{total} of {total}", found == total
        if not one.learned:
            # The paper's code learns it.
            paper, met = "", None
    return Row(f"{one.likelihood}, diffusion {known}: truth found", ours, paper, met)


@study("coarse", full=64, quick=None)
def coarse(searches: int) -> Iterator[Result]:
    """FitzHugh-Nagumo at dt = 1/4, where the posterior has many maxima."""
    study, grid = fitzhugh_nagumo_study(), GRIDS["fn"][0]
    yield from each(newton_row, PUBLISHED_C)
    start = fitted(study, "classical", RK4(RUNGE_KUTTA_STEPS), "")[1]
    if start is None:
        return
    points = start.draw(searches, seed=0)
    for ends in each(partial(_ends, points), ("dalton", "fenrir", "filtering")):
        ours = f"{ends.covering} of {len(points)}; {ends.modes} different ends"
        name = f"{ends.likelihood} {grid.label}: searches from RK's posterior that cover c"
        yield Row(name, ours)


def _ends(points: NDArray[np.float64], likelihood: str) -> Ends:
    return ends_about_truth(fitzhugh_nagumo_study(), likelihood, GRIDS["fn"][0], points, "c")


def newton_row(likelihood: str) -> Row:
    """Whether most searches by the paper's own method, from the truth or nearly, cover c."""
    grid = GRIDS["fn"][0]
    ends = newton_cg_ends(fitzhugh_nagumo_study(), likelihood, grid, "c")
    total, published = len(ends.scores), PUBLISHED_C[likelihood]
    first = "no maximum" if np.isnan(ends.scores[0]) else f"{ends.scores[0]:+.1f}"
    name = f"{likelihood} {grid.label}: Newton-CG from the truth, third derivative 0: cover c"
    ours = f"{ends.covering} of {total}, {ends.maxima} at a maximum; the first: {first}"
    covers = 2 * ends.covering > total
    return Row(name, ours, "covers" if published else "misses", covers is published)


if __name__ == "__main__":
    sys.exit(command(__name__))
