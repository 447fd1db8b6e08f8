"""The result of `smcpn.identify`, a `Posterior`, and what its `robust` returns, a `Robust`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.base.arguments import Count, FileName, Index, Seed, checked
from smcpn.base.late_binding import late_bound
from smcpn.base.tables import Card, Column, Table, WithCard, fact_lines, table_text, words
from smcpn.errors import InputError
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.record import Record
from smcpn.results.draws import WeightedDraws
from smcpn.results.exports.arviz import to_arviz
from smcpn.results.exports.export import ModelExport
from smcpn.results.simulation.closed_loop import predict_particles
from smcpn.results.simulation.filtered import StateFilter
from smcpn.results.simulation.initialisation import simulate_started
from smcpn.results.simulation.simulation import Simulation, simulate_particles
from smcpn.results.simulation.states import States, states_of_particles
from smcpn.results.summary import shortened
from smcpn.results.validation import Validation, frequency_response, validate
from smcpn.results.validation.innovations import Innovations, innovations
from smcpn.results.validation.residuals import ResidualLevel, residual_level
from smcpn.results.validation.sandwich import ALARM, Sandwich, sandwich
from smcpn.smc.tempering import at_power

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

AT_THE_END = (
    "There is a posterior of the whole record only: method='ibis' shows it after every sample."
)
"""Sentence on a run that has no path over the samples."""
NOTABLE = 2.0
"""Factor between robust and plain standard deviation that is remarked on."""
DRAWN = 8
"""Parameters up to which a notebook shows their densities."""


@checked
@dataclass(frozen=True, repr=False)
class Posterior(WeightedDraws, ModelExport):
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
            Measured as the problem observes.
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
        extended Kalman filter and its smoother (`smcpn.results.simulation.states`), or from the
        paths of the particle filter where that is the likelihood.

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
        """Export to ArviZ as an equally weighted sample; see `smcpn.results.exports.arviz`."""
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
        rises and falls (`smcpn.results.validation.sandwich`). The posterior of `Robust` weighs
        the likelihood by the effective number of samples, by an exact run from these particles.

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
        """Figure of the parameters, or of the prediction where none has a density."""
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
            `smcpn.results.validation.reweighting.compare_likelihoods`.
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


@checked
@dataclass(frozen=True, repr=False)
class Robust(WithCard):
    """Standard deviations that hold for errors that hang together, and a posterior as wide.

    Attributes
    ----------
    names : tuple of str
    mean, plain_sd : mapping of str to float
        Of the posterior, which takes the noise as white.
    factor : mapping of str to float
        Robust over plain standard deviation, by `smcpn.results.validation.sandwich`; 1 for what
        is not judged.
    covariance : ndarray, (d, d)
        The sandwich, of the unconstrained coordinates.
    not_judged : tuple of str
        Parameters known from too few samples, such as an initial state: the plain sd stays.
    learning_rate : float
        Power of the likelihood in `posterior`. The mean over directions of the ratio of sandwich to
        plain variance is its inverse, so that over the record the parameters' part of the band of
        predictions is as wide as the sandwich makes it.
    drift_p : float
        p-value of parameters that are the same in all parts of the record. From a quarter on
        standard deviations stay what they are.
    degrees_of_freedom : float
        Of Student's t, by which standard deviations are widened where the record is few lengths
        of correlation of its outputs long: `sd` times 1.96 is half the 95 % interval.
    samples : int
        Measured samples of all records.
    posterior : Posterior
        Particles of prior x likelihood^learning_rate, to simulate and draw with. One power serves
        all directions: single standard deviations are those of `sd`.
    levels : tuple of ResidualLevel
        Variance of the residuals by amplitude, of each output; none where noise is not Gaussian.
    """

    names: tuple[str, ...]
    mean: dict[str, float]
    plain_sd: dict[str, float]
    factor: dict[str, float]
    covariance: Array = field(repr=False)
    not_judged: tuple[str, ...]
    learning_rate: float
    drift_p: float
    degrees_of_freedom: float
    samples: int
    posterior: Posterior = field(repr=False)
    levels: tuple[ResidualLevel, ...] = field(repr=False)

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
        """Simulate a record with every particle of `posterior`; parameters as of its `simulate`.

        The noise in the band is that of the residuals learned from, where the output had the same
        amplitude, and nowhere less than the noise of the posterior.
        """
        run = self.posterior.simulate(
            record, observe=observe, steps=steps, initialise=initialise, like=like,
            particles=particles,
        )  # fmt: skip
        if observe is not None or not self.levels or not record.n_outputs:
            return run
        residual = np.column_stack([one.at(run.mean[:, j]) for j, one in enumerate(self.levels)])
        return run.with_noise(np.maximum(residual, run.noise_variance))

    @override
    def card(self) -> Card:
        ode = self.posterior.problem.ode
        notes = [f"{self.effective}, learning rate {self.learning_rate:.3g}"]
        title = f"Robust posterior of '{ode.name}'"
        return Card(replace(shortened(self.as_table(), ode), title=title, notes=notes))

    @override
    def picture(self) -> Figure | None:
        return self.posterior.picture()

    @property
    def sd(self) -> dict[str, float]:
        """Robust standard deviation of each parameter."""
        robust = [self.factor[name] * self.plain_sd[name] for name in self.names]
        return self.posterior.problem.by_name(robust, 0.0)

    @property
    def n_effective(self) -> float:
        """Uncorrelated samples that would tell as much as those measured."""
        return self.learning_rate * self.samples

    @property
    def remark(self) -> str:
        """Sentence where robust and plain sd differ by more than a factor of two, else ""."""
        other = {n: f for n, f in self.factor.items() if not 1 / NOTABLE <= f <= NOTABLE}
        if not other:
            return ""
        listed = ", ".join(f"{name} {value:.2g}" for name, value in other.items())
        return (
            f"parts of the record ask for other parameters than the whole (p = {self.drift_p:.1g}):"
            f" the model misses something, and standard deviations are these times those above: "
            f"{listed}"
        )

    @property
    def effective(self) -> str:
        """Effective number of samples as text."""
        return f"{self.n_effective:.0f} of {self.samples} samples"

    @property
    def drift(self) -> str:
        """Test of parameters that are the same in all parts of the record, as text."""
        if np.isnan(self.drift_p):
            return "not tested: too few samples for so many parameters"
        told = f"p = {self.drift_p:.2g} of parameters that are the same all along the record"
        if not self.drift_p < ALARM:
            return f"{told}: standard deviations stay"
        return f"{told}; Student's t of {self.degrees_of_freedom:.3g} degrees of freedom"

    def as_table(self) -> Table:
        """Return mean, sd and robust sd of each parameter as a table, and what is not judged."""
        columns = (
            words("parameter"), Column("mean", ".5g"), Column("sd", ".2g"),
            Column("robust sd", ".2g"), Column("factor", ".2f"), words(),
        )  # fmt: skip
        rows = [
            [name, self.mean[name], self.plain_sd[name], sd, self.factor[name],
             "not judged" if name in self.not_judged else ""]
            for name, sd in self.sd.items()
        ]  # fmt: skip
        return Table(columns, rows)

    def rows(self) -> list[list[str]]:
        """Name, mean, plain and robust sd, their ratio, and what is not judged, as text."""
        return self.as_table().cells

    def summary(self) -> str:
        """Table of plain and robust standard deviations, and the figures, as text."""
        facts = [
            ("effective", f"{self.effective}, learning rate {self.learning_rate:.3g}"),
            ("drift", self.drift),
        ]
        if self.not_judged:
            told = f"{', '.join(self.not_judged)}: known from too few samples"
            facts.append(("not judged", told))
        return "\n".join(
            [table_text(self.as_table()), "", *fact_lines(facts, filter(None, [self.remark]))]
        )


def _innovations(posterior: Posterior) -> tuple[Innovations, ...]:
    """Innovations at the posterior centre; none of noise with a density."""
    problem = posterior.problem
    if problem.model.density is not None:
        return ()
    centre = problem.prior.natural((posterior.weights @ posterior.theta)[None, :])[0]
    return innovations(problem, posterior.solver, centre, None, posterior.likelihood)


def _levels(posterior: Posterior) -> tuple[ResidualLevel, ...]:
    parts = _innovations(posterior)
    return tuple(
        residual_level(
            [part.mean[:, j] for part in parts],
            [part.record.y[:, j] - part.mean[:, j] for part in parts],
        )
        for j in range(len(posterior.problem.observe) if parts else 0)
    )


def robust_of(posterior: Posterior, threads: int | None, seed: int) -> Robust:
    """Return the sandwich of a posterior, and particles of its likelihood at a learning rate."""
    found = posterior.sandwich
    problem, names = posterior.problem, posterior.names
    weighed = posterior
    if found.learning_rate < 1.0:
        likelihood = build_likelihood(problem, posterior.solver, threads, posterior.likelihood)
        populations = at_power(
            problem.prior, likelihood, found.learning_rate, posterior.theta,
            posterior.log_weights, np.random.default_rng(seed),
        )  # fmt: skip
        weighed = replace(
            posterior, learning_rate=found.learning_rate, seed=seed, **vars(populations)
        )
    measured = [np.isfinite(record.y).any(axis=1) for record in problem.records]
    return Robust(
        names=names,
        mean=posterior.mean,
        plain_sd=posterior.sd,
        factor=dict(zip(names, found.factor.tolist(), strict=True)),
        covariance=found.covariance,
        not_judged=tuple(n for n, known in zip(names, found.judged, strict=True) if not known),
        learning_rate=found.learning_rate,
        drift_p=found.drift_p,
        degrees_of_freedom=found.degrees_of_freedom,
        samples=int(sum(one.sum() for one in measured)),
        posterior=weighed,
        levels=_levels(posterior),
    )
