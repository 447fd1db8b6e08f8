"""`Model`: a problem's ODE, outputs, noise and initial states as graphs over shared symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast
from weakref import WeakKeyDictionary

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, listed, shown
from smcpn.model.delay import Delay
from smcpn.model.distribution import Distribution
from smcpn.model.disturbance import Disturbance, ProcessNoise
from smcpn.model.dosing import Dosing
from smcpn.model.events import Events, event_rows
from smcpn.model.expression import ExpressionTable
from smcpn.model.function_arguments import Parameter
from smcpn.model.gaussian_noise import as_gaussian, noise_graphs
from smcpn.model.initial import FirstSample, initial_states
from smcpn.model.measured import BESIDE_PARTS, Beside, SampleNumbers
from smcpn.model.noise import Density, Normal, OutputDensity, Symbols, as_density, output_density
from smcpn.model.ode import ODE, TIME
from smcpn.model.parts import SMOOTH_PARTS, check_pairs
from smcpn.model.record import BESIDE, Record
from smcpn.model.trace import function_name

Array = NDArray[np.float64]
SampleFunction = Callable[[Array, Array, Array, SampleNumbers], list[Array]]
"""Of values (T, q), outputs (T, q), parameters (T, d) or (d,) and samples: numbers (T, q) each."""


@dataclass(frozen=True)
class Model:
    """The problem as expression graphs over shared symbols: what kernels are generated from.

    x, u, t, theta: States (n, 1), inputs, time, and the parameters that have a prior, in its order.
    rhs: Derivative of the states, (n, 1).
    outputs: Noise-free outputs g(x, u, t, theta), (q, 1).
    noise_variance: Variance of the noise of each output, (q, 1), a function of theta at most;
        infinite where ``density`` takes its place.
    noise_correlation: Correlation of the noise of each output with that a time ``gap`` earlier,
        (q, 1), a function of gap and theta at most; 0 where it is white.
    initial: Initial state of each record, (n, 1), a function of theta at most.
    constants: Symbols of the known numbers in all of these, (c, 1); ``constant_values`` holds them.
    diffusion: Standard deviation of a solver's Wiener processes, where the problem names it.
    density: Noise densities of the outputs, where not all are Gaussian.
    process_noise: G of dx = f dt + G dW, where the state is disturbed.
    delay: Dead times of the inputs: ``u`` is that of so much earlier.
    algebraic: Places of the algebraic variables among the states, in which ``rhs`` has the
        residuals of their equations, and ``initial`` where Newton's iteration for their values
        begins.
    dosing: Of the records' doses: ``x`` is then the smooth part of the states, and ``u`` ends with
        the numbers of an interval.
    accumulators: States that are set back to zero after every sample.
    events: Where the state jumps.
    consistent: State (n, 1) with the solution of algebraic equations in its place, of ``x`` and the
        inputs and time at a sample, where these are no part of the model any more.
    """

    x: ca.SX
    u: ca.SX
    t: ca.SX
    theta: ca.SX
    rhs: ca.SX
    outputs: ca.SX
    noise_variance: ca.SX
    noise_correlation: ca.SX
    gap: ca.SX
    initial: tuple[ca.SX, ...]
    constants: ca.SX
    constant_values: tuple[float, ...]
    diffusion: ca.SX | None = None
    density: OutputDensity | None = None
    process_noise: ProcessNoise | None = None
    delay: Delay | None = None
    algebraic: tuple[int, ...] = ()
    events: Events | None = None
    dosing: Dosing | None = None
    accumulators: tuple[int, ...] = ()
    consistent: ca.SX | None = None

    @property
    def held(self) -> int:
        """Last entries of ``u``, which are numbers of the interval that ends at a sample."""
        return 0 if self.dosing is None else self.dosing.width

    def smooth_part(self, states: ca.SX) -> ca.SX:
        """Return ``x`` of states at a sample, without what arrived by doses."""
        return states if self.dosing is None else states - self.dosing.arrived(self)

    def whole_states(self, u: ca.SX, t: ca.SX, smooth: ca.SX) -> ca.SX:
        """States at a sample of inputs ``u`` and time ``t``, of their `smooth_part`."""
        driven, here = ca.vertcat(self.u, self.t), ca.vertcat(u, t)
        if self.consistent is not None:
            known = ca.vertcat(self.x, driven), ca.vertcat(smooth, here)
            smooth = ca.substitute(self.consistent, *known)
        if self.dosing is None:
            return smooth
        return smooth + ca.substitute(self.dosing.arrived(self), driven, here)

    def without_doses(self) -> Model:
        """Return the model of its equation alone, without its initial states."""
        if self.dosing is None:
            return self
        u = self.u[: self.dosing.n_inputs]
        known = self.u[self.dosing.n_inputs :], self.dosing.nothing(u)
        rhs, outputs = (ca.substitute(one, *known) for one in (self.rhs, self.outputs))
        events = self.events and replace(
            self.events, column=ca.substitute(self.events.column, *known)
        )
        return replace(self, u=u, rhs=rhs, outputs=outputs, events=events, dosing=None)

    def arrived(self, record: Record, values: Array) -> Array:
        """Amounts that have arrived in every state, (T, n, N), at parameter values (N, d)."""
        each = [self.arrived_at(theta[None], record.u, record.t) for theta in values]
        return np.stack(each, axis=2) if each else np.zeros((len(record), self.x.numel(), 0))

    def arrived_at(self, values: Array, u: Array, t: Array) -> Array:
        """Amounts that have arrived in every state at samples, or at values, of the other: (M, n).

        Either the parameter values (N, d), or inputs (T, m) and times (T,), are one.
        """
        most = max(len(values), len(t))
        if self._arrival is None:
            return np.zeros((most, self.x.numel()))
        columns = [np.broadcast_to(one.T, (one.shape[1], most)) for one in (values, u, t[:, None])]
        return np.array(self._arrival(*columns)).T

    @cached_property
    def _arrival(self) -> ca.Function | None:
        """`Dosing.arrived` of parameters, inputs and time; None without doses."""
        if self.dosing is None:
            return None
        model = self.with_numbers()
        return ca.Function("arrived", [model.theta, model.u, model.t], [self.dosing.arrived(model)])

    def prepared(self, record: Record) -> Record:
        """Return a record as kernels read it, with samples where its doses arrive."""
        if self.dosing is None and record.doses:
            raise InputError(
                f"{record.name} has doses, and the problem was posed without any: pose it with a "
                "dose of each kind",
                argument="doses",
            )
        if self.dosing is None or record.held:
            return record
        if record not in self._prepared:
            self._prepared[record] = self.dosing.prepared(record)
        return self._prepared[record]

    @cached_property
    def _prepared(self) -> WeakKeyDictionary[Record, Record]:
        """Records that were prepared: one that is given again is the same one."""
        return WeakKeyDictionary()

    @cached_property
    def kernels(self) -> dict[Any, Any]:
        """Cache of the kernels compiled for this model, by the settings that they depend on."""
        return {}

    @property
    def coloured(self) -> tuple[int, ...]:
        """Outputs whose noise is correlated from sample to sample."""
        return tuple(
            j for j, phi in enumerate(ca.vertsplit(self.noise_correlation)) if not phi.is_zero()
        )

    @property
    def differential(self) -> list[int]:
        """Places of the states that have a derivative."""
        return [k for k in range(self.x.numel()) if k not in self.algebraic]

    @property
    def mass(self) -> ca.SX:
        """Diagonal of M in M x' = rhs, (n, 1): 0 for an algebraic variable, 1 for other states."""
        return ca.SX([float(k not in self.algebraic) for k in range(self.x.numel())])

    def at_speed(self, speed: ca.SX, rhs: ca.SX) -> ca.SX:
        """A right-hand side (n, 1) where time runs at a speed, which residuals do not."""
        factors = [1.0 if k in self.algebraic else speed for k in range(self.x.numel())]
        return ca.vertcat(*factors) * rhs

    @property
    def parts(self) -> frozenset[str]:
        """Names in `PARTS` of what it has; noises are told apart by the likelihoods."""
        parts = {
            "delay": self.delay is not None,
            "doses": self.dosing is not None,
            "accumulators": bool(self.accumulators),
            "algebraic": bool(self.algebraic),
            "events": self.events is not None,
        }
        return frozenset(name for name, there in parts.items() if there)

    @property
    def smooth(self) -> bool:
        """True if a path through the states of the samples is one of x' = f at their inputs."""
        return self.parts <= SMOOTH_PARTS

    @property
    def measured(self) -> int:
        """Numbers of a sample's outputs in a row: the values, and what is known beside them."""
        q = self.outputs.numel()
        beside = self.density is not None and self.density.beside.numel()
        return q * (1 + len(BESIDE)) if beside else q

    @property
    def noise(self) -> ca.SX:
        """Variance of the noise of each output, or the log density that takes its place."""
        return self.noise_variance if self.density is None else self.density.log_density

    def with_numbers(self) -> Model:
        """Copy with the known numbers in place of their symbols."""

        def numbers(expression: ca.SX) -> ca.SX:
            return ca.substitute(expression, self.constants, ca.SX(self.constant_values))

        return replace(
            self,
            rhs=numbers(self.rhs),
            outputs=numbers(self.outputs),
            noise_variance=numbers(self.noise_variance),
            noise_correlation=numbers(self.noise_correlation),
            initial=tuple(numbers(state) for state in self.initial),
            diffusion=None if self.diffusion is None else numbers(self.diffusion),
            consistent=None if self.consistent is None else numbers(self.consistent),
            density=self.density
            and replace(
                self.density,
                log_density=numbers(self.density.log_density),
                variance=numbers(self.density.variance),
            ),
            process_noise=self.process_noise
            and replace(self.process_noise, columns=numbers(self.process_noise.columns)),
            events=self.events and Events(numbers(self.events.column), self.events.n_states),
            constants=ca.SX(0, 1),
            constant_values=(),
        )

    @property
    def _graphs(self) -> list[ca.SX]:
        """All graphs, absent ones as empty; the events, if any, last."""
        return [*self._behind_start, *self.initial, *self._events]

    @property
    def _behind_start(self) -> list[ca.SX]:
        """Graphs but those of the first states and of events, absent ones as empty."""
        nothing = ca.SX(0, 1)
        density = nothing
        if self.density is not None:
            density = ca.vertcat(self.density.log_density, self.density.variance)
        diffusion = nothing if self.diffusion is None else self.diffusion
        columns = nothing if self.process_noise is None else ca.vec(self.process_noise.columns)
        noise = [self.noise_variance, self.noise_correlation]
        return [self.rhs, self.outputs, *noise, diffusion, density, columns]

    @property
    def _events(self) -> list[ca.SX]:
        """Graphs of the events, if any, in one column."""
        return [] if self.events is None else [self.events.column]

    def depends_on(self) -> NDArray[np.bool_]:
        """Which parameters, (d,), any of the graphs depends on: the prior alone has the others."""
        return self._in_graphs(self._graphs)

    def moves_outputs(self) -> NDArray[np.bool_]:
        """Which parameters, (d,), the outputs without noise depend on."""
        return self._in_graphs([self.rhs, self.outputs, *self.initial, *self._events])

    def outlasts_start(self) -> NDArray[np.bool_]:
        """Return which parameters, (d,), act on more than the states at the first sample."""
        return self._in_graphs([*self._behind_start, *self._events])

    def _in_graphs(self, graphs: Sequence[ca.SX]) -> NDArray[np.bool_]:
        """Which parameters, (d,), some graphs depend on, or a dead time, lag or fraction is."""
        together = ca.vertcat(*map(ca.densify, graphs))
        used = np.array(ca.which_depends(together, self.theta, 1), dtype=bool)
        sources = () if self.delay is None else self.delay.sources
        if self.dosing is not None:
            sources = (*sources, *self.dosing.sources)
        used[[place for place in sources if isinstance(place, int)]] = True
        return used

    def with_free_start(self, kept: Sequence[int], start: ca.SX) -> Model:
        """Return the model of some parameters, by their places, and of states at the start (n, 1).

        ``start`` is behind the parameters that are kept, which shall be those that
        `outlasts_start` names.
        """
        theta = ca.vertcat(*[self.theta[j] for j in kept], start)
        dosing = self.dosing and self.dosing.over(kept)
        return replace(self, theta=theta, initial=(start,), dosing=dosing)

    def table(self) -> ExpressionTable:
        """The graphs as plain data, absent ones as empty; ``constant_values`` is not in it."""
        nothing = ca.SX(0, 1)
        density = self.density or OutputDensity(nothing, nothing, nothing)
        symbols = [self.x, self.u, self.t, self.gap, self.theta, self.constants]
        results = [ca.densify(graph) for graph in self._graphs]
        arguments = [*symbols, ca.vertcat(density.y, density.beside), density.output]
        return ExpressionTable.of(ca.Function("model", arguments, results))

    @classmethod
    def from_table(
        cls,
        table: ExpressionTable,
        constant_values: Sequence[float],
        delay: Delay | None = None,
        dosing: Dosing | None = None,
        accumulators: Sequence[int] = (),
        algebraic: tuple[int, ...] = (),
    ) -> Model:
        """Make the graphs again, over new symbols."""
        if not _describes_model(table, len(constant_values)):
            raise InputError("the expression table is not that of a model: it is damaged")
        (x, u, t, gap, theta, constants, y, output), results = table.graphs()
        rhs, outputs, noise_variance, noise_correlation, diffusion, log_density = results[:6]
        columns, *initial = results[6:]
        if not all(ca.depends_on(rhs[k], x[k]) for k in algebraic):
            raise InputError("the equations of the stored model do not fit: it is damaged")
        events = initial.pop() if initial[-1].numel() != x.numel() else None
        q = outputs.numel()
        return cls(
            x=x, u=u, t=t, theta=theta, rhs=rhs, outputs=outputs, noise_variance=noise_variance,
            noise_correlation=noise_correlation, gap=gap,
            initial=tuple(initial), constants=constants, constant_values=tuple(constant_values),
            diffusion=diffusion if diffusion.numel() else None,
            density=OutputDensity(
                y[:q], output, log_density[:q], ca.vec(y[q:]), ca.vec(log_density[q:])
            ) if y.numel() else None,
            process_noise=_process_noise(columns, x),
            delay=delay if dosing is None else dosing.moving(delay),
            algebraic=algebraic,
            dosing=dosing,
            accumulators=tuple(accumulators),
            events=Events.of_column(events, x.numel()),
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        return {
            "table": self.table(), "constant_values": self.constant_values, "delay": self.delay,
            "dosing": self.dosing, "accumulators": self.accumulators, "algebraic": self.algebraic,
        }  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(Model.from_table(**state)))

    def initial_states(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Initial state of the first record, (N, n), at parameter values (N, d)."""
        function = ca.Function("initial", [self.theta], [self.with_numbers().initial[0]])
        return np.array(function(values.T)).T

    def noise_variances(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Noise variance of each output, (q, N), at parameter values (N, d)."""
        variance = self.with_numbers().noise_variance
        function = ca.Function("variance", [self.theta], [variance])
        return np.array(function(values.T))

    @cached_property
    def takes_y_sd(self) -> NDArray[np.bool_]:
        """True for outputs whose noise takes a standard deviation of each value, (q,)."""
        if self.density is None or not self.density.beside.numel():
            return np.zeros(self.outputs.numel(), dtype=bool)
        pairs = map(ca.vertsplit, (self.density.log_density, Beside.split(self.density.beside).sd))
        return np.array([ca.depends_on(*pair) for pair in zip(*pairs, strict=True)])

    def density_function(self, graphs: Callable[[OutputDensity], list[ca.SX]]) -> SampleFunction:
        """Return graphs of the density, with numbers for the constants, as a function of samples.

        graphs: From the density to graphs over its symbols, the inputs, the time, and theta.
        """
        model = self.with_numbers()
        density = model.density
        assert density is not None
        symbols = [density.y, density.output, model.theta, density.beside, model.u, model.t]
        function = ca.Function("of_density", symbols, graphs(density))

        def called(y: Array, outputs: Array, values: Array, samples: SampleNumbers) -> list[Array]:
            each = np.broadcast_to(values, (len(y), values.shape[-1]))
            columns = (y, outputs, each, *samples)
            with np.errstate(all="ignore"):
                found = function.call([ca.DM(column.T) for column in columns])
            return [np.array(one).T for one in found]

        return called

    def sample_numbers(self, record: Record) -> SampleNumbers:
        """Numbers that the density may depend on at the samples of a record beside the outputs."""
        assert self.density is not None
        return SampleNumbers.of(record, self.density.beside.numel())

    def density_scatter(
        self, values: Array, outputs: Array, y: Array, samples: SampleNumbers
    ) -> tuple[Array, Array]:
        """Variance of the noise about the outputs where it has a density, and residuals, (T, q).

        Those of Gaussian noise are its variance, and residuals over the standard deviation. Of
        other noise the variance is the reciprocal of a sample's information; the residuals are
        those of the deviance, with the sign of y - output, which for the logarithm of Gaussian
        noise are standard normal (McCullagh and Nelder 1989, section 2.4.3). NaN where a density is
        not largest at an output that is y, as of counts whose output is the logarithm of their
        mean.

        values: (d,) or (T, d), parameters, of all samples or of each.
        outputs, y: (T, q), A y that is NaN has no residual.
        samples: Of the T samples; limits do not count.
        """

        def graphs(density: OutputDensity) -> list[ca.SX]:
            at, own = ca.substitute, (density.y, density.output)
            gradient, information = density.expansion()[0], density.information()
            deviance = 2.0 * (at(density.log_density, *reversed(own)) - density.log_density)
            return [at(information, *own), at(gradient, *own), deviance, density.variances]

        measured = samples.without_limits()
        found = self.density_function(graphs)(y, outputs, values, measured)
        curvature, slope, deviance, known = found
        with np.errstate(all="ignore"):
            variance = 1.0 / curvature
            residual = np.sign(y - outputs) * np.sqrt(np.maximum(deviance, 0.0))
            central = np.abs(slope) <= 1e-6 * np.sqrt(curvature)
            variance = np.where(central, variance, np.nan)
            residual = np.where(central, residual, np.nan)
            gaussian = np.isfinite(known)
            return (
                np.where(gaussian, known, variance),
                np.where(gaussian, (y - outputs) / np.sqrt(known), residual),
            )

    def natural_means(self) -> ca.Function | None:
        """Return the mean of measured values and its slope by the output, None where none differs.

        An output is the natural parameter g of an exponential family, log p = y g - b(g) + c(y),
        as of counts and of zeros and ones, where d^2 log p / dy dg = 1. Then y has the mean b'(g)
        and the variance b''(g), which is the slope too (McCullagh and Nelder 1989, section 2.2.2).

        The function is of outputs (q, M): means and slopes, (q, M) both, and 1 for each natural
        output, 0 for another one, whose mean is itself.
        """
        density = self.with_numbers().density
        if density is None:
            return None
        gradient, curvature = (ca.vertsplit(one) for one in density.expansion())
        y, g = ca.vertsplit(density.y), ca.vertsplit(density.output)
        natural = [
            ca.jacobian(one, own).is_one()
            and not ca.depends_on(one, ca.vertcat(self.theta, self.u, self.t, density.beside))
            for one, own in zip(gradient, y, strict=True)
        ]
        if not any(natural):
            return None
        means = [
            ca.substitute(-gradient[j], y[j], 0.0) if one else g[j] for j, one in enumerate(natural)
        ]
        slopes = [-curvature[j] if one else ca.SX(1.0) for j, one in enumerate(natural)]
        graphs = [ca.vertcat(*means), ca.vertcat(*slopes), ca.SX(ca.DM([*map(float, natural)]))]
        return ca.Function("natural_means", [density.output], graphs)


def _describes_model(table: ExpressionTable, n_constants: int) -> bool:
    """True if the shapes are those of `Model.table`: columns, of sizes that agree."""
    arguments, results = table.input_shapes.tolist(), table.output_shapes.tolist()
    if len(arguments) != 8 or len(results) < 8 or any(c != 1 for _, c in arguments + results):
        return False
    n, _, n_times, n_gaps, _, n_symbols, n_measured, n_expected = (rows for rows, _ in arguments)
    rates, outputs, variances, correlations, diffusion, densities, columns, *initial = (
        rows for rows, _ in results
    )
    # The events are more numbers than there are states.
    if initial[-1] >= event_rows(n) and initial[-1] % event_rows(n) == 0:
        initial.pop()
    return (
        n > 0
        and n_times == n_gaps == 1
        and n_symbols == n_constants
        and outputs == variances == correlations
        and diffusion in (0, 1)
        and n_measured in (n_expected, (1 + BESIDE_PARTS) * n_expected)
        and densities in (n_expected, 2 * n_expected)
        and n_expected in (0, outputs)
        and columns % n == 0
        and all(size == n for size in [rates, *initial])
        and bool(initial)
    )


def _process_noise(entries: ca.SX, x: ca.SX) -> ProcessNoise | None:
    """Process noise of the entries of its columns, one column below the other."""
    columns = ca.sparsify(ca.reshape(entries, x.numel(), entries.numel() // x.numel()))
    return ProcessNoise(columns, x) if columns.nnz() else None


def observed_outputs(
    ode: ODE,
    observe: list[Any],
    x: ca.SX,
    u: ca.SX,
    t: ca.SX,
    rhs: ca.SX,
    parameter: Parameter,
    process_noise: ProcessNoise | None = None,
) -> ca.SX:
    """Noise-free outputs: states, derivatives (``"v'"``), or functions of either."""
    known = ode.known(x, u, t, parameter)
    outputs: list[ca.SX] = []
    for what in observe:
        if callable(what):
            traced = known.traced(what, "observe function", "observe")
            if not traced:
                raise InputError(
                    f"observe function '{function_name(what)}' returns nothing: "
                    "return what is measured",
                    argument="observe",
                )
            outputs += traced
        else:
            outputs.append(_named_output(what, ode, x, rhs, process_noise))
    if len(outputs) != len(observe):
        raise InputError(
            f"observe returns {len(outputs)} outputs for {len(observe)} entries: "
            "give one function per output",
            argument="observe",
        )
    return ca.vertcat(*outputs)


def one_per_output(noise: list[Any], observe: list[Any]) -> list[Any]:
    """Entries of ``noise``, a single one repeated."""
    if len(noise) == 1:
        noise = noise * len(observe)
    if len(noise) != len(observe):
        raise InputError(
            f"noise has {len(noise)} entries but observe has {len(observe)}: one per output",
            argument="noise",
        )
    return noise


def _named_output(
    what: Any, ode: ODE, x: ca.SX, rhs: ca.SX, process_noise: ProcessNoise | None
) -> ca.SX:
    name = what.removesuffix("'") if isinstance(what, str) else ""
    if name not in ode.states:
        raise InputError(
            f"observe names {shown(what)}, which is no state of model '{ode.name}' "
            f"({listed(ode.states)}): "
            f'name a state, its derivative as "{ode.states[0]}\'", '
            "or give a function",
            argument="observe",
        )
    place = ode.states.index(name)
    if what != name and name in ode.algebraic:
        raise InputError(
            f"observe names {shown(what)}, but '{name}' is an algebraic variable, whose derivative "
            "the model does not have: observe the variable itself",
            argument="observe",
        )
    if what != name and process_noise is not None and process_noise.columns[place, :].nnz():
        raise InputError(
            f"observe names {shown(what)}, but '{name}' has process noise and so no derivative: "
            "observe a state, or make the disturbance a state of its own, with the process noise",
            argument="observe",
        )
    return rhs[place] if what != name else x[place]


LACKING = (
    "parameter '{name}' has no prior: give prior={{'{name}': ...}} "
    "a scipy.stats distribution, or a number to fix it"
)


class Constants:
    """Known numbers as symbols, each name once; 0 and 1 stay numbers, they shape the graph."""

    def __init__(self) -> None:
        self.symbols: dict[str, ca.SX] = {}
        self.values: list[float] = []

    def symbol(self, value: float, name: str) -> ca.SX:
        """Symbol of a number."""
        if value in (0.0, 1.0):
            return ca.SX(value)
        if name not in self.symbols:
            self.symbols[name] = ca.SX.sym(name)
            self.values.append(float(value))
        return self.symbols[name]


class _Parameters:
    """Parameters by name as they are first used: symbols of theta, or constants.

    free: Those that are symbols.
    fixed: Those that are constants.
    lacking: Message for a parameter that is neither, with a place for its ``{name}``.
    """

    def __init__(self, free: list[str], fixed: Mapping[str, float], lacking: str) -> None:
        self.symbols = {name: ca.SX.sym(name) for name in free}
        self.constants, self.used = Constants(), set[str]()
        self._fixed, self._lacking = fixed, lacking

    def __call__(self, name: str, default: float | None = None) -> ca.SX:
        """Symbol of a parameter; of its default where it is neither free nor fixed."""
        self.used.add(name)
        if name in self.symbols:
            return self.symbols[name]
        if name in self._fixed:
            return self.constants.symbol(self._fixed[name], name)
        if default is None:
            raise InputError(self._lacking.format(name=name), argument=f"prior.{name}")
        # Two functions may give one name different defaults.
        return self.constants.symbol(default, f"{name}={default!r}")

    def unused(self, ode: ODE) -> list[str]:
        """Free or fixed parameters that nothing has used, defaults of the ODE aside."""
        given = (*self.symbols, *self._fixed)
        return [name for name in given if name not in self.used and name not in ode.defaults]


def _require_positive(named: list[tuple[str, Any]], fixed: Mapping[str, float]) -> None:
    """Refuse a standard deviation or diffusion whose parameter is fixed to no positive number."""
    for what, name in named:
        if isinstance(name, str) and not fixed.get(name, 1.0) > 0:
            raise InputError(
                f"{what} '{name}' is fixed to {fixed[name]:g}: give it a positive number or a "
                "distribution in prior",
                argument=what,
            )


def make_model(
    ode: ODE,
    *,
    observe: list[Any],
    noise: list[Any],
    initial: Any,
    firsts: Sequence[FirstSample],
    free: list[str],
    fixed: Mapping[str, float],
    lacking: str = LACKING,
    diffusion: str | None = None,
    interval: float = 1.0,
    disturbance: Disturbance | None = None,
    delay: Delay | None = None,
    limited: bool = False,
    dosing: Dosing | None = None,
) -> tuple[Model, dict[str, Distribution], list[str]]:
    """Trace everything over one set of symbols.

    firsts: Of each record.
    free: Parameters that become symbols, in this order.
    fixed: Parameters that become constants.
    lacking: Message for a parameter that is neither, with a place for its ``{name}``.
    diffusion: Parameter that holds a solver's diffusion.
    interval: Sampling interval, for which a correlation of noise holds that names none.
    disturbance: Process noise of an ODE that has none of its own.
    delay: Of the inputs.
    limited: Whether values may be known by their limits alone.
    dosing: Of the doses of records.

    Returns model; added: parameters that the initial state added, last in theta; unused: free or
    fixed parameters that nothing depends on, defaults of the ODE aside.
    """
    parameter = _Parameters(free, fixed, lacking)
    constants = parameter.constants
    x, u, t = _vector("x", len(ode.states)), _vector("u", len(ode.inputs)), ca.SX.sym("t")
    values = ca.vertcat(*[parameter(name) for name in ode.parameters])
    rhs = ode.at_interval(interval).rhs(x, u, t, values)
    of_noise = Symbols(parameter, constants.symbol)
    disturbed = disturbance and disturbance.process_noise(ode, x, of_noise)
    if ode.diffusion is not None:
        disturbed = ProcessNoise(ca.sparsify(ode.diffusion(x, u, t, values)), x)
    outputs = observed_outputs(ode, observe, x, u, t, rhs, parameter, disturbed)
    noise = one_per_output(noise, observe)
    gaussian = [as_gaussian(entry) for entry in noise]
    sds = [one.sd for one in gaussian if one is not None]
    _require_positive([*(("noise", sd) for sd in sds), ("diffusion", diffusion)], fixed)
    graphs = noise_graphs(gaussian, interval, of_noise)
    known = {name: u[i] for i, name in enumerate(ode.inputs)} | {TIME: t}
    densities = [
        cast("Density", as_density(entry) if one is None else Normal(one.sd))
        for one, entry in zip(gaussian, noise, strict=True)
    ]
    density = output_density(densities, limited, replace(of_noise, known=known))
    spread = None if diffusion is None else parameter(diffusion)
    initials, added = initial_states(ode, initial, firsts, parameter, constants.symbol)
    model = Model(
        x=x,
        u=u,
        t=t,
        theta=ca.vertcat(*parameter.symbols.values(), *added.symbols),
        rhs=rhs,
        outputs=outputs,
        noise_variance=graphs.variance,
        noise_correlation=graphs.correlation,
        gap=graphs.gap,
        initial=initials,
        constants=ca.vertcat(*constants.symbols.values()),
        constant_values=tuple(constants.values),
        diffusion=spread,
        density=density,
        process_noise=disturbed,
        delay=delay,
        events=Events.of_column(ode.events and ode.events(x, u, t, values), x.numel()),
        algebraic=tuple(map(ode.states.index, ode.algebraic)),
        accumulators=tuple(map(ode.states.index, ode.accumulators)),
    )
    more = {"process_noise": disturbed is not None, "doses": dosing is not None}
    check_pairs(model.parts.union(part for part, there in more.items() if there), ode.name)
    _check_algebraic(model, ode, [*parameter.symbols, *added.distributions])
    if delay is not None:
        parameter.used.update(delay.names)
    if dosing is not None:
        parameter.used.update(dosing.names)
        model = _dosed(model, dosing)
    return model, added.distributions, parameter.unused(ode)


def _check_algebraic(model: Model, ode: ODE, names: list[str]) -> None:
    """Refuse parameters that are nothing but the start of an algebraic variable."""
    if not model.algebraic:
        return
    of_states = ca.diag(model.mass)
    others = replace(model, initial=tuple(of_states @ state for state in model.initial))
    for lost in np.flatnonzero(model.depends_on() & ~others.depends_on()):
        raise InputError(
            f"initial makes '{names[lost]}' nothing but the value of an algebraic variable "
            f"({listed(ode.algebraic)}), which its equation determines: give a number, from which "
            "Newton's iteration begins",
            argument="initial",
        )


def _dosed(model: Model, dosing: Dosing) -> Model:
    """A model with the smooth part of the states in place of these, see `smcpn.model.dosing`."""
    delay = dosing.moving(model.delay)
    model = replace(model, u=ca.vertcat(model.u, dosing.symbols()), dosing=dosing, delay=delay)
    noise, speed = model.process_noise, dosing.speed(model)
    if noise is not None:
        # A part of no length has no slope, either.
        root = ca.sqrt(ca.fmax(speed, np.finfo(float).tiny))
        columns = dosing.applied(noise.columns, model, at_sample=False)
        noise = replace(noise, columns=ca.sparsify(root * columns))
    events = model.events
    if events is not None:
        column = dosing.applied(events.column, model, at_sample=False)
        arrived = events.of_following(dosing.arrived(model, at_sample=False))
        events = replace(events, column=column - arrived)
    return replace(
        model,
        events=events,
        rhs=model.at_speed(speed, dosing.applied(model.rhs, model, at_sample=False)),
        outputs=dosing.applied(model.outputs, model, at_sample=True),
        process_noise=noise,
    )


def _vector(name: str, size: int) -> ca.SX:
    return ca.SX.sym(name, size, 1)
