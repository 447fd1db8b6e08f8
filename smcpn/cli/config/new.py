"""Write a system to begin with: a model, a configuration, and data simulated from the model."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

import numpy as np

from smcpn.cli.config.template.model import oscillator
from smcpn.errors import InputError
from smcpn.model.record import Record
from smcpn.results.simulation.simulate import simulate

COPIED = ("model.py", "config.toml")
DATA = "data.csv"

TRUTH = {"m": 2.0, "c": 4.0, "k": 800.0, "k3": 1e8}
"""Parameters that the sample data are simulated with."""
NOISE = 2e-5
"""Standard deviation of the measured position, metres."""
INTERVAL, SAMPLES = 0.01, 900
HELD = 8
"""Samples for which the force keeps its value."""
SEED = 0


def write_new(folder: Path) -> list[Path]:
    """Write the files into a folder, which is made where it does not exist.

    A file that exists is not overwritten but refused.
    """
    paths = [folder / name for name in (*COPIED, DATA)]
    for path in paths:
        if os.path.lexists(path):
            raise InputError(f"{path} exists and is not overwritten: choose another folder")
    template = files("smcpn.cli.config.template")
    texts = [template.joinpath(name).read_text("utf-8") for name in COPIED]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, [*texts, sample_data()], strict=True):
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror or error}") from error
    return paths


def sample_data() -> str:
    """Simulate the sample data, as CSV with times, force and position in millimetres."""
    rng = np.random.default_rng(SEED)
    force = np.repeat(rng.normal(size=-(-SAMPLES // HELD)), HELD)[:SAMPLES].round(3)
    record = Record(u=force, dt=INTERVAL, hold="zoh")
    clean = simulate(oscillator, record, TRUTH, observe="x")[:, 0]
    position = 1e3 * (clean + NOISE * rng.normal(size=SAMPLES))
    rows = zip(record.t, force, position, strict=True)
    lines = [f"{t:.2f},{u:.3f},{x:.4f}" for t, u, x in rows]
    return "\n".join(["t [s],force [N],position [mm]", *lines, ""])
