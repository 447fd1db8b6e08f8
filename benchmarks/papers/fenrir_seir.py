"""Section 5.3: an epidemic of which only the infected and the recovered are seen, from day 30."""

from __future__ import annotations

import numpy as np

from benchmarks.papers.fenrir_figures import seir_figure
from benchmarks.papers.fenrir_fits import FENRIR, METHODS, Plan, fits
from benchmarks.papers.fenrir_outcome import Outcome, beside
from benchmarks.papers.fenrir_published import SEIR
from benchmarks.papers.fenrir_settings import SETTINGS

NAME = "seir"


def seir(plan: Plan) -> Outcome:
    """Absolute errors of rates and initial states."""
    setting = SETTINGS[NAME]
    states = {f"{s}(0)": v for s, v in zip(setting.ode.states, setting.state, strict=True)}
    truth = states | dict(setting.truth)
    errors: dict[str, dict[str, list[float]]] = {}
    for method in METHODS:
        found = fits(NAME, method, plan)
        errors[method] = {
            name: [abs(one.values[name] - truth[name]) for one in found] for name in SEIR[method]
        }
    rows = [
        beside(
            figure=f"{method}: median absolute error of {name}",
            ours=f"{np.median(values):.3g}",
            published=f"{SEIR[method][name]:.3g}",
            target=f"<= {SEIR[method][name]:.3g}" if method == FENRIR else "",
            met=bool(np.median(values) <= SEIR[method][name]) if method == FENRIR else None,
        )
        for method in METHODS
        for name, values in errors[method].items()
    ]
    return Outcome(rows, {"fenrir_seir": lambda: seir_figure(errors)})
