"""The likelihood of a model with process noise: a continuous-discrete extended Kalman filter.

For dx = f(x, u, t; theta) dt + G dW, seen at samples y = g(x) + e, the filter carries a mean m and
a covariance P from the initial state, which is known given theta (P = 0). A solver step
(`transition`) and a sample are

    predict   m = Phi(m),  P = F P F' + L L' + E,  F = dPhi/dx at m
    measure   S = H P H' + R,  H = dg/dx at m,  log p(y_n | y_<n, theta) = log N(y_n - g(m); 0, S)
    update    K = P H' S^-1,  m = m + K (y_n - g(m)),  P = P - K S K'

(Jazwinski 1970, section 8.3; Sarkka and Svensson 2023, algorithm 7.4), E being the variance that
the solver claims for its own error, if it does. Linear systems have their exact likelihood, up to
what `step_factor` says; as G falls to zero it is that of `classical`.

P is kept as L D L' and stays positive, with its digits, however small the noise of the outputs is
(`smcpn.pn.gaussian`): Thornton's orthogonalisation predicts, Bierman's downdate takes one output
after the other, all linearised at the predicted mean. Only entries that are not zero at all times
are kept: states that nothing couples cost what they would alone.

Where a measured value is not Gaussian, the update is Laplace's approximation about the predicted
output (`measurement.LaplaceMeasurement`).

Coloured noise e of an output (`coloured`) is a state more, which moves from sample to sample as
e <- phi e + sigma sqrt(1 - phi^2) w, and is measured without noise in y = g(x) + e.

With algebraic equations it is that of the differential ones (`algebraic.explicit_model`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.tangent import jacobian
from smcpn.errors import InputError
from smcpn.likelihood.accumulating import SetBack
from smcpn.likelihood.classical import outputs_at, step_graph, step_inputs, step_signal
from smcpn.likelihood.coloured import faded, with_coloured_noise
from smcpn.likelihood.covariance import OutputGain
from smcpn.likelihood.delayed import DeadTimes
from smcpn.likelihood.inputs import KernelInputs
from smcpn.likelihood.lanes import Grid, SampleSymbols, StartSymbols
from smcpn.likelihood.measurement import measurement, where_present
from smcpn.likelihood.registry import ExpectedOutputs, Recursion
from smcpn.likelihood.transition import Transition
from smcpn.model.problem import Problem
from smcpn.model.record import Record
from smcpn.model.solver import EKF0, RK4, Solver
from smcpn.pn.gaussian import Factor, Gaussian, downdate, moved, predicted

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Correction:
    """A filter after a sample.

    log_density: (1, 1), of the sample given those before.
    """

    gaussian: Gaussian
    log_density: ca.SX


def held_factor(kept: NDArray[np.bool_]) -> Factor:
    """Factor (n, n) with a symbol in every kept entry: L below the diagonal, D on it."""
    n = len(kept)
    rows = [
        [ca.SX.sym(f"L_{i}_{j}") if i > j and kept[i, j] else ca.SX(i == j) for j in range(n)]
        for i in range(n)
    ]
    return Factor(rows, [ca.SX.sym(f"D_{j}") if kept[j, j] else ca.SX(0) for j in range(n)])


def held_entries(factor: Factor, kept: NDArray[np.bool_]) -> list[ca.SX]:
    """The kept entries of a factor, in the order of rows and columns."""
    return [
        factor.pivots[j] if i == j else factor.rows[i][j] for i, j in np.argwhere(kept).tolist()
    ]


def entries_in_use(factor: Factor) -> NDArray[np.bool_]:
    """Which entries of a factor are not zero throughout, (n, n), as of `held_factor`."""
    n = len(factor.pivots)
    used = np.zeros((n, n), dtype=bool)
    for i in range(n):
        used[i, i] = not factor.pivots[i].is_zero()
        used[i, :i] = [not factor.rows[i][j].is_zero() for j in range(i)]
    return used


MAX_ENTRIES = 300
"""Those of 24 states, beyond which straight-line code gets too long to compile."""
MOST_ORDER = 3
"""Of `EKF0`, beyond which the derivatives of an input are not known well enough."""


class Kalman(Recursion):
    """The filter of one particle.

    The state of a lane holds the mean, the entries of the factors of P that may differ from zero,
    and those of L where it stays the same. A sample corrects mean and P at the beginning of the
    interval after it.

    spread: (n, 1), variances of the states at the first sample; by default they are known.
    transition: Of a solver step.
    mean: (n + c, 1), symbols of the states' mean and that of the coloured noise of c outputs.
    predicted: States and noise at a sample, given those before; over the symbols of the lane's
        state.
    """

    name = "kalman"
    divides = True
    any_density = True
    coloured_noise = True
    gaussian = True
    takes_process_noise = True
    takes_parts = Recursion.takes_parts | {"delay", "accumulators"}
    approximates = "particle"

    def __init__(
        self, problem: Problem, solver: Solver, grid: Grid, spread: ca.SX | None = None
    ) -> None:
        if solver.probabilistic:
            _check(cast(EKF0, solver))
        self.dead_times, self._grid = DeadTimes(problem.model, grid), grid
        self.model = self.dead_times.model
        self.sample = SampleSymbols.of(self.model, self.dead_times.at_sample)
        self.transition = Transition.of(self.model, solver)
        self._solver = solver
        self.local_order = self.transition.error_order
        # A part has a time of its own.
        self._varies = grid.rescales or self.dead_times.parts > 1
        self.signal = step_signal(self.dead_times, grid)
        self.mean = ca.vertcat(self.model.x, ca.SX.sym("noise", len(self.model.coloured), 1))
        self.set_back = SetBack.of(self.model)
        self._spread = ca.SX.zeros(self.model.x.numel(), 1) if spread is None else spread
        self._hold_noise()
        self._keep(solver)

    def _hold_noise(self) -> None:
        """Have L in the state, unless it is another in every step: it takes many operations."""
        step, factor = self.transition.step, self.transition.factor
        varying = ca.vertcat(self.model.x, *step.inputs, step.t)
        stays = not ca.depends_on(factor, varying)
        self._noise = ca.SX.sym("noise", factor.sparsity()) if stays else factor
        self._held = self._noise.nz[:] if stays else ca.SX(0, 1)
        self._noise_of_step = factor.nz[:] if stays else ca.SX(0, 1)

    def _keep(self, solver: Solver) -> None:
        """Keep the entries of the factor that are not zero at all times, from the first P."""
        n, known, key = self.mean.numel(), self.model.kernels, ("factor", solver.kind, self.name)
        at_start = np.diag([not one.is_zero() for one in self._start_variances])
        self._kept, grown = known.get(key, at_start), True
        while grown:
            factor = held_factor(self._kept)
            self.predicted = Gaussian(self.mean, factor)
            after_step = self.after_step(self._noise).factor
            after_sample = self._at_interval.factor
            kept = self._kept | entries_in_use(after_step) | entries_in_use(after_sample)
            grown = bool((kept != self._kept).any())
            self._kept = known[key] = kept
            if kept.sum() > MAX_ENTRIES:
                raise InputError(
                    f"the covariance of {n} states has {kept.sum()} entries that are not zero, "
                    f"more than the {MAX_ENTRIES} that are compiled: take fewer states that are "
                    "coupled"
                )

    @classmethod
    def goes_with(cls, solver: type[Solver] | Solver) -> bool:
        """Any solver that claims no error, and `EKF0`, whose claims for a step it adds."""
        return not solver.adaptive and solver.jacobian == "none"

    @classmethod
    def default_solver(cls, problem: Problem) -> Solver:
        """`RK4`."""
        return RK4()

    @property
    def outputs(self) -> ca.SX:
        """Outputs at the predicted mean, with the coloured noise that is expected, (q, 1)."""
        return outputs_at(self.model, self.model.x, self.sample) + self._coloured @ self.mean

    @property
    def slopes(self) -> ca.SX:
        """H, their derivatives by states and coloured noise there, (q, n + c)."""
        return jacobian(self.outputs, self.mean)

    @property
    def _coloured(self) -> ca.SX:
        """Share of states and coloured noise in the noise of the outputs, (q, n + c)."""
        n = self.model.x.numel()
        share = ca.SX(self.model.outputs.numel(), self.mean.numel())
        for k, j in enumerate(self.model.coloured):
            share[j, n + k] = 1.0
        return share

    def after_step(self, noise: ca.SX) -> Gaussian:
        """The filter after a step that adds noise with a factor L; coloured noise stays."""
        c, move = len(self.model.coloured), self.transition
        slopes = ca.diagcat(move.jacobian, ca.SX.eye(c))
        noise = ca.vertcat(noise, ca.SX(c, noise.shape[1]))
        error = ca.vertcat(move.error_variance, ca.SX(c, 1))
        # Of one row a slice without columns is a row, and not empty.
        mean = ca.vertcat(move.following, self.mean[self.model.x.numel() :, :])
        return Gaussian(mean, predicted(self.predicted.factor, slopes, noise, error))

    @property
    def at_start(self) -> Factor:
        """Factor of the states, and of noise that is stationary."""
        return Factor(held_factor(np.zeros_like(self._kept)).rows, self._start_variances)

    @property
    def _start_variances(self) -> list[ca.SX]:
        noise = [self.model.noise_variance[j] for j in self.model.coloured]
        return [*ca.vertsplit(self._spread), *noise]

    def entries(self, factor: Factor) -> list[ca.SX]:
        """Entries of a factor that are kept, see `held_entries`."""
        return held_entries(factor, self._kept)

    @property
    def _at_interval(self) -> Gaussian:
        """States that a sample leaves, given it, and coloured noise at the sample after it."""
        phi, fresh = faded(self.model, self.model.coloured)
        share, known = self.set_back.share, ca.SX(self.model.x.numel(), 1)
        return moved(self.filtered, ca.vertcat(share, phi), ca.vertcat(known, fresh))

    @property
    def corrected(self) -> Correction:
        """The filter after a sample."""
        return corrected(self.sample, self.predicted, self.outputs, self.slopes)

    @property
    def exact(self) -> bool:
        """True if steps and outputs are linear and the noise is Gaussian."""
        density, noise = self.model.density, self.sample.noise_variance(self.outputs)
        graphs = (self.transition.jacobian, self.slopes, self.transition.factor, noise)
        slopes = ca.vertcat(*[ca.vec(ca.densify(graph)) for graph in graphs])
        gaussian = density is None or density.gaussian
        return gaussian and not ca.depends_on(slopes, self.model.x)

    @property
    def filtered(self) -> Gaussian:
        """States and coloured noise at a sample, given it and those before."""
        return self.corrected.gaussian

    @override
    def program(self, emitted: ca.SX) -> LaneProgram:
        model, step, start = self.model, self.transition.step, StartSymbols.of(self.model, [])
        begun, stepped = self._at_interval, self.after_step(self._noise)
        noise, signal = self._noise_of_step, self.signal
        coloured = list(model.coloured)
        state = [self.mean, *self.entries(self.predicted.factor), self._held]
        between, of_samples = [self.set_back.row], [self.set_back.graph(signal)]
        if coloured:
            between, of_samples = [*between, model.gap], [*of_samples, signal.gap]
        program = LaneProgram(
            theta=model.theta,
            constants=model.constants,
            constant_values=model.constant_values,
            state=ca.vertcat(*state),
            start_row=ca.vertcat(start.row, step.h),
            interval_row=ca.vertcat(self.sample.row, step.h, *between),
            step_row=step.row,
            sample_row=self.sample.row,
            start=ca.vertcat(
                start.initial(model),
                ca.SX.zeros(len(coloured), 1),
                *self.entries(self.at_start),
                noise,
            ),
            interval=ca.vertcat(
                begun.mean,
                *self.entries(begun.factor),
                noise if self._varies else self._held,
            ),
            step=ca.vertcat(stepped.mean, *self.entries(stepped.factor), self._held),
            emitted=emitted,
            shared=signal.graphs(
                step=step_graph(signal),
                interval=ca.vertcat(signal.sample(1), signal.h, *of_samples),
                sample=signal.sample(),
            ),
        )
        return self.dead_times.join(program, signal)

    @override
    def log_density(self) -> ca.SX:
        return self.corrected.log_density

    def expected(self) -> ExpectedOutputs:
        """Outputs and states given the samples before.

        What the state tells of coloured noise counts as variance of the noise.
        """
        coloured, spread = self._coloured @ self.mean, self.predicted.covariance
        slopes, free = self.slopes, self.slopes - self._coloured
        white = ExpectedOutputs.with_white_noise(
            self.sample, self.outputs - coloured, free @ spread @ free.T, self.model.x
        )
        return with_coloured_noise(white, self.model, coloured, slopes @ spread @ slopes.T)

    @override
    def states(self) -> tuple[ca.SX, ca.SX]:
        n, filtered = self.model.x.numel(), self.filtered
        covariance = filtered.covariance
        if self.model.consistent is not None:
            covariance = self._shown @ covariance @ self._shown.T
        return self._whole(filtered.mean)[:n], ca.diag(ca.densify(covariance[:n, :n]))

    def _whole(self, mean: ca.SX) -> ca.SX:
        """States at a sample, with what arrived by doses, and coloured noise."""
        n, sample = self.model.x.numel(), self.sample
        states = self.model.whole_states(sample.input, sample.t, mean[:n])
        return ca.vertcat(states, mean[n:, :])

    @property
    def _shown(self) -> ca.SX:
        """Derivative of `_whole` given the sample: algebraic variables follow the states."""
        slopes = jacobian(self._whole(self.mean), self.mean)
        return ca.substitute(slopes, self.mean, self.filtered.mean)

    @override
    def local_error(self) -> ca.SX:
        return self.transition.step.local_error()

    @override
    def inputs(
        self, record: Record, steps: int, number: int = 0, interval: float | None = None
    ) -> KernelInputs:
        plain = step_inputs(self.signal, self.dead_times, record, steps, number, interval)
        # What the start holds of a step is that of the first interval, where all are alike.
        first = 1.0 if self._varies else record.interval / plain.most_steps
        return replace(plain, start_more=self.dead_times.start(np.array([first])))

    def smoothing_program(self) -> LaneProgram:
        """Program that emits at each sample what a smoother of the states needs.

        That is, matrices by columns: mean (n) and covariance (n n) of states and coloured noise
        given the samples before, the product of F over the steps since the sample before (n n; I at
        the first), mean (n) and covariance (n n) given the sample too. Where there are algebraic
        variables the derivative of all states by those of the filter follows (n n). A step back of
        Rauch, Tung and Striebel takes the fourth and fifth of a sample and the first three of the
        next one.
        """
        n, states = self.mean.numel(), self.model.x.numel()
        product, one = ca.SX.sym("product", n, n), ca.vec(ca.SX.eye(n))
        phi, _ = faded(self.model, self.model.coloured)
        begun = ca.vec(ca.diag(ca.vertcat(self.set_back.share, phi)))
        moments = [
            part
            for g in (self.predicted, self.filtered)
            for part in (self._whole(g.mean), ca.vec(g.covariance))
        ]
        if self.model.consistent is not None:
            moments.append(ca.vec(ca.densify(self._shown)))
        program = self.program(ca.vertcat(*moments[:2], ca.vec(product), *moments[2:]))
        slopes = ca.diagcat(self.transition.jacobian, ca.SX.eye(n - states))
        moved = ca.vec(slopes @ product)
        return program.with_state(ca.vec(product), one, ca.densify(begun), moved)


def _check(solver: EKF0) -> None:
    if solver.diffusion not in STEPWISE or solver.form != "first" or solver.order > MOST_ORDER:
        raise InputError(
            f"the kalman likelihood takes smcpn.EKF0 of order 1 to {MOST_ORDER} without a form or "
            f"diffusion, which it calibrates by step, and not {solver!r}: correct it, or give "
            "solver=smcpn.RK4()",
            argument="solver",
        )


STEPWISE = ("fixed-diagonal", "dynamic-diagonal")
"""Diffusions of `EKF0`, the default among them, that are calibrated for each state and step."""


def corrected(
    sample: SampleSymbols,
    gaussian: Gaussian,
    outputs: ca.SX,
    slopes: ca.SX,
    about: ca.SX | None = None,
) -> Correction:
    """Condition states on one output of a sample after the other.

    outputs, slopes: (q, 1) and (q, n), noise-free outputs at the mean, and their derivatives, of an
        approximation that is linear.
    about: (q, 1), outputs about which densities are expanded, by default those that are predicted.
    """
    mean, factor = gaussian.mean, gaussian.factor
    determinant, total = ca.SX(1), ca.SX(0)
    for j in range(outputs.numel()):
        expected = outputs[j] + slopes[j, :] @ (mean - gaussian.mean)
        value = measurement(sample, j, expected, None if about is None else about[j])
        sensitivity = ca.horzsplit(where_present(ca.densify(slopes[j, :]), sample.present[j]))
        factor, gain, variance, spread = downdate(factor, sensitivity, value.noise)
        mean = mean + ca.vertcat(*gain) * value.innovation
        log_density, pivot = value.log_density(OutputGain({}, variance, spread))
        determinant *= pivot
        total += log_density
    return Correction(Gaussian(mean, factor), total - 0.5 * ca.log(determinant))


class IteratedKalman(Kalman):
    """`Kalman` with outputs and densities expanded where the sample puts the states.

    Gauss-Newton steps from the predicted mean find the point (Bell and Cathey 1993), and the log
    density is Laplace's approximation there. Outputs that are linear in the states, with Gaussian
    noise, gain nothing.

    References
    ----------
    Bell, B. M., Cathey, F. W. (1993). The iterated Kalman filter update as a Gauss-Newton method.
    IEEE Trans. Automatic Control 38.
    """

    name = "kalman-iterated"
    gaussian = False
    iterations = 4
    """Gauss-Newton steps before the last linearisation."""

    @property
    @override
    def corrected(self) -> Correction:
        about = self.mean
        for _ in range(self.iterations):
            about = self._corrected_about(about).gaussian.mean
        return self._corrected_about(about)

    def _corrected_about(self, about: ca.SX) -> Correction:
        """Condition on outputs that are linear about a point."""
        x = self.mean
        outputs, slopes = ca.substitute([self.outputs, self.slopes], [x], [about])
        linear = outputs + slopes @ (x - about)
        return corrected(self.sample, self.predicted, linear, slopes, outputs)
