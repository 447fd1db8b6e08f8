"""What a run did to get from the prior to the posterior, as data and as one line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MethodRecord:
    """The method of a run, where it began, and how often it weighed the record.

    Attributes
    ----------
    asked, used : str
        The ``method`` of `smcpn.identify`, and the one that ran: they differ for ``"auto"``.
    searches, modes : int
        Searches for a start, and the modes that they found.
    pareto_k : float
        Of the importance weights of the draws from these modes; nan from the prior.
    fallback : str
        Why the run began at the prior although a start was asked for; empty where it did not.
    weighings : float
        Evaluations of the record by all particles: solver steps done, over those of one evaluation
        of all particles with the final steps.
    search_weighings : float
        The same of the searches, derivatives included, and of the choice of steps.
    """

    asked: str
    used: str
    searches: int = 0
    modes: int = 0
    pareto_k: float = float("nan")
    fallback: str = ""
    weighings: float = 0.0
    search_weighings: float = 0.0

    def __str__(self) -> str:
        """One line of a summary."""
        name = self.asked if self.asked == self.used else f"{self.asked}, {self.used}"
        found = f"mixture of {self.modes} modes" if self.modes > 1 else f"{self.modes or 'no'} mode"
        said = [f"{self.searches} searches, {found}"] if self.searches else []
        if self.pareto_k == self.pareto_k:
            said.append(f"Pareto k {self.pareto_k:.2g}")
        if self.fallback:
            said.append(f"from the prior: {self.fallback}")
        said.append(f"{self.weighings:.2g} weighings of the record")
        if self.search_weighings:
            said.append(f"searches worth {self.search_weighings:.2g}")
        return f"{name}: {', '.join(said)}"
