"""Is the stated uncertainty that of the error? Figure 3 of *Calibrated*, on FitzHugh-Nagumo.

chi^2 is the mean over 1000 dense points of the squared error in units of the stated covariance
(33); a well calibrated solver has about d = 2. Errors along one solution hang together closely, so
that the mean varies almost as one draw of the chi^2 distribution does: its central 99 % interval is
the band of the paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.solver_precision import solve
from benchmarks.solver_problems import FITZHUGH_NAGUMO, Array, extended_solution
from smcpn.errors import InputError

POINTS = 1000
BAND = tuple(stats.chi2(2).ppf([0.005, 0.995]))
DIFFUSIONS = ("fixed", "fixed-diagonal", "dynamic", "dynamic-diagonal")
ORDERS = range(1, 6)
EXPONENTS = range(10)
"""Tolerances 10^-(4 + k) absolute and 10^-(1 + k) relative."""
MOST_STEPS = 30_000
"""A low order needs millions of steps at the tightest tolerances, and tells nothing new."""


@dataclass(frozen=True)
class Setting:
    """One curve of the figure."""

    method: str
    diffusion: str
    order: int
    smooth: bool

    @property
    def solver(self) -> smcpn.EKF0 | smcpn.EKF1:
        """The solver it stands for; not every combination exists."""
        kind = {"EKF0": smcpn.EKF0, "EKF1": smcpn.EKF1}[self.method]
        return kind(order=self.order, diffusion=self.diffusion, smooth=self.smooth)

    @property
    def algorithm(self) -> str:
        """EKF or EKS, as the paper names filter and smoother."""
        return self.method.replace("F", "S") if self.smooth else self.method


@dataclass(frozen=True)
class Statistics:
    """chi^2 over the tolerances that were run."""

    setting: Setting
    exponents: tuple[int, ...]
    chi2: tuple[float, ...]
    """Infinite where the solver did not reach the end."""

    @property
    def inside(self) -> int:
        """How many lie in the band."""
        return sum(BAND[0] <= value <= BAND[1] for value in self.chi2)


@cache
def reference() -> tuple[Array, Any]:
    """Times and solution at the dense points; the known start is left out."""
    times = np.linspace(*FITZHUGH_NAGUMO.span, POINTS + 1)
    return times[1:], extended_solution(FITZHUGH_NAGUMO, times)[1:]


def settings() -> Iterator[Setting]:
    """Every combination that the solver does not refuse."""
    for smooth in (False, True):
        for method in ("EKF0", "EKF1"):
            for diffusion in DIFFUSIONS:
                for order in ORDERS:
                    setting = Setting(method, diffusion, order, smooth)
                    try:
                        _ = setting.solver
                    except InputError:
                        continue
                    yield setting


@cache
def calibration(quick: bool = False) -> tuple[Statistics, ...]:
    """chi^2 of every combination over the tolerances."""
    exponents = tuple(EXPONENTS)[:: 4 if quick else 1]
    return tuple(_statistics(setting, exponents) for setting in settings())


def _statistics(setting: Setting, exponents: tuple[int, ...]) -> Statistics:
    times, truth = reference()
    done, values = [], []
    for k in exponents:
        solution = solve(
            FITZHUGH_NAGUMO,
            setting.solver,
            rtol=10.0 ** -(1 + k),
            atol=10.0 ** -(4 + k),
            max_steps=MOST_STEPS,
        )
        if solution.stats.steps >= MOST_STEPS:
            break
        values.append(solution.chi2(truth, times) if solution.success else np.inf)
        done.append(k)
    return Statistics(setting, tuple(done), tuple(values))


def membership(statistics: tuple[Statistics, ...]) -> list[dict[str, Any]]:
    """Share of runs inside the band for each algorithm and diffusion, and how far off the rest is.

    ``|log10 chi2/d|`` is the median distance of chi^2 from d on a logarithmic scale.
    """
    rows = []
    for algorithm in ("EKF0", "EKF1", "EKS0", "EKS1"):
        for diffusion in DIFFUSIONS:
            group = [
                s
                for s in statistics
                if (s.setting.algorithm, s.setting.diffusion) == (algorithm, diffusion)
            ]
            if not group:
                continue
            values = np.concatenate([s.chi2 for s in group])
            finite = values[np.isfinite(values)]
            rows.append(
                {
                    "algorithm": algorithm,
                    "diffusion": diffusion,
                    "runs": len(values),
                    "in band": sum(s.inside for s in group) / len(values),
                    "failed": len(values) - len(finite),
                    "median chi2": float(np.median(finite)),
                    "|log10 chi2/d|": float(np.median(np.abs(np.log10(finite / 2)))),
                }
            )
    return rows
