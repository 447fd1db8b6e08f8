"""What a right answer costs: `identify` beside the commit that searched long records alone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.commits import ROOT, checkout, outcome
from benchmarks.rows import Row, at_most
from benchmarks.study import study
from benchmarks.trust import waiting

BEFORE = "09a768b"
"""Commit that ratios are to."""
SAMPLES = (9, 512)
LONGER = 1.5


@study("cost", full=3, quick=None)
def cost(rounds: int) -> Iterator[Row]:
    """Processor time over that of the commit before, nothing compiled and all of it."""
    script = str(Path(waiting.__file__).resolve())
    with checkout(BEFORE) as before:
        for samples in SAMPLES:
            found = [
                [_taken(source, script, samples) for source in (before, ROOT)]
                for _ in range(rounds)
            ]
            taken = np.median(found, axis=0)
            for kind, (then, now) in zip(("cold", "warm"), taken.T, strict=True):
                note = f"{now:.3g} s for {then:.3g} s"
                yield at_most(
                    f"{samples} samples, {kind}: now over before", now / then, LONGER, note
                )


def _taken(source: Path, script: str, samples: int) -> list[float]:
    """Seconds of a process with a source and no kernels compiled before."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"SMCPN_CACHE": folder}),
    ):
        return outcome(source, script, str(samples))
