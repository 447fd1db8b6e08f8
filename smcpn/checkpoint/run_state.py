"""All that a run goes on from, as data: its plan, its solvers, and the states of its samplers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isnan
from typing import Annotated

from pydantic import AfterValidator

from smcpn.base.stored import Line, Stored, Whole, number
from smcpn.errors import one_of
from smcpn.likelihood.solver_choice import SolverChoice
from smcpn.model.solver import Solver
from smcpn.smc.settings import METHODS
from smcpn.smc.start import Modes
from smcpn.smc.state import SamplerState


def _known(method: str) -> str:
    return one_of("method", method, METHODS)


@dataclass(frozen=True)
class Plan(Stored):
    """Way of a run to the posterior, decided before its first particle.

    method: One of `smcpn.smc.settings.METHODS`.
    solver: To begin with, its steps resolved.
    modes: Where the particles begin; None for the prior.
    reason: Why ``method="auto"`` does not search; empty where it does, and for other methods.
    work: Solver steps of the searches and of the choice of steps, over all parameter vectors.
    choice: The one that was made again where particles are; None where the first one stays.
    """

    method: Annotated[str, AfterValidator(_known)]
    solver: Solver
    modes: Modes | None = None
    reason: Line = ""
    work: Whole = 0
    choice: SolverChoice | None = None


@dataclass(frozen=True)
class RunState(Stored):
    """The state of a run between two parts.

    solver: The one in force.
    samplers: Its populations, finished ones first.
    solvers: That of each population, coarser than the one in force until it is carried over.
    checked: Samples of the population at work at which its steps were found fine enough.
    refused_k: Pareto k of the start that was given up for a wider one, or for the prior.
    widened: Whether it is a wider one.
    plan: None before it is known.
    work: Solver steps of the particles so far, over all of them.
    """

    solver: Solver
    samplers: tuple[SamplerState, ...] = ()
    solvers: tuple[Solver, ...] = ()
    checked: Annotated[Whole, number(0, "T")] = 0
    refused_k: float | None = None
    widened: bool = False
    plan: Plan | None = None
    work: Whole = 0

    def with_posteriors(self) -> RunState:
        """Return the state with those populations that have a posterior to go on from.

        Half-tempered particles of a shorter record are drawn anew, and so are those whose
        likelihood was estimated by filters that look ahead to its end.
        """
        by_samples = self.plan is not None and self.plan.method == "ibis"
        kept = [
            k
            for k, one in enumerate(self.samplers)
            if (by_samples and isnan(one.log_floor)) or (one.sample and not one.state_particles)
        ]
        return replace(
            self,
            samplers=tuple(self.samplers[k] for k in kept),
            solvers=tuple(self.solvers[k] for k in kept),
        )

    @property
    def sample(self) -> int:
        """Samples assimilated by the population at work."""
        return self.samplers[-1].sample if self.samplers else 0

    @property
    def begun(self) -> bool:
        """True once there is a population to go on from."""
        return bool(self.samplers)

    @property
    def place(self) -> str:
        """Words on how far it is."""
        return f"sample {self.sample}"

    @property
    def milestones(self) -> int:
        """Rejuvenations so far, of all populations: what is costly to repeat."""
        return sum(len(sampler.rejuvenations) for sampler in self.samplers)
