"""Keep a run on disk while it goes on: when to write, by whom, and what if that fails."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py

from smcpn.checkpoint.codec import Begun, Contents, begun_image, checkpoint_image
from smcpn.checkpoint.container import content_of, image, opened, publish
from smcpn.checkpoint.problem import records_document, restored_records
from smcpn.errors import InputError
from smcpn.model.prior import Prior
from smcpn.model.record import Record
from smcpn.run.settings import RunSnapshot

# ---- The records of a run, in a file of their own beside the checkpoint: written once.

TITLE = "smcpn records"
DIGITS = 8
"""Digits of the fingerprint in a file's name."""


def records_path(checkpoint: Path, fingerprint: str) -> Path:
    """Return where the records of a checkpoint are: ``run.data-0123abcd.h5`` beside ``run.h5``."""
    return checkpoint.with_name(f"{checkpoint.stem}.data-{fingerprint[:DIGITS]}.h5")


def records_image(records: tuple[Record, ...]) -> bytes:
    """Return the bytes of the file.

    Raises
    ------
    NotStorableError
        If the input of a record is a function.
    """
    documents, arrays = records_document(records)

    def fill(file: h5py.File) -> None:
        file.attrs["format"] = TITLE
        file.attrs["records"] = json.dumps(documents)
        for name, values in arrays.items():
            file[name] = values

    return image(TITLE, fill)


def write_records(path: Path, content: bytes) -> None:
    """Write the file unless it is there; its name tells its content."""
    if not path.exists():
        publish(path, content)


def read_records(path: Path) -> tuple[Record, ...]:
    """Read the records of a run.

    Raises
    ------
    InputError
        If the file is absent or damaged.
    """
    if not path.exists():
        raise InputError(
            f"{path.name}, which holds the records, is not beside the checkpoint in "
            f"{path.parent}: put it there, or resume from the script that has the data"
        )
    with opened(content_of(path, TITLE)) as file:
        arrays: dict[str, Any] = {}
        file.visititems(
            lambda name, item: (
                arrays.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None
            )
        )
        return restored_records(json.loads(str(file.attrs["records"])), arrays)


def remove_other_records(checkpoint: Path, used: set[str]) -> None:
    """Remove files of records that no version of the checkpoint refers to."""
    for path in checkpoint.parent.glob(f"{checkpoint.stem}.data-*.h5"):
        if path.name not in used:
            path.unlink(missing_ok=True)


_log = logging.getLogger(__name__)

PATIENCE = 50
"""A rejuvenation is written down if the last write took at most 1/50 of the time since: rapid ones
are cheap to do again, and writing takes less than two per cent of a run."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written, or not be used."""


def now() -> str:
    """Date and time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Keeper:
    """Writes snapshots of a run in the background, the newest only.

    The run hands over references to arrays that nobody changes, so it waits for nothing. A write
    that fails is told once; the run goes on, and later snapshots are tried again.

    Parameters
    ----------
    path : Path
    begun : Begun
        What stays the same.
    prior : Prior
    every : float
        Most seconds between two snapshots; with 0 every part of the run is written.
    """

    def __init__(self, path: Path, begun: Begun, prior: Prior, every: float) -> None:
        self.path, self.begun, self.every, self._prior = path, begun, every, prior
        self._image = begun_image(begun)
        self.writes: list[float] = []
        self._failure, self._told = "", False
        self._kept: RunSnapshot | None = None
        self._offered: RunSnapshot | None = None
        self._last, self._cost, self._rejuvenations = time.monotonic(), 0.0, 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="smcpn-checkpoint")
        self._under_way: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write the last snapshot, whatever the run ended with."""
        self.close("finished" if kind is None else "interrupted")
        if (
            kind is not None
            and self._kept is not None
            and issubclass(kind, (KeyboardInterrupt, SystemExit))
        ):
            print(
                f"smcpn: stopped at sample {self._kept.sample} of {self.begun.n_samples}; "
                f"'smcpn resume {self.path}' goes on",
                file=sys.stderr,
            )

    def offer(self, snapshot: RunSnapshot) -> None:
        """Take note of where the run is, and write it down if it is time."""
        self._offered = snapshot
        if self._due(snapshot) and (self._under_way is None or self._under_way.done()):
            self._settle()
            self._last, self._rejuvenations = time.monotonic(), snapshot.rejuvenations
            self._under_way = self._pool.submit(self._write, snapshot, "running")
            if self.every == 0.0:
                self._settle()

    def close(self, status: str) -> None:
        """Write down where the run is and wait until that is done."""
        self._settle()
        if self._offered is not None:
            self._under_way = self._pool.submit(self._write, self._offered, status)
            self._offered = None
            self._settle()
        self._pool.shutdown(wait=True)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence where the file is not what it should be."""
        if not self._failure:
            return ()
        kept = "none is there" if self._kept is None else f"the last holds {self._kept.sample}"
        return (
            f"the checkpoint {self.path} could not be written ({self._failure}): {kept} of "
            f"{self.begun.n_samples} samples",
        )

    def _due(self, snapshot: RunSnapshot) -> bool:
        if self._under_way is None and self._kept is None and not self._failure:
            return True
        elapsed = time.monotonic() - self._last
        rejuvenated = snapshot.rejuvenations != self._rejuvenations
        return elapsed >= self.every or (rejuvenated and elapsed >= PATIENCE * self._cost)

    def _settle(self) -> None:
        """Wait for the write under way, and tell the first failure."""
        if self._under_way is None:
            return
        self._under_way.result()
        self._under_way = None
        if self._failure and not self._told:
            self._told = True
            warnings.warn(
                f"the checkpoint {self.path} cannot be written ({self._failure}): the run goes on",
                CheckpointWarning,
                stacklevel=4,
            )

    def _write(self, snapshot: RunSnapshot, status: str) -> None:
        begin = time.monotonic()
        try:
            contents = Contents(self.begun, snapshot, status, now())
            publish(self.path, checkpoint_image(contents, self._image, self._prior))
        except OSError as error:
            self._failure = error.strerror or str(error)
        else:
            self._failure, self._kept = "", snapshot
            _log.debug("%s written at sample %d", self.path, snapshot.sample)
        self._cost = time.monotonic() - begin
        self.writes.append(self._cost)
