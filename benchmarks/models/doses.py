"""Doses at irregular hours into linear compartments, whose solution is the superposition of all.

A drug goes from the gut to the centre and on to the periphery. Ten doses by mouth, at once into
the centre and over a while, come between the samples; the lag and the share of those by mouth are
learned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg import expm

import smcpn
from benchmarks.models.formulas import DATA_SETS, FEW
from benchmarks.rows import Row, at_most, equal
from benchmarks.study import study
from benchmarks.trust.known import RANKED, Known, calibrated, default, outcomes
from smcpn.io import Channels, Lines, Stream
from smcpn.io.parse import LineParser
from smcpn.io.sources import File

Array = NDArray[np.float64]

T = np.array([0.0, 0.5, 1, 2, 3, 4, 6, 8, 9, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 33, 36])
CLOSE = 1e-8


def by_mouth(time: float, amount: float, duration: float = 0.0) -> smcpn.Dose:
    """Dose into the gut."""
    return smcpn.Dose(time, "gut", amount, duration, lag="lag", fraction="F")


DOSES = [
    by_mouth(0.0, 100.0),
    by_mouth(5.3, 60.0),
    smcpn.Dose(7.9, "centre", 20.0),
    smcpn.Dose(9.0, "centre", 30.0, duration=2.2),
    by_mouth(11.1, 80.0),
    by_mouth(12.7, 50.0, 0.9),
    smcpn.Dose(17.2, "centre", 25.0, duration=4.4, lag=0.3),
    by_mouth(19.6, 90.0),
    smcpn.Dose(24.0, "centre", 15.0, fraction=0.8),
    by_mouth(25.5, 110.0),
]
PRIOR: dict[str, Any] = {
    "ka": stats.lognorm(0.3, scale=1.1),
    "ke": stats.lognorm(0.3, scale=0.3),
    "out": stats.lognorm(0.3, scale=0.2),
    "back": stats.lognorm(0.3, scale=0.15),
    "lag": stats.uniform(0.0, 1.0),
    "F": stats.uniform(0.2, 0.7),
    "s": stats.lognorm(0.4, scale=0.5),
}
SOLVERS = {
    "classical": smcpn.RK4(steps=128),
    "marginal": smcpn.EKF0(order=4, steps=128),
    "rosenbrock": smcpn.Rosenbrock(tolerance=1e-11),
}


@smcpn.ode
def compartments(gut, centre, periphery, *, ka, ke, out, back):
    """Amounts of a drug in three compartments."""
    exchanged = out * centre - back * periphery
    return -ka * gut, ka * gut - ke * centre - exchanged, exchanged


def superposed(values: Mapping[str, float], t: Array = T) -> Array:
    """Amount in the centre, of each dose by matrix exponentials; a sample is before its dose."""
    ka, ke, out, back = (values[name] for name in ("ka", "ke", "out", "back"))
    rates = np.array([[-ka, 0, 0], [ka, -ke - out, back], [0, out, -back]])
    total = np.zeros(len(t))
    for one in DOSES:
        lag = values["lag"] if one.lag == "lag" else float(one.lag)
        share = values["F"] if one.fraction == "F" else float(one.fraction)
        entry = np.zeros((3, 1))
        entry[("gut", "centre").index(one.state)] = share * one.amount / (one.duration or 1.0)
        grown = np.block([[rates, entry], [np.zeros((1, 4))]])
        for k, since in enumerate(t - one.time - lag):
            if since > 0.0 and not one.duration:
                total[k] += (expm(rates * since) @ entry)[1, 0]
            elif since > 0.0:
                during = min(since, one.duration)
                state = expm(grown * during)[:3, 3]
                total[k] += (expm(rates * (since - during)) @ state)[1]
    return total


def truth(seed: int) -> dict[str, float]:
    """Parameters drawn from the prior."""
    rng = np.random.default_rng([seed, 40])
    return {name: float(one.rvs(random_state=rng)) for name, one in PRIOR.items()}


def problem(seed: int) -> smcpn.Problem:
    """Measured in the centre, of a truth of this seed."""
    values, rng = truth(seed), np.random.default_rng([seed, 41])
    y = superposed(values) + values["s"] * rng.normal(size=len(T))
    record = smcpn.Record(t=T, y=y, doses=DOSES, t_unit="h")
    return smcpn.Problem(compartments, record, observe="centre", noise="s", prior=PRIOR)


@study("doses", full=DATA_SETS, quick=FEW)
def doses(data_sets: int) -> Iterator[Row]:
    """Trajectory and log-likelihoods by superposition, and ranks over data sets."""
    values, one = truth(0), problem(0)
    path = superposed(values)
    of_ode = {name: value for name, value in values.items() if name != "s"}
    record = smcpn.Record(t=T, doses=DOSES)
    found = smcpn.simulate(compartments, record, of_ode, observe="centre", steps=256)[:, 0]
    yield at_most("trajectory, relative", np.abs(found - path).max() / path.max(), CLOSE)
    y = one.records[0].y[:, 0]
    wanted = stats.norm.logpdf(y[np.isfinite(y)], path, values["s"]).sum()
    point = np.array([[values[name] for name in one.names]])
    for name, solver in SOLVERS.items():
        likelihood = smcpn.LogLikelihood(one, name, solver)
        off = abs(float(likelihood(point)[0]) / wanted - 1.0)
        yield at_most(f"{name}: log-likelihood, relative", off, CLOSE)
    known = Known("doses", problem, truth=truth)
    yield from calibrated("doses", outcomes(known, default, range(data_sets)), RANKED)


LIMIT = 8.0
"""Detection limit of the stream."""
PARTICLES = 500


@smcpn.ode
def collected(gut, centre, periphery, urine, *, ka, ke, out, back):
    """Amounts in the three compartments, and what has left them since the last sample."""
    exchanged = out * centre - back * periphery
    return -ka * gut, ka * gut - ke * centre - exchanged, exchanged, ke * centre


COLLECTED = collected.accumulating("urine")


def streamed(seed: int) -> smcpn.Record:
    """Record of a truth, hourly: the centre, by the limit alone below it, and the urine."""
    values, t = truth(seed), np.arange(0.0, 37.0)
    record = smcpn.Record(t=t, doses=DOSES, t_unit="h")
    of_ode = {name: value for name, value in values.items() if name != "s"}
    y = smcpn.simulate(COLLECTED, record, of_ode, observe=["centre", "urine"])
    y += values["s"] * np.random.default_rng([seed, 42]).normal(size=y.shape)
    low = y < [LIMIT, -np.inf]
    limits = np.where(low, LIMIT, np.nan)
    return smcpn.Record(t=t, y=np.where(low, np.nan, y), y_upper=limits, doses=DOSES, t_unit="h")


def lines(record: smcpn.Record) -> list[str]:
    """Lines of a stream: a sample each, and a dose each, in the order of time."""
    every = [
        (float(t), f"{t},{y[0]},{y[1]},{upper[0]},,,,,\n")
        for t, y, upper in zip(record.t, record.y, record.y_upper, strict=True)
    ]
    every += [
        (d.time, f"{d.time},,,,{d.amount},{d.state},{d.duration},{d.lag},{d.fraction}\n")
        for d in DOSES
    ]
    header = "t,centre,urine,centre_upper,amount,state,duration,lag,fraction\n"
    return [header, *(line for _, line in sorted(every, key=lambda one: one[0]))]


def feed(live: smcpn.Online, text: list[str]) -> None:
    """Have a stream take lines."""
    parser = LineParser(Channels.of(live.problem))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "lines.csv"
        path.write_text("".join(text))
        for _ in Stream(live, Lines(File(path), parser), report=lambda _: None):
            pass


@study("streams")
def streams(_: bool) -> Iterator[Row]:
    """Lines with doses, limits and what has been collected, killed and resumed, beside a record."""
    record, solver = streamed(0), smcpn.RK4(steps=8)
    observed = ["centre", "urine"]
    one = smcpn.Problem(COLLECTED, record, observe=observed, noise=["s", "s"], prior=PRIOR)
    options: dict[str, Any] = {"solver": solver, "particles": PARTICLES, "seed": 0}
    batch = smcpn.identify(one, method="ibis", progress=False, **options)
    live, text = smcpn.Online(one, **options), lines(record)
    feed(live, text[: len(text) // 2])
    with TemporaryDirectory() as folder:
        live.save(f"{folder}/stream.h5")
        again = smcpn.Online.load(f"{folder}/stream.h5")
    # A source that was begun anew sends all lines again.
    for name, way in (("at once", live), ("killed and resumed", again)):
        feed(way, text)
        same = np.array_equal(way.posterior().theta, batch.theta)
        yield equal(f"stream, {name}: particles of the record", same, True)
