"""PN-SMC section 4.3: the electro-mechanical positioning system.

The score of a model of the EMPS depends on what it is given besides its parameters:

======================  ==========================================================================
protocol                given
======================  ==========================================================================
``open_loop``           the measured force; the state after the first 20 samples runs free for 25 s
``closed_loop``         the position reference; the controller is simulated with the model and
                        corrects its errors
``prediction_k``        the measured force and, every k samples, a state filtered from the measured
                        position; in between the model runs free
======================  ==========================================================================

The first 20 samples never count. The 95 % band of a protocol holds the spread over the particles
and, as the variance of all that the model misses, the mean squared error of the same protocol on
the training record; so its coverage on the test record says whether training showed the error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray
from scipy import stats

from smcpn.cli.cases.case import Case, PublishedScore
from smcpn.cli.cases.splits import PAPER, SPLITS
from smcpn.datasets.emps import INITIALISATION, INTERVAL, Controller, Emps, Experiment, emps
from smcpn.datasets.models import emps as parametric
from smcpn.datasets.models import emps_spline
from smcpn.errors import one_of
from smcpn.model.ode import ODE
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.model.solver import RK4
from smcpn.results.simulation.closed_loop import ClosedLoop
from smcpn.results.simulation.filtered import StateFilter, WindowFilter, window_begins
from smcpn.results.simulation.initialisation import fitted_initial_states
from smcpn.results.simulation.simulation import (
    ParticleSimulator,
    Simulation,
    simulate_particles,
)
from smcpn.results.simulation.simulator import Simulator
from smcpn.smc.moves import IndependentMetropolis
from smcpn.smc.settings import PartialSettings

if TYPE_CHECKING:
    from smcpn.results.posterior import Posterior

Array = NDArray[np.float64]
Protocol = Callable[["Posterior"], Simulation]

STEPS = 2
"""Runge-Kutta steps per millisecond."""
HORIZONS = (10, 100, 1000)
FILTER = StateFilter(sensor=1e-7, disturbance=(0.0, 0.05), initial=(1e-5, 1e-2))
"""0.1 micrometre of noise on the position (the encoder counts 50 nm) and 0.05 m/s of velocity in
one second from forces that are not in the model: on the training record a hundredfold change of
their ratio either way makes no horizon more than 1 % better."""


@dataclass(frozen=True)
class PositionLoop:
    """`Controller` as a graph; signals are the reference (m) and a disturbance (V)."""

    controller: Controller
    n_memory: int = 2

    def start(self, output: ca.SX) -> ca.SX:
        """The position of the first sample, twice."""
        return ca.vertcat(output, output)

    def command(self, memory: ca.SX, output: ca.SX, signals: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Force on the joint, and the last two positions."""
        own = self.controller
        velocity = (output - memory[1]) / (2 * INTERVAL)
        wanted = own.kv * (own.kp * (signals[0] - output) - velocity)
        limited = ca.fmin(ca.fmax(wanted, -own.limit), own.limit)
        return own.gtau * (limited + signals[1]), ca.vertcat(output, memory[0])


def emps_protocols(data: Emps) -> dict[str, Protocol]:
    """Build the protocols: name to a function that simulates the test record with a posterior."""
    simulators = {"open_loop": _open_loop, "closed_loop": _closed_loop(data.controller)}
    simulators |= {f"prediction_{k}": _prediction(k) for k in HORIZONS}
    return {
        name: lambda posterior, build=build: calibrated(posterior, data, build)
        for name, build in simulators.items()
    }


Build = Callable[["Posterior", Experiment, Array], ParticleSimulator]


def calibrated(posterior: Posterior, data: Emps, build: Build) -> Simulation:
    """Simulate the test record, with the band that the training record suggests."""
    train, test = (_run(posterior, e, build) for e in (data.train, data.test))
    return test.with_noise(np.square(train.rmse_of_mean))


def _run(posterior: Posterior, experiment: Experiment, build: Build) -> Simulation:
    record = experiment.record
    values = posterior.values
    window = record[:INITIALISATION]
    initial = fitted_initial_states(posterior.problem.model, window, values, STEPS)
    return simulate_particles(
        posterior.problem,
        record.hide(0, INITIALISATION),
        values,
        posterior.weights,
        simulator=build(posterior, experiment, initial),
    )


