"""`smcpn.sindy` beside pysindy, without noise: supports of its systems, and scripts of its kind.

Trajectories are those of pysindy's own equations (`pysindy.utils.odes`): with the tolerances of its
examples; with the default ones of `scipy.integrate.solve_ivp`, whose error is a hundred times the
least that the data show; and as its test suite makes them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

import smcpn.sindy
from benchmarks.discovery.shim_scripts import SCRIPTS
from benchmarks.rows import Row, absent, at_least
from benchmarks.study import study
from smcpn.errors import InputError

Array = NDArray[np.float64]

TIGHT: dict[str, Any] = {"method": "LSODA", "rtol": 1e-12, "atol": 1e-12}
DEFAULT: dict[str, Any] = {}
ROUNDED = 1e-9
"""Coefficients of a least-squares fit of the equations themselves below this are none."""
ABSENT = "pysindy is not installed: pip install smcpn[bench]"


@dataclass(frozen=True)
class Trajectories:
    """Of one of pysindy's systems.

    name: Of the function.
    ends, samples: Of each trajectory.
    degree: Of the library.
    control: Of times (T,), controls (T, 2).
    """

    name: str
    starts: tuple[tuple[float, ...], ...]
    ends: tuple[float, ...]
    samples: tuple[int, ...]
    degree: int
    control: Callable[[Any], Array] | None = None

    @property
    def rhs(self) -> Callable[..., Any]:
        """Of time and states, and of the control."""
        return getattr(import_module("pysindy.utils.odes"), self.name)

    def data(self, tolerances: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of ``fit``."""
        found: dict[str, Any] = {"x": [], "t": []}
        given = () if self.control is None else (self.control,)
        for start, end, count in zip(self.starts, self.ends, self.samples, strict=True):
            t = np.linspace(0.0, end, count)
            solved = solve_ivp(self.rhs, (0.0, end), start, t_eval=t, args=given, **tolerances)
            found["x"].append(solved.y.T)
            found["t"].append(t)
        if self.control is not None:
            found["u"] = [self.control(t) for t in found["t"]]
        return found

    def truth(self) -> NDArray[np.bool_]:
        """Whether a feature stands in an equation, (n, p): by least squares at random points."""
        n, m = len(self.starts[0]), 0 if self.control is None else 2
        points = np.random.default_rng(0).normal(size=(500, n + m))
        given = [() if m == 0 else (lambda t, row=row: row[None, n:],) for row in points]
        rates = [self.rhs(0.0, row[:n], *u) for row, u in zip(points, given, strict=True)]
        library = smcpn.sindy.PolynomialLibrary(degree=self.degree)
        found = np.linalg.lstsq(library.fit_transform(points), np.array(rates), rcond=None)[0].T
        return np.abs(found) > ROUNDED


def _one(
    name: str,
    start: tuple[float, ...],
    end: float,
    samples: int,
    degree: int,
    control: Callable[[Any], Array] | None = None,
) -> Trajectories:
    return Trajectories(name, (start,), (end,), (samples,), degree, control)


def _sine(t: Any) -> Array:
    return np.column_stack([np.sin(2.0 * t), np.zeros(np.size(t))])


def _sine_and_square(t: Any) -> Array:
    return np.column_stack([np.sin(2.0 * t), t**2])


SYSTEMS = {
    "damped oscillator": _one("linear_damped_SHO", (2.0, 0.0), 25.0, 2501, 3),
    "cubic oscillator": _one("cubic_damped_SHO", (2.0, 0.0), 25.0, 2501, 3),
    "linear, three states": _one("linear_3D", (2.0, 0.0, 1.0), 25.0, 1251, 2),
    "van der Pol": _one("van_der_pol", (2.0, 0.0), 20.0, 2001, 3),
    "Duffing": _one("duffing", (1.0, 0.5), 10.0, 1001, 3),
    "Lotka-Volterra": _one("lotka", (0.5, 0.1), 10.0, 1001, 2),
    "Roessler": _one("rossler", (-6.0, 5.0, 0.0), 10.0, 1001, 2),
    "Hopf": _one("hopf", (1.0, 0.5), 10.0, 1001, 3),
    "Lorenz": _one("lorenz", (-8.0, 8.0, 27.0), 2.0, 1001, 2),
    "mean field": _one("meanfield", (0.1, 0.2, 0.3), 20.0, 2001, 2),
    "atmospheric oscillator": _one("oscillator", (0.3, 0.4, 0.2), 10.0, 1001, 2),
    "MHD": _one("mhd", (0.5, 0.3, 0.8, 0.2, 0.9, 0.4), 10.0, 1001, 2),
    "Lorenz with controls": _one(
        "lorenz_control", (8.0, 27.0, -7.0), 1.0, 100, 2, _sine_and_square
    ),
}
QUICK = ("van der Pol", "Lotka-Volterra", "Hopf", "Lorenz", "Lorenz with controls")
SUITE = {
    "data_lorenz": _one("lorenz", (8.0, 27.0, -7.0), 1.0, 12, 2),
    "data_multiple_trajectories": Trajectories(
        "lorenz",
        (
            (8.0, 27.0, -7.0),
            (-10.9595724, 21.7346758, 24.5722540),
            (-3.95406365, -9.21825124, 12.07459147),
        ),
        (5.0, 5.0, 5.0),
        (100, 200, 500),
        2,
    ),
    "data_lorenz_c_1d": _one("lorenz_control", (8.0, 27.0, -7.0), 1.0, 100, 2, _sine),
    "data_lorenz_c_2d": _one("lorenz_control", (8.0, 27.0, -7.0), 1.0, 100, 2, _sine_and_square),
}
"""Of pysindy's ``test/conftest.py``, those that its equations make."""


