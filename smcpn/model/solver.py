"""Solvers describe how the ODE is integrated; they do not run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from smcpn.base.arguments import Order, Steps, check_fields
from smcpn.base.units import duration
from smcpn.errors import InputError, one_of, real_number, shown, whole_number

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

MAX_STEPS = 1024
LEAST_TOLERANCE = 1e-11
"""Local error near that of the arithmetic."""
FORMS = ("first", "chain")
JACOBIANS = ("full", "diagonal")
CALIBRATED = ["auto", "fixed", "fixed-diagonal", "dynamic", "dynamic-diagonal"]
"""Diffusions that are estimated, where other names are those of parameters: the calibrations of
`smcpn.solve`, and the name of every `likelihood.diffusion.CalibratedDiffusion`."""


SOLVERS: dict[str, type[Solver]] = {}
"""Every solver by the name of its class, which is also its name in configurations and files."""


class Solver:
    """Base of the ODE solvers: a frozen dataclass of settings; subclasses register by name.

    Attributes
    ----------
    kind : str
        Name of its class.
    likelihood : str
        Name of the likelihood to use with it where none is named.
    probabilistic : bool
        Whether it says how large its error is.
    jacobian : {"none", "diagonal", "full"}
        What of the vector field's Jacobian it uses.
    adaptive : bool
        Whether every particle chooses its steps, by the local error.
    steps : int or "auto"
        Steps per sampling interval.
    interval : float or None
        Length of a sampling interval that takes ``steps``, where others take more or fewer.
    step : type
        Graphs of one step, of a solver that is not probabilistic: a
        `smcpn.likelihood.classical.Step` that is defined for it.
    """

    kind: ClassVar[str]
    likelihood: ClassVar[str]
    step: ClassVar[type[Any]]
    __dataclass_fields__: ClassVar[dict[str, Any]]
    probabilistic: ClassVar[bool] = False
    adaptive: ClassVar[bool] = False
    jacobian = "none"
    steps: int | str
    interval: float | None = None

    def __init_subclass__(cls) -> None:
        if "likelihood" in cls.__dict__:
            cls.kind = cls.__name__
            SOLVERS[cls.kind] = cls

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # Not before: every command imports the names of solvers, and few of them read a file.
        from smcpn.base.stored import by_document

        return by_document(solver_of, solver_document, handler)

    def __repr__(self) -> str:
        """Order, steps, and what differs from the default."""
        return self._written(fields(cast(Any, self)))

    def in_words(self, t_unit: str) -> str:
        """Return the settings for a person; the length of steps, where samples are irregular.

        Parameters
        ----------
        t_unit : str
            Unit of time of the records.
        """
        if self.interval is None or self.automatic:
            return repr(self)
        own = [one for one in fields(cast(Any, self)) if one.name != "interval"]
        longest = float(f"{self.interval / int(self.steps):.3g}")
        return f"{self._written(own)}, each of at most {duration(longest, t_unit)}"

    def _written(self, settings: Iterable[Field[Any]]) -> str:
        shown_fields = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in settings
            if f.name in ("order", "steps") or getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join(shown_fields)})"

    @property
    def automatic(self) -> bool:
        """True if its steps, or its tolerance, are still to be chosen."""
        return self.steps == "auto"

    @property
    def resolution(self) -> str:
        """The setting that says how fine it is, as a user writes it: ``steps=4``."""
        return f"steps={self.steps!r}"

    def refined(self, factor: int = 2) -> Self | None:
        """Return the same solver with ``factor`` times as many steps; None if these are too many.

        Nothing is compiled anew for it.
        """
        steps = whole_number("factor", factor, 1) * int(self.steps)
        return self.with_steps(steps) if steps <= MAX_STEPS else None

    def divided(self, interval: float | None) -> Self:
        """Return the same solver with ``steps`` in an interval of this length, where it can."""
        interval, known = _interval(interval), "interval" in self.__dataclass_fields__
        return replace(cast(Any, self), interval=interval) if known else self

    def begun(self) -> Self:
        """Return the same solver; one that chooses its steps, at the tolerance it begins with."""
        return self

    def with_steps(self, steps: int) -> Self:
        """Return the same solver with so many steps per sampling interval, where they are given."""
        return replace(cast(Any, self), steps=steps)

    def unresolved(self) -> Self:
        """Return a solver that is the same for all that differ in the number of steps only.

        They share one compiled kernel.
        """
        return self.with_steps(1).divided(None)


@dataclass(frozen=True, repr=False)
class ProbabilisticSolver(Solver):
    """Base class of `EKF0` and `EKF1`: order of the prior, steps, form and diffusion."""

    probabilistic: ClassVar[bool] = True

    order: Order = 3
    steps: Steps = "auto"
    form: str = "first"
    diffusion: float | str = "fixed-diagonal"
    smooth: bool = False
    interval: float | None = None

    def __post_init__(self) -> None:
        check_fields(self, "order", "steps")
        _choice("form", self.form, FORMS)
        object.__setattr__(self, "diffusion", _diffusion(self.diffusion))
        object.__setattr__(self, "interval", _interval(self.interval))
        if not isinstance(self.smooth, bool):
            raise InputError(
                f"smooth is {shown(self.smooth)}: choose True or False", argument="smooth"
            )


@dataclass(frozen=True, repr=False)
class EKF0(ProbabilisticSolver):
    """Probabilistic solver by a Gaussian filter of order zero: explicit, for what is not stiff.

    The solution has an integrated Wiener process as its prior. The mean converges with order nu +
    1. The method is explicit: a mode of angular frequency w is stable up to about w h = 0.6, 0.27,
    0.1, 0.04 and 0.014 for orders 2 to 6, h being the sampling interval over ``steps``; beyond it a
    particle diverges and gets weight zero.

    Parameters
    ----------
    order : int
        Order of the solver's prior: integrations of the Wiener process (nu), 1 to 11.
    steps : int or "auto"
        Solver steps per sampling interval, or "auto": the shift of the posterior decides.
    form : {"first", "chain"}
        ``"first"`` gives every state its own process. ``"chain"`` lets x and v = x' share one,
        which the data-free marginal likelihood cannot use.
    diffusion : float or str
        Diffusion of the Wiener process. ``"fixed"``, ``"fixed-diagonal"``, ``"dynamic"`` and
        ``"dynamic-diagonal"`` calibrate it by quasi maximum likelihood: one value for all time or
        one per step, one value for all states or one each. A likelihood that calibrates one value
        for all states takes it in units of how far each state moves in a step, so that no unit of
        time or state matters. A positive number is a standard deviation that is known, the name of
        a parameter one that is learned; both are in units of the states and of time.
    smooth : bool
        Whether a solution is also smoothed; likelihoods do not look at it.
    interval : float, optional
        Length of a sampling interval that takes ``steps``; others take as many in proportion, so
        that no step is longer. Without it every interval takes ``steps``. Where samples are not
        equally spaced ``steps="auto"`` sets it; likelihoods that see the data cannot use it.

    Raises
    ------
    InputError
        If an argument is out of range.

    References
    ----------
    Schober, M., Sarkka, S., Hennig, P. (2019). A probabilistic model for the numerical solution of
    initial value problems. Statistics and Computing 29.
    Bosch, N., Hennig, P., Tronarp, F. (2021). Calibrated adaptive probabilistic ODE solvers.
    AISTATS (the diffusions).

    Examples
    --------
    >>> EKF0(order=3, steps=8)
    EKF0(order=3, steps=8)
    """

    likelihood: ClassVar[str] = "marginal"


@dataclass(frozen=True, repr=False)
class EKF1(ProbabilisticSolver):
    """Probabilistic solver by a Gaussian filter of first order: A-stable, for what is stiff too.

    It linearises the vector field, which couples the states. The prior is that of `EKF0`.

    Parameters
    ----------
    order, steps, form, smooth, interval
        As of `EKF0`.
    diffusion : float or str
        As of `EKF0`; ``"auto"`` is ``"dynamic"`` in `smcpn.solve` and ``"fixed"`` in a likelihood,
        and ``"fixed-diagonal"`` needs ``jacobian="diagonal"``. Under a full Jacobian
        ``"dynamic-diagonal"`` is estimated as `EKF0` would, for want of a closed form.
    jacobian : {"full", "diagonal"}
        ``"diagonal"`` neglects what one state does to another, so that each keeps a covariance of
        its own: the cost of `EKF0`, and stability where the stiffness is in the diagonal.

    Raises
    ------
    InputError
        If an argument is out of range, or a full Jacobian meets ``"fixed-diagonal"``: no
        rescaling of a covariance that couples the states maximises that likelihood.

    References
    ----------
    Tronarp, F., Kersting, H., Sarkka, S., Hennig, P. (2019). Probabilistic solutions to ordinary
    differential equations as nonlinear Bayesian filtering. Statistics and Computing 29.

    Examples
    --------
    >>> EKF1(order=4, form="chain", diffusion=10.0)
    EKF1(order=4, steps='auto', form='chain', diffusion=10.0)
    """

    likelihood: ClassVar[str] = "filtering"
    diffusion: float | str = "auto"
    jacobian: str = "full"

    def __post_init__(self) -> None:
        super().__post_init__()
        _choice("jacobian", self.jacobian, JACOBIANS)
        if self.jacobian == "full" and self.diffusion == "fixed-diagonal":
            raise InputError(
                "diffusion 'fixed-diagonal' cannot be calibrated with a full Jacobian, which "
                "couples the states: use 'fixed', 'dynamic', or jacobian='diagonal'",
                argument="diffusion",
            )


class AdaptiveSolver(Solver):
    """Base class of the solvers whose steps every particle chooses, by a tolerance.

    Attributes
    ----------
    tolerance : float or "auto"
        Local error of a step, relative to the largest value that a state has had so far.
    first_tolerance : float
        What a run begins with where the posterior decides.
    """

    adaptive: ClassVar[bool] = True
    first_tolerance: ClassVar[float] = 1e-4
    jacobian = "full"
    steps = 1
    tolerance: float | str

    def __post_init__(self) -> None:
        if self.automatic:
            return
        tolerance = real_number("tolerance", self.tolerance, "give a number, or 'auto'")
        if not LEAST_TOLERANCE <= tolerance < 1.0:
            raise InputError(
                f"tolerance is {tolerance}: give a number from {LEAST_TOLERANCE:g} to 1, or 'auto'",
                argument="tolerance",
            )
        object.__setattr__(self, "tolerance", tolerance)

    @property
    def error_order(self) -> int:
        """Power of the step with which its local error falls."""
        raise NotImplementedError

    @property
    def automatic(self) -> bool:
        """True if its tolerance is still to be chosen."""
        return isinstance(self.tolerance, str) and self.tolerance == "auto"

    @property
    def resolution(self) -> str:
        """Its tolerance, in words."""
        return f"tolerance={self.tolerance!r}"

    def refined(self, factor: int = 2) -> Self | None:
        """Return the same solver with about ``factor`` times as many steps."""
        divisor = whole_number("factor", factor, 1, MAX_STEPS) ** self.error_order
        tolerance = float(self.begun().tolerance) / divisor
        if tolerance < LEAST_TOLERANCE:
            return None
        return replace(cast(Any, self), tolerance=tolerance)

    def begun(self) -> Self:
        """The solver with the tolerance that a run begins with."""
        return replace(cast(Any, self), tolerance=self.first_tolerance) if self.automatic else self

    def with_steps(self, steps: int) -> Self:
        """The solver itself: its steps are its own."""
        whole_number("steps", steps, 1, MAX_STEPS)
        return self

    def unresolved(self) -> Self:
        """The solver without its tolerance, which reaches a kernel as a number."""
        return replace(cast(Any, self), tolerance=self.first_tolerance)


@dataclass(frozen=True)
class AdaptiveEKF1(AdaptiveSolver):
    """`EKF1` with steps that every particle chooses for itself: for stiff problems.

    Parameters
    ----------
    order : int
        Number of integrations of the Wiener process (nu), 1 to 11.
    tolerance : float or "auto"
        Local error of a step, relative to the largest value that a state has had so far, in the
        root mean square over the states. ``"auto"`` begins with 1e-4 and lets the posterior decide.
    form : {"first", "chain"}
        As of `EKF0`; under a Jacobian both go.

    Raises
    ------
    InputError
        If an argument is out of range.

    Examples
    --------
    >>> AdaptiveEKF1(order=5, tolerance=1e-6)
    AdaptiveEKF1(order=5, tolerance=1e-06, form='chain')
    """

    likelihood: ClassVar[str] = "adaptive"
    probabilistic: ClassVar[bool] = True

    order: Order = 4
    tolerance: float | str = "auto"
    form: str = "chain"

    def __post_init__(self) -> None:
        check_fields(self, "order")
        _choice("form", self.form, FORMS)
        super().__post_init__()

    @property
    def error_order(self) -> int:
        """Power of the step with which its local error falls."""
        return self.order + 1


@dataclass(frozen=True)
class Rosenbrock(AdaptiveSolver):
    """Rosenbrock solver of fifth order, for stiff problems of many states; its error is unclaimed.

    It is Rodas5P: eight stages, each a linear system with the matrix 1 / (h gamma) - J of the
    step, which is factorised once, by the sparsity of the model; stiffly accurate and L-stable.
    Every particle chooses its steps by the error of the embedded solution of fourth order.

    Parameters
    ----------
    tolerance : float or "auto"
        Local error of a step, relative to each state or to a ten thousandth of the largest value
        that it has had so far, in the root mean square over the states. ``"auto"`` begins with
        1e-7 and lets the posterior decide.

    Raises
    ------
    InputError
        If the tolerance is out of range.

    References
    ----------
    Steinebach, G. (2023). Construction of Rosenbrock-Wanner method Rodas5P and numerical benchmarks
    within the Julia Differential Equations package. BIT Numerical Mathematics 63.
    Hairer, E., Wanner, G. (1996). Solving Ordinary Differential Equations II, section IV.7.

    Examples
    --------
    >>> Rosenbrock(tolerance=1e-6)
    Rosenbrock(tolerance=1e-06)
    """

    likelihood: ClassVar[str] = "rosenbrock"
    first_tolerance: ClassVar[float] = 1e-7
    tolerance: float | str = "auto"

    @property
    def error_order(self) -> int:
        """Power of the step with which its local error falls."""
        return 5


@dataclass(frozen=True, repr=False)
class RK4(Solver):
    """Classical Runge-Kutta solver of fourth order, whose error is taken to be zero.

    Parameters
    ----------
    steps : int or "auto"
        Solver steps per sampling interval.
    interval : float, optional
        As of `EKF0`.

    Raises
    ------
    InputError
        If an argument is out of range.

    Examples
    --------
    >>> RK4(steps=4)
    RK4(steps=4)
    """

    likelihood: ClassVar[str] = "classical"
    steps: Steps = "auto"
    interval: float | None = None

    def __post_init__(self) -> None:
        check_fields(self, "steps")
        object.__setattr__(self, "interval", _interval(self.interval))


def check_solver(solver: Solver) -> None:
    """Raise `InputError` for a value that is no solver.

    Raises
    ------
    InputError
        For the class in place of an instance, and for anything else.
    """
    if isinstance(solver, type) and issubclass(solver, Solver):
        name = solver.__name__
        raise InputError(f"solver is the class {name}: give an instance, smcpn.{name}()")
    if not isinstance(solver, Solver):
        known = ", ".join(f"smcpn.{name}" for name in SOLVERS)
        raise InputError(f"solver is {shown(solver)}: choose one of {known}, or 'auto'")


def _interval(interval: float | None) -> float | None:
    if interval is None:
        return None
    value = real_number("interval", interval, "give a positive number, or None")
    if not value > 0.0:
        raise InputError(
            f"interval is {value}: give a positive number, or None", argument="interval"
        )
    return value


def _choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        sentence = f"{name} is {shown(value)}: choose {' or '.join(map(repr, known))}"
        raise InputError(sentence, argument=name)


def _diffusion(diffusion: float | str) -> float | str:
    if isinstance(diffusion, str) and (diffusion in CALIBRATED or diffusion.isidentifier()):
        return diffusion
    value = real_number(
        "diffusion",
        diffusion,
        "give a positive number, the name of a parameter, or one of "
        + ", ".join(map(repr, CALIBRATED)),
    )
    if not value > 0.0:
        raise InputError(
            f"diffusion is {value}: give a positive standard deviation, the name of a parameter, "
            f"or one of {', '.join(map(repr, CALIBRATED))}",
            argument="diffusion",
        )
    return value


def solver_document(solver: Solver) -> dict[str, Any]:
    """Return a solver as JSON can hold it: the name of its kind, and its settings."""
    return {"kind": solver.kind, **asdict(cast(Any, solver))}


def solver_of(document: Mapping[str, Any]) -> Solver:
    """Return the solver of a document, or of a table ``[solver]`` that names its kind.

    Raises
    ------
    InputError
        For an unknown kind, a setting that it does not have, or a value out of range.
    """
    settings = dict(document)
    kind = SOLVERS[one_of("kind", settings.pop("kind", None), SOLVERS)]
    refuse_other_settings(kind, settings)
    return cast(Any, kind)(**settings)


def solver_options(solver: Solver | type[Solver]) -> tuple[str, ...]:
    """Return the names of the settings of a kind of solver."""
    return tuple(field.name for field in fields(cast(Any, solver)))


def refuse_other_settings(solver: Solver | type[Solver], settings: Mapping[str, Any]) -> None:
    """Refuse settings that a kind of solver does not have."""
    for name, value in settings.items():
        if name not in solver_options(solver):
            raise InputError(
                f"{name} is {shown(value)}: {solver.kind} has no {name}, leave it out",
                argument=name,
            )
