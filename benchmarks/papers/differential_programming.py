"""The differential programming paper's experiments and its sequel's, ours against the published.

``--figures FOLDER`` draws the forecasts as well (``docs/figures`` for the documentation).
``--quick`` leaves out least squares on pairs and the slower half of the experiments.

Sources: Yang, Bhouri and Perdikaris, *Bayesian differential programming for robust systems
identification under uncertainty* (2020); Bhouri and Perdikaris, *Gaussian processes meet
NeuralODEs* (2022).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

import smcpn
from benchmarks.papers import differential_programming_glycolysis as rates
from benchmarks.papers.differential_programming_discovery import (
    Answer,
    compared,
    discovered,
    prefix,
)
from benchmarks.papers.differential_programming_figures import (
    Forecast,
    forecast_figure,
    interval_figure,
)
from benchmarks.papers.differential_programming_problems import EXPERIMENTS, Data, Experiment
from benchmarks.papers.differential_programming_published import SEQUEL
from benchmarks.papers.differential_programming_sequel import LIBRARY, SEQUELS, Sequel
from benchmarks.papers.fenrir_settings import trajectory
from benchmarks.rows import Row
from benchmarks.study import Picture, Result, Study, command, study
from smcpn import RK4, Posterior, Problem, Record

FORECAST_TITLES = {
    "spiral, noisy": "spiral",
    "lotka-volterra": "Lotka-Volterra",
    "pendulum": "damped pendulum",
    "lorenz": "Lorenz",
}
FORECAST_SAMPLES = 1001
UNIFORM = {
    "J0": (1.0, 10.0), "k1": (80.0, 120.0), "k2": (1.0, 10.0), "k3": (2.0, 20.0),
    "k4": (80.0, 120.0), "k5": (0.1, 2.0), "k6": (2.0, 20.0), "k": (0.1, 2.0), "ka": (2.0, 20.0),
    "q": (1.0, 10.0), "KI": (0.1, 2.0), "phi": (0.05, 1.0), "N": (0.1, 2.0), "A": (1.0, 10.0),
}  # fmt: skip
"""Priors of the sequel."""
DEVIATION: Any = stats.lognorm(3.0, scale=0.05)
UNKNOWN: Any = stats.uniform(0.0, 1.0)
HIDDEN_STEPS, HIDDEN_PARTICLES = RK4(steps=4), 1000


def future(experiment: Experiment, end: float, start: tuple[float, ...] | None = None) -> Record:
    """True states from the beginning to the end of a forecast."""
    times = np.linspace(0.0, end, FORECAST_SAMPLES)
    return Record(y=experiment.states(times, start), t=times)


def forecast(answer: Answer, data: Data) -> Forecast:
    """Of a discovery, from the true initial state, as the paper's are."""
    one = data.experiment
    run = answer.found.simulate(future(one, one.forecast), initial=one.start)
    return Forecast(one.ode.states, run, data.record, tuple(range(len(one.start))))


def equations(names: tuple[str, ...], quick: bool) -> Iterator[Result]:
    """Equations found in the data of some experiments."""
    for name in names:
        data = EXPERIMENTS[name].data()
        answer = discovered(data)
        yield from compared(name, answer, data, designs=not quick)
        if name in FORECAST_TITLES:
            made = forecast(answer, data)
            title = FORECAST_TITLES[name]
            error, spread = _beyond(made, data.experiment.end)
            note = "rms of the mean, and its sd, over that of the state; after the record's end"
            note = f"{note}: sd {spread:.2g}"
            yield Row(f"{prefix(name)}forecast error", error, note=note)
            yield _drawn(name.partition(",")[0], partial(forecast_figure, {title: made}))


def _drawn(name: str, draw: Callable[[], Figure]) -> Picture:
    return Picture(f"differential_programming_{name.replace(' ', '_')}", draw)


