"""Coloured noise: what the residuals before a sample tell of its noise, by a Kalman filter.

The noise e of an output is a stationary Gauss-Markov process (`smcpn.model.gaussian_noise`): with
variance sigma^2 and correlation phi over the gap between two samples,

    e_0 ~ N(0, sigma^2),    e_k = phi e_{k-1} + sigma sqrt(1 - phi^2) w_k.

A recursion predicts the noise-free output with mean g_k and variance s_k of the solver's error, 0
where it claims none. The filter of e takes r_k = y_k - g_k as a measurement of e_k with variance
s_k, independent from sample to sample. With mean m and variance V of e_k given y_0, ..., y_{k-1},

    y_k | y_<k, theta  ~  N(g_k + m, V + s_k)
    update             K = V / (V + s_k),  m+ = m + K (r_k - m),  V+ = V s_k / (V + s_k)
    predict            m = phi m+,  V = phi^2 V+ + sigma^2 (1 - phi^2),

without the update where y_k is missing. Where s = 0 this is exact, and the increments are those of
the whitened residuals r_k - phi r_{k-1} (Harvey 1989, Forecasting, section 3.1; Jones 1980,
Technometrics 22, for missing values).

The state of a lane holds m and V of the coming sample for each coloured output. An update runs at
the beginning of the interval after its sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import casadi as ca

from smcpn.codegen.lower import LaneProgram
from smcpn.likelihood.lanes import SampleSymbols
from smcpn.likelihood.measurement import GaussianMeasurement
from smcpn.likelihood.registry import ExpectedOutputs
from smcpn.model.problem import Model
from smcpn.model.signal import Signal
from smcpn.pn.gaussian import Factor, Gaussian, downdate, moved


def faded(model: Model, outputs: Sequence[int]) -> tuple[ca.SX, ca.SX]:
    """Share of the noise of outputs that is left `Model.gap` later, and variance of what is new."""
    phi = correlation(model, outputs)
    variance = ca.vertcat(ca.SX(0, 1), *(model.noise_variance[j] for j in outputs))
    return phi, variance * (1.0 - phi**2)


def with_coloured_noise(
    white: ExpectedOutputs, model: Model, mean: ca.SX, whole: ca.SX
) -> ExpectedOutputs:
    """Copy that expects coloured noise too: what the state tells of it counts as its variance.

    mean: (q, 1), of the coloured noise, given the samples before.
    whole: (q, q), covariance of the outputs and their coloured noise together.
    """
    if not model.coloured:
        return white
    noise, more = ca.SX(white.noise_variance), ca.diag(whole - white.covariance)
    for j in model.coloured:
        noise[j] = more[j]
    return replace(white, noise_mean=ca.densify(mean), noise_variance=noise)


def correlation(model: Model, outputs: Sequence[int]) -> ca.SX:
    """Correlation of the noise of outputs with that at the sample before, (c, 1)."""
    return ca.vertcat(ca.SX(0, 1), *(model.noise_correlation[j] for j in outputs))


@dataclass(frozen=True)
class NoiseFilter:
    """Filter of the coloured noise of one particle: the symbols of its state, and its equations.

    state: (2 c, 1), mean and variance of the noise of the c coloured outputs, given the samples
        before.
    """

    model: Model
    state: ca.SX

    @classmethod
    def of(cls, model: Model) -> NoiseFilter:
        """Make the symbols."""
        c = len(model.coloured)
        return cls(model, ca.vertcat(ca.SX.sym("noise", c, 1), ca.SX.sym("noise_variance", c, 1)))

    @property
    def mean(self) -> ca.SX:
        """Mean of the noise of each output given the samples before, (q, 1); 0 where white."""
        mean = ca.SX(self.model.outputs.numel(), 1)
        for place, j in enumerate(self.model.coloured):
            mean[j] = self.state[place]
        return mean

    @property
    def variance(self) -> ca.SX:
        """Variance of the noise of each output given the samples before, (q, 1)."""
        coloured, variance = self.model.coloured, ca.SX(self.model.noise_variance)
        for place, j in enumerate(coloured):
            variance[j] = self.state[len(coloured) + place]
        return variance

    def expected(
        self, sample: SampleSymbols, outputs: ca.SX, covariance: ca.SX, states: ca.SX
    ) -> ExpectedOutputs:
        """Outputs and states of a solver, with the noise that this filter expects."""
        variance = self.variance
        if self.model.density is not None:
            variance = sample.noise_variance(outputs)
        return ExpectedOutputs(outputs, covariance, states, self.mean, variance)

    def _following(self, expected: ExpectedOutputs, sample: SampleSymbols) -> ca.SX:
        """State at the next sample, (2 c, 1), `Model.gap` later."""
        means: list[ca.SX] = []
        variances: list[ca.SX] = []
        residual, error = sample.y - expected.outputs, ca.diag(expected.covariance)
        for j in self.model.coloured:
            m, here = self.mean[j], sample.present[j]
            value = GaussianMeasurement(m, residual[j], here, error[j])
            own = Factor([[ca.SX(1.0)]], [self.variance[j]])
            factor, gain, *_ = downdate(own, [here], value.noise)
            seen = Gaussian(m + gain[0] * value.innovation, factor)
            following = moved(seen, *faded(self.model, [j]))
            means.append(following.mean)
            variances += following.factor.pivots
        return ca.vertcat(*means, *variances)

    def join(
        self,
        program: LaneProgram,
        signal: Signal,
        expected: ExpectedOutputs,
        sample: SampleSymbols,
        before: ca.SX | None = None,
    ) -> LaneProgram:
        """The program of a recursion whose particles hold this filter too.

        expected: Over symbols of the program's state and sample row.
        before: Graph of the sample row at the sample before an interval, by default
            `Signal.sample`.
        """
        coloured = list(self.model.coloured)
        if not coloured:
            return program
        before = signal.sample(1) if before is None else before
        stationary = [self.model.noise_variance[j] for j in coloured]
        start = ca.vertcat(ca.SX.zeros(len(coloured), 1), *stationary)
        row = ca.vertcat(program.sample_row, self.model.gap)
        reading = program.reading(row, ca.vertcat(before, signal.gap))
        return reading.with_state(self.state, start, self._following(expected, sample))
