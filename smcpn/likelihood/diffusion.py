"""The diffusion of the Wiener processes: a number, a parameter, or calibrated from the residuals.

A calibrated diffusion is a class that has a ``name``; solvers and problems accept the name once the
class is defined.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.errors import InputError
from smcpn.likelihood.gaussian_filter import Innovation, Linearisation
from smcpn.model.problem import Problem
from smcpn.model.solver import CALIBRATED, ProbabilisticSolver
from smcpn.pn.layout import Layout

Array = NDArray[np.float64]

AT_REST = 1e-120
"""Variance added to a running estimate, which is zero as long as the residuals are; far below the
square of what rounding leaves of a state in any unit."""
DIFFUSIONS: dict[str, type[CalibratedDiffusion]] = {}
"""Every calibrated diffusion by its name, which a solver's ``diffusion`` gives."""


def powered(x: Any, n: int) -> Any:
    """``x ** n`` as a product, which numbers, arrays and graphs round alike; n >= 1."""
    product = x
    for _ in range(n - 1):
        product = product * x
    return product


@dataclass(frozen=True)
class DiffusionStep:
    """Quantities of one solver step from which a diffusion model estimates its variances.

    Attributes
    ----------
    rates : tuple of casadi.SX
        Coordinate of the derivative that the ODE determines, of every process at the data-free
        filter's predicted mean: h x' for one state, in the unit of that state.
    scale : casadi.SX
        Variance per unit of variance of the diffusion, see ``scales``.
    count : casadi.SX
        Steps so far, this one included.
    factor : casadi.SX
        By which the standard deviation of the diffusion is raised.
    """

    rates: tuple[ca.SX, ...]
    scale: ca.SX
    count: ca.SX
    factor: ca.SX

    @classmethod
    def of(
        cls,
        layout: Layout,
        linearisation: Linearisation,
        scale: ca.SX,
        count: ca.SX,
        factor: ca.SX,
    ) -> DiffusionStep:
        """Take the rates from the linearised ODE."""
        rates = [linearisation.rates[k, p.rate] for k, p in enumerate(layout.processes)]
        return cls(tuple(rates), scale, count, factor)


@dataclass(frozen=True)
class KnownDiffusion:
    """A number or a parameter, the same for all processes and all time.

    Attributes
    ----------
    sd : casadi.SX
        A parameter, or a symbol whose value is ``number``.
    """

    sd: ca.SX
    number: float | None = None
    calibrated: ClassVar[bool] = False
    sums: ClassVar[tuple[ca.SX, ...]] = ()

    @property
    def constants(self) -> tuple[ca.SX, ...]:
        """Symbols of numbers that are the same for all particles."""
        return () if self.number is None else (self.sd,)

    @property
    def constant_values(self) -> tuple[float, ...]:
        """Values of `constants`."""
        return () if self.number is None else (self.number,)

    def is_number(self, theta: ca.SX) -> bool:
        """True if it is the same for all particles, whose parameters are ``theta``."""
        return not ca.depends_on(self.sd, theta)

    def scales(self, lengths: Any, mean: Any, order: int) -> Any:
        """Variance that unit variance of the diffusion adds in steps of these lengths."""
        return powered(lengths, 2 * order + 1)

    def free_noise(self, step: DiffusionStep) -> list[ca.SX]:
        """Process noise of the data-free filter: that of the conditioned filter."""
        return [step.scale * (self.sd * step.factor) ** 2] * len(step.rates)

    def noise(
        self, step: DiffusionStep, innovations: Sequence[Innovation]
    ) -> tuple[list[ca.SX], list[ca.SX]]:
        """Process noise of the conditioned filter on a step, and no sums."""
        return self.free_noise(step), []


