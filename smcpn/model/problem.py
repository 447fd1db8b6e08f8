"""`Problem`: an ODE, its records, the measured outputs with their noise, and the priors.

It keeps what a user gave as plain data for tables and reports (`labelled`), and the graphs made of
it as a `Model`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np
from typing_extensions import override

from smcpn.base.arguments import Numbers, checked
from smcpn.base.tables import Card, WithCard
from smcpn.errors import InputError, counted, listed, real_number, shown
from smcpn.model.delay import Delay
from smcpn.model.distribution import Distribution, describe
from smcpn.model.disturbance import Disturbance
from smcpn.model.dosing import Dosing
from smcpn.model.entries import ByName, by_scalar, check_part, is_name
from smcpn.model.functions.unknown import UnknownFunction
from smcpn.model.gaussian_noise import AR1, as_gaussian
from smcpn.model.graphs import Model, make_model, observed_outputs, one_per_output
from smcpn.model.initial import FirstSample, scalar_initial
from smcpn.model.measured import Y_SD
from smcpn.model.noise import Density, LimitedDensity, as_density
from smcpn.model.ode import ODE
from smcpn.model.prior import Prior
from smcpn.model.record import Record, as_records, beside, stated_outputs
from smcpn.model.solver import CALIBRATED
from smcpn.model.trace import function_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def scalar_outputs(observe: Any, ode: ODE) -> list[Any]:
    """Outputs as a list, in which no name is that of a vector."""
    if isinstance(observe, np.ndarray):
        observe = np.atleast_1d(observe)
    given = list(observe) if isinstance(observe, (list, tuple, np.ndarray)) else [observe]
    if not given:
        raise InputError(
            f"observe is empty: name a state of model '{ode.name}' ({listed(ode.states)}), or give "
            "a function",
            argument="observe",
        )
    return [output for what in given for output in _of_vector(what, ode)]


def _of_vector(what: Any, ode: ODE) -> list[Any]:
    """Outputs of a vector or of its derivative; what else it is stays."""
    if not isinstance(what, str):
        return [what]
    name = what.removesuffix("'")
    check_part(name, ode, "observe")
    entries = [one for one in ode.wholes.get(name, ()) if one in ode.states]
    return [f"{entry}{what[len(name) :]}" for entry in entries] or [what]


FEW_RECORDS = 3
"""Records that a short text names."""


def labelled(value: Any, depth: int = 8) -> Any:
    """Return a value as plain data: a function as its name, a distribution as its text."""
    if depth == 0:
        # A list may hold itself.
        return shown(value)
    if isinstance(value, Mapping):
        return {str(name): labelled(entry, depth - 1) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [labelled(entry, depth - 1) for entry in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return labelled(value.tolist(), depth - 1)
    if value is None or isinstance(value, (str, int, float)):
        return value
    if callable(getattr(value, "rvs", None)):
        return describe(value)
    return repr(value) if is_dataclass(value) else function_name(value)


class Problem(WithCard):
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
        names the parameter). ``"x"`` of a vector is an output for each entry, ``"x[3]"`` for one.
    noise : float, str, AR1, density, function, or sequence of these
        Standard deviation of the measurement noise of each output, in its unit, or the name of
        the parameter that holds it; `Normal` where it is a formula, ``"y_sd"`` where records have
        one for every value (the default); `AR1` where it is correlated from sample to sample. Where
        measurements are not Gaussian: `Poisson`, `NegativeBinomial`, `Bernoulli`,
        `StudentT`, `LogNormal`, or a log density as a function of the measured value, the output
        and keyword-only parameters.
    prior : mapping of str to distribution or float
        A frozen `scipy.stats` distribution for every unknown parameter; a number fixes one.
        That of a vector holds for each entry, independent of the others; a list or an array has
        one for each, and ``"k[3]"`` gives one entry another. Parameters of an unknown function
        have priors by default; ``{"friction": {"scale": distribution}}`` gives another.
    initial : "rest", "steady state", SteadyState, mapping, function, or sequence
        State at the first sample: ``"rest"`` (all zero, the default), one value per state, or a
        mapping from state to value. A value is a number, the name of a parameter, a function of
        keyword-only parameters, or a distribution (a new parameter ``"x(0)"``); a vector has one
        for all entries or a list of them. A function may also return the values of all states.
        ``"steady state"`` is the equilibrium at the inputs of the first sample, `SteadyState` at
        other ones. A list of such, one per record, is accepted.
    coordinates : mapping of str to str, optional
        See `Prior`.
    diffusion : str, optional
        Name of the parameter that holds the diffusion (standard deviation) of a solver's Wiener
        processes; the solver names it too, ``EKF1(diffusion="kappa")``.
    process_noise : mapping, optional
        Disturbances of the state between samples, dx = f dt + G dW: state to the standard deviation
        of the Wiener process that acts on it, a number or the name of a parameter, in the state's
        unit per square root of time; a vector has one for all entries or a list.
        ``("x1", "x2")`` maps to the correlation of two of them.
        Where it depends on the state, write the model with `smcpn.sde`.
    delay : mapping of str to float or str, optional
        Dead times, ``{"u": "tau"}``: the equation's u(t) is the record's u(t - tau), exact for its
        hold, whatever part of a sampling interval tau is. An input maps to
        a time, or to the name of a parameter whose prior has bounds. Before the first sample the
        input is the first one; of a record that was cut from a longer one it is what came before,
        up to 64 samples, beyond which the first of these is held and a dead time that is surely
        longer is refused; of a periodic one it is the period before.

    Attributes
    ----------
    model : Model
        Everything below as expression graphs.
    observe, noise : list
    initial : str, list or dict
        As given, for tables, but a function by its name and a distribution by its text.
    process_noise : dict of str to float or str
        As given, a pair of states as ``"x1,x2"``; empty where there is none or the ODE has it.
    fixed : mapping of str to float
        Parameters whose value is known.

    Raises
    ------
    InputError
        One sentence that names what does not fit and the remedy.

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

    _made_of: tuple[Sequence[Record], dict[str, Any]] | None = None
    """Records and arguments that it was made of; None where it was not."""

    def __init__(
        self,
        ode: ODE,
        records: Record | Sequence[Record],
        *,
        observe: str | Callable[..., Any] | Sequence[str | Callable[..., Any]],
        noise: Any = Y_SD,
        prior: Mapping[str, Distribution | float | Mapping[str, Any]],
        initial: Any = "rest",
        coordinates: Mapping[str, str] | None = None,
        diffusion: str | None = None,
        process_noise: Mapping[Any, float | str] | None = None,
        delay: Mapping[str, float | str] | None = None,
    ) -> None:
        check_ode(ode)
        self.ode = ode
        self.records = as_records(records)
        self._made_of = (
            self.records,
            {
                "observe": observe, "noise": noise, "prior": prior, "initial": initial,
                "coordinates": coordinates, "diffusion": diffusion, "process_noise": process_noise,
                "delay": delay,
            },
        )  # fmt: skip
        given_outputs = scalar_outputs(observe, ode)
        given_noise = one_per_output(_as_list(noise), given_outputs)
        self.observe, self.noise = labelled(given_outputs), labelled(given_noise)
        initial = scalar_initial(initial, ode)
        self.initial, self.diffusion = labelled(initial), _diffusion_name(diffusion)
        _check_records(self)
        self._check_values([as_density(sd) for sd in given_noise])
        default = ode.priors
        free, fixed = _split_prior(prior, ode, default)
        interval = _typical_interval(self.records[0])
        _check_noise(given_noise, self.records, interval, fixed, free)
        disturbance = Disturbance.of(process_noise, ode)
        if disturbance is not None:
            disturbance.check(free, fixed)
        self.process_noise = {} if disturbance is None else disturbance.labelled()
        self.model, added, unused = make_model(
            ode,
            observe=given_outputs,
            noise=given_noise,
            initial=initial,
            firsts=list(map(FirstSample.of, self.records)),
            free=list(free),
            fixed=fixed,
            diffusion=diffusion,
            interval=interval,
            disturbance=disturbance,
            delay=Delay.of(delay, ode, free, fixed),
            limited=any(record.limits for record in self.records),
            dosing=Dosing.of(self.records, ode, free, fixed),
        )
        if self.model.dosing is not None:
            self.records = tuple(map(self.model.prepared, self.records))
        _check_delay(self)
        _check_model(self.model, unused, ode)
        _check_beside(self)
        if isinstance(coordinates, Mapping):
            # Entries of a vector that are fixed have none.
            named = by_scalar(coordinates, ode, "coordinates").items()
            coordinates = {n: one for n, one in named if n in coordinates or n not in fixed}
        # A prior that a user gives is that of the parameter, whatever scales its default.
        scales = {
            name: scale if scale in free else fixed[scale]
            for name, scale in ode.scales.items()
            if free.get(name) is default[name]
        }
        coordinates = {} if coordinates is None else coordinates
        self.prior = Prior({**free, **added}, coordinates, scales)
        self.fixed = fixed
        _check_counted(self)

    @checked
    def with_records(self, records: Sequence[Record]) -> Problem:
        """Return the same problem over records that are longer or shorter, or fewer.

        Raises
        ------
        InputError
            If a record does not fit, or there is none or more than the problem has.
        """
        count = len(self.model.initial)
        if not 1 <= len(records) <= count:
            raise InputError(
                f"records has {len(records)}, and the problem {count}: give as many or fewer, at "
                "least one",
                argument="records",
            )
        problem = assembled(
            ode=self.ode,
            records=tuple(map(self.model.prepared, records)),
            model=replace(self.model, initial=self.model.initial[: len(records)]),
            prior=self.prior,
            fixed=self.fixed,
            observe=self.observe,
            noise=self.noise,
            initial=self.initial,
            diffusion=self.diffusion,
            process_noise=self.process_noise,
        )
        problem._made_of = self._made_of
        return problem

    @checked
    def with_functions(self, functions: Mapping[str, UnknownFunction]) -> Problem:
        """Return the same problem with other unknown functions in place of those of these names.

        Raises
        ------
        InputError
            If the model has no such function, or the problem was read from a file, or has a prior
            of a parameter that the other function does not have.

        Examples
        --------
        >>> finer = problem.with_functions(
        ...     {"friction": smcpn.spline("v", knots=20, within=(-1, 1))}
        ... )  # doctest: +SKIP
        """
        ode = self.ode.with_functions(functions)
        assert self._made_of is not None
        records, given = self._made_of
        made = Problem(ode, records, **given)
        return made if self.records is made.records else made.with_records(self.records)

    def __getstate__(self) -> dict[str, Any]:
        # Functions of a script need not exist where this is read.
        return vars(self) | {"_made_of": None}

    @override
    def card(self) -> Card:
        given = [("observed", self.observe), ("noise", self.noise), ("initial state", self.initial),
                 ("process noise", self.process_noise), ("delay", self.delay),
                 ("fixed", self.fixed)]  # fmt: skip
        title = (
            f"Problem: {counted(len(self.names), 'unknown parameter')} of '{self.ode.name}', "
            f"{counted(len(self.records), 'record')} of {self.n_given} samples"
        )
        notes = [*self.ode.named(), *(f"{name} {_words(one)}" for name, one in given if one),
                 *map(repr, self.records[:FEW_RECORDS])]  # fmt: skip
        return Card(replace(self.prior.card().table, title=title, notes=notes))

    def picture(self) -> Figure | None:
        """Figure of the first record."""
        return self.records[0].picture()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the unknown parameters, in the order of the columns of theta."""
        return self.prior.names

    @checked
    def by_name(self, values: Numbers, fixed: float | None = None) -> ByName:
        """Numbers of the unknown parameters by name, and of a vector or a function by its own.

        Parameters
        ----------
        values : array_like, (d,)
        fixed : float, optional
            Number of every parameter that is fixed, in place of its value.

        Raises
        ------
        InputError
            If there is not one number for each parameter.
        """
        if values.shape != (len(self.names),):
            raise InputError(
                f"values has shape {values.shape}: give {len(self.names)} numbers, one for each "
                "parameter",
                argument="values",
            )
        known = self.fixed if fixed is None else dict.fromkeys(self.fixed, fixed)
        return ByName(zip(self.names, values.tolist(), strict=True), self.ode.wholes, known)

    @checked
    def differs_in_functions(self, other: Problem) -> bool:
        """True if another problem is this one but for its unknown functions, see `with_functions`.

        Both have to be made of the same objects, in this process.
        """
        if self._made_of is None or other._made_of is None or self.records is not other.records:
            return False
        ours, theirs = self._made_of[1], other._made_of[1]
        given = all(value is theirs[name] for name, value in ours.items())
        return given and self.ode.function is other.ode.function

    @property
    def delay(self) -> dict[str, float | str]:
        """Dead times by input: a time, or the name of a parameter; empty where there are none."""
        delay = self.model.delay
        return {} if delay is None else delay.labelled(self.ode.inputs, self.names)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Say that less was measured than the parameters need, which the prior then decides.

        Parameters of an unknown function do not count: its prior holds where there are no samples.
        """
        measured = sum(int(record.told.sum()) for record in self.records)
        learned = sum(name not in self.ode.priors for name in self.names)
        if measured > learned:
            return ()
        return (
            f"{counted(measured, 'measured number')} cannot tell {counted(learned, 'parameter')} "
            "and how well they fit: the prior decides, so give a longer record",
        )

    @property
    def n_samples(self) -> int:
        """Samples of all records together, with those inserted where doses arrive."""
        return sum(len(record) for record in self.records)

    @property
    def n_given(self) -> int:
        """Samples of all records together, as they were given."""
        return sum(int(record.given.sum()) for record in self.records)

    def with_model(self, model: Model) -> Problem:
        """Return the same problem with other graphs."""
        problem = copy(self)
        problem.model = model
        return problem

    def model_observing(self, observe: Any) -> Model:
        """Model with other outputs, of which the noise is not known (variance 0)."""
        model, what = self.model, scalar_outputs(observe, self.ode)

        def parameter(name: str, default: float | None = None) -> ca.SX:
            if name in self.names:
                return model.theta[self.names.index(name)]
            value = self.fixed.get(name, default)
            if value is not None:
                return ca.SX(value)
            raise InputError(f"observe function takes '{name}', which is no parameter")

        rhs, noise, dosing = model.rhs, model.process_noise, model.dosing
        if dosing is not None:
            ode = self.ode.at_interval(_typical_interval(self.records[0]))
            values = ca.vertcat(*[parameter(name) for name in ode.parameters])
            rhs = ode.rhs(model.x, model.u[: dosing.n_inputs], model.t, values)
        outputs = observed_outputs(self.ode, what, model.x, model.u, model.t, rhs, parameter, noise)
        if dosing is not None:
            outputs = dosing.applied(outputs, model, at_sample=True)
        none = ca.SX.zeros(len(what), 1)
        return replace(
            model, outputs=outputs, noise_variance=none, noise_correlation=none, density=None
        )

    def _check_values(self, densities: list[Density | None]) -> None:
        """Refuse measurements that a density cannot have made."""
        for j, density in enumerate(densities):
            if density is None:
                continue
            for record in self.records:
                self._check_fit(density, record, j)

    def _check_fit(self, density: Density, record: Record, j: int) -> None:
        y = record.y[:, j]
        if record.limited[:, j].any() and not isinstance(density, LimitedDensity):
            raise InputError(
                f"{record.name}: output {j} ({shown(self.observe[j])}) has y_lower or y_upper, "
                f"which its noise {self.noise[j]} does not take: give a standard deviation, "
                "smcpn.Normal or smcpn.LogNormal",
                argument="noise",
            )
        misfit = density.misfit(y[np.isfinite(y)])
        if misfit is not None:
            raise InputError(
                f"{record.name}: y of output {j} ({shown(self.observe[j])}) does not fit "
                f"its noise {self.noise[j]}: {misfit}",
                argument="noise",
            )


def _words(given: Any) -> str:
    """Write noise, observed outputs or the like, as `labelled` returned them, for a person."""
    if isinstance(given, Mapping):
        return listed(f"{name} = {_words(one)}" for name, one in given.items())
    if isinstance(given, list):
        return listed(dict.fromkeys(map(_words, given)))
    return f"{given:.6g}" if isinstance(given, float) else str(given)


def check_problem(problem: Problem) -> None:
    """Refuse what is no problem, such as a bare ODE."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem is {shown(problem)}: give a smcpn.Problem", argument="problem")


