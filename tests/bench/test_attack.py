"""The promises of SECURITY.md name what tests them, and a package that lacks is named."""

import re
from pathlib import Path

from benchmarks import newcomer
from benchmarks.attack import __main__ as attack
from benchmarks.study import run, studies_of

ROOT = Path(__file__).resolve().parents[2]


def test_what_security_names_exists():
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    cells = [line.split("|")[2] for line in text.splitlines() if line.startswith("|")][2:]
    assert all("`" in cell for cell in cells)
    named = [name for cell in cells for name in re.findall("`([^`]+)`", cell)]
    assert len(named) > 20
    modules = (f"benchmarks.attack.{part}" for part in attack.PARTS)
    found = studies_of("benchmarks.checkpoints", *modules)
    studies = {one.name for one in found}
    unknown = {one for one in named if not one.startswith("tests/")} - studies
    assert not unknown
    assert all((ROOT / one).is_file() for one in named if one.startswith("tests/"))


def test_lacking_packages_are_named_in_a_sentence(monkeypatch, capsys):
    assert attack.missing() == ""
    monkeypatch.setattr(attack, "find_spec", lambda name: None)
    assert "pip install pandas uvicorn starlette" in attack.missing()
    monkeypatch.setattr(newcomer.shutil, "which", lambda name: None)
    assert run("Newcomer.", [newcomer.wheel], []) == 0
    assert "needs uv, which is not installed: pip install uv" in capsys.readouterr().out
