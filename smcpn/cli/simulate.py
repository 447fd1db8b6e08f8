"""``smcpn simulate``: the model over a record's input at known parameters, as CSV."""

from __future__ import annotations

from typing import Annotated

import typer

from smcpn.cli.options import (
    RUN,
    SEED,
    Hold,
    Model,
    Seed,
    Split,
    Steps,
    System,
    check_options,
    whole_or_auto,
)
from smcpn.cli.terminal import say
from smcpn.config import load_system
from smcpn.errors import InputError


def simulate(
    system: System,
    hold: Hold = None,
    model: Model = None,
    split: Split = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A parameter that is learned; the median of its prior by default.",
            metavar="NAME=VALUE",
            rich_help_panel=RUN,
        ),
    ] = None,
    seed: Seed = None,
    steps: Steps = None,
) -> None:
    """Simulate the first training record with its process noise, without measurement noise: CSV.

    Example: smcpn simulate mysystem --set c=4 --set k=800 --seed 1 > path.csv
    """
    resolution = whole_or_auto("steps", steps)
    check_options(seed=seed, steps=resolution)
    values = dict(_assigned(text) for text in given or ())
    problem = load_system(system, hold=hold, model=model, split=split).problem
    from smcpn.simulation.simulate import simulate_problem

    record = problem.records[0]
    outputs = simulate_problem(
        problem, record, values, steps=resolution or "auto", seed=SEED if seed is None else seed
    )
    say(",".join(["t", *problem.ode.inputs, *map(str, problem.observe)]))
    for row in zip(record.t, record.u, outputs, strict=True):
        say(",".join(repr(float(number)) for number in (row[0], *row[1], *row[2])))


def _assigned(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise InputError(f"--set is '{text}': give NAME=VALUE with a number") from None
