"""SMC^2: exact posteriors and evidence, its cost beside `particles`, state particles, kills."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.bytes.digest import of_posterior
from benchmarks.executors import each
from benchmarks.killing import killed_runs
from benchmarks.process_noise.linear import Textbook, exact_transition
from benchmarks.rows import Row, absent, at_least, at_most, rms_of
from benchmarks.study import study
from smcpn.likelihood.registry import build_estimate, build_likelihood
from smcpn.smc.estimation import MOST, MOST_VARIANCE, enough, fresh_keys
from smcpn.smc.particles import RecordTarget, normalise
from smcpn.smc.sampler import Sampler
from smcpn.smc.sampler import Settings as SamplerSettings
from smcpn.smc.tempering import Tempering

Array = NDArray[np.float64]

LOGNORMAL: Any = stats.lognorm

SEEDS, QUICK_SEEDS = 20, 2
THETA = 500
KILLS, QUICK_KILLS = 50, 1


@smcpn.ode
def decaying(x, *, rate):
    """Ornstein-Uhlenbeck process."""
    return -rate * x


@smcpn.ode
def oscillator(x, v, *, c):
    """Damped oscillator, disturbed through its velocity."""
    return v, -4.0 * x - c * v


@smcpn.ode
def duffing(x, v, u, *, c, k, k3):
    """Duffing oscillator."""
    return v, u - c * v - k * x - k3 * x**3


@smcpn.ode
def bistable(x, *, rate):
    """Two wells, between which the noise moves the state."""
    return rate * (x - x**3)


@dataclass(frozen=True)
class Linear:
    """A linear model dx = A(first parameter) x dt + q dW of the last state, the first observed.

    matrix: From the first parameter to A.
    """

    name: str
    ode: Any
    matrix: Callable[[float], Array]
    h: float
    noise: float
    samples: int = 100

    def transition(self, values: Array) -> tuple[Array, Array]:
        """Factor of the state over a sampling interval, and covariance of what is added."""
        disturbed = np.zeros((len(self.ode.states),) * 2)
        disturbed[-1, -1] = values[1] ** 2
        return exact_transition(self.matrix(values[0]), disturbed, self.h)

    @cached_property
    def y(self) -> Array:
        """Samples at both parameters one."""
        rng, (factor, covariance) = np.random.default_rng(0), self.transition(np.ones(2))
        x, y = np.zeros(len(factor)), []
        for _ in range(self.samples):
            y.append(x[0] + self.noise * rng.standard_normal())
            x = factor @ x + np.linalg.cholesky(covariance) @ rng.standard_normal(len(x))
        return np.array(y)

    @cached_property
    def problem(self) -> smcpn.Problem:
        """The problem of both parameters."""
        first, last = self.ode.parameters[0], self.ode.states[-1]
        return smcpn.Problem(
            self.ode,
            smcpn.Record(y=self.y, dt=self.h),
            observe=self.ode.states[0],
            noise=self.noise,
            process_noise={last: "q"},
            prior={first: LOGNORMAL(0.5), "q": LOGNORMAL(0.5)},
            initial=dict.fromkeys(self.ode.states, 0.0),
        )

    def log_likelihood(self, values: Array) -> float:
        """Textbook Kalman filter with the exact transition."""
        start = np.zeros(len(self.ode.states))
        return float(Textbook(*self.transition(values), start, self.noise**2).run(self.y)[0])

    @cached_property
    def exact(self) -> tuple[float, Array, Array]:
        """Log-evidence, mean and sd of the logarithms of the parameters, by a grid of 41 x 41."""
        axis = np.linspace(-1.8, 1.8, 41)
        theta = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        log_density = self.problem.prior.log_density(theta)
        log_density += [self.log_likelihood(np.exp(one)) for one in theta]
        weights = normalise(log_density)
        top = log_density.max()
        evidence = top + np.log(np.exp(log_density - top).sum() * (axis[1] - axis[0]) ** 2)
        mean = weights @ theta
        return float(evidence), mean, np.sqrt(weights @ (theta - mean) ** 2)


LINEAR = (
    Linear("OU", decaying, lambda rate: np.array([[-rate]]), 0.5, 0.5),
    Linear("oscillator", oscillator, lambda c: np.array([[0.0, 1.0], [-4.0, -c]]), 0.2, 0.2),
)


@dataclass(frozen=True)
class Result:
    """What one run found: evidence with its error, and moments of theta with that of the mean."""

    log_evidence: float
    error: float
    mean: Array
    ess: float


def identified(case: Linear, seed: int, **options: Any) -> Result:
    """Identify as a user does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", smcpn.SamplerWarning)
        found = smcpn.identify(
            case.problem, likelihood="particle", solver=smcpn.RK4(2), particles=THETA, seed=seed,
            progress=False, **options,
        )  # fmt: skip
    weights = normalise(found.log_weights)
    return Result(found.log_evidence, found.log_evidence_se, weights @ found.theta, found.ess)


