"""Identify while the samples come: ``smcpn stream`` at work."""

from __future__ import annotations

import inspect
import io
import os
import signal
import sys
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smcpn.base.files import opened_output, reason_of
from smcpn.base.priority import real_time
from smcpn.base.signals import Stop, stop_on_signals
from smcpn.checkpoint.container import CheckpointWarning, begun, lock
from smcpn.cli.cases import Case
from smcpn.cli.options import settings_of
from smcpn.cli.stream_options import ONLINE, SOURCE, StreamOptions
from smcpn.cli.terminal import remark
from smcpn.errors import InputError
from smcpn.io.address import STANDARD, open_source
from smcpn.io.channels import Channels
from smcpn.io.doses import LineDoses
from smcpn.io.events import Event, EventLog, Report
from smcpn.io.parse import StreamFormat
from smcpn.io.sink import PROBABILITIES, JsonSink
from smcpn.io.sources import Source
from smcpn.io.stream import Checkpoints, Observer, Stream, StreamRun
from smcpn.io.watch import watching
from smcpn.model.problem import Problem
from smcpn.online import Online
from smcpn.smc.settings import PartialSettings

if TYPE_CHECKING:
    from smcpn.report.live.page import LivePage

SWITCH_SECONDS = 1e-4
"""Longest wait of the identifying thread for another one; Python's own choice is 5 ms, three
samples at 610 Hz."""


def streamed(case: Case, options: StreamOptions, taken: Mapping[str, Any]) -> int:
    """Identify while the samples come, and return the exit code.

    Raises `InputError` for a source or a checkpoint that cannot be used.
    """
    own, of_source = ONLINE.among(taken), SOURCE.among(taken)
    others = {k: v for k, v in taken.items() if k not in own and k not in of_source}
    settings = settings_of(case, **others)
    source = _source(options, of_source, case)
    with ExitStack() as cleanup:
        cleanup.enter_context(_quick_switching())
        if options.real_time:
            # Before there are other threads, for an update waits for who has the interpreter.
            cleanup.enter_context(real_time())
        stop = cleanup.enter_context(stop_on_signals())
        log = cleanup.enter_context(closing(_event_log(options.events)))
        watch, report = cleanup.enter_context(
            watching(
                options.watch,
                log,
                printed=options.events in (None, STANDARD),
                t_unit=case.problem.records[0].t_unit,
            )
        )
        if options.checkpoint is not None:
            with _as_events(report):
                cleanup.enter_context(lock(Path(options.checkpoint)))
        page = None
        if options.serve is not None:
            page = cleanup.enter_context(closing(_page(options.serve, case)))
            report = _both(report, page.event)
        live = _live(options.checkpoint, case.problem, settings, own, report)
        observers = [one for one in (watch, page) if one is not None]
        run = _run(options, live, case.problem, source, stop, report, observers)
        with closing(run.sink):
            code = run.run()
    if stop.signal is not None:
        _tell_stopped(stop.signal, run.assimilated, options.checkpoint)
    return code


def _page(serve: str, case: Case) -> LivePage:
    """Open the live page, and say where it is."""
    from smcpn.report.live.page import LivePage

    page = LivePage(serve, case.title, case.problem)
    remark(f"smcpn: live page at {page.url}")
    return page


def _both(first: Report, second: Report) -> Report:
    def report(event: Event) -> None:
        first(event)
        second(event)

    return report


def _source(options: StreamOptions, given: dict[str, Any], case: Case) -> Source:
    written = StreamFormat(Channels.of(case.problem)) if case.stream is None else case.stream()
    doses = LineDoses.of(case.problem, written.compartments)
    channels = replace(written.channels, doses=doses)
    given["delimiter"] = given.get("delimiter") or written.delimiter
    given["decimal"] = given.get("decimal") or written.decimal
    return open_source(
        options.source,
        channels,
        columns=written.columns if options.columns is None else options.columns.split(","),
        session=os.path.abspath(options.checkpoint) if options.checkpoint else "",
        **given,
    )


def _run(
    options: StreamOptions,
    live: Online,
    problem: Problem,
    source: Source,
    stop: Stop,
    report: Report,
    observers: Sequence[Observer],
) -> StreamRun:
    checkpoints = Checkpoints(options.checkpoint, options.checkpoint_every, report)
    samples = Stream(
        live,
        source,
        report,
        stop=stop,
        idle=lambda: checkpoints.save_if_due(live),
    )
    return StreamRun(
        live=live,
        samples=samples,
        sink=JsonSink(None if options.to == STANDARD else options.to, live.t),
        checkpoints=checkpoints,
        stop=stop,
        report=report,
        observers=observers,
        limit=options.limit,
        probabilities=PROBABILITIES if options.quantiles else (),
    )


def _live(
    checkpoint: str | None,
    problem: Problem,
    settings: PartialSettings,
    own: Mapping[str, Any],
    report: Report,
) -> Online:
    """Load the checkpoint where there is one; begin anew otherwise."""
    unused = _unused(settings)
    if unused:
        report(Event("settings", unused))
    if checkpoint is None or not begun(Path(checkpoint)):
        taken = inspect.signature(Online).parameters
        given = {name: value for name, value in settings.given.items() if name in taken}
        return Online(problem, **own, **given)
    with _as_events(report):
        live = Online.load(checkpoint)
    message = f"'{checkpoint}' read: {live.sample} samples to t = {live.t:g}"
    report(Event("checkpoint", message, t=live.t, count=live.sample))
    return live


@contextmanager
def _as_events(report: Report) -> Generator[None]:
    """Report warnings about a checkpoint as events."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CheckpointWarning)
        yield
    for warning in caught:
        report(Event("checkpoint", str(warning.message)))


def _unused(settings: PartialSettings) -> str:
    """Return a sentence on settings that do not apply to a stream; empty where all do."""
    unused: list[str] = []
    if settings.method not in (None, "auto", "ibis"):
        unused.append(f"method = '{settings.method}'")
    if settings.start is not None:
        unused.append(f"start = '{settings.start}'")
    if (settings.replicates or 1) > 1:
        unused.append(f"replicates = {settings.replicates}")
    if settings.checkpoint is not None:
        unused.append(f"checkpoint = '{settings.checkpoint}'")
    if not unused:
        return ""
    return (
        f"{', '.join(unused)} of [run] does not apply to a stream, which is one population by "
        "ibis with a --checkpoint of its own"
    )


def _event_log(path: str | None) -> EventLog:
    if path is None or path == STANDARD:
        return EventLog(sys.stderr, as_json=path is not None)
    try:
        file = opened_output(Path(path), append=True)
    except OSError as error:
        raise InputError(f"--events '{path}' cannot be written: {reason_of(error)}") from error
    return EventLog(io.TextIOWrapper(file, encoding="utf-8"), as_json=True)


def _tell_stopped(number: int, assimilated: int, checkpoint: str | None) -> None:
    name = signal.Signals(number).name
    kept = f"resume with --checkpoint {checkpoint}" if checkpoint else "no checkpoint was named"
    remark(f"smcpn: stopped by {name} after {assimilated} samples; {kept}")


@contextmanager
def _quick_switching() -> Generator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
