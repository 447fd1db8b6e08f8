"""The experiments of the Fenrir paper, ours against the published numbers.

``--figures FOLDER`` draws them as well
(``docs/figures`` for the documentation). ``--quick`` takes few runs and a solver of order 2: it
shows that everything runs: medians of a hundred records are no target for two of them.

Source: Tronarp, Bosch and Hennig, *Fenrir: Physics-Enhanced Regression for Initial Value Problems*
(ICML 2022).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from benchmarks.executors import local
from benchmarks.papers.fenrir_figures import (
    inference_figure,
    pendulum_figure,
    seir_figure,
    selection_figure,
)
from benchmarks.papers.fenrir_fits import (
    FENRIR,
    METHODS,
    SWEEP_SEED,
    WITHIN,
    Fit,
    Plan,
    compile_all,
    fits,
    maximised,
)
from benchmarks.papers.fenrir_published import (
    PENDULUM,
    PENDULUM_STARTS,
    QUANTILES,
    SEIR,
    SELECTION,
    TRAJECTORY_ERRORS,
    median,
)
from benchmarks.papers.fenrir_settings import SETTINGS
from benchmarks.rows import Row, at_least, at_most, equal
from benchmarks.study import Picture, Result, command, study

FULL, QUICK = Plan(), Plan(runs=2, order=2, lengths=21)
ENOUGH = 24
"""Records from which a median is judged."""
OUTLIER = 1.0
RESAMPLES = 1000
NAMES = tuple(TRAJECTORY_ERRORS)
TRUE = "M11"


def judged(
    name: str, value: float, published: float, plan: Plan, method: str, note: str = ""
) -> Row:
    """Return the row of a median beside the paper's, which that of Fenrir is judged by."""
    note = "; ".join(part for part in (f"paper {published:.4g}", note) if part)
    if method != FENRIR or plan.runs < ENOUGH:
        return Row(name, value, note=note)
    return at_most(name, value, published, note)


@study("inference", full=FULL, quick=None)
def inference(plan: Plan) -> Iterator[Result]:
    """Section 5.1: trajectory errors of Fenrir and of least squares, two systems and two noises."""
    compile_all(NAMES[::2], plan.order)  # Both noises share a kernel.
    found = {name: {m: fits(name, m, plan) for m in METHODS} for name in NAMES}
    for name in NAMES:
        for method in METHODS:
            yield from _errors(name, method, found[name][method], plan)
    errors = {
        name: {method: [one.error for one in of] for method, of in both.items()}
        for name, both in found.items()
    }
    yield Picture("fenrir_inference", partial(inference_figure, errors))


def _errors(name: str, method: str, found: Sequence[Fit], plan: Plan) -> Iterator[Row]:
    errors, first = [one.error for one in found], [one.first_error for one in found]
    begin, strayed = f"{name}, {method}", sum(error > OUTLIER for error in first)
    note = (
        f"standard error {_standard_error(errors):.2g}; "
        f"first start alone: median {np.median(first):.3g}, {strayed} above {OUTLIER:g}; "
        f"median {np.median([one.evaluations for one in found]):.0f} evaluations"
    )
    middle, published = float(np.median(errors)), median(name, method)
    yield judged(f"{begin}: median tRMSE", middle, published, plan, method, note)
    shown = " ".join(f"{one:.3g}" for one in np.quantile(errors, QUANTILES))
    paper = " ".join(f"{one:.3g}" for one in TRAJECTORY_ERRORS[name][method])
    yield Row(f"{begin}: tRMSE 5 25 50 75 95 %", shown, note=f"paper {paper}")
    outliers, note = sum(error > OUTLIER for error in errors), f"largest {max(errors):.3g}"
    text = f"{begin}: outliers above {OUTLIER:g}"
    if method == FENRIR and plan.runs >= ENOUGH:
        yield at_most(text, outliers, 0, note)
    else:
        yield Row(text, outliers, note=note)


def _standard_error(errors: Sequence[float]) -> float:
    """Of their median, by the bootstrap: other noise would have given another."""
    again = np.random.default_rng(0).choice(errors, (RESAMPLES, len(errors)))
    return float(np.std(np.median(again, axis=1)))


@study("selection", full=FULL, quick=None)
def selection(plan: Plan) -> Iterator[Result]:
    """Section 5.2: which of four models, fitted to the same records, has the highest likelihood."""
    compile_all(tuple(SELECTION), plan.order)
    nll = {name: np.array([one.nll for one in fits(name, FENRIR, plan)]) for name in SELECTION}
    others = np.min([values for name, values in nll.items() if name != TRUE], axis=0)
    chosen = int(np.sum(nll[TRUE] < others))
    note = f"paper 100 of 100; closest: {np.min(others - nll[TRUE]):.1f} nats"
    yield equal(f"{TRUE} chosen, of {plan.runs}", chosen, plan.runs, note)
    for name, values in nll.items():
        note = f"paper {SELECTION[name]:.4g}; from {values.min():.1f} to {values.max():.1f}"
        yield Row(f"{name}: median negative log-likelihood", float(np.median(values)), note=note)
    yield Picture("fenrir_selection", partial(selection_figure, nll))


@study("seir", full=FULL, quick=None)
def seir(plan: Plan) -> Iterator[Result]:
    """Section 5.3: an epidemic of which the infected and the recovered are seen, from day 30."""
    compile_all(("seir",), plan.order)
    setting = SETTINGS["seir"]
    states = {f"{s}(0)": v for s, v in zip(setting.ode.states, setting.state, strict=True)}
    truth = states | dict(setting.truth)
    errors: dict[str, dict[str, list[float]]] = {}
    for method in METHODS:
        found = fits("seir", method, plan)
        errors[method] = {
            name: [abs(one.values[name] - truth[name]) for one in found] for name in SEIR[method]
        }
        for name, values in errors[method].items():
            text, middle = f"{method}: median absolute error of {name}", float(np.median(values))
            yield judged(text, middle, SEIR[method][name], plan, method)
    yield Picture("fenrir_seir", partial(seir_figure, errors))


@study("pendulum", full=FULL, quick=QUICK)
def pendulum(plan: Plan) -> Iterator[Result]:
    """Section 5.4: a fast oscillation, from lengths that are wrong by up to a factor of 100."""
    compile_all(("pendulum",), plan.order)
    truth, ends = SETTINGS["pendulum"].truth["length"], {}
    for method in METHODS:
        maximum = maximised("pendulum", method, plan.order, SWEEP_SEED, plan.lengths)
        column = maximum.names.index("length")
        start, end = np.array([(one.start[column], one.values[column]) for one in maximum.starts]).T
        ends[method] = start, end
        found = int(np.sum(np.abs(end - truth) < WITHIN))
        text = f"{method}: starts recovered, of {plan.lengths}"
        note = f"paper {PENDULUM[method]} of {PENDULUM_STARTS}; {maximum.evaluations} evaluations; "
        note += f"highest end at length {maximum['length']:.4f}"
        # A sweep of fewer starts is held to the same share.
        share = PENDULUM[method] * plan.lengths / PENDULUM_STARTS
        yield at_least(text, found, share, note) if method == FENRIR else Row(text, found, "", None,
                                                                              note)  # fmt: skip
    yield Picture("fenrir_pendulum", partial(pendulum_figure, ends, truth))


if __name__ == "__main__":
    sys.exit(command(__name__, executor=local()))
