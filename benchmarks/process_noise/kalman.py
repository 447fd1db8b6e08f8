"""The Kalman likelihood: exact answers, its cost, and posteriors of two disturbed oscillators.

Paths are simulated by Euler's and Maruyama's method in small steps, with nothing of the package.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.special import logsumexp

import smcpn
from benchmarks.clock import Call, in_turns
from benchmarks.executors import each
from benchmarks.process_noise.linear import Textbook, exact_transition
from benchmarks.rows import Row, at_least, at_most, least_of, rms_of
from benchmarks.study import study
from smcpn import RK4
from smcpn.likelihood.registry import build_likelihood

Array = NDArray[np.float64]
SUBSTEPS = 20


@smcpn.ode
def relaxing(x, *, rate):
    """Ornstein and Uhlenbeck's drift."""
    return -rate * x


@smcpn.ode
def oscillating(x, v, *, k, c=0.4):
    """Free oscillator."""
    return v, -k * x - c * v


@smcpn.ode
def fitzhugh_nagumo(v, w, *, a, b, c, current):
    """A spiking neuron."""
    return v - v**3 / 3 - w + current, a * (v + b - c * w)


@smcpn.ode
def predator_prey(x, y, *, alpha, beta, gamma, delta):
    """Prey and predators."""
    return alpha * x - beta * x * y, delta * x * y - gamma * y


def simulated(drift: Callable[..., Any], diffusion: Array, initial: Any, t: Any, rng: Any) -> Array:
    """A path at times t, (T, n), in steps of a twentieth of the interval."""
    x, h, path = (
        np.array(initial, dtype=float),
        (t[1] - t[0]) / SUBSTEPS,
        [np.array(initial, dtype=float)],
    )
    for _ in t[1:]:
        for _ in range(SUBSTEPS):
            kick = np.sqrt(h) * diffusion * rng.standard_normal(len(x))
            x = x + h * np.asarray(drift(*x)) + kick
        path.append(x)
    return np.array(path)


@dataclass(frozen=True)
class Linear:
    """A linear problem of two parameters, and its exact matrices.

    rate, noise: Jacobian A and noise G G' for values (2,).
    initial: (n,)
    variance: Of the noise of the first state, the output.
    """

    problem: smcpn.Problem
    rate: Callable[[Array], Array]
    noise: Callable[[Array], Array]
    initial: Array
    variance: float

    def log_likelihood(self, values: Array) -> Array:
        """The textbook filter with exact transitions, (N,) for values (N, 2)."""
        record = self.problem.records[0]
        slopes = np.array([self.rate(one) for one in values])
        noise = np.array([self.noise(one) for one in values])
        moved = exact_transition(slopes, noise, record.t[1] - record.t[0])
        return Textbook(*moved, self.initial, self.variance).run(record.y[:, 0])[0]

    def exact(self, points: int = 81) -> tuple[Array, float]:
        """Posterior mean of theta, (2,), and log-evidence, by the rectangle rule."""
        prior = self.problem.prior
        centre, scale = self.mode()
        axes = [c + s * np.linspace(-7, 7, points) for c, s in zip(centre, scale, strict=True)]
        theta = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        log_density = self.log_likelihood(prior.natural(theta)) + prior.log_density(theta)
        evidence: Any = logsumexp(log_density)
        weights = np.exp(log_density - evidence)
        area = np.prod([axis[1] - axis[0] for axis in axes])
        return weights @ theta, float(evidence + np.log(area))

    def mode(self) -> tuple[Array, Array]:
        """Mode of theta, (2,), and what `scipy` makes of the standard deviations there."""
        prior = self.problem.prior

        def value(theta: Array) -> float:
            there = self.log_likelihood(prior.natural(theta[None]))[0]
            return -float(there + prior.log_density(theta[None])[0])

        found = optimize.minimize(value, np.zeros(2), method="BFGS", options={"gtol": 1e-5})
        return found.x, np.sqrt(np.diag(found.hess_inv))


