"""Figures of the Fenrir paper and of the results in its public code; of 100 runs."""

from __future__ import annotations

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
TRAJECTORY_ERRORS: dict[str, dict[str, tuple[float, ...]]] = {
    "lotka-volterra, low": {
        "odin": (0.0646,),
        "rk": (0.032, 0.042, 0.0493, 0.062, 0.155),
        "fenrir": (0.030, 0.042, 0.0519, 0.066, 0.088),
    },
    "lotka-volterra, high": {"odin": (0.352,), "rk": (0.259,), "fenrir": (0.275,)},
    "fitzhugh-nagumo, low": {
        "odin": (0.139,),
        "rk": (0.016, 0.027, 0.0329, 0.046, 1.59),
        "fenrir": (0.020, 0.028, 0.0358, 0.042, 0.053),
    },
    "fitzhugh-nagumo, high": {"odin": (0.346,), "rk": (0.110,), "fenrir": (0.098,)},
}
"""tRMSE (figure 2): the median, or all `QUANTILES`."""

SELECTION = {"M11": -39.96, "M10": 14.3, "M01": 575.0, "M00": 1.2e5}
"""Median negative log-likelihood (figure 3); many searches had failed."""

SEIR = {
    "rk": {
        "exposed(0)": 9.7e-6,
        "infected(0)": 6.4e-4,
        "beta": 0.0139,
        "gamma": 0.0057,
        "decay": 4.4e-4,
    },
    "fenrir": {
        "exposed(0)": 1.1e-5,
        "infected(0)": 6.9e-4,
        "beta": 0.0162,
        "gamma": 0.0070,
        "decay": 4.0e-4,
    },
}
"""Median absolute errors (figure 5)."""

PENDULUM, PENDULUM_STARTS = {"fenrir": 118, "rk": 29}, 161
"""Of so many starts, those that end within .01 of the true length (figure 8)."""


def median(setting: str, method: str) -> float:
    """Published median tRMSE."""
    found = TRAJECTORY_ERRORS[setting][method]
    return found[len(found) // 2]
