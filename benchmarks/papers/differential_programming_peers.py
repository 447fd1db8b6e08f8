"""pysindy on the whole record of an experiment, at equal intervals, as SINDy needs it."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.papers.differential_programming_problems import Data

THRESHOLD = 0.05
"""Half of the smallest coefficient that is to be found."""

installed = find_spec("pysindy") is not None


def sindy(data: Data) -> dict[str, float]:
    """Coefficients that are not zero, by name, of sequentially thresholded least squares."""
    import pysindy as ps

    experiment = data.experiment
    library: Any = ps.PolynomialLibrary(_degree(data))
    if any("sin" in name for name in experiment.coefficients):
        functions = [lambda x: np.sin(x), lambda x: np.cos(x)]
        names = [lambda x: f"sin({x})", lambda x: f"cos({x})"]
        library = library + ps.CustomLibrary(functions, function_names=names)
    smooth = ps.SmoothedFiniteDifference if experiment.noise else ps.FiniteDifference
    states = list(experiment.ode.states)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ps.SINDy(ps.STLSQ(THRESHOLD), library, smooth())
        model.fit(data.y, t=float(experiment.times[1]), feature_names=states)
    return {
        f"{state}'[{term}]": float(value)
        for state, row in zip(states, model.coefficients(), strict=True)
        for term, value in zip(model.get_feature_names(), row, strict=True)
        if value
    }


def _degree(data: Data) -> int:
    return 2 if data.experiment.ode.name == "lorenz" else 3