def linear(name: str, seed: int, n: int = 60) -> Linear:
    """Ornstein and Uhlenbeck's process, or a disturbed oscillator, with data of a seed."""
    rng, t = np.random.default_rng(seed), 0.25 * np.arange(n)
    lognormal = {"q": stats.lognorm(0.7, scale=0.5)}
    if name == "ou":
        path = simulated(lambda x: [-0.8 * x], np.array([0.5]), [1.0], t, rng)
        options: dict[str, Any] = {"initial": [1.0], "process_noise": {"x": "q"}}
        prior: dict[str, Any] = {"rate": stats.lognorm(0.7, scale=1.0), **lognormal}
        ode = relaxing
        rate, noise = lambda v: [[-v[0]]], lambda v: [[v[1] ** 2]]
    else:
        path = simulated(
            lambda x, v: [v, -2.0 * x - 0.4 * v], np.array([0, 0.5]), [1.0, 0.0], t, rng
        )
        options = {"initial": [1.0, 0.0], "process_noise": {"v": "q"}}
        ode, prior = oscillating, {"k": stats.lognorm(0.7, scale=1.5), **lognormal}
        rate = lambda v: [[0.0, 1.0], [-v[0], -0.4]]  # noqa: E731
        noise = lambda v: [[0.0, 0.0], [0.0, v[1] ** 2]]  # noqa: E731
    record = smcpn.Record(y=path[:, 0] + 0.2 * rng.standard_normal(n), t=t)
    problem = smcpn.Problem(ode, record, observe="x", noise=0.2, prior=prior, **options)
    return Linear(
        problem,
        lambda v: np.array(rate(v), dtype=float),
        lambda v: np.array(noise(v), dtype=float),
        np.array(options["initial"]),
        0.04,
    )


@study("kalman posteriors", full=(20, 8), quick=(5, 4))
def posteriors(size: tuple[int, int]) -> Iterator[Row]:
    """Means and evidence of `identify` against quadrature, over seeds of data and sampler."""
    seeds, populations = size
    for name in ("ou", "oscillator"):
        scores = list(each(partial(_scores, name, populations), range(seeds)))
        rms = float(np.sqrt(np.mean(np.square(scores))))
        limit = rms_of(1.25, np.size(scores), 3 * 20)
        yield at_most(f"{name}, z rms of means and evidence", rms, limit, f"{seeds} seeds")


def _scores(name: str, populations: int, seed: int) -> Array:
    """Errors of the means and the evidence of one record, in their standard errors."""
    case = linear(name, seed)
    mean, evidence = case.exact()
    found = smcpn.identify(
        case.problem, solver=RK4(2), seed=seed, replicates=populations, particles=500,
        progress=False,
    )  # fmt: skip
    members = [found.replicate == r for r in range(populations)]
    means = [np.average(found.theta[of], axis=0, weights=found.weights[of]) for of in members]
    errors = np.column_stack([means - mean, found.log_evidences - evidence])
    # Independent populations: Student's t, brought to a normal.
    t = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(populations))
    return stats.norm.ppf(stats.t.cdf(t, populations - 1))


def prior_about(truth: dict[str, float]) -> dict[str, Any]:
    """Parameters known to a factor of seven, either way, about the published values."""
    return {name: stats.lognorm(1.0, scale=value) for name, value in truth.items()}


FHN_TRUTH = {"a": 0.08, "b": 0.7, "c": 0.8, "current": 0.5, "sigma_x": 0.01, "sigma_y": 0.1}


def fitzhugh_problem(seed: int) -> smcpn.Problem:
    """FHN SDE of process_noise.md section 4: both states disturbed, the first one measured."""
    rng, t = np.random.default_rng(seed), 0.1 * np.arange(501)

    def drift(v: float, w: float) -> list[float]:
        return [v - v**3 / 3 - w + 0.5, 0.08 * (v + 0.7 - 0.8 * w)]

    path = simulated(drift, np.full(2, 0.01), [-1.0, 1.0], t, rng)
    record = smcpn.Record(y=path[:, 0] + 0.1 * rng.standard_normal(len(t)), t=t)
    return smcpn.Problem(
        fitzhugh_nagumo, record, observe="v", noise="sigma_y", initial=[-1.0, 1.0],
        process_noise={"v": "sigma_x", "w": "sigma_x"}, prior=prior_about(FHN_TRUTH),
    )  # fmt: skip


LV_TRUTH = {"alpha": 1.1, "beta": 0.4, "gamma": 0.4, "delta": 0.1, "sigma_x": 0.05, "sigma_y": 0.5}


