"""Maxima of probable supports on the likelihood of trajectories, and a proposal about them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from smcpn.discovery.supports.proposal import (
    Gaussians,
    SupportProposal,
    active,
    flattened,
    restricted,
)
from smcpn.discovery.supports.spike_and_slab import Mask
from smcpn.discovery.supports.trajectory import Quadratic, Trajectories
from smcpn.errors import InputError

Array = NDArray[np.float64]

LEAST_PROBABLE = 9.0
"""Nats below the best score from which a support has no maximum of its own."""
MOST_MODELS, ROUNDS = 60, 3


def required(ends: Sequence[Quadratic | None]) -> list[Quadratic]:
    """Return those of the models whose trajectory does not diverge.

    Raises
    ------
    InputError
        If there is none.
    """
    found = [end for end in ends if end is not None]
    if not found:
        raise InputError(
            "the trajectory of every model that was found diverges: take method='search', a "
            "solver with more steps, or likelihood='filtering' where the trajectory is chaotic"
        )
    return found


def proposal_at_maxima(target: Trajectories, masks: Mask, z: Array) -> SupportProposal:
    """Proposal about the maxima of probable supports.

    Parameters
    ----------
    masks : ndarray of bool, (G, D)
        Supports to begin with; neighbours of the best are added as long as they are probable.
    z : ndarray, (G, d)
        Points near the maxima.
    """
    ends: dict[bytes, Quadratic] = {}
    scores: dict[bytes, float] = {}
    tried: set[bytes] = set()
    for _ in range(ROUNDS):
        tried |= {mask.tobytes() for mask in masks}
        for end in target.maxima(masks, z):
            score = None if end is None else _score(target, end, end.mask)
            if end is not None and score is not None:
                ends[end.mask.tobytes()], scores[end.mask.tobytes()] = end, score[0]
        required(list(ends.values()))
        best = max(scores, key=lambda key: scores[key])
        near = _neighbours(target, ends[best], scores[best], tried)[: MOST_MODELS - len(ends)]
        if not near:
            break
        masks, z = np.array([mask for mask, _ in near]), np.array([point for _, point in near])
    anchor = ends[max(scores, key=lambda key: scores[key])]
    gaussians = Gaussians({key: restricted(end, end.mask)[0] for key, end in ends.items()}, anchor)
    supports = np.array([ends[key].mask for key in scores])
    weights = flattened(softmax(list(scores.values())))
    return SupportProposal.of(supports, weights, gaussians, len(anchor.z))


def _neighbours(
    target: Trajectories, at: Quadratic, score: float, tried: set[bytes]
) -> list[tuple[Mask, Array]]:
    """Supports that differ in a term and may be probable, best first, with their maxima."""
    found = []
    for j in range(len(at.mask)):
        mask = at.mask.copy()
        mask[j] = not mask[j]
        if mask.tobytes() not in tried:
            scored = _score(target, at, mask)
            if scored is not None and scored[0] > score - LEAST_PROBABLE:
                found.append((*scored, mask))
    found.sort(key=lambda entry: -entry[0])
    return [(mask, point) for _, point, mask in found]


def _score(target: Trajectories, at: Quadratic, mask: Mask) -> tuple[float, Array] | None:
    """Log posterior of a support by an expansion, but for a constant, and its maximum (d,)."""
    try:
        gaussian, value = restricted(at, mask)
    except np.linalg.LinAlgError:
        return None
    z = np.zeros(len(at.z))
    z[active(mask, len(z))] = gaussian.mean
    total = value + float(target.prior.log_density(mask[None], z[None])[0])
    return (total, z) if np.isfinite(total) else None
