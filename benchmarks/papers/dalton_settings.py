"""Settings and published statements of the DALTON paper.

Wu and Lysy, *Data-adaptive probabilistic likelihood approximation for ordinary differential
equations* (2023).

The paper has figures and sentences, no tables of numbers. Settings are those of its public code
(github.com/mlysy/rodeo, examples/dalton, May 2023), where the print leaves them open or differs:

- the prior's standard deviation on log theta and on the initial state is log 10 (print: 10);
- the diffusion is fixed in all studies but the second of Lorenz63 (print: learned in all);
- `fitz_ex1` and `fitz_ex2` of August 2023 observe R alone; the print observes V and R;
- (24) calls the Prandtl number alpha and prints the truth as (28, 10, 8/3): it is alpha = 10 and
  rho = 28 with which the code runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import stats

import smcpn

PRIOR_SD = float(np.log(10.0))
NOISE_VARIANCE = 0.005
DATA_SEED, DRAW_SEED = 0, 12345
DRAWS = 20_000
LEVEL = 0.99
"""A posterior covers a value that lies in its central interval of this probability."""
HALF_WIDTH = float(stats.norm.ppf((1 + LEVEL) / 2))
"""Half of it, in standard deviations of a normal distribution."""
RUNGE_KUTTA_STEPS = 40
"""Per time unit of FitzHugh-Nagumo: an error of 1e-6, negligible against the noise."""
CHAOTIC_RUNGE_KUTTA_STEPS = 1000
"""Per time unit of Lorenz63."""


@dataclass(frozen=True)
class Grid:
    """Length of a solver's steps, as one over steps per time unit, and its diffusion (sd)."""

    steps: int
    diffusion: float | str
    interval: Fraction = Fraction(1)
    """Time between two observations."""

    @property
    def label(self) -> str:
        """The length of a step."""
        return f"1/{self.steps}"

    @property
    def solver(self) -> smcpn.EKF1:
        """IWP(2) per state, first order with the diagonal of the Jacobian."""
        return smcpn.EKF1(
            order=2,
            steps=int(self.steps * self.interval),
            diffusion=self.diffusion,
            jacobian="diagonal",
        )


GRIDS = {
    "fn": (Grid(4, 10.0), Grid(10, 10.0), Grid(20, 10.0)),
    "counts": (Grid(5, 0.1), Grid(10, 0.1), Grid(20, 1.0)),
    "lorenz": (Grid(200, 5e7), Grid(400, 1.5e8), Grid(800, 5e8)),
}
STARTS_DIFFUSION = 5e7
FIRST_DIFFUSIONS = tuple((STARTS_DIFFUSION * np.logspace(1.0, 2.5, 4)).tolist())
"""Where a learned diffusion starts, of every start anew: more of it flattens the likelihood."""
STARTS_GRID = Grid(2000, STARTS_DIFFUSION, Fraction(1, 10))
STARTS_GRID_LEARNED = Grid(2000, "kappa", Fraction(1, 10))
STARTS = tuple(np.logspace(-1.0, 2.0, 5).tolist())
"""Of all three parameters of Lorenz63 alike."""

COVERS, MISSES = True, False
PUBLISHED_C = {"dalton": COVERS, "fenrir": MISSES}
"""Section 5.1: at dt = 1/4 DALTON covers the true c of FitzHugh-Nagumo, Fenrir does not."""
CONVERGED_WITHIN = 0.1
"""What 'converge to the true Laplace posterior' (5.1) and 'almost indistinguishable' (5.2) are
taken to mean: means within this part of the true standard deviation, and these alike."""
CONVERGED_AT = {"fn": "1/20", "counts": "1/10"}
"""Step length at which the paper says so; 5.1 says 'smaller step sizes' than 1/4."""
PUBLISHED_STARTS = {"dalton": 5, "fenrir": None, "classical": None}
"""Section 5.3: starts of five from which the truth was found; the others 'fail' far from it."""
