"""The Silverbox: an electronic Duffing oscillator, input and output in volts.

T. Wigren and J. Schoukens (2013), nonlinearbenchmark.org. The record is an arrow (noise of
growing amplitude), then ten odd random-phase multisines with zero gaps between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from smcpn.base.arguments import checked
from smcpn.datasets.inventory import require_file
from smcpn.errors import InputError
from smcpn.model.record import Record

SAMPLE_RATE = 1e7 / 2**14
"""Hz."""
INPUT_OFFSET = 0.0062
"""Volts in the zero sections of the input; the benchmark says to remove it."""
OUTPUT_OFFSET = 0.0008
"""Volts, about the mean of the output."""
OFFICIAL_TRAIN = (40650, 105712)
OFFICIAL_TESTS = {
    "multisine": (105712, 127400),
    "arrow": (100, 40575),
    "arrow, no extrapolation": (100, 32100),
}
"""Half-open, counted from zero. "No extrapolation" ends where the training amplitude does."""
OFFICIAL_INITIALISATION = 50
"""First samples of an official test: the state is estimated from them, they are not compared."""


@dataclass(frozen=True)
class Silverbox:
    """The Silverbox record and its splits, the offsets of the sensors removed.

    Attributes
    ----------
    full : Record
    paper_train : Record
        PN-SMC's training samples [49278, 52350); they begin in a zero gap, at rest.
    paper_test : Record
        The arrow up to sample 40000; its first 1000 samples are simulated, not compared.
    official_train : Record
        The benchmark's training samples [40650, 105712); they begin in motion.
    official_tests : mapping of str to Record
        The benchmark's three tests, whole: the first `OFFICIAL_INITIALISATION` samples of each
        are there to find the initial state.
    """

    full: Record
    paper_train: Record
    paper_test: Record
    official_train: Record
    official_tests: Mapping[str, Record]


@checked
def silverbox(hold: str = "bandlimited") -> Silverbox:
    """Read ``SNLS80mV.mat``.

    Parameters
    ----------
    hold : str
        The input between samples. The benchmark's signals are band-limited.

    Raises
    ------
    InputError
        If the file is missing or is not what it should be.
    """
    path = require_file(
        "silverbox",
        "SNLS80mV.mat",
        "with the package nonlinear-benchmarks or from nonlinearbenchmark.org",
    )
    from scipy.io import loadmat

    try:
        content = loadmat(path)
        u, y = (np.asarray(content[key], dtype=float).ravel() for key in ("V1", "V2"))
    except (KeyError, ValueError, OSError, NotImplementedError) as error:
        raise InputError(
            f"{path} cannot be read as the Silverbox record ({error}): fetch it again"
        ) from error
    if len(u) != 131072 or len(y) != 131072:
        raise InputError(f"{path} has {len(u)} samples, not 131072: fetch it again")
    full = Record(
        u=u - INPUT_OFFSET,
        y=y - OUTPUT_OFFSET,
        dt=1.0 / SAMPLE_RATE,
        hold=hold,
        y_unit="V",
        name="silverbox",
    )
    a, b = OFFICIAL_TRAIN
    return Silverbox(
        full=full,
        paper_train=full[49278:52350],
        paper_test=full[:40000].hide(0, 1000),
        official_train=full[a:b],
        official_tests={name: full[a:b] for name, (a, b) in OFFICIAL_TESTS.items()},
    )
