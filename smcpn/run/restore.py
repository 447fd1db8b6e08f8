"""Begin a run, in memory or with a checkpoint, or restore it and verify its likelihood."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, Self

from smcpn.base.signals import orderly_termination
from smcpn.checkpoint.codec import plain
from smcpn.checkpoint.container import CheckpointWarning, begun, lock, remove
from smcpn.checkpoint.fingerprint import data_fingerprint, model_fingerprint
from smcpn.checkpoint.problem import StoredProblem
from smcpn.checkpoint.run import (
    PROCESSOR,
    CheckpointWriter,
    FileHeader,
    Header,
    State,
    Status,
    StoredRun,
    header_image,
    now,
    own_records,
    read_records,
    read_run,
    records_path,
    remove_records,
    run_image,
    write_records,
)
from smcpn.checkpoint.run_state import RunState
from smcpn.codegen.target import target
from smcpn.errors import InputError, NotStorableError
from smcpn.estimate.linearise import is_linear_in_networks, networks_of
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.run.run import Run
from smcpn.smc.distributed.workers import Workers
from smcpn.smc.settings import RunSettings
from smcpn.smc.verification import is_consistent


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Lock a checkpoint for this process, and turn SIGTERM into an orderly exit.

    The path is absolute. A folder that does not exist, and a lock that another process holds, are
    refused.
    """
    if path.is_dir():
        raise InputError(f"checkpoint {path} is a folder: give the name of a file")
    if not path.parent.is_dir():
        raise InputError(f"checkpoint {path}: the folder does not exist, make it first")
    with lock(path), orderly_termination():
        yield


MOST_UNSEEN = 1_000_000
"""Particles that a file may ask for without holding them."""


def goes_on(path: Path, existing: str, records: Callable[[], set[Path]]) -> bool:
    """True if there is a checkpoint to go on from; one that is to be overwritten is removed.

    ``existing`` is one of `smcpn.smc.settings.EXISTING`; ``records`` returns the files of records
    of the checkpoint that is there.
    """
    if existing == "overwrite":
        retired = records()
        remove(path)
        remove_records(retired)
        return False
    if not begun(path):
        return False
    if existing == "raise":
        raise InputError(
            f"{path} exists: choose existing='resume' to go on with it, 'overwrite' to begin "
            "anew, or another file"
        )
    return True


def checkpoint_of(
    path: Path, problem: Problem, settings: RunSettings, existing: str
) -> StoredRun | None:
    """Return the checkpoint that a run goes on from; None where it begins.

    Raises `InputError` if the file is of another run, or exists and ``existing`` is ``"raise"``.
    """
    if not goes_on(path, existing, lambda: own_records(path)):
        return None
    stored = read_run(path)
    _require_same_problem(stored.header, problem, path)
    _require_same_settings(stored.header.settings, settings.storable, path)
    return stored


def stored_settings(header: Header, path: Path) -> RunSettings:
    """Return the settings of a checkpoint that holds the whole run.

    Raises `InputError` if a part of the run could not be stored.
    """
    if header.not_stored or header.problem is None:
        raise InputError(
            f"{path} does not hold the whole run: {header.not_stored}. Run your script again, "
            f"identify(..., checkpoint='{path}') goes on from here"
        )
    return header.settings


def stored_problem(header: Header, path: Path) -> Problem:
    """Return the problem of a checkpoint, of plain data and its file of records.

    Raises `InputError` if a part could not be stored, or the records are absent or others.
    """
    stored_settings(header, path)
    records = read_records(path.with_name(header.data_file))
    assert header.problem is not None
    problem = header.problem.restored(records)
    _require_same_problem(header, problem, path)
    return problem


def _require_same_problem(header: Header, problem: Problem, path: Path) -> None:
    """Refuse a problem that is not the one the checkpoint is of; more samples are allowed."""
    if model_fingerprint(problem) != header.model_fingerprint:
        raise InputError(
            f"{path} belongs to another model or other priors: use another file, or "
            "existing='overwrite' to begin anew"
        )
    same = (
        problem.n_samples >= header.n_samples
        and data_fingerprint(problem.records, header.n_samples, problem.model.delay)
        == header.data_fingerprint
    )
    if not same:
        raise InputError(
            f"{path} belongs to other data: the first {header.n_samples} samples must be the "
            "same (more may follow); use another file, or existing='overwrite' to begin anew"
        )


