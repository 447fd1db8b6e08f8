"""Take up a run from its file: read, verify, refuse."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from smcpn.checkpoint.codec import TITLE, Contents, contents_of
from smcpn.checkpoint.container import DamagedFileError, content_of, previous_of
from smcpn.checkpoint.fingerprint import data_fingerprint, model_fingerprint
from smcpn.checkpoint.problem import restored_problem
from smcpn.checkpoint.writer import CheckpointWarning, read_records
from smcpn.errors import InputError
from smcpn.model.problem import Problem
from smcpn.run.run import Configuration, Run

AGREEMENT = 1e-6
"""Relative difference of a log-likelihood that other hardware may cause."""


@contextmanager
def sole_writer(path: Path) -> Generator[None]:
    """Hold a checkpoint against other processes; the lock falls with the process.

    Raises
    ------
    InputError
        If another process holds it.
    """
    lock = FileLock(path.with_name(path.name + ".lock"), timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(
            f"{path} is in use by another process: wait for it, or choose another file"
        ) from None
    except OSError:
        # Where no lock can be made no checkpoint can be written, which the run will tell.
        yield
        return
    try:
        yield
    finally:
        lock.release()


def stored_contents(path: Path) -> Contents:
    """Read a checkpoint, or the one before where the last is damaged.

    Raises
    ------
    InputError
        If there is none, or none that is whole.

    Warns
    -----
    CheckpointWarning
        If the one before had to be used.
    """
    previous = previous_of(path)
    try:
        if not path.exists() and not previous.exists():
            raise InputError(f"{path} does not exist: give the file that a run wrote")
        if not path.exists():
            raise DamagedFileError(f"{path} is absent")
        return contents_of(content_of(path, TITLE), str(path))
    except DamagedFileError as damage:
        if not previous.exists():
            raise
        try:
            contents = contents_of(content_of(previous, TITLE), str(previous))
        except DamagedFileError as also:
            raise DamagedFileError(f"{damage}; {also}") from None
        warnings.warn(
            f"{damage}: the one before is used, {previous}, of {contents.written}",
            CheckpointWarning,
            stacklevel=3,
        )
        return contents


def is_checkpoint(path: Path) -> bool:
    """Whether there is something to take up, damaged or not."""
    return path.exists() or previous_of(path).exists()


def stored_problem(contents: Contents, path: Path) -> Problem:
    """Put the problem of a checkpoint together, without running anybody's code.

    Raises
    ------
    InputError
        If a part could not be stored, or the records are absent or others.
    """
    begun = contents.begun
    begun.require_stored(path)
    records = read_records(path.with_name(begun.data_file))
    problem = restored_problem(begun.problem, begun.arrays, records)
    require_same_problem(contents, problem, path)
    return problem


def require_same_problem(contents: Contents, problem: Problem, path: Path) -> None:
    """Refuse a problem that is not the one the checkpoint is of; more samples are allowed.

    Raises
    ------
    InputError
        If the model, the priors, or the samples used so far differ.
    """
    begun = contents.begun
    if model_fingerprint(problem) != begun.model_fingerprint:
        raise InputError(
            f"{path} belongs to another model or other priors: use another file, or "
            "existing='overwrite' to begin anew"
        )
    same = (
        problem.n_samples >= begun.n_samples
        and data_fingerprint(problem.records, begun.n_samples) == begun.data_fingerprint
    )
    if not same:
        raise InputError(
            f"{path} belongs to other data: the first {begun.n_samples} samples must be the "
            "same (more may follow); use another file, or existing='overwrite' to begin anew"
        )


def taken_up(
    contents: Contents,
    problem: Problem,
    configuration: Configuration,
    path: Path,
    threads: int | None = None,
) -> Run:
    """Return the run of a checkpoint, verified, over the same or longer records.

    Raises
    ------
    InputError
        If two of its particles have another likelihood here, or a tempered run is to go on with
        more samples.
    """
    longer = problem.n_samples > contents.begun.n_samples
    if longer and configuration.method != "ibis":
        raise InputError(
            f"{path} is of a run by method '{configuration.method}', which weighs its record as a "
            "whole: only path 'data' goes on with more samples"
        )
    run = Run.resumed(problem, configuration, contents.snapshot, threads)
    if longer:
        for sampler in run.samplers:
            sampler.reweight()
    else:
        _verify(run, path, contents)
    return run


def _verify(run: Run, path: Path, contents: Contents) -> None:
    """Weigh two particles again: other numerics would go on to a posterior of neither."""
    for sampler in run.samplers:
        alive = np.flatnonzero(np.isfinite(sampler.system.log_weights))[[0, -1]]
        system = sampler.system.take(alive)
        _, log_likelihood, log_increment = sampler.recomputed(alive)
        ours = np.concatenate([log_likelihood, log_increment])
        stored = np.concatenate([system.log_likelihood, system.log_increment])
        with np.errstate(invalid="ignore"):
            near = np.abs(ours - stored) <= AGREEMENT * (1.0 + np.abs(stored))
        if not np.all(near | (ours == stored)):
            versions = ", ".join(f"{k} {v}" for k, v in contents.begun.versions.items())
            raise InputError(
                f"{path}: two of its particles have another likelihood here; it was written with "
                f"{versions}: use these versions, or begin anew"
            )
