"""The Bouc-Wen benchmark: hysteresis, in newtons, metres and seconds.

J.-P. Noel and M. Schoukens (2016). Training data are generated after the recipe of the PN-SMC
paper (section 4.1). The official tests are read from ``test.h5`` where it is found and generated
by the same equations at 15 kHz otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray
from scipy import signal

from smcpn.datasets.files import find_file
from smcpn.errors import InputError
from smcpn.models import bouc_wen as equation
from smcpn.record import Record
from smcpn.simulator import simulate

Array = NDArray[np.float64]

TRUE_PARAMETERS = {
    "m": 2.0,
    "c": 10.0,
    "k": 5e4,
    "alpha": 5e4,
    "beta": 1e3,
    "gamma": 0.8,
    "delta": -1.1,
}

PAPER_SECONDS = 3.0
PAPER_RATE = 4096
PAPER_STEPS = 32
"""Runge-Kutta steps per sample: 131072 Hz."""
TEST_RATE = 750
TEST_STEPS = 20
"""Runge-Kutta steps per sample: the benchmark's 15 kHz."""


@dataclass(frozen=True)
class BoucWen:
    """Training and test records.

    Attributes
    ----------
    paper_train : Record
        Acceleration at 4096 Hz for 3 s with 5 % noise.
    noise : float
        Standard deviation of that noise, m/s^2.
    multisine : Record
        Displacement in the steady state; the first period is simulated, not compared.
    sweep : Record
        Displacement of a sine sweep from rest.
    tests_from : str
        The file the tests were read from, or "generated".
    """

    paper_train: Record
    noise: float
    multisine: Record
    sweep: Record
    tests_from: str


def bouc_wen(hold: str = "bandlimited", seed: int = 20240422) -> BoucWen:
    """Generate the training record; read or generate the tests.

    Parameters
    ----------
    hold : str
        The input between samples, as an identification is to see it.
    seed : int
        Of the phases and the noise.

    Raises
    ------
    InputError
        If a test file is found but cannot be read.
    """
    rng = np.random.default_rng(seed)
    train, noise = _paper_train(rng, hold)
    path = find_file("bouc_wen", "test.h5")
    if path is None:
        multisine, sweep = _generated_tests(rng, hold)
    else:
        multisine, sweep = _official_tests(path, hold)
    return BoucWen(train, noise, multisine, sweep, "generated" if path is None else str(path))


def _paper_train(rng: np.random.Generator, hold: str) -> tuple[Record, float]:
    """2000 lines from 0.5 to 100 Hz, ramped over the first tenth, at most 208 N."""
    force = _MultisineForce(rng.uniform(0, 2 * np.pi, 2000))
    t = np.arange(int(PAPER_SECONDS * PAPER_RATE)) / PAPER_RATE
    exact = Record(u=force, t=t)
    acceleration = _simulated(exact, "v'", PAPER_STEPS)
    noise = 0.05 * np.sqrt(np.square(acceleration).mean())
    y = acceleration + noise * rng.standard_normal(len(t))
    record = Record(
        u=exact.u, y=y, dt=1.0 / PAPER_RATE, hold=hold, y_unit="m/s^2", name="bouc-wen training"
    )
    return record, float(noise)


class _MultisineForce:
    """Random-phase multisine on uniform times from zero, by the chirp z-transform."""

    def __init__(self, phases: Array, low: float = 0.5, high: float = 100.0, peak: float = 208.0):
        self._phases, self._low = phases, low
        self._spacing = (high - low) / (len(phases) - 1)
        grid = np.arange(0.0, PAPER_SECONDS, 1 / (16 * PAPER_RATE))
        self._scale = 1.0
        self._scale = peak / np.abs(self(grid)).max()

    def __call__(self, t: Array) -> Array:
        unique, place = np.unique(np.round(t * (2 * PAPER_STEPS * PAPER_RATE)), return_inverse=True)
        step = (unique[-1] - unique[0]) / (len(unique) - 1) / (2 * PAPER_STEPS * PAPER_RATE)
        begin = unique[0] / (2 * PAPER_STEPS * PAPER_RATE)
        times = begin + step * np.arange(len(unique))
        lines = self._low + self._spacing * np.arange(len(self._phases))
        coefficients = np.exp(1j * (self._phases + 2 * np.pi * lines * begin))
        turn = np.exp(-2j * np.pi * self._spacing * step)
        sums = signal.czt(coefficients, m=len(unique), w=turn)
        carried = sums * np.exp(2j * np.pi * self._low * step * np.arange(len(unique)))
        ramp = np.minimum(times / (0.1 * PAPER_SECONDS), 1.0)
        return (self._scale * ramp * carried.real)[place]


def _official_tests(path: Path, hold: str) -> tuple[Record, Record]:
    try:
        with h5py.File(path) as file:
            signals = {
                name: {key: np.asarray(file[name][key]).ravel() for key in ("u", "y")}  # type: ignore[index]
                for name in ("multisine", "sinesweep")
            }
    except (OSError, KeyError) as error:
        raise InputError(
            f"{path} cannot be read as the Bouc-Wen tests ({error}): fetch it again, or remove it "
            "to have the tests generated"
        ) from error
    multisine, sweep = signals["multisine"], signals["sinesweep"]
    return _multisine_record(multisine["u"], multisine["y"], hold), _sweep_record(
        sweep["u"], sweep["y"], hold
    )


def _generated_tests(rng: np.random.Generator, hold: str) -> tuple[Record, Record]:
    """5-150 Hz at 50 N rms in the steady state; 40 N from 20 to 50 Hz at 10 Hz per minute."""
    n = 8192
    lines = np.arange(int(np.ceil(5 * n / TEST_RATE)), int(150 * n / TEST_RATE) + 1)
    spectrum = np.zeros(n // 2 + 1, dtype=complex)
    spectrum[lines] = np.exp(1j * rng.uniform(0, 2 * np.pi, len(lines)))
    u = np.fft.irfft(spectrum, n)
    u *= 50.0 / np.sqrt(np.square(u).mean())
    periodic = Record(u=u, dt=1 / TEST_RATE, hold="bandlimited", periodic=True)
    y = _simulated(periodic.repeat(2), "x", TEST_STEPS)[n:]
    times = np.arange(153000) / TEST_RATE
    exact = Record(u=_sweep_force, t=times)
    return _multisine_record(u, y, hold), _sweep_record(
        exact.u[:, 0], _simulated(exact, "x", TEST_STEPS), hold
    )


def _sweep_force(t: Array) -> Array:
    return 40.0 * np.sin(2 * np.pi * (18.0 * t + t**2 / 12.0))


def _simulated(record: Record, observe: str, steps: int) -> Array:
    return simulate(equation, record, TRUE_PARAMETERS, observe=observe, steps=steps)[:, 0]


def _multisine_record(u: Array, y: Array, hold: str) -> Record:
    period = Record(
        u=u, y=y, dt=1 / TEST_RATE, hold=hold, periodic=True, y_unit="m", name="multisine"
    )
    return period.repeat(2).hide(0, len(period))


def _sweep_record(u: Array, y: Array, hold: str) -> Record:
    return Record(u=u, y=y, dt=1 / TEST_RATE, hold=hold, y_unit="m", name="sine sweep")
