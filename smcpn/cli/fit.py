"""``smcpn fit``: the mode of a case and the Gaussian there, in seconds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from smcpn.cli.options import (
    RUN,
    Counted,
    Hold,
    Json,
    Likelihood,
    Model,
    Order,
    Seed,
    SolverName,
    Split,
    Steps,
    System,
    Verbose,
    Workers,
    check_options,
    whole_or_auto,
)
from smcpn.cli.terminal import say
from smcpn.config import load_system


def fit(
    system: System,
    hold: Hold = None,
    model: Model = None,
    split: Split = None,
    starts: Annotated[
        int | None,
        typer.Option(
            help="Searches from draws of the prior; by default those of smcpn identify, from the "
            "likeliest of 64.",
            min=1,
            rich_help_panel=RUN,
        ),
    ] = None,
    search: Annotated[
        str,
        typer.Option(
            help="One trajectory from the initial state on, a path that may leave the model, "
            "or both where the first leaves a doubt.",
            metavar="auto|shooting|lifted",
            rich_help_panel=RUN,
        ),
    ] = "auto",
    seed: Seed = None,
    likelihood: Likelihood = None,
    solver: SolverName = None,
    steps: Steps = None,
    order: Order = None,
    executor: Workers = None,
    robust: Counted = False,
    as_json: Json = False,
    verbose: Verbose = 0,
) -> None:
    """Find the posterior mode of a system and the Gaussian there, and score it on its tests.

    Example: smcpn fit silverbox --starts 20 --json
    """
    options: dict[str, Any] = {
        "seed": seed,
        "likelihood": likelihood,
        "solver": solver,
        "order": order,
        "steps": whole_or_auto("steps", steps),
        "executor": executor,
    }
    check_options(**options)
    case = load_system(system, hold=hold, model=model, split=split)
    from smcpn.cli.fitting import as_dict, as_text, fitted
    from smcpn.io.sink import json_text

    outcome = fitted(case, options, starts, search, robust)
    say(json_text(as_dict(outcome)) if as_json else as_text(outcome))
