"""Analyses of a maximum and a Laplace approximation, by the methods of a `Posterior`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from smcpn.base.arguments import FileName, checked
from smcpn.errors import InputError
from smcpn.results.exports.export import ModelExport
from smcpn.results.judgement import WithVerdict
from smcpn.results.posterior import Posterior
from smcpn.results.tables import ParameterTable, WithTable

P = ParamSpec("P")
R = TypeVar("R")


def _by_draws(
    method: Callable[Concatenate[Posterior, P], R],
) -> Callable[Concatenate[Analyses, P], R]:
    """Return a method of `Posterior` as one of a result that has draws."""

    @wraps(method)
    def call(self: Analyses, *arguments: P.args, **named: P.kwargs) -> R:
        return method(self.posterior, *arguments, **named)

    return call


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

    to_arviz = _by_draws(Posterior.to_arviz)
    simulate = _by_draws(Posterior.simulate)
    predict = _by_draws(Posterior.predict)
    states = _by_draws(Posterior.states)
    validate = _by_draws(Posterior.validate)
    plot_parameters = _by_draws(Posterior.plot_parameters)
    plot_corner = _by_draws(Posterior.plot_corner)
    plot_prediction = _by_draws(Posterior.plot_prediction)
    plot_innovations = _by_draws(Posterior.plot_innovations)
    plot_frf = _by_draws(Posterior.plot_frf)
    plot_error_budget = _by_draws(Posterior.plot_error_budget)
    report = _by_draws(Posterior.report)
