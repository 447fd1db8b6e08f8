"""Section 5.1: parameters and initial states from noisy measurements of all states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.papers.fenrir_figures import inference_figure
from benchmarks.papers.fenrir_fits import FENRIR, METHODS, Fit, Plan, fits
from benchmarks.papers.fenrir_outcome import Outcome, beside, listed
from benchmarks.papers.fenrir_published import QUANTILES, TRAJECTORY_ERRORS, median
from benchmarks.rows import Row

OUTLIER = 1.0
RESAMPLES = 1000
NAMES = tuple(TRAJECTORY_ERRORS)


def inference(plan: Plan) -> Outcome:
    """Trajectory errors of Fenrir and of least squares, for two systems and two noises."""
    found = {name: {m: fits(name, m, plan) for m in METHODS} for name in NAMES}
    rows = [
        row
        for name in NAMES
        for method in METHODS
        for row in _rows(name, method, found[name][method])
    ]
    errors = {
        name: {method: [one.error for one in of] for method, of in both.items()}
        for name, both in found.items()
    }
    return Outcome(rows, {"fenrir_inference": lambda: inference_figure(errors)})


def _standard_error(errors: Sequence[float]) -> float:
    """Of their median, by the bootstrap: other noise would have given another."""
    again = np.random.default_rng(0).choice(errors, (RESAMPLES, len(errors)))
    return float(np.std(np.median(again, axis=1)))


def _rows(name: str, method: str, found: Sequence[Fit]) -> list[Row]:
    errors, first = [one.error for one in found], [one.first_error for one in found]
    target = median(name, method)
    outliers = sum(error > OUTLIER for error in errors)
    judged = method == FENRIR
    middle = float(np.median(errors))
    strayed = sum(error > OUTLIER for error in first)
    note = (
        f"standard error {_standard_error(errors):.2g}; "
        f"first start alone: median {np.median(first):.3g}, {strayed} above {OUTLIER:g}; "
        f"median {np.median([one.evaluations for one in found]):.0f} evaluations"
    )
    return [
        beside(
            figure=f"{name}, {method}: median tRMSE",
            ours=f"{middle:.3g}",
            published=f"{target:.3g}",
            target=f"<= {target:.3g}" if judged else "",
            met=middle <= target if judged else None,
            note=note,
        ),
        beside(
            figure=f"{name}, {method}: tRMSE 5 25 50 75 95 %",
            ours=listed(np.quantile(errors, QUANTILES).tolist()),
            published=listed(TRAJECTORY_ERRORS[name][method]),
        ),
        beside(
            figure=f"{name}, {method}: outliers above {OUTLIER:g}",
            ours=f"{outliers} (largest {max(errors):.3g})",
            target="0" if judged else "",
            met=outliers == 0 if judged else None,
        ),
    ]
