"""What a result came from: settings, versions, and fingerprints of the data."""

from __future__ import annotations

import hashlib
import platform
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import smcpn
from smcpn.likelihood.build import likelihood_name
from smcpn.record import Record

if TYPE_CHECKING:
    from smcpn.posterior import Posterior

PACKAGES = ("numpy", "scipy", "numba", "casadi", "matplotlib")


def settings(posterior: Posterior) -> dict[str, str]:
    """Everything but the data that the result depends on, as text."""
    problem, ode = posterior.problem, posterior.problem.ode
    return {
        "model": ode.name,
        "states": ", ".join(ode.states),
        "inputs": ", ".join(ode.inputs) or "none",
        "observed": _text(problem.observe),
        "noise sd": _text(problem.noise),
        "initial state": _text(problem.initial),
        "likelihood": likelihood_name(posterior.solver, posterior.likelihood),
        "solver": str(posterior.solver),
        "particles": str(len(posterior.theta)),
        "seed": str(posterior.seed),
    }


def versions() -> dict[str, str]:
    """Installed versions of what computes."""
    found = {
        "smcpn": smcpn.__version__,
        "Python": platform.python_version(),
        "platform": platform.platform(terse=True),
    }
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def fingerprint(values: NDArray[np.float64]) -> str:
    """SHA-256 of an array as little-endian doubles in C order; -0 and NaN count as stored."""
    return hashlib.sha256(np.ascontiguousarray(values, dtype="<f8").tobytes()).hexdigest()


def record_rows(role: str, record: Record) -> list[list[str]]:
    """Rows (role, record, array, shape, hold, SHA-256) of a record's arrays."""
    hold = "function" if record.u_function is not None else record.hold
    arrays = {"t": record.t, "u": record.u, "y": record.y}
    return [
        [
            role,
            record.name,
            name,
            " x ".join(str(n) for n in values.shape),
            hold if name == "u" else "",
            fingerprint(values),
        ]
        for name, values in arrays.items()
        if values.size
    ]


def _text(label: Any) -> str:
    if isinstance(label, dict):
        return ", ".join(f"{name} = {_text(value)}" for name, value in label.items())
    if isinstance(label, list):
        return ", ".join(_text(value) for value in label)
    return f"{label:.6g}" if isinstance(label, float) else str(label)
