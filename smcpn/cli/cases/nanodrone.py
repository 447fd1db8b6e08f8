"""The nano-drone: motors' speeds in, three body rates and the vertical acceleration out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from scipy import stats

from smcpn.cli.cases.case import Case
from smcpn.cli.cases.splits import OFFICIAL
from smcpn.datasets import nanodrone
from smcpn.datasets.models import quadrotor
from smcpn.datasets.nanodrone import INTERVAL
from smcpn.errors import one_of
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.model.solver import RK4
from smcpn.results.simulation.simulation import Simulation
from smcpn.smc.moves import IndependentMetropolis
from smcpn.smc.settings import PartialSettings

if TYPE_CHECKING:
    from smcpn.results.posterior import Posterior

LEARNED = 600
"""First samples of each flight that are learned from: 6 s, a turn of the square."""
HORIZONS = (1, 10, 50)
"""Samples ahead; the benchmark's longest is 50."""

PRIOR: dict[str, Any] = {
    "roll": stats.lognorm(0.5, scale=30.0),
    "pitch": stats.lognorm(0.5, scale=30.0),
    "yaw": stats.lognorm(0.5, scale=3.0),
    "flap_x": stats.lognorm(0.5, scale=15.0),
    "flap_y": stats.lognorm(0.5, scale=15.0),
    "damp_x": stats.lognorm(1.0, scale=1.0),
    "damp_y": stats.lognorm(1.0, scale=1.0),
    "damp_z": stats.lognorm(0.5, scale=1.0),
    "rotor": stats.lognorm(0.5, scale=1.0),
    "memory": stats.lognorm(1.0, scale=0.1),
    "lift": stats.lognorm(0.5, scale=0.85),
    "bias": stats.norm(0.0, 1.0),
}
"""A body of 40 g and 3e-5 kg m^2 that hovers at 1.8 krad/s: a factor of 2.7 either way."""
NOISE: dict[str, Any] = {
    "sd_rate": stats.lognorm(1.0, scale=0.02),
    "sd_acceleration": stats.lognorm(1.0, scale=0.3),
}
DISTURBANCE: dict[str, Any] = {
    "rough": stats.lognorm(1.0, scale=0.1),
    "rough_yaw": stats.lognorm(1.0, scale=0.3),
    "gust": stats.lognorm(1.0, scale=30.0),
    "drift": stats.lognorm(0.5, scale=1.0),
}
"""Of the rates, rad/s/sqrt(s), and of what turns the body besides, rad/s^2/sqrt(s)."""

NOISY = {"p": "rough", "q": "rough", "s": "rough_yaw"}
NOISY |= {"gust_x": "gust", "gust_y": "gust", "trim_x": "drift", "trim_y": "drift"}


def yaw_rate(s: Any, m1: Any, m2: Any, m3: Any, m4: Any, *, rotor: Any) -> Any:
    """Yaw rate of the body, whose rotors take angular momentum, see `smcpn.models.quadrotor`."""
    return s + rotor * (m2 + m4 - m1 - m3)


def acceleration(m1: Any, m2: Any, m3: Any, m4: Any, *, lift: Any, bias: Any) -> Any:
    """Thrust over mass along the body's axis, and the offset of its sensor."""
    return lift * (m1 * m1 + m2 * m2 + m3 * m3 + m4 * m4) + bias


def nanodrone_case(hold: str = "foh", model: str = "quadrotor", split: str = OFFICIAL) -> Case:
    """Build the case.

    Raises `InputError` for an unknown model or split, or without the files.

    Parameters
    ----------
    hold : str
        The input between samples.
    model : {"quadrotor"}
    split : {"official"}
        Flights 1 to 3 to learn from, 4 and 5 to test on; the benchmark's own test flights are
        others.
    """
    one_of("model", model, ["quadrotor"])
    one_of("split", split, [OFFICIAL])
    data = nanodrone(hold)
    problem = nanodrone_problem([record[:LEARNED] for record in data.train])
    return Case(
        name="nanodrone",
        problem=problem,
        tests={},
        published={},
        steps=1,
        split=split,
        protocols={
            f"{record.name.split(', ')[1]}, {horizon * INTERVAL:g} s ahead": _ahead(record, horizon)
            for record in data.tests
            for horizon in HORIZONS
        },
        note=f"measured; rates shifted by {', '.join(map(str, data.shifts))} samples",
        settings=PartialSettings(solver=RK4(steps=1), moves=IndependentMetropolis(), particles=300),
    )


def nanodrone_problem(records: list[Record]) -> Problem:
    """Flights to learn from, each from the rates that it begins with."""
    return Problem(
        quadrotor,
        records,
        observe=["p", "q", yaw_rate, acceleration],
        noise=["sd_rate", "sd_rate", "sd_rate", "sd_acceleration"],
        prior=PRIOR | NOISE | DISTURBANCE,
        initial=[[*record.y[0, :3].tolist(), 0.0, 0.0, 0.0, 0.0] for record in records],
        process_noise=dict(NOISY),
    )


def _ahead(record: Record, horizon: int) -> Callable[[Posterior], Simulation]:
    return partial(_predicted, record=record, horizon=horizon)


def _predicted(posterior: Posterior, record: Record, horizon: int) -> Simulation:
    return posterior.predict(record, horizon, like=posterior.problem.records[0])
