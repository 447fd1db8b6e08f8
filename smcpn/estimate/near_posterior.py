"""Values near a posterior, at which the solver that draws of the prior called for is judged again.

Another one may cost less there, or be the only one that is stable. A run judges by draws about the
modes that searches found, and so does `laplace`; `maximise` by where its searches ended.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.solver_choice import SolverChoice, chosen_again, takes_few_steps
from smcpn.model.learned_scales import learned_scales
from smcpn.results.laplace import Laplace
from smcpn.results.maximum import Maximum
from smcpn.smc.start import MixtureStart
from smcpn.solver import Solver

Array = NDArray[np.float64]

JUDGES = 64
"""Draws about the modes, or particles, by which the solver is chosen again."""
NEGLIGIBLE = 30.0
"""Nats of log-likelihood by which a draw is less than the most likely one if it does not count."""


def called_for(found: Laplace | Maximum, particles: int = 0) -> tuple[SolverChoice, Solver] | None:
    """Return the other solver that values near a posterior call for, as of `chosen_again`.

    None where the one that searches took is right, as an explicit one of few steps is that led to
    a mode.

    Parameters
    ----------
    found : Laplace or Maximum
    particles : int
        How many there are to be evaluated, about modes.
    """
    led = found.found if isinstance(found, Maximum) else bool(found.modes)
    if led and takes_few_steps(found.solver):
        return None
    values = _highest_ends(found) if isinstance(found, Maximum) else _about_modes(found)
    return chosen_again(found.problem, found.solver, values, particles if led else 0)


def _highest_ends(maximum: Maximum) -> Array:
    """Return where a quarter of the searches ended, the highest, (N, d); none that diverged."""
    ended = [one for one in maximum.starts if np.isfinite(one.log_density)]
    ended = sorted(ended, key=lambda one: -one.log_density)[: max(1, len(ended) // 4)]
    return np.array([one.values for one in ended]).reshape(len(ended), len(maximum.names))


def _about_modes(found: Laplace) -> Array:
    """Return draws about the modes that searches found, or else the highest ends, (N, d)."""
    if not found.modes:
        return _highest_ends(found.maximum)
    problem = found.problem
    start = MixtureStart(problem.prior, found.start, learned_scales(problem))
    values = problem.prior.natural(start.sample(np.random.default_rng(0), JUDGES))
    heights = np.nan_to_num(found.maximum.function(values), nan=-np.inf)
    return values[heights >= heights.max() - NEGLIGIBLE]