def check_ode(ode: ODE) -> None:
    """Refuse what `smcpn.ode` has not made."""
    if not isinstance(ode, ODE):
        raise InputError(
            f"ode is {type(ode).__name__}: decorate the function with @smcpn.ode", argument="ode"
        )


def check_record(record: Record, ode: ODE, n_outputs: int, learned: Sequence[Record] = ()) -> None:
    """Refuse a record that is none of the model; outputs may be absent.

    learned: Those that the parameters are learned from, in whose unit of time they are.
    """
    given = record.n_inputs - record.held
    if given != len(ode.inputs):
        raise InputError(
            f"{record.name}: u has {counted(given, 'column')} but model '{ode.name}' has "
            f"{counted(len(ode.inputs), 'input')} ({', '.join(ode.inputs) or 'none'}): it "
            f"returns {counted(len(ode.states), 'derivative')}, so that as many arguments are "
            f"states ({', '.join(ode.states)}); return the derivative of every state, and give "
            "every input a column"
        )
    if record.n_outputs not in (0, n_outputs):
        raise InputError(
            f"{record.name}: y has {counted(record.n_outputs, 'column')} but observe names "
            f"{counted(n_outputs, 'output')}"
        )
    for other in learned[:1]:
        if record.t_unit != other.t_unit:
            raise InputError(
                f"{record.name}: time is in {record.t_unit}, and the parameters are learned from "
                f"'{other.name}' in {other.t_unit}: count it so, and say t_unit='{other.t_unit}'"
            )


