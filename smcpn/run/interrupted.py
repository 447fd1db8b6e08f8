"""A run that Ctrl-C has ended, kept in memory as a checkpoint keeps one in a file."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from smcpn.errors import InputError
from smcpn.model.problem import Problem
from smcpn.run_state import RunState
from smcpn.settings import RunSettings

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

_last: list[InterruptedRun] = []
"""One at most."""


def last_interrupted() -> InterruptedRun:
    """Return the run that was interrupted last in this process.

    Raises
    ------
    InputError
        If there is none.
    """
    if not _last:
        raise InputError(
            "no run was interrupted here: give the path of a checkpoint", argument="path"
        )
    return _last[0]


def forget(run: InterruptedRun) -> None:
    """Let go of a run that has come to its end."""
    if _last and _last[0] is run:
        _last.clear()


class InMemory:
    """Holds the newest snapshot of a run, and keeps it after an interrupt: one of this process."""

    warnings: tuple[str, ...] = ()

    def __init__(self, problem: Problem, settings: RunSettings) -> None:
        self._problem, self._settings = problem, settings
        self._offered: RunState | None = None

    def __enter__(self) -> Self:
        return self

    def offer(self, snapshot: RunState) -> None:
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
        if self._offered is not None and self._offered.samplers:
            kept = InterruptedRun(self._problem, self._settings, self._offered)
            _last[:] = [kept]
            raise KeyboardInterrupt(kept.sentence) from None
