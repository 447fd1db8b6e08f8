"""Flights of the nano-drone, from files made of a known flight; and the equation."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import smcpn
from smcpn.datasets import nanodrone

PARAMETERS = {
    "roll": 40.0, "pitch": 35.0, "yaw": 0.0, "flap_x": 22.0, "flap_y": 27.0, "damp_x": 1.7,
    "damp_y": 1.9, "damp_z": 0.0, "rotor": 1.0, "memory": 0.1,
}  # fmt: skip


def _flown(u):
    record = smcpn.Record(u=u, dt=0.01)
    observe = ["p", "q", "s"]
    return smcpn.simulate(smcpn.models.quadrotor, record, PARAMETERS, observe=observe, steps=2)


def _written(folder, name, late=0, samples=200):
    """A file in which the rates come so many samples late; its motors and body velocity."""
    random = np.random.default_rng(1)
    motors = 1.8 + np.cumsum(0.02 * random.normal(size=(samples, 4)), axis=0)
    rates = _flown(np.hstack([motors, np.zeros((samples, 2))]))
    yaw = np.tile(Rotation.from_euler("z", 90, degrees=True).as_quat(), (samples, 1))
    columns = {
        **{f"m{k + 1}_rads": 1000 * motors[:, k] for k in range(4)},
        "vx": np.zeros(samples), "vy": np.arange(samples), "vz": np.zeros(samples),
        **{name: yaw[:, j] for j, name in enumerate(("qx", "qy", "qz", "qw"))},
        **{f"w{axis}": np.roll(rates[:, j], late) for j, axis in enumerate("xyz")},
        "az_body": 9.0 + np.arange(samples),
    }  # fmt: skip
    table = np.column_stack(list(columns.values()))
    np.savetxt(folder / name, table, delimiter=",", header=",".join(columns), comments="")
    return motors, rates


def test_flights_are_read_and_aligned(tmp_path, monkeypatch):
    monkeypatch.setenv("SMCPN_DATA", str(tmp_path))
    shifts = (0, 2, 0, -2, 1)
    names = [f"square_run{k}.csv" for k in (1, 2, 3, 4)] + ["square_20251017_run5.csv"]
    known = [_written(tmp_path, name, late) for name, late in zip(names, shifts, strict=True)]
    data = nanodrone()
    assert data.shifts == shifts
    assert (len(data.train), len(data.tests)) == (3, 2)
    for record, late, (motors, rates) in zip(
        (*data.train, *data.tests), shifts, known, strict=True
    ):
        first = max(0, -late)
        assert len(record) == 200 - abs(late)
        own = slice(first, first + len(record))
        np.testing.assert_allclose(record.u[:, :4], motors[own])
        np.testing.assert_allclose(record.y[:, :3], rates[own], atol=1e-12)
        np.testing.assert_allclose(record.y[:, 3], 9.0 + np.arange(200)[own])
        # The body looks along y: it flies forwards, with the rates' delay.
        np.testing.assert_allclose(record.u[:, 4], np.arange(200)[own] + late, atol=1e-9)
        np.testing.assert_allclose(record.u[:, 5], 0.0, atol=1e-9)


def test_missing_flights_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SMCPN_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(smcpn.InputError, match=r"square_run1\.csv.*nanodrone-sysid-benchmark"):
        nanodrone()


def test_rotors_that_speed_up_turn_the_body_against_them():
    u = np.full((20, 6), 1.8)
    u[:, 4:] = 0.0
    np.testing.assert_allclose(_flown(u), 0.0, atol=1e-12)
    u[10:, [1, 3]] = 2.0
    # Without drag and damping s stays, and r = s + rotor (m2 + m4 - m1 - m3) follows the rotors.
    np.testing.assert_allclose(_flown(u), 0.0, atol=1e-12)
    u[10:, 4] = 1.0
    assert _flown(u)[-1, 1] < -1.0
