"""Residuals of the most probable model, and what is doubtful about a discovery."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from smcpn.discovery.results.models import WeightedModels
from smcpn.discovery.search.adequacy import LackOfFit, OmittedFunction
from smcpn.errors import listed
from smcpn.estimate.smoothed_outputs import LEAST_NOISE
from smcpn.model.record import beside
from smcpn.results.validation.innovations import whiteness
from smcpn.results.validation.verdict import WARNED, Verdict, judge

Array = NDArray[np.float64]

LEAST_CORRELATION, ERRORS = 0.15, 5.0
"""Correlation of successive residuals, and its size in standard errors, that are remarked on."""
NOISE_FREE = 2.0 * LEAST_NOISE
"""Noise as a share of the data's standard deviation below which residuals are those of rounding."""
AMBIGUOUS = 0.5
LACKING = 0.02
"""Probability of as much as the data ask for with right equations, below which it is said."""
BELIEVED = 0.5
"""Probability of a library that holds the truth below which a function that it omits is named."""
MOST_LOG_ODDS = np.log(1e6)
"""Of a function, that are printed: no approximation holds so far."""
LEAST_SIGNAL = 50.0
"""Sum of squares of the path about its mean, in units of the noise, of an output that moves."""
_FUNCTIONS = {"time": "slow functions of time", "states": "other functions of the states",
              "signs": "jumps where a state changes its sign"}  # fmt: skip


def verdict_of(found: WeightedModels) -> Verdict:
    """Judge what the most probable model leaves of the data, and whether there are warnings."""
    errors = residuals_of(found)
    y = np.concatenate([record.y for record in found.records])
    spread = np.nanstd(y, axis=0)
    size = np.sqrt(np.nanmean(np.square(np.concatenate(errors)), axis=0))
    told = np.flatnonzero(size > NOISE_FREE * spread)
    inputs = [record.u for record in found.records]
    outputs = [whiteness([one[:, j] / size[j] for one in errors], inputs) for j in told]
    with np.errstate(invalid="ignore", divide="ignore"):
        fit = 100.0 * (1.0 - size / spread)
    others = [WARNED] if found.warnings else []
    names = [found.outputs[j] for j in told]
    judged = judge(outputs, [True] * len(told), others, names)
    return replace(judged, fit=tuple(fit.tolist()), reduced_chi2=())


def residuals_of(found: WeightedModels) -> list[Array]:
    """Residuals (T, q) of each record, of values of one precision where records state theirs."""
    residuals: list[Array] = []
    for record, path in zip(found.records, found.paths, strict=True):
        sd = beside(record, "y_sd")
        unit = np.where(np.isfinite(sd), found.noise / sd, 1.0)
        residuals.append((record.y - path @ found.observe.T) * unit)
    return residuals


def correlation(found: WeightedModels) -> Array:
    """Correlation (q,) of successive residuals about the fitted path, over all records."""
    return _correlation(found)[0]


def _correlation(found: WeightedModels) -> tuple[Array, NDArray[np.int64]]:
    """Correlation and number of pairs, (q,) each."""
    products, squares = np.zeros((2, len(found.observe)))
    pairs = np.zeros(len(found.observe), dtype=np.int64)
    for residuals in residuals_of(found):
        both = residuals[1:] * residuals[:-1]
        products += np.nansum(both, axis=0)
        mean = np.nansum(residuals**2, axis=0) / np.maximum(np.isfinite(residuals).sum(axis=0), 1)
        squares += mean * np.isfinite(both).sum(axis=0)
        pairs += np.isfinite(both).sum(axis=0)
    return np.where(squares > 0, products / np.where(squares > 0, squares, 1.0), 0.0), pairs


def lacking(found: WeightedModels, lack: LackOfFit | None) -> list[str]:
    """Say that the data ask for more than the equations, if they do."""
    if lack is None or lack.p >= LACKING:
        return []
    state = found.system.candidates.states[lack.equation]
    return [
        f"{_FUNCTIONS[lack.functions]} in the equation of {state} would bring it clearly nearer to "
        f"the data (p {lack.p:.1g}): the library may lack a term, or something else moves {state}"
    ]


def omitting(found: WeightedModels, omitted: OmittedFunction | None) -> list[str]:
    """Say which function the library does not have, if the data are for one."""
    if omitted is None or omitted.adequacy >= BELIEVED:
        return []
    states = found.system.candidates.states
    equations = "equation" if len(omitted.equations) == 1 else "equations"
    odds = float(f"{np.exp(min(omitted.log_odds, MOST_LOG_ODDS)):.2g}")
    return [
        f"{omitted.function.text(states)} in the {equations} of "
        f"{listed(states[k] for k in omitted.equations)} is more probable than terms of the "
        f"library alone (odds {odds:,.0f} to 1): add it, or a function like it, to the library"
    ]


def _still(found: WeightedModels) -> list[str]:
    """Say which outputs, or combinations of them, do not move by more than their noise."""
    outputs = found.path @ found.observe.T
    spread = np.nanstd(np.concatenate([record.y for record in found.records]), axis=0)
    noise = np.maximum(found.noise, NOISE_FREE * np.where(spread > 0.0, spread, 1.0))
    parts = np.split(outputs / noise, np.cumsum([len(one) for one in found.records])[:-1])
    moved = np.concatenate([part - part.mean(axis=0) for part in parts])
    still = [
        name
        for name, size in zip(found.outputs, np.sum(moved**2, axis=0), strict=True)
        if size < LEAST_SIGNAL
    ]
    if still:
        return [
            f"{listed(still)} shows no signal above its noise: of a constant, other equations are "
            "as good; give a record in which it moves"
        ]
    if len(found.outputs) > 1 and np.linalg.svd(moved, compute_uv=False)[-1] ** 2 < LEAST_SIGNAL:
        return [
            f"a sum of {listed(found.outputs)} with constant factors does not change by more than "
            "the noise: terms of one can stand for those of others; leave one out, or give a "
            "record in which it changes"
        ]
    return []


def remarks(found: WeightedModels) -> list[str]:
    """Say what is doubtful, one sentence each."""
    said = _still(found)
    values, pairs = _correlation(found)
    spread = np.nanstd(np.concatenate([record.y for record in found.records]), axis=0)
    for j, name in enumerate(found.outputs):
        clear = values[j] > max(LEAST_CORRELATION, ERRORS / np.sqrt(max(pairs[j], 1)))
        if clear and found.noise[j] > NOISE_FREE * spread[j]:
            said.append(
                f"residuals of {name} are correlated from sample to sample ({values[j]:.2f}): the "
                "library may lack a term, or the noise is not white"
            )
    if found.models[0].probability < AMBIGUOUS:
        said.append(
            f"no model is more probable than {found.models[0].probability:.2f}: more or better "
            "data, a smaller library or known parts would tell them apart"
        )
    return said
