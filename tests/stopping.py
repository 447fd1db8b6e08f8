"""Runs that end early: killed after some parts, or interrupted where a snapshot is as wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from smcpn.checkpoint.run import CheckpointWriter


class Stopped(BaseException):
    """The end of a process."""


def stopped_after(
    parts: int, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any], *given: Any, **named: Any
) -> bool:
    """Call until a number of parts was offered to the file, and stop without a last write."""
    offered, original = 0, CheckpointWriter.offer

    def offer(self: Any, snapshot: Any) -> None:
        nonlocal offered
        original(self, snapshot)
        offered += 1
        if offered == parts:
            self._settle()
            self._offered = None
            raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointWriter, "offer", offer)
        try:
            call(*given, **named)
        except Stopped:
            return True
    return False


def interrupted_at(
    wanted: Callable[[Any, int], bool],
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[..., Any],
    *given: Any,
    **named: Any,
) -> Any:
    """Call, and interrupt behind the first snapshot that is wanted, by it and its number."""
    number, original, found = -1, CheckpointWriter.offer, None

    def offer(self: Any, snapshot: Any) -> None:
        nonlocal number, found
        original(self, snapshot)
        number += 1
        if wanted(snapshot, number):
            found = snapshot
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointWriter, "offer", offer)
        with pytest.raises(KeyboardInterrupt):
            call(*given, **named)
    return found
