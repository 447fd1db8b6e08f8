"""Command lines that cannot be meant, streams that are closed, interrupts: one sentence each.

A command line is run in a forked child, after all that it imports; some in a process of their own.
Met is exit code 2 with one line on standard error, or another code of ``smcpn --help`` where that
is the answer; a traceback, a control character or a second line is a miss.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.attack.child import ended
from benchmarks.rows import Row, at_most
from benchmarks.study import study
from smcpn.errors import LONGEST

LINES, QUICK_LINES = 100, 12
REFUSED = (2,)
NUMBERS = (
    "", " ", "-1", "0", "1.5", "nan", "inf", "1e400", "9" * 400, "9" * 5000, "0x10", "ten", "1,5",
    "\x1b[2J", "\udcff",
)  # fmt: skip
WORDS = ("", "nothing", "MARGINAL ", "\x1b]0;gone\x07", "x" * 100_000, "\udcff", "a\nb", "--")
PATHS = (
    "", "nowhere/at/all.h5", "/dev/null/x", "x" * 300, "folder", "garbage", "empty",
    "\x1b[2J", "\udcff", "unreadable/file", "loop",
)  # fmt: skip


FOLDERS = tuple(path for path in PATHS if path not in ("", "folder"))
"""Folders that are none, for files to write."""


@dataclass(frozen=True)
class Line:
    """A command line and the exit codes that it may have."""

    arguments: tuple[str, ...]
    codes: tuple[int, ...] = REFUSED

    def __str__(self) -> str:
        return ascii(" ".join(self.arguments))[:120]


def lines() -> Iterator[Line]:
    """Yield what is tried, of each command and each of its options something."""
    for command in ("identify", "fit", "stream"):
        for option in ("--seed", "--order"):
            for value in NUMBERS:
                if (option, value) != ("--seed", "0"):
                    yield Line((command, "mysystem", option, value))
        for option in ("--likelihood", "--hold", "--steps"):
            for value in WORDS:
                yield Line((command, "mysystem", option, value))
    for command in ("identify", "stream"):
        for value in (*NUMBERS, "9"):
            yield Line((command, "mysystem", "--particles", value))
    for option in ("--solver", "--method", "--start", "--model", "--split"):
        for value in WORDS:
            yield Line(("identify", "mysystem", option, value))
    for value in NUMBERS:
        yield Line(("fit", "mysystem", "--starts", value))
        yield Line(("resume", "garbage", "--threads", value))
        yield Line(("resume", "nowhere.h5", "--threads", value))
        for option in ("--limit", "--lookahead"):
            if (option, value) != ("--lookahead", "0"):
                yield Line(("stream", "mysystem", "--from", "empty", option, value))
        for option in ("--give-up", "--checkpoint-every", "--budget", "--forget"):
            # Pint reads more than Python does.
            codes = (0, 2) if value in ("1.5", "0x10") else REFUSED
            yield Line(("stream", "mysystem", "--from", "empty", option, value), codes)
        if value != "0":
            yield Line(("stream", "mysystem", "--from", "empty", "--serve", value))
    for value in WORDS:
        for option in ("--serve", "--delimiter", "--decimal", "--columns"):
            yield Line(("stream", "mysystem", "--from", "empty", option, value))
        yield Line(("stream", "mysystem", "--from", "empty", "--serve", f"{value}:0"), (0, 2))
    for value in PATHS:
        for command in ("identify", "fit", "stream", "resume", "inspect", "report"):
            yield Line((command, value))
        yield Line(("identify", f"{value}.toml"))
        yield Line(("stream", "mysystem", "--from", value), (0, 2))
        yield Line(("stream", "mysystem", "--from", "empty", "--credentials", value), (0, 2))
    for value in FOLDERS:
        yield Line(("identify", "mysystem", "--report", f"{value}/r.html"))
        yield Line(("identify", "mysystem", "--picture", f"{value}/p.png"))
        yield Line(("stream", "mysystem", "--from", "empty", "--to", f"{value}/out"))
        yield Line(("stream", "mysystem", "--from", "empty", "--events", f"{value}/out"))
        yield Line(("stream", "mysystem", "--from", "empty", "--checkpoint", f"{value}/c.h5"))
    for address in (
        "tcp://", "tcp://x:y", "tcp://[", "ftp://a", "mqtt://h", "tcp://h:99999999", "://",
        "tls://h:-1", "mqtts://u:secret@h", "\x1b://", "tcp://" + "x" * 100_000 + ":1",
    ):  # fmt: skip
        yield Line(("stream", "mysystem", "--from", address))
    for values in ((), ("mysystem",), ("garbage",), ("/dev/null/x",), ("x" * 300,), ("",)):
        yield Line(("new", *values))
    for arguments in (
        ("nothing",), ("--nothing",), ("identify", "mysystem", "--nothing"), ("identify",),
        ("identify", "a", "b"), ("data", "nothing"), ("data", "check", "extra"), ("\x1b[2J",),
        ("stream", "mysystem", "--format", "nothing"), ("stream", "mysystem", "--columns", "a,a"),
        ("stream", "mysystem", "--from", "empty", "--to", "empty"), ("inspect", "--"),
        ("stream", "mysystem", "--follow"), ("stream", "mysystem", "--announce"),
        ("identify", "mysystem", "--compare"), ("identify", "mysystem", "--seed"),
        ("identify", "silverbox", "--split", "nothing"), ("report", "garbage", "--to", "/"),
        ("resume", "garbage", "--data", "nowhere.csv"), ("-x" * 1000,),
    ):  # fmt: skip
        yield Line(arguments)


@contextmanager
def playground() -> Iterator[Path]:
    """Make a folder with a good system and bad files, and work in it."""
    from smcpn.cli.config.new import write_new

    with TemporaryDirectory() as name, chdir(name):
        folder = Path(name)
        write_new(folder / "mysystem")
        (folder / "folder").mkdir()
        (folder / "garbage").write_bytes(np.random.default_rng(0).bytes(10_000))
        (folder / "empty").touch()
        (folder / "loop").symlink_to("loop")
        yield folder


def run(line: Line) -> tuple[int, str]:
    """Run a command line in this process, which it ends; return its exit code and last words."""
    from smcpn.cli.app import main

    with open("said", "w+b") as said, open(os.devnull, "r+b") as nowhere:
        os.dup2(nowhere.fileno(), 0)
        os.dup2(nowhere.fileno(), 1)
        os.dup2(said.fileno(), 2)
        sys.argv = ["smcpn", *line.arguments]
        try:
            main()
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        sys.stderr.flush()
        said.seek(0)
        return code, said.read().decode("utf-8", "replace")


def fault(line: Line, code: int, said: str) -> str:
    """Return what is wrong with how a command line ended; empty where nothing is."""
    words = said.rstrip("\n")
    if code not in line.codes:
        return f"exit {code}: {words[-200:]}"
    if "Traceback" in said or not all(one.isprintable() or one == "\n" for one in said):
        return f"raw: {words[-200:]}"
    if code == 2 and ("\n" in words or not words or len(words) > LONGEST + 200):
        return f"{words.count(chr(10)) + 1} lines: {words[:200]}"
    return ""


@study("command lines", full=LINES, quick=QUICK_LINES)
def wrong_lines(number: int) -> Iterator[Row]:
    """Command lines in forked children."""
    known = list(lines())
    rng = np.random.default_rng(17)
    chosen = [known[k] for k in rng.permutation(len(known))[:number]]
    faults: list[str] = []
    # What they import and read once, the children have.

    from smcpn.base import units

    units.unit("mm")
    with playground():
        for line in chosen:
            end = ended(lambda line=line: run(line))
            found = fault(line, *end.value) if end.kind == "value" else f"{end.kind}: {end.text}"
            if found:
                faults.append(f"{line}: {found}")
    yield Row("command lines tried", len(chosen))
    yield at_most("not refused in one sentence", len(faults), 0, "; ".join(faults)[:2000])


PROCESSES: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("{smcpn} inspect garbage <&-", (2,)),
    ("{smcpn} inspect garbage >&-", (2,)),
    ("{smcpn} inspect garbage <&- >&-", (2,)),
    ("{smcpn} inspect garbage >/dev/full", (2,)),
    ("{smcpn} data check >/dev/full", (2,)),
    ("{smcpn} data check >&-", (0, 1)),
    ("{smcpn} data check | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}", (0, 1, 141)),
    ("{smcpn} --help | true; exit ${{PIPESTATUS[0]}}", (0, 1, 141)),
    ("env -u HOME {smcpn} inspect garbage", (2,)),
    ("HOME=/nowhere SMCPN_CACHE= {smcpn} inspect garbage", (2,)),
    ("COLUMNS=x TERM= LANG=C {smcpn} inspect $'\\xff\\x1b[2J'", (2,)),
    ("cd gone && rmdir ../gone && {smcpn} inspect garbage", (2,)),
    ("{smcpn} stream mysystem --from - <&- >/dev/null", (0, 2)),
)
"""Shell commands in which a stream or the environment is not as usual, and their exit codes."""
INTERRUPTED_AFTER = (0.15, 0.3, 0.5, 0.8, 1.2, 2.0, 3.0)
"""Seconds after which a command that loads is interrupted, from when Python runs its first line."""
BEGUN = "import smcpn.__main__ as command; print(flush=True); command.main()"
INTERRUPTED = (128 + signal.SIGINT, -signal.SIGINT)
"""Both are 130 to a shell. CPython ends the process by the signal itself where this met code that
`exec` ran, as a dataclass does, whatever was made of the exception later."""


@study("odd processes", full=1, quick=4)
def odd_processes(every: int) -> Iterator[Row]:
    """Closed streams, readers that leave, and no home, each in a process of its own."""
    faults: list[str] = []
    with playground() as folder:
        for number, (command, codes) in enumerate(PROCESSES[::every]):
            (folder / "gone").mkdir(exist_ok=True)
            script = command.format(smcpn=f"{sys.executable} -m smcpn")
            ended_ = subprocess.run(
                ["bash", "-c", script], capture_output=True, timeout=300, check=False, text=True,
                errors="replace",
            )  # fmt: skip
            found = fault(Line((command,), codes), ended_.returncode, ended_.stderr)
            if found:
                faults.append(f"{number} {command}: {found}")
    yield at_most("odd processes not ended in one sentence", len(faults), 0, "; ".join(faults))


@study("interrupts", full=1, quick=3)
def interrupted(every: int) -> Iterator[Row]:
    """Ctrl-C at any time while a command loads or works: exit 130 and one line."""
    faults: list[str] = []
    with playground():
        for seconds in INTERRUPTED_AFTER[::every]:
            process = subprocess.Popen(
                [sys.executable, "-c", BEGUN, "identify", "mysystem", "--particles", "200"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(seconds)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=120)
            lines = said.rstrip("\n").splitlines()
            if process.returncode not in (*INTERRUPTED, 0) or "Traceback" in said:
                faults.append(f"{seconds} s: exit {process.returncode}, {len(lines)} lines")
    yield at_most("interrupts not ended in one sentence", len(faults), 0, "; ".join(faults))
