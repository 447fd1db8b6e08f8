"""A run put together from the options of a command."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from smcpn.arguments import whole_number
from smcpn.errors import InputError
from smcpn.problem import Problem
from smcpn.solver import EKF0
from smcpn.streaming.address import STANDARD, open_source
from smcpn.streaming.channels import Channels
from smcpn.streaming.checkpointing import EVERY_SECONDS, Checkpoints
from smcpn.streaming.events import Event, EventLog, Report
from smcpn.streaming.named_problem import named_problem
from smcpn.streaming.run import Run
from smcpn.streaming.sink import PROBABILITIES, JsonSink
from smcpn.streaming.source import Source
from smcpn.streaming.stop import Stop, stop_on_signals
from smcpn.streaming.stream import Stream
from smcpn.streaming.watch import Watch, watching

SWITCH_SECONDS = 1e-4
"""How long another thread may keep the identifying one waiting; Python's own choice is 5 ms, three
samples at 610 Hz."""


@dataclass(frozen=True)
class StreamOptions:
    """The options of ``smcpn stream``, which explains them."""

    model: str
    source: str = STANDARD
    to: str = STANDARD
    checkpoint: str | None = None
    checkpoint_every: float = EVERY_SECONDS
    budget: str | None = None
    forget: str | None = None
    particles: int = 1000
    seed: int = 1
    steps: int | None = None
    order: int = 3
    hold: str | None = None
    lookahead: int | None = None
    format: str | None = None
    columns: str | None = None
    follow: bool = False
    announce: bool = False
    give_up: float | None = None
    limit: int | None = None
    events: str | None = None
    quantiles: bool = True
    watch: bool = False

    def check(self) -> None:
        """Refuse what cannot be.

        Raises
        ------
        InputError
            For numbers out of range, a folder that does not exist, one file for two things.
        """
        if not self.checkpoint_every > 0:
            raise InputError(
                f"--checkpoint-every is {self.checkpoint_every:g}: give seconds above 0"
            )
        if self.limit is not None:
            whole_number("--limit", self.limit, 1)
        named = {
            "--from": self.source,
            "--to": self.to,
            "--checkpoint": self.checkpoint,
            "--events": self.events,
        }
        paths = {
            option: os.path.abspath(path)
            for option, path in named.items()
            if path is not None and path != STANDARD
        }
        if len(set(paths.values())) < len(paths):
            raise InputError(f"two of {', '.join(paths)} are the same file: name another one")
        for option in ("--to", "--checkpoint", "--events"):
            if option in paths and not os.path.isdir(os.path.dirname(paths[option])):
                raise InputError(f"{option} is '{named[option]}', whose folder does not exist")


def stream_model(options: StreamOptions) -> int:
    """Identify while the samples come, and return the exit code.

    Raises
    ------
    InputError
        For options, a model, a source or a checkpoint that cannot be used.
    """
    options.check()
    problem, steps = named_problem(options.model, options.hold)
    source = _source(options, problem)
    with ExitStack() as cleanup:
        cleanup.enter_context(_quick_switching())
        stop = cleanup.enter_context(stop_on_signals())
        log = cleanup.enter_context(closing(_event_log(options.events)))
        watch, report = cleanup.enter_context(
            watching(options.watch, log, printed=options.events in (None, STANDARD))
        )
        run = _run(options, problem, steps, source, stop, report, watch)
        with closing(run.sink):
            code = run.run()
    if stop.signal is not None:
        _tell_stopped(stop.signal, run.absorbed, options.checkpoint)
    return code


def _source(options: StreamOptions, problem: Problem) -> Source:
    return open_source(
        options.source,
        Channels.of(problem),
        format=options.format,
        columns=None if options.columns is None else options.columns.split(","),
        follow=options.follow,
        announce=options.announce,
        give_up=options.give_up,
        session=os.path.abspath(options.checkpoint) if options.checkpoint else "",
    )


def _run(
    options: StreamOptions,
    problem: Problem,
    steps: int | None,
    source: Source,
    stop: Stop,
    report: Report,
    watch: Watch | None,
) -> Run:
    live = _live(options, problem, steps, report)
    checkpoints = Checkpoints(options.checkpoint, options.checkpoint_every, report)
    samples = Stream(
        live,
        source,
        problem,
        report,
        last=live.t,
        stop=stop,
        idle=lambda: checkpoints.save_if_due(live),
    )
    return Run(
        live=live,
        samples=samples,
        sink=JsonSink(None if options.to == STANDARD else options.to, live.t),
        checkpoints=checkpoints,
        stop=stop,
        report=report,
        watch=watch,
        limit=options.limit,
        probabilities=PROBABILITIES if options.quantiles else (),
    )


def _live(options: StreamOptions, problem: Problem, steps: int | None, report: Report) -> Any:
    """Load the checkpoint where there is one; begin anew otherwise."""
    from smcpn import Online

    if options.checkpoint is None or not os.path.exists(options.checkpoint):
        steps = steps if options.steps is None else options.steps
        return Online(
            problem,
            solver=EKF0(order=options.order, steps="auto" if steps is None else steps),
            particles=options.particles,
            seed=options.seed,
            budget=options.budget,
            forget=options.forget,
            lookahead=options.lookahead,
        )
    live = Online.load(options.checkpoint)
    message = f"'{options.checkpoint}' read: {live.sample} samples to t = {live.t:g}"
    report(Event("checkpoint", message, t=live.t, count=live.sample))
    return live


def _event_log(path: str | None) -> EventLog:
    if path is None or path == STANDARD:
        return EventLog(sys.stderr, as_json=path is not None)
    try:
        return EventLog(open(path, "a", encoding="utf-8"), as_json=True)
    except OSError as error:
        raise InputError(f"--events '{path}' cannot be written: {error.strerror}") from error


def _tell_stopped(number: int, absorbed: int, checkpoint: str | None) -> None:
    name = signal.Signals(number).name
    kept = f"resume with --checkpoint {checkpoint}" if checkpoint else "no checkpoint was named"
    print(f"smcpn: stopped by {name} after {absorbed} samples; {kept}", file=sys.stderr)


@contextmanager
def _quick_switching() -> Generator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
