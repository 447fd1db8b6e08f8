"""The benchmarks whose turn it is at this commit, by which CI runs all of them in a round.

One of the groups of `benchmarks.all.TURNS`, by the number of commits before this one.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.all import STUDIES, TURNS
from benchmarks.commits import ROOT
from benchmarks.study import Study, run


def commits() -> int:
    """Return the number of commits of this clone; a shallow one has a single one."""
    command = ["git", "-C", str(ROOT), "rev-list", "--count", "HEAD"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def turn(count: int) -> list[Study]:
    """Return the studies whose turn it is after so many commits."""
    return [one for one in STUDIES if one.name in TURNS[count % len(TURNS)]]


if __name__ == "__main__":
    sys.exit(run(__doc__, turn(commits())))
