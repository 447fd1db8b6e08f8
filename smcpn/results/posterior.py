"""What an identification returns: a weighted sample of the parameters, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.likelihood.steps import ErrorBudget
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.results.summary import ParameterRow, parameter_rows, summary_text
from smcpn.simulation.initialisation import simulate_started
from smcpn.simulation.particles import Simulation, simulate_particles, starting_like
from smcpn.simulation.windows import StateFilter, WindowPrediction
from smcpn.smc.moves import Rejuvenation
from smcpn.smc.particles import normalise
from smcpn.smc.resampling import systematic
from smcpn.solver import Solver
from smcpn.validation import Validation, frequency_response, validate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Timing:
    """Where the time of a run went, in seconds, and its size."""

    wall: float
    compile: float
    kernel: float
    theta_steps: int


@dataclass(frozen=True)
class Posterior:
    """The posterior of an identification as weighted particles.

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
    budget : ErrorBudget
        Solver error at the posterior mean, in units of the noise variance.
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
        What deserves a second look.
    likelihood : str or None
        Name of the likelihood; None for the one that the solver stands for.
    """

    problem: Problem
    solver: Solver
    theta: Array
    log_weights: Array
    log_likelihood: Array
    ancestor: NDArray[np.int64]
    log_evidence: float
    path_samples: NDArray[np.int64]
    ess_path: Array
    log_evidence_path: Array
    rejuvenations: tuple[Rejuvenation, ...]
    budget: ErrorBudget
    timing: Timing
    seed: int | None = None
    log_evidence_se: float = float("nan")
    log_evidences: Array = field(default_factory=lambda: np.empty(0))
    replicate: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    r_hat: Array = field(default_factory=lambda: np.empty(0))
    warnings: tuple[str, ...] = ()
    likelihood: str | None = None
    _cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names, in the order of the columns of `values`."""
        return self.problem.names

    @property
    def values(self) -> Array:
        """Parameter values of the particles, (N, d)."""
        if "values" not in self._cache:
            self._cache["values"] = self.problem.prior.natural(self.theta)
        return self._cache["values"]

    @property
    def weights(self) -> Array:
        """Normalised weights, (N,)."""
        return normalise(self.log_weights)

    @property
    def mean(self) -> dict[str, float]:
        """Posterior mean of each parameter."""
        return dict(zip(self.names, (self.weights @ self.values).tolist(), strict=True))

    @property
    def sd(self) -> dict[str, float]:
        """Posterior standard deviation of each parameter."""
        weights, values = self.weights, self.values
        variance = weights @ np.square(values - weights @ values)
        return dict(zip(self.names, np.sqrt(variance).tolist(), strict=True))

    @property
    def acceptance(self) -> float:
        """Share of proposals accepted over all rejuvenations; nan without any."""
        proposed = sum(r.evaluations for r in self.rejuvenations)
        accepted = sum(r.accepted for r in self.rejuvenations)
        return accepted / proposed if proposed else float("nan")

    def __getitem__(self, name: str) -> Array:
        """Particle values of one parameter, (N,), to be used with `weights`."""
        if name not in self.names:
            raise InputError(f"no parameter '{name}': choose one of {', '.join(self.names)}")
        return self.values[:, self.names.index(name)]

    def quantile(self, name: str, q: float | list[float]) -> Array:
        """Weighted quantile(s) of a parameter."""
        values = self[name]
        order = np.argsort(values)
        cumulative = np.cumsum(self.weights[order])
        centred = cumulative - 0.5 * self.weights[order]
        return np.asarray(np.interp(q, centred / cumulative[-1], values[order]))

    def resample(self, size: int | None = None, seed: int = 0) -> dict[str, Array]:
        """Draw equally weighted parameter values, one array of ``size`` (N) per name."""
        rng = np.random.default_rng(seed)
        index = rng.permutation(systematic(self.weights, rng, size))
        return {name: self.values[index, j] for j, name in enumerate(self.names)}

    def simulate(
        self,
        record: Record,
        *,
        observe: Any = None,
        steps: int | str = "auto",
        initialise: int = 0,
        like: Record | None = None,
    ) -> Simulation:
        """Simulate a record with every particle, by Runge-Kutta at a fine step.

        This is a free run: the input and the initial state go in, the outputs only compare. Its
        band counts parameters, noise and the error of the simulation's own step. For a run that
        the measured outputs correct on the way see `predict`.

        Parameters
        ----------
        record : Record
            Its hold tells what the input does between samples; the initial state is that of the
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

        Raises
        ------
        InputError
            If the record does not have the inputs of the model, or ``initialise`` is too small.
        """
        if initialise:
            return simulate_started(
                self.problem, record, self.values, self.weights, initialise,
                observe, steps, self._step_length,
            )  # fmt: skip
        return simulate_particles(
            self.problem,
            record,
            self.values,
            self.weights,
            observe,
            steps,
            step_length=self._step_length,
            like=like,
        )

    def predict(
        self, record: Record, horizon: int, filter: StateFilter, *, like: Record | None = None
    ) -> Simulation:
        """Predict up to ``horizon`` samples ahead, over windows that begin at a filtered state.

        At samples 0, k, 2 k, ... the run takes the state of an extended Kalman filter, which has
        seen the outputs up to that sample and none after it; in between it runs on the input
        alone. All samples count, so the errors are those of horizons 1 to k, each as often. The
        filter is not the likelihood's: what disturbs the state beside the model is for the user
        to say.

        Parameters
        ----------
        record : Record
            Uniformly sampled, with one output, measured as the problem observes.
        horizon : int
            k, samples.
        filter : StateFilter
        like : Record, optional
            The record learned from whose initial state this one shares, where these differ.

        Raises
        ------
        InputError
            If the record does not fit, or the horizon is not positive.

        Examples
        --------
        >>> posterior.predict(test, 100, smcpn.StateFilter(  # doctest: +SKIP
        ...     sensor=1e-3, disturbance=(0.0, 0.1), initial=(0.01, 1.0)))
        """
        model = starting_like(self.problem, self.problem.model, record if like is None else like)
        steps = max(1, round(record.interval / self._step_length))
        initial = model.initial_states(self.values)
        simulator = WindowPrediction(model, record, initial, horizon, filter, steps)
        return simulate_particles(
            self.problem, record, self.values, self.weights, simulator=simulator
        )

    @property
    def _step_length(self) -> float:
        """Seconds of a solver step in the identification."""
        return self.problem.records[0].interval / int(self.solver.steps)

    def to_arviz(self, seed: int = 0) -> Any:
        """Export to ArviZ as an equally weighted sample; see `smcpn.interop.arviz.to_arviz`."""
        from smcpn.interop.arviz import to_arviz

        return to_arviz(self, seed)

    def validate(self, record: Record | None = None) -> Validation:
        """Test the posterior: innovations, frequency response, error budget, ridges.

        Parameters
        ----------
        record : Record, optional
            Measured as the problem observes; by default the records learned from.

        Raises
        ------
        InputError
            If the record does not fit the problem.
        """
        if record is not None:
            return validate(self, record)
        if "validation" not in self._cache:
            self._cache["validation"] = validate(self)
        return self._cache["validation"]

    def plot_parameters(self, truth: Mapping[str, float] | None = None) -> Figure:
        """Draw prior against posterior, in units of the ``truth`` where it is known."""
        from smcpn.report.parameters import parameters_figure

        return parameters_figure(self, truth)

    def plot_corner(self, truth: Mapping[str, float] | None = None) -> Figure:
        """Draw every pair of parameters."""
        from smcpn.report.parameters import corner_figure

        return corner_figure(self, truth)

    def plot_run(self) -> Figure:
        """Draw effective sample size, rejuvenations and log-evidence over the samples."""
        from smcpn.report.sampler import run_figure

        return run_figure(self)

    def plot_prediction(self, record: Record, observe: Any = None, output: int = 0) -> Figure:
        """Draw measured against simulated with a 95 % band; arguments as of `simulate`."""
        return self.simulate(record, observe=observe).plot(output)

    def plot_innovations(self, output: int = 0) -> Figure:
        """Draw the normalised innovations of the records learned from, and their correlations."""
        from smcpn.report.residuals import innovations_figure

        return innovations_figure(self.validate(), output)

    def plot_frf(
        self, record: Record | None = None, observe: Any = None, output: int = 0
    ) -> Figure:
        """Draw the frequency response of a record and of its simulation.

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
        from smcpn.report.residuals import frequency_figure

        chosen = self.problem.records[0] if record is None else record
        simulated = self.simulate(chosen, observe=observe).mean
        return frequency_figure(frequency_response(chosen, simulated, output))

    def plot_error_budget(self, output: int = 0) -> Figure:
        """Draw the solver's share of the innovation variance, and what half the step changes."""
        from smcpn.report.residuals import error_budget_figure

        return error_budget_figure(self.validate(), output)

    def report(
        self,
        path: str | Path,
        tests: Mapping[str, Record | Simulation] | None = None,
        *,
        observe: Any = None,
        published: Mapping[str, Any] | None = None,
        truth: Mapping[str, float] | None = None,
        title: str | None = None,
        likelihoods: Sequence[str] = (),
    ) -> Path:
        """Write one self-contained HTML file: tables, scores, figures, validation, settings.

        Parameters
        ----------
        path : str or Path
            The file; an existing one is replaced.
        tests : mapping of str to Record or Simulation, optional
            What to score the posterior on; a record is simulated first.
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
            `smcpn.validation.comparison.compare_likelihoods`.

        Returns
        -------
        Path

        Raises
        ------
        InputError
            If the file cannot be written, or a test does not fit the problem.
        """
        from smcpn.report.html import write_report

        return write_report(
            self, path, tests or {}, observe=observe, published=published or {},
            truth=truth, title=title, likelihoods=likelihoods,
        )  # fmt: skip

    def table(self) -> list[ParameterRow]:
        """The parameter table as data."""
        return parameter_rows(self)

    def summary(self) -> str:
        """The parameter table and the figures of the run, as text."""
        return summary_text(self)
