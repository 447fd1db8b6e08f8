"""Unknown functions on measured records: the force of the Silverbox, the friction of the EMPS.

Searches begin at the parametric laws, and posteriors are Laplace approximations. ``--quick`` trains
on the first quarter of the Silverbox, and stops the searches on the EMPS early.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.rows import Row, absent, at_least, at_most
from benchmarks.study import study
from smcpn.cli.cases import Case, load_case
from smcpn.datasets import models
from smcpn.datasets.inventory import find_file
from smcpn.results.laplace import Laplace
from smcpn.results.scores import Score

SAMPLES = 16384
"""Training samples of the Silverbox."""
STARTS = {
    "m": 5.4e-6,
    "c": 2.2e-4,
    "k": 0.99,
    "k3": 3.9,
    "force[0]": 0.126,
    "force.scale": 1e-4,
    "friction[0]": 0.0115,
    "friction.scale": 1e-4,
}
"""Those of the cubic, from which all searches begin; the rest at the median of the prior."""
DRAWS = 100
SOLVER = smcpn.RK4(steps=3)
DAMPING_TERM = {"multisine": 0.251, "arrow": 0.368, "arrow, no extrapolation": 0.260}
"""Millivolts: what the cubic with a damping term that depends on the displacement reaches, trained
on all samples."""
FRICTION = smcpn.spline("v", knots=13, within=(-0.14, 0.14), size=20.0)
"""Newtons, of neither shape: predicted sample by sample, the record says what it is."""


@smcpn.ode
def _slide(q, v, force, *, M, Fc, friction=FRICTION, width=models.EMPS_WIDTH):
    rest = Fc * v / np.sqrt(v * v + width * width)
    return v, (force - friction(v) - rest) / M  # pyright: ignore[reportCallIssue]


SCALES = (3.0, 10.0)
"""Newtons, of the spline's curved part."""
DISTURBED_PRIOR: dict[str, Any] = {
    "M": stats.lognorm(1.0, scale=100.0),
    "Fv": stats.lognorm(1.0, scale=200.0),
    "Fc": stats.lognorm(1.0, scale=20.0),
    "offset": stats.norm(0.0, 10.0),
    "friction[0]": stats.norm(0.0, 10.0),
}
NOISES: dict[str, Any] = {
    "disturbance": stats.lognorm(2.0, scale=1e-2),
    "noise": stats.lognorm(2.0, scale=1e-7),
}
"""m/s in the root of a second, and metres: the encoder counts 50 nm."""
DISTURBED_STARTS = {
    "M": 95.0, "Fv": 203.0, "Fc": 20.5, "offset": -3.2, "friction[0]": -3.2, "friction[1]": 16.4,
    "disturbance": 1.3e-3, "noise": 2e-8, "v(0)": 0.025,
}  # fmt: skip
PUBLISHED = "published 4.61 (CT-SUBNET), 5.17, 5.53"
MILLI = 1e3
EMPS_SOLVER = smcpn.RK4(steps=2)
EMPS_STARTS: dict[str, dict[str, float]] = {
    "emps": {"M": 91.0, "Fv": 183.0, "Fc": 23.0, "offset": -3.0},
    "spline": {"M": 91.0, "Fc": 23.0, "friction[0]": -3.0, "friction[1]": 0.87},
}
"""The parametric law, from which both searches begin; the rest at the median of the prior."""


@study("silverbox", full=SAMPLES, quick=None)
def silverbox(samples: int) -> Iterator[Row]:
    """Force, and force and friction, as splines, beside the cubic with a damping term."""
    if find_file("silverbox", "SNLS80mV.mat") is None:
        yield absent("silverbox", "SNLS80mV.mat not found: set SMCPN_DATA")
        return
    errors: dict[str, dict[str, float]] = {}
    evidence: dict[str, float] = {}
    for model in ("duffing-damping", "spline-force", "spline"):
        case = load_case("silverbox", model=model, split="official")
        problem = case.problem.with_records([case.problem.records[0][:samples]])
        starts = {name: value for name, value in STARTS.items() if name in problem.names}
        found = smcpn.laplace(problem, solver=SOLVER, starts=starts, search="shooting")
        evidence[model] = found.log_evidence
        if not found.success:
            yield absent(f"silverbox {model}", found.reason)
            continue
        simulations = case.simulations(found.to_posterior(DRAWS))
        scores = {name: Score.of(one) for name, one in simulations.items()}
        errors[model] = {name: MILLI * one.rmse_of_mean for name, one in scores.items()}
        for name, score in scores.items():
            yield _error(model, name, errors, score)
        if model != "duffing-damping":
            gain = evidence[model] - evidence["duffing-damping"]
            yield at_least(f"silverbox {model}: log-evidence over duffing-damping", gain, 0.0)
            yield from _bands(found, model)


def _error(model: str, name: str, errors: dict[str, dict[str, float]], score: Score) -> Row:
    """The error of a test: that of a spline at most the cubic's, in this run and in the table."""
    value = errors[model][name]
    text, note = f"silverbox {model}: {name}, mV", f"{100 * score.coverage:.3g} % in band"
    if model == "duffing-damping":
        return Row(text, value, note=note)
    beside = errors["duffing-damping"][name]
    limit = beside if model == "spline-force" else min(beside, DAMPING_TERM[name])
    return at_most(text, value, limit, note)


