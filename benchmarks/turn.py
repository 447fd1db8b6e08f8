"""The benchmarks whose turn it is at this commit, by which CI runs all of them in a round.

One of the groups of `TURNS`, by the number of commits before this one.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from benchmarks.all import rows_of
from benchmarks.commits import ROOT
from benchmarks.study import Study, run

TURNS = (
    ("kernel", "gradients", "likelihoods", "report", "scaling", "papers.dalton",
     "papers.differential_programming", "live"),
    ("sampler", "solvers", "papers.fenrir"),
    ("case_studies", "scale_out"),
    ("process_noise",),
    ("stiff", "files", "side_by_side"),
    ("closures",),
    ("seconds",),
    ("online", "models"),
    ("trust steps-bias steps-warned steps-coverage monod moves-oscillator "
     "moves-oscillator-by-ibis moves-25 moves-25-and-noise laplace-at-a-kink verdicts units "
     "robust-tenths robust-bands robust-envelope coloured cancellation-evidence two-modes ridge "
     "pk-short",),
    ("trust pk-short-ranks flip-flop aliasing aliased-steps boundary hyperbola "
     "laplace-at-the-boundary stiff-wall double-well sir duffing oral-short enzyme logistic "
     "vibration-short sequel-glycolysis cost",),
    ("trust noise-too-small wrong-unit at-the-bound modes-printed right-models known-structure",),
    ("discovery seeds glycolysis sequel lorenz grids offset clean calibration",),
    ("discovery no-signal wrong-library reliability lynx-hare hidden-pendulum forced-duffing "
     "shrinkage shrinkage-pairs shim-systems shim-loose shim-suite shim-scripts kills workers",),
)  # fmt: skip
"""Commands, or some of the studies of one, that together take some minutes in their quick form."""
ALWAYS = ("architecture", "bytes", "attack", "checkpoints", "newcomer")
"""Commands of which CI runs something every time."""


def commits() -> int:
    """Return the number of commits of this clone; a shallow one has a single one."""
    command = ["git", "-C", str(ROOT), "rev-list", "--count", "HEAD"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def turn(count: int) -> list[Study]:
    """Return what is to be run after so many commits, as studies by the name of their command."""
    return [
        Study(text.partition(" ")[0], partial(rows_of, text)) for text in TURNS[count % len(TURNS)]
    ]


if __name__ == "__main__":
    sys.exit(run(__doc__, turn(commits())))