def _beyond(one: Forecast, end: float) -> tuple[float, float]:
    """Rms of error and of sd after a time, over the standard deviation of the state."""
    run = one.simulation
    after = run.record.t > end
    scale = run.record.y.std(axis=0)
    error, sd = (run.mean - run.record.y) / scale, np.sqrt(run.parameter_variance) / scale
    return float(np.sqrt(np.mean(error[after] ** 2))), float(np.sqrt(np.mean(sd[after] ** 2)))


@study("glycolysis", quick=None)
def glycolysis(quick: bool) -> Iterator[Result]:
    """Rates of glycolysis, without noise and with, and forecasts from new states."""
    noisy = EXPERIMENTS["glycolysis"].data()
    begin = time.perf_counter()
    found = rates.mode(noisy.record)
    posterior = rates.sampled(found)
    seconds = time.perf_counter() - begin
    summary = rates.Rates(posterior.resample())
    *others, ours = rates.rows("noisy", noisy, summary, seconds, designs=True)
    yield from others
    yield replace(ours, note=f"{ours.note}; ESS {posterior.ess:.0f}")
    exact = EXPERIMENTS["glycolysis"].without_noise().data()
    begin = time.perf_counter()
    summary = rates.laplace_rates(rates.exact_mode(exact, found))
    seconds = time.perf_counter() - begin
    yield from rates.rows("noise-free", exact, summary, seconds, designs=True)
    yield from new_starts(posterior)
    one = noisy.experiment
    run = posterior.simulate(future(one, one.forecast))
    shown = Forecast(one.ode.states, run, noisy.record, tuple(range(len(one.start))))
    yield _drawn("glycolysis", partial(forecast_figure, {"": shown}, 2))


def new_starts(posterior: Posterior) -> Iterator[Row]:
    """Forecasts from initial states that were not learned from."""
    rng, one = np.random.default_rng(0), EXPERIMENTS["glycolysis"]
    draws, errors = posterior.resample(), []
    values = [float(np.median(draws[name])) for name in one.truth]
    for _ in range(rates.GENERALISED):
        start = tuple(rng.uniform(rates.LOWEST, rates.HIGHEST).tolist())
        test = future(one, one.end, start)
        y = trajectory(one.ode, values, start, test.t)
        errors.append(np.sqrt(np.mean(((y - test.y) / test.y.std(axis=0)) ** 2)))
    note = f"rms over sd of the state, by the medians; the worst {max(errors):.2g}"
    yield Row(f"noisy: error from {len(errors)} new states", float(np.median(errors)), note=note)


def _record(sequel: Sequel) -> tuple[Record, str]:
    authors = sequel.authors()
    return (sequel.drawn(0), "seed 0") if authors is None else (authors, "the authors' record")


def widths(
    name: str,
    truth: Mapping[str, float],
    ours: Mapping[str, tuple[float, float]],
) -> tuple[float, str]:
    """Geometric mean of the width of our intervals over theirs, and a text of both."""
    theirs = SEQUEL[name]
    ratios = [(ours[n][1] - ours[n][0]) / (theirs[n][1] - theirs[n][0]) for n in truth]
    text = "; ".join(
        f"{n} [{ours[n][0]:.4g} {ours[n][1]:.4g}], theirs [{theirs[n][0]:.4g} {theirs[n][1]:.4g}]"
        for n in truth
    )
    return float(np.exp(np.mean(np.log(ratios)))), text


def _sequel_told(
    name: str,
    truth: Mapping[str, float],
    ours: Mapping[str, tuple[float, float]],
    shown: Forecast,
    told: str,
    right: bool = True,
) -> Iterator[Result]:
    covered = [ours[n][0] <= truth[n] <= ours[n][1] for n in truth]
    ratio, text = widths(name, truth, ours)
    target = "all, right terms" if name == "lotka-volterra" else "all"
    effective = [one[2] for one in SEQUEL[name].values()]
    sequel = SEQUELS[name]
    yield Row("true values in 95 % intervals", sum(covered), target, all(covered) and right, told)
    yield Row("width of intervals over theirs", ratio, note=f"geometric mean; {text}")
    yield Row("their least ESS of 8000", min(effective))
    yield Row("forecast error", _beyond(shown, sequel.end)[0], note="after the record's end")
    pair = {"theirs": [SEQUEL[name][n][:2] for n in truth], "ours": [ours[n] for n in truth]}
    title = {"lotka-volterra": "Lotka-Volterra", "glycolysis": "glycolysis"}[name]
    yield _drawn(f"sequel_{name}", partial(forecast_figure, {"": shown}))
    intervals = partial(interval_figure, {title: (truth, pair)})
    yield _drawn(f"sequel_{name}_intervals", intervals)


