"""Whether a summary ends in the right verdict, and says what matters before all else.

Small systems whose answer is known: a tank, a spring, two lags in series, a disturbed tank, counts
of a decay, and a sine that samples do not tell from its alias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.executors import each
from benchmarks.rows import Row, at_least, least_of
from benchmarks.study import study
from benchmarks.trust.several_modes import clock

Array = NDArray[np.float64]

SAMPLES, DT, NOISE, PARTICLES = 200, 0.1, 0.05, 400
SAID, RECORDS = 0.95, 20
"""Share of records whose summary says first what it should."""
FRESH = 70_000
"""First seed of the records: smaller ones were looked at when the checks were made."""
SCALES = (1000.0, 100.0, 180 / np.pi, 10.0, 3.6)
"""Metres in mm and in cm, radians in degrees, tenths, and km/h."""
STATED = (1 / 50, 1 / 20, 1 / 10, 1 / 5)
"""Noise that is stated, over the true one."""


@smcpn.ode
def tank(x, u, *, k):
    """A tank that empties."""
    return u - k * x


@smcpn.ode
def spring(x, v, u, *, c, k):
    """A damped spring of unit mass."""
    return v, u - c * v - k * x


@smcpn.ode
def lags(a, b, u, *, tau1, tau2):
    """Two lags in series."""
    return (u - a) / tau1, (a - b) / tau2


@smcpn.ode
def fading(x, *, rate):
    """The logarithm of an intensity, which decays to zero."""
    return -rate * x


@dataclass(frozen=True)
class Told:
    """A system with its truth, and what is told of it: ``noise`` is "sigma" where it is learned."""

    ode: smcpn.ODE
    truth: Mapping[str, float]
    observe: str = "x"
    prior: Mapping[str, Any] = field(default_factory=dict)
    noise: float | str = NOISE
    scale: float = 1.0
    disturbed: float = 0.0

    def posterior(self, seed: int) -> smcpn.Posterior:
        """Identify it from a record that the seed draws."""
        rng = np.random.default_rng(seed)
        u = np.repeat(rng.normal(size=SAMPLES // 10), 10)
        y = self.scale * (self._outputs(u, rng) + NOISE * rng.normal(size=SAMPLES))
        prior: dict[str, Any] = {
            name: stats.lognorm(1.0, scale=1.5 * value) for name, value in self.truth.items()
        }
        if self.noise == "sigma":
            prior["sigma"] = stats.lognorm(1.0, scale=NOISE)
        process = {"x": "q"} if self.disturbed else None
        prior |= {"q": stats.lognorm(1.0, scale=self.disturbed)} if self.disturbed else {}
        problem = smcpn.Problem(
            self.ode, smcpn.Record(u=u, y=y, dt=DT, hold="zoh"), observe=self.observe,
            noise=self.noise, prior=prior | dict(self.prior), process_noise=process,
            initial=[0.0] * len(self.ode.states),
        )  # fmt: skip
        return identified(problem, seed)

    def _outputs(self, u: Array, rng: np.random.Generator) -> Array:
        if not self.disturbed:
            record = smcpn.Record(u=u, dt=DT, hold="zoh")
            return smcpn.simulate(self.ode, record, dict(self.truth), observe=self.observe)[:, 0]
        x, kept = np.zeros(SAMPLES), np.exp(-DT * self.truth["k"])
        sd = self.disturbed * np.sqrt((1.0 - kept**2) / (2 * self.truth["k"]))
        for n in range(SAMPLES - 1):
            x[n + 1] = kept * x[n] + (1 - kept) / self.truth["k"] * u[n] + sd * rng.normal()
        return x


def identified(problem: smcpn.Problem, seed: int) -> smcpn.Posterior:
    """Identify a problem in a single thread, without a word on the way."""
    return smcpn.identify(problem, particles=PARTICLES, seed=seed, threads=1, progress=False)


TANK = Told(tank, {"k": 1.0})
SPRING = Told(spring, {"c": 0.5, "k": 4.0})
SAME = {name: stats.lognorm(1.0) for name in ("tau1", "tau2")}
"""With priors of their own two lags have two modes, neither of which is the other exchanged."""
LAGS = Told(lags, {"tau1": 0.4, "tau2": 2.0}, observe="b", prior=SAME, noise="sigma")


def _seeds(count: int) -> range:
    return range(FRESH, FRESH + count)


def _first(posterior: smcpn.Posterior) -> str:
    """Return the first line that the verdict says, as printed in the summary."""
    lines = posterior.summary().splitlines()
    place = next(k for k, line in enumerate(lines) if line.startswith("verdict"))
    return " ".join(lines[place + 1 :][:1])


def _said(name: str, words: tuple[str, ...], cases: list[tuple[Told, int]]) -> Row:
    told = each(_first_of, cases)
    share = np.mean([any(word in line for word in words) for line in told])
    return at_least(
        f"{name}, {len(cases)} records", float(share), least_of(SAID, len(cases), RECORDS)
    )


def _first_of(case: tuple[Told, int]) -> str:
    return _first(case[0].posterior(case[1]))


@study("noise-too-small", full=RECORDS, quick=4)
def noise_too_small(records: int) -> Iterator[Row]:
    """The noise is stated 5 to 50 times too small."""
    for one in (TANK, SPRING):
        cases = [(_with(one, noise=NOISE * STATED[seed % 4]), seed) for seed in _seeds(records)]
        yield _said(f"said first, {one.ode.name}", ("look at the noise",), cases)


@study("wrong-unit", full=RECORDS, quick=1)
def wrong_unit(records: int) -> Iterator[Row]:
    """The outputs are in another unit than model and prior."""
    for one, noise in ((TANK, NOISE), (SPRING, NOISE), (TANK, "sigma"), (SPRING, "sigma")):
        cases = [
            (_with(one, noise=noise, scale=SCALES[seed % 5]), seed) for seed in _seeds(records)
        ]
        known = "noise learned" if noise == "sigma" else "noise known"
        yield _said(f"said first, {one.ode.name}, {known}", ("another unit", "the units"), cases)


@study("at-the-bound", full=RECORDS, quick=4)
def at_the_bound(records: int) -> Iterator[Row]:
    """The prior ends before the truth, above it or below."""
    below, above = stats.uniform(0.1, 0.7), stats.uniform(1.3, 2.0)
    for prior, noise in ((below, NOISE), (above, NOISE), (below, "sigma")):
        one = _with(TANK, prior={"k": prior}, noise=noise)
        cases = [(one, seed) for seed in _seeds(records)]
        end = "below" if prior is below else "above"
        yield _said(f"said first, prior {end} the truth, {noise}", ("k ends at",), cases)


@study("modes-printed", full=RECORDS, quick=2)
def modes_printed(count: int) -> Iterator[Row]:
    """Lags that may be exchanged are told apart, and modes that may not are printed as modes."""
    least = least_of(SAID, count, RECORDS)
    for truth in ({"tau1": 0.4, "tau2": 2.0}, {"tau1": 0.9, "tau2": 1.3}):
        one = _with(LAGS, truth=truth)
        found = list(each(partial(_lags_told, one), _seeds(count)))
        name = f"lags of {truth['tau1']} and {truth['tau2']}, {count} records"
        yield at_least(f"{name}: shown in order", float(np.mean([a for a, _ in found])), least)
        yield at_least(f"{name}: no trade-off", float(np.mean([b for _, b in found])), least)
    for name, told in (("lags with priors of their own", _own_lags_told), ("a sine", _sine_told)):
        share = np.mean(list(each(told, _seeds(count))))
        yield at_least(f"two modes of {name}, {count} records", float(share), least)


def _lags_told(one: Told, seed: int) -> tuple[bool, bool]:
    """Whether both lags are within four standard deviations, and no trade-off is told."""
    posterior = one.posterior(seed)
    rows = {row.name: row for row in posterior.table()}
    right = all(abs(rows[name].mean - v) < 4 * rows[name].sd for name, v in one.truth.items())
    text = posterior.summary()
    return right and "exchangeable     tau1 and tau2" in text, "trades off" not in text


def _own_lags_told(seed: int) -> bool:
    """Whether both orders of lags that are no equals stand in the summary."""
    truth = list(LAGS.truth.values())
    return _modes_told(_with(LAGS, prior={}).posterior(seed), (truth, truth[::-1]))


def _modes_told(posterior: smcpn.Posterior, expected: Sequence[Sequence[float]]) -> bool:
    """Whether a summary has as many modes as expected, with their first means, and says so."""
    text, modes, first = posterior.summary(), posterior.modes, len(expected[0])
    right = all(
        any(np.all(np.abs(mode.mean[:first] - at) < 4 * mode.sd[:first]) for mode in modes)
        for at in expected
    )
    count = len(expected)
    return (
        len(modes) == count and right and f"mode {count - 1}" in text and f"{count} modes" in text
    )


def _sine_told(seed: int) -> bool:
    """Whether the modes stand in the summary with their weights, means and deviations."""
    t, rng = np.arange(200.0), np.random.default_rng(seed)
    record = smcpn.Record(t=t, y=np.sin(2 * t) + 0.3 * rng.normal(size=len(t)))
    prior: dict[str, Any] = {"A": stats.norm(0, 1), "w": stats.uniform(1.0, 4.0)}
    problem = smcpn.Problem(
        clock, record, observe=lambda x, *, A, w: A * np.sin(w * x), noise=0.3, prior=prior,
        initial=[0.0],
    )  # fmt: skip
    posterior = identified(problem, seed)
    weights = all(abs(mode.weight - 0.5) < 0.15 for mode in posterior.modes)
    return weights and _modes_told(posterior, ((1.0, 2.0), (-1.0, 2 * np.pi - 2.0)))


@study("right-models", full=700, quick=21)
def right_models(count: int) -> Iterator[Row]:
    """How often a summary calls a right model usable."""
    kinds: list[Callable[[int], smcpn.Posterior]] = [
        TANK.posterior,
        _with(TANK, noise="sigma").posterior,
        SPRING.posterior,
        _with(SPRING, noise="sigma", prior={"c": stats.uniform(0, 2)}).posterior,
        LAGS.posterior,
        _with(TANK, disturbed=0.3).posterior,
        _counts,
    ]
    cases = [(kinds[seed % len(kinds)], seed) for seed in _seeds(count)]
    levels = list(each(_level, cases))
    usable = np.mean([level == "usable" for level in levels])
    wrong = np.mean([level == "wrong" for level in levels])
    yield at_least(
        f"usable, {count} records", float(usable), least_of(0.94, count, 700), f"wrong {wrong:.3f}"
    )


def _level(case: tuple[Callable[[int], smcpn.Posterior], int]) -> str:
    return case[0](case[1]).verdict.level


def _counts(seed: int) -> smcpn.Posterior:
    t, rng = DT * np.arange(SAMPLES), np.random.default_rng(seed)
    y = rng.poisson(np.exp(3.0 * np.exp(-0.2 * t)))
    prior: dict[str, Any] = {"rate": stats.lognorm(1.0, scale=0.2)}
    problem = smcpn.Problem(
        fading, smcpn.Record(y=y, t=t), observe="x", noise=smcpn.Poisson(), prior=prior,
        initial=[3.0],
    )  # fmt: skip
    return identified(problem, seed)


def _with(told: Told, **changes: Any) -> Told:
    return Told(**(vars(told) | changes))
