"""The sections [solver] and [run]: how a problem is solved, and what is done with the result."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from smcpn.checkpoint.session import EXISTING
from smcpn.config.document import Section, one_of, text
from smcpn.errors import InputError, real_number, shown, whole_number
from smcpn.likelihood.registry import LIKELIHOODS, Solver, default_solver, likelihood_name
from smcpn.model.problem import Problem
from smcpn.run.identify import LEAST_PARTICLES
from smcpn.run.run import METHODS
from smcpn.smc.moves import MOVES
from smcpn.smc.resampling import SCHEMES
from smcpn.solver import CALIBRATED, EKF0, EKF1, RK4

KINDS = {"EKF0": EKF0, "EKF1": EKF1, "RK4": RK4}
WITHOUT_KIND = ("order", "steps", "diffusion")
SOLVER = ("kind", "likelihood", "order", "steps", "form", "diffusion", "jacobian")


def _share(key: str, value: Any) -> float:
    number = real_number(key, value)
    if not 0 < number < 1:
        raise InputError(f"{key} is {number:g}: choose a share between 0 and 1")
    return number


def _seconds(key: str, value: Any) -> float:
    number = real_number(key, value)
    if number < 0:
        raise InputError(f"{key} is {number:g}: give seconds, 0 or more")
    return number


ARGUMENTS = {
    "particles": partial(whole_number, least=LEAST_PARTICLES),
    "seed": partial(whole_number, least=0),
    "ess": _share,
    "block": partial(whole_number, least=1),
    "max_moves": partial(whole_number, least=1),
    "moves": one_of(MOVES),
    "method": one_of(METHODS),
    "resampling": one_of(SCHEMES),
    "replicates": partial(whole_number, least=1),
    "threads": partial(whole_number, least=1),
    "checkpoint_every": _seconds,
    "existing": one_of(EXISTING),
}
"""Arguments of `smcpn.identify` in [run], and what reads them."""
FILES = ("checkpoint", "report", "picture")
"""Files that [run] may have written; they are relative to the configuration."""
RUN = (*ARGUMENTS, *FILES)


def learned_diffusion(section: Section) -> str | None:
    """Name of the parameter that holds the diffusion, where [solver] names one."""
    value = section.table.get("diffusion")
    return value if isinstance(value, str) and value not in CALIBRATED else None


def likelihood_of(section: Section) -> str | None:
    """Return the likelihood that [solver] names."""
    return section.optional("likelihood", one_of(LIKELIHOODS))


def solver_of(section: Section, problem: Problem) -> Solver:
    """Return the solver of [solver]; without a kind the one that goes with the likelihood.

    Raises
    ------
    ConfigurationError
        For what does not go together.
    """
    likelihood, kind = likelihood_of(section), section.optional("kind", one_of(KINDS))
    given = {
        key: value for key, value in section.table.items() if key not in ("kind", "likelihood")
    }
    if kind is None:
        with section.blame("likelihood" if "likelihood" in section else None):
            solver = _without_kind(section, problem, likelihood, given)
    else:
        known = [field.name for field in fields(KINDS[kind])]
        for key in given:
            if key not in known:
                raise section.error(key, f"{kind} has no {key}: leave it out")
        with blame_first_word(section):
            solver = KINDS[kind](**given)
    with section.blame("likelihood" if "likelihood" in section else "kind"):
        likelihood_name(solver, likelihood)
    return solver


def arguments_of(section: Section) -> dict[str, Any]:
    """Return the further arguments of `smcpn.identify` in [run].

    Raises
    ------
    ConfigurationError
        If a value is out of range.
    """
    arguments: dict[str, Any] = {
        key: section.read(key, parse) for key, parse in ARGUMENTS.items() if key in section
    }
    if "moves" in arguments:
        if "max_moves" in arguments:
            raise section.error("max_moves", "it goes with the moves that are the default")
        arguments["moves"] = MOVES[arguments["moves"]]()
    checkpoint = file_of(section, "checkpoint")
    return arguments if checkpoint is None else arguments | {"checkpoint": checkpoint}


def file_of(section: Section, key: str) -> Path | None:
    """Return a file to write, where one is named."""
    name = section.optional(key, text)
    return None if name is None else section.document.beside(name)


class blame_first_word:  # noqa: N801 - reads as a statement
    """Let an `InputError` name the key that its sentence begins with.

    Sentences of this house begin with the argument they are about.

    Parameters
    ----------
    section : Section
    """

    def __init__(self, section: Section) -> None:
        self._section = section

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, InputError):
            word = str(error).split(maxsplit=1)[0]
            key = word if word in self._section else None
            raise self._section.error(key, str(error)) from error


def _without_kind(
    section: Section, problem: Problem, likelihood: str | None, given: dict[str, Any]
) -> Solver:
    for key in given:
        if key not in WITHOUT_KIND or (key == "diffusion" and problem.diffusion is None):
            raise section.error(key, f"say which solver it is for: kind = {' or '.join(KINDS)}")
    base = default_solver(problem, likelihood)
    if isinstance(base, RK4) and "order" in given:
        raise section.error(
            "order", f"order is {shown(given['order'])}: Runge-Kutta has none to choose"
        )
    with blame_first_word(section):
        return replace(base, **given)
