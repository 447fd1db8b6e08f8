"""A two-mass resonator whose dampings lie on a ridge, and the standard deviation of b1 on it.

``python -m benchmarks.trust.resonator`` computes a reference anew by `benchmarks.reference.chains`,
which shares the likelihood with the package and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import signal, stats

import smcpn
from benchmarks.reference.answer import Answer
from benchmarks.reference.chains import chains
from benchmarks.trust.known import posterior_of

Array = NDArray[np.float64]

SD_B1 = 2.216e-4
"""By a million draws of population Monte Carlo in coordinates that straighten the ridge, and by
128 chains of random-walk Metropolis there (commit 27bef9a9 has both). Importance: standard error
.002e-4, Pareto k .51, 270000 effective draws, log-evidence 23912.888. Metropolis: 2.205e-4,
standard error .012e-4, R-hat 1.014."""
TRUTH = {"m1": 1.0, "m2": 0.5, "k": 40.0, "c": 1e-3, "b1": 4e-4, "b2": 5e-4}
INITIAL = ("x1_0", "v1_0", "x2_0", "v2_0")
SOLVER = smcpn.RK4(2)
NOISE, SAMPLES, DT = 0.002, 5000, 0.05


@smcpn.ode
def two_masses(x1, v1, x2, v2, u, *, m1, m2, k, c, b1, b2):
    """Two masses on a spring with damping, each on its own damper; a force acts on the first."""
    force = k * (x2 - x1) + c * (v2 - v1)
    return v1, (u - b1 * v1 + force) / m1, v2, (-b2 * v2 - force) / m2


def resonator() -> smcpn.Problem:
    """Ten parameters, 5000 samples; log b1 and log b2 correlate -.995 (Laplace), on a curved ridge.

    Reference and runs are of one likelihood, so that the error of its steps does not matter.
    """
    rng = np.random.default_rng(0)
    sections = signal.butter(2, [0.01, 0.4], "bandpass", output="sos")
    u = np.asarray(signal.sosfilt(sections, rng.normal(size=SAMPLES)))
    y = smcpn.simulate(two_masses, smcpn.Record(u=u, dt=DT), TRUTH, observe="x1")
    y = y + NOISE * rng.normal(size=y.shape)
    prior: dict[str, Any] = {
        "m1": stats.lognorm(0.5),
        "m2": stats.lognorm(0.5, scale=0.5),
        "k": stats.lognorm(0.5, scale=40.0),
        "c": stats.lognorm(1.0, scale=1e-3),
        "b1": stats.lognorm(1.0, scale=5e-4),
        "b2": stats.lognorm(1.0, scale=5e-4),
        **dict.fromkeys(INITIAL, stats.norm(0.0, 0.1)),
    }
    return smcpn.Problem(
        two_masses,
        smcpn.Record(u=u, y=y, dt=DT),
        observe="x1",
        noise=NOISE,
        prior=prior,
        initial=list(INITIAL),
    )


def approximation(problem: smcpn.Problem) -> smcpn.Laplace:
    """Laplace approximation, from a search that begins at the truth: the landscape is rough."""
    truth = TRUTH | dict.fromkeys(INITIAL, 0.0)
    return smcpn.laplace(smcpn.maximise(problem, solver=SOLVER, starts=truth, method="trust-exact"))


def tell(steps: int = 4000) -> None:
    """Print mean and standard deviation of b1 by chains that begin at the Laplace approximation."""
    found = approximation(resonator()).to_posterior(4000)
    begin = Answer({name: found[name] for name in found.names}, found.weights)
    drawn = chains(posterior_of(found.problem, SOLVER), begin, steps=steps)
    print(f"b1: mean {drawn.mean['b1']:.5g}, sd {drawn.sd['b1']:.5g}")


if __name__ == "__main__":
    tell()
