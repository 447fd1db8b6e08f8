"""``smcpn fit``: the mode of a case and the Gaussian there, in seconds."""

from __future__ import annotations

from typing import Any

from smcpn.cli.config import load_system
from smcpn.cli.options import (
    Counted,
    FunctionOptions,
    Hold,
    Json,
    Model,
    Split,
    Starts,
    System,
    Verbose,
    taking,
)
from smcpn.cli.terminal import say


@taking(
    FunctionOptions.of("estimate.maximise", "maximise", "search"),
    FunctionOptions.of("run.identify", "identify", "seed", "likelihood", "solver", "executor"),
    FunctionOptions.of("model.solver", "EKF0", "steps", "order"),
)
def fit(
    system: System,
    hold: Hold = None,
    model: Model = None,
    split: Split = None,
    starts: Starts = None,
    robust: Counted = False,
    as_json: Json = False,
    verbose: Verbose = 0,
    **options: Any,
) -> None:
    """Find the posterior mode of a system and the Gaussian there, and score it on its tests.

    Example: smcpn fit silverbox --starts 20 --json
    """
    case = load_system(system, hold=hold, model=model, split=split)
    search = options.pop("search")
    from smcpn.cli.fitting import as_dict, as_text, fitted
    from smcpn.io.sink import json_text

    outcome = fitted(case, options, starts, search or "auto", robust)
    say(json_text(as_dict(outcome)) if as_json else as_text(outcome))
