"""`smcpn.resume` and `smcpn.load`: continue a run from its checkpoint, or read its posterior."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from smcpn.base.arguments import FILE_NAME, THREADS
from smcpn.checkpoint.container import DISCOVERY, POSTERIOR, RUN, kind_of, previous_of
from smcpn.checkpoint.discovery import read_discovery
from smcpn.checkpoint.posterior import read_posterior
from smcpn.checkpoint.run import read_run
from smcpn.codegen.target import compiling_for
from smcpn.discovery.results.discovery import Discovery
from smcpn.discovery.stages import DiscoveryRun
from smcpn.errors import InputError, real_number, shown
from smcpn.likelihood.registry import LIKELIHOODS, build_likelihood
from smcpn.model.dosing import as_given
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.results.posterior import Posterior
from smcpn.run.discover import (
    InterruptedDiscovery,
    discovered,
    stored_question,
    warn_of,
    written_discovery,
)
from smcpn.run.posterior import posterior_of
from smcpn.run.progress import check_progress
from smcpn.run.restore import (
    GOES_ON,
    LEAST,
    MOST_UNSEEN,
    InMemory,
    Interrupted,
    InterruptedRun,
    forget,
    last_interrupted,
    locked,
    restored,
    stored_problem,
    stored_settings,
    written_run,
)
from smcpn.run.run import Run
from smcpn.run.stages import identified
from smcpn.smc.distributed.engines import checked_executor
from smcpn.smc.distributed.workers import workers_of
from smcpn.smc.verification import drawn_again, near


def resume(
    path: str | PathLike[str] | None = None,
    *,
    data: Record | None = None,
    threads: int | None = None,
    executor: Executor | str | None = None,
    progress: bool | Callable[[Any], None] | None = None,
    checkpoint_every: float = 60.0,
) -> Posterior | Discovery:
    """Continue the run or the discovery of a checkpoint, to the result of an uninterrupted one.

    Without a path it is the run without a checkpoint that was interrupted last in this process.

    Everything is read from the file and its file of records; no code is run from
    either. Where a part of the run could not be stored, such as a prior of your own class, run
    the script again instead: ``identify(problem, checkpoint=path)`` goes on as well.

    Parameters
    ----------
    path : path, optional
        Of the checkpoint. If it is damaged its previous version is used, with a warning.
    data : Record, optional
        Samples that follow the last record. A finished run then goes on with them; one whose moves
        follow the gradient begins anew over the whole.
    threads, executor, progress
        As of `identify`, or of `discover`.
    checkpoint_every : float
        Most seconds between two writes.

    Returns
    -------
    Posterior or Discovery
        As the call returns that began it.

    Raises
    ------
    InputError
        If the file cannot be used, in one sentence; without one, if no run was interrupted.

    Examples
    --------
    >>> posterior = smcpn.identify(problem)  # interrupted by Ctrl-C  # doctest: +SKIP
    >>> posterior = smcpn.resume()  # doctest: +SKIP
    """
    threads = THREADS("threads", threads)
    if data is not None and not isinstance(data, Record):
        raise InputError(f"data is {shown(data)}: give a smcpn.Record", argument="data")
    checked_executor(executor)
    every = real_number("checkpoint_every", checkpoint_every, "give seconds, 0 or more")
    if path is None:
        if data is not None:
            raise InputError("data is given without a checkpoint: give its path", argument="data")
        return _resumed_in_memory(last_interrupted(), threads, executor, progress)
    file = FILE_NAME("path", path)
    if holds_discovery(file):
        if data is not None:
            raise InputError(
                f"data is given, but {file} is of a discovery, which has no samples to come: "
                "leave data out, and discover anew",
                argument="data",
            )
        return _resumed_discovery(file, threads, executor, progress, every)
    with locked(file):
        stored = read_run(file)
        problem = stored_problem(stored.header, file)
        if data is not None:
            problem = _extended(problem, data)
        settings = stored_settings(stored.header, file)
        if not stored.state.samplers and settings.particles > MOST_UNSEEN:
            raise InputError(
                f"{file} holds none of its {settings.particles} particles yet: run your script "
                "again in place of the file"
            )
        with compiling_for(settings.cpu), workers_of(executor) as workers:
            begin, writer = written_run(file, problem, settings, stored, every, threads, workers)
            return identified(begin, progress, writer)


def holds_discovery(path: Path) -> bool:
    """True if a file, or where it is damaged its previous version, is of a discovery."""
    kinds = {kind_of(path), kind_of(previous_of(path))}
    return DISCOVERY in kinds and RUN not in kinds


def _resumed_discovery(
    path: Path,
    threads: int | None,
    executor: Executor | str | None,
    progress: bool | Callable[[Any], None] | None,
    every: float,
) -> Discovery:
    """Continue the discovery of a checkpoint."""
    check_progress(progress)
    with locked(path), workers_of(executor) as workers:
        stored = read_discovery(path)
        question = stored_question(stored, path)
        begin, writer = written_discovery(path, question, stored, every, threads, workers)
        found = discovered(begin, progress, writer)
    warn_of(found, stacklevel=4)
    return found


def _resumed_in_memory(
    kept: Interrupted,
    threads: int | None,
    executor: Executor | str | None,
    progress: bool | Callable[[Any], None] | None,
) -> Posterior | Discovery:
    """Continue what was kept in memory."""
    if isinstance(kept, InterruptedDiscovery):
        question, state = kept.question, kept.state
        with workers_of(executor) as workers:
            found = discovered(
                lambda: DiscoveryRun(question, threads, workers, state),
                progress,
                InMemory(partial(InterruptedDiscovery, question)),
            )
        forget(kept)
        warn_of(found, stacklevel=4)
        return found
    assert isinstance(kept, InterruptedRun)
    problem, settings = kept.problem, kept.settings
    with compiling_for(settings.cpu), workers_of(executor) as workers:
        posterior = identified(
            lambda: Run.resumed(problem, settings, kept.state, threads, workers),
            progress,
            InMemory(partial(InterruptedRun, problem, settings)),
        )
    forget(kept)
    return posterior


def load(path: str | PathLike[str] | None = None, *, threads: int | None = None) -> Posterior:
    """Return the posterior in a file: that of `Posterior.save`, or of the checkpoint of a run.

    A checkpoint has the posterior of all samples, or of those assimilated so far. Nothing is
    written, and a run at work on the file is not disturbed. Without a path it is that of the run
    without a checkpoint that was interrupted last in this process.

    Raises
    ------
    InputError
        If the file cannot be used, or the run has not come far enough to have a posterior.

    Examples
    --------
    >>> smcpn.load("run.h5").plot_corner()  # doctest: +SKIP
    """
    threads = THREADS("threads", threads)
    if path is None:
        kept = last_interrupted()
        if not isinstance(kept, InterruptedRun):
            raise InputError(f"a discovery was interrupted last, which has no posterior: {GOES_ON}")
        with compiling_for(kept.settings.cpu):
            run = Run.resumed(kept.problem, kept.settings, kept.state, threads)
            return _posterior_so_far(run, "the interrupted run")
    file = FILE_NAME("path", path)
    kinds = {kind_of(file), kind_of(previous_of(file))}
    if holds_discovery(file):
        raise InputError(
            f"{file} is of a discovery, which has no posterior of a problem: "
            f"smcpn.resume('{file}') returns what it finds"
        )
    if POSTERIOR in kinds and RUN not in kinds:
        return _verified(read_posterior(file), file, threads)
    stored = read_run(file)
    problem = stored_problem(stored.header, file)
    settings = stored_settings(stored.header, file)
    with compiling_for(settings.cpu):
        return _posterior_so_far(restored(stored, problem, settings, file, threads), str(file))


def _posterior_so_far(run: Run, origin: str) -> Posterior:
    """Return the posterior of the finished populations, or of the samples assimilated so far."""
    finished = [sampler for sampler in run.samplers if sampler.sample == run.problem.n_samples]
    if finished:
        run.samplers = finished
        return posterior_of(run)
    return posterior_of(_so_far(run, origin))


def _verified(posterior: Posterior, path: Path, threads: int | None) -> Posterior:
    """Return a posterior, refused if some of its draws have another likelihood here.

    An estimated likelihood is another one each time.
    """
    if LIKELIHOODS[posterior.likelihood_name].approximation is not None:
        return posterior
    some = drawn_again(posterior.log_weights)
    likelihood = build_likelihood(
        posterior.problem, posterior.solver, threads, posterior.likelihood
    )
    _, again = likelihood.evaluate(posterior.values[some], likelihood.n_samples)
    if not near(again, posterior.log_likelihood[some]):
        raise InputError(
            f"{path}: its draws have another likelihood here: use the version of smcpn that wrote "
            "it, or make the posterior again"
        )
    return posterior


def _so_far(run: Run, origin: str) -> Run:
    """Cut the records to what the population at work has assimilated."""
    assimilated = run.samplers[0].sample if run.samplers else 0
    if assimilated < LEAST:
        raise InputError(
            f"{origin} has assimilated {assimilated} samples: there is no posterior to show yet"
        )
    state, left, records = run.snapshot(), assimilated, []
    at_work = tuple(one.without_part() for one in state.samplers)
    for record in run.problem.records:
        if left >= LEAST:
            records.append(record[:left])
        left -= len(record)
    problem = run.problem.with_records(records)
    return Run.resumed(problem, run.settings, replace(state, samplers=at_work), run.threads)


def _extended(problem: Problem, data: Record) -> Problem:
    *others, last = problem.records
    return problem.with_records([*others, as_given(last).followed_by(data)])
