"""What makes a case study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from smcpn.problem import Problem
from smcpn.record import Record


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
    """

    name: str
    problem: Problem
    tests: Mapping[str, Record]
    published: Mapping[str, PublishedScore]
    steps: int
    truth: Mapping[str, float] = field(default_factory=dict)
    test_observes: str | None = None
    note: str = ""
