"""Is the solver that particles call for right, and faster than the one that the prior called for.

Counted steps decide; closed forms and processor time judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.clock import running_seconds
from benchmarks.reference import solutions
from benchmarks.reference.quadrature import quadrature
from benchmarks.reference.target import Target
from benchmarks.rows import Row, at_most, equal
from benchmarks.study import study

Array = NDArray[np.float64]

EARLY_AND_LATE = np.concatenate([[0.0], np.linspace(5e-4, 5e-3, 10), np.linspace(2.0, 20.0, 10)])
FOLLOWED: Mapping[str, Any] = {"k": stats.lognorm(2.5, scale=1.0), "c": stats.lognorm(1.0)}
REACTIONS: Mapping[str, Any] = {"kf": stats.loguniform(1e-3, 1e5), "ks": stats.loguniform(1e-3, 10)}


@smcpn.ode
def follower(x, z, *, k, c):
    """A state that follows another one."""
    return -k * (x - z), -c * z


@smcpn.ode
def reactions(a, b, *, kf, ks):
    """What reacts, and what it becomes on the way."""
    return -kf * a, kf * a - ks * b


def _followed(k: Any, c: Any) -> Array:
    return k / (k - c) * (np.exp(-c * EARLY_AND_LATE) - np.exp(-k * EARLY_AND_LATE))


def _stiff_at_the_data() -> tuple[smcpn.Problem, Array]:
    """Return a rate that one draw of the prior in three hundred reaches, and its samples."""
    y = _followed(1000.0, 0.1) + 0.01 * np.random.default_rng(1).normal(size=21)
    record = smcpn.Record(t=EARLY_AND_LATE, y=y)
    problem = smcpn.Problem(
        follower, record, observe="x", noise=0.01, initial={"z": 1.0}, prior=dict(FOLLOWED)
    )
    return problem, y


def _stiff_in_the_prior(samples: int) -> smcpn.Problem:
    """A quarter of the prior is stiff, and the posterior is not."""
    t = np.linspace(0.0, 40.0, samples)
    b = 0.5 / 0.4 * (np.exp(-0.1 * t) - np.exp(-0.5 * t))
    y = np.stack([np.exp(-0.5 * t), b], axis=1)
    y += 0.2 * np.random.default_rng(1).normal(size=y.shape)
    return smcpn.Problem(
        reactions, smcpn.Record(t=t, y=y), observe=["a", "b"], noise=0.2, initial={"a": 1.0},
        prior=dict(REACTIONS),
    )  # fmt: skip


@study("again", full=True, quick=False)
def again(whole: bool) -> Iterator[Row]:
    """Posteriors that are stiff where the prior is not, and, in full size, the other way."""
    problem, y = _stiff_at_the_data()

    def log_likelihood(v: Mapping[str, Array]) -> Array:
        return solutions.gaussian(y, _followed(v["k"][:, None], v["c"][:, None]).T, 0.01)

    answer = quadrature(
        Target(FOLLOWED, log_likelihood), {"k": (2.6, 2.9, 401), "c": (-2.5, -2.1, 401)}
    )
    for method in (None, "ibis"):
        found = smcpn.identify(problem, method=method, seed=1, progress=False)
        of = f", method {method or 'by default'}"
        yield equal("solver where the data are stiff" + of, found.solver.kind, "Rosenbrock")
        yield at_most("warnings" + of, len(found.warnings), 0)
        off = abs(found.log_evidence - answer.log_evidence)
        yield at_most("error of the log-evidence" + of, off, 0.15)
        far = abs(found.mean["k"] - answer.mean["k"]) / answer.sd["k"]
        yield at_most("error of the mean of k, in sd" + of, far, 0.2)
    if not whole:
        return
    longer, used = _stiff_in_the_prior(8001), []
    for solver in (smcpn.Rosenbrock(), None):
        smcpn.identify(longer, solver=solver, particles=50, seed=2, method="tempering")
        began = running_seconds()
        found = smcpn.identify(longer, solver=solver, particles=4000, seed=1, method="tempering")
        used.append(running_seconds() - began)
    yield equal("solver where only the prior is stiff", found.solver.kind, "EKF0")
    note = "4000 particles, 8001 samples, from the prior"
    yield at_most("processor time over that of the stiff solver", used[1] / used[0], 1.0, note)
