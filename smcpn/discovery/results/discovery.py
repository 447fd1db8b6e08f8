"""What `smcpn.discover` returns: models with probabilities, and coefficients averaged over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import Count, Index, Seed, check_fields, checked
from smcpn.card import Card, WithCard
from smcpn.columns import counted
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.results.forecast import forecast
from smcpn.discovery.results.models import DiscoveredModel, ModelTable
from smcpn.discovery.results.notation import as_probability
from smcpn.discovery.results.peers import PEERS, PeerTable
from smcpn.discovery.results.printed import (
    averaged_equations,
    equation_lines,
    equations_of_model,
    output_names,
    summary,
)
from smcpn.discovery.results.residuals import verdict_of
from smcpn.discovery.shrinkage.posterior import ShrunkPosterior
from smcpn.errors import InputError, one_of, whole_number
from smcpn.late_binding import late_bound
from smcpn.model.ode import ODE
from smcpn.model.record import Record
from smcpn.simulation.particles import Simulation
from smcpn.validation import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

N_DRAWS = 4000
"""Draws over all models that intervals are made of."""


FEW_MODELS = 6
"""Models that a short text lists."""


@dataclass(frozen=True)
class Coefficient:
    """A coefficient averaged over all models, zero in those that do not have it.

    Attributes
    ----------
    mean, sd : float
    lower, upper : float
        Ends of the 95 % interval.
    inclusion : float
        Probability that it is not zero.
    """

    mean: float
    sd: float
    lower: float
    upper: float
    inclusion: float


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Discovery(WithCard):
    """Equations found in data, with the probability of each of their terms.

    Printed, each coefficient has its standard deviation in units of the last digits, and behind
    the term the probability that the equation has it: ``v' = -8.91(4) sin(x) [1.00]``.

    Attributes
    ----------
    system : CandidateSystem
        All that might stand in the equations; its K free `coefficients` have names.
    records : tuple of Record
    observe : ndarray, (q, n)
        Outputs are ``observe @ x`` and noise.
    models : tuple of DiscoveredModel
        The most probable first; printed as a table.
    probabilities : ndarray, (K,)
        That a coefficient is not zero.
    noise : ndarray, (q,)
        Standard deviation of the noise of each output.
    path : ndarray, (T, n)
        States of the most probable model, all records one after the other.
    settings : mapping of str to object
        Method, prior, seed and the like, for reports.
    warnings : tuple of str
        What is doubtful, one sentence each.
    posterior : ShrunkPosterior, optional
        With a prior that shrinks: weighted draws of coefficients, initial states and noise.

    Examples
    --------
    >>> print(found)  # doctest: +SKIP
    >>> found.inclusion["v'[sin(x)]"], found.ode()  # doctest: +SKIP
    """

    system: CandidateSystem = field(repr=False)
    records: tuple[Record, ...] = field(repr=False)
    observe: Array = field(repr=False)
    models: tuple[DiscoveredModel, ...]
    probabilities: Array
    noise: Array
    path: Array = field(repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    warnings: tuple[str, ...] = ()
    posterior: ShrunkPosterior | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_fields(self, *type(self).__dataclass_fields__)
        if not self.models:
            raise InputError("models is empty: give at least one model", argument="models")
        object.__setattr__(self, "models", ModelTable(self.models))

    def __str__(self) -> str:
        return summary(self)

    def card(self) -> Card:
        """See `WithCard.card`."""
        rows = [["model", "probability", "terms"], *(
            [str(k), as_probability(model.probability), str(len(model.names))]
            for k, model in enumerate(self.models[:FEW_MODELS])
        )]  # fmt: skip
        doubts = [f"warning: {one}" for one in self.warnings]
        lines = equation_lines(self)
        return Card(f"Discovery from {counted(len(self.records), 'record')}", rows,
                    [*lines, *doubts, "all of it: print(found)"],
                    self.verdict.lines)  # fmt: skip

    @property
    def verdict(self) -> Verdict:
        """Whether the most probable model is usable, by what it leaves of the data."""
        return verdict_of(self)

    def picture(self) -> Figure | None:
        """See `WithCard.picture`."""
        return self.plot()

    @property
    def inclusion(self) -> dict[str, float]:
        """Probability that a coefficient is not zero, by its name.

        With a shrinkage prior none is: the level of the widest credible interval without zero.
        """
        return dict(zip(self.system.coefficients, self.probabilities.tolist(), strict=True))

    @property
    def measure(self) -> str:
        """What `inclusion` holds: ``"probability"``, or ``"level"`` with a shrinkage prior."""
        return "probability" if self.posterior is None else "level"

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Mean (K,) and covariance (K, K) of the coefficients over all models."""
        if self.posterior is not None:
            weights, drawn = self.posterior.weights, self.posterior.coefficients
            away = drawn - weights @ drawn
            return weights @ drawn, (away * weights[:, None]).T @ away
        size = len(self.system.coefficients)
        mean, square = np.zeros(size), np.zeros((size, size))
        total = sum(model.probability for model in self.models)
        for model in self.models:
            weight = model.probability / total
            mean[model.support] += weight * model.mean
            square[np.ix_(model.support, model.support)] += weight * model.covariance
        for model in self.models:
            away = -mean
            away[model.support] += model.mean
            square += model.probability / total * np.outer(away, away)
        return mean, square

    @cached_property
    def coefficients(self) -> dict[str, Coefficient]:
        """Coefficients averaged over all models, by name; intervals from `N_DRAWS` draws."""
        mean, covariance = self.moments
        sd = np.sqrt(np.diag(covariance))
        lower, upper = np.quantile(self.draws(N_DRAWS, seed=0), [0.025, 0.975], axis=0)
        return {
            name: Coefficient(float(mean[k]), float(sd[k]), float(lower[k]), float(upper[k]), p)
            for k, (name, p) in enumerate(self.inclusion.items())
        }

    @property
    def outputs(self) -> tuple[str, ...]:
        """What each output measures: a state, or a sum of states."""
        return output_names(self.observe, self.system.candidates.states)

    @property
    def paths(self) -> tuple[Array, ...]:
        """Path (T, n) of the states in each record."""
        ends = np.cumsum([len(record) for record in self.records])
        return tuple(np.split(self.path, ends[:-1]))

    def draws(self, n: Count = 1000, seed: Seed = 0) -> Array:
        """Draw coefficients (n, K) from the posterior over all models, zeros where absent."""
        if self.posterior is not None:
            return self.posterior.coefficients[self.posterior.chosen(n, seed)]
        rng = np.random.default_rng(seed)
        weights = np.array([model.probability for model in self.models])
        chosen = rng.choice(len(weights), size=n, p=weights / weights.sum())
        result = np.zeros((n, len(self.system.coefficients)))
        for k, model in enumerate(self.models):
            rows = np.flatnonzero(chosen == k)
            if len(rows) and len(model.mean):
                drawn = rng.multivariate_normal(
                    model.mean, model.covariance, size=len(rows), method="eigh"
                )
                result[np.ix_(rows, np.flatnonzero(model.support))] = drawn
        return result

    def with_posterior(self, posterior: ShrunkPosterior) -> Discovery:
        """Return the discovery with coefficients and levels from a posterior by draws."""
        return replace(
            self,
            models=(posterior.model,),
            probabilities=posterior.level,
            noise=posterior.weights @ posterior.noise,
            warnings=(*self.warnings, *posterior.warnings),
            posterior=posterior,
        )

    def with_doubt(self, adequacy: float) -> Discovery:
        """Return the discovery with a probability (0 to 1) that the library holds the truth.

        By it those of all models are multiplied; those of terms stay what they are if it does.
        """
        models = (replace(one, probability=adequacy * one.probability) for one in self.models)
        return replace(self, models=tuple(models))

    def ode(self, rank: Index = 0) -> ODE:
        """Make the equation of a model, with its posterior means as defaults.

        Its parameters are the coefficients of the model, for `smcpn.Problem`, `smcpn.identify` and
        `smcpn.simulate`.

        Parameters
        ----------
        rank : int
            0 for the most probable model.

        Raises
        ------
        InputError
            If there are fewer models.
        """
        model = self.models[whole_number("rank", rank, 0, len(self.models) - 1)]
        values = dict(zip(model.names, model.mean.tolist(), strict=True))
        return self.system.equation(model.support, values)

    def equations(self, rank: Index | None = None) -> list[str]:
        """Write the equation of each state.

        Parameters
        ----------
        rank : int, optional
            Of the model, 0 for the most probable one. By default coefficients are averaged over
            all models, and each term has its probability behind it.

        Raises
        ------
        InputError
            If there are fewer models.
        """
        if rank is None:
            return averaged_equations(self)
        return equations_of_model(self, whole_number("rank", rank, 0, len(self.models) - 1))

    def simulate(
        self,
        record: Record,
        *,
        draws: Count = 100,
        initial: Mapping[str, float] | Sequence[float] | None = None,
        initialise: Count | None = None,
        seed: Seed = 0,
    ) -> Simulation:
        """Simulate a record with draws over models, coefficients and initial states.

        A free run: the input goes in, the outputs only find the initial state. Draws that leave
        the range of the data or diverge, as wrong models may, are left out; ``diverged`` of the
        result says how large their share is.

        Parameters
        ----------
        record : Record
            With the inputs and outputs of those learned from.
        draws : int
        initial : mapping or sequence of float, optional
            State at the first sample. By default each draw has the one that fits the first samples
            of the record best, and a draw of what the noise leaves unknown about it; of a record
            learned from that which was drawn with its coefficients, with a prior that shrinks.
        initialise : int, optional
            How many samples these are; they are not compared. By default enough for the outputs to
            vary by half as much as in all of the record.
        seed : int

        Raises
        ------
        InputError
            If the record does not fit, or no draw stays in the range of the data.

        Examples
        --------
        >>> found.simulate(test).plot().savefig("test.png")  # doctest: +SKIP
        """
        return forecast(self, record, draws, initial, initialise, seed)

    def compare(self, peer: str = "pysindy") -> PeerTable:
        """Return the coefficients beside those that another package finds in the same records.

        Parameters
        ----------
        peer : {"pysindy"}
            Its optimizers on its derivatives of the data, with the same terms and known parts.

        Raises
        ------
        InputError
            If the package is not installed, or cannot handle the records.
        """
        return PEERS[one_of("peer", peer, PEERS)](self)

    @late_bound
    def plot(self) -> Figure:
        """Plot the data and the path of the most probable model, a column for each record."""
        ...

    @late_bound
    def plot_inclusion(self) -> Figure:
        """Plot the probability of each term with its coefficient, the most probable first."""
        ...

    @late_bound
    def report(
        self,
        path: str | Path,
        tests: Mapping[str, Record | Simulation] | None = None,
        *,
        title: str = "Equations from data",
        figures: str | Path | None = None,
        progress: bool | None = None,
    ) -> Path:
        """Write one self-contained HTML file: equations, models, figures, residuals, data.

        Curves over time can be zoomed into, down to the samples.

        Parameters
        ----------
        path : str or Path
            The file; an existing one is replaced.
        tests : mapping of str to Record or Simulation, optional
            Simulated and compared, beside the records learned from.
        title : str
        figures : str or Path, optional
            Folder that receives every figure as SVG and PDF too; made where there is none.
        progress : bool, optional
            A line of status on standard error, as of `maximise`.

        Raises
        ------
        InputError
            If the file cannot be written, or a test does not fit.
        """
        ...
