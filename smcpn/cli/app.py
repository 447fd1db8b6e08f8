"""Commands and their options; what they do lies in the modules they call."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from smcpn.cases import CASES
from smcpn.cli import checkpoint
from smcpn.cli.data import data_app
from smcpn.cli.fit import fit
from smcpn.cli.identify import identify_case
from smcpn.cli.stream import stream
from smcpn.errors import InputError

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Identify continuous-time dynamical systems from data, counting the solver's own error.",
)
app.add_typer(data_app, name="data")
for command in (checkpoint.resume, checkpoint.inspect, checkpoint.report):
    app.command()(command)
app.command()(stream)
app.command()(fit)


@app.callback()
def smcpn() -> None:
    """Keep commands named even while there is only one."""


@app.command()
def identify(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(CASES)}.")],
    particles: Annotated[int, typer.Option(help="Number of particles.")] = 1000,
    seed: Annotated[int, typer.Option(help="Same seed, same result.")] = 1,
    steps: Annotated[
        str | None, typer.Option(help="Solver steps per sample, or 'auto'.", metavar="N|auto")
    ] = None,
    order: Annotated[
        int | None, typer.Option(help="Order of the solver's prior, 1 to 6.", metavar="1-6")
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            help="How data and solver meet.", metavar="marginal|filtering|dalton|fenrir|classical"
        ),
    ] = None,
    hold: Annotated[
        str | None,
        typer.Option(help="Input between samples.", metavar="zoh|foh|bandlimited"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A variant of the system, e.g. duffing-offsets.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="Whose training and test samples.", metavar="paper|official")
    ] = "paper",
    report: Annotated[
        str | None, typer.Option(help="Write an HTML report to this file.", metavar="FILE")
    ] = None,
    checkpoint_file: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            help="Keep the run in this HDF5 file, and go on from it.",
            metavar="FILE",
        ),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Compare all likelihoods in the report (compiles some)."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Identify a benchmark system and score the posterior on its test record.

    Example: smcpn identify silverbox --steps auto --json
    """
    identify_case(
        name,
        particles=particles,
        seed=seed,
        steps=steps,
        order=order,
        hold=hold,
        model=model,
        split=split,
        as_json=json,
        report=report,
        compare=compare,
        checkpoint=checkpoint_file,
        likelihood=likelihood,
    )


def main() -> None:
    """Run the command line.

    Exit codes: 0 on success, 2 for an input that cannot be used, 130 after an interrupt (SIGINT),
    143 after SIGTERM.
    """
    try:
        app()
    except InputError as error:
        print(f"smcpn: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("smcpn: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