@dataclass(frozen=True)
class CalibratedDiffusion(ABC):
    """A diffusion that is estimated from the residuals of the data-free filter, step by step.

    Scaling the diffusion scales every covariance of a filter that meets no measurement noise. So
    one data-free filter with a diffusion of one yields residuals e and their variances s, from
    which `variances` estimates the diffusion without filtering again. The filter that is
    conditioned on the data has no such scaling; it takes the value.

    Time is counted in mean steps, so that the diffusion has the square of the state's unit and
    does not depend on the unit of time.

    A subclass that sets ``name`` becomes a diffusion that solvers accept by that name.

    Attributes
    ----------
    name : str
    alone : tuple of bool
        Of every process, whether its covariance in the data-free filter is its own. The gains
        then do not depend on its diffusion, nor on the particle.
    sums : tuple of casadi.SX
        Running statistics that a particle holds.
    """

    name: ClassVar[str]
    calibrated: ClassVar[bool] = True
    constants: ClassVar[tuple[ca.SX, ...]] = ()
    constant_values: ClassVar[tuple[float, ...]] = ()

    alone: tuple[bool, ...]
    sums: tuple[ca.SX, ...] = field(kw_only=True)

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            DIFFUSIONS[cls.name] = cls
            if cls.name not in CALIBRATED:
                CALIBRATED.append(cls.name)

    @classmethod
    def of(cls, layout: Layout) -> CalibratedDiffusion:
        """Make the symbols for the processes of the data-free filter."""
        own = {k for block in layout.blocks if len(block.processes) == 1 for k in block.processes}
        processes = len(layout.processes)
        sums = tuple(ca.SX.sym(f"sum_{k}") for k in range(cls.statistics(processes)))
        return cls(tuple(k in own for k in range(processes)), sums=sums)

    @classmethod
    def statistics(cls, processes: int) -> int:
        """Number of ``sums`` for a number of processes; by default one each."""
        return processes

    def sizes(self, step: DiffusionStep) -> list[ca.SX]:
        """Variances of the processes relative to each other; by default one each."""
        return [ca.SX(1.0)] * len(self.alone)

    @abstractmethod
    def variances(
        self, step: DiffusionStep, terms: Sequence[ca.SX]
    ) -> tuple[list[ca.SX], list[ca.SX]]:
        """Variance of every process after a step, and the sums after it: as many as ``sums``.

        Parameters
        ----------
        step : DiffusionStep
        terms : sequence of casadi.SX
            e^2 / s of this step for every process; s has the diffusion `sizes`.
        """

    def is_number(self, theta: ca.SX) -> bool:
        """False: the diffusion depends on the solution of each particle."""
        return False

    def scales(self, lengths: Any, mean: Any, order: int) -> Any:
        """Variance that unit variance of the diffusion adds in steps of these lengths."""
        return powered(lengths / mean, 2 * order + 1)

    def free_noise(self, step: DiffusionStep) -> list[ca.SX]:
        """Process noise of the data-free filter: of diffusion one where a process is alone."""
        sizes = zip(self.alone, self.sizes(step), strict=True)
        return [step.scale if alone else step.scale * size for alone, size in sizes]

    def noise(
        self, step: DiffusionStep, innovations: Sequence[Innovation]
    ) -> tuple[list[ca.SX], list[ca.SX]]:
        """Process noise of the conditioned filter on a step, and the sums after it.

        Parameters
        ----------
        step : DiffusionStep
        innovations : sequence of Innovation
            Of the data-free filter on this step, block by block.

        Returns
        -------
        noise : list of casadi.SX
            One for every process.
        """
        found: dict[int, ca.SX] = {}
        for innovation in innovations:
            pairs = zip(innovation.residuals, innovation.variances, strict=True)
            found.update(zip(innovation.processes, (e * e / s for e, s in pairs), strict=True))
        sizes = zip(self.alone, self.sizes(step), strict=True)
        terms = [found[k] / size if alone else found[k] for k, (alone, size) in enumerate(sizes)]
        variances, sums = self.variances(step, terms)
        return [step.scale * (variance * step.factor**2) for variance in variances], sums


