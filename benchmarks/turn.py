"""The benchmarks whose turn it is at this commit, by which CI runs all of them in a round.

One of the groups of `TURNS`, by the number of commits before this one. With ``--check`` a miss is
an error where the group is one of `JUDGED`, and is printed otherwise.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from benchmarks.all import rows_of
from benchmarks.commits import ROOT
from benchmarks.study import Study, run

TURNS = {
    "likelihoods": (
        "kernel", "likelihoods", "report", "scaling", "papers.dalton",
        "papers.differential_programming", "live",
    ),
    "solvers": ("sampler", "solvers"),
    "cases": ("case_studies", "papers.fenrir"),
    "workers": ("scale_out", "side_by_side", "files", "discovery kills workers"),
    "noise": ("process_noise",),
    "stiff": ("stiff",),
    "closures": ("closures",),
    "seconds": ("seconds",),
    "streams": ("online", "models"),
    "steps": (
        "trust steps-warned steps-coverage moves-oscillator moves-25 laplace-at-a-kink verdicts "
        "robust-tenths robust-envelope coloured two-modes pk-short oral-short enzyme logistic "
        "vibration-short",
    ),
    "posteriors": (
        "trust flip-flop aliasing aliased-steps boundary hyperbola laplace-at-the-boundary "
        "double-well sir noise-too-small wrong-unit at-the-bound modes-printed right-models "
        "known-structure",
    ),
    "summaries": (
        "discovery no-signal wrong-library reliability lynx-hare hidden-pendulum forced-duffing",
    ),
    "laws": (
        "discovery seeds sequel lorenz offset clean calibration shrinkage "
        "shrinkage-pairs shim-systems",
    ),
}  # fmt: skip
"""Commands, or some of the studies of one, that together take at most 100 s of processor time."""
ALWAYS = ("architecture", "bytes", "attack", "checkpoints", "newcomer")
"""Commands of which CI runs something every time."""
JUDGED = frozenset(
    {"solvers", "cases", "noise", "stiff", "closures", "seconds"}
    | {"steps", "posteriors", "summaries", "laws"}
)
"""Groups that were green three times in a row beside other work: there a miss is an error."""


def commits() -> int:
    """Return the number of commits of this clone; a shallow one has a single one."""
    command = ["git", "-C", str(ROOT), "rev-list", "--count", "HEAD"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def turn(count: int) -> str:
    """Return the group whose turn it is after so many commits."""
    return tuple(TURNS)[count % len(TURNS)]


def studies(group: str) -> list[Study]:
    """Return what a group runs, as studies by the name of their command."""
    return [Study(text.partition(" ")[0], partial(rows_of, text)) for text in TURNS[group]]


if __name__ == "__main__":
    group = turn(commits())
    missed = run(__doc__, studies(group))
    if missed and group not in JUDGED:
        print(f"a miss of the group '{group}' is not judged yet: see JUDGED of benchmarks.turn")
    sys.exit(missed if group in JUDGED else 0)
