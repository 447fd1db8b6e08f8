"""Execute the code of a page: its blocks share one session, as a reader's would."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import smcpn
import smcpn.cli.cases
from smcpn.datasets.inventory import FILES, find_file
from smcpn.smc.replicates import SamplerWarning
from snippets.blocks import Block, blocks
from snippets.page import ROOT, page_text

KEPT = ROOT / "build" / "docs"
"""Where pages leave what they wrote, so that a page is executed once after a change."""
PICTURES = (".svg", ".png")


class SnippetError(Exception):
    """A block of a page that does not run."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a block: its output, or why it was not executed.

    Attributes
    ----------
    output : str
        What it printed.
    skipped : str
        The reason for which it did not run.
    """

    output: str = ""
    skipped: str = ""


@dataclass(frozen=True)
class Executed:
    """A page after its session.

    Attributes
    ----------
    outcomes : list of Outcome
        One per block.
    folder : Path
        The working directory of the session.
    """

    outcomes: list[Outcome]
    folder: Path

    @property
    def pictures(self) -> list[Path]:
        """Pictures that the code drew."""
        return sorted(p for p in self.folder.iterdir() if p.suffix in PICTURES)


def execute(page: Path) -> Executed:
    """Run the blocks of a page in order, or return what they did if nothing has changed since.

    Raises
    ------
    SnippetError
        Naming page and line, if a block raises, warns or leaves with an exit code.
    """
    text, name = page_text(page), "-".join(page.relative_to(ROOT).with_suffix("").parts)
    folder, record = KEPT / name, KEPT / f"{name}.json"
    environment = {"SMCPN_DATA": os.path.abspath(os.environ.get("SMCPN_DATA", _DATA))}
    found = blocks(text)
    with mock.patch.dict(os.environ, environment):
        missing = [_reason(block) for block in found]
        key = _fingerprint(text, missing)
        if record.is_file() and (kept := json.loads(record.read_text()))["key"] == key:
            return Executed([Outcome(**outcome) for outcome in kept["outcomes"]], folder)
        record.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        outcomes = _run(page, found, missing, folder)
    record.write_text(json.dumps({"key": key, "outcomes": [asdict(o) for o in outcomes]}))
    return Executed(outcomes, folder)


_DATA = ROOT / "benchmarks_data"


def _run(page: Path, found: list[Block], missing: list[str], folder: Path) -> list[Outcome]:
    scope: dict[str, Any] = {"__name__": "__main__"}
    outcomes: list[Outcome] = []
    with contextlib.chdir(folder), warnings.catch_warnings(), _tables_kept():
        warnings.simplefilter("error")
        # That a run has few effective draws hangs on its seed, and stands in what it prints.
        warnings.simplefilter("ignore", SamplerWarning)
        for block, reason in zip(found, missing, strict=True):
            if reason:
                outcomes.append(Outcome(skipped=reason))
                continue
            run = _python if block.language == "python" else _console
            try:
                outcomes.append(Outcome(output=run(block, page, scope)))
            except (Exception, SystemExit) as error:
                place = f"{page.relative_to(ROOT)}, block at line {block.line}"
                raise SnippetError(f"{place}: {type(error).__name__}: {error}") from error
    return outcomes


@contextlib.contextmanager
def _tables_kept() -> Iterator[None]:
    """Put the tables of smcpn back: a page may enter something of its own, as contributors do."""
    tables = [
        (table, dict(table))
        for module in [m for name, m in sys.modules.items() if name.startswith("smcpn")]
        for name, table in vars(module).items()
        if name.isupper() and isinstance(table, dict)
    ]
    try:
        yield
    finally:
        for table, before in tables:
            table.clear()
            table.update(before)


def _python(block: Block, page: Path, scope: dict[str, Any]) -> str:
    printed = io.StringIO()
    # Empty lines before it make tracebacks give the line of the page.
    code = compile("\n" * (block.line - 1) + block.code, page, "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, scope)
    return printed.getvalue()


def _console(block: Block, page: Path, scope: dict[str, Any]) -> str:
    """Run the commands of a terminal, in the environment that runs this."""
    commands = [line[2:] for line in block.code.splitlines() if line.startswith("$ ")]
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    plain = {"PATH": path, "NO_COLOR": "1", "COLUMNS": "88"}
    printed = ""
    for command in commands:
        done = subprocess.run(
            command, shell=True, env=os.environ | plain, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise SnippetError(f"{command} left with {done.returncode}: {done.stderr.strip()}")
        printed += done.stdout
    return printed


def _reason(block: Block) -> str:
    """Why a block cannot run here; empty where it can."""
    absent = [
        file.name
        for file in FILES
        if file.system in block.needs and find_file(file.system, file.name) is None
    ]
    return block.not_executed or (f"{', '.join(absent)} is not here" if absent else "")


def _fingerprint(text: str, missing: list[str]) -> str:
    """Of the page, of all code that can change what it does, and of which records are there."""
    digest = hashlib.sha256(json.dumps([text, missing, sys.version]).encode())
    for folder in (Path(smcpn.__file__).parent, Path(__file__).parent):
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()
