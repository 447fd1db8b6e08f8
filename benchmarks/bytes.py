"""SHA-256 of results, to show that a change of the code leaves every byte of them alone.

``python -m benchmarks.bytes --json > before.json`` at one commit, then
``python -m benchmarks.bytes --against before.json --check`` at another, on the same machine with
the same packages: compiled arithmetic rounds by the processor it is made for.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.rows import Row, Study, command

PARTICLES, SAMPLES = 128, 120


@smcpn.ode
def oscillator(x, v, u, *, c, k):
    """Linear oscillator of unit mass."""
    return v, u - c * v - k * x


@smcpn.ode
def lotka_volterra(x, y, *, a, b, c, d=1.0):
    """Predator and prey."""
    return a * x - b * x * y, -c * y + d * x * y


def record(samples: int = SAMPLES, hold: str = "foh") -> smcpn.Record:
    """An input that is no sine, and a response with noise and a missing sample."""
    u = np.sin(0.02 * np.arange(samples) ** 1.2)
    y = smcpn.simulate(oscillator, smcpn.Record(u=u, dt=0.1), {"c": 0.3, "k": 2.0}, observe="x")
    y += 0.02 * np.random.default_rng(0).normal(size=y.shape)
    y[7] = np.nan
    return smcpn.Record(u=u, y=y, dt=0.1, hold=hold)


def problem(samples: int = SAMPLES, hold: str = "foh", **options: Any) -> smcpn.Problem:
    """Stiffness and damping of the oscillator."""
    prior: Any = {"c": stats.lognorm(0.5, scale=0.4), "k": stats.lognorm(0.3, scale=2.0)}
    arguments: dict[str, Any] = {"observe": "x", "noise": 0.02, "prior": prior} | options
    return smcpn.Problem(oscillator, record(samples, hold), **arguments)


def counts() -> smcpn.Problem:
    """Irregular times, two outputs of which one is a count, an unknown initial state."""
    rng = np.random.default_rng(3)
    t = np.cumsum(rng.uniform(0.02, 0.08, 40))
    y = np.column_stack([rng.uniform(0.5, 3.0, 40), rng.poisson(2.0, 40)])
    prior: Any = {
        "a": stats.lognorm(0.1, scale=1.5),
        "b": stats.lognorm(0.1),
        "c": stats.lognorm(0.1, scale=2.0),
    }
    return smcpn.Problem(
        lotka_volterra,
        smcpn.Record(y=y, t=t),
        observe=["x", "y"],
        noise=[0.3, smcpn.Poisson()],
        prior=prior,
        initial={"x": stats.uniform(0.5, 1.0), "y": "b"},
    )


def posterior(of: smcpn.Problem | None = None, **options: Any) -> list[np.ndarray]:
    """Particles, weights and evidence of an identification."""
    arguments: dict[str, Any] = {"particles": PARTICLES, "seed": 1, "progress": False} | options
    return arrays_of(smcpn.identify(of or problem(), **arguments))


def by_ibis(of: smcpn.Problem | None = None, **options: Any) -> list[np.ndarray]:
    """The same by IBIS, whatever it costs."""
    return posterior(of, method="ibis", **options)


def arrays_of(result: smcpn.Posterior) -> list[np.ndarray]:
    """The arrays that make a posterior."""
    evidence = np.array([result.log_evidence, result.log_evidence_se])
    return [result.theta, result.log_weights, result.log_likelihood, evidence]


def laplace_start() -> list[np.ndarray]:
    """Tempered from a Laplace approximation."""
    start = smcpn.laplace(problem(), seed=2)
    return [start.mode, start.factor, *posterior(start=start)]


def maximum() -> list[np.ndarray]:
    """A maximisation and a gradient."""
    found = smcpn.maximise(problem(), starts=4, seed=3)
    gradient = smcpn.LogLikelihood(problem()).value_and_gradient(np.atleast_2d(found.values))
    return [found.values, *(np.asarray(part) for part in gradient)]


def resumed() -> list[np.ndarray]:
    """A run that is interrupted and goes on from its checkpoint, in parts."""
    seen = 0

    def interrupt(_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 3:
            raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.h5"
        options: dict[str, Any] = {"checkpoint": file, "checkpoint_every": 0.0, "block": 16}
        try:
            posterior(**options, progress=interrupt)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("the run was not interrupted")
        return arrays_of(smcpn.resume(file, progress=False))


def streamed(**options: Any) -> list[np.ndarray]:
    """Every state of a stream, saved and loaded half way."""
    whole = problem(hold=options.pop("hold", "foh"))
    live = smcpn.Online(whole, particles=PARTICLES, seed=1, **options)
    source = whole.records[0]
    states = []
    for sample, (u, y) in enumerate(zip(source.u, source.y, strict=True)):
        if sample == SAMPLES // 2:
            with tempfile.TemporaryDirectory() as folder:
                live.save(Path(folder) / "stream.h5")
                live = smcpn.Online.load(Path(folder) / "stream.h5")
        state = live.update(u, y)
        states.append([*state.mean.values(), *state.sd.values(), state.log_evidence])
    live.finish()
    return [np.array(states), *arrays_of(live.posterior())]


def solution(solver: Any, times: Any = (0.0, 5.0)) -> list[np.ndarray]:
    """Moments of a solution on its grid, and two samples of it."""
    values = {"a": 1.5, "b": 1.0, "c": 3.0}
    found = smcpn.solve(lotka_volterra, times, values, initial=[1.0, 1.0], solver=solver)
    draws = found.sample(np.random.default_rng(0), 2, t=np.linspace(0.0, 5.0, 11))
    return [found.t, found.mean, found.sd, draws]


RUNS: dict[str, Callable[[], list[np.ndarray]]] = {
    "ibis, marginal, steps chosen": by_ibis,
    "ibis, marginal, bandlimited": lambda: by_ibis(
        problem(hold="bandlimited"), solver=smcpn.EKF0(order=3, steps=4)
    ),
    "ibis, marginal, zoh, noise learned": lambda: by_ibis(
        problem(
            hold="zoh",
            noise="s",
            prior={
                "c": stats.lognorm(0.5, scale=0.4),
                "k": stats.lognorm(0.3, scale=2.0),
                "s": stats.lognorm(0.5, scale=0.02),
            },
        ),
        solver=smcpn.EKF0(order=2, steps=4),
    ),
    "ibis, classical": lambda: by_ibis(solver=smcpn.RK4(steps=2)),
    "ibis, filtering, EKF0 calibrated": lambda: by_ibis(
        solver=smcpn.EKF0(order=2, steps=2, diffusion="fixed"), likelihood="filtering"
    ),
    "ibis, filtering, EKF1 chain": lambda: by_ibis(
        solver=smcpn.EKF1(order=3, steps=2, form="chain", diffusion="fixed")
    ),
    "ibis, filtering, counts": lambda: by_ibis(
        counts(), solver=smcpn.EKF1(order=2, steps=2, diffusion="fixed")
    ),
    "ibis, dalton": lambda: by_ibis(
        solver=smcpn.EKF0(order=2, steps=2, diffusion=1.0), likelihood="dalton"
    ),
    "ibis, fenrir": lambda: by_ibis(
        solver=smcpn.EKF0(order=2, steps=2, diffusion=1.0), likelihood="fenrir"
    ),
    "ibis, two replicates": lambda: by_ibis(replicates=2),
    "ibis, random walk": lambda: by_ibis(moves=smcpn.RandomWalkMetropolis()),
    "ibis, waste-free": lambda: by_ibis(moves=smcpn.WasteFree(length=8)),
    "auto, by ibis": posterior,
    "auto, ibis left for tempering": lambda: posterior(moves=smcpn.RandomWalkMetropolis()),
    "tempering": lambda: posterior(method="tempering"),
    "diffusion tempering": lambda: posterior(
        method="diffusion-tempering",
        solver=smcpn.EKF0(order=2, steps=2, diffusion=1.0),
        likelihood="filtering",
    ),
    "tempering from a Laplace approximation": laplace_start,
    "maximum and gradient": maximum,
    "interrupted and resumed": resumed,
    "stream": lambda: streamed(solver=smcpn.EKF0(order=3, steps=4)),
    "stream, RK4, bandlimited": lambda: streamed(
        solver=smcpn.RK4(steps=4), hold="bandlimited", lookahead=8
    ),
    "stream, forgetting": lambda: streamed(solver=smcpn.EKF0(order=2, steps=4), forget="4 s"),
    "solve, EKF1 adaptive": lambda: solution(smcpn.EKF1(order=3, smooth=True)),
    "solve, EKF0 on a grid, dynamic": lambda: solution(
        smcpn.EKF0(order=2, steps=1, diffusion="dynamic", smooth=True), np.linspace(0.0, 5.0, 101)
    ),
}


def digest(arrays: list[np.ndarray]) -> str:
    """SHA-256 of arrays as little-endian numbers, with their shapes."""
    content = hashlib.sha256()
    for array in arrays:
        content.update(repr(array.shape).encode())
        content.update(np.ascontiguousarray(array, "<f8").tobytes())
    return content.hexdigest()


def _study(name: str, expected: Mapping[str, str]) -> Iterator[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few particles, of which a run rightly warns
        value = digest(RUNS[name]())
    target = expected.get(name, "")
    yield Row("", value, target, value == target if target else None)


def main() -> int:
    """Print the digests, and compare them with those of a file."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--against", type=Path)
    against = parser.parse_known_args()[0].against
    known = [] if against is None else json.loads(against.read_text())["rows"]
    expected = {row["name"]: row["value"] for row in known}
    studies: dict[str, Study] = {name: lambda _, n=name: _study(n, expected) for name in RUNS}
    option = {"type": Path, "metavar": "FILE", "help": "what --json printed at another commit"}
    return command(__doc__, studies, against=option)


if __name__ == "__main__":
    sys.exit(main())
