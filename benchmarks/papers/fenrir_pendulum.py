"""Section 5.4: a fast oscillation, from lengths that are wrong by up to a factor of 100."""

from __future__ import annotations

import numpy as np

from benchmarks.papers.fenrir_figures import pendulum_figure
from benchmarks.papers.fenrir_fits import FENRIR, METHODS, Plan, maximised
from benchmarks.papers.fenrir_outcome import Outcome, beside
from benchmarks.papers.fenrir_published import PENDULUM
from benchmarks.papers.fenrir_settings import SETTINGS

NAME, LENGTH = "pendulum", "length"
SEED = 1234
WITHIN = 1e-2
PUBLISHED_STARTS = 161


def pendulum(plan: Plan) -> Outcome:
    """Search from every length of the sweep, all in one batch on one record."""
    truth = SETTINGS[NAME].truth[LENGTH]
    ends, rows = {}, []
    for method in METHODS:
        maximum = maximised(NAME, method, plan.order, SEED, plan.lengths)
        column = maximum.names.index(LENGTH)
        start, end = np.array([(one.start[column], one.values[column]) for one in maximum.starts]).T
        ends[method] = start, end
        found = int(np.sum(np.abs(end - truth) < WITHIN))
        # A sweep of fewer starts is held to the same share.
        target = PENDULUM[method] * plan.lengths / PUBLISHED_STARTS
        rows.append(
            beside(
                figure=f"{method}: starts recovered, of {plan.lengths}",
                ours=str(found),
                published=f"{PENDULUM[method]} of {PUBLISHED_STARTS}",
                target=f">= {target:.0f}" if method == FENRIR else "",
                met=found >= target if method == FENRIR else None,
                note=f"{maximum.evaluations} evaluations; "
                f"highest end at length {maximum[LENGTH]:.4f}",
            )
        )
    return Outcome(rows, {"fenrir_pendulum": lambda: pendulum_figure(ends, truth)})
