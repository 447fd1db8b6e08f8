"""The sampler at full strength: exact answers, error bars, peers and overhead in one run.

`python -m benchmarks.sampler [--json]`. Every figure stands beside its target; times
are medians on the machine that ran them.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.command import print_figures
from benchmarks.peers import peers
from benchmarks.targets import CurvedModes, LinearRegression, LogisticRegression
from smcpn.cases import load_case
from smcpn.codegen.kernel import CLOCK
from smcpn.errors import InputError
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.run.identify import identify
from smcpn.smc.ibis import Ibis
from smcpn.smc.moves import IndependentMetropolis, MoveStrategy, RandomWalkMetropolis
from smcpn.smc.proposals import DefensiveGaussian
from smcpn.smc.sampler import Settings
from smcpn.smc.tempering import Tempering
from smcpn.solver import EKF0
from tests.calibration import SETTINGS, shares_below_truth, uniformity

PARTICLES = 1000
Target = LinearRegression | LogisticRegression | CurvedModes


def run(
    target: Target,
    seed: int,
    kind: type[Ibis | Tempering] = Ibis,
    moves: MoveStrategy | None = None,
) -> tuple[Ibis | Tempering, float]:
    """One run and its seconds."""
    begin = time.perf_counter()
    settings = Settings(PARTICLES, moves=moves or IndependentMetropolis())
    sampler = kind(target.prior, target, settings, np.random.default_rng(seed))
    sampler.run()
    return sampler, time.perf_counter() - begin


def noise_ladder() -> dict[str, Any]:
    """Linear model of four parameters, exact evidence, 20 seeds at each noise."""
    rungs = {}
    for noise in (1e-2, 1e-4, 1e-6):
        target = LinearRegression(40, 4, noise)
        exact = target.log_evidence()
        errors = np.array([run(target, seed)[0].log_evidence - exact for seed in range(20)])
        rungs[f"{noise:g}"] = {
            "mean_error": errors.mean(),
            "mean_error_over_its_se": errors.mean() / (errors.std(ddof=1) / np.sqrt(20)),
            "largest_error": np.abs(errors).max(),
        }
    target_text = "|mean error| <= 3 standard errors, each |error| < 0.5"
    passed = all(
        abs(r["mean_error_over_its_se"]) <= 3 and r["largest_error"] < 0.5 for r in rungs.values()
    )
    return {"target": target_text, "passed": passed, **rungs}


def logistic_regression() -> dict[str, Any]:
    """T = 500, d = 5: time and sd of the log-evidence over 20 seeds, beside peers."""
    target = LogisticRegression()
    figures: dict[str, Any] = {}
    for name, kind in (("smcpn_ibis", Ibis), ("smcpn_tempering", Tempering)):
        runs = [run(target, seed, kind) for seed in range(21)][1:]
        figures[name] = _spread(
            [sampler.log_evidence for sampler, _ in runs], [seconds for _, seconds in runs]
        )
    for name, peer in peers(target, PARTICLES).items():
        if isinstance(peer, str):
            figures[name] = peer
            continue
        values, times = [], []
        for seed in range(21):
            begin = time.perf_counter()
            values.append(peer(seed))
            times.append(time.perf_counter() - begin)
        figures[name] = _spread(values[1:], times[1:])
    own = figures["smcpn_ibis"]
    passed = own["log_evidence_sd"] <= 0.2 and own["seconds"] <= 0.3
    return {"target": "IBIS: sd <= 0.2 at <= 0.3 s", "passed": passed, **figures}


def curved_modes() -> dict[str, Any]:
    """Two curved modes, 40 seeds: the default, and a Gaussian alone for comparison."""
    target, figures = CurvedModes(), {}
    gaussian = IndependentMetropolis(proposals=(DefensiveGaussian,))
    for name, moves in (("default", None), ("gaussian_only", gaussian)):
        samplers = [run(target, seed, moves=moves)[0] for seed in range(40)]
        last = [sampler.rejuvenations[-1].acceptance for sampler in samplers]
        modes = [target.mode_weight(s.system.theta, s.system.weights) for s in samplers]
        figures[name] = {
            "acceptance": np.median(last),
            "mode_weight": np.mean(modes),
            "mode_weight_sd": np.std(modes, ddof=1),
            "log_evidence_sd": np.std([s.log_evidence for s in samplers], ddof=1),
        }
    own = figures["default"]
    passed = own["acceptance"] >= 0.6 and own["mode_weight_sd"] <= 0.03
    return {"target": "acceptance >= 0.6, mode weight 0.3 +- <= 0.03", "passed": passed, **figures}


def error_bar() -> dict[str, Any]:
    """Stated over true standard error of the log-evidence.

    The root mean square of the stated errors is compared, as a variance estimate is unbiased if
    anything is; their median stands beside it. The true one is known to 1 / sqrt(2 seeds).
    """
    figures: dict[str, Any] = {}
    linear = LinearRegression(60, 3, 0.5)
    for name, target, moves, seeds in (
        ("linear", linear, None, 100),
        ("logistic", LogisticRegression(), None, 60),
        ("linear_by_ancestry_alone", linear, RandomWalkMetropolis(), 40),
    ):
        samplers = [run(target, seed, moves=moves)[0] for seed in range(seeds)]
        true = np.std([s.log_evidence for s in samplers], ddof=1)
        stated = np.array([s.log_evidence_se for s in samplers])
        figures[name] = {
            "seeds": seeds,
            "true": true,
            "ratio": np.sqrt(np.mean(stated**2)) / true,
            "ratio_of_median": np.median(stated) / true,
        }
    passed = all(0.8 <= f["ratio"] <= 1.25 for f in figures.values())
    return {"target": "ratio 0.8 to 1.25", "passed": passed, **figures}


def bouc_wen_ridge() -> dict[str, Any]:
    """Acceptance at the end of the paper's Bouc-Wen problem; needs its files."""
    text = "acceptance at the end >= 0.4"
    try:
        case = load_case("bouc-wen")
    except InputError as error:
        return {"target": text, "passed": None, "skipped": str(error)}
    solver = EKF0(order=3, steps=case.steps)
    posterior = identify(case.problem, solver=solver, particles=PARTICLES, seed=1, progress=False)
    last = posterior.rejuvenations[-1].acceptance
    return {
        "target": text,
        "passed": last >= 0.4,
        "acceptance_at_end": last,
        "acceptance_lowest": min(r.acceptance for r in posterior.rejuvenations),
        "acceptance_overall": posterior.acceptance,
        "log_evidence": posterior.log_evidence,
        "log_evidence_se": posterior.log_evidence_se,
        "seconds": posterior.timing.wall,
    }


