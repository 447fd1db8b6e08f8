"""Records cut where their trajectory forgets its beginning.

In chaos an initial error grows until the likelihood of the whole trajectory has a thousand maxima,
none of which tells more than the rounding of its initial state. Each piece is a record with an
initial state of its own, as in multiple shooting (Bock 1983): what is lost is only that one piece
begins where the one before ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.search.linearisation import LibraryRate
from smcpn.model.record import Record

Array = NDArray[np.float64]

GROWTH = 10.0
"""Growth of an initial error, in units of the states' rms, that a piece may have at its end."""
EARLY = 0.75
"""Share of what is left of a record before which it must have grown so far: what grows near the end
may be about to be undone."""
LEAST_SAMPLES = 20
"""Of a piece."""


def cut(
    system: CandidateSystem, records: Sequence[Record], path: Array, coefficients: Array
) -> list[NDArray[np.int64]]:
    """Return the first samples of the pieces of each record, 0 for the first.

    Growth that a later sample undoes, as within the period of an oscillation, does not count.

    Parameters
    ----------
    path : ndarray, (T, n)
        Of all records, one after the other.
    coefficients : ndarray, (K,)
    """
    rate, scale = LibraryRate(system), np.sqrt(np.mean(path**2, axis=0))
    scale = np.where(scale > 0.0, scale, 1.0)
    n, result, begin = path.shape[1], [], 0
    for record in records:
        x = path[begin : begin + len(record)]
        begin += len(record)
        values = (coefficients / rate.unit)[None]
        slopes = rate.with_derivatives(x[None], record.u, record.t, values)[1][0, :, :, :n]
        slopes = slopes * scale / scale[:, None]
        steps = np.asarray(expm(slopes[:-1] * np.diff(record.t)[:, None, None]), dtype=float)
        result.append(np.array(_begins(steps)))
    return result


def _begins(steps: Array) -> list[int]:
    """First samples of pieces, by the transitions (T - 1, n, n) between samples."""
    begins = [0]
    while len(steps) - begins[-1] >= 2 * LEAST_SAMPLES:
        growth = [1.0]
        product = np.eye(steps.shape[1])
        for step in steps[begins[-1] :]:
            product = step @ product
            growth.append(float(np.linalg.norm(product, 2)))
        lasting = np.minimum.accumulate(growth[::-1])[::-1]
        grown = np.flatnonzero(~(lasting <= GROWTH))
        if not len(grown) or grown[0] > EARLY * len(growth):
            break
        begins.append(begins[-1] + max(int(grown[0]), LEAST_SAMPLES))
    return begins


def pieces(
    records: Sequence[Record], begins: Sequence[NDArray[np.int64]]
) -> tuple[list[Record], NDArray[np.int64], NDArray[np.int64]]:
    """Cut records.

    Returns
    -------
    records : list of Record
    samples : ndarray of int
        First sample of each piece, in all records one after the other.
    first : ndarray of int
        Pieces with which the records begin.
    """
    found: list[Record] = []
    samples, first, offset = [], [], 0
    for record, own in zip(records, begins, strict=True):
        ends = [*own[1:].tolist(), len(record)]
        first.append(len(found))
        found += [record[a:b] for a, b in zip(own.tolist(), ends, strict=True)]
        samples += (own + offset).tolist()
        offset += len(record)
    return found, np.array(samples), np.array(first)