@study("sequel-lotka-volterra")
def sequel_lotka_volterra(quick: bool) -> Iterator[Result]:
    """Predator and prey seen in turns, with 14 candidate terms."""
    sequel = SEQUELS["lotka-volterra"]
    record, whose = _record(sequel)
    answer = seen_in_turns(record)
    found, truth = answer.found, sequel.system.coefficients
    ours = {n: (found.coefficients[n].lower, found.coefficients[n].upper) for n in truth}
    run = found.simulate(future(sequel.system, sequel.forecast), initial=sequel.system.start)
    shown = Forecast(sequel.system.ode.states, run, record, (0, 1))
    told = (
        f"{whose}; {'exact' if answer.exact else 'wrong'} terms, inclusion of false ones <= "
        f"{answer.inclusion[1]:.2g}; {answer.seconds:.1f} s"
    )
    yield from _sequel_told("lotka-volterra", truth, ours, shown, told, answer.exact)


def seen_in_turns(record: Record) -> Answer:
    """Discover the sequel's predator and prey, with its library."""
    system, begin = SEQUELS["lotka-volterra"].system, time.process_time()
    found = smcpn.discover(record, library=LIBRARY, states=system.ode.states, seed=1)
    return Answer(found, system, time.process_time() - begin)


def sequel_problem(record: Record) -> Problem:
    """Glycolysis with three of seven states seen; one initial state is unknown."""
    sequel = SEQUELS["glycolysis"]
    ode, seen = sequel.system.ode, list(sequel.observed)
    prior: dict[str, Any] = {
        name: stats.uniform(low, high - low) for name, (low, high) in UNIFORM.items()
    }
    deviations = [f"sigma_{state}" for state in seen]
    prior |= dict.fromkeys(deviations, DEVIATION)
    initial = dict(zip(ode.states, sequel.system.start, strict=True))
    return Problem(
        ode, record, observe=seen, noise=deviations,
        prior=prior,
        initial=initial | {"N2": UNKNOWN},
    )  # fmt: skip


@study("sequel-glycolysis", quick=None)
def sequel_glycolysis(quick: bool) -> Iterator[Result]:
    """Glycolysis of which three states are seen in turns."""
    sequel = SEQUELS["glycolysis"]
    record, whose = _record(sequel)
    begin = time.perf_counter()
    posterior = smcpn.identify(
        sequel_problem(record), solver=HIDDEN_STEPS, particles=HIDDEN_PARTICLES, seed=1,
        progress=False,
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    draws, truth = posterior.resample(), sequel.system.truth
    quantiles = {n: np.quantile(draws[n], [0.025, 0.975]).tolist() for n in truth}
    ours = {n: (low, high) for n, (low, high) in quantiles.items()}
    whole = future(sequel.system, sequel.forecast)
    seen = tuple(sequel.system.ode.states.index(state) for state in sequel.observed)
    run = posterior.simulate(Record(y=whole.y[:, seen], t=whole.t))
    shown = Forecast(sequel.observed, run, record, tuple(range(len(seen))))
    told = f"{whose}; ESS {posterior.ess:.0f}; {seconds:.1f} s"
    yield from _sequel_told("glycolysis", truth, ours, shown, told)


STUDIES = [
    Study("spiral", partial(equations, ("spiral, dense", "spiral, sparse", "spiral, noisy"))),
    Study("lotka-volterra", partial(equations, ("lotka-volterra",))),
    Study("pendulum", partial(equations, ("pendulum",)), quick=None),
    Study("lorenz", partial(equations, ("lorenz",)), quick=None),
]

if __name__ == "__main__":
    sys.exit(command(__name__))
