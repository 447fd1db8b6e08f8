"""A page as it is built: its text, with the files it includes."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

INCLUDE = re.compile(r"^<!-- include: (\S+) -->$", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")


def pages() -> list[Path]:
    """Every page of the documentation."""
    return sorted(DOCS.rglob("*.md"))


def page_text(page: Path) -> str:
    """Text of a page; ``<!-- include: FILE -->`` stands for a file of the repository."""
    return INCLUDE.sub(lambda match: _included(ROOT / match[1], page), page.read_text())


def _included(file: Path, page: Path) -> str:
    """Text of a file below its title, its links as they are from the page."""

    def from_page(match: re.Match[str]) -> str:
        path, _, anchor = match[2].partition("#")
        target = (file.parent / path).resolve()
        if not target.is_relative_to(DOCS):
            return match[1]
        link = os.path.relpath(target, page.parent)
        return f"[{match[1]}]({link}{'#' if anchor else ''}{anchor})"

    text = file.read_text().partition("\n")[2]
    return LINK.sub(from_page, text)
