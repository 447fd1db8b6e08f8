"""The command line as a whole: its commands, its exit codes, and how it ends."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import smcpn
from smcpn.base.signals import exit_code, orderly_termination
from smcpn.cli import checkpoint
from smcpn.cli.compare import compare
from smcpn.cli.data import data_app, new
from smcpn.cli.discover import discover
from smcpn.cli.fit import fit
from smcpn.cli.identify import identify
from smcpn.cli.simulate import simulate
from smcpn.cli.stream import stream
from smcpn.cli.terminal import (
    discard_output,
    leave_closed_output,
    open_missing_streams,
    remark,
    say,
)
from smcpn.errors import LONGEST, ExecutorError, InputError

UsageError: type[Exception] = typer.BadParameter.mro()[1]
"""A command line that is wrong: Click's exception, which Typer does not name."""
EXIT_CODES = (
    "Exit codes: 0 done; 1 a benchmark file is not the published one (data check); 2 an input that "
    "cannot be used, named in one sentence on standard error; 130 interrupted by Ctrl-C, 143 "
    "terminated (SIGTERM), both after what was under way has been kept; 141 the reader of standard "
    "output has left."
)


class Commands(TyperGroup):
    """Commands that end quietly by an interrupt, or where nobody reads what they print."""

    def invoke(self, ctx: Any) -> Any:
        """Invoke a command, with the same exit codes under every version of Click."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except KeyboardInterrupt:
            _leave_interrupted()
        except BrokenPipeError:
            leave_closed_output()


def _leave_interrupted() -> NoReturn:
    remark("smcpn: interrupted")
    sys.exit(exit_code(signal.SIGINT))


app = typer.Typer(
    cls=Commands,
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    new,
    identify,
    fit,
    compare,
    simulate,
    discover,
    checkpoint.resume,
    checkpoint.inspect,
    checkpoint.report,
    checkpoint.export,
    stream,
):
    app.command()(command)
app.add_typer(data_app, name="data")


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"smcpn {smcpn.__version__}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def describe(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_print_version,
            help="Print the version and leave.",
        ),
    ] = False,
) -> None:
    """Identify continuous-time dynamical systems from data, counting the solver's own error.

    Your own system, from nothing: smcpn new mysystem && smcpn identify mysystem
    """


def _refuse(error: Any) -> None:
    """Say in one sentence what is wrong with a command line; all of the help where it is empty."""
    if len(sys.argv) == 1 or type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        command = "smcpn" if error.ctx is None else error.ctx.command_path
        message = " ".join(error.format_message().split()).rstrip(".")
        remark(f"smcpn: {message[:LONGEST]}: see {command} --help")
    sys.exit(2)


def main() -> None:
    """Run the command line; `EXIT_CODES` says how it ends."""
    open_missing_streams()
    try:
        with orderly_termination():
            sys.exit(app(standalone_mode=False))
    except UsageError as error:
        _refuse(error)
    except (ExecutorError, InputError) as error:
        remark(f"smcpn: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        # Before Click, which catches others, has a command to invoke.
        _leave_interrupted()
    except RuntimeError as error:
        # What interrupts the making of a class while a module loads, Python 3.11 wraps.
        if isinstance(error.__cause__, KeyboardInterrupt):
            _leave_interrupted()
        raise
    except OSError as error:
        discard_output()
        remark(f"smcpn: {error.filename or 'standard output'}: {error.strerror or error}")
        sys.exit(2)
    except MemoryError:
        remark("smcpn: there is not enough memory: take fewer particles, or shorter records")
        sys.exit(2)


if __name__ == "__main__":
    main()