def _split_prior(
    prior: Mapping[str, Distribution | float | Mapping[str, Any]],
    ode: ODE,
    default: Mapping[str, Distribution],
) -> tuple[dict[str, Distribution], dict[str, float]]:
    if not isinstance(prior, Mapping):
        raise InputError(
            f"prior is {type(prior).__name__}: give a dict of name to distribution",
            argument="prior",
        )
    free: dict[str, Any] = dict(default)
    fixed = dict(ode.defaults)
    for name, value in by_scalar(prior, ode, "prior").items():
        if isinstance(value, (int, float, np.number)):
            remedy = "give a number or a distribution"
            fixed[name] = real_number(f"prior of '{name}'", value, remedy, argument=f"prior.{name}")
            if name in ode.scales.values() and not fixed[name] > 0.0:
                raise InputError(
                    f"prior of '{name}' fixes a scale to {fixed[name]:g}: give a positive number",
                    argument=f"prior.{name}",
                )
            free.pop(name, None)
        else:
            free[name] = value
            fixed.pop(name, None)
    if not free:
        raise InputError(
            "prior fixes every parameter: give at least one a distribution", argument="prior"
        )
    return free, fixed


def _typical_interval(record: Record) -> float:
    """Sampling interval, the median one where it varies."""
    return record.interval if record.uniform else float(np.median(np.diff(record.t)))