def _require_same_settings(stored: RunSettings, wanted: RunSettings, path: Path) -> None:
    """Refuse settings that are not those of the stored run, in the first one that differs.

    Blocks do not matter to a result, nor why a solver was chosen; nor does the entropy where no
    seed is given. A solver that was given is no solver that the run chooses.
    """
    before = plain(stored)
    if stored.solver_open and not wanted.solver_open:
        before["solver"] = None
    free = {"block", "entropy", "solver_reason", "solver_open"}
    require_same(before, plain(wanted), path, free if wanted.seed is not None else free | {"seed"})


def require_same(
    before: Mapping[str, Any], wanted: Mapping[str, Any], path: Path, free: Collection[str] = ()
) -> None:
    """Refuse settings that are not those of a checkpoint, in the first one that differs."""
    for name, value in wanted.items():
        if name not in free and before[name] != value:
            was, asked = ("the default" if one is None else one for one in (before[name], value))
            raise InputError(
                f"{path} was started with {name} = {was}, not {asked}: use the same, "
                "another file, or existing='overwrite' to begin anew",
                argument=name,
            )


def linearised_before(path: Path, problem: Problem) -> tuple[Problem, RunSettings] | None:
    """Return a problem as the run of a checkpoint linearised its networks, and that run's settings.

    None where there is no such run, or the file does not hold the whole of it: its weights then
    have to be searched for again.
    """
    if not begun(path):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        header = read_run(path).header
    try:
        settings, before = stored_settings(header, path), stored_problem(header, path)
    except InputError:
        return None
    if not is_linear_in_networks(before, problem):
        return None
    functions = {name: before.ode.functions[name].function for name in networks_of(problem)}
    return problem.with_functions(functions), settings


def restored(
    stored: StoredRun,
    problem: Problem,
    settings: RunSettings,
    path: Path,
    threads: int | None = None,
    workers: Workers | None = None,
) -> Run:
    """Return the run of a checkpoint, verified, over the same or longer records.

    Raises `InputError` if some of its particles have another likelihood here.
    """
    compare_processors(stored.header, path)
    longer = problem.n_samples > stored.header.n_samples
    if longer and settings.follows_gradient:
        # Only whole records have gradients: the posterior of more samples has a path of its own.
        return Run(problem, settings, threads, workers)
    state = stored.state.with_posteriors() if longer else stored.state
    run = Run.resumed(problem, settings, state, threads, workers)
    # The end of a band-limited input changes with the samples that follow.
    if not longer or not any(record.hold == "bandlimited" for record in problem.records):
        _verify(run, path, stored.header)
    if longer:
        for sampler in run.samplers:
            sampler.reweight()
    return run


def compare_processors(header: FileHeader, path: Path) -> None:
    """Warn where a run goes on with kernels of another processor."""
    before, here = header.versions.get(PROCESSOR, ""), str(target())
    if before != here:
        warnings.warn(
            f"{path} was begun on the processor {before} and goes on on {here}: its result is as "
            "good as that of one processor, but not the same bytes; cpu='portable' avoids that",
            CheckpointWarning,
            stacklevel=2,
        )


def _verify(run: Run, path: Path, header: Header) -> None:
    """Evaluate particles again, and refuse what is stored of them if it differs."""
    if not all(is_consistent(sampler) for sampler in run.samplers):
        versions = ", ".join(f"{k} {v}" for k, v in header.versions.items())
        raise InputError(
            f"{path}: its particles have another likelihood here; it was written with "
            f"{versions}: use these versions, or begin anew"
        )


def written_run(
    path: Path,
    problem: Problem,
    settings: RunSettings,
    stored: StoredRun | None,
    every: float,
    threads: int | None,
    workers: Workers | None = None,
) -> tuple[Callable[[], Run], CheckpointWriter[RunState]]:
    """Return a function that begins or restores a run, and the writer of its checkpoint."""
    if stored is not None:
        settings = settings.model_copy(update={"entropy": stored.header.settings.entropy})

    def begin() -> Run:
        if stored is None:
            return Run(problem, settings, threads, workers)
        return restored(stored, problem, settings, path, threads, workers)

    created = now() if stored is None else stored.header.created
    header = _header(path, problem, settings, created)
    retired = own_records(path)
    retired.discard(path.with_name(header.data_file))
    first = header_image(header)

    def image(state: RunState, status: Status) -> bytes:
        return run_image(state, status, first, problem.prior)

    return begin, CheckpointWriter(path, image, f"of {header.n_samples}", every, retired)