def bootstrapped(case: Linear, seed: int) -> Result:
    """Carry the Kalman posterior over to bootstrap filters, whose estimates vary."""
    solver, prior, rng = smcpn.RK4(2), case.problem.prior, np.random.default_rng(seed)
    exact = build_likelihood(case.problem, solver, None, "kalman")
    sampler = Tempering(prior, exact, SamplerSettings(particles=THETA), rng)
    sampler.run()
    estimate: Any = build_estimate(case.problem, solver, None, "particle")
    sampler.begin_estimate(estimate.bootstrap())
    while sampler.finer is not None:
        sampler.cross_refinement()
    system = sampler.system
    return Result(
        sampler.log_evidence, sampler.log_evidence_se, system.weights @ system.theta, system.ess
    )


WAYS: dict[str, Callable[[Linear, int], Result]] = {
    "twisted": identified,
    "bootstrap": bootstrapped,
    "IBIS": lambda case, seed: identified(case, seed, method="ibis"),
}


@study("smc2-exact")
def exact(quick: bool) -> Iterator[Row]:
    """Evidence and posterior means in standard errors from quadrature with the exact transition."""
    seeds = QUICK_SEEDS if quick else SEEDS
    for case in LINEAR[:1] if quick else LINEAR:
        evidence, mean, sd = case.exact
        for way, run in WAYS.items():
            found = list(each(partial(run, case), range(seeds)))
            errors = np.array([one.log_evidence - evidence for one in found])
            z = errors / [one.error for one in found]
            moments = np.array([(one.mean - mean) / sd * np.sqrt(one.ess) for one in found])
            note = f"{seeds} seeds, {THETA} theta, T {case.samples}; rms error {_rms(errors):.3f}"
            limit = rms_of(1.25, seeds, SEEDS)
            yield at_most(f"{case.name}, {way}: z rms of the evidence", _rms(z), limit, note)
            yield at_most(f"{case.name}, {way}: z rms of the means", _rms(moments), limit)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


H, NOISE = 0.1, 0.05
TRUTH = {"c": 0.3, "k": 1.0, "k3": 1.0, "q": 0.1}


def duffing_problem(samples: int) -> smcpn.Problem:
    """Duffing oscillator, disturbed through its velocity, position observed."""
    u = np.cos(0.7 * H * np.arange(samples))
    record = smcpn.Record(u=u, y=_drawn(samples, u), dt=H, hold="zoh")
    return smcpn.Problem(
        duffing, record, observe="x", noise=NOISE, process_noise={"v": "q"},
        prior={name: LOGNORMAL(0.3, scale=value) for name, value in TRUTH.items()},
    )  # fmt: skip


def _drawn(samples: int, u: Array) -> Array:
    rng, x = np.random.default_rng(0), np.zeros((1, 2))
    moved, y = Moved(**TRUTH), np.empty(samples)
    for k in range(samples):
        y[k] = x[0, 0] + NOISE * rng.standard_normal()
        x = moved.step(x, u[k]) + rng.standard_normal((1, 2)) @ moved.factor.T
    return y


class Moved:
    """Transition over a sample: one step of RK4, and the joint Gaussian of position and velocity.

    It is the discrete model of `smcpn`, whose likelihoods take one step a sample here.
    """

    def __init__(self, c: float, k: float, k3: float, q: float) -> None:
        self.c, self.k, self.k3 = c, k, k3
        root = q * np.sqrt(H)
        self.factor = root * np.array([[H / np.sqrt(12), H / 2], [0.0, 1.0]])

    def rate(self, x: Array, u: float) -> Array:
        """Right-hand side."""
        position, velocity = x.T
        force = u - self.c * velocity - (self.k + self.k3 * position**2) * position
        return np.stack([velocity, force], axis=1)

    def step(self, x: Array, u: float) -> Array:
        """Runge-Kutta step of states (n, 2)."""
        a = self.rate(x, u)
        b = self.rate(x + 0.5 * H * a, u)
        c = self.rate(x + 0.5 * H * b, u)
        return x + H / 6 * (a + 2 * b + 2 * c + self.rate(x + H * c, u))


STATE_PARTICLES = 100
CHAINS, LENGTH = 10, 10
"""Waste-free moves of the peer: so many chains of so many states are its theta."""


