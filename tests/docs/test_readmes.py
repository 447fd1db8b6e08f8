"""Every package says where to begin, and what it names is there."""

import re
from pathlib import Path

import pytest

import smcpn

ROOT = Path(smcpn.__file__).parent
PACKAGES = sorted(one.parent for one in ROOT.glob("*/__init__.py"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda one: one.name)
def test_a_readme_names_files_that_there_are(package):
    text = (package / "README.md").read_text()
    assert text.startswith(f"# {package.name}\n")
    assert "**Begin with**" in text
    assert len(text.splitlines()) <= 14
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", text):
        assert any((base / name).exists() for base in (package, ROOT, ROOT.parent)), name
