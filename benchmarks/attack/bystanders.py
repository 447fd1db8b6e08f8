"""Files beside those of a run and outside its folder: which of them are touched."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import smcpn
from benchmarks.attack.child import ended
from benchmarks.rows import Row, at_most
from benchmarks.study import study
from smcpn.cli.config.new import write_new
from tests.models import oscillator_problem, oscillator_record

RECORD = oscillator_record(samples=40)
SECONDS = 120
"""A command compiles its kernels."""
NAMES = (
    "run.data-raw.h5", "run.h5.data-raw.h5", "run.h5.data-0123abcd.h5.bak", "run.h5.new",
    "run.h5.link", "run.h5.01234567.new", "run.h5.89abcdef.link", "run.h5.bak", "run.h5~",
    "runs.h5", "run", "run.hdf5.previous", ".run.h5", "stream.h5.new", "stream.h5.tmp",
    "run.csv", "data.h5",
    "xrun.h5.data-01234567.h5", "run.h5.data-0123456g.h5", "to.jsonl.new", "run.html.new",
)  # fmt: skip
"""Names of a user's files."""
OWN = re.compile(
    r"(run|other|stream)\.h5(\.previous|\.lock|\.data-[0-9a-f]{8}\.h5)?"
    r"|run\.html|report\.html|to\.jsonl|events\.jsonl|fit\.png|new(/.*)?|__pycache__(/.*)?"
)
"""What may appear in the folder."""

Action = Callable[[Path], object]


def _identify(path: str, samples: int = 40, **options: Any) -> None:
    smcpn.identify(
        oscillator_problem(RECORD[:samples]),
        method="ibis",
        solver=smcpn.RK4(1),
        particles=30,
        seed=1,
        progress=False,
        checkpoint=path,
        checkpoint_every=0.0,
        **options,
    )


def _save(path: str) -> None:
    live = smcpn.Online(oscillator_problem(RECORD), solver=smcpn.RK4(1), particles=30, seed=1)
    for u, y in zip(RECORD.u[:5], RECORD.y[:5], strict=True):
        live.update(u, y)
        live.save(path)


def _command(*arguments: str) -> Action:
    def call(folder: Path) -> None:
        from smcpn.cli.app import main

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = ["smcpn", *arguments]
        try:
            main()
        except SystemExit as left:
            if left.code not in (None, 0, 2):
                raise

    return call


ACTIONS: dict[str, Action] = {
    "identify": lambda folder: _identify("other.h5"),
    "identify, longer": lambda folder: _identify("run.h5"),
    "identify, overwrite": lambda folder: _identify("run.h5", 20, existing="overwrite"),
    "resume": lambda folder: smcpn.resume("run.h5", progress=False),
    "resume, longer": lambda folder: smcpn.resume("run.h5", data=RECORD[30:], progress=False),
    "save": lambda folder: _save("stream.h5"),
    "smcpn resume": _command("resume", "run.h5", "--quiet"),
    "smcpn inspect": _command("inspect", "run.h5"),
    "smcpn new": _command("new", "new"),
    "smcpn new, here": _command("new", "."),
}  # fmt: skip
WITH_REPORT_OR_MODEL: dict[str, Action] = {
    "smcpn report": _command("report", "run.h5"),
    "smcpn resume, report": _command("resume", "run.h5", "--quiet", "--report", "report.html"),
    "smcpn identify": _command(
        "identify", "config.toml", "--particles", "50", "--steps", "1", "--checkpoint", "other.h5",
        "--report", "report.html", "--quiet",
    ),
    "smcpn stream": _command(
        "stream", "config.toml", "--from", "data.csv", "--limit", "50", "--particles", "50",
        "--steps", "1", "--checkpoint", "stream.h5", "--to", "to.jsonl", "--events", "events.jsonl",
    ),
}  # fmt: skip


def _prepared(parent: Path) -> Path:
    """Return a folder that a run was kept in, and a model.

    What this process compiles for it no child has to load.
    """
    folder = parent / "prepared"
    write_new(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _identify(str(folder / "run.h5"), 30)
        _save(str(parent / "stream.h5"))
    return folder


def _state(root: Path) -> dict[str, tuple[int, str]]:
    """Mode, and content or target of a link, of everything below a folder."""
    found: dict[str, tuple[int, str]] = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            content = os.readlink(path)
        else:
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(root))] = mode, content
    return found


def _touched(root: Path, action: Action, own: set[str]) -> tuple[str, list[str]]:
    """How an action in ``root/here`` ended, and what it touched besides the files ``own``."""
    before = _state(root)

    def call() -> None:
        os.chdir(root / "here")
        action(root / "here")

    outcome = ended(call, SECONDS)
    after = _state(root)
    changed = [name for name in before if after.get(name) != before[name]]
    new = [name for name in after if name not in before]
    strange = [n for n in changed if n.removeprefix("here/") not in own or not n.startswith("here")]
    strange += [n for n in new if not OWN.fullmatch(n.removeprefix("here/"))]
    return outcome.kind, strange


class _Count:
    """Actions, how they ended, and the files touched."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.touched: list[str] = []

    def add(self, name: str, root: Path, action: Action, own: set[str]) -> None:
        """Judge an action, and remove its folder."""
        kind, touched = _touched(root, action, own)
        self.kinds[kind] += 1
        self.touched += [f"{name}: {one}" for one in touched]
        shutil.rmtree(root)

    def rows(self, what: str) -> Iterator[Row]:
        """How many files were touched, and how often anything but a sentence came back."""
        note = "; ".join(self.touched[:3])
        yield at_most(f"{what}: other files touched", len(self.touched), 0, note)
        bad = sum(n for kind, n in self.kinds.items() if kind not in ("value", "refused"))
        told = ", ".join(f"{n} {kind}" for kind, n in self.kinds.items())
        yield at_most(f"{what}: tracebacks, crashes, hangs", bad, 0, told)


def _root(parent: Path, prepared: Path) -> tuple[Path, set[str]]:
    root = parent / "root"
    (root / "outside").mkdir(parents=True)
    (root / "outside" / "victim").write_bytes(b"valuable")
    shutil.copytree(prepared, root / "here")
    return root, {path.name for path in (root / "here").iterdir()}


@study("bystanders", full=ACTIONS | WITH_REPORT_OR_MODEL, quick=ACTIONS)
def bystanders(actions: dict[str, Action]) -> Iterator[Row]:
    """Every command and call that writes, among files of similar names."""
    count = _Count()
    with TemporaryDirectory() as parent:
        prepared = _prepared(Path(parent))
        for name, action in actions.items():
            root, own = _root(Path(parent), prepared)
            for other in NAMES:
                (root / "here" / other).write_bytes(f"mine: {other}".encode())
            # The files of a model are the user's once they are written.
            own = {o for o in own if OWN.fullmatch(o)}
            count.add(name, root, action, own)
    yield from count.rows(f"{len(actions)} actions")
