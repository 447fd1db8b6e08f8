"""Analyses of a maximum and a Laplace approximation: simulation, plots, report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smcpn.arguments import Count, FileName, Index, Seed, checked
from smcpn.errors import InputError
from smcpn.model.record import Record
from smcpn.results.export import ModelExport
from smcpn.results.judgement import WithVerdict
from smcpn.results.posterior import Posterior
from smcpn.results.tables import ParameterTable, WithTable
from smcpn.simulation.closed_loop import StateFilter
from smcpn.simulation.simulation import Simulation
from smcpn.simulation.states import States
from smcpn.validation import Validation

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@checked
class Analyses(WithTable, ModelExport, WithVerdict):
    """A result that does what a `Posterior` does, by its `posterior`: one draw, or many."""

    @cached_property
    def posterior(self) -> Posterior:
        """The draws that all of this is done with, made once."""
        return self._drawn()

    @abstractmethod
    def _drawn(self) -> Posterior:
        """Make these draws."""

    def _particles(self) -> Posterior:
        return self.posterior

    def table(self) -> ParameterTable:
        """The parameter table as data, as of a `Posterior`."""
        return self.posterior.table()

    def to_dataframe(self, backend: str = "pandas") -> Any:
        """Return its draws as a dataframe; see `WithTable.to_dataframe`."""
        return self.posterior.to_dataframe(backend)

    def to_arviz(self, seed: Seed = 0) -> Any:
        """Export its draws to ArviZ; see `Posterior.to_arviz`."""
        return self.posterior.to_arviz(seed)

    def save(self, path: FileName) -> Path:
        """Refuse: a search has no file of its own.

        Raises
        ------
        InputError
            Always; it says what to save in its place.
        """
        raise InputError(
            f"a {type(self).__name__} has no file of its own: save its draws as a posterior, "
            "result.to_posterior().save(path), or make it again, which takes seconds"
        )

    def simulate(self, record: Record, **options: Any) -> Simulation:
        """Simulate a record; arguments as of `Posterior.simulate`."""
        return self.posterior.simulate(record, **options)

    def predict(
        self, record: Record, horizon: Count = 1, filter: StateFilter | None = None, **options: Any
    ) -> Simulation:
        """Predict up to ``horizon`` samples ahead; arguments as of `Posterior.predict`."""
        return self.posterior.predict(record, horizon, filter, **options)

    def states(self, record: Record | None = None, **options: Any) -> States:
        """Filter and smooth the states of a record; arguments as of `Posterior.states`."""
        return self.posterior.states(record, **options)

    def validate(self, record: Record | None = None) -> Validation:
        """Test innovations, frequency response and steps; see `Posterior.validate`."""
        return self.posterior.validate(record)

    def plot_parameters(self, truth: Mapping[str, Any] | None = None) -> Figure:
        """Plot prior against posterior; see `Posterior.plot_parameters`."""
        return self.posterior.plot_parameters(truth)

    def plot_corner(self, truth: Mapping[str, Any] | None = None) -> Figure:
        """Plot every pair of parameters."""
        return self.posterior.plot_corner(truth)

    def plot_prediction(
        self, record: Record, observe: Any = None, output: Index | None = None
    ) -> Figure:
        """Plot measured against simulated; arguments as of `Posterior.plot_prediction`."""
        return self.posterior.plot_prediction(record, observe, output)

    def plot_innovations(self, output: Index = 0) -> Figure:
        """Plot the normalised innovations of the records learned from, and their correlations."""
        return self.posterior.plot_innovations(output)

    def plot_frf(
        self, record: Record | None = None, observe: Any = None, output: Index = 0
    ) -> Figure:
        """Plot the frequency response of a record and of its simulation."""
        return self.posterior.plot_frf(record, observe, output)

    def plot_error_budget(self, output: Index = 0) -> Figure:
        """Plot the solver's share of the innovation variance, and what finer steps change."""
        return self.posterior.plot_error_budget(output)

    def report(
        self,
        path: str | Path,
        tests: Record | Sequence[Record] | Mapping[str, Record | Simulation] | None = None,
        **options: Any,
    ) -> Path:
        """Write one self-contained HTML file; arguments as of `Posterior.report`."""
        return self.posterior.report(path, tests, **options)
