"""A record simulated with a whole posterior: prediction, band, and error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.problem import Problem, check_record
from smcpn.record import Record
from smcpn.simulator import Simulator

Array = NDArray[np.float64]

TWO_SIDED_95 = 1.959963984540054


@dataclass(frozen=True)
class Simulation:
    """A free simulation of a record with every particle of a posterior.

    Attributes
    ----------
    record : Record
    mean : ndarray, (T, q)
        Posterior mean of the noise-free outputs.
    sd : ndarray, (T, q)
        Predictive standard deviation: the root of the three variances below.
    parameter_variance : ndarray, (T, q)
        Spread of the noise-free outputs over the particles. The solver's error during the
        identification is in it, because the likelihood counted it.
    noise_variance : ndarray, (q,)
        Posterior mean of the measurement noise; 0 where the record measures something else than
        the problem does.
    solver_variance : ndarray, (T, q)
        Squared change of the outputs at the posterior mean when the Runge-Kutta step of this
        simulation is halved: the error of the curve that is shown, not of the `EKF0` that
        learned the parameters.
    rmse : ndarray, (N, q)
        Root mean square error of each particle over the samples measured.
    rmse_of_mean : ndarray, (q,)
        Of the posterior mean prediction.
    fit : ndarray, (q,)
        100 (1 - rmse_of_mean / std(y)).
    coverage : ndarray, (q,)
        Share of measured samples inside the 95 % band.
    steps : int
        Runge-Kutta steps per sample.
    """

    record: Record
    mean: Array
    sd: Array
    parameter_variance: Array
    noise_variance: Array
    solver_variance: Array
    rmse: Array
    rmse_of_mean: Array
    fit: Array
    coverage: Array
    steps: int

    @property
    def lower(self) -> Array:
        """Lower end of the 95 % band, (T, q)."""
        return self.mean - TWO_SIDED_95 * self.sd

    @property
    def upper(self) -> Array:
        """Upper end of the 95 % band, (T, q)."""
        return self.mean + TWO_SIDED_95 * self.sd

    def plot(self, output: int = 0) -> Any:
        """Draw measured and simulated output with a 95 % band, and the error below.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from smcpn.report.prediction import prediction_figure

        return prediction_figure(self, output)


def simulate_particles(
    problem: Problem,
    record: Record,
    values: Array,
    weights: Array,
    observe: Any = None,
    steps: int | str = "auto",
    step_length: float | None = None,
) -> Simulation:
    """Simulate a record with weighted parameter values, (N, d) and (N,).

    Parameters
    ----------
    observe : str, callable, or sequence of these, optional
        What the record measures, where that is not what the problem observes.
    step_length : float, optional
        Seconds; ``steps="auto"`` starts near it.

    Raises
    ------
    InputError
        If the record does not fit the problem.
    """
    model = problem.model if observe is None else problem.model_observing(observe)
    n, q = len(values), model.outputs.numel()
    check_record(record, problem.ode, q)
    measured = np.isfinite(record.y) if record.n_outputs else np.zeros((len(record), q), bool)
    # Moments about the measured value, where there is one: the error is small against the output.
    reference = np.where(measured, record.y, 0.0) if record.n_outputs else measured.astype(float)
    mean, spread, squares = np.empty_like(reference), np.empty_like(reference), np.zeros((q, n))
    noise = model.noise_variances(values) @ weights
    simulator = Simulator(model, record, steps, step_length)
    for a, b, outputs in simulator(np.ascontiguousarray(values.T)):
        error = outputs - reference[a:b, :, None]
        shift = error @ weights
        np.square(error, out=error)
        mean[a:b] = reference[a:b] + shift
        spread[a:b] = np.maximum(error @ weights - np.square(shift), 0.0)
        for j in range(q):
            squares[j] += measured[a:b, j].astype(float) @ error[:, j]
    solver = np.square(simulator.halving_change((weights @ values)[:, None]))
    sd = np.sqrt(spread + noise + solver)
    counts = measured.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rmse = np.sqrt(squares.T / counts)
    scores = [_score(record, mean, sd, measured, j) for j in range(q)]
    rmse_of_mean, fit, coverage = np.array(scores).T
    return Simulation(
        record=record,
        mean=mean,
        sd=sd,
        parameter_variance=spread,
        noise_variance=noise,
        solver_variance=solver,
        rmse=rmse,
        rmse_of_mean=rmse_of_mean,
        fit=fit,
        coverage=coverage,
        steps=int(simulator.steps),
    )


def _score(
    record: Record, mean: Array, sd: Array, measured: NDArray[np.bool_], output: int
) -> tuple[float, float, float]:
    """RMSE of the mean, fit, coverage of the band; nan where nothing was measured."""
    seen = measured[:, output]
    if not seen.any():
        return np.nan, np.nan, np.nan
    y = record.y[seen, output]
    error = y - mean[seen, output]
    rmse, spread = float(np.sqrt(np.square(error).mean())), float(y.std())
    fit = 100 * (1 - rmse / spread) if spread else np.nan
    return rmse, fit, float((np.abs(error) <= TWO_SIDED_95 * sd[seen, output]).mean())
