"""``smcpn simulate``: the model at known parameters as CSV, or with draws from its prior."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from smcpn.base.tables import csv_line
from smcpn.cli.config import load_system
from smcpn.cli.options import (
    OUTPUT,
    RUN,
    SEED,
    FunctionOptions,
    Hold,
    Model,
    Split,
    System,
    check_written,
    option,
    taking,
)
from smcpn.cli.terminal import remark, say
from smcpn.errors import InputError

if TYPE_CHECKING:
    from smcpn.model.problem import Problem


@taking(
    FunctionOptions.of("run.identify", "identify", "seed"),
    FunctionOptions.of("model.solver", "EKF0", "steps"),
)
def simulate(
    system: System,
    hold: Hold = None,
    model: Model = None,
    split: Split = None,
    given: Annotated[
        list[str] | None,
        option(
            RUN,
            "A parameter that is learned; the median of its prior by default.",
            "--set",
            metavar="NAME=VALUE",
        ),
    ] = None,
    prior: Annotated[
        bool,
        option(
            RUN, "Say what draws of the prior allow, and whether the record is among it.", "--prior"
        ),
    ] = False,
    draws: Annotated[int | None, option(RUN, "Draws of the prior; 1000 by default.")] = None,
    picture: Annotated[
        Path | None,
        option(OUTPUT, "Draw the record in the band of the prior.", metavar="FILE.png|svg|pdf"),
    ] = None,
    **options: Any,
) -> None:
    """Simulate the first training record with its process noise, without measurement noise: CSV.

    With --prior it is simulated with draws from the prior, before anything is learned from it.

    Example: smcpn simulate mysystem --set c=4 --set k=800 --seed 1 > path.csv

    Example: smcpn simulate mysystem --prior --picture prior.png
    """
    check_written(None, picture)
    values = dict(_assigned(text) for text in given or ())
    _refuse_unused("--prior is given: leave it out", prior, {"--set": given})
    _refuse_unused("--prior is not: add it", not prior, {"--draws": draws, "--picture": picture})
    problem = load_system(system, hold=hold, model=model, split=split).problem
    number, chosen = (
        SEED if options["seed"] is None else options["seed"],
        options["steps"] or "auto",
    )
    if prior:
        _say_prior(problem, draws, chosen, number, picture)
    else:
        _say_path(problem, values, chosen, number)


def _say_prior(
    problem: Problem, draws: int | None, steps: int | str, seed: int, picture: Path | None
) -> None:
    """Print what the prior allows, and draw it where a file is given."""
    from smcpn.results.simulation.prior_drawn import DRAWS, simulate_prior

    prediction = simulate_prior(problem, None, DRAWS if draws is None else draws, steps, seed)
    say(prediction.summary())
    if picture is not None:
        from smcpn.report.style import save_picture

        save_picture(prediction.plot(), picture)
        remark(f"picture: {picture}")


def _say_path(problem: Problem, values: dict[str, float], steps: int | str, seed: int) -> None:
    """Print a path at known parameters as CSV."""
    from smcpn.model.dosing import as_given
    from smcpn.results.simulation.simulate import simulate_problem

    record = as_given(problem.records[0])
    outputs = simulate_problem(problem, record, values, steps=steps, seed=seed)
    say(csv_line(["t", *problem.ode.inputs, *map(str, problem.observe)]))
    for t, u, y in zip(record.t, record.u, outputs, strict=True):
        say(csv_line([t, *u, *y]))


def _refuse_unused(why: str, refused: bool, options: dict[str, object]) -> None:
    """Refuse options that have no meaning beside another one."""
    for name, value in options.items():
        if refused and value:
            raise InputError(f"{name} is given, but {why}", argument=name.lstrip("-"))


def _assigned(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise InputError(f"--set is '{text}': give NAME=VALUE with a number") from None
