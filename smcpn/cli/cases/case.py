"""A case study: a problem, its test records, published scores, and the settings of its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smcpn.cli.cases.splits import PAPER
from smcpn.io.parse import StreamFormat
from smcpn.likelihood.solver_choice import choose_solver, default_solver, solver_named
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.model.solver import Solver
from smcpn.results.simulation.simulation import Simulation
from smcpn.smc.settings import PartialSettings, solver_with

if TYPE_CHECKING:
    from smcpn.results.posterior import Posterior


@dataclass(frozen=True)
class PublishedScore:
    """RMSE over the particles of the PN-SMC paper (Table 2)."""

    rmse_min: float
    rmse_mean: float
    rmse_max: float


@dataclass(frozen=True)
class Case:
    """A problem with its test records.

    Attributes
    ----------
    name : str
    problem : Problem
    tests : mapping of str to Record
        Test records by split.
    published : mapping of str to PublishedScore
    steps : int or "auto"
        Solver steps per sample where the user names none.
    truth : mapping of str to float
        True parameters, of simulated systems.
    test_observes : str, optional
        What the tests measure, where that is not what the training record does.
    test_noise : float
        Standard deviation of what the tests hold besides the noise of the problem, in their unit:
        the band counts it.
    alike : bool
        Whether the tests begin in the state in which the first training record does.
    note : str
        Where the data come from.
    order : int
        Order of the solver's prior where the user names none.
    split : str
        One of `SPLITS`; "" for records of the user's own.
    initialise : int
        First samples of each test, from which its initial state is fitted; they are not compared.
    protocols : mapping of str to callable
        Scores that are not a free run of a test record: a posterior to a simulation.
    settings : PartialSettings
        Those of a configuration; the defaults for a case study.
    stream : callable, optional
        Returns how lines of a stream are written; by names of inputs and outputs where left out.
    report, picture : Path, optional
        Files to write.
    """

    name: str
    problem: Problem
    tests: Mapping[str, Record]
    published: Mapping[str, PublishedScore]
    steps: int | str
    truth: Mapping[str, float] = field(default_factory=dict)
    test_observes: str | None = None
    test_noise: float = 0.0
    alike: bool = False
    note: str = ""
    order: int = 3
    split: str = PAPER
    initialise: int = 0
    protocols: Mapping[str, Callable[[Posterior], Simulation]] = field(default_factory=dict)
    settings: PartialSettings = field(default_factory=PartialSettings)
    stream: Callable[[], StreamFormat] | None = None
    report: Path | None = None
    picture: Path | None = None

    @property
    def title(self) -> str:
        """Name for tables and reports."""
        return f"{self.name}, {self.split} split" if self.split else self.name

    def solver(
        self,
        likelihood: str | None = None,
        order: int | None = None,
        steps: int | str | None = None,
        kind: str | None = None,
    ) -> Solver:
        """Return the case's solver, or the one that goes with a likelihood.

        Where neither is named, nor a number of steps, it is the one that `identify` chooses.

        ``order`` and ``steps`` are in place of the solver's; ``kind`` is the name of another
        solver, or ``"auto"``.
        """
        changes = {name: v for name, v in {"order": order, "steps": steps}.items() if v is not None}
        if kind is not None:
            return solver_with(solver_named(kind, self.problem, likelihood), **changes)
        chosen = self.settings.solver
        if chosen is not None:
            own = likelihood in (None, self.settings.likelihood)
            return solver_with(
                chosen if own else default_solver(self.problem, likelihood), **changes
            )
        if self.steps == "auto" and likelihood is None:
            solver = choose_solver(self.problem).solver
        else:
            solver = solver_with(default_solver(self.problem, likelihood), steps=self.steps)
        if solver.likelihood == "marginal":
            solver = solver_with(solver, order=self.order)
        return solver_with(solver, **changes)

    def asked(
        self,
        *,
        order: int | None = None,
        steps: int | str | None = None,
        solver: str | None = None,
        **options: Any,
    ) -> PartialSettings:
        """Return the settings of the case, with the options of a command where they are given.

        Options are of `smcpn.identify`; None leaves one to the case.
        """
        chosen = self.solver(options.get("likelihood"), order, steps, solver)
        return self.settings.with_options(**{**options, "solver": chosen})

    def simulations(
        self,
        posterior: Posterior,
        simulate: Callable[..., Simulation] | None = None,
        particles: int | None = None,
    ) -> dict[str, Simulation]:
        """Simulate every test with a posterior of the problem, by name.

        ``simulate`` is in place of its own, such as that of `Posterior.robust`; ``particles`` is of
        free runs, as of `Posterior.simulate`.
        """
        run_freely = partial(
            simulate or posterior.simulate,
            observe=self.test_observes,
            initialise=self.initialise,
            like=self.problem.records[0] if self.alike else None,
            particles=particles,
        )
        free_runs = {name: run_freely(record) for name, record in self.tests.items()}
        if self.test_noise:
            own = self.test_noise**2
            free_runs = {
                n: run.with_noise(run.noise_variance + own) for n, run in free_runs.items()
            }
        return free_runs | {name: run(posterior) for name, run in self.protocols.items()}
