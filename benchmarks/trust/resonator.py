"""A two-mass resonator whose dampings lie on a ridge, and the standard deviation of b1 two ways.

``python -m benchmarks.trust.resonator`` computes the reference anew, in some ten minutes: a million
draws of importance sampling, and 128 chains of random-walk Metropolis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import signal, special, stats

import smcpn
from smcpn.smc.evidence import pareto_k
from smcpn.smc.particles import effective_sample_size, log_mean_exp, normalise
from smcpn.smc.proposals import StudentMixture

Array = NDArray[np.float64]

SD_B1 = 2.216e-4
"""By importance sampling: standard error .002e-4, Pareto k .51, 270000 effective draws of a
million, log-evidence 23912.888. By Metropolis: 2.205e-4, standard error .012e-4, R-hat 1.014."""
TRUTH = {"m1": 1.0, "m2": 0.5, "k": 40.0, "c": 1e-3, "b1": 4e-4, "b2": 5e-4}
INITIAL = ("x1_0", "v1_0", "x2_0", "v2_0")
SOLVER = smcpn.RK4(2)
NOISE, SAMPLES, DT = 0.002, 5000, 0.05
UNIT = 5e-4
"""Of the dampings in the coordinates of the reference."""


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


class Straightened:
    """The posterior in coordinates that straighten the ridge.

    b1 + b2, the logit of the share of b1 in it, and c without what the Gaussian about the mode
    explains by b1 - b2; the others as the sampler has them.
    """

    def __init__(self, near: smcpn.Laplace) -> None:
        self.likelihood, self.prior = near.maximum.function, near.problem.prior
        self.at = [near.names.index(name) for name in ("c", "b1", "b2")]
        c, b1, b2 = np.exp(near.mode[self.at]) / UNIT
        natural = near.covariance[np.ix_(self.at, self.at)] * np.outer((c, b1, b2), (c, b1, b2))
        difference = np.array([0.0, 1.0, -1.0])
        along = natural @ difference
        self.slope = float(along[0] / (difference @ along))
        self.mode = near.mode.copy()
        self.mode[self.at] = c - self.slope * (b1 - b2), b1 + b2, np.log(b1 / b2)
        jacobian = np.eye(len(near.mode))
        jacobian[np.ix_(self.at, self.at)] = [
            [c, -self.slope * b1, self.slope * b2], [0.0, b1, b2], [0.0, 1.0, -1.0]
        ]  # fmt: skip
        covariance = jacobian @ near.covariance @ jacobian.T
        self.factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)

    def dampings(self, points: Array) -> tuple[Array, Array, Array]:
        """c, b1 and b2, in `UNIT`."""
        rest, total, share = points[:, self.at].T
        b1, b2 = total * special.expit(share), total * special.expit(-share)
        return rest + self.slope * (b1 - b2), b1, b2

    def log_density(self, points: Array) -> Array:
        """Log posterior density of these coordinates, not normalised by the evidence."""
        dampings = np.stack(self.dampings(points), axis=1)
        inside = (dampings > 0.0).all(axis=1)
        theta = points[inside]
        theta[:, self.at] = np.log(dampings[inside] * UNIT)
        total = np.full(len(points), -np.inf)
        total[inside] = (
            self.likelihood(self.prior.natural(theta))
            + self.prior.log_density(theta)
            - np.log(dampings[inside, 0] * points[inside, self.at[1]])
        )
        return np.where(np.isfinite(total), total, -np.inf)

    def b1(self, points: Array) -> Array:
        """B1 of points, (n,)."""
        return UNIT * self.dampings(points)[1]


def adapted(target: Straightened, rng: np.random.Generator) -> StudentMixture:
    """Population Monte Carlo (Cappe et al. 2008): mixtures fitted to what the last three drew."""
    alone = np.array([1.0, 1e-300])
    proposals = [
        StudentMixture(
            np.log(alone / alone.sum()),
            np.stack([target.mode, target.mode]),
            np.stack([target.factor, target.factor]),
        )
    ]
    drawn: list[Array] = []
    for size in (*[5000] * 6, *[20_000] * 6):
        drawn.append(proposals[-1].sample(rng, size))
        last = min(len(drawn), 3)
        points = np.concatenate(drawn[-last:])
        sizes = np.array([len(part) for part in drawn[-last:]])
        of_all = [
            np.log(n / sizes.sum()) + proposal.log_density(points)
            for n, proposal in zip(sizes, proposals[-last:], strict=True)
        ]
        log_weights = target.log_density(points) - np.logaddexp.reduce(of_all, axis=0)
        ess = effective_sample_size(log_weights)
        print(f"adapt {size}: ess {ess:.0f}, k {pareto_k(log_weights):.2f}", flush=True)
        while effective_sample_size(log_weights) < 200:
            log_weights = 0.8 * log_weights
        proposals.append(StudentMixture.fit(points, normalise(log_weights)))
    return proposals[-1]


def by_importance(target: Straightened, proposal: StudentMixture, rng: np.random.Generator) -> None:
    """Print the sd of b1 by a million draws."""
    parts = [proposal.sample(rng, 20_000) for _ in range(50)]
    log_weights = np.concatenate([target.log_density(x) - proposal.log_density(x) for x in parts])
    b1, weights = np.concatenate([target.b1(x) for x in parts]), normalise(log_weights)
    mean = weights @ b1
    sd = np.sqrt(weights @ np.square(b1 - mean))
    se = np.linalg.norm(weights * (np.square(b1 - mean) - sd**2)) / (2 * sd)
    print(
        f"importance: mean {mean:.5g}, sd {sd:.5g} +- {se:.2g}, k {pareto_k(log_weights):.2f}, "
        f"ess {effective_sample_size(log_weights):.0f}, "
        f"log-evidence {log_mean_exp(log_weights):.4f}",
        flush=True,
    )


def by_metropolis(
    target: Straightened, covariance: Array, rng: np.random.Generator, length: int = 3600
) -> None:
    """Print the sd of b1 by 128 chains from the Laplace approximation, a third of them burn-in."""
    d, step = len(target.mode), 2.38 / np.sqrt(len(target.mode))
    factor = np.linalg.cholesky(covariance)
    points = target.mode + rng.standard_normal((128, d)) @ target.factor.T
    points[:, target.at[:2]] = np.maximum(points[:, target.at[:2]], (0.2, 0.3))
    level, accepted, kept = target.log_density(points), 0.0, []
    for k in range(length):
        proposed = points + step * rng.standard_normal(points.shape) @ factor.T
        other = target.log_density(proposed)
        taken = np.log(rng.random(len(points))) < other - level
        points, level = np.where(taken[:, None], proposed, points), np.where(taken, other, level)
        accepted += taken.mean() / 50
        if k % 50 == 49:
            step, accepted = step * (np.exp(accepted - 0.25) if k < length // 3 else 1.0), 0.0
        if k >= length // 3:
            kept.append(target.b1(points))
    chains = np.array(kept)
    sd, squares = chains.std(), np.square(chains - chains.mean()).mean(axis=0)
    se = squares.std(ddof=1) / np.sqrt(chains.shape[1]) / (2 * sd)
    within, between = chains.var(axis=0, ddof=1).mean(), chains.mean(axis=0).var(ddof=1)
    print(f"Metropolis: sd {sd:.5g} +- {se:.2g}, R-hat {np.sqrt(1 + between / within):.3f}")


if __name__ == "__main__":
    RNG = np.random.default_rng(0)
    TARGET = Straightened(approximation(resonator()))
    PROPOSAL = adapted(TARGET, RNG)
    by_importance(TARGET, PROPOSAL, RNG)
    by_metropolis(TARGET, np.cov(PROPOSAL.sample(RNG, 4000).T), RNG)