def _supports(
    systems: Mapping[str, Trajectories], tolerances: Mapping[str, Any]
) -> dict[str, tuple[str, str, float, float]]:
    """What is wrong with the support of both, by system; our probability, and seconds."""
    found: dict[str, tuple[str, str, float, float]] = {}
    peer = import_module("pysindy")
    for name, system in systems.items():
        data, truth = system.data(tolerances), system.truth()
        if system.control is _sine:
            # The second control is zero, and so is all that it multiplies.
            labels = smcpn.sindy.PolynomialLibrary(degree=2).fit(np.zeros((1, 5)))
            used = ["x4" not in label for label in labels.get_feature_names()]
            truth = truth & np.array(used)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = peer.SINDy(feature_library=peer.PolynomialLibrary(degree=system.degree))
            wrong = _wrong(np.asarray(theirs.fit(**data).coefficients()) != 0.0, truth)
        ours = smcpn.sindy.SINDy(
            feature_library=smcpn.sindy.PolynomialLibrary(degree=system.degree)
        )
        begun = time.perf_counter()
        try:
            own = _wrong(ours.fit(**data).coef_ != 0.0, truth)
            probability = ours.discovery_.models[0].probability
        except InputError as error:
            own, probability = str(error), float("nan")
        found[name] = own, wrong, probability, time.perf_counter() - begun
    return found


def _wrong(support: NDArray[np.bool_], truth: NDArray[np.bool_]) -> str:
    """How many terms are too many and missing; empty where none."""
    more, less = int((support & ~truth).sum()), int((truth & ~support).sum())
    return f"{more} more, {less} missing" if more or less else ""


def _rows(
    systems: Mapping[str, Trajectories], tolerances: Mapping[str, Any], as_theirs: bool
) -> Iterator[Row]:
    """Yield the number of exact supports: of all, or of those that pysindy finds."""
    if find_spec("pysindy") is None:
        yield absent("exact supports", ABSENT)
        return
    found = _supports(systems, tolerances)
    for name, (own, wrong, probability, seconds) in found.items():
        note = f"pysindy {wrong or 'exact'}; probability {probability:.4f}, {seconds:.1f} s"
        yield Row(name, own or "exact", note=note)
    own = sum(not one[0] for one in found.values())
    theirs = sum(not one[1] for one in found.values())
    both = sum(not one[0] for one in found.values() if not one[1])
    yield Row(f"exact supports of {len(found)}, pysindy", theirs, note="its default threshold")
    if as_theirs:
        yield at_least(f"exact where pysindy's is, of {theirs}", both, theirs)
        yield at_least(f"exact supports of {len(found)}", own, theirs)
    else:
        yield at_least(f"exact supports of {len(found)}", own, len(found))


@study("shim-systems")
def systems(quick: bool) -> Iterator[Row]:
    """Tolerances of 1e-12, as in pysindy's examples."""
    return _rows(_some(quick), TIGHT, as_theirs=False)


@study("shim-loose", quick=None)
def loose(quick: bool) -> Iterator[Row]:
    """The same systems with a solver's default tolerances, 1e-3."""
    return _rows(_some(quick), DEFAULT, as_theirs=True)


@study("shim-suite", quick=None)
def suite(quick: bool) -> Iterator[Row]:
    """Trajectories of its test suite."""
    return _rows(SUITE, DEFAULT, as_theirs=True)


def _some(quick: bool) -> dict[str, Trajectories]:
    return {name: SYSTEMS[name] for name in SYSTEMS if name in QUICK or not quick}


@study("shim-scripts", quick=None)
def scripts(quick: bool) -> Iterator[Row]:
    """Scripts with pysindy as ``ps``, and with `smcpn.sindy`: the same statements."""
    if find_spec("pysindy") is None:
        yield absent("scripts that run", ABSENT)
        return
    ran = 0
    for name, script in SCRIPTS.items():
        told, runs = [], False
        for ps in (import_module("pysindy"), smcpn.sindy):
            with warnings.catch_warnings(), redirect_stdout(StringIO()):
                warnings.simplefilter("ignore")
                try:
                    told.append("; ".join(" ".join(one.split()) for one in script(ps).equations(2)))
                    runs = True
                except Exception as error:
                    told.append(f"{type(error).__name__}: {error}")
                    runs = False
        ran += runs
        yield Row(name, runs, note=f"{told[1]} (pysindy: {told[0]})")
    yield at_least(f"scripts that run, of {len(SCRIPTS)}", ran, len(SCRIPTS))
