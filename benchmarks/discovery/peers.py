"""Supports that pysindy finds, by each of its methods and with each of some thresholds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.discovery.systems import System

Array = NDArray[np.float64]

THRESHOLDS = (0.05, 0.1, 0.2, 0.5)
BOOTSTRAPS = 50
KEPT = 0.6
"""Share of the bootstraps that a term has to be in (Fasel et al. 2022)."""
DOMAINS = 200
"""Of the weak form."""

installed = find_spec("pysindy") is not None


def supports(
    system: System, y: Array, methods: tuple[str, ...] = ("STLSQ", "ensemble", "weak")
) -> dict[str, frozenset[str]]:
    """Coefficients that are not zero, by method and threshold, in samples (T, n)."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in methods:
            for threshold, coefficients in METHODS[method](system, y).items():
                names = _names(system, coefficients)
                found[f"{method} {threshold:g}"] = names
    return found


def _names(system: System, coefficients: tuple[list[str], Array]) -> frozenset[str]:
    terms, matrix = coefficients
    return frozenset(
        f"{state}'[{term}]"
        for state, row in zip(system.states, matrix, strict=True)
        for term, value in zip(terms, row, strict=True)
        if value != 0.0
    )


def _fitted(system: System, y: Array, library: Any, optimizer: Any) -> tuple[list[str], Array, Any]:
    import pysindy as ps

    model = ps.SINDy(
        optimizer=optimizer,
        feature_library=library,
        differentiation_method=ps.SmoothedFiniteDifference(),
    )
    t = system.interval * np.arange(len(y))
    model.fit(y, t=t, feature_names=list(system.states))
    names = [_as_ours(name, system.states) for name in model.get_feature_names()]
    return names, np.asarray(model.coefficients(), dtype=np.float64), model.optimizer


def _as_ours(name: str, states: tuple[str, ...]) -> str:
    """The same monomial with the states in order."""
    return " ".join(sorted(name.split(), key=lambda factor: (*states, "1").index(factor[0])))


Fits = Mapping[float, tuple[list[str], Array]]


def _least_squares(system: System, y: Array) -> Fits:
    import pysindy as ps

    return {
        threshold: _fitted(
            system, y, ps.PolynomialLibrary(system.degree), ps.STLSQ(threshold=threshold)
        )[:2]
        for threshold in THRESHOLDS
    }


def _ensemble(system: System, y: Array) -> Fits:
    import pysindy as ps

    found = {}
    for threshold in THRESHOLDS:
        np.random.seed(1)  # noqa: NPY002
        optimizer = ps.EnsembleOptimizer(
            ps.STLSQ(threshold=threshold), bagging=True, n_models=BOOTSTRAPS
        )
        names, _, optimizer = _fitted(system, y, ps.PolynomialLibrary(system.degree), optimizer)
        found[threshold] = names, np.mean(np.array(optimizer.coef_list) != 0.0, axis=0) >= KEPT
    return found


def _weak(system: System, y: Array) -> Fits:
    import pysindy as ps

    np.random.seed(1)  # noqa: NPY002
    t = system.interval * np.arange(len(y))
    found = {}
    for threshold in THRESHOLDS:
        library = ps.WeakPDELibrary(
            ps.PolynomialLibrary(system.degree, include_bias=False),
            spatiotemporal_grid=t,
            K=DOMAINS,
            include_bias=True,
        )
        found[threshold] = _fitted(system, y, library, ps.STLSQ(threshold=threshold))[:2]
    return found


METHODS: dict[str, Callable[[System, Array], Fits]] = {
    "STLSQ": _least_squares,
    "ensemble": _ensemble,
    "weak": _weak,
}
