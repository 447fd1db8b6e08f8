from __future__ import annotations

import pytest
from snippets.page import ROOT
from snippets.session import execute


@pytest.mark.slow
def test_example_finds_the_truth():
    executed = execute(ROOT / "README.md")
    (outcome,) = executed.outcomes
    assert [picture.name for picture in executed.pictures] == ["prediction.png"]
    assert "log-evidence" in outcome.output
    table = [line.split() for line in outcome.output.splitlines()]
    for name, truth in (("c", 0.3), ("k", 2.0), ("k3", 1.5)):
        (row,) = [words for words in table if words[:1] == [name]]
        mean, sd = float(row[2]), float(row[3])
        assert mean == pytest.approx(truth, abs=4 * sd)