def _bands(found: Laplace, model: str) -> Iterator[Row]:
    """How the band of a function widens from the last place that training visits to the arrow's."""
    posterior = found.to_posterior(DRAWS)
    force = posterior.function("force", np.array([0.0, 0.1, 0.2, 0.3]))
    for at, sd in zip(force.points[1:], force.draws.std(axis=0)[1:], strict=True):
        yield Row(f"silverbox {model}: sd of force({at:g} V), mV", MILLI * float(sd))


@study("emps", quick=None)
def emps(quick: bool) -> Iterator[Row]:
    """Friction as a spline beside the parametric law: open and closed loop on the test record."""
    if any(find_file("emps", f"DATA_EMPS{name}.mat") is None for name in ("", "_PULSES")):
        yield absent("emps", "DATA_EMPS.mat and DATA_EMPS_PULSES.mat not found: set SMCPN_DATA")
        return
    for model, starts in EMPS_STARTS.items():
        case = load_case("emps", model=model, split="official")
        maximum = smcpn.maximise(
            case.problem,
            solver=EMPS_SOLVER,
            starts=starts,
            search="shooting",
            iterations=300,
        )
        yield Row(f"emps {model}: log-likelihood", maximum.log_likelihood, note=maximum.reason)
        yield from _protocols(case, maximum.to_posterior(), model)
        found = smcpn.laplace(maximum)
        evidence = found.log_evidence if found.success else None
        yield Row(f"emps {model}: log-evidence", evidence, note=found.reason)


def _protocols(case: Case, posterior: smcpn.Posterior, model: str) -> Iterator[Row]:
    """Scores of the most probable parameters, and the friction where it is a spline."""
    for protocol, note in (("open_loop", PUBLISHED), ("closed_loop", "")):
        score = Score.of(case.protocols[protocol](posterior))
        yield Row(f"emps {model}: {protocol}, mm", MILLI * score.rmse_of_mean, note=note)
    if case.problem.ode.functions:
        found = posterior.function("friction", np.array([-0.125, -0.05, 0.0, 0.05, 0.125]))
        for at, value in zip(found.points, found.mean, strict=True):
            yield Row(f"emps {model}: friction({at:g} m/s) without Fc, N", float(value))


@study("emps-disturbed", quick=None)
def emps_disturbed(quick: bool) -> Iterator[Row]:
    """Friction with its band where the joint is disturbed, so that each sample is predicted."""
    if any(find_file("emps", f"DATA_EMPS{name}.mat") is None for name in ("", "_PULSES")):
        yield absent("emps", "DATA_EMPS.mat and DATA_EMPS_PULSES.mat not found: set SMCPN_DATA")
        return
    case = load_case("emps", split="official")
    train = case.problem.records[0][20:]
    laws: dict[str, tuple[smcpn.ODE, dict[str, Any]]] = {"parametric": (models.emps, {})}
    for scale in SCALES:
        laws[f"spline of scale {scale:g} N"] = (_slide, {"friction": {"scale": scale}})
    evidence: dict[str, float] = {}
    for law, (equation, own) in laws.items():
        problem = _disturbed(equation, train, own)
        found = smcpn.laplace(
            problem,
            solver=EMPS_SOLVER,
            starts={
                name: DISTURBED_STARTS[name] for name in DISTURBED_STARTS if name in problem.names
            },
            search="shooting",
            iterations=60,
        )
        text = f"emps disturbed, {law}"
        if not found.success:
            yield absent(text, found.reason)
            continue
        evidence[law] = found.log_evidence
        yield Row(f"{text}: log-evidence", found.log_evidence)
        for at, mean, sd in _friction(found):
            yield Row(f"{text}: friction({at:g} m/s) without Fc, N", mean, note=f"sd {sd:.2g}")
        for protocol in ("open_loop", "closed_loop"):
            score = Score.of(case.protocols[protocol](found.to_posterior(DRAWS)))
            yield Row(f"{text}: {protocol}, mm", MILLI * score.rmse_of_mean)
    if len(evidence) > 1 and "parametric" in evidence:
        best = max(value for law, value in evidence.items() if law != "parametric")
        yield at_least(
            "emps disturbed: log-evidence over parametric", best - evidence["parametric"], 0.0
        )


def _disturbed(equation: smcpn.ODE, record: smcpn.Record, own: dict[str, Any]) -> smcpn.Problem:
    """Position measured with unknown noise, velocity disturbed by forces of no law."""
    prior = {name: one for name, one in DISTURBED_PRIOR.items() if name in equation.parameters}
    begin = record.y[:20, 0]
    speed = float(begin[-1] - begin[0]) / (record.t[19] - record.t[0])
    return smcpn.Problem(
        equation,
        record,
        observe="q",
        noise="noise",
        process_noise={"v": "disturbance"},
        prior=prior | NOISES | own,
        initial={"q": stats.norm(begin[0], 1e-6), "v": stats.norm(speed, 0.01)},
    )


def _friction(found: Laplace) -> Iterator[tuple[float, float, float]]:
    """Velocity, posterior mean and sd of the friction without its Coulomb term."""
    at = np.array([-0.125, -0.05, 0.0, 0.05, 0.125])
    if found.problem.ode.functions:
        draws = found.function("friction", at).draws
    else:
        posterior = found.to_posterior(DRAWS)
        draws = posterior["Fv"][:, None] * at + posterior["offset"][:, None]
    for place, mean, sd in zip(at, draws.mean(axis=0), draws.std(axis=0), strict=True):
        yield float(place), float(mean), float(sd)