def _check_noise(
    noise: list[Any],
    records: tuple[Record, ...],
    interval: float,
    fixed: Mapping[str, float],
    free: Mapping[str, Distribution],
) -> None:
    """Refuse Gaussian noise whose parameters it cannot have."""
    for one in map(as_gaussian, noise):
        if isinstance(one, AR1):
            one.check(records, interval, fixed, free)


def _check_beside(problem: Problem) -> None:
    """Refuse records without the y_sd that the noise takes, or with one that it does not."""
    taken = problem.model.takes_y_sd
    for record in problem.records:
        stated = np.isfinite(beside(record, Y_SD))
        lacking = taken & (record.told & ~stated).any(axis=0)
        passed_over = np.flatnonzero(~taken & stated_outputs([record]))
        if lacking.any() or (taken.any() and record.y_sd is None):
            raise InputError(
                f"noise takes y_sd, which {record.name} has not for every value of "
                f"{listed([shown(problem.observe[j]) for j in np.flatnonzero(taken)])}: give it to "
                "smcpn.Record, or a standard deviation or the name of a parameter as noise",
                argument="noise",
            )
        if len(passed_over):
            raise InputError(
                f"{record.name} has y_sd of {shown(problem.observe[passed_over[0]])}, which its "
                "noise does not take: give noise='y_sd', or a function of it such as "
                "smcpn.Normal(lambda y, y_sd, *, s: s * y_sd), or leave y_sd out, NaN for one "
                "output of several",
                argument="noise",
            )


