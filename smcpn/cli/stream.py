"""``smcpn stream``: the command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import typer

from smcpn.base.files import file_path
from smcpn.cli.config import load_system
from smcpn.cli.options import FunctionOptions, System, Verbose, taking
from smcpn.cli.stream_options import ONLINE, SOURCE, StreamOptions
from smcpn.io.dialect import check_marks


def stream_model(system: str, options: StreamOptions, taken: Mapping[str, Any]) -> int:
    """Identify while the samples come, and return the exit code.

    ``taken`` are options of `smcpn.Online` and of the source; None leaves one to the system, or to
    its default.
    """
    options.check()
    check_marks(taken.get("delimiter"), taken.get("decimal"))
    if options.checkpoint is not None:
        # A model may change the folder when it is loaded.
        path = file_path("--checkpoint", options.checkpoint)
        options = replace(options, checkpoint=str(path))
    case = load_system(system, hold=options.hold)
    from smcpn.cli.streaming import streamed

    return streamed(case, options, taken)


@taking(
    FunctionOptions.of(
        "run.identify", "identify", "particles", "seed", "likelihood", "state_particles"
    ),
    FunctionOptions.of("model.solver", "EKF0", "steps", "order"),
    ONLINE,
    SOURCE,
)
def stream(system: System, options: StreamOptions, verbose: Verbose = 0, **taken: Any) -> None:
    """Identify while the samples come: CSV or JSON lines in, a JSON line per sample out.

    Options replace what a configuration says.

    Example: smcpn stream model.py --from tcp://rig:5000 --checkpoint rig.h5 --watch

    Example: tail -f log.csv | smcpn stream mysystem --to posterior.jsonl
    """
    raise typer.Exit(stream_model(system, options, taken))
