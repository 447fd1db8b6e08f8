"""Noise and initial states as people state them, on a decay whose solution is known.

The amount c falls at the rate k from what it begins with, or rises to g u / k from the equilibrium
at another input. Each setting has a plain log-likelihood by SciPy, and data sets that are drawn
from its prior.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize
from scipy.special import softmax

import smcpn
from benchmarks.executors import each
from benchmarks.rows import Row, at_least, at_most
from benchmarks.study import study
from benchmarks.trust.known import RANKED, Known, calibrated, default, outcomes

Array = NDArray[np.float64]
Values = Mapping[str, float]
Given = dict[str, Any]

T = np.linspace(0.0, 6.0, 31)
LOW = 1.5
"""Detection limit, below which are about a third of the samples or more."""
DOSE = 100.0
DATA_SETS, FEW = 200, 6
CLOSE = 1e-10
DRAWS = 20_000
"""Of importance sampling."""
FINE = smcpn.RK4(steps=64)


@smcpn.ode
def decay(c, u, *, k, g=1.0):
    """An amount that is fed and lost."""
    return g * u - k * c


def of_amount(values: Values) -> Array:
    """Solution without an input."""
    return values["c0"] * np.exp(-values["k"] * T)


def of_dose(values: Values) -> Array:
    """Solution from a dose in a volume."""
    return DOSE / values["volume"] * np.exp(-values["k"] * T)


def from_equilibrium(values: Values) -> Array:
    """Solution from the equilibrium at u = 2, under u = 1/2."""
    k, g = values["k"], values["g"]
    return g / k * (0.5 + 1.5 * np.exp(-k * T))


@dataclass(frozen=True)
class Setting:
    """Noise and initial state in a line each, data of them, and their plain density.

    noise, initial: As `smcpn.Problem` takes them.
    draw: From outputs, values and a generator to what is measured.
    density: From what is measured, outputs and values to log densities.
    path: From values to outputs.
    """

    noise: Any
    prior: Mapping[str, Any]
    draw: Callable[[Array, Values, np.random.Generator], Given]
    density: Callable[[Given, Array, Values], Array]
    path: Callable[[Values], Array] = of_amount
    initial: Any = field(default_factory=lambda: {"c": "c0"})
    u: float = 0.0


RATE = {"k": stats.lognorm(0.4, scale=0.4)}
AMOUNT = RATE | {"c0": stats.lognorm(0.3, scale=6.0)}
SD = RATE | {"c0": stats.lognorm(0.3, scale=6.0), "s": stats.lognorm(0.4, scale=0.3)}


def in_proportion(c, *, a, b):
    """Standard deviation a + b c."""
    return a + b * c


def of_formula(y: Given, c: Array, values: Values) -> Array:
    """Gaussian density of standard deviation a + b c."""
    return stats.norm.logpdf(y["y"], c, values["a"] + values["b"] * c)


def own_deviation(c: Array, _: Values, rng: np.random.Generator) -> Given:
    """Values with a standard deviation of their own."""
    sd = rng.uniform(0.1, 0.6, len(c))
    return {"y": c + sd * rng.normal(size=len(c)), "y_sd": sd}


def counts(c: Array, values: Values, rng: np.random.Generator) -> Given:
    """Counts of the mean c that scatter more than Poisson's."""
    r = values["r"]
    return {"y": rng.negative_binomial(r, r / (r + c)).astype(float)}


def of_counts(y: Given, c: Array, values: Values) -> Array:
    """Probability of counts."""
    return stats.nbinom.logpmf(y["y"], values["r"], values["r"] / (values["r"] + c))


def relative(c: Array, values: Values, rng: np.random.Generator) -> Given:
    """Values whose log10 is normal."""
    return {"y": c * 10 ** (values["s"] * rng.normal(size=len(c)))}


def of_logarithm(y: Given, c: Array, values: Values) -> Array:
    """Density of values whose log10 is normal."""
    logarithms = stats.norm.logpdf(np.log10(y["y"]), np.log10(c), values["s"])
    return logarithms - np.log(y["y"] * np.log(10.0))


def gaussian(c: Array, values: Values, rng: np.random.Generator) -> Given:
    """Values with noise of one standard deviation."""
    return {"y": c + values["s"] * rng.normal(size=len(c))}


def of_gaussian(y: Given, c: Array, values: Values) -> Array:
    """Gaussian density."""
    return stats.norm.logpdf(y["y"], c, values["s"])


def limited(c: Array, values: Values, rng: np.random.Generator) -> Given:
    """Values with noise, of which those below a limit are known by it alone."""
    y = gaussian(c, values, rng)["y"]
    low = y < LOW
    return {"y": np.where(low, np.nan, y), "y_upper": np.where(low, LOW, np.nan)}


def of_limits(y: Given, c: Array, values: Values) -> Array:
    """Gaussian density of values, and probability of those below the limit."""
    below = stats.norm.logcdf(LOW, c, values["s"])
    return np.where(np.isnan(y["y"]), below, stats.norm.logpdf(y["y"], c, values["s"]))


def concentration(*, volume, dose=DOSE):
    """What a dose makes in a volume."""
    return dose / volume