@study("smc2-speed", full=(200, 6), quick=(40, 3))
def speed(size: tuple[int, int]) -> Iterator[Row]:
    """Seconds times variance of the log-evidence, over those of SMC^2 of `particles`.

    A sampler's variance falls as its theta and its time grow: the product depends on neither. Both
    take the same record, shorter than the 1000 samples of a whole comparison, where the peer needs
    minutes for each theta; its filters need more state particles the longer the record is.
    """
    samples, seeds = size
    problem, own = duffing_problem(samples), 4 * seeds

    def run(seed: int) -> float:
        return smcpn.identify(
            problem, likelihood="particle", solver=smcpn.RK4(1), particles=THETA, seed=seed,
            threads=1, progress=False,
        ).log_evidence  # fmt: skip

    run(0)
    begin = time.perf_counter()
    ours = np.array([run(seed) for seed in range(own)])
    seconds = (time.perf_counter() - begin) / own
    told = f"{THETA} theta, T {samples}, {own} seeds: {seconds:.2f} s, sd {ours.std(ddof=1):.3f}"
    yield Row("log-evidence by SMC^2", float(ours.mean()), note=told)
    try:
        from benchmarks.process_noise.particles_peer import whole_smc2

        theirs, slow = whole_smc2(
            problem, Moved, TRUTH, NOISE, STATE_PARTICLES, CHAINS, LENGTH, seeds
        )
    except ImportError as error:
        yield absent("whole SMC^2 over particles", str(error))
        return
    told = f"{CHAINS * LENGTH} theta, N_x {STATE_PARTICLES}, {seeds} seeds: {slow:.1f} s, "
    yield Row(
        "log-evidence by particles",
        float(theirs.mean()),
        note=told + f"sd {theirs.std(ddof=1):.3f}",
    )
    work = slow / (seconds * ours.var(ddof=1))
    same = slow / seconds * THETA / (CHAINS * LENGTH)
    note = f"seconds x variance, T {samples}; seconds alone {same:.0f} at as many theta"
    ratio = work * theirs.var(ddof=1)
    yield at_least("whole SMC^2 over particles, at equal variance", float(ratio), 500, note)
    # The logarithm of an estimate by few effective particles is low, which few seeds do not show
    # as spread. Its error from ours has that in it too, and stands beside without a target.
    error = float(np.mean(np.square(theirs - ours.mean())))
    yield Row("the same with its squared error from ours", work * error)
    whole = duffing_problem(1000)
    begin = time.perf_counter()
    smcpn.identify(
        whole, likelihood="particle", solver=smcpn.RK4(1), particles=THETA, seed=0, progress=False
    )
    yield Row("seconds at T 1000", time.perf_counter() - begin)


@study("smc2-criterion", full=400, quick=100)
def criterion(number: int) -> Iterator[Row]:
    """State particles by the variance at one theta, and by that across a population.

    The population is that of a half-tempered record: the likelihood itself differs between its
    theta, which no number of state particles changes.
    """
    case = LINEAR[0]
    estimate: Any = build_estimate(case.problem, smcpn.RK4(2), None, "particle")
    estimate = estimate.bootstrap().with_state_particles(32)
    rng, prior = np.random.default_rng(0), case.problem.prior
    theta = prior.sample(rng, number)
    target = RecordTarget(prior, estimate, 0, 1.0)
    keys = fresh_keys(rng, len(theta), estimate.n_keys(estimate.n_samples))
    system = target.particles(theta, keys)
    sampler = Tempering(prior, estimate, SamplerSettings(particles=len(theta)), rng)
    sampler.proceed(0)
    posterior: Sampler = sampler
    while posterior.sample == 0:
        posterior.proceed(0)
    chosen, variance = enough(target, estimate, posterior.system, rng)
    across = {n: _across(target, n, theta, keys) for n in (32, 256, 2048)}
    note = ", ".join(f"{value:.3g} at {n}" for n, value in across.items())
    yield at_most("variance at one theta", variance, MOST_VARIANCE, f"N_x {chosen.state_particles}")
    lasting = min(across.values())
    yield at_least("variance across theta, whatever N_x", lasting, 10 * MOST_VARIANCE, note)
    yield Row(
        "state particles by the variance across theta", f"the most there are, {MOST}",
        note=f"{len(system)} draws from the prior",
    )  # fmt: skip


def _across(target: RecordTarget, number: int, theta: Array, keys: Any) -> float:
    estimate: Any = target.likelihood
    other = target.with_estimate(estimate.with_state_particles(number))
    log_likelihood = other.particles(theta, keys).log_increment
    return float(log_likelihood[np.isfinite(log_likelihood)].var())


def _bistable_run(path: Path | None, threads: int | None = None) -> smcpn.Posterior:
    rng = np.random.default_rng(0)
    y = np.sign(np.sin(0.1 * np.arange(60))) + 0.3 * rng.standard_normal(60)
    problem = smcpn.Problem(
        bistable, smcpn.Record(y=y, dt=0.5), observe="x", noise=0.3, process_noise={"x": "q"},
        prior={"rate": LOGNORMAL(0.5), "q": LOGNORMAL(0.5)}, initial={"x": 0.0},
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", smcpn.SamplerWarning)
        return smcpn.identify(
            problem, likelihood="particle", solver=smcpn.RK4(4), particles=100, seed=1,
            checkpoint=path, checkpoint_every=0.0, threads=threads, progress=False,
        )  # fmt: skip


@study("smc2-kills", full=KILLS, quick=QUICK_KILLS)
def kills(count: int) -> Iterator[Row]:
    """Runs killed by SIGKILL, in the Kalman stage and on the bridge, and resumed from the file."""
    outcomes = Counter(killed_runs(count, _bistable_run))
    same = outcomes["same bytes"]
    note = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    yield Row("killed SMC^2 that ends in the same bytes", same, f"{count}", same == count, note)
    one, two = (_bistable_run(None, threads) for threads in (1, 2))
    equal = of_posterior(one) == of_posterior(two)
    yield Row("1 and 2 threads: same bytes", equal, "True", equal, str(one.method))