def predator_problem(seed: int) -> smcpn.Problem:
    """Lotka-Volterra SDE of 150 points, both states disturbed and measured."""
    rng, t = np.random.default_rng(seed), 0.2 * np.arange(150)

    def drift(x: float, y: float) -> list[float]:
        return [1.1 * x - 0.4 * x * y, 0.1 * x * y - 0.4 * y]

    path = simulated(drift, np.full(2, 0.05), [10.0, 5.0], t, rng)
    record = smcpn.Record(y=path + 0.5 * rng.standard_normal(path.shape), t=t)
    return smcpn.Problem(
        predator_prey, record, observe=["x", "y"], noise=["sigma_y", "sigma_y"],
        initial=[10.0, 5.0], process_noise={"x": "sigma_x", "y": "sigma_x"},
        prior=prior_about(LV_TRUTH),
    )  # fmt: skip


def covered(
    make: Callable[[int], smcpn.Problem], truth: dict[str, float], seeds: int
) -> tuple[dict[str, int], float]:
    """Seeds whose 95 % intervals hold the truth, by parameter, and the longest run."""
    inside, seconds = zip(*each(partial(_covered, make, truth), range(seeds)), strict=True)
    return dict(zip(truth, np.sum(inside, axis=0).tolist(), strict=True)), max(seconds)


def _covered(
    make: Callable[[int], smcpn.Problem], truth: dict[str, float], seed: int
) -> tuple[list[bool], float]:
    begin = time.perf_counter()
    posterior = smcpn.identify(make(seed), seed=seed, progress=False)
    seconds = time.perf_counter() - begin
    intervals = (posterior.quantile(name, [0.025, 0.975]) for name in truth)
    pairs = zip(intervals, truth.values(), strict=True)
    return [bool(low <= value <= high) for (low, high), value in pairs], seconds


@study("kalman fhn", full=30, quick=3)
def fitzhugh(seeds: int) -> Iterator[Row]:
    """FHN SDE: the whole posterior by `identify` as it comes.

    Thirty seeds, as in one of twelve parameters an exact interval holds fewer than nine of ten.
    """
    counts, longest = covered(fitzhugh_problem, FHN_TRUTH, seeds)
    yield at_most("longest, seconds", longest, 60.0, "compilation included")
    least = 27 if seeds == 30 else round(seeds * least_of(0.95, seeds, 30))
    for name, count in counts.items():
        yield at_least(f"{name} in 95 %, of {seeds} seeds", count, least)


@study("kalman lotka-volterra", full=40, quick=None)
def lotka_volterra(seeds: int) -> Iterator[Row]:
    """Lotka-Volterra SDE: noise levels in their intervals."""
    counts, longest = covered(predator_problem, LV_TRUTH, seeds)
    yield Row("longest, seconds", longest)
    for name in ("sigma_x", "sigma_y"):
        share = counts[name] / seeds
        yield at_least(f"{name} in 95 %, share of {seeds} seeds", share, 0.95)


@study("kalman cost", full=9, quick=3)
def cost(repeats: int) -> Iterator[Row]:
    """Nanoseconds per solver step of one parameter vector, and over `classical` in one run."""
    particles = 1000
    for make, name in ((fitzhugh_problem, "fhn"), (predator_problem, "lotka-volterra")):
        problem = make(0)
        still = smcpn.Problem(
            problem.ode, problem.records, observe=problem.observe, noise=problem.noise,
            initial=problem.initial,
            prior={n: d for n, d in problem.prior.distributions.items() if n != "sigma_x"},
        )  # fmt: skip
        for steps in (1, 5):
            calls: dict[str, Call] = {}
            solver_steps = 0
            for kind, one in (("kalman", problem), ("classical", still)):
                centre = one.prior.natural(np.zeros((1, len(one.names))))
                truth = [FHN_TRUTH.get(n, LV_TRUTH.get(n, 0.0)) for n in one.names]
                values = np.tile(truth, (particles, 1)) + 0.0 * centre
                likelihood = build_likelihood(one, RK4(steps), 1, kind)
                calls[kind] = partial(likelihood.evaluate, values, likelihood.n_samples)
                solver_steps = likelihood.n_steps
            work = particles * solver_steps
            taken = in_turns(calls, repeats)
            nano = {kind: 1e9 * times.min() / work for kind, times in taken.items()}
            yield Row(f"{name}, {steps} steps a sample, ns per theta step", nano["kalman"])
            yield Row(f"{name}, {steps} steps a sample, over classical",
                      nano["kalman"] / nano["classical"])  # fmt: skip
