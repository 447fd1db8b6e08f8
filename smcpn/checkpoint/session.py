"""From a problem and a file to a run that is kept in it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from smcpn.checkpoint.codec import Begun, Contents
from smcpn.checkpoint.container import previous_of
from smcpn.checkpoint.fingerprint import data_fingerprint, model_fingerprint
from smcpn.checkpoint.problem import problem_document
from smcpn.checkpoint.stored_run import (
    is_checkpoint,
    require_same_problem,
    sole_writer,
    stored_contents,
    taken_up,
)
from smcpn.checkpoint.writer import (
    Keeper,
    now,
    records_image,
    records_path,
    remove_other_records,
    write_records,
)
from smcpn.errors import InputError, NotStorableError
from smcpn.model.problem import Problem
from smcpn.run.run import Run
from smcpn.run.settings import RunSettings, require_same
from smcpn.signals import orderly_termination


@contextmanager
def held(path: Path) -> Generator[None]:
    """Hold a checkpoint against other processes, and leave in order when asked to.

    Raises
    ------
    InputError
        If the folder does not exist, or another process holds the file.
    """
    if path.is_dir():
        raise InputError(f"checkpoint {path} is a folder: give the name of a file")
    if not path.absolute().parent.is_dir():
        raise InputError(f"checkpoint {path}: the folder does not exist, make it first")
    with sole_writer(path), orderly_termination():
        yield


def contents_to_take_up(
    path: Path, problem: Problem, settings: RunSettings, existing: str
) -> Contents | None:
    """Read what a run of a script goes on from; None where it begins.

    Raises
    ------
    InputError
        If the file is of something else, or exists and ``existing`` is ``"raise"``.
    """
    if not is_checkpoint(path):
        return None
    if existing == "raise":
        raise InputError(
            f"{path} exists: choose existing='resume' to go on with it, 'overwrite' to begin "
            "anew, or another file"
        )
    if existing == "overwrite":
        path.unlink(missing_ok=True)
        previous_of(path).unlink(missing_ok=True)
        return None
    contents = stored_contents(path)
    require_same_problem(contents, problem, path)
    require_same(contents.begun.configuration, settings.document(), path)
    return contents


def kept_run(
    path: Path,
    problem: Problem,
    settings: RunSettings,
    contents: Contents | None,
    every: float,
    threads: int | None,
) -> tuple[Callable[[], Run], Keeper]:
    """Return what begins or takes up a run, and what keeps it in the file."""
    if contents is not None:
        entropy = contents.begun.configuration["entropy"]
        settings = settings.model_copy(update={"entropy": entropy})

    def begin() -> Run:
        if contents is None:
            return Run(problem, settings, threads)
        return taken_up(contents, problem, settings, path, threads)

    created = now() if contents is None else contents.begun.created
    begun = _begun(path, problem, settings, created)
    if contents is not None:
        # The previous version of the file still refers to its own records.
        remove_other_records(path, {begun.data_file, contents.begun.data_file})
    return begin, Keeper(path, begun, problem.prior, every)


def _begun(path: Path, problem: Problem, settings: RunSettings, created: str) -> Begun:
    reason = settings.not_storable
    try:
        stored, arrays = problem_document(problem)
    except NotStorableError as error:
        stored, arrays, reason = {}, {}, reason or str(error)
    fingerprint = data_fingerprint(problem.records, problem.n_samples)
    data_file = records_path(path, fingerprint)
    try:
        write_records(data_file, records_image(problem.records))
    except NotStorableError as error:
        reason = reason or str(error)
    except OSError as error:
        reason = reason or f"the records could not be written ({error.strerror or error})"
    return Begun(
        names=problem.names,
        configuration=settings.document(),
        problem=stored,
        arrays=arrays,
        not_stored=reason,
        model_fingerprint=model_fingerprint(problem),
        data_fingerprint=fingerprint,
        n_samples=problem.n_samples,
        data_file=data_file.name,
        created=created,
    )
