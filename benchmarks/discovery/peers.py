"""Supports that pysindy finds, by each of its methods and with each of some thresholds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.discovery.systems import System

try:
    import pysindy as ps
except ImportError:
    ps: Any = None

Array = NDArray[np.float64]

THRESHOLDS = (0.05, 0.1, 0.2, 0.5)
BOOTSTRAPS = 20
"""The default of pysindy."""
KEPT = 0.6
"""Share of the bootstraps that a term has to be in (Fasel et al. 2022)."""
DOMAINS = 200
"""Of the weak form."""

installed = ps is not None


def supports(
    system: System, y: Array, methods: tuple[str, ...] = ("STLSQ", "ensemble", "weak")
) -> dict[str, frozenset[str]]:
    """Coefficients that are not zero, by method and threshold, in samples (T, n)."""
    found: dict[str, frozenset[str]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in methods:
            np.random.seed(1)  # noqa: NPY002
            library, selected = METHODS[method]
            terms, columns, slopes = _regression(system, y, library)
            for threshold in THRESHOLDS:
                present = selected(columns, slopes, threshold)
                found[f"{method} {threshold:g}"] = _names(system, terms, present)
    return found


def _regression(
    system: System, y: Array, library: Callable[[System, Array], Any]
) -> tuple[Sequence[str], Any, Any]:
    """Names of the terms, their values and slopes, as `pysindy.SINDy.fit` makes them."""
    t = np.linspace(0.0, system.interval * (len(y) - 1), len(y))
    terms = library(system, t)
    samples = ps.AxesArray(y, {"ax_time": 0, "ax_coord": 1})
    samples, slopes = terms.calc_trajectory(ps.SmoothedFiniteDifference(), samples, t)
    columns = terms.fit_transform([samples])[0]
    return terms.get_feature_names(list(system.states)), columns, slopes


def _names(system: System, terms: Sequence[str], present: Array) -> frozenset[str]:
    return frozenset(
        f"{state}'[{_as_ours(term, system.states)}]"
        for state, row in zip(system.states, present, strict=True)
        for term, value in zip(terms, row, strict=True)
        if value
    )


def _as_ours(term: str, states: tuple[str, ...]) -> str:
    """The same monomial with the states in order."""
    return " ".join(sorted(term.split(), key=lambda factor: (*states, "1").index(factor[0])))


def _pointwise(system: System, t: Array) -> Any:
    """Terms, and slopes by smoothed finite differences."""
    return ps.PolynomialLibrary(system.degree)


def _weak(system: System, t: Array) -> Any:
    """Both integrated over random domains with test functions."""
    return ps.WeakPDELibrary(
        ps.PolynomialLibrary(system.degree, include_bias=False),
        spatiotemporal_grid=t,
        K=DOMAINS,
        include_bias=True,
    )


def _thresholded(columns: Any, slopes: Any, threshold: float) -> Array:
    return ps.STLSQ(threshold=threshold).fit(columns, slopes).coef_ != 0.0


def _frequent(columns: Any, slopes: Any, threshold: float) -> Array:
    """Terms that are in most of the bootstraps."""
    optimizer = ps.EnsembleOptimizer(
        ps.STLSQ(threshold=threshold), bagging=True, n_models=BOOTSTRAPS
    )
    optimizer.fit(columns, slopes)
    return np.mean(np.array(optimizer.coef_list) != 0.0, axis=0) >= KEPT


METHODS: dict[str, tuple[Callable[[System, Array], Any], Callable[..., Array]]] = {
    "STLSQ": (_pointwise, _thresholded),
    "ensemble": (_pointwise, _frequent),
    "weak": (_weak, _thresholded),
}
