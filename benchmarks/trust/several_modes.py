"""Posteriors of several modes that all explain the data: is each held at its weight.

An oral dose whose two rates may be exchanged, a sine whose frequency is seen by samples, and an
oscillator whose faster modes the steps of most draws from the prior do not resolve.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.reference.answer import Answer
from benchmarks.reference.importance import sample
from benchmarks.reference.quadrature import quadrature
from benchmarks.reference.solutions import gaussian, oral
from benchmarks.reference.target import Target, log_sum
from benchmarks.rows import Row, at_least, least_of
from benchmarks.study import study
from benchmarks.trust.known import Known, Tolerance, counted, default, errors_told, outcomes

Array = NDArray[np.float64]

DOSE = 10.0
SAMPLES = 150
TRUE_RATES = {"ka": 1.2, "ke": 0.25, "V": 2.0}
SCALES = (0.5, 0.8)
"""Of the prior of ka: the second leaves the lesser mode .075."""
SINE = 200
FREQUENCIES = (2.0, 2 * np.pi - 2.0, 2 * np.pi + 2.0, 4 * np.pi - 2.0)
"""Of the four modes that have most of the weight; they repeat every 2 pi."""
SINE_NOISE = 0.3


@smcpn.ode
def absorption(g, a, *, ka, ke):
    """Amounts in gut and body."""
    return -ka * g, ka * g - ke * a


@smcpn.ode
def clock(x):
    """The time."""
    return 0 * x + 1.0


def absorption_data() -> tuple[Array, Array, float]:
    """Times, concentrations and the standard deviation of their noise."""
    t, sd = np.linspace(0.3, 12.0, SAMPLES), 0.05 * np.sqrt(SAMPLES / 10)
    clean = oral(t, {name: np.array([v]) for name, v in TRUE_RATES.items()}, DOSE)[:, 0]
    return t, clean + sd * np.random.default_rng(2).normal(size=SAMPLES), float(sd)


def absorption_prior(scale: float) -> dict[str, Any]:
    """By the scale of ka."""
    return {
        "ka": stats.lognorm(0.8, scale=scale),
        "ke": stats.lognorm(0.8, scale=0.4),
        "V": stats.lognorm(0.7, scale=1.2),
    }


def absorption_problem(scale: float, seed: int = 0) -> smcpn.Problem:
    """The concentrations after an oral dose; the data are the same for any seed."""
    t, y, sd = absorption_data()
    return smcpn.Problem(
        absorption, smcpn.Record(t=np.append(0.0, t), y=np.append(np.nan, y)),
        observe=lambda a, *, V: a / V, noise=sd, prior=absorption_prior(scale),
        initial=[DOSE, 0.0],
    )  # fmt: skip


def absorption_answer(scale: float, seed: int = 0) -> Answer:
    """By an importance sample."""
    t, y, sd = absorption_data()

    def log_likelihood(v: Mapping[str, Array]) -> Array:
        return gaussian(y, oral(t, v, DOSE), sd)

    return sample(Target(absorption_prior(scale), log_likelihood), error=0.004)


def flip_flop_of(scale: float) -> Known:
    """The problem with the prior of a scale."""
    return Known(
        f"flip-flop, ka about {scale:g}",
        partial(absorption_problem, scale),
        partial(absorption_answer, scale),
        modes={"ka < ke": lambda v: v["ka"] < v["ke"]},
        tolerance=Tolerance(share=0.25),
        same_data=True,
    )


@study("flip-flop", full=40, quick=4)
def flip_flop(seeds: int) -> Iterator[Row]:
    """Both priors, over seeds of the run."""
    for scale in SCALES:
        known = flip_flop_of(scale)
        found = outcomes(known, default, range(seeds))
        yield from counted(f"ka about {scale:g}", found, 0.0, 40)
        yield from errors_told(f"ka about {scale:g}", found, 40)


def sine_data() -> tuple[Array, Array]:
    """Times and samples."""
    t = np.arange(float(SINE))
    return t, np.sin(2 * t) + SINE_NOISE * np.random.default_rng(1).normal(size=SINE)


SINE_PRIOR: Mapping[str, Any] = {"A": stats.norm(0, 1), "w": stats.lognorm(1.0, scale=3.0)}


def sine_problem(seed: int = 0) -> smcpn.Problem:
    """Amplitude and frequency; the data are the same for any seed."""
    t, y = sine_data()
    return smcpn.Problem(
        clock, smcpn.Record(t=t, y=y), observe=lambda x, *, A, w: A * np.sin(w * x),
        noise=SINE_NOISE, prior=dict(SINE_PRIOR), initial=[0.0],
    )  # fmt: skip


def sine_answer(seed: int = 0) -> Answer:
    """By quadrature over one period of the frequency, repeated; the amplitude in closed form.

    Each node has two values of the amplitude, its conditional mean more and less its deviation.
    """
    (t, y), spacing = sine_data(), 2 * np.pi / 200_000
    period = np.arange(spacing / 2, 2 * np.pi, spacing)
    waves = [np.sin(part[:, None] * t) for part in np.array_split(period, 100)]
    squares = np.concatenate([np.square(wave).sum(axis=1) for wave in waves]) / SINE_NOISE**2
    products = np.concatenate([wave @ y for wave in waves]) / SINE_NOISE**2
    precision = 1.0 + squares
    mean, sd = products / precision, precision**-0.5
    constant = -0.5 * y @ y / SINE_NOISE**2 - SINE * np.log(SINE_NOISE * np.sqrt(2 * np.pi))
    inner = constant - 0.5 * np.log(precision) + 0.5 * mean**2 * precision
    w = period + 2 * np.pi * np.arange(60)[:, None]
    heights = (inner + SINE_PRIOR["w"].logpdf(w)).ravel()
    evidence = float(log_sum(heights)) + np.log(spacing)
    kept = np.flatnonzero(heights > heights.max() - 40.0)
    weights, place = np.exp(heights[kept] - log_sum(heights[kept])), kept % len(period)
    amplitudes = np.concatenate([mean[place] + sd[place], mean[place] - sd[place]])
    values = {"A": amplitudes, "w": np.tile(w.ravel()[kept], 2)}
    return Answer(values, np.tile(weights / 2, 2), evidence, 0.0)


def _about(frequency: float, v: Mapping[str, Array]) -> NDArray[np.bool_]:
    return np.abs(v["w"] - frequency) < 0.3


ALIASING = Known(
    "aliasing",
    sine_problem,
    sine_answer,
    modes={f"w about {w:.2f}": partial(_about, w) for w in FREQUENCIES},
    tolerance=Tolerance(evidence=np.inf, means=np.inf),
    same_data=True,
)


@study("aliasing", full=40, quick=3)
def aliasing(seeds: int) -> Iterator[Row]:
    """Over seeds of the run: right, or warned of."""
    found = outcomes(ALIASING, default, range(seeds))
    honest = float(np.mean([bool(one.warnings) or not one.wrong for one in found]))
    yield at_least("right or warned", honest, least_of(0.95, seeds, 40))
    yield from counted("default", found, 0.05, 40)


@smcpn.ode
def oscillator(x, v, *, z, w):
    """Damped oscillator of angular frequency w."""
    return v, -(w**2) * x - z * v


RELEASED = 60
"""Samples, two in a second."""
RELEASED_NOISE = 0.1
DAMPED_PRIOR: Mapping[str, Any] = {
    "z": stats.lognorm(0.7, scale=0.05),
    "w": stats.lognorm(1.0, scale=3.0),
}


def released(t: Array, v: Mapping[str, Array]) -> Array:
    """Positions (T, N) after a release at one, at rest."""
    w = np.sqrt(np.maximum(v["w"] ** 2 - v["z"] ** 2 / 4, 1e-12))
    t = t[:, None]
    return np.exp(-v["z"] / 2 * t) * (np.cos(w * t) + v["z"] / (2 * w) * np.sin(w * t))


def released_data() -> tuple[Array, Array]:
    """Times and samples."""
    t = 0.5 * np.arange(float(RELEASED))
    clean = released(t, {"w": np.array([2.0]), "z": np.array([0.05])})[:, 0]
    return t, clean + RELEASED_NOISE * np.random.default_rng(4).normal(size=RELEASED)


def released_problem(seed: int = 0) -> smcpn.Problem:
    """Damping and frequency; the data are the same for any seed."""
    t, y = released_data()
    return smcpn.Problem(
        oscillator, smcpn.Record(t=t, y=y), observe="x", noise=RELEASED_NOISE,
        prior=dict(DAMPED_PRIOR), initial=[1.0, 0.0],
    )  # fmt: skip


def released_answer(seed: int = 0) -> Answer:
    """By quadrature, with a node or two in each standard deviation of the narrowest modes."""
    t, y = released_data()

    def log_likelihood(v: Mapping[str, Array]) -> Array:
        return gaussian(y, released(t, v), RELEASED_NOISE)

    target = Target(DAMPED_PRIOR, log_likelihood)
    return quadrature(target, {"z": (-1.0, 1.5, 51), "w": (-4.0, 4.0, 80_001)})


ALIASED_STEPS = Known(
    "aliased steps",
    released_problem,
    released_answer,
    modes={f"w about {w:.2f}": partial(_about, w) for w in (2.0, 4 * np.pi - 2.0, 4 * np.pi + 2.0)},
    same_data=True,
)


@study("aliased-steps", full=40, quick=1)
def aliased_steps(seeds: int) -> Iterator[Row]:
    """Over seeds of the run: faster modes call for more steps than most of the prior does."""
    yield from counted("default", outcomes(ALIASED_STEPS, default, range(seeds)), 0.05, 40)
