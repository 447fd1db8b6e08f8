"""The EMPS: a prismatic joint driven by a motor under position control, in newtons and metres.

A. Janot, M. Gautier and M. Brunot (2019), nonlinearbenchmark.org. The input is a controller's
output, held for a millisecond: ``hold`` is "zoh". The file gives it in volts; the force is
``gtau`` times that. The test adds pulses to the command, which are part of its ``vir`` already.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import checked
from smcpn.datasets.inventory import require_file
from smcpn.errors import InputError
from smcpn.model.record import Record

Array = NDArray[np.float64]

INTERVAL = 1e-3
"""Seconds."""
SAMPLES = 24841
INITIALISATION = 20
"""Samples at the start of a record from which the state is estimated; they are not compared."""
SATURATION = 10.0
"""Volts, of the controller's command."""


@dataclass(frozen=True)
class Controller:
    """The joint's controller, sampled every millisecond.

    command = kv (kp (reference - q) - v), within +-``limit``, where v is the difference over
    1 ms of the two-tap mean of q, (q_n - q_(n-2)) / 2 ms, and so late by one sample.

    Attributes
    ----------
    kp : float
        1/s.
    kv : float
        V s/m.
    gtau : float
        N/V, from the command to the force.
    limit : float
        Volts.
    """

    kp: float
    kv: float
    gtau: float
    limit: float = SATURATION

    def command(self, reference: Array, position: Array) -> Array:
        """Command in volts, (T,), to measured positions (T,) and references (T,) in metres."""
        late = np.concatenate([position[:1], position[:1], position[:-2]])
        velocity = (position - late) / (2 * INTERVAL)
        wanted = self.kv * (self.kp * (reference - position) - velocity)
        return np.clip(wanted, -self.limit, self.limit)


@dataclass(frozen=True)
class Experiment:
    """One of the two records, with its inputs in open and in closed loop.

    Attributes
    ----------
    record : Record
        Force in, position out.
    reference : ndarray, (T,)
        Position the controller was given, metres.
    disturbance : ndarray, (T,)
        Volts added to the command: the pulses of the test, zero in training.
    """

    record: Record
    reference: Array
    disturbance: Array


@dataclass(frozen=True)
class Emps:
    """Training and test experiment and their common controller."""

    train: Experiment
    test: Experiment
    controller: Controller


@checked
def emps(hold: str = "zoh") -> Emps:
    """Read ``DATA_EMPS.mat`` and ``DATA_EMPS_PULSES.mat``.

    Parameters
    ----------
    hold : str
        The input between samples. A controller's output is held.

    Raises
    ------
    InputError
        If a file is missing or is not what it should be.
    """
    train, controller = _read("DATA_EMPS.mat", hold, "EMPS training")
    test, _ = _read("DATA_EMPS_PULSES.mat", hold, "EMPS test")
    return Emps(train, test, controller)


def _read(file: str, hold: str, name: str) -> tuple[Experiment, Controller]:
    path = require_file(
        "emps", file, "with the package nonlinear-benchmarks or from nonlinearbenchmark.org"
    )
    content = _content(path)
    position, reference, volts = (content[key] for key in ("qm", "qg", "vir"))
    if len(position) != SAMPLES:
        raise InputError(f"{path} has {len(position)} samples, not {SAMPLES}: fetch it again")
    controller = Controller(*(float(content[key][0]) for key in ("kp", "kv", "gtau")))
    record = Record(
        u=controller.gtau * volts, y=position, dt=INTERVAL, hold=hold, y_unit="m", name=name
    )
    pulsed = content.get("pulses_N", np.zeros(SAMPLES)) > 0
    disturbance = np.zeros(SAMPLES)
    if pulsed.any():
        # The file's pulses are rounded to whole numbers; their height is what the record holds
        # beyond the command.
        beyond = volts - controller.command(reference, position)
        disturbance[pulsed] = np.median(beyond[pulsed])
    return Experiment(record, reference, disturbance), controller


def _content(path: Path) -> dict[str, Array]:
    from scipy.io import loadmat

    try:
        content = loadmat(path)
        keys = ("qm", "qg", "vir", "gtau", "kp", "kv")
        # As floats: pulses_N is uint8 and would wrap around.
        read = {key: np.asarray(content[key], dtype=float).ravel() for key in keys}
        if "pulses_N" in content:
            read["pulses_N"] = np.asarray(content["pulses_N"], dtype=float).ravel()
    except (KeyError, ValueError, OSError, NotImplementedError) as error:
        raise InputError(
            f"{path} cannot be read as an EMPS record ({error}): fetch it again"
        ) from error
    return read
