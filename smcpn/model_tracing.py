"""From an equation and what is said of it to a `Model`: all traced over one set of symbols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import casadi as ca

from smcpn.density import Symbols, as_density, output_density
from smcpn.errors import InputError
from smcpn.initial import initial_states
from smcpn.model import Model
from smcpn.observation import noise_variances, observed_outputs, one_per_output
from smcpn.ode import ODE
from smcpn.prior import Distribution

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


def make_model(
    ode: ODE,
    *,
    observe: list[Any],
    noise: list[Any],
    initial: Any,
    n_records: int,
    free: list[str],
    fixed: Mapping[str, float],
    lacking: str = LACKING,
    diffusion: str | None = None,
) -> tuple[Model, dict[str, Distribution], list[str]]:
    """Trace everything over one set of symbols.

    Parameters
    ----------
    free : list of str
        Parameters that become symbols, in this order.
    fixed : mapping of str to float
        Parameters that become constants.
    lacking : str
        Message for a parameter that is neither, with a place for its ``{name}``.
    diffusion : str, optional
        Parameter that holds a solver's diffusion.

    Returns
    -------
    model : Model
    added : dict of str to distribution
        Parameters that the initial state added, last in theta.
    unused : list of str
        Free or fixed parameters that nothing depends on, defaults of the ODE aside.
    """
    symbols = {name: ca.SX.sym(name) for name in free}
    used: set[str] = set()
    constants = Constants()

    def parameter(name: str, default: float | None = None) -> ca.SX:
        used.add(name)
        if name in symbols:
            return symbols[name]
        if name in fixed:
            return constants.symbol(fixed[name], name)
        if default is None:
            raise InputError(lacking.format(name=name))
        # Two functions may give one name different defaults.
        return constants.symbol(default, f"{name}={default!r}")

    x, u, t = _vector("x", len(ode.states)), _vector("u", len(ode.inputs)), ca.SX.sym("t")
    rhs = ode.rhs(x, u, t, ca.vertcat(*[parameter(name) for name in ode.parameters]))
    outputs = observed_outputs(ode, observe, x, u, t, rhs, parameter)
    noise = one_per_output(noise, observe)
    for what, sd in [*(("noise", sd) for sd in noise), ("diffusion", diffusion)]:
        if isinstance(sd, str) and not fixed.get(sd, 1.0) > 0:
            raise InputError(
                f"{what} '{sd}' is fixed to {fixed[sd]:g}: give it a positive number or a "
                "distribution in prior"
            )
    variances = noise_variances(noise, parameter, constants.symbol)
    density = output_density(
        [as_density(sd) for sd in noise], variances, Symbols(parameter, constants.symbol)
    )
    spread = None if diffusion is None else parameter(diffusion)
    initials, added = initial_states(ode, initial, n_records, parameter, constants.symbol)
    model = Model(
        x=x,
        u=u,
        t=t,
        theta=ca.vertcat(*symbols.values(), *added.symbols),
        rhs=rhs,
        outputs=outputs,
        noise_variance=variances,
        initial=initials,
        constants=ca.vertcat(*constants.symbols.values()),
        constant_values=tuple(constants.values),
        diffusion=spread,
        density=density,
    )
    unused = [name for name in (*free, *fixed) if name not in used and name not in ode.defaults]
    return model, added.distributions, unused


def _vector(name: str, size: int) -> ca.SX:
    return ca.SX.sym(name, size, 1)
