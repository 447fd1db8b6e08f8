"""Tempering: the likelihood of the whole record, made more informative step by step.

`Tempering` raises it to exponents from 0 to 1. `DiffusionTempering` lowers the diffusion of a
probabilistic solver: with a large one the solution interpolates the data whatever the parameters
are, and the likelihood is smooth in them; as it falls to its value, valleys and peaks appear one
by one (Tronarp et al., Fenrir, section 5.4, who let an optimiser find this path). `at_power` leads
to a generalised posterior, prior x p(y | theta)^power.

References
----------
Bissiri, P. G., Holmes, C. C., Walker, S. G. (2016). A general framework for updating belief
distributions. JRSS B 78 (the power as a learning rate).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.errors import InputError
from smcpn.likelihood.contract import DiffusedLikelihood, Keys, Likelihood, LikelihoodView
from smcpn.model.prior import Prior
from smcpn.smc.estimation import fresh_keys
from smcpn.smc.evidence import FINITE_VARIANCE, k_error, pareto_k, stratified_variance
from smcpn.smc.moves import IndependentMetropolis
from smcpn.smc.particles import (
    MixedStart,
    ParticleSystem,
    RecordTarget,
    effective_sample_size,
    finite_or_excluded,
    normalise,
)
from smcpn.smc.proposals import StudentMixture
from smcpn.smc.replicates import Populations, combine
from smcpn.smc.sampler import Sampler, Settings

Array = NDArray[np.float64]

FACTORS = 10.0 ** np.arange(13)
"""Factors on the diffusion that are tried in search of a flat likelihood."""
GAIN = 0.1
"""A larger factor must leave this share more particles effective."""
FLAT = 0.9
"""Share of the particles that a likelihood must leave effective to count as flat."""
SLACK = 0.1
"""A factor is accepted when the ESS is above the threshold by at most this share of it."""
BISECTIONS = 30


class CollapsedError(InputError):
    """A population has collapsed to a few points."""


class Tempering(Sampler):
    """Targets prior x p(y | theta)^exponent, with exponents chosen by the effective sample size.

    Fewer rejuvenations than `Ibis`, each over the whole record; there is no posterior before the
    end. A likelihood needs no ``advance``.

    It may begin at a density near the posterior, such as a Laplace approximation, in place of the
    prior: the path is then short, and the evidence is that of the prior all the same. The weights
    over the whole of it say whether that start can be trusted: `pareto_k`, known when the record
    has been evaluated, before the first exponent.

    References
    ----------
    Jasra, A. et al. (2011). Inference for Levy-driven stochastic volatility models via adaptive
    sequential Monte Carlo. Scandinavian Journal of Statistics 38.
    """

    takes_start: ClassVar[bool] = True

    def proceed(self, last: int) -> None:
        """Evaluate the record, then raise the exponent once; one after the other from a start."""
        if self.state.exponent is None:
            self._evaluate()
            if self.settings.start is not None:
                return
        if self.state.exponent == 0.0:
            self._check_alive()
        whole = self._cross(self._target)
        self._check_spread()
        if whole:
            self._assimilate_increment()

    def _evidence_variance(self) -> float:
        """Variance by the components of a mixture, as long as no draw from it has moved."""
        start, weights = self.settings.start, self.system.log_weights
        # From an approximate posterior on, the variance is that of the path behind it, and more.
        drawn = not self.rejuvenations and np.isnan(self.state.log_floor)
        known = drawn and bool(np.isfinite(weights).any())
        if known and isinstance(start, MixedStart):
            return stratified_variance(weights, start.memberships(self.system.theta))
        return super()._evidence_variance()

    def _weights_tell_error(self) -> bool:
        """True if the weights of draws from a start surely have a variance."""
        told = super()._weights_tell_error()
        if not told or self.rejuvenations or not self._can_renew_evidence:
            return told
        return _variance_exists(pareto_k(self.system.log_weights), len(self.system))

    @property
    def leaves_error_open(self) -> bool:
        """True if neither weights of a start nor proposals since told the error of the evidence."""
        if not self.rejuvenations or not self._can_renew_evidence:
            return False
        told = any(np.isfinite(record.evidence.variance) for record in self.rejuvenations)
        return not told and not _variance_exists(self.state.pareto_k, len(self.system))

    @property
    def _can_renew_evidence(self) -> bool:
        """True if moves have proposals that tell the evidence without the weights of a start."""
        moves = self.settings.moves
        return self.settings.start is not None and isinstance(moves, IndependentMetropolis)

    def _check_spread(self) -> None:
        """Refuse a population that is no more than a few points: any target would seem flat."""
        theta = self.system.theta
        n, d = theta.shape
        distinct = len(np.unique(theta[:, 0]))
        if distinct <= max(min(d, n // 10), 1):
            raise CollapsedError(
                f"of {n} particles only {distinct} are distinct, for the moves found no others: "
                "use more particles, moves='random-walk', or a narrower prior"
            )

    @override
    def _recomputed(self, index: Any) -> tuple[Array, Array, Array]:
        values = self.prior.natural(self.system.theta[index])
        nothing = np.zeros(len(values))
        if self.state.exponent is None and self.sample == 0:
            return self.likelihood.start(values), nothing, nothing
        n, keys = self.likelihood.n_samples, self.system.keys[index]
        state, log_likelihood = self.likelihood.evaluate(values, n, keys)
        if self.state.exponent is None:
            return state, finite_or_excluded(log_likelihood), nothing
        return state, nothing, self._target.parts(self.system.theta[index], log_likelihood)[1]

    @property
    def _target(self) -> RecordTarget:
        return RecordTarget(self.prior, self.likelihood, 0, 0.0, self.settings.start)

    def _evaluate(self) -> None:
        found = self._target.particles(self.system.theta, self._record_keys())
        self._change_system(
            log_prior=found.log_prior,
            log_increment=found.log_increment,
            state=found.state,
            keys=found.keys,
        )
        if self.settings.start is not None:
            self._change(pareto_k=pareto_k(found.log_increment))
        self._change(exponent=0.0)

    @property
    @override
    def _keyed_samples(self) -> int:
        return self.sample if self.state.exponent is None else self.likelihood.n_samples

    def _record_keys(self) -> Keys:
        """Keys of the whole record, drawn now; an exact likelihood has none."""
        likelihood = self.likelihood
        return fresh_keys(self._rng, len(self.system), likelihood.n_keys(likelihood.n_samples))

    def _assimilate_increment(self) -> None:
        system, log_prior = self.system, self.system.log_prior
        log_likelihood = system.log_increment
        if self.settings.start is not None:
            log_prior = self.prior.log_density(system.theta)
            log_likelihood = log_likelihood + (system.log_prior - log_prior)
        self._change_system(
            log_prior=log_prior,
            log_likelihood=log_likelihood,
            log_increment=np.zeros(len(system)),
        )
        self._end()


def _variance_exists(k: float, n: int) -> bool:
    """True if n weights whose tail has the shape k have a variance, beyond the error of k.

    Of the draws of a start that misses a tail of the posterior some have, by chance, none there:
    the shape of their weights is low, and so is the evidence.
    """
    return k + k_error(k, n) < FINITE_VARIANCE


class DiffusionTempering(Sampler):
    """Targets prior x L_k(theta) for factors k on the diffusion that fall from a flat L_k to one.

    The next factor is the least that the effective sample size allows. Where no factor flattens
    the likelihood, the first target is reached by exponents, as `Tempering` does; where none makes
    it flatter, the path is that of `Tempering`.

    Raises `InputError` if the likelihood has no diffusion to raise.
    """

    def proceed(self, last: int) -> None:
        """Compute the next part: assimilate the flat likelihood, or lower the diffusion once."""
        if not self.state.factors:
            self._begin()
        if self.state.exponent is not None:
            self._cross(self._target(self.state.factors[-1]))
        else:
            self._lower()
        if self.state.exponent is None and self.state.factors[-1] <= 1.0:
            self._finish()

    @override
    def _recomputed(self, index: Any) -> tuple[Array, Array, Array]:
        values = self.prior.natural(self.system.theta[index])
        nothing = np.zeros(len(values))
        if not self.state.factors:
            return self.likelihood.start(values), nothing, nothing
        likelihood = self._at(self.state.factors[-1])
        state, log_likelihood = likelihood.evaluate(values, likelihood.n_samples)
        whole = finite_or_excluded(log_likelihood)
        return (state, whole, nothing) if self.sample else (state, nothing, whole)

    def _at(self, factor: float) -> Likelihood:
        """The likelihood at another diffusion.

        Raises `InputError` if it has none.
        """
        if not hasattr(self.likelihood, "at_diffusion"):
            raise InputError(
                "method='diffusion-tempering' needs a likelihood with a diffusion: choose "
                "likelihood='fenrir', 'dalton' or 'filtering', or method='tempering'"
            )
        return cast(DiffusedLikelihood, self.likelihood).at_diffusion(factor)

    def _begin(self) -> None:
        """Begin at the diffusion that makes the likelihood flattest."""
        factor, system = self._flattest()
        self._change(system=system, factors=(factor,))
        self._begin_bridge()

    def _flattest(self) -> tuple[float, ParticleSystem]:
        """Raise the diffusion while that leaves more particles effective.

        Linearised filters are not flat at any: as the diffusion grows, the determinants of their
        covariances begin to depend on the parameters.
        """
        chosen, most = (1.0, self.system), -1.0
        for factor in FACTORS:
            evaluated = self._evaluated(factor)
            effective = float(effective_sample_size(evaluated.log_increment))
            if effective > most * (1.0 + GAIN):
                chosen, most = (factor, evaluated), effective
            if effective >= FLAT * np.isfinite(evaluated.log_increment).sum():
                break
        return chosen

    def _lower(self) -> None:
        """Lower the factor as far as the effective sample size allows, and rejuvenate there."""
        factor, reweighted = self._next(self.state.factors[-1])
        self._change(system=reweighted, factors=(*self.state.factors, factor))
        self._check_alive()
        if self.system.ess < self._threshold * (1.0 + SLACK):
            self._rejuvenate(replace(self._target(factor), exponent=1.0))

    def _next(self, factor: float) -> tuple[float, ParticleSystem]:
        """Bisect on the logarithm of the factor, with one evaluation for each candidate."""
        whole = self._reweighted(1.0)
        if whole.ess >= self._threshold:
            return 1.0, whole
        low, high, chosen = 0.0, float(np.log(factor)), None
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            candidate = self._reweighted(float(np.exp(middle)))
            if candidate.ess < self._threshold:
                low = middle
                continue
            high, chosen = middle, candidate
            if candidate.ess < (1.0 + SLACK) * self._threshold:
                break
        if chosen is not None and np.exp(high) < 0.999 * factor:
            return float(np.exp(high)), chosen
        # Where solutions begin to diverge the likelihood jumps, and no step is small enough.
        halved = max(1.0, 0.5 * factor)
        return halved, self._reweighted(halved)

    def _reweighted(self, factor: float) -> ParticleSystem:
        """Return the population reweighted to another factor."""
        there, here = self._evaluated(factor), self.system
        alive = np.isfinite(here.log_increment) & np.isfinite(here.log_weights)
        with np.errstate(invalid="ignore"):
            change = there.log_increment - here.log_increment
            weights = np.where(alive, here.log_weights + change, -np.inf)
        return replace(there, log_weights=weights)

    def _evaluated(self, factor: float) -> ParticleSystem:
        values = self.prior.natural(self.system.theta)
        likelihood = self._at(factor)
        state, log_likelihood = likelihood.evaluate(values, likelihood.n_samples)
        log_increment = finite_or_excluded(log_likelihood)
        return replace(self.system, log_increment=log_increment, state=state)

    def _target(self, factor: float) -> RecordTarget:
        return RecordTarget(self.prior, self._at(factor), 0, 0.0)

    def _finish(self) -> None:
        system = self.system
        self._change_system(
            log_likelihood=system.log_increment, log_increment=np.zeros(len(system))
        )
        self._end()


def at_power(
    prior: Prior,
    likelihood: Likelihood,
    power: float,
    theta: Array,
    log_weights: Array,
    rng: np.random.Generator,
) -> Populations:
    """Sample prior x likelihood^power from particles of the posterior, at power one.

    They give where to begin: a t mixture fitted to them, wider by one over the root of the power.
    From there tempering leads to the target, exactly.

    ``theta``, (N, d), are unconstrained coordinates. As many particles are returned, with the
    ``log_likelihood`` of the likelihood itself, and the ``log_evidence`` of its power.
    """
    fitted = StudentMixture.fit(theta, normalise(log_weights))
    start = replace(fitted, factors=fitted.factors / np.sqrt(power))
    settings = Settings(particles=len(theta), start=start)
    sampler = Tempering(prior, LikelihoodView(likelihood, power=power), settings, rng)
    sampler.run()
    found = combine([sampler])
    return replace(found, log_likelihood=found.log_likelihood / power)
