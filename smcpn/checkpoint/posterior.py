"""The file of a posterior that was saved: its draws, its problem, and how it was made."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from smcpn.checkpoint.codec import decoded, decoded_all, encoded, numbered, require_parts
from smcpn.checkpoint.container import DAMAGED, POSTERIOR, DamagedFileError, read, save
from smcpn.checkpoint.earlier import is_earlier, posterior_as_now
from smcpn.checkpoint.problem import StoredProblem, StoredRecord
from smcpn.errors import InputError, NotStorableError
from smcpn.files import file_path
from smcpn.io.hdf5_subset import Group
from smcpn.likelihood.registry import LIKELIHOODS
from smcpn.results.nuts import NutsPosterior
from smcpn.results.posterior import Posterior

LARGEST_VALUE = 1e150
"""Of a parameter: its square is finite."""
KINDS = {"posterior": Posterior, "chains": NutsPosterior}
"""Posteriors by the part of the file that holds one."""


def save_posterior(posterior: Posterior, path: str | Path) -> Path:
    """Write the file of a posterior under its lock, and return its path.

    Raises
    ------
    InputError
        If the file cannot be written, or the problem cannot be stored.
    """
    path = file_path("path", path)
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder does not exist, make it first", argument="path")
    try:
        problem = StoredProblem.of(posterior.problem)
        records = [StoredRecord.of(one) for one in posterior.problem.records]
    except NotStorableError as error:
        raise InputError(f"{path} cannot hold this posterior: {error}") from None
    part = "chains" if isinstance(posterior, NutsPosterior) else "posterior"
    parts = {"problem": problem, part: posterior, **numbered(records, "records")}
    save(path, POSTERIOR, encoded(POSTERIOR, parts))
    return path


def read_posterior(path: Path) -> Posterior:
    """Read the file of a posterior; see `smcpn.checkpoint.container.read`."""
    return read(path, POSTERIOR, _posterior_of)


def _posterior_of(file: Group) -> Posterior:
    """Return the posterior of a file, of which all parts fit each other."""
    file = posterior_as_now(file) if is_earlier(file) else file
    part = "chains" if "chains" in file.groups else "posterior"
    require_parts(file, "problem", "records", part)
    records = [one.restored() for one in decoded_all(file, "records", StoredRecord)]
    problem = decoded(file, "problem", StoredProblem).restored(records)
    sizes = {"d": len(problem.names), "T": problem.n_samples}
    posterior = decoded(file, part, KINDS[part], sizes, {"problem": problem})
    if posterior.likelihood not in (None, *LIKELIHOODS):
        raise InputError(f"its likelihood '{posterior.likelihood}' is not known here")
    _require_whole(posterior)
    return posterior


def _require_whole(posterior: Posterior) -> None:
    """Refuse draws of which none counts, of other populations, or without a variance."""
    n, shift = len(posterior.theta), posterior.shift
    fits = (
        n > 0
        and np.isfinite(posterior.log_weights).any()
        and len(posterior.replicate) in (0, n)
        and len(posterior.ancestor) in (0, n)
        and (shift is None or set(shift.parameters) == set(posterior.names))
    )
    if not fits:
        raise DamagedFileError(f"the draws are not those of a posterior: {DAMAGED}")
    if isinstance(posterior, NutsPosterior) and posterior.statistics.divergent.size != n:
        raise DamagedFileError(f"the chains are not those of the draws: {DAMAGED}")
    with np.errstate(all="ignore"):
        bounded = (np.abs(posterior.values) <= LARGEST_VALUE).all()
    if not bounded:
        raise DamagedFileError(f"the draws have values beyond {LARGEST_VALUE:g}: {DAMAGED}")
