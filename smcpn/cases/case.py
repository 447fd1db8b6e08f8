"""What makes a case study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from smcpn.errors import InputError
from smcpn.problem import Problem
from smcpn.record import Record
from smcpn.simulation.particles import Simulation

if TYPE_CHECKING:
    from smcpn.posterior import Posterior

PAPER, OFFICIAL = SPLITS = ("paper", "official")
"""The training and test samples of the PN-SMC paper, or of the benchmark."""


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
    steps : int
        Solver steps per sample where the user names none.
    truth : mapping of str to float
        True parameters, of simulated systems.
    test_observes : str, optional
        What the tests measure, where that is not what the training record does.
    note : str
        Where the data come from.
    order : int
        Order of the solver's prior where the user names none.
    split : str
        One of `SPLITS`.
    initialise : int
        First samples of each test that tell its initial state and are not compared.
    protocols : mapping of str to callable
        Scores that are not a free run of a test record: a posterior to a simulation.
    """

    name: str
    problem: Problem
    tests: Mapping[str, Record]
    published: Mapping[str, PublishedScore]
    steps: int
    truth: Mapping[str, float] = field(default_factory=dict)
    test_observes: str | None = None
    note: str = ""
    order: int = 3
    split: str = PAPER
    initialise: int = 0
    protocols: Mapping[str, Callable[[Posterior], Simulation]] = field(default_factory=dict)

    def simulations(self, posterior: Posterior) -> dict[str, Simulation]:
        """Simulate every test with a posterior of the problem, by name."""
        free_runs = {
            name: posterior.simulate(record, observe=self.test_observes, initialise=self.initialise)
            for name, record in self.tests.items()
        }
        return free_runs | {name: run(posterior) for name, run in self.protocols.items()}


def check_split(split: str) -> None:
    """Refuse a split that no case has.

    Raises
    ------
    InputError
        Naming those there are.
    """
    if split not in SPLITS:
        raise InputError(f"split is '{split}': choose one of {', '.join(SPLITS)}")
