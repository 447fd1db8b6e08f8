"""The result of `smcpn.identify`: a `Posterior`, its simulations, validation, figures, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smcpn.arguments import Count, FileName, Index, Seed, checked
from smcpn.errors import InputError
from smcpn.interop.arviz import to_arviz
from smcpn.late_binding import late_bound
from smcpn.model.record import Record
from smcpn.results.draws import WeightedDraws
from smcpn.results.handed_over import HandedOver
from smcpn.results.robust import Robust, robust_of
from smcpn.simulation.initialisation import simulate_started
from smcpn.simulation.particles import Simulation, simulate_particles
from smcpn.simulation.sampled import StateFilter, predict_particles
from smcpn.simulation.states import States, states_of_particles
from smcpn.validation import Validation, frequency_response, validate
from smcpn.validation.sandwich import Sandwich, sandwich

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AT_THE_END = (
    "There is a posterior of the whole record only: method='ibis' shows it after every sample."
)
"""Sentence on a run that has no path over the samples."""
DRAWN = 8
"""Parameters up to which a notebook shows their densities."""


@checked
@dataclass(frozen=True, repr=False)
class Posterior(WeightedDraws, HandedOver):
    """The posterior of an identification as weighted particles.

    Each particle has a value of every unknown parameter, and its weight is its share of the
    probability. ``posterior["k"]`` are the values of one parameter, `mean`, `sd` and `quantile`
    summarise them, `simulate` and `predict` apply them to other records.

    Attributes
    ----------
    problem : Problem
    solver : EKF0, EKF1 or RK4
        As it ran, its steps resolved.
    theta : ndarray, (N, d)
        Unconstrained coordinates.
    log_weights : ndarray, (N,)
    log_likelihood : ndarray, (N,)
    ancestor : ndarray, (N,)
        Ancestor of each particle at the start.
    log_evidence : float
        log p(y) under the model.
    path_samples : ndarray, (K,)
        Numbers of samples assimilated at which the paths are known: all up to 4096 samples, every
        second, fourth, ... in longer records, and the last.
    ess_path, log_evidence_path : ndarray, (K,)
        After each of these: effective sample size before any rejuvenation, and log-evidence.
    rejuvenations : tuple of Rejuvenation
    shift : DiscretisationShift or None
        Shift of the posterior when its solver is made twice as fine, in posterior sd; None where
        it was not measured.
    timing : Timing
    seed : int or None
    log_evidence_se : float
        Standard error of ``log_evidence``: from the ancestry of the particles, or from the
        spread of the replicates.
    log_evidences : ndarray, (R,)
        Of each replicate.
    replicate : ndarray, (N,)
        Number of the population of each particle.
    r_hat : ndarray, (d,)
        Potential scale reduction over replicates; nan for one.
    warnings : tuple of str
        Problems found in the run, one sentence each.
    likelihood : str or None
        Name of the likelihood; None for the solver's default.
    learning_rate : float
        Power of the likelihood in this posterior: 1 but in that of `robust`.
    method : MethodRecord or None
        How the run got here; None for particles that `identify` did not make.

    Examples
    --------
    >>> posterior.mean["k"], posterior.quantile("k", [0.025, 0.975])  # doctest: +SKIP
    >>> posterior.simulate(test).coverage  # doctest: +SKIP
    """

    def simulate(
        self,
        record: Record,
        *,
        observe: Any = None,
        steps: int | str = "auto",
        initialise: Index = 0,
        like: Record | None = None,
        particles: Count | None = None,
    ) -> Simulation:
        """Simulate a record with every particle, by Runge-Kutta at a fine step.

        This is a free run: the input and the initial state go in, the outputs only compare. Its
        band counts parameters, process noise, measurement noise and the error of the simulation's
        own step. For a run that the measured outputs correct on the way see `predict`.

        Parameters
        ----------
        record : Record
            Its hold defines the input between samples; the initial state is that of the
            problem. Samples whose y is NaN are simulated but not compared.
        observe : str, callable, or sequence of these, optional
            What the record measures, where that is not what the problem observes. The band then
            counts no measurement noise.
        steps : int or "auto"
            Steps per sample; ``"auto"`` doubles until the outputs settle.
        initialise : int
            Samples at the start from which every particle finds its initial state by least
            squares; they are not compared. With 0 the initial state is that of the problem.
        like : Record, optional
            The record learned from whose initial state this one shares, where these differ.
        particles : int, optional
            So many of equal weight, drawn from all by their weights, where a long record would
            take its time with all.

        Raises
        ------
        InputError
            If the record does not have the inputs of the model, or ``initialise`` is too small.
        """
        values, weights = self.chosen(particles)
        if initialise:
            run = simulate_started(
                self.problem, record, values, weights, initialise,
                observe, steps, self.step_length,
            )  # fmt: skip
        else:
            run = simulate_particles(
                self.problem, record, values, weights, observe, steps,
                step_length=self.step_length, like=like,
            )  # fmt: skip
        return replace(run, warnings=run.warnings + self._beyond(record, initialise, like))

    def predict(
        self,
        record: Record,
        horizon: Count = 1,
        filter: StateFilter | None = None,
        *,
        like: Record | None = None,
    ) -> Simulation:
        """Predict up to ``horizon`` samples ahead, over windows that begin at a filtered state.

        At samples 0, k, 2 k, ... the run takes the state of an extended Kalman filter, which has
        seen the outputs up to that sample and none after it; in between it runs on the input
        alone. All samples count, so the errors are those of horizons 1 to k, each as often. The
        filter is that of the problem's process noise, whose share is in the band. Without process
        noise the user gives the disturbance that the model lacks as ``filter``.

        Parameters
        ----------
        record : Record
            Measured as the problem observes; with ``filter`` uniformly sampled, of one output.
        horizon : int
            k, samples.
        filter : StateFilter, optional
            Only where the problem has no process noise.
        like : Record, optional
            The record learned from whose initial state this one shares, where these differ.

        Raises
        ------
        InputError
            If the record does not fit, the horizon is not positive, or a filter is given although
            the problem has process noise, or is lacking.

        Examples
        --------
        >>> posterior.predict(test).coverage  # doctest: +SKIP
        >>> posterior.predict(test, 100, smcpn.StateFilter(  # doctest: +SKIP
        ...     sensor=1e-3, disturbance=(0.0, 0.1), initial=(0.01, 1.0)))
        """
        return predict_particles(
            self.problem, record, self.values, self.weights, horizon, filter,
            self.step_length, like=like,
        )  # fmt: skip

    def states(
        self,
        record: Record | None = None,
        *,
        draws: Index = 0,
        parameters: Count = 100,
        seed: Seed = 0,
        like: Record | None = None,
    ) -> States:
        """Filter and smooth the states of a record: means, bands and draws given its outputs.

        The result counts the process noise and the posterior of the parameters. It comes from the
        extended Kalman filter and its smoother (`smcpn.simulation.smoother`), or from the paths of
        the particle filter where that is the likelihood.

        Parameters
        ----------
        record : Record, optional
            Measured as the problem observes; by default the first one learned from.
        draws : int
            Paths to draw from the joint distribution of all states.
        parameters : int
            Parameter vectors to draw from the posterior, over which the result is a mixture.
        seed : int
            Of both.
        like : Record, optional
            The record learned from whose initial state this one shares, where these differ.

        Raises
        ------
        InputError
            If the problem has no process noise, or the record does not fit.

        Examples
        --------
        >>> states = posterior.states(draws=20)  # doctest: +SKIP
        >>> states.plot().savefig("states.png")  # doctest: +SKIP
        """
        chosen = self.problem.records[0] if record is None else record
        return states_of_particles(
            self.problem, self.solver, self.likelihood, chosen, self.values, self.weights,
            draws=draws, parameters=parameters, seed=seed, like=like,
        )  # fmt: skip

    def to_arviz(self, seed: Seed = 0) -> Any:
        """Export to ArviZ as an equally weighted sample; see `smcpn.interop.arviz.to_arviz`."""
        return to_arviz(self, self.problem, seed)

    @late_bound
    def save(self, path: FileName) -> Path:
        """Write everything of this posterior to an HDF5 file, and return its path.

        `smcpn.load` reads it, in any process: the problem with its records is in the file, as plain
        data. An existing file of a posterior is replaced and kept as ``p.h5.previous``. It is a
        result, of which no run goes on; that is ``identify(..., checkpoint=path)``.

        Raises
        ------
        InputError
            If the file cannot be written or is another's, or the problem cannot be stored, as with
            a prior of your own class.

        Examples
        --------
        >>> posterior.save("p.h5")  # doctest: +SKIP
        >>> smcpn.load("p.h5").summary()  # doctest: +SKIP
        """
        ...

    def _particles(self) -> Posterior:
        return self

    def validate(self, record: Record | None = None) -> Validation:
        """Test the posterior: innovations, frequency response, error budget, ridges, verdict.

        Parameters
        ----------
        record : Record, optional
            Measured as the problem observes; by default the records learned from.

        Raises
        ------
        InputError
            If the record does not fit the problem, or this is the posterior of a `Robust`.
        """
        return self._validation if record is None else self._validated(record)

    @cached_property
    def _validation(self) -> Validation:
        """Validation on the records of the identification."""
        return self._validated(None)

    def _validated(self, record: Record | None) -> Validation:
        if self.learning_rate != 1.0:
            raise InputError(
                f"the likelihood of this posterior has the power {self.learning_rate:.3g}: "
                "validate the posterior whose robust() it is from"
            )
        return validate(
            self.problem, self.solver, self.likelihood,
            self.theta, self.log_weights, self.shift, record,
        )  # fmt: skip

    def robust(self, *, seed: Seed = 0, threads: Count | None = None) -> Robust:
        """Return standard deviations and a posterior that are true under a model a little wrong.

        A posterior takes what the model leaves as white noise. Where it is not, the mean scatters
        by more than the posterior's standard deviation says. Whether it does is tested: where the
        parameters are the same in all parts of the record, standard deviations stay. Elsewhere
        they follow from the sums of the scores over blocks of the record: Godambe's sandwich
        covariance, with Student's t of as few degrees of freedom as the amplitude of the outputs
        rises and falls (`smcpn.validation.sandwich`). The posterior of `Robust` weighs the
        likelihood by the effective number of samples, by an exact run from these particles.

        It counts what the errors of the model do on records like this one; of records unlike it,
        larger or faster, no residual of this one tells.

        Parameters
        ----------
        seed : int
            Of the run.
        threads : int, optional
            Threads of the kernel; results do not depend on it.

        Raises
        ------
        InputError
            If there are too few particles to know their slopes from.

        Examples
        --------
        >>> robust = posterior.robust()  # doctest: +SKIP
        >>> robust.sd["k"], robust.posterior.simulate(test).coverage  # doctest: +SKIP
        """
        return robust_of(self, threads, seed)

    @cached_property
    def sandwich(self) -> Sandwich:
        """Godambe's covariance of the unconstrained coordinates, see `robust`."""
        return sandwich(self.problem, self.solver, self.likelihood, self.theta, self.log_weights)

    @late_bound
    def plot_parameters(self, truth: Mapping[str, Any] | None = None) -> Figure:
        """Plot prior against posterior, in units of the ``truth`` where it is known."""
        ...

    def picture(self) -> Figure | None:
        """See `WithCard.picture`: the parameters, or the prediction where none has a density."""
        if set(self.problem.ode.priors) >= set(self.names) or len(self.names) > DRAWN:
            return self.simulate(self.problem.records[0]).picture()
        return self.plot_parameters()

    @late_bound
    def plot_corner(self, truth: Mapping[str, Any] | None = None) -> Figure:
        """Plot every pair of parameters."""
        ...

    @late_bound
    def plot_run(self) -> Figure:
        """Plot effective sample size, rejuvenations and log-evidence over the samples.

        A run that has a posterior at the end only shows its weights and moves instead:
        ``identify(..., method="ibis")`` has one after every sample.
        """
        ...

    @property
    def run_caption(self) -> str:
        """Sentence on the figure of `plot_run`."""
        if len(self.path_samples) > 1:
            return "How the sampler went through the record."
        return f"How the particles got to the posterior. {AT_THE_END}"

    def plot_prediction(
        self, record: Record, observe: Any = None, output: Index | None = None
    ) -> Figure:
        """Plot measured against simulated with a 95 % band; see `simulate`, `Simulation.plot`."""
        return self.simulate(record, observe=observe).plot(output)

    def plot_innovations(self, output: Index = 0) -> Figure:
        """Plot the normalised innovations of the records learned from, and their correlations."""
        return self.validate().plot(output)

    def plot_frf(
        self, record: Record | None = None, observe: Any = None, output: Index = 0
    ) -> Figure:
        """Plot the frequency response of a record and of its simulation.

        Parameters
        ----------
        record : Record, optional
            With one input, sampled uniformly; by default the first one learned from.
        observe : str or callable, optional
            As for `simulate`.

        Raises
        ------
        InputError
            If the record has no frequency response.
        """
        chosen = self.problem.records[0] if record is None else record
        simulated = self.simulate(chosen, observe=observe).mean
        return frequency_response(chosen, simulated, output).plot()

    def plot_error_budget(self, output: Index = 0) -> Figure:
        """Plot the solver's share of the innovation variance, and what finer steps change."""
        return self.validate().plot_error_budget(output)

    @late_bound
    def report(
        self,
        path: str | Path,
        tests: Record | Sequence[Record] | Mapping[str, Record | Simulation] | None = None,
        *,
        observe: Any = None,
        published: Mapping[str, Any] | None = None,
        truth: Mapping[str, Any] | None = None,
        title: str | None = None,
        likelihoods: Sequence[str] = (),
        robust: Robust | None = None,
        figures: str | Path | None = None,
        progress: bool | None = None,
    ) -> Path:
        """Write one self-contained HTML file: tables, scores, figures, validation, settings.

        Curves over time can be zoomed into, down to the samples.

        Parameters
        ----------
        path : str or Path
            The file; an existing one is replaced.
        tests : Record, sequence of Record, or mapping of str to Record or Simulation, optional
            What to score the posterior on; a record is simulated first. By default the records
            learned from, which the report then says.
        observe : object, optional
            What the test records measure, as for `simulate`.
        published : mapping of str to object, optional
            Scores of others by test, with ``rmse_min``, ``rmse_mean`` and ``rmse_max``.
        truth : mapping of str to float, optional
            True parameters, of a simulated system.
        title : str, optional
            By default the name of the model.
        likelihoods : sequence of str, optional
            Names of likelihoods to compare on the records learned from, see
            `smcpn.validation.reweighting.compare_likelihoods`.
        robust : Robust, optional
            What `robust` returned, to show beside.
        figures : str or Path, optional
            Folder that receives every figure as SVG and PDF too; made where there is none.
        progress : bool, optional
            A line of status on standard error, as of `maximise`.

        Returns
        -------
        Path

        Raises
        ------
        InputError
            If the file cannot be written, or a test does not fit the problem.
        """
        ...
