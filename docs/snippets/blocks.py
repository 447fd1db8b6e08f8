"""The blocks of code of a page, and the remarks that say which of them are not executed."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

EXECUTED = ("python", "console")

FENCE = re.compile(
    r"(?:^[ ]*<!-- (?P<remark>not executed|needs): (?P<what>.+?) -->\n\n?)?"
    r"^(?P<indent>[ ]*)```(?P<language>\w*)[^\n`]*\n(?P<code>.*?)^(?P=indent)```[ ]*\n",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes
    ----------
    language : str
    code : str
        Without its indentation.
    line : int
        Line of the page that the code begins at, from 1.
    indent : str
    end : int
        Place in the text of the page where the block has ended.
    not_executed : str
        The reason for which it never runs; empty where it does.
    needs : tuple of str
        Systems whose measured records it reads.
    """

    language: str
    code: str
    line: int
    indent: str
    end: int
    not_executed: str
    needs: tuple[str, ...]


def blocks(text: str) -> list[Block]:
    """Find the blocks of a page whose language is executed, in their order.

    A remark on the line before a block says why it is not: ``<!-- not executed: reason -->``,
    or, where the records are not there, ``<!-- needs: silverbox -->``.
    """
    found: list[Block] = []
    for match in FENCE.finditer(text):
        if match["language"] not in EXECUTED:
            continue
        never = match["remark"] == "not executed"
        found.append(
            Block(
                language=match["language"],
                code=textwrap.dedent(match["code"]),
                line=text.count("\n", 0, match.start("code")) + 1,
                indent=match["indent"],
                end=match.end(),
                not_executed=match["what"] if never else "",
                needs=tuple(match["what"].split(", ")) if match["remark"] == "needs" else (),
            )
        )
    return found
