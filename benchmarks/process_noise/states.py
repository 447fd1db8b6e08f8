"""States of disturbed models: filter and smoother against exact ones, bands, streams, memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.executors import each
from benchmarks.process_noise.kalman import simulated
from benchmarks.process_noise.linear import Textbook, exact_transition
from benchmarks.rows import Row, at_least, at_most, between
from benchmarks.study import study
from smcpn import RK4
from smcpn.results.simulation.states import States, states_of_particles

Array = NDArray[np.float64]

DT, SENSOR = 0.1, 0.1
OF_OSCILLATOR = {"c": 0.4, "q": 0.5}
OF_SPRING = {"c": 0.4, "k3": 1.0, "q": 0.5}
COVERAGE = (0.92, 0.98)


@smcpn.ode
def oscillator(x, v, *, c):
    """Linear, of unit mass and stiffness 2."""
    return v, -2.0 * x - c * v


@smcpn.ode
def spring(x, v, u, *, c, k3):
    """Mass on a hardening spring."""
    return v, u - c * v - x - k3 * x**3


def problem_of(
    ode: Any, y: Array, names: dict[str, float], u: Array | None = None
) -> smcpn.Problem:
    """An oscillator whose velocity is disturbed, and whose position is measured."""
    record = smcpn.Record(u=u, y=y, dt=DT, hold="zoh", name=ode.name)
    prior: dict[str, Any] = {n: stats.lognorm(0.5, scale=value) for n, value in names.items()}
    return smcpn.Problem(
        ode,
        record,
        observe="x",
        noise=SENSOR,
        process_noise={"v": "q"},
        initial={"x": 0.5},
        prior=prior,
    )


def oscillator_path(T: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """States (T, 2) by the exact transition, and measurements (T,)."""
    exact = oscillator_filter()
    F, Q = exact.transition, exact.added
    x, root = np.empty((T, 2)), np.linalg.cholesky(Q)
    x[0] = 0.5, 0.0
    for k in range(1, T):
        x[k] = F @ x[k - 1] + root @ rng.standard_normal(2)
    return x, x[:, 0] + SENSOR * rng.standard_normal(T)


def oscillator_filter() -> Textbook:
    """Textbook filter of the oscillator at its true parameters."""
    A = np.array([[0.0, 1.0], [-2.0, -OF_OSCILLATOR["c"]]])
    noise = np.diag([0.0, OF_OSCILLATOR["q"] ** 2])
    return Textbook(*exact_transition(A, noise, DT), np.array([0.5, 0.0]), SENSOR**2)


def at_truth(problem: smcpn.Problem, likelihood: str, steps: int, vectors: int, **more) -> States:
    """States at the true parameters, by as many filters as there are to be ``vectors``."""
    values = np.array([[OF_OSCILLATOR[name] for name in problem.names]])
    options: dict[str, Any] = {"draws": 0, "parameters": vectors, "seed": 1} | more
    return states_of_particles(
        problem, RK4(steps=steps), likelihood, problem.records[0], values, np.ones(1), **options
    )


@study("states-bands", full=(400, 20), quick=(200, 6))
def bands(size: tuple[int, int]) -> Iterator[Row]:
    """Tell how many of the true hidden states lie in the bands of posteriors."""
    T, seeds = size
    found = each(partial(_inside_bands, T), range(seeds))
    smoothed, filtered, predicted = zip(*found, strict=True)
    note = f"{seeds} hardening springs, {T} samples"
    for name, inside in (("smoothed", smoothed), ("filtered", filtered)):
        for i, state in enumerate(("position", "velocity")):
            share = float(np.mean([one[1:, i] for one in inside]))
            yield between(f"{name} 95 % bands, {state} (hidden truth)", share, *COVERAGE, note)
    yield between("one-step 95 % bands of the output", float(np.mean(predicted)), *COVERAGE, note)


def _inside_bands(T: int, seed: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Array]:
    """Where the states of one spring are inside the smoothed and the filtered bands, (T, 2) each.

    And the coverage of the one-step bands of the output.
    """
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.normal(size=T // 10), 10)
    x = spring_path(u, rng)
    problem = problem_of(spring, x[:, 0] + SENSOR * rng.standard_normal(T), OF_SPRING, u)
    posterior = smcpn.identify(
        problem, solver=RK4(steps=2), particles=300, seed=seed, progress=False
    )
    states = posterior.states(seed=seed)
    smoothed = np.abs(x - states.mean) <= 1.96 * states.sd + 1e-12
    filtered = np.abs(x - states.filtered_mean) <= 1.96 * states.filtered_sd + 1e-12
    return smoothed, filtered, posterior.predict(problem.records[0]).coverage


def spring_path(u: Array, rng: np.random.Generator) -> Array:
    """States (T, 2) of the spring under a held force."""
    path = [np.array([0.5, 0.0])]
    for force in u[:-1]:
        start, t = path[-1], np.array([0.0, DT])

        def drift(x: float, v: float, force: float = force) -> tuple[float, float]:
            return v, force - OF_SPRING["c"] * v - x - OF_SPRING["k3"] * x**3

        path.append(simulated(drift, np.array([0.0, OF_SPRING["q"]]), list(start), t, rng)[1])
    return np.array(path)


@study("states-stream", full=(4000, 1000), quick=(400, 500))
def streams(size: tuple[int, int]) -> Iterator[Row]:
    """Time an update with a Kalman filter for every particle."""
    T, particles = size
    x, y = oscillator_path(T, np.random.default_rng(3))
    problem = problem_of(oscillator, y, OF_OSCILLATOR)
    live = smcpn.Online(problem, solver=RK4(steps=2), particles=particles, seed=1)
    states = [live.update(None, value) for value in y]
    plain = np.array([state.latency for state in states])
    yield Row(
        "latency of an update, median, us", 1e6 * float(np.median(plain)), note=f"{particles}"
    )
    yield Row("99 %, rejuvenations included, ms", 1e3 * float(np.quantile(plain, 0.99)))
    batch = smcpn.identify(
        problem, solver=RK4(steps=2), particles=particles, seed=1, method="ibis", progress=False
    )
    same = live.posterior().theta.tobytes() == batch.theta.tobytes()
    yield Row("the stream is the batch run, to the byte", same, "true", same)
    late = states[T // 2 :]
    error = np.array([list(s.state_mean.values()) for s in late]) - x[T // 2 :]
    sd = np.array([list(s.state_sd.values()) for s in late])
    share = float(np.mean(np.abs(error) <= 1.96 * sd))
    yield between("95 % bands of the states in updates", share, 0.9, 0.99, "one record")


@study("states-nested", full=(500, 10, 500), quick=(150, 3, 200))
def nested(size: tuple[int, int, int]) -> Iterator[Row]:
    """Compare nested filters, which are approximate, with IBIS by the Kalman likelihood."""
    T, seeds, vectors = size
    off, spread, states, slow = [], [], [], []
    for seed in range(seeds):
        _, y = oscillator_path(T, np.random.default_rng(seed))
        problem = problem_of(oscillator, y, OF_OSCILLATOR)
        exact = smcpn.Online(problem, solver=RK4(steps=2), particles=500, seed=seed)
        live = smcpn.NestedFilter(problem, solver=RK4(steps=2), particles=vectors, seed=seed)
        after = [(exact.update(None, value), live.update(None, value)) for value in y]
        slow += [found.latency for _, found in after]
        true, found = after[-1]
        off += [(found.mean[n] - true.mean[n]) / true.sd[n] for n in problem.names]
        spread += [found.sd[n] / true.sd[n] for n in problem.names]
        states += [
            (found.state_mean[n] - true.state_mean[n]) / true.state_sd[n] for n in ("x", "v")
        ]
    note = f"{seeds} streams of {T} samples, {vectors} vectors x 64; exact is 0"
    rms = float(np.sqrt(np.mean(np.square(off))))
    yield at_most("nested: parameter means off, in sd, rms", rms, 1.0, note)
    yield Row("nested: sd of parameters over exact, median", float(np.median(spread)))
    rms = float(np.sqrt(np.mean(np.square(states))))
    yield at_most("nested: state means off, in sd, rms", rms, 0.2)
    yield Row("nested: latency of an update, median, ms", 1e3 * float(np.median(slow)))
    yield Row("nested: 99.9 %, ms", 1e3 * float(np.quantile(slow, 0.999)))


@study("states-stream-particle", full=(500, 10, 200), quick=(120, 2, 100))
def particle_stream(size: tuple[int, int, int]) -> Iterator[Row]:
    """Compare streams by the particle likelihood with the batch, and with the Kalman likelihood."""
    T, seeds, vectors = size
    same, off, evidence, late, degraded = 0, [], [], [], []
    for seed in range(seeds):
        _, y = oscillator_path(T, np.random.default_rng(seed))
        problem = problem_of(oscillator, y, OF_OSCILLATOR)
        options: dict[str, Any] = {"solver": RK4(2), "likelihood": "particle", "particles": vectors}
        live = smcpn.Online(problem, **options, seed=seed)
        hurried = smcpn.Online(problem, **options, seed=seed, budget="50 ms")
        exact = smcpn.Online(problem, solver=RK4(steps=2), particles=500, seed=seed)
        found, true = [(live.update(None, v), exact.update(None, v)) for v in y][-1]
        batch = smcpn.identify(problem, **options, method="ibis", seed=seed, progress=False)
        same += live.posterior().theta.tobytes() == batch.theta.tobytes()
        after = [hurried.update(None, value) for value in y]
        late += [state.late for state in after]
        degraded += [state.degraded for state in after]
        for state in (found, hurried.finish()):
            off += [(state.mean[n] - true.mean[n]) / true.sd[n] for n in problem.names]
            evidence.append(state.log_evidence - true.log_evidence)
    note = f"{seeds} streams of {T} samples, {vectors} vectors, without a budget and with 50 ms"
    yield at_least("exact stream: of the bytes of identify, share", same / seeds, 1.0, note)
    rms = float(np.sqrt(np.mean(np.square(off))))
    yield at_most(
        "exact stream: parameter means off, in sd, rms", rms, 0.3, "particle, from kalman"
    )
    rms = float(np.sqrt(np.mean(np.square(evidence))))
    yield at_most("exact stream: log-evidence off, rms", rms, 0.5)
    yield Row("exact stream: updates later than 50 ms, share", float(np.mean(late)))
    yield Row("exact stream: degraded while samples come at once, share", float(np.mean(degraded)))


@study("states-memory", full=65000, quick=6500)
def memory(T: int) -> Iterator[Row]:
    """Measure what `states` holds of a long record, for 100 parameter vectors."""
    _, y = oscillator_path(T, np.random.default_rng(4))
    problem = problem_of(oscillator, y, OF_OSCILLATOR)
    at_truth(problem_of(oscillator, y[:100], OF_OSCILLATOR), "kalman", 2, 100)
    begin = time.perf_counter()
    at_truth(problem, "kalman", 2, 100)
    seconds = time.perf_counter() - begin
    tracemalloc.start()
    at_truth(problem, "kalman", 2, 100)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    whole = T * 100 * 2 * 8 / 1e6
    note = f"{T} samples; samples x vectors x states are {whole:.0f} MB"
    yield at_most("memory of states(), Kalman, MB", peak / 1e6, max(whole, 60.0), note)
    yield Row(
        "seconds", seconds, note="100 parameter vectors, two passes of the filter and one back"
    )
