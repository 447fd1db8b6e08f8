"""A stream's update without rejuvenation, as it was and as it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.commits import ROOT, checkout, outcome
from benchmarks.rows import Row, at_least
from benchmarks.seconds import calm
from benchmarks.study import study
from smcpn.codegen.stream_step import Update


@study("update", full=(4000, 7), quick=(800, 1))
def update(size: tuple[int, int]) -> Iterator[Row]:
    """Time of an update as it was over that now, in turns, and what of it is the compiled call."""
    samples, rounds = size
    script = str(Path(calm.__file__).resolve())
    with checkout() as before:
        taken = np.array(
            [
                [outcome(source, script, str(samples)) for source in (before, ROOT)]
                for _ in range(rounds)
            ]
        )
    note = "{:.0f} and {:.0f} us".format(*taken.min(axis=0))
    yield at_least("before over now", float(np.median(taken[:, 0] / taken[:, 1])), 3.0, note)
    shares = [share_of_compiled_call(samples) for _ in range(rounds)]
    yield at_least("share of the compiled call", float(np.median(shares)), 0.5)


def share_of_compiled_call(samples: int) -> float:
    """Median time in the compiled call over the median time of an update."""
    inside: list[float] = []
    prepare = Update.__init__

    def prepared(self: Update, *arguments: Any) -> None:
        prepare(self, *arguments)
        call = self._native.brief_update

        def timed(*numbers: int) -> None:
            begin = time.perf_counter()
            call(*numbers)
            inside.append(1e6 * (time.perf_counter() - begin))

        self._call = timed

    with mock.patch.object(Update, "__init__", prepared):
        whole = calm.median(samples)
    return float(np.median(inside[len(inside) // 2 :])) / whole
