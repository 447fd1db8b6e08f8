"""Result of `smcpn.discover`: models with probabilities, coefficients averaged over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.arguments import Count, Index, Seed, checked
from smcpn.base.late_binding import late_bound
from smcpn.base.tables import Card, Column, Table, WithCard
from smcpn.discovery.results.forecast import forecast
from smcpn.discovery.results.models import ShrunkPosterior, WeightedModels
from smcpn.discovery.results.notation import as_probability
from smcpn.discovery.results.peers import PEERS, PeerTable
from smcpn.discovery.results.printed import (
    averaged_equations,
    equation_lines,
    equations_of_model,
    summary,
)
from smcpn.discovery.results.residuals import verdict_of
from smcpn.errors import counted, one_of, whole_number
from smcpn.model.ode import ODE
from smcpn.model.record import Record
from smcpn.results.simulation.simulation import Simulation
from smcpn.results.validation import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


FEW_MODELS = 6
"""Models that a short text lists."""


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Discovery(WeightedModels, WithCard):
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
    delay : mapping of str to float
        Dead times of inputs, as they were given; `ode` has the equation alone.

    Examples
    --------
    >>> print(found)  # doctest: +SKIP
    >>> found.inclusion["v'[sin(x)]"], found.ode()  # doctest: +SKIP
    """

    def __str__(self) -> str:
        return summary(self, self.verdict)

    @override
    def card(self) -> Card:
        columns = Column("model"), Column("probability"), Column("terms")
        rows = [
            [k, as_probability(model.probability), len(model.names)]
            for k, model in enumerate(self.models[:FEW_MODELS])
        ]
        doubts = [f"warning: {one}" for one in self.warnings]
        notes = [*equation_lines(self), *doubts, "all of it: print(found)"]
        title = f"Discovery from {counted(len(self.records), 'record')}"
        return Card(Table(columns, rows, title, notes), self.verdict.lines)

    @property
    def verdict(self) -> Verdict:
        """Verdict on the most probable model, by what it leaves of the data."""
        return verdict_of(self)

    @override
    def picture(self) -> Figure | None:
        return self.plot()

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
