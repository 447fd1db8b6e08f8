"""The progress line: what it says of the time that is left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from smcpn.run.progress import Pace, progress_text
from smcpn.smc.sampler import Cost, Progress

NO_COST = Cost(0, 0, 0, 0.0)


def at(sample: int) -> Progress:
    return Progress(
        sample=sample, n_samples=1000, ess=900.0, log_evidence=-1.0, rejuvenations=(),
        cost=NO_COST,
    )  # fmt: skip


def test_a_run_from_the_beginning_goes_on_at_its_pace():
    pace = Pace(10.0)
    assert pace.remaining(at(0), 11.0) is None
    assert pace.remaining(at(250), 16.0) == pytest.approx(15.0)
    assert pace.remaining(at(1000), 31.0) == 0.0


def test_after_a_resume_only_what_was_done_since_counts():
    pace = Pace(10.0)
    assert pace.remaining(at(800), 11.0) is None
    # 100 samples in 5 s: the 100 left take 5 s, not 5 s (1 - 0.9) / 0.9.
    assert pace.remaining(at(900), 16.0) == pytest.approx(5.0)


def test_a_population_that_begins_again_is_timed_anew():
    pace = Pace(0.0)
    pace.remaining(at(0), 0.0)
    pace.remaining(at(1000), 100.0)
    assert pace.remaining(at(0), 110.0) is None
    assert pace.remaining(at(500), 115.0) == pytest.approx(5.0)


def test_the_line_leaves_out_what_is_not_known():
    assert progress_text(at(800), 1.0, None).endswith("1.0 s")
    assert progress_text(replace(at(900), ess=7.0), 6.0, 5.0).endswith("6.0 s, 5.0 s left")
