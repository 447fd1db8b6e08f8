"""Keys of the random numbers of likelihoods that are estimated: how they are drawn and move."""

from __future__ import annotations

import numpy as np

from smcpn.likelihood.contract import Keys


def fresh_keys(rng: np.random.Generator, size: int, blocks: int) -> Keys:
    """Draw independent keys, (size, blocks)."""
    return rng.integers(0, 1 << 64, (size, blocks), dtype=np.uint64)


def extended(rng: np.random.Generator, keys: Keys, blocks: int) -> Keys:
    """Keys (N, B) with those that are missing up to ``blocks`` drawn; themselves where none is."""
    missing = blocks - keys.shape[1]
    return keys if missing <= 0 else np.hstack([keys, fresh_keys(rng, len(keys), missing)])


def redrawn(rng: np.random.Generator, keys: Keys) -> Keys:
    """Return keys (N, B) of which each row has one, chosen at random, drawn anew."""
    size, blocks = keys.shape
    if not blocks:
        return keys
    changed = keys.copy()
    changed[np.arange(size), rng.integers(0, blocks, size)] = fresh_keys(rng, size, 1)[:, 0]
    return changed
