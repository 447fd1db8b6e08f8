from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_example_runs_and_finds_the_truth(capsys):
    code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(code) == 1
    scope: dict = {}
    exec(code[0], scope)
    posterior = scope["posterior"]
    assert "log-evidence" in capsys.readouterr().out
    assert posterior.mean["c"] == pytest.approx(0.3, abs=4 * posterior.sd["c"])
    assert posterior.mean["k"] == pytest.approx(2.0, abs=4 * posterior.sd["k"])


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", README):
        assert (Path(__file__).parent.parent / target).exists(), target
