"""The tree of another commit, and scripts that run with the package of either."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smcpn.errors import InputError

ROOT = Path(__file__).parents[1]


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Provide the source of a commit in a temporary folder.

    Raises `InputError` where this is no clone that has the commit.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        git = ["git", "-C", str(ROOT), "worktree"]
        added = subprocess.run(
            [*git, "add", "--detach", str(source), commit], capture_output=True, check=False
        )
        if added.returncode:
            raise InputError(f"commit {commit} is not to be had here: run this in a full clone")
        try:
            yield source
        finally:
            subprocess.run(
                [*git, "remove", "--force", str(source)], capture_output=True, check=False
            )


def outcome(source: Path, *command: str) -> Any:
    """Return the JSON that a Python command prints, run in a process of its own with a source."""
    done = subprocess.run(
        [sys.executable, *command],
        env=os.environ | {"PYTHONPATH": str(source)},
        cwd=source,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)
