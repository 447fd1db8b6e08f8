"""Execute the code of pages during `mkdocs build`, and insert its output and pictures."""

from __future__ import annotations

import logging
import re
import textwrap
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from snippets.blocks import blocks
from snippets.mathematics import with_mathml
from snippets.page import DOCS, page_text
from snippets.session import Executed, SnippetError, execute

log = logging.getLogger("mkdocs.hooks")

PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
REMOTE = re.compile(r'<(?:script|link|img)\b[^>]*(?:src|href)="https?://[^"]*"')
_executed: dict[str, Executed] = {}


def on_files(files: Any, config: Any) -> Any:
    """Execute every page; its pictures become files of the site, in the folder of the page."""
    for file in list(files.documentation_pages()):
        page = Path(file.abs_src_path)
        try:
            done = _executed[file.src_uri] = execute(page)
        except SnippetError as error:
            raise PluginError(str(error)) from error
        wanted = set(PICTURE.findall(page_text(page)))
        for picture in done.pictures:
            if picture.name in wanted:
                place = (page.parent.relative_to(DOCS) / picture.name).as_posix()
                files.append(File.generated(config, place, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Put what a block printed below it, and a word in place of what could not be drawn."""
    source = Path(page.file.abs_src_path)
    text, done = page_text(source), _executed[page.file.src_uri]
    shown, begin = "", 0
    for block, outcome in zip(blocks(text), done.outcomes, strict=True):
        shown += text[begin : block.end]
        begin = block.end
        if outcome.output.strip():
            fence = f"\n``` {{ .text .output }}\n{outcome.output.rstrip()}\n```\n"
            shown += textwrap.indent(fence, block.indent)
        elif outcome.skipped and not block.not_executed:
            shown += f"\n{block.indent}*Not executed in this build: {outcome.skipped}.*\n"
    shown += text[begin:]
    return _without_undrawn(shown, source, done)


def _without_undrawn(text: str, page: Path, done: Executed) -> str:
    if not any(outcome.skipped.endswith("is not here") for outcome in done.outcomes):
        return text
    drawn = {picture.name for picture in done.pictures}

    def kept(match: re.Match[str]) -> str:
        there = match[1] in drawn or (page.parent / match[1]).exists()
        return match[0] if there else "*The picture was not drawn in this build.*"

    return PICTURE.sub(kept, text)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Draw formulas, and let wide tables scroll."""
    return with_mathml(html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Warn of what a browser would fetch from elsewhere: the site works without network."""
    for remote in REMOTE.findall(output):
        if 'rel="canonical"' not in remote:
            log.warning("%s loads a file from elsewhere: %s", page.file.src_uri, remote)
    return output
