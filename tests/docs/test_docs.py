from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from snippets.blocks import blocks
from snippets.page import DOCS, ROOT, page_text, pages
from snippets.session import execute

import smcpn

README = ROOT / "README.md"
PAGES = [README, *pages()]
DRAWN = re.compile(r"savefig\(\"([^\"]+)\"|--picture (\S+)")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def named(page):
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.docs
@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_runs(page):
    executed = execute(page)
    for block, outcome in zip(blocks(page_text(page)), executed.outcomes, strict=True):
        # A block is left out for the reason it states, or because the record it names is absent.
        assert not outcome.skipped or block.not_executed or block.needs


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    text = page_text(page)
    drawn = {name for names in DRAWN.findall(text) for name in names}
    for target in LINK.findall(text):
        if target in drawn or target.startswith("#"):
            continue
        parts = urlsplit(target)
        if parts.scheme:
            assert parts.scheme == "https", target
            assert "." in parts.netloc, target
        else:
            assert (page.parent / parts.path).exists(), target


def test_every_public_name_is_documented():
    documented = re.findall(r"^::: smcpn\.(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert sorted(documented) == sorted(smcpn.__all__)
