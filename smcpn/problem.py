"""What is to be identified: an equation, its records, what was measured, and the priors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import shown
from smcpn.errors import InputError
from smcpn.initial import initial_states
from smcpn.observation import noise_variances, observed_outputs
from smcpn.ode import ODE
from smcpn.prior import Distribution, Prior
from smcpn.record import Record, as_records

LACKING = (
    "parameter '{name}' has no prior: give prior={{'{name}': ...}} "
    "a scipy.stats distribution, or a number to fix it"
)


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
        Variance of the noise of each output, (q, 1), a function of theta at most.
    initial : tuple of casadi.SX
        Initial state of each record, (n, 1), a function of theta at most.
    constants : casadi.SX
        Symbols of the known numbers in all of these, (c, 1); ``constant_values`` holds them.
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
            constants=ca.SX(0, 1),
            constant_values=(),
        )

    def initial_states(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Initial state of the first record, (N, n), at parameter values (N, d)."""
        function = ca.Function("initial", [self.theta], [self.with_numbers().initial[0]])
        return np.array(function(values.T)).T

    def noise_variances(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Noise variance of each output, (q, N), at parameter values (N, d)."""
        variance = self.with_numbers().noise_variance
        function = ca.Function("variance", [self.theta], [variance])
        return np.array(function(values.T))


class Problem:
    """An ODE with unknown parameters, the records to learn them from, and the priors.

    Parameters
    ----------
    ode : ODE
        The differential equation, made by `smcpn.ode`.
    records : Record or sequence of Record
        Several records share the parameters; their lengths may differ.
    observe : str, callable, or sequence of these
        What each output measures: a state (``"x"``), the derivative of a state (``"v'"``), or a
        function of states, inputs and keyword-only parameters (a default holds unless a prior
        names the parameter).
    noise : float, str, or sequence of these
        Standard deviation of the measurement noise of each output, in its unit, or the name of
        the parameter that holds it.
    prior : mapping of str to distribution or float
        A frozen `scipy.stats` distribution for every unknown parameter; a number fixes one.
    initial : "rest", mapping, or sequence
        State at the first sample: ``"rest"`` (all zero, the default), one value per state, or a
        mapping from state to value. A value is a number, the name of a parameter, or a
        distribution (a new parameter ``"x(0)"``). A list of such, one per record, is accepted.
    coordinates : mapping of str to str, optional
        See `Prior`.

    Raises
    ------
    InputError
        One sentence that names what does not fit and how to mend it.

    Examples
    --------
    >>> import numpy as np, smcpn
    >>> from scipy import stats
    >>> @smcpn.ode
    ... def decay(x, *, rate):
    ...     return -rate * x
    >>> record = smcpn.Record(y=np.exp(-np.arange(20) / 10), dt=0.1)
    >>> smcpn.Problem(decay, record, observe="x", noise=0.01, initial=[1.0],
    ...               prior=dict(rate=stats.lognorm(1.0))).names
    ('rate',)
    """

    def __init__(
        self,
        ode: ODE,
        records: Record | Sequence[Record],
        *,
        observe: str | Callable[..., Any] | Sequence[str | Callable[..., Any]],
        noise: float | str | Sequence[float | str],
        prior: Mapping[str, Distribution | float],
        initial: Any = "rest",
        coordinates: Mapping[str, str] | None = None,
    ) -> None:
        check_ode(ode)
        self.ode = ode
        self.records = as_records(records)
        self.observe, self.noise = _as_list(observe), _as_list(noise)
        self.initial = initial
        self._check_records()
        free, fixed = _split_prior(prior, ode.defaults)
        self.model, added, unused = make_model(
            ode,
            observe=self.observe,
            noise=self.noise,
            initial=initial,
            n_records=len(self.records),
            free=list(free),
            fixed=fixed,
        )
        if unused:
            raise InputError(
                f"prior '{unused[0]}' belongs to no parameter of model '{ode.name}' "
                f"({', '.join(ode.parameters)}): remove it or correct its name"
            )
        self.prior = Prior({**free, **added}, coordinates or {})
        self._fixed, self.fixed = fixed, {k: v for k, v in fixed.items() if k in prior}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the unknown parameters, in the order of the columns of theta."""
        return self.prior.names

    @property
    def n_samples(self) -> int:
        """Samples of all records together."""
        return sum(len(record) for record in self.records)

    def model_observing(self, observe: Any) -> Model:
        """The same model with other outputs, of which the noise is not known (variance 0)."""
        model, what = self.model, _as_list(observe)

        def parameter(name: str, default: float | None = None) -> ca.SX:
            if name in self.names:
                return model.theta[self.names.index(name)]
            value = self._fixed.get(name, default)
            if value is not None:
                return ca.SX(value)
            raise InputError(f"observe function takes '{name}', which is no parameter")

        outputs = observed_outputs(self.ode, what, model.x, model.u, model.t, model.rhs, parameter)
        return replace(model, outputs=outputs, noise_variance=ca.SX.zeros(len(what), 1))

    def _check_records(self) -> None:
        for record in self.records:
            check_record(record, self.ode, len(self.observe))
            if record.n_outputs == 0 or np.isnan(record.y).all():
                raise InputError(f"{record.name}: every y is NaN: there is nothing to learn from")
        for j, what in enumerate(self.observe):
            # An output may be missing from some records, but not from all.
            if all(np.isnan(record.y[:, j]).all() for record in self.records):
                raise InputError(
                    f"{self.records[0].name}: every y of output {j} ({shown(what)}) is NaN: "
                    "leave this column out of y and its entry out of observe and noise"
                )


def check_ode(ode: ODE) -> None:
    """Refuse what `smcpn.ode` has not made.

    Raises
    ------
    InputError
        For a plain function, for instance.
    """
    if not isinstance(ode, ODE):
        raise InputError(f"ode is {type(ode).__name__}: decorate the function with @smcpn.ode")


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


def check_record(record: Record, ode: ODE, n_outputs: int) -> None:
    """Refuse a record whose columns are not those of the model; outputs may be absent.

    Raises
    ------
    InputError
        If inputs or outputs differ in number.
    """
    if record.n_inputs != len(ode.inputs):
        raise InputError(
            f"{record.name}: u has {record.n_inputs} columns but model '{ode.name}' has "
            f"{len(ode.inputs)} inputs ({', '.join(ode.inputs) or 'none'})"
        )
    if record.n_outputs not in (0, n_outputs):
        raise InputError(
            f"{record.name}: y has {record.n_outputs} columns but observe names {n_outputs} outputs"
        )


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
    for sd in noise:
        if isinstance(sd, str) and not fixed.get(sd, 1.0) > 0:
            raise InputError(
                f"noise '{sd}' is fixed to {fixed[sd]:g}: give it a positive number or a "
                "distribution in prior"
            )
    variances = noise_variances(noise, observe, parameter, constants.symbol)
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
    )
    unused = [name for name in (*free, *fixed) if name not in used and name not in ode.defaults]
    return model, added.distributions, unused


def _split_prior(
    prior: Mapping[str, Distribution | float], defaults: Mapping[str, float]
) -> tuple[dict[str, Distribution], dict[str, float]]:
    if not isinstance(prior, Mapping):
        raise InputError(f"prior is {type(prior).__name__}: give a dict of name to distribution")
    free: dict[str, Any] = {}
    fixed = dict(defaults)
    for name, value in prior.items():
        if isinstance(value, (int, float, np.number)):
            if not np.isfinite(value):
                raise InputError(f"prior of '{name}' is {value}: give a number or a distribution")
            fixed[name] = float(value)
        else:
            free[name] = value
            fixed.pop(name, None)
    if not free:
        raise InputError("prior fixes every parameter: give at least one a distribution")
    return free, fixed


def _vector(name: str, size: int) -> ca.SX:
    return ca.SX.sym(name, size, 1)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]
