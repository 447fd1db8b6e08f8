"""Cases of runs: every likelihood, method, move, executor, and what interrupts them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import smcpn
from benchmarks.bytes import problems

PARTICLES = 128
FEW = 64
EKF0 = smcpn.EKF0(order=2, steps=2, diffusion=1.0)


def found(
    of: Callable[[], smcpn.Problem] = problems.oscillating, **options: Any
) -> smcpn.Posterior:
    """Identify a problem with few particles."""
    arguments: dict[str, Any] = {"particles": PARTICLES, "seed": 1, "progress": False} | options
    return smcpn.identify(of(), **arguments)


def arrays_of(result: Any) -> list[Any]:
    """Return what makes a posterior."""
    evidence = [result.log_evidence, result.log_evidence_se]
    return [result.theta, result.log_weights, result.log_likelihood, evidence]


def posterior(of: Callable[[], smcpn.Problem] = problems.oscillating, **options: Any) -> list[Any]:
    """Particles, weights and evidence of an identification."""
    return arrays_of(found(of, **options))


def laplace_start() -> list[Any]:
    """Tempered from a Laplace approximation."""
    start = smcpn.laplace(problems.oscillating(), seed=2)
    return [start.mode, start.factor, *posterior(start=start)]


def resumed(of: Callable[[], smcpn.Problem] = problems.oscillating, **options: Any) -> list[Any]:
    """A run that is interrupted and goes on from its checkpoint, in parts."""
    seen = 0

    def interrupt(_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 3:
            raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.h5"
        try:
            posterior(of, checkpoint=file, checkpoint_every=0.0, progress=interrupt, **options)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("the run was not interrupted")
        return arrays_of(smcpn.resume(file, progress=False))


@contextmanager
def everything_sent():
    """Let executors have every batch, however small."""
    from smcpn.smc.distributed import workers

    before, workers.HOME_SECONDS = workers.HOME_SECONDS, 0.0
    try:
        yield
    finally:
        workers.HOME_SECONDS = before


def by_workers(
    executor: Callable[[], Executor] | str,
    of: Callable[[], smcpn.Problem] = problems.short,
    **options: Any,
) -> list[Any]:
    """An identification whose batches all go to an executor."""
    options = {"solver": smcpn.RK4(steps=2), "particles": FEW} | options
    with everything_sent():
        if isinstance(executor, str):
            return posterior(of, executor=executor, **options)
        with executor() as pool:
            return posterior(of, executor=pool, **options)


two_threads = partial(ThreadPoolExecutor, 2)


def ibis(
    of: Callable[[], smcpn.Problem] = problems.oscillating, **options: Any
) -> Callable[[], list[Any]]:
    """Return a run by IBIS, whatever it costs."""
    return partial(posterior, of, method="ibis", **options)


def particle(of: Callable[[], smcpn.Problem], **options: Any) -> Callable[[], list[Any]]:
    """Return a run by SMC^2."""
    settings = {"likelihood": "particle", "solver": smcpn.RK4(1), "particles": FEW} | options
    return partial(posterior, of, **settings)


RUNS: Mapping[str, Callable[[], list[Any]]] = {
    "ibis marginal": ibis(),
    "ibis marginal bandlimited": ibis(
        lambda: problems.oscillating(of=problems.record(hold="bandlimited")),
        solver=smcpn.EKF0(order=3, steps=4),
    ),
    "ibis marginal noise learned": ibis(
        problems.noise_learned, solver=smcpn.EKF0(order=2, steps=4)
    ),
    "ibis classical": ibis(solver=smcpn.RK4(steps=2)),
    "ibis classical several records": ibis(problems.several_records, solver=smcpn.RK4(steps=2)),
    "ibis replicates": ibis(replicates=2),
    "ibis residual resampling": ibis(resampling="residual"),
    "ibis random walk": ibis(moves=smcpn.RandomWalkMetropolis()),
    "ibis waste-free": ibis(moves=smcpn.WasteFree(length=8)),
    "auto": posterior,
    "tempering": partial(posterior, method="tempering"),
    "tempering from laplace": laplace_start,
    "tempering measured moves": partial(
        posterior, method="tempering", moves=smcpn.MeasuredMoves(), solver=smcpn.RK4(steps=2)
    ),
    "tempering diffusion": partial(
        posterior, method="diffusion-tempering", solver=EKF0, likelihood="filtering"
    ),
    "filtering calibrated": ibis(
        solver=smcpn.EKF0(order=2, steps=2, diffusion="fixed"), likelihood="filtering"
    ),
    "filtering chain": ibis(solver=smcpn.EKF1(order=3, steps=2, form="chain", diffusion="fixed")),
    "filtering counts": ibis(
        problems.counts, solver=smcpn.EKF1(order=2, steps=2, diffusion="fixed")
    ),
    "dalton": ibis(solver=EKF0, likelihood="dalton"),
    "dalton counts": ibis(
        problems.counts, solver=smcpn.EKF1(order=2, steps=2, diffusion=1.0), likelihood="dalton"
    ),
    "fenrir": ibis(solver=EKF0, likelihood="fenrir"),
    "adaptive": ibis(problems.stiff, solver=smcpn.AdaptiveEKF1(), particles=FEW),
    "coloured classical": ibis(problems.coloured, solver=smcpn.RK4(steps=2)),
    "coloured marginal": ibis(problems.coloured, solver=smcpn.EKF0(order=2, steps=4)),
    "delay classical": ibis(problems.delayed, solver=smcpn.RK4(steps=2)),
    "delay marginal": ibis(partial(problems.delayed, "zoh"), solver=smcpn.EKF0(order=2, steps=4)),
    "kalman": ibis(problems.driven_by_noise),
    "kalman tempering": partial(posterior, problems.driven_by_noise, method="tempering"),
    "particle linear": particle(problems.walking),
    "particle tempering": particle(problems.walking, method="tempering"),
    "particle two wells": particle(partial(problems.walking, problems.bistable)),
    "particle counts": particle(
        partial(problems.walking, noise=smcpn.Poisson()), method="ibis", state_particles=64
    ),
    "spline": partial(posterior, partial(problems.short, problems.with_spline)),
    "process": partial(posterior, partial(problems.short, problems.with_process)),
    "network": partial(posterior, partial(problems.short, problems.with_network)),
    "hmc": partial(
        posterior,
        partial(problems.short, problems.with_fine_spline),
        method="tempering",
        particles=FEW,
        moves=smcpn.HamiltonianMonteCarlo(length=2, steps=4),
    ),
    "hmc langevin": partial(
        posterior, method="tempering", particles=FEW, moves=smcpn.LangevinMetropolis(length=2)
    ),
    "resumed": partial(resumed, block=16),
    "resumed tempering": partial(resumed, method="tempering"),
    "resumed particle": partial(
        resumed, problems.walking, likelihood="particle", solver=smcpn.RK4(1), particles=FEW
    ),
    "executor threads": partial(by_workers, two_threads, method="ibis"),
    "executor threads particle": partial(
        by_workers, two_threads, problems.walking, likelihood="particle", solver=smcpn.RK4(1)
    ),
    "executor loky": partial(by_workers, "loky:2", method="tempering"),
}