def _open_loop(posterior: Posterior, experiment: Experiment, initial: Array) -> ParticleSimulator:
    return Simulator(posterior.problem.model, experiment.record, STEPS, initial=initial)


def _closed_loop(controller: Controller) -> Build:
    def build(posterior: Posterior, experiment: Experiment, initial: Array) -> ParticleSimulator:
        signals = np.column_stack([experiment.reference, experiment.disturbance])
        return ClosedLoop(
            posterior.problem.model,
            experiment.record,
            initial,
            PositionLoop(controller),
            signals,
            STEPS,
        )

    return build


def _prediction(horizon: int) -> Build:
    def build(posterior: Posterior, experiment: Experiment, initial: Array) -> ParticleSimulator:
        begins, problem = window_begins(experiment.record, horizon), posterior.problem
        return WindowFilter(
            problem, problem.model, experiment.record, begins, STEPS, FILTER, initial
        )

    return build


NOISE = 3e-3
"""Metres: what a free simulation misses over 25 s (the published ones miss 4.6 to 12.6 mm on the
test record), a thousand times the encoder's own noise. Given, not inferred: an unknown noise
starts at micrometres, and the posterior of the first second holds no parameters of the last."""

PRIOR: dict[str, Any] = {
    "M": stats.lognorm(1.0, scale=100.0),
    "Fv": stats.lognorm(1.0, scale=200.0),
    "Fc": stats.lognorm(1.0, scale=20.0),
    "offset": stats.norm(0.0, 10.0),
}
"""kg, N s/m, N, N. The paper prints none; 95 % of each positive prior spans a factor of 50."""

SPLINE_PRIOR: dict[str, Any] = {"friction[0]": stats.norm(0.0, 10.0)}
"""N: at rest, as the offset above. The spline brings the priors of its other parameters."""

MODELS: dict[str, ODE] = {"emps": parametric, "spline": emps_spline}
SPLINE_SETTINGS = PartialSettings(solver=RK4(steps=STEPS), moves=IndependentMetropolis())

PAPER_SAMPLES = 24576


def emps_case(hold: str = "zoh", model: str = "emps", split: str = PAPER) -> Case:
    """Build the case.

    The position is simulated freely from the measured force: the paper's likelihood. The state
    at the first sample is that of a cubic through the first 20 positions, which are not compared.

    Raises `InputError` for an unknown model or split, or without the files.

    Parameters
    ----------
    hold : str
        The input between samples.
    model : {"emps", "spline"}
        Viscous and Coulomb friction, or an increasing spline beside the Coulomb term.
    split : {"paper", "official"}
        The first 24576 training samples, or all 24841. The scores are the same.
    """
    one_of("model", model, MODELS)
    one_of("split", split, SPLITS)
    data = emps(hold)
    record = data.train.record
    train = record[:PAPER_SAMPLES] if split == PAPER else record
    return Case(
        name="emps",
        problem=emps_problem(train, model=model),
        tests={},
        published={"open_loop": PublishedScore(2.95e-4, 5.2018e-4, 8.99e-4)},
        steps="auto",
        order=2,
        split=split,
        protocols=emps_protocols(data),
        note="measured, DATA_EMPS.mat; the paper does not state the protocol of its score; the "
        "band of the open loop is of its errors in training, those of the test are twice as large",
        settings=SPLINE_SETTINGS if MODELS[model].functions else PartialSettings(),
    )


def emps_problem(record: Record, width: float | None = None, model: str = "emps") -> Problem:
    """Free simulation of one of the records.

    The state is estimated from the first `INITIALISATION` samples; ``width`` is that of the
    smoothed sign, m/s, where not the model's.
    """
    equation = MODELS[model]
    every = PRIOR | SPLINE_PRIOR
    prior = {name: every[name] for name in every if name in equation.parameters}
    return Problem(
        equation,
        record.hide(0, INITIALISATION),
        observe="q",
        noise=NOISE,
        prior=prior if width is None else prior | {"width": width},
        initial=_initial_state(record),
    )


def _initial_state(record: Record) -> dict[str, float]:
    window = record[:INITIALISATION]
    cubic = Polynomial.fit(window.t, window.y[:, 0], 3)
    begin = float(window.t[0])
    return {"q": float(cubic(begin)), "v": float(np.asarray(cubic.deriv()(begin)))}