SETTINGS: Mapping[str, Setting] = {
    "a + b y": Setting(
        smcpn.Normal(in_proportion),
        AMOUNT | {"a": stats.lognorm(0.4, scale=0.1), "b": stats.lognorm(0.4, scale=0.1)},
        lambda c, v, rng: {"y": c + (v["a"] + v["b"] * c) * rng.normal(size=len(c))}, of_formula,
    ),
    "known per sample": Setting(
        "y_sd", AMOUNT, own_deviation, lambda y, c, _: stats.norm.logpdf(y["y"], c, y["y_sd"])
    ),
    "negative binomial": Setting(
        smcpn.NegativeBinomial("r"),
        RATE | {"c0": stats.lognorm(0.3, scale=30.0), "r": stats.lognorm(0.4, scale=5.0)},
        counts, of_counts,
    ),
    "log10": Setting(smcpn.LogNormal("s", base=10), SD, relative, of_logarithm),
    "limits": Setting("s", SD, limited, of_limits),
    "initial formula": Setting(
        "s", RATE | {"volume": stats.lognorm(0.3, scale=20.0), "s": SD["s"]},
        gaussian, of_gaussian, of_dose, {"c": concentration},
    ),
    "steady state": Setting(
        "s", SD | {"g": stats.lognorm(0.3, scale=2.0)} | {"c0": 1.0},
        gaussian, of_gaussian, from_equilibrium, smcpn.SteadyState(u={"u": 2.0}), 0.5,
    ),
}  # fmt: skip


def truth(name: str, seed: int) -> dict[str, float]:
    """Parameters drawn from the prior of a setting."""
    rng = np.random.default_rng([seed, 0])
    prior = SETTINGS[name].prior
    return {n: float(one.rvs(random_state=rng)) for n, one in prior.items() if hasattr(one, "rvs")}


def measured(name: str, seed: int) -> Given:
    """What is measured of them."""
    setting, values = SETTINGS[name], truth(name, seed)
    return setting.draw(setting.path(values), values, np.random.default_rng([seed, 1]))


def posed(name: str, given: Given) -> smcpn.Problem:
    """The problem of a setting for what was measured."""
    setting = SETTINGS[name]
    record = smcpn.Record(t=T, u=np.full(len(T), setting.u), **given)
    prior = {n: one for n, one in setting.prior.items() if hasattr(one, "rvs")}
    return smcpn.Problem(
        decay, record, observe="c", noise=setting.noise, initial=setting.initial, prior=prior
    )


def problem(name: str, seed: int) -> smcpn.Problem:
    """The problem of a setting, for data of a seed."""
    return posed(name, measured(name, seed))


@study("formulas", full=DATA_SETS, quick=FEW)
def formulas(data_sets: int) -> Iterator[Row]:
    """Log-likelihoods by SciPy, ranks over data sets, and what it costs to ignore a limit."""
    for name, setting in SETTINGS.items():
        values, given = truth(name, 0), measured(name, 0)
        one = posed(name, given)
        point = np.array([[values[n] for n in one.names]])
        found = float(smcpn.LogLikelihood(one, "classical", solver=FINE)(point)[0])
        wanted = float(setting.density(given, setting.path(values), values).sum())
        yield at_most(f"{name}: log-likelihood, relative", abs(found / wanted - 1.0), CLOSE)
    for name in SETTINGS:
        known = Known(name, partial(problem, name), truth=partial(truth, name))
        yield from calibrated(name, outcomes(known, default, range(data_sets)), RANKED)
    yield from biases(data_sets)


def biases(data_sets: int) -> Iterator[Row]:
    """Yield rows: mean distance of the rate from the truth, in posterior standard deviations."""
    off = np.array(list(each(distances, range(data_sets))))
    mean, se = off.mean(axis=0), off.std(axis=0, ddof=1) / np.sqrt(data_sets)
    # By how much these data sets lie off by chance, the exact posterior tells.
    beyond = off[:, 0] - off[:, 3]
    note = f"{beyond.mean():+.4f} from the exact posterior, whose own is {mean[3]:+.3f}"
    yield at_most("bias of the rate: limits", abs(beyond.mean()), 0.1, note)
    for place, name in enumerate(("limit in place of the value", "left out"), start=1):
        note = f"{mean[place]:+.3f} +- {se[place]:.2g}"
        row = at_least(f"bias of the rate: {name}", abs(mean[place]), 1.0, note)
        yield row if place == 1 else Row(row.name, row.value, note=note)


def distances(seed: int) -> tuple[float, ...]:
    """Distance of the rate from the truth: with limits, as values, without; by exact means."""
    given, values = measured("limits", seed), truth("limits", seed)
    ignored = {"y": np.where(np.isnan(given["y"]), LOW, given["y"])}
    found: list[float] = []
    for one in (given, ignored, {"y": given["y"]}):
        posterior = default(posed("limits", one), seed)
        found.append((posterior.mean["k"] - values["k"]) / posterior.sd["k"])
    mean, sd = exact_rate(given, np.random.default_rng([seed, 2]))
    return (*found, (mean - values["k"]) / sd)


def exact_rate(given: Given, rng: np.random.Generator) -> tuple[float, float]:
    """Mean and standard deviation of the rate given values and limits, by importance sampling."""
    setting = SETTINGS["limits"]
    scales = [one.kwds["scale"] for one in setting.prior.values()]
    spreads = [one.args[0] for one in setting.prior.values()]

    def log_posterior(z: Array) -> Array:
        k, c0, s = np.exp(np.atleast_2d(z)).T[:, :, None]
        of_data = setting.density(given, c0 * np.exp(-k * T), {"s": s}).sum(axis=1)
        return of_data + stats.norm.logpdf(np.atleast_2d(z), np.log(scales), spreads).sum(axis=1)

    top = minimize(lambda z: -log_posterior(z)[0], np.log(scales))
    proposal = stats.multivariate_t(top.x, 1.3 * top.hess_inv, df=6)
    draws = proposal.rvs(DRAWS, random_state=rng)
    weights = softmax(log_posterior(draws) - proposal.logpdf(draws))
    rates = np.exp(draws[:, 0])
    mean = weights @ rates
    return float(mean), float(np.sqrt(weights @ (rates - mean) ** 2))