class FixedDiffusion(CalibratedDiffusion):
    """Running quasi-MLE of one diffusion for all processes, in units of how far each moves.

    The unit of a process is the root mean square of its moves h x' over the steps so far, so that
    the estimate is the same in any units of time and states. In these units the maximum of the
    likelihood of the residuals is the mean of e^2 / s (PN-SMC eq. 19).
    """

    name = "fixed"

    @classmethod
    def statistics(cls, processes: int) -> int:
        """Number of statistics: of the residuals, and of moves to compare."""
        return 1 + (processes if processes > 1 else 0)

    def sizes(self, step: DiffusionStep) -> list[ca.SX]:
        """Mean squared moves, which a single process needs not."""
        if len(self.alone) == 1:
            return super().sizes(step)
        return [total / step.count + AT_REST for total in self._moves(step)]

    @override
    def variances(
        self, step: DiffusionStep, terms: Sequence[ca.SX]
    ) -> tuple[list[ca.SX], list[ca.SX]]:
        # A process that stays as it is has no residual.
        moving = sum(not rate.is_zero() for rate in step.rates)
        total = self.sums[0] + sum(terms, ca.SX(0.0)) / max(moving, 1)
        relative = total / step.count
        variances = [relative * size + AT_REST for size in self.sizes(step)]
        return variances, [total, *self._moves(step)]

    def _moves(self, step: DiffusionStep) -> list[ca.SX]:
        return [total + r * r for total, r in zip(self.sums[1:], step.rates, strict=False)]


class FixedDiagonalDiffusion(CalibratedDiffusion):
    """Running quasi-MLE of a diffusion for every process: Gamma_ii, the mean of e_i^2 / s_i."""

    name = "fixed-diagonal"

    @override
    def variances(
        self, step: DiffusionStep, terms: Sequence[ca.SX]
    ) -> tuple[list[ca.SX], list[ca.SX]]:
        sums = [total + term for total, term in zip(self.sums, terms, strict=True)]
        return [total / step.count + AT_REST for total in sums], sums


Diffusion = KnownDiffusion | CalibratedDiffusion


def known_diffusion(
    problem: Problem, solver: ProbabilisticSolver, *, likelihood: str
) -> KnownDiffusion:
    """Diffusion of a likelihood that needs one model for all time."""
    value = solver.diffusion
    if isinstance(value, float):
        return KnownDiffusion(ca.SX.sym("diffusion"), value)
    if value in CALIBRATED:
        raise InputError(
            f"diffusion {value!r} cannot be calibrated in the {likelihood} likelihood, whose "
            "updates also have measurement noise: give a number, or learn it with "
            "smcpn.Problem(diffusion='kappa', prior={'kappa': ...}) and diffusion='kappa'"
        )
    if problem.diffusion != value or problem.model.diffusion is None:
        raise InputError(
            f"diffusion is {value!r}, which the problem does not name: give it "
            f"smcpn.Problem(diffusion={value!r}, prior={{{value!r}: ...}})"
        )
    return KnownDiffusion(problem.model.diffusion)


def known_or_calibrated_diffusion(
    problem: Problem, solver: ProbabilisticSolver, *, likelihood: str
) -> Diffusion:
    """Diffusion of a likelihood that may also calibrate it."""
    diffusion = "fixed" if solver.diffusion == "auto" else solver.diffusion
    if diffusion in DIFFUSIONS:
        return DIFFUSIONS[str(diffusion)].of(
            Layout.connected(problem.model.x, problem.model.rhs, solver)
        )
    if solver.diffusion in CALIBRATED:
        raise InputError(
            f"diffusion {solver.diffusion!r} cannot be used with the {likelihood} likelihood: it "
            "is zero wherever a residual changes sign, and the likelihood rough in the parameters; "
            "use 'fixed', a number, or a parameter's name; a stiff model takes solver='auto'"
        )
    return known_diffusion(problem, solver, likelihood=likelihood)