def _header(path: Path, problem: Problem, settings: RunSettings, created: str) -> Header:
    """Return the header of a run's checkpoint, and write its file of records."""
    reason = settings.not_storable
    try:
        stored = StoredProblem.of(problem)
    except NotStorableError as error:
        stored, reason = None, reason or str(error)
    fingerprint = data_fingerprint(problem.records, problem.n_samples, problem.model.delay)
    data_file, unwritten = written_records(path, fingerprint, problem.records)
    return Header(
        names=problem.names,
        settings=settings.storable,
        problem=stored,
        not_stored=reason or unwritten,
        model_fingerprint=model_fingerprint(problem),
        data_fingerprint=fingerprint,
        n_samples=problem.n_samples,
        data_file=data_file.name,
        created=created,
    )


def written_records(path: Path, fingerprint: str, records: Sequence[Record]) -> tuple[Path, str]:
    """Write the file of records of a checkpoint; return its path, and why it could not be written.

    The fingerprint is that of the data.
    """
    data_file, reason = records_path(path, fingerprint), ""
    try:
        write_records(data_file, records)
    except NotStorableError as error:
        reason = str(error)
    except OSError as error:
        reason = f"the records could not be written ({error.strerror or error})"
    return data_file, reason


LEAST = 2
"""Samples from which a posterior can be shown."""


@dataclass(frozen=True)
class InterruptedRun:
    """A run that was interrupted, with its problem and settings, from which it is resumed."""

    problem: Problem
    settings: RunSettings
    state: RunState

    @property
    def sentence(self) -> str:
        """Sentence on how far it came, and what can be done with it."""
        last = self.problem.n_samples
        done = [one.sample for one in self.state.samplers]
        if last in done:
            finished = f"{done.count(last)} of {self.settings.replicates} populations"
            return f"interrupted: smcpn.load() is the posterior of {finished}, {GOES_ON}"
        if done[0] >= LEAST:
            samples = f"the first {done[0]} of {last} samples"
            return f"interrupted: smcpn.load() is the posterior of {samples}, {GOES_ON}"
        return f"interrupted on the way to the posterior: {GOES_ON}"


GOES_ON = "smcpn.resume() goes on"


class Interrupted(Protocol):
    """An interrupted run or discovery, with all that it goes on from."""

    @property
    def sentence(self) -> str:
        """Sentence on how far it came, and what can be done with it."""
        ...


_last: list[Interrupted] = []
"""One at most."""


def last_interrupted() -> Interrupted:
    """Return what was interrupted last in this process.

    Raises `InputError` if there is nothing.
    """
    if not _last:
        raise InputError(
            "no run was interrupted here: give the path of a checkpoint", argument="path"
        )
    return _last[0]


def forget(run: Interrupted) -> None:
    """Let go of a run that has come to its end."""
    if _last and _last[0] is run:
        _last.clear()


class InMemory(Generic[State]):
    """Holds the newest snapshot of a run, and keeps it after an interrupt: one of this process.

    ``interrupted`` makes of a state what is kept.
    """

    warnings: tuple[str, ...] = ()

    def __init__(self, interrupted: Callable[[State], Interrupted]) -> None:
        self._interrupted = interrupted
        self._offered: State | None = None

    def __enter__(self) -> Self:
        return self

    def offer(self, snapshot: State) -> None:
        """Hold a snapshot in place of the one before."""
        self._offered = snapshot

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Keep the run where it was interrupted.

        Raises
        ------
        KeyboardInterrupt
            After an interrupt, with a sentence that says what is kept.
        """
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            return
        if self._offered is not None and self._offered.begun:
            kept = self._interrupted(self._offered)
            _last[:] = [kept]
            raise KeyboardInterrupt(kept.sentence) from None
