"""The diffusion of the Wiener processes: a number, a parameter, or calibrated from the residuals.

A calibrated diffusion is a class that has a ``name``; solvers and problems accept the name once the
class is defined.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import casadi as ca

from smcpn.errors import InputError
from smcpn.likelihood.gaussian_filter import Innovation
from smcpn.model.problem import Problem
from smcpn.solver import CALIBRATED, ProbabilisticSolver

AT_REST = 1e-60
"""Variance added to a running estimate, which is zero as long as the residuals are."""
DIFFUSIONS: dict[str, type[CalibratedDiffusion]] = {}
"""Every calibrated diffusion by its name, which a solver's ``diffusion`` gives."""


@dataclass(frozen=True)
class KnownDiffusion:
    """A number or a parameter, the same for all processes and all time.

    Attributes
    ----------
    sd : casadi.SX
        A parameter, or a symbol whose value is ``number``.
    number : float or None
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
        """Whether it is the same for all particles, whose parameters are ``theta``."""
        return not ca.depends_on(self.sd, theta)

    def free_noise(self, scale: ca.SX, factor: ca.SX) -> ca.SX:
        """Process noise of the data-free filter: that of the conditioned filter.

        With equal arithmetic their rounding errors cancel in log p(y, z) - log p(z); they are
        large where the diffusion is small.
        """
        return scale * (self.sd * factor) ** 2

    def noise(
        self,
        innovations: Sequence[Innovation],
        processes: int,
        scale: ca.SX,
        count: ca.SX,
        factor: ca.SX,
    ) -> tuple[list[ca.SX], list[ca.SX]]:
        """Process noise of the conditioned filter on a step, and no sums."""
        return [self.free_noise(scale, factor)] * processes, []


@dataclass(frozen=True)
class CalibratedDiffusion(ABC):
    """A diffusion that is estimated from the residuals of the data-free filter, step by step.

    Scaling the diffusion scales every covariance of a filter that meets no measurement noise. So
    one data-free filter with unit diffusion yields residuals e and their variances s, from which
    `variances` estimates the diffusion without filtering again. The filter that is conditioned on
    the data has no such scaling; it takes the value.

    A subclass that sets ``name`` becomes a diffusion that solvers accept by that name.

    Attributes
    ----------
    name : str
    diagonal : bool
        Whether every process has a diffusion of its own.
    sums : tuple of casadi.SX
        Running statistics that a particle holds: one, or one for every process.
    """

    name: ClassVar[str]
    diagonal: ClassVar[bool] = False
    calibrated: ClassVar[bool] = True
    constants: ClassVar[tuple[ca.SX, ...]] = ()
    constant_values: ClassVar[tuple[float, ...]] = ()

    sums: tuple[ca.SX, ...] = field(kw_only=True)

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            DIFFUSIONS[cls.name] = cls
            if cls.name not in CALIBRATED:
                CALIBRATED.append(cls.name)

    @classmethod
    def of(cls, processes: int) -> CalibratedDiffusion:
        """Make the symbols for a number of processes."""
        return cls(
            sums=tuple(ca.SX.sym(f"sum_{k}") for k in range(processes if cls.diagonal else 1))
        )

    @abstractmethod
    def variances(self, terms: Sequence[ca.SX], count: ca.SX) -> tuple[list[ca.SX], list[ca.SX]]:
        """Variances after a step, and the sums after it: as many as `sums`.

        Parameters
        ----------
        terms : sequence of casadi.SX
            e^2 / s of this step: its mean over the processes, or that of every process.
        count : casadi.SX
            Steps so far, this one included.
        """

    def is_number(self, theta: ca.SX) -> bool:
        """False: the diffusion depends on the solution of each particle."""
        return False

    def free_noise(self, scale: ca.SX, factor: ca.SX) -> ca.SX:
        """Process noise of the data-free filter, whose diffusion is one."""
        return scale

    def noise(
        self,
        innovations: Sequence[Innovation],
        processes: int,
        scale: ca.SX,
        count: ca.SX,
        factor: ca.SX,
    ) -> tuple[list[ca.SX], list[ca.SX]]:
        """Process noise of the conditioned filter on a step, and the sums after it.

        Parameters
        ----------
        innovations : sequence of Innovation
            Of the data-free filter with unit diffusion on this step.
        processes : int
        scale : casadi.SX
            Variance per unit of variance of the diffusion, h^(2 order + 1).
        count : casadi.SX
            Steps so far, this one included.
        factor : casadi.SX
            By which the standard deviation of the diffusion is raised.

        Returns
        -------
        noise : list of casadi.SX
            One for every process.
        sums : list of casadi.SX
        """
        terms = [
            e * e / s
            for innovation in innovations
            for e, s in zip(innovation.residuals, innovation.variances, strict=True)
        ]
        if not self.diagonal:
            terms = [sum(terms, ca.SX(0.0)) / len(terms)]
        variances, sums = self.variances(terms, count)
        repeated = variances * (processes // len(variances))
        return [scale * (variance * factor**2) for variance in repeated], sums


class FixedDiffusion(CalibratedDiffusion):
    """Running quasi-MLE of one diffusion for all processes: the mean of e^2 / s so far.

    The maximum of the likelihood of the residuals is this mean (PN-SMC eq. 19).
    """

    name = "fixed"

    def variances(self, terms: Sequence[ca.SX], count: ca.SX) -> tuple[list[ca.SX], list[ca.SX]]:
        """See `CalibratedDiffusion.variances`."""
        sums = [total + term for total, term in zip(self.sums, terms, strict=True)]
        return [total / count + AT_REST for total in sums], sums


class FixedDiagonalDiffusion(FixedDiffusion):
    """Running quasi-MLE of a diffusion for every process: Gamma_ii, the mean of e_i^2 / s_i."""

    name = "fixed-diagonal"
    diagonal = True


Diffusion = KnownDiffusion | CalibratedDiffusion


def known_diffusion(
    problem: Problem, solver: ProbabilisticSolver, *, likelihood: str
) -> KnownDiffusion:
    """Diffusion of a likelihood that needs one model for all time.

    Raises
    ------
    InputError
        If the solver calibrates it, or names what is not the problem's diffusion.
    """
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
    problem: Problem, solver: ProbabilisticSolver, processes: int, *, likelihood: str
) -> Diffusion:
    """Diffusion of a likelihood that may also calibrate it, for a number of processes.

    Raises
    ------
    InputError
        For a diffusion calibrated step by step, and as `known_diffusion`.
    """
    diffusion = "fixed" if solver.diffusion == "auto" else solver.diffusion
    if diffusion in DIFFUSIONS:
        return DIFFUSIONS[str(diffusion)].of(processes)
    if solver.diffusion in CALIBRATED:
        raise InputError(
            f"diffusion {solver.diffusion!r} cannot be used with the {likelihood} likelihood: it "
            "is zero wherever a residual changes sign, and the likelihood rough in the parameters; "
            "use 'fixed', a number, or a parameter's name; a stiff model takes solver='auto'"
        )
    return known_diffusion(problem, solver, likelihood=likelihood)
