"""SHA-256 of results, to show that a change of the code leaves every byte of them alone.

``python -m benchmarks.bytes --save FILE`` at one commit, then ``--against FILE --check`` at
another, on the same machine with the same packages: compiled arithmetic rounds by the processor it
is made for. ``--against-commit REV --check`` runs the cases of this folder on the package of
another commit and on this one: without REV on that of the last common one with ``origin/main``, or
of the parent. Packages of a commit that lacks what a case uses leave it out.

A commit that changes bytes on purpose says so in a line of its message: ``Bytes: kalman, delay``
names the cases whose names begin so, ``Bytes: all`` every one. Only ``--against-commit`` reads it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bytes.cases import CASES, FAILED, digest_of
from benchmarks.commits import ROOT, checkout, outcome
from benchmarks.rows import Row
from benchmarks.study import Study, run
from smcpn.errors import InputError

PARENT = "parent"
LINE = "Bytes:"
QUICK = (
    "ibis marginal",
    "ibis classical several records",
    "tempering from laplace",
    "filtering calibrated",
    "dalton",
    "coloured classical",
    "delay classical",
    "kalman",
    "particle linear",
    "resumed",
    "executor threads",
    "stream",
    "stream kalman",
    "stream nested",
    "maximum",
    "gradient marginal",
    "discovery",
    "solve grid",
    "states kalman",
    "saved",
    "saved 0.2.0",
    "summary posterior",
    "export c",
)
"""Each mechanism once, of those that compile in a second or two."""


def git(*arguments: str) -> str | None:
    """Output of git here, or None where it fails or there is none."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def base_of(revision: str) -> str | None:
    """Commit to compare with; for `PARENT` the last that origin/main has too, or that before."""
    head = git("rev-parse", "HEAD")
    if revision != PARENT:
        return git("rev-parse", "--verify", f"{revision}^{{commit}}")
    common = git("merge-base", "HEAD", "origin/main")
    return common if common not in (None, head) else git("rev-parse", "--verify", "HEAD^1")


def changed_on_purpose(messages: str) -> frozenset[str]:
    """Cases that lines ``Bytes: ...`` of commit messages name by how their names begin."""
    lines = (line.strip() for line in messages.splitlines())
    named = [
        one.strip()
        for line in lines
        if line.startswith(LINE)
        for one in line.removeprefix(LINE).split(",")
    ]
    return frozenset(
        case
        for case in CASES
        for one in named
        if one == "all" or case == one or case.startswith(f"{one} ")
    )


def digests_at(commit: str, names: Iterable[str]) -> dict[str, str]:
    """Digests of the cases of this folder on the package of another commit.

    Raises `InputError` if they cannot be loaded there.
    """
    with checkout(commit) as source:
        shutil.copytree(ROOT / "benchmarks/bytes", source / "benchmarks/bytes", dirs_exist_ok=True)
        try:
            return outcome(source, "-m", "benchmarks.bytes.cases", *names)
        except subprocess.CalledProcessError as error:
            sentence = f"the cases cannot be loaded with the package of {commit[:12]}"
            raise InputError(sentence) from error


@dataclass(frozen=True)
class Expected:
    """Digests to compare with, and cases that may differ from them."""

    digests: Mapping[str, str]
    changed: frozenset[str] = frozenset()
    remedy: str = ""

    @classmethod
    def at(cls, revision: str, names: Iterable[str]) -> Expected:
        """Return those of another commit.

        Raises `InputError` if there is no such commit here.
        """
        commit = base_of(revision)
        if commit is None:
            raise InputError(f"{revision}: there is no such commit here, as in a shallow clone")
        print(f"compared with {git('log', '-1', '--format=%h %s', commit)}", file=sys.stderr)
        changed = changed_on_purpose(git("log", "--format=%B", f"{commit}..HEAD") or "")
        return cls(digests_at(commit, names), changed, f"if on purpose: a line '{LINE} {{}}'")

    def row(self, name: str, value: str) -> Row:
        """Row of a case: met where its bytes are those expected."""
        target = self.digests.get(name, "")
        if not target or target.startswith(FAILED):
            return Row("", value, note=target and f"there: {target}")
        if value != target and name in self.changed:
            return Row("", value, note=f"changed on purpose, from {target}")
        met = value == target
        return Row("", value, target, met, "" if met else self.remedy.format(name))


def main() -> int:
    """Print the digests, save them, and compare them with those of a file or of a commit."""
    options: dict[str, dict[str, Any]] = {
        "save": {"type": Path, "metavar": "FILE", "help": "write the digests"},
        "against": {"type": Path, "metavar": "FILE", "help": "what --save wrote elsewhere"},
        "against_commit": {
            "nargs": "?", "const": PARENT, "metavar": "REV", "help": "another commit, run here"
        },
    }  # fmt: skip
    early = argparse.ArgumentParser(add_help=False)
    for name, settings in options.items():
        early.add_argument(f"--{name.replace('_', '-')}", **settings)
    chosen, rest = early.parse_known_args()
    names = [name for name in CASES if name in rest] or list(CASES)
    names = [name for name in names if name in QUICK or "--quick" not in rest]
    expected = Expected({})
    if chosen.against is not None:
        expected = Expected(json.loads(chosen.against.read_text()))
    elif chosen.against_commit is not None:
        try:
            expected = Expected.at(chosen.against_commit, names)
        except InputError as error:
            print(f"not compared: {error}")
            return 0
    found: dict[str, str] = {}

    def results(name: str, quick: bool) -> Iterator[Row]:
        found[name] = digest_of(name)
        yield expected.row(name, found[name])

    code = run(__doc__, [Study(name, partial(results, name)) for name in names], rest)
    if chosen.save is not None:
        chosen.save.write_text(json.dumps(found, indent=1))
    return code


if __name__ == "__main__":
    sys.exit(main())
