"""Digests of results: equal where every byte is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from numbers import Number
from typing import Any

import numpy as np

import smcpn


def digest(content: Any) -> str:
    """SHA-256 of arrays as little-endian numbers with their shapes, and of texts."""
    sha = hashlib.sha256()
    for part in _parts(content):
        sha.update(part)
    return sha.hexdigest()


def _parts(content: Any) -> Iterator[bytes]:
    if isinstance(content, (str, bytes)):
        yield content.encode() if isinstance(content, str) else content
    elif isinstance(content, (np.ndarray, Number)):
        array = np.asarray(content)
        yield repr(array.shape).encode()
        yield np.ascontiguousarray(array, "<f8").tobytes()
    else:
        for part in content:
            yield from _parts(part)


def of_posterior(posterior: smcpn.Posterior) -> str:
    """SHA-256 of everything that a posterior is."""
    return digest(
        [
            posterior.theta,
            posterior.log_weights,
            posterior.log_likelihood,
            posterior.ancestor,
            posterior.ess_path,
            posterior.log_evidence_path,
            [posterior.log_evidence, posterior.log_evidence_se],
        ]
    )
