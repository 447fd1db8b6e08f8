"""Write snapshots of a run to its checkpoint while it goes on: when, and what if that fails."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Set
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from smcpn.checkpoint.container import CheckpointWarning, publish
from smcpn.checkpoint.records import remove_records
from smcpn.checkpoint.run import Header, Status, header_image, run_image
from smcpn.model.prior import Prior
from smcpn.run_state import RunState

_log = logging.getLogger(__name__)

PATIENCE = 50
"""A rejuvenation is written if the last write took at most 1/50 of the time since: rapid ones
are cheap to repeat, and writing takes less than two per cent of a run."""


class CheckpointWriter:
    """Writes snapshots of a run in the background, the newest only.

    The run hands over references to arrays that nobody changes, so it waits for nothing. A write
    that fails is reported once; the run goes on, and later snapshots are tried again.

    Parameters
    ----------
    path : Path
    header : Header
        The part of the file that stays the same.
    prior : Prior
    every : float
        Most seconds between two snapshots; with 0 every part of the run is written.
    retired : set of Path
        Files of records that the versions on disk name and this run does not. They are removed
        when both versions are of this run.
    """

    def __init__(
        self,
        path: Path,
        header: Header,
        prior: Prior,
        every: float,
        retired: Set[Path] = frozenset(),
    ) -> None:
        self.path, self.header, self.every, self._prior = path, header, every, prior
        self._image = header_image(header)
        self.writes: list[float] = []
        self._retired, self._versions = retired, 0
        self._failure, self._reported = "", False
        self._written: RunState | None = None
        self._offered: RunState | None = None
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
        """Write the last snapshot, also where the run ended with an exception."""
        self.close("finished" if kind is None else "interrupted")
        if (
            kind is not None
            and self._written is not None
            and issubclass(kind, (KeyboardInterrupt, SystemExit))
        ):
            print(
                f"smcpn: stopped at sample {self._written.sample} of {self.header.n_samples}; "
                f"'smcpn resume {self.path}' goes on",
                file=sys.stderr,
            )

    def offer(self, snapshot: RunState) -> None:
        """Write a snapshot if one is due; keep it for `close` otherwise."""
        self._offered = snapshot
        if self._due(snapshot) and (self._under_way is None or self._under_way.done()):
            self._settle()
            self._last, self._rejuvenations = time.monotonic(), snapshot.rejuvenations
            self._under_way = self._pool.submit(self._write, snapshot, "running")
            if self.every == 0.0:
                self._settle()

    def close(self, status: Status) -> None:
        """Write the newest snapshot and wait until that is done."""
        self._settle()
        if self._offered is not None:
            self._under_way = self._pool.submit(self._write, self._offered, status)
            self._offered = None
            self._settle()
        self._pool.shutdown(wait=True)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence if the last write failed."""
        if not self._failure:
            return ()
        last = (
            "there is none" if self._written is None else f"the last holds {self._written.sample}"
        )
        return (
            f"the checkpoint {self.path} could not be written ({self._failure}): {last} of "
            f"{self.header.n_samples} samples",
        )

    def _due(self, snapshot: RunState) -> bool:
        if self._under_way is None and self._written is None and not self._failure:
            return True
        elapsed = time.monotonic() - self._last
        rejuvenated = snapshot.rejuvenations != self._rejuvenations
        return elapsed >= self.every or (rejuvenated and elapsed >= PATIENCE * self._cost)

    def _settle(self) -> None:
        """Wait for the write under way, and report the first failure."""
        if self._under_way is None:
            return
        self._under_way.result()
        self._under_way = None
        if self._failure and not self._reported:
            self._reported = True
            warnings.warn(
                f"the checkpoint {self.path} cannot be written ({self._failure}): the run goes on",
                CheckpointWarning,
                stacklevel=4,
            )

    def _write(self, snapshot: RunState, status: Status) -> None:
        begin = time.monotonic()
        try:
            publish(self.path, run_image(snapshot, status, self._image, self._prior))
        except OSError as error:
            self._failure = error.strerror or str(error)
        else:
            self._failure, self._written = "", snapshot
            self._versions += 1
            if self._versions == 2:
                remove_records(self._retired)
            _log.debug("%s written at sample %d", self.path, snapshot.sample)
        self._cost = time.monotonic() - begin
        self.writes.append(self._cost)
