"""The stages of a discovery, in their order: a search, then draws where the prior shrinks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from smcpn.base.stored import Stored
from smcpn.discovery.question import SPIKE_AND_SLAB, Question
from smcpn.discovery.results.discovery import Discovery
from smcpn.discovery.results.models import DiscoveredModel
from smcpn.discovery.results.residuals import lacking, omitting, remarks
from smcpn.discovery.search.search import MODEL_ERRORS, Search, SearchResult
from smcpn.discovery.search.state import SearchState
from smcpn.discovery.shrinkage.entry import ShrinkagePosterior
from smcpn.discovery.shrinkage.sampler import ShrinkageState
from smcpn.errors import listed, shown
from smcpn.smc.distributed.workers import Workers

DISTURBED = (
    "trajectories of these equations miss the data by more than the noise, as where a system is "
    "disturbed, or a solver was loose: the data leave them a little at every sample"
)
PARTICLES = 1000
"""Draws with a prior that shrinks, where their number is not given."""


@dataclass(frozen=True)
class DiscoveryProgress:
    """Progress of a discovery, as given to the ``progress`` callback.

    stage: {"larger", "smaller", "select", "maxima", "again", "end", "linearise", "sample"}, of the
        search: model errors above those of the homotopy, the homotopy, the choice of supports,
        their maxima, a second homotopy, its end. Of the draws: the linear model, and their
        populations.
    done, total: Model errors, supports or populations of the stage; 0 of 0 where nothing is
        counted.
    terms: Terms of the equations where the search is.
    models: Models that were found so far.
    workers: How many take part, of a discovery with an executor.
    """

    stage: str
    done: int
    total: int
    terms: int
    models: int
    workers: str = ""


@dataclass(frozen=True)
class DiscoveryState(Stored):
    """The state of a discovery between two parts.

    shrinkage: None before there is a linear model, and with spike and slab.
    """

    search: SearchState
    shrinkage: ShrinkageState | None = None

    @property
    def milestones(self) -> int:
        """Number of parts so far, which are costly to repeat."""
        populations = () if self.shrinkage is None else self.shrinkage.populations
        return self.search.parts + sum(1 + len(one.rejuvenations) for one in populations)

    @property
    def begun(self) -> bool:
        """True once there is a part to go on from."""
        return self.search.parts > 0

    @property
    def place(self) -> str:
        """Words on how far it is."""
        if self.shrinkage is not None:
            return f"population {max(len(self.shrinkage.populations), 1)} of draws"
        return f"part {self.search.parts} of the search"


class DiscoveryRun:
    """A discovery, computed part by part; between parts a `snapshot` has all that it goes on from.

    From a ``state`` that is a `snapshot` the same bytes come.
    """

    def __init__(
        self,
        question: Question,
        threads: int | None = None,
        workers: Workers | None = None,
        state: DiscoveryState | None = None,
    ) -> None:
        settings = question.settings
        self.question, self._threads, self._workers = question, threads, workers
        self.search = Search(
            question.records,
            question.system,
            observe=question.observe,
            noise=settings.known_noise,
            relative=settings.noise == "relative",
            delay=settings.delay,
            slabs=settings.slabs,
            seed=settings.seed,
            state=None if state is None else state.search,
            workers=workers,
        )
        self._state = state

    @cached_property
    def found(self) -> SearchResult:
        """Result of the search, at its end."""
        found = self.search.result()
        if self.question.settings.noise != "relative":
            return found
        sizes = np.sqrt(np.mean((found.path @ self.question.observe.T) ** 2, axis=0))
        return replace(found, noise=found.noise * sizes)

    @cached_property
    def draws(self) -> ShrinkagePosterior | None:
        """Draws from the posterior that begin where the search ended; None for spike and slab."""
        question, settings = self.question, self.question.settings
        if settings.prior is None:
            return None
        return ShrinkagePosterior(
            question.system,
            question.records,
            question.outputs,
            self.found,
            settings.prior,
            noise=settings.known_noise,
            delay=settings.delay,
            particles=settings.particles or PARTICLES,
            replicates=settings.replicates or 1,
            seed=settings.seed,
            solver=settings.solver,
            likelihood=settings.likelihood,
            threads=self._threads,
            workers=self._workers,
            state=None if self._state is None else self._state.shrinkage,
        )

    @property
    def ended(self) -> bool:
        """True if nothing is left to compute but the `result`."""
        return self.search.ended and (self.draws is None or self.draws.run.ended)

    def proceed(self) -> None:
        """Compute the next part."""
        if not self.search.ended:
            self.search.proceed()
        elif self.draws is not None:
            self.draws.run.proceed()

    def verify(self) -> None:
        """Refuse models whose evidence is another one here, and particles."""
        self.search.verify()
        if self.search.ended and self.draws is not None:
            self.draws.run.verify()

    def snapshot(self) -> DiscoveryState:
        """Return the state, from which another run goes on."""
        drawn = None
        if self.search.ended and self.draws is not None:
            drawn = self.draws.run.snapshot()
        return DiscoveryState(self.search.snapshot(), drawn)

    def progress(self) -> DiscoveryProgress:
        """Progress of the stage that is due."""
        state = self.search.state
        stage, done, total = str(state.stage), 0, 0
        if state.stage == "smaller":
            done, total = state.level, len(MODEL_ERRORS)
        if state.selection is not None:
            done, total = len(state.maxima), len(state.selection.chosen)
        if self.search.ended and self.draws is not None:
            run = self.draws.run
            stage = "sample" if run.samplers else "linearise"
            done, total = len(run.samplers), run.replicates
        models = 0 if state.counted is None else len(state.counted.maxima)
        workers = "" if self._workers is None else self._workers.state
        terms = int(state.point.support.sum())
        return DiscoveryProgress(stage, done, total, terms, models, workers)

    def result(self) -> Discovery:
        """Return what was found, at the end."""
        found, settings = self.found, self.question.settings
        result = _discovery(self.question, found)
        if self.draws is not None:
            result = result.with_posterior(self.draws.result())
        told = (*lacking(result, found.lack), *omitting(result, found.omitted), *remarks(result))
        warnings = (*result.warnings, *told)
        result = replace(result, settings=_shown(self.question, result), warnings=warnings)
        doubts = [one.adequacy for one in (found.lack, found.omitted) if one is not None]
        return result if settings.prior else result.with_doubt(min(doubts, default=1.0))


def _shown(question: Question, result: Discovery) -> dict[str, Any]:
    """Return the settings that a report shows."""
    settings, shrinks = question.settings, question.settings.prior
    prior = str(shrinks or SPIKE_AND_SLAB)
    found: dict[str, Any] = {"method": settings.method, "prior": prior, "seed": settings.seed}
    found |= {} if shrinks else {"slabs": listed(f"{c:g}" for c in settings.slabs)}
    noise = settings.noise if isinstance(settings.noise, str) else list(settings.noise)
    found |= {} if noise == "unknown" else {"noise": shown(noise)}
    found |= {"delay": dict(settings.delay)} if settings.delay else {}
    constraints = settings.constraints
    found |= {"constraints": listed(constraints)} if constraints else {}
    if result.posterior is not None:
        particles = settings.particles or PARTICLES
        found |= {"solver": repr(result.posterior.solver), "particles": particles}
    return found


def _discovery(question: Question, found: SearchResult) -> Discovery:
    system = question.system
    models = tuple(
        DiscoveredModel(
            names=tuple(np.array(system.coefficients)[model.support].tolist()),
            support=model.support,
            mean=model.coefficients[model.support],
            covariance=model.covariance,
            initial=model.initial,
            log_evidence=model.log_evidence,
            log_prior=model.log_prior,
            probability=model.probability,
        )
        for model in found.models
    )
    return Discovery(
        system=system,
        records=question.records,
        observe=question.observe,
        models=models,
        probabilities=found.inclusion,
        noise=found.noise,
        path=found.path,
        warnings=(DISTURBED,) if found.error >= 1.0 else (),
        delay=question.settings.delay,
    )
