"""What a run was asked to do, as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from smcpn.errors import InputError, NotStorableError
from smcpn.run import Configuration
from smcpn.smc.kernels import RandomWalkKernel
from smcpn.smc.mixture import StudentMixture
from smcpn.smc.moves import IndependentMetropolis, MoveStrategy, RandomWalkMetropolis, WasteFree
from smcpn.smc.proposals import DefensiveGaussian
from smcpn.smc.rejuvenation import MoveSettings
from smcpn.smc.resampling import SCHEMES
from smcpn.smc.sampler import Settings
from smcpn.smc.target import Start
from smcpn.solver import EKF0, EKF1, RK4

SOLVERS = {kind.__name__: kind for kind in (EKF0, EKF1, RK4)}
PROPOSALS = {kind.name: kind for kind in (DefensiveGaussian, StudentMixture)}


def configuration_document(configuration: Configuration) -> tuple[dict[str, Any], str]:
    """Return a configuration as JSON can hold it, and what it cannot hold, as a sentence."""
    settings, reason = configuration.settings, ""
    try:
        moves = _moves_document(settings.moves)
        resampling = _resampling_name(settings)
        start = _start_document(settings.start)
    except NotStorableError as error:
        moves, resampling, start, reason = None, None, None, str(error)
    document = {
        "solver": solver_document(configuration.solver),
        "likelihood": configuration.likelihood,
        "particles": settings.particles,
        "ess": settings.ess,
        "block": settings.block,
        "moves": moves,
        "resampling": resampling,
        "start": start,
        "path": configuration.path,
        "replicates": configuration.replicates,
        "seed": configuration.seed,
        "entropy": configuration.entropy,
    }
    return document, reason


def configuration_of(document: Mapping[str, Any]) -> Configuration:
    """Return the configuration of a document."""
    return Configuration(
        solver=solver_of(document["solver"]),
        likelihood=document["likelihood"],
        settings=Settings(
            particles=document["particles"],
            ess=document["ess"],
            block=document["block"],
            moves=_moves_of(document["moves"]),
            resample=SCHEMES[document["resampling"]],
            start=_start_of(document.get("start")),
        ),
        path=document["path"],
        replicates=document["replicates"],
        seed=document["seed"],
        entropy=document["entropy"],
    )


def solver_document(solver: Any) -> dict[str, Any]:
    """Return a solver as JSON can hold it."""
    return {"kind": type(solver).__name__, **asdict(solver)}


def solver_of(document: Mapping[str, Any]) -> Any:
    """Return the solver of a document."""
    arguments = dict(document)
    return SOLVERS[arguments.pop("kind")](**arguments)


def require_same(stored: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    """Refuse to go on with a run that was asked something else.

    Blocks do not matter to a result; nor does the entropy where no seed is asked for.

    Raises
    ------
    InputError
        Names the first setting that differs.
    """
    for name, value in wanted.items():
        free = name in ("block", "entropy") or (name == "seed" and value is None)
        if not free and stored.get(name) != value:
            raise InputError(
                f"{path} was begun with {name} = {stored.get(name)}, not {value}: use the same, "
                "another file, or existing='overwrite' to begin anew"
            )


def _moves_document(moves: MoveStrategy) -> dict[str, Any]:
    kind = type(moves).__name__
    if type(moves) is IndependentMetropolis:
        names = [proposal.name for proposal in moves.proposals]
        if all(PROPOSALS.get(p.name) is p for p in moves.proposals):
            return {"kind": kind, "settings": asdict(moves.settings), "proposals": names}
    if type(moves) is RandomWalkMetropolis:
        return {"kind": kind, "settings": asdict(moves.settings)}
    if type(moves) is WasteFree and moves.kernel == RandomWalkKernel.fit:
        return {"kind": kind, "length": moves.length}
    raise NotStorableError(f"moves is {kind} with a part of your own, which a file cannot hold")


def _moves_of(document: Mapping[str, Any]) -> MoveStrategy:
    kind = document["kind"]
    if kind == WasteFree.__name__:
        return WasteFree(length=document["length"])
    settings = MoveSettings(**document["settings"])
    if kind == RandomWalkMetropolis.__name__:
        return RandomWalkMetropolis(settings)
    proposals = tuple(PROPOSALS[name] for name in document["proposals"])
    return IndependentMetropolis(settings, proposals)


def _resampling_name(settings: Settings) -> str:
    name = getattr(settings.resample, "__name__", "")
    if SCHEMES.get(name) is not settings.resample:
        raise NotStorableError("resample is a function of your own, which a file cannot hold")
    return name


def _start_document(start: Start | None) -> dict[str, Any] | None:
    if start is None:
        return None
    if type(start) is not DefensiveGaussian:
        raise NotStorableError(f"start is {type(start).__name__}, which a file cannot hold")
    return {name: np.asarray(value).tolist() for name, value in vars(start).items()}


def _start_of(document: Mapping[str, Any] | None) -> Start | None:
    if document is None:
        return None
    arrays = {name: np.array(document[name]) for name in ("mean", "factor")}
    settings: dict[str, Any] = {**document, **arrays}
    return DefensiveGaussian(**settings)
