"""The diffusion of the Wiener processes: a number, a parameter, or calibrated on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import casadi as ca

from smcpn.errors import InputError
from smcpn.likelihood.gaussian_filter import Innovation
from smcpn.model.problem import Problem
from smcpn.solver import CALIBRATED, EKF0, EKF1

AT_REST = 1e-60
"""Variance added to a running estimate, which is zero as long as the residuals are."""


@dataclass(frozen=True)
class KnownDiffusion:
    """The same for all processes and all time.

    Attributes
    ----------
    sd : casadi.SX
        A parameter, or a symbol whose value is ``number``.
    number : float or None
    """

    sd: ca.SX
    number: float | None
    sums: tuple[ca.SX, ...] = ()

    def variances(
        self, innovations: list[Innovation], count: ca.SX, processes: int
    ) -> tuple[list[ca.SX], list[ca.SX]]:
        """Variance of each process on a step."""
        return [self.sd**2] * processes, []


@dataclass(frozen=True)
class RunningDiffusion:
    """Running quasi-MLE: the mean of e^2 / s over the residuals of the data-free filter so far.

    Scaling the diffusion scales every covariance of a filter that meets no measurement noise, so
    the maximum is this mean (PN-SMC eq. 19), and it may change from step to step without running
    the filter again. A filter that sees the data has no such scaling; it takes the value.

    Attributes
    ----------
    sums : tuple of casadi.SX
        Held by every particle: one for all processes, or one for each.
    """

    sums: tuple[ca.SX, ...]
    number: float | None = field(default=None)

    def variances(
        self, innovations: list[Innovation], count: ca.SX, processes: int
    ) -> tuple[list[ca.SX], list[ca.SX]]:
        """Variance of each process on a step, and the sums after it.

        Parameters
        ----------
        innovations : list of Innovation
            Of the data-free filter with unit diffusion on this step.
        count : casadi.SX
            Steps so far, this one included.
        """
        terms = self.terms(innovations)
        sums = [total + term for total, term in zip(self.sums, terms, strict=True)]
        variances = [total / count + AT_REST for total in sums]
        return variances * (processes // len(variances)), sums

    def terms(self, innovations: list[Innovation]) -> list[ca.SX]:
        """What a step adds to each of the sums: e^2 / s, its mean over processes where one."""
        terms = [
            e * e / s
            for innovation in innovations
            for e, s in zip(innovation.residuals, innovation.variances, strict=True)
        ]
        return terms if len(self.sums) > 1 else [sum(terms, ca.SX(0.0)) / len(terms)]


Diffusion = KnownDiffusion | RunningDiffusion


def _sums(number: int) -> tuple[ca.SX, ...]:
    return tuple(ca.SX.sym(f"sum_{k}") for k in range(number))


RUNNING: dict[str, Callable[[int], RunningDiffusion]] = {
    "fixed": lambda processes: RunningDiffusion(_sums(1)),
    "fixed-diagonal": lambda processes: RunningDiffusion(_sums(processes)),
}
"""Diffusions that are calibrated on the way, by the name that a solver gives: of the number of
processes."""


def known_diffusion(problem: Problem, solver: EKF0 | EKF1, likelihood: str) -> KnownDiffusion:
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
    return KnownDiffusion(problem.model.diffusion, None)


def running_diffusion(problem: Problem, solver: EKF0 | EKF1, processes: int) -> Diffusion:
    """Diffusion of the filtering likelihood: known, or the running quasi-MLE.

    Raises
    ------
    InputError
        For a diffusion calibrated step by step, and as `known_diffusion`.
    """
    if solver.diffusion in RUNNING:
        return RUNNING[str(solver.diffusion)](processes)
    if solver.diffusion in CALIBRATED:
        raise InputError(
            f"diffusion {solver.diffusion!r} cannot be used with the filtering likelihood: it is "
            "zero wherever a residual changes sign, and the likelihood rough in the parameters; "
            "use 'fixed', a number, or a parameter's name"
        )
    return known_diffusion(problem, solver, "filtering")
