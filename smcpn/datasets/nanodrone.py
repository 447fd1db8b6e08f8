"""Nano-drone flights: speeds of four motors in, body rates and vertical acceleration out.

Five flights of a Crazyflie 2.1 brushless along squares at the limit of its agility, 19 s at 100 Hz
each: https://github.com/idsia-robotics/nanodrone-sysid-benchmark.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import checked
from smcpn.datasets.inventory import columns_of, find_file, require_file
from smcpn.model.record import Record

Array = NDArray[np.float64]

RUNS = 5
TRAINING = 3
"""Flights to learn from; the others test."""
INTERVAL = 0.01
"""Seconds."""
SOURCE = (
    "from github.com/idsia-robotics/nanodrone-sysid-benchmark (git lfs pull; data/train, or "
    "data/real/processed/train in its first versions)"
)
MOTORS = ["m1_rads", "m2_rads", "m3_rads", "m4_rads"]
QUATERNION = ["qx", "qy", "qz", "qw"]
VELOCITY = ["vx", "vy", "vz"]
RATES = ["wx", "wy", "wz"]
ACCELERATION = "az_body"

ROLL = np.array([-1.0, -1.0, 1.0, 1.0])
PITCH = np.array([-1.0, 1.0, 1.0, -1.0])
"""Sign of the moment of each motor's thrust."""
FARTHEST = 4
"""Samples by which the rates of a flight may be off the motors."""


@dataclass(frozen=True)
class NanoDrone:
    """Flights of the data set.

    Inputs are the speeds of motors 1 to 4 (krad/s) and the body's velocity forwards and to the left
    (m/s); outputs the roll, pitch and yaw rates (rad/s) and the acceleration along the body's axis
    without gravity's share (m/s^2).

    Attributes
    ----------
    train, tests : tuple of Record
        Flights 1 to 3, and 4 and 5.
    shifts : tuple of int
        Samples by which the rates of each flight are taken later, see `rate_shift`.
    """

    train: tuple[Record, ...]
    tests: tuple[Record, ...]
    shifts: tuple[int, ...]


@checked
def nanodrone(hold: str = "foh") -> NanoDrone:
    """Read ``square_run1.csv`` to ``square_run5.csv``, or ``square_20251017_run1.csv`` and so on.

    Parameters
    ----------
    hold : str
        The input between samples.

    Raises
    ------
    InputError
        If a file is missing or is not what it should be.
    """
    flights = [_flight(_path(number), number, hold) for number in range(1, RUNS + 1)]
    records, shifts = zip(*flights, strict=True)
    return NanoDrone(records[:TRAINING], records[TRAINING:], shifts)


def rate_shift(motors: Array, rates: Array, velocity: Array) -> int:
    """Samples by which rates lag behind the motors that turn the body, at most `FARTHEST`.

    It is the shift at which moments, velocity and rate explain most of the derivatives of roll and
    pitch rates by linear regression. The published files align acceleration and motors to a sample,
    the rates of some flights not.

    Speeds of the motors are (T, 4), rates and velocity, (T, 3), in the body's frame.
    """
    moments = motors**2 @ np.column_stack([ROLL, PITCH])
    change, ones = np.gradient(rates, axis=0), np.ones(len(motors))

    def unexplained(shift: int) -> float:
        moved, share = np.roll(moments, shift, axis=0), 0.0
        for axis, across in ((0, 1), (1, 0)):
            columns = [moved[:, axis], rates[:, axis], velocity[:, across], ones]
            known = np.column_stack(columns)[FARTHEST:-FARTHEST]
            wanted = change[FARTHEST:-FARTHEST, axis]
            left = wanted - known @ np.linalg.lstsq(known, wanted, rcond=None)[0]
            share += float(left.var() / wanted.var())
        return share

    return min(range(-FARTHEST, FARTHEST + 1), key=unexplained)


def _path(number: int) -> Path:
    other = find_file("nanodrone", f"square_20251017_run{number}.csv")
    return other or require_file("nanodrone", f"square_run{number}.csv", SOURCE)


def _flight(path: Path, number: int, hold: str) -> tuple[Record, int]:
    names = [*MOTORS, *QUATERNION, *VELOCITY, *RATES, ACCELERATION]
    table = columns_of(path, names, "the nano-drone")
    motors, attitude, velocity, rates = np.split(table[:, :-1], [4, 8, 11], axis=1)
    motors, acceleration = motors / 1000.0, table[:, -1:]
    velocity = _in_body(attitude, velocity)
    shift = rate_shift(motors, rates, velocity)
    # What comes from the pose is taken so much later; motors and acceleration stay.
    a, b = max(0, -shift), len(table) - max(0, shift)
    posed = slice(a + shift, b + shift)
    record = Record(
        u=np.hstack([motors[a:b], velocity[posed, :2]]),
        y=np.hstack([rates[posed], acceleration[a:b]]),
        dt=INTERVAL,
        hold=hold,
        y_unit="rad/s, rad/s, rad/s, m/s²",
        name=f"nano-drone, flight {number}",
    )
    return record, shift


def _in_body(attitude: Array, velocity: Array) -> Array:
    """Velocity in the frame of the body whose attitude is (x, y, z, w), (T, 3)."""
    from scipy.spatial.transform import Rotation

    return np.asarray(Rotation.from_quat(attitude).inv().apply(velocity))
