"""Few samples, drawn from the prior: is the bulk of the posterior found, and known to be missed.

A bolus into two compartments, a dose by mouth, an enzyme, a population and a vibration, each of
seven to twelve samples with noise of unknown size, so that a narrow region with little noise may
have the bulk of the posterior, which what sequential Monte Carlo begins with does not have: for one
data set in twelve of the bolus.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.reference.answer import Answer
from benchmarks.reference.importance import sample
from benchmarks.reference.solutions import gaussian, integrated, log_normal, oral, two_compartments
from benchmarks.reference.target import Target
from benchmarks.rows import Row, at_most
from benchmarks.study import Study, study
from benchmarks.trust.known import (
    WAYS,
    Known,
    calibrated,
    counted,
    errors_told,
    exact,
    outcomes,
)
from benchmarks.trust.several_modes import absorption

Array = NDArray[np.float64]
Values = Mapping[str, Array]

DATA_SETS = 60
DOSE, BOLUS, SUBSTRATE = 10.0, 100.0, 5.0


@smcpn.ode
def compartments(a1, a2, *, CL, V1, Q, V2):
    """Amounts in two compartments that exchange, of which the first is cleared."""
    return -(CL + Q) / V1 * a1 + Q / V2 * a2, Q / V1 * a1 - Q / V2 * a2


@smcpn.ode
def enzyme(s, *, Vmax, Km):
    """Michaelis-Menten decay of a substrate."""
    return -Vmax * s / (Km + s)


@smcpn.ode
def growth(n, *, r, K):
    """Logistic growth."""
    return r * n * (1 - n / K)


@smcpn.ode
def vibration(x, v, *, k, c):
    """Damped oscillator of unit mass."""
    return v, -k * x - c * v


def decayed(t: Array, v: Values) -> Array:
    """Substrate, (T, N)."""

    def rate(_: int, s: Array) -> tuple[Array]:
        return (-v["Vmax"] * s / (v["Km"] + s),)

    return integrated(rate, [np.full(len(v["Km"]), SUBSTRATE)], t, 0.1)[0]


def grown(t: Array, v: Values) -> Array:
    """Population, (T, N)."""
    odds = (v["K"] - v["n0"]) / v["n0"]
    return v["K"] / (1.0 + odds * np.exp(-v["r"] * t[:, None]))


def vibrating(t: Array, v: Values) -> Array:
    """Displacement from x0 at rest, (T, N)."""
    half, t = 0.5 * v["c"], t[:, None]
    root = np.sqrt((v["k"] - half**2).astype(complex))
    wave: Any = np.cos(root * t) + half * np.sin(root * t) / root
    return v["x0"] * np.exp(-half * t) * wave.real


def exchanged(t: Array, v: Values) -> Array:
    """Concentration after a bolus, (T, N)."""
    return two_compartments(t, v, BOLUS)


def dosed(t: Array, v: Values) -> Array:
    """Concentration after a dose by mouth, (T, N)."""
    return oral(t, v, DOSE)


def aliases(values: Mapping[str, float]) -> list[dict[str, float]]:
    """Oscillators that turn once more, or less, between samples of `vibration-short`."""
    half = 0.5 * values["c"]
    root = math.sqrt(values["k"] - half**2)
    turns = (math.tau - root, math.tau + root, 2 * math.tau - root)
    return [dict(values, k=turn**2 + half**2) for turn in turns]


@dataclass(frozen=True)
class Short:
    """A model in both forms, its prior, and when it is seen.

    Attributes
    ----------
    solution : callable
        Outputs (T, N) at times for values, in plain arrays.
    ode, observe, initial
        Of the `Problem`.
    prior : mapping of str to scipy distribution
        The last one is that of the size of the noise.
    times : ndarray, (T,)
        The first is zero, and is not seen.
    relative : bool
        Whether the noise is log-normal.
    alike : callable, optional
        Parameters whose samples are nearly those of given ones, where searches of the reference
        begin too.
    """

    solution: Callable[[Array, Values], Array]
    ode: smcpn.ODE
    observe: Any
    initial: Mapping[str, Any]
    prior: Mapping[str, Any]
    times: Array
    relative: bool = False
    alike: Callable[[Mapping[str, float]], list[dict[str, float]]] | None = None

    def drawn(self, seed: int) -> tuple[dict[str, float], Array]:
        """Parameters and samples."""
        rng = np.random.default_rng(seed)
        truth = {name: float(one.rvs(random_state=rng)) for name, one in self.prior.items()}
        values = {name: np.array([value]) for name, value in truth.items()}
        noise = truth[self.noise] * rng.normal(size=len(self.times))
        clean = self.solution(self.times, values)[:, 0]
        return truth, (clean * np.exp(noise) if self.relative else clean + noise)[1:]

    @property
    def noise(self) -> str:
        """Name of the size of the noise."""
        return list(self.prior)[-1]

    def truth(self, seed: int) -> dict[str, float]:
        """Parameters behind the samples of a seed."""
        return self.drawn(seed)[0]

    def problem(self, seed: int) -> smcpn.Problem:
        """Identify all parameters."""
        y = np.append(np.nan, self.drawn(seed)[1])
        noise: Any = smcpn.LogNormal(self.noise) if self.relative else self.noise
        return smcpn.Problem(
            self.ode, smcpn.Record(t=self.times, y=y), observe=self.observe, noise=noise,
            prior=dict(self.prior), initial=dict(self.initial),
        )  # fmt: skip

    def answer(self, seed: int) -> Answer:
        """By an importance sample; searches begin at the truth and at what is sampled alike."""
        truth, y = self.drawn(seed)
        starts = [truth, *([] if self.alike is None else self.alike(truth))]
        density = log_normal if self.relative else gaussian

        def log_likelihood(v: Values) -> Array:
            return density(y, self.solution(self.times, v)[1:], v[self.noise])

        return sample(Target(self.prior, log_likelihood), starts=starts)

    @property
    def known(self) -> Known:
        """With its exact answer."""
        return Known(self.ode.name, self.problem, self.answer, self.truth)


BOLUS_SHORT = Short(
    exchanged, compartments, lambda a1, *, V1: a1 / V1, {"a1": BOLUS, "a2": 0.0},
    {
        "CL": stats.lognorm(0.4, scale=3.0),
        "V1": stats.lognorm(0.4, scale=10.0),
        "Q": stats.lognorm(0.5, scale=4.0),
        "V2": stats.lognorm(0.5, scale=20.0),
        "s": stats.lognorm(0.5, scale=0.1),
    },
    np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0]),
    relative=True,
)  # fmt: skip
SHORT: Mapping[str, Short] = {
    "oral-short": Short(
        dosed, absorption, lambda a, *, V: a / V, {"g": DOSE, "a": 0.0},
        {
            "ka": stats.lognorm(0.6, scale=1.2),
            "ke": stats.lognorm(0.6, scale=0.25),
            "V": stats.lognorm(0.5, scale=2.0),
            "s": stats.lognorm(0.6, scale=0.15),
        },
        np.array([0.0, 0.5, 1.0, 2.0, 4.0, 6.0, 9.0, 12.0]),
        relative=True,
    ),
    "enzyme": Short(
        decayed, enzyme, "s", {"s": SUBSTRATE},
        {
            "Vmax": stats.lognorm(0.5, scale=1.0),
            "Km": stats.lognorm(0.8, scale=2.0),
            "s_noise": stats.lognorm(0.7, scale=0.1),
        },
        np.linspace(0.0, 8.0, 9),
    ),
    "logistic": Short(
        grown, growth, "n", {"n": "n0"},
        {
            "r": stats.lognorm(0.5, scale=0.8),
            "K": stats.lognorm(0.6, scale=10.0),
            "n0": stats.lognorm(0.8, scale=0.5),
            "s": stats.lognorm(0.8, scale=0.3),
        },
        np.linspace(0.0, 10.0, 9),
    ),
    "vibration-short": Short(
        vibrating, vibration, "x", {"x": "x0", "v": 0.0},
        {
            "k": stats.lognorm(0.6, scale=4.0),
            "c": stats.lognorm(0.8, scale=0.2),
            "x0": stats.norm(0.0, 1.0),
            "s": stats.lognorm(0.8, scale=0.1),
        },
        np.linspace(0.0, 12.0, 13),
        alike=aliases,
    ),
}  # fmt: skip
SILENT = {"default": 0.01, "ibis": 0.02, "Online": 0.02}
"""Largest share of data sets of the bolus whose answer is wrong without a word, each way."""
SILENT_OTHERS = 0.02


@study("pk-short", full=range(300), quick=(0, 1, 148))
def pk_short(seeds: Sequence[int]) -> Iterator[Row]:
    """Wrong answers over data sets, each way, and the errors of the references."""
    ways = WAYS if len(seeds) >= DATA_SETS else ("default",)
    for way in ways:
        found = outcomes(BOLUS_SHORT.known, WAYS[way], seeds)
        yield from counted(way, found, SILENT[way], 300)
        yield from errors_told(way, found, 300, judged=False)
    told = [exact(BOLUS_SHORT.answer, seed) for seed in seeds[:50]]
    yield at_most("references: Pareto k", max(one.pareto_k for one in told), 0.7)
    yield at_most("references: error", max(one.log_evidence_se for one in told), 0.02)


@study("pk-short-ranks", full=1000, quick=None)
def pk_short_ranks(data_sets: int) -> Iterator[Row]:
    """Whether the truth is as often in each part of the posterior as it should be."""
    ranked = Known("pk-short-ranks", BOLUS_SHORT.problem, truth=BOLUS_SHORT.truth)
    for way, run in WAYS.items():
        yield from calibrated(way, outcomes(ranked, run, range(data_sets)), 1000)


def others(name: str, quick: bool) -> Iterator[Row]:
    """Wrong answers and ranks of one model, by default and, in full, by streams."""
    for way in ("default",) if quick else ("default", "Online"):
        found = outcomes(SHORT[name].known, WAYS[way], range(2 if quick else DATA_SETS))
        yield from counted(way, found, SILENT_OTHERS, DATA_SETS)
        yield from errors_told(way, found, DATA_SETS, judged=False)
        if not quick:
            yield from calibrated(way, found, 1000)


STUDIES = [Study(name, partial(others, name)) for name in SHORT]