def calibration() -> dict[str, Any]:
    """Simulation-based calibration, as in the nightly tests: 300 draws of each problem."""
    p_values = {
        name: uniformity(shares_below_truth(setting, draws=300, seed=1, particles=300))
        for name, setting in SETTINGS.items()
    }
    return {
        "target": "rank histograms pass at 1 %",
        "passed": all(p.min() > 0.01 / len(p) for p in p_values.values()),
        **{name: p.tolist() for name, p in p_values.items()},
    }


def overhead() -> dict[str, Any]:
    """Time per sample outside the kernel: assimilating alone, and with all rejuvenations."""
    text = "assimilating < 20 us per sample"
    try:
        problem = load_case("silverbox").problem
    except InputError as error:
        return {"target": text, "passed": None, "skipped": str(error)}
    calm = _outside_kernel(_without_information(problem))
    whole = _outside_kernel(problem)
    return {
        "target": text,
        "passed": calm < 20,
        "assimilating_us": calm,
        "with_rejuvenations_us": whole,
        "samples": problem.n_samples,
    }


def _outside_kernel(problem: Problem) -> float:
    """Median microseconds per sample outside the kernel."""
    likelihood, taken = build_likelihood(problem, EKF0(order=3, steps=8)), []
    for _ in range(7):
        before, begin = replace(CLOCK), time.perf_counter()
        settings = Settings(PARTICLES)
        Ibis(problem.prior, likelihood, settings, np.random.default_rng(1)).run()
        seconds = time.perf_counter() - begin - CLOCK.since(before).run_seconds
        taken.append(1e6 * seconds / problem.n_samples)
    return float(np.median(taken))


def _without_information(problem: Problem) -> Problem:
    """The same work with so much noise that nothing is learned, hence no rejuvenation."""
    records = [
        Record(u=record.u, y=record.y, t=record.t, hold=record.hold) for record in problem.records
    ]
    return Problem(
        problem.ode,
        records,
        observe=problem.observe,
        noise=1e6,
        prior=problem.prior.distributions,
    )


def _spread(log_evidences: list[float], seconds: list[float]) -> dict[str, float]:
    return {
        "log_evidence": float(np.mean(log_evidences)),
        "log_evidence_sd": float(np.std(log_evidences, ddof=1)),
        "seconds": float(np.median(seconds)),
    }


FIGURES = {
    "noise_ladder": noise_ladder,
    "logistic_regression": logistic_regression,
    "curved_modes": curved_modes,
    "error_bar": error_bar,
    "bouc_wen_ridge": bouc_wen_ridge,
    "overhead": overhead,
    "calibration": calibration,
}


def main() -> None:
    """Print the figures."""
    print_figures(
        "The sampler against exact answers and peers.",
        {name: lambda quick, figure=figure: figure() for name, figure in FIGURES.items()},
    )


if __name__ == "__main__":
    main()
