"""The likelihoods by name, and the one a solver stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from smcpn.errors import InputError, shown
from smcpn.likelihood.classical import classical, classical_prediction
from smcpn.likelihood.conditioned import dalton, fenrir, filtering
from smcpn.likelihood.expected import Prediction
from smcpn.likelihood.lanes import LaneLikelihood
from smcpn.likelihood.marginal import marginal, marginal_prediction
from smcpn.model.problem import Problem
from smcpn.solver import EKF0, EKF1, RK4

Solver = EKF0 | EKF1 | RK4


@dataclass(frozen=True)
class Recipe:
    """How a likelihood is made.

    Attributes
    ----------
    solvers : tuple of type
        Those it goes with.
    build : callable
        ``build(problem, solver, threads)`` returns a `LaneLikelihood`.
    prediction : callable
        ``prediction(problem, solver, number, record)`` returns the `Prediction` of what it expects
        of every sample.
    known_diffusion : bool
        Whether it needs a diffusion that is a number or a parameter.
    any_density : bool
        Whether measurements may scatter otherwise than Gaussian.
    excess : float
        Nats per value by which it may lie above what a density of the data can, the noise at its
        densest.
    """

    solvers: tuple[type, ...]
    build: Callable[..., LaneLikelihood]
    prediction: Callable[..., Prediction]
    known_diffusion: bool = False
    any_density: bool = False
    excess: float = 0.0


LIKELIHOODS = {
    "marginal": Recipe((EKF0,), marginal, marginal_prediction),
    "filtering": Recipe((EKF0, EKF1), filtering, filtering.prediction, any_density=True),
    "dalton": Recipe(
        # Its two filters linearise in different places, which leaves no density of the data; far
        # above one, the data-free filter has diverged.
        (EKF0, EKF1),
        dalton,
        dalton.prediction,
        known_diffusion=True,
        any_density=True,
        excess=1.0,
    ),
    "fenrir": Recipe((EKF0, EKF1), fenrir, fenrir.prediction, known_diffusion=True),
    "classical": Recipe((RK4,), classical, classical_prediction, any_density=True),
}
OF_SOLVER = {EKF0: "marginal", EKF1: "filtering", RK4: "classical"}
"""The likelihood that a solver stands for where none is named."""


def build_likelihood(
    problem: Problem, solver: Solver, threads: int | None = None, likelihood: str | None = None
) -> LaneLikelihood:
    """Build a likelihood of a problem under a solver.

    Parameters
    ----------
    likelihood : str, optional
        One of `LIKELIHOODS`; by default the one the solver stands for.

    Raises
    ------
    InputError
        If there is no such likelihood, or it does not go with the solver.
    """
    name = likelihood_name(solver, likelihood)
    if problem.model.density is not None and not LIKELIHOODS[name].any_density:
        fitting = ", ".join(n for n, recipe in LIKELIHOODS.items() if recipe.any_density)
        raise InputError(
            f"the {name} likelihood takes Gaussian noise only: give standard deviations in noise, "
            f"or choose likelihood {fitting}"
        )
    if problem.diffusion is not None and problem.diffusion != getattr(solver, "diffusion", None):
        raise InputError(
            f"the problem learns the diffusion '{problem.diffusion}', which {solver!r} does not "
            f"use: give the solver diffusion='{problem.diffusion}', or leave it out of the problem"
        )
    return LIKELIHOODS[name].build(problem, solver, threads)


def likelihood_name(solver: Solver, likelihood: str | None = None) -> str:
    """Name of the likelihood to use, checked against the solver.

    Raises
    ------
    InputError
        As `build_likelihood`, and for what is no solver.
    """
    check_solver(solver)
    if likelihood is None:
        return OF_SOLVER[type(solver)]
    recipe = _recipe(likelihood)
    if type(solver) not in recipe.solvers:
        fitting = " or ".join(f"smcpn.{kind.__name__}(...)" for kind in recipe.solvers)
        raise InputError(
            f"the {likelihood} likelihood does not go with {solver!r}: give solver={fitting}",
            argument="likelihood",
        )
    return likelihood


def default_solver(problem: Problem, likelihood: str | None) -> Solver:
    """Solver of an identification that names none.

    A filter that sees the data has no use for the first-order form: where v is x', one process
    for both has no second residual to leave an error.

    Raises
    ------
    InputError
        For a likelihood that needs a diffusion which neither solver nor problem gives.
    """
    if likelihood is None:
        return EKF0()
    recipe = _recipe(likelihood)
    kind = recipe.solvers[-1]
    if kind is not EKF1:
        return kind()
    if problem.diffusion is not None:
        return EKF1(order=4, form="chain", diffusion=problem.diffusion)
    if recipe.known_diffusion:
        raise InputError(
            f"the {likelihood} likelihood needs a diffusion: give solver=smcpn.EKF1(diffusion=...) "
            "a number, or learn it, smcpn.Problem(diffusion='kappa', prior={'kappa': ...})",
            argument="likelihood",
        )
    return EKF1(order=4, form="chain", diffusion="fixed")


def check_solver(solver: Solver) -> None:
    """Refuse what is no solver.

    Raises
    ------
    InputError
        For the class in place of an instance, and for anything else.
    """
    if isinstance(solver, type) and solver in OF_SOLVER:
        name = solver.__name__
        raise InputError(f"solver is the class {name}: give an instance, smcpn.{name}()")
    if type(solver) not in OF_SOLVER:
        known = ", ".join(f"smcpn.{kind.__name__}" for kind in OF_SOLVER)
        raise InputError(f"solver is {shown(solver)}: choose one of {known}")


def check_likelihood(likelihood: str) -> None:
    """Refuse what is no likelihood.

    Raises
    ------
    InputError
        Naming those there are.
    """
    if not isinstance(likelihood, str) or likelihood not in LIKELIHOODS:
        raise InputError(
            f"likelihood is {shown(likelihood)}: choose one of {', '.join(LIKELIHOODS)}"
        )


def _recipe(likelihood: str) -> Recipe:
    check_likelihood(likelihood)
    return LIKELIHOODS[likelihood]