def _check_counted(problem: Problem) -> None:
    """Refuse a first value that accumulators which have counted nothing cannot have made."""
    if not problem.model.accumulators:
        return
    model, count = problem.model.with_numbers(), ca.SX.sym("count")
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), 1))
    for record, begin in zip(problem.records, model.initial, strict=True):
        empty = [k for k in model.accumulators if begin[k].is_zero()]
        x = [count if k in empty else one for k, one in enumerate(ca.vertsplit(begin))]
        graph = ca.substitute(model.outputs, model.x, ca.vertcat(*x))
        outputs = ca.Function("first", [count, model.theta, model.u, model.t], [graph])
        usable: list[Any] = []
        for number in (0.0, 1.0):
            found = np.array(outputs(number, values[0], record.u[0], record.t[0])).T
            if model.density is not None:
                of_value = model.density_function(lambda one: [one.log_density])
                every = np.broadcast_to(found, record.y.shape)
                found = of_value(record.y, every, values, model.sample_numbers(record))[0]
            usable.append(np.isfinite(found[0]))
        wrong = np.isfinite(record.y[0]) & ~usable[0] & usable[1]
        for what in (problem.observe[j] for j in np.flatnonzero(wrong)):
            raise InputError(
                f"{record.name}: output {shown(what)} has a value at the first sample, before "
                "which an accumulator has counted nothing: make it NaN, or give the accumulator a "
                "first value, initial=",
                argument="initial",
            )


