"""What a run writes, how it stops, and how it goes on."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from small_stream import SAMPLES, TEXT, online

from smcpn import EKF0, Online
from smcpn.base.signals import stop_on_signals
from smcpn.checkpoint.inspection import inspect
from smcpn.cli.app import main
from smcpn.cli.config import load_system
from smcpn.cli.stream import stream_model
from smcpn.cli.stream_options import StreamOptions
from smcpn.errors import InputError
from smcpn.io.events import KINDS, Event, EventLog
from smcpn.io.sink import JsonSink, OutputClosedError, state_fields
from smcpn.io.stream import PIPE_CLOSED, Checkpoints
from smcpn.io.watch import Frames, Watch, sparkline
from smcpn.online.change import Alarm

MODEL = """\
from small_stream import PROBLEM as problem
other = 3
"""
SAMPLES, LINES = SAMPLES[:40], b"".join(TEXT[:40])
CLOCK = ("latency", "projected", "late")
"""Fields that tell of the time an update took."""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with a model and a log."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "log.csv").write_bytes(LINES)
    return tmp_path


def stream(**options) -> int:
    known = {"source": "log.csv", "particles": 50, "steps": 2, "order": 2} | options
    model = known.pop("model", "model.py")
    own = {name: known.pop(name) for name in list(known) if name in vars(StreamOptions())}
    return stream_model(model, StreamOptions(**own), known)


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def posteriors(path: Path) -> list[dict]:
    return [{key: line[key] for key in line if key not in CLOCK} for line in lines_of(path)]


def test_a_line_for_every_sample_and_a_final_event(folder, capsys):
    assert stream(events="events.jsonl") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["t"] for line in lines] == [t for t, _, _ in SAMPLES]
    assert [line["n"] for line in lines[:3]] == [1, 2, 3]
    assert lines[0]["projected"] is None
    (final,) = [e for e in lines_of(folder / "events.jsonl") if e["event"] == "final"]
    assert (final["count"], final["t"]) == (40, pytest.approx(SAMPLES[-1][0]))
    assert final["message"].startswith("40 samples, c 0.5")
    live = online(begin=40, solver=EKF0(order=2, steps=2))
    last = final["state"]
    assert last["mean"] == live.finish().mean
    assert last.keys() == lines[-1].keys()
    assert len(last["quantiles"]["k"]) == 3
    assert last["alarm"] is None


def test_limit_and_no_quantiles(folder):
    assert stream(to="out.jsonl", limit=7, quantiles=False) == 0
    lines = lines_of(folder / "out.jsonl")
    assert [line["n"] for line in lines] == list(range(1, 8))
    assert "quantiles" not in lines[0]


def test_real_time_priority_is_taken_by_updates_and_given_back(folder, monkeypatch):
    taken, update = [], Online.update

    @contextlib.contextmanager
    def real_time():
        taken.append("taken")
        yield
        taken.append("given back")

    def noted(self, *args):
        taken.append("update")
        return update(self, *args)

    monkeypatch.setattr("smcpn.cli.streaming.real_time", real_time)
    monkeypatch.setattr(Online, "update", noted)
    assert stream(limit=3, real_time=True, to="out.jsonl") == 0
    assert taken == ["taken", *3 * ["update"], "given back"]
    assert stream(limit=3, to="other.jsonl") == 0
    assert taken[5:] == 3 * ["update"]


def test_who_may_not_take_real_time_priority_learns_how(folder, monkeypatch):
    def refuse(*_):
        raise PermissionError

    if sys.platform == "linux":
        monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with pytest.raises(InputError, match=r"priority \(--real-time\)"):
        stream(real_time=True, to="out.jsonl")


def test_events_for_people_and_for_programs(folder, capsys):
    (folder / "log.csv").write_text("0,1,0\nnoise\n0.1,1,0\n0.1,1,0\n0.4,1,0\n")
    stream(to="out.jsonl")
    text = capsys.readouterr().err.splitlines()
    assert text[0] == "smcpn: bad-line 2: 1 column instead of 3, skipped: 'noise'"
    assert len(text) == 5
    assert text[-1].startswith("smcpn: final: ")
    stream(to="out.jsonl", events="events.jsonl")
    assert capsys.readouterr().err == ""
    events = lines_of(folder / "events.jsonl")
    assert [e["event"] for e in events] == ["bad-line", "duplicate", "gap", "end", "final"]
    assert {e["event"] for e in events} <= set(KINDS)
    assert (events[0]["line"], events[2]["count"]) == (2, 2)
    stream(to="out.jsonl", events="-")
    assert json.loads(capsys.readouterr().err.splitlines()[0])["event"] == "bad-line"


def test_a_resumed_run_writes_the_file_of_an_uninterrupted_one(folder):
    assert stream(to="whole.jsonl") == 0
    options = {"to": "out.jsonl", "checkpoint": "live.h5"}
    assert stream(**options, limit=12) == 0
    assert len(lines_of(folder / "out.jsonl")) == 12
    # As after kill -9: lines beyond the checkpoint, the last one cut off.
    with (folder / "out.jsonl").open("a") as file:
        file.write('{"t": 1.2, "n": 13}\n{"t": 1.3, "n"')
    assert stream(**options, events="events.jsonl") == 0
    assert posteriors(folder / "out.jsonl") == posteriors(folder / "whole.jsonl")
    # Killed between the last checkpoint and the final line.
    assert stream(**options) == 0
    assert posteriors(folder / "out.jsonl") == posteriors(folder / "whole.jsonl")
    told = inspect(folder / "live.h5")
    assert re.search(r"^model +oscillator\(x, v, u\), unknown c, k$", told, re.MULTILINE)
    assert re.search(r"samples +40 to t = .* s\nsolver +EKF0", told)
    assert re.search("particles, ESS .*\nparameter .*\nc +0.5", told)
    events = lines_of(folder / "events.jsonl")
    assert [(e["event"], e["count"]) for e in events] == [
        ("checkpoint", 12), ("duplicate", 12), ("end", 1), ("final", 40)]  # fmt: skip


def test_checkpoints_come_when_due_and_a_failure_is_reported(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("smcpn.io.stream.time.monotonic", lambda: clock[0])
    live, events = online(), []
    checkpoints = Checkpoints(str(tmp_path / "a.h5"), 10.0, events.append)
    for clock[0] in (5.0, 9.9):
        checkpoints.save_if_due(live)
    clock[0] = 10.0
    checkpoints.save_if_due(live)
    assert os.listdir(tmp_path) == []  # nothing is known yet
    live.update(1.0, [1.0], 0.0)
    checkpoints.save_if_due(live)
    assert (tmp_path / "a.h5").exists()

    def fail(path: str) -> None:
        raise InputError(f"{path} cannot be written: No space left on device")

    live.update(1.0, [1.0], 0.1)
    monkeypatch.setattr(live, "save", fail)
    checkpoints.save(live)
    checkpoints.save(live)
    assert [event.kind for event in events] == ["checkpoint"] * 2
    assert "No space left" in events[0].message


def test_the_first_signal_is_a_request_and_the_handlers_come_back():
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals((signal.SIGTERM,)) as stop:
        assert not stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested
        assert stop.exit_code == 143
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_reader_that_leaves_ends_the_run_quietly(folder, capfd, monkeypatch):
    reading, writing = os.pipe()
    with open(writing, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        os.close(reading)
        assert stream(checkpoint="live.h5") == PIPE_CLOSED
    assert Online.load("live.h5").sample == 1
    assert capfd.readouterr().err == ""


def test_a_full_disk_is_one_sentence():
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    sink = JsonSink("/dev/full")
    with pytest.raises(InputError, match="'/dev/full' cannot be written"):
        sink.write({"t": 1.0})
    sink.close()


def test_a_log_nobody_reads_any_more_is_no_reason_to_stop():
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as file:
        log = EventLog(file, as_json=False)
        for _ in range(3):
            log(Event("end", "over"))
        log.close()
        # What the file still holds has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)


def test_closed_output_is_told_apart_from_other_failures(monkeypatch):
    reading, writing = os.pipe()
    with open(writing, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        os.close(reading)
        sink = JsonSink(None)
        with pytest.raises(OutputClosedError):
            sink.write({"t": 1.0})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pendulum", "no system 'pendulum': choose one of"),
        ("nowhere.py", "'nowhere.py' is no file"),
        ("model.py:other", "'other' in 'model.py' is 3: write problem = "),
        ("model.py:none", "'model.py' has no 'none': name one of problem"),
        ("empty.py", "write problem = smcpn.Problem"),
        ("broken.py", "broken.py, line 2: NameError: name 'Problem'"),
        ("wrong.py", "wrong.py, line 1: SyntaxError"),
    ],
)
def test_models_that_cannot_be(folder, text, message):
    (folder / "empty.py").write_text("")
    (folder / "broken.py").write_text("\nproblem = Problem()\n")
    (folder / "wrong.py").write_text("problem = (\n")
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        load_system(text)


def test_a_model_is_found_by_its_name(folder):
    case = load_system("model.py:problem")
    assert case.problem.names == ("c", "k")
    assert case.steps == "auto"
    assert load_system(str(folder / "model.py")).problem.names == ("c", "k")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint_every": 0.0}, "--checkpoint-every is 0"),
        ({"limit": 0}, "--limit is 0"),
        ({"to": "log.csv"}, "are the same file"),
        ({"to": "nowhere/out.jsonl"}, "--to is 'nowhere/out.jsonl', whose folder"),
        ({"checkpoint": "nowhere/c.h5"}, "--checkpoint is 'nowhere/c.h5', whose folder"),
        ({"events": "nowhere/e"}, "--events is 'nowhere/e', whose folder"),
        ({"hold": "zoh"}, "hold is 'zoh': in a Python file"),
        ({"columns": "t,u"}, "columns .* names no output"),
    ],
)
def test_options_that_cannot_be(folder, options, message):
    with pytest.raises(InputError, match=message):
        stream(**options)


ALARM = Alarm(1, 0.1, 0, 0.05, 20.0)


def test_alarms_and_loss_of_accuracy_are_events(folder, monkeypatch):
    changes = iter([{"alarm": ALARM}, {"ess": 0.5}, {"ess": 0.5}, {}])
    update = Online.update

    def changed(self, u, y, t):
        return dataclasses.replace(update(self, u, y, t), **next(changes))

    monkeypatch.setattr(Online, "update", changed)
    stream(to="out.jsonl", limit=4, events="events.jsonl")
    assert [e["event"] for e in lines_of(folder / "events.jsonl")] == ["alarm", "degraded"]


def test_fields_are_json_without_nan():
    missing = online(begin=9).update(SAMPLES[9][1], np.nan)
    fields = state_fields(0.25, dataclasses.replace(missing, alarm=ALARM))
    assert fields["alarm"] == {"since": 0.05, "score": 20.0}
    assert fields["innovation"] == [None]
    assert json.loads(json.dumps(fields, allow_nan=False)) == fields


def test_the_view_shows_parameters_latency_and_events():
    from rich.console import Console

    watch = Watch()
    frames = Frames(watch)
    console = Console(width=100, file=open(os.devnull, "w"), record=True)  # noqa: SIM115
    with console.file:
        console.print(frames.render())
        live = online()
        for k, (t, u, y) in enumerate(SAMPLES[:5]):
            watch.sample(None, t, live.update(u, y, t), waiting=3)
            watch.event(Event("bad-line", "words", line=k))
            console.print(frames.render())
    text = console.export_text()
    assert "waiting for samples" in text
    for word in (
        "history of the mean",
        "█",
        "effective particles",
        "of 99 % at most",
        "bad-line 5",
        "waiting 3",
    ):
        assert word in text
    assert "5 samples, t = 0.4 s" in frames.text()


def test_sparklines():
    assert sparkline([0.0, 1.0, 2.0]) == "▁▅█"
    assert sparkline([1.0, 1.0]) == "▁▁"


def test_where_there_is_no_terminal_the_view_is_a_line(folder, capsys):
    assert stream(to="out.jsonl", watch=True, limit=5) == 0
    assert capsys.readouterr().err.startswith("5 samples, t = 0.4 s")
    assert not any(thread.name == "smcpn-watch" for thread in threading.enumerate())


def on_a_terminal(monkeypatch, **options) -> str:
    """What a run with a view writes to a terminal."""
    pty = pytest.importorskip("pty")
    reading, writing = pty.openpty()
    written: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):
            while content := os.read(reading, 65536):
                written.append(content)

    reader = threading.Thread(target=read)
    reader.start()
    with open(writing, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert stream(to="out.jsonl", watch=True, **options) == 0
    reader.join()
    os.close(reading)
    return b"".join(written).decode()


def test_on_a_terminal_the_view_prints_events_above_itself(folder, monkeypatch):
    (folder / "log.csv").write_text("0,1,0\n[bold]noise\n0.1,1,0\n")
    text = on_a_terminal(monkeypatch)
    assert "bad-line 2: 1 column instead of 3, skipped: '[bold]noise'" in text
    assert "2 samples, t = 0.1 s" in text
    text = on_a_terminal(monkeypatch, events="events.jsonl")
    assert "[bold]noise" not in text
    assert [e["event"] for e in lines_of(folder / "events.jsonl")] == ["bad-line", "end", "final"]


def test_the_command_refuses_in_one_sentence(folder, monkeypatch, capsys):
    for arguments, message in (
        (["pendulum"], "no system 'pendulum'"),
        (["model.py", "--from", "nowhere.csv"], "'nowhere.csv' is no file"),
        (["model.py", "--from", "log.csv", "--limit", "0"], "--limit is 0"),
    ):
        monkeypatch.setattr(sys, "argv", ["smcpn", "stream", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert message in shown.err
        assert shown.err.count("\n") == 1


def test_the_command_ends_with_the_code_of_the_run(folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["smcpn", "stream", "model.py", "--from", "log.csv"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert capsys.readouterr().out.count("\n") == 40


def test_a_full_disk_under_the_events_is_said_once(folder, capsys):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    log = EventLog(open("/dev/full", "w"), as_json=True)  # noqa: SIM115
    for k in range(2):
        log(Event("end", f"over {k}"))
    assert capsys.readouterr().err.count("no longer written") == 1


def test_storing_for_the_view_costs_next_to_nothing():
    """Far below the 1.6 ms between two samples of the Silverbox."""
    watch, one = Watch(), online(begin=9).update(*SAMPLES[9][1:])
    begin = time.process_time()
    for k in range(10000):
        watch.sample(None, 0.1 * k, one, 0)
    assert time.process_time() - begin < 10000 * 50e-6
