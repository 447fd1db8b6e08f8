"""Section 5.2: which of four models made the data."""

from __future__ import annotations

import numpy as np

from benchmarks.papers.fenrir_figures import selection_figure
from benchmarks.papers.fenrir_fits import FENRIR, Plan, fits
from benchmarks.papers.fenrir_outcome import Outcome, beside
from benchmarks.papers.fenrir_published import SELECTION

TRUE = "M11"


def selection(plan: Plan) -> Outcome:
    """Fit all models to the same records; the lowest negative log-likelihood is chosen."""
    nll = {name: np.array([one.nll for one in fits(name, FENRIR, plan)]) for name in SELECTION}
    others = np.min([values for name, values in nll.items() if name != TRUE], axis=0)
    chosen = int(np.sum(nll[TRUE] < others))
    rows = [
        beside(
            figure=f"{TRUE} chosen, of {plan.runs}",
            ours=str(chosen),
            published="100 of 100",
            target=str(plan.runs),
            met=chosen == plan.runs,
            note=f"closest: {np.min(others - nll[TRUE]):.1f} nats",
        ),
        *(
            beside(
                figure=f"{name}: median negative log-likelihood",
                ours=f"{np.median(values):.4g}",
                published=f"{SELECTION[name]:.4g}",
                note=f"from {values.min():.1f} to {values.max():.1f}",
            )
            for name, values in nll.items()
        ),
    ]
    return Outcome(rows, {"fenrir_selection": lambda: selection_figure(nll)})
