"""Supports of high posterior probability: the best by greedy steps, all of them by MCMC."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from smcpn.discovery.search.regression import SpikeAndSlab, Support

Array = NDArray[np.float64]

SWAP_BELOW = 3.0
"""Swaps are tried where no column adds more to the score than this."""
MOST_STEPS = 200


def best_support(regression: SpikeAndSlab, support: Support) -> Support:
    """Go to better supports until none is better.

    One column is added or deleted, or one is swapped, or, where neither helps, two are added.
    """
    for _ in range(MOST_STEPS):
        flips = regression.neighbourhood(support).flips
        best, gain = int(np.argmax(flips)), float(flips.max(initial=-np.inf))
        better = flipped(support, best) if gain > 0.0 else None
        if gain < SWAP_BELOW:
            out, into, swapped = best_swap(regression, support)
            if swapped > max(gain, 0.0):
                better = flipped(flipped(support, out), into)
        if better is None:
            better = _with_two(regression, support)
        if better is None:
            break
        support = better
    return support


def _with_two(regression: SpikeAndSlab, support: Support) -> Support | None:
    """The support with two more columns, if that is better."""
    if np.sum(~support) < 2:
        return None
    first, second = regression.best_pair(support)
    both = flipped(flipped(support, first), second)
    return both if regression.score(both) > regression.score(support) else None


def best_swap(regression: SpikeAndSlab, support: Support) -> tuple[int, int, float]:
    """Column out, column in, and what this adds to the score."""
    score = regression.score(support)
    best = (0, 0, -np.inf)
    for out in np.flatnonzero(support).tolist():
        without = regression.neighbourhood(flipped(support, out))
        gains = np.where(support, -np.inf, without.flips)
        into = int(np.argmax(gains))
        gain = without.score - score + float(gains[into])
        if gain > best[2]:
            best = (out, into, gain)
    return best


def flipped(support: Support, column: int) -> Support:
    """The support with a column added or deleted."""
    result = support.copy()
    result[column] = not result[column]
    return result


def sampled_inclusion(
    regression: SpikeAndSlab, support: Support, sweeps: int, rng: np.random.Generator
) -> Array:
    """Probability, (d,), that each column is in the support, by MCMC from a support.

    A sweep is a flip, proposed in proportion to the square root of the change of the posterior
    (Zanella 2020, informed proposals), and a swap: one column out, and one in from its conditional
    distribution. The probabilities are averages of the conditional ones. What was visited is in
    ``regression.visited``.
    """
    total = np.zeros(len(support))
    for _ in range(sweeps):
        support = _flip(regression, support, rng)
        support = _swap(regression, support, rng)
        total += expit(np.where(support, -1.0, 1.0) * regression.neighbourhood(support).flips)
    return total / sweeps


def _flip(regression: SpikeAndSlab, support: Support, rng: np.random.Generator) -> Support:
    here = 0.5 * regression.neighbourhood(support).flips
    proposal = flipped(support, _drawn(here, rng))
    there = 0.5 * regression.neighbourhood(proposal).flips
    accepted = np.log(rng.uniform()) < np.logaddexp.reduce(here) - np.logaddexp.reduce(there)
    return proposal if accepted else support


def _swap(regression: SpikeAndSlab, support: Support, rng: np.random.Generator) -> Support:
    active = np.flatnonzero(support)
    if len(active) == 0:
        return support
    without = flipped(support, int(rng.choice(active)))
    flips = np.where(without, -np.inf, regression.neighbourhood(without).flips)
    return flipped(without, _drawn(flips, rng)) if np.isfinite(flips).any() else support


def _drawn(log_weights: Array, rng: np.random.Generator) -> int:
    weights = np.exp(log_weights - log_weights.max())
    return int(np.searchsorted(np.cumsum(weights), rng.uniform() * weights.sum()))


def most_probable(regression: SpikeAndSlab, count: int) -> list[tuple[float, Support]]:
    """Scores and supports, best first, of those visited and their neighbours."""
    scores: dict[bytes, float] = {}
    for key, found in regression.visited.items():
        scores[key] = found.score
        support = np.frombuffer(key, dtype=bool)
        for column in np.argsort(-found.flips)[:count].tolist():
            score = found.score + float(found.flips[column])
            scores.setdefault(flipped(support, column).tobytes(), score)
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:count]
    return [(score, np.frombuffer(key, dtype=bool).copy()) for key, score in best]
