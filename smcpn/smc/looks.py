"""Looks for what a population has lost: searches on the samples so far, and draws about their ends.

What is likely given many samples may have next to no mass after few. Particles lose it when they
are resampled first, no moves lead back to it, and nothing in their weights tells. A search finds
it, and draws from a mixture about all modes tell how much of the posterior is there: where the
particles hold much less, they are drawn anew from that mixture, and tempered.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import compress
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.contract import LikelihoodView
from smcpn.smc.evidence import largest_k, stratified_variance
from smcpn.smc.particles import ParticleSystem, distinct_sample_size, log_mean_exp, normalise
from smcpn.smc.proposals import weighted_moments
from smcpn.smc.sampler import Sampler
from smcpn.smc.start import MixtureStart, Modes
from smcpn.smc.tempering import Tempering

Array = NDArray[np.float64]
_log = logging.getLogger(__name__)

FIRST, GROWTH = 2, 2
"""Samples for each parameter after which there is the first look, and the factor to the next."""
POINTS = 2
"""Particles that searches begin at, the most likely ones, beside draws from the prior."""
ROUNDS = 4
"""Most further searches from particles that are about none of the modes."""
LEAST = 10.0
"""Fewest effective particles about a mode, for each parameter, whose moments tell of it."""
WIDER = 1.5
"""Factor on the standard deviations of a mixture whose weights cannot be trusted."""
ERRORS = 3.0
"""Standard errors by which evidence or shares must differ to count as lost."""
LOST = 0.02
"""Share of the posterior about a mode that particles may lack beyond these errors."""
MOST_ERROR = 0.05
"""Standard error of the log-evidence that particles may claim: a larger one is itself a sign."""


class Searches(Protocol):
    """Who searches for the modes of a posterior given the first samples."""

    def hills(self, samples: int) -> Array:
        """Return draws from the prior that are likely given so many samples, (S, d)."""
        ...

    def __call__(self, samples: int, points: Array) -> MixtureStart | None:
        """Return a mixture about the modes given so many samples; None where there is none.

        ``points``, (S, d), are unconstrained coordinates to search from.
        """
        ...


@dataclass(frozen=True)
class Look:
    """Findings of a look.

    anew: The population that holds what was lost; None where nothing was, or it cannot be had.
    missed: Log posterior of the highest mode where something was lost and cannot be had; else nan.
    """

    anew: Tempering | None = None
    missed: float = float("nan")


def next_look(samples: int, parameters: int) -> int:
    """First number of samples beyond ``samples`` after which there is a look.

    It follows from the number alone, so that streams, records and runs that are resumed agree.
    """
    due = FIRST * parameters
    while due <= samples:
        due *= GROWTH
    return due


def take_back_lost(sampler: Sampler, searches: Searches) -> None:
    """Search given the samples so far, and have the particles begin anew where some were lost.

    What goes wrong on the way is no error: the particles then stay as they are. So do those that
    have not moved yet.

    The sampler is one between two samples, with an exact likelihood.
    """
    if not sampler.rejuvenations:
        return
    found = look(sampler, searches, sampler.apart())
    sampler.take_back(found.anew, found.missed)


def look(sampler: Sampler, searches: Searches, rng: np.random.Generator) -> Look:
    """Search given the samples so far, and draw a population anew where particles were lost.

    What goes wrong on the way is no error: the particles then stay as they are.

    The sampler is one between two samples, with an exact likelihood; it is not changed. ``rng`` is
    for the draws about the modes.
    """
    try:
        return _looked(sampler, searches, rng)
    except Exception as error:
        _log.warning("no look for lost modes at sample %d: %s", sampler.sample, error)
        _log.debug("it ended so", exc_info=True)
        return Look()


def _looked(sampler: Sampler, searches: Searches, rng: np.random.Generator) -> Look:
    system, limit = sampler.system, largest_k(sampler.settings.particles)
    order = np.argsort(-system.log_prior - system.log_likelihood, kind="stable")
    points = np.concatenate([searches.hills(sampler.sample), system.theta[order[:POINTS]]])
    near = searches(sampler.sample, points)
    if near is None:
        return Look()
    near = _with_held(near, searches, sampler, order)
    both = _with_particles(near, system)
    anew = _drawn(sampler, both, rng)
    if not anew.state.pareto_k <= limit:
        anew = _drawn(sampler, replace(both, width=WIDER), rng)
    if not _lacks(sampler, near, anew):
        return Look()
    if not anew.state.pareto_k <= limit:
        return Look(missed=float(near.modes.ends[0]))
    evidence = sampler.log_evidence
    anew.run()
    _log.info(
        "at sample %d searches found what the particles had lost: log-evidence %.2f, not %.2f",
        sampler.sample, anew.log_evidence, evidence,
    )  # fmt: skip
    return Look(anew)


def _with_held(
    near: MixtureStart, searches: Searches, sampler: Sampler, order: NDArray[np.intp]
) -> MixtureStart:
    """Return the mixture with modes that particles hold and no search has led to.

    Particles that are drawn anew would lose them. ``order`` has the most likely particles first.
    """
    theta, weights = sampler.system.theta[order], sampler.system.weights[order]
    for _ in range(ROUNDS):
        beyond = near.by_mode(theta)[-1] > 0.5
        if weights[beyond].sum() < LOST:
            break
        found = searches(sampler.sample, theta[beyond][:POINTS])
        modes = near.modes if found is None else near.modes.joined(found.modes)
        if len(modes) == len(near.modes):
            break
        near = replace(near, modes=modes)
    return near


def _with_particles(near: MixtureStart, system: ParticleSystem) -> MixtureStart:
    """Return the mixture with further components, of half the weight: the particles' moments.

    Particles tell of the breadth of a posterior, which the Gaussian at a mode may not. They are
    those about each mode, where there are several. Where scales are learned components are given
    these, and there are none.
    """
    modes = near.modes
    if len(modes.pulls):
        return near
    one, d = np.ones((1, len(system))), system.theta.shape[1]
    about = near.by_mode(system.theta)[:-1] if len(modes) > 1 else one
    masses = [row * system.weights for row in about]
    enough = [mass.sum() ** 2 > LEAST * d * np.square(mass).sum() for mass in masses]
    masses = list(compress(masses, enough)) or [system.weights]
    held = np.array([mass.sum() for mass in masses])
    moments = [weighted_moments(system.theta, mass / mass.sum()) for mass in masses]
    together = Modes(
        shares=0.5 * np.concatenate([modes.shares, held / held.sum()]),
        means=np.concatenate([modes.means, [mean for mean, _ in moments]]),
        factors=np.concatenate([modes.factors, [factor for _, factor in moments]]),
        searches=modes.searches,
        log_evidence=modes.log_evidence,
        ends=modes.ends,
    )
    return replace(near, modes=together)


def _drawn(sampler: Sampler, start: MixtureStart, rng: np.random.Generator) -> Tempering:
    """Draws from a start, weighed by the samples so far."""
    likelihood = LikelihoodView(sampler.likelihood, n_samples=sampler.sample)
    anew = Tempering(sampler.prior, likelihood, replace(sampler.settings, start=start), rng)
    anew.proceed(sampler.sample)
    return anew


def _lacks(sampler: Sampler, near: MixtureStart, drawn: Tempering) -> bool:
    """True if particles lack a part of the evidence, or of a mode, that weighted draws have."""
    log_weights, theta = drawn.system.log_increment, drawn.system.theta
    start = cast(MixtureStart, drawn.settings.start)
    variance = stratified_variance(log_weights, start.memberships(theta))
    error = np.hypot(min(sampler.log_evidence_se, MOST_ERROR), np.sqrt(variance))
    more = float(log_mean_exp(log_weights)) - sampler.log_evidence
    if more > ERRORS * error:
        return True
    found, errors = _shares(near, theta, log_weights)
    held, own = _shares(near, sampler.system.theta, sampler.system.log_weights)
    # Draws about some modes have a larger share there than particles that hold others too.
    held = held * np.exp(np.clip(-more, 0.0, 700.0))
    return bool((found - held > LOST + ERRORS * np.hypot(errors, own))[:-1].any())


def _shares(near: MixtureStart, theta: Array, log_weights: Array) -> tuple[Array, Array]:
    """Share of weighted points about each mode and elsewhere, (K + 1,), and standard errors."""
    shares = near.by_mode(theta) @ normalise(log_weights)
    effective = max(distinct_sample_size(theta, log_weights), 1.0)
    return shares, np.sqrt(np.clip(shares * (1.0 - shares), 0.0, 1.0) / effective)
