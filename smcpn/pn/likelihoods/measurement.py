"""What a sample's measurements say about a state: Gaussian noise, or any other density.

A density that is not Gaussian acts through a pseudo-observation (DALTON section 3.2): the Gaussian
that has its gradient and curvature at the predicted output g. In terms of the output's variance s,
the gradient l' and the information i (-l'', see `OutputDensity.information`) the output moves by
d = s l' / (1 + i s), its variance becomes s / (1 + i s), and Laplace's approximation of the
density of y is

    log p(y | g + d) - log(1 + i s) / 2 - d^2 / (2 s),

which for a Gaussian is exact. Summed over the samples it is the ratio of DALTON's eq. 13, with the
curvatures at the same points, evaluated at the filtered outputs in place of the smoothed ones; the
paper's own form divides densities on two different planes, those of z = 0 linearised with the data
and without, and has no increments.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.pn.likelihoods.normal import Normal
from smcpn.pn.likelihoods.statespace import StateSpace

Array = NDArray[np.float64]


def weighed(space: StateSpace, sample: int, state: Normal) -> tuple[Normal, float]:
    """State given the outputs of a sample that are present, and the log density of these."""
    seen = space.observation(sample, state.mean)
    if seen is None:
        return state, 0.0
    matrix, residual, noise, present = seen
    if space.gaussian:
        return state.given(matrix, residual, noise)
    total, begin = 0.0, state.mean
    outputs = space.record.y[sample][present] - residual
    for row, output, j in zip(matrix, outputs, present, strict=True):
        # One output after the other; each is linearised where the first was.
        at = float(output + row @ (state.mean - begin))
        state, log_density = _laplace(space, sample, int(j), state, row, at)
        total += log_density
    return state, total


def _laplace(
    space: StateSpace, sample: int, j: int, state: Normal, row: Array, output: float
) -> tuple[Normal, float]:
    _, gradient, informed = space.expansion(sample, j, output)
    loading = state.factor.T @ row
    variance = float(loading @ loading)
    shrink = 1.0 + informed * variance
    shift = variance * gradient / shrink
    log_density, _, _ = space.expansion(sample, j, output + shift)
    mean = state.mean + state.factor @ loading * (gradient / shrink)
    # Potter's form: the factor of what is left, for any information.
    downdate = informed / (shrink + np.sqrt(shrink))
    factor = state.factor - downdate * np.outer(state.factor @ loading, loading)
    penalty = 0.5 * gradient * shift / shrink
    return Normal(mean, factor), log_density - 0.5 * float(np.log(shrink)) - penalty
