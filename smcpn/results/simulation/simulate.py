"""Integrate an equation with known parameters over a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, listed, real_number, shown, whole_number
from smcpn.model.delay import Delay
from smcpn.model.disturbance import Disturbance
from smcpn.model.dosing import Dosing
from smcpn.model.entries import by_scalar
from smcpn.model.graphs import Model, make_model
from smcpn.model.initial import FirstSample, scalar_initial
from smcpn.model.ode import ODE
from smcpn.model.problem import Problem, check_ode, check_record, scalar_outputs
from smcpn.model.record import Record
from smcpn.results.simulation.prior_drawn import DRAWS, PriorPrediction, simulate_prior
from smcpn.results.simulation.simulation import starting_like
from smcpn.results.simulation.simulator import DisturbedSimulator, Simulator

Array = NDArray[np.float64]


@overload
def simulate(
    ode: Problem,
    record: Record | None = None,
    *,
    draws: int = DRAWS,
    steps: int | str = "auto",
    seed: int | None = None,
) -> PriorPrediction: ...


@overload
def simulate(
    ode: ODE,
    record: Record,
    parameters: Mapping[str, Any],
    *,
    observe: Any,
    initial: Any = "rest",
    steps: int | str = "auto",
    process_noise: Mapping[Any, float | str] | None = None,
    delay: Mapping[str, float | str] | None = None,
    seed: int | None = None,
) -> Array: ...


def simulate(
    ode: ODE | Problem,
    record: Record | None = None,
    parameters: Mapping[str, Any] | None = None,
    *,
    draws: int | None = None,
    observe: Any = None,
    initial: Any = "rest",
    steps: int | str = "auto",
    process_noise: Mapping[Any, float | str] | None = None,
    delay: Mapping[str, float | str] | None = None,
    seed: int | None = None,
) -> Array | PriorPrediction:
    """Integrate an ODE with known parameters, or a problem with draws from its prior.

    With an ODE, a record and parameters it is one path over the input of the record. Where there is
    process noise, by ``process_noise`` or by `smcpn.sde`, it is one path of the disturbed system;
    ``model.drift`` of such a model is the equation without noise.

    With a problem it is what the prior predicts before anything is learned from the data: whether
    the record lies within it, and how much wider it is.

    Parameters
    ----------
    ode : ODE or Problem
    record : Record
        Input, time axis and hold; its outputs are not used. With a problem by default its first
        record, whose outputs compare; another one than the problem's begins as the first does.
    parameters : mapping of str to float
        Of an ODE. A vector has an array or a number for all entries, an unknown function a mapping
        of its parameters (``{"friction": {"scale": 1.0, ...}}``) or an array of them in their
        order.
    draws : int, optional
        Of a problem: parameter vectors drawn from its prior; 1000 by default, 40 at least.
    observe : str, callable, or sequence of these
        Of an ODE, as for `Problem`.
    initial : object
        Of an ODE, as for `Problem`, with numbers or parameter names.
    steps : int or "auto"
        Runge-Kutta steps per sample; ``"auto"`` doubles until the outputs settle, without noise.
        Where noise depends on the state, the distribution of a path has an error of the order of
        the step.
    process_noise : mapping, optional
        Of an ODE, as for `Problem`, with numbers or parameter names.
    delay : mapping, optional
        Of an ODE, as for `Problem`, with numbers or parameter names.
    seed : int, optional
        Of the process noise and of the draws; the same seed and steps give the same result.

    Returns
    -------
    ndarray, (T, n_outputs), or PriorPrediction
        The latter with a problem.

    Raises
    ------
    InputError
        If the record does not have the inputs of the model, a parameter is missing, unknown or
        no number, an argument does not go with what is simulated, or the solution diverges.

    Examples
    --------
    >>> import numpy as np, smcpn
    >>> from scipy import stats
    >>> @smcpn.ode
    ... def mass(x, v, *, c):
    ...     return v, -c * v
    >>> record = smcpn.Record(y=np.zeros(5), dt=0.1)
    >>> smcpn.simulate(mass, record, {"c": 0.5, "q": 0.1}, observe="x",
    ...                process_noise={"v": "q"}, seed=0).shape
    (5, 1)
    >>> problem = smcpn.Problem(mass, record, observe="x", noise=0.1,
    ...                         prior={"c": stats.lognorm(1.0)})
    >>> smcpn.simulate(problem, draws=100, seed=0).coverage
    array([1.])
    """
    of_ode = {
        "parameters": parameters, "observe": observe, "process_noise": process_noise,
        "delay": delay, "initial": None if isinstance(initial, str) else initial,
    }  # fmt: skip
    if isinstance(ode, Problem):
        _refuse_given(of_ode, "a problem has its own, and its parameters are drawn: leave it out")
        return simulate_prior(ode, record, DRAWS if draws is None else draws, steps, seed)
    _refuse_given({"draws": draws}, "draws are of a problem's prior: give a smcpn.Problem")
    check_ode(ode)
    if not isinstance(record, Record):
        raise InputError(f"record is {shown(record)}: give one smcpn.Record")
    if not isinstance(parameters, Mapping):
        raise InputError(f"parameters is {shown(parameters)}: give a dict of name to number")
    seed = None if seed is None else whole_number("seed", seed, 0)
    what = scalar_outputs(observe, ode)
    # Its outputs are not used: they may be other ones than are simulated.
    record = record.unmeasured(len(what))
    check_record(record, ode, len(what))
    model, values = known_model(ode, parameters, what, initial, process_noise, delay, record)
    return _path(model, record, values[:, None], steps, seed)


def _refuse_given(given: Mapping[str, Any], why: str) -> None:
    """Refuse arguments that do not go with what is simulated."""
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name} is {shown(value)}, but {why}", argument=name)


def known_model(
    ode: ODE,
    parameters: Mapping[str, Any],
    observe: list[Any],
    initial: Any,
    process_noise: Mapping[Any, float | str] | None,
    delay: Mapping[str, float | str] | None = None,
    record: Record | None = None,
) -> tuple[Model, Array]:
    """Trace an ODE whose parameters are all known, and return it with their values (p,)."""
    parameters = by_scalar(parameters, ode, "parameters")
    values = {
        name: real_number(f"parameter '{name}'", value)
        for name, value in {**ode.defaults, **parameters}.items()
    }
    disturbance = Disturbance.of(process_noise, ode)
    if disturbance is not None:
        disturbance.check({}, values)
    nowhere = FirstSample(np.zeros(len(ode.inputs)), 0.0)
    first = nowhere if record is None else FirstSample.of(record)
    model, added, unused = make_model(
        ode,
        observe=observe,
        noise=[1.0],
        initial=scalar_initial(initial, ode),
        firsts=[first],
        free=list(values),
        fixed={},
        disturbance=disturbance,
        delay=Delay.of(delay, ode, {}, values),
        dosing=None if record is None else Dosing.of([record], ode, {}, values),
        lacking="parameter '{name}' has no value: give parameters={{'{name}': ...}} a number",
    )
    if unused or added:
        raise InputError(
            f"'{[*unused, *added][0]}' belongs to no parameter of model '{ode.name}' "
            f"({listed(ode.parameters)})"
        )
    return model, np.array(list(values.values()), dtype=float)


def simulate_problem(
    problem: Problem,
    record: Record,
    parameters: Mapping[str, float],
    *,
    steps: int | str = "auto",
    seed: int | None = None,
) -> Array:
    """Integrate the model of a problem over one of its records, at known parameters.

    record: Or another one, where all of the problem's start from the same state.
    parameters: Those that the problem learns; by default the medians of their priors.

    Returns (T, n_outputs): without measurement noise.
    """
    parameters = by_scalar(parameters, problem.ode, "parameters")
    for name in parameters:
        if name not in problem.names:
            raise InputError(
                f"'{name}' is no parameter that is learned ({listed(problem.names)})",
                argument="parameters",
            )
    medians = {name: _median(prior) for name, prior in problem.prior.distributions.items()}
    values = [real_number(f"parameter '{n}'", parameters.get(n, m)) for n, m in medians.items()]
    for (name, prior), value in zip(problem.prior.distributions.items(), values, strict=True):
        _check_support(name, prior, value)
    model = starting_like(problem, problem.model, record)
    return _path(model, record, np.array(values)[:, None], steps, seed)


def _check_support(name: str, prior: Any, value: float) -> None:
    """Refuse a value beyond the bounds of a prior that tells them."""
    lower, upper = prior.support() if callable(getattr(prior, "support", None)) else (value, value)
    if not lower <= value <= upper:
        raise InputError(
            f"parameter '{name}' is {value:g}: give a number within the bounds of its prior, "
            f"{lower:g} to {upper:g}",
            argument="parameters",
        )


def _median(prior: Any) -> Any:
    """Median of a distribution that has quantiles, None of another."""
    return prior.ppf(0.5) if callable(getattr(prior, "ppf", None)) else None


def _path(model: Model, record: Record, theta: Array, steps: int | str, seed: int | None) -> Array:
    """Outputs (T, q) at parameters (p, 1)."""
    record = model.prepared(record)
    simulator = Simulator(model, record, steps)
    if model.process_noise is not None:
        simulator = DisturbedSimulator(model, record, steps, seed)
    outputs = np.concatenate([part[:, :, 0] for _, _, part in simulator(theta)])
    if model.process_noise is not None and not np.isfinite(outputs).all():
        raise InputError(
            f"{record.name}: the path with process noise diverges: give less noise, or more steps",
            argument="process_noise",
        )
    if model.algebraic and not np.isfinite(outputs).all():
        raise InputError(
            f"{record.name}: the solution diverges, or its algebraic equations have none from "
            "where Newton's iteration begins: give initial numbers near their variables",
            argument="initial",
        )
    return outputs[record.given]