def _check_model(model: Model, unused: Sequence[str], ode: ODE) -> None:
    """Refuse a density beside coloured noise, and priors of names that the model does not have."""
    if model.coloured and model.density is not None:
        raise InputError(
            "noise has a density, a formula or limits beside coloured noise: give standard "
            "deviations or smcpn.AR1 for every output, or no AR1",
            argument="noise",
        )
    if unused:
        raise InputError(
            f"prior '{unused[0]}' belongs to no parameter of model '{ode.name}' "
            f"({listed(ode.parameters)}): remove it or correct its name",
            argument=f"prior.{unused[0]}",
        )


def _diffusion_name(diffusion: Any) -> str | None:
    named = is_name(diffusion) and diffusion not in CALIBRATED
    if diffusion is None or named:
        return diffusion
    raise InputError(
        f"diffusion is {shown(diffusion)}: give the name of a parameter that has a prior; "
        "a number belongs to the solver, smcpn.EKF1(diffusion=...)",
        argument="diffusion",
    )


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return list(np.atleast_1d(value))
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _check_records(problem: Problem) -> None:
    for record in problem.records:
        check_record(record, problem.ode, len(problem.observe))
        if not record.told.any():
            raise InputError(f"{record.name}: every y is NaN: there is nothing to learn from")
    for j, what in enumerate(problem.observe):
        # An output may be missing from some records, but not from all.
        if not any(record.told[:, j].any() for record in problem.records):
            raise InputError(
                f"{problem.records[0].name}: every y of output {j} ({shown(what)}) is NaN: "
                "leave this column out of y and its entry out of observe and noise",
                argument="observe",
            )


def _check_delay(problem: Problem) -> None:
    if problem.model.delay is not None:
        problem.model.delay.spans(problem.records)


def assembled(
    *,
    ode: ODE,
    records: tuple[Record, ...],
    model: Model,
    prior: Prior,
    fixed: Mapping[str, float],
    observe: list[Any],
    noise: list[Any],
    initial: Any,
    diffusion: str | None,
    process_noise: Mapping[str, float | str],
) -> Problem:
    """Make a problem of its attributes, as they were read from a file; nothing is traced."""
    problem = Problem.__new__(Problem)
    problem.ode, problem.records, problem.model, problem.prior = ode, records, model, prior
    problem.fixed, problem.observe, problem.noise = dict(fixed), observe, noise
    problem.initial, problem.diffusion = initial, diffusion
    problem.process_noise = dict(process_noise)
    _check_records(problem)
    _check_delay(problem)
    _check_beside(problem)
    return problem
