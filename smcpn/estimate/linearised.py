"""The posterior of the model that is linear in the parameters about a maximum."""

from __future__ import annotations

import numpy as np

from smcpn.errors import InputError
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.marginal_scales import averaged_over_scales, given_scales
from smcpn.model.given_scales import learned_scales
from smcpn.results.laplace import Mode
from smcpn.results.linearised import LinearisedLaplace
from smcpn.results.maximum import Maximum


def linearised_at(maximum: Maximum) -> LinearisedLaplace:
    """Return the Gaussian whose precision is the expected information, that of the prior included.

    Raises
    ------
    InputError
        If the samples are not Gaussian given those before.
    """
    function, d = maximum.function, len(maximum.theta)
    nothing = np.full((d, d), np.nan)
    if not function.expands:
        raise InputError(
            "curvature is 'gauss-newton', for samples that are Gaussian given those before: the "
            f"{function.likelihood} likelihood, or its noise, is not: take 'hessian'",
            argument="curvature",
        )
    if not maximum.found:
        return LinearisedLaplace(maximum, nothing, np.nan, f"there is no mode: {maximum.reason}")
    density, columns = LogDensity(function), learned_scales(maximum.problem)
    if columns is not None:
        [given] = given_scales(density, columns, maximum.theta[None, :])
        found = averaged_over_scales(density, maximum, given)
        modes = (found.as_mode(),) if found.success else ()
        return LinearisedLaplace(**{**vars(found), "modes": modes})
    information = density.expansion(maximum.theta[None, :])[2][0]
    try:
        # In units of the prior, which is all that is known along most directions.
        root = np.linalg.cholesky(information * np.outer(density.scale, density.scale))
    except np.linalg.LinAlgError:
        reason = "neither samples nor prior bound the parameters at the mode"
        return LinearisedLaplace(maximum, nothing, np.nan, reason)
    factor = density.scale[:, None] * np.linalg.inv(root).T
    log_volume = np.log(density.scale).sum() - np.log(np.diag(root)).sum()
    log_evidence = float(maximum.log_density + 0.5 * d * np.log(2 * np.pi) + log_volume)
    covariance = factor @ factor.T
    modes = (Mode(maximum.theta, covariance, log_evidence),)
    return LinearisedLaplace(maximum, covariance, log_evidence, modes=modes)
