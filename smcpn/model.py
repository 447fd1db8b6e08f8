"""What is identified as expression graphs: what kernels are generated from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.density import OutputDensity
from smcpn.errors import InputError
from smcpn.expression import ExpressionTable


@dataclass(frozen=True)
class Model:
    """The problem as expression graphs over shared symbols: what kernels are generated from.

    Attributes
    ----------
    x, u, t, theta : casadi.SX
        States (n, 1), inputs, time, and the parameters that have a prior, in its order.
    rhs : casadi.SX
        Derivative of the states, (n, 1).
    outputs : casadi.SX
        Noise-free outputs g(x, u, t, theta), (q, 1).
    noise_variance : casadi.SX
        Variance of the noise of each output, (q, 1), a function of theta at most; infinite where
        ``density`` takes its place.
    initial : tuple of casadi.SX
        Initial state of each record, (n, 1), a function of theta at most.
    constants : casadi.SX
        Symbols of the known numbers in all of these, (c, 1); ``constant_values`` holds them.
    diffusion : casadi.SX or None
        Standard deviation of a solver's Wiener processes, where the problem names it.
    density : OutputDensity or None
        How the measurements scatter, where that is not Gaussian for all outputs.
    """

    x: ca.SX
    u: ca.SX
    t: ca.SX
    theta: ca.SX
    rhs: ca.SX
    outputs: ca.SX
    noise_variance: ca.SX
    initial: tuple[ca.SX, ...]
    constants: ca.SX
    constant_values: tuple[float, ...]
    diffusion: ca.SX | None = None
    density: OutputDensity | None = None

    def with_numbers(self) -> Model:
        """The same model with the known numbers in place of their symbols."""

        def numbers(expression: ca.SX) -> ca.SX:
            return ca.substitute(expression, self.constants, ca.SX(self.constant_values))

        return replace(
            self,
            rhs=numbers(self.rhs),
            outputs=numbers(self.outputs),
            noise_variance=numbers(self.noise_variance),
            initial=tuple(numbers(state) for state in self.initial),
            diffusion=None if self.diffusion is None else numbers(self.diffusion),
            density=self.density
            and replace(self.density, log_density=numbers(self.density.log_density)),
            constants=ca.SX(0, 1),
            constant_values=(),
        )

    def table(self) -> ExpressionTable:
        """The graphs as plain data, absent ones as empty; ``constant_values`` is not in it."""
        nothing = ca.SX(0, 1)
        density = self.density or OutputDensity(nothing, nothing, nothing)
        diffusion = nothing if self.diffusion is None else self.diffusion
        graphs = [self.rhs, self.outputs, self.noise_variance, diffusion, density.log_density]
        symbols = [self.x, self.u, self.t, self.theta, self.constants, density.y, density.output]
        results = [ca.densify(graph) for graph in [*graphs, *self.initial]]
        return ExpressionTable.of(ca.Function("model", symbols, results))

    @classmethod
    def from_table(cls, table: ExpressionTable, constant_values: Sequence[float]) -> Model:
        """Make the graphs again, over new symbols.

        Raises
        ------
        InputError
            If the table is not that of a model with so many constants.
        """
        if not _describes_model(table, len(constant_values)):
            raise InputError("the expression table is not that of a model: it is damaged")
        (x, u, t, theta, constants, y, output), results = table.graphs()
        rhs, outputs, noise_variance, diffusion, log_density, *initial = results
        return cls(
            x=x, u=u, t=t, theta=theta, rhs=rhs, outputs=outputs, noise_variance=noise_variance,
            initial=tuple(initial), constants=constants, constant_values=tuple(constant_values),
            diffusion=diffusion if diffusion.numel() else None,
            density=OutputDensity(y, output, log_density) if y.numel() else None,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table(), "constant_values": self.constant_values}

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


def _describes_model(table: ExpressionTable, n_constants: int) -> bool:
    """Whether the shapes are those of `Model.table`: columns, of sizes that agree."""
    arguments, results = table.input_shapes.tolist(), table.output_shapes.tolist()
    if len(arguments) != 7 or len(results) < 6 or any(c != 1 for _, c in arguments + results):
        return False
    n, _, n_times, _, n_symbols, n_measured, n_expected = (rows for rows, _ in arguments)
    rates, outputs, variances, diffusion, densities, *initial = (rows for rows, _ in results)
    return (
        n_times == 1
        and n_symbols == n_constants
        and outputs == variances
        and diffusion in (0, 1)
        and n_measured == n_expected == densities
        and densities in (0, outputs)
        and all(size == n for size in [rates, *initial])
    )
