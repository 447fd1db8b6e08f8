"""Likelihoods that see the data: times against peers, and case studies.

Golden values and agreement at small steps are in `tests/likelihood/test_likelihood_conditioned.py`.

``--quick`` takes fewer seeds and particles; it shows that everything runs. Peers are timed where
they are installed (rodeo and probdiffeq need a folder of their own: both want JAX).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from benchmarks.clock import best
from benchmarks.likelihood_peers import Batch, peers
from benchmarks.rows import Row, absent, at_least, at_most
from benchmarks.study import command, study
from benchmarks.trust.steps import identified
from smcpn import EKF0, EKF1
from smcpn.cli.cases import load_case
from smcpn.likelihood.conditioned import Dalton, Fenrir
from smcpn.likelihood.lanes import LaneLikelihood
from tests.models import (
    FITZHUGH_NAGUMO,
    FITZHUGH_NAGUMO_START,
    fitzhugh_nagumo_problem,
)

Array = NDArray[np.float64]
DIAGONAL = EKF1(2, 20, diffusion=1.0, jacobian="diagonal")
BATCH, REPEATS = 1024, 5
PEER_BATCH = 256
"""Beyond this the peers' time per theta does not fall."""


@study("speed")
def speed(quick: bool) -> Iterator[Row]:
    """Microseconds per theta in a batch: FitzHugh-Nagumo, 800 steps, 41 observations."""
    problem = fitzhugh_nagumo_problem()
    theta = _thetas(BATCH)
    own = {
        "fenrir EKF0": Fenrir.build(problem, EKF0(2, 20, diffusion=1.0), start_order=1),
        "fenrir EKF1 diagonal": Fenrir.build(problem, DIAGONAL, start_order=1),
        "dalton EKF1 diagonal": Dalton.build(problem, DIAGONAL, start_order=1),
        "fenrir EKF1": Fenrir.build(problem, EKF1(2, 20, diffusion=1.0), start_order=1),
    }
    taken = {name: _microseconds(_evaluation(one), theta) for name, one in own.items()}
    figure = taken["fenrir EKF0"]
    yield at_most("fenrir EKF0, us", figure, 10, "of the processor")
    for name in list(own)[1:]:
        yield Row(f"{name}, us", taken[name])
    found = peers(problem.records[0].y, np.array(FITZHUGH_NAGUMO_START))
    others = {}
    for name, peer in found.items():
        if isinstance(peer, str):
            yield absent(f"{name}, us", peer)
            continue
        others[name] = _microseconds(peer, theta[:PEER_BATCH], 1 if quick else REPEATS)
        difference = abs(peer(theta[:1])[0] - _at(_same_as(own, name), theta[0]))
        note = f"differs from ours by {difference:.1e}"
        yield Row(f"{name}, us", others[name], note=note)
    for ours, theirs, least in (
        ("fenrir EKF1 diagonal", "rodeo fenrir", 20),
        ("dalton EKF1 diagonal", "rodeo dalton", 20),
        ("fenrir EKF1", "probdiffeq fenrir EKF1", 10),
        ("fenrir EKF0", "probdiffeq fenrir EKF0", 1),
    ):
        if theirs in others:
            ratio = others[theirs] / taken[ours]
            yield at_least(f"{theirs} / ours", ratio, least)


@study("silverbox", full=1000, quick=200)
def silverbox(particles: int) -> Iterator[Row]:
    """Two steps per sample by filtering, against eight by the data-free marginal."""
    case = load_case("silverbox")
    reference = identified(case.problem, solver=EKF0(3, 8), particles=particles, seed=1)
    runs = {
        "filtering, 2 steps": identified(
            case.problem,
            solver=EKF1(4, 2, form="chain", diffusion="fixed"),
            likelihood="filtering",
            particles=particles,
            seed=1,
        ),
        "marginal of order 2, 2 steps": identified(
            # Order 3 diverges with steps as long as these.
            case.problem,
            solver=EKF0(2, 2),
            particles=particles,
            seed=1,
        ),
    }
    for name, run in runs.items():
        gaps = {n: abs(run.mean[n] - reference.mean[n]) / reference.sd[n] for n in run.names}
        worst = max(gaps, key=lambda n: gaps[n])
        target, met = (
            ("<= 1", gaps[worst] <= 1) if "filtering" in name else ("> 1", gaps[worst] > 1)
        )
        note = f"worst: {worst}; {run.timing.wall:.1f} s"
        yield Row(f"{name}, largest gap in sd", gaps[worst], target, met, note)


def _at(likelihood: LaneLikelihood, theta: Array) -> float:
    return float(likelihood.evaluate(np.asarray(theta)[None, :], likelihood.n_samples)[1][0])


def _evaluation(likelihood: LaneLikelihood) -> Batch:
    return lambda theta: likelihood.evaluate(theta, likelihood.n_samples)[1]


def _same_as(own: Mapping[str, LaneLikelihood], peer: str) -> LaneLikelihood:
    """The likelihood a peer computes, by our name: rodeo keeps the Jacobian's diagonal."""
    package, kind = peer.split(" ", 1)
    return own[f"{kind} EKF1 diagonal" if package == "rodeo" else kind]


def _thetas(size: int) -> Array:
    """Parameters within a few per cent of the truth, the truth first."""
    spread = np.random.default_rng(0).normal(size=(size, 3))
    spread[0] = 0.0
    return FITZHUGH_NAGUMO * np.exp(0.02 * spread)


def _microseconds(batch: Batch, theta: Array, repeats: int = REPEATS) -> float:
    """Best time per theta, of the processor."""
    return 1e6 * best(lambda: batch(theta), repeats) / len(theta)


if __name__ == "__main__":
    sys.exit(command(__name__))
