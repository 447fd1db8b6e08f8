"""Particle filters: fast, and how much they vary; against exact answers and a peer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.clock import best
from benchmarks.rows import Row, absent, at_least, at_most, reached
from benchmarks.study import study
from smcpn.codegen.terms import doubles
from smcpn.likelihood.particle.likelihood import Bootstrap, Particle, ParticleLikelihood

Array = NDArray[np.float64]

COPIES = 8
MOST_VARIANCE = 1.0
"""Of log Z over copies at one theta: above it state particles are doubled."""
MOST = 4096


@smcpn.ode
def duffing(x, v, u, *, c, k, k3):
    """Duffing oscillator of unit mass."""
    return v, u - c * v - k * x - k3 * x**3


@dataclass(frozen=True)
class Case:
    """A Duffing oscillator that noise drives, x seen every ``dt`` seconds, and a solver.

    Attributes
    ----------
    k, k3 : float
        Stiffness, negative between two wells, and cubic stiffness.
    noise, q : float
        Of the samples, and of the velocity in its unit per square root of a second.
    drive : float
        Amplitude of the input.
    """

    samples: int
    dt: float
    steps: int
    k: float
    k3: float
    noise: float
    q: float
    drive: float = 1.0

    @property
    def values(self) -> Array:
        """Parameters that made the record."""
        return np.array([0.3, self.k, self.k3, self.q])

    @property
    def ordered(self) -> Array:
        """The same in the order of the priors."""
        return self.values[[0, 1, 3, 2] if self.k3 else [0, 1, 3]]

    def simulated(self, rng: np.random.Generator) -> smcpn.Problem:
        """A problem whose record is simulated by Euler and Maruyama in steps of dt / 100."""
        c, k, k3, q = self.values
        t, h = self.dt * np.arange(self.samples), self.dt / 100
        u = self.drive * (np.cos(0.9 * t) + 0.5 * np.sin(0.37 * t))
        x, v, y = 0.2, 0.0, np.empty(self.samples)
        for sample in range(self.samples):
            for kick in rng.normal(size=100 if sample else 0):
                force = u[sample - 1] - c * v - k * x - k3 * x**3
                v += h * force + q * math.sqrt(h) * kick
                x += h * v
            y[sample] = x + self.noise * rng.normal()
        prior: dict[str, Any] = {
            "c": stats.lognorm(0.3, scale=c),
            "k": stats.norm(k, 0.2),
            "q": stats.lognorm(0.3, scale=q),
            "k3": stats.lognorm(0.3, scale=k3) if k3 else 0.0,
        }
        return smcpn.Problem(
            duffing,
            smcpn.Record(u=u, y=y, dt=self.dt, hold="zoh"),
            observe="x",
            noise=self.noise,
            initial=[0.2, 0.0],
            process_noise={"v": "q"},
            prior=prior,
        )

    def filters(self, kind: type[Particle], seed: int = 0) -> ParticleLikelihood:
        """Compiled filters of a simulated record, on one thread."""
        problem = self.simulated(np.random.default_rng(seed))
        return kind.build(problem, smcpn.RK4(steps=self.steps), 1)


LINEAR = Case(30, 0.2, 2, k=1.5, k3=0.0, noise=0.3, q=0.5)
MODERATE = Case(500, 0.1, 1, k=1.0, k3=1.0, noise=0.1, q=0.5)
SPARSE = Case(100, 0.5, 10, k=1.0, k3=3.0, noise=0.1, q=0.5)
BISTABLE = Case(60, 1.0, 10, k=-1.0, k3=1.0, noise=0.2, q=0.5, drive=0.3)
UNSEEN_WELL = Case(60, 1.0, 10, k=-1.0, k3=1.0, noise=0.5, q=0.6, drive=0.0)


def estimates(
    likelihood: ParticleLikelihood, case: Case, copies: int, seed: int, particles: int
) -> Array:
    """Log Z of so many filters at the truth, by independent keys."""
    samples = likelihood.n_samples
    keys = np.random.default_rng(seed).integers(
        0, 2**64, size=(copies, likelihood.n_keys(samples)), dtype=np.uint64
    )
    values = np.tile(case.ordered, (copies, 1))
    return likelihood.with_state_particles(particles).evaluate(values, samples, keys)[1]


@study("particle filter, speed")
def speed(quick: bool) -> Iterator[Row]:
    """State-particle steps per second of a thread, 256 of them, and of a peer in the same run."""
    repeats, thetas = (200 if quick else 1000), 8
    rates: dict[str, float] = {}
    for kind in (Particle, Bootstrap):
        for steps in (1, 5):
            case = Case(60 // steps, 0.1, steps, k=1.0, k3=1.0, noise=0.1, q=0.5)
            likelihood = case.filters(kind)
            seconds = best(lambda: estimates(likelihood, case, thetas, 2, 256), repeats)  # noqa: B023
            done = likelihood.n_steps * thetas * 256
            rates[f"{kind.name}, {steps} steps in an interval"] = done / seconds
    for name, rate in rates.items():
        label = f"{name}, steps per second"
        judged = at_least(label, rate, 6e7 * doubles() / 8)  # That of AVX-512, by its vectors.
        if quick:
            judged = reached(judged, 4e7 * doubles() / 8, most=False)
        yield judged if name.startswith("particle,") else Row(label, rate)
    try:
        from benchmarks.process_noise.particles_peer import plain_filter
    except ImportError as error:
        yield absent("times the plain filter of particles", str(error))
        return
    peer = plain_filter(MODERATE, 40, 256)
    rate = 39 * 256 / best(peer, 20 if quick else 100)
    yield Row("plain filter of particles, steps per second", rate)
    yield at_least(
        "twisted, times the plain filter of particles",
        rates["particle, 1 steps in an interval"] / rate,
        40.0,
    )


@study("particle filter, variance", full=10, quick=2)
def variance(seeds: int) -> Iterator[Row]:
    """Variance of log Z at one theta; hard cases with state particles that grow by themselves."""
    copies = 64
    worst = max(
        estimates(MODERATE.filters(Particle, seed), MODERATE, copies, seed, 64).var(ddof=1)
        for seed in range(seeds)
    )
    yield at_most(f"moderate, 64 state particles, largest of {seeds} records", worst, 0.002)
    for name, case in {
        "sparse": SPARSE,
        "bistable": BISTABLE,
        # The state may be in either well: a Gaussian look-ahead function sees one of them.
        "wells hardly seen": UNSEEN_WELL,
    }.items():
        yield from _hard(name, case, copies)


def _hard(name: str, case: Case, copies: int) -> Iterator[Row]:
    """Evidence of 64 filters: those suited, of as many state particles as 8 copies ask for."""
    particles = 32
    given = case.filters(Particle).with_state_particles(particles)
    yield Row(
        f"{name}, variance of log Z, twisted, 32 state particles",
        float(estimates(given, case, COPIES, 3, particles).var(ddof=1)),
    )
    chosen = given.suited(case.ordered[None])
    found = estimates(chosen, case, COPIES, 3, particles).var(ddof=1)
    while found > MOST_VARIANCE and particles < MOST:
        particles *= 2
        found = estimates(chosen, case, COPIES, 3, particles).var(ddof=1)
    kind = "twisted" if chosen.look_ahead else "bootstrap"
    yield Row(f"{name}, state particles", particles, note=f"{kind}, variance {found:.3g}")
    evidence = _log_mean(estimates(chosen, case, copies, 4, particles))
    large = _log_mean(estimates(given.with_look_ahead(False), case, 8, 5, 16384))
    away = abs(evidence - large)
    yield at_most(f"{name}, |evidence - that of bootstrap filters at 16384|", away, 0.3)


def _log_mean(log_estimates: Array) -> float:
    shift = log_estimates.max()
    return float(shift + np.log(np.exp(log_estimates - shift).mean()))
