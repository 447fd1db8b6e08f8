"""The likelihoods by name: what each provides, and how one is chosen and compiled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.emit import MAX_LANES
from smcpn.codegen.kernel import LaneKernel
from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.sweep import SweepKernel
from smcpn.codegen.target import target
from smcpn.errors import InputError, shown
from smcpn.likelihood.algebraic import explicit_model
from smcpn.likelihood.contract import EstimatedLikelihood
from smcpn.likelihood.inputs import KernelInputs
from smcpn.likelihood.lanes import Grid, LaneLikelihood, SampleSymbols
from smcpn.likelihood.measurement import densest, gaussian_log_density, possible
from smcpn.model.parts import PARTS, check_parts
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.model.solver import SOLVERS, Solver, check_solver

Array = NDArray[np.float64]

LIKELIHOODS: dict[str, type[Recursion]] = {}
"""Every likelihood by its name; each registers itself where it is defined."""
WITH_EVENTS: dict[str, type[Recursion]] = {}
"""Likelihoods of models with events by the name of that without, where this is another class."""


@dataclass(frozen=True)
class ExpectedOutputs:
    """Graphs of the mean and solver covariance of a sample's outputs, of the states and the noise.

    outputs: (q, 1), mean of the noise-free outputs.
    covariance: (q, q), that of the solver's error in the outputs.
    states: (n, 1)
    noise_mean, noise_variance: (q, 1), of the noise given the samples before: what coloured noise
        still holds.
    """

    outputs: ca.SX
    covariance: ca.SX
    states: ca.SX
    noise_mean: ca.SX
    noise_variance: ca.SX

    @classmethod
    def with_white_noise(
        cls, sample: SampleSymbols, outputs: ca.SX, covariance: ca.SX, states: ca.SX
    ) -> ExpectedOutputs:
        """Copy of which the noise is white: the samples before tell nothing of it."""
        nothing = ca.SX.zeros(outputs.numel(), 1)
        return cls(outputs, covariance, states, nothing, sample.noise_variance(outputs))

    @property
    def measured(self) -> tuple[ca.SX, ca.SX]:
        """Mean (q, 1) and covariance (q, q) of the measured values."""
        covariance = self.covariance + ca.diag(self.noise_variance)
        return self.outputs + self.noise_mean, covariance

    def log_density(self, sample: SampleSymbols) -> ca.SX:
        """Log N(y; g + noise, J Sigma J' + R), (1, 1); not finite if impossible."""
        innovation, present = sample.y - self.outputs - self.noise_mean, sample.present
        log_density = gaussian_log_density(innovation, self.measured[1], present)
        return possible(log_density, log_density - densest(self.noise_variance, present))


class Recursion(ABC):
    """A likelihood as a recursion over samples: graphs of one particle, and of what all share.

    A subclass that gives a ``name`` is a likelihood from then on. What it compiles to, what it
    expects of a sample, and how it follows a stream come from its graphs and its inputs.

    Parameters
    ----------
    problem : Problem
    solver : Solver
        One that `goes_with` it.
    grid : Grid
        Of the records that it runs over.

    Attributes
    ----------
    name : str
    known_diffusion : bool
        Whether it needs a diffusion that is a number or a parameter.
    any_density : bool
        Whether measurements may scatter otherwise than Gaussian.
    varying_noise : bool
        Whether Gaussian noise may have another variance at every sample, that of `expected`.
    coloured_noise : bool
        Whether the noise may be correlated from sample to sample.
    takes_process_noise : bool
        Whether the state is disturbed between samples: it takes models with process noise only.
    takes_parts : frozenset of str
        Of `smcpn.model.parts.PARTS` those that a model may have.
    solves_algebraic : bool
        Whether its steps solve algebraic equations; if not the model is that of `explicit_model`.
    estimated : bool
        Whether it is an estimate by a particle filter of the states (`EstimatedLikelihood`).
    approximation : str or None
        Name of the likelihood from whose posterior a run comes to an estimated one.
    approximates : str or None
        Name of the estimated likelihood that this one approximates where it is not `exact`.
    gaussian : bool
        Whether a sample is Gaussian given those before, with the moments of `expected`, where the
        noise is: its maximum is one of (weighted) least squares. A log density of a subclass's own
        is not, unless it says so.
    model : Model
    local_order : int
        Power of the step with which the local error falls.
    divides : bool
        Whether intervals between samples may have different numbers of steps.
    """

    name: ClassVar[str]
    known_diffusion: ClassVar[bool] = False
    any_density: ClassVar[bool] = False
    varying_noise: ClassVar[bool] = False
    coloured_noise: ClassVar[bool] = False
    takes_process_noise: ClassVar[bool] = False
    takes_parts: ClassVar[frozenset[str]] = frozenset({"doses", "algebraic"})
    solves_algebraic: ClassVar[bool] = False
    estimated: ClassVar[bool] = False
    approximation: ClassVar[str | None] = None
    approximates: ClassVar[str | None] = None
    gaussian: ClassVar[bool] = False
    divides: ClassVar[bool] = False
    model: Model
    sample: SampleSymbols
    local_order: int

    def __init_subclass__(cls, with_events: bool = False) -> None:
        if "log_density" in cls.__dict__ and "gaussian" not in cls.__dict__:
            cls.gaussian = False
        if with_events:
            WITH_EVENTS[cls.name] = cls
        if "name" in cls.__dict__:
            LIKELIHOODS[cls.name] = cls
            if "takes_parts" not in cls.__dict__:
                # Events may be for a class of their own, which knows the parent's name alone.
                cls.takes_parts -= {"events"}

    @abstractmethod
    def __init__(self, problem: Problem, solver: Solver, grid: Grid, **options: Any) -> None: ...

    @abstractmethod
    def program(self, emitted: ca.SX) -> LaneProgram:
        """The recursion that emits ``emitted`` at each sample."""

    @abstractmethod
    def log_density(self) -> ca.SX:
        """Log p(y_k | y_0, ..., y_{k-1}, theta) of a sample, (1, 1).

        Not finite where no density of the data can have it: the particle then counts as one whose
        solution diverged.
        """

    @abstractmethod
    def expected(self) -> ExpectedOutputs:
        """Mean and solver covariance of a sample's outputs, as its likelihood predicts them."""

    def states(self) -> tuple[ca.SX, ca.SX]:
        """Mean (n, 1) of the states at a sample, given it and those before, and their variances.

        Without process noise they are those of the solution, and there are no variances, (0, 1).
        """
        here, sample = self.expected().states, self.sample
        return self.model.whole_states(sample.input, sample.t, here), ca.SX(0, 1)

    @abstractmethod
    def local_error(self) -> ca.SX:
        """Local error of each state over what a step is made of, (n, 1)."""

    @abstractmethod
    def inputs(
        self, record: Record, steps: int, number: int = 0, interval: float | None = None
    ) -> KernelInputs:
        """Inputs of its kernel for a record, which starts from the ``number``-th initial state.

        The solver takes so many steps in every sampling interval or, where it `divides`, in one of
        this length, see `numbers_of_steps`.
        """

    @classmethod
    def goes_with(cls, solver: type[Solver] | Solver) -> bool:
        """True if it can be computed with a solver; by default those that name it."""
        return solver.likelihood == cls.name

    @classmethod
    def takes_noise(cls, model: Model) -> bool:
        """True if it can be computed with the noises of a model."""
        gaussian, white = model.density is None, not model.coloured
        if model.density is not None:
            gaussian = cls.varying_noise and model.density.gaussian
        takes_noise = (gaussian or cls.any_density) and (white or cls.coloured_noise)
        return takes_noise and cls.takes_process_noise == (model.process_noise is not None)

    @classmethod
    def takes(cls, model: Model) -> bool:
        """True if it can be computed with the noises of a model and its parts."""
        return cls.takes_noise(model) and model.parts <= cls.takes_parts

    @classmethod
    def default_solver(cls, problem: Problem) -> Solver:
        """Solver where none is named: by default the first that goes with it."""
        return next(kind for kind in SOLVERS.values() if cls.goes_with(kind))()

    @classmethod
    def counterpart(cls, problem: Problem, solver: Solver) -> Solver:
        """Return a solver for this likelihood with as many steps as ``solver``."""
        return replace(cls.default_solver(problem), steps=solver.steps)

    @classmethod
    def predicting(cls, problem: Problem, solver: Solver, grid: Grid, **options: Any) -> Self:
        """Return the recursion from which `expected` and `local_error` are compiled."""
        return cls.traced(problem, solver, grid, **options)

    @classmethod
    def traced(cls, problem: Problem, solver: Solver, grid: Grid, **options: Any) -> Self:
        """Return the recursion of a model that all resolutions of a solver share.

        ``options`` are those of the subclass.
        """
        solver = solver.unresolved()
        known = problem.model.kernels
        key = (cls, solver, grid, target(), *sorted(options.items()))
        if key not in known:
            known[key] = cls.made(problem, solver, grid, **options)
        return known[key]

    @classmethod
    def made(cls, problem: Problem, solver: Solver, grid: Grid, **options: Any) -> Self:
        """Return the recursion of a problem, traced anew: of events by a class of its own."""
        kind: Any = cls if problem.model.events is None else WITH_EVENTS.get(cls.name, cls)
        if not cls.solves_algebraic:
            problem = problem.with_model(explicit_model(problem.model))
        return kind(problem, solver, grid, **options)

    @property
    def exact(self) -> bool:
        """True if it is the likelihood of the model and its steps, and not an approximation."""
        return self.approximates is None

    def constant_values(self, solver: Solver) -> tuple[float, ...]:
        """Values of a program's constants under a solver; by default those of the model."""
        return self.model.constant_values

    def kernel(
        self,
        solver: Solver,
        threads: int | None = None,
        write: Callable[[Self], LaneProgram] | None = None,
        most_lanes: int = MAX_LANES,
    ) -> LaneKernel:
        """Return a kernel, compiled at its first use.

        Parameters
        ----------
        write : callable, optional
            From the recursion to the program; by default it emits the log density.
        """
        write = write or weighing_program
        if write not in self._kernels:
            self._kernels[write] = LaneKernel(write(self), threads, most_lanes)
        kernel = self._kernels[write].with_constants(self.constant_values(solver))
        return kernel.with_threads(threads)

    @cached_property
    def sweep(self) -> SweepKernel:
        """The reverse pass of the log density, compiled at its first use."""
        return SweepKernel(weighing_program(self))

    @cached_property
    def _kernels(self) -> dict[Callable[[Self], LaneProgram], LaneKernel]:
        return {}

    @classmethod
    def build(
        cls, problem: Problem, solver: Solver, threads: int | None = None, **options: Any
    ) -> LaneLikelihood:
        """Compile it for a problem's records; ``options`` are those of the subclass."""
        number_of_steps(solver)
        if solver.interval is not None and not cls.divides:
            raise InputError(
                f"interval is {solver.interval}: the {cls.name} likelihood takes as many steps in "
                "every sampling interval, leave it out",
                argument="interval",
            )
        recursion = cls.traced(
            problem, solver, Grid.of(problem.records, problem.model.delay), **options
        )
        return recursion.over(problem.records, solver, recursion.kernel(solver, threads))

    def over(self, records: Sequence[Record], solver: Solver, kernel: LaneKernel) -> LaneLikelihood:
        """The likelihood of records by its compiled kernel."""
        steps = number_of_steps(solver)

        def inputs(record: Record, number: int) -> KernelInputs:
            return self.inputs(record, steps, number, solver.interval)

        return LaneLikelihood(kernel, records, solver, inputs)


def weighing_program(recursion: Recursion) -> LaneProgram:
    """Program that emits the log density of each sample."""
    return recursion.program(recursion.log_density())


def build_likelihood(
    problem: Problem, solver: Solver, threads: int | None = None, likelihood: str | None = None
) -> LaneLikelihood:
    """Build a likelihood of a problem under a solver.

    likelihood: One of `LIKELIHOODS`; by default the one of the solver.
    """
    kind = suitable_likelihood(problem, solver, likelihood)
    require_exact(kind.name)
    return kind.build(problem, solver, threads)


def build_estimate(
    problem: Problem, solver: Solver, threads: int | None, likelihood: str
) -> EstimatedLikelihood:
    """Build a likelihood that is an estimate; see `build_likelihood`."""
    built: Any = suitable_likelihood(problem, solver, likelihood).build(problem, solver, threads)
    return built


def require_exact(likelihood: str) -> None:
    """Refuse a likelihood that is an estimate, by the name of its approximation."""
    approximation = LIKELIHOODS[likelihood].approximation
    if approximation is not None:
        raise InputError(
            f"likelihood is '{likelihood}', an estimate by random numbers, which has no gradient "
            f"and no fixed value: take likelihood='{approximation}' here; smcpn.identify samples "
            "the posterior of both",
            argument="likelihood",
        )


def suitable_likelihood(
    problem: Problem, solver: Solver, likelihood: str | None = None
) -> type[Recursion]:
    """Return the likelihood of a name, or the default, checked against the problem."""
    name, model = likelihood_name(problem, solver, likelihood), problem.model
    if not LIKELIHOODS[name].takes_noise(model):
        argument = "noise"
        takes = "Gaussian noise only: give standard deviations in noise"
        if model.density is None:
            takes = "no coloured noise: give standard deviations in place of AR1"
        disturbed = LIKELIHOODS[name].takes_process_noise
        if disturbed != (model.process_noise is not None):
            only = "states with process noise only: give it to the problem"
            argument, takes = (
                "process_noise",
                only if disturbed else "no process noise: leave it out",
            )
        fitting = [n for n, kind in LIKELIHOODS.items() if kind.takes_noise(model)]
        others = f", or choose likelihood {' or '.join(fitting)}" if fitting else ""
        raise InputError(f"the {name} likelihood takes {takes}{others}", argument=argument)
    takes = LIKELIHOODS[name].takes_parts
    if not model.parts <= takes:
        remedy = _likelihoods_that_take(model)
        check_parts(model.parts, f"the {name} likelihood", takes, dict.fromkeys(PARTS, remedy))
    if problem.diffusion is not None and problem.diffusion != getattr(solver, "diffusion", None):
        raise InputError(
            f"the problem learns the diffusion '{problem.diffusion}', which {solver!r} does not "
            f"use: give the solver diffusion='{problem.diffusion}', or leave it out of the problem"
        )
    return LIKELIHOODS[name]


def likelihood_name(problem: Problem, solver: Solver, likelihood: str | None = None) -> str:
    """Name of the likelihood to use, checked against the solver.

    By default it is the solver's own or, of a problem with process noise, the first that takes it.
    """
    check_solver(solver)
    if likelihood is None:
        disturbed = problem.model.process_noise is not None
        fitting = [n for n in with_process_noise() if LIKELIHOODS[n].goes_with(solver)]
        return fitting[0] if disturbed and fitting else solver.likelihood
    check_likelihood(likelihood)
    if not LIKELIHOODS[likelihood].goes_with(solver):
        goes_with = LIKELIHOODS[likelihood].goes_with
        fitting = [f"smcpn.{name}(...)" for name, kind in SOLVERS.items() if goes_with(kind)]
        raise InputError(
            f"the {likelihood} likelihood does not go with {solver!r}: give "
            f"solver={' or '.join(fitting)}, or leave likelihood out, which is "
            f"{likelihood_name(problem, solver)} then",
            argument="likelihood",
        )
    return likelihood


def _likelihoods_that_take(model: Model) -> str:
    """Say which likelihoods take a model, with the solvers that they go with."""
    fitting = [name for name, kind in LIKELIHOODS.items() if kind.takes(model)]
    if not fitting:
        return "no likelihood takes all that the model has"
    goes = [
        f"smcpn.{name}"
        for name, kind in SOLVERS.items()
        if any(LIKELIHOODS[one].goes_with(kind) for one in fitting)
    ]
    return f"choose likelihood {' or '.join(fitting)}, with {' or '.join(goes)}"


def with_process_noise() -> list[str]:
    """Return the names of the likelihoods that take process noise."""
    return [name for name, kind in LIKELIHOODS.items() if kind.takes_process_noise]


def number_of_steps(solver: Solver) -> int:
    """Steps per sampling interval of a solver."""
    if solver.steps == "auto":
        raise InputError("steps 'auto' is still to be chosen: use smcpn.identify, or give a number")
    return int(solver.steps)


def check_likelihood(likelihood: str) -> None:
    """Raise `InputError` for a name that is no likelihood."""
    if not isinstance(likelihood, str) or likelihood not in LIKELIHOODS:
        raise InputError(
            f"likelihood is {shown(likelihood)}: choose one of {', '.join(LIKELIHOODS)}"
        )
