"""Ends of path searches from given starts, on as much of the records as is quickly done."""

from __future__ import annotations

import logging
import time

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.path_search.homotopy import Homotopy
from smcpn.model.problem import Problem
from smcpn.model.record import Record

Array = NDArray[np.float64]
_log = logging.getLogger(__name__)

POINTS = 20_000
"""Sampling intervals, of all starts together, that are searched with at most."""
LEAST_SAMPLES = 500
"""Samples of each record that are searched with at least."""
LEAST_TOGETHER, MOST_TOGETHER = 4, 64
"""Starts that are searched side by side: as many as leave whole records, if not fewer."""


def lifted_ends(density: LogDensity, starts: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return the points (S, d) that searches over path and parameters end in, and whose they are.

    Parameters
    ----------
    density : LogDensity
        Long records are searched by their beginnings.
    starts : ndarray, (S0, d)

    Returns
    -------
    ends : ndarray, (S, d)
    of_start : ndarray of int, (S0,)
        Which of them each start led to; -1 where it led nowhere.
    """
    began = time.perf_counter()
    ends: list[Array] = []
    of_start = np.full(len(starts), -1)
    problem = density.log_likelihood.problem
    size = min(max(POINTS // problem.n_samples, LEAST_TOGETHER), MOST_TOGETHER)
    for first in range(0, len(starts), size):
        part = starts[first : first + size]
        samples = max(POINTS // len(part), LEAST_SAMPLES)
        found, of_part = Homotopy(density, beginning(problem, samples))(part)
        of_start[first : first + size] = np.where(of_part < 0, -1, of_part + len(ends))
        ends += list(found)
    _log.info(
        "lifted search: %d starts to %d ends in %.2f s",
        len(starts), len(ends), time.perf_counter() - began,
    )  # fmt: skip
    return np.array(ends).reshape(-1, starts.shape[1]), of_start


def beginning(problem: Problem, samples: int) -> Problem:
    """The problem with the first measured ``samples`` of all records together.

    Records share them in proportion to their lengths.
    """
    share = samples / problem.n_samples
    if share >= 1.0:
        return problem
    try:
        return problem.with_records([_beginning(record, share) for record in problem.records])
    except InputError:
        # An output was measured later only.
        return problem


def _beginning(record: Record, share: float) -> Record:
    measured = np.flatnonzero(np.isfinite(record.y).any(axis=1))
    wanted = min(max(round(share * len(record)), LEAST_SAMPLES), len(measured))
    return record[: measured[wanted - 1] + 1] if wanted else record
