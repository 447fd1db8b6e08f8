"""Default posteriors of published problems: the modes that they report, moments and evidence.

The moments of Boehm's are compared with those of `boehm_reference`, which are stored here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import smcpn
from benchmarks.clock import running_seconds
from benchmarks.rows import ERRORS, Row, at_least, at_most, between, reached, unjudged
from benchmarks.stiff.boehm_reference import DRAWS, Moments
from benchmarks.stiff.collection import boehm_problem, crauste_problem
from benchmarks.study import study

Array = NDArray[np.float64]

HIGH = -228.56
"""Log posterior of Crauste from which a mode counts as the published one, -228.02: it has a
log-likelihood of -190.97 there, and one of -191.5 here."""
LESSER = -230.2
"""The same of the next mode, -229.92, in which naive cells die twenty times as fast, or more."""
REACHED = 80.0
"""Processor seconds of a run on Boehm, beside other work."""
STORED = Moments(
    log_evidence=-169.8187,
    error=0.0074,
    mean={
        "Epo_degradation_BaF3": -1.56061,
        "k_exp_hetero": -4.18252,
        "k_exp_homo": -2.21503,
        "k_imp_hetero": -1.78966,
        "k_imp_homo": 2.7405,
        "k_phos": 4.20739,
        "sd_pSTAT5A_rel": 0.64188,
        "sd_pSTAT5B_rel": 0.84618,
        "sd_rSTAT5A_rel": 0.52474,
    },
    sd={
        "Epo_degradation_BaF3": 0.08521,
        "k_exp_hetero": 0.53618,
        "k_exp_homo": 0.16467,
        "k_imp_hetero": 0.06314,
        "k_imp_homo": 1.32683,
        "k_phos": 0.04746,
        "sd_pSTAT5A_rel": 0.09584,
        "sd_pSTAT5B_rel": 0.08419,
        "sd_rSTAT5A_rel": 0.0834,
    },
)
"""What ``python -m benchmarks.stiff.boehm_reference`` prints."""


def _identified(problem: smcpn.Problem, seed: int) -> tuple[smcpn.Posterior, float]:
    """Return the default posterior, and processor seconds without those that compile."""
    began = running_seconds()
    found = smcpn.identify(problem, seed=seed, progress=False)
    return found, running_seconds() - began


def _z_of_means(found: smcpn.Posterior) -> Array:
    """Errors of the means of log10 values, in their standard errors."""
    names = list(STORED.mean)
    values = np.log10(np.column_stack([found[name] for name in names]))
    mean, sd = (np.array([one[name] for name in names]) for one in (STORED.mean, STORED.sd))
    own = found.weights @ values
    spread = found.weights @ np.square(values - own)
    theirs = np.square(sd) * (STORED.error**2 + 1.0 / DRAWS)
    return (own - mean) / np.sqrt(spread / found.ess + theirs)


@study("boehm-posterior", full=40, quick=None)
def boehm_posterior(seeds: int) -> Iterator[Row]:
    """Evidence and means of nine parameters in a box of ten decades, beside a stored reference."""
    problem, of_evidence, of_means, used, warned = boehm_problem().problem, [], [], [], []
    for seed in range(seeds):
        found, seconds = _identified(problem, seed)
        error = np.hypot(found.log_evidence_se, STORED.error)
        of_evidence.append((found.log_evidence - STORED.log_evidence) / error)
        of_means.append(_z_of_means(found))
        used.append(seconds)
        warned += [f"{seed}: {text[:60]}" for text in found.warnings]
    for name, z in (("evidence", np.array(of_evidence)), ("means", np.concatenate(of_means))):
        # Means of one run are not independent: what scatters is the runs.
        wider = ERRORS * max(0.0, 1.0 / np.sqrt(2.0 * seeds) - 1.0 / np.sqrt(80.0))
        rms, note = float(np.sqrt(np.mean(z**2))), f"{seeds} seeds, mean {z.mean():+.2f}"
        low, high = max(0.0, 0.8 * (1.0 - wider)), 1.25 * (1.0 + wider)
        yield between(f"z rms of the {name}", rms, round(low, 2), round(high, 2), note)
    yield Row("warnings", len(warned), note="; ".join(warned[:2]))
    yield reached(at_most("processor seconds of a run, most", max(used), 40.0), REACHED)


@study("crauste", full=20, quick=None)
def crauste(seeds: int) -> Iterator[Row]:
    """Log posterior of the highest mode that default runs report, of twelve rates."""
    problem, heights, used = crauste_problem().problem, [], []
    for seed in range(seeds):
        found, seconds = _identified(problem, seed)
        heights.append(max(found.method.ends, default=-np.inf) if found.method else -np.inf)
        used.append(seconds)
    row = at_least("seeds with the published mode", sum(h >= HIGH for h in heights), 0.6 * seeds)
    yield row if seeds >= 20 else unjudged(row, "of few seeds chance decides")
    yield at_least("seeds with it or the next one", sum(h >= LESSER for h in heights), 0.6 * seeds)
    yield Row("highest log posterior", float(np.max(heights)))
    yield at_most("processor seconds of a run, most", max(used), 120.0)
